//! What a participant does by an envelope, as far as capabilities tell acts apart.

use std::fmt;

use salon_protocol::{CHAT_METHOD, Envelope, Message, ParticipantId};
use serde::Deserialize;
use serde_json::value::RawValue;

/// One thing that needs a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act<'a> {
    /// Being in the room: reading, asking what participants offer, answering.
    Read,
    /// Chat, and notifications that are not part of MCP.
    Say,
    /// Calling a tool of a participant. Methods that MCP does not know count as tools of their own name.
    Call(&'a ParticipantId, &'a str),
    /// Offering tools, resources and prompts to others.
    Offer,
    /// Approving a held call of a tool.
    Approve(&'a ParticipantId, &'a str),
    /// Pausing and removing participants, redacting messages.
    Moderate,
    /// Changing the topic's settings.
    Manage,
}

/// Requests of MCP that ask what somebody offers, or read it. Every participant that may read the room may send them.
const READ_REQUESTS: &[&str] = &[
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tasks/update",
    "tools/list",
];

/// The gateway's own tools that only read, or judge by themselves who may use them.
const READ_TOOLS: &[&str] = &[
    "approval.decide",
    "approval.list",
    "context.get",
    "context.history",
    "context.list",
    "context.watch",
    "history.get",
    "message.status",
    "presence.get",
    "room.find_tools",
    "room.search",
    "room.wait",
    "topic.get",
];

/// What a call of one of the gateway's own tools is.
pub(crate) fn host_act<'a>(host: &'a ParticipantId, tool: &'a str) -> Act<'a> {
    match tool {
        "chat.edit" | "chat.retract" | "chat.say" | "presence.set" => Act::Say,
        "topic.configure" => Act::Manage,
        "message.redact"
        | "participant.pause"
        | "participant.readmit"
        | "participant.remove"
        | "participant.resume"
        | "room.resume"
        | "room.stop" => Act::Moderate,
        tool if READ_TOOLS.contains(&tool) => Act::Read,
        _ => Act::Call(host, tool),
    }
}

/// Requests of MCP that servers send to their clients, while they are called. At other times they are calls like others.
const CLIENT_REQUESTS: &[&str] = &["elicitation/create", "roots/list", "sampling/createMessage"];

/// Notifications that belong to a call or a connection, and say nothing to people.
const PROTOCOL_NOTIFICATIONS: &[&str] = &[
    "notifications/cancelled",
    "notifications/elicitation/complete",
    "notifications/initialized",
    "notifications/message_acknowledged",
    "notifications/progress",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/roots/list_changed",
    "notifications/subscriptions/acknowledged",
    "notifications/tasks",
    "notifications/tasks/status",
    "notifications/tools/list_changed",
];

/// Whether an envelope asks a client something, as servers do while they are called.
pub fn is_client_request(envelope: &Envelope) -> bool {
    matches!(envelope.message(), Some(Message::Request { method, .. }) if CLIENT_REQUESTS.contains(&&**method))
}

/// Whether an envelope calls a tool by `tools/call`.
pub(crate) fn is_tool_call(envelope: &Envelope) -> bool {
    matches!(envelope.message(), Some(Message::Request { method, .. }) if &**method == "tools/call")
}

/// The name of the tool that an envelope calls by `tools/call`; `None` where it does not, or names none.
pub fn called_tool(envelope: &Envelope) -> Option<String> {
    call_params(envelope).and_then(tool_name)
}

/// The arguments of the tool that an envelope calls by `tools/call`, as they were written; `None` where there are none.
pub fn called_arguments(envelope: &Envelope) -> Option<String> {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        arguments: &'a RawValue,
    }
    serde_json::from_str::<Call<'_>>(call_params(envelope)?).ok().map(|call| call.arguments.get().to_owned())
}

/// The parameters of a `tools/call`. Only an object has any: an array would be read as the members in their order, and callees read none in it.
fn call_params(envelope: &Envelope) -> Option<&str> {
    envelope.params().filter(|params| is_tool_call(envelope) && params.starts_with('{'))
}

fn tool_name(params: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Params {
        name: String,
    }
    serde_json::from_str::<Params>(params).ok().map(|params| params.name)
}

impl<'a> Act<'a> {
    /// The tool that is called, where one is.
    pub(crate) fn tool(&self) -> Option<&'a str> {
        match self {
            Self::Call(_, tool) => Some(tool),
            _ => None,
        }
    }

    /// What an envelope does. `tool` is the tool's name, where the envelope is a `tools/call`; the caller reads it only if it matters.
    pub fn of(envelope: &'a Envelope, tool: &'a str) -> Self {
        match envelope.message() {
            Some(Message::Request { method, .. }) => match (&**method, envelope.to()) {
                ("tools/call", [callee]) if callee.is_host() => host_act(callee, tool),
                ("tools/call", [callee]) => Self::Call(callee, tool),
                (method, _) if READ_REQUESTS.contains(&method) => Self::Read,
                (method, [callee]) => Self::Call(callee, method),
                // Refused for its recipients.
                _ => Self::Read,
            },
            Some(Message::Notification { method }) if &**method == CHAT_METHOD => Self::Say,
            // Progress to everybody is of no call.
            Some(Message::Notification { method })
                if &**method == "notifications/progress" && envelope.to().is_empty() =>
            {
                Self::Say
            }
            Some(Message::Notification { method }) if PROTOCOL_NOTIFICATIONS.contains(&&**method) => Self::Read,
            Some(Message::Notification { .. }) => Self::Say,
            Some(Message::Response { .. }) | None => Self::Read,
        }
    }
}

/// As a capability is written, so that a refusal can name the one that is missing.
impl fmt::Display for Act<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read => f.write_str("read"),
            Self::Say => f.write_str("say"),
            Self::Call(who, tool) => write!(f, "call:{who}/{tool}"),
            Self::Offer => f.write_str("offer"),
            Self::Approve(who, tool) => write!(f, "approve:{who}/{tool}"),
            Self::Moderate => f.write_str("moderate"),
            Self::Manage => f.write_str("manage"),
        }
    }
}
