use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;

use super::{TOPIC, free_port};
use crate::binary::{self, ServedProcess};
use crate::http::HttpCall;
use crate::socket::{TestSocket, TestSocketEvent};
use crate::witness::envelope;
use crate::{Failure, Scratch};

/// After a crash participants have some time to come back, and one that resumes in it has not left; when it is over, the others have.
pub async fn grace(binary: &Path) -> Result<(), Failure> {
    let data = Scratch::new().map_err(|e| format!("no temporary directory: {e}"))?;
    let port = free_port()?;
    let mut tokens = Vec::new();
    for id in ["alice", "bob"] {
        tokens.push(binary::token(binary, data.path(), TOPIC, id).await?);
    }
    let [alice, bob] = &tokens[..] else { return Err("two tokens".into()) };

    let mut process = ServedProcess::start(binary, data.path(), port, &[]).await?;
    let address = process.address();
    let mut talker = enter(address, alice, "").await?;
    let mut listener = enter(address, bob, "").await?;
    say(&mut talker, "e1").await?;
    presence_before(&mut talker, "e1").await?;
    presence_before(&mut listener, "e1").await?;
    process.kill().await?;

    let mut process = ServedProcess::start(binary, data.path(), port, &[]).await?;
    let mut talker = enter(address, alice, "&after=e1").await?;
    let mut listener = enter(address, bob, "&after=e1").await?;
    say(&mut talker, "e2").await?;
    for socket in [&mut talker, &mut listener] {
        let told = presence_before(socket, "e2").await?;
        if told.iter().any(|told| told.starts_with("leave")) {
            return Err(format!("both came back in time, and yet {told:?}"));
        }
    }
    process.kill().await?;

    let mut process = ServedProcess::start(binary, data.path(), port, &["--times-crash-grace", "500ms"]).await?;
    let mut listener = enter(address, bob, "&after=e2").await?;
    loop {
        let frame = next(&mut listener).await?;
        if tell(&frame).as_deref() == Some("leave alice") {
            break;
        }
    }
    process.kill().await
}

async fn enter(address: SocketAddr, token: &str, after: &str) -> Result<TestSocket, Failure> {
    let call = HttpCall::new("GET", format!("/v0/ws?topic={TOPIC}{after}")).bearer(token);
    let entered = TestSocket::connect(address, call).await?;
    let mut socket = entered.map_err(|answer| format!("refused{after}: {} {}", answer.status, answer.body))?;
    next(&mut socket).await?;
    Ok(socket)
}

async fn say(socket: &mut TestSocket, id: &str) -> Result<(), Failure> {
    socket.text(envelope("alice", id, 0)).await
}

/// The comings and goings told before an envelope.
async fn presence_before(socket: &mut TestSocket, id: &str) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    loop {
        let frame = next(socket).await?;
        if frame["id"] == id {
            return Ok(told);
        }
        told.extend(tell(&frame));
    }
}

fn tell(frame: &Value) -> Option<String> {
    let presence = (frame["kind"] == "presence").then(|| &frame["payload"])?;
    Some(format!("{} {}", presence["event"].as_str()?, presence["participant"]["id"].as_str()?))
}

async fn next(socket: &mut TestSocket) -> Result<Value, Failure> {
    match socket.next().await? {
        TestSocketEvent::Text(text) => {
            serde_json::from_str(&text).map_err(|e| format!("a frame is not JSON ({e}): {text}"))
        }
        other => Err(format!("expected a frame, came {other:?}")),
    }
}
