//! The probe of a URL.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use salon_dialects::mcp::Head;
use tokio::time::{Instant, timeout, timeout_at};

use super::{DISCOVER, Discovery, Era, INITIALIZE, MODERN, Verdict, Wire, discover, initialize, read_initialized};
use crate::upstream::frame;
use crate::upstream::http::{EventStream, Failure, Http, Kind, kind, read_text};
use crate::upstream::streamable::{PROTOCOL_VERSION, SESSION_ID};
use crate::upstream::{UpstreamError, UrlTransport, legacy_sse};

const METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// How long ending the session of a probe may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// What a question came to, where that says something about eras.
#[derive(Debug)]
enum Reply {
    /// An answer to it, whatever the status.
    Answer { text: String, status: StatusCode, session: Option<HeaderValue> },
    /// No answer.
    Other { status: StatusCode, why: String },
    /// A stream that begins as one of HTTP+SSE, though that is not opened by POST.
    Endpoint,
}

pub(super) async fn probe(http: &Http, transport: UrlTransport, limit: Duration) -> Result<Verdict, UpstreamError> {
    let deadline = Instant::now() + limit;
    let within = timeout_at(deadline, async {
        match transport {
            UrlTransport::Sse => sse(http).await,
            UrlTransport::Auto | UrlTransport::Streamable => streamable(http, transport).await,
        }
    });
    within.await.unwrap_or(Err(UpstreamError::TimedOut(limit)))
}

async fn streamable(http: &Http, transport: UrlTransport) -> Result<Verdict, UpstreamError> {
    for _ in 0..2 {
        let reply = ask(http, discover(), DISCOVER, Era::Modern).await?;
        let Reply::Answer { text, .. } = reply else { break };
        match answer_in(&text, DISCOVER).map_or(Discovery::No, |head| Discovery::read(&head)) {
            Discovery::Modern(found) => {
                let dual = found.lists_legacy || matches!(ask_legacy(http).await, Ok(Ok(())));
                return Ok(Verdict::of(found, dual, Wire::Streamable));
            }
            Discovery::AskAgain => {}
            Discovery::No => break,
        }
    }
    let (status, why) = match ask_legacy(http).await? {
        Ok(()) => return Ok(Verdict::legacy(Wire::Streamable)),
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

/// Whether a server answers `initialize`, or why it does not; the status is `None` where HTTP+SSE showed itself.
async fn ask_legacy(http: &Http) -> Result<Result<(), (Option<StatusCode>, String)>, UpstreamError> {
    let (text, status, session) = match ask(http, initialize(), INITIALIZE, Era::Legacy).await? {
        Reply::Answer { text, status, session } => (text, status, session),
        Reply::Other { status, why } => return Ok(Err((Some(status), why))),
        Reply::Endpoint => return Ok(Err((None, "it speaks HTTP+SSE".to_owned()))),
    };
    let answer = answer_in(&text, INITIALIZE).map(|head| read_initialized(&head));
    let revision = match answer {
        Some(Ok(revision)) => revision,
        Some(Err(why)) => return Ok(Err((Some(status), why))),
        None => return Ok(Err((Some(status), "it does not answer `initialize`".to_owned()))),
    };
    if let Some(session) = session {
        let mut headers = HeaderMap::from_iter([(SESSION_ID, session)]);
        headers.extend(HeaderValue::from_str(&revision).ok().map(|revision| (PROTOCOL_VERSION, revision)));
        let _ = timeout(FAREWELL, http.delete(headers)).await;
    }
    Ok(Ok(()))
}

async fn sse(http: &Http) -> Result<Verdict, UpstreamError> {
    legacy_sse::connect(http).await?;
    Ok(Verdict::legacy(Wire::Sse))
}

/// Posts a question. An error says nothing about eras.
async fn ask(http: &Http, text: String, id: &str, era: Era) -> Result<Reply, UpstreamError> {
    let mut headers = HeaderMap::new();
    if era == Era::Modern {
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(MODERN.date()));
        headers.insert(METHOD, HeaderValue::from_static("server/discover"));
    }
    let response = http.post(http.url(), headers, &text).await.map_err(Failure::into_error)?;
    let (status, session) = (response.status(), response.headers().get(SESSION_ID).cloned());
    if !status.is_success() {
        let failure = Failure::refused(response).await;
        if status_is_no_answer(status) {
            return Err(failure.into_error());
        }
        return Ok(match failure.body {
            Some(text) if answer_in(&text, id).is_some() => Reply::Answer { text: text.into(), status, session },
            _ => Reply::Other { status, why: failure.why },
        });
    }
    if kind(&response) != Kind::Events {
        let text = read_text(response).await.map_err(Failure::into_error)?;
        return Ok(match answer_in(&text, id) {
            Some(_) => Reply::Answer { text, status, session },
            None => Reply::Other { status, why: "it answers a POST with something else than MCP".to_owned() },
        });
    }
    let mut events = EventStream::new(response);
    while let Some(event) = events.next().await.map_err(Failure::into_error)? {
        if event.name == "endpoint" {
            return Ok(Reply::Endpoint);
        }
        if answer_in(&event.data, id).is_some() {
            return Ok(Reply::Answer { text: event.data, status, session });
        }
    }
    Ok(Reply::Other { status, why: "its stream ended before the answer".to_owned() })
}

/// Credentials, overload, redirects and a broken server: nothing that tells an era.
fn status_is_no_answer(status: StatusCode) -> bool {
    let busy =
        [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    busy.contains(&status) || status.is_server_error() || status.is_redirection()
}

fn answer_in<'a>(text: &'a str, id: &str) -> Option<Head<'a>> {
    frame::split(text)?.into_iter().filter_map(Head::read).find(|head| head.answers(id))
}
