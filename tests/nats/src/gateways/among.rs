//! What gateways share: what a caller's token permits, who has signed out; and what they tell when the log cannot be reached.

use std::time::Duration;

use libtest_mimic::Trial;
use salon_client::{Client, Link, StaticToken};
use salon_protocol::TopicName;
use salon_testkit::http::{EventStream, HttpCall};
use salon_testkit::nats::NatsServers;
use salon_testkit::nats_trials;
use salon_testkit::proxy::Proxy;
use salon_testkit::{TestGateway, TestOptions, TestSocket, TestSocketEvent, TestToken, within};
use serde_json::{Value, json};

use super::{ask, chat, connect, lines, next, next_where, presence, ticket_by_cookie, two, two_apart, two_at};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        a_call_is_permitted_what_its_token_permits_whichever_gateway_it_came_by,
        who_signs_out_at_one_gateway_is_signed_out_at_all,
        a_sign_out_while_nats_is_out_of_reach_is_told_to_the_others_afterwards,
        readers_are_told_that_nothing_can_be_stored_and_when_it_can_be_again,
        a_client_waits_for_a_gateway_that_can_store_nothing_and_loses_nothing,
        a_gateway_that_is_cut_off_keeps_no_call_waiting_and_owes_the_others_its_sign_outs,
    ]
}

/// How long a gateway may take to notice that NATS is silent, or there again: it waits for several signs of life.
const NOTICE: Duration = Duration::from_secs(120);

/// Waits for what an outage, or its end, brings.
pub(super) async fn patiently<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(NOTICE, wait).await.unwrap_or_else(|_| panic!("waited {} s for {what}", NOTICE.as_secs()))
}

fn message(kind: &str, id: &str, to: &str, payload: &Value) -> String {
    let header = json!({ "version": "1.0", "messageId": id, "timestamp": "2025-03-21T10:00:00Z", "messageType": kind, "destination": to });
    json!({ "header": header, "payload": payload }).to_string()
}

/// A robot whose arm needs the permission to drive, and whose lamp needs none.
async fn robot(gateway: &TestGateway) -> TestSocket {
    let token = gateway.token(&TestToken::new("robot")).expect("a token");
    let call = HttpCall::new("GET", "/context/v1/ws?topic=room:a").bearer(&token);
    let mut robot = TestSocket::connect(gateway.address(), call).await.expect("an answer").expect("a socket");
    for (id, permissions) in [("arm", json!(["drive"])), ("lamp", json!([]))] {
        let tool =
            json!({ "id": id, "capabilities": [{ "name": "move" }], "security": { "permissions": permissions } });
        let register = json!({ "tool": { "id": "registry", "capability": "register", "parameters": tool } });
        robot.text(message("request", id, "system:gateway", &register)).await.expect("sent");
        next_where(&mut robot, |came| came["header"]["requestId"] == id).await;
    }
    robot
}

fn call(from: &str, id: &str, to: &str, params: &Value) -> String {
    let payload = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    json!({ "protocol": "mcp-x/v0", "id": id, "ts": "2025-08-17T14:00:00Z", "from": from, "to": [to], "kind": "mcp", "payload": payload })
        .to_string()
}

async fn sit(gateway: &TestGateway, id: &str, permissions: Option<&str>) -> TestSocket {
    let mut token = TestToken::new(id);
    if let Some(permissions) = permissions {
        token.claim("permissions", permissions).expect("a claim");
    }
    let token = gateway.token(&token).expect("a token");
    let call = HttpCall::new("GET", "/v0/ws?topic=room:a&share=true").bearer(&token);
    let mut socket = TestSocket::connect(gateway.address(), call).await.expect("an answer").expect("a socket");
    assert_eq!(next(&mut socket).await["payload"]["event"], "welcome");
    socket
}

/// What the robot is asked next, answered; its id and who asked.
async fn asked(robot: &mut TestSocket) -> (String, String) {
    let came = next_where(robot, |came| came["header"]["messageType"] == "request").await;
    let text = |key: &str| came["header"][key].as_str().unwrap_or_default().to_owned();
    let (id, from) = (text("messageId"), text("source"));
    let header = json!({ "version": "1.0", "messageId": format!("a-{id}"), "timestamp": "2025-03-21T10:00:00Z", "messageType": "response", "requestId": id });
    robot.text(json!({ "header": header, "payload": { "result": "moved" } }).to_string()).await.expect("sent");
    (id, from)
}

/// With no more of NATS than docs/operations/nats.md says that an account must have.
async fn a_call_is_permitted_what_its_token_permits_whichever_gateway_it_came_by() {
    let account = r#"authorization { users: [{ user: "salon", password: "pw", permissions: {
        publish: ["salon.>", "$KV.*.>", "$JS.API.>", "$JS.FC.>"], subscribe: ["salon.>", "_INBOX.>"] } }] }"#;
    let servers = NatsServers::configured(account).await.expect("a NATS server");
    let (one, two) = two_at(&servers.url().replace("nats://", "nats://salon:pw@")).await;
    let mut robot = robot(&two).await;
    let mut strong = sit(&one, "alice", Some("drive,read")).await;
    let mut bob = sit(&one, "bob", Some("read")).await;
    let arm = json!({ "name": "arm.move", "arguments": {} });

    bob.text(call("bob", "b1", "robot", &arm)).await.expect("sent");
    let refused = next_where(&mut bob, |came| came["correlation_id"] == "b1").await;
    assert_eq!(refused["payload"]["error"]["data"]["code"], "forbidden", "{refused}");
    strong.text(call("alice", "s1", "robot", &arm)).await.expect("sent");
    assert_eq!(asked(&mut robot).await, ("s1".into(), "alice".into()), "it was asked what bob may not");
    let moved = next_where(&mut strong, |came| came["correlation_id"] == "s1").await;
    assert!(moved["payload"]["result"].is_object(), "{moved}");

    // A message of the caller's own can only narrow it, and the gateway asks with no more than its caller has.
    let narrowed = json!({ "name": "arm.move", "arguments": {}, "_meta": { "salon/permissions": ["read"] } });
    strong.text(call("alice", "s2", "robot", &narrowed)).await.expect("sent");
    let refused = next_where(&mut strong, |came| came["correlation_id"] == "s2").await;
    assert_eq!(refused["payload"]["error"]["data"]["code"], "forbidden", "{refused}");
    let all = json!({ "name": "room.call_all", "arguments": { "tool": "arm.move", "participants": ["robot"] } });
    bob.text(call("bob", "b2", "system:gateway", &all)).await.expect("sent");
    let told = next_where(&mut bob, |came| came["correlation_id"] == "b2").await;
    assert!(told.to_string().contains("forbidden"), "{told}");
    strong.text(call("alice", "s3", "system:gateway", &all)).await.expect("sent");
    assert_eq!(asked(&mut robot).await.1, "system:gateway");
    next_where(&mut strong, |came| came["correlation_id"] == "s3").await;

    // Calls arrive in their order, and a weaker token of the same participant elsewhere has its own rights.
    let lamp = json!({ "name": "lamp.move", "arguments": {} });
    for n in 0..20 {
        let (id, tool) = (format!("o{n}"), if n % 2 == 0 { &arm } else { &lamp });
        strong.text(call("alice", &id, "robot", tool)).await.expect("sent");
    }
    for n in 0..20 {
        assert_eq!(asked(&mut robot).await.0, format!("o{n}"));
    }
    let mut weak = sit(&two, "alice", None).await;
    weak.text(call("alice", "w1", "robot", &arm)).await.expect("sent");
    let refused = next_where(&mut weak, |came| came["correlation_id"] == "w1").await;
    assert_eq!(refused["payload"]["error"]["data"]["code"], "forbidden", "{refused}");

    // A caller that has hung up is judged by the token it came with.
    strong.text(call("alice", "s4", "robot", &arm)).await.expect("sent");
    strong.close().await.expect("closed");
    assert_eq!(asked(&mut robot).await.0, "s4");
    one.stop().await.expect("stopped");
    two.stop().await.expect("stopped");
}

/// What a connection ends with.
async fn end(socket: &mut TestSocket) -> TestSocketEvent {
    loop {
        match socket.next().await.expect("a frame") {
            TestSocketEvent::Text(_) => {}
            other => return other,
        }
    }
}

async fn who_signs_out_at_one_gateway_is_signed_out_at_all() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = two(&servers).await;
    let token = one.token(&TestToken::new("alice")).expect("a token");
    let sign_in = async || {
        let signed_in = ask(&one, ("POST", "/v0/session"), "", json!({ "token": token })).await;
        assert_eq!(signed_in.status, 201, "{}", signed_in.body);
        signed_in.header("set-cookie").and_then(|set| set.split(';').next()).expect("a cookie").to_owned()
    };
    let (cookie, other) = (sign_in().await, sign_in().await);
    let enter = async |gateway: &TestGateway, ticket: String| {
        let call = HttpCall::new("GET", format!("/v0/ws?topic=room:a&share=true&ticket={ticket}"));
        TestSocket::connect(gateway.address(), call).await.expect("an answer")
    };
    let mut there = enter(&two, ticket_by_cookie(&two, &cookie).await).await.expect("a socket");
    let mut kept = enter(&two, ticket_by_cookie(&two, &other).await).await.expect("a socket");
    let unused = ticket_by_cookie(&two, &cookie).await;
    assert_eq!(ask(&two, ("GET", "/v0/session"), &cookie, json!({})).await.status, 200);

    assert_eq!(ask(&one, ("DELETE", "/v0/session"), &cookie, json!({})).await.status, 204);
    // The connection at the other gateway ends, and from then on nothing of that sign-in counts there.
    let closed = end(&mut there).await;
    assert!(matches!(closed, TestSocketEvent::Closed(4401, _)), "{closed:?}");
    assert_eq!(ask(&two, ("GET", "/v0/session"), &cookie, json!({})).await.status, 401);
    assert_eq!(
        enter(&two, unused).await.err().map(|answer| answer.status),
        Some(401),
        "a ticket outlasted its sign-in"
    );
    // Another sign-in of the same person is not affected.
    assert_eq!(ask(&two, ("GET", "/v0/session"), &other, json!({})).await.status, 200);
    kept.text(chat("alice", "still")).await.expect("sent");
    assert_eq!(lines(&mut kept, 1).await, ["still"]);
    // A gateway that comes later knows it from its first moment.
    let three = one.beside(TestOptions::on_nats(&servers.url(), "salon").expect("options")).await.expect("a third");
    assert_eq!(ask(&three, ("GET", "/v0/session"), &cookie, json!({})).await.status, 401);
    assert_eq!(ask(&three, ("GET", "/v0/session"), &other, json!({})).await.status, 200);
    for gateway in [three, two, one] {
        gateway.stop().await.expect("stopped");
    }
}

async fn a_sign_out_while_nats_is_out_of_reach_is_told_to_the_others_afterwards() {
    let mut servers = NatsServers::one().await.expect("a NATS server");
    let (mut one, two) = two(&servers).await;
    let token = one.token(&TestToken::new("alice")).expect("a token");
    let sign_in = async |gateway: &TestGateway| {
        let signed_in = ask(gateway, ("POST", "/v0/session"), "", json!({ "token": token })).await;
        signed_in.header("set-cookie").and_then(|set| set.split(';').next()).expect("a cookie").to_owned()
    };
    let (first, second) = (sign_in(&one).await, sign_in(&one).await);
    let mut watching = connect(&one, "bob", "").await;
    servers.kill(0).await.expect("killed");
    next_where(&mut watching, |came| came["payload"]["code"] == "closing").await;
    let signed_out = ask(&one, ("DELETE", "/v0/session"), &first, json!({})).await;
    assert_eq!(signed_out.status, 503, "{}", signed_out.body);
    assert_eq!(ask(&one, ("GET", "/v0/session"), &first, json!({})).await.status, 401, "it counts here at once");
    assert_eq!(ask(&two, ("GET", "/v0/session"), &first, json!({})).await.status, 200, "nobody could have been told");
    servers.revive(0).await.expect("revived");
    let gone = async |cookie: &str| {
        let asking = async { while ask(&two, ("GET", "/v0/session"), cookie, json!({})).await.status == 200 {} };
        within("the other gateway to hear of a sign-out", asking).await.expect("in time");
    };
    gone(&first).await;
    next_where(&mut watching, |came| came["payload"]["event"] == "ready").await;

    // The same where the gateway restarts before it could share it.
    servers.kill(0).await.expect("killed");
    next_where(&mut watching, |came| came["payload"]["code"] == "closing").await;
    assert_eq!(ask(&one, ("DELETE", "/v0/session"), &second, json!({})).await.status, 503);
    servers.revive(0).await.expect("revived");
    one.restart().await.expect("restarted");
    gone(&second).await;
    assert_eq!(ask(&one, ("GET", "/v0/session"), &second, json!({})).await.status, 401);
    one.stop().await.expect("stopped");
    two.stop().await.expect("stopped");
}

async fn readers_are_told_that_nothing_can_be_stored_and_when_it_can_be_again() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let proxy = Proxy::to(servers.port(0)).await.expect("a proxy");
    let options = |url: &str| TestOptions::on_nats(url, "salon").expect("options");
    let one = TestGateway::start(options(&servers.url())).await.expect("a gateway");
    let behind = options(&proxy.url()).set("times.heartbeat", "200ms").expect("a setting");
    let two = one.beside(behind).await.expect("another gateway");
    let mut robot = robot(&two).await;
    let mut alice = connect(&one, "alice", "").await;
    let mut bob = connect(&two, "bob", "").await;
    let token = two.token(&TestToken::new("carol")).expect("a token");
    let stream = HttpCall::new("GET", "/v0/topics/room:a/stream").bearer(&token);
    let mut stream = EventStream::open(two.address(), &stream).await.expect("an answer").expect("a stream");
    next_where(&mut alice, presence("join", "bob")).await;
    alice.text(chat("alice", "before")).await.expect("sent");
    assert_eq!(lines(&mut bob, 1).await, ["before"]);

    proxy.hold();
    let is_word = |came: &Value| came["kind"] == "system";
    let told = patiently("bob to be told", next_where(&mut bob, is_word)).await;
    let (payload, correlation) = (&told["payload"], &told["correlation_id"]);
    assert_eq!(
        (&payload["event"], &payload["code"], &payload["details"]["passing"], correlation),
        (&json!("error"), &json!("closing"), &json!(true), &Value::Null),
        "{told}"
    );
    let telling = next_where(&mut robot, |came| came["payload"]["outage"].is_object());
    let told = patiently("the robot to be told", telling).await;
    assert_eq!(
        (&told["header"]["source"], &told["payload"]["outage"]["over"]),
        (&json!("system:gateway"), &json!(false))
    );
    let event = patiently("carol to be told", async {
        loop {
            let event = stream.next().await.expect("in time").expect("the stream goes on");
            if event.event.is_some() {
                break event;
            }
        }
    })
    .await;
    assert_eq!((event.event.as_deref(), event.id), (Some("closing"), None));
    // The connection lives meanwhile, and the other gateway goes on without it.
    next_where(&mut bob, |came| came["payload"]["event"] == "heartbeat").await;
    alice.text(chat("alice", "during")).await.expect("sent");
    assert_eq!(lines(&mut alice, 2).await, ["before", "during"]);

    proxy.release();
    let mut heard = Vec::new();
    while heard != ["during", "ready"] && heard != ["ready", "during"] {
        let coming = next_where(&mut bob, |came| came["kind"] == "mcp" || came["kind"] == "system");
        let came = patiently("bob to be told of the end", coming).await;
        let name = if came["kind"] == "mcp" { &came["id"] } else { &came["payload"]["event"] };
        heard.push(name.as_str().expect("a name").to_owned());
        assert!(heard.len() <= 2, "{heard:?}");
    }
    let telling = next_where(&mut robot, |came| came["payload"]["outage"].is_object());
    let told = patiently("the robot to be told", telling).await;
    assert_eq!(told["payload"]["outage"]["over"], true);
    patiently("carol to be told of the end", async {
        loop {
            let event = stream.next().await.expect("in time").expect("the stream goes on");
            match event.event.as_deref() {
                Some("ready") => break,
                other => assert_eq!(other, None, "once an outage"),
            }
        }
    })
    .await;
    bob.text(chat("bob", "after")).await.expect("sent");
    assert_eq!(lines(&mut alice, 1).await, ["after"]);
    two.stop().await.expect("stopped");
    one.stop().await.expect("stopped");
}

/// How often a gateway has refused something because it could not be stored.
async fn refusals(gateway: &TestGateway) -> f64 {
    let told = HttpCall::new("GET", "/metrics").send(gateway.address()).await.expect("an answer");
    assert_eq!(told.status, 200, "{}", told.body);
    let count = told.body.lines().find_map(|line| line.strip_prefix(r#"salon_refusals_total{code="closing"} "#));
    count.map_or(0.0, |count| count.parse().expect("a number"))
}

async fn a_client_waits_for_a_gateway_that_can_store_nothing_and_loses_nothing() {
    let mut servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = two(&servers).await;
    let mut bob = connect(&two, "bob", "").await;
    let token = one.token(&TestToken::new("alice")).expect("a token");
    let at = salon_client::Gateway::new(&format!("http://{}", one.address())).expect("an address");
    let room = Client::new(at, StaticToken::new(token)).room(TopicName::new("room:a").expect("a name"));
    let (alice, mut events) = room.once().join_listening().await.expect("a room");
    alice.say("before").await.expect("stored");
    servers.kill(0).await.expect("killed");
    let mut link = alice.link();
    let stalled = link.wait_for(|link| matches!(link, Link::Stalled { .. }));
    patiently("the client to hear of it", stalled).await.expect("a link");
    let before = refusals(&one).await;
    let saying = tokio::spawn({
        let alice = alice.clone();
        async move { alice.say("during").await }
    });
    // Refused before NATS is there again it is only put off: said once more, and refused once more, by when the first time was heard.
    let refused_twice = async { while refusals(&one).await < before + 2.0 {} };
    patiently("the client to be refused twice", refused_twice).await;
    assert!(!saying.is_finished());
    servers.revive(0).await.expect("revived");
    let live = link.wait_for(|link| matches!(link, Link::Live));
    patiently("the client to hear of its end", live).await.expect("a link");
    patiently("what was put off", saying).await.expect("a task").expect("stored");
    let (mut told, mut texts) = (Vec::new(), Vec::new());
    while texts.last().is_none_or(|text| text != "during") {
        match within("what alice hears", events.next()).await.expect("in time").expect("she stays") {
            salon_client::Event::Envelope(envelope) => texts.extend(envelope.chat().map(|chat| chat.text.to_string())),
            salon_client::Event::Outage(_) => told.push("outage"),
            salon_client::Event::Recovered => told.push("recovered"),
            other => panic!("nothing is missing: {other:?}"),
        }
    }
    assert_eq!(texts, ["before", "during"], "once each");
    assert_eq!(told.first(), Some(&"outage"));
    for text in ["before", "during"] {
        let came = next_where(&mut bob, |came| came["kind"] == "mcp").await;
        assert_eq!(came["payload"]["params"]["text"], text, "{came}");
    }
    two.stop().await.expect("stopped");
    one.stop().await.expect("stopped");
}

async fn a_gateway_that_is_cut_off_keeps_no_call_waiting_and_owes_the_others_its_sign_outs() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two, proxy) = two_apart(&servers).await;
    let token = two.token(&TestToken::new("carol")).expect("a token");
    let signed_in = ask(&two, ("POST", "/v0/session"), "", json!({ "token": token })).await;
    let cookie = signed_in.header("set-cookie").and_then(|set| set.split(';').next()).expect("a cookie").to_owned();
    let mut bob = connect(&two, "bob", "").await;
    let mut robot = robot(&one).await;
    let mut alice = sit(&one, "alice", Some("drive")).await;
    let arm = json!({ "name": "arm.move", "arguments": {} });
    alice.text(call("alice", "c1", "robot", &arm)).await.expect("sent");
    assert_eq!(asked(&mut robot).await.0, "c1");

    // What a call is permitted is stored with it, so nobody has to be asked.
    proxy.hold();
    alice.text(call("alice", "c2", "robot", &arm)).await.expect("sent");
    assert_eq!(asked(&mut robot).await.0, "c2");

    let out = next_where(&mut bob, |came| came["payload"]["code"] == "closing");
    patiently("the other gateway to notice", out).await;
    for _ in 0..2 {
        let signed_out = ask(&two, ("DELETE", "/v0/session"), &cookie, json!({})).await;
        assert_eq!(signed_out.status, 503, "{}", signed_out.body);
    }
    assert_eq!(ask(&one, ("GET", "/v0/session"), &cookie, json!({})).await.status, 200, "nobody could have been told");
    proxy.release();
    patiently("the sign-out to be shared", async {
        while ask(&two, ("DELETE", "/v0/session"), &cookie, json!({})).await.status == 503 {}
        while ask(&one, ("GET", "/v0/session"), &cookie, json!({})).await.status == 200 {}
    })
    .await;

    two.stop().await.expect("stopped");
    alice.text(call("alice", "c3", "robot", &arm)).await.expect("sent");
    assert_eq!(asked(&mut robot).await.0, "c3");
    one.stop().await.expect("stopped");
}
