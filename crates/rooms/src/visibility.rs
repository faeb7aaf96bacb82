//! Which topics a participant may know of: a topic for members is in no list of others.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use salon_control::{Act, Authority, TopicSettings};
use salon_log::{Fold, TopicSummary};
use salon_protocol::{ParticipantId, Refusal, Stamp, Timestamp, TopicName};

use crate::registry::Rooms;
use crate::room::unreadable;

/// How many topics are remembered with their settings.
const MAX_REMEMBERED: usize = 10_000;

/// The settings of topics whose rooms are not open. Reading them takes a look into the log, and most topics of a list change rarely.
#[derive(Default)]
pub(crate) struct KnownSettings(Mutex<HashMap<TopicName, KnownTopic>>);

struct KnownTopic {
    /// How many entries it had, and how new they were. A change of the settings is one more.
    entries: u64,
    newest: Option<Timestamp>,
    settings: Option<Arc<TopicSettings>>,
}

impl KnownSettings {
    fn find(&self, topic: &TopicSummary) -> Option<Option<Arc<TopicSettings>>> {
        let known = self.0.lock();
        let found =
            known.get(&topic.name).filter(|known| known.entries == topic.entries && known.newest == topic.newest);
        found.map(|known| known.settings.clone())
    }

    fn keep(&self, topic: &TopicSummary, settings: Option<Arc<TopicSettings>>) {
        let mut known = self.0.lock();
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        let TopicSummary { name, entries, newest, .. } = topic.clone();
        known.insert(name, KnownTopic { entries, newest, settings });
    }
}

impl Rooms {
    /// Those of some topics that a participant may read.
    pub async fn visible(
        &self,
        topics: Vec<TopicSummary>,
        participant: &ParticipantId,
        stamp: Option<&Stamp>,
    ) -> Result<Vec<TopicSummary>, Refusal> {
        let mut visible = Vec::new();
        for topic in topics {
            let settings = self.settings_of(&topic).await?;
            let authority = Authority::new(settings.as_ref(), stamp);
            if authority.is_none_or(|authority| authority.check(participant, &Act::Read).is_ok()) {
                visible.push(topic);
            }
        }
        Ok(visible)
    }

    async fn settings_of(&self, topic: &TopicSummary) -> Result<Option<Arc<TopicSettings>>, Refusal> {
        if let Some(visit) = self.visit_open(&topic.name) {
            return Ok(visit.room().attendance().fold().settings().cloned());
        }
        if let Some(settings) = self.0.known_settings.find(topic) {
            return Ok(settings);
        }
        let standing = self.log().standing(&topic.name).await.map_err(|error| unreadable(&error))?;
        let settings = Fold::restore(&standing).settings().cloned();
        self.0.known_settings.keep(topic, settings.clone());
        Ok(settings)
    }
}
