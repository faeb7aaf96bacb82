//! Following the context of a topic: fed by the engine with every change once it is kept.
//!
//! A change is a few words, never a value. A follower that is too slow for [`MAX_WAITING`] of them gets a notice that some were missed, and can
//! read.

use std::collections::HashMap;

use futures_util::stream;
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::TopicName;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::context::{Change, Changed, Changes};

/// How many changes wait for one who follows.
const MAX_WAITING: usize = 256;

/// Everybody who follows.
#[derive(Default)]
pub(crate) struct Feeds(Mutex<FeedState>);

#[derive(Default)]
struct FeedState {
    by_topic: HashMap<TopicName, broadcast::Sender<Changed>>,
    closed: bool,
}

impl Feeds {
    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.0.lock()
    }

    pub(crate) fn follow(&self, topic: &TopicName) -> Changes {
        let mut state = self.state();
        if state.closed {
            return Box::pin(stream::empty());
        }
        // A listener that has gone does not say so.
        state.by_topic.retain(|_, feed| feed.receiver_count() > 0);
        let feed = state.by_topic.entry(topic.clone()).or_insert_with(|| broadcast::Sender::new(MAX_WAITING));
        Box::pin(stream::unfold(feed.subscribe(), |mut line| async {
            match line.recv().await {
                Ok(changed) => Some((changed, line)),
                Err(RecvError::Lagged(_)) => Some((Changed::Missed, line)),
                Err(RecvError::Closed) => None,
            }
        }))
    }

    /// Whether somebody follows a topic.
    #[cfg(feature = "nats")]
    pub(crate) fn is_followed(&self, topic: &TopicName) -> bool {
        self.state().by_topic.get(topic).is_some_and(|feed| feed.receiver_count() > 0)
    }

    /// Tells a change to everyone who follows its topic.
    pub(crate) fn feed(&self, topic: &TopicName, change: Change) {
        self.tell(topic, Changed::One(change));
    }

    /// Tells everyone who follows a topic that they must read, because nobody knows what has changed.
    #[cfg(feature = "nats")]
    pub(crate) fn miss(&self, topic: &TopicName) {
        self.tell(topic, Changed::Missed);
    }

    fn tell(&self, topic: &TopicName, changed: Changed) {
        if let Some(feed) = self.state().by_topic.get(topic) {
            // The follower may have gone.
            let _ = feed.send(changed);
        }
    }

    /// Ends everything that is followed, after what waits.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.by_topic.clear();
    }
}
