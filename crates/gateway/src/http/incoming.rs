//! What every handler needs of a request, taken from it once.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts, RawPathParams};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use salon_protocol::{Code, ParticipantId, TopicName};

use super::credentials::RequestCredentials;
use super::problem::{Problem, invalid};
use super::query::Query;
use super::{PeerAddress, Requester};
use crate::auth::Grant;
use crate::gateway::GatewayState;

/// A request, before it is known whose it is.
pub(crate) struct Incoming {
    pub(crate) gateway: Arc<GatewayState>,
    pub(crate) peer: PeerAddress,
    pub(crate) query: Query,
    path: RawPathParams,
    requester: Requester,
}

impl<S: Send + Sync> FromRequestParts<S> for Incoming
where
    Arc<GatewayState>: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let unmarked = || Problem::new(Code::Internal, "the request has no peer: its connection did not mark it");
        let peer = parts.extensions.get::<PeerAddress>().copied().ok_or_else(unmarked)?;
        let requester = parts.extensions.get::<Requester>().cloned().unwrap_or_default();
        let path = RawPathParams::from_request_parts(parts, state).await;
        let path = path.map_err(|_| invalid("the path is not UTF-8"))?;
        let query = Query::parse(parts.uri.query())?;
        Ok(Self { gateway: Arc::from_ref(state), peer, query, path, requester })
    }
}

impl Incoming {
    /// The address it came from.
    pub(crate) fn ip(&self) -> IpAddr {
        self.peer.ip()
    }

    /// A part of the path, by its name in the address.
    pub(super) fn in_path(&self, name: &str) -> Option<&str> {
        self.path.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The topic in the path, where the address has one.
    pub(crate) fn path_topic(&self) -> Result<Option<TopicName>, Problem> {
        let topic = self.in_path("topic").map(TopicName::new).transpose();
        topic.map_err(|error| invalid(format!("the topic in the path is not acceptable: {error}")))
    }

    /// The participant in the path, where the address has one.
    pub(crate) fn path_participant(&self) -> Result<Option<ParticipantId>, Problem> {
        let participant = self.in_path("participant").map(ParticipantId::new).transpose();
        participant.map_err(|error| invalid(format!("the participant in the path is not acceptable: {error}")))
    }

    /// The topic in the path of an address that always has one.
    pub(crate) fn topic(&self) -> Result<TopicName, Problem> {
        self.path_topic()?.ok_or_else(|| invalid("`topic` is missing in the path"))
    }

    /// Notes where a participant goes whose request did not name the topic.
    pub(crate) fn note(&self, grant: &Grant, topic: Option<&TopicName>) {
        self.requester.set(&grant.participant, topic);
    }

    /// What the request shows to be let in, to a topic where it names one.
    pub(crate) fn credentials<'a>(
        &'a self,
        headers: &'a HeaderMap,
        topic: Option<&'a TopicName>,
    ) -> RequestCredentials<'a> {
        let Self { gateway, peer, query, requester, .. } = self;
        RequestCredentials { gateway, peer: peer.ip(), headers, query, topic, requester }
    }
}
