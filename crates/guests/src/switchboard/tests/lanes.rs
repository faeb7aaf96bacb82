//! Who shares a connection, and what becomes of a server's questions.

use super::*;

#[test]
fn a_caller_that_asks_for_isolation_has_a_lane_of_its_own() {
    let script = r#"
        alice#1 initialize {"protocolVersion":"2025-06-18","capabilities":{"sampling":{},"experimental":{"salon/isolated":{}}},"clientInfo":{"name":"a"}}
        alice#2 tools/call {"name":"t"}
        alice! notifications/roots/list_changed
        bob#1 tools/call {"name":"t"}
        open 3
        3> {"jsonrpc":"2.0","id":0,"method":"sampling/createMessage","params":{"maxTokens": 5,"_meta":{"progressToken":"p"}}}
        alice! notifications/progress {"progressToken":6,"progress":1}
        bob=6 {"stolen":true}
        alice=6 {"role":"assistant"}
        3> {"jsonrpc":"2.0","id":0,"method":"elicitation/create"}
        3> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0,"reason":"late"}}
        alice=7 {}
        3> {"jsonrpc":"2.0","id":5,"result":{"from":"another lane"}}
        3> {"jsonrpc":"2.0","id":4,"result":{}}
        0> {"jsonrpc":"2.0","id":"s1","method":"ping"}
        0> {"jsonrpc":"2.0","id":"s2","method":"roots/list"}
        alice! notifications/roots/list_changed
        leave alice
    "#;
    assert_snapshot!(legacy(script), @r#"
    ⇒ alice re e1 {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    open 3 Legacy 2025-06-18 {"sampling":{},"experimental":{"salon/isolated":{}}}
    → 0 {"id":5,"method":"tools/call","params":{"name":"t"}}
    → 3 {"id":4,"method":"tools/call","params":{"name":"t"}}
    ⇒ alice re e2 {"id":6,"method":"sampling/createMessage","params":{"maxTokens":5,"_meta":{"progressToken":6}}}
    → 3 {"method":"notifications/progress","params":{"progressToken":"p","progress":1}}
    → 3 {"id":0,"result":{"role":"assistant"}}
    ⇒ alice re e2 {"id":7,"method":"elicitation/create"}
    ⇒ alice {"method":"notifications/cancelled","params":{"reason":"late","requestId":7}}
    ⇒ alice re e2 {"id":2,"result":{}}
    → 0 {"id":"s1","result":{}}
    → 0 {"id":"s2","error":{"code":-32601,"message":"`roots/list` cannot be asked here: `bob` does not offer to answer it"}}
    → 3 {"method":"notifications/roots/list_changed","params":{}}
    close 3
    "#);
}

#[test]
fn a_lane_of_ones_own_can_fail_alone() {
    let script = r#"
        alice#1 initialize {"capabilities":{"roots":{},"experimental":{"salon/isolated":{}}}}
        alice#2 tools/list
        end 3 it does not start
        alice#3 tools/list
        open 5
        5> {"jsonrpc":"2.0","id":1,"method":"roots/list"}
        end 5 it crashed
        alice#4 tools/list
    "#;
    assert_snapshot!(legacy(script).split_once('\n').unwrap().1, @r#"
    open 3 Legacy 2025-06-18 {"roots":{},"experimental":{"salon/isolated":{}}}
    ⇒ alice re e2 {"id":2,"error":{"code":-32603,"message":"the server of `guest` is gone: it does not start","data":{"code":"closing"}}}
    open 5 Legacy 2025-06-18 {"roots":{},"experimental":{"salon/isolated":{}}}
    → 5 {"id":6,"method":"tools/list","params":{}}
    ⇒ alice re e3 {"id":7,"method":"roots/list"}
    ⇒ alice {"method":"notifications/cancelled","params":{"requestId":7}}
    ⇒ alice re e3 {"id":3,"error":{"code":-32603,"message":"the server of `guest` is gone: it crashed","data":{"code":"closing"}}}
    open 8 Legacy 2025-06-18 {"roots":{},"experimental":{"salon/isolated":{}}}
    "#);
}

#[test]
fn when_the_server_is_gone_everybody_hears_it_at_once() {
    let script = r#"
        alice#1 tools/call {"name":"t"}
        bob#1 tools/call {"name":"t"}
        end 0 exit status 1
        end 0 again
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t"}}
    → 0 {"id":4,"method":"tools/call","params":{"name":"t"}}
    ⇒ alice re e1 {"id":1,"error":{"code":-32603,"message":"the server of `guest` is gone: exit status 1","data":{"code":"closing"}}}
    ⇒ bob re e2 {"id":1,"error":{"code":-32603,"message":"the server of `guest` is gone: exit status 1","data":{"code":"closing"}}}
    lost: exit status 1
    "#);
}

#[test]
fn a_server_waits_while_its_question_is_thought_about() {
    let script = r#"
        alice#1 initialize {"capabilities":{"roots":{},"experimental":{"salon/isolated":{}}}}
        alice#2 tools/list
        open 3
        3> {"jsonrpc":"2.0","id":"q","method":"roots/list"}
        tick 100
        refuse
        3> {"jsonrpc":"2.0","id":"r","method":"roots/list"}
        tick 599
        tick 1
        tick 60
    "#;
    assert_snapshot!(legacy(script).lines().skip(3).collect::<Vec<_>>().join("\n"), @r#"
    ⇒ alice re e2 {"id":5,"method":"roots/list"}
    → 3 {"id":"q","error":{"code":-32603,"message":"`alice` was not asked or did not answer: it is too large"}}
    ⇒ alice re e2 {"id":6,"method":"roots/list"}
    ⇒ alice {"method":"notifications/cancelled","params":{"requestId":6,"reason":"no answer in time"}}
    → 3 {"id":"r","error":{"code":-32603,"message":"`alice` was not asked or did not answer: no answer in time"}}
    → 3 {"method":"notifications/cancelled","params":{"requestId":4,"reason":"no answer and no progress in time"}}
    ⇒ alice re e2 {"id":2,"error":{"code":-32603,"message":"the server of `guest` gave no answer and no progress for 60 s","data":{"code":"timeout"}}}
    "#);
}

#[test]
fn a_question_whose_caller_began_anew_is_answered_for_it() {
    assert_snapshot!(asked_of_one_who_began_anew(true), @r#"→ 3 {"id":"q","error":{"code":-32603,"message":"`alice` was not asked or did not answer: `alice` began anew"}}"#);
    assert_eq!(asked_of_one_who_began_anew(false), asked_of_one_who_began_anew(true));
}

fn asked_of_one_who_began_anew(known_first: bool) -> String {
    let mut play = Play::seated(&[Era::Legacy], |_| {});
    for line in [
        r#"alice#1 initialize {"capabilities":{"roots":{},"experimental":{"salon/isolated":{}}}}"#,
        "alice#2 tools/list",
        "open 3",
        r#"3> {"jsonrpc":"2.0","id":"q","method":"roots/list"}"#,
    ] {
        play.line(line);
    }
    let ask = play.last.clone().expect("it was asked");
    let id = EnvelopeId::new("ask").unwrap();
    let error = r#"{"event":"error","type":"error","code":"recipient_not_found","message":"`alice` began anew"}"#;
    let envelope = play.envelope("system:gateway", Kind::System, Some("ask"), error);
    // What becomes of it may be heard before what it is called.
    if known_first {
        play.board.published(&ask, &id, play.now);
    }
    play.board.heard(&envelope, play.now);
    if !known_first {
        play.board.published(&ask, &id, play.now);
    }
    play.told.clear();
    play.collect();
    assert!(play.board.early_failures.is_empty());
    play.told
}

#[test]
fn failures_are_kept_only_for_questions_whose_envelope_is_not_known() {
    let mut play = Play::seated(&[Era::Legacy], |_| {});
    let error = r#"{"event":"error","type":"error","code":"recipient_not_found","message":"gone"}"#;
    let hear = |play: &mut Play, number: usize| {
        let envelope = play.envelope("system:gateway", Kind::System, Some(&format!("other-{number}")), error);
        play.board.heard(&envelope, play.now);
    };
    hear(&mut play, 0);
    assert!(play.board.early_failures.is_empty(), "nothing was asked");
    play.line(r#"alice#1 initialize {"capabilities":{"roots":{},"experimental":{"salon/isolated":{}}}}"#);
    play.line("alice#2 tools/list");
    play.line("open 3");
    play.line(r#"3> {"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    for number in 0..100 {
        hear(&mut play, number);
    }
    assert_eq!(play.board.early_failures.len(), 64);
}

#[test]
fn a_new_handshake_with_other_capabilities_takes_another_lane() {
    let script = r#"
        alice#1 initialize {"capabilities":{"roots":{},"experimental":{"salon/isolated":{}}}}
        alice#2 tools/list
        open 3
        alice#3 initialize {"capabilities":{}}
        alice#4 tools/list
        3> {"jsonrpc":"2.0","id":4,"result":{}}
    "#;
    let told = legacy(script);
    let without_handshakes: Vec<_> = told.lines().filter(|line| !line.contains("serverInfo")).collect();
    assert_snapshot!(without_handshakes.join("\n"), @r#"
    open 3 Legacy 2025-06-18 {"roots":{},"experimental":{"salon/isolated":{}}}
    → 3 {"id":4,"method":"tools/list","params":{}}
    → 0 {"id":5,"method":"tools/list","params":{}}
    ⇒ alice re e2 {"id":2,"result":{}}
    close 3
    "#);
}

#[test]
fn isolation_gives_everybody_a_lane() {
    let script = "alice#1 tools/list\nbob#1 tools/list\nopen 3\nalice#2 tools/list";
    assert_snapshot!(Play::seated(&[Era::Legacy], |setting| setting.isolated = true).act(script), @r#"
    open 3 Legacy 2025-06-18 {}
    open 5 Legacy 2025-06-18 {}
    → 3 {"id":4,"method":"tools/list","params":{}}
    → 3 {"id":7,"method":"tools/list","params":{}}
    "#);
}
