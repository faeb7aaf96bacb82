//! Sending: frames on a channel, answers, and the ids of events.

use salon_protocol::EnvelopeId;

use super::buffer::BufferedFrame;
use super::reply::{StreamReply, reply_action, respond};
use super::{Channel, ChannelState, PostStyle, Streams};
use crate::{BodyForm, DialectAction, EventFrame, Frame, StreamHead, StreamId};

impl<Q> Streams<Q> {
    /// Sends a notification or a request. The event stream of a POST is opened for it. False when nobody will ever receive it, because the
    /// channel has ended.
    pub(crate) fn say(&mut self, channel: Channel, text: impl Into<Box<str>>) -> bool {
        self.emit(channel, text.into(), None)
    }

    /// Sends a request on the session's channel. [`Self::take_unread`] returns it where it is evicted unread.
    pub(crate) fn ask(&mut self, text: impl Into<Box<str>>, request: EnvelopeId) {
        self.emit(Channel::SESSION, text.into(), Some(request));
    }

    /// Sends one of a channel's answers; the last ends the channel. An only one with nothing before it is plain JSON with that status.
    // MCP 2025-11-25, "Sending Messages to the Server", 5: either one JSON object, or an event stream that ends after the answer.
    pub(crate) fn answer(&mut self, channel: Channel, status: u16, reply: impl Into<StreamReply>) {
        let reply = reply.into();
        self.slow.forget(channel);
        let only = self.channels.get(&channel).filter(|state| state.due == 1 && !state.has_events);
        if let (Some((Some(stream), style)), None) = (only.map(|state| (state.stream, state.style)), self.duplex) {
            self.remove(channel);
            return self.respond(stream, status, style, reply);
        }
        match (self.duplex, reply) {
            (Some(stream), reply) => self.send_reply(stream, reply),
            (None, StreamReply::Text(text)) => drop(self.emit(channel, text, None)),
            (None, StreamReply::Refusal(code, text)) => {
                self.actions.push_back(DialectAction::Refused(code));
                self.emit(channel, text, None);
            }
            (None, StreamReply::Empty) => {}
        }
        self.skip(channel);
    }

    /// Answers what came by a stream.
    pub(crate) fn answer_on(&mut self, stream: StreamId, status: u16, reply: StreamReply) {
        let channel = match self.duplex == Some(stream) {
            true => Some(Channel::SESSION),
            false => self.streams.get(&stream).copied(),
        };
        if let Some(channel) = channel {
            self.answer(channel, status, reply);
        }
    }

    /// One of a channel's requests gets no answer; the last ends the channel.
    pub(crate) fn skip(&mut self, channel: Channel) {
        if channel == Channel::SESSION {
            return;
        }
        let Some(state) = self.channels.get_mut(&channel) else { return };
        state.due -= 1;
        if state.due > 0 {
            return;
        }
        match self.remove(channel) {
            Some(ChannelState { stream: Some(stream), has_events: true, .. }) => self.finish(stream),
            Some(ChannelState { stream: Some(stream), style, .. }) => {
                self.respond(stream, 202, style, StreamReply::Empty)
            }
            _ => {}
        }
    }

    /// Opens the event stream of a POST, where none is.
    pub(super) fn open_events(&mut self, channel: Channel) {
        if let Some(state) = self.channels.get_mut(&channel)
            && let (Some(stream), false) = (state.stream, state.has_events)
        {
            state.has_events = true;
            let style = state.style;
            self.begin(stream, 200, BodyForm::Events, style);
        }
    }

    /// Sends a frame, keeps it for a peer that comes back, or has it wait.
    fn emit(&mut self, channel: Channel, text: Box<str>, request: Option<EnvelopeId>) -> bool {
        if let Some(stream) = self.duplex {
            self.send(stream, Frame::Text(text));
            return true;
        }
        self.open_events(channel);
        let listened = self.channels.get(&Channel::SESSION).is_some_and(|session| session.stream.is_some());
        if channel == Channel::POLLS || (channel == Channel::SESSION && !listened && self.polls.has_polled()) {
            self.polls.push(text);
            return true;
        }
        let Some(state) = self.channels.get_mut(&channel) else { return false };
        state.last += 1;
        let (stream, resumable) = (state.stream, state.style.resumable);
        let frame = BufferedFrame { channel, number: state.last, text, request };
        match stream {
            Some(stream) => {
                state.delivered = state.last;
                self.send_event(stream, resumable, frame);
                true
            }
            None if channel == Channel::SESSION => {
                let evicted = self.unread.push(frame).into_iter().filter_map(|frame| frame.request);
                self.evicted.extend(evicted);
                true
            }
            None => {
                if resumable {
                    self.replay.push(frame);
                }
                resumable
            }
        }
    }

    /// Sends a frame as an event, and keeps it where it can be received again.
    pub(super) fn send_event(&mut self, stream: StreamId, resumable: bool, frame: BufferedFrame) {
        let id = resumable.then(|| self.event_id(frame.channel, frame.number));
        self.send(stream, message_event(id, frame.text.clone()));
        if resumable {
            self.replay.push(frame);
        }
    }

    // MCP 2025-11-25, "Resumability and Redelivery": an id is unique among all streams of a session, and names one stream.
    pub(super) fn event_id(&self, channel: Channel, number: u64) -> Box<str> {
        match &self.options.tag {
            Some(tag) => format!("{tag}.{number}").into(),
            None => format!("{}-{number}", channel.0).into(),
        }
    }

    pub(super) fn read_event_id(&self, id: &str) -> Option<(Channel, u64)> {
        let (channel, number) = match &self.options.tag {
            Some(tag) => ("0", id.strip_prefix(&**tag)?.strip_prefix('.')?),
            None => id.split_once('-')?,
        };
        Some((Channel(channel.parse().ok()?), number.parse().ok()?))
    }

    pub(super) fn headers(&self, style: PostStyle) -> Vec<(&'static str, Box<str>)> {
        self.options.session_header.clone().filter(|_| style.session_header).into_iter().collect()
    }

    pub(super) fn begin(&mut self, stream: StreamId, status: u16, form: BodyForm, style: PostStyle) {
        let headers = self.headers(style);
        self.actions.push_back(DialectAction::Begin(stream, StreamHead { status, form, headers }));
    }

    /// Answers a stream as a whole.
    pub(super) fn respond(&mut self, stream: StreamId, status: u16, style: PostStyle, reply: StreamReply) {
        self.streams.remove(&stream);
        let headers = self.headers(style);
        respond(&mut self.actions, stream, status, headers, reply);
    }

    pub(super) fn send(&mut self, stream: StreamId, frame: Frame) {
        self.actions.push_back(DialectAction::Send(stream, frame));
    }

    pub(super) fn send_reply(&mut self, stream: StreamId, reply: StreamReply) {
        self.actions.extend(reply_action(stream, reply));
    }

    pub(super) fn finish(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
        self.actions.push_back(DialectAction::Finish(stream));
    }
}

pub(super) fn message_event(id: Option<Box<str>>, data: Box<str>) -> Frame {
    Frame::Event(Box::new(EventFrame { name: Some("message"), id, retry: None, data }))
}
