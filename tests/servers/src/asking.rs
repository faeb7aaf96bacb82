//! Tools that ask their caller for something while the call runs: a model's answer, the user's, the client's roots.
//! Only with a session; the tools of `rounds` do the same without one.

use rmcp::model::{
    ClientCapabilities, CreateMessageRequestParams, ElicitRequestParams, JsonObject, SamplingCapability,
};
use rmcp::service::ServiceError;
use rmcp::{ErrorData, Peer, RoleServer};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answers::{ToolResult, failure, from_json, invalid, read, text};
use crate::server::Context;

#[derive(Deserialize)]
struct Prompt {
    prompt: String,
}

#[derive(Deserialize)]
struct Message {
    message: String,
}

pub(crate) async fn call(name: &str, arguments: JsonObject, context: &Context) -> ToolResult {
    let can = context.client_capabilities().unwrap_or_default();
    match name {
        "test_missing_capability" if can.sampling.is_none() => {
            let mut required = ClientCapabilities::default();
            required.sampling = Some(SamplingCapability::default());
            Err(ErrorData::missing_required_client_capability(required))
        }
        "test_missing_capability" => text("This client can sample."),
        "test_sampling" if can.sampling.is_none() => failure("this client does not sample"),
        "test_roots" if can.roots.is_none() => failure("this client has no roots"),
        "test_sampling" => sample(read(arguments)?, &context.peer).await,
        "test_roots" => match context.peer.list_roots().await {
            Ok(roots) => text(format!("Roots: {}", json!(roots.roots))),
            Err(error) => refused(&error),
        },
        _ if can.elicitation.is_none() => failure("this client does not ask its user"),
        "test_elicitation" => {
            let Message { message } = read(arguments)?;
            elicit(&context.peer, &message, name_and_address(), "User response: action=").await
        }
        "test_elicitation_sep1034_defaults" => {
            elicit(&context.peer, "Is this right?", defaults(), "Elicitation completed: action=").await
        }
        "test_elicitation_sep1330_enums" => {
            elicit(&context.peer, "What will it be?", choices(), "Elicitation completed: action=").await
        }
        _ => Err(invalid(format!("unknown tool `{name}`"))),
    }
}

async fn sample(Prompt { prompt }: Prompt, peer: &Peer<RoleServer>) -> ToolResult {
    let request: CreateMessageRequestParams = from_json(json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
        "maxTokens": 100,
    }));
    match peer.create_message(request).await {
        Ok(answer) => {
            let answer = json!(answer);
            text(format!("LLM response: {}", answer["content"]["text"].as_str().unwrap_or_default()))
        }
        Err(error) => refused(&error),
    }
}

async fn elicit(peer: &Peer<RoleServer>, message: &str, schema: Value, intro: &str) -> ToolResult {
    let request: ElicitRequestParams =
        from_json(json!({ "mode": "form", "message": message, "requestedSchema": schema }));
    match peer.create_elicitation(request).await {
        Ok(answer) => {
            let (action, content) = (json!(answer.action), json!(answer.content.unwrap_or_else(|| json!({}))));
            text(format!("{intro}{}, content={content}", action.as_str().unwrap_or_default()))
        }
        Err(error) => refused(&error),
    }
}

fn refused(error: &ServiceError) -> ToolResult {
    failure(format!("the client answered: {error}"))
}

fn name_and_address() -> Value {
    json!({
        "type": "object",
        "properties": {
            "username": { "type": "string", "description": "User's response" },
            "email": { "type": "string", "description": "User's email address" },
        },
        "required": ["username", "email"],
    })
}

fn defaults() -> Value {
    json!({ "type": "object", "properties": {
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    } })
}

fn choices() -> Value {
    let titled = |first: &str, second: &str, third: &str| {
        json!([
            { "const": "value1", "title": first },
            { "const": "value2", "title": second },
            { "const": "value3", "title": third },
        ])
    };
    let options = json!(["option1", "option2", "option3"]);
    json!({ "type": "object", "properties": {
        "untitledSingle": { "type": "string", "enum": options },
        "titledSingle": { "type": "string", "oneOf": titled("First Option", "Second Option", "Third Option") },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("First Choice", "Second Choice", "Third Choice") } },
    } })
}
