//! The probe of a URL.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use salon_dialects::mcp::draft;
use salon_mcp::Head;
use tokio::time::{Instant, timeout, timeout_at};

use super::{DISCOVER, Discovery, Era, INITIALIZE, Initialized, MODERN, Speech, Verdict, Wire, discover, initialize};
use crate::upstream::frame;
use crate::upstream::http::{EventStream, Failure, Http, Kind, kind, read_text};
use crate::upstream::streamable::{PROTOCOL_VERSION, SESSION_ID};
use crate::upstream::{FAREWELL_ID, UpstreamError, UrlTransport, legacy_sse};

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
                let dual = found.lists_legacy || matches!(ask_legacy(http).await, Ok(Ok(_)));
                return Ok(Verdict::of(found, dual, Wire::Streamable));
            }
            Discovery::AskAgain => {}
            Discovery::No => break,
        }
    }
    let (status, why) = match ask_legacy(http).await? {
        Ok(speech) => return Ok(Verdict::legacy(Wire::Streamable, speech)),
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
async fn ask_legacy(http: &Http) -> Result<Result<Speech, (Option<StatusCode>, String)>, UpstreamError> {
    let mut asked = Speech::Unknown;
    loop {
        let (text, status, session) = match ask(http, initialize(asked), INITIALIZE, Era::Legacy).await? {
            Reply::Answer { text, status, session } => (text, status, session),
            Reply::Other { status, why } => return Ok(Err((Some(status), why))),
            Reply::Endpoint => return Ok(Err((None, "it speaks HTTP+SSE".to_owned()))),
        };
        let Some(head) = answer_in(&text, INITIALIZE) else {
            return Ok(Err((Some(status), "it does not answer `initialize`".to_owned())));
        };
        let (speech, revision) = match Initialized::read(&head, asked) {
            Initialized::Official(revision) => (Speech::Official, HeaderValue::from_str(&revision).ok()),
            Initialized::Draft => (Speech::Draft, None),
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
            if speech == Speech::Draft {
                let (shutdown, exit) = draft::farewell(FAREWELL_ID);
                for text in [shutdown, exit] {
                    let _ = http.post(http.url(), headers.clone(), &text).await;
                }
            }
            if in_session {
                http.delete(headers.clone()).await;
            }
        };
        let _ = timeout(FAREWELL, farewell).await;
        return Ok(Ok(speech));
    }
}

async fn sse(http: &Http) -> Result<Verdict, UpstreamError> {
    legacy_sse::connect(http).await?;
    Ok(Verdict::legacy(Wire::Sse, Speech::Unknown))
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
