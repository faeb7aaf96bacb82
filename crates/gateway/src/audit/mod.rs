//! The audit trail: who came, who went, who was turned away, as lines of JSON in files that are only ever added to.
//!
//! Every record carries the hash of the one before it (`chain`), also from one file to the next (`files`), and [`verify`] follows them.
//! One thread writes (`writer`); callers hand records over and never wait for the disk. When the thread cannot keep up, lines
//! are lost, and a line says how many. Deliberately absent: tokens, payloads, secrets. An [`AuditEvent`] has no place for them.

mod chain;
mod files;
mod shares;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

use std::borrow::Cow;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use salon_protocol::{Code, ParticipantId, RateLimit, Timestamp, TokenBucket, TopicName};
use serde::Serialize;

use crate::auth::Grant;
use crate::gateway::network;
use files::AuditFiles;
use shares::{SenderShare, SenderShares};
use writer::{AuditMessage, AuditWriter, Output};

pub use files::{AuditRotation, rotated};
pub use verify::{AuditFault, AuditReport, verify};

/// How many events may wait for the disk.
const MAX_WAITING_EVENTS: usize = 8192;

/// How many attempts to come in and refusals are kept of one second. Of one sender there are fewer ([`shares`]).
const MAX_EVENTS_PER_SECOND: u32 = 500;

/// The longest reason that is kept, in characters.
const MAX_REASON_CHARS: usize = 256;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditKind {
    /// A token or ticket was accepted.
    AuthOk,
    /// A token or ticket was not.
    AuthFailed,
    /// A participant took a place in a topic.
    Join,
    /// It gave it up, or lost it.
    Leave,
    /// The room said no.
    Refusal,
    /// A newer connection of the same participant took the place of an older.
    Takeover,
    /// Tokens were revoked; `reason` says which.
    Revocation,
    /// A link was made that lets somebody in; `reason` says whom.
    Invitation,
    /// The settings of a topic were changed; `reason` names the version.
    TopicSettings,
    /// A topic was deleted, with everything that was said there.
    TopicDeleted,
    /// A call waits for approval; `reason` names it.
    ApprovalRequested,
    /// Somebody decided about a held call, or it is held no longer; `reason` says what was decided about which.
    ApprovalDecided,
    /// A message was redacted.
    MessageRedacted,
    /// A file was removed from a topic; `reason` is its id.
    FileRemoved,
}

/// One line of the trail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditEvent {
    ts: Timestamp,
    event: AuditKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    participant: Option<ParticipantId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<TopicName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Cow<'static, str>>,
}

impl AuditEvent {
    /// Something happened at a moment.
    pub fn new(event: AuditKind, ts: Timestamp) -> Self {
        Self { ts, event, participant: None, topic: None, address: None, token_id: None, code: None, reason: None }
    }

    /// By or to whom.
    #[must_use]
    pub fn participant(mut self, participant: &ParticipantId) -> Self {
        self.participant = Some(participant.clone());
        self
    }

    /// By or to whom, with the id of the token that says so.
    #[must_use]
    pub fn grant(mut self, grant: &Grant) -> Self {
        self.token_id.clone_from(&grant.token_id);
        self.participant(&grant.participant)
    }

    /// In which topic.
    #[must_use]
    pub fn topic(mut self, topic: &TopicName) -> Self {
        self.topic = Some(topic.clone());
        self
    }

    /// From where.
    #[must_use]
    pub fn address(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// With which refusal code.
    #[must_use]
    pub fn code(mut self, code: Code) -> Self {
        self.code = Some(code);
        self
    }

    /// Why. A word or a refusal's sentence; the caller keeps payloads and secrets out of it.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        let mut reason = reason.into();
        if let Some((end, _)) = reason.char_indices().nth(MAX_REASON_CHARS) {
            reason.to_mut().truncate(end);
        }
        self.reason = Some(reason);
        self
    }
}

/// The trail. Cloning shares it.
#[derive(Clone)]
pub struct Audit(Option<Arc<Trail>>);

struct Trail {
    sender: SyncSender<AuditMessage>,
    lost: Arc<AtomicU64>,
    shares: Arc<Mutex<SenderShares>>,
    /// For events that anybody can cause.
    bucket: Mutex<TokenBucket>,
    /// `None` once closed.
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Trail {
    /// What anybody can cause as often as they like must not fill the disk: beyond a number a second it is only counted. Who came
    /// and went, and what was decided, is always kept.
    fn takes(&self, event: &AuditEvent) -> bool {
        if !matches!(event.event, AuditKind::AuthOk | AuditKind::AuthFailed | AuditKind::Refusal) {
            return true;
        }
        let limit = RateLimit::per_second(MAX_EVENTS_PER_SECOND, MAX_EVENTS_PER_SECOND);
        let mut bucket = self.bucket.lock();
        limit.take(&mut bucket, 1, Duration::from_millis(event.ts.0)).is_ok()
    }
}

impl AuditEvent {
    /// The share that the event takes from, `Some(None)` for senders without a valid token. What a participant does in a room takes from none.
    fn share(&self) -> Option<Option<SenderShare>> {
        let is_accepted = match self.event {
            AuditKind::AuthFailed => return Some(None),
            AuditKind::Refusal => false,
            AuditKind::AuthOk => true,
            _ => return None,
        };
        Some(self.participant.clone().map(|participant| SenderShare {
            participant,
            kind: self.event,
            code: self.code,
            token_id: self.token_id.clone().filter(|_| is_accepted),
            network: self.address.filter(|_| is_accepted).map(network),
        }))
    }
}

impl Audit {
    /// Adds to the trail in a file, which is made where there is none, readable by its owner alone. No symbolic link is followed to it.
    pub fn open(path: &Path, rotation: AuditRotation, now: Timestamp) -> io::Result<Self> {
        let (files, head) = AuditFiles::open(path, rotation, now)?;
        Self::start(files, head, MAX_WAITING_EVENTS)
    }

    /// No trail: what is recorded is forgotten.
    pub fn off() -> Self {
        Self(None)
    }

    fn start(out: impl Output + 'static, head: String, waiting: usize) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(waiting);
        let (lost, shares) = (Arc::new(AtomicU64::new(0)), Arc::<Mutex<SenderShares>>::default());
        let writer = std::thread::Builder::new().name("audit".into()).spawn({
            let (lost, shares) = (lost.clone(), shares.clone());
            move || AuditWriter::new(out, head, &lost, &shares).run(&receiver)
        })?;
        let (bucket, writer) = (Mutex::default(), Mutex::new(Some(writer)));
        Ok(Self(Some(Arc::new(Trail { sender, lost, shares, bucket, writer }))))
    }

    /// Hands an event over. Never waits.
    pub fn record(&self, event: AuditEvent) {
        let Some(trail) = &self.0 else { return };
        if let Some(share) = event.share()
            && !trail.shares.lock().takes(share, event.ts)
        {
            return;
        }
        if !trail.takes(&event) || trail.sender.try_send(AuditMessage::Event(event)).is_err() {
            trail.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything recorded so far is in the file. What is recorded afterwards is forgotten. Blocks; call it when nothing
    /// else is left to do, or where blocking is allowed.
    pub fn close(&self) {
        let Some(trail) = &self.0 else { return };
        let mut writer = trail.writer.lock();
        let Some(thread) = writer.take() else { return };
        // It arrives, or the thread has ended already.
        let _ = trail.sender.send(AuditMessage::Close);
        if thread.join().is_err() {
            tracing::error!("audit: writer thread panicked, entries may be missing");
        }
    }
}
