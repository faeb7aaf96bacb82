//! Signing a browser in and out: a token or a link's code in, a cookie out.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use salon_protocol::{Code, ParticipantId, ParticipantKind, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Ui;
use crate::audit::{AuditEvent, AuditKind};
use crate::auth::{AuthError, Grant, MAX_TOKEN_BYTES, SignedIn, SignedOut};
use crate::clock;
use crate::gateway::GatewayState;
use crate::http::bodies::BodySender;
use crate::http::credentials::SignIn;
use crate::http::{Incoming, Problem, body, invalid};

/// A token of the longest, and what stands around it.
const MAX_BODY: usize = MAX_TOKEN_BYTES + 1024;

/// Either of them
#[derive(Deserialize, ToSchema)]
pub(crate) struct SignInRequest {
    /// A token, as for `Authorization: Bearer`
    token: Option<String>,
    /// What a one-time link has in its fragment
    code: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct SessionBody {
    participant: Who,
    /// The topics it opens: names, or prefixes with a trailing `*`
    topics: Vec<String>,
    /// When it ends
    #[schema(value_type = String, format = DateTime)]
    expires: Timestamp,
    /// Tools that the page need not ask about before it calls them: `participant/tool`, with `*` for any characters
    allow: Vec<String>,
    /// What the token permits beyond being there, such as `operator`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    permissions: Vec<String>,
    /// The capabilities that the token is limited to
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<Vec<String>>,
    /// Whether the participant may give settings to a topic that has none
    creates_topics: bool,
}

/// The person who is signed in
#[derive(Serialize, ToSchema)]
struct Who {
    #[schema(value_type = String)]
    id: ParticipantId,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    kind: Option<ParticipantKind>,
}

impl SessionBody {
    pub(crate) fn of(gateway: &GatewayState, grant: Grant) -> Self {
        let creation = gateway.config.topic_creation();
        Self {
            creates_topics: crate::topic_control::check_creation(creation, grant.stamp().as_ref()).is_ok(),
            permissions: grant.permissions,
            capabilities: grant.capabilities,
            topics: grant.topics.iter().map(ToString::to_string).collect(),
            expires: grant.expires,
            allow: gateway.config.ui.allow.clone(),
            participant: Who { id: grant.participant, name: grant.name, kind: grant.kind },
        }
    }
}

#[utoipa::path(post, path = "/v0/session", operation_id = "session_begin", tag = "Web", summary = "Sign a browser in",
    request_body = SignInRequest,
    responses((status = 201, description = "Signed in; the cookie is in `Set-Cookie`", body = SessionBody),
        (status = "4XX", description = "Refused", body = crate::http::ProblemBody)))]
pub(crate) async fn begin(incoming: Incoming, request: Request) -> Result<Response, Problem> {
    let (gateway, address) = (&incoming.gateway, incoming.ip());
    let ui = of(gateway)?;
    ui.cookie.require_own_page(gateway, request.method(), request.headers())?;
    if ui.failures.are_too_many(address, clock::now()) {
        let told = "too many failed attempts to sign in from this address; wait a second";
        return Err(Problem::new(Code::RateLimited, told));
    }
    let (parts, body) = request.into_parts();
    let body = body::read(gateway, BodySender::stranger(&incoming.peer), body, MAX_BODY).await?;
    // The answer does not say what is wrong with it, because the detail would be the token.
    let unfit = || invalid(r#"the body must be {"token":"…"} or {"code":"…"}"#);
    let given: SignInRequest = serde_json::from_slice(&body).map_err(|_| unfit())?;
    let shown = match (&given.token, &given.code) {
        (Some(token), None) => SignIn::Token(token.trim()),
        (None, Some(code)) => SignIn::Code(code),
        _ => return Err(unfit()),
    };
    let now = clock::now();
    let credentials = incoming.credentials(&parts.headers, None);
    let grant = credentials.by_sign_in(shown).inspect_err(|_| ui.failures.count(address, now))?;
    // Every sign-in is a record of the audit trail. A code works once, so a refusal would use it up for nothing.
    if given.token.is_some() {
        gateway.reads.take(&grant.participant)?;
    }
    let SignedIn { value, grant } = ui.sign_ins.begin(grant, now)?;
    // A second line, from the token's id to that of what stands in for it.
    let event = AuditEvent::new(AuditKind::AuthOk, now).grant(&grant).address(address);
    gateway.audit.record(event.reason("signed in"));
    let cookie = ui.cookie.set(&value, grant.expires, now);
    Ok(private(StatusCode::CREATED, Some(cookie), Json(SessionBody::of(gateway, grant))))
}

#[utoipa::path(get, path = "/v0/session", operation_id = "session_show", tag = "Web", summary = "Who a browser is signed in as",
    responses((status = 200, description = "Signed in", body = SessionBody),
        (status = "4XX", description = "Not signed in", body = crate::http::ProblemBody)),
    security(("session" = [])))]
pub(crate) async fn show(State(gateway): State<Arc<GatewayState>>, request: Request) -> Result<Response, Problem> {
    let ui = of(&gateway)?;
    let grant = ui.grant(&gateway, request.method(), request.headers(), clock::now());
    let grant = grant.unwrap_or(Err(AuthError::NotSignedIn.into()))?;
    gateway.revocations.require(&grant)?;
    gateway.reads.take(&grant.participant)?;
    Ok(private(StatusCode::OK, None, Json(SessionBody::of(&gateway, grant))))
}

#[utoipa::path(delete, path = "/v0/session", operation_id = "session_end", tag = "Web", summary = "Sign a browser out",
    responses((status = 204, description = "Signed out, or was not signed in"),
        (status = "4XX", description = "Refused", body = crate::http::ProblemBody),
        (status = 503, description = "Signed out here, but other gateways could not be told yet", body = crate::http::ProblemBody)),
    security(("session" = [])))]
pub(crate) async fn end(State(gateway): State<Arc<GatewayState>>, request: Request) -> Result<Response, Problem> {
    let ui = of(&gateway)?;
    ui.cookie.require_own_page(&gateway, request.method(), request.headers())?;
    let cleared = ui.cookie.clear();
    // A browser can show several values of our name. One of them may be another page's, and which one cannot be seen.
    let values: Vec<String> = ui.cookie.values(request.headers()).map(str::to_owned).collect();
    let ending = gateway.clone();
    let ended = tokio::task::spawn_blocking(move || {
        let (ui, now) = (of(&ending)?, clock::now());
        Ok::<_, Problem>(values.iter().map(|value| ui.sign_ins.end(value, now)).collect::<Vec<_>>())
    });
    let ended = ended.await.map_err(|_| Problem::new(Code::Internal, "signing out broke off"))??;
    let mut failure = None;
    for outcome in ended {
        if let Err(problem) = finish_sign_out(ui, outcome).await {
            failure.get_or_insert(problem);
        }
    }
    Ok(match failure {
        None => private(StatusCode::NO_CONTENT, Some(cleared), ()),
        Some(problem) => private(problem.status(), Some(cleared), problem),
    })
}

/// Tells the other gateways of a sign-out. Refuses where it may not count everywhere and for good.
async fn finish_sign_out(ui: &Ui, outcome: Result<SignedOut, AuthError>) -> Result<(), Problem> {
    let SignedOut { who, written } = match outcome {
        Ok(ended) => ended,
        // A participant that is signed out already has what it wants.
        Err(AuthError::NotSignedIn) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let shared = ui.sign_ins.share(&who).await;
    if let Err(error) = written {
        tracing::error!(%error, "sign-out: not written to disk, a restart forgets it");
        let message = "signed out, but after a restart of the gateway the old session may count again";
        return Err(Problem::new(Code::Internal, message));
    }
    shared.map_err(|error| {
        tracing::warn!(%error, "sign-out: other gateways unreachable, retrying");
        let message = "signed out here, but the other gateways cannot be told at the moment; they will be";
        Problem::new(Code::Closing, message)
    })
}

pub(super) fn of(gateway: &GatewayState) -> Result<&Ui, Problem> {
    gateway.ui.as_ref().ok_or_else(|| Problem::new(Code::NotFound, "there is nothing at this address"))
}

/// An answer for one browser.
fn private(status: StatusCode, cookie: Option<HeaderValue>, body: impl IntoResponse) -> Response {
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(cookie) = cookie {
        headers.insert(header::SET_COOKIE, cookie);
    }
    response
}
