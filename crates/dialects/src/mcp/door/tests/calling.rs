//! From the client to the others.

use super::*;

#[test]
fn a_tool_is_called_by_its_listed_name_or_by_its_own_while_nobody_else_has_it() {
    let script = r#"
        call 1 tools/call {"name":"bob__t","arguments":{"n": 12345678901234567890},"vendor":{"a": 1.0}}
        call 2 tools/call {"name":"u"}
        call 3 tools/call {"name":"same"}
        call 4 tools/call {"name":"nothing"}
        call 5 tools/call {"name":"bob__nothing"}
        call 6 tools/call {"name":"dave__t"}
        call 7 tools/call {"name":"chat_say","arguments":{}}
        call 8 tools/call {"name":"chat.say"}
        call 9 tools/call {"name":7}
        call 10 tools/call
        call 11 tasks/list
        bob: tools/call {"content":[ {"type":"text","text":"a\u0062"} ],"n": 12345678901234567890,"_meta":{"v":1e3}}
        carol: tools/call error {"code":-7,"message":"no","data":{"n":12345678901234567890},"more":1.0}
    "#;
    assert_snapshot!(room().act(script), @r#"
    ⇒ bob {"id":"s-7","method":"tools/call","params":{"name":"t","arguments":{"n": 12345678901234567890},"vendor":{"a": 1.0}}}
    ⇒ carol {"id":"s-8","method":"tools/call","params":{"name":"u"}}
    ← {"id":3,"error":{"code":-32602,"message":"`same` is offered by `bob`, `carol`; name the one you mean: `owner__same`"}}
    ← {"id":4,"error":{"code":-32602,"message":"nobody here offers a tool `nothing`"}}
    ⇒ bob {"id":"s-9","method":"tools/call","params":{"name":"nothing"}}
    ← {"id":6,"error":{"code":-32602,"message":"nobody here offers a tool `dave__t`"}}
    ⇒ system:gateway {"id":"s-10","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"},"_meta":{"salon/door":"mcp"}}}
    ← {"id":9,"error":{"code":-32602,"message":"`name` must be a string"}}
    ← {"id":10,"error":{"code":-32602,"message":"`name` must be a string"}}
    ← {"id":11,"error":{"code":-32601,"message":"the method `tasks/list` is not offered here"}}
    ← {"id":1,"result":{"content":[ {"type":"text","text":"a\u0062"} ],"n": 12345678901234567890,"_meta":{"v":1e3}}}
    ← {"id":2,"error":{"code":-7,"message":"no","data":{"n":12345678901234567890},"more":1.0}}
    "#);
}

#[test]
fn a_tool_is_called_before_any_list() {
    let play = Play::introduced(DoorScope::Room, "bob carol", "2025-06-18", "{}");
    let script = format!(
        r#"call 1 tools/call {{"name":"bob__t"}}
        bob: initialize {SERVER}
        bob: tools/call {{"content":[]}}
        call 2 tools/call {{"name":"u"}}
        bob: tools/list {{"tools":[{{"name":"t"}}]}}
        carol: tools/list {{"tools":[{{"name":"u"}}]}}
        tick 3000
        carol: initialize {SERVER}
        carol: tools/call {{"content":[1]}}
        call 3 tools/call {{"name":"v"}}"#
    );
    assert_snapshot!(play.act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t"}}
    ← {"id":1,"result":{"content":[]}}
    consult bob tools/list
    consult carol tools/list
    consult system:gateway tools/list
    ⇒ carol {"id":"s-4","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ carol {"method":"notifications/initialized"}
    ⇒ carol {"id":"s-6","method":"tools/call","params":{"name":"u"}}
    ← {"id":2,"result":{"content":[1]}}
    ← {"id":3,"error":{"code":-32602,"message":"nobody here offers a tool `v`"}}
    "#);
}

#[test]
fn ids_and_progress_tokens_are_the_doors_own() {
    let mut play = room();
    play.run(
        r#"call "1" tools/call {"name":"bob__t","_meta":{"progressToken":1,"keep":2}}
        call 1 tools/call {"name":"carol__u","_meta":{"progressToken":"1"}}"#,
    );
    let ids: Vec<_> = play.open.iter().filter_map(|open| open.id.clone()).collect();
    let script = format!(
        r#"bob! @tools/call notifications/progress {{"progressToken":"@","progress":1e0,"message":"m","x":1}}
        carol! @={bobs} notifications/progress {{"progressToken":"@","progress":2}}
        carol! @tools/call notifications/progress {{"progressToken":"@","progress":3}}
        carol! @tools/call notifications/progress {{"progressToken":1,"progress":4}}
        carol: tools/call {{"content":[]}}
        carol! @={carols} notifications/progress {{"progressToken":"@","progress":5}}
        bob: tools/call {{"content":[]}}"#,
        bobs = ids[0],
        carols = ids[1]
    );
    assert_snapshot!(play.act(&script), @r#"
    ⇒ bob {"id":"s-7","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"s-7","keep":2}}}
    ⇒ carol {"id":"s-8","method":"tools/call","params":{"name":"u","_meta":{"progressToken":"s-8"}}}
    ← {"method":"notifications/progress","params":{"progressToken":1,"progress":1e0,"message":"m","x":1}}
    ← {"method":"notifications/progress","params":{"progressToken":"1","progress":3}}
    ← {"id":1,"result":{"content":[]}}
    ← {"id":"1","result":{"content":[]}}
    "#);
}

#[test]
fn only_whom_it_was_asked_of_answers_a_call() {
    let mut play = room().after(r#"call 1 tools/call {"name":"bob__t"}"#);
    let open = play.open[0].id.clone().unwrap();
    play.entry("carol", Kind::Mcp, Some(&open), &format!(r#"{{"jsonrpc":"2.0","id":"{open}","result":"forged"}}"#));
    assert_eq!(play.told, "");
    assert_snapshot!(play.act("bob: tools/call {}"), @r#"← {"id":1,"result":{}}"#);
}

#[test]
fn a_call_is_cancelled_both_ways() {
    let script = r#"
        call 1 tools/call {"name":"bob__t"}
        call "1" tools/call {"name":"carol__u"}
        tell notifications/cancelled {"requestId":1,"reason":"changed my mind","x":1}
        tell notifications/cancelled {"requestId":1}
        tell notifications/cancelled {"requestId":7}
        tell notifications/cancelled {}
        bob: tools/call {"content":[]}
        carol: tools/call {"content":[]}
    "#;
    assert_snapshot!(room().act(script), @r#"
    ⇒ bob {"id":"s-7","method":"tools/call","params":{"name":"t"}}
    ⇒ carol {"id":"s-8","method":"tools/call","params":{"name":"u"}}
    ⇒ bob re s-7 {"method":"notifications/cancelled","params":{"requestId":"s-7","reason":"changed my mind"}}
    ← {"id":"1","result":{"content":[]}}
    "#);
    let waits = Play::introduced(DoorScope::Room, "bob", "2025-06-18", "{}");
    let script = format!(
        r#"call 1 tools/call {{"name":"bob__t"}}
        tell notifications/cancelled {{"requestId":1}}
        bob: initialize {SERVER}"#
    );
    assert_snapshot!(waits.act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    "#);
}

#[test]
fn a_call_fails_when_whom_it_asks_goes_or_is_not_there() {
    let script = r#"
        call 1 tools/call {"name":"bob__t"}
        leave bob
        gone bob tools/call
        call 2 tools/call {"name":"bob__t"}
        call 3 tools/call {"name":"carol__u"}
        refuse tools/call recipient_not_found
        call 4 tools/call {"name":"carol__u"}
        refuse tools/call rate_limited
    "#;
    assert_snapshot!(room().act(script), @r#"
    ⇒ bob {"id":"s-7","method":"tools/call","params":{"name":"t"}}
    ← {"id":1,"error":{"code":-32000,"message":"`bob` left before it answered","data":{"code":"recipient_not_found"}}}
    ← {"id":2,"error":{"code":-32602,"message":"nobody here offers a tool `bob__t`"}}
    ⇒ carol {"id":"s-8","method":"tools/call","params":{"name":"u"}}
    ← {"id":3,"error":{"code":-32000,"message":"refused: recipient_not_found","data":{"code":"recipient_not_found"}}}
    ⇒ carol {"id":"s-9","method":"tools/call","params":{"name":"u"}}
    ← {"id":4,"error":{"code":-32000,"message":"refused: rate_limited","data":{"code":"rate_limited"}}}
    "#);
}

#[test]
fn a_call_that_waits_for_a_handshake_fails_with_it() {
    let of = |script: &str| {
        let play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", "{}");
        play.act(&format!("call 1 tools/call {{\"name\":\"bob__t\"}}\n{script}"))
    };
    assert_snapshot!(of("bob: initialize error {\"code\":-5,\"message\":\"not now\"}\ncall 2 tools/call {\"name\":\"bob__t\"}"), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ← {"id":1,"error":{"code":-5,"message":"not now"}}
    ← {"id":2,"error":{"code":-5,"message":"not now"}}
    "#);
    assert_snapshot!(of("leave bob\ngone bob initialize"), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ← {"id":1,"error":{"code":-32000,"message":"`bob` is not in the room room:a","data":{"code":"recipient_not_found"}}}
    "#);
    assert_snapshot!(of("tick 120000"), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ← {"id":1,"error":{"code":-32603,"message":"`bob` did not answer in time"}}
    "#);
    assert_snapshot!(of(&format!("join bob\nbob: initialize error {{}}\nbob: initialize {SERVER}")), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    consult bob tools/list
    consult bob prompts/list
    consult bob resources/list
    consult bob resources/templates/list
    ⇒ bob {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t"}}
    "#);
}

#[test]
fn what_the_door_asks_for_itself_is_tried_again_when_the_room_has_had_too_much() {
    let mut play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", ASKABLE);
    play.offers = vec![("bob", "tools/list", r#"{"tools":[{"name":"t"}]}"#)];
    let play = play.after("call 0 tools/list\nsettle");
    let script = format!(
        r#"call 1 tools/call {{"name":"bob__t"}}
        refuse initialize rate_limited
        tick 249
        mark almost
        tick 1
        bob: initialize {SERVER}
        refuse tools/list rate_limited
        tick 250
        refuse tools/list internal
        call 2 tools/list"#
    );
    assert_snapshot!(play.act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":{},"elicitation":{},"roots":{}},"clientInfo":{"name":"c","version":"1"}}}
    · almost
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":{},"elicitation":{},"roots":{}},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t"}}
    ⇒ bob {"id":"s-4","method":"tools/list"}
    ⇒ bob {"id":"s-4","method":"tools/list"}
    ← {"id":2,"result":{"tools":[{"name":"bob__t"}]}}
    "#);
}

#[test]
fn what_is_more_than_the_room_takes_is_refused() {
    let mut play = room();
    play.door.outbox.limits.message = 400;
    assert_snapshot!(play.act(&format!(r#"call 1 tools/call {{"name":"bob__t","arguments":"{}"}}"#, "x".repeat(400))), @r#"← {"id":1,"error":{"code":-32000,"message":"the message has 624 bytes; the limit is 400 (`limits.message`)","data":{"code":"too_large"}}}"#);
    let mut play = room();
    play.door.outbox.limits.depth = 8;
    assert_snapshot!(play.act(r#"call 1 tools/call {"name":"bob__t","arguments":[[[[[[[[]]]]]]]]}"#), @r#"← {"id":1,"error":{"code":-32000,"message":"the message was refused: it is nested deeper than 8 levels","data":{"code":"too_deep"}}}"#);
}

#[test]
fn only_so_many_requests_are_open_at_once() {
    let mut play = room();
    for number in 0..MAX_CALLS {
        play.line(&format!(r#"call {number} tools/call {{"name":"bob__t"}}"#));
    }
    play.told.clear();
    assert_snapshot!(play.act(r#"
        call 999 tools/call {"name":"bob__t"}
        bob: tools/call {}
        call 1000 tools/call {"name":"bob__t"}"#), @r#"
        ← {"id":999,"error":{"code":-32603,"message":"256 requests of yours are open already; wait for an answer","data":{"code":"rate_limited"}}}
        ← {"id":0,"result":{}}
        ⇒ bob {"id":"s-263","method":"tools/call","params":{"name":"t"}}
        "#);
}

#[test]
fn a_hole_in_the_room_ends_the_session() {
    assert_snapshot!(room().act("call 1 tools/call {\"name\":\"bob__t\"}\ngap"), @r#"
    ⇒ bob {"id":"s-7","method":"tools/call","params":{"name":"t"}}
    ⇒ bob re s-7 {"method":"notifications/cancelled","params":{"requestId":"s-7","reason":"the session of the client has ended"}}
    ← {"id":1,"error":{"code":-32000,"message":"messages of the room that concern you are no longer kept"}}
    close bye
    "#);
}

#[test]
fn who_is_silent_for_too_long_is_given_up_and_who_gets_on_is_not() {
    let script = r#"
        call 1 tools/call {"name":"bob__t","_meta":{"progressToken":1}}
        tick 599999
        bob! @tools/call notifications/progress {"progressToken":"s-7","progress":1}
        tick 599999
        mark almost
        tick 1
    "#;
    assert_snapshot!(room().act(script), @r#"
    ⇒ bob {"id":"s-7","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"s-7"}}}
    ← {"method":"notifications/progress","params":{"progressToken":1,"progress":1}}
    · almost
    ⇒ bob re s-7 {"method":"notifications/cancelled","params":{"requestId":"s-7"}}
    ← {"id":1,"error":{"code":-32603,"message":"`bob` did not answer in time","data":{"code":"timeout"}}}
    "#);
}

#[test]
fn a_held_call_waits_for_its_approval_and_then_for_its_answer() {
    let mut play = room();
    play.run(r#"call 1 tools/call {"name":"bob__t"}"#);
    let call = play.published.last().map(|(_, envelope)| envelope.id().to_string()).expect("the call");
    play.run(&format!("held {call}\ntick 86400000"));
    play.told.clear();
    // One of two approvals is none.
    let decided = r#"{"jsonrpc":"2.0","method":"notifications/approval/decided","params":{"decision":"approved"}}"#;
    play.entry_to(&[], "system:gateway", Kind::Mcp, Some(&call), decided);
    play.run(&format!("tick 86400000\nstored {call}\ntick 599999"));
    assert_snapshot!(play.told, @"");
    play.run("tick 1");
    assert_eq!(play.told.lines().filter(|line| line.contains(r#""id":1,"error""#)).count(), 1, "{}", play.told);
    assert_eq!(play.told.lines().filter(|line| line.contains("notifications/cancelled")).count(), 1, "{}", play.told);
}

#[test]
fn what_the_host_has_waits_for_nobody() {
    let play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", "{}");
    let script = r#"
        call 1 tools/call {"name":"presence_get"}
        system:gateway: tools/list {"tools":[{"name":"presence.get"}]}
        mark called without waiting for bob's list
    "#;
    assert_snapshot!(play.act(script), @r#"
    consult bob tools/list
    consult system:gateway tools/list
    ⇒ system:gateway {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"},"_meta":{"salon/door":"mcp"}}}
    · called without waiting for bob's list
    "#);
}

#[test]
fn the_end_is_said() {
    assert_snapshot!(room().act("call 1 tools/call {\"name\":\"bob__t\"}\nclosing"), @r#"
    ⇒ bob {"id":"s-7","method":"tools/call","params":{"name":"t"}}
    ⇒ bob re s-7 {"method":"notifications/cancelled","params":{"requestId":"s-7","reason":"the session of the client has ended"}}
    ← {"id":1,"error":{"code":-32000,"message":"the gateway is shutting down; connect again and resume"}}
    close shutdown
    "#);
}

#[test]
fn prompts_and_completion_go_to_their_owners() {
    let mut play = Play::introduced(DoorScope::Room, "bob carol", "2025-06-18", "{}");
    play.offers = vec![
        ("bob", "prompts/list", r#"{"prompts":[{"name":"p"}]}"#),
        ("carol", "prompts/list", r#"{"prompts":[{"name":"p"},{"name":"q"}]}"#),
    ];
    let play = play.after("call 0 prompts/list\nsettle");
    let script = r#"
        call 1 prompts/get {"name":"bob__p","arguments":{"a":"1"}}
        call 2 prompts/get {"name":"q"}
        call 3 prompts/get {"name":"p"}
        call 4 completion/complete {"ref":{"type":"ref/prompt","name":"carol__p","x":1},"argument":{"name":"a","value":"1"},"context":{}}
        call 5 completion/complete {"ref":{"type":"ref/tool","name":"carol__p"}}
        settle
        carol: prompts/get {"messages":[]}
        carol: completion/complete {"completion":{"values":[{"value":"a","n":1.0}]}}
    "#;
    assert_snapshot!(play.act(script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ carol {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ← {"id":3,"error":{"code":-32602,"message":"`p` is offered by `bob`, `carol`; name the one you mean: `owner__p`"}}
    ← {"id":5,"error":{"code":-32602,"message":"`ref` must be a `ref/prompt` with a `name` or a `ref/resource` with a `uri`"}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-4","method":"prompts/get","params":{"name":"p","arguments":{"a":"1"}}}
    ⇒ carol {"method":"notifications/initialized"}
    ⇒ carol {"id":"s-6","method":"prompts/get","params":{"name":"q"}}
    ⇒ carol {"id":"s-7","method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p","x":1},"argument":{"name":"a","value":"1"},"context":{}}}
    ← {"id":2,"result":{"messages":[]}}
    ← {"id":4,"result":{"completion":{"values":[{"value":"a","n":1.0}]}}}
    "#);
    let older = Play::introduced(DoorScope::Room, "bob", "2024-11-05", "{}");
    let script = format!(
        r#"call 1 prompts/get {{"name":"bob__p"}}
        bob: initialize {SERVER}
        bob: prompts/get {{"messages":[{{"role":"user","content":{{"type":"resource_link","uri":"u","name":"n"}}}}]}}"#
    );
    assert_snapshot!(older.act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"prompts/get","params":{"name":"p"}}
    ← {"id":1,"result":{"messages":[{"role":"user","content":{"type":"text","text":"n <u>"}}]}}
    "#);
}

#[test]
fn a_name_that_looks_like_anothers_is_nobody_elses() {
    let mut play = Play::introduced(DoorScope::Room, "mallory", "2025-06-18", "{}");
    play.offers = vec![("mallory", "tools/list", r#"{"tools":[{"name":"bob__pay"},{"name":"plain"}]}"#)];
    let play = play.after("call 0 tools/list\nsettle");
    let script = r#"
        call 1 tools/call {"name":"bob__pay"}
        call 2 tools/call {"name":"mallory__bob__pay"}
    "#;
    assert_snapshot!(play.act(script), @r#"
    ← {"id":1,"error":{"code":-32602,"message":"nobody here offers a tool `bob__pay`"}}
    ⇒ mallory {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    "#);
}
