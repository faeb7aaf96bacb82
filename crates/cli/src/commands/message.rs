//! `salon redact` and `salon status`: removes the text of a message for good, and shows the status of a message.

use clap::Args;
use salon_protocol::{EnvelopeId, ParticipantId, TopicName};
use serde_json::{Value, json};

use super::control::{ControlOptions, HostCaller, ReasonOption};
use crate::trouble::Trouble;
use crate::{hand_over, note, safe};

#[derive(Debug, Args)]
#[command(after_help = "\
The gateway removes the text from the log. A tombstone in its place says who
removed it and why. Copies that were delivered before are not removed: change
a password that has leaked.

  salon redact room:lab 0198c5a2-… --reason 'a password'")]
pub(crate) struct RedactArgs {
    /// Which room
    topic: TopicName,
    /// The message
    id: EnvelopeId,
    #[command(flatten)]
    reason: ReasonOption,
    #[command(flatten)]
    options: ControlOptions,
}

pub(crate) fn redact(args: RedactArgs) -> Result<(), Trouble> {
    super::run(redact_message(args))
}

async fn redact_message(RedactArgs { topic, id, reason, options }: RedactArgs) -> Result<(), Trouble> {
    let caller = HostCaller::enter(&options, topic).await?;
    let answer = caller.call("message.redact", reason.add_to(json!({ "id": id }))).await;
    caller.leave().await;
    let answer = answer?;
    if options.json {
        return hand_over(format_args!("{answer}"));
    }
    let count = answer["redacted"].as_array().map_or(0, Vec::len);
    let messages = if count == 1 { "message" } else { "messages with this text" };
    note(format_args!("{count} {messages} redacted"));
    if answer["complete"] == json!(false) {
        note(format_args!("the room has more messages than were looked through: redact later edits by their own ids"));
    }
    Ok(())
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  salon status room:lab 0198c5a2-…
  salon status room:lab \"$(salon say room:lab --json hello | jq -r .id)\" --json")]
pub(crate) struct StatusArgs {
    /// Which room
    topic: TopicName,
    /// The message
    id: EnvelopeId,
    #[command(flatten)]
    options: ControlOptions,
}

pub(crate) fn status(args: StatusArgs) -> Result<(), Trouble> {
    super::run(message_status(args))
}

async fn message_status(StatusArgs { topic, id, options }: StatusArgs) -> Result<(), Trouble> {
    let caller = HostCaller::enter(&options, topic).await?;
    let answer = caller.call("message.status", json!({ "id": id })).await;
    let me = caller.participant();
    caller.leave().await;
    let answer = answer?;
    if options.json {
        return hand_over(format_args!("{answer}"));
    }
    hand_over(format_args!("{}", described(&answer, &me)))
}

/// A status in lines. The caller of this command is present only for that.
fn described(status: &Value, me: &ParticipantId) -> String {
    let text = |value: &Value| safe::line(value.as_str().unwrap_or_default());
    let list = |name: &str| {
        let names = status[name].as_array().into_iter().flatten().filter(|who| *who != me.as_str());
        names.map(text).collect::<Vec<_>>().join(", ")
    };
    let receipt = |value: &Value| format!("{} at {}", text(&value["by"]), text(&value["at"]));
    let acknowledged = status["acknowledged_by"].as_array().into_iter().flatten().map(receipt).collect::<Vec<_>>();
    let mut lines = vec![format!("stored        {}, by {}", text(&status["stored_at"]), text(&status["from"]))];
    let mut add = |label: &str, what: String| {
        if !what.is_empty() {
            lines.push(format!("{label:<14}{what}"));
        }
    };
    add("delivered to", list("delivered_to"));
    add("pending", list("pending"));
    add("unknown", list("unknown"));
    add("acknowledged", acknowledged.join(", "));
    for name in ["answered", "edited", "retracted", "redacted"] {
        if status[name].is_object() {
            add(name, receipt(&status[name]));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_told_in_lines() {
        let receipt = json!({ "by": "bob", "at": "2025-08-17T14:00:01Z", "id": "a1" });
        let status = json!({
            "id": "e1", "from": "alice", "position": "1-2", "stored_at": "2025-08-17T14:00:00Z", "delivered_to": ["bob", "me"],
            "pending": [], "unknown": ["carol"], "acknowledged_by": [receipt], "edited": receipt, "complete": true
        });
        insta::assert_snapshot!(described(&status, &ParticipantId::new("me").expect("a name")), @r"
        stored        2025-08-17T14:00:00Z, by alice
        delivered to  bob
        unknown       carol
        acknowledged  bob at 2025-08-17T14:00:01Z
        edited        bob at 2025-08-17T14:00:01Z
        ");
    }
}
