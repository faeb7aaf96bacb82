//! An answer to one request, as a whole.

use std::collections::VecDeque;

use salon_protocol::Code;
use serde_json::value::RawValue;

use crate::{Action, Form, Frame, Head, StreamId};

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
    actions: &mut VecDeque<Action<Q>>,
    stream: StreamId,
    status: u16,
    headers: Vec<(&'static str, Box<str>)>,
    reply: StreamReply,
) {
    let form = if matches!(reply, StreamReply::Empty) { Form::Empty } else { Form::Json };
    actions.push_back(Action::Begin(stream, Head { status, form, headers }));
    actions.extend(reply_action(stream, reply));
    actions.push_back(Action::Finish(stream));
}

pub(super) fn reply_action<Q>(stream: StreamId, reply: StreamReply) -> Option<Action<Q>> {
    match reply {
        StreamReply::Text(text) => Some(Action::Send(stream, Frame::Text(text))),
        StreamReply::Refusal(code, text) => Some(Action::Refuse(stream, code, Frame::Text(text))),
        StreamReply::Empty => None,
    }
}
