//! Questions across the eras: a modern client is asked by an answer, a modern participant's wishes are put to a legacy client as requests.

use super::*;

fn asked() -> Play {
    let mut play = Play::duplex(DoorScope::Room, "bob");
    play.capabilities = ASKABLE.into();
    play.after(&format!(
        r#"ask 0 tools/call {{"name":"bob__t"}}
        seat
        bob: initialize {SERVER}
        bob: tools/call {{}}"#
    ))
}

/// The state that was given out last.
fn state(play: &Play) -> String {
    let (_, rest) = play.told.rsplit_once(r#""requestState":"#).unwrap();
    rest.split_once('}').unwrap().0.to_owned()
}

#[test]
fn a_modern_client_is_asked_by_an_answer_and_answers_by_asking_again() {
    let mut play = asked();
    play.run(
        r#"ask 1 tools/call {"name":"bob__t"}
        bob? "q" @tools/call sampling/createMessage {"n": 12345678901234567890}
        tick 10
        bob? 2 @- elicitation/create {"mode":"url","url":"https://a.example","elicitationId":"e"}
        tick 20
        bob? 3 @tools/call roots/list"#,
    );
    let first = state(&play);
    play.run(&format!(
        r#"ask 2 tools/call {{"name":"bob__t","requestState":{first},"inputResponses":{{"req_4":{{"text":"hi","n": 12345678901234567890}},"req_99":{{}},"odd":{{}}}}}}
        tick 30"#
    ));
    let second = state(&play);
    play.run(&format!(
        r#"ask 3 tools/call {{"name":"bob__t","requestState":{second},"inputResponses":{{"req_5":{{"action":"accept"}},"req_7":{{"roots":[]}}}}}}
        tick 30
        bob: tools/call {{"content":[]}}
        ask 4 tools/call {{"name":"bob__t","requestState":{second}}}"#
    ));
    assert_snapshot!(play.act(""), @r#"
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t"}}
    ← {"id":1,"result":{"resultType":"input_required","inputRequests":{"req_4":{"method":"sampling/createMessage","params":{"n":12345678901234567890,"_meta":{"salon/askedBy":"bob"}}},"req_5":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example","_meta":{"salon/askedBy":"bob"}}}},"requestState":"salon.07070707070707070707070707070707.6"}}
    ⇒ bob re e3 {"id":"q","result":{"text":"hi","n": 12345678901234567890}}
    ← {"id":2,"result":{"resultType":"input_required","inputRequests":{"req_5":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example","_meta":{"salon/askedBy":"bob"}}},"req_7":{"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}},"requestState":"salon.07070707070707070707070707070707.8"}}
    ⇒ bob re e4 {"id":2,"result":{"action":"accept"}}
    ⇒ bob re e5 {"id":3,"result":{"roots":[]}}
    ← {"id":3,"result":{"content":[],"resultType":"complete","_meta":{"/serverInfo":{"name":"s","version":"1"}}}}
    ← {"id":4,"error":{"code":-32602,"message":"`requestState` names no request that waits for answers here: it was answered before, took too long, or the gateway was restarted"}}
    "#);
}

#[test]
fn an_outcome_waits_for_the_client_to_come_back() {
    let mut play = asked();
    play.run("ask 1 tools/call {\"name\":\"bob__t\"}\nbob? 1 @tools/call roots/list\ntick 30");
    let state = state(&play);
    play.told.clear();
    play.run("bob: tools/call {\"content\":[{\"type\":\"resource_link\",\"uri\":\"tmp:1\"}]}\nmark back");
    play.run(&format!("ask 2 prompts/get {{\"name\":\"bob__t\",\"requestState\":{state}}}"));
    play.run(&format!("ask 3 tools/call {{\"name\":\"bob__t\",\"requestState\":{state}}}"));
    assert_snapshot!(play.act("ask 4 resources/read {\"uri\":\"tmp:1\"}"), @r#"
    · back
    ← {"id":2,"error":{"code":-32602,"message":"`requestState` names no request that waits for answers here: it was answered before, took too long, or the gateway was restarted"}}
    ⇒ bob re e3 {"id":1,"error":{"code":-32603,"message":"the call that this was asked with is over"}}
    ← {"id":3,"result":{"content":[{"type":"resource_link","uri":"tmp:1"}],"resultType":"complete","_meta":{"/serverInfo":{"name":"s","version":"1"}}}}
    ⇒ bob {"id":"s-6","method":"resources/read","params":{"uri":"tmp:1"}}
    "#);
    for (how, it_ends) in [("leave bob\ngone bob tools/call", "left before"), ("gap", "no longer kept")] {
        let mut play = asked();
        play.run("ask 1 tools/call {\"name\":\"bob__t\"}\nbob? 1 @tools/call roots/list\ntick 30");
        let state = self::state(&play);
        play.told.clear();
        play.run(how);
        assert!(!play.told.contains('←'), "{}", play.told);
        let told = play.act(&format!("ask 2 tools/call {{\"name\":\"bob__t\",\"requestState\":{state}}}"));
        assert!(told.lines().last().is_some_and(|line| line.contains("\"id\":2") && line.contains(it_ends)), "{told}");
    }
}

#[test]
fn an_answer_counts_after_the_end_of_the_call() {
    let mut play = asked();
    play.run("ask 1 tools/call {\"name\":\"bob__t\"}\nbob? 1 @tools/call roots/list\ntick 30");
    let state = state(&play);
    play.told.clear();
    play.run("bob: tools/call {\"content\":[]}");
    assert_snapshot!(play.act(&format!(
        r#"ask 2 tools/call {{"name":"bob__t","requestState":{state},"inputResponses":{{"req_4":{{"roots":[]}}}}}}"#
    )), @r#"
    ⇒ bob re e3 {"id":1,"result":{"roots":[]}}
    ← {"id":2,"result":{"content":[],"resultType":"complete","_meta":{"/serverInfo":{"name":"s","version":"1"}}}}
    "#);
}

#[test]
fn a_question_that_names_no_call_is_put_though_the_call_is_over() {
    let mut play = asked();
    play.run("ask 1 tools/call {\"name\":\"bob__t\"}\nbob? 1 @- roots/list\nbob: tools/call {\"content\":[]}\ntick 30");
    let state = state(&play);
    assert_snapshot!(play.act(&format!(
        r#"ask 2 tools/call {{"name":"bob__t","requestState":{state},"inputResponses":{{"req_4":{{"roots":[]}}}}}}"#
    )), @r#"
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t"}}
    ← {"id":1,"result":{"resultType":"input_required","inputRequests":{"req_4":{"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}},"requestState":"salon.07070707070707070707070707070707.5"}}
    ⇒ bob re e3 {"id":1,"result":{"roots":[]}}
    ← {"id":2,"result":{"content":[],"resultType":"complete","_meta":{"/serverInfo":{"name":"s","version":"1"}}}}
    "#);
}

#[test]
fn who_does_not_come_back_has_its_call_cancelled() {
    let mut play = asked();
    play.run("ask 1 tools/call {\"name\":\"bob__t\"}\nbob? 1 @tools/call roots/list\ntick 30");
    let state = state(&play);
    play.told.clear();
    play.run("tick 599999\nmark almost\ntick 1");
    play.run(&format!("ask 2 tools/call {{\"name\":\"bob__t\",\"requestState\":{state}}}"));
    assert_snapshot!(play.act("ask 3 tools/call {\"name\":\"bob__t\",\"requestState\":\"salon.0.1\"}"), @r#"
    · almost
    ⇒ bob re e3 {"id":1,"error":{"code":-32603,"message":"the call that this was asked with is over"}}
    ⇒ bob re s-4 {"method":"notifications/cancelled","params":{"requestId":"s-4","reason":"the client did not come back with answers"}}
    ← {"id":2,"error":{"code":-32602,"message":"`requestState` names no request that waits for answers here: it was answered before, took too long, or the gateway was restarted"}}
    ← {"id":3,"error":{"code":-32602,"message":"`requestState` names no request that waits for answers here: it was answered before, took too long, or the gateway was restarted"}}
    "#);
    let mut play = asked();
    play.run("ask 1 tools/call {\"name\":\"bob__t\"}\nbob? 1 @tools/call roots/list\ntick 30\nbob: tools/call {}");
    play.told.clear();
    assert_snapshot!(play.act("tick 600000"), @r#"⇒ bob re e3 {"id":1,"error":{"code":-32603,"message":"the call that this was asked with is over"}}"#);
}

#[test]
fn a_question_that_is_withdrawn_is_not_put() {
    let mut play = asked();
    play.run("ask 1 tools/call {\"name\":\"bob__t\"}\nbob? 1 @tools/call roots/list\nbob! @tools/call notifications/cancelled {\"requestId\":1}\ntick 30");
    assert_snapshot!(play.act("bob: tools/call {\"content\":[]}"), @r#"
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t"}}
    ← {"id":1,"result":{"content":[],"resultType":"complete","_meta":{"/serverInfo":{"name":"s","version":"1"}}}}
    "#);
    let mut play = asked();
    play.run("ask 1 tools/call {\"name\":\"bob__t\"}\nbob? 1 @tools/call roots/list\nbob: tools/call {\"content\":[]}");
    assert_snapshot!(play.act("tick 30"), @r#"
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t"}}
    ⇒ bob re e3 {"id":1,"error":{"code":-32603,"message":"the call that this was asked with is over"}}
    ← {"id":1,"result":{"content":[],"resultType":"complete","_meta":{"/serverInfo":{"name":"s","version":"1"}}}}
    "#);
}

#[test]
fn who_cannot_be_asked_is_not() {
    let mut play = asked();
    play.capabilities = "{}".into();
    let script = format!(
        r#"bob? 1 @- roots/list
        ask 1 tools/call {{"name":"bob__t"}}
        bob: initialize {SERVER}
        bob? 2 @tools/call roots/list
        carol? 3 @tools/call roots/list"#
    );
    assert_snapshot!(play.act(&script.replace("carol? 3 @tools/call", "carol? 3 @=s-5")), @r#"
    ⇒ bob re e3 {"id":1,"error":{"code":-32601,"message":"`alice` can be asked only by participants that it calls"}}
    ⇒ bob {"id":"s-5","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-7","method":"tools/call","params":{"name":"t"}}
    ⇒ bob re e5 {"id":2,"error":{"code":-32601,"message":"the client of `alice` does not offer `roots/list`"}}
    ⇒ carol re e6 {"id":3,"error":{"code":-32601,"message":"`alice` can be asked only by participants that it calls"}}
    "#);
}

#[test]
fn pages_to_be_opened_are_a_question_too() {
    let mut play = asked();
    play.run(
        r#"ask 1 tools/call {"name":"bob__t","arguments":{"a":1}}
        bob: tools/call error {"code":-32042,"message":"open","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://a.example","message":"m"}]}}"#,
    );
    let state = state(&play);
    play.run(&format!(
        r#"ask 2 tools/call {{"name":"bob__t","arguments":{{"a":1}},"requestState":{state},"inputResponses":{{"req_1":{{"action":"accept"}}}}}}
        bob: tools/call {{"content":[]}}"#
    ));
    assert_snapshot!(play.act(""), @r#"
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t","arguments":{"a":1}}}
    ← {"id":1,"result":{"resultType":"input_required","inputRequests":{"req_1":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example","message":"bob asks: m","_meta":{"salon/askedBy":"bob"}}}},"requestState":"salon.07070707070707070707070707070707.4"}}
    ⇒ bob {"id":"s-5","method":"tools/call","params":{"name":"t","arguments":{"a":1}}}
    ← {"id":2,"result":{"content":[],"resultType":"complete","_meta":{"/serverInfo":{"name":"s","version":"1"}}}}
    "#);
}

#[test]
fn a_hang_up_while_asked_takes_the_call_back() {
    let mut play = Play::new(DoorScope::Room, "bob", |_| {});
    play.capabilities = ASKABLE.into();
    let play = play.after(
        r#"1 ask 0 tools/list
        seat
        bob: tools/list {"tools":[{"name":"t"}]}
        settle
        2 ask 1 tools/call {"name":"bob__t"}
        settle"#,
    );
    assert_snapshot!(play.act("bob? 1 @tools/call roots/list\nhangup 2\ntick 30"), @r#"
    ⇒ bob re e3 {"id":1,"error":{"code":-32603,"message":"the call that this was asked with is over"}}
    ⇒ bob re s-3 {"method":"notifications/cancelled","params":{"requestId":"s-3"}}
    "#);
}

const MODERN: &str = "bob/2026-07-28";

fn legacy_of_modern(capabilities: &str) -> Play {
    Play::introduced(DoorScope::Room, MODERN, "2025-11-25", capabilities)
}

#[test]
fn a_modern_participants_wishes_are_put_to_a_legacy_client() {
    let script = r#"
        call 1 tools/call {"name":"bob__t","arguments":{"n": 12345678901234567890},"_meta":{"progressToken":7},"task":{}}
        bob: tools/call {"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","url":"u"}},"b":{"method":"sampling/createMessage","params":{"n": 1}}},"requestState":"s\u0031"}
        reply @sampling/createMessage {"text":"hi","n": 12345678901234567890}
        reply @elicitation/create error {"code":-1,"message":"no"}
        bob! @- notifications/progress {"progressToken":"s-2","progress":1}
        bob: tools/call {"resultType":"input_required","requestState":"t"}
        tick 999
        mark again
        tick 1
        bob: tools/call {"resultType":"complete","content":[],"structuredContent":[1],"n": 12345678901234567890,"_meta":{"io.modelcontextprotocol/serverInfo":{},"v":1.0}}
    "#;
    assert_snapshot!(legacy_of_modern(ASKABLE).act(script), @r#"
    ⇒ bob {"id":"s-1","method":"tools/call","params":{"name":"t","arguments":{"n": 12345678901234567890},"_meta":{"progressToken":"s-1","/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{"sampling":{},"elicitation":{},"roots":{}}}}}
    ← {"id":2,"method":"elicitation/create","params":{"mode":"url","url":"u","elicitationId":"alice-1-0","_meta":{"salon/askedBy":"bob"}}}
    ← {"id":3,"method":"sampling/createMessage","params":{"n":1,"_meta":{"salon/askedBy":"bob"}}}
    ⇒ bob {"id":"s-2","method":"tools/call","params":{"name":"t","arguments":{"n": 12345678901234567890},"_meta":{"progressToken":"s-2","/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{"sampling":{},"elicitation":{},"roots":{}}},"inputResponses":{"b":{"text":"hi","n": 12345678901234567890},"a":{"action":"cancel"}},"requestState":"s\u0031"}}
    ← {"method":"notifications/progress","params":{"progressToken":7,"progress":1}}
    · again
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t","arguments":{"n": 12345678901234567890},"_meta":{"progressToken":"s-3","/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{"sampling":{},"elicitation":{},"roots":{}}},"requestState":"t"}}
    ← {"method":"notifications/elicitation/complete","params":{"elicitationId":"alice-1-0"}}
    ← {"id":1,"result":{"content":[],"n":12345678901234567890,"_meta":{"v":1.0}}}
    "#);
}

#[test]
fn a_wish_that_is_refused_fails_the_call_unless_it_is_a_persons_to_refuse() {
    let script = r#"
        call 1 tools/call {"name":"bob__t"}
        bob: tools/call {"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"sampling/createMessage"}}}
        reply @roots/list error {"code":-1,"message":"no"}
        reply @sampling/createMessage {}
        call 2 tools/call {"name":"bob__t"}
        bob: tools/call {"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}
        tell notifications/cancelled {"requestId":2}
        reply @roots/list {}
    "#;
    assert_snapshot!(legacy_of_modern(ASKABLE).act(script), @r#"
    ⇒ bob {"id":"s-1","method":"tools/call","params":{"name":"t","_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{"sampling":{},"elicitation":{},"roots":{}}}}}
    ← {"id":2,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    ← {"id":3,"method":"sampling/createMessage","params":{"_meta":{"salon/askedBy":"bob"}}}
    ← {"method":"notifications/cancelled","params":{"requestId":3}}
    ← {"id":1,"error":{"code":-1,"message":"no"}}
    ⇒ bob {"id":"s-2","method":"tools/call","params":{"name":"t","_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{"sampling":{},"elicitation":{},"roots":{}}}}}
    ← {"id":5,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    ← {"method":"notifications/cancelled","params":{"requestId":5}}
    "#);
    let mut again = r#"call 1 tools/call {"name":"bob__t"}"#.to_owned();
    for _ in 0..10 {
        again.push_str("\nbob: tools/call {\"resultType\":\"input_required\",\"inputRequests\":{\"a\":{\"method\":\"roots/list\"}}}\nreply @roots/list {}");
    }
    again.push_str(
        "\nbob: tools/call {\"resultType\":\"input_required\",\"inputRequests\":{\"a\":{\"method\":\"roots/list\"}}}",
    );
    assert_snapshot!(legacy_of_modern(ASKABLE).act(&again).lines().last().unwrap(), @r#"← {"id":1,"error":{"code":-32603,"message":"`bob` asked back too often"}}"#);
}

#[test]
fn pages_to_be_opened_take_the_place_of_other_questions() {
    let pages =
        r#"error {"code":-32042,"message":"open","data":{"elicitations":[{"mode":"url","url":"https://a.example"}]}}"#;
    let mut play = asked();
    play.run(&format!(
        "ask 1 tools/call {{\"name\":\"bob__t\"}}\nbob? 1 @tools/call roots/list\nbob: tools/call {pages}\ntick 30"
    ));
    assert_snapshot!(play.act(""), @r#"
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t"}}
    ⇒ bob re e3 {"id":1,"error":{"code":-32603,"message":"the call that this was asked with is over"}}
    ← {"id":1,"result":{"resultType":"input_required","inputRequests":{"req_1":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example","_meta":{"salon/askedBy":"bob"}}}},"requestState":"salon.07070707070707070707070707070707.5"}}
    "#);
    let mut play = asked();
    play.run(&format!(
        "ask 1 tools/call {{\"name\":\"bob__t\"}}\nbob? 1 @tools/call roots/list\ntick 30\nbob: tools/call {pages}"
    ));
    let state = state(&play);
    play.told.clear();
    play.run(&format!("ask 2 tools/call {{\"name\":\"bob__t\",\"requestState\":{state}}}\nbob: tools/call {pages}"));
    assert_snapshot!(play.act(""), @r#"
    ⇒ bob {"id":"s-6","method":"tools/call","params":{"name":"t"}}
    ← {"id":2,"result":{"resultType":"input_required","inputRequests":{"req_1":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example","_meta":{"salon/askedBy":"bob"}}}},"requestState":"salon.07070707070707070707070707070707.6"}}
    "#);
}

#[test]
fn a_state_of_another_gateway_is_its_own() {
    let mut play = Play::duplex(DoorScope::Room, "bob/2026-07-28 carol");
    play.offers = vec![
        ("bob", "tools/list", r#"{"tools":[{"name":"t"}]}"#),
        ("carol", "tools/list", r#"{"tools":[{"name":"u"}]}"#),
    ];
    let play = play.after("ask 0 tools/list\nseat\nsettle");
    let state = r#""requestState":"salon.00112233445566778899aabbccddeeff.5","inputResponses":{"req_1":{}}"#;
    let ours = r#""requestState":"salon.07070707070707070707070707070707.5""#;
    let script = format!(
        r#"ask 1 tools/call {{"name":"bob__t",{state}}}
        mark one of the legacy era never gave any
        ask 2 tools/call {{"name":"carol__u",{state}}}
        mark one of ours that is over
        ask 3 tools/call {{"name":"bob__t",{ours}}}"#
    );
    assert_snapshot!(play.act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"tools/call","params":{"name":"t","requestState":"salon.00112233445566778899aabbccddeeff.5","inputResponses":{"req_1":{}},"_meta":{…,"/clientCapabilities":{}}}}
    · one of the legacy era never gave any
    ← {"id":2,"error":{"code":-32602,"message":"`requestState` names no request that waits for answers here: it was answered before, took too long, or the gateway was restarted"}}
    · one of ours that is over
    ← {"id":3,"error":{"code":-32602,"message":"`requestState` names no request that waits for answers here: it was answered before, took too long, or the gateway was restarted"}}
    "#);
}

#[test]
fn a_legacy_client_is_asked_only_what_it_offers() {
    let of = |capabilities: &str, wanted: &str| {
        let play = Play::introduced(DoorScope::Room, "bob/2026-07-28", "2025-11-25", capabilities);
        play.after("call 1 tools/call {\"name\":\"bob__t\"}").act(&format!(
            "bob: tools/call {{\"resultType\":\"input_required\",\"inputRequests\":{{{wanted}}}}}\ntick 1000"
        ))
    };
    // A person who cannot be asked has declined.
    assert_snapshot!(of("{}", r#""a":{"method":"elicitation/create","params":{"message":"?"}}"#), @r#"⇒ bob {"id":"s-2","method":"tools/call","params":{"name":"t","inputResponses":{"a":{"action":"decline"}},"_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{}}}}"#);
    assert_snapshot!(of(r#"{"elicitation":{}}"#, r#""a":{"method":"elicitation/create","params":{"message":"?"}}"#), @r#"← {"id":2,"method":"elicitation/create","params":{"message":"bob asks: ?","_meta":{"salon/askedBy":"bob"}}}"#);
    // The rest has no answer but the client's own, and nothing is asked in vain.
    assert_snapshot!(of(r#"{"elicitation":{}}"#, r#""a":{"method":"elicitation/create","params":{}},"b":{"method":"sampling/createMessage"}"#), @r#"← {"id":1,"error":{"code":-32603,"message":"`bob` cannot go on without `sampling/createMessage`, which the client does not offer"}}"#);
    assert_snapshot!(of(r#"{"sampling":{}}"#, r#""a":{"method":"roots/list"}"#), @r#"← {"id":1,"error":{"code":-32603,"message":"`bob` cannot go on without `roots/list`, which the client does not offer"}}"#);
    assert_snapshot!(of(ASKABLE, r#""a":{"method":"sampling/evil"}"#), @r#"← {"id":1,"error":{"code":-32603,"message":"`bob` cannot go on without `sampling/evil`, which the client does not offer"}}"#);
    assert_snapshot!(of(r#"{"evil":{}}"#, r#""a":{"method":"evil/method"}"#), @r#"← {"id":1,"error":{"code":-32603,"message":"`bob` cannot go on without `evil/method`, which the client does not offer"}}"#);
}

#[test]
fn a_modern_client_that_opens_no_pages_is_not_asked_to() {
    let play = Play::duplex(DoorScope::Room, "bob").after("ask 1 tools/call {\"name\":\"bob__t\"}\nseat\nsettle");
    let script = r#"bob: tools/call error {"code":-32042,"message":"open","data":{"elicitations":[{"mode":"url","url":"https://a.example","message":"m"}]}}"#;
    assert_snapshot!(play.act(script), @r#"← {"id":1,"error":{"code":-32021,"message":"`bob` wants a page to be opened first, and the client does not offer `elicitation/create`","data":{"requiredCapabilities":{"elicitation":{"url":{}}}}}}"#);
}

#[test]
fn of_a_call_that_is_dead_nothing_more_is_asked() {
    let play = Play::new(DoorScope::Room, "bob/2026-07-28", |_| {}).after(&format!(
        r#"1 call 0 initialize {{"protocolVersion":"2025-06-18","capabilities":{ASKABLE}}}
        seat
        2 call 1 tools/call {{"name":"bob__t"}}
        hangup 2"#
    ));
    let script = r#"
        bob: tools/call {"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"elicitation/create","params":{"message":"?"}}},"requestState":"x"}
        get 3
        tick 700000
    "#;
    let mut play = play;
    play.run(script);
    assert_eq!(play.door.questions.all().len(), 0, "a question outlives its call");
    assert_snapshot!(play.act(""), @"begin 3 200 events");
}
