//! From the others to a client of the legacy era: sampling, elicitation, roots.

use super::*;

#[test]
fn a_question_is_put_and_its_answer_goes_back() {
    let script = r#"
        call 1 tools/call {"name":"bob__t"}
        bob? "q" @tools/call sampling/createMessage {"messages":[],"n": 12345678901234567890,"_meta":{"progressToken":"mine","k":1}}
        bob? 8 @- elicitation/create {"message":"?","requestedSchema":{"type":"object","properties":{}}}
        tell notifications/progress {"progressToken":9,"progress":1}
        reply @elicitation/create {"action":"accept","content":{"n": 12345678901234567890}}
        reply @sampling/createMessage error {"code":-1,"message":"no","data":1.0,"x":2}
        reply 9 {"again":true}
        bob: tools/call {}
        bob? 9 @- roots/list
        reply @roots/list {"roots":[]}
        reply 77 {}
        reply "18" {}
    "#;
    assert_snapshot!(askable().act(script), @r#"
    ⇒ bob {"id":"s-9","method":"tools/call","params":{"name":"t"}}
    ← {"id":9,"method":"sampling/createMessage","params":{"messages":[],"n":12345678901234567890,"_meta":{"progressToken":9,"k":1,"salon/askedBy":"bob"}}}
    ← {"id":10,"method":"elicitation/create","params":{"message":"bob asks: ?","requestedSchema":{"type":"object","properties":{}},"_meta":{"salon/askedBy":"bob"}}}
    ⇒ bob re e7 {"method":"notifications/progress","params":{"progressToken":"mine","progress":1}}
    ⇒ bob re e8 {"id":8,"result":{"action":"accept","content":{"n": 12345678901234567890}}}
    ⇒ bob re e7 {"id":"q","error":{"code":-1,"message":"no","data":1.0,"x":2}}
    ← {"id":1,"result":{}}
    ← {"id":11,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    ⇒ bob re e10 {"id":9,"result":{"roots":[]}}
    "#);
}

#[test]
fn who_may_not_ask_is_told_so() {
    let script = r#"
        bob? 1 @- sampling/createMessage {}
        dave? 2 @- sampling/createMessage {}
        bob? 3 @- nonsense
        bob? 4 @- ping
        dave? 5 @- initialize {"protocolVersion":"2025-11-25"}
        bob? 6 @- tools/list
    "#;
    assert_snapshot!(room().act(script), @r#"
    ⇒ bob re e5 {"id":1,"error":{"code":-32601,"message":"the client of `alice` does not offer `sampling/createMessage`"}}
    ⇒ dave re e6 {"id":2,"error":{"code":-32601,"message":"`alice` can be asked only by participants that it calls"}}
    ⇒ bob re e7 {"id":3,"error":{"code":-32601,"message":"the method `nonsense` is not offered here"}}
    ⇒ bob re e8 {"id":4,"result":{}}
    ⇒ dave re e9 {"id":5,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"c","version":"1"}}}
    ⇒ bob re e10 {"id":6,"error":{"code":-32601,"message":"the method `tools/list` is not offered here"}}
    "#);
    let strangers = Play::introduced(DoorScope::Room, "bob", "2025-06-18", ASKABLE);
    assert_snapshot!(strangers.act("bob? 1 @- roots/list"), @r#"⇒ bob re e1 {"id":1,"error":{"code":-32601,"message":"`alice` can be asked only by participants that it calls"}}"#);
    let mut play = askable().after(r#"call 1 tools/call {"name":"bob__t"}"#);
    let call = play.open[0].id.clone().unwrap();
    play.line(&format!("carol? 7 @={call} sampling/createMessage {{}}"));
    play.line(&format!("dave? 8 @={call} sampling/createMessage {{}}"));
    assert_snapshot!(play.act(""), @r#"
    ← {"id":9,"method":"sampling/createMessage","params":{"_meta":{"salon/askedBy":"carol"}}}
    ⇒ dave re e8 {"id":8,"error":{"code":-32601,"message":"`alice` can be asked only by participants that it calls"}}
    "#);
}

/// A client that has listed the tools of `bob`, and has called nobody.
fn listing(capabilities: &str) -> Play {
    let mut play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", capabilities);
    play.offers = vec![("bob", "tools/list", r#"{"tools":[{"name":"t"}]}"#)];
    play.after("call 0 tools/list\nsettle")
}

#[test]
fn listing_somebody_lets_it_ask_nothing() {
    let script = r#"
        bob? 1 @- sampling/createMessage {}
        bob? 2 @- elicitation/create {"message":"?"}
        bob? 3 @- roots/list
        call 1 tools/call {"name":"bob__t"}
        settle
        bob? 4 @- elicitation/create {"message":"?"}
        bob: tools/call {}
        bob? 5 @- sampling/createMessage {}
    "#;
    assert_snapshot!(listing(ASKABLE).act(script), @r#"
    ⇒ bob re e1 {"id":1,"error":{"code":-32601,"message":"`alice` can be asked only by participants that it calls"}}
    ⇒ bob re e2 {"id":2,"error":{"code":-32601,"message":"`alice` can be asked only by participants that it calls"}}
    ⇒ bob re e3 {"id":3,"error":{"code":-32601,"message":"`alice` can be asked only by participants that it calls"}}
    ⇒ bob {"id":"s-4","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":{},"elicitation":{},"roots":{}},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-6","method":"tools/call","params":{"name":"t"}}
    ⇒ bob {"id":"s-7","method":"tools/list"}
    ← {"id":5,"method":"elicitation/create","params":{"message":"bob asks: ?","_meta":{"salon/askedBy":"bob"}}}
    ← {"id":1,"result":{}}
    ← {"id":6,"method":"sampling/createMessage","params":{"_meta":{"salon/askedBy":"bob"}}}
    "#);
    // The one participant of an address is listed by the client itself.
    let one = Play::introduced(DoorScope::One(id("bob")), "bob", "2025-06-18", ASKABLE);
    let script = format!(
        r#"bob: initialize {SERVER}
        call 1 tools/list
        bob? 1 @tools/list sampling/createMessage {{}}
        bob? 2 @- sampling/createMessage {{}}
        call 2 logging/setLevel {{"level":"info"}}
        bob? 3 @logging/setLevel roots/list
        call 3 resources/read {{"uri":"a:b"}}
        bob? 4 @resources/read roots/list"#
    );
    assert_snapshot!(one.act(&script), @r#"
    ⇒ bob {"method":"notifications/initialized"}
    ← {"id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    ⇒ bob {"id":"s-3","method":"tools/list"}
    ⇒ bob re e2 {"id":1,"error":{"code":-32601,"message":"`alice` can be asked only by participants that it calls"}}
    ⇒ bob re e3 {"id":2,"error":{"code":-32601,"message":"`alice` can be asked only by participants that it calls"}}
    ⇒ bob {"id":"s-6","method":"logging/setLevel","params":{"level":"info"}}
    ⇒ bob re e4 {"id":3,"error":{"code":-32601,"message":"`alice` can be asked only by participants that it calls"}}
    ⇒ bob {"id":"s-8","method":"resources/read","params":{"uri":"a:b"}}
    ← {"id":5,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    "#);
}

#[test]
fn a_server_that_was_refused_the_roots_is_told_to_ask_again_once_it_is_called() {
    let told = |roots: &str| {
        let one = Play::introduced(DoorScope::One(id("bob")), "bob", "2025-06-18", &format!(r#"{{"roots":{roots}}}"#));
        one.after(&format!("bob: initialize {SERVER}")).act(
            r#"bob? 1 @- roots/list
            mark called
            call 1 tools/call {"name":"t"}
            bob? 2 @- roots/list
            call 2 tools/call {"name":"t"}"#,
        )
    };
    let changed = "notifications/roots/list_changed";
    let (before, after) =
        told(r#"{"listChanged":true}"#).split_once("· called").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    assert!(before.contains("-32601") && !before.contains(changed), "{before}");
    assert_eq!(after.matches(changed).count(), 1, "{after}");
    assert!(after.find(changed) < after.find("tools/call"), "{after}");
    assert!(after.contains(r#""method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}"#), "{after}");
    // A client that does not say that its roots change is not made to.
    let silent = told("{}");
    assert!(!silent.contains(changed), "{silent}");
}

#[test]
fn what_belongs_to_another_session_is_left_to_it() {
    assert_snapshot!(askable().act("beside bob tools/call\nbob? 1 @=e7 roots/list"), @"");
}

#[test]
fn a_question_may_be_withdrawn() {
    let script = r#"
        call 1 tools/call {"name":"bob__t"}
        bob? 7 @tools/call roots/list
        carol! @- notifications/cancelled {"requestId":7}
        bob! @tools/call notifications/cancelled {"requestId":7,"reason":"never mind"}
        reply @roots/list {"roots":[]}
    "#;
    assert_snapshot!(askable().act(script), @r#"
    ⇒ bob {"id":"s-9","method":"tools/call","params":{"name":"t"}}
    ← {"id":9,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    ← {"method":"notifications/cancelled","params":{"reason":"never mind","requestId":9}}
    "#);
}

#[test]
fn a_question_outlives_the_call_that_it_came_with() {
    let script = r#"
        call 1 tools/call {"name":"bob__t"}
        bob? 7 @tools/call roots/list
        bob? 8 @- sampling/createMessage {}
        bob: tools/call {}
        reply @roots/list {"roots":[]}
        reply @sampling/createMessage {"text":"hi"}
    "#;
    assert_snapshot!(askable().act(script), @r#"
    ⇒ bob {"id":"s-9","method":"tools/call","params":{"name":"t"}}
    ← {"id":9,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    ← {"id":10,"method":"sampling/createMessage","params":{"_meta":{"salon/askedBy":"bob"}}}
    ← {"id":1,"result":{}}
    ⇒ bob re e7 {"id":7,"result":{"roots":[]}}
    ⇒ bob re e8 {"id":8,"result":{"text":"hi"}}
    "#);
}

#[test]
fn a_question_ends_with_a_call_that_is_taken_back_or_fails() {
    let script = r#"
        call 1 tools/call {"name":"bob__t"}
        bob? 7 @tools/call roots/list
        tell notifications/cancelled {"requestId":1}
        reply @roots/list {"roots":[]}
        call 2 tools/call {"name":"carol__u"}
        carol? 7 @tools/call roots/list
        leave carol
        gone carol tools/call
        reply @roots/list {"roots":[]}
    "#;
    assert_snapshot!(askable().act(script), @r#"
    ⇒ bob {"id":"s-9","method":"tools/call","params":{"name":"t"}}
    ← {"id":9,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    ⇒ bob re e7 {"id":7,"error":{"code":-32603,"message":"the call that this was asked with is over"}}
    ⇒ bob re s-9 {"method":"notifications/cancelled","params":{"requestId":"s-9"}}
    ← {"method":"notifications/cancelled","params":{"requestId":9}}
    ⇒ carol {"id":"s-12","method":"tools/call","params":{"name":"u"}}
    ← {"id":11,"method":"roots/list","params":{"_meta":{"salon/askedBy":"carol"}}}
    ← {"method":"notifications/cancelled","params":{"requestId":11}}
    ← {"id":2,"error":{"code":-32000,"message":"`carol` left before it answered","data":{"code":"recipient_not_found"}}}
    "#);
}

#[test]
fn what_a_revision_cannot_be_asked_is_answered_for_it() {
    let of = |revision: &str| {
        let play = with_tools(Play::introduced(DoorScope::Room, "bob carol", revision, ASKABLE));
        play.act(
            r#"call 1 tools/call {"name":"bob__t"}
            bob? 7 @tools/call elicitation/create {"message":"?","requestedSchema":{"type":"object","properties":{"c":{"type":"string","oneOf":[{"const":"r","title":"Red"}]}}}}
            bob? 8 @tools/call elicitation/create {"mode":"url","url":"https://a.example","elicitationId":"theirs"}"#,
        )
    };
    assert_snapshot!(of("2025-03-26"), @r#"
    ⇒ bob {"id":"s-9","method":"tools/call","params":{"name":"t"}}
    ⇒ bob re e7 {"id":7,"result":{"action":"decline"}}
    ⇒ bob re e8 {"id":8,"result":{"action":"decline"}}
    "#);
    assert_snapshot!(of("2025-06-18"), @r#"
    ⇒ bob {"id":"s-9","method":"tools/call","params":{"name":"t"}}
    ← {"id":9,"method":"elicitation/create","params":{"message":"bob asks: ?","requestedSchema":{"type":"object","properties":{"c":{"type":"string","enum":["r"],"enumNames":["Red"]}}},"_meta":{"salon/askedBy":"bob"}}}
    ⇒ bob re e8 {"id":8,"result":{"action":"decline"}}
    "#);
    assert_snapshot!(of("2025-11-25"), @r#"
    ⇒ bob {"id":"s-9","method":"tools/call","params":{"name":"t"}}
    ← {"id":9,"method":"elicitation/create","params":{"message":"bob asks: ?","requestedSchema":{"type":"object","properties":{"c":{"type":"string","oneOf":[{"const":"r","title":"Red"}]}}},"_meta":{"salon/askedBy":"bob"}}}
    ← {"id":10,"method":"elicitation/create","params":{"mode":"url","url":"https://a.example","elicitationId":"theirs","_meta":{"salon/askedBy":"bob"}}}
    "#);
}

#[test]
fn only_so_many_questions_are_open_at_once() {
    let mut play = askable();
    for number in 0..16 {
        play.line(&format!("bob? {number} @- roots/list"));
    }
    play.told.clear();
    // One who asks a lot does not keep the others from asking.
    assert_snapshot!(play.act("bob? 64 @- roots/list\ncarol? 1 @- roots/list"), @r#"
    ⇒ bob re e23 {"id":64,"error":{"code":-32603,"message":"too many questions are open already: at most 64, of one asker 16"}}
    ← {"id":24,"method":"roots/list","params":{"_meta":{"salon/askedBy":"carol"}}}
    "#);
}

#[test]
fn a_question_that_belongs_to_no_call_ends_after_ten_minutes() {
    let script = "bob? 1 @- roots/list\ntick 599999\nmark ten minutes\ntick 1\nreply @roots/list {}";
    assert_snapshot!(askable().act(script), @r#"
    ← {"id":8,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    · ten minutes
    ⇒ bob re e7 {"id":1,"error":{"code":-32603,"message":"the client did not answer in time","data":{"code":"timeout"}}}
    ← {"method":"notifications/cancelled","params":{"requestId":8}}
    "#);
    // One that came with a call has the same time from the call's end on.
    let script = "call 1 tools/call {\"name\":\"bob__t\"}\nbob? 1 @tools/call roots/list\nbob: tools/call {}\ntick 599999\nmark ten minutes\ntick 1";
    assert_snapshot!(askable().act(script), @r#"
    ⇒ bob {"id":"s-9","method":"tools/call","params":{"name":"t"}}
    ← {"id":9,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    ← {"id":1,"result":{}}
    · ten minutes
    ⇒ bob re e7 {"id":1,"error":{"code":-32603,"message":"the client did not answer in time","data":{"code":"timeout"}}}
    ← {"method":"notifications/cancelled","params":{"requestId":9}}
    "#);
}

#[test]
fn changed_roots_are_announced_to_participants_that_know_the_client() {
    assert_snapshot!(askable().act("join dave/2025-06-18\ntell notifications/roots/list_changed {\"x\":1.0}"), @r#"
    consult dave tools/list
    consult dave prompts/list
    consult dave resources/list
    consult dave resources/templates/list
    ⇒ bob {"method":"notifications/roots/list_changed","params":{"x":1.0}}
    ⇒ carol {"method":"notifications/roots/list_changed","params":{"x":1.0}}
    "#);
}

#[test]
fn a_question_comes_on_the_stream_of_its_call() {
    let play = Play::new(DoorScope::Room, "bob", |_| {}).after(&format!(
        r#"1 call 0 initialize {{"protocolVersion":"2025-06-18","capabilities":{ASKABLE}}}
        seat
        2 call 1 tools/call {{"name":"bob__t"}}
        bob: initialize {SERVER}"#
    ));
    let script = r#"
        bob? 7 @tools/call roots/list
        bob? 8 @- sampling/createMessage {}
        3 reply 4 {"roots":[]}
        bob! @tools/call notifications/message {"level":"info","data":1}
        bob: tools/call {}
        bob? 9 @- roots/list
        get 5
    "#;
    assert_snapshot!(play.act(script), @r#"
    begin 2 200 events
    2← #2-1 {"id":3,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    2← #2-2 {"id":4,"method":"sampling/createMessage","params":{"_meta":{"salon/askedBy":"bob"}}}
    ⇒ bob re e3 {"id":8,"result":{"roots":[]}}
    begin 3 202 empty
    finish 3
    2← #2-3 {"method":"notifications/message","params":{"level":"info","data":1}}
    2← #2-4 {"id":1,"result":{}}
    finish 2
    begin 5 200 events
    5← #0-1 {"id":5,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    "#);
}

#[test]
fn a_client_that_hung_up_for_good_cannot_be_asked() {
    let play = Play::new(DoorScope::Room, "bob", |_| {}).after(&format!(
        r#"1 call 0 initialize {{"protocolVersion":"2025-06-18","capabilities":{ASKABLE}}}
        seat
        2 call 1 tools/call {{"name":"bob__t"}}
        bob: initialize {SERVER}"#
    ));
    assert_snapshot!(play.act("hangup 2\nbob? 7 @tools/call roots/list\nbob: tools/call {}"), @r#"⇒ bob re e2 {"id":7,"error":{"code":-32603,"message":"the client has gone away and cannot be asked"}}"#);
}
