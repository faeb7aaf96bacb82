//! The table of words, row by row, in both directions.

use salon_protocol::Members;

use super::*;

/// What a translation makes of each of these, one a line.
fn rows(translate: impl Fn(&str) -> String, inputs: &[&str]) -> String {
    inputs.iter().map(|input| format!("{}\n", translate(input))).collect()
}

#[test]
fn initialize_for_a_server_of_mcp() {
    let said = |params: &str| match words::initialize_mcp(Some(&raw(params))) {
        Ok((declared, hello)) => format!("{} {} {hello}", declared.progress, declared.cancellation),
        Err(error) => serde_json::to_string(&error).unwrap(),
    };
    assert_snapshot!(rows(said, &[
        HELLO,
        r#"{"mcpVersion":"2025-06-18"}"#,
        r#"{"mcpVersion":"2025-06-18","clientCapabilities":{"supportsProgress":false,"other":1},"clientInfo":{"name":"c","version":"1"}}"#,
        r#"{"mcpVersion":"2025-06-18","clientCapabilities":7}"#,
        r#"{"mcpVersion":"2025-06-18","clientCapabilities":{"supportsCancellation":"yes"}}"#,
        r#"{"mcpVersion":"2024-11-05"}"#,
        r#"{"mcpVersion":1}"#,
        "[]",
    ]), @r#"
    true true {"protocolVersion":"2025-06-18","capabilities":{}}
    false false {"protocolVersion":"2025-06-18","capabilities":{}}
    false false {"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}
    {"code":4001,"message":"`clientCapabilities` must be an object"}
    {"code":4001,"message":"`clientCapabilities.supportsCancellation` must be true or false"}
    {"code":4001,"message":"`mcpVersion` must be \"2025-06-18\"","data":{"supported":["2025-06-18"]}}
    {"code":4001,"message":"`mcpVersion` must be \"2025-06-18\"","data":{"supported":["2025-06-18"]}}
    {"code":4001,"message":"`params` must be an object"}
    "#);
}

#[test]
fn initialize_for_a_server_of_the_dialect() {
    let official = raw(r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"salon"}}"#);
    assert_snapshot!(words::initialize_draft(), @r#"{"mcpVersion":"2025-06-18","clientCapabilities":{"supportsCancellation":true,"supportsProgress":true}}"#);
    assert_snapshot!(words::initialize_either(&official), @r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"salon"},"mcpVersion":"2025-06-18","clientCapabilities":{"supportsCancellation":true,"supportsProgress":true}}"#);
}

#[test]
fn who_speaks_the_dialect_is_known_by_its_first_words() {
    let hello = |params: &str| is_initialize_message(&format!(r#"{{"id":1,"method":"initialize","params":{params}}}"#));
    assert!(hello(HELLO) && hello(r#"{"mcpVersion":7}"#));
    assert!(!hello(r#"{"protocolVersion":"2025-06-18"}"#) && !hello("[]") && !hello("null"));
    // Who speaks both is answered in MCP, which has more words.
    assert!(!hello(r#"{"protocolVersion":"2025-06-18","mcpVersion":"2025-06-18"}"#));
    assert!(!is_initialize_message(&format!(r#"{{"method":"initialize","params":{HELLO}}}"#)), "it asks for no answer");
    assert!(
        !is_initialize_message(&format!(r#"{{"id":1,"method":"tools/list","params":{HELLO}}}"#))
            && !is_initialize_message("5")
    );
    let introduction = |result: &str| is_introduction(&raw(result));
    assert!(introduction(r#"{"server":{"name":"s"}}"#) && introduction(r#"{"serverCapabilities":{}}"#));
    assert!(!introduction(r#"{"protocolVersion":"2025-06-18","server":{}}"#) && !introduction("{}"));
    assert!(!introduction("[]") && !introduction("null"));
}

#[test]
fn the_answer_to_initialize_both_ways() {
    let to_draft = |result: &str| words::introduction_to_draft(&raw(result)).get().to_owned();
    assert_snapshot!(rows(to_draft, &[
        r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{}},"serverInfo":{"name":"s","version":"1","big":12345678901234567890},"instructions":"be kind"}"#,
        r#"{"capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}"#,
        r#"{"capabilities":{"tools":{}}}"#,
        "{}",
    ]), @r#"
    {"server":{"name":"s","version":"1","big":12345678901234567890},"serverCapabilities":{"supportsToolDiscovery":true,"supportsResourceDiscovery":true,"supportsNotifications":true},"instructions":"be kind"}
    {"server":{"name":"s","version":"1"},"serverCapabilities":{"supportsToolDiscovery":false,"supportsResourceDiscovery":true,"supportsNotifications":true}}
    {"server":{"name":"unnamed","version":""},"serverCapabilities":{"supportsToolDiscovery":true,"supportsResourceDiscovery":false,"supportsNotifications":false}}
    {"server":{"name":"unnamed","version":""},"serverCapabilities":{"supportsToolDiscovery":false,"supportsResourceDiscovery":false,"supportsNotifications":false}}
    "#);
    let to_mcp = |result: &str| words::introduction_to_mcp(&raw(result)).get().to_owned();
    assert_snapshot!(rows(to_mcp, &[
        r#"{"server":{"name":"example-server","version":"1.0.0"},"serverCapabilities":{"supportsToolDiscovery":true,"supportsResourceDiscovery":true,"supportsNotifications":true}}"#,
        r#"{"server":{"name":"s"},"serverCapabilities":{"supportsToolDiscovery":true},"instructions":"x"}"#,
        r#"{"server":"s"}"#,
        r#"{"serverCapabilities":{}}"#,
    ]), @r#"
    {"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}},"serverInfo":{"name":"example-server","version":"1.0.0"}}
    {"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":false}},"serverInfo":{"name":"s"},"instructions":"x"}
    {"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":false}},"serverInfo":{"name":"unnamed","version":""}}
    {"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"unnamed","version":""}}
    "#);
}

#[test]
fn lists_both_ways() {
    let items = [raw(r#"{"name":"a","inputSchema":{"maximum":123456789012345678901}}"#), raw(r#"{ "name":"b" }"#)];
    assert_snapshot!(words::list_to_draft(items.iter().map(|item| &**item)), @r#"[{"name":"a","inputSchema":{"maximum":123456789012345678901}},{ "name":"b" }]"#);
    let to_mcp = |result: &str| words::list_to_mcp(Listing::Tools, &raw(result)).get().to_owned();
    assert_snapshot!(rows(to_mcp, &[r#"[{ "name":"a","n":12345678901234567890}]"#, "[]", r#"{"tools":[]}"#, "7"]), @r#"
    {"tools":[{ "name":"a","n":12345678901234567890}]}
    {"tools":[]}
    {"tools":[]}
    7
    "#);
    assert_snapshot!(words::list_to_mcp(Listing::Resources, &raw(r#"[{"uri":"a:1"}]"#)), @r#"{"resources":[{"uri":"a:1"}]}"#);
}

#[test]
fn a_tools_parameters_both_ways() {
    let given = |params: Option<Box<RawValue>>| params.map_or("-".to_owned(), |params| params.get().to_owned());
    let to_mcp = |params: &str| given(words::invoke_to_mcp(Some(&raw(params)), Some(7)));
    assert_snapshot!(rows(to_mcp, &[
        r#"{"name":"t","arguments":{"city":"Zürich","n":12345678901234567890}}"#,
        r#"{"name":"t","_meta":{"progressToken":"mine","x":1}}"#,
        r#"{"name":"t","_meta":7}"#,
        "[]",
    ]), @r#"
    {"name":"t","arguments":{"city":"Zürich","n":12345678901234567890},"_meta":{"progressToken":7}}
    {"name":"t","_meta":{"x":1,"progressToken":7}}
    {"name":"t","_meta":7}
    []
    "#);
    assert_eq!(given(words::invoke_to_mcp(None, Some(7))), "-");
    // Who does not want to hear of progress asks for none, whatever else it says.
    let quiet = words::invoke_to_mcp(Some(&raw(r#"{"name":"t","_meta":{"progressToken":"mine"}}"#)), None);
    assert_eq!(given(quiet), r#"{"name":"t"}"#);
    let to_draft = |params: &str| given(words::call_to_draft(Some(&raw(params))));
    assert_snapshot!(rows(to_draft, &[
        r#"{"name":"t","arguments":{"n":12345678901234567890},"_meta":{"progressToken":3}}"#,
        r#"{"name":"t","_meta":{"progressToken":3,"context":{"a":1}}}"#,
        r#"{"name":"t"}"#,
        "5",
    ]), @r#"
    {"name":"t","arguments":{"n":12345678901234567890}}
    {"name":"t","_meta":{"context":{"a":1}}}
    {"name":"t"}
    5
    "#);
}

#[test]
fn nobody_is_shown_another_output_than_all_others() {
    let to_draft = |result: &str| words::outcome_to_draft(&raw(result)).get().to_owned();
    assert_snapshot!(rows(to_draft, &[
        r#"{"content":[{"type":"text","text":"[1, 2]"}],"_meta":{"salon/result":[1, 2]}}"#,
        r#"{"content":[{"type":"text","text":"no"}],"_meta":{"salon/result":"yes"}}"#,
        r#"{"content":[],"structuredContent":{"ok":false},"_meta":{"salon/result":{"ok":true}}}"#,
        r#"{"content":[{"type":"text","text":"1"},{"type":"text","text":"2"}],"_meta":{"salon/result":12}}"#,
        r#"{"_meta":{"salon/result":1,"x":1}}"#,
    ]), @r#"
    {"status":"success","output":[1, 2]}
    {"status":"success","output":"no"}
    {"status":"success","output":{"ok":false}}
    {"status":"success","output":"1\n2"}
    {"status":"success","output":null,"_meta":{"x":1}}
    "#);
}

#[test]
fn what_a_tool_came_to_both_ways() {
    let to_draft = |result: &str| words::outcome_to_draft(&raw(result)).get().to_owned();
    assert_snapshot!(rows(to_draft, &[
        r#"{"content":[{"type":"text","text":"{\"t\":1}"}],"structuredContent":{"t":12345678901234567890,"s":"Süden"}}"#,
        r#"{"content":[{"type":"text","text":"one"},{"type":"text","text":"two"}],"isError":false}"#,
        r#"{"content":[{"type":"text","text":"it broke"}],"isError":true}"#,
        r#"{"content":[{"type":"text","text":"see"},{"type":"image","data":"…","mimeType":"image/png"}]}"#,
        r#"{"content":[],"structuredContent":null,"_meta":{"x":1}}"#,
        r#"{"content":[{"type":"text","text":"[1,2]"}],"_meta":{"x":1,"salon/result":[1,2]}}"#,
        r#"{"content":"odd"}"#,
        "{}",
        "null",
    ]), @r#"
    {"status":"success","output":{"t":12345678901234567890,"s":"Süden"}}
    {"status":"success","output":"one\ntwo"}
    {"status":"error","output":"it broke"}
    {"status":"success","output":[{"type":"text","text":"see"},{"type":"image","data":"…","mimeType":"image/png"}]}
    {"status":"success","output":null,"_meta":{"x":1}}
    {"status":"success","output":[1,2],"_meta":{"x":1}}
    {"status":"success","output":"odd"}
    {"status":"success","output":null}
    {"status":"success","output":null}
    "#);
    let to_mcp = |result: &str| words::outcome_to_mcp(&raw(result)).get().to_owned();
    assert_snapshot!(rows(to_mcp, &[
        r#"{"status":"success","output":{ "temperature":89,"n":12345678901234567890}}"#,
        r#"{"status":"success","output":"Sünny"}"#,
        r#"{"status":"error","output":"no such city"}"#,
        r#"{"status":"success","output":[{"type":"text","text":"a"},{"type":"resource_link","uri":"a:1"}]}"#,
        r#"{"status":"success","output":[{"type":"sedan"}]}"#,
        r#"{"status":"success","output":[1,2]}"#,
        r#"{"status":"success","output":12345678901234567890}"#,
        r#"{"status":"success","output":null,"_meta":{"x":1}}"#,
        r#"{"status":"success"}"#,
        r#"{"content":[{"type":"text","text":"as MCP says it"}]}"#,
        "7",
    ]), @r#"
    {"content":[{"text":"{ \"temperature\":89,\"n\":12345678901234567890}","type":"text"}],"structuredContent":{ "temperature":89,"n":12345678901234567890}}
    {"content":[{"text":"Sünny","type":"text"}]}
    {"content":[{"text":"no such city","type":"text"}],"isError":true}
    {"content":[{"type":"text","text":"a"},{"type":"resource_link","uri":"a:1"}]}
    {"content":[{"text":"[{\"type\":\"sedan\"}]","type":"text"}],"_meta":{"salon/result":[{"type":"sedan"}]}}
    {"content":[{"text":"[1,2]","type":"text"}],"_meta":{"salon/result":[1,2]}}
    {"content":[{"text":"12345678901234567890","type":"text"}],"_meta":{"salon/result":12345678901234567890}}
    {"content":[],"_meta":{"x":1}}
    {"content":[]}
    {"content":[{"type":"text","text":"as MCP says it"}]}
    7
    "#);
}

#[test]
fn progress_both_ways() {
    let to_draft = |params: &str| {
        let params = Members::parse(params).unwrap_or_default();
        words::progress_to_draft(&params, &raw("\"q\"")).get().to_owned()
    };
    assert_snapshot!(rows(to_draft, &[
        r#"{"progressToken":1,"progress":21,"total":50,"message":"Searching…"}"#,
        r#"{"progressToken":1,"progress":1,"total":3}"#,
        r#"{"progressToken":1,"progress":7,"total":5}"#,
        r#"{"progressToken":1,"progress":-1,"total":5}"#,
        r#"{"progressToken":1,"progress":7,"message":"who knows"}"#,
        r#"{"progressToken":1,"progress":7,"total":0}"#,
        r#"{"progress":"much","total":1e400}"#,
    ]), @r#"
    {"id":"q","percent":42,"message":"Searching…"}
    {"id":"q","percent":33.33}
    {"id":"q","percent":100}
    {"id":"q","percent":0}
    {"id":"q","message":"who knows"}
    {"id":"q"}
    {"id":"q"}
    "#);
    let to_mcp = |params: &str| words::progress_to_mcp(Some(&raw(params))).map_or("-".into(), |p| p.get().to_owned());
    assert_snapshot!(rows(to_mcp, &[
        r#"{"id":10,"percent":42,"message":"Searching..."}"#,
        r#"{"id":"a","percent":0.5}"#,
        r#"{"id":10,"message":"no percent"}"#,
        r#"{"percent":1}"#,
        "[]",
    ]), @r#"
    {"progressToken":10,"progress":42,"total":100,"message":"Searching..."}
    {"progressToken":"a","progress":0.5,"total":100}
    -
    -
    -
    "#);
}

#[test]
fn cancelling_both_ways() {
    let named = |params: &str| words::cancelled(Some(&raw(params))).map_or("-".into(), |id| id.get().to_owned());
    assert_snapshot!(rows(named, &[r#"{"id":10}"#, r#"{"id":"a"}"#, "{}", "7"]), @r#"
    10
    "a"
    -
    -
    "#);
    let to_draft = |params: &str| words::cancel_to_draft(Some(&raw(params))).map_or("-".into(), |p| p.get().to_owned());
    assert_snapshot!(rows(to_draft, &[r#"{"requestId":10,"reason":"why"}"#, "{}"]), @r#"
    {"id":10}
    -
    "#);
}

#[test]
fn errors_both_ways() {
    let errors = [
        r#"{"code":-32602,"message":"Missing required parameter 'city'","data":{"n":12345678901234567890}}"#,
        r#"{"code":4001,"message":"x"}"#,
        r#"{"code":-32601,"message":"x"}"#,
        r#"{"code":-32800,"message":"x"}"#,
        r#""odd""#,
    ];
    assert_snapshot!(rows(|error| words::error_to_draft(&raw(error)).get().to_owned(), &errors), @r#"
    {"code":4001,"message":"Missing required parameter 'city'","data":{"n":12345678901234567890}}
    {"code":4001,"message":"x"}
    {"code":-32601,"message":"x"}
    {"code":-32800,"message":"x"}
    "odd"
    "#);
    assert_snapshot!(rows(|error| words::error_to_mcp(&raw(error)).get().to_owned(), &errors), @r#"
    {"code":-32602,"message":"Missing required parameter 'city'","data":{"n":12345678901234567890}}
    {"code":-32602,"message":"x"}
    {"code":-32601,"message":"x"}
    {"code":-32800,"message":"x"}
    "odd"
    "#);
}
