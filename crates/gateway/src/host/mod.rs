//! The host: the gateway's own participant, `system:gateway`, an MCP server like everyone.
//!
//! It is addressed and answers by envelopes in the room. Whatever it writes in answer to a request has an id derived from that
//! request's, so that a request it had half answered when the gateway went down is answered once and acted on once.

mod tools;

use std::collections::HashSet;
use std::sync::Arc;

use salon_log::TopicLog;
use salon_protocol::{Compose, Draft, Entry, EnvelopeId, Kind, Limits, Message, ParticipantId, RpcId, TopicName};
use salon_rooms::{Desk, Residence};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::clock;
use tools::Toolbox;

/// The MCP revisions of the host's handshake, the preferred first.
const REVISIONS: [&str; 4] = ["2025-06-18", "2025-11-25", "2025-03-26", "2024-11-05"];

const BATCH: usize = 64 * 1024;

/// What the host writes is its own, and needs no limit but those it keeps itself.
const UNLIMITED: Limits = Limits { message: 0, depth: usize::MAX, recipients: 0 };

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;

/// The host of every room.
///
/// `namespace` is secret: an id that somebody else could foresee, they could take first.
pub(crate) fn host(
    log: Arc<dyn TopicLog>,
    history_off: HashSet<TopicName>,
    message_limit: usize,
    namespace: [u8; 16],
) -> salon_rooms::Host {
    let namespace = uuid::Uuid::from_bytes(namespace);
    let toolbox = Arc::new(Toolbox { log, history_off, message_limit, namespace });
    Box::new(move |residence| {
        let toolbox = toolbox.clone();
        Box::pin(async move { reside(&toolbox, residence).await })
    })
}

async fn reside(toolbox: &Toolbox, residence: Residence) {
    let Residence { mut cursor, desk } = residence;
    let mut happenings = Vec::new();
    while cursor.next(&mut happenings, BATCH).await.is_ok() {
        for happening in happenings.drain(..) {
            for entry in happening.entries() {
                answer(toolbox, &desk, entry).await;
            }
        }
    }
}

/// A JSON-RPC error.
#[derive(Debug, Serialize)]
pub(super) struct RpcError {
    code: i64,
    message: String,
}

impl RpcError {
    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self { code: INVALID_PARAMS, message: message.into() }
    }
}

async fn answer(toolbox: &Toolbox, desk: &Desk, entry: &Entry) {
    let Some(Message::Request { id, method }) = entry.envelope.message() else { return };
    let params = entry.envelope.params();
    let outcome = match &**method {
        "initialize" => Ok(text(&initialize(params))),
        "ping" => Ok(text(&json!({}))),
        "tools/list" => Ok(text(&json!({ "tools": tools::descriptions() }))),
        "tools/call" => toolbox.call(desk, entry, params).await,
        other => Err(RpcError {
            code: METHOD_NOT_FOUND,
            message: format!("the gateway does not offer the method `{other}`"),
        }),
    };

    let host = ParticipantId::host();
    let mut draft = respond(toolbox, entry, id, &outcome);
    if toolbox.message_limit > 0 && draft.envelope().text().len() > toolbox.message_limit {
        let message = format!("the answer is longer than the limit of {} bytes; ask for less", toolbox.message_limit);
        draft = respond(toolbox, entry, id, &Err(RpcError { code: INTERNAL_ERROR, message }));
    }
    if let Err(refusal) = desk.publish(&host, draft).outcome().await {
        // An id conflict is the answer given before a restart.
        tracing::debug!(topic = %desk.topic(), %refusal, "the host's answer was not stored");
    }
}

fn respond(toolbox: &Toolbox, request: &Entry, id: &RpcId, outcome: &Result<Box<RawValue>, RpcError>) -> Draft {
    #[derive(Serialize)]
    struct Response<'a> {
        jsonrpc: &'static str,
        id: Box<RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a RpcError>,
    }
    let id = RawValue::from_string(id.to_json()).expect("a JSON-RPC id is JSON");
    let (result, error) = (outcome.as_deref().ok(), outcome.as_ref().err());
    let response = Response { jsonrpc: "2.0", id, result, error };
    let to = std::slice::from_ref(request.envelope.from());
    compose(toolbox, "answer", &ParticipantId::host(), to, request.envelope.id(), response)
}

/// A value as JSON text. Envelopes in it stay as they were written: they never become values of ours, which could not hold every
/// number a peer can write.
pub(super) fn text(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("what the host answers has only string keys")
}

/// An envelope written because of a request.
fn compose(
    toolbox: &Toolbox,
    purpose: &str,
    from: &ParticipantId,
    to: &[ParticipantId],
    request: &EnvelopeId,
    payload: impl Serialize,
) -> Draft {
    let id = uuid::Uuid::new_v5(&toolbox.namespace, format!("{purpose} {request}").as_bytes()).to_string();
    let compose = Compose {
        id: &id,
        ts: clock::now(),
        from,
        to,
        kind: Kind::Mcp,
        correlation_id: Some(request.as_str()),
        payload,
    };
    Draft::parse(compose.text(), &UNLIMITED).expect("what the host composes is well-formed")
}

fn initialize(params: Option<&str>) -> Value {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "protocolVersion")]
        version: String,
    }
    let asked = params.and_then(|params| serde_json::from_str::<Params>(params).ok());
    let version = REVISIONS.iter().find(|known| asked.as_ref().is_some_and(|asked| asked.version == **known));
    json!({
        "protocolVersion": version.unwrap_or(&REVISIONS[0]),
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "salon", "title": "Salon gateway", "version": env!("CARGO_PKG_VERSION") },
        "instructions": "The gateway of this room. Its tools tell who is here and what was said, and speak for you in chat.",
    })
}
