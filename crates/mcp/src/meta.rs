//! What travels in `params._meta` and `result._meta`.

use salon_protocol::{LogLevel, Members};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Era, Revision};

// MCP 2026-07-28, Overview, "_meta": the members of every request, of results and of notifications.
/// The prefix of the modern era's own members.
const OURS: &str = "io.modelcontextprotocol/";
const REVISION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";
const LEVEL: &str = "io.modelcontextprotocol/logLevel";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const TOKEN: &str = "progressToken";

/// What of its permissions the caller lets a call have, and what a tool requires of its callers.
pub const PERMISSIONS: &str = "salon/permissions";
/// For whom the gateway asks, where it does so for somebody, and which request of theirs it is about.
pub const ON_BEHALF_OF: &str = "salon/onBehalfOf";
/// See [`ON_BEHALF_OF`].
pub const REQUEST: &str = "salon/request";
/// Which participant asks the client something. Set by the gateway, whatever the asker wrote there.
const ASKED_BY_KEY: &str = "salon/askedBy";
/// The door by which a client came that a handshake is for, as the gateway's own participant sees it. Others do not see it.
const DOOR: &str = "salon/door";
const MCP_DOOR: &str = "mcp";
/// See [`DOOR`]: whether such a client is of the modern era, which the revision of the handshake does not say.
const MODERN_CLIENT: &str = "salon/modernClient";
/// A tool's result as its protocol has it, where MCP has no place for it.
pub const RESULT: &str = "salon/result";
/// Why a tool failed, as its protocol has it.
pub const ERROR: &str = "salon/error";

fn of(holder: &RawValue) -> Option<Members> {
    Members::parse(Members::parse(holder.get())?.get("_meta")?.get())
}

fn text(meta: &Members, key: &str) -> Option<String> {
    serde_json::from_str(meta.get(key)?.get()).ok()
}

/// The revision a request says it is of: present in the modern era only.
pub fn revision(params: &RawValue) -> Option<String> {
    let meta = of(params)?;
    let said = meta.get(REVISION)?;
    // Modern by having the key at all; a value that is not a string is an unknown revision.
    Some(serde_json::from_str(said.get()).unwrap_or_else(|_| said.get().to_owned()))
}

/// The parameters of a handshake with the gateway's own participant, for a client of an era that came by the MCP door.
pub fn with_mcp_door(params: &RawValue, era: Era) -> Option<Box<RawValue>> {
    let mut members = Members::parse(params.get())?;
    let mut meta = members.get("_meta").and_then(|meta| Members::parse(meta.get())).unwrap_or_default();
    meta.set(DOOR, MCP_DOOR);
    if era == Era::Modern {
        meta.set(MODERN_CLIENT, &true);
    }
    members.set("_meta", &meta);
    Some(members.to_raw())
}

/// The era of the client that a handshake is for, where it came by the MCP door.
pub fn mcp_door_era(params: &RawValue) -> Option<Era> {
    let meta = of(params).filter(|meta| text(meta, DOOR).as_deref() == Some(MCP_DOOR))?;
    let is_modern = meta.get(MODERN_CLIENT).is_some_and(|is_modern| is_modern.get() == "true");
    Some(if is_modern { Era::Modern } else { Era::Legacy })
}

/// The progress token a request carries, as written.
pub fn progress_token(params: &RawValue) -> Option<Box<RawValue>> {
    of(params)?.remove(TOKEN)
}

/// The level of log lines a modern request asks for.
pub fn level(params: &RawValue) -> Option<LogLevel> {
    text(&of(params)?, LEVEL)?.parse().ok()
}

/// The subscription a modern notification belongs to, as written.
pub fn subscription(params: &RawValue) -> Option<Box<RawValue>> {
    of(params)?.remove(SUBSCRIPTION)
}

/// What a modern server says it is.
pub fn server_info(result: &RawValue) -> Option<Box<RawValue>> {
    of(result)?.remove(SERVER)
}

/// Changes `_meta` of an object, which is made where it is missing and goes where nothing is left in it. `None` when it is no object.
fn patch(holder: Option<&RawValue>, change: impl FnOnce(&mut Members)) -> Option<Box<RawValue>> {
    let mut members = holder.map_or_else(|| Some(Members::default()), |raw| Members::parse(raw.get()))?;
    let mut meta = match members.get("_meta") {
        Some(meta) => Members::parse(meta.get())?,
        None => Members::default(),
    };
    change(&mut meta);
    if meta.is_empty() {
        members.remove("_meta");
    } else {
        members.set("_meta", &meta);
    }
    Some(members.to_raw())
}

/// Parameters with another progress token. `None` when they are no object.
pub fn with_progress_token(params: &RawValue, token: &impl Serialize) -> Option<Box<RawValue>> {
    patch(Some(params), |meta| meta.set(TOKEN, token))
}

/// A question's parameters that say which participant asks. `None` when they are no object.
pub fn with_asked_by(params: &RawValue, who: &str) -> Option<Box<RawValue>> {
    patch(Some(params), |meta| meta.set(ASKED_BY_KEY, who))
}

/// Parameters or a result with another subscription.
pub fn with_subscription(holder: &RawValue, id: &RawValue) -> Option<Box<RawValue>> {
    patch(Some(holder), |meta| meta.set(SUBSCRIPTION, id))
}

/// A result that says which server it is from, unless it says so already.
pub fn with_server_info(result: &RawValue, info: &RawValue) -> Option<Box<RawValue>> {
    patch(Some(result), |meta| {
        if meta.get(SERVER).is_none() {
            meta.set(SERVER, info);
        }
    })
}

/// Who asks, as every modern request says it.
#[derive(Debug, Clone, Copy)]
pub struct RequesterMeta<'a> {
    /// What it can be asked back.
    pub capabilities: &'a RawValue,
    /// Who it is.
    pub info: &'a RawValue,
    /// Which log lines it wants.
    pub level: Option<LogLevel>,
}

/// What a modern request says of who asks, each as written.
#[derive(Debug, Default)]
pub struct RequestMeta {
    /// What it can be asked back.
    pub capabilities: Option<Box<RawValue>>,
    /// Who it is.
    pub info: Option<Box<RawValue>>,
    /// Which log lines it wants.
    pub level: Option<Box<RawValue>>,
}

/// Reads who asks.
pub fn said(params: &RawValue) -> RequestMeta {
    let mut meta = of(params).unwrap_or_default();
    RequestMeta { capabilities: meta.remove(CAPABILITIES), info: meta.remove(CLIENT), level: meta.remove(LEVEL) }
}

/// The parameters of a legacy request as a modern request has them. `None` when they are no object.
pub fn upgrade(params: Option<&RawValue>, asker: RequesterMeta<'_>) -> Option<Box<RawValue>> {
    let patched = patch(params, |meta| {
        meta.set(REVISION, Revision::MODERN.date());
        meta.set(CLIENT, asker.info);
        meta.set(CAPABILITIES, asker.capabilities);
        if let Some(level) = asker.level {
            meta.set(LEVEL, level.word());
        }
    })?;
    let mut members = Members::parse(patched.get())?;
    // MCP 2025-11-25, Tasks: `params.task` makes a call a task. Tasks are another thing in each era, and are not carried across.
    match members.remove("task") {
        Some(_) => Some(members.to_raw()),
        None => Some(patched),
    }
}

/// The parameters of a legacy request that say of who asks what a handshake would have said. `None` when they are no object.
pub fn introduced(params: Option<&RawValue>, asker: RequesterMeta<'_>) -> Option<Box<RawValue>> {
    patch(params, |meta| {
        meta.set(CLIENT, asker.info);
        meta.set(CAPABILITIES, asker.capabilities);
    })
}

/// An object without the modern era's own members of `_meta`.
pub fn strip(holder: &RawValue) -> Option<Box<RawValue>> {
    match of(holder) {
        Some(meta) if meta.iter().any(|(key, _)| key.starts_with(OURS)) => {
            patch(Some(holder), |meta| meta.retain(|key| !key.starts_with(OURS)))
        }
        _ => Some(holder.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    fn upgraded(params: Option<&str>, level: Option<LogLevel>) -> String {
        let (capabilities, info) = (raw(r#"{"sampling":{}}"#), raw(r#"{"name":"a"}"#));
        let asker = RequesterMeta { capabilities: &capabilities, info: &info, level };
        upgrade(params.map(raw).as_deref(), asker).map_or("none".into(), |params| params.get().to_owned())
    }

    #[test]
    fn a_legacy_request_is_given_what_the_handshake_said() {
        assert_snapshot!(upgraded(None, None), @r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"a"},"io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}"#);
        assert_snapshot!(upgraded(Some(r#"{"name":"t","arguments":{"n": 12345678901234567890},"_meta":{"progressToken":"p","x":1.0},"task":{"ttl":1}}"#), Some(LogLevel::Info)), @r#"{"name":"t","arguments":{"n": 12345678901234567890},"_meta":{"progressToken":"p","x":1.0,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"a"},"io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol/logLevel":"info"}}"#);
        assert_snapshot!(upgraded(Some("[1]"), None), @"none");
        assert_snapshot!(upgraded(Some(r#"{"_meta":7}"#), None), @"none");
    }

    #[test]
    fn a_legacy_request_can_introduce_its_caller_and_stays_one() {
        let (capabilities, info) = (raw(r#"{"elicitation":{}}"#), raw(r#"{"name":"a"}"#));
        let asker = RequesterMeta { capabilities: &capabilities, info: &info, level: None };
        let params = introduced(Some(&raw(r#"{"name":"t"}"#)), asker).unwrap();
        assert_snapshot!(params.get(), @r#"{"name":"t","_meta":{"io.modelcontextprotocol/clientInfo":{"name":"a"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}"#);
        assert!(revision(&params).is_none());
    }

    #[test]
    fn a_request_is_modern_by_its_key() {
        let modern = |params: &str| revision(&raw(params)).unwrap_or("legacy".into());
        assert_snapshot!(modern(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#), @"2026-07-28");
        assert_snapshot!(modern(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}"#), @"7");
        assert_snapshot!(modern(r#"{"_meta":{"progressToken":1}}"#), @"legacy");
        assert_snapshot!(modern("[]"), @"legacy");
    }

    #[test]
    fn the_modern_members_go_and_the_others_stay() {
        let stripped = |text: &str| strip(&raw(text)).unwrap().get().to_owned();
        assert_snapshot!(stripped(r#"{"a": 1,"_meta":{"io.modelcontextprotocol/serverInfo":{},"mine":1e3}}"#), @r#"{"a":1,"_meta":{"mine":1e3}}"#);
        assert_snapshot!(stripped(r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"uri":"x"}"#), @r#"{"uri":"x"}"#);
        assert_snapshot!(stripped(r#"{"a": 1}"#), @r#"{"a": 1}"#);
    }
}
