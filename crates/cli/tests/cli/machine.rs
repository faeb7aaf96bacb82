//! The Machine Context Protocol with the real binary: a token in a message goes nowhere else.

use std::net::SocketAddr;

use salon_testkit::http::HttpCall;
use salon_testkit::{TestSocket, TestSocketEvent, run};
use serde_json::{Value, json};

use crate::salon::{Home, Signal};

const TOPIC: &str = "room:secrets";
const SECRET: &str = "s3cret-that-nobody-may-see";

async fn connect(address: SocketAddr, path: &str, token: Option<&str>) -> TestSocket {
    let call = HttpCall::new("GET", format!("{path}?topic={TOPIC}"));
    let call = token.into_iter().fold(call, HttpCall::bearer);
    TestSocket::connect(address, call).await.expect("it listens").expect("it lets them in")
}

async fn next(socket: &mut TestSocket) -> String {
    match socket.next().await.expect("a frame") {
        TestSocketEvent::Text(text) => text,
        other => panic!("{other:?} instead of text"),
    }
}

fn message(kind: &str, id: &str, to: &str, mut payload: Value, token: &str) -> String {
    payload["security"] = json!({ "token": token });
    let header = json!({ "version": "1.0", "messageId": id, "timestamp": "2025-03-21T10:00:00Z", "messageType": kind, "destination": to });
    json!({ "header": header, "payload": payload }).to_string()
}

#[test]
fn a_token_in_a_message_is_in_no_room_history_log_line_or_error() {
    let home = Home::new();
    run(async {
        let bobs = home.token(TOPIC, "bob").await;
        let alices = home.token(TOPIC, "alice").await;
        let running = home.serve("--log-format human --log-filter trace").await;
        let address = running.address;
        let mut bob = connect(address, "/v0/ws", Some(&bobs)).await;
        let mut heard = next(&mut bob).await;

        // The right one, in the first message, in a request, a notification and an extension.
        let mut alice = connect(address, "/context/v1/ws", None).await;
        alice.text(message("notification", "n1", "*", json!({ "context": {} }), &alices)).await.expect("sent");
        alice.text(message("x-own", "n2", "bob", json!({}), &alices)).await.expect("sent");
        let call = json!({ "tool": { "id": "presence", "capability": "get" } });
        alice.text(message("request", "r1", "system:gateway", call.clone(), &alices)).await.expect("sent");
        let mut told = String::new();
        while !told.contains(r#""requestId":"r1""#) {
            told.push_str(&next(&mut alice).await);
        }
        // A wrong one: refused wherever it stands.
        for (kind, id) in [
            ("notification", "w1"),
            ("request", "w2"),
            ("x-own", "w3"),
            ("response", "w4"),
            ("error", "w5"),
            ("odd", "w6"),
        ] {
            alice.text(message(kind, id, "bob", call.clone(), SECRET)).await.expect("sent");
            let error = next(&mut alice).await;
            assert!(error.contains(r#""messageType":"error""#) && error.contains(id), "{error}");
            told.push_str(&error);
        }
        let stream =
            HttpCall::new("GET", format!("/context/v1/stream?topic={TOPIC}")).header("accept", "text/event-stream");
        let answer = stream.bearer(&alices).send(address).await.expect("an answer");
        assert_eq!(answer.status, 409, "while there is a WebSocket there is no stream: {}", answer.body);
        alice.close().await.expect("a goodbye");
        let mut stranger = connect(address, "/context/v1/ws", None).await;
        stranger.text(message("notification", "w7", "*", json!({}), SECRET)).await.expect("sent");
        let error = next(&mut stranger).await;
        assert!(error.contains(r#""code":"unauthorized""#), "{error}");
        told.push_str(&error);
        // A gateway that stops waits for its clients to hang up.
        drop(stranger);
        let mut conflicts = 1;
        for (id, token) in [("p1", alices.as_str()), ("p2", SECRET)] {
            let body = message("notification", id, "*", json!({ "chat": { "text": "hello" } }), token);
            let path = format!("/context/v1/messages?topic={TOPIC}");
            let post = async || {
                let call = HttpCall::new("POST", path.clone()).bearer(&alices).body(body.clone());
                call.send(address).await.expect("an answer")
            };
            let mut answer = post().await;
            // The gateway may not have ended its side of the WebSocket yet.
            while answer.status == 409 {
                conflicts += 1;
                tokio::task::yield_now().await;
                answer = post().await;
            }
            assert_eq!(answer.status, if id == "p1" { 202 } else { 401 }, "{}", answer.body);
            told.push_str(&answer.body);
        }
        while !heard.contains(r#""id":"p1""#) {
            heard.push_str(&next(&mut bob).await);
        }
        for id in ["n1", "n2", "r1"] {
            assert!(heard.contains(&format!(r#""id":"{id}""#)), "{id} came through: {heard}");
        }
        let path = format!("/v0/topics/{TOPIC}/history?limit=1000");
        let history = HttpCall::new("GET", path).bearer(&bobs).send(address).await.expect("an answer").body;

        running.signal(Signal::TERM);
        drop(bob);
        let ran = running.end().await;
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let trail = std::fs::read_to_string(home.path().join(".local/share/salon/audit.log")).expect("a trail");
        assert!(trail.contains("unauthorized"), "what was refused is kept: {trail}");
        assert_eq!(trail.matches("id_conflict").count(), conflicts, "a stream too: {trail}");
        assert!(ran.stderr.contains("session: started"), "there were log lines: {}", ran.stderr);
        for secret in [SECRET, &alices] {
            for (place, text) in [
                ("the room", &heard),
                ("what alice heard", &told),
                ("the history", &history),
                ("a log line", &ran.stderr),
                ("the audit trail", &trail),
            ] {
                assert!(!text.contains(secret), "a token is in {place}");
            }
        }
    });
}
