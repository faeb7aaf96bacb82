//! How much may be published: by one participant, into one topic, at one gateway. Zero switches a limit off.

use std::collections::HashMap;
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

/// There was too much: the refusal, and how long its author should wait.
pub(crate) type Excess = (Refusal, Duration);

/// What each participant has left of its messages and bytes, whatever rooms and connections it uses.
pub(crate) struct Rates {
    rate: Rate,
    messages: Option<RateLimit>,
    bytes: Option<RateLimit>,
    byte_rate: Rate,
    budgets: Mutex<HashMap<ParticipantId, ParticipantBudget>>,
    began: Instant,
}

#[derive(Default)]
struct ParticipantBudget {
    messages: TokenBucket,
    bytes: TokenBucket,
}

impl Rates {
    pub(crate) fn new(rate: Rate, byte_rate: Rate) -> Self {
        let (messages, bytes) = (rate.limit(), byte_rate.limit());
        Self { rate, messages, bytes, byte_rate, budgets: Mutex::default(), began: Instant::now() }
    }

    /// Takes one message that is not published; otherwise says how long until there is one.
    pub(crate) fn take_message(&self, participant: &ParticipantId) -> Result<(), Duration> {
        let Some(limit) = &self.messages else { return Ok(()) };
        let mut budgets = self.budgets();
        limit.take(&mut budget_of(&mut budgets, participant).messages, 1, self.began.elapsed())
    }

    /// Takes one message and its bytes, or neither.
    pub(crate) fn take(&self, participant: &ParticipantId, bytes: usize) -> Result<(), Excess> {
        if self.messages.is_none() && self.bytes.is_none() {
            return Ok(());
        }
        let (mut budgets, now) = (self.budgets(), self.began.elapsed());
        let budget = budget_of(&mut budgets, participant);
        if let Some(limit) = &self.bytes {
            let wait = limit.wait(&budget.bytes, count(bytes), now);
            if !wait.is_zero() {
                return Err((too_many_bytes("participant", "limits.byte_rate", self.byte_rate, wait), wait));
            }
        }
        if let Some(limit) = &self.messages {
            limit.take(&mut budget.messages, 1, now).map_err(|wait| (self.refusal(wait), wait))?;
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

    pub(crate) fn refusal(&self, wait: Duration) -> Refusal {
        let Rate { per_second, burst } = self.rate;
        let message = format!(
            "more than {per_second} messages a second (bursts of {burst}); try again in {} ms",
            wait.as_millis().max(1)
        );
        Refusal::new(Code::RateLimited, message)
    }

    /// Forgets participants that have everything left.
    pub(crate) fn sweep(&self) {
        let now = self.began.elapsed();
        self.budgets().retain(|_, budget| !(budget.messages.is_full(now) && budget.bytes.is_full(now)));
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

    pub(crate) fn take(&self, bytes: usize) -> Result<(), Excess> {
        let Some(limit) = &self.limit else { return Ok(()) };
        let taken = limit.take(&mut self.bucket.lock(), count(bytes), self.began.elapsed());
        taken.map_err(|wait| (too_many_bytes(self.name.0, self.name.1, self.rate, wait), wait))
    }
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

    /// So slow that nothing comes back during a test.
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
    fn whoever_asked_for_bytes_owes_them() {
        let rates = Rates::new(Rate::UNLIMITED, only(100));
        rates.owe_bytes(&who("alice"), 1000);
        let (_, wait) = rates.take(&who("alice"), 1).expect_err("in debt");
        assert!(wait > Duration::from_secs(890), "{wait:?}");
        rates.sweep();
        assert!(rates.take(&who("alice"), 1).is_err(), "a debt is not forgotten");
    }

    #[test]
    fn a_topic_and_a_gateway_have_budgets_of_their_own() {
        let topic = ByteBudget::of_topic(only(10));
        assert!(topic.take(10).is_ok());
        let (refusal, _) = topic.take(1).expect_err("the topic's bytes are used up");
        assert!(refusal.message.contains("of this topic (`limits.topic_byte_rate`)"), "{}", refusal.message);
        assert!(ByteBudget::of_gateway(Rate::UNLIMITED).take(usize::MAX).is_ok());
    }
}
