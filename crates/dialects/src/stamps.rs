use std::time::Instant;

use salon_protocol::{SessionId, Timestamp};

/// Ids and times for the envelopes a dialect writes itself, from values given once: a dialect has neither a clock nor dice.
#[derive(Debug)]
pub struct Stamps {
    prefix: Box<str>,
    count: u64,
    began: Instant,
    began_at: Timestamp,
}

impl Stamps {
    /// `prefix` must be unique to the connection; `began` and `began_at` are one moment by two clocks.
    pub fn new(prefix: impl Into<Box<str>>, began: Instant, began_at: Timestamp) -> Self {
        Self { prefix: prefix.into(), count: 0, began, began_at }
    }

    /// The session whose envelopes have these ids.
    pub fn session(&self) -> SessionId {
        SessionId::new(&*self.prefix).expect("a prefix of envelope ids is a name")
    }

    /// Whether an id is one of these.
    pub fn made(&self, id: &str) -> bool {
        id.strip_prefix(&*self.prefix).is_some_and(|rest| rest.starts_with('-'))
    }

    /// The id of an envelope that its writer has named: the same name gives the same id, and none that `next` gives.
    pub fn named(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// What time it is by the calendar.
    pub fn time(&self, now: Instant) -> Timestamp {
        let passed = now.saturating_duration_since(self.began).as_millis();
        Timestamp(self.began_at.0.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX)))
    }

    /// The id and time for one envelope.
    pub fn next(&mut self, now: Instant) -> (String, Timestamp) {
        self.count += 1;
        (format!("{}-{}", self.prefix, self.count), self.time(now))
    }
}
