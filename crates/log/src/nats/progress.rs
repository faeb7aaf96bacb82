//! How long to wait for something that takes as long as there is to read.

use std::time::{Duration, Instant};

/// Ends a wait after a while without progress.
pub(super) struct ProgressDeadline {
    limit: Duration,
    since: Instant,
    furthest: u64,
}

impl ProgressDeadline {
    pub(super) fn new(limit: Duration, now: Instant) -> Self {
        Self { limit, since: now, furthest: 0 }
    }

    /// Whether to wait on, having come so far. Something that starts over makes progress only beyond where it was.
    pub(super) fn goes_on(&mut self, furthest: u64, now: Instant) -> bool {
        if furthest > self.furthest {
            (self.furthest, self.since) = (furthest, now);
        }
        now.duration_since(self.since) < self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn only_progress_extends_a_deadline() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut deadline = ProgressDeadline::new(LIMIT, start);
        let table = [
            (0, 29, true),
            (10, 29, true),
            (10, 58, true),
            (20, 58, true),
            (10, 80, true),
            (20, 87, true),
            (20, 88, false),
        ];
        for (furthest, seconds, expected) in table {
            assert_eq!(deadline.goes_on(furthest, at(seconds)), expected, "{furthest} after {seconds} s");
        }
        assert!(!ProgressDeadline::new(LIMIT, start).goes_on(0, at(30)));
    }
}
