//! A participant that lives in the gateway's own process is one like all others: it comes in over a connection made of memory.

use libtest_mimic::Trial;
use salon_testkit::http::HttpCall;
use salon_testkit::{Failure, TestEngine, TestGateway, TestOptions, TestSocket, TestSocketEvent, TestToken};

use crate::room::envelope;
use crate::tables::{self, Logs};

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    tables::trials(
        engine,
        "inside",
        &[
            // It outlives a restart of the gateway, and so of the log.
            ("talks with one from outside", Logs::Every, |engine| Box::pin(talk(engine))),
            ("needs a token, and has no address to be counted by", Logs::SqliteOnly, |engine| {
                Box::pin(counted(engine))
            }),
        ],
    )
}

fn entering(gateway: &TestGateway, id: &str) -> Result<HttpCall, Failure> {
    Ok(HttpCall::new("GET", "/v0/ws?topic=room:alpha").bearer(&gateway.token(&TestToken::new(id))?))
}

fn note(from: &str, id: &str) -> String {
    envelope(from, id, "", r#""method":"notifications/note""#)
}

async fn inside(gateway: &TestGateway, call: HttpCall) -> Result<Result<TestSocket, u16>, Failure> {
    let memory = gateway.inside().connect().await.map_err(|e| e.to_string())?;
    Ok(TestSocket::connect_inside(memory, call).await?.map_err(|answer| answer.status))
}

/// Passes over presence and welcomes until a text comes that names an envelope.
async fn gets(socket: &mut TestSocket, id: &str) -> Result<(), Failure> {
    loop {
        match socket.next().await? {
            TestSocketEvent::Text(text) if text.contains(&format!("\"id\":\"{id}\"")) => return Ok(()),
            TestSocketEvent::Text(_) => {}
            other => return Err(format!("expected {id}, came {other:?}")),
        }
    }
}

/// Passes over everything until the gateway has closed the connection because it stops.
async fn is_closed(mut socket: TestSocket) -> Result<(), Failure> {
    loop {
        match socket.next().await? {
            TestSocketEvent::Text(_) => {}
            TestSocketEvent::Closed(1001, _) => return Ok(()),
            other => return Err(format!("expected to be told that the gateway goes, came {other:?}")),
        }
    }
}

async fn talk(engine: TestEngine) -> Result<(), Failure> {
    let mut gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let refused = |status| format!("refused with {status}");
    let mut near = inside(&gateway, entering(&gateway, "near")?).await?.map_err(refused)?;
    let far = TestSocket::connect(gateway.address(), entering(&gateway, "far")?).await?;
    let mut far = far.map_err(|answer| refused(answer.status))?;
    far.text(note("far", "f1")).await?;
    gets(&mut near, "f1").await?;
    // Many, so that both directions are written while they are read and the memory between them fills.
    for n in 0..500 {
        near.text(note("near", &format!("n{n}"))).await?;
    }
    gets(&mut far, "n499").await?;
    gets(&mut near, "n499").await?;

    let before = gateway.inside().clone();
    let (restarted, near, far) = tokio::join!(gateway.restart(), is_closed(near), is_closed(far));
    restarted.and(near).and(far)?;
    if before.connect().await.is_ok() {
        return Err("a gateway that has stopped took a connection".into());
    }
    let near = inside(&gateway, entering(&gateway, "near")?).await?.map_err(refused)?;
    near.close().await?;
    gateway.stop().await
}

async fn counted(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("limits.connections_per_address", "1")?).await?;
    let anonymous = inside(&gateway, HttpCall::new("GET", "/v0/ws?topic=room:alpha")).await?.map(drop);
    if anonymous != Err(401) {
        return Err(format!("without a token came {anonymous:?}"));
    }
    let mut all = Vec::new();
    for id in ["a", "b", "c"] {
        all.push(inside(&gateway, entering(&gateway, id)?).await?.map_err(|status| format!("{id}: {status}"))?);
    }
    let far = TestSocket::connect(gateway.address(), entering(&gateway, "far")?).await?;
    far.map_err(|answer| format!("those inside were counted: {}", answer.status))?.close().await?;
    drop(all);
    gateway.stop().await
}
