//! Two gateways on one NATS: nobody in a room can tell which one somebody else came by.

pub(crate) mod among;
pub(crate) mod clients;
pub(crate) mod control;

use libtest_mimic::Trial;
use salon_testkit::http::{HttpAnswer, HttpCall};
use salon_testkit::nats::NatsServers;
use salon_testkit::nats_trials;
use salon_testkit::proxy::Proxy;
use salon_testkit::{TestGateway, TestOptions, TestSocket, TestSocketEvent, TestToken, eventually};
use serde_json::{Value, json};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        everybody_reads_one_order_and_a_newer_connection_replaces_an_older_one_elsewhere,
        a_ticket_of_one_gateway_opens_the_other_once,
        the_tickets_of_a_sign_in_open_every_gateway_and_end_with_it,
        a_token_revoked_at_one_gateway_is_revoked_at_all,
        all_tokens_revoked_at_one_gateway_are_revoked_at_all,
        a_key_removed_at_one_gateway_ends_the_connections_of_its_tokens_at_all,
        without_nats_nothing_is_accepted_and_afterwards_everything_goes_on,
        what_the_host_was_asked_at_a_gateway_that_is_gone_is_answered_at_another,
        a_text_redacted_at_one_gateway_cannot_be_read_at_the_other,
        a_gateway_lists_what_participants_of_another_offer,
    ]
}

async fn two(servers: &NatsServers) -> (TestGateway, TestGateway) {
    two_at(&servers.url()).await
}

async fn two_at(url: &str) -> (TestGateway, TestGateway) {
    let options = || TestOptions::on_nats(url, "salon").expect("options");
    let one = TestGateway::start(options()).await.expect("a gateway");
    let two = one.beside(options()).await.expect("another gateway");
    (one, two)
}

/// Two as well, the second by a proxy.
async fn two_apart(servers: &NatsServers) -> (TestGateway, TestGateway, Proxy) {
    let proxy = Proxy::to(servers.port(0)).await.expect("a proxy");
    let options = |url: &str| TestOptions::on_nats(url, "salon").expect("options");
    let one = TestGateway::start(options(&servers.url())).await.expect("a gateway");
    let two = one.beside(options(&proxy.url())).await.expect("another gateway");
    (one, two, proxy)
}

async fn connect(gateway: &TestGateway, id: &str, further: &str) -> TestSocket {
    let token = gateway.token(&TestToken::new(id)).expect("a token");
    let call = HttpCall::new("GET", format!("/v0/ws?topic=room:a{further}")).bearer(&token);
    let mut socket = TestSocket::connect(gateway.address(), call).await.expect("an answer").expect("a socket");
    assert_eq!(next(&mut socket).await["payload"]["event"], "welcome");
    socket
}

async fn next(socket: &mut TestSocket) -> Value {
    match socket.next().await.expect("a frame") {
        TestSocketEvent::Text(text) => serde_json::from_str(&text).expect("JSON"),
        other => panic!("instead of a text there was {other:?}"),
    }
}

/// What comes next that is not of a kind that was not asked about.
async fn next_where(socket: &mut TestSocket, wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let came = next(socket).await;
        if wanted(&came) {
            return came;
        }
    }
}

fn presence(event: &'static str, id: &'static str) -> impl Fn(&Value) -> bool {
    move |came| came["payload"]["event"] == event && came["payload"]["participant"]["id"] == id
}

fn chat(from: &str, id: &str) -> String {
    let payload = json!({ "jsonrpc": "2.0", "method": "notifications/chat/message", "params": { "text": id } });
    json!({ "protocol": "mcp-x/v0", "id": id, "ts": "2025-08-17T14:00:00Z", "from": from, "kind": "mcp", "payload": payload })
        .to_string()
}

/// The next chat lines, by their ids. Notices without a message, such as an outage, are skipped.
async fn lines(socket: &mut TestSocket, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    let is_refusal = |came: &Value| came["payload"]["event"] == "error" && came["correlation_id"].is_string();
    while found.len() < count {
        let came = next_where(socket, |came| came["kind"] == "mcp" || is_refusal(came)).await;
        assert_eq!(came["kind"], "mcp", "{came}");
        found.push(came["id"].as_str().expect("an id").to_owned());
    }
    found
}

async fn everybody_reads_one_order_and_a_newer_connection_replaces_an_older_one_elsewhere() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = two(&servers).await;
    let mut alice = connect(&one, "alice", "").await;
    let mut bob = connect(&two, "bob", "").await;
    next_where(&mut alice, presence("join", "bob")).await;
    for n in 0..50 {
        alice.text(chat("alice", &format!("a{n}"))).await.expect("sent");
        bob.text(chat("bob", &format!("b{n}"))).await.expect("sent");
    }
    let order = lines(&mut alice, 100).await;
    assert_eq!(order, lines(&mut bob, 100).await, "two gateways tell different orders");

    // A request across gateways, and one to the host, which is at both and answers once.
    let request = |id: &str, to: &str| {
        let payload = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        json!({ "protocol": "mcp-x/v0", "id": id, "ts": "2025-08-17T14:00:00Z", "from": "alice", "to": [to], "kind": "mcp", "payload": payload })
    };
    alice.text(request("r1", "system:gateway").to_string()).await.expect("sent");
    alice.text(request("r2", "bob").to_string()).await.expect("sent");
    let asked = next_where(&mut bob, |came| came["id"] == "r2").await;
    assert_eq!(asked["from"], "alice");
    let payload = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    let answer = json!({ "protocol": "mcp-x/v0", "id": "r2-answer", "ts": "2025-08-17T14:00:00Z", "from": "bob", "to": ["alice"], "kind": "mcp", "correlation_id": "r2", "payload": payload });
    bob.text(answer.to_string()).await.expect("sent");
    // The two are answered in no order.
    let (mut answers, mut last) = (Vec::new(), String::new());
    while answers.len() < 2 {
        let came = next_where(&mut alice, |came| came["correlation_id"].is_string()).await;
        last = came["id"].as_str().expect("an id").to_owned();
        answers.push(came["correlation_id"].as_str().expect("an id").to_owned());
    }
    answers.sort();
    assert_eq!(answers, ["r1", "r2"], "each request has one answer");

    // Alice comes by the other gateway, from where she was.
    let mut again = connect(&two, "alice", &format!("&after={last}")).await;
    let closed = loop {
        match alice.next().await.expect("a frame") {
            TestSocketEvent::Text(_) => {}
            other => break other,
        }
    };
    assert!(matches!(closed, TestSocketEvent::Closed(4409, _)), "{closed:?}");
    bob.text(chat("bob", "still")).await.expect("sent");
    assert_eq!(lines(&mut again, 1).await, ["still"]);
    let roster = HttpCall::new("GET", "/v0/topics/room:a/participants")
        .bearer(&one.token(&TestToken::new("carol")).expect("a token"));
    let told = roster.send(one.address()).await.expect("an answer");
    assert!(told.body.contains("alice") && told.body.contains("bob"), "{}", told.body);
    // Her leave, when it comes, comes once: at the end, from where she is.
    again.close().await.expect("closed");
    next_where(&mut bob, presence("leave", "alice")).await;
    bob.text(chat("bob", "end")).await.expect("sent");
    let after = next_where(&mut bob, |came| came["kind"] == "mcp" || came["kind"] == "presence").await;
    assert_eq!(after["id"], "end", "{after}");
    one.stop().await.expect("stopped");
    two.stop().await.expect("stopped");
}

async fn a_ticket_of_one_gateway_opens_the_other_once() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = two(&servers).await;
    let token = one.token(&TestToken::new("alice")).expect("a token");
    let given = HttpCall::new("POST", "/v0/tickets").bearer(&token).body(r#"{"topic":"room:a"}"#);
    let given = given.send(one.address()).await.expect("an answer");
    let ticket =
        serde_json::from_str::<Value>(&given.body).expect("JSON")["ticket"].as_str().expect("a ticket").to_owned();
    let call = || HttpCall::new("GET", format!("/v0/ws?topic=room:a&ticket={ticket}"));
    let first = TestSocket::connect(two.address(), call()).await.expect("an answer");
    assert!(first.is_ok(), "a ticket of the other gateway was refused");
    let second = TestSocket::connect(one.address(), call()).await.expect("an answer");
    assert_eq!(second.err().map(|answer| answer.status), Some(401), "a ticket works once");
    one.stop().await.expect("stopped");
    two.stop().await.expect("stopped");
}

/// What a browser with the gateway's page asks, with the cookie it has.
async fn ask(gateway: &TestGateway, (method, path): (&str, &str), cookie: &str, body: Value) -> HttpAnswer {
    let call = HttpCall::new(method, path).header("Origin", format!("http://{}", gateway.address()));
    let call = if cookie.is_empty() { call } else { call.header("Cookie", cookie) };
    call.body(body.to_string()).send(gateway.address()).await.expect("an answer")
}

async fn ticket_by_cookie(gateway: &TestGateway, cookie: &str) -> String {
    let given = ask(gateway, ("POST", "/v0/tickets"), cookie, json!({ "topic": "room:a" })).await;
    assert_eq!(given.status, 201, "{}", given.body);
    serde_json::from_str::<Value>(&given.body).expect("JSON")["ticket"].as_str().expect("a ticket").to_owned()
}

async fn the_tickets_of_a_sign_in_open_every_gateway_and_end_with_it() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = two(&servers).await;
    let token = one.token(&TestToken::new("alice")).expect("a token");
    let signed_in = ask(&one, ("POST", "/v0/session"), "", json!({ "token": token })).await;
    assert_eq!(signed_in.status, 201, "{}", signed_in.body);
    let cookie = signed_in.header("set-cookie").and_then(|set| set.split(';').next()).expect("a cookie");
    let enter = |gateway: &TestGateway, ticket: &str| {
        let call = HttpCall::new("GET", format!("/v0/ws?topic=room:a&share=true&ticket={ticket}"));
        let address = gateway.address();
        async move { TestSocket::connect(address, call).await.expect("an answer") }
    };
    // Given out by either, used at either.
    let there = enter(&two, &ticket_by_cookie(&one, cookie).await).await;
    let mut there = there.expect("a ticket of the other gateway was refused");
    let here = enter(&one, &ticket_by_cookie(&two, cookie).await).await;
    let mut here = here.expect("a ticket of the other gateway was refused");
    assert_eq!(next(&mut there).await["payload"]["event"], "welcome");
    let kept = ticket_by_cookie(&one, cookie).await;
    assert_eq!(ask(&one, ("DELETE", "/v0/session"), cookie, json!({})).await.status, 204);
    // The connection knew that it stood on the sign-in, and so does the ticket.
    let closed = loop {
        match here.next().await.expect("a frame") {
            TestSocketEvent::Text(_) => {}
            other => break other,
        }
    };
    assert!(matches!(closed, TestSocketEvent::Closed(4401, _)), "{closed:?}");
    let refused = enter(&one, &kept).await;
    assert_eq!(refused.err().map(|answer| answer.status), Some(401), "a ticket outlasted its sign-in");
    one.stop().await.expect("stopped");
    two.stop().await.expect("stopped");
}

async fn a_token_revoked_at_one_gateway_is_revoked_at_all() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = two(&servers).await;
    let mut admin = TestToken::new("admin");
    admin.claim("permissions", "revoke").expect("a claim");
    let admin = one.token(&admin).expect("a token");
    let mut there = connect(&two, "bob", "").await;
    let call =
        HttpCall::new("POST", "/v0/auth/revocations").bearer(&admin).body(json!({ "participant": "bob" }).to_string());
    assert_eq!(call.send(one.address()).await.expect("an answer").status, 201);
    let closed = loop {
        match there.next().await.expect("a frame") {
            TestSocketEvent::Text(_) => {}
            other => break other,
        }
    };
    assert!(matches!(closed, TestSocketEvent::Closed(4401, _)), "{closed:?}");
    one.stop().await.expect("stopped");
    two.stop().await.expect("stopped");
}

async fn all_tokens_revoked_at_one_gateway_are_revoked_at_all() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = two(&servers).await;
    let mut admin = TestToken::new("admin");
    admin.claim("permissions", "revoke").expect("a claim");
    let admin = one.token(&admin).expect("a token");
    let (here, there) = (connect(&one, "alice", "").await, connect(&two, "bob", "").await);
    let old = two.token(&TestToken::new("carol")).expect("a token");
    let call = HttpCall::new("POST", "/v0/auth/revocations").bearer(&admin).body(json!({ "all": true }).to_string());
    assert_eq!(call.send(one.address()).await.expect("an answer").status, 201);
    for mut socket in [here, there] {
        let closed = loop {
            match socket.next().await.expect("a frame") {
                TestSocketEvent::Text(_) => {}
                other => break other,
            }
        };
        assert!(matches!(closed, TestSocketEvent::Closed(4401, _)), "{closed:?}");
    }
    for gateway in [&one, &two] {
        for token in [&old, &admin] {
            let call = HttpCall::new("GET", "/v0/topics").bearer(token);
            assert_eq!(call.send(gateway.address()).await.expect("an answer").status, 401);
        }
    }
    // Those that are issued later are good at both. A token's time has whole seconds.
    for gateway in [&one, &two] {
        eventually("a later token to be taken", async || {
            let token = gateway.token(&TestToken::new("carol")).ok()?;
            let answer = HttpCall::new("GET", "/v0/topics").bearer(&token).send(gateway.address()).await.ok()?;
            (answer.status == 200).then_some(())
        })
        .await
        .expect("in time");
    }
    one.stop().await.expect("stopped");
    two.stop().await.expect("stopped");
}

async fn a_key_removed_at_one_gateway_ends_the_connections_of_its_tokens_at_all() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = two(&servers).await;
    let (here, there) = (connect(&one, "alice", "").await, connect(&two, "bob", "").await);
    one.remove_first_key().expect("removed");
    for mut socket in [here, there] {
        let closed = loop {
            match socket.next().await.expect("a frame") {
                TestSocketEvent::Text(_) => {}
                other => break other,
            }
        };
        assert!(matches!(closed, TestSocketEvent::Closed(4401, _)), "{closed:?}");
    }
    // The other gateway has no copy of the keys yet, and refuses the tokens all the same.
    let old = two.token(&TestToken::new("carol")).expect("a token");
    let call = HttpCall::new("GET", "/v0/topics").bearer(&old);
    assert_eq!(call.send(two.address()).await.expect("an answer").status, 401);
    one.stop().await.expect("stopped");
    two.stop().await.expect("stopped");
}

async fn without_nats_nothing_is_accepted_and_afterwards_everything_goes_on() {
    let mut servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = two(&servers).await;
    let mut alice = connect(&one, "alice", "").await;
    let mut bob = connect(&two, "bob", "").await;
    next_where(&mut alice, presence("join", "bob")).await;
    alice.text(chat("alice", "before")).await.expect("sent");
    assert_eq!(lines(&mut bob, 1).await, ["before"]);
    assert_eq!(lines(&mut alice, 1).await, ["before"]);
    servers.kill(0).await.expect("killed");
    let ready = async |status: u16| {
        let answer = HttpCall::new("GET", "/ready").send(one.address()).await.expect("an answer");
        (answer.status == status).then_some(())
    };
    eventually("the gateway to notice", async || ready(503).await).await.expect("in time");
    alice.text(chat("alice", "during")).await.expect("sent");
    let refused =
        next_where(&mut alice, |came| came["payload"]["event"] == "error" && came["correlation_id"].is_string()).await;
    assert_eq!((&refused["payload"]["code"], &refused["correlation_id"]), (&json!("closing"), &json!("during")));
    servers.revive(0).await.expect("revived");
    eventually("the gateway to be ready", async || ready(200).await).await.expect("in time");
    // The same again, as a client does that was told to try again.
    alice.text(chat("alice", "during")).await.expect("sent");
    alice.text(chat("alice", "after")).await.expect("sent");
    assert_eq!(lines(&mut bob, 2).await, ["during", "after"], "a reader missed something, or had it twice");
    assert_eq!(lines(&mut alice, 2).await, ["during", "after"]);
    one.stop().await.expect("stopped");
    two.stop().await.expect("stopped");
}

/// The host answers where its caller sits. When that gateway is gone, the host of the one its caller comes to does.
async fn what_the_host_was_asked_at_a_gateway_that_is_gone_is_answered_at_another() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two, proxy) = two_apart(&servers).await;
    let mut bob = connect(&one, "bob", "").await;
    let mut alice = connect(&two, "alice", "").await;
    next_where(&mut bob, presence("join", "alice")).await;
    let wait = json!({ "name": "room.wait", "arguments": { "for": ["chat"], "from": ["bob"], "timeout_ms": 60_000 } });
    let payload = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": wait });
    let asked = json!({ "protocol": "mcp-x/v0", "id": "w1", "ts": "2025-08-17T14:00:00Z", "from": "alice", "to": ["system:gateway"], "kind": "mcp", "payload": payload });
    alice.text(asked.to_string()).await.expect("sent");
    next_where(&mut bob, |came| came["id"] == "w1").await;
    proxy.hold();
    let mut again = connect(&one, "alice", "&after=w1").await;
    bob.text(chat("bob", "said")).await.expect("sent");
    assert_eq!(lines(&mut again, 1).await, ["said"]);
    let answer = next_where(&mut again, |came| came["correlation_id"] == "w1").await;
    assert!(answer["payload"]["result"].to_string().contains("said"), "{answer}");
    proxy.release();
    two.stop().await.expect("stopped");
    one.stop().await.expect("stopped");
}

/// Nobody is in the room at the gateway that is asked; it asks the participants itself.
async fn a_gateway_lists_what_participants_of_another_offer() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = two(&servers).await;
    let mut alice = connect(&one, "alice", "").await;
    let token = two.token(&TestToken::new("dave")).expect("a token");
    let address = two.address();
    let listed = tokio::spawn(async move {
        let call = HttpCall::new("GET", "/v0/topics/room:a/lists/tools").bearer(&token);
        call.send(address).await.expect("an answer")
    });
    let results = [
        (
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": { "name": "a", "version": "1" } }),
        ),
        ("tools/list", json!({ "tools": [{ "name": "look", "inputSchema": { "type": "object" } }] })),
    ];
    for (method, result) in results {
        let asked = next_where(&mut alice, |came| came["payload"]["method"] == method).await;
        let payload = json!({ "jsonrpc": "2.0", "id": asked["payload"]["id"], "result": result });
        let answer = json!({ "protocol": "mcp-x/v0", "id": format!("{method} answer").replace([' ', '/'], "-"), "ts": "2025-08-17T14:00:00Z", "from": "alice",
            "to": ["system:gateway"], "kind": "mcp", "correlation_id": asked["id"], "payload": payload });
        alice.text(answer.to_string()).await.expect("sent");
    }
    let listed: HttpAnswer = listed.await.expect("no panic");
    let body: Value = serde_json::from_str(&listed.body).expect("JSON");
    assert_eq!((listed.status, &body["participants"][0]["items"][0]["name"]), (200, &json!("look")), "{body}");
    one.stop().await.expect("stopped");
    two.stop().await.expect("stopped");
}

/// A call of one of the gateway's tools, by alice.
fn host_call(id: &str, tool: &str, arguments: &Value) -> String {
    let payload = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": arguments } });
    json!({ "protocol": "mcp-x/v0", "id": id, "ts": "2025-08-17T14:00:00Z", "from": "alice", "to": ["system:gateway"], "kind": "mcp", "payload": payload })
        .to_string()
}

async fn a_text_redacted_at_one_gateway_cannot_be_read_at_the_other() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (mut one, two) = two(&servers).await;
    let mut moderator = TestToken::new("alice");
    moderator.claim("capabilities", "*").expect("a claim");
    let token = one.token(&moderator).expect("a token");
    let call = HttpCall::new("GET", "/v0/ws?topic=room:a").bearer(&token);
    let mut alice = TestSocket::connect(one.address(), call).await.expect("an answer").expect("a socket");
    let mut bob = connect(&two, "bob", "").await;
    next_where(&mut alice, presence("join", "bob")).await;
    for id in ["before", "hunter2", "after"] {
        bob.text(chat("bob", id)).await.expect("sent");
    }
    lines(&mut alice, 3).await;
    lines(&mut bob, 3).await;

    // Who was handed it the other gateway says.
    alice.text(host_call("s1", "message.status", &json!({ "id": "after" }))).await.expect("sent");
    next_where(&mut alice, |came| came["correlation_id"] == "s1").await;
    alice.text(chat("alice", "mine")).await.expect("sent");
    next_where(&mut bob, |came| came["id"] == "mine").await;
    alice.text(host_call("s2", "message.status", &json!({ "id": "mine" }))).await.expect("sent");
    let status = next_where(&mut alice, |came| came["correlation_id"] == "s2").await;
    assert_eq!(status["payload"]["result"]["structuredContent"]["delivered_to"], json!(["bob"]), "{status}");

    alice.text(host_call("m1", "message.redact", &json!({ "id": "hunter2" }))).await.expect("sent");
    let answer = next_where(&mut alice, |came| came["correlation_id"] == "m1").await;
    assert_eq!(answer["payload"]["result"]["structuredContent"]["redacted"], json!(["hunter2"]), "{answer}");
    next_where(&mut bob, |came| came["payload"]["method"] == "notifications/message/redacted").await;

    let read = async |gateway: &TestGateway| {
        let token = gateway.token(&TestToken::new("carol")).expect("a token");
        let history = HttpCall::new("GET", "/v0/topics/room:a/history?limit=100").bearer(&token);
        let history = history.send(gateway.address()).await.expect("an answer").body;
        // An old cursor.
        let mut carol = connect(gateway, "carol", "&after=before").await;
        let resumed = next_where(&mut carol, |came| came["kind"] == "mcp").await;
        (history, resumed)
    };
    for gateway in [&one, &two] {
        let (history, resumed) = read(gateway).await;
        assert!(!history.contains(r#""text":"hunter2""#) && history.contains("(redacted)"), "{history}");
        assert_eq!(
            (&resumed["id"], resumed["redacted"]["by"].as_str()),
            (&json!("hunter2"), Some("alice")),
            "{resumed}"
        );
    }
    // A gateway that starts later never sees the text, and no message of NATS has it.
    one.restart().await.expect("the same gateway again");
    let (history, resumed) = read(&one).await;
    assert!(!history.contains(r#""text":"hunter2""#), "{history}");
    assert_eq!(resumed["payload"]["params"]["text"], "(redacted)", "{resumed}");
}
