//! The guests that a program hosts beside its gateway: what it reports of each, for operators to read.
//!
//! Deliberately absent: hosting. The gateway starts and stops no guest, and a guest that somebody else brought in is a participant like any other.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use salon_protocol::{ParticipantId, TopicName};
use serde::Serialize;
use utoipa::ToSchema;

/// How a guest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuestCondition {
    /// Its server is being started.
    Starting,
    /// It is in its room.
    Here,
    /// Its connection to the room is lost; it comes back by itself.
    Away,
    /// Its server ended and is started again.
    Restarting,
    /// Somebody has to sign in to its server.
    SignInNeeded,
    /// It is not started: its configuration is invalid, or it cannot run.
    Stopped,
}

/// What is reported of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct GuestReport {
    /// How it is.
    #[serde(rename = "state")]
    pub condition: GuestCondition,
    /// What its server calls itself, once it has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How many tools it offers, once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<usize>,
    /// Why it is not in its room, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl GuestReport {
    /// Nothing but how it is, and perhaps why.
    pub fn new(condition: GuestCondition, why: Option<String>) -> Self {
        Self { condition, server: None, tools: None, why }
    }
}

type GuestReports = BTreeMap<(TopicName, ParticipantId), GuestReport>;

/// The guests, by topic and id. Cloning shares them: the program that starts a gateway hands one clone to it and reports to the other.
#[derive(Debug, Clone, Default)]
pub struct GuestBoard(Arc<Mutex<GuestReports>>);

impl GuestBoard {
    /// Reports a guest. What its server is called and offers stays known while only its condition changes.
    pub fn report(&self, topic: &TopicName, id: &ParticipantId, report: GuestReport) {
        let mut guests = self.0.lock();
        let known = guests.remove(&(topic.clone(), id.clone()));
        let (server, tools) = known.map_or((None, None), |known| (known.server, known.tools));
        let report = GuestReport { server: report.server.or(server), tools: report.tools.or(tools), ..report };
        guests.insert((topic.clone(), id.clone()), report);
    }

    /// Takes the guests off that the program hosts no more.
    pub fn retain(&self, is_hosted: impl Fn(&TopicName, &ParticipantId) -> bool) {
        self.0.lock().retain(|(topic, id), _| is_hosted(topic, id));
    }

    /// All of them, by topic and id.
    pub(crate) fn list(&self) -> Vec<(TopicName, ParticipantId, GuestReport)> {
        self.0.lock().iter().map(|((topic, id), report)| (topic.clone(), id.clone(), report.clone())).collect()
    }
}
