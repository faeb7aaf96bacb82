//! The tools the client has registered: what they are called, what they take, and what a caller must be permitted.

use std::collections::BTreeMap;

use salon_mcp::listing::Listing;
use salon_mcp::meta;
use salon_protocol::{Code, Members, Refusal};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::message::wrong;
use super::schema::{Plan, Schema, SchemaError, Size};

/// How many capabilities all tools of one client may have.
const MAX_CAPABILITIES: usize = 256;

/// How much they may be described with, in bytes, so that a list of them fits into one envelope.
const MAX_BYTES: usize = 256 * 1024;

/// The longest name of a tool or a capability.
const MAX_NAME: usize = 64;

/// How many permissions a tool may require, and how long one is.
const MAX_PERMISSIONS: usize = 64;
const MAX_PERMISSION: usize = 128;

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
    /// What its schemas come to.
    size: Size,
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
    pub(super) fn check(&self, parameters: &RawValue) -> Result<(), SchemaError> {
        self.schema.map_or(Ok(()), |schema| schema.check(parameters))
    }
}

/// Every registered tool.
#[derive(Debug, Default)]
pub(super) struct Registry(BTreeMap<Box<str>, Tool>);

impl Registry {
    /// Reads a registration. A tool of the same id is replaced by [`Self::put`]. Nothing is made of schemas before it is known that they
    /// are not too much, and that `allowed` takes the time.
    pub(super) fn read(
        &self,
        raw: &RawValue,
        limit: usize,
        allowed: impl FnOnce(Size) -> Result<(), Refusal>,
    ) -> Result<(Box<str>, Tool), Refusal> {
        let told = "a registration has `id`, `capabilities` (each with a `name`, maybe a `description` and `parameters`), and maybe `security.permissions`";
        let registration: Registration = serde_json::from_str(raw.get()).map_err(|_| wrong(told))?;
        let id = name(&registration.id, "id", true)?;
        let permissions = permissions(registration.security.permissions)?;
        if registration.capabilities.is_empty() {
            return Err(wrong("a tool has at least one capability"));
        }
        let others = || self.0.iter().filter(|(known, _)| **known != id).map(|(_, tool)| tool);
        let count: usize = others().map(|tool| tool.capabilities.len()).sum();
        if count + registration.capabilities.len() > MAX_CAPABILITIES {
            let told = format!("your tools would have more than {MAX_CAPABILITIES} capabilities");
            return Err(Refusal::new(Code::TooLarge, told));
        }
        let mut planned = BTreeMap::new();
        let mut size = Size::default();
        for described in registration.capabilities {
            let called = name(&described.name, "capabilities.name", false)?;
            let plan = described.plan()?;
            size = plan.as_ref().map_or(size, |plan| size.plus(plan.size));
            if planned.insert(called.clone(), (described, plan)).is_some() {
                return Err(wrong(format!("the capability `{called}` stands twice")));
            }
        }
        if let Some(excess) = others().fold(size, |sum, tool| sum.plus(tool.size)).excess() {
            return Err(Refusal::new(Code::TooLarge, format!("the parameters of your tools would {excess}")));
        }
        allowed(size)?;
        let mut capabilities = BTreeMap::new();
        for (called, (described, plan)) in planned {
            capabilities.insert(called, Capability::new(&id, &described, plan, &permissions)?);
        }
        let tool = Tool { raw: raw.to_owned(), permissions: permissions.into(), capabilities, size };
        let most = if limit > 0 { MAX_BYTES.min(limit / 2) } else { MAX_BYTES };
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

impl Described {
    fn unfit(&self, why: &str) -> Refusal {
        wrong(format!("the parameters of `{}` are not usable: {why}", self.name))
    }

    fn given(&self) -> Option<&RawValue> {
        self.parameters.as_deref().filter(|raw| raw.get() != "null")
    }

    fn plan(&self) -> Result<Option<Plan>, Refusal> {
        self.given().map(Plan::new).transpose().map_err(|why| self.unfit(&why))
    }
}

impl Capability {
    fn new(id: &str, described: &Described, plan: Option<Plan>, permissions: &[String]) -> Result<Self, Refusal> {
        let called = &described.name;
        let mut item = Members::default();
        item.set("name", &format!("{id}.{called}"));
        if let Some(description) = &described.description {
            item.set("description", description);
        }
        let schema = plan.map(Plan::build).transpose().map_err(|why| described.unfit(&why))?;
        let mut input = described.given().and_then(|raw| Members::parse(raw.get())).unwrap_or_default();
        // Parameters have names, and MCP wants that said.
        match input.get("type").map(RawValue::get) {
            None => input.set("type", "object"),
            Some("\"object\"") => {}
            Some(_) => return Err(described.unfit("their `type` must be \"object\"")),
        }
        item.set("inputSchema", &input);
        if !permissions.is_empty() {
            item.set("_meta", &json!({ meta::PERMISSIONS: permissions }));
        }
        Ok(Self { schema, item: item.to_raw() })
    }
}

fn name(text: &str, place: &str, dots: bool) -> Result<Box<str>, Refusal> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || (dots && byte == b'.');
    if (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(allowed) {
        return Ok(text.into());
    }
    let dot = if dots { " ." } else { "" };
    Err(wrong(format!("`{place}` must be 1 to {MAX_NAME} characters of A-Z a-z 0-9 _ -{dot}")))
}

fn permissions(listed: Vec<String>) -> Result<Vec<String>, Refusal> {
    let is_word = |word: &String| (1..=MAX_PERMISSION).contains(&word.len()) && !word.chars().any(char::is_control);
    if listed.len() > MAX_PERMISSIONS || !listed.iter().all(is_word) {
        let told = format!(
            "`security.permissions` must be at most {MAX_PERMISSIONS} strings of 1 to {MAX_PERMISSION} bytes without control characters"
        );
        return Err(wrong(told));
    }
    Ok(listed)
}
