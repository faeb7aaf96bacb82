//! The tools as they are listed. The `test_…` names and `json_schema_2020_12_tool` are the conformance suite's.

use rmcp::model::Tool;
use serde_json::{Value, json};

use crate::answers::from_json;

/// The longest text that `long` answers with.
pub(crate) const MAX_TEXT_BYTES: usize = 1 << 20;

/// Tools without arguments.
const PLAIN: [(&str, &str); 26] = [
    ("test_simple_text", "Answers with text"),
    ("test_image_content", "Answers with an image"),
    ("test_audio_content", "Answers with audio"),
    ("test_embedded_resource", "Answers with an embedded resource"),
    ("test_multiple_content_types", "Answers with text, an image and a resource"),
    ("test_tool_with_logging", "Sends three log lines while it runs"),
    ("test_tool_with_progress", "Reports progress while it runs"),
    ("test_error_handling", "Fails"),
    ("test_elicitation_sep1034_defaults", "Asks the user with defaults for every type"),
    ("test_elicitation_sep1330_enums", "Asks the user with every kind of choice"),
    ("test_roots", "Asks the client for its roots"),
    ("test_reconnection", "Answers on a stream that may be lost meanwhile"),
    ("test_missing_capability", "Needs a client that samples"),
    ("test_streaming_elicitation", "Needs input from the user"),
    ("test_logging_tool", "Sends a log line"),
    ("test_trigger_tool_change", "Makes a tool appear or disappear"),
    ("test_trigger_prompt_change", "Announces that the prompts have changed"),
    ("test_input_required_result_elicitation", "Needs a name from the user"),
    ("test_input_required_result_sampling", "Needs an answer from a model"),
    ("test_input_required_result_list_roots", "Needs the client's roots"),
    ("test_input_required_result_request_state", "Needs a confirmation and its state back"),
    ("test_input_required_result_multiple_inputs", "Needs three things at once"),
    ("test_input_required_result_multi_round", "Needs one thing after another"),
    ("test_input_required_result_tampered_state", "Refuses a state that it did not give out"),
    ("test_input_required_result_capabilities", "Asks only for what the client can do"),
    ("who_am_i", "Tells what this server knows of the client"),
];

/// All tools, in an order that never changes. The last is there only if it has `appeared`.
pub(crate) fn tools(appeared: bool) -> Vec<Tool> {
    let nothing = || json!({ "type": "object", "properties": {} });
    let mut tools: Vec<Tool> = PLAIN.iter().map(|&(name, description)| tool(name, description, nothing())).collect();
    tools.extend([
        tool("test_sampling", "Asks the client's model", with("prompt", "What to ask it")),
        tool("test_elicitation", "Asks the user for a name and an address", with("message", "What to ask them")),
        tool("json_schema_2020_12_tool", "Has arguments described by much of JSON Schema", json_schema_2020_12()),
        tool("test_header", "Takes an argument that HTTP repeats in a header", header()),
        tool(
            "echo",
            "Answers with its arguments, untouched",
            json!({ "type": "object", "properties": { "value": {} } }),
        ),
        tool("long", "Answers with a text of some length", long()),
        tool("slow", "Takes its time and reports progress", slow()),
        tool("touch", "Announces that a resource has changed", with("uri", "Which one")),
        tool("cancellations", "Tells how many calls of `slow` were cancelled", nothing()),
        tool("crash", "Ends this process without an answer", nothing()),
    ]);
    if appeared {
        tools.push(tool("appeared", "Was not there before", nothing()));
    }
    tools
}

fn tool(name: &'static str, description: &'static str, schema: Value) -> Tool {
    Tool::new(name, description, from_json::<rmcp::model::JsonObject>(schema))
}

/// A schema with one string that must be given.
fn with(name: &str, description: &str) -> Value {
    json!({
        "type": "object",
        "properties": { name: { "type": "string", "description": description } },
        "required": [name],
    })
}

fn long() -> Value {
    json!({
        "type": "object",
        "properties": { "length": { "type": "integer", "minimum": 0, "maximum": MAX_TEXT_BYTES } },
        "required": ["length"],
    })
}

fn slow() -> Value {
    json!({
        "type": "object",
        "properties": {
            "ms": { "type": "integer", "minimum": 0, "description": "How long it takes" },
            "steps": { "type": "integer", "minimum": 1, "description": "How often it reports progress" },
        },
        "required": ["ms"],
    })
}

fn header() -> Value {
    json!({
        "type": "object",
        "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
        "required": ["region"],
    })
}

fn json_schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
        } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}
