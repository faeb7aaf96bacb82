//! The words of a room: topics, participants, envelopes, positions, refusals.
//!
//! Everything here is a value. Deliberately absent: sockets, clocks, randomness and async; a caller that needs a time or a fresh id
//! passes it in.
#![warn(missing_docs)]

mod canonical;
mod close;
mod envelope;
mod id;
mod log_level;
mod members;
mod message;
mod participant;
mod percent;
mod position;
mod rate;
mod redaction;
mod refusal;
pub mod rpc;
mod scan;
mod stamp;
pub mod system;
mod tally;
mod timestamp;

pub use canonical::{CanonicalJson, NoCanonicalForm, comparable_json};
pub use close::CloseReason;
pub use envelope::{Compose, Draft, Entry, Envelope, Kind, Limits, PROTOCOL, Sessions, check_json};
pub use id::{EnvelopeId, InvalidId, ParticipantId, SessionId, TopicName, TopicPattern};
pub use log_level::LogLevel;
pub use members::Members;
pub use message::{
    CHAT_EDIT_METHOD, CHAT_METHOD, CHAT_RETRACT_METHOD, Chat, ChatFormat, ChatRevision, Message, RpcId,
    SESSION_ENDED_METHOD,
};
pub use participant::{
    McpVersion, Participant, ParticipantKind, Presence, PresenceEvent, PresenceState, PresenceStatus,
};
pub use percent::{percent_decoded, percent_encoded};
pub use position::Position;
pub use rate::{RateLimit, TokenBucket};
pub use redaction::{REDACTED_TEXT, Redaction};
pub use refusal::{Code, FailureCause, Refusal};
pub use rpc::RpcError;
pub use stamp::{Stamp, StampVia};
pub use tally::Tally;
pub use timestamp::Timestamp;

/// The examples of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
