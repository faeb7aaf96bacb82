//! What a server tells: who gets it, and what nobody gets.

use super::*;

#[test]
fn subscriptions_are_made_once_and_updates_go_to_their_callers() {
    let script = r#"
        alice#1 resources/subscribe {"uri":"file:///a"}
        0> {"jsonrpc":"2.0","id":3,"result":{}}
        bob#1 resources/subscribe {"uri":"file:///a"}
        carol#1 tools/call {"name":"t"}
        0> {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a","n": 1}}
        0> {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a/part"}}
        0> {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///ab"}}
        alice#2 resources/unsubscribe {"uri":"file:///a"}
        leave bob
        0> {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a"}}
        dave#1 resources/subscribe {"uri":"file:///none"}
        0> {"jsonrpc":"2.0","id":6,"error":{"code":-32002,"message":"no such thing"}}
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"resources/subscribe","params":{"uri":"file:///a"}}
    ⇒ alice re e1 {"id":1,"result":{}}
    ⇒ bob re e2 {"id":1,"result":{}}
    → 0 {"id":4,"method":"tools/call","params":{"name":"t"}}
    ⇒ alice,bob {"method":"notifications/resources/updated","params":{"uri":"file:///a","n": 1}}
    ⇒ alice,bob {"method":"notifications/resources/updated","params":{"uri":"file:///a/part"}}
    ⇒ alice re e4 {"id":2,"result":{}}
    → 0 {"id":5,"method":"resources/unsubscribe","params":{"uri":"file:///a"}}
    → 0 {"id":6,"method":"resources/subscribe","params":{"uri":"file:///none"}}
    ⇒ dave re e6 {"id":1,"error":{"code":-32002,"message":"no such thing"}}
    → 0 {"id":7,"method":"resources/unsubscribe","params":{"uri":"file:///none"}}
    "#);
}

#[test]
fn log_lines_go_to_whom_they_are_grave_enough() {
    let script = r#"
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"emergency","data":"nobody asked"}}
        alice#1 logging/setLevel {"level":"warning"}
        0> {"jsonrpc":"2.0","id":3,"result":{}}
        bob#1 logging/setLevel {"level":"debug"}
        0> {"jsonrpc":"2.0","id":4,"result":{}}
        carol#1 logging/setLevel {"level":"error"}
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1.0}}
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"alert","data":2}}
        leave bob
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":3}}
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"logging/setLevel","params":{"level":"warning"}}
    ⇒ alice re e1 {"id":1,"result":{}}
    → 0 {"id":4,"method":"logging/setLevel","params":{"level":"debug"}}
    ⇒ bob re e2 {"id":1,"result":{}}
    ⇒ carol re e3 {"id":1,"result":{}}
    ⇒ bob {"method":"notifications/message","params":{"level":"info","data":1.0}}
    ⇒ alice,bob,carol {"method":"notifications/message","params":{"level":"alert","data":2}}
    → 0 {"id":5,"method":"logging/setLevel","params":{"level":"warning"}}
    "#);
}

#[test]
fn what_is_not_exposed_is_not_there() {
    let script = r#"
        alice#1 initialize {}
        alice#2 resources/list
        alice#3 completion/complete {"ref":{"type":"ref/prompt"}}
        alice#4 tools/list
        0> {"jsonrpc":"2.0","method":"notifications/resources/list_changed"}
    "#;
    let play = Play::seated(&[Era::Legacy], |setting| setting.expose = "tools".parse().unwrap());
    assert_snapshot!(play.act(script), @r#"
    ⇒ alice re e1 {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    ⇒ alice re e2 {"id":2,"error":{"code":-32601,"message":"`guest` does not offer `resources/list` here: its owner exposes only tools"}}
    ⇒ alice re e3 {"id":3,"error":{"code":-32601,"message":"`guest` does not offer `completion/complete` here: its owner exposes only tools"}}
    → 0 {"id":3,"method":"tools/list","params":{}}
    "#);
}

#[test]
fn no_news_comes_of_what_is_not_exposed() {
    let script = r#"
        alice#"l" subscriptions/listen {"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a"],"x":1.0}}
        0> {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4},"notifications":{"toolsListChanged":true}}}
        0> {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4},"uri":"a"}}
        0> {"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4}}}
        0> {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4}}}
    "#;
    let play = Play::seated(&[Era::Modern], |setting| setting.expose = "tools".parse().unwrap());
    assert_snapshot!(play.act(script).replace("io.modelcontextprotocol/", "/"), @r#"
    → 0 {"id":4,"method":"subscriptions/listen","params":{"_meta":{"/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true,"x":1.0}}}
    ⇒ alice re e1 {"method":"notifications/subscriptions/acknowledged","params":{"_meta":{"/subscriptionId":"l"},"notifications":{"toolsListChanged":true}}}
    ⇒ alice re e1 {"method":"notifications/tools/list_changed","params":{"_meta":{"/subscriptionId":"l"}}}
    "#);
}

#[test]
fn a_caller_of_an_older_revision_gets_what_that_has() {
    let script = r#"
        alice#1 initialize {"protocolVersion":"2024-11-05"}
        alice#2 tools/call {"name":"t"}
        bob#1 tools/call {"name":"t"}
        0> {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"audio","data":"AAAA","mimeType":"audio/wav"},{"type":"resource_link","uri":"u","name":"n"}],"ttlMs": 1}}
        0> {"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"resource_link","uri":"u","name":"n"}],"ttlMs": 1}}
        carol#1 initialize {"protocolVersion":"2025-03-26","capabilities":{"roots":{},"experimental":{"salon/isolated":{}}}}
        carol#2 tools/call {"name":"t"}
        carol#3 tools/call {"name":"t"}
        open 5 2025-11-25
        5> {"jsonrpc":"2.0","id":6,"result":{"content":[{"type":"resource_link","uri":"u","name":"n"}]}}
    "#;
    let told = legacy(script);
    let answers: Vec<_> = told.lines().filter(|line| line.contains("content")).collect();
    assert_snapshot!(answers.join("\n"), @r#"
    ⇒ alice re e2 {"id":2,"result":{"content":[{"type":"resource","resource":{"uri":"urn:mcp:audio","mimeType":"audio/wav","blob":"AAAA"}},{"type":"text","text":"n <u>"}],"ttlMs":1}}
    ⇒ bob re e3 {"id":1,"result":{"content":[{"type":"resource_link","uri":"u","name":"n"}],"ttlMs": 1}}
    ⇒ carol re e5 {"id":2,"result":{"content":[{"type":"text","text":"n <u>"}]}}
    "#);
}

#[test]
fn log_lines_of_a_server_that_takes_no_wishes_are_heard_by_level_too() {
    let introduction = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s"}}"#;
    let server = ServerProfile::from_initialize(&RawValue::from_string(introduction.into()).unwrap()).unwrap();
    let mut play = Play::seated(&[Era::Legacy], |_| {});
    play.board.server = server;
    let script = r#"
        alice#1 initialize {}
        alice#2 logging/setLevel {"level":"warning"}
        bob#1 logging/setLevel {"level":"shrill"}
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":2}}
        carol#1 initialize {"capabilities":{"roots":{},"experimental":{"salon/isolated":{}}}}
        carol#2 tools/list
        open 3
        3> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":3}}
        carol#3 logging/setLevel {"level":"warning"}
        3/4> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":4}}
        3> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":5}}
        3> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"alert","data":6}}
        leave alice
    "#;
    assert_snapshot!(play.act(script), @r#"
    ⇒ alice re e1 {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s"}}}
    ⇒ alice re e2 {"id":2,"result":{}}
    ⇒ bob re e3 {"id":1,"error":{"code":-32602,"message":"`level` must be one of debug, info, notice, warning, error, critical, alert, emergency"}}
    ⇒ alice {"method":"notifications/message","params":{"level":"error","data":2}}
    ⇒ carol re e4 {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s"}}}
    open 3 Legacy 2025-06-18 {"roots":{},"experimental":{"salon/isolated":{}}}
    → 3 {"id":4,"method":"tools/list","params":{}}
    ⇒ carol {"method":"notifications/message","params":{"level":"debug","data":3}}
    ⇒ carol re e6 {"id":3,"result":{}}
    ⇒ carol {"method":"notifications/message","params":{"level":"alert","data":6}}
    "#);
}

#[test]
fn a_tool_that_is_not_allowed_is_neither_listed_nor_called() {
    let only = |setting: &mut SwitchboardOptions| {
        setting.tools.allow = Some(vec!["read_*".parse().unwrap()]);
        setting.tools.deny = vec!["read_secret".parse().unwrap()];
    };
    let tools = r#"{"tools":[{"name":"read_file"},{"name":"read_secret"},{"name":"write_file"}],"nextCursor":"2"}"#;
    let mut play = Play::new(&[Era::Legacy], only);
    play.line(&format!(r#"0> {{"jsonrpc":"2.0","id":2,"result":{tools}}}"#));
    play.line(r#"0> {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"read_more"}]}}"#);
    play.board.seated(ParticipantId::new("guest").unwrap());
    play.collect();
    assert_eq!(play.board.tools(), 2);
    for line in [
        "alice#1 tools/list",
        &format!(r#"0> {{"jsonrpc":"2.0","id":4,"result":{tools}}}"#),
        r#"alice#2 tools/call {"name":"read_secret"}"#,
        r#"alice#3 tools/call {"name":"write_file"}"#,
        r#"alice#4 tools/call {"name":"read_file"}"#,
    ] {
        play.line(line);
    }
    assert_snapshot!(play.told, @r#"
    → 0 {"id":2,"method":"tools/list"}
    → 0 {"id":3,"method":"tools/list","params":{"cursor":"2"}}
    listed 2
    ⇒ * {"method":"notifications/tools/list_changed","params":{"tools":["read_file","read_more"]}}
    → 0 {"id":4,"method":"tools/list","params":{}}
    ⇒ alice re e1 {"id":1,"result":{"tools":[{"name":"read_file"}],"nextCursor":"2"}}
    ⇒ alice re e2 {"id":2,"error":{"code":-32602,"message":"`guest` does not offer this tool here: its owner does not allow it"}}
    ⇒ alice re e3 {"id":3,"error":{"code":-32602,"message":"`guest` does not offer this tool here: its owner does not allow it"}}
    → 0 {"id":5,"method":"tools/call","params":{"name":"read_file"}}
    "#);
    // The same for callers of the modern era.
    let mut modern = Play::seated(&[Era::Modern], only);
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    modern.line(&format!(r#"alice#1 tools/call {{"name":"write_file",{meta}}}"#));
    modern.line(&format!(r#"alice#2 tools/list {{{meta}}}"#));
    modern.line(&format!(r#"0> {{"jsonrpc":"2.0","id":4,"result":{tools}}}"#));
    assert_snapshot!(modern.told, @r#"
    ⇒ alice re e1 {"id":1,"error":{"code":-32602,"message":"`guest` does not offer this tool here: its owner does not allow it"}}
    → 0 {"id":4,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
    ⇒ alice re e2 {"id":2,"result":{"tools":[{"name":"read_file"}],"nextCursor":"2"}}
    "#);
}
