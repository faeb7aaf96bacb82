//! What a topic allows less of than its gateway does: messages, calls, chains of agents, and how long entries are kept.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a chain of agents may be where the settings do not say.
const DEFAULT_HOPS: u32 = 32;

/// Limits of one topic, beside those of the gateway. `None` is no limit of the topic's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicLimits {
    /// How many messages a participant may publish in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages_per_minute: Option<u32>,
    /// How many calls a participant that is not a person may make in a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_minute: Option<u32>,
    /// How many agents may follow one another in a chain of envelopes that cause each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
}

impl TopicLimits {
    /// Their names in JSON.
    pub(crate) const FIELDS: [&str; 3] = ["messages_per_minute", "calls_per_minute", "hops"];

    /// How long a chain of agents may be.
    pub fn hops(&self) -> u32 {
        self.hops.unwrap_or(DEFAULT_HOPS)
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether each of them allows something: a limit of zero would be a pause, which has a setting of its own.
    pub(crate) fn are_positive(&self) -> bool {
        [self.messages_per_minute, self.calls_per_minute, self.hops].iter().flatten().all(|limit| *limit > 0)
    }
}

/// How long a topic keeps its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicRetention {
    /// The oldest age, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_ms: Option<u64>,
    /// The most entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_entries: Option<u64>,
    /// Whether it counts also where the gateway would keep less. Only operators set this.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub beyond_gateway: bool,
}

impl TopicRetention {
    /// Its names in JSON.
    pub(crate) const FIELDS: [&str; 3] = ["max_age_ms", "max_entries", "beyond_gateway"];

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn is_positive(&self) -> bool {
        [self.max_age_ms, self.max_entries].iter().flatten().all(|bound| *bound > 0)
    }

    /// What counts, where the gateway keeps entries for so long and so many of them: the less of both, unless an operator says otherwise.
    pub fn within(&self, age: Option<Duration>, count: Option<u64>) -> (Option<Duration>, Option<u64>) {
        fn bound<T: Ord>(own: Option<T>, gateway: Option<T>, is_beyond: bool) -> Option<T> {
            match (own, gateway) {
                (Some(own), Some(gateway)) if !is_beyond => Some(own.min(gateway)),
                (own, gateway) => own.or(gateway),
            }
        }
        let own = self.max_age_ms.map(Duration::from_millis);
        (bound(own, age, self.beyond_gateway), bound(self.max_entries, count, self.beyond_gateway))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_keeps_less_than_the_gateway_unless_an_operator_says_otherwise() {
        let hour = Duration::from_secs(3600);
        let own = TopicRetention { max_age_ms: Some(7_200_000), max_entries: Some(10), beyond_gateway: false };
        assert_eq!(own.within(Some(hour), Some(5)), (Some(hour), Some(5)));
        assert_eq!(own.within(Some(3 * hour), None), (Some(2 * hour), Some(10)));
        let beyond = TopicRetention { beyond_gateway: true, ..own };
        assert_eq!(beyond.within(Some(hour), Some(5)), (Some(2 * hour), Some(10)));
        assert_eq!(TopicRetention::default().within(Some(hour), None), (Some(hour), None));
    }
}
