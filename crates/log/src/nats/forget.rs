//! Forgetting topics of which nothing is kept and in which nobody is, so that names that were used once do not fill the log for good.
//!
//! That a topic is forgotten is a mark in its shard's stream, so every node learns of it in the order of the entries. The mark names the topic's newest
//! message. It counts only if nothing of the topic stands between that message and the mark, which every node decides alike. What is appended behind it
//! begins the topic anew.
//!
//! The mark expires after a while. Every node that has seen it keeps the index of the shard at its next sweep, long before that, so that a node that
//! starts later knows of it. A node that was cut off for nearly as long reads its index anew ([`super::shard`]).

use std::sync::Arc;
use std::time::Duration;

use salon_protocol::Timestamp;

use super::Shared;
use super::fault::NatsFault;
use super::mark::TopicMark;
use super::shard::TopicAddress;
use super::snapshot::Snapshot;
use super::sweep::TopicReview;
use super::topic_index::TopicIndex;

/// How long it is remembered that a topic was forgotten.
const FORGOTTEN_TTL: Duration = Duration::from_secs(60 * 60);

/// How long it is from one time to another of the servers'.
fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::from_millis(later.0.saturating_sub(earlier.0))
}

impl Shared {
    /// Forgets a topic that has no entries, unless somebody is in it, or it had some until lately. Says whether a mark was stored.
    pub(super) async fn forget(
        self: &Arc<Self>,
        place: &TopicAddress,
        review: &TopicReview,
    ) -> Result<bool, NatsFault> {
        let name = &review.name;
        let Some(age) = self.options.retention.of(name).age else { return Ok(false) };
        let is_vacant = self.followed(name).and_then(|topic| topic.deletion()).is_some_and(|it| it.is_vacant);
        let is_recent = review.newest.is_some_and(|newest| between(newest, review.now) < age) && !is_vacant;
        if is_recent || self.hub.is_followed(name) || !self.roster(name).is_empty() {
            return Ok(false);
        }
        // What is kept of the next topic of this name comes later.
        let before = self.link.info(&self.folds.stream).await?.state.last_sequence + 1;
        // Entries are removed only once it is kept who was present. Settings that were copied without their entry are not removed with any.
        let mut kept = Snapshot::load(self, name).await?.map(|(_, kept)| kept);
        let may_be_more = |index: &TopicIndex| index.facts.may_have_settings() || index.facts.may_have_participants();
        if kept.as_ref().is_none_or(|kept| kept.head < review.head) && place.indexed(may_be_more) == Some(true) {
            let topic = self.topic(name).map_err(NatsFault::unavailable)?;
            topic.reach(review.head, self.link.timings.answer_timeout).await?;
            self.keep_newest(&topic).await?;
            kept = Snapshot::load(self, name).await?.map(|(_, kept)| kept);
        }
        if kept.is_some_and(|kept| !kept.is_empty()) {
            return Ok(false);
        }
        let (through, count, bytes) = (review.head, review.count, review.bytes);
        let mark = TopicMark { through, count, bytes, is_forgotten: true, ..TopicMark::default() };
        let Some(stored) = self.store_mark(place, name, &mark, Some(FORGOTTEN_TTL)).await? else { return Ok(false) };
        place.shard.reach(stored, self.link.timings.answer_timeout).await?;
        let is_forgotten = place.indexed(|index| index.removed.through >= stored).unwrap_or(true);
        if is_forgotten {
            tracing::info!(topic = %name, "retention: topic empty, removed");
            self.link.purge(place.stream(), Some(&place.subjects.all()), through + 1).await?;
            for key in [place.token.clone(), format!("{}.*.*", place.token)] {
                self.link.purge(&self.folds.stream, Some(&self.folds.subject(&key)), before).await?;
            }
        }
        Ok(true)
    }
}
