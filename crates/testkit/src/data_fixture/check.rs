//! What a program must do with the data that an earlier version wrote.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde_json::Value;

use super::client::{ALPHA, FixtureParticipant, answer, chat, history, post};
use super::{AUDIT, FixtureEnding, FixtureRecord, SIGN_OUTS, WAL, copy_files, token};
use crate::binary::{self, ServedProcess};
use crate::http::{EventStream, HttpCall};
use crate::{Failure, Scratch};

/// Far enough away that no sign-out has expired; 1 January 2100, in milliseconds.
const FAR_AWAY_MS: u64 = 4_102_444_800_000;

/// Opens a copy of a fixture with a program and checks that nothing of it is lost, that everything in it still counts, and that the log
/// goes on where it ended.
pub async fn check(binary: &Path, fixture: &Path) -> Result<(), Failure> {
    let record = FixtureRecord::read(fixture)?;
    let scratch = Scratch::new().map_err(|e| format!("no temporary directory: {e}"))?;
    let data = &scratch.path().join("data");
    unpack(fixture, data, &record)?;
    let trail = fs::read(data.join(AUDIT)).map_err(|e| format!("no audit trail: {e}"))?;

    // Entries older than the retention would go, and the participants have time to come back.
    let mut process =
        ServedProcess::start(binary, data, 0, &["--retention-age", "0", "--times-crash-grace", "1h"]).await?;
    let address = process.address();
    let old = token::extended(&record.token)?;
    topics(address, &old, &record).await?;
    histories(address, &old, &record).await?;
    resuming(address, &old, &record).await?;
    appending(address, &binary::token(binary, data, "room:*", "carol").await?, &record).await?;
    let bob = binary::token(binary, data, "room:*", "bob").await?;
    conversation(address, &old, &bob, &record).await?;
    sign_outs(data, &record)?;
    process.terminate().await?;

    let mut process =
        ServedProcess::start(binary, data, 0, &["--retention-age", "0", "--times-crash-grace", "100ms"]).await?;
    left(process.address(), &old).await?;
    let kept = history(process.address(), &old, &record.published.topic).await?;
    require(kept.iter().any(|envelope| envelope.contains("\"new\"")), || format!("`new` is not in {kept:#?}"))?;
    process.terminate().await?;
    let longer = fs::read(data.join(AUDIT)).map_err(|e| format!("no audit trail: {e}"))?;
    require(longer.starts_with(&trail) && longer.len() > trail.len(), || "the audit trail does not go on".into())
}

fn require(holds: bool, otherwise: impl FnOnce() -> Failure) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Makes a data directory of a fixture: closed to others, the write-ahead log as long as it was, and no sign-out expired.
fn unpack(fixture: &Path, data: &Path, record: &FixtureRecord) -> Result<(), Failure> {
    let failed = |e: std::io::Error| format!("{}: {e}", data.display());
    fs::DirBuilder::new().mode(0o700).create(data).map_err(failed)?;
    copy_files(fixture, data)?;
    require(data.join(WAL).exists() == (record.ending == FixtureEnding::Killed), || "a killed log has a WAL".into())?;
    if record.wal_bytes > 0 {
        let wal = fs::OpenOptions::new().write(true).open(data.join(WAL)).map_err(failed)?;
        wal.set_len(record.wal_bytes).map_err(failed)?;
    }
    let path = data.join(SIGN_OUTS);
    let line = fs::read_to_string(&path).map_err(failed)?;
    let mut line: Value = serde_json::from_str(&line).map_err(|e| format!("not one sign-out ({e}): {line}"))?;
    line["expires"] = FAR_AWAY_MS.into();
    fs::write(&path, format!("{line}\n")).map_err(failed)
}

async fn topics(address: SocketAddr, token: &str, record: &FixtureRecord) -> Result<(), Failure> {
    let told = HttpCall::new("GET", "/v0/topics").bearer(token).send(address).await?;
    for topic in record.history.keys() {
        require(told.body.contains(topic.as_str()), || format!("{topic} is not in {} {}", told.status, told.body))?;
    }
    Ok(())
}

async fn histories(address: SocketAddr, token: &str, record: &FixtureRecord) -> Result<(), Failure> {
    for (topic, known) in &record.history {
        let found = history(address, token, topic).await?;
        require(found.starts_with(known), || format!("{topic} had\n{known:#?}\nand has\n{found:#?}"))?;
    }
    Ok(())
}

/// A reader that resumes gets exactly what followed.
async fn resuming(address: SocketAddr, token: &str, record: &FixtureRecord) -> Result<(), Failure> {
    let known = &record.history[ALPHA];
    let (first, rest) = known.split_first().ok_or("an empty history")?;
    let first: Value = serde_json::from_str(first).map_err(|e| e.to_string())?;
    let after = first["id"].as_str().unwrap_or_default();
    let call = HttpCall::new("GET", format!("/v0/topics/{ALPHA}/stream?after={after}")).bearer(token);
    let opened = EventStream::open(address, &call).await?;
    let mut stream = opened.map_err(|answer| format!("no stream: {} {}", answer.status, answer.body))?;
    for expected in rest {
        let event = stream.next().await?.ok_or("the stream ended")?;
        require(event.data == *expected, || format!("after {after} came {} and not {expected}", event.data))?;
    }
    Ok(())
}

/// What was published is known by its id and has its position; what is new comes after it.
async fn appending(address: SocketAddr, token: &str, record: &FixtureRecord) -> Result<(), Failure> {
    let known = &record.published;
    let (status, told) = post(address, token, &known.topic, &known.envelope).await?;
    let same = status == 200 && told["repeated"] == true && told["position"] == known.position;
    require(same, || format!("{} again gave {status} {told}", known.position))?;
    let changed = known.envelope.replace("again", "differently");
    let (status, told) = post(address, token, &known.topic, &changed).await?;
    require(status == 409, || format!("another envelope with the same id gave {status} {told}"))?;
    let (status, told) = post(address, token, &known.topic, &chat("new", "carol", "a new message")).await?;
    let position = told["position"].as_str().unwrap_or_default();
    let offset = |position: &str| position.split_once('-').and_then(|(_, offset)| offset.parse::<u64>().ok());
    let epoch = |position: &str| position.split_once('-').map(|(epoch, _)| epoch.to_owned());
    let follows =
        epoch(position) == epoch(&known.position) && offset(position) == offset(&known.position).map(|n| n + 1);
    require(status == 201 && follows, || format!("a new one after {} gave {status} {told}", known.position))
}

/// Contexts, presence, and the call that bob has still to answer.
async fn conversation(address: SocketAddr, alice: &str, bob: &str, record: &FixtureRecord) -> Result<(), Failure> {
    let after = record.open_call.as_ref().map(|_| "last");
    let mut alice = FixtureParticipant::enter(address, "alice", alice, after).await?;
    let contexts = alice.contexts("check").await?;
    require(contexts == record.contexts, || format!("contexts were\n{:#?}\nand are\n{contexts:#?}", record.contexts))?;
    let present = alice.ask("who", "presence.get", &serde_json::json!({})).await?.to_string();
    require(present.contains(r#""carol""#) == (record.ending == FixtureEnding::Killed), || {
        format!("there are {present}")
    })?;
    if let Some(call) = &record.open_call {
        let mut bob = FixtureParticipant::enter(address, "bob", bob, Some("last")).await?;
        bob.publish(answer("late", "bob", "alice", call)).await?;
        alice.wait("the late answer", |frame| frame["correlation_id"] == call.as_str()).await?;
    }
    Ok(())
}

/// The file is rewritten at every start, with what was understood of it.
fn sign_outs(data: &Path, record: &FixtureRecord) -> Result<(), Failure> {
    let text = fs::read_to_string(data.join(SIGN_OUTS)).map_err(|e| format!("no sign-outs: {e}"))?;
    require(text.contains(&record.signed_out), || format!("{} is not in {text:?}", record.signed_out))
}

/// Everybody who does not come back leaves.
async fn left(address: SocketAddr, token: &str) -> Result<(), Failure> {
    let call = HttpCall::new("GET", format!("/v0/topics/{ALPHA}/stream?after=last")).bearer(token);
    let opened = EventStream::open(address, &call).await?;
    let mut stream = opened.map_err(|answer| format!("no stream: {} {}", answer.status, answer.body))?;
    let mut absent = Vec::new();
    while !["alice", "bob", "carol"].iter().all(|id| absent.contains(&(*id).to_owned())) {
        let event = stream.next().await.map_err(|e| format!("{e}; only {absent:?} have left"))?;
        let event: Value = serde_json::from_str(&event.ok_or("the stream ended")?.data).map_err(|e| e.to_string())?;
        if event["kind"] == "presence" && event["payload"]["event"] == "leave" {
            absent.extend(event["payload"]["participant"]["id"].as_str().map(str::to_owned));
        }
    }
    Ok(())
}
