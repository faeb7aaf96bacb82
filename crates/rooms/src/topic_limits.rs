//! What one topic's settings limit: messages and calls of a participant, and chains of agents that answer each other without end.
//!
//! Everything here is this node's own and in memory, bounded, and kept only for topics with settings. A restart begins with nothing: budgets are
//! full, and a chain is as long as what follows since.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use salon_control::{TopicLimits, called_tool};
use salon_protocol::{
    Code, Entry, Envelope, EnvelopeId, Message, ParticipantId, RateLimit, Refusal, Stamp, TokenBucket,
};
use tokio::time::Instant;

/// From how many participants on those are forgotten that have their whole budget.
const MAX_BUDGETS: usize = 1024;

/// How many envelopes of chains are remembered, the newest. A chain whose last envelope is older starts over.
const MAX_LINKS: usize = 4096;

/// What participants have left of a topic's limits.
pub(crate) struct TopicBudgets {
    budgets: Mutex<HashMap<ParticipantId, TopicBudget>>,
    began: Instant,
}

#[derive(Default)]
struct TopicBudget {
    messages: TokenBucket,
    calls: TokenBucket,
}

impl Default for TopicBudgets {
    fn default() -> Self {
        Self { budgets: Mutex::default(), began: Instant::now() }
    }
}

/// Whether an envelope is said of its author's own accord: answers, progress and cancellations are not.
fn is_own_accord(envelope: &Envelope) -> bool {
    match envelope.message() {
        Some(Message::Request { .. }) => true,
        Some(Message::Notification { .. }) => envelope.concerned_call().is_none(),
        Some(Message::Response { .. }) | None => false,
    }
}

/// Whether an envelope calls a tool of somebody else than the gateway.
fn is_call(envelope: &Envelope) -> bool {
    let is_to_host = envelope.to().iter().any(ParticipantId::is_host);
    !is_to_host && called_tool(envelope).is_some()
}

impl TopicBudgets {
    /// Takes an accepted envelope from its author's budgets, or refuses it.
    pub(crate) fn take(&self, limits: &TopicLimits, envelope: &Envelope, stamp: Option<&Stamp>) -> Result<(), Refusal> {
        self.take_at(limits, envelope, stamp, self.began.elapsed())
    }

    fn take_at(
        &self,
        limits: &TopicLimits,
        envelope: &Envelope,
        stamp: Option<&Stamp>,
        now: Duration,
    ) -> Result<(), Refusal> {
        let author = envelope.from();
        let messages = limits.messages_per_minute.filter(|_| is_own_accord(envelope));
        let is_agent = !stamp.is_some_and(Stamp::is_human);
        let calls = limits.calls_per_minute.filter(|_| is_agent && is_call(envelope));
        if author.is_host() || (messages.is_none() && calls.is_none()) {
            return Ok(());
        }
        let mut budgets = self.budgets.lock();
        if budgets.len() >= MAX_BUDGETS && !budgets.contains_key(author) {
            budgets.retain(|_, budget| !(budget.messages.is_full(now) && budget.calls.is_full(now)));
        }
        let budget = budgets.entry(author.clone()).or_default();
        let refused = |count: u32, what: &str, setting: &str, wait: Duration| {
            let wait = wait.as_millis().max(1);
            let message =
                format!("more than {count} {what} a minute in this topic (`limits.{setting}`); try again in {wait} ms");
            Refusal::new(Code::RateLimited, message)
        };
        // What is refused by one takes nothing of the other.
        let (per_message, per_call) = (messages.map(RateLimit::per_minute), calls.map(RateLimit::per_minute));
        if let (Some(limit), Some(count)) = (per_message, messages) {
            let wait = limit.wait(&budget.messages, 1, now);
            if !wait.is_zero() {
                return Err(refused(count, "messages", "messages_per_minute", wait));
            }
        }
        if let (Some(limit), Some(count)) = (per_call, calls) {
            limit.take(&mut budget.calls, 1, now).map_err(|wait| refused(count, "calls", "calls_per_minute", wait))?;
        }
        if let Some(limit) = per_message {
            limit.owe(&mut budget.messages, 1, now);
        }
        Ok(())
    }
}

/// How long the chains are that end in the newest envelopes. An envelope that names another by `correlation_id` follows from it.
#[derive(Default)]
pub(crate) struct AgentChains(Mutex<AgentHops>);

#[derive(Default)]
struct AgentHops {
    links: HashMap<EnvelopeId, AgentHop>,
    /// The oldest first.
    order: VecDeque<EnvelopeId>,
}

struct AgentHop {
    hops: u32,
    author: ParticipantId,
}

impl AgentHops {
    /// How many times the chain of an envelope has gone from one agent to another. A person's envelope starts over, and the host does not count.
    fn hops(&self, envelope: &Envelope, stamp: Option<&Stamp>) -> u32 {
        let Some(cause) = envelope.correlation().filter(|_| !stamp.is_some_and(Stamp::is_human)) else { return 0 };
        let author = envelope.from();
        match self.links.get(cause) {
            Some(link) => link.hops.saturating_add(u32::from(link.author != *author && !author.is_host())),
            None => u32::from(!author.is_host()),
        }
    }
}

impl AgentChains {
    /// How long the chain is that a draft would make longer; 0 for what is never refused for it.
    pub(crate) fn hops(&self, envelope: &Envelope, stamp: Option<&Stamp>) -> u32 {
        if envelope.correlation().is_none() || !is_own_accord(envelope) || envelope.from().is_host() {
            return 0;
        }
        self.0.lock().hops(envelope, stamp)
    }

    /// Remembers entries that are part of chains.
    pub(crate) fn note<'e>(&self, entries: impl Iterator<Item = &'e Entry>) {
        let mut links = None;
        for entry in entries.filter(|entry| entry.envelope.correlation().is_some()) {
            let links = links.get_or_insert_with(|| self.0.lock());
            let hops = links.hops(&entry.envelope, entry.stamp.as_ref());
            if hops == 0 {
                continue;
            }
            let (id, author) = (entry.envelope.id().clone(), entry.envelope.from().clone());
            links.links.insert(id.clone(), AgentHop { hops, author });
            links.order.push_back(id);
            if links.order.len() > MAX_LINKS
                && let Some(oldest) = links.order.pop_front()
            {
                links.links.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use salon_protocol::{Position, Timestamp};

    use super::*;

    fn chat(id: &str, from: &str, cause: &str) -> Envelope {
        let cause = if cause.is_empty() { String::new() } else { format!(r#""correlation_id":"{cause}","#) };
        let payload = r#"{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"x"}}"#;
        Envelope::restore(format!(
            r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2026-01-01T00:00:00Z","from":"{from}",{cause}"kind":"mcp","payload":{payload}}}"#
        ))
        .expect("an envelope")
    }

    fn call(id: &str, to: &str) -> Envelope {
        let payload = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}"#;
        Envelope::restore(format!(
            r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2026-01-01T00:00:00Z","from":"alice","to":["{to}"],"kind":"mcp","payload":{payload}}}"#
        ))
        .expect("an envelope")
    }

    fn note(chains: &AgentChains, envelope: Envelope) -> u32 {
        let hops = chains.hops(&envelope, None);
        let position = Position { epoch: 1, offset: 1 };
        let entry = Arc::new(Entry { position, arrived: Timestamp(0), stamp: None, envelope });
        chains.note(std::iter::once(&*entry));
        hops
    }

    #[test]
    fn a_chain_grows_from_one_agent_to_another() {
        let chains = AgentChains::default();
        let hops: Vec<_> = [("a", "alice", ""), ("b", "bob", "a"), ("c", "bob", "b"), ("d", "alice", "c")]
            .map(|(id, from, cause)| note(&chains, chat(id, from, cause)))
            .into();
        assert_eq!(hops, [0, 1, 1, 2], "what an agent says of its own words is no hop");
        assert_eq!(note(&chains, chat("e", "system:gateway", "d")), 0, "the host is never refused");
        assert_eq!(note(&chains, chat("f", "carol", "e")), 3, "and passes a chain on");
    }

    #[test]
    fn what_is_remembered_of_chains_has_a_bound() {
        let chains = AgentChains::default();
        note(&chains, chat("first", "bob", "before"));
        for number in 0..MAX_LINKS {
            note(&chains, chat(&format!("n{number}"), "bob", "before"));
        }
        assert_eq!(note(&chains, chat("late", "alice", "first")), 1, "the oldest is forgotten");
        assert!(chains.0.lock().links.len() <= MAX_LINKS);
    }

    #[test]
    fn a_participant_has_a_budget_of_calls_and_one_of_messages() {
        let budgets = TopicBudgets::default();
        let limits = TopicLimits { messages_per_minute: Some(3), calls_per_minute: Some(2), hops: None };
        let take = |envelope: &Envelope, seconds| {
            budgets.take_at(&limits, envelope, None, Duration::from_secs(seconds)).map_err(|refusal| refusal.message)
        };
        assert_eq!((take(&call("1", "bob"), 0), take(&call("2", "bob"), 0)), (Ok(()), Ok(())));
        let refused = take(&call("3", "bob"), 0).expect_err("a third call");
        assert!(refused.contains("more than 2 calls a minute"), "{refused}");
        assert_eq!(take(&call("4", "system:gateway"), 0), Ok(()), "the gateway's own tools are not counted as calls");
        let refused = take(&chat("5", "alice", ""), 0).expect_err("a fourth message");
        assert!(refused.contains("`limits.messages_per_minute`"), "{refused}");
        assert_eq!(take(&chat("6", "bob", ""), 0), Ok(()), "a budget is one participant's");
        assert_eq!(take(&call("7", "bob"), 30), Ok(()), "half a minute gives one call back");
    }
}
