//! A topic as this node follows it: what its entries add up to, and who waits for one of them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::stream::Info;
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{Entry, Envelope, Position, Stamp, TopicName};
use tokio::sync::{Notify, mpsc, watch};

use super::Shared;
use super::fault::NatsFault;
use super::follow::{Course, Follow};
use super::lag::lagging;
use super::lane::NatsAppend;
use super::link::{Stored, in_a_row};
use super::snapshot::Snapshot;
use super::stored::FollowedBytes;
use crate::{Fold, FoldEffect, Ignored, Standing};

/// How long to wait before looking again for what was not there, or not reachable.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// The header with an entry's stamp.
pub(super) const STAMP: &str = "Salon-Stamp";

pub(super) struct Topic {
    pub(super) name: TopicName,
    pub(super) stream: String,
    epoch: u32,
    /// `None` once nothing more is taken.
    appends: Mutex<Option<mpsc::UnboundedSender<NatsAppend>>>,
    delivered: mpsc::UnboundedSender<(String, Followed)>,
    state: Mutex<FollowState>,
    /// How far it has been followed; `None` until that is known.
    head: watch::Sender<Option<u64>>,
    /// The stream may be there now.
    pub(super) made: Notify,
    used: Mutex<Instant>,
    stop: watch::Sender<bool>,
    /// Whether the lane has ended.
    pub(super) ended: watch::Sender<bool>,
}

/// An entry that came by.
#[derive(Clone)]
pub(super) struct Followed {
    pub(super) entry: Arc<Entry>,
    /// Why it counts for nothing, if it does.
    pub(super) ignored: Option<Ignored>,
}

#[derive(Default)]
pub(super) struct FollowState {
    fold: Fold,
    /// Entries that are in the stream and count for nothing, by their offsets. Two nodes raced: there are few.
    ignored: BTreeMap<u64, Ignored>,
    /// Entries that the lane waits for, by the last token of their subjects.
    expected: HashSet<String>,
    /// What was kept last, as far as this node knows: its revision, and as of where.
    kept: Option<(u64, u64)>,
    pub(super) stored: FollowedBytes,
}

/// Why following ended.
enum FollowEnd {
    /// By another stream, which has begun behind everything so far.
    Replaced,
    /// What came does not follow what was there, or nothing comes.
    Odd,
}

impl Topic {
    pub(super) fn new(
        shared: &Shared,
        name: &TopicName,
        appends: mpsc::UnboundedSender<NatsAppend>,
        delivered: mpsc::UnboundedSender<(String, Followed)>,
    ) -> Self {
        Self {
            name: name.clone(),
            stream: shared.link.names.room(name),
            epoch: shared.epoch,
            appends: Mutex::new(Some(appends)),
            delivered,
            state: Mutex::default(),
            head: watch::Sender::new(None),
            made: Notify::new(),
            used: Mutex::new(Instant::now()),
            stop: watch::Sender::new(false),
            ended: watch::Sender::new(false),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, FollowState> {
        self.state.lock()
    }

    /// Takes an append; says whether anything is still taken.
    pub(super) fn submit(&self, append: NatsAppend) -> bool {
        let appends = self.appends.lock();
        appends.as_ref().is_some_and(|lane| lane.send(append).is_ok())
    }

    /// Takes no more appends; those before are finished.
    pub(super) fn close_lane(&self) {
        self.appends.lock().take();
    }

    pub(super) fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    pub(super) fn idle_for(&self) -> Duration {
        self.used.lock().elapsed()
    }

    /// Waits until every append is answered.
    pub(super) async fn finished(&self) {
        // The sender lives in this topic, so the wait cannot fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Ends following.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Wants an entry handed to the lane when it comes.
    pub(super) fn expect(&self, token: &str) {
        self.state().expected.insert(token.to_owned());
    }

    pub(super) fn expects(&self, token: &str) -> bool {
        self.state().expected.contains(token)
    }

    pub(super) fn expect_no_more(&self, token: &str) {
        self.state().expected.remove(token);
    }

    pub(super) fn head(&self) -> Option<u64> {
        *self.head.borrow()
    }

    /// Waits until everything up to an offset has been folded and handed to the tails.
    pub(super) async fn reach(&self, offset: u64, patience: Duration) -> Result<(), NatsFault> {
        let mut head = self.head.subscribe();
        let reached = head.wait_for(|head| head.is_some_and(|head| head >= offset));
        match tokio::time::timeout(patience, reached).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(NatsFault::unavailable("the newest entries have not come yet")),
        }
    }

    /// What the entries so far add up to, without the calls that retention has removed.
    pub(super) fn standing(&self, trimmed: u64) -> Standing {
        self.state().fold.standing(self.epoch, trimmed)
    }

    /// What to keep of the entries so far. Calls that retention has removed are part of it: whether an answer counts must not depend
    /// on which node has looked after retention, and when.
    pub(super) fn snapshot(&self, trimmed: u64) -> Snapshot {
        let mut state = self.state();
        state.ignored = state.ignored.split_off(&(trimmed + 1));
        let ignored = state.ignored.iter().map(|(offset, end)| (*offset, *end)).collect();
        state.stored.trim(trimmed);
        Snapshot::new(state.fold.standing(self.epoch, 0), ignored, state.stored.form())
    }

    /// Why the entry at an offset counts for nothing, if it does. Only for what has been followed.
    pub(super) fn ignored_at(&self, offset: u64) -> Option<Ignored> {
        self.state().ignored.get(&offset).copied()
    }

    /// What was kept last, as far as this node knows: its revision, and as of where.
    pub(super) fn kept(&self) -> Option<(u64, u64)> {
        self.state().kept
    }

    pub(super) fn note_kept(&self, revision: u64, head: u64) {
        self.state().kept = Some((revision, head));
    }

    /// Makes an entry of a message.
    pub(super) fn entry(&self, stored: &Stored) -> Result<Arc<Entry>, NatsFault> {
        entry(self.epoch, stored)
    }

    /// Follows the topic until it is stopped, whatever happens to the connection.
    pub(super) async fn follow(self: Arc<Self>, shared: Arc<Shared>) {
        let mut stop = self.stop.subscribe();
        let stopped = async { drop(stop.wait_for(|stop| *stop).await) };
        tokio::pin!(stopped);
        loop {
            let pause = tokio::select! { biased;
                () = &mut stopped => return,
                ended = self.follow_once(&shared) => match ended {
                    Ok(FollowEnd::Replaced) => continue,
                    Ok(FollowEnd::Odd) | Err(NatsFault::Unavailable(_)) => RETRY_DELAY,
                    Err(NatsFault::Missing) => shared.link.timings.look_interval,
                    Err(fault) => {
                        tracing::warn!(topic = %self.name, %fault, "nats: following a topic failed, retrying");
                        shared.link.timings.look_interval
                    }
                },
            };
            tokio::select! { biased;
                () = &mut stopped => return,
                () = self.made.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Follows until it must start over, and says why.
    async fn follow_once(&self, shared: &Arc<Shared>) -> Result<FollowEnd, NatsFault> {
        let state = self.look(shared, self.head().unwrap_or_default()).await?.state;
        let (trimmed, last) = (state.first_sequence.saturating_sub(1), state.last_sequence);
        let mut head = match self.head() {
            Some(head) if (trimmed..=last).contains(&head) => head,
            known => {
                if known.is_some_and(|head| head > last) {
                    tracing::error!(topic = %self.name, "nats: stored entries lost, rereading the topic");
                }
                self.restore(shared, trimmed, known.is_some()).await?
            }
        };
        self.count_stored(shared, &state);
        let from = DeliverPolicy::ByStartSequence { start_sequence: head + 1 };
        let course = Course { stream: &self.stream, from, filter: None, headers_only: false };
        let mut follow = Follow::begin(&shared.link, course).await?;
        let followed = watch::Sender::new(head);
        let lagging = lagging(&shared.link, &self.stream, followed.subscribe());
        tokio::pin!(lagging);
        loop {
            let next = tokio::select! { biased;
                () = self.made.notified() => {
                    // Another stream of this name, of which nothing would come; or, at the node that made it, this very one.
                    if shared.described(&self.stream).await?.state.first_sequence > head + 1 {
                        return Ok(FollowEnd::Replaced);
                    }
                    continue;
                }
                next = follow.next() => next,
                () = &mut lagging => {
                    tracing::info!(topic = %self.name, "nats: consumer lags behind its stream, following from another");
                    return Ok(FollowEnd::Odd);
                }
            };
            let Some(mut messages) = next else { return Ok(FollowEnd::Odd) };
            let (came, row) = (messages.len(), in_a_row(head, &messages));
            messages.truncate(row);
            if !messages.is_empty() {
                head = self.take(shared, messages);
                followed.send_replace(head);
            }
            // Retention has removed what is missing, wherever it was missing: who was present there is known by what was kept, and
            // the tails must hear of it.
            if row < came {
                return Ok(FollowEnd::Odd);
            }
        }
    }

    /// What the leader says of the stream, once it has everything up to an offset, or after a while without.
    async fn look(&self, shared: &Shared, offset: u64) -> Result<Info, NatsFault> {
        let by = Instant::now() + shared.link.timings.election_timeout;
        loop {
            let info = shared.described(&self.stream).await?;
            if info.state.last_sequence >= offset || Instant::now() >= by {
                return Ok(info);
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// Begins from what was kept, or from the oldest entry there is.
    async fn restore(&self, shared: &Shared, trimmed: u64, has_begun: bool) -> Result<u64, NatsFault> {
        let kept = Snapshot::load(shared, &self.name).await?;
        let ((mut fold, ignored, authors), head, kept) = match kept {
            // Nothing can be built on what stood on entries that are lost.
            Some((revision, kept)) if self.look(shared, kept.head).await?.state.last_sequence < kept.head => {
                tracing::error!(topic = %self.name, "nats: stored entries lost, rebuilding presence");
                (Default::default(), trimmed, Some((revision, 0)))
            }
            Some((revision, kept)) => {
                let head = kept.head;
                (kept.parts(), head, Some((revision, head)))
            }
            None => (Default::default(), trimmed, None),
        };
        if head < trimmed {
            tracing::warn!(topic = %self.name, "nats: entries removed before their snapshot, presence may be incomplete");
        }
        let head = head.max(trimmed);
        fold.pass(head);
        let mut state = self.state();
        state.fold = fold;
        state.ignored = ignored;
        state.kept = kept;
        state.stored.restore(authors);
        drop(state);
        self.head.send_replace(Some(head));
        if has_begun {
            shared.hub.sever(&self.name);
        }
        Ok(head)
    }

    /// Folds entries, hands them to the tails, then to the requests that wait for them.
    fn take(&self, shared: &Shared, messages: Vec<Stored>) -> u64 {
        let mut entries = Vec::with_capacity(messages.len());
        let mut awaited = Vec::new();
        let (mut head, mut grown) = (0, 0);
        let mut state = self.state();
        for message in &messages {
            head = message.sequence;
            // That it was to be forgotten.
            if message.subject == shared.link.names.shut(&self.name) {
                continue;
            }
            match self.entry(message) {
                Ok(entry) => {
                    grown += state.stored.add(&shared.options.quotas, &entry, message);
                    let ignored = match state.fold.apply(&entry) {
                        FoldEffect::Ignored(why) => Some(why),
                        FoldEffect::Counts | FoldEffect::FailsCalls => None,
                    };
                    if let Some((_, token)) = message.subject.rsplit_once('.')
                        && state.expected.remove(token)
                    {
                        awaited.push((token.to_owned(), Followed { entry: entry.clone(), ignored }));
                    }
                    match ignored {
                        Some(why) => drop(state.ignored.insert(head, why)),
                        None => entries.push(entry),
                    }
                }
                // Somebody else has written to the stream. It is not an entry, and no reader gets it.
                Err(fault) => {
                    tracing::error!(topic = %self.name, sequence = head, %fault, "nats: unreadable message skipped")
                }
            }
        }
        state.fold.pass(head);
        drop(state);
        shared.stored.lock().add_followed(grown);
        if !entries.is_empty() {
            shared.hub.feed(&self.name, &entries);
        }
        self.head.send_replace(Some(head));
        for awaited in awaited {
            // A lane that has ended waits for nothing.
            let _ = self.delivered.send(awaited);
        }
        head
    }
}

/// Makes an entry of a message.
pub(super) fn entry(epoch: u32, stored: &Stored) -> Result<Arc<Entry>, NatsFault> {
    let damaged = || NatsFault::Damaged(format!("the message {}", stored.sequence).into());
    let text = std::str::from_utf8(&stored.payload).map_err(|_| damaged())?;
    let envelope = Envelope::restore(text).map_err(|_| damaged())?;
    let position = Position { epoch, offset: stored.sequence };
    let stamp = stored.headers.get(STAMP).and_then(|stamp| Stamp::restore(stamp.as_str()));
    Ok(Arc::new(Entry { position, arrived: stored.time, stamp, envelope }))
}
