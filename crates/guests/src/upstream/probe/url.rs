//! The probe of a URL.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use salon_dialects::mcp::draft;
use salon_mcp::RpcHead;
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    DISCOVER, DiscoverAnswer, Era, INITIALIZE, Initialized, LegacyDialect, MODERN, ProbeVerdict, WireKind, discover,
    initialize,
};
use crate::upstream::frame;
use crate::upstream::http::{BodyKind, HttpEvents, HttpFailure, HttpUpstream, kind, read_text};
use crate::upstream::streamable::{PROTOCOL_VERSION, SESSION_ID};
use crate::upstream::{FAREWELL_ID, UpstreamError, UrlTransport, legacy_sse};

const METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// How long ending the session of a probe may take.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);

/// What a question came to, where that says something about eras.
#[derive(Debug)]
enum ProbeReply {
    /// An answer to it, whatever the status.
    Answer { text: String, status: StatusCode, session: Option<HeaderValue> },
    /// No answer.
    Other { status: StatusCode, why: String },
    /// A stream that begins as one of HTTP+SSE, though that is not opened by POST.
    Endpoint,
}

pub(super) async fn probe(
    http: &HttpUpstream,
    transport: UrlTransport,
    limit: Duration,
) -> Result<ProbeVerdict, UpstreamError> {
    let deadline = Instant::now() + limit;
    let within = timeout_at(deadline, async {
        match transport {
            UrlTransport::Sse => sse(http).await,
            UrlTransport::Auto | UrlTransport::Streamable => streamable(http, transport).await,
        }
    });
    within.await.unwrap_or(Err(UpstreamError::TimedOut(limit)))
}

async fn streamable(http: &HttpUpstream, transport: UrlTransport) -> Result<ProbeVerdict, UpstreamError> {
    for _ in 0..2 {
        let reply = ask(http, discover(), DISCOVER, Era::Modern).await?;
        let ProbeReply::Answer { text, .. } = reply else { break };
        match answer_in(&text, DISCOVER).map_or(DiscoverAnswer::No, |head| DiscoverAnswer::read(&head)) {
            DiscoverAnswer::Modern(found) => {
                let dual = found.lists_legacy || matches!(ask_legacy(http).await, Ok(Ok(_)));
                return Ok(ProbeVerdict::of(found, dual, WireKind::Streamable));
            }
            DiscoverAnswer::AskAgain => {}
            DiscoverAnswer::No => break,
        }
    }
    let (status, why) = match ask_legacy(http).await? {
        Ok(speech) => return Ok(ProbeVerdict::legacy(WireKind::Streamable, speech)),
        Err(refused) => refused,
    };
    let perhaps_sse =
        matches!(status, None | Some(StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED));
    if transport == UrlTransport::Streamable || !perhaps_sse {
        return Err(UpstreamError::NotMcp(why));
    }
    match sse(http).await {
        Err(UpstreamError::Status { .. } | UpstreamError::NotMcp(_) | UpstreamError::Unreachable(_)) => {
            Err(UpstreamError::NotMcp(format!("{why}, and it has no stream of events with an endpoint either")))
        }
        other => other,
    }
}

/// What a server that answers `initialize` speaks, or why it does not; the status is `None` where HTTP+SSE showed itself.
async fn ask_legacy(http: &HttpUpstream) -> Result<Result<LegacyDialect, (Option<StatusCode>, String)>, UpstreamError> {
    let mut asked = LegacyDialect::Unknown;
    loop {
        let (text, status, session) = match ask(http, initialize(asked), INITIALIZE, Era::Legacy).await? {
            ProbeReply::Answer { text, status, session } => (text, status, session),
            ProbeReply::Other { status, why } => return Ok(Err((Some(status), why))),
            ProbeReply::Endpoint => return Ok(Err((None, "it speaks HTTP+SSE".to_owned()))),
        };
        let Some(head) = answer_in(&text, INITIALIZE) else {
            return Ok(Err((Some(status), "it does not answer `initialize`".to_owned())));
        };
        let (speech, revision) = match Initialized::read(&head, asked) {
            Initialized::Official(revision) => (LegacyDialect::Official, HeaderValue::from_str(&revision).ok()),
            Initialized::Draft => (LegacyDialect::Draft, None),
            Initialized::Again(speech) => {
                asked = speech;
                continue;
            }
            Initialized::Refused(why) => return Ok(Err((Some(status), why))),
        };
        let in_session = session.is_some();
        let mut headers: HeaderMap = session.map(|session| (SESSION_ID, session)).into_iter().collect();
        headers.extend(revision.map(|revision| (PROTOCOL_VERSION, revision)));
        let farewell = async {
            if speech == LegacyDialect::Draft {
                let (shutdown, exit) = draft::farewell(FAREWELL_ID);
                for text in [shutdown, exit] {
                    let _ = http.post(http.url(), headers.clone(), &text).await;
                }
            }
            if in_session {
                http.delete(headers.clone()).await;
            }
        };
        let _ = timeout(DELETE_TIMEOUT, farewell).await;
        return Ok(Ok(speech));
    }
}

async fn sse(http: &HttpUpstream) -> Result<ProbeVerdict, UpstreamError> {
    legacy_sse::connect(http).await?;
    Ok(ProbeVerdict::legacy(WireKind::Sse, LegacyDialect::Unknown))
}

/// Posts a question. An error says nothing about eras.
async fn ask(http: &HttpUpstream, text: String, id: &str, era: Era) -> Result<ProbeReply, UpstreamError> {
    let mut headers = HeaderMap::new();
    if era == Era::Modern {
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(MODERN.date()));
        headers.insert(METHOD, HeaderValue::from_static("server/discover"));
    }
    let response = http.post(http.url(), headers, &text).await.map_err(HttpFailure::into_error)?;
    let (status, session) = (response.status(), response.headers().get(SESSION_ID).cloned());
    if !status.is_success() {
        let failure = HttpFailure::refused(response).await;
        if status_is_no_answer(status) {
            return Err(failure.into_error());
        }
        return Ok(match failure.body {
            Some(text) if answer_in(&text, id).is_some() => ProbeReply::Answer { text: text.into(), status, session },
            _ => ProbeReply::Other { status, why: failure.why },
        });
    }
    if kind(&response) != BodyKind::Events {
        let text = read_text(response).await.map_err(HttpFailure::into_error)?;
        return Ok(match answer_in(&text, id) {
            Some(_) => ProbeReply::Answer { text, status, session },
            None => ProbeReply::Other { status, why: "it answers a POST with something else than MCP".to_owned() },
        });
    }
    let mut events = HttpEvents::new(response);
    while let Some(event) = events.next().await.map_err(HttpFailure::into_error)? {
        if event.name == "endpoint" {
            return Ok(ProbeReply::Endpoint);
        }
        if answer_in(&event.data, id).is_some() {
            return Ok(ProbeReply::Answer { text: event.data, status, session });
        }
    }
    Ok(ProbeReply::Other { status, why: "its stream ended before the answer".to_owned() })
}

/// Credentials, overload, redirects and a broken server: nothing that tells an era.
fn status_is_no_answer(status: StatusCode) -> bool {
    let busy =
        [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    busy.contains(&status) || status.is_server_error() || status.is_redirection()
}

fn answer_in<'a>(text: &'a str, id: &str) -> Option<RpcHead<'a>> {
    frame::split(text)?.into_iter().filter_map(RpcHead::read).find(|head| head.answers(id))
}
