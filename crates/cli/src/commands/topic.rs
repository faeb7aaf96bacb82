//! `salon topic`: a topic's settings, and stopping participants in it.

use clap::{Args, Subcommand};
use salon_protocol::{ParticipantId, TopicName};
use serde_json::{Value, json};

use super::control::{ControlOptions, HostCaller, ReasonOption};
use crate::trouble::Trouble;
use crate::{hand_over, note};

#[derive(Debug, Args)]
#[command(after_help = "\
On the gateway's machine, this command makes its own token with the gateway's
key. On another machine you need a token with the permission `operator`, or a
role in the topic that allows it.

Examples:
  salon topic create room:lab --title 'Robot lab'
  salon topic show room:lab
  salon topic set room:lab '{\"rules\": [{\"hold\": \"call:robot-*/move*\", \"approvers\": [\"role:owner\"]}]}'
  salon topic invite room:team bob
  salon topic set room:team '{\"access\": \"members\"}'
  salon topic stop room:lab --reason 'smoke in the lab'
  salon topic delete room:lab")]
pub(crate) struct TopicArgs {
    #[command(subcommand)]
    what: TopicCommand,
}

#[derive(Debug, Subcommand)]
enum TopicCommand {
    /// Create the settings of a topic, and become its owner
    Create {
        /// Which topic
        topic: TopicName,
        /// Title of the topic, for people
        #[arg(long, value_name = "TEXT")]
        title: Option<String>,
        /// Let only members in
        #[arg(long)]
        members_only: bool,
        #[command(flatten)]
        reason: ReasonOption,
        #[command(flatten)]
        options: ControlOptions,
    },
    /// Show the settings of a topic
    Show {
        /// Which topic
        topic: TopicName,
        #[command(flatten)]
        options: ControlOptions,
    },
    /// Change the settings of a topic
    Set {
        /// Which topic
        topic: TopicName,
        /// The change as a JSON merge patch: members that it does not name stay, `null` removes one
        #[arg(value_name = "JSON", value_parser = patch)]
        change: Value,
        #[command(flatten)]
        reason: ReasonOption,
        #[command(flatten)]
        options: ControlOptions,
    },
    /// Make a participant a member of a topic, with a role
    Invite {
        /// Which topic
        topic: TopicName,
        /// Participant
        participant: ParticipantId,
        /// Role in the topic: owner, member, observer, or one that the topic defines
        #[arg(long, value_name = "ROLE", default_value = "member")]
        role: String,
        #[command(flatten)]
        reason: ReasonOption,
        #[command(flatten)]
        options: ControlOptions,
    },
    /// Pause a participant, which can then only read and answer
    Pause(OneParticipant),
    /// End a pause; without a participant, end a stop
    Resume {
        /// Which topic
        topic: TopicName,
        /// Participant [default: everybody that was stopped]
        participant: Option<ParticipantId>,
        #[command(flatten)]
        reason: ReasonOption,
        #[command(flatten)]
        options: ControlOptions,
    },
    /// Disconnect a participant and keep it out of a topic
    Remove(OneParticipant),
    /// Let a removed participant in again
    Readmit(OneParticipant),
    /// Pause every participant of a topic that is not a person, and cancel their running calls
    Stop(TopicAlone),
    /// Archive a topic: it can be read, and nothing new is stored
    Archive(TopicAlone),
    /// End the archiving of a topic, so that new messages are stored again
    Unarchive(TopicAlone),
    /// Delete a topic with all its messages, files and settings
    Delete {
        /// Which topic
        topic: TopicName,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        reason: ReasonOption,
        #[command(flatten)]
        options: ControlOptions,
    },
}

#[derive(Debug, Args)]
struct TopicAlone {
    /// Which topic
    topic: TopicName,
    #[command(flatten)]
    reason: ReasonOption,
    #[command(flatten)]
    options: ControlOptions,
}

#[derive(Debug, Args)]
struct OneParticipant {
    /// Which topic
    topic: TopicName,
    /// Participant
    participant: ParticipantId,
    #[command(flatten)]
    reason: ReasonOption,
    #[command(flatten)]
    options: ControlOptions,
}

fn patch(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    if value.is_object() { Ok(value) } else { Err("it is not a JSON object".into()) }
}

pub(crate) fn run(args: TopicArgs) -> Result<(), Trouble> {
    super::run(topic(args.what))
}

async fn topic(what: TopicCommand) -> Result<(), Trouble> {
    let about = |tool, OneParticipant { topic, participant, reason, options }: OneParticipant| {
        (topic, tool, reason.add_to(json!({ "participant": participant })), options)
    };
    let configure = |topic, change: Value, reason: ReasonOption, options| {
        (topic, "topic.configure", reason.add_to(json!({ "change": change })), options)
    };
    let (topic, tool, arguments, options) = match what {
        TopicCommand::Create { topic, title, members_only, reason, options } => {
            let mut change = json!({ "access": if members_only { "members" } else { "token" } });
            if let Some(title) = title {
                change["title"] = json!(title);
            }
            (topic, "topic.configure", reason.add_to(json!({ "change": change, "version": 0 })), options)
        }
        TopicCommand::Show { topic, options } => (topic, "topic.get", json!({}), options),
        TopicCommand::Set { topic, change, reason, options } => configure(topic, change, reason, options),
        TopicCommand::Invite { topic, participant, role, reason, options } => {
            let mut members = json!({});
            members[participant.as_str()] = json!(role);
            configure(topic, json!({ "members": members }), reason, options)
        }
        TopicCommand::Pause(one) => about("participant.pause", one),
        TopicCommand::Remove(one) => about("participant.remove", one),
        TopicCommand::Readmit(one) => about("participant.readmit", one),
        TopicCommand::Resume { topic, participant: Some(participant), reason, options } => {
            about("participant.resume", OneParticipant { topic, participant, reason, options })
        }
        TopicCommand::Resume { topic, participant: None, reason, options } => {
            (topic, "room.resume", reason.add_to(json!({})), options)
        }
        TopicCommand::Stop(TopicAlone { topic, reason, options }) => {
            (topic, "room.stop", reason.add_to(json!({})), options)
        }
        TopicCommand::Archive(TopicAlone { topic, reason, options }) => {
            configure(topic, json!({ "archived": true }), reason, options)
        }
        TopicCommand::Unarchive(TopicAlone { topic, reason, options }) => {
            configure(topic, json!({ "archived": false }), reason, options)
        }
        TopicCommand::Delete { topic, yes, reason, options } => {
            return options.delete_topic(&topic, yes, reason).await;
        }
    };
    let json = options.json;
    let caller = HostCaller::enter(&options, topic).await?;
    let answer = caller.call(tool, arguments).await;
    caller.leave().await;
    let answer = answer?;
    if json {
        return hand_over(format_args!("{answer}"));
    }
    let settings = serde_json::to_string_pretty(&answer["settings"]).map_err(Trouble::failed)?;
    if answer["configured"] == json!(false) {
        note(format_args!("the topic has no settings: every token that names it may enter, speak and call"));
    }
    hand_over(format_args!("{settings}"))
}
