use super::*;

#[test]
fn a_session_from_connect_to_disconnect() {
    let mut play = Play::new(Limits::default());
    assert_snapshot!(play.run(&format!(r#"
        {CONNECT}
        seat
        1 SEND s1 {{"sessionId":"S","payload":{{"text":"hello"}}}}
        accept
        bob → * e1 {{"jsonrpc":"2.0","method":"notifications/chat/message","params":{{"text":"hi"}}}}
        1 RECEIVE r1 {{"sessionId":"S","timeout":1000}}
        1 DISCONNECT d1 {{"sessionId":"S","reason":"  done\n for today "}}
    "#)), @r#"
    Join(Introduction { name: None, mcp: McpVersion { version: "2025-06-18", versions: [], handshake_optional: false }, capabilities: ["lift", "chat"] })
    1 ← 200 CONNECT c0 {"limits":{"message":1048576},"participant":"alice","participants":[{"id":"alice","mcp":{"version":"2025-06-18"}}],"serverInfo":{"protocolVersion":"MCP/1.0","supportedMethods":["CONNECT","SEND","RECEIVE","DISCONNECT"],"version":"9"},"sessionId":"S","topic":"room:a"}
    ⇒ {"protocol":"mcp-x/v0","id":"x:s1","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"hello"}}}
    1 ← 200 SEND s1 {"messageId":"x:s1","status":"accepted"}
    1 ← 200 RECEIVE r1 {"messages":[{"id":"e1","sender":"bob","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"hi"}},"timestamp":5002,"destination":"*","kind":"mcp"}]}
    1 ← 200 DISCONNECT d1 {"status":"disconnected","timestamp":1000}
    Farewell("done for today")
    close bye
    "#);
}

#[test]
fn a_seat_that_is_refused_is_an_answer_and_the_end() {
    for (code, expected) in [("rate_limited", 429), ("closing", 503), ("internal", 500), ("forbidden", 403)] {
        let mut play = Play::new(Limits::default());
        let told = play.run(&format!("{CONNECT}\nno-seat {code}"));
        let answer =
            format!("1 ← {expected} CONNECT c0 {{\"status\":\"error\",\"code\":\"{code}\",\"message\":\"not now\"}}");
        assert_eq!(told.lines().collect::<Vec<_>>()[1..], [answer.as_str(), "close bye"]);
        assert_eq!(play.refusals, 0, "the session has counted the refused join");
    }
}

#[test]
fn only_connect_comes_before_the_seat() {
    let mut play = Play::new(Limits::default());
    assert_snapshot!(play.run(&format!(r#"
        1 SEND s1 {{"sessionId":"S","payload":"x"}}
        {CONNECT}
        1 RECEIVE r1 {{"sessionId":"S"}}
        seat
        {CONNECT}
    "#)), @r#"
    1 ← 401 SEND s1 {"status":"error","code":"unauthorized","message":"there is no such session, or not any more; begin with CONNECT"}
    Join(Introduction { name: None, mcp: McpVersion { version: "2025-06-18", versions: [], handshake_optional: false }, capabilities: ["lift", "chat"] })
    1 ← 401 RECEIVE r1 {"status":"error","code":"unauthorized","message":"there is no such session, or not any more; begin with CONNECT"}
    1 ← 200 CONNECT c0 {"limits":{"message":1048576},"participant":"alice","participants":[{"id":"alice","mcp":{"version":"2025-06-18"}}],"serverInfo":{"protocolVersion":"MCP/1.0","supportedMethods":["CONNECT","SEND","RECEIVE","DISCONNECT"],"version":"9"},"sessionId":"S","topic":"room:a"}
    1 ← 400 CONNECT c0 {"status":"error","code":"invalid_parameters","message":"this session is connected already"}
    "#);
}

#[test]
fn a_session_outlives_its_connections_for_a_while() {
    let mut play = Play::seated();
    assert_snapshot!(play.run(r#"
        hangup 1
        tick 59999
        2 SEND s1 {"sessionId":"S","payload":"still here"}
        accept
        tick 600000
        hangup 2
        tick 60000
    "#), @r#"
    ⇒ {"protocol":"mcp-x/v0","id":"x:s1","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"still here"}}}
    2 ← 200 SEND s1 {"messageId":"x:s1","status":"accepted"}
    close bye
    "#);
}

#[test]
fn what_was_sent_before_everybody_went_is_not_answered() {
    let mut play = Play::seated();
    let told = play.run("1 SEND s1 {\"payload\":\"x\"}\nhangup 1\ntick 60000\naccept");
    assert_eq!(told.lines().skip(1).collect::<Vec<_>>(), ["close bye"]);
}

#[test]
fn leaving_waits_for_what_was_sent() {
    let mut play = Play::seated();
    assert_snapshot!(play.run(r#"
        1 RECEIVE r1 {"sessionId":"S"}
        1 SEND s1 {"sessionId":"S","payload":"last words"}
        1 DISCONNECT d1 {"sessionId":"S"}
        1 SEND s2 {"sessionId":"S","payload":"too late"}
        accept
    "#), @r#"
    ⇒ {"protocol":"mcp-x/v0","id":"x:s1","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"last words"}}}
    1 ← 401 RECEIVE r1 {"status":"error","code":"unauthorized","message":"there is no such session, or not any more; begin with CONNECT"}
    1 ← 401 SEND s2 {"status":"error","code":"unauthorized","message":"there is no such session, or not any more; begin with CONNECT"}
    1 ← 200 SEND s1 {"messageId":"x:s1","status":"accepted"}
    1 ← 200 DISCONNECT d1 {"status":"disconnected","timestamp":1000}
    close bye
    "#);
}

#[test]
fn everything_that_waits_hears_of_the_end() {
    let closing = |reason: &str| {
        let mut play = Play::seated();
        let told = play.run(&format!("1 RECEIVE r1 {{}}\n2 SEND s1 {{\"payload\":\"x\"}}\nclosing {reason}"));
        told.lines().filter(|line| !line.contains('⇒')).map(|line| format!("{line}\n")).collect::<String>()
    };
    let told: String = ["shutdown", "replaced", "internal", "too_slow"].map(closing).concat();
    assert_snapshot!(told, @r#"
    1 ← 503 RECEIVE r1 {"status":"error","code":"closing","message":"the gateway is shutting down; connect again and resume"}
    2 ← 503 SEND s1 {"status":"error","code":"closing","message":"the gateway is shutting down; connect again and resume"}
    close shutdown
    1 ← 401 RECEIVE r1 {"status":"error","code":"unauthorized","message":"replaced by a newer connection of this participant"}
    2 ← 401 SEND s1 {"status":"error","code":"unauthorized","message":"replaced by a newer connection of this participant"}
    close replaced
    1 ← 500 RECEIVE r1 {"status":"error","code":"internal","message":"the gateway failed; connect again and resume"}
    2 ← 500 SEND s1 {"status":"error","code":"internal","message":"the gateway failed; connect again and resume"}
    close internal
    1 ← 408 RECEIVE r1 {"status":"error","code":"timeout","message":"too slow to read; connect again and resume"}
    2 ← 408 SEND s1 {"status":"error","code":"timeout","message":"too slow to read; connect again and resume"}
    close too_slow
    "#);
}
