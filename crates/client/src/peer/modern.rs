//! Calling a participant that speaks only MCP 2026-07-28: no `initialize`, every request says in `_meta` who asks, and the participant
//! asks back by answering `input_required`.
//!
//! Deliberately absent: anything of the earlier revisions. A participant that also speaks one of those is called in that one.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, try_join_all};
use salon_protocol::{EnvelopeId, McpVersion, Members, Message, ParticipantId, RpcError};
use serde_json::json;
use serde_json::value::RawValue;

use super::directory::client_info;
use super::{GREETING, Peer, read};
use crate::mcp::{Initialized, LogLevel};
use crate::service::{Request, attempt};
use crate::{Backoff, Call, CallError, Event, Events, RequestOptions, ResultError, Room};

/// The revision spoken here.
const REVISION: &str = "2026-07-28";

// MCP 2026-07-28, Basic, "_meta": what every request says, and what a result and a notification say.
const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// How often one call may ask for input, and how many questions it may ask at once.
const MAX_ROUNDS: u32 = 10;
const MAX_QUESTIONS: usize = 16;

/// The wait before a request is sent again that was answered with `input_required` and no question.
const RETRY_DELAY: Backoff = Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(10) };

/// Whether a participant names this revision and none with a handshake.
pub(super) fn is_only_modern(room: &Room, peer: &ParticipantId) -> bool {
    room.roster().into_iter().find(|one| one.id == *peer).is_some_and(|one| speaks_only_modern(&one.mcp))
}

fn speaks_only_modern(mcp: &McpVersion) -> bool {
    let speaks = |revision: &str| mcp.version == revision || mcp.versions.iter().any(|one| one == revision);
    speaks(REVISION) && !McpVersion::HANDSHAKES.into_iter().any(speaks)
}

/// What the participant says of itself, in the shape a handshake has it.
pub(super) async fn discover(room: &Room, peer: &ParticipantId) -> Result<Initialized, CallError> {
    let params = with_meta(room, &empty(), None);
    let options = RequestOptions { timeout: GREETING, progress: false, ..RequestOptions::default() };
    let mut said = match room.request_with(peer, "server/discover", &params, options).await?.result().await {
        Ok(answer) => read::<Members>(&answer)?,
        // It says nothing of what it has, so everything is worth asking for.
        Err(CallError::Answered(RpcError { code: RpcError::METHOD_NOT_FOUND, .. })) => {
            let mut unknown = Members::default();
            unknown.set("capabilities", &json!({ "tools": {}, "resources": {}, "prompts": {} }));
            unknown
        }
        Err(error) => return Err(error),
    };
    if let Some(info) = meta_of(&said).and_then(|mut meta| meta.remove(SERVER_INFO)) {
        said.set("serverInfo", &info);
    }
    said.set("protocolVersion", REVISION);
    read(&said.to_raw())
}

/// Sends a request that may be asked for input before it is answered.
pub(super) async fn start(
    peer: &Peer,
    method: &str,
    params: &RawValue,
    log_level: Option<LogLevel>,
    options: RequestOptions,
) -> Result<Call, CallError> {
    let params = with_meta(peer.room(), params, log_level);
    let rounds = Rounds { method: method.into(), params: params.clone(), options, count: 0 };
    rounds.send(peer.room(), peer.id(), &params).await
}

/// A request of this revision, to be sent again with the answers to what it was answered with.
pub(crate) struct Rounds {
    method: String,
    /// As it was sent first.
    params: Box<RawValue>,
    options: RequestOptions,
    count: u32,
}

impl Rounds {
    async fn send(self, room: &Room, peer: &ParticipantId, params: &RawValue) -> Result<Call, CallError> {
        let call = room.request_with(peer, &self.method, params, self.options.clone()).await?;
        Ok(call.with_rounds(self))
    }

    /// The next round, when an answer asks for input (MCP 2026-07-28, Multi Round-Trip Requests); `None` when the answer is complete.
    pub(crate) fn next(
        self,
        room: &Room,
        peer: &ParticipantId,
        call: &EnvelopeId,
        answer: &RawValue,
    ) -> Option<BoxFuture<'static, Result<Call, CallError>>> {
        let InputRequired { questions, state } = InputRequired::read(answer)?;
        let (room, peer, call) = (room.clone(), peer.clone(), call.clone());
        let next = async move {
            if self.count >= MAX_ROUNDS || questions.len() > MAX_QUESTIONS {
                return Err(ResultError::TooMuchInput(self.method).into());
            }
            if questions.is_empty() {
                tokio::time::sleep(RETRY_DELAY.delay(self.count, rand::random())).await;
            }
            let asked = questions.iter().map(|(key, question)| answer_one(&room, &peer, &call, key, question));
            let answers = try_join_all(asked).await?;
            let params = with_answers(&self.params, answers, state.as_deref());
            Self { count: self.count + 1, ..self }.send(&room, &peer, &params).await
        };
        Some(next.boxed())
    }
}

/// What an answer asks for.
struct InputRequired {
    /// By the participant's own keys.
    questions: Vec<(String, Question)>,
    /// To be sent back as it is.
    state: Option<Box<RawValue>>,
}

#[derive(serde::Deserialize)]
struct Question {
    method: String,
    params: Option<Box<RawValue>>,
}

impl InputRequired {
    fn read(answer: &RawValue) -> Option<Self> {
        let mut answer = Members::parse(answer.get())?;
        if answer.get("resultType")?.get() != "\"input_required\"" {
            return None;
        }
        let questions = answer.get("inputRequests").and_then(|raw| Members::parse(raw.get())).unwrap_or_default();
        let questions =
            questions.iter().filter_map(|(key, raw)| Some((key.to_owned(), serde_json::from_str(raw.get()).ok()?)));
        Some(Self { questions: questions.collect(), state: answer.remove("requestState") })
    }
}

/// Has this participant's service answer one question.
async fn answer_one(
    room: &Room,
    peer: &ParticipantId,
    call: &EnvelopeId,
    key: &str,
    Question { method, params }: &Question,
) -> Result<(String, Box<RawValue>), CallError> {
    let directory = &room.shared().directory;
    let is_elicitation = method == "elicitation/create";
    let declared = capability(method).is_some_and(|name| {
        Members::parse(directory.declares().get()).is_some_and(|declared| declared.get(name).is_some())
    });
    let request = Request::from_answer(room, peer, call, method, params.as_deref());
    let answer = match (request, directory.answering(peer, method)) {
        (Some(request), Some(service)) if declared => attempt(async move { service.request(request).await }).await,
        _ if is_elicitation => return Ok((key.to_owned(), action("decline"))),
        _ => Err(RpcError::method_not_found(method)),
    };
    match answer {
        Ok(answer) => Ok((key.to_owned(), answer)),
        // An error has no place among the answers. A person who cannot be asked has cancelled; anything else fails the call.
        Err(_) if is_elicitation => Ok((key.to_owned(), action("cancel"))),
        Err(error) => Err(CallError::NoInput { method: method.clone(), error }),
    }
}

/// What a client declares that can be asked this.
fn capability(method: &str) -> Option<&'static str> {
    match method {
        "elicitation/create" => Some("elicitation"),
        "sampling/createMessage" => Some("sampling"),
        "roots/list" => Some("roots"),
        _ => None,
    }
}

fn action(word: &str) -> Box<RawValue> {
    let mut answer = Members::default();
    answer.set("action", word);
    answer.to_raw()
}

fn with_answers(params: &RawValue, answers: Vec<(String, Box<RawValue>)>, state: Option<&RawValue>) -> Box<RawValue> {
    let Some(mut params) = Members::parse(params.get()) else { return params.to_owned() };
    if !answers.is_empty() {
        let mut responses = Members::default();
        for (key, answer) in &answers {
            responses.set(key, answer);
        }
        params.set("inputResponses", &responses);
    }
    if let Some(state) = state {
        params.set("requestState", state);
    }
    params.to_raw()
}

/// Listens for changes of a resource: an open request, which ends the subscription when it is dropped. Returns when the participant
/// has acknowledged it.
pub(super) async fn listen(peer: &Peer, uri: &str, events: &mut Events) -> Result<Call, CallError> {
    let params = json!({ "notifications": { "resourceSubscriptions": [uri] } });
    let options = RequestOptions { timeout: Duration::MAX, progress: false, ..RequestOptions::default() };
    let mut call = peer.start("subscriptions/listen", &params, options).await?;
    let id = call.rpc_id().to_json();
    let acknowledged = async {
        loop {
            tokio::select! { biased;
                event = events.next() => match event {
                    Some(Event::Envelope(envelope)) => {
                        let method = match envelope.message() {
                            Some(Message::Notification { method }) => &**method,
                            _ => continue,
                        };
                        let meant = *envelope.from() == *peer.id() && method == "notifications/subscriptions/acknowledged";
                        let params = envelope.params().and_then(Members::parse);
                        let named = params.and_then(|params| meta_of(&params)?.remove(SUBSCRIPTION_ID));
                        if meant && named.is_some_and(|named| named.get() == id) {
                            return true;
                        }
                    }
                    Some(_) => {}
                    None => return false,
                },
                progress = call.progress() => if progress.is_none() { return false },
            }
        }
    };
    match tokio::time::timeout(GREETING, acknowledged).await {
        Ok(true) => Ok(call),
        Ok(false) => call.result().await.and(Err(ResultError::NotSubscribed.into())),
        Err(_) => Err(CallError::TimedOut),
    }
}

/// The longest a list is kept, whatever its `ttlMs` says: that is another participant's number, and a clock cannot add all of them.
const MAX_LIST_AGE: Duration = Duration::from_secs(60 * 60);

/// How long a list may be kept: `ttlMs`, and not at all where that is missing.
pub(super) fn lifetime(page: &Members) -> Duration {
    let ttl = page.get("ttlMs").and_then(|raw| serde_json::from_str::<f64>(raw.get()).ok());
    let seconds = ttl.map(|millis| (millis / 1000.0).min(MAX_LIST_AGE.as_secs_f64()));
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

/// Parameters that say who asks.
fn with_meta(room: &Room, params: &RawValue, log_level: Option<LogLevel>) -> Box<RawValue> {
    let Some(mut members) = Members::parse(params.get()) else { return params.to_owned() };
    let mut meta = meta_of(&members).unwrap_or_default();
    meta.set(PROTOCOL_VERSION, REVISION);
    meta.set(CLIENT_INFO, &client_info(room));
    meta.set(CLIENT_CAPABILITIES, room.shared().directory.declares());
    if let Some(level) = log_level {
        meta.set(LOG_LEVEL, &level);
    }
    members.set("_meta", &meta);
    members.to_raw()
}

fn meta_of(holder: &Members) -> Option<Members> {
    Members::parse(holder.get("_meta")?.get())
}

fn empty() -> Box<RawValue> {
    crate::mcp::empty_object()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_participant_is_modern_when_it_names_no_handshake() {
        let only = |version: &str, versions: &[&str]| {
            let versions = versions.iter().map(|one| (*one).to_owned()).collect();
            speaks_only_modern(&McpVersion { version: version.into(), versions })
        };
        assert!(only("2026-07-28", &["2026-07-28"]));
        assert!(only("2026-07-28", &["2026-07-28", "2027-01-01"]));
        assert!(!only("2025-06-18", &["2026-07-28", "2025-06-18"]));
        assert!(!only("2025-06-18", &[]));
        // A revision that is not known here is still worth a handshake.
        assert!(!only("2027-01-01", &["2027-01-01"]));
    }

    #[test]
    fn questions_and_state_are_read_as_they_were_written() {
        let raw = |text: &str| RawValue::from_string(text.into()).expect("JSON");
        let asked = InputRequired::read(&raw(
            r#"{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"},"bad":7},"requestState":"a\u0062"}"#,
        ))
        .expect("it asks");
        assert_eq!(
            asked.questions.iter().map(|(key, one)| format!("{key} {}", one.method)).collect::<Vec<_>>(),
            ["k roots/list"]
        );
        let answers = vec![("k".to_owned(), raw(r#"{"roots":[]}"#))];
        assert_eq!(
            with_answers(&raw(r#"{"name":"t","arguments":{"n": 1.0}}"#), answers, asked.state.as_deref()).get(),
            r#"{"name":"t","arguments":{"n": 1.0},"inputResponses":{"k":{"roots":[]}},"requestState":"a\u0062"}"#
        );
        assert!(InputRequired::read(&raw(r#"{"resultType":"complete"}"#)).is_none());
        assert!(InputRequired::read(&raw(r#"{"content":[]}"#)).is_none());
    }

    #[test]
    fn a_list_without_a_lifetime_is_not_kept() {
        let lifetime = |text: &str| lifetime(&Members::parse(text).expect("an object"));
        assert_eq!(lifetime(r#"{"ttlMs":1500}"#), Duration::from_millis(1500));
        for none in ["{}", r#"{"ttlMs":0}"#, r#"{"ttlMs":-1}"#, r#"{"ttlMs":"1"}"#] {
            assert_eq!(lifetime(none), Duration::ZERO, "{none}");
        }
        for huge in [r#"{"ttlMs":1e22}"#, r#"{"ttlMs":1e300}"#] {
            assert_eq!(lifetime(huge), MAX_LIST_AGE, "{huge}");
            assert!(std::time::Instant::now().checked_add(lifetime(huge)).is_some());
        }
    }
}
