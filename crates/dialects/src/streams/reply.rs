//! An answer to one request, as a whole.

use std::collections::VecDeque;

use salon_protocol::Code;
use serde_json::value::RawValue;

use crate::{BodyForm, DialectAction, Frame, StreamHead, StreamId};

/// An answer.
#[derive(Debug)]
pub(crate) enum StreamReply {
    Text(Box<str>),
    /// A refusal, which is counted.
    Refusal(Code, Box<str>),
    /// There is nothing to answer.
    Empty,
}

impl From<&RawValue> for StreamReply {
    fn from(message: &RawValue) -> Self {
        Self::Text(message.get().into())
    }
}

/// Answers a stream as a whole.
pub(crate) fn respond<Q>(
    actions: &mut VecDeque<DialectAction<Q>>,
    stream: StreamId,
    status: u16,
    headers: Vec<(&'static str, Box<str>)>,
    reply: StreamReply,
) {
    let form = if matches!(reply, StreamReply::Empty) { BodyForm::Empty } else { BodyForm::Json };
    actions.push_back(DialectAction::Begin(stream, StreamHead { status, form, headers }));
    actions.extend(reply_action(stream, reply));
    actions.push_back(DialectAction::Finish(stream));
}

pub(super) fn reply_action<Q>(stream: StreamId, reply: StreamReply) -> Option<DialectAction<Q>> {
    match reply {
        StreamReply::Text(text) => Some(DialectAction::Send(stream, Frame::Text(text))),
        StreamReply::Refusal(code, text) => Some(DialectAction::Refuse(stream, code, Frame::Text(text))),
        StreamReply::Empty => None,
    }
}
