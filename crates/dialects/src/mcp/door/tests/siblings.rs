//! Several sessions of one participant, and the end of one of them.

use super::*;

/// A client that has subscribed to a resource of bob's.
fn subscribed() -> Play {
    let mut play = room();
    play.offers.push(("bob", "resources/list", r#"{"resources":[{"uri":"a:1","name":"a"}]}"#));
    play.after(
        r#"call 0 resources/list
        call 0 resources/templates/list
        settle
        call 0 resources/subscribe {"uri":"a:1"}
        bob: resources/subscribe {}"#,
    )
}

#[test]
fn the_end_of_a_session_takes_back_what_is_open() {
    let script = r#"call 1 tools/call {"name":"bob__t"}
        call 2 tools/call {"name":"carol__u"}
        carol? 1 @tools/call roots/list
        carol? 2 @- roots/list
        hangup 0
        bob: tools/call {}
        closing"#;
    assert_snapshot!(askable().act(script), @r#"
    ⇒ bob {"id":"s-9","method":"tools/call","params":{"name":"t"}}
    ⇒ carol {"id":"s-10","method":"tools/call","params":{"name":"u"}}
    ← {"id":10,"method":"roots/list"}
    ← {"id":11,"method":"roots/list"}
    ⇒ carol re e7 {"id":1,"error":{"code":-32603,"message":"the client has gone away and cannot be asked"}}
    ⇒ carol re e8 {"id":2,"error":{"code":-32603,"message":"the client has gone away and cannot be asked"}}
    ⇒ bob re s-9 {"method":"notifications/cancelled","params":{"requestId":"s-9","reason":"the session of the client has ended"}}
    ⇒ carol re s-10 {"method":"notifications/cancelled","params":{"requestId":"s-10","reason":"the session of the client has ended"}}
    close shutdown
    "#);
    let mut play = Play::new(DoorScope::Room, "bob", |_| {});
    play.offers = vec![("bob", "tools/list", r#"{"tools":[{"name":"t"}]}"#)];
    let play = play.after("1 call 0 initialize {\"protocolVersion\":\"2025-06-18\",\"capabilities\":{}}\nseat\n2 call 1 tools/call {\"name\":\"bob__t\"}\nsettle");
    assert_snapshot!(play.act("closing"), @r#"
    ⇒ bob re s-3 {"method":"notifications/cancelled","params":{"requestId":"s-3","reason":"the session of the client has ended"}}
    begin 2 200 json
    2← {"id":1,"error":{"code":-32000,"message":"the gateway is shutting down; connect again and resume"}}
    finish 2
    close shutdown
    "#);
}

#[test]
fn a_session_that_ends_beside_others_ends_its_subscriptions() {
    assert_snapshot!(subscribed().act("closing"), @r#"close shutdown"#);
    assert_snapshot!(subscribed().act("beside bob tools/list\nclosing"), @r#"
    ⇒ bob {"id":"s-8","method":"resources/unsubscribe","params":{"uri":"a:1"}}
    close shutdown
    "#);
}

#[test]
fn what_another_session_unsubscribes_from_is_subscribed_to_again() {
    let script = r#"beside bob resources/unsubscribe {"uri":"b:1"}
        beside carol resources/unsubscribe {"uri":"a:1"}
        mark not these
        beside bob resources/unsubscribe {"uri":"a:1"}
        bob: resources/subscribe {}
        call 1 resources/unsubscribe {"uri":"a:1"}
        beside bob resources/unsubscribe {"uri":"a:1"}
        bob: resources/unsubscribe {}
        beside bob resources/unsubscribe {"uri":"a:1"}
        call 2 resources/subscribe {"uri":"a:1"}
        mark it is being subscribed to
        beside bob resources/unsubscribe {"uri":"a:1"}"#;
    assert_snapshot!(subscribed().act(script), @r#"
    · not these
    ⇒ bob {"id":"s-8","method":"resources/subscribe","params":{"uri":"a:1"}}
    ⇒ bob {"id":"s-9","method":"resources/unsubscribe","params":{"uri":"a:1"}}
    ← {"id":1,"result":{}}
    ⇒ bob {"id":"s-10","method":"resources/subscribe","params":{"uri":"a:1"}}
    · it is being subscribed to
    ⇒ bob {"id":"s-11","method":"resources/subscribe","params":{"uri":"a:1"}}
    "#);
}

#[test]
fn a_handshake_made_again_brings_the_subscriptions_with_it() {
    let script = r#"beside bob initialize {"capabilities":{"roots":{}}}
        bob! @- notifications/vendor
        mark it is still known
        call 1 tools/call {"name":"bob__t"}
        settle"#;
    assert_snapshot!(subscribed().act(script), @r#"
    ← {"method":"notifications/vendor"}
    · it is still known
    ⇒ bob {"id":"s-8","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-10","method":"resources/subscribe","params":{"uri":"a:1"}}
    ⇒ bob {"id":"s-11","method":"tools/call","params":{"name":"t"}}
    "#);
}

#[test]
fn a_subscription_of_the_other_era_goes_on() {
    let listen = r#"ask "l" subscriptions/listen {"notifications":{"resourceSubscriptions":["a:1"]}}"#;
    let script = format!(
        r#"{listen}
        settle
        bob: resources/subscribe {{}}
        tell notifications/cancelled {{"requestId":"l"}}
        mark the first goes on
        {listen}
        bob: resources/subscribe {{}}
        call 3 resources/unsubscribe {{"uri":"a:1"}}
        mark the second goes on
        tell notifications/cancelled {{"requestId":"l"}}"#
    );
    assert_snapshot!(subscribed().act(&script), @r#"
    ⇒ bob {"id":"s-8","method":"resources/subscribe","params":{"uri":"a:1"}}
    ← {"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["a:1"]},"_meta":{"/subscriptionId":"l"}}}
    · the first goes on
    ⇒ bob {"id":"s-9","method":"resources/subscribe","params":{"uri":"a:1"}}
    ← {"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["a:1"]},"_meta":{"/subscriptionId":"l"}}}
    ← {"id":3,"result":{}}
    · the second goes on
    ⇒ bob {"id":"s-10","method":"resources/unsubscribe","params":{"uri":"a:1"}}
    "#);
}

#[test]
fn the_most_talkative_level_holds() {
    let script = r#"beside bob logging/setLevel {"level":"error"}
        call 1 logging/setLevel {"level":"info"}
        beside bob logging/setLevel {"level":"debug"}
        mark as much as is wanted
        beside bob logging/setLevel {"level":"warning"}
        beside bob logging/setLevel {"level":"debug"}
        call 2 logging/setLevel {"level":"error"}
        bob! @- notifications/message {"level":"info","data":1}
        bob! @- notifications/message {"level":"error","data":2}"#;
    assert_snapshot!(room().act(script), @r#"
    ⇒ bob {"id":"s-7","method":"logging/setLevel","params":{"level":"info"}}
    ⇒ carol {"id":"s-8","method":"logging/setLevel","params":{"level":"info"}}
    ← {"id":1,"result":{}}
    · as much as is wanted
    ⇒ bob {"id":"s-9","method":"logging/setLevel","params":{"level":"info"}}
    ⇒ carol {"id":"s-10","method":"logging/setLevel","params":{"level":"error"}}
    ← {"id":2,"result":{}}
    ← {"method":"notifications/message","params":{"level":"error","data":2}}
    "#);
}

#[test]
fn a_level_of_one_request_is_not_undone_by_another() {
    let mut play = Play::duplex(DoorScope::Room, "bob");
    play.offers = vec![("bob", "tools/list", r#"{"tools":[{"name":"t"}]}"#)];
    play.extra = r#","io.modelcontextprotocol/logLevel":"debug""#.into();
    play.run("ask 1 tools/call {\"name\":\"bob__t\"}\nseat\nsettle");
    play.told.clear();
    play.extra = r#","io.modelcontextprotocol/logLevel":"error""#.into();
    let script = r#"ask 2 tools/call {"name":"bob__t"}
        mark both are open
        bob: tools/call {}
        ask 3 tools/call {"name":"bob__t"}"#;
    assert_snapshot!(play.act(script), @r#"
    ⇒ bob {"id":"s-5","method":"tools/call","params":{"name":"t"}}
    · both are open
    ← {"id":1,"result":{"resultType":"complete","_meta":{"/serverInfo":{"name":"s","version":"1"}}}}
    ⇒ bob {"id":"s-6","method":"logging/setLevel","params":{"level":"error"}}
    ⇒ bob {"id":"s-7","method":"tools/call","params":{"name":"t"}}
    "#);
}

#[test]
fn a_level_set_at_one_participant_is_set_again() {
    let play = Play::duplex(DoorScope::One(id("bob")), "bob");
    let play = play.after(&format!(
        r#"call 0 initialize {{"protocolVersion":"2025-06-18","capabilities":{{}}}}
        seat
        bob: initialize {SERVER}
        call 1 logging/setLevel {{"level":"info"}}
        bob: logging/setLevel {{}}"#
    ));
    let script = r#"beside bob logging/setLevel {"level":"error"}
        beside bob logging/setLevel {"level":"debug"}
        bob! @- notifications/message {"level":"debug","data":1}
        bob! @- notifications/message {"level":"info","data":2}"#;
    assert_snapshot!(play.act(script), @r#"
    ⇒ bob {"id":"s-4","method":"logging/setLevel","params":{"level":"info"}}
    ← {"method":"notifications/message","params":{"level":"info","data":2}}
    "#);
}

const ROOTS: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#;

/// A session that has called nobody and can be asked everything.
fn alone() -> Play {
    Play::introduced(DoorScope::Room, "bob carol", "2025-06-18", ASKABLE)
}

const REFUSED: &str = r#""error":{"code":-32601,"message":"`alice` can be asked only by those whom it calls"}}"#;

#[test]
fn a_question_of_a_call_from_before_this_session_is_left_to_whoever_made_it() {
    // A person may think about it for minutes.
    let script = "bob? 1 @=other-1 roots/list\ntick 609999\nmark given up by the other\ntick 1\ntick 3600000";
    assert_snapshot!(alone().act(script), @r#"
    · given up by the other
    ⇒ bob re e1 {"id":1,"error":{"code":-32601,"message":"`alice` can be asked only by those whom it calls"}}
    "#);
    // So is one of somebody whom this session has called.
    assert_snapshot!(askable().act(script), @r#"
    · given up by the other
    ⇒ bob re e7 {"id":1,"error":{"code":-32601,"message":"`alice` can be asked only by those whom it calls"}}
    "#);
    // Unless its asker does not want it answered any more.
    assert_snapshot!(alone().act("bob? 1 @=other-1 roots/list\nbob! @- notifications/cancelled {\"requestId\":1}\ntick 900000"), @"");
    assert_snapshot!(alone().act("bob? 1 @=other-1 roots/list\nleave bob\ntick 900000"), @"");
    let mut play = alone().after("bob? 1 @=other-1 roots/list\ntick 300000");
    play.entry_to(&[id("bob")], "alice", Kind::Mcp, Some("e1"), ROOTS);
    assert_snapshot!(play.act("tick 900000"), @"");
}

#[test]
fn a_question_without_a_name_is_left_to_others_where_there_are_any() {
    assert_snapshot!(alone().act("carol? 1 @- roots/list"), @r#"⇒ carol re e1 {"id":1,"error":{"code":-32601,"message":"`alice` can be asked only by those whom it calls"}}"#);
    // Whom else they have called was not heard.
    let script = "beside bob tools/list\ncarol? 1 @- roots/list\ntick 609999\nmark given up by the other\ntick 1";
    assert_snapshot!(alone().act(script), @r#"
    · given up by the other
    ⇒ carol re e2 {"id":1,"error":{"code":-32601,"message":"`alice` can be asked only by those whom it calls"}}
    "#);
}

#[test]
fn a_question_of_whom_another_session_calls_is_left_to_it() {
    // It has all the time there is while the call is open that it names, or that it may be about.
    for call in ["@=e1", "@-"] {
        let mut play = alone().after("beside bob tools/call");
        play.run(&format!("bob? 1 {call} roots/list\ntick 3600000"));
        assert_eq!(play.told, "", "{call}");
        play.entry("bob", Kind::Mcp, Some("e1"), r#"{"jsonrpc":"2.0","id":"x","result":{}}"#);
        let told = play.act("tick 609999\nmark given up by the other\ntick 1");
        assert_eq!(told, format!("· given up by the other\n⇒ bob re e2 {{\"id\":1,{REFUSED}\n"), "{call}");
    }
    // Another's call, or a subscription, is none.
    let others = "beside carol tools/call\nbeside bob subscriptions/listen\nbob? 1 @- roots/list\nbob? 2 @=e1 roots/list\nbob? 3 @=e2 roots/list";
    let told = alone().act(&format!("{others}\ntick 609999\nmark given up by the other\ntick 1"));
    assert_eq!(told.lines().next(), Some("· given up by the other"));
    assert_eq!(told.matches(REFUSED).count(), 3);
    // What the other answers is not refused.
    let mut play = alone().after("beside bob tools/call\nbob? 1 @=e1 roots/list");
    play.entry_to(&[id("bob")], "alice", Kind::Mcp, Some("e2"), ROOTS);
    play.entry("bob", Kind::Mcp, Some("e1"), r#"{"jsonrpc":"2.0","id":"x","result":{}}"#);
    assert_snapshot!(play.act("tick 3600000"), @"");
}

#[test]
fn a_question_does_not_wait_for_ever_for_a_session_that_was_killed() {
    for call in ["@=e1", "@-"] {
        let mut play = alone().after("beside bob tools/call");
        play.run(&format!("bob? 1 {call} roots/list\ntick 86399999"));
        assert_eq!(play.told, "", "{call}");
        assert_eq!(play.act("tick 1"), format!("⇒ bob re e2 {{\"id\":1,{REFUSED}\n"), "{call}");
    }
    // However many calls are made and end.
    let mut play = alone().after("beside bob tools/call\nbob? 1 @- roots/list");
    for _ in 0..300 {
        play.line("beside bob tools/call");
        let call = format!("e{}", play.said);
        play.entry("bob", Kind::Mcp, Some(&call), r#"{"jsonrpc":"2.0","id":"x","result":{}}"#);
        play.line("tick 300000");
    }
    assert_eq!(play.act(""), format!("⇒ bob re e2 {{\"id\":1,{REFUSED}\n"));
}

#[test]
fn of_many_calls_of_others_the_newest_are_remembered() {
    let mut play = alone();
    for _ in 0..1025 {
        play.line("beside bob tools/call");
    }
    play.run("bob? 1 @=e1 roots/list\nbob? 2 @=e2 roots/list\nbob? 3 @=e1025 roots/list\ntick 3600000");
    assert_eq!(play.act(""), format!("⇒ bob re e1026 {{\"id\":1,{REFUSED}\n"));
}

#[test]
fn who_begins_anew_waits_for_no_call_of_before() {
    let script = "beside bob tools/call\nbob? 1 @=e1 roots/list\njoin bob\nbob? 2 @=e1 roots/list\ntick 609999\nmark given up by the other\ntick 1";
    assert_snapshot!(alone().act(script), @r#"
    consult bob tools/list
    consult bob prompts/list
    consult bob resources/list
    consult bob resources/templates/list
    · given up by the other
    ⇒ bob re e4 {"id":2,"error":{"code":-32601,"message":"`alice` can be asked only by those whom it calls"}}
    "#);
}

#[test]
fn only_so_many_questions_are_left_to_others() {
    let mut play = alone();
    for number in 0..16 {
        play.line(&format!("bob? {number} @=other-1 roots/list"));
    }
    assert_eq!(play.told, "");
    assert_snapshot!(play.act("bob? 16 @=other-1 roots/list\ncarol? 1 @=other-1 roots/list"), @r#"⇒ bob re e17 {"id":16,"error":{"code":-32603,"message":"too many questions are open already: at most 64, of one asker 16"}}"#);
}
