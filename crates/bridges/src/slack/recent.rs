//! What a Slack bridge remembers of late, bounded: deliveries of events, and which thread a message is in.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::platform::PlatformChannel;

/// Slack repeats an event at most three times within minutes.
const MAX_DELIVERIES: usize = 4096;

const MAX_THREADED: usize = 8192;

/// Ids of events that have been stored.
#[derive(Debug, Default)]
pub(super) struct RecentDeliveries {
    order: VecDeque<String>,
    ids: HashSet<String>,
}

impl RecentDeliveries {
    pub(super) fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    pub(super) fn add(&mut self, id: &str) {
        if self.ids.insert(id.to_owned()) {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > MAX_DELIVERIES
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }
}

/// The first message of the thread that a message is in. A reply to a reply goes to the same thread ("chat.postMessage", `thread_ts`).
#[derive(Debug, Default)]
pub(super) struct ThreadRoots {
    roots: HashMap<(PlatformChannel, String), String>,
}

impl ThreadRoots {
    pub(super) fn add(&mut self, channel: &PlatformChannel, ts: &str, root: &str) {
        if self.roots.len() >= MAX_THREADED {
            // A reply to a message of before becomes a thread of its own.
            self.roots.clear();
        }
        self.roots.insert((channel.clone(), ts.to_owned()), root.to_owned());
    }

    pub(super) fn root(&self, channel: &PlatformChannel, ts: &str) -> String {
        self.roots.get(&(channel.clone(), ts.to_owned())).cloned().unwrap_or_else(|| ts.to_owned())
    }
}
