//! A topic as this node follows it: what its entries add up to, and who waits for one of them.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use salon_control::{ControlNotice, TopicRetention};
use salon_protocol::{Entry, Envelope, Position, Stamp, TopicName};
use tokio::sync::{Notify, mpsc, watch};

use super::Shared;
use super::fault::NatsFault;
use super::import;
use super::lane::NatsAppend;
use super::link::Stored;
use super::redact;
use super::shard::TopicAddress;
use super::snapshot::Snapshot;
use super::stored::FollowedBytes;
use super::topic_facts::TopicFacts;
use super::topic_index::TopicIndex;
use crate::{Deletion, Fold, FoldEffect, Ignored, Standing};

/// How long to wait before looking again for what was not reachable.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// How much may come by while a topic is read from the past. Beyond that, it is read further.
const MAX_BUFFERED_ENTRIES: usize = 4096;
const MAX_BUFFERED_BYTES: usize = 4 << 20;
/// How many messages are read at once from the past.
const PAGE_MESSAGES: usize = 512;

/// The header with an entry's stamp.
pub(super) const STAMP: &str = "Salon-Stamp";

pub(super) struct Topic {
    pub(super) name: TopicName,
    pub(super) place: TopicAddress,
    epoch: u32,
    /// `None` once nothing more is taken.
    appends: Mutex<Option<mpsc::UnboundedSender<NatsAppend>>>,
    delivered: mpsc::UnboundedSender<(String, Followed)>,
    state: Mutex<FollowState>,
    /// How far it has been followed; `None` until that is known.
    head: watch::Sender<Option<u64>>,
    /// It must be read from what was kept again.
    broken: Notify,
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

/// What comes by for a topic.
pub(super) enum TopicEvent {
    Message(Stored),
    /// Everything up to a sequence is removed.
    Trimmed(u64),
    /// Nothing of it is left: the topic is forgotten.
    Forgotten,
}

impl TopicEvent {
    fn bytes(&self) -> usize {
        match self {
            Self::Message(stored) => stored.payload.len(),
            Self::Trimmed(_) | Self::Forgotten => 0,
        }
    }
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
    /// How many messages have been folded since.
    behind: u64,
    pub(super) stored: FollowedBytes,
    /// Whether what comes by is folded. Otherwise it waits until the past is.
    is_live: bool,
    early: VecDeque<TopicEvent>,
    early_bytes: usize,
    /// Something that came by was not kept.
    has_missed: bool,
    /// The redactions that came by and are not carried out, by the sequences of their notices.
    erasing: BTreeSet<u64>,
}

impl FollowState {
    /// What to keep of the entries so far. Calls that retention has removed are part of it: whether an answer counts must not depend
    /// on which node has looked after retention, and when. `None` while the topic is read from the past again: its fold may lack entries then. And
    /// while a redaction is not carried out: by what is kept, which has its notice, nobody would carry it out.
    fn snapshot(&mut self, epoch: u32, trimmed: u64) -> Option<Snapshot> {
        if !self.is_live || self.is_erasing() {
            return None;
        }
        self.ignored = self.ignored.split_off(&(trimmed + 1));
        let ignored = self.ignored.iter().map(|(offset, end)| (*offset, *end)).collect();
        self.stored.trim(trimmed);
        Some(Snapshot::new(self.fold.standing(epoch, 0), ignored, self.stored.form()))
    }

    /// Whether a redaction is not carried out. A deletion after it removes what it redacts.
    fn is_erasing(&self) -> bool {
        let deleted = self.fold.deletion().map_or(0, |deletion| deletion.at);
        self.erasing.last().is_some_and(|newest| *newest > deleted)
    }
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
            place: shared.place(name),
            epoch: shared.epoch,
            appends: Mutex::new(Some(appends)),
            delivered,
            state: Mutex::default(),
            head: watch::Sender::new(None),
            broken: Notify::new(),
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

    /// What to keep of the entries so far, if that may be kept now.
    pub(super) fn snapshot(&self, trimmed: u64) -> Option<Snapshot> {
        self.state().snapshot(self.epoch, trimmed)
    }

    /// Why the entry at an offset counts for nothing, if it does. Only for what has been followed.
    pub(super) fn ignored_at(&self, offset: u64) -> Option<Ignored> {
        self.state().ignored.get(&offset).copied()
    }

    /// The newest deletion of the topic, as far as it has been followed.
    pub(super) fn deletion(&self) -> Option<Deletion> {
        self.state().fold.deletion()
    }

    /// The retention in the topic's settings, as far as it has been followed.
    pub(super) fn retention(&self) -> Option<TopicRetention> {
        self.state().fold.settings().map(|settings| settings.retention)
    }

    /// What was kept last, as far as this node knows: its revision, and as of where.
    pub(super) fn kept(&self) -> Option<(u64, u64)> {
        self.state().kept
    }

    pub(super) fn note_kept(&self, revision: u64, head: u64) {
        let mut state = self.state();
        state.kept = Some((revision, head));
        state.behind = 0;
    }

    /// How many messages have been folded since something was kept.
    pub(super) fn behind(&self) -> u64 {
        self.state().behind
    }

    /// The messages that a redaction names are erased, or are not. Says whether one that came by is still not carried out.
    pub(super) fn note_erased(&self, notice: u64, is_erased: bool) -> bool {
        let mut state = self.state();
        match is_erased {
            true => state.erasing.remove(&notice),
            false => state.erasing.insert(notice),
        };
        state.is_erasing()
    }

    /// Whether a redaction that came by is not carried out, by the sequence of its notice.
    pub(super) fn has_pending_redaction(&self, notice: u64) -> bool {
        self.state().erasing.contains(&notice)
    }

    /// What the fold says of the topic, if it has everything up to a sequence, and where that differs from what is known.
    pub(super) fn corrected_facts(&self, head: u64, removed_through: u64, known: &TopicFacts) -> Option<TopicFacts> {
        let state = self.state();
        let is_whole = state.is_live && state.fold.through() >= head;
        if is_whole { known.corrected(&state.fold, removed_through, state.is_erasing()) } else { None }
    }

    /// Makes an entry of a message.
    pub(super) fn entry(&self, stored: &Stored) -> Result<Arc<Entry>, NatsFault> {
        entry(self.epoch, stored)
    }

    /// Lets what comes by from now on wait until the past is folded.
    pub(super) fn await_events(&self) {
        let mut state = self.state();
        state.is_live = false;
        state.early.clear();
        (state.early_bytes, state.has_missed) = (0, false);
    }

    /// Reads the topic from what was kept again: something was removed before it came by.
    pub(super) fn restart(&self) {
        self.await_events();
        self.state().has_missed = true;
        self.head.send_replace(None);
        self.broken.notify_one();
    }

    /// Follows the topic until it is stopped, whatever happens to the connection. What is new the shard brings; here is what was before.
    pub(super) async fn follow(self: Arc<Self>, shared: Arc<Shared>) {
        let mut stop = self.stop.subscribe();
        let stopped = async { drop(stop.wait_for(|stop| *stop).await) };
        tokio::pin!(stopped);
        loop {
            let restored = tokio::select! { biased;
                () = &mut stopped => break,
                restored = self.restore(&shared) => restored,
            };
            let pause = match restored {
                Ok(()) => None,
                // Where messages were removed that were to be read, the next try begins after them.
                Err(NatsFault::Unavailable(_) | NatsFault::Missing) => Some(RETRY_DELAY),
                Err(fault) => {
                    tracing::warn!(topic = %self.name, %fault, "nats: following a topic failed, retrying");
                    Some(shared.link.timings.look_interval)
                }
            };
            tokio::select! { biased;
                () = &mut stopped => break,
                () = self.broken.notified(), if pause.is_none() => {}
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
        }
        self.place.shard.detach(&self);
    }

    /// Folds what was before from what was kept, or from the oldest entry there is, and then what has come by meanwhile.
    async fn restore(self: &Arc<Self>, shared: &Arc<Shared>) -> Result<(), NatsFault> {
        self.head.send_replace(None);
        // Up to where it is known that entries are removed.
        let mut known = 0;
        loop {
            let kept = Snapshot::load(shared, &self.name).await?;
            self.place.shard.freshen(shared).await?;
            let mut through = self.place.shard.attach(self);
            let indexed = self.place.indexed(|index| (index.removed.through, index.removed.count, index.head));
            let (trimmed, removed, head) = indexed.unwrap_or_default();
            // What is removed was kept before, but maybe only after it was looked for.
            let kept_head = kept.as_ref().map_or(0, |(_, kept)| kept.head);
            if removed > 0 && trimmed > kept_head.max(known) {
                known = trimmed;
                continue;
            }
            let ((fold, ignored, authors), kept_head, kept) = match kept {
                // Nothing can be built on what stood on entries that are lost.
                Some((revision, kept)) if kept.head > through => {
                    tracing::error!(topic = %self.name, "nats: stored entries lost, rebuilding presence");
                    (Default::default(), trimmed, Some((revision, 0)))
                }
                Some((revision, kept)) => {
                    let head = kept.head;
                    (kept.parts(), head, Some((revision, head)))
                }
                None => (Default::default(), trimmed, None),
            };
            let begin = kept_head.max(trimmed);
            {
                let mut state = self.state();
                state.fold = fold;
                state.fold.pass(begin);
                (state.ignored, state.kept, state.behind) = (ignored, kept, 0);
                state.stored.restore(authors);
            }
            if self.fold_past(shared, begin, head, &mut through).await? {
                return Ok(());
            }
        }
    }

    /// Folds everything after a sequence. `false` where something was removed meanwhile that should have been folded.
    async fn fold_past(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        begin: u64,
        head: u64,
        through: &mut u64,
    ) -> Result<bool, NatsFault> {
        let mut at = if head <= begin { *through } else { begin };
        loop {
            let is_read = at < *through;
            while at < *through {
                let page = shared.messages(&self.place, at, *through, PAGE_MESSAGES, usize::MAX).await?;
                let events = page.messages.into_iter().map(TopicEvent::Message);
                let folded = self.fold(shared, &mut self.state(), events);
                self.deliver(folded.awaited);
                at = page.through;
            }
            if is_read {
                // What was removed before it was read has a mark, which has come by after this.
                self.place.shard.freshen(shared).await?;
            }
            // What came by was maybe too much to be kept, and a mark among it.
            let is_removed = |index: &TopicIndex| index.removed.count > 0 && index.removed.through > begin;
            if self.place.indexed(is_removed) == Some(true) {
                return Ok(false);
            }
            {
                let mut state = self.state();
                let is_removed = |event: &TopicEvent| matches!(event, TopicEvent::Trimmed(through) if *through > begin);
                if state.early.iter().any(is_removed) {
                    return Ok(false);
                }
                if !state.has_missed {
                    let early = std::mem::take(&mut state.early);
                    state.early_bytes = 0;
                    let folded = self.fold(shared, &mut state, early.into_iter());
                    // Before anything is fed that follows: a reader that was fed what was before reads what is between.
                    shared.hub.sever(&self.name);
                    state.is_live = true;
                    let head = state.fold.through();
                    drop(state);
                    self.head.send_replace(Some(head));
                    self.deliver(folded.awaited);
                    return Ok(true);
                }
            }
            *through = self.place.shard.attach(self);
        }
    }

    /// Takes what comes by: at once, or later.
    pub(super) fn take(&self, shared: &Arc<Shared>, events: Vec<TopicEvent>) {
        {
            let mut state = self.state();
            if !state.is_live {
                state.early_bytes += events.iter().map(TopicEvent::bytes).sum::<usize>();
                state.early.extend(events);
                if state.early.len() > MAX_BUFFERED_ENTRIES || state.early_bytes > MAX_BUFFERED_BYTES {
                    state.early.clear();
                    (state.early_bytes, state.has_missed) = (0, true);
                }
                return;
            }
        }
        let folded = self.fold(shared, &mut self.state(), events.into_iter());
        if folded.is_severed {
            shared.hub.sever(&self.name);
        }
        if !folded.entries.is_empty() {
            shared.hub.feed(&self.name, &folded.entries);
        }
        if let Some(head) = folded.head {
            self.head.send_replace(Some(head));
        }
        self.deliver(folded.awaited);
    }

    fn deliver(&self, awaited: Vec<(String, Followed)>) {
        for awaited in awaited {
            // A lane that has ended waits for nothing.
            let _ = self.delivered.send(awaited);
        }
    }

    /// Folds what comes. What is folded already changes nothing.
    fn fold(
        &self,
        shared: &Arc<Shared>,
        state: &mut FollowState,
        events: impl Iterator<Item = TopicEvent>,
    ) -> FoldedEvents {
        let mut folded = FoldedEvents::default();
        for event in events {
            match event {
                TopicEvent::Trimmed(through) => state.stored.trim(through),
                TopicEvent::Forgotten => {
                    (state.fold, state.ignored, state.kept) = Default::default();
                    state.stored.restore(Vec::new());
                    folded.entries.clear();
                    folded.is_severed = true;
                }
                TopicEvent::Message(message) if message.sequence > state.fold.through() => {
                    let head = message.sequence;
                    state.behind += 1;
                    self.fold_message(shared, state, &mut folded, message);
                    state.fold.pass(head);
                    folded.head = Some(head);
                }
                TopicEvent::Message(_) => {}
            }
        }
        folded
    }

    fn fold_message(&self, shared: &Arc<Shared>, state: &mut FollowState, folded: &mut FoldedEvents, message: Stored) {
        // What stands for a message that was erased.
        if redact::is_record(&message) {
            return;
        }
        let entry = match self.entry(&message) {
            Ok(entry) => entry,
            // Somebody else has written to the stream. It is not an entry, and no reader gets it.
            Err(fault) => {
                let sequence = message.sequence;
                return tracing::error!(topic = %self.name, sequence, %fault, "nats: unreadable message skipped");
            }
        };
        if import::is_settings(&message) {
            return state.fold.adopt(&entry);
        }
        let is_copied = import::copied_at(&message).is_some();
        state.stored.add(&shared.options.quotas, &entry, &message);
        if let Some(ControlNotice::Redacted(redaction)) = ControlNotice::of(&entry.envelope)
            && !is_copied
        {
            state.erasing.insert(message.sequence);
            let erasing = shared.clone().erase_all(self.name.clone(), message.sequence, *redaction);
            shared.lanes.lock().spawn_on(erasing, &shared.runtime);
        }
        let ignored = match is_copied {
            true => {
                state.fold.adopt(&entry);
                None
            }
            false => match state.fold.apply(&entry) {
                FoldEffect::Ignored(why) => Some(why),
                FoldEffect::Counts | FoldEffect::FailsCalls => None,
            },
        };
        if let Some((_, token)) = message.subject.rsplit_once('.')
            && state.expected.remove(token)
        {
            folded.awaited.push((token.to_owned(), Followed { entry: entry.clone(), ignored }));
        }
        match ignored {
            Some(why) => drop(state.ignored.insert(message.sequence, why)),
            None => folded.entries.push(entry),
        }
    }
}

/// What was folded, for the tasks that wait for it.
#[derive(Default)]
struct FoldedEvents {
    /// For the tails.
    entries: Vec<Arc<Entry>>,
    /// For the lane.
    awaited: Vec<(String, Followed)>,
    head: Option<u64>,
    /// Whether the tails must read, because what follows is another topic of the name.
    is_severed: bool,
}

/// Makes an entry of a message.
pub(super) fn entry(epoch: u32, stored: &Stored) -> Result<Arc<Entry>, NatsFault> {
    let damaged = || NatsFault::Damaged(format!("the message {}", stored.sequence).into());
    let text = std::str::from_utf8(&stored.payload).map_err(|_| damaged())?;
    let envelope = Envelope::restore(text).map_err(|_| damaged())?;
    let own = || (stored.sequence, import::copied_at(stored).unwrap_or(stored.time));
    let (offset, arrived) = redact::stands_for(stored).unwrap_or_else(own);
    let position = Position { epoch, offset };
    let stamp = stored.headers.get(STAMP).and_then(|stamp| Stamp::restore(stamp.as_str()));
    Ok(Arc::new(Entry { position, arrived, stamp, envelope }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fold_that_may_lack_entries_is_not_kept() {
        let mut state = FollowState::default();
        state.fold.pass(7);
        assert!(state.snapshot(1, 0).is_none(), "the topic is read from the past again");
        state.is_live = true;
        assert_eq!(state.snapshot(1, 0).map(|snapshot| snapshot.head), Some(7));
    }

    #[test]
    fn a_fold_is_not_kept_while_any_redaction_is_not_carried_out() {
        let mut state = FollowState { is_live: true, erasing: BTreeSet::from([3, 5]), ..FollowState::default() };
        for is_kept in [false, false, true] {
            assert_eq!((state.snapshot(1, 0).is_some(), state.is_erasing()), (is_kept, !is_kept));
            state.erasing.pop_last();
        }
    }
}
