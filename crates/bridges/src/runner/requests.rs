//! What a core asks of its room, by the client library.

use std::time::Duration;

use salon_client::protocol::{CHAT_EDIT_METHOD, CHAT_RETRACT_METHOD, Code, ParticipantKind, Refusal};
use salon_client::{CallError, Ghost, Outgoing, PublishError, RequestOptions, Room};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::room::{RoomAction, RoomFailure, RoomReply, RoomResult, RoomSpeech, RoomTicket, ToolLine, result_text};

/// How long a list of tools may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
/// How long to wait before something is tried again that the room cannot do now.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// An action and the room to do it in.
pub(super) struct RoomRequest {
    pub(super) room: Room,
    pub(super) action: RoomAction,
}

/// Does it.
pub(super) async fn perform(RoomRequest { room, action }: RoomRequest) -> (RoomTicket, RoomResult) {
    let ticket = action.ticket();
    let result = match action {
        RoomAction::EnterGhost { ghost, .. } => {
            let ghost = Ghost::new(ghost.id).name(ghost.name).kind(ParticipantKind::Human);
            room.enter_ghost(ghost).await.map(|()| RoomReply::Done).map_err(|error| publish_failure(&error))
        }
        RoomAction::LeaveGhost { ghost, .. } => {
            let left = room.leave_ghost(&ghost, None).await;
            left.map(|()| RoomReply::Done).map_err(|error| publish_failure(&error))
        }
        RoomAction::Publish { id, at, ghost, speech, .. } => {
            let outgoing = outgoing(speech).id(id).ts(at);
            let published = room.publish_as(&ghost, outgoing).await;
            published.map(|_| RoomReply::Done).map_err(|error| publish_failure(&error))
        }
        RoomAction::Notice { text, .. } => {
            let said = room.say(&text).await;
            said.map(|_| RoomReply::Done).map_err(|error| publish_failure(&error))
        }
        RoomAction::ListTools { participant: None, .. } => {
            let listed = tokio::time::timeout(LIST_TIMEOUT, room.tools()).await;
            let tools = listed.map(|offers| offers.tools).unwrap_or_default();
            Ok(RoomReply::Tools(
                tools
                    .into_iter()
                    .map(|(participant, tool)| ToolLine {
                        participant,
                        name: tool.name.clone(),
                        description: tool.description.clone().unwrap_or_default(),
                    })
                    .collect(),
            ))
        }
        RoomAction::ListTools { participant: Some(participant), .. } => {
            let peer = room.peer(&participant);
            let listed = tokio::time::timeout(LIST_TIMEOUT, peer.tools()).await.unwrap_or(Err(CallError::TimedOut));
            let line = |tool: &salon_client::mcp::Tool| ToolLine {
                participant: participant.clone(),
                name: tool.name.clone(),
                description: tool.description.clone().unwrap_or_default(),
            };
            listed.map(|tools| RoomReply::Tools(tools.iter().map(line).collect())).map_err(|error| call_failure(&error))
        }
        RoomAction::CallTool { ghost, callee, tool, arguments, .. } => {
            let params = json!({ "name": tool, "arguments": arguments });
            let called = async {
                let call = room.request_as(&ghost, &callee, "tools/call", &params, RequestOptions::new()).await?;
                call.result().await
            };
            called.await.map(|result| tool_result(&result)).map_err(|error| call_failure(&error))
        }
    };
    (ticket, result)
}

fn tool_result(result: &RawValue) -> RoomReply {
    let result: Value = serde_json::from_str(result.get()).unwrap_or(Value::Null);
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    RoomReply::ToolResult { is_error, text: result_text(&result) }
}

fn outgoing(speech: RoomSpeech) -> Outgoing {
    let format = |is_markdown: bool| if is_markdown { "markdown" } else { "plain" };
    let notification = |method: &str, params: Value| {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        Outgoing::new(to_raw_value(&message).expect("a value is JSON"))
    };
    match speech {
        RoomSpeech::Chat { text, is_markdown, reply_to } => {
            let chat = if is_markdown { Outgoing::chat_markdown(&text) } else { Outgoing::chat(&text) };
            chat.correlation(reply_to)
        }
        RoomSpeech::Edit { target, text, is_markdown } => {
            notification(CHAT_EDIT_METHOD, json!({ "text": text, "format": format(is_markdown) })).correlation(target)
        }
        RoomSpeech::Retract { target } => notification(CHAT_RETRACT_METHOD, json!({})).correlation(target),
    }
}

fn publish_failure(error: &PublishError) -> RoomFailure {
    match error {
        PublishError::Refused(refusal) => refused(refusal),
        other => RoomFailure::RetryAfter { after: RETRY_DELAY, reason: other.to_string() },
    }
}

fn refused(refusal: &Refusal) -> RoomFailure {
    match refusal.code {
        Code::IdConflict => RoomFailure::AlreadyPublished,
        Code::FromMismatch => RoomFailure::NotSeated,
        Code::RateLimited | Code::Closing => {
            RoomFailure::RetryAfter { after: RETRY_DELAY, reason: refusal.message.clone() }
        }
        _ => RoomFailure::Refused { reason: refusal.message.clone() },
    }
}

fn call_failure(error: &CallError) -> RoomFailure {
    RoomFailure::Refused { reason: error.to_string() }
}
