//! What a client of the dialect says wrongly, and how it is told so in the dialect.

use super::*;

/// What is said, to a session that is open, and what the answer must have in it; nothing where nothing may be answered.
const TABLE: [(&str, &str); 27] = [
    // No JSON.
    ("", r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700"#),
    ("{", r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700"#),
    (r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#, r#""id":null,"error":{"code":-32700"#),
    // No message.
    ("5", r#""id":null,"error":{"code":-32600"#),
    ("null", r#""id":null,"error":{"code":-32600"#),
    ("[]", r#""id":null,"error":{"code":-32600"#),
    (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "has no batches"),
    (r#"{"id":7,"method":"ping"}"#, r#""id":7,"error":{"code":-32600,"message":"`jsonrpc` must be"#),
    (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, r#""id":7,"error":{"code":-32600"#),
    (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, r#""id":null,"error":{"code":-32600"#),
    (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, r#""id":null,"error":{"code":-32600"#),
    (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, r#""id":7,"error":{"code":-32600"#),
    (r#"{"jsonrpc":"2.0","id":7}"#, r#""id":7,"error":{"code":-32600"#),
    (r#"{"jsonrpc":"2.0","id":7,"result":1,"error":{}}"#, r#""id":7,"error":{"code":-32600"#),
    // Requests that are none of the dialect's.
    (r#"{"jsonrpc":"2.0","id":7,"method":"tools/dance"}"#, r#""id":7,"error":{"code":-32601"#),
    (r#"{"jsonrpc":"2.0","id":7,"method":"initialized"}"#, r#""id":7,"error":{"code":-32601"#),
    (
        r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}"#,
        r#""id":7,"error":{"code":-32600,"message":"this session has begun"#,
    ),
    (
        r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
        r#""error":{"code":-32600,"message":"this session speaks the draft dialect"#,
    ),
    // Wrong parameters, which have a code of the dialect's own.
    (r#"{"jsonrpc":"2.0","id":7,"method":"tools/invoke"}"#, r#""id":7,"error":{"code":4001"#),
    (r#"{"jsonrpc":"2.0","id":7,"method":"tools/invoke","params":[]}"#, r#""id":7,"error":{"code":4001"#),
    (r#"{"jsonrpc":"2.0","id":7,"method":"tools/invoke","params":{"name":5}}"#, r#""id":7,"error":{"code":4001"#),
    (
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/invoke","params":{"name":"nobody__x"}}"#,
        r#""id":7,"error":{"code":4001"#,
    ),
    (
        r#"{"jsonrpc":"2.0","id":7,"method":"logging/setLevel","params":{"level":"loud"}}"#,
        r#""id":7,"error":{"code":4001"#,
    ),
    // Notifications and answers are never answered.
    (r#"{"jsonrpc":"2.0","method":"cancel","params":{"id":99}}"#, ""),
    (r#"{"jsonrpc":"2.0","method":"cancel","params":7}"#, ""),
    (r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#, ""),
    (r#"{"jsonrpc":"2.0","id":3,"result":{}}"#, ""),
];

#[test]
fn over_a_websocket() {
    for (said, expected) in TABLE {
        let mut play = Play::greeted(HELLO);
        play.frame(StreamId::ONLY, said);
        // Whom a name may belong to is asked of everybody first.
        while !play.open.is_empty() {
            play.answer(0, r#"{"tools":[]}"#);
        }
        let told = std::mem::take(&mut play.told);
        assert_eq!(told.is_empty(), expected.is_empty(), "{said}: {told}");
        assert!(told.contains(expected) && told.lines().count() <= 1, "{said}: {told}");
        assert_eq!(play.act("call 1 ping"), "← {\"id\":1,\"result\":{}}\n", "the session goes on after {said}");
    }
}

#[test]
fn over_http_what_is_no_message_is_a_bad_request() {
    for (said, expected) in TABLE {
        let play = Play::new(DoorScope::Room, "bob");
        let mut play = play.after(&format!("1 call 1 initialize {HELLO}\nseat"));
        let post = Post { body: Body::read(None, said), headers: Vec::new(), apart: false };
        play.event(DialectEvent::StreamOpened(StreamId(2), McpOpening::Post(post)));
        while !play.open.is_empty() {
            play.answer(0, r#"{"tools":[]}"#);
        }
        let is_message =
            said.contains(r#""jsonrpc":"2.0""#) && !expected.contains("-32600") && !expected.contains("-32700");
        let is_message = is_message && !expected.contains("batches") || expected.contains("has begun");
        let status = match (is_message, expected.is_empty()) {
            (_, true) => "begin 2 202 empty",
            (true, false) => "begin 2 200 json",
            (false, false) => "begin 2 400 json",
        };
        assert!(play.told.starts_with(status), "{said}: {}", play.told);
        assert!(play.told.contains(expected) && play.told.ends_with("finish 2\n"), "{said}: {}", play.told);
    }
}

#[test]
fn a_frame_that_is_no_text_is_refused() {
    let mut play = Play::greeted(HELLO);
    play.dialect.handle_frame(StreamId::ONLY, Frame::Binary([1, 2].into()), play.now);
    play.collect();
    assert_snapshot!(play.told, @r#"← {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a message is text, not binary"}}"#);
}

#[test]
fn a_handshake_that_fails_ends_the_session_and_says_why() {
    for params in [
        r#"{"mcpVersion":"2024-11-05"}"#,
        r#"{"mcpVersion":null}"#,
        r#"{"mcpVersion":"2025-06-18","clientCapabilities":[]}"#,
        r#"{"mcpVersion":"2025-06-18","clientCapabilities":{"supportsProgress":1}}"#,
    ] {
        let told = Play::duplex("bob").act(&format!("call 1 initialize {params}"));
        assert!(told.starts_with(r#"← {"id":1,"error":{"code":4001,"#) && told.ends_with("close bye\n"), "{told}");
        let told = Play::new(DoorScope::Room, "bob").act(&format!("1 call 1 initialize {params}"));
        // No session is named, for there is none.
        assert!(told.starts_with("begin 1 200 json\n1← {\"id\":1,\"error\":{\"code\":4001,"), "{told}");
        assert!(told.ends_with("finish 1\nclose bye\n"), "{told}");
        let told = Play::new(DoorScope::Room, "bob").act(&format!("1 poll 9 call 1 initialize {params}"));
        assert!(told.contains(r#"1← [{"id":1,"error":{"code":4001,"#) && told.ends_with("close bye\n"), "{told}");
    }
}

#[test]
fn a_poll_that_is_not_json_or_too_much_is_refused() {
    let many = format!("[{}]", vec!["{}"; 65].join(","));
    for (body, code) in [("{", -32700), ("[1", -32700), ("[{}] x", -32700), (many.as_str(), -32600)] {
        let play = Play::new(DoorScope::Room, "bob").after(&format!("1 poll 0 call 1 initialize {HELLO}\nseat"));
        let told = play.act(&format!("2 poll 9 client {body}"));
        let expected = format!("begin 2 400 json\n2← {{\"id\":null,\"error\":{{\"code\":{code}");
        assert!(told.starts_with(&expected) && told.ends_with("finish 2\n"), "{body}: {told}");
    }
}

#[test]
fn every_refusal_is_counted_once() {
    for (said, expected) in TABLE {
        let mut play = Play::greeted(HELLO);
        play.counted.clear();
        play.frame(StreamId::ONLY, said);
        while !play.open.is_empty() {
            play.answer(0, r#"{"tools":[]}"#);
        }
        let codes = &play.counted;
        assert_eq!(codes.len(), usize::from(!expected.is_empty()), "{said}: {codes:?}");
    }
}

#[test]
fn refusals_of_the_dialect_itself_are_counted_by_what_is_wrong() {
    for (script, code) in [
        ("1 poll 9 client {", "invalid_envelope"),
        (r#"1 call 1 initialize {"mcpVersion":"2024-11-05"}"#, "invalid_parameters"),
    ] {
        let mut play = Play::new(DoorScope::Room, "bob");
        play.run(script);
        assert_eq!(play.counted, [code], "{script}");
    }
    let mut play = Play::greeted(HELLO);
    play.run("client {");
    play.run(r#"client [{"jsonrpc":"2.0","id":1,"method":"ping"}]"#);
    play.run("call 1 shutdown\ncall 2 ping");
    assert_eq!(play.counted, ["invalid_json", "invalid_envelope", "invalid_envelope"]);
    let mut play = Play::new(DoorScope::Room, "bob").after(&format!("1 poll 0 call 1 initialize {HELLO}\nseat"));
    play.run("2 poll 9 client {\n3 poll 9 client [{\"jsonrpc\":\"2.0\"}]");
    assert_eq!(play.counted, ["invalid_json", "invalid_envelope"]);
    // A request that its client cancels, or that ends with the session, is no refusal.
    let play = Play::listed().after("call 1 tools/invoke {\"name\":\"bob__t\"}\ntell cancel {\"id\":1}\nclosing");
    assert_eq!(play.counted, [""; 0]);
}
