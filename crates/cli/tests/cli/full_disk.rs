//! A log that can no longer be written: a limit on file sizes stands in for a full disk.

use std::collections::HashSet;
use std::net::SocketAddr;

use salon_testkit::http::HttpCall;
use salon_testkit::{TestSocket, TestSocketEvent, run};
use serde_json::{Value, json};

use crate::salon::{BINARY, Home, Running};

const TOPIC: &str = "room:full";
/// The limit, in blocks of 512 bytes: 20 MiB, more than the log lays out when it is opened.
const BLOCKS: usize = 20 << 11;
/// How much one envelope says.
const TEXT: usize = 128 << 10;
/// More than fits, whatever the log does with its files.
const MAX_MESSAGES: usize = 10 * (BLOCKS << 9) / TEXT;

fn envelope(number: usize) -> String {
    let params = json!({ "text": "x".repeat(TEXT) });
    json!({
        "protocol": "mcp-x/v0", "id": format!("e{number}"), "ts": "2025-08-17T14:00:00Z", "from": "alice", "kind": "mcp",
        "payload": { "jsonrpc": "2.0", "method": "notifications/chat/message", "params": params },
    })
    .to_string()
}

/// Publishes one after the other until something else than the echo comes; tells what was echoed, and what came until the end.
async fn publish_until_refused(address: SocketAddr, token: &str) -> (Vec<String>, Vec<Value>) {
    let call = HttpCall::new("GET", format!("/v0/ws?topic={TOPIC}")).bearer(token);
    let mut socket = TestSocket::connect(address, call).await.expect("it listens").expect("it lets alice in");
    let mut echoed = Vec::new();
    let mut errors = Vec::new();
    for number in 0..MAX_MESSAGES {
        socket.text(envelope(number)).await.expect("sent");
        // Until the echo of this one, only the welcome and presence may come.
        while echoed.len() == number {
            match socket.next().await.expect("an answer") {
                TestSocketEvent::Text(text) => {
                    let heard: Value = serde_json::from_str(&text).expect("JSON");
                    if heard["id"] == format!("e{number}") {
                        echoed.push(format!("e{number}"));
                    } else if heard["payload"]["event"] == "error" {
                        errors.push(heard);
                    }
                }
                TestSocketEvent::Closed(code, reason) => {
                    errors.push(json!({ "closed": code, "reason": reason }));
                    return (echoed, errors);
                }
                other => panic!("{other:?} is no way to end, after {errors:?}"),
            }
        }
    }
    panic!("all {MAX_MESSAGES} were taken: the limit did not hold");
}

async fn history(address: SocketAddr, token: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut before = String::new();
    loop {
        let path = format!("/v0/topics/{TOPIC}/history?limit=50{before}");
        let page = HttpCall::new("GET", path).bearer(token).send(address).await.expect("an answer");
        let page: Value = serde_json::from_str(&page.body).expect("JSON");
        let envelopes = page["history"].as_array().expect("a list");
        ids.extend(envelopes.iter().filter_map(|envelope| envelope["id"].as_str().map(str::to_owned)));
        let Some(next) = page["next"].as_str() else { return ids };
        before = format!("&before={next}");
    }
}

#[test]
fn what_cannot_be_kept_is_refused_and_the_gateway_stops() {
    let home = Home::new();
    run(async {
        let token = home.token(TOPIC, "alice").await;
        let mut command = home.command("sh");
        // Without the trap the signal would end the process before it could speak.
        let limited =
            format!(r#"trap "" XFSZ; ulimit -f {BLOCKS}; exec "$0" serve --listen 127.0.0.1:0 --limits-rate 0"#);
        command.args(["-c", &limited, BINARY]);
        let running = Running::start(command).await;

        let (echoed, errors) = publish_until_refused(running.address, &token).await;
        assert!(!echoed.is_empty(), "some were kept");
        let (closed, refusals) = errors.split_last().expect("something came");
        assert!([1001, 1011].map(Value::from).contains(&closed["closed"]), "{closed}");
        assert!(!refusals.is_empty(), "a refusal comes before the close");
        assert!(refusals.iter().all(|refusal| refusal["payload"]["code"] == "closing"), "{refusals:?}");

        let ran = running.end().await;
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        let told = ran.stderr.rsplit_once("error: ").map_or("nothing", |(_, told)| told);
        assert!(told.starts_with("the log has stopped, and the gateway with it: "), "{told}");
        assert!(told.contains("\n\nhint: "), "{told}");

        let again = home.serve("").await;
        let kept = history(again.address, &token).await;
        let unique: HashSet<_> = kept.iter().collect();
        assert_eq!(unique.len(), kept.len(), "nothing is there twice");
        let lost: Vec<_> = echoed.iter().filter(|id| !unique.contains(id)).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    });
}
