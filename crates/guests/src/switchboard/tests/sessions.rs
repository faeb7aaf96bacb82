//! Several sessions of one participant: each is a caller of its own.

use super::*;

/// What came of a script, without what the handshakes were answered.
fn without_handshakes(told: &str) -> String {
    told.lines().filter(|line| !line.contains("serverInfo")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_handshake_of_one_session_leaves_another_as_it_was() {
    let script = r#"
        alice/s1#1 initialize {"capabilities":{"roots":{},"experimental":{"salon/isolated":{}}}}
        alice/s1#2 tools/call {"name":"t"}
        open 3
        alice/s2#1 initialize {"capabilities":{"sampling":{},"experimental":{"salon/isolated":{}}}}
        alice/s2#2 tools/call {"name":"t"}
        open 5
        alice#1 initialize {"capabilities":{}}
        alice#2 tools/call {"name":"t"}
        alice/s1#3 tools/call {"name":"t"}
        3> {"jsonrpc":"2.0","id":"q","method":"roots/list"}
        5> {"jsonrpc":"2.0","id":"q","method":"sampling/createMessage"}
    "#;
    assert_snapshot!(without_handshakes(&legacy(script)), @r#"
    open 3 Legacy 2025-06-18 {"roots":{},"experimental":{"salon/isolated":{}}}
    → 3 {"id":4,"method":"tools/call","params":{"name":"t"}}
    open 5 Legacy 2025-06-18 {"sampling":{},"experimental":{"salon/isolated":{}}}
    → 5 {"id":6,"method":"tools/call","params":{"name":"t"}}
    → 0 {"id":7,"method":"tools/call","params":{"name":"t"}}
    → 3 {"id":8,"method":"tools/call","params":{"name":"t"}}
    ⇒ alice/s1 re e2 {"id":9,"method":"roots/list"}
    ⇒ alice/s2 re e4 {"id":10,"method":"sampling/createMessage"}
    "#);
}

#[test]
fn equal_ids_of_two_sessions_are_two_calls() {
    let script = r#"
        alice/s1#1 tools/call {"name":"t"}
        alice/s2#1 tools/call {"name":"t"}
        alice/s2! notifications/cancelled {"requestId":1}
        0> {"jsonrpc":"2.0","id":3,"result":{}}
        0> {"jsonrpc":"2.0","id":4,"result":{}}
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t"}}
    → 0 {"id":4,"method":"tools/call","params":{"name":"t"}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":4}}
    ⇒ alice/s1 re e1 {"id":1,"result":{}}
    "#);
}

#[test]
fn a_subscription_of_one_session_outlives_that_of_another() {
    let script = r#"
        alice/s1#1 resources/subscribe {"uri":"a:1"}
        0> {"jsonrpc":"2.0","id":3,"result":{}}
        alice/s2#1 resources/subscribe {"uri":"a:1"}
        alice/s3#1 tools/list
        0> {"jsonrpc":"2.0","id":4,"result":{"tools":[]}}
        0> {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:1"}}
        alice/s1#2 resources/unsubscribe {"uri":"a:1"}
        0> {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:1"}}
        alice/s2! notifications/session/ended
        0> {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:1"}}
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"resources/subscribe","params":{"uri":"a:1"}}
    ⇒ alice/s1 re e1 {"id":1,"result":{}}
    ⇒ alice/s2 re e2 {"id":1,"result":{}}
    → 0 {"id":4,"method":"tools/list","params":{}}
    ⇒ alice/s3 re e3 {"id":1,"result":{"tools":[]}}
    ⇒ alice/s1 {"method":"notifications/resources/updated","params":{"uri":"a:1"}}
    ⇒ alice/s2 {"method":"notifications/resources/updated","params":{"uri":"a:1"}}
    ⇒ alice/s1 re e4 {"id":2,"result":{}}
    ⇒ alice/s2 {"method":"notifications/resources/updated","params":{"uri":"a:1"}}
    → 0 {"id":5,"method":"resources/unsubscribe","params":{"uri":"a:1"}}
    "#);
}

#[test]
fn log_lines_go_to_the_sessions_whose_level_admits_them() {
    let script = r#"
        alice/s1#1 logging/setLevel {"level":"error"}
        0> {"jsonrpc":"2.0","id":3,"result":{}}
        alice/s2#1 logging/setLevel {"level":"debug"}
        0> {"jsonrpc":"2.0","id":4,"result":{}}
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":2}}
        alice/s2! notifications/session/ended
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":3}}
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"logging/setLevel","params":{"level":"error"}}
    ⇒ alice/s1 re e1 {"id":1,"result":{}}
    → 0 {"id":4,"method":"logging/setLevel","params":{"level":"debug"}}
    ⇒ alice/s2 re e2 {"id":1,"result":{}}
    ⇒ alice/s2 {"method":"notifications/message","params":{"level":"info","data":1}}
    ⇒ alice {"method":"notifications/message","params":{"level":"error","data":2}}
    → 0 {"id":5,"method":"logging/setLevel","params":{"level":"error"}}
    ⇒ alice {"method":"notifications/message","params":{"level":"error","data":3}}
    "#);
}

#[test]
fn the_end_of_a_session_frees_what_it_had_and_nothing_else() {
    let script = r#"
        alice/s1#1 initialize {"capabilities":{"roots":{},"experimental":{"salon/isolated":{}}}}
        alice/s1#2 tools/call {"name":"t"}
        open 3
        alice/s2#1 initialize {"capabilities":{"roots":{},"experimental":{"salon/isolated":{}}}}
        alice/s2#2 tools/call {"name":"t"}
        open 5
        bob/s1! notifications/session/ended
        alice! notifications/session/ended
        alice/s1! notifications/session/ended
        alice/s1! notifications/session/ended
        5> {"jsonrpc":"2.0","id":6,"result":{}}
        leave alice
    "#;
    assert_snapshot!(without_handshakes(&legacy(script)), @r#"
    open 3 Legacy 2025-06-18 {"roots":{},"experimental":{"salon/isolated":{}}}
    → 3 {"id":4,"method":"tools/call","params":{"name":"t"}}
    open 5 Legacy 2025-06-18 {"roots":{},"experimental":{"salon/isolated":{}}}
    → 5 {"id":6,"method":"tools/call","params":{"name":"t"}}
    → 3 {"method":"notifications/cancelled","params":{"requestId":4}}
    close 3
    ⇒ alice/s2 re e4 {"id":2,"result":{}}
    close 5
    "#);
}

#[test]
fn sessions_that_end_without_a_word_are_forgotten_when_there_are_many() {
    let mut play = Play::seated(&[Era::Legacy], |_| {});
    for number in 0..MAX_SESSIONS_OF_ONE {
        play.line(&format!("alice/s{number}#1 initialize {{\"capabilities\":{{}}}}"));
    }
    play.line("bob#1 initialize {\"capabilities\":{}}");
    // The oldest is at work, the second oldest was heard of again.
    play.line("alice/s0#2 tools/call {\"name\":\"t\"}");
    play.line("alice/s1#2 ping");
    play.line("alice/new#1 initialize {\"capabilities\":{}}");
    let known = |play: &Play, session: &str| {
        let session = Some(SessionId::new(session).unwrap());
        play.board.callers.contains_key(&CallerId { participant: ParticipantId::new("alice").unwrap(), session })
    };
    assert_eq!(play.board.callers.len(), MAX_SESSIONS_OF_ONE + 1);
    assert!(known(&play, "s0") && known(&play, "s1") && known(&play, "new") && !known(&play, "s2"));
    for number in (0..MAX_SESSIONS_OF_ONE).filter(|number| *number != 2) {
        play.line(&format!("alice/s{number}#3 tools/call {{\"name\":\"t\"}}"));
    }
    play.line("alice/new#2 tools/call {\"name\":\"t\"}");
    play.told.clear();
    assert_snapshot!(play.act("alice/more#1 tools/list"), @r#"⇒ alice/more re e133 {"id":1,"error":{"code":-32603,"message":"64 sessions of yours have open calls already; wait for an answer","data":{"code":"rate_limited"}}}"#);
}

#[test]
fn a_lane_of_an_idle_session_makes_room_for_one_of_the_same_participant() {
    let mut play = Play::seated(&[Era::Legacy], |setting| setting.isolated = true);
    for number in 2..MAX_OWN_LANES {
        play.line(&format!("p{number}#1 tools/list"));
    }
    play.line("alice/s0#1 tools/list");
    play.line("alice/s1#1 tools/list");
    // The first of alice's sessions is idle, the second at work.
    play.line("open 127");
    play.line(r#"127> {"jsonrpc":"2.0","id":128,"result":{}}"#);
    play.told.clear();
    assert_snapshot!(play.act("bob#1 tools/list\nalice/new#1 tools/list\nalice/s0#2 tools/list"), @r#"
    ⇒ bob re e65 {"id":1,"error":{"code":-32603,"message":"`guest` already serves 64 callers with a connection of their own","data":{"code":"rate_limited"}}}
    close 127
    open 131 Legacy 2025-06-18 {}
    ⇒ alice/s0 re e67 {"id":2,"error":{"code":-32603,"message":"`guest` already serves 64 callers with a connection of their own","data":{"code":"rate_limited"}}}
    "#);
}

#[test]
fn one_participant_has_no_more_calls_for_having_more_sessions() {
    let mut play = Play::seated(&[Era::Legacy], |_| {});
    for number in 0..MAX_CALLS_OF_ONE {
        play.line(&format!("alice/s{}#{number} tools/call {{\"name\":\"t\"}}", number % 8));
    }
    play.told.clear();
    assert_snapshot!(play.act("alice/s9#1 tools/list\nbob#1 tools/list"), @r#"
    ⇒ alice/s9 re e257 {"id":1,"error":{"code":-32603,"message":"256 calls of yours are open already; wait for an answer","data":{"code":"rate_limited"}}}
    → 0 {"id":259,"method":"tools/list","params":{}}
    "#);
}
