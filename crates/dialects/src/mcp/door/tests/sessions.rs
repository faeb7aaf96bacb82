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
    ← {"id":10,"method":"roots/list","params":{"_meta":{"salon/askedBy":"carol"}}}
    ← {"id":11,"method":"roots/list","params":{"_meta":{"salon/askedBy":"carol"}}}
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
fn participants_that_keep_something_for_a_session_learn_that_it_has_ended() {
    // Its responses name the session; others know participants only, whose leave tells them.
    assert_snapshot!(subscribed().act("closing"), @r#"close shutdown"#);
    let script = r#"call 1 tools/call {"name":"bob__t"}
        bob>s: tools/call {}
        hangup 0
        closing"#;
    assert_snapshot!(subscribed().act(script), @r#"
    ⇒ bob {"id":"s-8","method":"tools/call","params":{"name":"t"}}
    ← {"id":1,"result":{}}
    ⇒ bob {"method":"notifications/session/ended"}
    close shutdown
    "#);
}

#[test]
fn what_other_sessions_do_leaves_this_one_as_it_was() {
    let script = r#"beside bob initialize {"capabilities":{"roots":{}}}
        beside bob resources/unsubscribe {"uri":"a:1"}
        beside bob logging/setLevel {"level":"error"}
        bob! @- notifications/resources/updated {"uri":"a:1"}
        bob! @- notifications/vendor
        bob>s2! @- notifications/vendor
        bob>s! @- notifications/vendor {"n":2}
        call 1 tools/call {"name":"bob__t"}"#;
    assert_snapshot!(subscribed().act(script), @r#"
    ← {"method":"notifications/resources/updated","params":{"uri":"a:1"}}
    ← {"method":"notifications/vendor"}
    ← {"method":"notifications/vendor","params":{"n":2}}
    ⇒ bob {"id":"s-8","method":"tools/call","params":{"name":"t"}}
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
fn log_lines_are_told_from_ones_own_level_on() {
    let script = r#"call 1 logging/setLevel {"level":"info"}
        beside bob logging/setLevel {"level":"debug"}
        bob! @- notifications/message {"level":"debug","data":1}
        bob! @- notifications/message {"level":"info","data":2}
        bob>s2! @- notifications/message {"level":"error","data":3}
        bob>s! @- notifications/message {"level":"error","data":4}"#;
    assert_snapshot!(room().act(script), @r#"
    ⇒ bob {"id":"s-7","method":"logging/setLevel","params":{"level":"info"}}
    ⇒ carol {"id":"s-8","method":"logging/setLevel","params":{"level":"info"}}
    ← {"id":1,"result":{}}
    ← {"method":"notifications/message","params":{"level":"info","data":2}}
    ← {"method":"notifications/message","params":{"level":"error","data":4}}
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
fn one_participant_is_taken_as_it_is_unless_another_session_may_be_meant() {
    let play = Play::duplex(DoorScope::One(id("bob")), "bob");
    let play = play.after(&format!(
        r#"call 0 initialize {{"protocolVersion":"2025-06-18","capabilities":{{}}}}
        seat
        bob: initialize {SERVER}
        call 1 logging/setLevel {{"level":"info"}}
        bob: logging/setLevel {{}}"#
    ));
    let script = r#"bob! @- notifications/message {"level":"debug","data":1}
        beside bob logging/setLevel {"level":"debug"}
        bob! @- notifications/message {"level":"debug","data":2}
        bob! @- notifications/message {"level":"info","data":3}
        bob>s! @- notifications/message {"level":"debug","data":4}
        bob>s2! @- notifications/message {"level":"info","data":5}"#;
    assert_snapshot!(play.act(script), @r#"
    ← {"method":"notifications/message","params":{"level":"debug","data":1}}
    ← {"method":"notifications/message","params":{"level":"info","data":3}}
    ← {"method":"notifications/message","params":{"level":"debug","data":4}}
    "#);
}

/// A session that has called nobody and can be asked everything.
fn alone() -> Play {
    Play::introduced(DoorScope::Room, "bob carol", "2025-06-18", ASKABLE)
}

/// The same with a call of the participant's to bob that was open before.
fn alone_after_a_call() -> Play {
    let hello = format!(r#"{{"protocolVersion":"2025-06-18","capabilities":{ASKABLE}}}"#);
    Play::duplex(DoorScope::Room, "bob carol").after(&format!("call 0 initialize {hello}\nseat e0 bob"))
}

const REFUSED: &str = r#"{"code":-32601,"message":"`alice` can be asked only by participants that it calls"}"#;

#[test]
fn a_question_that_names_a_session_is_for_that_one() {
    let script = r#"call 1 tools/call {"name":"bob__t"}
        bob>s2? 1 @tools/call roots/list
        bob>s2? 2 @- roots/list
        bob>s2? 3 @- ping
        beside bob tools/call
        bob>s? 4 @- roots/list
        bob>s? 5 @- ping"#;
    assert_snapshot!(askable().act(script), @r#"
    ⇒ bob {"id":"s-9","method":"tools/call","params":{"name":"t"}}
    ← {"id":9,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    ⇒ bob re e12 {"id":5,"result":{}}
    "#);
    // Everybody in the room sees the names of sessions, so a name alone gives no right to ask.
    assert_eq!(alone().act("carol>s? 1 @- roots/list"), format!("⇒ carol re e1 {{\"id\":1,\"error\":{REFUSED}}}\n"));
}

#[test]
fn a_question_that_names_a_call_is_for_the_session_that_made_it() {
    let script = "beside bob tools/call\nbob? 1 @=e7 roots/list\ncall 1 tools/call {\"name\":\"bob__t\"}\nbob? 2 @=e7 roots/list\nbob? 3 @tools/call roots/list";
    assert_snapshot!(askable().act(script), @r#"
    ⇒ bob {"id":"s-9","method":"tools/call","params":{"name":"t"}}
    ← {"id":9,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    "#);
    assert_eq!(alone_after_a_call().act("bob? 1 @=e0 roots/list\ntick 3600000"), "");
    // Who names a call that was never made, or is over, is answered as one who names none.
    let refused = format!("⇒ bob re e1 {{\"id\":1,\"error\":{REFUSED}}}\n");
    assert_eq!(alone().act("bob? 1 @=never roots/list"), refused);
}

#[test]
fn a_question_without_a_name_is_for_the_session_with_the_newest_call() {
    // Refused at once where no session has called the asker.
    let refused = format!("⇒ carol re e1 {{\"id\":1,\"error\":{REFUSED}}}\n");
    assert_eq!(alone().act("carol? 1 @- roots/list"), refused);
    assert_eq!(alone_after_a_call().act("carol? 1 @- roots/list\nbob? 2 @- roots/list"), refused);
    assert_eq!(alone().act("beside bob tools/call\nbob? 1 @- roots/list\ntick 3600000"), "");
    let script = r#"call 1 tools/call {"name":"bob__t"}
        beside bob tools/call
        bob? 1 @- roots/list
        mark for the other
        beside bob notifications/cancelled {"requestId":"x"}
        bob? 2 @- roots/list"#;
    assert_snapshot!(askable().act(script), @r#"
    ⇒ bob {"id":"s-9","method":"tools/call","params":{"name":"t"}}
    · for the other
    ← {"id":9,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    "#);
}

#[test]
fn a_question_without_a_call_is_for_the_session_that_turned_to_its_asker_last() {
    let script = r#"bob? 1 @- roots/list
        beside bob initialize
        bob? 2 @- roots/list
        mark for the other
        beside bob notifications/session/ended
        bob? 3 @- roots/list"#;
    assert_snapshot!(askable().act(script), @r#"
    ← {"id":8,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    · for the other
    ← {"id":9,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    "#);
}

#[test]
fn every_question_is_answered_by_exactly_one_of_two_sessions() {
    // Both sessions see the same entries in the same order; what is one's own call is another's to the other.
    let calls = [("s", "bob"), ("s2", "bob"), ("s", "bob")];
    for made in 1..=calls.len() {
        let answers = ["s", "s2"].map(|me| {
            let mut play = askable();
            for (number, (session, callee)) in calls[..made].iter().enumerate() {
                match *session == me {
                    true => play.line(&format!("call {number} tools/call {{\"name\":\"{callee}__t\"}}")),
                    false => play.line(&format!("beside {callee} tools/call")),
                }
            }
            play.told.clear();
            play.act("bob? 1 @- roots/list").matches("roots/list").count()
        });
        assert_eq!(answers.iter().sum::<usize>(), 1, "{made} calls: {answers:?}");
    }
}
