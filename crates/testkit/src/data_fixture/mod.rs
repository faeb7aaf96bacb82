//! Data directories that released versions wrote, kept in `tests/upgrades`: how one is made, and what every later version must do with it.
//!
//! [`write`] drives a real `salon serve` and keeps what it leaves behind, with a record of what it said while it ran. [`check`] opens a
//! copy of that with the program under test and compares. `tests/upgrades/README.md` tells the rest.

mod check;
mod client;
mod token;
mod write;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Failure;

pub use check::check;
pub use write::write;

/// What stands beside the files of a data directory.
const RECORD: &str = "fixture.json";
const DATABASE: &str = "log.db";
const WAL: &str = "log.db-wal";
const KEY: &str = "auth.key";
const SIGN_OUTS: &str = "signed-out.jsonl";
const AUDIT: &str = "audit.log";

/// The key of every fixture. It is public, and signs nothing that matters.
const TEST_KEY: &[u8; 32] = b"test key of a fixture, no secret";

/// How the gateway ended that wrote a fixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FixtureEnding {
    /// By SIGTERM: everybody has left, and the log is in one file.
    Stopped,
    /// By SIGKILL: everybody is still there, and the newest entries are in the write-ahead log.
    Killed,
}

impl FixtureEnding {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Stopped, Self::Killed];

    fn word(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Killed => "killed",
        }
    }
}

/// What a gateway said while it wrote a fixture.
#[derive(Debug, Serialize, Deserialize)]
struct FixtureRecord {
    /// The version of the program.
    salon: String,
    ending: FixtureEnding,
    /// How long the write-ahead log was. It is kept without the zeros at its end.
    wal_bytes: u64,
    /// A token that `salon token` made for alice.
    token: String,
    /// The sign-in that was ended.
    signed_out: String,
    /// Every topic's envelopes, oldest first, as they were delivered.
    history: BTreeMap<String, Vec<String>>,
    /// What was published over REST last, with the position it was given.
    published: PublishedEnvelope,
    /// Questions about contexts, and the answers to them.
    contexts: Vec<ContextAnswer>,
    /// A call of alice's that bob has not answered.
    open_call: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PublishedEnvelope {
    topic: String,
    envelope: String,
    position: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct ContextAnswer {
    tool: String,
    arguments: Value,
    answer: Value,
}

impl FixtureRecord {
    fn read(fixture: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(fixture.join(RECORD)).map_err(|e| format!("{}: {e}", fixture.display()))?;
        serde_json::from_str(&text).map_err(|e| format!("{}/{RECORD}: {e}", fixture.display()))
    }
}

/// Copies files between a data directory and a fixture, as far as they are there, for their owner alone: git keeps no such modes.
fn copy_files(from: &Path, to: &Path) -> Result<(), Failure> {
    for name in [DATABASE, WAL, KEY, SIGN_OUTS, AUDIT] {
        let (source, target) = (from.join(name), to.join(name));
        if source.exists() {
            let copied = fs::copy(&source, &target);
            let closed = copied.and_then(|_| fs::set_permissions(&target, Permissions::from_mode(0o600)));
            closed.map_err(|e| format!("{} is not copied: {e}", source.display()))?;
        }
    }
    Ok(())
}

/// The length of what stands before the zeros at the end of a file.
fn without_zeros(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}
