//! The way to the client: its streams, whether it is there, and when its session ends for silence.
//!
//! Invariants: everything that is to be sent goes out before the session closes. A session with an open stream or an open request does not end
//! for silence; one whose client hung up in the middle of something ends sooner than one whose client is only quiet.
//! Deliberately absent: what is sent. [`Streams`] has the rules of the transports.

use std::time::{Duration, Instant};

use salon_protocol::{CloseReason, RpcError, rpc};
use serde_json::value::RawValue;

use super::client::DoorRequest;
use super::outbox::RETRY_DELAY;
use super::{DialectAction, DoorTimer, Listen, McpDoorOptions, RoomQuery, modern_checks, stream_options};
use crate::StreamId;
use crate::streams::{Channel, PostStyle, Streams};
use salon_mcp::timers::Timers;

/// How long the end of a session waits for drafts that the room has refused for now.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(120);

/// Whether the client listens to its session over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionStream {
    None,
    Open(StreamId),
    /// It hung up while it listened or waited for an answer, and has sent nothing since. Many clients end without another word.
    Gone,
}

/// What the end of a stream means for what is open.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClosedStream {
    /// The channel of a request that was not answered.
    pub(super) unanswered: Option<Channel>,
    /// It was the only stream that the session had or will have.
    pub(super) was_duplex: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct ClientStreams {
    streams: Streams<RoomQuery>,
    duplex: Option<StreamId>,
    listener: SessionStream,
    /// How long the client may be silent, and how long after it hung up in the middle of something.
    idle: Option<Duration>,
    vanished_timeout: Duration,
    closing: Option<CloseReason>,
    /// [`DoorTimer::Idle`].
    pub(super) timers: Timers<DoorTimer>,
}

impl ClientStreams {
    pub(super) fn new(options: &McpDoorOptions, now: Instant) -> Self {
        let mut timers = Timers::default();
        if let Some(idle) = options.idle {
            timers.set(DoorTimer::Idle, now + idle);
        }
        Self {
            streams: Streams::new(stream_options(options.session.clone()), now),
            duplex: None,
            listener: SessionStream::None,
            idle: options.idle,
            vanished_timeout: options.vanished_timeout,
            closing: None,
            timers,
        }
    }

    /// The client has one stream for everything.
    pub(super) fn open_duplex(&mut self, stream: StreamId) {
        self.duplex = Some(stream);
        self.streams.open_duplex(stream);
    }

    pub(super) fn is_duplex(&self) -> bool {
        self.duplex.is_some()
    }

    /// The client opens a stream of events.
    pub(super) fn listen(&mut self, stream: StreamId, listen: &Listen, now: Instant) {
        self.streams.touch(now);
        // A GET that resumes the answer of a POST ends with that answer, and says nothing of who listens to the session.
        if listen.open(&mut self.streams, stream) == Channel::SESSION {
            self.listener = SessionStream::Open(stream);
        }
    }

    /// A request over HTTP with so many requests in it.
    pub(super) fn post(&mut self, stream: StreamId, requests: usize, style: PostStyle) -> Channel {
        self.streams.post(stream, requests, style)
    }

    /// A request over HTTP whose answers go to the session's stream.
    pub(super) fn accept(&mut self, stream: StreamId) {
        self.streams.accept(stream);
    }

    /// Answers a request over HTTP that cannot be read.
    pub(super) fn refuse(&mut self, stream: StreamId, status: u16, message: &RawValue) {
        self.streams.refuse(stream, status, message);
    }

    /// Opens the event stream of a request at that time, unless it is answered before.
    pub(super) fn open_at(&mut self, channel: Channel, at: Option<Instant>) {
        self.streams.open_at(channel, at);
    }

    /// A request gets no answer.
    pub(super) fn skip(&mut self, channel: Channel) {
        self.streams.skip(channel);
    }

    /// Whether any stream is open.
    pub(super) fn is_attended(&self) -> bool {
        self.streams.is_attended()
    }

    /// Sends a message to the client, unless nobody can receive it any more.
    pub(super) fn say(&mut self, channel: Channel, message: &RawValue) {
        self.deliver(channel, message);
    }

    /// The same; false when nobody will ever receive it.
    pub(super) fn deliver(&mut self, channel: Channel, message: &RawValue) -> bool {
        self.streams.say(channel, message.get())
    }

    /// Sends an answer.
    pub(super) fn answer(&mut self, channel: Channel, status: u16, message: &RawValue) {
        self.streams.answer(channel, status, message);
    }

    /// Answers a request of the client's.
    pub(super) fn answer_request(&mut self, request: &DoorRequest, outcome: &Result<Box<RawValue>, RpcError>) {
        let status = match outcome {
            Err(error) if request.is_modern() => modern_checks::status(error.code),
            _ => 200,
        };
        if outcome.is_err() {
            // A handshake that failed began no session.
            self.streams.unname(request.channel);
        }
        self.answer(request.channel, status, &rpc::outcome(&request.id, outcome));
    }

    /// Time has passed. Silence is counted from the last answer.
    pub(super) fn pass_time(&mut self, now: Instant) {
        self.streams.pass_time(now);
    }

    /// The client sends something, so it has not ended without a word.
    pub(super) fn client_is_back(&mut self, now: Instant) {
        self.streams.touch(now);
        if self.listener == SessionStream::Gone {
            self.listener = SessionStream::None;
        }
    }

    /// The client hung up. One that has introduced itself and hangs up in the middle of something may have ended without another word.
    pub(super) fn closed(&mut self, stream: StreamId, is_introduced: bool, now: Instant) -> ClosedStream {
        self.streams.touch(now);
        let was_listener = self.listener == SessionStream::Open(stream);
        let unanswered = self.streams.closed(stream);
        if was_listener || (unanswered.is_some() && is_introduced && !self.streams.is_attended()) {
            self.listener = SessionStream::Gone;
            let timeout = self.idle.map_or(self.vanished_timeout, |idle| idle.min(self.vanished_timeout));
            self.timers.set(DoorTimer::Idle, now + timeout);
        }
        ClosedStream { unanswered, was_duplex: self.duplex.take_if(|duplex| *duplex == stream).is_some() }
    }

    /// Whether the session has been silent for too long. It waits a while for drafts that are late.
    pub(super) fn is_idle(&mut self, is_busy: bool, is_late: bool, now: Instant) -> bool {
        let Some(mut idle) = self.idle else { return false };
        if self.listener == SessionStream::Gone {
            idle = idle.min(self.vanished_timeout);
        }
        let due = self.streams.idle_at(idle, is_busy, now);
        let next = match due <= now {
            true if is_late && now < due + DRAIN_TIMEOUT => now + RETRY_DELAY,
            true => return true,
            false => due,
        };
        self.timers.set(DoorTimer::Idle, next);
        false
    }

    /// Ends the session once everything has been sent.
    pub(super) fn end(&mut self, reason: CloseReason) {
        self.streams.close_all();
        self.closing.get_or_insert(reason);
    }

    #[cfg(test)]
    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.streams.handle_timeout(now);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.streams.poll_timeout()
    }

    pub(super) fn poll_action(&mut self) -> Option<DialectAction> {
        self.streams.poll_action().or_else(|| self.closing.take().map(DialectAction::Close))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::door::{ClientProfile, DoorScope, empty};
    use salon_mcp::Revision;
    use salon_protocol::{Limits, ParticipantId, TopicName};
    use std::sync::Arc;

    const IDLE: Duration = Duration::from_secs(600);
    const VANISHED: Duration = Duration::from_secs(60);

    fn streams(now: Instant) -> ClientStreams {
        let options = McpDoorOptions {
            me: ParticipantId::new("alice").unwrap(),
            topic: TopicName::new("room:a").unwrap(),
            scope: DoorScope::Room,
            limits: Limits::default(),
            session: Some("s".into()),
            idle: Some(IDLE),
            vanished_timeout: VANISHED,
            list_max_age: Duration::ZERO,
            returning_until: None,
            few: 0,
            first: 0,
            salt: [0; 16],
            version: "9",
        };
        ClientStreams::new(&options, now)
    }

    #[test]
    fn a_silent_session_ends_unless_something_is_open() {
        let now = Instant::now();
        let mut streams = streams(now);
        assert_eq!(streams.timers.next(), Some(now + IDLE));
        let later = now + IDLE;
        assert!(!streams.is_idle(true, false, later), "a request is open");
        assert!(!streams.is_idle(false, true, later), "a draft is late");
        assert_eq!(streams.timers.next(), Some(later + RETRY_DELAY));
        assert!(streams.is_idle(false, true, later + DRAIN_TIMEOUT), "but not for ever");
        assert!(streams.is_idle(false, false, later));
        streams.client_is_back(later);
        assert!(!streams.is_idle(false, false, later));
        assert_eq!(streams.timers.next(), Some(later + IDLE));
    }

    #[test]
    fn a_session_ends_sooner_when_its_listener_hung_up() {
        let now = Instant::now();
        let mut streams = streams(now);
        streams.listen(StreamId(3), &Listen::default(), now);
        let closed = streams.closed(StreamId(3), true, now);
        assert_eq!(closed, ClosedStream { unanswered: None, was_duplex: false });
        assert_eq!(streams.timers.next(), Some(now + VANISHED));
        assert!(streams.is_idle(false, false, now + VANISHED));
        streams.client_is_back(now);
        assert!(!streams.is_idle(false, false, now + VANISHED), "it has come back");
    }

    #[test]
    fn hanging_up_on_a_request_names_its_channel() {
        let now = Instant::now();
        let mut streams = streams(now);
        let channel = streams.post(StreamId(3), 1, PostStyle::default());
        assert_eq!(streams.closed(StreamId(3), false, now).unanswered, Some(channel));
        assert_eq!(streams.timers.next(), Some(now + IDLE), "who it was is not known");
        streams.post(StreamId(4), 1, PostStyle::default());
        streams.closed(StreamId(4), true, now);
        assert_eq!(streams.timers.next(), Some(now + VANISHED));
    }

    #[test]
    fn everything_is_sent_before_the_end() {
        let now = Instant::now();
        let mut streams = streams(now);
        streams.open_duplex(StreamId(0));
        assert!(streams.is_duplex());
        streams.say(Channel::SESSION, &empty());
        streams.end(CloseReason::Bye);
        streams.end(CloseReason::Shutdown);
        assert!(matches!(streams.poll_action(), Some(DialectAction::Send(..))));
        assert_eq!(streams.poll_action(), Some(DialectAction::Close(CloseReason::Bye)));
        assert_eq!(streams.poll_action(), None);
        assert!(streams.closed(StreamId(0), true, now).was_duplex && !streams.is_duplex());
    }

    #[test]
    fn only_a_modern_client_is_told_of_an_error_by_the_status() {
        let now = Instant::now();
        for (revision, status) in [(Revision::MODERN, 404), (Revision::ROOM, 200)] {
            let mut streams = streams(now);
            let channel = streams.post(StreamId(3), 1, PostStyle::default());
            let profile = ClientProfile { revision, capabilities: empty(), info: None, level: None };
            let (id, profile) = (empty(), Arc::new(profile));
            let request = DoorRequest { channel, id, method: "x".into(), params: None, profile, headers: None };
            streams.answer_request(&request, &Err(RpcError::method_not_found("x")));
            let Some(DialectAction::Begin(_, head)) = streams.poll_action() else { panic!("no answer") };
            assert_eq!(head.status, status, "{revision}");
        }
    }
}
