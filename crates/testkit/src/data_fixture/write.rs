//! Writing a fixture: a gateway is given some of everything that a data directory can hold.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::client::{ALPHA, FixtureParticipant, answer, call, chat, envelope, history, post};
use super::{
    FixtureEnding, FixtureRecord, KEY, PublishedEnvelope, RECORD, SIGN_OUTS, TEST_KEY, WAL, copy_files, without_zeros,
};
use crate::binary::{self, ServedProcess};
use crate::http::HttpCall;
use crate::{Failure, Scratch, within};

const BETA: &str = "room:beta";
/// A topic from which retention has removed the oldest entries.
const TRIMMED: &str = "room:trimmed";
const KEPT: usize = 3;

/// The tokens of everybody.
struct FixtureTokens {
    alice: String,
    bob: String,
    carol: String,
}

/// Writes the fixtures of a program into a folder: `<version>-stopped` and `<version>-killed`. One that is there is never replaced.
pub async fn write(binary: &Path, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let version = binary::version(binary).await?;
    let mut written = Vec::new();
    for ending in FixtureEnding::ALL {
        let fixture = folder.join(format!("{version}-{}", ending.word()));
        if fixture.exists() {
            return Err(format!("{} is there already, and a fixture is never changed", fixture.display()));
        }
        write_one(binary, &version, ending, &fixture).await?;
        written.push(fixture);
    }
    Ok(written)
}

async fn write_one(binary: &Path, version: &str, ending: FixtureEnding, fixture: &Path) -> Result<(), Failure> {
    let scratch = Scratch::new().map_err(|e| format!("no temporary directory: {e}"))?;
    let data = &scratch.path().join("data");
    prepare(data).map_err(|e| format!("no data directory: {e}"))?;
    let everywhere = async |id| binary::token(binary, data, "room:*", id).await;
    let tokens = FixtureTokens {
        alice: everywhere("alice").await?,
        bob: everywhere("bob").await?,
        carol: everywhere("carol").await?,
    };

    let mut first = ServedProcess::start(binary, data, 0, &["--retention-age", "0"]).await?;
    let published = first_day(first.address(), &tokens).await?;
    sign_out(first.address(), &tokens.alice).await?;
    first.terminate().await?;

    let settings = scratch.path().join("salon.toml");
    let text = format!("[retention]\nage = \"0\"\n[topics.\"{TRIMMED}\"]\nretention = {{ count = {KEPT} }}\n");
    fs::write(&settings, text).map_err(|e| format!("no settings: {e}"))?;
    let mut second = ServedProcess::start(binary, data, 0, &["--config", &settings.display().to_string()]).await?;
    let address = second.address();
    trimmed(address, &tokens.alice).await?;
    let mut alice = FixtureParticipant::enter(address, "alice", &tokens.alice, None).await?;
    let mut bob = FixtureParticipant::enter(address, "bob", &tokens.bob, None).await?;
    let _carol = FixtureParticipant::enter(address, "carol", &tokens.carol, None).await?;
    alice.ask("put-3", "context.put", &json!({ "key": "plan", "value": ["third"] })).await?;
    let contexts = alice.contexts("context").await?;
    alice.publish(call("open", "alice", "bob", "wait", &json!({}))).await?;
    bob.wait("the open call", |frame| frame["id"] == "open").await?;
    alice.publish(chat("last", "alice", "the last words")).await?;
    let mut histories = BTreeMap::new();
    for topic in [ALPHA, BETA, TRIMMED] {
        histories.insert(topic.to_owned(), history(address, &tokens.alice, topic).await?);
    }
    match ending {
        FixtureEnding::Stopped => second.terminate().await?,
        FixtureEnding::Killed => second.kill().await?,
    }
    let record = FixtureRecord {
        salon: version.into(),
        ending,
        wal_bytes: 0,
        token: tokens.alice,
        signed_out: signed_out(data)?,
        history: histories,
        published,
        contexts,
        open_call: (ending == FixtureEnding::Killed).then(|| "open".to_owned()),
    };
    keep(data, fixture, record)
}

/// A data directory with the key that everybody knows.
fn prepare(data: &Path) -> std::io::Result<()> {
    use std::io::Write;
    fs::DirBuilder::new().mode(0o700).create(data)?;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(data.join(KEY))?.write_all(TEST_KEY)
}

/// Everything that is settled when the gateway stops for the first time.
async fn first_day(address: SocketAddr, tokens: &FixtureTokens) -> Result<PublishedEnvelope, Failure> {
    let mut alice = FixtureParticipant::enter(address, "alice", &tokens.alice, None).await?;
    let mut bob = FixtureParticipant::enter(address, "bob", &tokens.bob, None).await?;
    alice.publish(chat("hello", "alice", "good morning")).await?;
    // Text is kept as it was written, every digit, blank and escape of it.
    let odd = r#""payload":{"jsonrpc":"2.0","method":"notifications/odd","params":{ "b":1.0, "a":123456789012345678901234567890, "é":"\u00e9 \ud83d\ude00" }}"#;
    bob.publish(envelope("odd", "bob", odd)).await?;
    bob.publish(chat("long", "bob", &"länger ".repeat(1000))).await?;
    alice.publish(call("call", "alice", "bob", "move", &json!({ "x": 1 }))).await?;
    bob.wait("the call", |frame| frame["id"] == "call").await?;
    bob.publish(answer("answer", "bob", "alice", "call")).await?;
    let puts = [
        json!({ "key": "plan", "value": { "steps": ["first"] } }),
        json!({ "key": "plan", "value": "second" }),
        json!({ "key": "gone", "value": 1 }),
        json!({ "scope": "participant", "key": "mood", "value": "fine" }),
        json!({ "scope": "tool:arm", "key": "mood", "value": "idle" }),
    ];
    for (number, put) in puts.iter().enumerate() {
        alice.ask(&format!("put-1-{number}"), "context.put", put).await?;
    }
    alice.ask("delete", "context.delete", &json!({ "key": "gone" })).await?;

    for number in 0..10 {
        stored(address, &tokens.carol, TRIMMED, &chat(&format!("old-{number}"), "carol", "soon forgotten")).await?;
    }
    stored(address, &tokens.carol, BETA, &chat("beta-1", "carol", "over REST")).await?;
    let envelope = chat("beta-2", "carol", "over REST again");
    let position = stored(address, &tokens.carol, BETA, &envelope).await?;
    Ok(PublishedEnvelope { topic: BETA.into(), envelope, position })
}

/// Publishes what must be new, and hands out its position.
async fn stored(address: SocketAddr, token: &str, topic: &str, text: &str) -> Result<String, Failure> {
    match post(address, token, topic, text).await? {
        (201, told) => Ok(told["position"].as_str().unwrap_or_default().to_owned()),
        (status, told) => Err(format!("not stored: {status} {told}")),
    }
}

/// Signs a browser in and out again.
async fn sign_out(address: SocketAddr, token: &str) -> Result<(), Failure> {
    let own = |method| HttpCall::new(method, "/v0/session").header("Origin", format!("http://{address}"));
    let signed_in = own("POST").body(json!({ "token": token }).to_string()).send(address).await?;
    let cookie = signed_in.header("set-cookie").and_then(|set| set.split(';').next());
    let cookie = cookie.ok_or_else(|| format!("no cookie: {} {}", signed_in.status, signed_in.body))?;
    match own("DELETE").header("Cookie", cookie).send(address).await?.status {
        204 => Ok(()),
        status => Err(format!("signing out was answered with {status}")),
    }
}

/// The sign-in that the file of sign-outs names.
fn signed_out(data: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(data.join(SIGN_OUTS)).map_err(|e| format!("no sign-outs: {e}"))?;
    let line: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("not one line ({e}): {text}"))?;
    line["one"].as_str().map(str::to_owned).ok_or_else(|| format!("no sign-in in {text}"))
}

/// Waits until retention has done its work.
async fn trimmed(address: SocketAddr, token: &str) -> Result<(), Failure> {
    let waiting = async {
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        while history(address, token, TRIMMED).await?.len() > KEPT {
            tick.tick().await;
        }
        Ok(())
    };
    within("retention to remove the oldest", waiting).await?
}

/// Puts a data directory and its record where they stay.
fn keep(data: &Path, fixture: &Path, mut record: FixtureRecord) -> Result<(), Failure> {
    let failed = |e: std::io::Error| format!("{}: {e}", fixture.display());
    fs::create_dir_all(fixture).map_err(failed)?;
    copy_files(data, fixture)?;
    let wal = fixture.join(WAL);
    if wal.exists() {
        let bytes = fs::read(&wal).map_err(failed)?;
        record.wal_bytes = bytes.len() as u64;
        fs::write(&wal, &bytes[..without_zeros(&bytes)]).map_err(failed)?;
    }
    let text = serde_json::to_string_pretty(&record).map_err(|e| e.to_string())?;
    fs::write(fixture.join(RECORD), text + "\n").map_err(failed)
}
