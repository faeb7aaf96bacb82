//! The host's office in one room: what its answers share while they are worked on.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{
    CHAT_METHOD, Draft, Entry, EnvelopeId, Message, ParticipantId, RpcError, RpcId, SessionId, Sessions, rpc,
};
use salon_rooms::HostAccess;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore};

use super::calls::HostCalls;
use super::catalogue::{Catalogue, ToolChange, announcement};
use super::library::Board;
use super::speech::{HostOutcome, compose, compose_between, derived_id, text};
use super::tools::HostToolbox;
use crate::clock;

/// Handshakes of the host under way at once.
const MAX_HANDSHAKES: usize = 128;

pub(super) struct Office {
    pub(super) toolbox: Arc<HostToolbox>,
    pub(super) desk: HostAccess,
    pub(super) calls: HostCalls,
    pub(super) handshakes: Semaphore,
    /// Where the catalogue is published.
    pub(super) board: Arc<Board>,
    catalogue: Mutex<Catalogue>,
    /// There may be a newer catalogue than the one that is published.
    pub(super) catalogue_changed: Notify,
}

/// A request to the host.
#[derive(Clone)]
pub(super) struct HostRequest {
    pub(super) entry: Arc<Entry>,
    pub(super) id: RpcId,
    /// What its answer's id is derived for; see [`super::waiting`].
    pub(super) purpose: &'static str,
    /// Whether it stood in the log before the room was opened, or was another node's to answer.
    pub(super) is_old: bool,
}

impl HostRequest {
    pub(super) fn caller(&self) -> &ParticipantId {
        self.entry.envelope.from()
    }

    /// The caller's session, where this request makes the host keep something for it: a watch. Its response names that session, so that the
    /// host is told of its end.
    fn kept_session(&self) -> Option<&SessionId> {
        #[derive(Deserialize)]
        struct Params {
            name: String,
        }
        let envelope = &self.entry.envelope;
        let Some(Message::Request { method, .. }) = envelope.message() else { return None };
        let params = || serde_json::from_str::<Params>(envelope.params()?).ok();
        let session = envelope.from_session()?;
        let watches = match &**method {
            "resources/subscribe" => true,
            "tools/call" => params().is_some_and(|params| params.name == "context.watch"),
            _ => false,
        };
        watches.then_some(session)
    }
}

impl Office {
    pub(super) fn new(toolbox: Arc<HostToolbox>, desk: HostAccess, board: Arc<Board>) -> Self {
        let catalogue = Catalogue::new(toolbox.list_budget.clone(), toolbox.list_times, board.clone());
        Self {
            toolbox,
            desk,
            calls: HostCalls::new(),
            handshakes: Semaphore::new(MAX_HANDSHAKES),
            board,
            catalogue: Mutex::new(catalogue),
            catalogue_changed: Notify::new(),
        }
    }

    pub(super) fn catalogue(&self) -> MutexGuard<'_, Catalogue> {
        self.catalogue.lock()
    }

    /// Tells somebody something. What is published is on its way in order, so nobody needs to wait for it.
    pub(super) fn tell(&self, to: &ParticipantId, about: &EnvelopeId, method: &str, params: &impl Serialize) {
        self.tell_as(&uuid::Uuid::new_v4().to_string(), to, about, method, params);
    }

    /// The same under an id.
    pub(super) fn tell_as(
        &self,
        id: &str,
        to: &ParticipantId,
        about: &EnvelopeId,
        method: &str,
        params: &impl Serialize,
    ) {
        let host = ParticipantId::host();
        let payload = rpc::notification(method, Some(&text(params)));
        drop(self.desk.publish(&host, compose(id, &host, std::slice::from_ref(to), Some(about), payload)));
    }

    /// The same about nothing in particular, to several; to nobody is to everybody.
    pub(super) fn notify(&self, to: &[ParticipantId], method: &str, params: &impl Serialize) {
        let host = ParticipantId::host();
        let id = uuid::Uuid::new_v4().to_string();
        let payload = rpc::notification(method, Some(&text(params)));
        drop(self.desk.publish(&host, compose(&id, &host, to, None, payload)));
    }

    /// Tells everybody that tools have changed since they were listed here. Nodes that notice it at once write the same id, so it is stored
    /// once; the same change is announced again only in another minute.
    pub(super) fn announce_tool_changes(&self, who: &ParticipantId, changes: &[ToolChange]) {
        let (topic, host) = (self.desk.topic(), ParticipantId::host());
        tracing::warn!(%topic, participant = %who, tools = changes.len(), "catalogue: tool definitions changed, announcing it in the room");
        let minute = clock::now().0 / 60_000;
        let what: Vec<_> = changes.iter().map(|change| (&change.tool, &change.definition)).collect();
        let id =
            uuid::Uuid::new_v5(&self.toolbox.namespace, format!("tools changed {minute} {who} {what:?}").as_bytes());
        let payload = rpc::notification(CHAT_METHOD, Some(&text(&announcement(who, changes))));
        drop(self.desk.publish(&host, compose(&id.to_string(), &host, &[], None, payload)));
    }

    /// Whether an old request was answered before the room was opened: to do again what it asked could do harm.
    pub(super) async fn has_answered(&self, entry: &Entry) -> bool {
        let (log, topic) = (&self.toolbox.log, self.desk.topic());
        match log.standing(topic).await {
            Ok(standing) => !standing.waiting.iter().any(|open| open.request == *entry.envelope.id()),
            Err(error) => {
                tracing::error!(%topic, %error, "host: open requests unreadable, leaving an old request unanswered");
                true
            }
        }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, request: &HostRequest, outcome: &HostOutcome) {
        let limit = self.toolbox.message_limit;
        let mut draft = self.respond(request, outcome);
        if limit > 0 && draft.envelope().text().len() > limit {
            let message = format!("the answer is longer than the limit of {limit} bytes; ask for less");
            draft = self.respond(request, &Err(RpcError::internal(message)));
        }
        if let Err(refusal) = self.desk.publish(&ParticipantId::host(), draft).outcome().await {
            // An id conflict is the answer given before a restart.
            tracing::debug!(topic = %self.desk.topic(), %refusal, "host: answer not stored");
        }
    }

    fn respond(&self, request: &HostRequest, outcome: &HostOutcome) -> Draft {
        let response = rpc::outcome(&request.id.to_raw(), outcome);
        let asked = request.entry.envelope.id();
        let id = derived_id(&self.toolbox.namespace, request.purpose, asked);
        let host = ParticipantId::host();
        let sessions = Sessions { to_session: request.kept_session(), from_session: None };
        compose_between(sessions, &id, &host, std::slice::from_ref(request.caller()), Some(asked), response)
    }
}
