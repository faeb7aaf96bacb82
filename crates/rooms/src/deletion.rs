//! Deleting a topic: its log is erased, and its readers are told why their connections end, on every node.

use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;
use salon_log::{AppendError, LogHealth, ReadError};
use salon_protocol::{CloseReason, Code, Envelope, Refusal, TopicName};

use crate::batch::Batch;
use crate::host_access::HostAccess;
use crate::lifecycle::Lifecycle;
use crate::registry::Rooms;
use crate::room::{Room, closed, unwritable};

/// What is said of a topic that was deleted and that nobody has entered since.
pub(crate) fn deleted() -> Refusal {
    Refusal::new(Code::NotFound, "this topic was deleted: enter it or create it to use its name again")
}

impl Rooms {
    /// Has participants leave that have started a deleted topic over, without a seat there. Boxed: the room that this may open does the same.
    pub(crate) fn recover_deleted<'a>(&'a self, topic: &'a TopicName) -> BoxFuture<'a, Result<(), ReadError>> {
        Box::pin(self.recover_one(topic))
    }

    /// Deletes a topic by the notice that says so. Whether somebody may, the caller has judged.
    pub async fn delete(&self, topic: &TopicName, notice: Envelope) -> Result<(), Refusal> {
        let visit = self.visit_open(topic);
        let deletion = self.log().delete(topic, notice).await.map_err(|error| match error {
            AppendError::Stale => deleted(),
            error => unwritable(&error),
        })?;
        let is_witnessed = match &visit {
            Some(visit) => {
                visit.room().ended_by_deletion(self.0.common.settings.timings.submission_timeout).await;
                visit.room().is_deletion_witnessed.swap(true, Ordering::AcqRel)
            }
            None => false,
        };
        // The room may have missed the notice in a gap of its tail.
        if let Some(witness) = self.0.common.settings.witness.as_ref().filter(|_| !is_witnessed) {
            Batch::cut(vec![deletion.entry], |_| false).iter().for_each(|batch| witness(topic, batch));
        }
        Ok(())
    }
}

impl HostAccess {
    /// Whether the topic can be deleted, as far as that is known before it is tried. What belongs to the topic and is not in its log is
    /// removed between the two.
    pub fn check_deletion(&self) -> Result<(), Refusal> {
        if self.room.common.is_closing() {
            return Err(closed());
        }
        if self.room.attendance().fold().is_vacant() || self.room.is_deleted() {
            return Err(deleted());
        }
        let health = self.room.log.health().borrow().clone();
        match health {
            LogHealth::Writable => Ok(()),
            LogHealth::ReadOnly(why) => Err(unwritable(&AppendError::ReadOnly(why))),
            LogHealth::Unreachable(why) => Err(unwritable(&AppendError::Unavailable(why))),
            LogHealth::Stopped(why) => Err(unwritable(&AppendError::Stopped(why))),
        }
    }
}

impl Room {
    /// Whether its topic was deleted while it was open.
    pub(crate) fn is_deleted(&self) -> bool {
        self.end_reason() == Some(CloseReason::Deleted)
    }

    /// Sends its readers away, because its topic was deleted. The room's task ends with that.
    pub(crate) fn end_by_deletion(&self) {
        self.advance(Lifecycle::Ending(CloseReason::Deleted));
        // Wakes the task, if it waits for its log.
        self.departure.notify_one();
    }

    /// Waits until the room has read of the deletion. A room that has missed it among many other entries is told here.
    async fn ended_by_deletion(&self, timeout: std::time::Duration) {
        if tokio::time::timeout(timeout, self.ending()).await.is_err() {
            tracing::warn!(topic = %self.topic, "room: deletion not read from the log, closing the room");
            self.end_by_deletion();
        }
    }
}
