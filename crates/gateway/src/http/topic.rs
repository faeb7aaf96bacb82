//! One topic: reading, making, changing and deleting it.

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use salon_control::{Act, RoleName, TopicSettings};
use salon_log::{Retention, RetentionRules};
use salon_protocol::{Code, Refusal, TopicName};
use salon_rooms::{HostAccess, random_id};
use serde::Serialize;
use serde_json::Value;
use tracing::Instrument;
use utoipa::ToSchema;

use super::{Incoming, Problem, body, invalid};
use crate::auth::Grant;
use crate::config::TopicCreation;
use crate::topic_control::{NoticeTerms, SettingsEdit, TopicControl};

/// More than a change of settings needs, which have at most 64 KiB.
const MAX_BODY: usize = 128 * 1024;

/// A topic's settings, and what the participant that asks may do by them
#[derive(Serialize, ToSchema)]
pub(super) struct TopicBody {
    #[schema(value_type = String)]
    topic: TopicName,
    /// Whether the topic has settings of its own
    configured: bool,
    /// The settings, as docs/how-to/control.md describes them
    #[schema(value_type = Object)]
    settings: TopicSettings,
    /// The role of the participant that asks; none where only its permissions let it in
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    role: Option<RoleName>,
    /// What is kept, by the settings and the rules of the gateway
    kept: KeptBody,
}

/// How long entries are kept, and how many. What is absent has no bound
#[derive(Serialize, ToSchema)]
struct KeptBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_age_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_entries: Option<u64>,
}

/// Settings with their version as an entity tag (RFC 9110 §8.8.3).
type Tagged = ([(header::HeaderName, HeaderValue); 1], Json<TopicBody>);

impl TopicBody {
    fn tagged(topic: TopicName, grant: &Grant, rules: &RetentionRules, settings: Option<TopicSettings>) -> Tagged {
        let configured = settings.is_some();
        let settings = settings.unwrap_or_default();
        let tag = HeaderValue::try_from(format!("\"{}\"", settings.version)).expect("a number is printable");
        let role = settings.role_of(&grant.participant).cloned();
        let Retention { age, count } = rules.of(&topic);
        let (age, max_entries) = settings.retention.within(age, count);
        let max_age_ms = age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        let kept = KeptBody { max_age_ms, max_entries };
        ([(header::ETAG, tag)], Json(Self { topic, configured, settings, role, kept }))
    }
}

#[utoipa::path(get, path = "/v0/topics/{topic}", tag = "MCPx", summary = "The settings of a topic",
    params(("topic" = String, Path)),
    responses((status = 200, description = "The settings. `ETag` is their version", body = TopicBody), (status = 404, description = "Nobody has entered or made it", body = super::ProblemBody),
        (status = "4XX", description = "Refused", body = super::ProblemBody)),
    security(("bearer" = []), ("session" = [])))]
pub(super) async fn show(incoming: Incoming, request: Request) -> Result<Tagged, Problem> {
    let topic = incoming.topic()?;
    let grant = incoming.credentials(request.headers(), Some(&topic)).by_header_or_cookie(request.method())?;
    let rooms = &incoming.gateway.rooms;
    incoming.gateway.reads.take(&grant.participant)?;
    rooms.check_access(&topic, &grant.participant, grant.stamp().as_ref()).await?;
    if !rooms.exists(&topic).await? {
        return Err(no_topic(&topic));
    }
    let settings = rooms.settings_of_topic(&topic).await?;
    let rules = incoming.gateway.config.retention_rules();
    Ok(TopicBody::tagged(topic, &grant, &rules, settings.map(|settings| (*settings).clone())))
}

#[utoipa::path(put, path = "/v0/topics/{topic}", tag = "MCPx", summary = "Make the settings of a topic that has none, and own it",
    params(("topic" = String, Path)),
    request_body(content = Option<Object>, description = "Settings: what is absent has its default", content_type = "application/json"),
    responses((status = 201, description = "Made", body = TopicBody), (status = 409, description = "It has settings already", body = super::ProblemBody),
        (status = "4XX", description = "Refused", body = super::ProblemBody)),
    security(("bearer" = [])))]
pub(super) async fn create(incoming: Incoming, request: Request) -> Result<(StatusCode, Tagged), Problem> {
    let change = TopicChange::begin(&incoming, request).await?;
    let patch = change.body.clone().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let make: SettingsEdit<'_> = Box::new(move |before| match before.version {
        0 => Ok(patch.clone()),
        _ => Err(Refusal::new(Code::VersionConflict, "the topic has settings already: `PATCH` changes them")),
    });
    Ok((StatusCode::CREATED, change.apply(make).await?))
}

#[utoipa::path(patch, path = "/v0/topics/{topic}", tag = "MCPx", summary = "Change the settings of a topic",
    params(("topic" = String, Path), ("If-Match" = Option<String>, Header, description = "The `ETag` of the settings that are changed: others are refused")),
    request_body(content = Object, description = "A JSON merge patch (RFC 7396): `null` removes a member", content_type = "application/merge-patch+json"),
    responses((status = 200, description = "The settings as they are now", body = TopicBody), (status = 409, description = "They have another version", body = super::ProblemBody),
        (status = "4XX", description = "Refused", body = super::ProblemBody)),
    security(("bearer" = [])))]
pub(super) async fn change(incoming: Incoming, request: Request) -> Result<Tagged, Problem> {
    let version = expected_version(request.headers());
    let change = TopicChange::begin(&incoming, request).await?;
    // Judged once it is known whose request it is, and its rate is spent.
    let version = version?;
    let (rooms, grant) = (&incoming.gateway.rooms, &change.grant);
    rooms.check_access(&change.topic, &grant.participant, grant.stamp().as_ref()).await?;
    if !rooms.exists(&change.topic).await? {
        return Err(no_topic(&change.topic));
    }
    let patch = change.body.clone().ok_or_else(|| invalid("the body must be a JSON merge patch, and it is empty"))?;
    let make: SettingsEdit<'_> = Box::new(move |before| match version {
        Some(version) if version != before.version => {
            let message = format!("the settings have version {}, not {version}: read them again", before.version);
            Err(Refusal::new(Code::VersionConflict, message))
        }
        _ => Ok(patch.clone()),
    });
    change.apply(make).await
}

#[utoipa::path(delete, path = "/v0/topics/{topic}", tag = "MCPx", summary = "Delete a topic, with everything that was said there",
    params(("topic" = String, Path), ("reason" = Option<String>, Query, description = "What for, in at most 1000 characters")),
    responses((status = 204, description = "Deleted: its connections are closed with the code 4404, and its name can be used again"), (status = 404, description = "There is no such topic", body = super::ProblemBody),
        (status = "4XX", description = "Refused", body = super::ProblemBody)),
    security(("bearer" = [])))]
pub(super) async fn delete(incoming: Incoming, request: Request) -> Result<StatusCode, Problem> {
    let change = TopicChange::begin(&incoming, request).await?;
    let reason = incoming.query.get("reason").map(str::to_owned);
    if reason.as_ref().is_some_and(|reason| reason.chars().count() > 1000) {
        return Err(invalid("`reason` has at most 1000 characters"));
    }
    let TopicChange { topic, grant, incoming, .. } = &change;
    let stamp = grant.stamp();
    incoming.gateway.rooms.check_access(topic, &grant.participant, stamp.as_ref()).await?;
    if !incoming.gateway.rooms.exists(topic).await? {
        return Err(no_topic(topic));
    }
    let creation = change.creation();
    let TopicChange { desk, grant, incoming, .. } = change;
    let gateway = incoming.gateway.clone();
    // A task of its own: a client that hangs up in the middle does not end it there.
    let deletion = async move {
        let control = TopicControl { desk: &desk, creation, who: &grant.participant, stamp: stamp.as_ref() };
        control.delete(&gateway.rooms, &*gateway.files, NoticeTerms { id: &|_| random_id(), about: None, reason }).await
    };
    let deletion = tokio::spawn(deletion.in_current_span());
    deletion.await.unwrap_or_else(|_| Err(Refusal::new(Code::Internal, "the topic could not be deleted")))?;
    Ok(StatusCode::NO_CONTENT)
}

/// A request that changes a topic.
struct TopicChange<'a> {
    incoming: &'a Incoming,
    topic: TopicName,
    grant: Grant,
    desk: HostAccess,
    /// `None` where there is none.
    body: Option<Value>,
}

impl<'a> TopicChange<'a> {
    async fn begin(incoming: &'a Incoming, request: Request) -> Result<Self, Problem> {
        let topic = incoming.topic()?;
        let grant = incoming.credentials(request.headers(), Some(&topic)).by_header()?;
        let gateway = &incoming.gateway;
        let spent = |refusal: Refusal| gateway.spend(&grant.participant, refusal);
        let body = body::read(gateway, (&grant).into(), request.into_body(), MAX_BODY).await.map_err(spent)?;
        let unfit = |error| spent(Refusal::new(Code::InvalidJson, format!("the body is not JSON: {error}")));
        let read = (!body.is_empty()).then(|| serde_json::from_slice(&body)).transpose().map_err(unfit)?;
        gateway.rooms.charge(&grant.participant, body.len().max(1))?;
        let desk = gateway.rooms.desk(&topic, &grant.participant).await?;
        Ok(Self { incoming, topic, grant, desk, body: read })
    }

    fn creation(&self) -> TopicCreation {
        self.incoming.gateway.config.topic_creation()
    }

    async fn apply(&self, make: SettingsEdit<'_>) -> Result<Tagged, Problem> {
        let stamp = self.grant.stamp();
        let (who, creation) = (&self.grant.participant, self.creation());
        let control = TopicControl { desk: &self.desk, creation, who, stamp: stamp.as_ref() };
        let terms = NoticeTerms { id: &|_| random_id(), about: None, reason: None };
        let settings = control.change(Act::Manage, terms, make).await?;
        let rules = self.incoming.gateway.config.retention_rules();
        Ok(TopicBody::tagged(self.topic.clone(), &self.grant, &rules, Some(settings)))
    }
}

fn no_topic(topic: &TopicName) -> Problem {
    Problem::new(Code::NotFound, format!("there is no topic `{topic}`"))
}

/// The version in `If-Match` (RFC 9110 §13.1.1).
fn expected_version(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let wrong = || invalid("`If-Match` is the `ETag` of the settings, such as \"3\"");
    let text = value.to_str().map_err(|_| wrong())?;
    if text == "*" {
        return Ok(None);
    }
    let version = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).and_then(|text| text.parse().ok());
    version.map(Some).ok_or_else(wrong)
}
