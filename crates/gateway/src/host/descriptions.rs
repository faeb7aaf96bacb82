//! The host's tools as `tools/list` shows them, written for a model to use well.

use serde_json::{Value, json};

use super::tools::MAX_ENTRIES;
use super::{find, gather, output_schemas, waiting};
use crate::host::arguments::MAX_TIME;

/// `presence.get`.
pub(super) fn presence_get() -> Value {
    json!({
        "name": "presence.get",
        "title": "Who is here",
        "description": "Lists the participants present in this room",
        "inputSchema": { "type": "object", "properties": {}, "additionalProperties": false },
        "outputSchema": output_schemas::presence(),
        "annotations": { "readOnlyHint": true }
    })
}

/// `chat.say`.
pub(super) fn chat_say() -> Value {
    json!({
        "name": "chat.say",
        "title": "Say something",
        "description": "Says something to everyone in this room, in the caller's name",
        "inputSchema": {
            "type": "object",
            "properties": {
                "text": { "type": "string", "description": "What to say" },
                "format": { "type": "string", "enum": ["plain", "markdown"], "default": "plain" }
            },
            "required": ["text"],
            "additionalProperties": false
        },
        "outputSchema": output_schemas::said()
    })
}

/// `history.get`.
pub(super) fn history_get() -> Value {
    json!({
        "name": "history.get",
        "title": "What was said",
        "description": "Reads envelopes of this room, newest first",
        "inputSchema": {
            "type": "object",
            "properties": {
                "limit": { "type": "integer", "minimum": 1, "maximum": MAX_ENTRIES, "default": 20 },
                "before": { "type": "string", "description": "An envelope id or an RFC 3339 time; only what came before" },
                "after": { "type": "string", "description": "An envelope id; only what came after" }
            },
            "additionalProperties": false
        },
        "outputSchema": output_schemas::history(),
        "annotations": { "readOnlyHint": true }
    })
}

/// `room.find_tools` and `room.call_all`.
pub(super) fn tools_of_others() -> Vec<Value> {
    vec![
        json!({
            "name": "room.find_tools",
            "title": "Find tools in this room",
            "description": "Finds tools that the participants of this room offer, the gateway's own included, with their input \
                schemas. Without `query` it lists all of them. Tools that match more words of the query come first. \
                Call a tool you found by its owner's name and its own, or of several owners at once with the tool for that. \
                `unanswered` names participants whose tools are not known, and why; ask again later if you need them. \
                `total` is how many tools match; when it is more than you were shown, ask more precisely.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "description": "Words to look for in names, titles, descriptions and participants, such as \"move arm\""
                    },
                    "participant": { "type": "string", "description": "Only the tools of this participant, by its id" },
                    "limit": {
                        "type": "integer", "minimum": 1, "maximum": find::MAX_TOOLS, "default": find::USUAL_TOOLS,
                        "description": "How many tools to show"
                    }
                },
                "additionalProperties": false
            },
            "outputSchema": output_schemas::found_tools(),
            "annotations": { "readOnlyHint": true }
        }),
        json!({
            "name": "room.call_all",
            "title": "Ask several participants the same",
            "description": "Calls the same tool with the same arguments on several participants at once and gathers their answers. \
                Without `participants` it asks everyone here, other than you, who offers the tool. Use it to compare opinions \
                (`all`), to take the quickest answer (`first`), or to have a vote (`majority`). Answers that came before the \
                deadline are returned even when others are missing: `outcome` is `complete`, `partial` or `none`, `answers` has \
                what each participant answered, `missing` who did not answer and why, and with `first` and `majority` `answer` is \
                the one that counts. The call may have effects in the world, once for each participant asked.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "tool": { "type": "string", "description": "The tool's name, as its owner calls it" },
                    "arguments": { "type": "object", "description": "The arguments of the tool, the same for everyone" },
                    "participants": {
                        "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": gather::MAX_PARTICIPANTS_ASKED,
                        "description": "Whom to ask, by id; when absent, everyone here but you who offers the tool"
                    },
                    "strategy": {
                        "type": "string", "enum": ["all", "first", "majority"], "default": "all",
                        "description": "`all`: wait for everyone. `first`: take the first answer that is no error. \
                            `majority`: take the answer that more than half of those asked give. With the last two the others \
                            are told to stop as soon as the answer is there"
                    },
                    "timeout_ms": {
                        "type": "integer", "minimum": 0, "maximum": MAX_TIME.as_millis() as u64, "default": 30_000,
                        "description": "How long to wait at most, in milliseconds"
                    }
                },
                "required": ["tool"],
                "additionalProperties": false
            },
            "outputSchema": output_schemas::gathered(),
            "annotations": { "readOnlyHint": false, "openWorldHint": true }
        }),
    ]
}

/// `room.wait`.
pub(super) fn wait() -> Value {
    json!({
        "name": "room.wait",
        "title": "Wait for something to happen",
        "description": "Waits until something for you happens in this room, and answers with everything of that sort that happened \
            since you last asked, oldest first. If something has happened already, it answers at once. Call it again and again, and \
            you take part in the room without missing anything and without polling. Each answer has a `cursor`; the next call goes on \
            from there by itself, or from `after` when you give it one; give it if several of you wait at once or wait for different \
            things. `more` means that there is more already; \
            call again at once. `timed_out` means that nothing happened; call again to go on waiting.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "after": {
                    "type": "string",
                    "description": "An envelope id, such as the `cursor` of the answer before: everything after it counts. When absent, \
                        where your last answer ended; the first time, where you joined"
                },
                "for": {
                    "type": "array", "items": { "type": "string", "enum": ["mention", "chat", "join", "leave", "call", "any"] },
                    "minItems": 1, "uniqueItems": true, "default": ["mention", "chat", "join"],
                    "description": "What to wait for. `mention`: a request or notification addressed to you, or a chat line that names you \
                        by id, @id or display name. `chat`: any chat line. `join`, `leave`: somebody comes or goes. `call`: a request \
                        addressed to you. `any`: everything in the room, protocol traffic included"
                },
                "from": {
                    "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": waiting::MAX_SENDERS,
                    "description": "Only what these participants do, by id"
                },
                "timeout_ms": {
                    "type": "integer", "minimum": 0, "maximum": MAX_TIME.as_millis() as u64, "default": 30_000,
                    "description": "How long to wait at most, in milliseconds; 0 only looks"
                },
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": waiting::MAX_EVENTS, "default": waiting::USUAL_EVENTS,
                    "description": "How many events to answer with at most"
                }
            },
            "additionalProperties": false,
            "examples": [{ "for": ["mention"], "timeout_ms": 60_000 }]
        },
        "outputSchema": waiting::output_schema(),
        "annotations": { "readOnlyHint": true }
    })
}
