//! Finding out which eras a server speaks.
//!
//! The question is `server/discover`, which only the modern era knows. Any other answer means the legacy era, except where
//! it says nothing about eras: a server that wants credentials, is broken or cannot be reached is an error, because a wrong
//! "legacy" would never correct itself.
//!
//! The legacy era has two ways of speaking, MCP's own and the draft dialect. Which it is shows in the answer to an `initialize` that has
//! the parameters of both.

mod command;
mod url;

use std::time::Duration;

use salon_dialects::mcp::draft::{self, words};
pub use salon_mcp::Era;
use salon_mcp::{Revision, RpcHead, code, meta};
use salon_protocol::{RpcError, rpc};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::frame::ErrorObject;
use super::http::HttpUpstream;
use super::stdio::ChildCommand;
use super::{GuestTarget, UpstreamError, UpstreamSetup};

/// The revisions that are asked for.
const MODERN: Revision = Revision::MODERN;
const LEGACY: Revision = Revision::R2025_11_25;

/// The ids of our questions, as JSON.
const DISCOVER: &str = "\"salon-discover\"";
const INITIALIZE: &str = "\"salon-initialize\"";

/// What carries the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireKind {
    /// A child's standard streams.
    Stdio,
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE, of revision 2024-11-05. Legacy only.
    Sse,
    /// A WebSocket. Legacy only.
    WebSocket,
}

/// The words of the legacy era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegacyDialect {
    /// MCP as it was published.
    Official,
    /// The draft dialect.
    Draft,
    /// Its answer to `initialize` will show it.
    Unknown,
}

/// What a probe found. The caller keeps it, but not for ever: a server that learns the modern era does not announce that.
#[derive(Debug, Clone)]
pub struct ProbeVerdict {
    /// What it speaks, preferred first. A dual-era server has both.
    pub eras: Vec<Era>,
    /// The result of `server/discover`, where it speaks the modern era.
    pub discovered: Option<Box<RawValue>>,
    /// What carries the messages.
    pub wire: WireKind,
    /// What it speaks in the legacy era.
    pub speech: LegacyDialect,
}

impl ProbeVerdict {
    /// Whether the server speaks that era.
    pub fn speaks(&self, era: Era) -> bool {
        self.eras.contains(&era)
    }

    /// A server that begins with `initialize`.
    pub(crate) fn legacy(wire: WireKind, speech: LegacyDialect) -> Self {
        Self { eras: vec![Era::Legacy], discovered: None, wire, speech }
    }

    fn of(found: ModernServer, dual: bool, wire: WireKind) -> Self {
        let mut eras = vec![Era::Modern];
        eras.extend(dual.then_some(Era::Legacy));
        Self { eras, discovered: Some(found.result), wire, speech: LegacyDialect::Official }
    }
}

/// Asks a server which eras it speaks, within `limit`. A command is started for it, more than once if need be, and ended again.
///
/// A modern server is dual-era if it lists a legacy revision, or if it also answers `initialize`: not all that do say so.
pub async fn probe(
    target: &GuestTarget,
    setup: &UpstreamSetup,
    limit: Duration,
) -> Result<ProbeVerdict, UpstreamError> {
    match target {
        GuestTarget::Command { program, args, env, cwd } => {
            let command = ChildCommand { program, args, env, cwd: cwd.as_ref() };
            command::probe(command, setup, limit).await
        }
        // There is no WebSocket in any published revision; the handshake shows which one is used.
        GuestTarget::Url { .. } if target.is_websocket() => {
            Ok(ProbeVerdict::legacy(WireKind::WebSocket, LegacyDialect::Unknown))
        }
        GuestTarget::Url { url, headers, transport } => {
            let http = HttpUpstream::new(url, headers)?.with_access(setup.access.clone())?;
            url::probe(&http, *transport, limit).await
        }
    }
}

/// The answer of a modern server.
#[derive(Debug)]
struct ModernServer {
    result: Box<RawValue>,
    /// Whether it lists a revision of the legacy era.
    lists_legacy: bool,
}

/// What an answer to `server/discover` says.
#[derive(Debug)]
enum DiscoverAnswer {
    Modern(ModernServer),
    /// It has a revision in common with us that it did not see in the question.
    AskAgain,
    /// It is not of the modern era, or of an unsupported revision.
    No,
}

impl DiscoverAnswer {
    fn read(head: &RpcHead<'_>) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Discovered {
            supported_versions: Vec<String>,
        }
        #[derive(Deserialize)]
        struct Unsupported {
            supported: Vec<String>,
        }
        let common = |revisions: &[String]| revisions.iter().any(|revision| revision == MODERN.date());
        if let Some(result) = head.result {
            let discovered = serde_json::from_str::<Discovered>(result.get());
            return match discovered.map(|discovered| discovered.supported_versions) {
                Ok(revisions) if common(&revisions) => {
                    let known = revisions.iter().filter_map(|revision| Revision::parse(revision));
                    let lists_legacy = known.into_iter().any(|revision| revision.era() == Era::Legacy);
                    Self::Modern(ModernServer { result: result.to_owned(), lists_legacy })
                }
                _ => Self::No,
            };
        }
        let error = head.error.and_then(|error| serde_json::from_str::<ErrorObject<'_>>(error.get()).ok());
        let listed = error
            .filter(|error| error.code == code::UNSUPPORTED_REVISION)
            .and_then(|error| serde_json::from_str::<Unsupported>(error.data?.get()).ok());
        if listed.is_some_and(|listed| common(&listed.supported)) { Self::AskAgain } else { Self::No }
    }
}

/// What an answer to `initialize` says.
#[derive(Debug, PartialEq, Eq)]
enum Initialized {
    /// The revision.
    Official(String),
    Draft,
    /// It does not take parameters of both kinds: it is to be asked with these alone.
    Again(LegacyDialect),
    /// The server's reason.
    Refused(String),
}

impl Initialized {
    /// `asked` is whose parameters the question had.
    fn read(head: &RpcHead<'_>, asked: LegacyDialect) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Named {
            protocol_version: String,
        }
        if let Some(result) = head.result {
            let named = serde_json::from_str::<Named>(result.get());
            return match named {
                Ok(named) => Self::Official(named.protocol_version),
                Err(_) if draft::is_introduction(result) => Self::Draft,
                Err(_) => Self::Refused("its answer to `initialize` names no revision".to_owned()),
            };
        }
        let error = head.error.and_then(|error| serde_json::from_str::<ErrorObject<'_>>(error.get()).ok());
        match error.as_ref().map(|error| error.code) {
            Some(draft::INVALID_PARAMETERS) if asked == LegacyDialect::Unknown => Self::Again(LegacyDialect::Draft),
            Some(RpcError::INVALID_PARAMS) if asked == LegacyDialect::Unknown => Self::Again(LegacyDialect::Official),
            _ => {
                let said = error.map(|error| error.message).unwrap_or_default();
                Self::Refused(format!("it refuses `initialize`: {said}"))
            }
        }
    }
}

fn discover() -> String {
    let (id, info) = (ours(DISCOVER), ours(ourselves()));
    let asker = meta::RequesterMeta { capabilities: &ours("{}"), info: &info, level: None };
    rpc::request(id, "server/discover", meta::upgrade(None, asker).as_deref()).get().to_owned()
}

/// The question that both kinds of legacy server answer, each in its own way, or one of them.
fn initialize(speech: LegacyDialect) -> String {
    let official = format!(r#"{{"protocolVersion":"{LEGACY}","capabilities":{{}},"clientInfo":{}}}"#, ourselves());
    let official = ours(&official);
    let params = match speech {
        LegacyDialect::Official => official,
        LegacyDialect::Draft => words::initialize_draft(),
        LegacyDialect::Unknown => words::initialize_either(&official),
    };
    rpc::request(ours(INITIALIZE), "initialize", Some(&params)).get().to_owned()
}

fn ours(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect("this module writes JSON")
}

fn ourselves() -> &'static str {
    concat!(r#"{"name":"salon","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_discover_is_read_with_care() {
        let table = [
            (r#"{"id":1,"result":{"supportedVersions":["2026-07-28"]}}"#, "modern"),
            (r#"{"id":1,"result":{"supportedVersions":["2025-06-18","2026-07-28"]}}"#, "dual"),
            (r#"{"id":1,"result":{"supportedVersions":["2027-01-01"]}}"#, "no"),
            (r#"{"id":1,"result":{"supportedVersions":["2025-11-25"]}}"#, "no"),
            (r#"{"id":1,"result":{}}"#, "no"),
            (r#"{"id":1,"result":"2026-07-28"}"#, "no"),
            (r#"{"id":1,"error":{"code":-32601,"message":"Method not found"}}"#, "no"),
            (r#"{"id":1,"error":{"code":-32022,"message":"","data":{"supported":["2026-07-28"]}}}"#, "again"),
            (r#"{"id":1,"error":{"code":-32022,"message":"","data":{"supported":["2025-11-25"]}}}"#, "no"),
            (r#"{"id":1,"error":{"code":-32022,"message":""}}"#, "no"),
            (r#"{"id":1,"error":"broken"}"#, "no"),
        ];
        for (text, expected) in table {
            let found = match DiscoverAnswer::read(&RpcHead::read(text).unwrap()) {
                DiscoverAnswer::Modern(found) if found.lists_legacy => "dual",
                DiscoverAnswer::Modern(_) => "modern",
                DiscoverAnswer::AskAgain => "again",
                DiscoverAnswer::No => "no",
            };
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn our_questions_are_json() {
        assert!(RpcHead::read(&discover()).unwrap().request_id() == Some(DISCOVER));
        for speech in [LegacyDialect::Official, LegacyDialect::Draft, LegacyDialect::Unknown] {
            assert!(RpcHead::read(&initialize(speech)).unwrap().request_id() == Some(INITIALIZE));
        }
    }

    #[test]
    fn an_answer_to_initialize_tells_what_is_spoken() {
        let table = [
            (r#"{"id":1,"result":{"protocolVersion":"2025-06-18"}}"#, r#"Official("2025-06-18")"#),
            (r#"{"id":1,"result":{"protocolVersion":"2025-06-18","server":{}}}"#, r#"Official("2025-06-18")"#),
            (r#"{"id":1,"result":{"server":{"name":"s"},"serverCapabilities":{}}}"#, "Draft"),
            (r#"{"id":1,"result":{}}"#, r#"Refused("its answer to `initialize` names no revision")"#),
            (r#"{"id":1,"error":{"code":4001,"message":"x"}}"#, "Again(Draft)"),
            (r#"{"id":1,"error":{"code":-32602,"message":"x"}}"#, "Again(Official)"),
            (r#"{"id":1,"error":{"code":-32600,"message":"x"}}"#, r#"Refused("it refuses `initialize`: x")"#),
            (r#"{"id":1,"error":5}"#, r#"Refused("it refuses `initialize`: ")"#),
        ];
        for (text, expected) in table {
            let read = Initialized::read(&RpcHead::read(text).unwrap(), LegacyDialect::Unknown);
            assert_eq!(format!("{read:?}"), expected, "{text}");
        }
        // Once is enough.
        let refused = RpcHead::read(r#"{"id":1,"error":{"code":4001,"message":"x"}}"#).unwrap();
        assert!(matches!(Initialized::read(&refused, LegacyDialect::Draft), Initialized::Refused(_)));
    }
}
