//! Speaking in rooms without a seat: who one is by the token, and a notification in that name.

use salon_client::Client;
use salon_protocol::{Compose, EnvelopeId, Kind, ParticipantId, TopicName};
use serde_json::{Value, json};

use super::outcome::HintContext;
use crate::access::{Access, GatewayUrl, Reach};
use crate::clock;
use crate::trouble::Trouble;

/// A participant at a gateway, by its token.
pub(super) struct SeatlessAuthor {
    pub(super) gateway: GatewayUrl,
    pub(super) client: Client,
    pub(super) id: ParticipantId,
}

/// What a notification is about, and whom it is for.
#[derive(Default)]
pub(super) struct NotificationTarget<'a> {
    pub(super) to: &'a [ParticipantId],
    pub(super) envelope: Option<&'a EnvelopeId>,
}

impl SeatlessAuthor {
    /// Finds the gateway and the token for it. A token that is made here has these permissions.
    pub(super) async fn reach(access: &Access, permissions: &[&str]) -> Result<Self, Trouble> {
        let Reach { gateway, client, .. } = access.reach_with(permissions).map_err(Trouble::usage)?;
        let id = access.identity(&client).await.map_err(Trouble::usage)?.participant;
        Ok(Self { gateway, client, id })
    }

    /// What hints about a topic need to know.
    pub(super) fn asking<'a>(&'a self, topic: &'a TopicName) -> HintContext<'a> {
        HintContext { gateway: &self.gateway, topic: Some(topic) }
    }

    /// Publishes a notification; says the id of its envelope.
    pub(super) async fn notify(
        &self,
        topic: &TopicName,
        target: NotificationTarget<'_>,
        method: &str,
        params: &Value,
    ) -> Result<String, Trouble> {
        let id = uuid::Uuid::now_v7().to_string();
        let envelope = Compose {
            id: &id,
            ts: clock::now(),
            from: &self.id,
            to: target.to,
            kind: Kind::Mcp,
            correlation_id: target.envelope.map(EnvelopeId::as_str),
            payload: json!({ "jsonrpc": "2.0", "method": method, "params": params }),
        };
        let published = self.client.publish(topic, envelope.text()).await;
        published.map_err(|error| self.asking(topic).trouble(&error))?;
        Ok(id)
    }
}
