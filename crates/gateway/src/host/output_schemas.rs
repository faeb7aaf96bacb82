//! What the host's tools for talking and for others' tools answer with, as their `outputSchema` says it (MCP 2025-06-18, Tools, "Output
//! Schema"). Clients hold results to it. Tools with modules of their own describe their results there.

use serde_json::{Value, json};

use super::status;

fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

fn list(items: Value, description: &str) -> Value {
    json!({ "type": "array", "items": items, "description": description })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

/// Of `presence.get`.
pub(super) fn presence() -> Value {
    let participant = object(
        json!({
            "id": { "type": "string" },
            "name": { "type": "string" },
            "kind": { "type": "string", "enum": ["human", "agent", "robot"] },
            "mcp": { "type": "object", "description": "The revisions of MCP that it supports" },
            "capabilities": { "type": "array", "items": { "type": "string" } },
            "via": text("The bridge that speaks for it"),
            "status": status::schema()
        }),
        &["id"],
    );
    let participants = list(participant, "Everybody here but the gateway");
    object(json!({ "topic": { "type": "string" }, "participants": participants }), &["topic", "participants"])
}

/// Of `chat.say`.
pub(super) fn said() -> Value {
    object(json!({ "id": text("The id of the chat message") }), &["id"])
}

/// Of `history.get`.
pub(super) fn history() -> Value {
    let next = json!({ "type": ["string", "null"], "description": "There is more: ask again with it as `before`" });
    object(
        json!({
            "topic": { "type": "string" },
            "enabled": { "type": "boolean", "description": "Whether this room keeps a history" },
            "messages": list(json!({ "type": "object" }), "Envelopes with `id`, `ts`, `from`, `kind` and `payload`, newest first"),
            "omitted": list(json!({ "type": "string" }), "Ids of envelopes that are too long to show here"),
            "next": next
        }),
        &["topic", "enabled", "messages", "next"],
    )
}

fn lacking(description: &str) -> Value {
    let one = object(
        json!({ "participant": { "type": "string" }, "reason": { "type": "string" } }),
        &["participant", "reason"],
    );
    list(one, description)
}

fn total(description: &str) -> Value {
    json!({ "type": "integer", "description": description })
}

/// Of `room.find_tools`.
pub(super) fn found_tools() -> Value {
    let tool = object(
        json!({
            "participant": text("Who offers it"),
            "name": { "type": "string" },
            "title": { "type": "string" },
            "description": { "type": "string" },
            "inputSchema": { "type": "object" },
            "annotations": {}
        }),
        &["participant", "name"],
    );
    object(
        json!({
            "tools": list(tool, "The best matches first"),
            "total": total("How many tools match"),
            "unanswered": lacking("Participants whose tools are not known, and why"),
            "unanswered_total": total("How many they are, where not all of them are listed")
        }),
        &["tools", "total", "unanswered"],
    )
}

/// Of `room.call_all`.
pub(super) fn gathered() -> Value {
    let answer = object(
        json!({
            "participant": { "type": "string" },
            "envelope": text("The id of the call"),
            "result": { "description": "What its tool answered" },
            "error": { "description": "The JSON-RPC error that it answered with" },
            "omitted": { "type": "boolean", "description": "The answer is too long to show here" },
            "elapsed_ms": { "type": "integer" }
        }),
        &["participant", "envelope", "elapsed_ms"],
    );
    let counting = object(
        json!({ "participants": { "type": "array", "items": { "type": "string" } }, "result": {} }),
        &["participants"],
    );
    object(
        json!({
            "strategy": { "type": "string", "enum": ["all", "first", "majority"] },
            "outcome": { "type": "string", "enum": ["complete", "partial", "none"] },
            "answer": counting,
            "answers": list(answer, "What each participant answered"),
            "missing": lacking("Who did not answer, and why"),
            "missing_total": total("How many they are, where not all of them are listed"),
            "unanswered": lacking("Participants of which it is not known whether they offer the tool"),
            "unanswered_total": total("How many they are, where not all of them are listed")
        }),
        &["strategy", "outcome", "answers", "missing", "unanswered"],
    )
}
