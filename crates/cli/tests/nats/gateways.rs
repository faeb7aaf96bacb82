//! Several gateways on NATS as an operator starts them, and one that is killed.

use libtest_mimic::Trial;
use salon_testkit::http::HttpCall;
use salon_testkit::nats::NatsServers;
use salon_testkit::{TestSocket, TestSocketEvent, nats_trials};
use serde_json::Value;

use crate::salon::{Home, Running, Signal};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![the_participants_of_a_killed_gateway_leave_and_resume_elsewhere, what_a_start_on_nats_needs_is_told,]
}

async fn connect(home: &Home, running: &Running, id: &str, further: &str) -> TestSocket {
    let token = home.token("room:a", id).await;
    let call = HttpCall::new("GET", format!("/v0/ws?topic=room:a{further}")).bearer(&token);
    TestSocket::connect(running.address, call).await.expect("an answer").expect("a socket")
}

/// What comes until something wanted, as JSON.
async fn until(socket: &mut TestSocket, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
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
fn beside(home: &Home) -> Home {
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
