//! Beginnings, ids, and the ends a call can have.

use super::*;

#[test]
fn a_guest_begins_with_its_tools() {
    let script = r#"
        0> {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a"}],"nextCursor":"c"}}
        0> {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"b"}]}}
        0> {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
        0> {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
        0> {"jsonrpc":"2.0","id":4,"error":{"code":-1,"message":"busy"}}
        0> {"jsonrpc":"2.0","id":5,"result":{"tools":[]}}
    "#;
    assert_snapshot!(Play::new(&[Era::Legacy], |_| {}).act(script), @r#"
    → 0 {"id":2,"method":"tools/list"}
    → 0 {"id":3,"method":"tools/list","params":{"cursor":"c"}}
    listed 2
    → 0 {"id":4,"method":"tools/list"}
    → 0 {"id":5,"method":"tools/list"}
    listed 0
    "#);
    let changed = r#"
        0> {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
        0> {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"t"},{"name":"u"}]}}
        0> {"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}
    "#;
    assert_snapshot!(legacy(changed), @r#"
    → 0 {"id":3,"method":"tools/list"}
    ⇒ * {"method":"notifications/tools/list_changed","params":{"tools":["t","u"]}}
    listed 2
    ⇒ * {"method":"notifications/prompts/list_changed"}
    "#);
}

#[test]
fn the_handshake_is_answered_from_the_servers_own() {
    let script = r#"
        alice#1 initialize {"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}
        alice! notifications/initialized
        bob#"x" initialize {"protocolVersion":"2031-01-01"}
        alice#2 ping
    "#;
    assert_snapshot!(legacy(script), @r#"
    ⇒ alice re e1 {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    ⇒ bob re e3 {"id":"x","result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    ⇒ alice re e4 {"id":2,"result":{}}
    "#);
}

#[test]
fn ids_and_tokens_are_each_callers_own() {
    let script = r#"
        alice#1 tools/call {"name":"t","arguments":{"n": 12345678901234567890},"_meta":{"progressToken":1,"k":1.0}}
        bob#"1" tools/call {"name":"t","_meta":{"progressToken":"1"}}
        bob#1 tools/call {"name":"t"}
        0> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":4,"progress":1}}
        0> {"jsonrpc":"2.0","id":5,"result":{"n":1.0}}
        0> {"jsonrpc":"2.0","id":4,"result":{"content":[]}, "extra":1}
        0> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":0.5}}
        0> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":4,"progress":2}}
        0> {"jsonrpc":"2.0","id":3,"error":{"code":-5,"message":"no","data":{"big":12345678901234567890}}}
        0> {"jsonrpc":"2.0","id":3,"result":{}}
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t","arguments":{"n": 12345678901234567890},"_meta":{"progressToken":3,"k":1.0}}}
    → 0 {"id":4,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":4}}}
    → 0 {"id":5,"method":"tools/call","params":{"name":"t"}}
    ⇒ bob re e2 {"method":"notifications/progress","params":{"progressToken":"1","progress":1}}
    ⇒ bob re e3 {"id":1,"result":{"n":1.0}}
    ⇒ bob re e2 {"id":"1","result":{"content":[]},"extra":1}
    ⇒ alice re e1 {"method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}
    ⇒ alice re e1 {"id":1,"error":{"code":-5,"message":"no","data":{"big":12345678901234567890}}}
    "#);
}

#[test]
fn cancelling_and_leaving_reach_the_server_under_its_number() {
    let script = r#"
        alice#1 tools/call {"name":"t"}
        bob#1 tools/call {"name":"t"}
        alice! notifications/cancelled {"requestId":1,"reason":"enough"}
        alice! notifications/cancelled {"requestId":1}
        0> {"jsonrpc":"2.0","id":3,"result":{}}
        leave bob
        0> {"jsonrpc":"2.0","id":4,"result":{}}
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t"}}
    → 0 {"id":4,"method":"tools/call","params":{"name":"t"}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":3,"reason":"enough"}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":4}}
    "#);
}

#[test]
fn a_call_without_progress_times_out() {
    let script = r#"
        alice#1 tools/call {"name":"t","_meta":{"progressToken":9}}
        tick 59
        0> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":1}}
        tick 59
        tick 1
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":3}}}
    ⇒ alice re e1 {"method":"notifications/progress","params":{"progressToken":9,"progress":1}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":3,"reason":"no answer and no progress in time"}}
    ⇒ alice re e1 {"id":1,"error":{"code":-32603,"message":"the server of `guest` gave no answer and no progress for 60 s","data":{"code":"timeout"}}}
    "#);
}

#[test]
fn over_http_a_request_that_is_withdrawn_keeps_no_place() {
    let script = r#"
        alice#1 tools/call {"name":"t"}
        bob#1 tools/call {"name":"t"}
        alice! notifications/cancelled {"requestId":1}
        0> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":4,"progress":1}}
        tick 29
        tick 31
    "#;
    let play = Play::seated(&[Era::Legacy], |setting| setting.http = true);
    assert_snapshot!(play.act(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t"}}
    → 0 {"id":4,"method":"tools/call","params":{"name":"t"}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":3}}
    → 0 abandon 3
    → 0 {"id":5,"method":"ping"}
    → 0 {"method":"notifications/cancelled","params":{"requestId":4,"reason":"no answer and no progress in time"}}
    → 0 abandon 4
    ⇒ bob re e2 {"id":1,"error":{"code":-32603,"message":"the server of `guest` gave no answer and no progress for 60 s","data":{"code":"timeout"}}}
    "#);
}

#[test]
fn an_answer_the_room_does_not_take_becomes_an_error() {
    let script = r#"
        alice#1 tools/call {"name":"t"}
        0> {"jsonrpc":"2.0","id":3,"result":{"much":true}}
        refuse
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t"}}
    ⇒ alice re e1 {"id":1,"result":{"much":true}}
    ⇒ alice re e1 {"id":1,"error":{"code":-32603,"message":"the room did not take the answer: it is too large","data":{"code":"too_large"}}}
    "#);
}

#[test]
fn a_caller_has_only_so_many_calls_open() {
    let mut play = Play::seated(&[Era::Legacy], |_| {});
    for id in 0..MAX_CALLS_OF_ONE {
        play.line(&format!("alice#{id} tools/list"));
    }
    play.told.clear();
    assert_snapshot!(play.act("alice#256 tools/list\nbob#1 tools/list"), @r#"
    ⇒ alice re e257 {"id":256,"error":{"code":-32603,"message":"256 calls of yours are open already; wait for an answer","data":{"code":"rate_limited"}}}
    → 0 {"id":259,"method":"tools/list","params":{}}
    "#);
}

#[test]
fn there_are_only_so_many_calls_and_lanes_in_all() {
    let mut play = Play::seated(&[Era::Legacy], |_| {});
    for call in 0..MAX_CALLS {
        play.line(&format!("p{}#{call} tools/list", call % 10));
    }
    play.told.clear();
    assert_snapshot!(play.act("late#1 tools/list"), @r#"⇒ late re e2049 {"id":1,"error":{"code":-32603,"message":"`guest` has 2048 open calls already; try again later","data":{"code":"rate_limited"}}}"#);

    let mut play = Play::seated(&[Era::Legacy], |setting| setting.isolated = true);
    for caller in 0..MAX_OWN_LANES {
        play.line(&format!("p{caller}#1 tools/list"));
    }
    play.told.clear();
    assert_snapshot!(play.act("late#1 tools/list\nleave p0\nlate#2 tools/list"), @r#"
    ⇒ late re e65 {"id":1,"error":{"code":-32603,"message":"`guest` already serves 64 callers with a connection of their own","data":{"code":"rate_limited"}}}
    close 3
    open 131 Legacy 2025-06-18 {}
    "#);

    let mut play = Play::seated(&[Era::Modern], |_| {});
    let much = format!(r#"{{"a":"{}"}}"#, "x".repeat(1 << 20));
    for call in 0..16 {
        play.line(&format!("alice#{call} tools/call {much}"));
    }
    assert!(play.told.ends_with(
        r#""message":"`guest` has too much to do already; try again later","data":{"code":"rate_limited"}}}
"#
    ));
}
