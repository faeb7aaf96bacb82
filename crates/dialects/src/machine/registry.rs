//! The tools the client has registered: what they are called, what they take, and what a caller must be permitted.

use std::collections::BTreeMap;

use salon_protocol::{Code, Members, Refusal};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::message::wrong;
use super::schema::Schema;
use crate::mcp::listing::Listing;

/// How many capabilities all tools of one client may have.
const MOST_CAPABILITIES: usize = 256;

/// How much they may be described with, in bytes, so that a list of them fits into one envelope.
const MOST_BYTES: usize = 256 * 1024;

/// The longest name of a tool or a capability.
const MOST_NAME: usize = 64;

/// How many permissions a tool may require, and how long one is.
const MOST_PERMISSIONS: usize = 64;
const MOST_PERMISSION: usize = 128;

/// What the parameters of `registry.register` are.
#[derive(Deserialize)]
struct Registration {
    id: String,
    capabilities: Vec<Described>,
    #[serde(default)]
    security: Required,
}

#[derive(Deserialize)]
struct Described {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Box<RawValue>>,
}

#[derive(Deserialize, Default)]
struct Required {
    #[serde(default)]
    permissions: Vec<String>,
}

/// A registered tool.
#[derive(Debug)]
pub(super) struct Tool {
    /// As it was registered.
    raw: Box<RawValue>,
    permissions: Box<[String]>,
    capabilities: BTreeMap<Box<str>, Capability>,
}

#[derive(Debug)]
struct Capability {
    schema: Option<Schema>,
    /// As MCP lists it.
    item: Box<RawValue>,
}

/// A capability of a registered tool, to be called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Callable<'a> {
    pub(super) id: &'a str,
    pub(super) capability: &'a str,
    pub(super) permissions: &'a [String],
    schema: Option<&'a Schema>,
}

impl Callable<'_> {
    /// Whether parameters fit; says where they do not.
    pub(super) fn check(&self, parameters: &RawValue) -> Result<(), String> {
        self.schema.map_or(Ok(()), |schema| schema.check(parameters))
    }
}

/// Every registered tool.
#[derive(Debug, Default)]
pub(super) struct Registry(BTreeMap<Box<str>, Tool>);

impl Registry {
    /// Reads a registration. A tool of the same id is replaced by [`Self::put`].
    pub(super) fn read(&self, raw: &RawValue, limit: usize) -> Result<(Box<str>, Tool), Refusal> {
        let told = "a registration has `id`, `capabilities` (each with a `name`, maybe a `description` and `parameters`), and maybe `security.permissions`";
        let registration: Registration = serde_json::from_str(raw.get()).map_err(|_| wrong(told))?;
        let id = name(&registration.id, "id", true)?;
        let permissions = permissions(registration.security.permissions)?;
        if registration.capabilities.is_empty() {
            return Err(wrong("a tool has at least one capability"));
        }
        let mut capabilities = BTreeMap::new();
        for described in registration.capabilities {
            let called = name(&described.name, "capabilities.name", false)?;
            let capability = Capability::new(&id, &described, &permissions)?;
            if capabilities.insert(called, capability).is_some() {
                return Err(wrong(format!("the capability `{}` stands twice", described.name)));
            }
        }
        let tool = Tool { raw: raw.to_owned(), permissions: permissions.into(), capabilities };
        let others = || self.0.iter().filter(|(known, _)| **known != id).map(|(_, tool)| tool);
        let count: usize = others().map(|tool| tool.capabilities.len()).sum();
        if count + tool.capabilities.len() > MOST_CAPABILITIES {
            let told = format!("your tools would have more than {MOST_CAPABILITIES} capabilities");
            return Err(Refusal::new(Code::TooLarge, told));
        }
        let most = if limit > 0 { MOST_BYTES.min(limit / 2) } else { MOST_BYTES };
        if others().map(Tool::bytes).sum::<usize>() + tool.bytes() > most {
            let told = format!("the descriptions of your tools would have more than {most} bytes");
            return Err(Refusal::new(Code::TooLarge, told));
        }
        Ok((id, tool))
    }

    /// Puts a tool in; gives the one of the same id that was there.
    pub(super) fn put(&mut self, id: &str, tool: Option<Tool>) -> Option<Tool> {
        match tool {
            Some(tool) => self.0.insert(id.into(), tool),
            None => self.0.remove(id),
        }
    }

    /// Whether a tool of this id is registered.
    pub(super) fn has(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// The tool and capability of a name as MCP has it.
    pub(super) fn find(&self, called: &str) -> Option<Callable<'_>> {
        // No capability has a dot in its name, so the last one divides.
        let (id, capability) = called.rsplit_once('.')?;
        let (id, tool) = self.0.get_key_value(id)?;
        let (capability, known) = tool.capabilities.get_key_value(capability)?;
        Some(Callable { id, capability, permissions: &tool.permissions, schema: known.schema.as_ref() })
    }

    /// Every tool, as MCP lists them.
    pub(super) fn list(&self) -> Box<RawValue> {
        let items: Vec<&RawValue> =
            self.0.values().flat_map(|tool| tool.capabilities.values()).map(|capability| &*capability.item).collect();
        let mut page = Members::default();
        page.set(Listing::Tools.key(), &items);
        page.to_raw()
    }

    /// Every tool, as it was registered.
    pub(super) fn registered(&self) -> Box<RawValue> {
        let tools: Vec<&RawValue> = self.0.values().map(|tool| &*tool.raw).collect();
        let mut listed = Members::default();
        listed.set("tools", &tools);
        listed.to_raw()
    }
}

impl Tool {
    fn bytes(&self) -> usize {
        self.raw.get().len() + self.capabilities.values().map(|capability| capability.item.get().len()).sum::<usize>()
    }

    /// The names MCP has for what it can do.
    pub(super) fn names(&self, id: &str) -> Vec<String> {
        self.capabilities.keys().map(|capability| format!("{id}.{capability}")).collect()
    }
}

impl Capability {
    fn new(id: &str, described: &Described, permissions: &[String]) -> Result<Self, Refusal> {
        let called = &described.name;
        let unfit = |why: String| wrong(format!("the parameters of `{called}` are not usable: {why}"));
        let mut item = Members::default();
        item.set("name", &format!("{id}.{called}"));
        if let Some(description) = &described.description {
            item.set("description", description);
        }
        let given = described.parameters.as_deref().filter(|raw| raw.get() != "null");
        let schema = given.map(Schema::new).transpose().map_err(unfit)?;
        let mut input = given.and_then(|raw| Members::parse(raw.get())).unwrap_or_default();
        // Parameters have names, and MCP wants that said.
        match input.get("type").map(RawValue::get) {
            None => input.set("type", "object"),
            Some("\"object\"") => {}
            Some(_) => return Err(unfit("their `type` must be \"object\"".into())),
        }
        item.set("inputSchema", &input);
        if !permissions.is_empty() {
            item.set("_meta", &json!({ "salon/permissions": permissions }));
        }
        Ok(Self { schema, item: item.to_raw() })
    }
}

fn name(text: &str, place: &str, dots: bool) -> Result<Box<str>, Refusal> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || (dots && byte == b'.');
    if (1..=MOST_NAME).contains(&text.len()) && text.bytes().all(allowed) {
        return Ok(text.into());
    }
    let dot = if dots { " ." } else { "" };
    Err(wrong(format!("`{place}` must be 1 to {MOST_NAME} characters of A-Z a-z 0-9 _ -{dot}")))
}

fn permissions(listed: Vec<String>) -> Result<Vec<String>, Refusal> {
    let is_word = |word: &String| (1..=MOST_PERMISSION).contains(&word.len()) && !word.chars().any(char::is_control);
    if listed.len() > MOST_PERMISSIONS || !listed.iter().all(is_word) {
        let told = format!(
            "`security.permissions` must be at most {MOST_PERMISSIONS} strings of 1 to {MOST_PERMISSION} bytes without control characters"
        );
        return Err(wrong(told));
    }
    Ok(listed)
}
