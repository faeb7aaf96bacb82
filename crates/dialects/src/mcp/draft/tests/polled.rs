//! A client of the dialect that asks what there is to be said.

use super::*;

fn polling() -> Play {
    let script = format!("1 poll 25 call 1 initialize {HELLO}\nseat\n2 poll 0 tell initialized {{}}");
    Play::new(DoorScope::Room, "bob").after(&script)
}

#[test]
fn a_session_begins_by_a_poll_that_is_told_its_name() {
    let script = format!("1 poll 25 call 1 initialize {HELLO}\nmark the seat\nseat");
    let told = Play::new(DoorScope::Room, "bob").act(&script);
    let (before, _) = told.split_once(r#","instructions""#).unwrap();
    assert_snapshot!(before, @r#"
    join -
    · the seat
    begin 1 200 json [mcp-session-id: session-1]
    1← [{"id":1,"result":{"server":{"name":"salon","title":"Salon: room:a","version":"9"},"serverCapabilities":{"supportsToolDiscovery":true,"supportsResourceDiscovery":true,"supportsNotifications":true}
    "#);
}

#[test]
fn what_there_is_to_be_said_waits_for_a_poll() {
    let script = r#"1 poll 25 call 2 tools/list
        bob: tools/list {"tools":[{"name":"t"}]}
        mark nobody asks
        3 poll 0 call 3 tools/invoke {"name":"bob__t"}
        settle
        bob! notifications/progress {"progressToken":"@","progress":1,"total":4}
        bob: tools/call {"content":[{"type":"text","text":"x"}]}
        mark somebody asks
        4 poll 0
        mark somebody waits in vain
        5 poll 2
        tick 1999
        mark two seconds
        tick 1"#;
    assert_snapshot!(polling().act(script), @r#"
    begin 1 200 json
    1← [{"id":2,"result":[{"name":"bob__t"}]}]
    finish 1
    · nobody asks
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    begin 3 200 json
    3← []
    finish 3
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"s-3"}}}
    · somebody asks
    begin 4 200 json
    4← [{"method":"progress","params":{"id":3,"percent":25}},{"id":3,"result":{"status":"success","output":"x"}}]
    finish 4
    · somebody waits in vain
    · two seconds
    begin 5 200 json
    5← []
    finish 5
    "#);
}

#[test]
fn a_poll_brings_several_messages_and_invalid_ones_are_answered() {
    let script = r#"3 poll 0 client [{"jsonrpc":"2.0","id":1,"method":"ping"},5,{"id":2,"method":"ping"},{"jsonrpc":"2.0","id":3,"method":"tools/invoke"}]
        4 poll 0 client []
        5 poll 0 client {"jsonrpc":"2.0","id":"a","method":"ping"}"#;
    assert_snapshot!(polling().act(script), @r#"
    begin 3 200 json
    3← [{"id":null,"error":{"code":-32600,"message":"a message is a JSON object"}},{"id":2,"error":{"code":-32600,"message":"`jsonrpc` must be \"2.0\""}},{"id":1,"result":{}},{"id":3,"error":{"code":4001,"message":"`name` must be a string"}}]
    finish 3
    begin 4 200 json
    4← []
    finish 4
    begin 5 200 json
    5← [{"id":"a","result":{}}]
    finish 5
    "#);
}

#[test]
fn the_oldest_of_several_polls_is_answered() {
    let script = r#"3 poll 20
        4 poll 20
        5 poll 0 call 1 ping
        6 poll 20
        hangup 4
        7 poll 0 call 2 ping
        hangup 6
        mark nobody asks any more
        tick 20000"#;
    assert_snapshot!(polling().act(script), @r#"
    begin 3 200 json
    3← [{"id":1,"result":{}}]
    finish 3
    begin 5 200 json
    5← []
    finish 5
    begin 6 200 json
    6← [{"id":2,"result":{}}]
    finish 6
    begin 7 200 json
    7← []
    finish 7
    · nobody asks any more
    "#);
}

#[test]
fn a_listener_hears_the_news_instead() {
    let script = r#"3 poll 0 call 1 tools/list
        bob: tools/list {"tools":[{"name":"t"}]}
        4 poll 0
        get 5
        bob* notifications/tools/list_changed
        bob: tools/list {"tools":[]}
        tick 60
        hangup 5
        bob* notifications/tools/list_changed
        bob: tools/list {"tools":[{"name":"u"}]}
        tick 60
        6 poll 0"#;
    assert_snapshot!(polling().act(script), @r#"
    begin 3 200 json
    3← []
    finish 3
    begin 4 200 json
    4← [{"id":1,"result":[{"name":"bob__t"}]}]
    finish 4
    begin 5 200 events
    5← {"method":"tools/changed","params":{"added":[],"removed":["bob__t"]}}
    begin 6 200 json
    6← [{"method":"tools/changed","params":{"added":[{"name":"bob__u"}],"removed":[]}}]
    finish 6
    "#);
}

#[test]
fn who_does_not_come_back_leaves() {
    assert_snapshot!(polling().act("3 poll 60\ntick 60000\nmark since the last poll\ntick 299999\nmark five minutes\ntick 1"), @r#"
    begin 3 200 json
    3← []
    finish 3
    · since the last poll
    · five minutes
    close bye
    "#);
}

#[test]
fn who_lets_too_much_wait_has_left() {
    let mut play = polling();
    for number in 0..1025 {
        assert!(!play.ended, "{number} messages may wait");
        play.run(&format!("{} apart call {number} ping", 1000 + number));
    }
    assert!(play.ended, "1025 may not");
}

#[test]
fn who_exits_is_answered_for_the_last_time() {
    let script = r#"3 poll 25
        4 poll 25 call 50 shutdown
        5 poll 25 tell exit"#;
    assert_snapshot!(polling().act(script), @r#"
    begin 3 200 json
    3← [{"id":50,"result":null}]
    finish 3
    begin 4 200 json
    4← []
    finish 4
    begin 5 200 json
    5← []
    finish 5
    close bye
    "#);
}

#[test]
fn only_the_dialect_is_polled() {
    let official = r#"call 1 initialize {"protocolVersion":"2025-06-18"}"#;
    let script = format!("1 poll 25 {official}\n2 poll 0\n3 {official}\nseat\n4 poll 5 call 1 ping");
    let told = Play::new(DoorScope::Room, "bob").act(&script);
    let told: Vec<&str> = told.lines().filter(|line| !line.contains("instructions")).collect();
    assert_snapshot!(told.join("\n"), @r#"
    begin 1 400 json
    1← {"id":null,"error":{"code":-32600,"message":"only sessions of the draft dialect can be polled: begin with an `initialize` that has `mcpVersion`"}}
    finish 1
    begin 2 400 json
    2← {"id":null,"error":{"code":-32600,"message":"only sessions of the draft dialect can be polled: begin with an `initialize` that has `mcpVersion`"}}
    finish 2
    join -
    begin 3 200 json [mcp-session-id: session-1]
    finish 3
    begin 4 400 json
    4← {"id":null,"error":{"code":-32600,"message":"only sessions of the draft dialect can be polled: begin with an `initialize` that has `mcpVersion`"}}
    finish 4
    "#);
    let begins = |body: &str| Interpreter::starts_by_poll(&PollBody::read(body).unwrap());
    assert!(begins(&format!(r#" [{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{HELLO}}},{{}}]"#)));
    assert!(!begins(&format!(r#"{{"id":1,"method":"initialize","params":{HELLO}}}"#)), "it is not a JSON-RPC message");
    assert!(!begins("[]") && !begins(""));
}
