//! Somebody who is in a room by framed sessions and asks for messages. A session ends with its gateway; the next one begins with what comes then.

use std::sync::Arc;

use serde_json::{Value, json};

use super::crowd::{FaultCrowd, GATEWAYS};
use super::verdict::{FaultDoor, FaultRecord};
use super::{BEAT, END, TOPICS, every};
use crate::Failure;
use crate::framed::FramedClient;

/// How long one request waits for messages, in milliseconds.
const RECEIVE_TIMEOUT: u64 = 500;

/// Why a session is over.
enum SessionEnd {
    /// Everything was received to the end.
    End,
    Lost,
}

/// Receives until the end.
pub(crate) async fn stay(
    name: String,
    token: String,
    topic: usize,
    crowd: Arc<FaultCrowd>,
) -> Result<FaultRecord, Failure> {
    let (mut beat, mut sessions) = (every(BEAT), Vec::new());
    let mut at = topic % GATEWAYS;
    loop {
        if let Some((mut client, session)) = connect(&name, &token, topic, at, &crowd).await? {
            crowd.entered(topic, &name);
            let mut received = Vec::new();
            let end = receive(&mut client, &session, &mut received).await;
            crowd.left(topic, &name);
            sessions.push(received);
            let end = end.map_err(|of| format!("{name} in {} at gateway {at}: {of}", TOPICS[topic]))?;
            if matches!(end, SessionEnd::End) {
                let by = FaultDoor::Framed(sessions);
                return Ok(FaultRecord { name, topic, by, reached_the_end: true, ..FaultRecord::default() });
            }
        }
        at = (at + 1) % GATEWAYS;
        beat.tick().await;
    }
}

/// A session; `None` where the gateway is not there or cannot let anybody in now.
async fn connect(
    name: &str,
    token: &str,
    topic: usize,
    at: usize,
    crowd: &FaultCrowd,
) -> Result<Option<(FramedClient, String)>, Failure> {
    let Some(address) = crowd.framed_address(at) else { return Ok(None) };
    let Ok(mut client) = FramedClient::open(address).await else { return Ok(None) };
    let info = json!({"id": name, "version": "1", "capabilities": []});
    let body = json!({"clientInfo": info, "token": token, "topic": TOPICS[topic]});
    let Ok(answer) = client.ask("connect", "CONNECT", &body).await else { return Ok(None) };
    match (answer.code(), answer.json()["sessionId"].as_str()) {
        (200, Some(session)) => Ok(Some((client, session.to_owned()))),
        (503, _) => {
            crowd.shut_out(at);
            Ok(None)
        }
        _ => Err(format!("{name} was not let in by frames: {} {}", answer.header, answer.body)),
    }
}

/// Receives for as long as the session lasts.
async fn receive(client: &mut FramedClient, session: &str, received: &mut Vec<String>) -> Result<SessionEnd, Failure> {
    let mut number = 0;
    loop {
        number += 1;
        let body = json!({"sessionId": session, "timeout": RECEIVE_TIMEOUT});
        // A connection that is gone is a gateway that is gone: nothing else ends it here.
        let Ok(answer) = client.ask(&format!("receive-{number}"), "RECEIVE", &body).await else {
            return Ok(SessionEnd::Lost);
        };
        match answer.code() {
            200 => {}
            // The gateway stops, or the session has ended with its seat.
            401 | 404 | 410 | 503 => return Ok(SessionEnd::Lost),
            _ => return Err(format!("{} {}", answer.header, answer.body)),
        }
        for message in answer.messages()? {
            let message: Value = serde_json::from_str(&message).map_err(|e| format!("{e}: {message}"))?;
            if message["kind"] == "system" {
                if message["payload"]["code"] == "not_found" {
                    return Err(format!("a gap: {message}"));
                }
                continue;
            }
            if message["payload"]["event"] == "heartbeat" {
                continue;
            }
            let id = message["id"].as_str().ok_or_else(|| format!("a message without an id: {message}"))?;
            received.push(id.to_owned());
            if id == END {
                return Ok(SessionEnd::End);
            }
        }
    }
}
