//! The types of MCP in the API: tools and their results, resources, prompts, and the description of a server.
//!
//! What is not known here is kept: every value has its unknown members in `rest`, as they were written, and writes them again. Schemas,
//! arguments and structured results are raw JSON, so numbers beyond 2^53 and the order of keys survive. A known optional field of an
//! unexpected shape counts as unknown rather than spoiling the rest. Deliberately absent: checking anything against a schema.

mod content;
mod exchange;
mod fields;

use salon_protocol::Members;
use serde_json::value::RawValue;

pub use content::{Content, Embedded, Media, ResourceContents, Text};
pub use exchange::{
    Completion, Elicitation, ElicitationAction, ElicitationAnswer, Reference, Root, Sampling, SamplingAnswer,
};
use fields::value;
pub(crate) use fields::{empty_object, raw};
pub use salon_protocol::LogLevel;

value! {
    /// A tool somebody offers.
    Tool {
        /// What to call it by.
        name: String = required "name",
        /// A name for people to read.
        title: Option<String> = optional "title",
        /// What it does.
        description: Option<String> = optional "description",
        /// The JSON Schema of its arguments.
        input_schema: Box<RawValue> = schema "inputSchema",
        /// The JSON Schema of its structured result, where it promises one.
        output_schema: Option<Box<RawValue>> = optional "outputSchema",
        /// Hints such as `readOnlyHint`. They are the other's own words: do not trust them.
        annotations: Option<Box<RawValue>> = optional "annotations",
    }
}

impl Tool {
    /// A tool with a name, a description and the JSON Schema of its arguments.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: &serde_json::Value) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: Some(description.into()),
            input_schema: raw(input_schema),
            output_schema: None,
            annotations: None,
            rest: Members::default(),
        }
    }
}

value! {
    /// What a tool gave back.
    ToolResult {
        /// For models and people to read.
        content: Vec<Content> = always "content",
        /// For programs to read.
        structured: Option<Box<RawValue>> = optional "structuredContent",
        /// Whether the tool failed; the content then says why.
        is_error: bool = lenient "isError",
    }
}

impl ToolResult {
    /// A result of one text.
    pub fn text_only(text: impl Into<String>) -> Self {
        let content = vec![Content::text(text)];
        Self { content, structured: None, is_error: false, rest: Members::default() }
    }

    /// A failure, with a text that a model can learn from.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text_only(text) }
    }

    /// A result for programs, and the same as text for callers that read only that.
    ///
    /// MCP wants an object here, so `value` should become one.
    pub fn structured(value: &(impl serde::Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        let structured = serde_json::value::to_raw_value(value)?;
        Ok(Self { structured: Some(structured.clone()), ..Self::text_only(structured.get()) })
    }

    /// Its texts, joined by line ends.
    pub fn text(&self) -> String {
        join_text(&self.content)
    }
}

impl From<String> for ToolResult {
    fn from(text: String) -> Self {
        Self::text_only(text)
    }
}

impl From<&str> for ToolResult {
    fn from(text: &str) -> Self {
        Self::text_only(text)
    }
}

impl From<Content> for ToolResult {
    fn from(content: Content) -> Self {
        vec![content].into()
    }
}

impl From<Vec<Content>> for ToolResult {
    fn from(content: Vec<Content>) -> Self {
        Self { content, structured: None, is_error: false, rest: Members::default() }
    }
}

fn join_text(content: &[Content]) -> String {
    content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n")
}

value! {
    /// Something that can be read.
    Resource {
        /// Where it is, for its server.
        uri: String = required "uri",
        /// What it is called.
        name: String = always "name",
        /// A name for people to read.
        title: Option<String> = optional "title",
        /// What it is.
        description: Option<String> = optional "description",
        /// Its media type.
        mime_type: Option<String> = optional "mimeType",
        /// Its size in bytes.
        size: Option<u64> = optional "size",
        /// Hints for whom it is and how much it matters.
        annotations: Option<Box<RawValue>> = optional "annotations",
    }
}

impl Resource {
    /// A resource by address and name.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        let (uri, name) = (uri.into(), name.into());
        let rest = Members::default();
        Self { uri, name, title: None, description: None, mime_type: None, size: None, annotations: None, rest }
    }
}

value! {
    /// Many things that can be read, their addresses made from a template.
    ResourceTemplate {
        /// An RFC 6570 template of their addresses.
        uri_template: String = required "uriTemplate",
        /// What they are called.
        name: String = always "name",
        /// A name for people to read.
        title: Option<String> = optional "title",
        /// What they are.
        description: Option<String> = optional "description",
        /// Their media type, where all have the same.
        mime_type: Option<String> = optional "mimeType",
        /// Hints for whom they are and how much they matter.
        annotations: Option<Box<RawValue>> = optional "annotations",
    }
}

impl ResourceTemplate {
    /// A template by its addresses and name.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        let (uri_template, name) = (uri_template.into(), name.into());
        let rest = Members::default();
        Self { uri_template, name, title: None, description: None, mime_type: None, annotations: None, rest }
    }
}

value! {
    /// A prompt somebody offers.
    Prompt {
        /// What to ask for it by.
        name: String = required "name",
        /// A name for people to read.
        title: Option<String> = optional "title",
        /// What it is for.
        description: Option<String> = optional "description",
        /// What it can be filled with.
        arguments: Vec<PromptArgument> = lenient "arguments",
    }
}

impl Prompt {
    /// A prompt by name, and what it can be filled with.
    pub fn new(name: impl Into<String>, arguments: impl IntoIterator<Item = PromptArgument>) -> Self {
        let (name, arguments) = (name.into(), arguments.into_iter().collect());
        Self { name, title: None, description: None, arguments, rest: Members::default() }
    }
}

value! {
    /// What a prompt can be filled with.
    PromptArgument {
        /// Its name.
        name: String = required "name",
        /// A name for people to read.
        title: Option<String> = optional "title",
        /// What it is.
        description: Option<String> = optional "description",
        /// Whether it cannot be left out.
        required: bool = lenient "required",
    }
}

impl PromptArgument {
    /// An argument by name, and whether it cannot be left out.
    pub fn new(name: impl Into<String>, required: bool) -> Self {
        Self { name: name.into(), title: None, description: None, required, rest: Members::default() }
    }
}

value! {
    /// A prompt, filled in.
    PromptResult {
        /// What it is for.
        description: Option<String> = optional "description",
        /// What to give the model.
        messages: Vec<PromptMessage> = always "messages",
    }
}

impl PromptResult {
    /// What to give the model.
    pub fn new(messages: impl IntoIterator<Item = PromptMessage>) -> Self {
        Self { description: None, messages: messages.into_iter().collect(), rest: Members::default() }
    }
}

value! {
    /// One message to or from a model.
    PromptMessage {
        /// The role of its author.
        role: Role = required "role",
        /// Its content.
        content: Content = required "content",
    }
}

impl PromptMessage {
    /// A message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: Content::text(text), rest: Members::default() }
    }

    /// A message of the assistant.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: Content::text(text), rest: Members::default() }
    }
}

/// The author of a message in a conversation with a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// The person, or a program in its place.
    User,
    /// The model.
    Assistant,
}

value! {
    /// What a program is.
    Implementation {
        /// Its name.
        name: String = always "name",
        /// A name for people to read.
        title: Option<String> = optional "title",
        /// Its version.
        version: String = always "version",
    }
}

impl Implementation {
    /// A program by name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), title: None, version: version.into(), rest: Members::default() }
    }
}

value! {
    /// The answer of a server to `initialize`.
    Initialized {
        /// The revision of MCP to speak with it.
        protocol_version: String = required "protocolVersion",
        /// What it can do, as it was written.
        capabilities: Box<RawValue> = object "capabilities",
        /// What it is.
        server_info: Option<Implementation> = optional "serverInfo",
        /// How to use it, for a model to read.
        instructions: Option<String> = optional "instructions",
    }
}

impl Initialized {
    /// Whether a capability was named, such as `tools` or `resources`.
    pub fn offers(&self, capability: &str) -> bool {
        serde_json::from_str::<Members>(self.capabilities.get()).is_ok_and(|all| all.get(capability).is_some())
    }

    /// Whether a capability was named with an option, such as `resources` with `subscribe`.
    pub fn offers_with(&self, capability: &str, option: &str) -> bool {
        let all = serde_json::from_str::<Members>(self.capabilities.get()).unwrap_or_default();
        let one = all.get(capability).and_then(|raw| serde_json::from_str::<Members>(raw.get()).ok());
        one.is_some_and(|one| one.get(option).is_some_and(|value| value.get() == "true"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again<T: serde::de::DeserializeOwned + serde::Serialize>(text: &str) -> String {
        let value: T = serde_json::from_str(text).expect("the test writes what can be read");
        serde_json::to_string(&value).expect("it was read from JSON")
    }

    #[test]
    fn what_is_unknown_is_written_again() {
        let tool = r#"{"name":"add","inputSchema":{"type":"object","maximum":123456789012345678901234567890},"icons":[{"src":"x"}],"_meta":{"b":1,"a":2}}"#;
        assert_eq!(again::<Tool>(tool), tool);
        let result = r#"{"content":[{"type":"text","text":"3"},{"type":"hologram","z":1.0,"a":9007199254740993}],"structuredContent":{"sum":9007199254740993},"_meta":{}}"#;
        assert_eq!(again::<ToolResult>(result), result);
        // MCP wants `content` always, so it is added where it was left out.
        assert_eq!(again::<ToolResult>(r#"{"status":"ok"}"#), r#"{"content":[],"status":"ok"}"#);
    }

    #[test]
    fn an_optional_field_of_another_shape_spoils_nothing() {
        let tool = r#"{"name":"add","inputSchema":{},"title":7}"#;
        let read: Tool = serde_json::from_str(tool).expect("a tool");
        assert_eq!(read.title, None);
        assert_eq!(again::<Tool>(tool), tool);
        assert!(serde_json::from_str::<Tool>(r#"{"title":"nameless"}"#).is_err());
        assert!(serde_json::from_str::<Tool>(r#"["add"]"#).is_err());
    }

    #[test]
    fn a_tool_without_a_schema_takes_any_object() {
        let tool: Tool = serde_json::from_str(r#"{"name":"now"}"#).expect("a tool");
        assert_eq!(tool.input_schema.get(), r#"{"type":"object"}"#);
    }

    #[test]
    fn texts_are_joined() {
        let result: ToolResult = serde_json::from_str(
            r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"","mimeType":"image/png"},{"type":"text","text":"b"}]}"#,
        )
        .expect("a result");
        assert_eq!(result.text(), "a\nb");
        assert!(!result.is_error);
    }

    #[test]
    fn capabilities_are_looked_up_by_name() {
        let said: Initialized = serde_json::from_str(
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{"subscribe":true,"listChanged":false}},"serverInfo":{"name":"x","version":"1"}}"#,
        )
        .expect("an answer to initialize");
        assert!(said.offers("tools") && !said.offers("prompts"));
        assert!(said.offers_with("resources", "subscribe"));
        assert!(!said.offers_with("resources", "listChanged") && !said.offers_with("tools", "listChanged"));
        let bare: Initialized = serde_json::from_str(r#"{"protocolVersion":"2025-06-18"}"#).expect("enough");
        assert!(!bare.offers("tools"));
    }
}
