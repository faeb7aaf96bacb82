//! What a gateway counts, keeps and logs of what happens in it, and what never gets there.

use std::net::SocketAddr;

use salon_testkit::http::{HttpAnswer, HttpCall};
use salon_testkit::{TestSocket, TestSocketEvent, run};
use serde_json::{Value, json};

use crate::salon::{Home, Signal};

const TOPIC: &str = "room:records";

async fn enter(address: SocketAddr, token: &str) -> TestSocket {
    let call = HttpCall::new("GET", format!("/v0/ws?topic={TOPIC}")).bearer(token);
    TestSocket::connect(address, call).await.expect("it listens").expect("it lets them in")
}

async fn next(socket: &mut TestSocket) -> String {
    match socket.next().await.expect("a frame") {
        TestSocketEvent::Text(text) => text,
        other => panic!("{other:?} instead of text"),
    }
}

async fn get(address: SocketAddr, path: &str, token: &str) -> HttpAnswer {
    HttpCall::new("GET", path).bearer(token).send(address).await.expect("an answer")
}

fn envelope(id: &str, from: &str, rest: &str) -> String {
    format!(r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"{from}","kind":"mcp",{rest}}}"#)
}

fn chat(id: &str, from: &str, text: &str) -> String {
    envelope(
        id,
        from,
        &format!(r#""payload":{{"jsonrpc":"2.0","method":"notifications/chat/message","params":{{"text":"{text}"}}}}"#),
    )
}

/// The value of a metric without labels, or with exactly these.
fn metric(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in:\n{text}"))
}

#[test]
fn what_happens_is_counted_and_kept_and_secrets_are_not() {
    let home = Home::new();
    run(async {
        let token = home.token(TOPIC, "alice").await;
        let running = home.serve("--log-format human --log-filter trace").await;
        let mut alice = enter(running.address, &token).await;
        assert!(next(&mut alice).await.contains("welcome"));
        alice.text(chat("e1", "alice", "the-payload")).await.expect("sent");
        assert!(next(&mut alice).await.contains("the-payload"));
        alice.text(chat("e1", "alice", "the-payload")).await.expect("sent");
        assert!(next(&mut alice).await.contains("the-payload"), "a repeated one is echoed again");
        alice.text(chat("e2", "mallory", "the-payload")).await.expect("sent");
        assert!(next(&mut alice).await.contains("from_mismatch"));
        assert_eq!(get(running.address, "/v0/topics/room:other/history", &token).await.status, 403);
        assert_eq!(get(running.address, &format!("/v0/topics/{TOPIC}/history"), "not.a.token").await.status, 401);
        assert_eq!(get(running.address, "/ready", "").await.status, 200);

        let metrics = get(running.address, "/metrics", "").await.body;
        assert_eq!(metric(&metrics, "salon_connections"), 1.0);
        assert_eq!(metric(&metrics, "salon_participants"), 1.0);
        assert_eq!(metric(&metrics, "salon_appends_total"), 2.0, "a join and a chat, the repeated one not again");
        assert!(metric(&metrics, "salon_deliveries_total") >= 1.0);
        assert_eq!(metric(&metrics, r#"salon_refusals_total{code="from_mismatch"}"#), 1.0);
        assert_eq!(metric(&metrics, r#"salon_refusals_total{code="forbidden"}"#), 1.0);
        assert_eq!(metric(&metrics, r#"salon_refusals_total{code="unauthorized"}"#), 1.0);
        assert!(metric(&metrics, "salon_append_seconds_count") >= 1.0);
        assert!(metrics.contains("salon_delivery_seconds_bucket") && metrics.contains("salon_reader_lag"), "{metrics}");
        for name in ["X-Forwarded-For", "X-Forwarded-Host", "Forwarded", "Via", "X-Real-IP"] {
            let proxied = HttpCall::new("GET", "/metrics").header(name, "192.0.2.1").send(running.address).await;
            assert_eq!(proxied.expect("an answer").status, 401, "{name}: a client behind a proxy is not local");
        }

        let mut bob = enter(running.address, &home.token(TOPIC, "bob").await).await;
        next(&mut bob).await;
        bob.close().await.expect("closed");
        while !next(&mut alice).await.contains(r#""event":"leave""#) {}

        running.signal(Signal::TERM);
        assert!(next(&mut alice).await.contains("closing"));
        assert!(matches!(alice.next().await, Ok(TestSocketEvent::Closed(1001, _))));
        let ran = running.end().await;
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);

        let trail = std::fs::read_to_string(home.path().join(".local/share/salon/audit.log")).expect("a trail");
        let kept: Vec<String> = trail
            .lines()
            .map(|line| {
                let line: Value = serde_json::from_str(line).expect("a line is JSON");
                let word = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
                format!("{} {} {} {}", word("event"), word("participant"), word("topic"), word("code"))
            })
            .collect();
        for expected in [
            format!("auth_ok alice {TOPIC} -"),
            format!("join alice {TOPIC} -"),
            format!("refusal alice {TOPIC} from_mismatch"),
            "auth_failed - room:other forbidden".to_owned(),
            format!("auth_failed - {TOPIC} unauthorized"),
            format!("leave bob {TOPIC} -"),
        ] {
            assert!(kept.contains(&expected), "{expected:?} is not in {kept:#?}");
        }
        for secret in [token.as_str(), "not.a.token", "the-payload"] {
            assert!(!trail.contains(secret), "{secret} is in the audit trail");
            assert!(!ran.stderr.contains(secret), "{secret} is in a log line");
        }
    });
}

/// The id of the connection that a log line is about.
fn connection_of(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("connection{id=")?;
    rest.split(' ').next()?.parse().ok()
}

#[test]
fn every_line_of_a_connection_has_its_id() {
    let home = Home::new();
    run(async {
        let token = home.token(TOPIC, "alice").await;
        let running = home.serve("--log-filter debug").await;
        for _ in 0..2 {
            let mut alice = enter(running.address, &token).await;
            next(&mut alice).await;
            alice.close().await.expect("closed");
        }
        running.signal(Signal::TERM);
        let ran = running.end().await;
        let of = |message: &str| -> Vec<Option<u64>> {
            ran.stderr.lines().filter(|line| line.contains(message)).map(connection_of).collect()
        };
        let (started, ended) = (of("session: started"), of("session: ended"));
        assert_eq!(started.len(), 2, "{}", ran.stderr);
        assert!(started.iter().all(Option::is_some) && started[0] != started[1], "{started:?}");
        assert_eq!(started, ended, "a line of the same connection has the same id");
    });
}

/// The host must answer from any envelope that was accepted, as it was written, and never with more than fits.
#[test]
fn the_host_shows_any_envelope_as_it_was() {
    let home = Home::new();
    run(async {
        let running = home.serve("--limits-message 64KiB").await;
        let mut alice = enter(running.address, &home.token(TOPIC, "alice").await).await;
        next(&mut alice).await;
        let odd = r#""payload":{"jsonrpc":"2.0","method":"notifications/odd","params":{"b":1e999,"a":12345678901234567890123,"c":"\u0041"}}"#;
        let odd = envelope("odd", "alice", odd);
        alice.text(odd.clone()).await.expect("sent");
        assert_eq!(next(&mut alice).await, odd);

        let mut before = "odd-none".to_owned();
        // Each answer holds the one before it, so without a bound they would triple.
        for number in 0..12 {
            let id = format!("call-{number}");
            let arguments = if number == 0 { json!({ "limit": 1 }) } else { json!({ "limit": 1, "before": before }) };
            let params = json!({ "name": "history.get", "arguments": if number == 0 { json!({"limit": 2}) } else { arguments } });
            let call = format!(
                r#""to":["system:gateway"],"payload":{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#
            );
            alice.text(envelope(&id, "alice", &call)).await.expect("sent");
            next(&mut alice).await;
            let answer = next(&mut alice).await;
            assert!(answer.len() <= 64 << 10, "an answer of {} bytes", answer.len());
            if number == 0 {
                assert!(answer.contains(&odd), "the envelope stands in the answer as it was written: {answer}");
            }
            before = id;
        }
    });
}
