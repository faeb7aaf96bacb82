//! The host's tools that answer at once.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use salon_log::{Cluster, FileStore, TopicLog};
use salon_protocol::{CHAT_METHOD, EnvelopeId, RpcError, TopicName};
use salon_rooms::HostAccess;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::HostSettings;
use super::arguments::Arguments;
use super::catalogue::ListBudget;
use super::office::HostRequest;
use super::places::ReadPositions;
use super::speech::{HostOutcome, compose, derived_id, failed, structured};
use crate::audit::Audit;
use crate::config::TopicCreation;
use crate::history::{self, StoredPage, Window};
use crate::search::Searches;

/// The longest page `history.get` answers, and how many bytes of envelopes fit into one.
pub(super) const MAX_ENTRIES: usize = 100;
const MAX_BYTES: usize = 256 * 1024;

/// What the tools work with, in every room.
pub(super) struct HostToolbox {
    pub(super) log: Arc<dyn TopicLog>,
    pub(super) files: Arc<dyn FileStore>,
    pub(super) audit: Audit,
    pub(super) searches: Arc<Searches>,
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) history_off: HashSet<TopicName>,
    /// The longest answer. Zero is no limit.
    pub(super) message_limit: usize,
    /// What the ids of the host's envelopes are derived in.
    pub(super) namespace: uuid::Uuid,
    /// Room for what participants offer.
    pub(super) list_budget: Arc<ListBudget>,
    /// As in [`HostSettings::list_times`].
    pub(super) list_times: (Duration, Duration),
    /// Who may make the first settings of a topic.
    pub(super) topic_creation: TopicCreation,
    /// How far everyone has come with `room.wait`.
    read_positions: Mutex<ReadPositions>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum SayFormat {
    Plain,
    Markdown,
}

impl HostToolbox {
    pub(super) fn new(log: Arc<dyn TopicLog>, cluster: Arc<dyn Cluster>, settings: HostSettings) -> Self {
        let HostSettings { searches, files, audit, history_off, message_limit, namespace, list_times, topic_creation } =
            settings;
        let (namespace, list_budget, read_positions) =
            (uuid::Uuid::from_bytes(namespace), ListBudget::new(), Mutex::default());
        Self {
            log,
            cluster,
            files,
            audit,
            searches,
            history_off,
            message_limit,
            namespace,
            list_budget,
            list_times,
            topic_creation,
            read_positions,
        }
    }

    pub(super) fn read_positions(&self) -> MutexGuard<'_, ReadPositions> {
        self.read_positions.lock()
    }

    /// The bytes of other people's texts that an answer may hold, so that it stays within the limit with them in words as well and
    /// with everything around them.
    pub(super) fn room_for_texts(&self) -> usize {
        let limit = if self.message_limit == 0 { usize::MAX } else { self.message_limit };
        MAX_BYTES.min(limit / 4)
    }

    /// The bytes of a file that an answer may hold: in base64 they are a third more.
    pub(super) fn room_for_files(&self) -> u64 {
        let limit = if self.message_limit == 0 { usize::MAX } else { self.message_limit };
        (limit / 4 * 3).saturating_sub(4096) as u64
    }

    /// Answers `presence.get`.
    pub(super) fn presence(&self, desk: &HostAccess, arguments: Arguments<'_>) -> HostOutcome {
        arguments.end()?;
        Ok(structured(&json!({ "topic": desk.topic(), "participants": desk.roster_with_statuses() })))
    }

    /// Answers `history.get`.
    pub(super) async fn history(&self, topic: &TopicName, mut arguments: Arguments<'_>) -> HostOutcome {
        let limit = arguments.number("limit", 1..=MAX_ENTRIES as u64, 20)? as usize;
        let before: Option<String> = arguments.optional("before")?;
        let after: Option<EnvelopeId> = arguments.optional("after")?;
        arguments.end()?;
        let mut shown = HistoryView { enabled: !self.history_off.contains(topic), ..HistoryView::of(topic) };
        if !shown.enabled {
            return Ok(structured(&shown));
        }
        let window = Window { before: before.as_deref(), after, limit };
        let StoredPage { entries, next } = match history::read(&*self.log, topic, window).await {
            Ok(page) => page,
            Err(refusal) => return Ok(failed(&refusal.message)),
        };
        let mut bytes = 0;
        for entry in entries.iter().rev() {
            let length = entry.envelope.text().len();
            if length > MAX_BYTES {
                shown.omitted.push(entry.envelope.id().clone());
            } else if bytes + length > MAX_BYTES {
                // The page ends early; the next one begins with what did not fit.
                return Ok(structured(&shown));
            } else {
                bytes += length;
                shown.messages.push(history::raw(entry));
            }
            shown.next = Some(entry.envelope.id().clone());
        }
        shown.next = next;
        Ok(structured(&shown))
    }

    /// Answers `chat.say`.
    pub(super) async fn say(
        &self,
        desk: &HostAccess,
        request: &HostRequest,
        mut arguments: Arguments<'_>,
    ) -> HostOutcome {
        let params = read_chat(&mut arguments)?;
        arguments.end()?;
        let payload = json!({ "jsonrpc": "2.0", "method": CHAT_METHOD, "params": params });
        let (caller, asked) = (request.caller(), request.entry.envelope.id());
        let draft = compose(&derived_id(&self.namespace, "say", asked), caller, &[], Some(asked), payload);
        let draft = draft.stamped(request.entry.stamp.clone());
        let id = draft.envelope().id().clone();
        match desk.publish(caller, draft).outcome().await {
            Ok(_) => Ok(structured(&json!({ "id": id }))),
            Err(refusal) => Ok(failed(&refusal.message)),
        }
    }
}

/// The parameters of a chat message, from the arguments of a tool.
pub(super) fn read_chat(arguments: &mut Arguments<'_>) -> Result<Value, RpcError> {
    let mut params = json!({ "text": arguments.required::<String>("text")? });
    if let Some(format) = arguments.optional("format")? {
        params["format"] = match format {
            SayFormat::Plain => "plain".into(),
            SayFormat::Markdown => "markdown".into(),
        };
    }
    Ok(params)
}

/// What `history.get` shows.
#[derive(Serialize)]
struct HistoryView<'a> {
    topic: &'a TopicName,
    enabled: bool,
    messages: Vec<Box<RawValue>>,
    /// Envelopes too long for an answer, which `GET …/history` has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    omitted: Vec<EnvelopeId>,
    next: Option<EnvelopeId>,
}

impl<'a> HistoryView<'a> {
    fn of(topic: &'a TopicName) -> Self {
        Self { topic, enabled: true, messages: Vec::new(), omitted: Vec::new(), next: None }
    }
}
