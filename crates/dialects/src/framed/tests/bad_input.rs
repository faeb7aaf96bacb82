//! What is refused, each with its code and a sentence, on a session that goes on.

use super::*;

/// What a session says to each line, and then to something proper.
fn told(lines: &[&str]) -> String {
    let mut play = Play::seated();
    let told = lines.iter().map(|line| play.run(line)).collect();
    assert!(play.run(r#"1 SEND proper {"payload":"x"}"#).starts_with('⇒'), "the session goes on");
    told
}

#[test]
fn headers() {
    assert_snapshot!(told(&[
        "1 frame  {}",
        "1 frame [] {}",
        "1 frame {\"id\":\"a\" {}",
        "1 frame {} {}",
        r#"1 frame {"id":5,"method":"SEND","version":"MCP/1.0"} {}"#,
        r#"1 frame {"id":"","method":"SEND","version":"MCP/1.0"} {}"#,
        r#"1 frame {"id":"a\nb","method":"SEND","version":"MCP/1.0"} {}"#,
        r#"1 frame {"id":"a","id":"b","method":"SEND","version":"MCP/1.0"} {}"#,
        r#"1 frame {"id":"a","method":"SEND"} {}"#,
        r#"1 frame {"id":"a","method":"SEND","version":"MCP/2.0"} {}"#,
        r#"1 frame {"id":"a","method":"SEND","version":"mcp/1.0"} {}"#,
        r#"1 frame {"id":"a","version":"MCP/1.0"} {}"#,
        r#"1 frame {"id":"a","method":"send","version":"MCP/1.0"} {}"#,
        r#"1 frame {"id":"a","method":"PUBLISH","version":"MCP/1.0"} {}"#,
        r#"1 frame {"id":"a","method":"SEND","version":"MCP/1.0","timestamp":"now"} {}"#,
        r#"1 frame {"id":"a","method":"SEND","version":"MCP/1.0","timestamp":-1} {}"#,
        r#"1 frame {"id":"a","method":"SEND","version":"MCP/1.0","timestamp":1e30} {}"#,
        r#"1 frame {"id":"a","method":"SEND","version":"MCP/1.0","contentType":5} {}"#,
        r#"1 frame {"id":"a","method":"SEND","version":"MCP/1.0","contentType":""} {}"#,
        r#"1 frame {"id":"a","method":"RECEIVE","version":"MCP/1.0","contentType":"binary"} {}"#,
        r#"1 frame {"id":"a","method":"SEND","version":"MCP/1.0","contentType":"binary","destination":7} {}"#,
    ]), @r#"
    1 ← 400   {"status":"error","code":"invalid_envelope","message":"`id` must be a string of 1 to 64 characters without control characters"}
    1 ← 400   {"status":"error","code":"invalid_json","message":"the header is not a JSON object: it does not begin with `{`"}
    1 ← 400   {"status":"error","code":"invalid_json","message":"the header is not a JSON object: expected `,` or `}` at line 1 column 11"}
    1 ← 400   {"status":"error","code":"invalid_envelope","message":"`id` must be a string of 1 to 64 characters without control characters"}
    1 ← 400 SEND  {"status":"error","code":"invalid_envelope","message":"`id` must be a string of 1 to 64 characters without control characters"}
    1 ← 400 SEND  {"status":"error","code":"invalid_envelope","message":"`id` must be a string of 1 to 64 characters without control characters"}
    1 ← 400 SEND a
    b {"status":"error","code":"invalid_envelope","message":"`id` must be a string of 1 to 64 characters without control characters"}
    1 ← 400   {"status":"error","code":"invalid_json","message":"the header is not a JSON object: duplicate field `id` at line 1 column 14"}
    1 ← 400 SEND a {"status":"error","code":"unsupported_protocol","message":"`version` must be \"MCP/1.0\""}
    1 ← 400 SEND a {"status":"error","code":"unsupported_protocol","message":"`version` must be \"MCP/1.0\""}
    1 ← 400 SEND a {"status":"error","code":"unsupported_protocol","message":"`version` must be \"MCP/1.0\""}
    1 ← 400  a {"status":"error","code":"invalid_envelope","message":"`method` must be a string"}
    1 ← 400 send a {"status":"error","code":"not_found","message":"`method` must be CONNECT, SEND, RECEIVE or DISCONNECT, in capitals"}
    1 ← 400 PUBLISH a {"status":"error","code":"not_found","message":"`method` must be CONNECT, SEND, RECEIVE or DISCONNECT, in capitals"}
    1 ← 400 SEND a {"status":"error","code":"invalid_envelope","message":"`timestamp` must be a number of milliseconds since 1970"}
    1 ← 400 SEND a {"status":"error","code":"invalid_envelope","message":"`timestamp` must be a number of milliseconds since 1970"}
    1 ← 400 SEND a {"status":"error","code":"invalid_envelope","message":"`timestamp` must be a number of milliseconds since 1970"}
    1 ← 400 SEND a {"status":"error","code":"invalid_envelope","message":"`contentType` must be a string of 1 to 128 characters, such as \"json\""}
    1 ← 400 SEND a {"status":"error","code":"invalid_envelope","message":"`contentType` must be a string of 1 to 128 characters, such as \"json\""}
    1 ← 400 RECEIVE a {"status":"error","code":"invalid_envelope","message":"`contentType` must be \"json\": only SEND has other bodies, not RECEIVE"}
    1 ← 400 SEND a {"status":"error","code":"invalid_envelope","message":"`destination` must be a string"}
    "#);
}

#[test]
fn times_to_wait() {
    let waits =
        |timeout: &str| match body::receive(format!(r#"{{"timeout":{timeout}}}"#).as_bytes(), &Limits::default()) {
            Ok(wait) => format!("{wait:?}"),
            Err(refusal) => refusal.code.to_string(),
        };
    for (timeout, told) in [
        ("0", "0ns"),
        ("-0", "0ns"),
        ("1500", "1.5s"),
        ("\"1500\"", "1.5s"),
        ("0.5", "500µs"),
        ("1e3", "1s"),
        ("30000", "30s"),
        ("30001", "30s"),
        ("9007199254740993", "30s"),
        ("99999999999999999999999999", "30s"),
        ("\"99999999999999999999999999\"", "30s"),
        ("1e400", "30s"),
        ("-1", "invalid_parameters"),
        ("-1e400", "invalid_parameters"),
        ("\"-1\"", "invalid_parameters"),
        ("\"\"", "invalid_parameters"),
        ("\" 5\"", "invalid_parameters"),
        ("\"1e3\"", "invalid_parameters"),
        ("\"0x10\"", "invalid_parameters"),
        ("\"٣\"", "invalid_parameters"),
        ("\"soon\"", "invalid_parameters"),
        ("null", "invalid_parameters"),
        ("true", "invalid_parameters"),
        ("[]", "invalid_parameters"),
        ("{}", "invalid_parameters"),
        ("NaN", "invalid_json"),
        ("01", "invalid_json"),
    ] {
        assert_eq!(waits(timeout), told, "{timeout}");
    }
    assert_eq!(body::receive(b"{}", &Limits::default()), Ok(Duration::from_secs(30)));
}

#[test]
fn bodies() {
    assert_snapshot!(told(&[
        "1 SEND a",
        "1 SEND a null",
        "1 SEND a []",
        r#"1 SEND a {"payload":"x""#,
        r#"1 SEND a {"payload":"x"} x"#,
        "1 SEND a {}",
        r#"1 SEND a {"payload":1,"data":1}"#,
        r#"1 SEND a {"payload":1,"payload":2}"#,
        r#"1 SEND a {"payload":{"a":1,"a":2}}"#,
        r#"1 SEND a {"payload":"x","metadata":[]}"#,
        r#"1 SEND a {"payload":{"jsonrpc":"2.0","method":"notifications/x"},"metadata":{"a":1}}"#,
        r#"1 SEND a {"payload":"x","destination":7}"#,
        r#"1 SEND a {"payload":"x","destination":""}"#,
        r#"1 SEND a {"payload":"x","destination":"b/o/b"}"#,
        r#"1 SEND a {"payload":"x","correlationId":""}"#,
        r#"1 SEND a {"payload":{"jsonrpc":"1.0","method":"x"}}"#,
        r#"1 SEND a {"payload":{"jsonrpc":"2.0"}}"#,
        r#"1 SEND a {"payload":{"jsonrpc":"2.0","id":null,"method":"x"}}"#,
        "1 RECEIVE a",
        r#"1 RECEIVE a {"timeout":-5}"#,
        r#"1 DISCONNECT a {"reason":5}"#,
        "1 DISCONNECT a",
    ]), @r#"
    1 ← 400 SEND a {"status":"error","code":"invalid_json","message":"the message is not valid JSON: unexpected end at byte 0"}
    1 ← 400 SEND a {"status":"error","code":"invalid_json","message":"the body is not the JSON object it must be: it does not begin with `{`"}
    1 ← 400 SEND a {"status":"error","code":"invalid_json","message":"the body is not the JSON object it must be: it does not begin with `{`"}
    1 ← 400 SEND a {"status":"error","code":"invalid_json","message":"the message is not valid JSON: unexpected end at byte 14"}
    1 ← 400 SEND a {"status":"error","code":"invalid_json","message":"the message is not valid JSON: unexpected text after the value at byte 16"}
    1 ← 400 SEND a {"status":"error","code":"invalid_parameters","message":"`payload` is missing"}
    1 ← 400 SEND a {"status":"error","code":"invalid_parameters","message":"`payload` and `data` are two names for one thing; use one of them"}
    1 ← 400 SEND a {"status":"error","code":"invalid_json","message":"the message is not valid JSON: the key \"payload\" stands twice in one object"}
    1 ← 400 SEND a {"status":"error","code":"invalid_json","message":"the message is not valid JSON: the key \"a\" stands twice in one object"}
    1 ← 400 SEND a {"status":"error","code":"invalid_parameters","message":"`metadata` must be an object"}
    1 ← 400 SEND a {"status":"error","code":"invalid_parameters","message":"a JSON-RPC payload has its own `_meta`: `metadata` does not go with it"}
    1 ← 400 SEND a {"status":"error","code":"invalid_parameters","message":"`destination` must be a string"}
    1 ← 400 SEND a {"status":"error","code":"invalid_parameters","message":"`destination` names nobody: it is empty"}
    1 ← 400 SEND a {"status":"error","code":"invalid_parameters","message":"`destination` names nobody: '/' is not allowed: a name has letters and digits of ASCII, spaces between them, and ! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~"}
    1 ← 400 SEND a {"status":"error","code":"invalid_parameters","message":"`correlationId` is no message's id: it is empty"}
    1 ← 400 SEND a {"status":"rejected","code":"invalid_envelope","message":"`payload.jsonrpc` must be \"2.0\""}
    1 ← 400 SEND a {"status":"rejected","code":"invalid_envelope","message":"`payload` has neither `method` nor `result` nor `error`"}
    1 ← 400 SEND a {"status":"rejected","code":"invalid_envelope","message":"`payload.id` must be a number or a string"}
    1 ← 400 RECEIVE a {"status":"error","code":"invalid_json","message":"the message is not valid JSON: unexpected end at byte 0"}
    1 ← 400 RECEIVE a {"status":"error","code":"invalid_parameters","message":"`timeout` must be a number of milliseconds from 0, as a number or in digits; more than 30000 is 30000"}
    1 ← 400 DISCONNECT a {"status":"error","code":"invalid_parameters","message":"`reason` must be a string"}
    1 ← 400 DISCONNECT a {"status":"error","code":"invalid_json","message":"the message is not valid JSON: unexpected end at byte 0"}
    "#);
}

/// What a CONNECT with this more in its header and in its body comes to.
fn routed_connect(in_header: &str, in_body: &str) -> String {
    let header = format!(r#"{{"id":"a","method":"CONNECT","version":"MCP/1.0"{in_header}}}"#);
    let body = format!(r#"{{"token":"secret","clientInfo":{{"id":"alice"}}{in_body}}}"#);
    match route(&encode(header.as_bytes(), body.as_bytes())) {
        FrameRoute::Connect(connect) => format!("connect {}", connect.id),
        FrameRoute::Session(id) => format!("session {id}"),
        FrameRoute::Refused(refusal) => refusal.to_string(),
    }
}

#[test]
fn a_connect_that_is_too_deep_or_not_strict_json_is_refused() {
    let deep = |levels: usize| format!(r#","x":{}{}"#, "[".repeat(levels), "]".repeat(levels));
    assert_eq!(routed_connect(&deep(63), &deep(63)), "connect alice");
    for levels in [64, 200, 20_000] {
        let told = "too_deep: the header is nested deeper than 64 levels";
        assert_eq!(routed_connect(&deep(levels), ""), told, "{levels} levels in the header");
        let told = "too_deep: the body of CONNECT is nested deeper than 64 levels";
        assert_eq!(routed_connect("", &deep(levels)), told, "{levels} levels in the body");
    }
    let twice = r#","x":{"a":1,"a":2}"#;
    let told = "invalid_json: the header is not a JSON object: a key stands twice in it, or a string is broken";
    assert_eq!(routed_connect(twice, ""), told);
    let told = "invalid_json: the body of CONNECT is not a JSON object in which every key stands once";
    assert_eq!(routed_connect("", twice), told);
}

#[test]
fn what_is_too_deep_or_no_text() {
    let mut play = Play::seated();
    let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    assert!(
        play.run(&format!(r#"1 SEND a {{"payload":{}}}"#, deep(62))).starts_with("1 ← 400"),
        "in `params.data` it is deeper"
    );
    assert!(play.run(&format!(r#"1 SEND b {{"payload":{}}}"#, deep(61))).starts_with('⇒'));
    let told = play.run(&format!(r#"1 SEND c {{"payload":{}}}"#, deep(100_000)));
    assert_snapshot!(told, @r#"1 ← 400 SEND c {"status":"error","code":"too_deep","message":"the message was refused: it is nested deeper than 64 levels"}"#);
    let header = br#"{"id":"d","method":"SEND","version":"MCP/1.0"}"#;
    play.frame(1, encode(header, b"{\"payload\":\"\xff\"}"));
    play.collect();
    assert_snapshot!(play.run(""), @r#"1 ← 400 SEND d {"status":"error","code":"invalid_json","message":"the body is not UTF-8; raw bytes need another `contentType`"}"#);
    play.frame(1, b"\0\0\0\x01{".as_slice().into());
    play.collect();
    assert_snapshot!(play.run(""), @r#"1 ← 400   {"status":"error","code":"invalid_envelope","message":"the lengths are not those of one frame"}"#);
}

/// What the connection's side is told of a frame.
fn routed(header: &str, body: &str) -> String {
    match route(&encode(header.as_bytes(), body.as_bytes())) {
        FrameRoute::Connect(connect) => format!(
            "connect {} to {:?} with {} and {:?}",
            connect.id,
            connect.topic,
            connect.token.map_or("no token", |_| "a token"),
            connect.capabilities
        ),
        FrameRoute::Session(session) => format!("session {session}"),
        FrameRoute::Refused(refusal) => format!("{} {refusal}", header::status(refusal.code)),
    }
}

#[test]
fn whose_a_frame_is() {
    let of = |method: &str, more: &str, body: &str| {
        routed(&format!(r#"{{"id":"a","method":"{method}","version":"MCP/1.0"{more}}}"#), body)
    };
    assert_snapshot!([
        of("SEND", "", r#"{"sessionId":"S"}"#),
        of("SEND", r#","sessionId":"H""#, r#"{"sessionId":"S"}"#),
        of("SEND", r#","sessionId":"H""#, "{}"),
        of("SEND", r#","sessionId":"H""#, "not JSON"),
        of("SEND", r#","sessionId":"H","contentType":"binary""#, r#"{"sessionId":"S"}"#),
        of("SEND", r#","contentType":"binary""#, r#"{"sessionId":"S"}"#),
        of("RECEIVE", "", "{}"),
        of("RECEIVE", "", r#"{"sessionId":5}"#),
        of("RECEIVE", "", r#"["S"]"#),
        of("RECEIVE", "", ""),
        of("RECEIVE", "", r#"{"sessionId":"S","sessionId":"T"}"#),
        of("CONNECT", "", r#"{"token":"t","topic":"room:a","clientInfo":{"id":"alice","version":"1","capabilities":["x"]}}"#),
        of("CONNECT", "", r#"{"clientInfo":{"id":"alice"}}"#),
        of("CONNECT", "", r#"{"token":"t"}"#),
        of("CONNECT", "", r#"{"token":"t","clientInfo":"alice"}"#),
        of("CONNECT", "", r#"{"token":"t","clientInfo":{}}"#),
        of("CONNECT", "", r#"{"token":5,"clientInfo":{"id":"alice"}}"#),
        of("CONNECT", "", r#"{"token":"t","topic":["room:a"],"clientInfo":{"id":"alice"}}"#),
        of("CONNECT", "", r#"{"token":"t","clientInfo":{"id":"alice","capabilities":"x"}}"#),
        of("CONNECT", "", r#"{"token":"t","clientInfo":{"id":"alice","capabilities":[1]}}"#),
        of("CONNECT", "", r#"{"token":"secret"#),
        of("CONNECT", "", r#"{"token":"secret","token":"secret"}"#),
        of("CONNECT", "", r#"["secret"]"#),
        of("STEAL", "", "{}"),
        routed("", "{}"),
        routed("{}", ""),
    ].join("\n"), @r#"
    session S
    session S
    session H
    session H
    session H
    401 unauthorized: `sessionId` is missing; begin with CONNECT
    401 unauthorized: `sessionId` is missing; begin with CONNECT
    400 invalid_parameters: `sessionId` must be a string
    400 invalid_json: the body is not the JSON object it must be: it does not begin with `{`
    400 invalid_json: the body is not the JSON object it must be: it does not begin with `{`
    400 invalid_json: the body is not the JSON object it must be: duplicate field `sessionId` at line 1 column 28
    connect alice to Some("room:a") with a token and ["x"]
    connect alice to None with no token and []
    400 invalid_parameters: `clientInfo` must be an object with `id`
    400 invalid_parameters: `clientInfo` must be an object with `id`
    400 invalid_parameters: `clientInfo.id` is missing: it must be the token's participant
    400 invalid_parameters: `token` must be a string
    400 invalid_parameters: `topic` must be a string
    400 invalid_parameters: `clientInfo.capabilities` must be at most 64 strings of at most 128 characters
    400 invalid_parameters: `clientInfo.capabilities` must be at most 64 strings of at most 128 characters
    400 invalid_json: the body of CONNECT is not a JSON object in which every key stands once
    400 invalid_json: the body of CONNECT is not a JSON object in which every key stands once
    400 invalid_json: the body of CONNECT is not a JSON object in which every key stands once
    400 not_found: `method` must be CONNECT, SEND, RECEIVE or DISCONNECT, in capitals
    400 invalid_json: the header is not a JSON object: it does not begin with `{`
    400 invalid_envelope: `id` must be a string of 1 to 64 characters without control characters
    "#);
}
