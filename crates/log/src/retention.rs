//! How long entries are kept.

use std::collections::HashMap;
use std::time::Duration;

use salon_control::TopicRetention;
use salon_protocol::TopicName;

/// What is kept of one topic. An entry goes when either bound is passed; `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The oldest age.
    pub age: Option<Duration>,
    /// The most entries.
    pub count: Option<u64>,
}

impl Retention {
    /// What counts for a topic with retention of its own.
    pub(crate) fn narrowed(self, own: Option<TopicRetention>) -> Self {
        let Some(own) = own else { return self };
        let (age, count) = own.within(self.age, self.count);
        Self { age, count }
    }
}

impl Default for Retention {
    /// Thirty days.
    fn default() -> Self {
        Self { age: Some(Duration::from_secs(30 * 24 * 60 * 60)), count: None }
    }
}

/// The retention of every topic.
#[derive(Debug, Clone, Default)]
pub struct RetentionRules {
    /// For topics that have none of their own.
    pub default: Retention,
    /// For topics by name.
    pub topics: HashMap<TopicName, Retention>,
}

impl RetentionRules {
    /// The retention of a topic.
    pub fn of(&self, topic: &TopicName) -> Retention {
        self.topics.get(topic).copied().unwrap_or(self.default)
    }
}
