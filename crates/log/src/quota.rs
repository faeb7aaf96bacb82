//! Quotas of stored bytes: how much messages and contexts may take before writes are refused.
//!
//! Each engine counts as it stores and as retention removes. A participant is counted in each topic separately: a node of several knows
//! the entries of the topics that it follows, and would have to read all others to know what a participant has stored there.
//! A value in a context is counted to its topic alone: the request that brought it is an entry, and is counted to its author.

use salon_control::ControlNotice;
use salon_protocol::Envelope;

use crate::answered_request;

/// How long an answer may be to be stored beyond a quota, so that a call that has begun can end.
const MAX_EXEMPT_ANSWER_BYTES: usize = 4096;

/// The most bytes that are stored. Zero is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoredQuotas {
    /// Of the entries of one topic.
    pub topic: u64,
    /// Of the entries of one participant in one topic.
    pub participant: u64,
    /// Of all kept versions in the context of one topic.
    pub context: u64,
    /// Of the entries and contexts of all topics.
    pub gateway: u64,
}

/// What a quota is a quota of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaScope {
    /// [`StoredQuotas::topic`].
    Topic,
    /// [`StoredQuotas::participant`].
    Participant,
    /// [`StoredQuotas::context`].
    Context,
    /// [`StoredQuotas::gateway`].
    Gateway,
}

/// A write was refused because of a quota. Nothing was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// Which quota.
    pub scope: QuotaScope,
    /// How many bytes it is.
    pub limit: u64,
}

impl std::fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, setting) = match self.scope {
            QuotaScope::Topic => ("the messages of this topic", "limits.topic_stored"),
            QuotaScope::Participant => ("your messages in this topic", "limits.participant_stored"),
            QuotaScope::Context => ("the context of this topic", "limits.context_stored"),
            QuotaScope::Gateway => ("the messages and contexts of this gateway", "limits.gateway_stored"),
        };
        write!(f, "{what} may take {} bytes (`{setting}`), and this would be more", self.limit)
    }
}

impl std::error::Error for QuotaExceeded {}

/// How many bytes are stored already, where an entry is to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StoredBytes {
    pub(crate) topic: u64,
    pub(crate) participant: u64,
    pub(crate) gateway: u64,
}

impl StoredQuotas {
    /// Whether an entry may be stored beside what is.
    pub(crate) fn check_entry(&self, stored: StoredBytes, envelope: &Envelope) -> Result<(), QuotaExceeded> {
        let bytes = envelope.text().len();
        // The gateway writes that a call is held, and others have it do so.
        let holds_call = ControlNotice::holds_call(envelope);
        let of_participant = if holds_call { 0 } else { self.participant };
        let checked = check(QuotaScope::Participant, of_participant, stored.participant, bytes)
            .and_then(|()| check(QuotaScope::Topic, self.topic, stored.topic, bytes))
            .and_then(|()| check(QuotaScope::Gateway, self.gateway, stored.gateway, bytes));
        checked.or_else(|exceeded| if is_exempt(envelope) && !holds_call { Ok(()) } else { Err(exceeded) })
    }

    /// Whether a value may be added to a context from which others are removed, given what it and everything take.
    pub(crate) fn check_context(
        &self,
        (context, gateway): (u64, u64),
        removed: u64,
        added: usize,
    ) -> Result<(), QuotaExceeded> {
        if added as u64 <= removed {
            return Ok(());
        }
        check(QuotaScope::Context, self.context, context.saturating_sub(removed), added)?;
        check(QuotaScope::Gateway, self.gateway, gateway.saturating_sub(removed), added)
    }

    /// Whether a context is so full that a key keeps no older versions once it is deleted: deleting must make room.
    pub(crate) fn is_tight(&self, (context, gateway): (u64, u64)) -> bool {
        let over_half = |quota: u64, stored: u64| quota > 0 && stored > quota / 2;
        over_half(self.context, context) || over_half(self.gateway, gateway)
    }
}

fn check(scope: QuotaScope, limit: u64, stored: u64, more: usize) -> Result<(), QuotaExceeded> {
    let fits = limit == 0 || stored.saturating_add(more as u64) <= limit;
    if fits { Ok(()) } else { Err(QuotaExceeded { scope, limit }) }
}

/// Presence and the host's answers are stored whatever the quotas say, and so are short answers: the entries that they follow from are counted.
fn is_exempt(envelope: &Envelope) -> bool {
    let is_short_answer = || envelope.text().len() <= MAX_EXEMPT_ANSWER_BYTES && answered_request(envelope).is_some();
    envelope.from().is_host() || is_short_answer()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{line, presence, response};

    #[test]
    fn the_narrowest_quota_is_named() {
        let quotas = StoredQuotas { topic: 1000, participant: 500, context: 300, gateway: 2000 };
        let check = |topic, participant, gateway| {
            let stored = StoredBytes { topic, participant, gateway };
            quotas.check_entry(stored, &line("e1", "alice", "hello")).map_err(|exceeded| exceeded.scope)
        };
        assert_eq!(check(0, 0, 0), Ok(()));
        assert_eq!(check(1000, 500, 2000), Err(QuotaScope::Participant));
        assert_eq!(check(1000, 0, 2000), Err(QuotaScope::Topic));
        assert_eq!(check(0, 0, 2000), Err(QuotaScope::Gateway));
        let full = StoredBytes { topic: 1000, participant: 500, gateway: 2000 };
        assert_eq!(quotas.check_entry(full, &presence("j1", "join", "alice")), Ok(()), "presence is never refused");
        assert_eq!(quotas.check_entry(full, &response("a1", "alice", "r1")), Ok(()), "a call that has begun ends");
        assert_eq!(StoredQuotas::default().check_entry(full, &line("e1", "alice", "hello")), Ok(()), "0 is no limit");
        let context =
            |stored, more| quotas.check_context((stored, 0), 0, more).map_err(|exceeded| exceeded.to_string());
        assert_eq!((context(299, 1), context(900, 0)), (Ok(()), Ok(())));
        assert_eq!(quotas.check_context((900, 0), 20, 20), Ok(()), "it takes no more than before");
        assert_eq!(quotas.check_context((290, 0), 15, 20), Ok(()), "what is removed makes room");
        let told = "the context of this topic may take 300 bytes (`limits.context_stored`), and this would be more";
        assert_eq!(context(299, 2), Err(told.to_owned()));
    }
}
