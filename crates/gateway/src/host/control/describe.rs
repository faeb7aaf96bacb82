//! The tools for control as `tools/list` shows them.

use serde_json::{Value, json};

fn schema(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn reason() -> Value {
    json!({ "type": "string", "maxLength": 1000, "description": "Why, for everybody to read" })
}

/// What tools answer that change the settings.
fn settings_result() -> Value {
    let settings = json!({ "type": "object", "description": "The settings as they are now", "required": ["version"] });
    json!({ "type": "object", "properties": { "settings": settings }, "required": ["settings"] })
}

fn about_participant(name: &str, title: &str, description: &str) -> Value {
    let participant = json!({ "type": "string", "description": "The participant's id" });
    json!({
        "name": name, "title": title, "description": description,
        "inputSchema": schema(json!({ "participant": participant, "reason": reason() }), &["participant"]),
        "outputSchema": settings_result(),
    })
}

fn about_room(name: &str, title: &str, description: &str) -> Value {
    json!({
        "name": name, "title": title, "description": description,
        "inputSchema": schema(json!({ "reason": reason() }), &[]),
        "outputSchema": settings_result(),
    })
}

/// The tools.
pub(in crate::host) fn descriptions() -> Vec<Value> {
    let mut tools = topic();
    tools.extend([
        about_participant("participant.pause", "Pause a participant", "Lets a participant read and nothing else, until it is resumed. Its running calls are cancelled."),
        about_participant("participant.resume", "Resume a participant", "Ends the pause of a participant."),
        about_participant("participant.remove", "Remove a participant", "Closes the connections of a participant and keeps it out of this topic, until it is readmitted."),
        about_participant("participant.readmit", "Readmit a participant", "Lets a removed participant in again."),
        about_room("room.stop", "Stop everything", "Pauses everyone in this room who is not a person, and cancels their running calls, until the room is resumed."),
        about_room("room.resume", "Resume the room", "Ends a stop. Participants that were paused one by one stay so."),
    ]);
    tools.extend(approvals());
    tools
}

fn topic() -> Vec<Value> {
    vec![
        json!({
            "name": "topic.get", "title": "Read the topic's settings",
            "description": "Shows this topic's settings (access, members, roles, rules) and what you may do here.",
            "inputSchema": schema(json!({}), &[]),
            "outputSchema": {
                "type": "object", "required": ["topic", "configured", "settings", "you"],
                "properties": {
                    "topic": { "type": "string" },
                    "configured": { "type": "boolean", "description": "Whether the topic has settings of its own" },
                    "settings": { "type": "object" },
                    "you": { "type": "object", "properties": {
                        "role": { "type": ["string", "null"] }, "capabilities": { "type": ["array", "null"], "items": { "type": "string" } } } }
                }
            },
            "annotations": { "readOnlyHint": true }
        }),
        json!({
            "name": "topic.configure", "title": "Change the topic's settings",
            "description": "Changes this topic's settings by a JSON merge patch (RFC 7396): members that are absent stay as they are, null removes one. \
                To hold calls for approval: {\"rules\": [{\"hold\": \"call:robot-*/move*\", \"approvers\": [\"role:owner\"], \"needs\": 1, \"expires_ms\": 300000}]}. \
                To let only members in: {\"access\": \"members\", \"members\": {\"alice\": \"owner\", \"bob\": \"member\"}}.",
            "inputSchema": schema(json!({
                "change": { "type": "object", "description": "The merge patch" },
                "version": { "type": "integer", "minimum": 0, "description": "Change only if the settings have this version" },
                "reason": reason()
            }), &["change"]),
            "outputSchema": settings_result(),
        }),
    ]
}

fn approvals() -> Vec<Value> {
    vec![
        json!({
            "name": "approval.list", "title": "Calls that wait for approval",
            "description": "Lists the calls in this room that are held until somebody approves them, with the exact text of each and its digest.",
            "inputSchema": schema(json!({}), &[]),
            "outputSchema": {
                "type": "object", "required": ["approvals"],
                "properties": { "approvals": { "type": "array", "items": {
                    "type": "object", "required": ["id", "request", "digest", "caller", "callee", "tool", "needs", "expires", "approved_by", "you_may_decide"] } } }
            },
            "annotations": { "readOnlyHint": true }
        }),
        json!({
            "name": "approval.decide", "title": "Approve or deny a call",
            "description": "Approves or denies a held call. The digest must be that of the text you have read: it binds the decision to these bytes. \
                An approved call is sent to its callee in its caller's name.",
            "inputSchema": schema(json!({
                "id": { "type": "string", "description": "The id of the held envelope" },
                "digest": { "type": "string", "description": "Its digest, from the request for approval" },
                "decision": { "type": "string", "enum": ["approve", "deny"] },
                "remember": { "type": "boolean", "default": false, "description": "Decide the same about all later calls of this tool by this caller: it becomes a rule in the topic's settings, for which you need `manage`" },
                "reason": reason()
            }), &["id", "digest", "decision"]),
            "outputSchema": {
                "type": "object", "required": ["id", "decision"],
                "properties": { "id": { "type": "string" }, "decision": { "type": "string", "enum": ["approved", "denied"] },
                    "approvals": { "type": "integer" }, "needs": { "type": "integer" },
                    "remembered": { "type": "boolean" }, "not_remembered": { "type": ["string", "null"], "description": "Why there is no rule" } }
            },
        }),
    ]
}
