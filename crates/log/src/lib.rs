//! The memory of a room: one ordered, durable log a topic, the leases of those present, and the topic's versioned [`context`].
//!
//! [`TopicLog`], [`ContextStore`], [`FileStore`], [`TopicSearch`] and [`Cluster`] are the contracts; [`sqlite`] and [`cluster::SingleNode`] keep them on one machine, `nats` (a
//! feature, on by default) on several.
//! Deliberately absent: who may write what (that is `rooms`) and how anything looks on a wire (that is `dialects`).

mod append_future;
mod changes;
pub mod cluster;
pub mod context;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
pub mod files;
mod fold;
mod hash;
mod lease;
#[cfg(feature = "nats")]
pub mod nats;
mod quota;
mod retention;
pub mod search;
pub mod sqlite;
mod submit_together;
mod tail;
pub mod transfer;

use std::pin::Pin;
use std::sync::{Arc, Weak};

use futures_util::Stream;
use futures_util::future::BoxFuture;
use salon_protocol::{
    Entry, Envelope, EnvelopeId, FailureCause, Message, ParticipantId, Position, RpcId, Stamp, Timestamp, TopicName,
};
use tokio::sync::watch;

pub use append_future::AppendFuture;
pub use cluster::Cluster;
pub use context::ContextStore;
pub use files::{FileStore, FileUpload};
pub use fold::{
    CallClosure, CallRecord, Deletion, FailedCall, Fold, FoldEffect, HeldCall, Ignored, MAX_HELD_CALLS, StatusRecord,
    answered_request,
};
pub use lease::{Claim, Lease, RosterVersion};
pub use quota::{QuotaExceeded, QuotaScope, StoredQuotas};
pub use retention::{Retention, RetentionRules};
pub use search::{SearchError, SearchRequest, TopicSearch};
pub use submit_together::submit_together;
pub use tail::TailSink;

/// An ordered, durable log for each topic. What every engine promises:
///
/// 1. One total order per topic; every tail on every node yields it.
/// 2. Appended means durable, readable and tailed, in that order.
/// 3. A tail never skips: it yields the next entry, or a gap.
/// 4. An envelope id is unique in its topic for as long as the entry is kept. The same sender and bytes again return the first
///    entry; anything else under that id conflicts.
/// 5. A position is ordered within its epoch and not dense.
/// 6. A live lease is exclusive across nodes, unless its holders asked to share it. A newer claim of the same participant
///    supersedes, and the older holder is notified. A lease ends with its holder, or with its node.
/// 7. [`TopicLog::standing`] is a [`Fold`] over the log: the same on every node and after every restart. An answer to a call that does
///    not wait for one when the answer's turn comes in that order is refused, and nobody ever reads it. So is a leave of somebody
///    who is not present.
/// 8. Reading from a position that retention has removed is an explicit gap, never a silent one.
/// 9. After a failed write nothing is acknowledged any more, and [`TopicLog::health`] says why. An engine that only cannot reach what
///    it writes to says that it is unreachable, refuses meanwhile, and goes on without a gap or a duplicate once it can.
/// 10. Beyond a quota of [`StoredQuotas`] an entry is refused, unless it is the host's or a short answer. Reading goes on, an envelope that is
///     stored is still known, and what retention removes makes room. A restart does not change what counts.
/// 11. Once a redaction ([`salon_control::MessageRedaction`]) is appended, nobody reads the texts that it names: a tombstone has the place of each, in
///     every page, tail and lookup, on every node and after every restart. Its id stays taken. The engine erases the texts from what it
///     writes to, as far as it can.
///
/// 11. A deleted topic is erased ([`TopicLog::delete`]): old entries are neither read nor found, old positions are a gap, and nobody is present. What
///     was accepted by what counted before and is stored later counts for nothing, unless the topic starts over first, by a join or by settings.
///
/// Appends and claims take effect in the order they are called, not in the order their futures are polled: a session may have many
/// appends in flight and they stay in order. A read sees everything that was acknowledged before it was called.
pub trait TopicLog: Send + Sync + 'static {
    /// Appends an envelope with the credentials it came with. Resolves when both are durable and readable; dropping the future does not
    /// undo it. An envelope that is stored already keeps the stamp it was stored with.
    fn append_stamped(
        &self,
        topic: &TopicName,
        envelope: Envelope,
        stamp: Option<Stamp>,
    ) -> BoxFuture<'static, Result<Appended, AppendError>>;

    /// The same as a future that its task need not be woken for ([`AppendFuture::poll_quietly`]), where the engine has such.
    fn submit(&self, topic: &TopicName, envelope: Envelope, stamp: Option<Stamp>) -> AppendFuture {
        self.append_stamped(topic, envelope, stamp).into()
    }

    /// Appends an envelope that came with no credentials: one of the gateway's own.
    fn append(&self, topic: &TopicName, envelope: Envelope) -> BoxFuture<'static, Result<Appended, AppendError>> {
        self.append_stamped(topic, envelope, None)
    }

    /// Deletes a topic: appends the notice that says so ([`salon_control::ControlNotice::Deleted`]) and removes everything up to and with it, the
    /// topic's context included. Nothing of that is read any more once this resolves, and what uses the name next is after every position of
    /// before. Tails get the notice, or a gap.
    fn delete(&self, topic: &TopicName, notice: Envelope) -> BoxFuture<'static, Result<Appended, AppendError>>;

    /// Reads up to `limit` entries, always oldest first, and no more once they have [`MAX_PAGE_BYTES`] of text: a page that ends
    /// there or at its limit may not be the last.
    fn read(
        &self,
        topic: &TopicName,
        span: Span,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<Arc<Entry>>, ReadError>>;

    /// Follows a topic from a position, for ever.
    fn tail(&self, topic: &TopicName, after: Position) -> Tail;

    /// The same, but an engine may offer entries to `sink` first, on the thread that has stored them and before it acknowledges them. What the
    /// sink has taken the tail yields only where it was reading at that moment.
    fn tail_into(&self, topic: &TopicName, after: Position, sink: Weak<dyn TailSink>) -> Tail {
        drop(sink);
        self.tail(topic, after)
    }

    /// Finds an entry by its envelope's id.
    fn find(&self, topic: &TopicName, id: &EnvelopeId) -> BoxFuture<'static, Result<Option<Arc<Entry>>, ReadError>>;

    /// What the log says of the present, as of its newest entry. Of a topic nobody ever entered: nothing, at the start.
    fn standing(&self, topic: &TopicName) -> BoxFuture<'static, Result<Standing, ReadError>>;

    /// Takes a participant's place in a topic. `lost` is called, at most once, when a newer claim supersedes this one or the
    /// lease could not be kept; never after the lease was dropped.
    fn claim(
        &self,
        topic: &TopicName,
        participant: &ParticipantId,
        claim: Claim,
        lost: Box<dyn FnOnce() + Send + Sync>,
    ) -> BoxFuture<'static, Result<Lease, ReadError>>;

    /// Who holds a live lease in a topic, on any node.
    fn roster(&self, topic: &TopicName) -> BoxFuture<'static, Result<Vec<ParticipantId>, ReadError>>;

    /// A version of what [`TopicLog::roster`] says of a topic. Two that are equal mean that the roster was the same at both moments, so a caller
    /// that reads the version first needs to read the roster only when it differs. `None` where the engine keeps no versions.
    fn roster_version(&self, topic: &TopicName) -> Option<RosterVersion> {
        let _ = topic;
        None
    }

    /// Whether other nodes hold a participant's place, beside this one or instead, as far as is known here. On one machine none does.
    fn is_elsewhere(&self, topic: &TopicName, participant: &ParticipantId) -> bool;

    /// Follows whose places were let go by nobody: those of nodes that are gone. Places are remembered until the next ones are asked
    /// for, so that a node that fails to remove a participant, or another node, gets it again.
    fn lapses(&self) -> Lapses;

    /// Counts the nodes that are gone, however they went, and whether or not they held anything. `None` where there is only one.
    fn gone(&self) -> Option<watch::Receiver<u64>>;

    /// Every topic that has ever been entered and not been forgotten, by name.
    fn topics(&self) -> BoxFuture<'static, Result<Vec<TopicSummary>, ReadError>>;

    /// The topics that a node looks through when it starts or another one is gone: all in which somebody may be present without a live lease, a call
    /// may be held, or a deletion or redaction may be unfinished. An engine may list more than these, and lists all where it does not know.
    fn unsettled_topics(&self) -> BoxFuture<'static, Result<Vec<TopicName>, ReadError>> {
        let topics = self.topics();
        Box::pin(async move { Ok(topics.await?.into_iter().map(|topic| topic.name).collect()) })
    }

    /// Whether a topic may have settings. `false` is certain, as of the call: then nobody needs [`Self::standing`] to know who may read it.
    fn may_have_settings(&self, topic: &TopicName) -> BoxFuture<'static, Result<bool, ReadError>> {
        let _ = topic;
        Box::pin(std::future::ready(Ok(true)))
    }

    /// Whether the log takes entries. Once stopped, it stays so.
    fn health(&self) -> watch::Receiver<LogHealth>;

    /// What an acknowledgement is worth.
    fn durability(&self) -> Durability;

    /// The longest envelope that the engine takes, in bytes; `None` where it takes any.
    fn max_envelope_bytes(&self) -> Option<usize> {
        None
    }

    /// Finishes what was submitted, then takes nothing more.
    fn close(&self) -> BoxFuture<'static, ()>;
}

/// How many bytes of text end a page, whatever its limit. One entry fits into any page.
pub const MAX_PAGE_BYTES: usize = 1 << 20;

/// How many topics a log on NATS may have by default. Not part of `nats`, because every build reads the same configuration.
pub const DEFAULT_MAX_TOPICS: u64 = 10_000;

/// The outcome of an append.
#[derive(Debug, Clone)]
pub struct Appended {
    /// The stored entry: the new one, or the first of this id.
    pub entry: Arc<Entry>,
    /// Whether it had been stored before, by the same sender with the same bytes.
    pub repeated: bool,
}

/// Why an envelope was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Its id belongs to another envelope.
    #[error("the id is taken by another envelope in this topic")]
    IdConflict,
    /// It answers a call that has ended before it, by the log's order.
    #[error("the call has ended: {0:?}")]
    CallEnded(CallClosure),
    /// It says that a participant leaves who is not present, by the log's order.
    #[error("the participant is not present")]
    NotPresent,
    /// It changes settings that have changed since, or decides about a call that is held no longer.
    #[error("it was decided otherwise meanwhile")]
    Stale,
    /// The log takes nothing any more.
    #[error("the log has stopped: {0}")]
    Stopped(Arc<str>),
    /// The log takes nothing now, because what it writes to is nearly full. The envelope was not stored.
    #[error("the log is read-only: {0}")]
    ReadOnly(Arc<str>),
    /// What the log writes to could not be reached. The envelope may have been stored all the same: the same again tells.
    #[error("the log cannot be reached: {0}")]
    Unavailable(Arc<str>),
    /// What the log writes to was reached, and does not take it.
    #[error("the log was refused: {0}")]
    Refused(Arc<str>),
    /// A quota of stored bytes is used up. The envelope was not stored.
    #[error("{0}")]
    Quota(QuotaExceeded),
    /// The topic would be new, and there are as many as the engine takes.
    #[error("there are {0} topics, which is the limit")]
    TooManyTopics(u64),
    /// The envelope is longer than what the engine writes to takes.
    #[error("the envelope is longer than {0} bytes, which is the most the log takes")]
    TooLarge(usize),
}

impl From<Ignored> for AppendError {
    fn from(ignored: Ignored) -> Self {
        match ignored {
            Ignored::Answer(end) => Self::CallEnded(end),
            Ignored::Leave => Self::NotPresent,
            Ignored::Stale => Self::Stale,
        }
    }
}

/// Why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Entries after the given position are gone; what is left begins after `resume`.
    #[error("entries after this position are no longer kept")]
    Gap {
        /// Reading from here is without a gap.
        resume: Position,
    },
    /// The engine failed.
    #[error("the log could not be read: {0}")]
    Failed(Arc<str>),
    /// What the engine reads from could not be reached.
    #[error("the log cannot be reached: {0}")]
    Unavailable(Arc<str>),
}

/// Which part of a topic to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// The oldest entries after a position.
    After(Position),
    /// The newest entries before a position.
    Before(Position),
    /// The newest entries that arrived before a time.
    BeforeTime(Timestamp),
    /// The newest entries of all.
    Newest,
}

/// What the log says of the present: a [`Fold`] as plain data.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The newest position; everything below is as of here.
    pub head: Position,
    /// The newest join of everyone who has not left since, oldest first.
    pub present: Vec<Arc<Entry>>,
    /// The requests that wait for an answer, oldest first, at most [`Standing::MAX_CALLS`] and those of the host.
    pub waiting: Vec<OpenRequest>,
    /// The requests that have failed, by the offset at which they did, at most [`Standing::MAX_CALLS`].
    pub failed: Vec<FailedRequest>,
    /// The notices of the gateway that its settings, the held calls and the statuses of those present follow from, oldest first.
    pub control: Vec<Arc<Entry>>,
    /// Where the topic was deleted, as long as that matters.
    pub deletion: Option<Deletion>,
}

/// A request that will not be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedRequest {
    /// The offset of the entry by which it failed.
    pub at: u64,
    /// The request.
    pub open: OpenRequest,
    /// Why it failed.
    pub cause: FailureCause,
}

/// A request that nobody has answered, without its text, which may be long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenRequest {
    /// The request's envelope.
    pub request: EnvelopeId,
    /// Who asked.
    pub caller: ParticipantId,
    /// Who was asked.
    pub callee: ParticipantId,
    /// Its JSON-RPC id.
    pub id: RpcId,
    /// Where it stands.
    pub offset: u64,
}

impl OpenRequest {
    /// What an entry asks, when it is a request to somebody.
    pub fn of(entry: &Entry) -> Option<Self> {
        let (Some(Message::Request { id, .. }), [callee]) = (entry.envelope.message(), entry.envelope.to()) else {
            return None;
        };
        Some(Self {
            request: entry.envelope.id().clone(),
            caller: entry.envelope.from().clone(),
            callee: callee.clone(),
            id: id.clone(),
            offset: entry.position.offset,
        })
    }
}

impl Standing {
    /// How many calls of a topic may wait, and how many that have failed are remembered.
    pub const MAX_CALLS: usize = 10_000;

    /// The standing of a topic that nobody ever entered.
    pub fn nothing(head: Position) -> Self {
        let (present, waiting, failed, control) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { head, present, waiting, failed, control, deletion: None }
    }
}

/// A topic as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSummary {
    /// Its name.
    pub name: TopicName,
    /// How many entries are kept.
    pub entries: u64,
    /// When the newest arrived.
    pub newest: Option<Timestamp>,
    /// Whether it may have settings. `false` is certain.
    pub may_have_settings: bool,
    /// Whether somebody may be present. `false` is certain.
    pub may_have_participants: bool,
}

/// Whether a log takes entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogHealth {
    /// It does.
    Writable,
    /// Not now, for this reason.
    Unreachable(Arc<str>),
    /// Not now, for this reason, but it can be read.
    ReadOnly(Arc<str>),
    /// It does not, for this reason.
    Stopped(Arc<str>),
}

/// What an acknowledged entry survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The loss of power: flushed to the device before it is acknowledged.
    #[default]
    Full,
    /// The end of the process, but not the loss of power: the operating system flushes when it likes.
    Os,
}

impl Durability {
    /// The word in the configuration and in a welcome.
    pub fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Os => "os",
        }
    }
}

/// What follows in a tail.
#[derive(Debug, Clone)]
pub enum Tailed {
    /// The next entries, never none.
    Entries(Vec<Arc<Entry>>),
    /// Entries were removed before this tail came to them; what follows begins after `resume`.
    Gap {
        /// The position before the next entry.
        resume: Position,
    },
}

/// A topic being followed. Ends only with the log, or with an error.
pub type Tail = Pin<Box<dyn Stream<Item = Result<Tailed, ReadError>> + Send>>;

/// Somebody whose node is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lapse {
    /// Where they sat.
    pub topic: TopicName,
    /// Who.
    pub participant: ParticipantId,
}

/// The places of nodes that are gone, as they are found out, some at a time and never none. Never ends by itself.
pub type Lapses = Pin<Box<dyn Stream<Item = Vec<Lapse>> + Send>>;
