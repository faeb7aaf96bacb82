//! A participant that lives in the gateway's own process is one like all others: it comes in over a connection made of memory.

use libtest_mimic::Trial;
use salon_testkit::http::Call;
use salon_testkit::{Engine, Event, Failure, Gateway, Options, Socket, Token};

use crate::room::envelope;
use crate::tables::{self, Logs};

pub(crate) fn trials(engine: Engine) -> Vec<Trial> {
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

fn entering(gateway: &Gateway, id: &str) -> Result<Call, Failure> {
    Ok(Call::new("GET", "/v0/ws?topic=room:alpha").bearer(&gateway.token(&Token::new(id))?))
}

fn note(from: &str, id: &str) -> String {
    envelope(from, id, "", r#""method":"notifications/note""#)
}

async fn inside(gateway: &Gateway, call: Call) -> Result<Result<Socket, u16>, Failure> {
    let memory = gateway.inside().connect().await.map_err(|e| e.to_string())?;
    Ok(Socket::connect_inside(memory, call).await?.map_err(|answer| answer.status))
}

/// Passes over presence and welcomes until a text comes that names an envelope.
async fn gets(socket: &mut Socket, id: &str) -> Result<(), Failure> {
    loop {
        match socket.next().await? {
            Event::Text(text) if text.contains(&format!("\"id\":\"{id}\"")) => return Ok(()),
            Event::Text(_) => {}
            other => return Err(format!("expected {id}, came {other:?}")),
        }
    }
}

/// Passes over everything until the gateway has closed the connection because it stops.
async fn is_closed(mut socket: Socket) -> Result<(), Failure> {
    loop {
        match socket.next().await? {
            Event::Text(_) => {}
            Event::Closed(1001, _) => return Ok(()),
            other => return Err(format!("expected to be told that the gateway goes, came {other:?}")),
        }
    }
}

async fn talk(engine: Engine) -> Result<(), Failure> {
    let mut gateway = Gateway::start(Options::new(engine)).await?;
    let refused = |status| format!("refused with {status}");
    let mut near = inside(&gateway, entering(&gateway, "near")?).await?.map_err(refused)?;
    let far = Socket::connect(gateway.address(), entering(&gateway, "far")?).await?;
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

async fn counted(engine: Engine) -> Result<(), Failure> {
    let gateway = Gateway::start(Options::new(engine).set("limits.connections_per_address", "1")?).await?;
    let anonymous = inside(&gateway, Call::new("GET", "/v0/ws?topic=room:alpha")).await?.map(drop);
    if anonymous != Err(401) {
        return Err(format!("without a token came {anonymous:?}"));
    }
    let mut all = Vec::new();
    for id in ["a", "b", "c"] {
        all.push(inside(&gateway, entering(&gateway, id)?).await?.map_err(|status| format!("{id}: {status}"))?);
    }
    let far = Socket::connect(gateway.address(), entering(&gateway, "far")?).await?;
    far.map_err(|answer| format!("those inside were counted: {}", answer.status))?.close().await?;
    drop(all);
    gateway.stop().await
}
