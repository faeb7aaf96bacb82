//! What goes back and forth around a call: completion, logging, and the questions a server may ask its caller.

use salon_protocol::Members;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::fields::value;
use super::{Content, PromptMessage, Role};

/// What is being completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum Reference {
    /// An argument of a prompt.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// The prompt's name.
        name: String,
    },
    /// A variable of a resource template.
    #[serde(rename = "ref/resource")]
    Resource {
        /// The template.
        uri: String,
    },
}

value! {
    /// Values that would complete what was typed.
    Completion {
        /// The values.
        values: Vec<String> = always "values",
        /// How many there are in all.
        total: Option<u64> = optional "total",
        /// Whether there are more.
        has_more: bool = lenient "hasMore",
    }
}

value! {
    /// A directory or file a server may work in.
    Root {
        /// Its address, a `file:` URI.
        uri: String = required "uri",
        /// A name for people to read.
        name: Option<String> = optional "name",
    }
}

impl Root {
    /// A root without a name.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: None, rest: Members::default() }
    }
}

value! {
    /// A question to the person behind a participant.
    Elicitation {
        /// What is asked.
        message: String = always "message",
        /// The JSON Schema of the answer's content: an object of plain values.
        requested_schema: Box<RawValue> = schema "requestedSchema",
    }
}

impl Elicitation {
    /// Asks for an answer that fits a JSON Schema.
    pub fn new(message: impl Into<String>, requested_schema: &serde_json::Value) -> Self {
        Self { message: message.into(), requested_schema: super::raw(requested_schema), rest: Members::default() }
    }
}

/// What a person did with a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ElicitationAction {
    /// Answered it.
    Accept,
    /// Said no.
    Decline,
    /// Went away without saying.
    Cancel,
}

value! {
    /// What a person answered.
    ElicitationAnswer {
        /// What was done with the question.
        action: ElicitationAction = required "action",
        /// The answer, when there is one.
        content: Option<Box<RawValue>> = optional "content",
    }
}

impl ElicitationAnswer {
    /// An answer that fits the question's schema.
    pub fn accept(content: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        let content = Some(serde_json::value::to_raw_value(content)?);
        Ok(Self { content, ..Self::without(ElicitationAction::Accept) })
    }

    /// A no.
    pub fn decline() -> Self {
        Self::without(ElicitationAction::Decline)
    }

    /// Nobody answered.
    pub fn cancel() -> Self {
        Self::without(ElicitationAction::Cancel)
    }

    fn without(action: ElicitationAction) -> Self {
        Self { action, content: None, rest: Members::default() }
    }
}

value! {
    /// A conversation that a model is asked to continue.
    Sampling {
        /// The conversation.
        messages: Vec<PromptMessage> = always "messages",
        /// The system prompt.
        system_prompt: Option<String> = optional "systemPrompt",
        /// The longest answer wanted.
        max_tokens: Option<u64> = optional "maxTokens",
    }
}

impl Sampling {
    /// Asks a model to continue a conversation.
    pub fn new(messages: impl IntoIterator<Item = PromptMessage>, max_tokens: u64) -> Self {
        let messages = messages.into_iter().collect();
        Self { messages, system_prompt: None, max_tokens: Some(max_tokens), rest: Members::default() }
    }
}

value! {
    /// The answer of a model.
    SamplingAnswer {
        /// Its role; the assistant.
        role: Role = required "role",
        /// Its content.
        content: Content = required "content",
        /// Which model it was.
        model: String = always "model",
        /// Why it stopped.
        stop_reason: Option<String> = optional "stopReason",
    }
}

impl SamplingAnswer {
    /// A text by a model.
    pub fn new(text: impl Into<String>, model: impl Into<String>) -> Self {
        let (content, model) = (Content::text(text), model.into());
        Self { role: Role::Assistant, content, model, stop_reason: Some("endTurn".into()), rest: Members::default() }
    }
}
