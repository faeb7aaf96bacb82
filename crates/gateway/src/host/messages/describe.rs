//! The tools about messages as `tools/list` shows them.

use serde_json::{Value, json};

fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// The tools.
pub(in crate::host) fn descriptions() -> Vec<Value> {
    let id = json!({ "type": "string", "description": "The id of the message's envelope" });
    let revised = || {
        let revision = json!({ "type": "string", "description": "The id of the edit or the retraction" });
        object(json!({ "id": revision, "original_id": { "type": "string" } }), &["id", "original_id"])
    };
    vec![
        json!({
            "name": "chat.edit",
            "title": "Edit what you said",
            "description": "Replaces the text of a chat message that you said before. Everybody sees the new text, marked as edited; the \
                history keeps both",
            "inputSchema": object(
                json!({
                    "id": id, "text": { "type": "string", "description": "What it says now" },
                    "format": { "type": "string", "enum": ["plain", "markdown"], "default": "plain" }
                }),
                &["id", "text"],
            ),
            "outputSchema": revised(),
        }),
        json!({
            "name": "chat.retract",
            "title": "Retract what you said",
            "description": "Takes back a chat message that you said before. It is shown as retracted; the history keeps its text",
            "inputSchema": object(json!({ "id": id }), &["id"]),
            "outputSchema": revised(),
        }),
        json!({
            "name": "message.redact",
            "title": "Redact a message",
            "description": "Removes the text of a message for good, and of what has the same text: its edits, the request to say it, the \
                notice that held it for approval. A tombstone with its id, sender, digest, who redacted it and why takes its place, in the \
                history and in everything that is read from now on. What was delivered before cannot be taken back",
            "inputSchema": object(
                json!({ "id": id, "reason": { "type": "string", "maxLength": 1000, "description": "Why; everybody can read it" } }),
                &["id"],
            ),
            "outputSchema": object(
                json!({
                    "id": { "type": "string" },
                    "redacted": { "type": "array", "items": { "type": "string" }, "description": "The ids of all messages that were redacted" },
                    "digest": { "type": "string", "description": "The SHA-256 of the text of the first of them" },
                    "complete": {
                        "type": "boolean",
                        "description": "Whether everything after the message was looked through for edits. If not, redact later edits by their ids"
                    }
                }),
                &["id", "redacted", "complete"],
            ),
            "annotations": { "destructiveHint": true },
        }),
        json!({
            "name": "message.status",
            "title": "What became of a message",
            "description": "Tells whether a message was stored, whose connections were handed it, who acknowledged it \
                (`notifications/message_acknowledged`), who answered it, and whether it was edited, retracted or redacted",
            "inputSchema": object(json!({ "id": id }), &["id"]),
            "outputSchema": status_schema(),
            "annotations": { "readOnlyHint": true },
        }),
    ]
}

fn status_schema() -> Value {
    let receipt = || {
        let at = json!({ "type": "string", "format": "date-time" });
        let properties = json!({ "by": { "type": "string" }, "at": at, "id": { "type": "string" } });
        object(properties, &["by", "at", "id"])
    };
    let names =
        |description: &str| json!({ "type": "array", "items": { "type": "string" }, "description": description });
    let properties = json!({
        "id": { "type": "string" },
        "from": { "type": "string" },
        "position": { "type": "string", "description": "Where it stands in the topic" },
        "stored_at": { "type": "string", "format": "date-time" },
        "delivered_to": names("Participants whose connection was handed it; its author is not counted"),
        "pending": names("Participants that are present and whose connection has not come to it yet"),
        "unknown": names("Participants that are connected to another gateway, which did not answer in time"),
        "acknowledged_by": { "type": "array", "items": receipt() },
        "answered": receipt(),
        "edited": receipt(),
        "retracted": receipt(),
        "redacted": { "type": "object" },
        "complete": { "type": "boolean", "description": "Whether everything after the message was looked through" }
    });
    let required =
        ["id", "from", "position", "stored_at", "delivered_to", "pending", "unknown", "acknowledged_by", "complete"];
    object(properties, &required)
}
