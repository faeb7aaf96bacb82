//! Erasing a deleted topic. The notice that deletes it stands in its stream, so every node learns of it in its turn; from then on no node reads
//! what stands before it. The node that appended the notice removes all that; should it end in between, the next sweep of any node does. The context
//! has an order of its own, so before anybody enters the topic again it is made certain that it was erased ([`Shared::standing`]).

use std::sync::Arc;

use salon_protocol::{Envelope, TopicName};

use super::Shared;
use super::fault::NatsFault;
use crate::{AppendError, Appended};

impl Shared {
    /// Appends the notice that deletes a topic, then removes everything up to it.
    pub(super) async fn delete(self: &Arc<Self>, name: &TopicName, notice: Envelope) -> Result<Appended, AppendError> {
        let appended = self.submit(name, notice, None, None).await?;
        if let Err(fault) = self.erase_topic(name, appended.entry.position.offset).await {
            tracing::warn!(topic = %name, %fault, "deletion: entries not removed, retrying at the next sweep");
        }
        Ok(appended)
    }

    /// Removes everything of a topic up to and with an offset, and its context.
    pub(super) async fn erase_topic(self: &Arc<Self>, name: &TopicName, through: u64) -> Result<(), NatsFault> {
        let topic = self.topic(name).map_err(NatsFault::unavailable)?;
        topic.reach(through, self.link.timings.answer_timeout).await?;
        self.erase_context(name, through).await?;
        let trimmed = topic.place.indexed(|index| index.removed.through).unwrap_or(through);
        if trimmed < through
            && self.keep(&topic, trimmed, through).await? >= through
            && let Some(mark) = self.cut_deleted(&topic.place, through).await?
        {
            self.remove(&topic, mark).await?;
        }
        Ok(())
    }
}
