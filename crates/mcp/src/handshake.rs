//! The handshake of the legacy era, for servers of either.

use salon_protocol::Members;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::{Revision, meta, upgrade};

/// What a client says of itself in `initialize`.
#[derive(Debug, Clone)]
pub struct HandshakeParams {
    /// The revision it asks for, if that can be read.
    pub requested_revision: Option<String>,
    /// What it can be asked.
    pub capabilities: Box<RawValue>,
    /// Who it is.
    pub info: Option<Box<RawValue>>,
}

impl HandshakeParams {
    /// Reads the parameters of `initialize`. What is missing or has another shape is taken as not said.
    pub fn read(params: Option<&RawValue>) -> Self {
        let mut params = params.and_then(|params| Members::parse(params.get())).unwrap_or_default();
        let mut object = |key: &str| params.remove(key).filter(|value| value.get().starts_with('{'));
        let (capabilities, info) = (object("capabilities"), object("clientInfo"));
        let requested_revision =
            params.get("protocolVersion").and_then(|revision| serde_json::from_str(revision.get()).ok());
        Self { requested_revision, capabilities: capabilities.unwrap_or_else(empty), info }
    }

    /// Whether a server may ask this client something: a model's answer, a person's, or where its roots are.
    pub fn takes_questions(&self) -> bool {
        takes_questions(&self.capabilities)
    }

    /// Whether it asks for a server of its own.
    pub fn wants_isolation(&self) -> bool {
        wants_isolation(&self.capabilities)
    }

    /// The capabilities as a modern request says them: without tasks, which are another thing in each era.
    // MCP 2025-11-25, Tasks (SEP-1686); from 2026-07-28 on they are the extension `io.modelcontextprotocol/tasks`.
    pub fn modern_capabilities(&self) -> Box<RawValue> {
        let mut capabilities = Members::parse(self.capabilities.get()).unwrap_or_default();
        match capabilities.remove("tasks") {
            Some(_) => capabilities.to_raw(),
            None => self.capabilities.clone(),
        }
    }

    /// The parameters of an `initialize` that says this.
    pub fn params(&self, revision: Revision, default_info: &RawValue) -> Box<RawValue> {
        let mut params = Members::default();
        params.set("protocolVersion", revision.date());
        params.set("capabilities", &self.capabilities);
        params.set("clientInfo", self.info.as_deref().unwrap_or(default_info));
        params.to_raw()
    }
}

/// The experimental capability by which a client asks a guest for a server of its own. MCP 2025-11-25, Lifecycle, "Capability Negotiation":
/// `experimental` is for capabilities outside of the specification.
pub const ISOLATED: &str = "salon/isolated";

/// Whether a client with these capabilities asks for a server of its own.
pub fn wants_isolation(capabilities: &RawValue) -> bool {
    let capabilities = Members::parse(capabilities.get()).unwrap_or_default();
    let experimental = capabilities.get("experimental").and_then(|raw| Members::parse(raw.get()));
    experimental.is_some_and(|experimental| experimental.get(ISOLATED).is_some())
}

/// Whether a client with these capabilities answers a server's request of this method.
pub fn answers(capabilities: &RawValue, method: &str) -> bool {
    let capabilities = Members::parse(capabilities.get()).unwrap_or_default();
    QUESTIONS.iter().any(|(question, key)| *question == method && capabilities.get(key).is_some())
}

/// What a server may ask a client, and the capability by which the client offers to answer.
const QUESTIONS: [(&str, &str); 3] =
    [("sampling/createMessage", "sampling"), ("elicitation/create", "elicitation"), ("roots/list", "roots")];

/// Whether a client with these capabilities may be asked something.
pub fn takes_questions(capabilities: &RawValue) -> bool {
    let capabilities = Members::parse(capabilities.get()).unwrap_or_default();
    QUESTIONS.iter().any(|(_, key)| capabilities.get(key).is_some())
}

impl Default for HandshakeParams {
    /// Somebody who said nothing.
    fn default() -> Self {
        Self { requested_revision: None, capabilities: empty(), info: None }
    }
}

fn empty() -> Box<RawValue> {
    to_raw_value(&serde_json::Map::new()).expect("an empty object can be written")
}

/// The revision to answer a client with: the one it requests where that can be had, else the room's, and never a newer one than `newest`.
// MCP 2025-11-25, Lifecycle, "Version Negotiation".
pub fn agree(asked: Option<&str>, newest: Revision) -> Revision {
    let asked = asked.and_then(Revision::parse).filter(|asked| Revision::LEGACY.contains(asked));
    asked.unwrap_or(Revision::ROOM).min(newest)
}

/// Why a server's introduction was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeError {
    /// It has not the shape of one.
    Unreadable,
    /// It answers with a revision that is not known here.
    Revision(String),
}

/// What a server says of itself.
#[derive(Debug, Clone)]
pub struct ServerProfile {
    revision: Revision,
    capabilities: Members,
    introduction: Members,
}

impl ServerProfile {
    /// Reads the result of `initialize`.
    // MCP 2025-11-25, Lifecycle, "Initialization".
    pub fn from_initialize(result: &RawValue) -> Result<Self, HandshakeError> {
        let introduction = Members::parse(result.get()).ok_or(HandshakeError::Unreadable)?;
        let said = introduction.get("protocolVersion").ok_or(HandshakeError::Unreadable)?;
        let said: String = serde_json::from_str(said.get()).map_err(|_| HandshakeError::Unreadable)?;
        let revision = Revision::parse(&said).filter(|revision| Revision::LEGACY.contains(revision));
        let revision = revision.ok_or(HandshakeError::Revision(said))?;
        Ok(Self { revision, capabilities: capabilities_of(&introduction), introduction })
    }

    /// Reads the result of `server/discover`.
    // MCP 2026-07-28, Discovery: what `serverInfo` was in the handshake is in `_meta`.
    pub fn from_discover(result: &RawValue) -> Result<Self, HandshakeError> {
        let mut introduction = Members::parse(result.get()).ok_or(HandshakeError::Unreadable)?;
        let capabilities = capabilities_of(&introduction);
        let info = match meta::server_info(result) {
            Some(info) => info,
            None => to_raw_value(&serde_json::json!({ "name": "unnamed", "version": "" })).expect("two strings"),
        };
        introduction.retain(|key| matches!(key, "instructions"));
        introduction.set("serverInfo", &info);
        Ok(Self { revision: Revision::MODERN, capabilities, introduction })
    }

    /// The revision it speaks.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Whether it has a capability at all.
    pub fn has(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some()
    }

    /// Whether a capability says yes to one of its details, such as `listChanged`.
    pub fn does(&self, capability: &str, detail: &str) -> bool {
        let found = self.capabilities.get(capability).and_then(|raw| Members::parse(raw.get()));
        found.is_some_and(|details| details.get(detail).is_some_and(|said| said.get() == "true"))
    }

    /// What it says it is, as written.
    pub fn info(&self) -> Option<&RawValue> {
        self.introduction.get("serverInfo")
    }

    /// The result of a `server/discover` that says the same.
    pub fn discovery(&self, revisions: &[&str]) -> Box<RawValue> {
        let mut result = Members::default();
        result.set("supportedVersions", revisions);
        let mut capabilities = self.capabilities.clone();
        // Tasks are another thing in each era, and are not carried across.
        capabilities.remove("tasks");
        result.set("capabilities", &capabilities);
        if let Some(instructions) = self.introduction.get("instructions") {
            result.set("instructions", instructions);
        }
        upgrade::result("server/discover", &result.to_raw(), self.info())
    }

    /// Its name and version, for people.
    pub fn title(&self) -> String {
        #[derive(Deserialize)]
        struct Info {
            #[serde(default)]
            name: String,
            #[serde(default)]
            version: String,
        }
        let info = self.introduction.get("serverInfo").and_then(|info| serde_json::from_str::<Info>(info.get()).ok());
        info.map(|info| format!("{} {}", info.name, info.version).trim().to_owned()).unwrap_or_default()
    }

    /// The result of an `initialize` by a client with which `revision` was agreed. Capabilities that do not pass `keep` are left out;
    /// those of `also` are somebody else's doing, and are there whether or not the server has them.
    pub fn introduce(&self, revision: Revision, keep: impl Fn(&str) -> bool, also: &[&str]) -> Box<RawValue> {
        let translated = self.revision == Revision::MODERN;
        let mut capabilities = self.capabilities.clone();
        capabilities.retain(|key| keep(key) && !(translated && matches!(key, "extensions" | "tasks")));
        for capability in also.iter().filter(|capability| !self.has(capability)) {
            capabilities.set(capability, &Members::default());
        }
        let mut result = Members::default();
        result.set("protocolVersion", revision.date());
        result.set("capabilities", &capabilities);
        for (key, value) in self.introduction.iter() {
            if !matches!(key, "protocolVersion" | "capabilities") {
                result.set(key, value);
            }
        }
        result.to_raw()
    }
}

fn capabilities_of(introduction: &Members) -> Members {
    introduction.get("capabilities").and_then(|raw| Members::parse(raw.get())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    #[test]
    fn the_revision_is_the_callers_where_the_server_can() {
        let agreed = |asked: &str, newest: Revision| agree(Some(asked).filter(|asked| *asked != "-"), newest).date();
        for (asked, newest, answer) in [
            ("2025-11-25", Revision::R2025_11_25, "2025-11-25"),
            ("2024-11-05", Revision::R2025_11_25, "2024-11-05"),
            ("2025-11-25", Revision::R2025_03_26, "2025-03-26"),
            ("2026-07-28", Revision::MODERN, "2025-06-18"),
            ("1999-01-01", Revision::R2025_11_25, "2025-06-18"),
            ("-", Revision::R2024_11_05, "2024-11-05"),
        ] {
            assert_eq!(agreed(asked, newest), answer, "{asked} of {newest}");
        }
    }

    #[test]
    fn a_server_is_introduced_as_it_introduced_itself() {
        let server = ServerProfile::from_initialize(&raw(
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{},"x":{"n":1.0}},"serverInfo":{"name":"s","version":"2"},"instructions":"be kind","later":12345678901234567890}"#,
        ))
        .unwrap();
        assert_snapshot!(server.introduce(Revision::ROOM, |key| key != "prompts", &["tools", "logging"]).get(), @r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"x":{"n":1.0},"logging":{}},"serverInfo":{"name":"s","version":"2"},"instructions":"be kind","later":12345678901234567890}"#);
        assert_eq!(server.title(), "s 2");
        assert!(server.does("tools", "listChanged") && !server.does("prompts", "listChanged"));
        let unfit = |text: &str| ServerProfile::from_initialize(&raw(text)).unwrap_err();
        assert_eq!(unfit(r#"{"protocolVersion":"2023-01-01"}"#), HandshakeError::Revision("2023-01-01".into()));
        assert_eq!(unfit("[]"), HandshakeError::Unreadable);
    }

    #[test]
    fn a_modern_server_is_introduced_from_its_discovery() {
        let server = ServerProfile::from_discover(&raw(
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"a":{}}},"instructions":"hi","ttlMs":1,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m","version":"1"}}}"#,
        ))
        .unwrap();
        assert_snapshot!(server.introduce(Revision::ROOM, |_| true, &[]).get(), @r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"instructions":"hi","serverInfo":{"name":"m","version":"1"}}"#);
    }

    #[test]
    fn a_client_is_heard_as_far_as_it_can_be_understood() {
        let asked = |params: &str| HandshakeParams::read(Some(&raw(params))).takes_questions();
        assert!(asked(r#"{"capabilities":{"elicitation":{}}}"#));
        assert!(!asked(r#"{"capabilities":{"experimental":{}}}"#));
        assert!(!asked(r#"{"capabilities":7}"#));
        let isolated = |capabilities: &str| wants_isolation(&raw(capabilities));
        assert!(isolated(r#"{"experimental":{"salon/isolated":{}}}"#));
        assert!(!isolated(r#"{"experimental":{"other":{}}}"#) && !isolated(r#"{"salon/isolated":{}}"#));
        let answered = |method: &str| answers(&raw(r#"{"elicitation":{}}"#), method);
        assert!(answered("elicitation/create") && !answered("roots/list") && !answered("elicitation/other"));
        let hello = HandshakeParams::read(Some(&raw(
            r#"{"protocolVersion":3,"capabilities":{"roots":{},"tasks":{}},"clientInfo":"me"}"#,
        )));
        assert_snapshot!(hello.params(Revision::ROOM, &raw(r#"{"name":"salon"}"#)).get(), @r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{},"tasks":{}},"clientInfo":{"name":"salon"}}"#);
        assert_snapshot!(hello.modern_capabilities().get(), @r#"{"roots":{}}"#);
    }
}
