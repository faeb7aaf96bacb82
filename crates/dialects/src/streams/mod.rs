//! The streams of one session: which frames go out on which stream, and which of them a peer that reconnects receives again.
//!
//! A channel is a logical stream: the answers to one POST, the frames that belong to no request, or those that polls ask for. A channel
//! outlives the connection that carries it where it is resumable: its events then have ids, the newest of them are kept, and a later GET
//! continues after the last one that it names. Frames of the session's channel wait while nobody listens. The rules are those of MCP
//! 2025-11-25, Transports, "Streamable HTTP"; every door with streams over HTTP uses them.
//!
//! Invariants: a stream begins once, ends once and receives nothing outside of that. The frames of a channel are received in order, each
//! once, over any number of connections that name the last event they saw. Whatever waits and whatever is kept is bounded in number and
//! bytes, and [`Streams::missing`] and [`Streams::take_unread`] report what was evicted. Channels are as many as their owner has requests
//! without an answer, so it must answer or skip every one. Deliberately absent: what frames say, and sockets.

mod buffer;
mod polls;
mod reply;
mod sending;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use salon_protocol::EnvelopeId;

use crate::{BodyForm, DialectAction, EventFrame, Frame, StreamId};
use buffer::FrameBuffer;
use polls::Polls;
use salon_mcp::timers::Timers;
use sending::message_event;

pub(crate) use buffer::Bound;
pub(crate) use reply::{StreamReply, respond};

/// How long a POST waits for its answer before its event stream is opened, so that no proxy on the way takes it for dead.
pub(crate) const STREAM_OPEN_DELAY: Duration = Duration::from_secs(5);

/// When a peer reconnects after its connection was lost.
// MCP 2025-11-25, "Sending Messages to the Server": a server that closes a connection before the answer sends a `retry` field (SEP-1699).
const RETRY: Duration = Duration::from_secs(1);

/// A logical stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Channel(u64);

impl Channel {
    /// The frames that belong to no request.
    pub(crate) const SESSION: Self = Self(0);
    /// The frames that polls ask for.
    pub(crate) const POLLS: Self = Self(u64::MAX);
}

/// What does not change while a session lasts.
#[derive(Debug)]
pub(crate) struct StreamOptions {
    /// The header that names the session, for the answers that have it.
    pub(crate) session_header: Option<(&'static str, Box<str>)>,
    /// Begins the ids of events, and tells them from those of another session. Only the session's channel is then resumable.
    pub(crate) tag: Option<Box<str>>,
    /// What waits for a listener: the newest.
    pub(crate) unread: Bound,
    /// What can be received again, of all channels together: the newest.
    pub(crate) replay: Bound,
    /// What waits for polls.
    pub(crate) polled: Bound,
}

/// How a POST is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PostStyle {
    /// Events have ids and are kept.
    pub(crate) resumable: bool,
    /// The event stream begins at once, with an event that has only an id (SEP-1699).
    pub(crate) prime: bool,
    /// The answer names the session.
    pub(crate) session_header: bool,
}

/// The streams of one session. `Q` is what its dialect asks of the gateway.
#[derive(Debug)]
pub(crate) struct Streams<Q> {
    options: StreamOptions,
    /// A stream that carries every channel.
    duplex: Option<StreamId>,
    /// The session's channel, and the POSTs that have answers due.
    channels: HashMap<Channel, ChannelState>,
    /// Which channel an open stream carries.
    streams: HashMap<StreamId, Channel>,
    /// The channel of the last POST.
    last_channel: u64,
    /// Frames of the session's channel that nobody was there to receive.
    unread: FrameBuffer,
    replay: FrameBuffer,
    polls: Polls,
    /// Requests that were evicted unread.
    evicted: Vec<EnvelopeId>,
    /// POSTs whose event stream is opened when they are due.
    slow: Timers<Channel>,
    /// When the peer was last there.
    seen: Instant,
    actions: VecDeque<DialectAction<Q>>,
}

#[derive(Debug, Default)]
struct ChannelState {
    style: PostStyle,
    stream: Option<StreamId>,
    /// Whether it has become a stream of events.
    has_events: bool,
    /// Answers that are due.
    due: usize,
    /// The number of the last frame.
    last: u64,
    /// The number of the last frame that a stream was sent.
    delivered: u64,
}

impl<Q> Streams<Q> {
    pub(crate) fn new(options: StreamOptions, now: Instant) -> Self {
        Self {
            duplex: None,
            channels: HashMap::from([(Channel::SESSION, ChannelState::default())]),
            streams: HashMap::new(),
            last_channel: 0,
            unread: FrameBuffer::new(options.unread),
            replay: FrameBuffer::new(options.replay),
            polls: Polls::new(options.polled),
            evicted: Vec::new(),
            slow: Timers::default(),
            seen: now,
            actions: VecDeque::new(),
            options,
        }
    }

    /// From now on this stream carries every channel.
    pub(crate) fn open_duplex(&mut self, stream: StreamId) {
        self.duplex = Some(stream);
    }

    /// A POST with so many requests in it. One with none is answered at once.
    pub(crate) fn post(&mut self, stream: StreamId, answers: usize, style: PostStyle) -> Channel {
        self.last_channel += 1;
        let channel = Channel(self.last_channel);
        // MCP 2025-11-25, "Sending Messages to the Server", 4: notifications and responses are answered 202 without a body.
        if answers == 0 {
            self.respond(stream, 202, style, StreamReply::Empty);
            return channel;
        }
        self.channels.insert(channel, ChannelState { style, stream: Some(stream), due: answers, ..Default::default() });
        self.streams.insert(stream, channel);
        if style.prime {
            self.open_events(channel);
            let id = style.resumable.then(|| self.event_id(channel, 0));
            let priming = EventFrame { name: None, id, retry: Some(RETRY), data: Box::default() };
            self.send(stream, Frame::Event(Box::new(priming)));
        }
        channel
    }

    /// A POST that is accepted, and whose requests are answered on the session's channel (MCP 2024-11-05, HTTP with SSE).
    pub(crate) fn accept(&mut self, stream: StreamId) {
        self.respond(stream, 202, PostStyle::default(), StreamReply::Empty);
    }

    /// Answers a request that has not become a channel.
    pub(crate) fn refuse(&mut self, stream: StreamId, status: u16, reply: impl Into<StreamReply>) {
        match self.duplex == Some(stream) {
            true => self.send_reply(stream, reply.into()),
            false => self.respond(stream, status, PostStyle::default(), reply.into()),
        }
    }

    /// A GET: continues the channel of the event that it names, or the session's channel where that event is not known. `first` is sent
    /// before everything else. Returns the channel.
    // MCP 2025-11-25, "Resumability and Redelivery": messages of another stream are not replayed on this one.
    pub(crate) fn listen(
        &mut self,
        stream: StreamId,
        after: Option<&str>,
        first: Option<EventFrame>,
        resumable: bool,
    ) -> Channel {
        self.begin(stream, 200, BodyForm::Events, PostStyle::default());
        if let Some(first) = first {
            self.send(stream, Frame::Event(Box::new(first)));
        }
        let (channel, number) = self.position(after);
        let again = self.replay.after(channel, number);
        let again: Vec<_> = again.map(|frame| (frame.number, frame.text.clone())).collect();
        for (number, text) in again {
            let id = Some(self.event_id(channel, number));
            self.send(stream, message_event(id, text));
        }
        if channel == Channel::SESSION {
            self.carry_session(stream, resumable);
        } else if self.channels.contains_key(&channel) {
            self.attach(stream, channel);
        } else {
            self.finish(stream);
        }
        channel
    }

    /// Makes a stream of events that has begun already the session's.
    pub(crate) fn adopt(&mut self, stream: StreamId) {
        self.carry_session(stream, true);
    }

    /// Makes a stream the session's, and sends what waited for it.
    fn carry_session(&mut self, stream: StreamId, resumable: bool) {
        self.attach(stream, Channel::SESSION);
        if let Some(state) = self.channels.get_mut(&Channel::SESSION) {
            state.style.resumable = resumable;
            state.delivered = state.last;
        }
        while let Some(frame) = self.unread.pop() {
            self.send_event(stream, resumable, frame);
        }
    }

    /// A poll, which waits until then. Frames that nobody listened to are for polls from now on.
    pub(crate) fn poll(&mut self, stream: StreamId, until: Instant, names_session: bool) {
        let header = self.options.session_header.clone().filter(|_| names_session);
        self.polls.open(stream, until, header);
        while let Some(frame) = self.unread.pop() {
            self.polls.push(frame.text);
        }
        if let Some(state) = self.channels.get_mut(&Channel::SESSION) {
            state.delivered = state.last;
        }
    }

    /// How many frames after that event can never be received any more.
    pub(crate) fn missing(&self, after: Option<&str>) -> u64 {
        let (channel, number) = self.position(after);
        let Some(state) = self.channels.get(&channel) else { return 0 };
        let kept = self.replay.after(channel, number).chain(self.unread.after(channel, number)).count();
        state.last.saturating_sub(number).saturating_sub(kept as u64)
    }

    /// Requests that were evicted before anybody received them.
    pub(crate) fn take_unread(&mut self) -> Vec<EnvelopeId> {
        std::mem::take(&mut self.evicted)
    }

    /// The peer hung up. Returns the channel of a POST that has answers due; it continues only where it can be resumed.
    // MCP 2025-11-25, "Sending Messages to the Server", 6: a disconnection does not cancel a request.
    pub(crate) fn closed(&mut self, stream: StreamId) -> Option<Channel> {
        if self.duplex == Some(stream) {
            self.duplex = None;
        }
        if self.polls.close(stream) {
            return None;
        }
        let channel = self.streams.remove(&stream)?;
        let state = self.channels.get_mut(&channel)?;
        state.stream = None;
        // A peer that has no event's id cannot come back for the rest.
        let is_lost = !state.style.resumable || !state.has_events;
        if channel == Channel::SESSION {
            return None;
        }
        if is_lost {
            self.remove(channel);
        }
        Some(channel)
    }

    /// Its answer does not name the session after all.
    pub(crate) fn unname(&mut self, channel: Channel) {
        if let Some(state) = self.channels.get_mut(&channel) {
            state.style.session_header = false;
        }
    }

    /// Opens the event stream of a POST at that time, unless it has its answer before or `None` takes this back.
    pub(crate) fn open_at(&mut self, channel: Channel, at: Option<Instant>) {
        match at {
            Some(at) if channel != Channel::SESSION && self.channels.contains_key(&channel) => {
                self.slow.set(channel, at);
            }
            _ => self.slow.forget(channel),
        }
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.slow.next().into_iter().chain(self.polls.deadline()).min()
    }

    /// Opens the streams of answers that take long.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(channel) = self.slow.take(now) {
            self.open_events(channel);
        }
    }

    /// Answers polls. Called once everything that is to be in one answer has been said.
    pub(crate) fn answer_polls(&mut self, now: Instant) {
        self.polls.answer(now, &mut self.actions);
    }

    /// Whether more has waited for polls since the last call than the bound allows. The peer has missed something then.
    pub(crate) fn take_overflow(&mut self) -> bool {
        self.polls.take_overflow()
    }

    /// Whether any stream is open.
    pub(crate) fn is_attended(&self) -> bool {
        self.duplex.is_some() || !self.streams.is_empty() || self.polls.is_attended()
    }

    /// The peer did something.
    pub(crate) fn touch(&mut self, now: Instant) {
        self.seen = now;
    }

    /// Time has passed: a peer with an open stream is there.
    pub(crate) fn pass_time(&mut self, now: Instant) {
        if self.is_attended() {
            self.seen = now;
        }
    }

    /// When the session has been idle for so long. It is not idle while a stream is open, or `is_busy`.
    pub(crate) fn idle_at(&self, limit: Duration, is_busy: bool, now: Instant) -> Instant {
        if is_busy || self.is_attended() { now + limit } else { self.seen + limit }
    }

    /// The streams of POSTs without an answer, in order.
    pub(crate) fn unanswered(&self) -> Vec<StreamId> {
        let posts = self.channels.iter().filter(|(channel, state)| **channel != Channel::SESSION && !state.has_events);
        let mut streams: Vec<_> = posts.filter_map(|(_, state)| state.stream).collect();
        streams.sort_unstable();
        streams
    }

    /// Ends every open stream, and forgets what waits and what is kept.
    pub(crate) fn close_all(&mut self) {
        self.polls.answer_all(&mut self.actions);
        let mut open: Vec<_> = self.streams.iter().map(|(stream, channel)| (*stream, *channel)).collect();
        open.sort_unstable();
        for (stream, channel) in open {
            match self.channels.remove(&channel) {
                Some(ChannelState { has_events: false, style, .. }) => {
                    self.respond(stream, 503, style, StreamReply::Empty)
                }
                _ => self.finish(stream),
            }
        }
        self.channels = HashMap::from([(Channel::SESSION, ChannelState::default())]);
        self.slow = Timers::default();
        self.unread.clear();
        self.replay.clear();
    }

    pub(crate) fn poll_action(&mut self) -> Option<DialectAction<Q>> {
        self.actions.pop_front()
    }

    /// The channel that an event belongs to and its number. What is not known is the last that was delivered on the session's channel.
    fn position(&self, after: Option<&str>) -> (Channel, u64) {
        let delivered = self.channels.get(&Channel::SESSION).map_or(0, |state| state.delivered);
        match after.and_then(|id| self.read_event_id(id)) {
            // A client that names an event that was never sent has missed what waits.
            Some((Channel::SESSION, number)) => (Channel::SESSION, number.min(delivered)),
            Some((channel, number)) if self.is_resumable(channel) => (channel, number),
            _ => (Channel::SESSION, delivered),
        }
    }

    /// Whether a POST can be continued: its event stream has begun, or some of it is kept.
    fn is_resumable(&self, channel: Channel) -> bool {
        self.channels.get(&channel).is_some_and(|state| state.has_events && state.style.resumable)
            || self.replay.after(channel, 0).next().is_some()
    }

    /// Makes a stream carry a channel. The stream that did is ended: its peer has come back.
    // MCP 2025-11-25, "Multiple Connections": a message is sent on only one stream.
    fn attach(&mut self, stream: StreamId, channel: Channel) {
        let Some(state) = self.channels.get_mut(&channel) else { return };
        state.has_events = true;
        if let Some(old) = state.stream.replace(stream) {
            self.finish(old);
        }
        self.streams.insert(stream, channel);
    }

    /// Forgets a POST's channel.
    fn remove(&mut self, channel: Channel) -> Option<ChannelState> {
        self.slow.forget(channel);
        self.channels.remove(&channel)
    }
}
