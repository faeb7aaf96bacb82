//! A client of the dialect over a WebSocket, over HTTP and over HTTP+SSE.

use super::*;

#[test]
fn the_room_introduces_itself_in_the_dialect() {
    let told = Play::duplex("bob").act(&format!("call 1 initialize {HELLO}\nseat\ntell initialized {{}}"));
    let (before, instructions) = told.split_once(r#","instructions":"You are `alice`"#).unwrap();
    assert!(instructions.ends_with("\"}}\n"), "{instructions}");
    assert_snapshot!(before, @r#"
    join -
    ← {"id":1,"result":{"server":{"name":"salon","title":"Salon: room:a","version":"9"},"serverCapabilities":{"supportsToolDiscovery":true,"supportsResourceDiscovery":true,"supportsNotifications":true}
    "#);
}

#[test]
fn lists_are_told_whole_and_differences_after_them() {
    let script = r#"call 1 tools/list
        bob: tools/list {"tools":[{"name":"t","n":12345678901234567890},{"name":"u","description":"old"}]}
        mark a tool comes, one goes, one is another
        bob* notifications/tools/list_changed
        bob: tools/list {"tools":[{"name":"v"},{"name":"u","description":"new"}]}
        tick 60
        mark nothing is different
        bob* notifications/tools/list_changed
        bob: tools/list {"tools":[{"name":"v"},{"name":"u","description":"new"}]}
        tick 60
        mark all of bob's go
        leave bob
        tick 60"#;
    assert_snapshot!(Play::greeted(HELLO).act(script), @r#"
    ← {"id":1,"result":[{"name":"bob__t","n":12345678901234567890},{"name":"bob__u","description":"old"}]}
    · a tool comes, one goes, one is another
    ← {"method":"tools/changed","params":{"added":[{"name":"bob__v"},{"name":"bob__u","description":"new"}],"removed":["bob__t"]}}
    · nothing is different
    · all of bob's go
    ← {"method":"tools/changed","params":{"added":[],"removed":["bob__u","bob__v"]}}
    "#);
}

#[test]
fn resources_are_told_of_by_their_uris() {
    let script = r#"call 1 resources/list
        bob: resources/list {"resources":[{"uri":"a:1","name":"x"},{"uri":"a:2","name":"y"}]}
        bob* notifications/resources/list_changed
        bob: resources/list {"resources":[{"uri":"a:1","name":"z"},{"uri":"a:3","name":"y"}]}
        tick 60
        call 2 resources/subscribe {"uri":"a:1"}
        settle
        bob: resources/subscribe {}
        bob! notifications/resources/updated {"uri":"a:1"}
        call 3 resources/read {"uri":"a:1"}
        bob: resources/read {"contents":[{"uri":"a:1","text":"as MCP says it"}]}"#;
    assert_snapshot!(Play::greeted(HELLO).act(script), @r#"
    ← {"id":1,"result":[{"uri":"a:1","name":"bob__x"},{"uri":"a:2","name":"bob__y"}]}
    ← {"method":"resources/changed","params":{"updated":["a:1","a:2","a:3"]}}
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"resources/subscribe","params":{"uri":"a:1"}}
    ← {"id":2,"result":{}}
    ← {"method":"resources/changed","params":{"updated":["a:1"]}}
    ⇒ bob {"id":"s-4","method":"resources/read","params":{"uri":"a:1"}}
    ← {"id":3,"result":{"contents":[{"uri":"a:1","text":"as MCP says it"}]}}
    "#);
}

#[test]
fn many_pages_are_one_list() {
    let tools: Vec<String> = (0..600).map(|number| format!(r#"{{"name":"t{number}"}}"#)).collect();
    let script = format!("call 1 tools/list\nbob: tools/list {{\"tools\":[{}]}}", tools.join(","));
    let told = Play::greeted(HELLO).act(&script);
    assert_eq!(told.lines().count(), 1, "one answer");
    assert_eq!(told.matches(r#"{"name":"bob__t"#).count(), 600);
    assert!(told.starts_with(r#"← {"id":1,"result":[{"name":"bob__t0"},{"#), "{}", &told[..80]);
}

#[test]
fn a_tool_is_invoked_and_its_outcome_told() {
    let script = r#"call "é" tools/invoke {"name":"bob__t","arguments":{"city":"Zürich","n":12345678901234567890}}
        settle
        bob! notifications/progress {"progressToken":"@","progress":21,"total":50,"message":"Searching…"}
        bob: tools/call {"content":[],"structuredContent":{"temperature":89,"n":12345678901234567890}}
        call 2 tools/invoke {"name":"bob__t"}
        bob: tools/call {"content":[{"type":"text","text":"it broke"}],"isError":true}
        call 3 tools/invoke {"name":"bob__t"}
        bob: tools/call error {"code":-32602,"message":"Missing required parameter 'city'"}
        call 4 tools/invoke {"name":"bob__t"}
        bob: tools/call error {"code":7,"message":"something else"}"#;
    assert_snapshot!(Play::listed().act(script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t","arguments":{"city":"Zürich","n":12345678901234567890},"_meta":{"progressToken":"s-3"}}}
    ← {"method":"progress","params":{"id":"é","percent":42,"message":"Searching…"}}
    ← {"id":"é","result":{"status":"success","output":{"temperature":89,"n":12345678901234567890}}}
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"s-4"}}}
    ← {"id":2,"result":{"status":"error","output":"it broke"}}
    ⇒ bob {"id":"s-5","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"s-5"}}}
    ← {"id":3,"error":{"code":4001,"message":"Missing required parameter 'city'"}}
    ⇒ bob {"id":"s-6","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"s-6"}}}
    ← {"id":4,"error":{"code":7,"message":"something else"}}
    "#);
}

#[test]
fn what_was_not_declared_is_not_done() {
    let script = r#"call 1 tools/list
        bob: tools/list {"tools":[{"name":"t"}]}
        mark a call
        call 2 tools/invoke {"name":"bob__t","_meta":{"progressToken":2}}
        settle
        bob! notifications/progress {"progressToken":"@","progress":1,"total":2}
        tell cancel {"id":2}
        call 3 cancel {"id":2}
        bob: tools/call {"content":[]}"#;
    assert_snapshot!(Play::greeted(r#"{"mcpVersion":"2025-06-18"}"#).act(script), @r#"
    ← {"id":1,"result":[{"name":"bob__t"}]}
    · a call
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t"}}
    ← {"id":3,"error":{"code":-32600,"message":"`supportsCancellation` was not declared"}}
    ← {"id":2,"result":{"status":"success","output":null}}
    "#);
}

#[test]
fn a_cancelled_request_is_answered_as_cancelled() {
    let script = r#"call 1 tools/invoke {"name":"bob__t"}
        settle
        call "1" tools/invoke {"name":"bob__t"}
        tell cancel {"id":"1"}
        mark too late, or nothing that is known
        tell cancel {"id":"1"}
        tell cancel {"id":5}
        tell cancel
        bob: tools/call {"content":[{"type":"text","text":"done"}]}
        tell cancel {"id":1}
        mark a list, and one that asks for an answer
        call 2 resources/list
        call 3 cancel {"id":2}"#;
    assert_snapshot!(Play::listed().act(script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"s-3"}}}
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"s-4"}}}
    ⇒ bob {"method":"notifications/cancelled","params":{"requestId":"s-4"}}
    ← {"id":"1","error":{"code":-32800,"message":"the request was cancelled"}}
    · too late, or nothing that is known
    ← {"id":1,"result":{"status":"success","output":"done"}}
    · a list, and one that asks for an answer
    ← {"id":2,"error":{"code":-32800,"message":"the request was cancelled"}}
    ← {"id":3,"result":null}
    "#);
}

#[test]
fn a_client_shuts_down_and_exits() {
    let script = r#"call 1 tools/invoke {"name":"bob__t"}
        settle
        call 50 shutdown
        call 51 tools/list
        tell exit"#;
    assert_snapshot!(Play::listed().act(script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"s-3"}}}
    ← {"id":50,"result":null}
    ← {"id":51,"error":{"code":-32600,"message":"this session is shutting down; only `exit` follows"}}
    ⇒ bob {"method":"notifications/cancelled","params":{"requestId":"s-3","reason":"the session of the client has ended"}}
    ← {"id":1,"error":{"code":-32000,"message":"the session ended before this was answered"}}
    close bye
    "#);
    assert_snapshot!(Play::listed().act("tell exit"), @"close bye");
    assert_snapshot!(Play::listed().act("call 1 exit"), @r#"
    ← {"id":1,"result":null}
    close bye
    "#);
    // Who only says that it will leave is not waited for.
    assert_snapshot!(Play::listed().act("call 50 shutdown\ntick 9999\nmark ten seconds\ntick 1"), @r#"
    ← {"id":50,"result":null}
    · ten seconds
    close bye
    "#);
}

#[test]
fn over_http_answers_come_where_they_were_asked_for() {
    let script = format!(
        r#"1 call 1 initialize {HELLO}
        seat
        2 tell initialized {{}}
        get 3
        4 call 2 tools/list
        bob: tools/list {{"tools":[{{"name":"t"}}]}}
        5 call 3 tools/invoke {{"name":"bob__t"}}
        settle
        bob! notifications/progress {{"progressToken":"@","progress":1,"total":4}}
        bob: tools/call {{"content":[{{"type":"text","text":"x"}}]}}
        6 call 4 tools/invoke {{"name":"bob__t"}}
        tick 5000
        bob* notifications/tools/list_changed
        bob: tools/list {{"tools":[]}}
        tick 60
        7 tell cancel {{"id":4}}
        8 call 5 shutdown
        9 tell exit"#
    );
    let told = Play::new(DoorScope::Room, "bob").act(&script);
    assert_snapshot!(told.replace(instructions(&told), "…"), @r#"
    join -
    begin 1 200 json [mcp-session-id: session-1]
    1← {"id":1,"result":{"server":{"name":"salon","title":"Salon: room:a","version":"9"},"serverCapabilities":{"supportsToolDiscovery":true,"supportsResourceDiscovery":true,"supportsNotifications":true},"instructions":"…"}}
    finish 1
    begin 2 202 empty
    finish 2
    begin 3 200 events
    begin 4 200 json
    4← {"id":2,"result":[{"name":"bob__t"}]}
    finish 4
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"s-3"}}}
    begin 5 200 events
    5← {"method":"progress","params":{"id":3,"percent":25}}
    5← {"id":3,"result":{"status":"success","output":"x"}}
    finish 5
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"s-4"}}}
    begin 6 200 events
    3← {"method":"tools/changed","params":{"added":[],"removed":["bob__t"]}}
    ⇒ bob {"method":"notifications/cancelled","params":{"requestId":"s-4"}}
    begin 7 202 empty
    finish 7
    6← {"id":4,"error":{"code":-32800,"message":"the request was cancelled"}}
    finish 6
    begin 8 200 json
    8← {"id":5,"result":null}
    finish 8
    begin 9 202 empty
    finish 9
    finish 3
    close bye
    "#);
}

#[test]
fn over_sse_everything_comes_on_the_one_stream() {
    let script = format!(
        r#"sse 1
        2 apart call 1 initialize {HELLO}
        seat
        3 apart tell initialized {{}}
        4 apart call 2 tools/list
        bob: tools/list {{"tools":[{{"name":"t"}}]}}
        mark the same stream again
        hangup 1
        get 5
        6 apart call 3 ping
        mark nobody listens
        hangup 5
        tick 300000"#
    );
    let told = Play::new(DoorScope::Room, "bob").act(&script);
    assert_snapshot!(told.replace(instructions(&told), "…"), @r#"
    begin 1 200 events
    1←endpoint /message?sessionId=x
    join -
    begin 2 202 empty
    finish 2
    1← {"id":1,"result":{"server":{"name":"salon","title":"Salon: room:a","version":"9"},"serverCapabilities":{"supportsToolDiscovery":true,"supportsResourceDiscovery":true,"supportsNotifications":true},"instructions":"…"}}
    begin 3 202 empty
    finish 3
    begin 4 202 empty
    finish 4
    1← {"id":2,"result":[{"name":"bob__t"}]}
    · the same stream again
    begin 5 200 events
    begin 6 202 empty
    finish 6
    5← {"id":3,"result":{}}
    · nobody listens
    close bye
    "#);
}

#[test]
fn one_participant_introduces_itself_in_the_dialect() {
    let mut play = Play::new(DoorScope::One(id("bob")), "bob");
    play.event(DialectEvent::StreamOpened(StreamId::ONLY, McpOpening::Duplex));
    let script = format!(
        r#"call 1 initialize {HELLO}
        seat
        bob: initialize {{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"b","version":"2"}}}}
        tell initialized {{}}
        call 2 tools/list
        bob: tools/list {{"tools":[{{"name":"a"}}],"nextCursor":"more"}}
        bob: tools/list {{"tools":[{{"name":"b"}}]}}
        call 3 tools/invoke {{"name":"a"}}
        bob: tools/call {{"content":[]}}
        bob* notifications/tools/list_changed
        bob: tools/list {{"tools":[{{"name":"b"}}]}}"#
    );
    assert_snapshot!(play.act(&script), @r#"
    join -
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob {"method":"notifications/initialized"}
    ← {"id":1,"result":{"server":{"name":"b","version":"2"},"serverCapabilities":{"supportsToolDiscovery":true,"supportsResourceDiscovery":false,"supportsNotifications":false}}}
    ⇒ bob {"id":"s-3","method":"tools/list"}
    ⇒ bob {"id":"s-4","method":"tools/list","params":{"cursor":"more"}}
    ← {"id":2,"result":[{"name":"a"},{"name":"b"}]}
    ⇒ bob {"id":"s-5","method":"tools/call","params":{"name":"a","_meta":{"progressToken":"s-5"}}}
    ← {"id":3,"result":{"status":"success","output":null}}
    ⇒ bob {"id":"s-6","method":"tools/list"}
    ← {"method":"tools/changed","params":{"added":[],"removed":["a"]}}
    "#);
}

#[test]
fn a_client_of_mcp_is_heard_as_before() {
    let script = r#"call 1 tools/list
        call 2 initialize {"protocolVersion":"2025-06-18","mcpVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}
        seat
        call 3 tools/invoke {"name":"bob__t"}
        call 4 tools/list
        bob: tools/list {"tools":[{"name":"t"}]}"#;
    let told = Play::duplex("bob").act(script);
    assert_snapshot!(told.replace(instructions(&told), "…"), @r#"
    ← {"id":1,"error":{"code":-32600,"message":"a session begins with `initialize`"}}
    join c
    ← {"id":2,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"prompts":{"listChanged":true},"completions":{},"logging":{}},"serverInfo":{"name":"salon","title":"Salon: room:a","version":"9"},"instructions":"…"}}
    ← {"id":3,"error":{"code":-32601,"message":"the method `tools/invoke` is not offered here"}}
    ← {"id":4,"result":{"tools":[{"name":"bob__t"}]}}
    "#);
}

#[test]
fn the_end_of_the_room_answers_what_is_open() {
    let script = r#"call 1 tools/invoke {"name":"bob__t"}
        settle
        closing"#;
    assert_snapshot!(Play::listed().act(script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"s-3"}}}
    ⇒ bob {"method":"notifications/cancelled","params":{"requestId":"s-3","reason":"the session of the client has ended"}}
    ← {"id":1,"error":{"code":-32000,"message":"the gateway is shutting down; connect again and resume"}}
    close shutdown
    "#);
}

/// What the room says of itself at length.
fn instructions(told: &str) -> &str {
    let from = told.find("You are `alice`").unwrap();
    let to = told[from..].find('"').unwrap();
    &told[from..from + to]
}

#[test]
fn what_others_ask_waits_while_answers_to_them_do_not_get_in() {
    let mut play = Play::greeted(HELLO);
    for _ in 0..64 {
        assert!(play.dialect.ready());
        play.entry("bob", Kind::Mcp, None, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    }
    assert!(!play.dialect.ready());
}
