use super::*;

#[test]
fn a_payload_becomes_what_it_is() {
    let mut play = Play::seated();
    assert_snapshot!(play.run(r#"
        1 SEND a {"payload":"hello, 世界","destination":"*"}
        1 SEND b {"payload":{"text":"*hi*","format":"markdown"},"destination":"bob"}
        1 SEND c {"payload":{"text":"hi"},"metadata":{"mood":"good"}}
        1 SEND d {"payload":{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"x",  "arguments":{"n":1.0}}},"destination":"bob"}
        1 SEND e {"payload":{"temperature":12345678901234567890,"unit":"K"}}
        1 SEND f {"data":[1, 2.50],"metadata":{"trace":"t"}}
        1 SEND g {"payload":null}
        1 SEND h {"payload":{"text":5}}
        1 SEND i {"payload":{"jsonrpc":"2.0","method":"notifications/x"},"correlationId":"e7"}
        1 SEND j [contentType: binary] [destination: bob] raw bytes
        1 frame {"id":"k","method":"SEND","version":"MCP/1.0","timestamp":0,"contentType":"image/png"}
    "#), @r#"
    ⇒ {"protocol":"mcp-x/v0","id":"x:a","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"hello, 世界"}}}
    ⇒ {"protocol":"mcp-x/v0","id":"x:b","ts":"2025-08-17T14:00:00.000Z","from":"alice","to":["bob"],"kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"*hi*","format":"markdown"}}}
    ⇒ {"protocol":"mcp-x/v0","id":"x:c","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"hi","_meta":{"mood":"good"}}}}
    ⇒ {"protocol":"mcp-x/v0","id":"x:d","ts":"2025-08-17T14:00:00.000Z","from":"alice","to":["bob"],"kind":"mcp","payload":{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"x",  "arguments":{"n":1.0}}}}
    ⇒ {"protocol":"mcp-x/v0","id":"x:e","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/data","params":{"contentType":"json","data":{"temperature":12345678901234567890,"unit":"K"}}}}
    ⇒ {"protocol":"mcp-x/v0","id":"x:f","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/data","params":{"contentType":"json","data":[1, 2.50],"_meta":{"trace":"t"}}}}
    ⇒ {"protocol":"mcp-x/v0","id":"x:g","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/data","params":{"contentType":"json","data":null}}}
    ⇒ {"protocol":"mcp-x/v0","id":"x:h","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/data","params":{"contentType":"json","data":{"text":5}}}}
    ⇒ {"protocol":"mcp-x/v0","id":"x:i","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","correlation_id":"e7","payload":{"jsonrpc":"2.0","method":"notifications/x"}}
    ⇒ {"protocol":"mcp-x/v0","id":"x:j","ts":"2025-08-17T14:00:00.000Z","from":"alice","to":["bob"],"kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/data","params":{"contentType":"binary","data":"cmF3IGJ5dGVz","encoding":"base64"}}}
    ⇒ {"protocol":"mcp-x/v0","id":"x:k","ts":"1970-01-01T00:00:00.000Z","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/data","params":{"contentType":"image/png","data":"","encoding":"base64"}}}
    "#);
}

#[test]
fn an_answer_finds_the_request_it_answers() {
    let mut play = Play::seated();
    assert_snapshot!(play.run(r#"
        1 RECEIVE r0 {}
        bob → alice q1 {"jsonrpc":"2.0","id":1,"method":"tools/list"}
        carol → alice q2 {"jsonrpc":"2.0","id":1,"method":"tools/list"}
        carol → alice q3 {"jsonrpc":"2.0","id":"1","method":"tools/list"}
        bob → carol q4 {"jsonrpc":"2.0","id":8,"method":"tools/list"}
        1 SEND a {"payload":{"jsonrpc":"2.0","id":1,"result":{}}}
        1 SEND b {"payload":{"jsonrpc":"2.0","id":1,"result":{}},"destination":"bob"}
        accept
        1 SEND c {"payload":{"jsonrpc":"2.0","id":1,"result":{}}}
        accept
        1 SEND d {"payload":{"jsonrpc":"2.0","id":1,"result":{}}}
        1 SEND e {"payload":{"jsonrpc":"2.0","id":"1","error":{"code":-1,"message":"no"}},"destination":"*"}
        1 SEND f {"payload":{"jsonrpc":"2.0","id":8,"result":{}}}
        1 SEND g {"payload":{"jsonrpc":"2.0","id":9,"result":{}},"correlationId":"older"}
    "#), @r#"
    1 ← 200 RECEIVE r0 {"messages":[{"id":"q1","sender":"bob","payload":{"jsonrpc":"2.0","id":1,"method":"tools/list"},"timestamp":5001,"destination":"alice","kind":"mcp"}]}
    1 ← 400 SEND a {"status":"rejected","code":"correlation_required","message":"several requests with the id 1 wait for an answer of yours: say by `destination` whose it is, or name it by `correlationId`"}
    ⇒ {"protocol":"mcp-x/v0","id":"x:b","ts":"2025-08-17T14:00:00.000Z","from":"alice","to":["bob"],"kind":"mcp","correlation_id":"q1","payload":{"jsonrpc":"2.0","id":1,"result":{}}}
    1 ← 200 SEND b {"messageId":"x:b","status":"accepted"}
    ⇒ {"protocol":"mcp-x/v0","id":"x:c","ts":"2025-08-17T14:00:00.000Z","from":"alice","to":["carol"],"kind":"mcp","correlation_id":"q2","payload":{"jsonrpc":"2.0","id":1,"result":{}}}
    1 ← 200 SEND c {"messageId":"x:c","status":"accepted"}
    1 ← 400 SEND d {"status":"rejected","code":"correlation_required","message":"no request with the id 1 waits for an answer of yours; `correlationId` can name one by the id it was received under"}
    ⇒ {"protocol":"mcp-x/v0","id":"x:e","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","correlation_id":"q3","payload":{"jsonrpc":"2.0","id":"1","error":{"code":-1,"message":"no"}}}
    1 ← 400 SEND f {"status":"rejected","code":"correlation_required","message":"no request with the id 8 waits for an answer of yours; `correlationId` can name one by the id it was received under"}
    ⇒ {"protocol":"mcp-x/v0","id":"x:g","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","correlation_id":"older","payload":{"jsonrpc":"2.0","id":9,"result":{}}}
    "#);
}

#[test]
fn the_rooms_no_is_a_rejection_with_the_code_that_fits() {
    for code in Code::ALL {
        let mut play = Play::seated();
        let told = play.run(&format!("1 SEND s1 {{\"payload\":\"x\"}}\nrefuse {code}"));
        let status = header::status(code);
        let last = told.lines().last().unwrap();
        let expected = format!(
            "1 ← {status} SEND s1 {{\"status\":\"rejected\",\"code\":\"{code}\",\"message\":\"the room said no\"}}"
        );
        assert_eq!(last, expected);
        assert!([400, 401, 403, 408, 429, 500, 503].contains(&status));
    }
}

#[test]
fn what_is_sent_again_is_the_same_envelope() {
    let mut play = Play::seated();
    assert_snapshot!(play.run(r#"
        1 SEND s1 {"payload":"once"}
        2 SEND s1 {"payload":"once"}
        accept
        3 SEND s1 {"payload":"once"}
        3 SEND s1 {"payload":"twice"}
        1 SEND s2 {"payload":"not now"}
        refuse rate_limited
        1 SEND s2 {"payload":"not now"}
        accept
    "#), @r#"
    ⇒ {"protocol":"mcp-x/v0","id":"x:s1","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"once"}}}
    1 ← 200 SEND s1 {"messageId":"x:s1","status":"accepted"}
    2 ← 200 SEND s1 {"messageId":"x:s1","status":"accepted"}
    3 ← 200 SEND s1 {"messageId":"x:s1","status":"accepted"}
    3 ← 400 SEND s1 {"status":"rejected","code":"id_conflict","message":"this session has sent something else under the same `id`"}
    ⇒ {"protocol":"mcp-x/v0","id":"x:s2","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"not now"}}}
    1 ← 429 SEND s2 {"status":"rejected","code":"rate_limited","message":"the room said no"}
    ⇒ {"protocol":"mcp-x/v0","id":"x:s2","ts":"2025-08-17T14:00:00.000Z","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"not now"}}}
    1 ← 200 SEND s2 {"messageId":"x:s2","status":"accepted"}
    "#);
}

#[test]
fn what_is_forgotten_here_is_still_the_same_envelope_to_the_room() {
    let mut play = Play::seated();
    let first = play.run("1 SEND s0 {\"payload\":\"x\"}\naccept");
    for number in 1..=1024 {
        play.run(&format!("1 SEND s{number} {{\"payload\":\"x\"}}\naccept"));
    }
    let again = play.run("2 SEND s0 {\"payload\":\"x\"}");
    assert_eq!(again.lines().next(), first.lines().next(), "the header's time is the envelope's, so its bytes are too");
}

#[test]
fn the_limit_is_for_the_envelope_too() {
    let limits = Limits { message: 400, answer: 400, ..Limits::default() };
    let mut play = Play::new(limits).after(&format!("{CONNECT}\nseat"));
    let body = "b".repeat(180);
    let told = play.run(&format!("1 SEND s1 [contentType: binary] {body}"));
    assert_snapshot!(told, @r#"1 ← 400 SEND s1 {"status":"rejected","code":"too_large","message":"the message has 457 bytes; the limit is 400 (`limits.message`)"}"#);
    let fits = "b".repeat(90);
    assert!(play.run(&format!("1 SEND s2 [contentType: binary] {fits}")).starts_with('⇒'));
}
