//! Several gateways on NATS as an operator starts them, and one that is killed.

use std::time::Duration;

use libtest_mimic::Trial;
use salon_protocol::Envelope;
use salon_testkit::http::HttpCall;
use salon_testkit::nats::{NatsServers, OldLog};
use salon_testkit::proxy::Proxy;
use salon_testkit::{TestSocket, TestSocketEvent, eventually, nats_trials};
use serde_json::Value;

use crate::killed_approval::HeldCall;
use crate::salon::{Home, Running, Signal};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        the_participants_of_a_killed_gateway_leave_and_resume_elsewhere,
        a_gateway_killed_between_an_approval_and_its_call_stores_the_call_once,
        what_a_start_on_nats_needs_is_told,
        a_gateway_moves_to_nats_and_back,
        a_store_of_salon_0_1_is_migrated_by_the_command,
        presence_that_only_the_log_tells_of_is_recovered_beside_serving,
    ]
}

pub(crate) async fn connect(home: &Home, running: &Running, id: &str, further: &str) -> TestSocket {
    let token = home.token("room:a", id).await;
    let call = HttpCall::new("GET", format!("/v0/ws?topic=room:a{further}")).bearer(&token);
    TestSocket::connect(running.address, call).await.expect("an answer").expect("a socket")
}

/// What comes until something wanted, as JSON.
pub(crate) async fn until(socket: &mut TestSocket, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut came = Vec::new();
    loop {
        match socket.next().await.expect("a frame") {
            TestSocketEvent::Text(text) => came.push(serde_json::from_str::<Value>(&text).expect("JSON")),
            other => panic!("after {came:?} there was {other:?}"),
        }
        if came.last().is_some_and(&wanted) {
            return came;
        }
    }
}

fn leave_of(id: &'static str) -> impl Fn(&Value) -> bool {
    move |came| came["payload"]["event"] == "leave" && came["payload"]["participant"]["id"] == id
}

/// A second home with the first one's key, as gateways that share a log must have.
pub(crate) fn beside(home: &Home) -> Home {
    let other = Home::new();
    let key = |home: &Home| home.path().join(".local/share/salon/auth.key");
    std::fs::create_dir_all(key(&other).parent().expect("a folder")).expect("made");
    std::fs::copy(key(home), key(&other)).expect("copied");
    other
}

async fn the_participants_of_a_killed_gateway_leave_and_resume_elsewhere() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let home = Home::new();
    let serve = format!("--test-timings --store {}", servers.url());
    let mut one = home.serve(&serve).await;
    let told = one.line().await.expect("a second line");
    assert!(told.starts_with("Store `salon` on NATS at 127.0.0.1:"), "{told}");
    let other = beside(&home);
    let two = other.serve(&serve).await;

    let mut alice = connect(&home, &one, "alice", "").await;
    let mut bob = connect(&home, &two, "bob", "").await;
    until(&mut alice, |came| came["payload"]["participant"]["id"] == "bob").await;
    let line = r#"{"protocol":"mcp-x/v0","id":"e1","ts":"2025-08-17T14:00:00Z","from":"bob","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"hello"}}}"#;
    bob.text(line).await.expect("sent");
    until(&mut bob, |came| came["id"] == "e1").await;
    until(&mut alice, |came| came["id"] == "e1").await;

    two.signal(Signal::KILL);
    let gone = until(&mut alice, leave_of("bob")).await;
    assert_eq!(gone.iter().filter(|came| leave_of("bob")(came)).count(), 1);
    // Bob goes on by the other gateway, after what he had.
    let mut again = connect(&home, &one, "bob", "&after=e1").await;
    let missed = until(&mut again, |came| came["payload"]["event"] == "join").await;
    assert!(missed.iter().any(leave_of("bob")), "the leave is part of what he missed: {missed:?}");
    drop(two);
    one.signal(Signal::TERM);
    assert_eq!(one.end().await.code, Some(0));
}

async fn a_gateway_killed_between_an_approval_and_its_call_stores_the_call_once() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let proxy = Proxy::to(servers.port(0)).await.expect("a way to it");
    let home = Home::new();
    let serve = format!("--store {}", proxy.url());
    let running = home.serve(&serve).await;
    let mut held = HeldCall::begin(&home, &running).await;
    // The server sends only what it has stored, and the gateway stores the call once it has read the decision.
    proxy.hold_at("notifications/approval/decided");
    held.approve().await;
    proxy.held().await.expect("the decision is stored");
    running.signal(Signal::KILL);
    running.end().await;
    proxy.release();
    held.end(async || home.serve(&serve).await).await;
}

async fn what_a_start_on_nats_needs_is_told() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let home = Home::new();
    let serve = format!("--test-timings --store {}", servers.url());
    let one = home.serve(&serve).await;
    // Another gateway with a key of its own.
    let other = Home::new();
    let told = other.told(&format!("serve --listen 127.0.0.1:0 --log-filter off {serve}")).await;
    insta::assert_snapshot!(told, @"
    error: the gateways of the log `salon` have another key than this one, so what one signs the other would not take

    hint: copy `auth.key` from the data directory of another of its gateways to `HOME/.local/share/salon`
    exit: 2
    ");
    let told = other.told(&format!("serve --check {serve}")).await;
    assert!(told.contains("have another key than this one") && told.ends_with("exit: 2"), "{told}");
    let told = other.told("serve --listen 127.0.0.1:0 --log-filter off --store info").await;
    insta::assert_snapshot!(told, @"
    error: invalid value '(not shown)' for '--store <sqlite|URL>': a store is `sqlite`, or NATS servers such as `nats://host:4222` or `tls://host:4222`, several with commas between

    hint: `--help` lists what there is
    exit: 2
    ");
    let told = other.told("serve --listen 127.0.0.1:0 --log-filter off --store nats://127.0.0.1:1").await;
    insta::assert_snapshot!(told, @"
    error: NATS at `127.0.0.1:1` cannot be connected to: IO error: Connection refused (os error 111); see that they run, and that `store` names them
    exit: 1
    ");
    let third = beside(&home);
    let told = third.told(&format!("serve --check {serve}")).await;
    assert!(told.contains("`salon` on NATS at 127.0.0.1:"), "{told}");
    // One with other times than those of the log would count living nodes as gone, or the other way round.
    let told = third.told(&format!("serve --check --store {}", servers.url())).await;
    assert!(told.contains("the stream `KV_salon-nodes` was changed: `max_age`"), "{told}");
    one.signal(Signal::TERM);
    assert_eq!(one.end().await.code, Some(0));
}

/// What Alice says.
fn line(id: &str) -> String {
    format!(
        r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"alice","kind":"mcp","payload":{{"jsonrpc":"2.0","method":"notifications/chat/message","params":{{"text":"hello"}}}}}}"#
    )
}

/// Says something and waits for the answer.
async fn say(home: &Home, running: &Running, id: &str) {
    say_in(home, running, "room:a", id).await;
}

async fn say_in(home: &Home, running: &Running, topic: &str, id: &str) {
    let token = home.token(topic, "alice").await;
    let call = HttpCall::new("POST", format!("/v0/topics/{topic}/messages")).bearer(&token).body(line(id));
    let answer = call.send(running.address).await.expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
}

/// The ids of the messages in a room, the newest first.
async fn history(home: &Home, running: &Running) -> Vec<String> {
    let ids = envelopes(home, running).await.into_iter();
    ids.filter(|envelope| envelope["kind"] == "mcp")
        .map(|envelope| envelope["id"].as_str().expect("an id").to_owned())
        .collect()
}

/// The envelopes in a room, the newest first.
async fn envelopes(home: &Home, running: &Running) -> Vec<Value> {
    let token = home.token("room:a", "alice").await;
    let call = HttpCall::new("GET", "/v0/topics/room:a/history?limit=100").bearer(&token);
    let answer = call.send(running.address).await.expect("an answer");
    let page: Value = serde_json::from_str(&answer.body).expect("JSON");
    page["history"].as_array().expect("a list").clone()
}

async fn end(running: Running) {
    running.signal(Signal::TERM);
    let ran = running.end().await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

async fn a_gateway_moves_to_nats_and_back() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let home = Home::new();
    let data = ".local/share/salon";
    let one = home.serve("").await;
    say(&home, &one, "e1").await;
    say(&home, &one, "e2").await;
    let copy = format!("log copy {data} {}", servers.url());
    let mut reader = connect(&home, &one, "reader", "").await;
    // While it runs, and once more when it has stopped.
    insta::assert_snapshot!(home.told(&copy).await, @"
    Copied 2 entries. Both stores have 1 topic with 2 entries: count and digest are the same.
    exit: 0
    ");
    say(&home, &one, "e3").await;
    until(&mut reader, |came| came["id"] == "e3").await;
    drop(reader);
    end(one).await;
    insta::assert_snapshot!(home.told(&copy).await, @"
    Copied 1 entry. Both stores have 1 topic with 3 entries: count and digest are the same.
    exit: 0
    ");
    // Its timings are those of the copy, which has made the store.
    let two = home.serve(&format!("--store {}", servers.url())).await;
    say(&home, &two, "e4").await;
    assert_eq!(history(&home, &two).await, ["e4", "e3", "e2", "e1"]);
    insta::assert_snapshot!(home.told(&copy).await, @"
    error: the log `salon` is in use by a gateway, or was until a moment ago

    hint: stop its gateways, wait 10 seconds where one was killed, and try again
    exit: 1
    ");
    let mut reader = connect(&home, &two, "reader", "").await;
    insta::assert_snapshot!(home.told(&format!("log copy {} new --data {data}", servers.url())).await, @"
    Copied 4 entries. Both stores have 1 topic with 4 entries: count and digest are the same.
    exit: 0
    ");
    say(&home, &two, "e5").await;
    until(&mut reader, |came| came["id"] == "e5").await;
    drop(reader);
    end(two).await;
    std::fs::copy(home.path().join(data).join("auth.key"), home.path().join("new/auth.key")).expect("copied");
    let three = home.serve("--data new").await;
    assert_eq!(history(&home, &three).await, ["e4", "e3", "e2", "e1"]);
    end(three).await;
    let missing = home.told(&format!("log copy {} other --from-name nobody --data {data}", servers.url())).await;
    insta::assert_snapshot!(missing, @"
    error: there is no log `nobody` on these NATS servers

    hint: `--from-name` and `--nats-name` name the store
    exit: 2
    ");
}

async fn a_store_of_salon_0_1_is_migrated_by_the_command() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let home = Home::new();
    // It makes the key.
    home.token("room:a", "alice").await;
    let fingerprint = salon_gateway::store_fingerprint(&home.path().join(".local/share/salon"));
    let fingerprint = fingerprint.expect("readable").expect("a key");
    let old = OldLog::create(&servers, &fingerprint, Duration::from_secs(10)).await;
    let lines = ["e1", "e2"].map(|id| Envelope::restore(line(id)).expect("an envelope"));
    old.topic("room:a", &lines).await;
    let serve = format!("--store {}", servers.url());
    let refused = home.told(&format!("serve --check {serve}")).await;
    assert!(refused.contains("`salon log migrate`") && refused.ends_with("exit: 2"), "{refused}");
    let migrate = format!("log migrate {}", servers.url());
    insta::assert_snapshot!(home.told(&migrate).await, @"
    Migrated `salon`: 1 topic with 2 entries, count and digest are the same. Deleted 1 old stream. Start its gateways.
    exit: 0
    ");
    let running = home.serve(&serve).await;
    assert_eq!(history(&home, &running).await, ["e2", "e1"]);
    say(&home, &running, "e3").await;
    end(running).await;
    insta::assert_snapshot!(home.told(&migrate).await, @"
    error: the log `salon` has the newest layout already

    hint: start its gateways
    exit: 1
    ");
}

/// A gateway is killed after it has given up a seat and before it has stored the leave: no lease and no lapse tells of the participant any more.
async fn presence_that_only_the_log_tells_of_is_recovered_beside_serving() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let home = Home::new();
    let serve = format!("--test-timings --times-crash-grace 1s --store {}", servers.url());
    let one = home.serve(&serve).await;
    let mut alice = connect(&home, &one, "alice", "").await;
    until(&mut alice, |came| came["payload"]["event"] == "welcome").await;
    one.signal(Signal::KILL);
    one.end().await;
    let purged = servers.ask("STREAM.PURGE.KV_salon-seats", &Value::Null).await.expect("an answer");
    assert!(purged["purged"].as_u64().is_some_and(|count| count > 0), "{purged}");

    let two = home.serve(&serve).await;
    let ready = HttpCall::new("GET", "/ready").send(two.address).await.expect("an answer");
    assert_eq!(ready.status, 200, "{}", ready.body);
    // In another room: nothing opens hers but the recovery.
    say_in(&home, &two, "room:b", "e1").await;
    let is_over = eventually("the leave of a participant that nobody has", async || {
        envelopes(&home, &two).await.iter().any(leave_of("alice")).then_some(())
    });
    is_over.await.expect("her leave is stored");
    end(two).await;
}
