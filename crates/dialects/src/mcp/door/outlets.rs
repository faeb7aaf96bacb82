//! What goes out on which stream, and what can be had again.
//!
//! A channel is a logical stream: what one POST is answered with, or what belongs to no request. It outlives the connection that
//! carries it where its revision has resumption: then its events have ids, the newest of them are kept, and a later GET goes on
//! where the lost connection broke off. Bounded: what waits and what is kept. Channels are as many as their owner has requests
//! without an answer, so it must answer or skip every one. Deliberately absent: what messages say, and time.

mod queue;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::value::RawValue;

use queue::{Bound, Queue, Said};

use super::{Action, Listen};
use crate::{EventFrame, Form, Frame, Head, StreamId};

/// How much waits for a listener: the newest of it.
const WAITING: Bound = Bound { count: 256, bytes: 1 << 20 };
/// How much can be had again, of all channels together.
const KEPT: Bound = Bound { count: 512, bytes: 4 << 20 };
/// When to come back after a connection was lost.
const RETRY: Duration = Duration::from_secs(1);

/// One logical stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::mcp) struct Channel(u64);

impl Channel {
    /// What belongs to no request.
    pub(in crate::mcp) const SESSION: Self = Self(0);
}

/// How a POST is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::mcp) struct Style {
    /// Events have ids and are kept.
    pub(in crate::mcp) resumable: bool,
    /// The event stream begins at once, with an event that has nothing but an id to come back with.
    pub(in crate::mcp) prime: bool,
    /// The answer names the session.
    pub(in crate::mcp) session_header: bool,
}

/// The streams of one client.
#[derive(Debug)]
pub(in crate::mcp) struct Outlets {
    session: Option<Box<str>>,
    duplex: Option<StreamId>,
    /// What belongs to no request.
    common: Line,
    /// POSTs that still owe an answer.
    lines: HashMap<Channel, Line>,
    /// Which channel an open stream carries.
    streams: HashMap<StreamId, Channel>,
    /// Channels so far, the common one included.
    channels: u64,
    /// Said where nobody listened.
    waiting: Queue,
    kept: Queue,
    actions: VecDeque<Action>,
}

/// A channel that is not finished.
#[derive(Debug, Default)]
struct Line {
    style: Style,
    stream: Option<StreamId>,
    /// Whether its stream is one of events already.
    begun: bool,
    /// Answers that are still due.
    due: usize,
    /// Events so far.
    events: u64,
}

impl Outlets {
    /// No streams yet. `session` is what an answer that names the session names.
    pub(in crate::mcp) fn new(session: Option<Box<str>>) -> Self {
        Self {
            session,
            duplex: None,
            common: Line::default(),
            lines: HashMap::new(),
            streams: HashMap::new(),
            channels: 1,
            waiting: Queue::new(WAITING),
            kept: Queue::new(KEPT),
            actions: VecDeque::new(),
        }
    }

    /// From now on this stream is every channel.
    pub(in crate::mcp) fn duplex(&mut self, stream: StreamId) {
        self.duplex = Some(stream);
    }

    /// A POST with so many requests in it. With none it is answered at once.
    pub(in crate::mcp) fn post(&mut self, stream: StreamId, answers: usize, style: Style) -> Channel {
        let channel = Channel(self.channels);
        self.channels += 1;
        let mut line = Line { style, stream: Some(stream), due: answers, ..Line::default() };
        if answers == 0 {
            self.begin(stream, 202, Form::Empty, style);
            self.finish(stream);
            return channel;
        }
        if style.prime {
            self.begin(stream, 200, Form::Events, style);
            line.begun = true;
            let id = style.resumable.then(|| event_id(channel, 0));
            let priming = EventFrame { name: None, id, retry: Some(RETRY), data: Box::default() };
            self.send(stream, Frame::Event(Box::new(priming)));
        }
        self.lines.insert(channel, line);
        self.streams.insert(stream, channel);
        channel
    }

    /// A POST whose requests are answered on [`Channel::SESSION`].
    pub(in crate::mcp) fn apart(&mut self, stream: StreamId) {
        self.begin(stream, 202, Form::Empty, Style::default());
        self.finish(stream);
    }

    /// A GET: goes on with the channel whose event it names, and is the session's stream where it names none that is known. Whether it is
    /// the session's stream.
    pub(in crate::mcp) fn listen(&mut self, stream: StreamId, listen: &Listen, resumable: bool) -> bool {
        self.begin(stream, 200, Form::Events, Style::default());
        if let Some(endpoint) = &listen.endpoint {
            let endpoint = EventFrame { name: Some("endpoint"), id: None, retry: None, data: endpoint.clone() };
            self.send(stream, Frame::Event(Box::new(endpoint)));
        }
        let mut channel = Channel::SESSION;
        if let Some(id) = &listen.after {
            // What was on another stream is not said on this one, so an event that is not known brings nothing back.
            if let Some((named, number)) = read_event_id(id).filter(|(channel, _)| self.knows(*channel)) {
                self.replay(stream, named, number);
                channel = named;
            }
        }
        if channel == Channel::SESSION {
            self.common.style.resumable = resumable;
            self.attach(stream, channel);
            while let Some(said) = self.waiting.pop() {
                self.emit(channel, said.data);
            }
        } else if self.lines.contains_key(&channel) {
            self.attach(stream, channel);
        } else {
            self.finish(stream);
        }
        channel == Channel::SESSION
    }

    /// Makes a stream of events that has begun already the session's.
    pub(in crate::mcp) fn adopt(&mut self, stream: StreamId) {
        self.common.style.resumable = true;
        self.attach(stream, Channel::SESSION);
    }

    /// Whether somebody listens to what belongs to no request.
    pub(in crate::mcp) fn is_heard(&self) -> bool {
        self.duplex.is_some() || self.common.stream.is_some()
    }

    /// The peer hung up. Gives the channel of a POST that still owes an answer; it goes on only if it can be resumed.
    pub(in crate::mcp) fn closed(&mut self, stream: StreamId) -> Option<Channel> {
        if self.duplex == Some(stream) {
            self.duplex = None;
        }
        let channel = self.streams.remove(&stream)?;
        let line = self.line(channel)?;
        line.stream = None;
        // A peer that has no event's id cannot come back for the rest.
        let lost = !line.style.resumable || !line.begun;
        if channel == Channel::SESSION {
            return None;
        }
        if lost {
            self.lines.remove(&channel);
        }
        Some(channel)
    }

    /// Says a notification or a request. Opens the event stream where nothing is open yet. False when nobody will ever hear it,
    /// because the channel is over.
    pub(in crate::mcp) fn say(&mut self, channel: Channel, message: &RawValue) -> bool {
        if let Some(stream) = self.duplex {
            self.send(stream, Frame::Text(message.get().into()));
            return true;
        }
        if channel == Channel::SESSION && self.common.stream.is_none() {
            self.waiting.push(Said { channel, number: 0, data: message.get().into() });
            return true;
        }
        self.quicken(channel);
        self.emit(channel, message.get().into())
    }

    /// Says one of a channel's answers; the last finishes it. An only one with nothing said before is plain JSON with that status.
    pub(in crate::mcp) fn answer(&mut self, channel: Channel, status: u16, message: &RawValue) {
        let only = match self.lines.get(&channel) {
            Some(line) if line.due == 1 && !line.begun => line.stream,
            _ => None,
        };
        if let (Some(stream), None) = (only, self.duplex) {
            let style = self.lines.remove(&channel).map(|line| line.style).unwrap_or_default();
            self.begin(stream, status, Form::Json, style);
            self.send(stream, Frame::Text(message.get().into()));
            self.finish(stream);
            return;
        }
        self.say(channel, message);
        self.settle(channel);
    }

    /// One of a channel's requests will have no answer; the last finishes it.
    pub(in crate::mcp) fn skip(&mut self, channel: Channel) {
        self.settle(channel);
    }

    /// Answers a POST by an error before it became a channel.
    pub(in crate::mcp) fn refuse(&mut self, stream: StreamId, status: u16, message: &RawValue) {
        let text = Frame::Text(message.get().into());
        if self.duplex == Some(stream) {
            return self.send(stream, text);
        }
        self.begin(stream, status, Form::Json, Style::default());
        self.send(stream, text);
        self.finish(stream);
    }

    /// Its answer does not name the session after all.
    pub(in crate::mcp) fn unname(&mut self, channel: Channel) {
        if let Some(line) = self.lines.get_mut(&channel) {
            line.style.session_header = false;
        }
    }

    /// It takes long: opens the event stream now, where none is.
    pub(in crate::mcp) fn quicken(&mut self, channel: Channel) {
        if let Some(line) = self.lines.get_mut(&channel)
            && let (Some(stream), false) = (line.stream, line.begun)
        {
            line.begun = true;
            let style = line.style;
            self.begin(stream, 200, Form::Events, style);
        }
    }

    /// Whether any stream is open.
    pub(in crate::mcp) fn attended(&self) -> bool {
        self.duplex.is_some() || !self.streams.is_empty()
    }

    /// The next thing to do.
    pub(in crate::mcp) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Finishes whatever is open, and forgets what waits and what is kept.
    pub(in crate::mcp) fn close_all(&mut self) {
        let mut open: Vec<_> = self.streams.iter().map(|(stream, channel)| (*stream, *channel)).collect();
        open.sort_unstable_by_key(|(stream, _)| *stream);
        for (stream, channel) in open {
            if let Some(line) = self.lines.get(&channel)
                && !line.begun
            {
                let style = line.style;
                self.begin(stream, 503, Form::Empty, style);
            }
            self.finish(stream);
        }
        self.lines.clear();
        self.common = Line::default();
        self.waiting = Queue::new(WAITING);
        self.kept = Queue::new(KEPT);
    }

    fn line(&mut self, channel: Channel) -> Option<&mut Line> {
        if channel == Channel::SESSION { Some(&mut self.common) } else { self.lines.get_mut(&channel) }
    }

    /// Whether a channel can be gone on with: something of it may still come, or is kept.
    fn knows(&self, channel: Channel) -> bool {
        channel == Channel::SESSION
            || self.lines.get(&channel).is_some_and(|line| line.begun && line.style.resumable)
            || self.kept.iter().any(|said| said.channel == channel)
    }

    /// Says again what came after an event.
    fn replay(&mut self, stream: StreamId, channel: Channel, after: u64) {
        let again = self.kept.iter().filter(|said| said.channel == channel && said.number > after);
        let again = again.map(|said| message_event(Some((channel, said.number)), said.data.clone()));
        self.actions.extend(again.map(|frame| Action::Send(stream, frame)));
    }

    /// Makes a stream the one that carries a channel. The one that did is finished: its peer has plainly come back.
    fn attach(&mut self, stream: StreamId, channel: Channel) {
        let Some(line) = self.line(channel) else { return };
        line.begun = true;
        if let Some(old) = line.stream.replace(stream) {
            self.finish(old);
        }
        self.streams.insert(stream, channel);
    }

    /// Says an event of a channel, or keeps it for whoever comes back.
    fn emit(&mut self, channel: Channel, data: Box<str>) -> bool {
        let Some(line) = self.line(channel) else { return false };
        line.events += 1;
        let (number, stream, resumable) = (line.events, line.stream, line.style.resumable);
        if let Some(stream) = stream {
            self.send(stream, message_event(resumable.then_some((channel, number)), data.clone()));
        }
        if resumable {
            self.kept.push(Said { channel, number, data });
        }
        resumable || stream.is_some()
    }

    /// One answer less is due.
    fn settle(&mut self, channel: Channel) {
        let Some(line) = self.lines.get_mut(&channel) else { return };
        line.due -= 1;
        if line.due > 0 {
            return;
        }
        let Some(Line { stream: Some(stream), begun, style, .. }) = self.lines.remove(&channel) else { return };
        if !begun {
            self.begin(stream, 202, Form::Empty, style);
        }
        self.finish(stream);
    }

    fn begin(&mut self, stream: StreamId, status: u16, form: Form, style: Style) {
        let session = self.session.as_ref().filter(|_| style.session_header);
        let headers = session.map(|session| ("mcp-session-id", session.clone())).into_iter().collect();
        self.actions.push_back(Action::Begin(stream, Head { status, form, headers }));
    }

    fn send(&mut self, stream: StreamId, frame: Frame) {
        self.actions.push_back(Action::Send(stream, frame));
    }

    fn finish(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
        self.actions.push_back(Action::Finish(stream));
    }
}

fn message_event(id: Option<(Channel, u64)>, data: Box<str>) -> Frame {
    let id = id.map(|(channel, number)| event_id(channel, number));
    Frame::Event(Box::new(EventFrame { name: Some("message"), id, retry: None, data }))
}

fn event_id(channel: Channel, number: u64) -> Box<str> {
    format!("{}-{number}", channel.0).into()
}

fn read_event_id(id: &str) -> Option<(Channel, u64)> {
    let (channel, number) = id.split_once('-')?;
    Some((Channel(channel.parse().ok()?), number.parse().ok()?))
}

#[cfg(test)]
mod tests;
