//! The hash chain: how a record names the one before it, and how that is read again.
//!
//! A record's hash is the SHA-256 of its line without the line's end. `prev` is the last field of every record and holds the hash of the
//! record before it.

use salon_protocol::Timestamp;
use serde::{Deserialize, Serialize};

use crate::auth::hex;

/// The `event` of a record that starts a chain: its `prev` is the SHA-256 of everything before it in its file, be that nothing or lines
/// that a version without a chain wrote.
pub(super) const CHAIN_START: &str = "chain_start";

/// The `event` of a record that follows a line that was cut off when the process ended: its `prev` is the hash of what there is of the
/// line, and its `after` that of the record before the line.
pub(super) const CUT_OFF: &str = "cut_off";

/// A record that the trail writes of itself.
#[derive(Serialize)]
pub(super) struct Marker<'a> {
    pub(super) ts: Timestamp,
    pub(super) event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<&'a str>,
}

/// What a line says of the chain. A line that is not JSON says nothing.
#[derive(Default, Deserialize)]
pub(super) struct ChainLink {
    #[serde(default)]
    pub(super) ts: Option<String>,
    #[serde(default)]
    pub(super) event: Option<String>,
    #[serde(default)]
    pub(super) prev: Option<String>,
    #[serde(default)]
    pub(super) after: Option<String>,
}

impl ChainLink {
    pub(super) fn read(line: &[u8]) -> Self {
        serde_json::from_slice(line).unwrap_or_default()
    }
}

/// The SHA-256 of some bytes, in hexadecimal.
pub(super) fn hash(bytes: &[u8]) -> String {
    hex(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref())
}

/// A record as it stands in the file, without the line's end.
pub(super) fn line(record: &impl Serialize, prev: &str) -> Vec<u8> {
    let mut line = serde_json::to_vec(record).expect("an audit record has nothing that cannot be JSON");
    line.pop();
    line.extend_from_slice(b",\"prev\":\"");
    line.extend_from_slice(prev.as_bytes());
    line.extend_from_slice(b"\"}");
    line
}
