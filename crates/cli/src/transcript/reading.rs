//! What an envelope of MCP says, in the few words that people want to see of it.
//!
//! Nothing here is safe to show yet: it is what others wrote.

use std::borrow::Cow;

use salon_protocol::{Envelope, Message};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json;

/// What is asked: a tool with its arguments, or a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) what: String,
    /// The arguments as one line of JSON; empty when there are none.
    pub(crate) arguments: String,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Neither an error of the protocol nor one of the tool.
    pub(crate) worked: bool,
    /// What the answer says, where it can be said in a few words.
    pub(crate) says: Option<String>,
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reached {
    pub(crate) progress: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

/// Reads a request; `None` when it is none.
pub(crate) fn asked(envelope: &Envelope) -> Option<Asked> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    let Some(Message::Request { method, .. }) = envelope.message() else { return None };
    let called = envelope.params().filter(|_| &**method == "tools/call" || &**method == "prompts/get");
    let called: Option<Params<'_>> = called.and_then(|params| serde_json::from_str(params).ok());
    Some(match called {
        Some(Params { name, arguments }) => {
            let arguments = arguments.map(|raw| json::compact(raw.get())).filter(|text| text != "{}");
            Asked { what: name.into_owned(), arguments: arguments.unwrap_or_default() }
        }
        None => Asked { what: method.to_string(), arguments: String::new() },
    })
}

/// Reads a response; `None` when it is none.
pub(crate) fn answered(envelope: &Envelope) -> Option<Answered> {
    #[derive(Deserialize)]
    struct Payload {
        result: Option<Outcome>,
        error: Option<Failure>,
    }
    #[derive(Deserialize)]
    struct Failure {
        message: Option<String>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Outcome {
        is_error: bool,
        content: Vec<Content>,
        structured_content: Option<Box<RawValue>>,
        tools: Option<Vec<Named>>,
        resources: Option<Vec<Named>>,
        prompts: Option<Vec<Named>>,
        server_info: Option<Named>,
        protocol_version: Option<String>,
    }
    #[derive(Deserialize)]
    struct Content {
        text: Option<String>,
        r#type: Option<String>,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let Some(Message::Response { succeeded, .. }) = envelope.message() else { return None };
    // An answer of another shape says nothing in few words, but has still succeeded or failed.
    let Ok(Payload { result, error }) = serde_json::from_str(envelope.payload()) else {
        return Some(Answered { worked: *succeeded, says: None });
    };
    if let Some(error) = error {
        return Some(Answered { worked: false, says: error.message });
    }
    let outcome = result.unwrap_or_default();
    let names = |list: Vec<Named>| list.into_iter().map(|item| item.name).collect::<Vec<_>>().join(", ");
    let spoken = outcome.content.iter().find_map(|content| content.text.clone());
    let other = || outcome.content.first().and_then(|content| Some(format!("[{}]", content.r#type.as_ref()?)));
    let says = spoken
        .or_else(|| outcome.structured_content.as_ref().map(|raw| json::compact(raw.get())))
        .or_else(other)
        .or(outcome.tools.or(outcome.resources).or(outcome.prompts).map(names))
        .or(outcome.server_info.map(|server| {
            let version = outcome.protocol_version.as_deref().unwrap_or("unknown");
            format!("{}, MCP {version}", server.name)
        }));
    Some(Answered { worked: !outcome.is_error, says })
}

/// Reads a progress notification; `None` when it is none.
pub(crate) fn reached(envelope: &Envelope) -> Option<Reached> {
    #[derive(Deserialize)]
    struct Params {
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    }
    let Some(Message::Notification { method }) = envelope.message() else { return None };
    let params = envelope.params().filter(|_| &**method == "notifications/progress")?;
    let Params { progress, total, message } = serde_json::from_str(params).ok()?;
    Some(Reached { progress, total, message })
}
