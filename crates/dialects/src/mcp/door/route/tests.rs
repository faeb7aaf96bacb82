use insta::assert_snapshot;
use proptest::prelude::*;

use super::super::modern_checks::{ModernError, check, check_params, status};
use super::*;

/// Where a body belongs, or its status and answer.
fn route(version: Option<&str>, body: &str) -> Result<PostRoute, String> {
    let read = Body::read(version, body);
    read.map(|body| body.route).map_err(|fault| format!("{} {}", fault.status, fault.message()))
}

fn routed(version: Option<&str>, body: &str) -> String {
    route(version, body).map_or_else(|refused| refused, |route| format!("{route:?}"))
}

const MODERN: Option<&str> = Some("2026-07-28");
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}"#;

fn message(head: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0",{head},"params":{{{params}}}}}"#)
}

#[test]
fn a_post_is_modern_by_its_meta_or_its_header() {
    let list = message(r#""id":1,"method":"tools/list""#, "");
    let initialize = message(r#""id":1,"method":"initialize""#, r#""protocolVersion":"2025-06-18""#);
    assert_eq!(route(None, &list), Ok(PostRoute::Legacy));
    assert_eq!(route(None, &initialize), Ok(PostRoute::Initialize));
    assert_eq!(route(None, r#"{"jsonrpc":"2.0","method":"initialize"}"#), Ok(PostRoute::Legacy));
    assert_eq!(route(None, r#"{"jsonrpc":"2.0","id":"a","result":{}}"#), Ok(PostRoute::Legacy));
    assert_eq!(route(None, " {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n"), Ok(PostRoute::Legacy));
    for legacy in ["2025-06-18", "2025-11-25", "1900-01-01", "v999.0.0", "2026-07-2x", "9999", ""] {
        assert_eq!(route(Some(legacy), &list), Ok(PostRoute::Legacy), "{legacy}");
        assert_eq!(route(Some(legacy), &initialize), Ok(PostRoute::Initialize), "{legacy}");
    }
    for modern in ["2026-07-28", "2027-01-01", " 2026-07-28 "] {
        assert_eq!(route(Some(modern), &list), Ok(PostRoute::Modern), "{modern}");
        assert_eq!(route(Some(modern), &initialize), Ok(PostRoute::Modern), "{modern}");
    }
    for head in [r#""id":1,"method":"tools/list""#, r#""id":1,"method":"initialize""#, r#""method":"notifications/x""#]
    {
        assert_eq!(route(None, &message(head, META)), Ok(PostRoute::Modern), "{head}");
        assert_eq!(route(Some("2025-06-18"), &message(head, META)), Ok(PostRoute::Modern), "{head}");
    }
    let odd = r#""_meta":{"io.modelcontextprotocol/protocolVersion":7}"#;
    assert_eq!(route(None, &message(r#""id":1,"method":"tools/list""#, odd)), Ok(PostRoute::Modern));
}

#[test]
fn what_is_no_message_is_refused_with_its_id() {
    assert_snapshot!(routed(None, ""), @r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the body is not valid JSON"}}"#);
    assert_snapshot!(routed(None, "{} {}"), @r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the body is not valid JSON"}}"#);
    assert_snapshot!(routed(None, "7"), @r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a message is a JSON object"}}"#);
    assert_snapshot!(routed(None, r#"{"id":1,"method":"ping"}"#), @r#"400 {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"`jsonrpc` must be \"2.0\""}}"#);
    assert_snapshot!(routed(None, r#"{"jsonrpc":"2.0","id":"a"}"#), @r#"400 {"jsonrpc":"2.0","id":"a","error":{"code":-32600,"message":"a message has a `method`, a `result` or an `error`"}}"#);
    assert_snapshot!(routed(None, r#"{"jsonrpc":"2.0","id":1,"method":7}"#), @r#"400 {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"`method` must be a string, and no member may stand twice"}}"#);
    assert_snapshot!(routed(None, r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{},"params":{}}"#), @r#"400 {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"`method` must be a string, and no member may stand twice"}}"#);
    assert_snapshot!(routed(None, r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#), @r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"an `id` is a number or a string"}}"#);
    assert_snapshot!(routed(None, r#"{"jsonrpc":"2.0","id":[1],"method":"a"}"#), @r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"an `id` is a number or a string"}}"#);
    assert_snapshot!(routed(None, r#"{"jsonrpc":"2.0","id":1,"method":"a","result":{}}"#), @r#"400 {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"a message has a `method` or is an answer, not both"}}"#);
    assert_snapshot!(routed(None, r#"{"jsonrpc":"2.0","result":{}}"#), @r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"an answer must have an `id`"}}"#);
    assert_snapshot!(routed(None, r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#), @r#"400 {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"an answer has either a `result` or an `error`, not both"}}"#);
    assert_snapshot!(routed(MODERN, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), @r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a client of this revision of MCP sends no answers"}}"#);
}

#[test]
fn a_batch_is_legacy_in_all_its_parts() {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_snapshot!(routed(None, &format!("[{ping},{ping},7]")), @"Legacy");
    assert_snapshot!(routed(None, "[]"), @r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a batch has at least one message"}}"#);
    assert_snapshot!(routed(MODERN, &format!("[{ping}]")), @r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this revision of MCP has no batches"}}"#);
    let modern = message(r#""id":2,"method":"tools/list""#, META);
    assert_snapshot!(routed(None, &format!("[{ping},{modern}]")), @r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this revision of MCP has no batches"}}"#);
    let initialize = message(r#""id":2,"method":"initialize""#, "");
    assert_snapshot!(routed(None, &format!("[{ping},{initialize}]")), @r#"400 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"`initialize` must not be part of a batch"}}"#);
}

#[test]
fn no_nesting_is_too_deep_for_the_stack() {
    let deep = |open: &str, close: &str| open.repeat(50_000) + "1" + &close.repeat(50_000);
    let (arrays, objects) = (deep("[", "]"), deep(r#"{"a":"#, "}"));
    let everywhere = move || {
        for deep in [&arrays, &objects] {
            for body in [
                deep.clone(),
                format!("[{deep}]"),
                format!(r#"{{"jsonrpc":"2.0","id":{deep},"method":"a"}}"#),
                message(r#""id":1,"method":"tools/call""#, &format!(r#""arguments":{deep},{META}"#)),
                message(r#""id":1,"method":"a""#, &format!(r#""_meta":{deep}"#)),
                message(
                    r#""id":1,"method":"a""#,
                    &format!(r#""_meta":{{"io.modelcontextprotocol/protocolVersion":{deep}}}"#),
                ),
            ] {
                let _ = (route(MODERN, &body), PollBody::read(&body));
                if let Some(head) = RpcHead::read(&body) {
                    let wrong = check(None, "tools/call", head.params).err();
                    assert!(wrong.is_none_or(|wrong| wrong.error.message.len() < 1000));
                }
            }
            let tool = raw(&format!(r#"{{"name":"t","inputSchema":{{"properties":{{"a":{deep}}}}}}}"#));
            assert!(check_params(&[], &tool, Some(&raw(deep))).is_ok());
        }
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(everywhere).unwrap().join().unwrap();
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap()
}

/// Headers from `name: value` lines.
fn headers(lines: &str) -> Vec<(Box<str>, Box<str>)> {
    let line = |line: &str| line.split_once(':').map(|(name, value)| (name.trim().into(), value.into()));
    lines.lines().filter_map(line).collect()
}

fn shown(outcome: Result<String, ModernError>) -> String {
    match outcome {
        Ok(text) => text,
        Err(ModernError { status, error }) => {
            let data = error.data.map(|data| format!(" {data}")).unwrap_or_default();
            format!("{status} {}: {}{data}", error.code, error.message)
        }
    }
}

fn checked(lines: Option<&str>, method: &str, params: &str) -> String {
    let headers = lines.map(headers);
    let asker = check(headers.as_deref(), method, Some(&raw(&format!("{{{params}}}"))));
    shown(asker.map(|asker| {
        format!("{} {:?} {:?}", asker.capabilities, asker.info.map(|info| info.get().to_owned()), asker.level)
    }))
}

#[test]
fn a_request_says_who_asks() {
    assert_snapshot!(checked(None, "tools/list", META), @r#"{"roots":{}} Some("{\"name\":\"c\"}") None"#);
    let meta =
        |members: &str| format!(r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28",{members}}}"#);
    assert_snapshot!(checked(None, "tools/list", &meta(r#""io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info""#)), @"{} None Some(Info)");
    assert_snapshot!(checked(None, "tools/list", &meta(r#""io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"loud""#)), @r#"400 -32602: there is no log level "loud""#);
    assert_snapshot!(checked(None, "tools/list", &meta(r#""io.modelcontextprotocol/clientCapabilities":[]"#)), @"400 -32602: `_meta` must have `io.modelcontextprotocol/clientCapabilities`, which is an object");
    assert_snapshot!(checked(None, "tools/list", r#""_meta":{"io.modelcontextprotocol/clientCapabilities":{}}"#), @"400 -32602: `_meta` must have `io.modelcontextprotocol/protocolVersion`");
    assert_snapshot!(checked(None, "tools/list", ""), @"400 -32602: `_meta` must have `io.modelcontextprotocol/protocolVersion`");
    assert_snapshot!(shown(check(None, "tools/list", None).map(|_| String::new())), @"400 -32602: `_meta` must have `io.modelcontextprotocol/protocolVersion`");
    assert_snapshot!(shown(check(None, "tools/list", Some(&raw("[]"))).map(|_| String::new())), @"400 -32602: `_meta` must have `io.modelcontextprotocol/protocolVersion`");
}

/// The probes of the official suite among them.
#[test]
fn the_revision_must_be_known_and_the_same_in_both_places() {
    let discover = |version: &str, params: &str| {
        checked(Some(&format!("{version}\nmcp-method: server/discover")), "server/discover", params)
    };
    let other = META.replace("2026-07-28", "v999.0.0");
    assert_snapshot!(discover("mcp-protocol-version: 2026-07-28", META), @r#"{"roots":{}} Some("{\"name\":\"c\"}") None"#);
    assert_snapshot!(discover("mcp-protocol-version: 2026-07-28", ""), @"400 -32602: `_meta` must have `io.modelcontextprotocol/protocolVersion`");
    assert_snapshot!(discover("mcp-protocol-version: 2026-07-28", &other), @r#"400 -32020: MCP-Protocol-Version says "2026-07-28", the body "v999.0.0""#);
    assert_snapshot!(discover("mcp-protocol-version: v999.0.0", &other), @r#"400 -32022: the revision "v999.0.0" of MCP is not spoken here without a handshake {"requested":"v999.0.0","supported":["2026-07-28"]}"#);
    assert_snapshot!(discover("mcp-protocol-version: 2027-01-01", ""), @r#"400 -32022: the revision "2027-01-01" of MCP is not spoken here without a handshake {"requested":"2027-01-01","supported":["2026-07-28"]}"#);
    assert_snapshot!(discover("", META), @"400 -32020: the header MCP-Protocol-Version is missing");
    let legacy = META.replace("2026-07-28", "2025-06-18");
    assert_snapshot!(discover("mcp-protocol-version: 2025-06-18", &legacy), @r#"400 -32022: the revision "2025-06-18" of MCP is not spoken here without a handshake {"requested":"2025-06-18","supported":["2026-07-28"]}"#);
}

#[test]
fn headers_repeat_the_method_and_the_name() {
    let call = |lines: &str, params: &str| {
        let lines = format!("mcp-protocol-version: 2026-07-28\n{lines}");
        checked(Some(&lines), "tools/call", &format!("{META}{params}"))
    };
    let named = r#","name":"get.ü""#;
    assert_snapshot!(call("mcp-method: tools/call\nmcp-name:  =?base64?Z2V0LsO8?= ", named), @r#"{"roots":{}} Some("{\"name\":\"c\"}") None"#);
    assert_snapshot!(call("mcp-method: tools/call\nmcp-name:  t  \nmcp-name: t", r#","name":"t""#), @r#"{"roots":{}} Some("{\"name\":\"c\"}") None"#);
    assert_snapshot!(call("mcp-method: tools/call", named), @"400 -32020: the header Mcp-Name is missing");
    assert_snapshot!(call("mcp-method: tools/call\nmcp-name: other", named), @r#"400 -32020: Mcp-Name says "other", the body "get.ü""#);
    assert_snapshot!(call("mcp-method: tools/call\nmcp-name: t\nmcp-name: u", r#","name":"t""#), @"400 -32020: the header mcp-name stands twice and differs");
    assert_snapshot!(call("mcp-method: tools/call\nmcp-name: ü", named), @"400 -32020: the header mcp-name has a value that is not allowed");
    assert_snapshot!(call("mcp-method: tools/call\nmcp-name: t", ""), @r#"400 -32020: Mcp-Name says "t", the body nothing"#);
    assert_snapshot!(call("mcp-method: tools/call", ""), @r#"{"roots":{}} Some("{\"name\":\"c\"}") None"#);
    assert_snapshot!(call("mcp-method: TOOLS/CALL\nmcp-name: t", r#","name":"t""#), @r#"400 -32020: Mcp-Method says "TOOLS/CALL", the body "tools/call""#);
    assert_snapshot!(call("mcp-name: t", r#","name":"t""#), @"400 -32020: the header Mcp-Method is missing");
    let get = |line: &str| {
        checked(
            Some(&format!("mcp-protocol-version: 2026-07-28\nmcp-method: tasks/get\n{line}")),
            "tasks/get",
            &format!(r#"{META},"taskId":"7""#),
        )
    };
    assert_snapshot!(get(""), @r#"{"roots":{}} Some("{\"name\":\"c\"}") None"#);
    assert_snapshot!(get("mcp-name: 8"), @r#"400 -32020: Mcp-Name says "8", the body "7""#);
}

fn params(lines: &str, arguments: &str) -> String {
    let tool = raw(
        r#"{"name":"q","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},
        "deep":{"properties":{"n":{"type":"integer","x-mcp-header":"N"}}},"flag":{"type":"boolean","x-mcp-header":"Flag"}}}}"#,
    );
    shown(check_params(&headers(lines), &tool, Some(&raw(arguments))).map(|()| "fine".into()))
}

/// The cases of the official suite among them.
#[test]
fn headers_repeat_annotated_arguments() {
    assert_snapshot!(params("", "{}"), @"fine");
    assert_snapshot!(params("", r#"{"region":null,"deep":{},"other":1}"#), @"fine");
    assert_snapshot!(params("mcp-param-region: =?base64?SGVsbG8=?=\nmcp-param-n: 42\nmcp-param-flag: true", r#"{"region":"Hello","deep":{"n":42},"flag":true}"#), @"fine");
    assert_snapshot!(params("mcp-param-region: SGVsbG8=", r#"{"region":"SGVsbG8="}"#), @"fine");
    assert_snapshot!(params("mcp-param-region: =?base64?SGVsbG8=", r#"{"region":"=?base64?SGVsbG8="}"#), @"fine");
    assert_snapshot!(params("mcp-param-region: =?base64?SGVsbG8?=", r#"{"region":"Hello"}"#), @"400 -32020: the header mcp-param-region has a value that is not allowed");
    assert_snapshot!(params("mcp-param-region: =?base64?SGVs!!!bG8=?=", r#"{"region":"Hello"}"#), @"400 -32020: the header mcp-param-region has a value that is not allowed");
    assert_snapshot!(params("", r#"{"region":"test-value"}"#), @"400 -32020: the header Mcp-Param-Region is missing");
    assert_snapshot!(params("mcp-param-region: eu", r#"{"region":"us"}"#), @r#"400 -32020: Mcp-Param-Region says "eu", the body "us""#);
    assert_snapshot!(params("mcp-param-region: eu", r#"{"region":null}"#), @r#"400 -32020: Mcp-Param-Region says "eu", the body nothing"#);
    assert_snapshot!(params("mcp-param-other: x", "{}"), @"fine");
    assert_snapshot!(shown(check_params(&[], &raw("7"), None).map(|()| "fine".into())), @"fine");
}

#[test]
fn numbers_are_compared_as_numbers() {
    for (header, body, expected) in [
        ("42.0", "42", true),
        ("42", "42.0", true),
        ("4.2e1", "42", true),
        ("9007199254740993", "9007199254740992", false),
        ("42", r#""42.0""#, false),
        ("42", r#""42""#, true),
        ("inf", "1e999", false),
        ("2e999", "1e999", false),
        ("43", "42", false),
        ("-7", "-7", true),
        ("", "42", false),
    ] {
        let outcome = params(&format!("mcp-param-n: {header}"), &format!(r#"{{"deep":{{"n":{body}}}}}"#));
        assert_eq!(outcome == "fine", expected, "{header} {body}: {outcome}");
    }
}

#[test]
fn errors_have_their_status() {
    let codes = [-32601, -32020, -32021, -32022, -32700, -32600, -32602, -32603, 7];
    assert_eq!(codes.map(status), [404, 400, 400, 400, 400, 400, 200, 200, 200]);
}

proptest! {
    #[test]
    fn whatever_comes_has_a_route(version in proptest::option::of(r"\PC{0,12}|20[0-9]{2}-[0-9]{2}-[0-9]{2}"), body in r#"([\[\]{},:1"]|"jsonrpc":"2.0"|"method":"a"|"id":|"params":|"_meta":|\PC){0,24}"#) {
        if let Err(fault) = Body::read(version.as_deref(), &body) {
            let answer: serde_json::Value = serde_json::from_str(fault.message().get()).expect("a fault is JSON");
            prop_assert_eq!((fault.status, &answer["jsonrpc"]), (400, &"2.0".into()));
        }
    }

    #[test]
    fn whatever_headers_come_are_checked(value in r"(=\?base64\?)?\PC{0,12}(\?=)?", body in r#""\PC{0,8}"|-?[0-9.e]{1,5}|\{\}"#) {
        let lines = format!("mcp-protocol-version: {value}\nmcp-method: {value}\nmcp-name: {value}\nmcp-param-n: {value}");
        if let Ok(arguments) = RawValue::from_string(format!(r#"{{"deep":{{"n":{body}}}}}"#)) {
            params(&lines, arguments.get());
        }
        checked(Some(&lines), "tools/call", META);
    }
}
