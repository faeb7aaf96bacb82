//! Appending to one topic: in the order of the calls, many on the wire at once.
//!
//! An append is acknowledged when the server has acknowledged it and this node has followed the topic up to it. Where no
//! acknowledgement came, nothing more is sent until it is known what became of everything on the wire: what is stored is done, and
//! what is not is sent again, unless something of a later call is stored; to put it behind that would change the order, which nobody but
//! its author can want.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use salon_protocol::{Entry, Envelope, Position, Stamp, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

use super::fault::NatsFault;
use super::follow::expecting;
use super::import::COPIED;
use super::link::Stored;
use super::names::token;
use super::timings::Timings;
use super::topic::{Followed, STAMP, Topic};
use super::{Shared, TOPIC};
use crate::append_future::AppendOutcome;
use crate::fold::may_be_ignored;
use crate::{AppendError, Appended};

/// How many appends are on the wire at once.
const MAX_IN_FLIGHT_APPENDS: usize = 256;
/// How long to wait before asking again.
const RETRY_DELAY: Duration = Duration::from_millis(250);

const LATE_ANSWER: &str = "NATS did not acknowledge in time";
const OVERTAKEN: &str = "it was lost on its way, and what was sent after it is stored: it would change places";

pub(super) struct NatsAppend {
    pub(super) envelope: Envelope,
    pub(super) stamp: Option<Stamp>,
    /// When it arrived in the log that it was copied from, where it was.
    pub(super) copied: Option<Timestamp>,
    /// When it was submitted: its time runs from there, however long others are in front of it.
    pub(super) since: Instant,
    pub(super) reply: oneshot::Sender<AppendOutcome>,
}

/// An append whose outcome is not known.
struct UnackedAppend {
    append: NatsAppend,
    /// Which call of this lane it was.
    call: u64,
    is_tried_again: bool,
    /// Where it is stored, and whether it had been before.
    stored: Option<(u64, bool)>,
    entry: Option<Followed>,
    /// Later calls with the same id.
    others: Vec<NatsAppend>,
}

type Acknowledged = (String, Result<u64, NatsFault>);
type LookedUp = (String, Result<Option<Stored>, NatsFault>);

pub(super) struct AppendLane {
    shared: Arc<Shared>,
    timings: Timings,
    topic: Arc<Topic>,
    pending: HashMap<String, UnackedAppend>,
    acknowledgements: FuturesUnordered<BoxFuture<'static, Acknowledged>>,
    lookups: FuturesUnordered<BoxFuture<'static, LookedUp>>,
    /// Appends that waited for one with the same id, which was not it.
    deferred: VecDeque<NatsAppend>,
    /// Calls of which it is not known whether they are stored.
    unsettled: BTreeMap<u64, String>,
    calls: u64,
    /// The latest call that is stored.
    latest_stored: u64,
}

impl AppendLane {
    pub(super) fn new(shared: Arc<Shared>, topic: Arc<Topic>) -> Self {
        Self {
            timings: shared.link.timings,
            shared,
            topic,
            pending: HashMap::new(),
            acknowledgements: FuturesUnordered::new(),
            lookups: FuturesUnordered::new(),
            deferred: VecDeque::new(),
            unsettled: BTreeMap::new(),
            calls: 0,
            latest_stored: 0,
        }
    }

    /// Works until nobody can append any more and everything that was is settled.
    pub(super) async fn run(
        mut self,
        mut appends: mpsc::UnboundedReceiver<NatsAppend>,
        mut delivered: mpsc::UnboundedReceiver<(String, Followed)>,
    ) {
        let mut is_open = true;
        let mut late = tokio::time::interval(self.timings.entry_timeout);
        // It is looked at only while something is pending: what it has missed meanwhile is not made up for.
        late.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_clear = self.unsettled.is_empty() && self.acknowledgements.len() < MAX_IN_FLIGHT_APPENDS;
            let can_settle = !self.unsettled.is_empty() && self.acknowledgements.is_empty() && self.lookups.is_empty();
            tokio::select! { biased;
                Some((token, entry)) = delivered.recv() => self.deliver(&token, entry),
                Some((token, told)) = self.acknowledgements.next() => self.acknowledge(token, told),
                Some((token, found)) = self.lookups.next() => self.find(&token, found),
                () = std::future::ready(()), if can_settle => self.settle(&mut delivered).await,
                () = std::future::ready(()), if is_clear && !self.deferred.is_empty() => {
                    if let Some(append) = self.deferred.pop_front() {
                        self.take(append).await;
                    }
                }
                append = appends.recv(), if is_open && is_clear => match append {
                    Some(append) => self.take(append).await,
                    None => is_open = false,
                },
                _ = late.tick(), if !self.pending.is_empty() => self.look_for_the_late(),
                else => {}
            }
            if !is_open && self.pending.is_empty() && self.deferred.is_empty() {
                self.topic.ended.send_replace(true);
                return;
            }
        }
    }

    async fn take(&mut self, append: NatsAppend) {
        let token = token(append.envelope.id().as_str());
        if let Some(first) = self.pending.get_mut(&token) {
            return first.others.push(append);
        }
        let refused = match self.ready(&append).await {
            Err(refused) => Some(refused),
            Ok(()) => self.bounds(&append).await.err(),
        };
        if let Some(refused) = refused {
            // The appender may have gone, here and below.
            let _ = append.reply.send(Err(refused));
            return;
        }
        self.calls += 1;
        let pending = UnackedAppend {
            append,
            call: self.calls,
            is_tried_again: false,
            stored: None,
            entry: None,
            others: Vec::new(),
        };
        self.topic.expect(&token);
        self.pending.insert(token.clone(), pending);
        self.send(token).await;
    }

    /// Whether an envelope is short enough, and the quotas allow it. One that is stored already is known, whatever they say, and for a
    /// copy they do not hold.
    async fn bounds(&mut self, NatsAppend { envelope, copied, .. }: &NatsAppend) -> Result<(), AppendError> {
        if envelope.text().len() > self.shared.longest() {
            return Err(AppendError::TooLarge(self.shared.longest()));
        }
        if copied.is_some() {
            return Ok(());
        }
        let Err(exceeded) = self.topic.check_quotas(&self.shared, envelope) else { return Ok(()) };
        let subject = self.topic.place.subjects.entry(envelope.id());
        match self.shared.link.newest(self.topic.place.stream(), &subject).await? {
            Some(_) => Ok(()),
            None => {
                self.shared.quota_exceeded.notify_one();
                Err(AppendError::Quota(exceeded))
            }
        }
    }

    /// Whether an append can be sent: one that waited behind others for too long is refused, and so is every one while NATS cannot be
    /// reached, because working off a queue of them would take the patience of each.
    async fn ready(&mut self, append: &NatsAppend) -> Result<(), AppendError> {
        if append.since.elapsed() >= self.timings.append_timeout {
            return Err(AppendError::Unavailable(LATE_ANSWER.into()));
        }
        match self.shared.trouble() {
            Some(why) => Err(AppendError::Unavailable(why)),
            None => self.make(append.since).await,
        }
    }

    /// Sees to it that there may be such a topic, for no longer than an append of some time is tried: nothing else is done meanwhile.
    async fn make(&mut self, since: Instant) -> Result<(), AppendError> {
        self.shared.link.connected()?;
        let deadline = since + self.timings.append_timeout;
        let made = tokio::time::timeout_at(deadline.into(), self.shared.make_room(&self.topic)).await;
        made.unwrap_or_else(|_| Err(AppendError::Unavailable("the topics could not be counted in time".into())))
    }

    async fn send(&mut self, token: String) {
        let Some(pending) = self.pending.get(&token) else { return };
        let subject = self.topic.place.subjects.entry(pending.append.envelope.id());
        let text = Bytes::copy_from_slice(pending.append.envelope.text().as_bytes());
        let mut headers = expecting(0);
        headers.insert(TOPIC, self.topic.name.as_str());
        if let Some(stamp) = &pending.append.stamp {
            headers.insert(STAMP, stamp.text());
        }
        if let Some(arrived) = pending.append.copied {
            headers.insert(COPIED, arrived.0.to_string());
        }
        match self.shared.link.send(subject, headers, text).await {
            Ok(acknowledgement) => {
                self.acknowledgements.push(Box::pin(async move { (token, acknowledgement.await) }));
            }
            Err(fault) => self.acknowledge(token, Err(fault)),
        }
    }

    fn acknowledge(&mut self, token: String, told: Result<u64, NatsFault>) {
        let Some(pending) = self.pending.get_mut(&token) else { return };
        match told {
            Ok(sequence) => {
                pending.stored = Some((sequence, false));
                self.latest_stored = self.latest_stored.max(pending.call);
                self.finish_if_known(&token);
            }
            // The id is taken: by whom tells the entry.
            Err(NatsFault::Raced) => self.look_up(token),
            Err(NatsFault::Unavailable(_)) => _ = self.unsettled.insert(pending.call, token),
            // Nobody leads the shard now.
            Err(NatsFault::Missing) => _ = self.unsettled.insert(pending.call, token),
            Err(fault) => self.finish(&token, Err(fault.into())),
        }
    }

    fn look_up(&mut self, token: String) {
        let Some(pending) = self.pending.get(&token) else { return };
        let subject = self.topic.place.subjects.entry(pending.append.envelope.id());
        let (link, place) = (self.shared.link.clone(), self.topic.place.clone());
        // One that was tried before or is acknowledged may be what is found.
        let is_new = !pending.is_tried_again && pending.stored.is_none();
        self.lookups.push(Box::pin(async move {
            let found = link.newest(place.stream(), &subject).await;
            let removed = place.indexed(|index| index.removed.through).unwrap_or_default();
            let found = match found {
                // Retention has removed it, though it is not purged yet: it has no claim to the id.
                Ok(Some(stored)) if is_new && stored.sequence <= removed => {
                    link.purge(place.stream(), Some(&subject), stored.sequence + 1).await.map(|()| None)
                }
                found => found,
            };
            (token, found)
        }));
    }

    fn deliver(&mut self, token: &str, entry: Followed) {
        if let Some(pending) = self.pending.get_mut(token) {
            pending.entry = Some(entry);
            self.finish_if_known(token);
        }
    }

    fn finish_if_known(&mut self, token: &str) {
        if let Some(UnackedAppend { stored: Some((_, repeated)), entry: Some(followed), .. }) = self.pending.get(token)
        {
            self.finish(token, outcome(followed.clone(), *repeated));
        }
    }

    /// Compares an append with what has its id.
    fn find(&mut self, token: &str, found: Result<Option<Stored>, NatsFault>) {
        let Some(pending) = self.pending.get_mut(token) else { return };
        let entry = match found {
            Ok(Some(stored)) => self.topic.entry(&stored),
            // It was acknowledged, so it was there: retention was faster. To send it again would be to say it twice.
            Ok(None) if pending.stored.is_some() => {
                let offset = pending.stored.map_or(0, |(offset, _)| offset);
                let position = Position { epoch: self.shared.epoch, offset };
                let NatsAppend { envelope, stamp, copied, .. } = &pending.append;
                let arrived = copied.unwrap_or_else(|| Timestamp::from_system(SystemTime::now()));
                Ok(Arc::new(Entry { position, arrived, stamp: stamp.clone(), envelope: envelope.clone() }))
            }
            Ok(None) | Err(NatsFault::Unavailable(_)) => {
                self.unsettled.insert(pending.call, token.to_owned());
                return;
            }
            Err(fault) => Err(fault),
        };
        match entry {
            Err(fault) => self.finish(token, Err(fault.into())),
            Ok(entry) if entry.envelope.text() != pending.append.envelope.text() => {
                self.finish(token, Err(AppendError::IdConflict));
            }
            Ok(entry) => {
                let offset = entry.position.offset;
                match pending.stored {
                    Some((stored, _)) if stored == offset => {}
                    // One that was tried before is most likely that very try.
                    _ => pending.stored = Some((offset, !pending.is_tried_again)),
                }
                if pending.is_tried_again {
                    self.latest_stored = self.latest_stored.max(pending.call);
                }
                // What has been passed already will not come by, and nobody waits for ever.
                let is_passed = self.topic.head().is_some_and(|head| head >= offset);
                let is_overdue = pending.append.since.elapsed() >= self.timings.append_timeout;
                if !is_passed && is_overdue && may_be_ignored(&entry.envelope) {
                    // Whether it counts is known only once everything before it has come by.
                    return self.finish(token, Err(AppendError::Unavailable(LATE_ANSWER.into())));
                }
                if is_passed || is_overdue {
                    let ignored = self.topic.ignored_at(offset);
                    pending.entry.get_or_insert(Followed { entry, ignored });
                }
                self.finish_if_known(token);
            }
        }
    }

    /// Finds out what became of everything that was not acknowledged, and then sends again what may be. Nothing is decided before
    /// everything is known: what is looked up last may be what an earlier one must not be put behind.
    async fn settle(&mut self, delivered: &mut mpsc::UnboundedReceiver<(String, Followed)>) {
        let oldest = self.unsettled.first_key_value().and_then(|(_, token)| self.pending.get(token));
        let deadline = oldest.map_or_else(Instant::now, |oldest| oldest.append.since) + self.timings.append_timeout;
        let mut connection = self.shared.link.connection.subscribe();
        let connected = connection.wait_for(|connection| connection.is_up);
        let _ = tokio::time::timeout_at(deadline.into(), connected).await;
        while let Ok((token, entry)) = delivered.try_recv() {
            self.deliver(&token, entry);
        }

        let (mut asked, mut unanswered) = (Vec::new(), BTreeMap::new());
        for (call, token) in std::mem::take(&mut self.unsettled) {
            let Some(pending) = self.pending.get_mut(&token) else { continue };
            let text = pending.append.envelope.text();
            // What has come by is stored and everybody has it, though nobody said so, and however late it is.
            if let Some(followed) = pending.entry.clone().filter(|followed| followed.entry.envelope.text() == text) {
                self.latest_stored = self.latest_stored.max(call);
                self.finish(&token, outcome(followed, false));
                continue;
            }
            if pending.append.since.elapsed() >= self.timings.append_timeout {
                self.finish(&token, Err(AppendError::Unavailable(LATE_ANSWER.into())));
                continue;
            }
            pending.is_tried_again = true;
            let subject = self.topic.place.subjects.entry(pending.append.envelope.id());
            let (link, stream) = (self.shared.link.clone(), self.topic.place.stream().to_owned());
            unanswered.insert(call, token);
            asked.push(async move { (call, link.newest(&stream, &subject).await) });
        }
        // All at once, because a server that is silent is so to each of them.
        let mut answers: FuturesUnordered<_> = asked.into_iter().collect();
        let mut absent = BTreeMap::new();
        while let Ok(Some((call, answer))) = tokio::time::timeout_at(deadline.into(), answers.next()).await {
            let Some(token) = unanswered.remove(&call) else { continue };
            match answer {
                Ok(None) if self.pending.get(&token).is_some_and(|pending| pending.stored.is_none()) => {
                    absent.insert(call, token);
                }
                Ok(found) => self.find(&token, Ok(found)),
                Err(NatsFault::Unavailable(_)) => _ = self.unsettled.insert(call, token),
                Err(fault) => self.finish(&token, Err(fault.into())),
            }
        }
        self.unsettled.append(&mut unanswered);
        for (call, token) in absent {
            let Some(since) = self.pending.get(&token).map(|pending| pending.append.since) else { continue };
            if call < self.latest_stored {
                self.finish(&token, Err(AppendError::Unavailable(OVERTAKEN.into())));
            } else if !self.unsettled.is_empty() {
                // Not before what was called earlier, and not behind what was called later.
                self.unsettled.insert(call, token);
            } else {
                match self.make(since).await {
                    Ok(()) => self.send(token).await,
                    Err(AppendError::Unavailable(_)) => _ = self.unsettled.insert(call, token),
                    Err(refused) => self.finish(&token, Err(refused)),
                }
            }
        }
        if !self.unsettled.is_empty() {
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// Asks for entries that are stored and did not come by: following may have been interrupted, or retention been faster.
    fn look_for_the_late(&mut self) {
        let timeout = self.timings.entry_timeout;
        let late = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.stored.is_some() && pending.append.since.elapsed() >= timeout);
        for token in late.map(|(token, _)| token.clone()).collect::<Vec<_>>() {
            self.look_up(token);
        }
    }

    fn finish(&mut self, token: &str, outcome: AppendOutcome) {
        let Some(pending) = self.pending.remove(token) else { return };
        self.topic.expect_no_more(token);
        for other in pending.others {
            let outcome = match &outcome {
                Ok(first) if first.entry.envelope.text() == other.envelope.text() => {
                    Ok(Appended { entry: first.entry.clone(), repeated: true })
                }
                Ok(_) => Err(AppendError::IdConflict),
                // The entry with this id may have just this text.
                Err(AppendError::IdConflict) => {
                    self.deferred.push_back(other);
                    continue;
                }
                Err(error) => Err(error.clone()),
            };
            let _ = other.reply.send(outcome);
        }
        let _ = pending.append.reply.send(outcome);
    }
}

/// What becomes of an append whose entry has come by.
fn outcome(Followed { entry, ignored }: Followed, repeated: bool) -> AppendOutcome {
    match ignored {
        Some(why) => Err(why.into()),
        None => Ok(Appended { entry, repeated }),
    }
}
