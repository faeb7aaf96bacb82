//! What the participants of a room offer, from the room's catalogue: nothing is stored, and the asker needs no seat.

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use salon_control::Authority;
use salon_mcp::listing::{ListItem, Listing};
use salon_protocol::{ParticipantId, TopicName};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{Incoming, Problem, invalid};

/// How many bytes of items an answer has. Participants whose lists do not fit any more are named without them.
const MAX_BYTES: usize = 16 << 20;

/// The lists that a path can name.
const LISTS: [(&str, &[Listing]); 4] = [
    ("tools", &[Listing::Tools]),
    ("prompts", &[Listing::Prompts]),
    ("resources", &[Listing::Resources]),
    ("resource_templates", &[Listing::Templates]),
];

#[derive(Serialize, ToSchema)]
pub(super) struct RoomLists {
    #[schema(value_type = String)]
    topic: TopicName,
    participants: Vec<ParticipantList>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct ParticipantList {
    #[schema(value_type = String)]
    id: ParticipantId,
    /// The items as the participant wrote them. Missing when the participant did not answer, or answered too much
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    items: Option<Vec<Box<RawValue>>>,
}

#[utoipa::path(get, path = "/v0/topics/{topic}/lists/{list}", tag = "MCPx", summary = "What the participants of a room offer, as the gateway has found out",
    params(("topic" = String, Path), ("list" = String, Path, description = "tools, prompts, resources or resource_templates"),
        ("participant" = Option<String>, Query, description = "Only this participant's")),
    responses((status = 200, description = "By participant; the gateway's own list is the last", body = RoomLists), (status = "4XX", description = "Refused", body = super::ProblemBody),
        (status = 503, description = "Not now", body = super::ProblemBody)),
    security(("bearer" = []), ("session" = [])))]
pub(super) async fn read(incoming: Incoming, request: Request) -> Result<Json<RoomLists>, Problem> {
    let topic = incoming.topic()?;
    let named = incoming.in_path("list").and_then(|word| LISTS.iter().find(|(list, _)| *list == word));
    let (_, listings) =
        named.ok_or_else(|| invalid("the list must be tools, prompts, resources or resource_templates"))?;
    let listing = listings[0];
    let only: Option<ParticipantId> = incoming.query.name("participant")?;
    let grant = incoming.credentials(request.headers(), Some(&topic)).by_header_or_cookie(request.method())?;
    let (gateway, asker, stamp) = (&incoming.gateway, &grant.participant, grant.stamp());
    gateway.reads.take(asker)?;
    gateway.rooms.check_access(&topic, asker, stamp.as_ref()).await?;

    // A room's host answers while the room is open here. Its participants may all sit at other gateways.
    let present = gateway.rooms.roster(&topic).await?.into_iter().map(|one| one.id.clone());
    let present: Vec<_> = present.filter(|id| id != asker && !id.is_host()).collect();
    let _visit = match present.is_empty() {
        true => None,
        false => Some(gateway.rooms.visit_for(&topic, asker).await?),
    };
    let mut lists: Vec<(ParticipantId, Option<Arc<[ListItem]>>)> = Vec::new();
    let consult = |who: ParticipantId| {
        let found = gateway.library.consult(&topic, (asker, stamp.clone()), &who, listing);
        async move { (who, found.await) }
    };
    match only {
        Some(who) => lists.push(consult(who).await),
        None => {
            let gathered = gateway.library.gather(&topic, asker, listings).await;
            let Some(snapshot) = gathered else {
                return match present.is_empty() {
                    true => Ok(Json(RoomLists { topic, participants: Vec::new() })),
                    false => Err(no_host()),
                };
            };
            lists.extend(present.into_iter().map(|id| {
                let offer = snapshot.listing(listing).offer(&id).cloned();
                (id, offer)
            }));
            lists.sort_by(|(a, _), (b, _)| a.cmp(b));
            lists.push(consult(ParticipantId::host()).await);
        }
    }
    let authority = Authority::new(gateway.rooms.settings(&topic).as_ref(), stamp.as_ref());
    let may_see = |who: &ParticipantId, item: &ListItem| {
        listing != Listing::Tools || authority.as_ref().is_none_or(|authority| authority.lists(asker, who, &item.name))
    };
    let mut left = MAX_BYTES;
    let participants = lists.into_iter().map(|(id, items)| {
        let items = items.and_then(|items| {
            let shown: Vec<_> = items.iter().filter(|item| may_see(&id, item)).map(|item| item.raw.clone()).collect();
            left = left.checked_sub(shown.iter().map(|item| item.get().len()).sum())?;
            Some(shown)
        });
        ParticipantList { id, items }
    });
    let participants = participants.collect();
    Ok(Json(RoomLists { topic, participants }))
}

fn no_host() -> Problem {
    Problem::new(salon_protocol::Code::Closing, "the room was closed meanwhile; ask again")
}
