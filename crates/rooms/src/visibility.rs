//! Which topics a participant may know of: a topic for members is in no list of others. And what is asked and done about a topic without a seat there.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use salon_control::{Act, Authority, TopicSettings};
use salon_log::{Fold, Span, TopicSummary};
use salon_protocol::{ParticipantId, Refusal, Stamp, Timestamp, TopicName};

use crate::control::{authority, check_access};
use crate::host_access::HostAccess;
use crate::registry::Rooms;
use crate::room::unreadable;

/// How many topics are remembered with their settings.
const MAX_REMEMBERED: usize = 10_000;

/// How many topics of a list are read at once.
const CONCURRENT_READS: usize = 16;

/// The settings of topics whose rooms are not open. Reading them takes a look into the log, and most topics of a list change rarely.
#[derive(Default)]
pub(crate) struct SettingsCache(Mutex<HashMap<TopicName, CachedSettings>>);

struct CachedSettings {
    /// How many entries it had, and how new they were. A change of the settings is one more.
    entries: u64,
    newest: Option<Timestamp>,
    settings: Option<Arc<TopicSettings>>,
}

impl SettingsCache {
    fn find(&self, topic: &TopicSummary) -> Option<Option<Arc<TopicSettings>>> {
        let known = self.0.lock();
        let found =
            known.get(&topic.name).filter(|known| known.entries == topic.entries && known.newest == topic.newest);
        found.map(|known| known.settings.clone())
    }

    fn keep(&self, topic: &TopicSummary, settings: Option<Arc<TopicSettings>>) {
        let mut known = self.0.lock();
        if known.len() >= MAX_REMEMBERED && !known.contains_key(&topic.name) {
            // Any of them: the map has an order of its own in every process.
            let evicted = known.keys().next().cloned();
            evicted.and_then(|name| known.remove(&name));
        }
        let TopicSummary { name, entries, newest, .. } = topic.clone();
        known.insert(name, CachedSettings { entries, newest, settings });
    }
}

/// A topic that a participant may read.
#[derive(Debug, Clone)]
pub struct VisibleTopic {
    /// What a list shows of it.
    pub summary: TopicSummary,
    /// Its settings, where it has some.
    pub settings: Option<Arc<TopicSettings>>,
}

impl VisibleTopic {
    /// Whether its name, title or description has all words of a query, in any case.
    pub fn matches(&self, query: &str) -> bool {
        let settings = self.settings.as_deref();
        let title = settings.and_then(|settings| settings.title.as_deref()).unwrap_or_default();
        let description = settings.and_then(|settings| settings.description.as_deref()).unwrap_or_default();
        let text = format!("{} {title} {description}", self.summary.name).to_lowercase();
        query.to_lowercase().split_whitespace().all(|word| text.contains(word))
    }
}

impl Rooms {
    /// Those of some topics that a participant may read, with their settings.
    pub async fn visible(
        &self,
        topics: Vec<TopicSummary>,
        participant: &ParticipantId,
        stamp: Option<&Stamp>,
    ) -> Result<Vec<VisibleTopic>, Refusal> {
        let looked = topics.into_iter().map(|topic| async move {
            let settings = self.settings_of(&topic).await?;
            let authority = Authority::new(settings.as_ref(), stamp);
            let may_read = authority.is_none_or(|authority| authority.check(participant, &Act::Read).is_ok());
            Ok(may_read.then_some(VisibleTopic { summary: topic, settings }))
        });
        let looked = futures_util::stream::iter(looked).buffered(CONCURRENT_READS);
        looked.try_filter_map(|visible| std::future::ready(Ok(visible))).try_collect().await
    }

    /// How many participants are present in some topics, in their order.
    pub async fn populations(&self, topics: &[TopicSummary]) -> Result<Vec<usize>, Refusal> {
        let counted = topics.iter().cloned().map(|topic| async move {
            if self.visit_open(&topic.name).is_none() && !topic.may_have_participants {
                return Ok(0);
            }
            Ok(self.roster(&topic.name).await?.len())
        });
        futures_util::stream::iter(counted).buffered(CONCURRENT_READS).try_collect().await
    }

    /// What the gateway works with in a room on behalf of a participant, for which the room is opened.
    pub async fn desk(&self, topic: &TopicName, participant: &ParticipantId) -> Result<HostAccess, Refusal> {
        self.visit_as(topic, Some(participant)).await.map(HostAccess::visiting)
    }

    /// Takes a message of so many bytes from a participant's rate.
    pub fn charge(&self, participant: &ParticipantId, bytes: usize) -> Result<(), Refusal> {
        self.0.common.rates.take(participant, bytes).map_err(|(refusal, _)| refusal)
    }

    /// Takes bytes of a file that a participant puts into a topic, which is not opened for this; otherwise says how long until it may go on. A
    /// quarter of every burst is left to messages, which are refused where files only wait.
    pub fn take_file_bytes(
        &self,
        topic: &TopicName,
        participant: &ParticipantId,
        bytes: usize,
    ) -> Result<(), Duration> {
        let (common, visit) = (&self.0.common, self.visit_open(topic));
        let budgets = [visit.as_ref().map(|visit| &visit.room().byte_budget), Some(&common.byte_budget)];
        for budget in budgets.iter().flatten() {
            budget.check_late()?;
        }
        common.rates.take_late_bytes(participant, bytes)?;
        budgets.iter().flatten().for_each(|budget| budget.owe(bytes));
        Ok(())
    }

    /// Whether somebody has ever entered a topic, or configured it, and it was neither deleted nor forgotten since. It is not opened for this.
    pub async fn exists(&self, topic: &TopicName) -> Result<bool, Refusal> {
        let standing = self.log().standing(topic).await.map_err(|error| unreadable(&error))?;
        if !standing.present.is_empty() || !standing.control.is_empty() {
            return Ok(true);
        }
        let newest = self.log().read(topic, Span::Newest, 1).await.map_err(|error| unreadable(&error))?;
        Ok(!newest.is_empty())
    }

    /// Whether a participant may say something in a topic, which is not opened for this.
    pub async fn check_say(
        &self,
        topic: &TopicName,
        participant: &ParticipantId,
        stamp: Option<&Stamp>,
    ) -> Result<(), Refusal> {
        let by_fold = |fold: &Fold| {
            authority(fold, participant, stamp).map_or(Ok(()), |authority| authority.check_say(participant))
        };
        if let Some(visit) = self.visit_open(topic) {
            return by_fold(visit.room().attendance().fold());
        }
        if !self.may_have_settings(topic).await? {
            return by_fold(&Fold::default());
        }
        let standing = self.log().standing(topic).await.map_err(|error| unreadable(&error))?;
        by_fold(&Fold::restore(&standing))
    }

    /// Whether a participant may read a topic, which is not opened for this.
    pub async fn check_access(
        &self,
        topic: &TopicName,
        participant: &ParticipantId,
        stamp: Option<&Stamp>,
    ) -> Result<(), Refusal> {
        if let Some(visit) = self.visit_open(topic) {
            return visit.room().check_access(participant, stamp);
        }
        if !self.may_have_settings(topic).await? {
            return check_access(&Fold::default(), participant, stamp);
        }
        let standing = self.log().standing(topic).await.map_err(|error| unreadable(&error))?;
        check_access(&Fold::restore(&standing), participant, stamp)
    }

    /// The settings of a topic whose room is open here.
    pub fn settings(&self, topic: &TopicName) -> Option<Arc<TopicSettings>> {
        let visit = self.visit_open(topic)?;
        visit.room().attendance().fold().settings().cloned()
    }

    /// The settings of a topic, which is not opened for this.
    pub async fn settings_of_topic(&self, topic: &TopicName) -> Result<Option<Arc<TopicSettings>>, Refusal> {
        if let Some(visit) = self.visit_open(topic) {
            return Ok(visit.room().attendance().fold().settings().cloned());
        }
        if !self.may_have_settings(topic).await? {
            return Ok(None);
        }
        let standing = self.log().standing(topic).await.map_err(|error| unreadable(&error))?;
        Ok(Fold::restore(&standing).settings().cloned())
    }

    async fn may_have_settings(&self, topic: &TopicName) -> Result<bool, Refusal> {
        self.log().may_have_settings(topic).await.map_err(|error| unreadable(&error))
    }

    async fn settings_of(&self, topic: &TopicSummary) -> Result<Option<Arc<TopicSettings>>, Refusal> {
        if let Some(visit) = self.visit_open(&topic.name) {
            return Ok(visit.room().attendance().fold().settings().cloned());
        }
        if !topic.may_have_settings {
            return Ok(None);
        }
        if let Some(settings) = self.0.known_settings.find(topic) {
            return Ok(settings);
        }
        let settings = self.settings_of_topic(&topic.name).await?;
        self.0.known_settings.keep(topic, settings.clone());
        Ok(settings)
    }
}
