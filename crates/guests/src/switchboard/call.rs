//! Requests to the server that have no answer yet, each under a number of ours.

use std::collections::BTreeMap;

use salon_mcp::rounds::InputRounds;
use salon_protocol::LogLevel;
use serde_json::value::RawValue;

use super::own_requests::OwnRequest;
use super::{LaneId, ReplyAddress};

/// The open calls by their numbers. A call that is made again gets a new number.
pub(super) type LaneCalls = BTreeMap<u64, LaneCall>;

#[derive(Debug)]
pub(super) struct LaneCall {
    pub(super) lane: LaneId,
    pub(super) method: Box<str>,
    /// As they go to the server, but for the progress token. Kept only while they may have to be sent again.
    pub(super) params: Option<Box<RawValue>>,
    pub(super) origin: Origin,
    pub(super) state: LaneCallStage,
}

#[derive(Debug)]
pub(super) enum Origin {
    Caller(Box<CallerRequest>),
    OwnRequest(OwnRequest),
}

/// A call of a caller's.
#[derive(Debug)]
pub(super) struct CallerRequest {
    pub(super) reply: ReplyAddress,
    /// The caller's own progress token, as written.
    pub(super) token: Option<Box<RawValue>>,
    /// Whether the caller speaks the modern era.
    pub(super) modern: bool,
    /// The log lines that were asked for with it.
    pub(super) level: Option<LogLevel>,
    pub(super) effect: CallEffect,
    /// What the server has asked back.
    pub(super) rounds: InputRounds,
    /// Whether it was made again after the server found its headers wanting.
    pub(super) corrected: bool,
}

impl CallerRequest {
    pub(super) fn new(reply: ReplyAddress) -> Self {
        Self {
            reply,
            token: None,
            modern: false,
            level: None,
            effect: CallEffect::None,
            rounds: InputRounds::default(),
            corrected: false,
        }
    }
}

/// What a call's success changes here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallEffect {
    None,
    Subscribe(String),
    /// A level was asked for; this was the caller's before.
    Level(Option<LogLevel>),
    /// The call itself is a subscription and lasts.
    Listen,
    /// The server's introduction, which tells no more than is exposed.
    Discover,
}

#[derive(Debug)]
pub(super) enum LaneCallStage {
    /// Its lane is not open yet.
    Waiting,
    /// The server has it.
    Sent,
    /// The server wants answers of the caller first.
    Asking,
    /// The server wants it again a little later.
    Resting,
    /// The list of tools is read again, because the headers made from it did not fit.
    Relisting,
}

impl LaneCall {
    pub(super) fn asked(&self) -> Option<&CallerRequest> {
        match &self.origin {
            Origin::Caller(asked) => Some(asked),
            Origin::OwnRequest(_) => None,
        }
    }

    pub(super) fn asked_mut(&mut self) -> Option<&mut CallerRequest> {
        match &mut self.origin {
            Origin::Caller(asked) => Some(asked),
            Origin::OwnRequest(_) => None,
        }
    }
}
