//! How much may be published: by one participant, into one topic, at one gateway. Zero switches a limit off.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{Code, ParticipantId, RateLimit, Refusal, TokenBucket};

/// So many a second in the long run, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// A second, in the long run. Zero is no limit.
    pub per_second: u32,
    /// At once. Zero is as many as `per_second`.
    pub burst: u32,
}

impl Rate {
    /// No limit.
    pub const UNLIMITED: Self = Self { per_second: 0, burst: 0 };

    fn limit(self) -> Option<RateLimit> {
        let burst = if self.burst == 0 { self.per_second } else { self.burst };
        (self.per_second > 0).then(|| RateLimit::per_second(self.per_second, burst))
    }
}

impl Default for Rate {
    fn default() -> Self {
        Self { per_second: 100, burst: 1000 }
    }
}

/// How many bytes of envelopes may be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRates {
    /// By one participant.
    pub participant: Rate,
    /// Into one topic.
    pub topic: Rate,
    /// By everybody at this gateway.
    pub gateway: Rate,
}

impl ByteRates {
    /// No limit.
    pub const UNLIMITED: Self = Self { participant: Rate::UNLIMITED, topic: Rate::UNLIMITED, gateway: Rate::UNLIMITED };
}

/// How long the description of a participant may be to count as one join.
const JOIN_BYTES: usize = 4096;

/// How often the participants are forgotten that have everything left, by all rooms of a gateway together.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// There was too much: the refusal, and how long its author should wait.
pub(crate) type Excess = (Refusal, Duration);

/// What each participant has left of its messages and bytes, whatever rooms and connections it uses.
pub(crate) struct Rates {
    /// Whose they are, and the settings that limit messages and bytes.
    names: RateNames,
    rate: Rate,
    messages: Option<RateLimit>,
    bytes: Option<RateLimit>,
    byte_rate: Rate,
    budgets: Mutex<HashMap<ParticipantId, ParticipantBudget>>,
    began: Instant,
    /// How many intervals had passed since `began` at the newest sweep.
    swept_intervals: AtomicU64,
}

struct RateNames {
    of: &'static str,
    messages: &'static str,
    bytes: &'static str,
}

#[derive(Default)]
struct ParticipantBudget {
    messages: TokenBucket,
    /// Progress and cancellations of the participant's own calls.
    notifications: TokenBucket,
    /// Joins, which are stored as well.
    joins: TokenBucket,
    bytes: TokenBucket,
}

impl Rates {
    pub(crate) fn new(rate: Rate, byte_rate: Rate) -> Self {
        Self::named(RateNames { of: "participant", messages: "", bytes: "limits.byte_rate" }, rate, byte_rate)
    }

    /// What bridges have left for their ghosts.
    pub(crate) fn of_bridges(rate: Rate, byte_rate: Rate) -> Self {
        let messages = " of this bridge's ghosts (`limits.bridge_rate`)";
        Self::named(RateNames { of: "bridge", messages, bytes: "limits.bridge_byte_rate" }, rate, byte_rate)
    }

    fn named(names: RateNames, rate: Rate, byte_rate: Rate) -> Self {
        let (messages, bytes) = (rate.limit(), byte_rate.limit());
        let (budgets, swept_intervals) = (Mutex::default(), AtomicU64::new(0));
        Self { names, rate, messages, bytes, byte_rate, budgets, began: Instant::now(), swept_intervals }
    }

    /// Takes one message that is not published; otherwise says how long until there is one.
    pub(crate) fn take_message(&self, participant: &ParticipantId) -> Result<(), Duration> {
        let Some(limit) = &self.messages else { return Ok(()) };
        let mut budgets = self.budgets();
        limit.take(&mut budget_of(&mut budgets, participant).messages, 1, self.began.elapsed())
    }

    /// Takes one message and its bytes, or neither.
    pub(crate) fn take(&self, participant: &ParticipantId, bytes: usize) -> Result<(), Excess> {
        self.take_from(participant, bytes, |budget, limit, now| limit.take(&mut budget.messages, 1, now))
    }

    /// The same for the cancellation of a call, which has a rate of its own before it counts like any other message.
    pub(crate) fn take_cancellation(&self, participant: &ParticipantId, bytes: usize) -> Result<(), Excess> {
        self.take_from(participant, bytes, |budget, limit, now| {
            limit.take(&mut budget.notifications, 1, now).or_else(|_| limit.take(&mut budget.messages, 1, now))
        })
    }

    /// Takes a join. It has the rate of messages and a budget of its own, so that a participant that says much can come back; a long description
    /// counts as several.
    pub(crate) fn take_join(&self, participant: &ParticipantId, description: usize) -> Result<(), Excess> {
        let Some(limit) = &self.messages else { return Ok(()) };
        let joins = 1 + count(description / JOIN_BYTES);
        let mut budgets = self.budgets();
        let taken = limit.take(&mut budget_of(&mut budgets, participant).joins, joins, self.began.elapsed());
        taken.map_err(|wait| (self.refusal(wait), wait))
    }

    /// An answer costs no message, and its bytes the caller; once that is in debt, the participant that answers.
    pub(crate) fn take_answer(
        &self,
        participant: &ParticipantId,
        caller: &ParticipantId,
        bytes: usize,
    ) -> Result<(), Excess> {
        let Some(limit) = &self.bytes else { return Ok(()) };
        let (mut budgets, now) = (self.budgets(), self.began.elapsed());
        let payer = budget_of(&mut budgets, caller);
        if limit.wait(&payer.bytes, 1, now).is_zero() {
            limit.owe(&mut payer.bytes, count(bytes), now);
            return Ok(());
        }
        drop(budgets);
        self.take_from(participant, bytes, |_, _, _| Ok(()))
    }

    /// Progress costs its caller a notification and its bytes, never a message: whom it called cannot keep it from sending. Once the caller
    /// has no notification left or is in debt, it costs the participant that reports it a message like any other.
    pub(crate) fn take_progress(
        &self,
        participant: &ParticipantId,
        caller: &ParticipantId,
        bytes: usize,
    ) -> Result<(), Excess> {
        let (mut budgets, now) = (self.budgets(), self.began.elapsed());
        let payer = budget_of(&mut budgets, caller);
        let has_bytes = self.bytes.is_none_or(|limit| limit.wait(&payer.bytes, 1, now).is_zero());
        let mut take = |limit: &RateLimit| limit.take(&mut payer.notifications, 1, now).is_ok();
        if has_bytes && self.messages.as_ref().is_none_or(&mut take) {
            if let Some(limit) = &self.bytes {
                limit.owe(&mut payer.bytes, count(bytes), now);
            }
            return Ok(());
        }
        drop(budgets);
        self.take(participant, bytes)
    }

    fn take_from(
        &self,
        participant: &ParticipantId,
        bytes: usize,
        take_message: impl FnOnce(&mut ParticipantBudget, &RateLimit, Duration) -> Result<(), Duration>,
    ) -> Result<(), Excess> {
        if self.messages.is_none() && self.bytes.is_none() {
            return Ok(());
        }
        let (mut budgets, now) = (self.budgets(), self.began.elapsed());
        let budget = budget_of(&mut budgets, participant);
        if let Some(limit) = &self.bytes {
            let wait = limit.wait(&budget.bytes, count(bytes), now);
            if !wait.is_zero() {
                return Err((too_many_bytes(self.names.of, self.names.bytes, self.byte_rate, wait), wait));
            }
        }
        if let Some(limit) = &self.messages {
            take_message(budget, limit, now).map_err(|wait| (self.refusal(wait), wait))?;
        }
        if let Some(limit) = &self.bytes {
            limit.owe(&mut budget.bytes, count(bytes), now);
        }
        Ok(())
    }

    /// Charges bytes that a participant has asked for, which may exceed what it has left: it waits before it may ask again.
    pub(crate) fn owe_bytes(&self, participant: &ParticipantId, bytes: usize) {
        let Some(limit) = &self.bytes else { return };
        let mut budgets = self.budgets();
        limit.owe(&mut budget_of(&mut budgets, participant).bytes, count(bytes), self.began.elapsed());
    }

    /// Takes bytes that are on their way already, unless less than a quarter of the burst is left; otherwise says for how long.
    pub(crate) fn take_late_bytes(&self, participant: &ParticipantId, bytes: usize) -> Result<(), Duration> {
        let Some(limit) = &self.bytes else { return Ok(()) };
        let (mut budgets, now) = (self.budgets(), self.began.elapsed());
        let budget = &mut budget_of(&mut budgets, participant).bytes;
        let wait = limit.wait(budget, late_reserve(self.byte_rate), now);
        if wait.is_zero() {
            limit.owe(budget, count(bytes), now);
        }
        if wait.is_zero() { Ok(()) } else { Err(wait) }
    }

    pub(crate) fn refusal(&self, wait: Duration) -> Refusal {
        let Rate { per_second, burst } = self.rate;
        let message = format!(
            "more than {per_second} messages a second{} (bursts of {burst}); try again in {} ms",
            self.names.messages,
            wait.as_millis().max(1)
        );
        Refusal::new(Code::RateLimited, message)
    }

    /// Forgets participants that have everything left. Every open room asks for this; it happens once an interval, because it looks at every
    /// budget under the lock that each message takes.
    pub(crate) fn sweep(&self, now: Instant) {
        let now = now.saturating_duration_since(self.began);
        let intervals = now.as_secs() / SWEEP_INTERVAL.as_secs();
        if self.swept_intervals.fetch_max(intervals, Ordering::Relaxed) >= intervals {
            return;
        }
        let is_full = |budget: &ParticipantBudget| {
            [budget.messages, budget.notifications, budget.joins, budget.bytes].iter().all(|bucket| bucket.is_full(now))
        };
        self.budgets().retain(|_, budget| !is_full(budget));
    }

    fn budgets(&self) -> MutexGuard<'_, HashMap<ParticipantId, ParticipantBudget>> {
        self.budgets.lock()
    }
}

fn budget_of<'a>(
    budgets: &'a mut HashMap<ParticipantId, ParticipantBudget>,
    participant: &ParticipantId,
) -> &'a mut ParticipantBudget {
    // The id is cloned for a newcomer only.
    if !budgets.contains_key(participant) {
        budgets.insert(participant.clone(), ParticipantBudget::default());
    }
    budgets.get_mut(participant).expect("inserted above")
}

/// What a topic, or the whole gateway, has left of its bytes.
pub(crate) struct ByteBudget {
    rate: Rate,
    limit: Option<RateLimit>,
    bucket: Mutex<TokenBucket>,
    began: Instant,
    /// What it is of, and the setting that limits it.
    name: (&'static str, &'static str),
}

impl ByteBudget {
    pub(crate) fn of_topic(rate: Rate) -> Self {
        Self::new(rate, ("topic", "limits.topic_byte_rate"))
    }

    pub(crate) fn of_gateway(rate: Rate) -> Self {
        Self::new(rate, ("gateway", "limits.gateway_byte_rate"))
    }

    fn new(rate: Rate, name: (&'static str, &'static str)) -> Self {
        Self { rate, limit: rate.limit(), bucket: Mutex::default(), began: Instant::now(), name }
    }

    /// Whether so many bytes are left.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), Excess> {
        let Some(limit) = &self.limit else { return Ok(()) };
        let wait = limit.wait(&self.bucket.lock(), count(bytes), self.began.elapsed());
        if wait.is_zero() {
            return Ok(());
        }
        Err((too_many_bytes(self.name.0, self.name.1, self.rate, wait), wait))
    }

    /// Whether bytes that can wait may be taken: a quarter of the burst is left. Otherwise says for how long it is not.
    pub(crate) fn check_late(&self) -> Result<(), Duration> {
        let Some(limit) = &self.limit else { return Ok(()) };
        let wait = limit.wait(&self.bucket.lock(), late_reserve(self.rate), self.began.elapsed());
        if wait.is_zero() { Ok(()) } else { Err(wait) }
    }

    /// Takes bytes, whether they are left or not.
    pub(crate) fn owe(&self, bytes: usize) {
        if let Some(limit) = &self.limit {
            limit.owe(&mut self.bucket.lock(), count(bytes), self.began.elapsed());
        }
    }
}

/// What is left to messages by bytes that can wait.
fn late_reserve(rate: Rate) -> u32 {
    let burst = if rate.burst == 0 { rate.per_second } else { rate.burst };
    (burst / 4).max(1)
}

/// Beyond four gigabytes the log takes no message.
fn count(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn too_many_bytes(of: &str, setting: &str, rate: Rate, wait: Duration) -> Refusal {
    let message = format!(
        "more than {} bytes a second of this {of} (`{setting}`); try again in {} ms",
        rate.per_second,
        wait.as_millis().max(1)
    );
    Refusal::new(Code::RateLimited, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(id: &str) -> ParticipantId {
        ParticipantId::new(id).expect("an id")
    }

    /// One comes back a second: tests take more at once than a slow run gets back.
    fn only(burst: u32) -> Rate {
        Rate { per_second: 1, burst }
    }

    #[test]
    fn a_message_that_is_refused_takes_neither_budget() {
        let rates = Rates::new(only(2), only(100));
        let alice = who("alice");
        assert!(rates.take(&alice, 90).is_ok());
        let (refusal, _) = rates.take(&alice, 20).expect_err("too many bytes");
        assert_eq!(refusal.code, Code::RateLimited);
        assert!(refusal.message.contains("`limits.byte_rate`"), "{}", refusal.message);
        assert!(rates.take(&alice, 5).is_ok(), "neither its message nor its bytes were taken");
        let (refusal, _) = rates.take(&alice, 1).expect_err("too many messages");
        assert!(refusal.message.contains("messages a second"), "{}", refusal.message);
        assert!(rates.take(&who("bob"), 100).is_ok(), "budgets are one participant's");
    }

    #[test]
    fn bytes_that_are_on_their_way_wait_for_those_before_them() {
        let rates = Rates::new(only(1), only(100));
        assert_eq!(rates.take_late_bytes(&who("alice"), 150), Ok(()), "there is something left");
        let wait = rates.take_late_bytes(&who("alice"), 1).expect_err("in debt");
        assert!(wait > Duration::from_secs(30), "{wait:?}");
        assert!(rates.take(&who("alice"), 1).is_err(), "messages have the same budget");
        assert_eq!(rates.take_late_bytes(&who("bob"), 80), Ok(()));
        assert!(rates.take_late_bytes(&who("bob"), 1).is_err(), "a quarter is left to messages");
        assert!(rates.take(&who("bob"), 10).is_ok());
    }

    #[test]
    fn bytes_that_were_asked_for_are_owed() {
        let rates = Rates::new(Rate::UNLIMITED, only(100));
        rates.owe_bytes(&who("alice"), 1000);
        let (_, wait) = rates.take(&who("alice"), 1).expect_err("in debt");
        assert!(wait > Duration::from_secs(890), "{wait:?}");
        rates.sweep(rates.began + SWEEP_INTERVAL);
        assert!(rates.take(&who("alice"), 1).is_err(), "a debt is not forgotten");
    }

    #[test]
    fn however_many_rooms_ask_budgets_are_swept_once_a_minute() {
        let rates = Rates::new(only(1), Rate::UNLIMITED);
        let spends = |name| rates.take(&who(name), 1).expect("a message is left");
        spends("alice");
        rates.sweep(rates.began + SWEEP_INTERVAL / 2);
        assert_eq!(rates.budgets().len(), 1, "swept before a minute was over");
        rates.sweep(rates.began + SWEEP_INTERVAL);
        assert_eq!(rates.budgets().len(), 0, "a participant that has everything left was not forgotten");
        spends("bob");
        for second in 0..60 {
            rates.sweep(rates.began + SWEEP_INTERVAL + Duration::from_secs(second));
        }
        assert_eq!(rates.budgets().len(), 1, "a second room swept in the same minute");
        rates.sweep(rates.began + 2 * SWEEP_INTERVAL);
        assert_eq!(rates.budgets().len(), 0);
    }

    #[test]
    fn an_answer_costs_its_caller_until_that_is_in_debt() {
        let rates = Rates::new(only(1), only(100));
        let (alice, bob) = (who("alice"), who("bob"));
        assert!(rates.take_answer(&bob, &alice, 150).is_ok(), "the caller pays, and owes");
        assert!(rates.take_answer(&bob, &alice, 90).is_ok(), "then the one that answers");
        assert!(rates.take_answer(&bob, &alice, 90).is_err());
        assert!(rates.take(&bob, 5).is_ok(), "no message was counted");
    }

    #[test]
    fn cancellations_have_a_rate_of_their_own_and_then_that_of_messages() {
        let rates = Rates::new(only(2), Rate::UNLIMITED);
        let bob = who("bob");
        for _ in 0..4 {
            assert!(rates.take_cancellation(&bob, 1).is_ok());
        }
        assert!(rates.take_cancellation(&bob, 1).is_err());
        assert!(rates.take(&bob, 1).is_err());
    }

    #[test]
    fn progress_costs_its_caller_no_message_and_then_its_sender() {
        let rates = Rates::new(only(2), only(100));
        let (alice, bob) = (who("alice"), who("bob"));
        for _ in 0..4 {
            assert!(rates.take_progress(&bob, &alice, 10).is_ok(), "two are the caller's, two the sender's");
        }
        assert!(rates.take_progress(&bob, &alice, 10).is_err());
        assert!(rates.take(&alice, 80).is_ok(), "the caller can still send, and has paid 20 bytes");
        assert!(rates.take(&alice, 10).is_err());
        let (carol, dave) = (who("carol"), who("dave"));
        rates.owe_bytes(&carol, 100);
        assert!(rates.take_progress(&dave, &carol, 90).is_ok(), "a caller in debt pays nothing");
        assert!(rates.take_progress(&dave, &carol, 90).is_err());
    }

    #[test]
    fn a_topic_and_a_gateway_have_budgets_of_their_own() {
        let topic = ByteBudget::of_topic(only(10));
        assert!(topic.check(10).is_ok());
        topic.owe(10);
        let (refusal, _) = topic.check(1).expect_err("the topic's bytes are used up");
        assert!(refusal.message.contains("of this topic (`limits.topic_byte_rate`)"), "{}", refusal.message);
        assert!(ByteBudget::of_gateway(Rate::UNLIMITED).check(usize::MAX).is_ok());
    }
}
