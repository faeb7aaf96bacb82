//! What goes out, and what has come back of it.

use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;

use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use salon_protocol::EnvelopeId;
use tokio_tungstenite::tungstenite::{self, Message as Frame};

use crate::connection::MAX_UNREAD_EVENTS;
use crate::socket::ClientSocket;

/// Frames on their way out.
pub(crate) struct FrameOutbox {
    pub(crate) sink: SplitSink<ClientSocket, Frame>,
    pub(crate) waiting: VecDeque<Frame>,
    pub(crate) flushed: bool,
}

impl FrameOutbox {
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.flushed
    }

    /// Moves as much as the socket takes. Nothing is lost when this is given up in between.
    pub(crate) async fn progress(&mut self) -> Result<(), tungstenite::Error> {
        while !self.waiting.is_empty() {
            poll_fn(|cx| self.sink.poll_ready_unpin(cx)).await?;
            if let Some(frame) = self.waiting.pop_front() {
                self.flushed = false;
                self.sink.start_send_unpin(frame)?;
            }
        }
        poll_fn(|cx| self.sink.poll_flush_unpin(cx)).await?;
        self.flushed = true;
        Ok(())
    }
}

/// The last few ids, to tell an echo from its repetition.
#[derive(Default)]
pub(crate) struct RecentIds {
    order: VecDeque<EnvelopeId>,
    ids: HashSet<EnvelopeId>,
}

impl RecentIds {
    /// Takes an id in, and returns whether it was unknown.
    pub(crate) fn is_new(&mut self, id: &EnvelopeId) -> bool {
        if !self.ids.insert(id.clone()) {
            return false;
        }
        self.order.push_back(id.clone());
        // Only what was unheard when a connection was lost can come twice.
        if self.order.len() > 4 * MAX_UNREAD_EVENTS {
            if let Some(oldest) = self.order.pop_front() {
                self.ids.remove(&oldest);
            }
        }
        true
    }

    pub(crate) fn knows(&self, id: &EnvelopeId) -> bool {
        self.ids.contains(id)
    }
}
