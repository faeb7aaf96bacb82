//! The context's tools as `tools/list` shows them, written for a model to use well.

use salon_log::context::{MAX_KEY_CHARS, MAX_VALUE_BYTES, MAX_VERSIONS};
use serde_json::{Value, json};

use super::tools::{MAX_LISTED, USUAL_LISTED, USUAL_VERSIONS};

/// All of them.
pub(in super::super) fn descriptions() -> Vec<Value> {
    [reading(), writing(), watching()].concat()
}

fn scope() -> Value {
    json!({
        "type": "string", "default": "topic",
        "description": "`topic`: everybody's in this room. `participant`: your own. `tool:` and the id of a tool: that tool's"
    })
}

fn key() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS, "description": "The name it is kept under" })
}

fn expected() -> Value {
    json!({
        "type": "integer", "minimum": 0,
        "description": "Only if this is still its newest version; 0: only if it does not exist. Otherwise nothing is done, and you \
            are told the newest version"
    })
}

/// An object with these members, the scope and the required ones among them.
fn result(mut properties: Value, required: &[&str]) -> Value {
    properties["scope"] = json!({ "type": "string" });
    let required = [&["scope"], required].concat();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// The members of a version as it is shown.
fn version_members() -> Value {
    json!({
        "version": { "type": "integer" },
        "at": { "type": "string", "format": "date-time" },
        "by": { "type": "string", "description": "Who wrote it" },
        "deleted": { "type": "boolean" },
        "value": { "description": "The value, if it was not deleted" },
        "omitted": { "type": "boolean", "description": "The value is too long to show here" }
    })
}

/// What was read or written under a key.
fn keyed(members: Value, required: &[&str]) -> Value {
    let mut members = members;
    members["key"] = json!({ "type": "string" });
    result(members, &[required, &["key"]].concat())
}

/// What was written.
fn written() -> Value {
    let members = json!({
        "version": { "type": "integer" }, "at": { "type": "string", "format": "date-time" }, "deleted": { "type": "boolean" }
    });
    keyed(members, &["version", "at"])
}

fn reading() -> Vec<Value> {
    vec![
        json!({
            "name": "context.get",
            "title": "Read from the room's memory",
            "description": "Reads what is kept under a key: its `value`, its `version`, who wrote it and when",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "scope": scope(),
                    "key": key(),
                    "version": { "type": "integer", "minimum": 1, "description": "An older version; when absent, the newest" }
                },
                "required": ["key"],
                "additionalProperties": false
            },
            "outputSchema": keyed(version_members(), &["version", "at", "by"]),
            "annotations": { "readOnlyHint": true }
        }),
        json!({
            "name": "context.list",
            "title": "What is in the room's memory",
            "description": "Lists the keys of a scope in order, without their values. `next` means that there are more: ask again with \
                it as `after`",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "scope": scope(),
                    "after": { "type": "string", "description": "A key; only those behind it" },
                    "limit": { "type": "integer", "minimum": 1, "maximum": MAX_LISTED, "default": USUAL_LISTED }
                },
                "additionalProperties": false
            },
            "outputSchema": result(
                json!({
                    "keys": { "type": "array", "items": {
                        "type": "object",
                        "properties": {
                            "key": { "type": "string" }, "version": { "type": "integer" }, "at": { "type": "string", "format": "date-time" },
                            "by": { "type": "string" }, "bytes": { "type": "integer" }
                        },
                        "required": ["key", "version", "at", "by", "bytes"]
                    } },
                    "next": { "type": "string", "description": "There are more: ask again with it as `after`" }
                }),
                &["keys"],
            ),
            "annotations": { "readOnlyHint": true }
        }),
        json!({
            "name": "context.history",
            "title": "How something in the room's memory came to be",
            "description": format!("Reads the versions of a key, newest first, deletes included. The newest {MAX_VERSIONS} are kept. \
                `next` means that there may be older ones: ask again with it as `before`"),
            "inputSchema": {
                "type": "object",
                "properties": {
                    "scope": scope(),
                    "key": key(),
                    "before": { "type": "integer", "minimum": 1, "description": "A version; only older ones" },
                    "limit": { "type": "integer", "minimum": 1, "maximum": MAX_VERSIONS, "default": USUAL_VERSIONS }
                },
                "required": ["key"],
                "additionalProperties": false
            },
            "outputSchema": keyed(
                json!({
                    "versions": { "type": "array", "items": {
                        "type": "object", "properties": version_members(), "required": ["version", "at", "by"]
                    } },
                    "next": { "type": "integer", "description": "There may be older ones: ask again with it as `before`" }
                }),
                &["versions"],
            ),
            "annotations": { "readOnlyHint": true }
        }),
    ]
}

fn writing() -> Vec<Value> {
    vec![
        json!({
            "name": "context.put",
            "title": "Write to the room's memory",
            "description": format!("Keeps a value under a key, as a new version. Everybody in the room can read `topic` and tools' \
                scopes. To change what others may be changing too, read it first and give the version you read as \
                `expectedVersion`; if you are refused, read it again. A value has at most {MAX_VALUE_BYTES} bytes as JSON"),
            "inputSchema": {
                "type": "object",
                "properties": {
                    "scope": scope(),
                    "key": key(),
                    "value": { "description": "Any JSON" },
                    "expectedVersion": expected()
                },
                "required": ["key", "value"],
                "additionalProperties": false
            },
            "outputSchema": written(),
            "annotations": { "readOnlyHint": false, "destructiveHint": false }
        }),
        json!({
            "name": "context.delete",
            "title": "Delete from the room's memory",
            "description": "Deletes what is kept under a key. That is a version too; `context.history` still has the older ones",
            "inputSchema": {
                "type": "object",
                "properties": { "scope": scope(), "key": key(), "expectedVersion": expected() },
                "required": ["key"],
                "additionalProperties": false
            },
            "outputSchema": written(),
            "annotations": { "readOnlyHint": false, "destructiveHint": true }
        }),
    ]
}

fn watching() -> Vec<Value> {
    vec![json!({
        "name": "context.watch",
        "title": "Hear of changes to the room's memory",
        "description": "From now on, until you leave, tells you by `notifications/context/changed` when a key is written or deleted, or \
            any key of a scope; `room.wait` counts that as a mention. `version` in the answer is the newest as of now, 0 if there is none",
        "inputSchema": {
            "type": "object",
            "properties": {
                "scope": scope(),
                "key": { "type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS, "description": "When absent, every key" },
                "stop": { "type": "boolean", "default": false, "description": "Do not tell me any more" }
            },
            "additionalProperties": false
        },
        "outputSchema": result(
            json!({
                "key": { "type": "string" },
                "watching": { "type": "boolean" },
                "version": { "type": "integer", "description": "The newest as of now; 0 if there is none" }
            }),
            &["watching"],
        ),
        "annotations": { "readOnlyHint": true }
    })]
}
