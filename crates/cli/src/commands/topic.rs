//! `salon topic`: a topic's settings, and stopping participants in it.

use clap::{Args, Subcommand};
use salon_protocol::{ParticipantId, TopicName};
use serde_json::{Value, json};

use super::control::{ControlOptions, HostCaller};
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
    /// Make the settings of a topic that has none, and own it
    Create {
        /// Which topic
        topic: TopicName,
        /// What people call it
        #[arg(long, value_name = "TEXT")]
        title: Option<String>,
        /// Let only members in
        #[arg(long)]
        members_only: bool,
        #[command(flatten)]
        options: ControlOptions,
    },
    /// Show the settings of a topic
    Show(TopicAlone),
    /// Change the settings of a topic
    Set {
        /// Which topic
        topic: TopicName,
        /// The change as a JSON merge patch: what it does not name stays, `null` removes
        #[arg(value_name = "JSON", value_parser = patch)]
        change: Value,
        #[command(flatten)]
        options: ControlOptions,
    },
    /// Make a participant a member of a topic, with a role
    Invite {
        /// Which topic
        topic: TopicName,
        /// Who
        participant: ParticipantId,
        /// Role in the topic: owner, member, observer, or one that the topic defines
        #[arg(long, value_name = "ROLE", default_value = "member")]
        role: String,
        #[command(flatten)]
        options: ControlOptions,
    },
    /// Let a participant read and nothing else, for now
    Pause(OneParticipant),
    /// End a pause; without a participant, end a stop
    Resume {
        /// Which topic
        topic: TopicName,
        /// Who [default: everyone who was stopped]
        participant: Option<ParticipantId>,
        #[command(flatten)]
        options: ControlOptions,
    },
    /// Disconnect a participant and keep it out of a topic
    Remove(OneParticipant),
    /// Let a removed participant in again
    Readmit(OneParticipant),
    /// Pause everyone in a topic who is not a person, and cancel their running calls
    Stop(TopicAlone),
    /// Let a topic be read, and store nothing new in it
    Archive(TopicAlone),
    /// Store new messages in an archived topic again
    Unarchive(TopicAlone),
    /// Delete a topic, with everything that was said there
    Delete {
        /// Which topic
        topic: TopicName,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        #[command(flatten)]
        options: ControlOptions,
    },
}

#[derive(Debug, Args)]
struct TopicAlone {
    /// Which topic
    topic: TopicName,
    #[command(flatten)]
    options: ControlOptions,
}

#[derive(Debug, Args)]
struct OneParticipant {
    /// Which topic
    topic: TopicName,
    /// Who
    participant: ParticipantId,
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
    let about = |tool, OneParticipant { topic, participant, options }| {
        (topic, tool, json!({ "participant": participant }), options)
    };
    let (topic, tool, arguments, options) = match what {
        TopicCommand::Create { topic, title, members_only, options } => {
            let mut change = json!({ "access": if members_only { "members" } else { "token" } });
            if let Some(title) = title {
                change["title"] = json!(title);
            }
            (topic, "topic.configure", json!({ "change": change, "version": 0 }), options)
        }
        TopicCommand::Show(TopicAlone { topic, options }) => (topic, "topic.get", json!({}), options),
        TopicCommand::Set { topic, change, options } => {
            (topic, "topic.configure", json!({ "change": change }), options)
        }
        TopicCommand::Invite { topic, participant, role, options } => {
            let mut members = json!({});
            members[participant.as_str()] = json!(role);
            (topic, "topic.configure", json!({ "change": { "members": members } }), options)
        }
        TopicCommand::Pause(one) => about("participant.pause", one),
        TopicCommand::Remove(one) => about("participant.remove", one),
        TopicCommand::Readmit(one) => about("participant.readmit", one),
        TopicCommand::Resume { topic, participant: Some(participant), options } => {
            about("participant.resume", OneParticipant { topic, participant, options })
        }
        TopicCommand::Resume { topic, participant: None, options } => (topic, "room.resume", json!({}), options),
        TopicCommand::Stop(TopicAlone { topic, options }) => (topic, "room.stop", json!({}), options),
        TopicCommand::Archive(TopicAlone { topic, options }) => {
            (topic, "topic.configure", json!({ "change": { "archived": true } }), options)
        }
        TopicCommand::Delete { topic, yes, options } => return options.delete_topic(&topic, yes).await,
        TopicCommand::Unarchive(TopicAlone { topic, options }) => {
            (topic, "topic.configure", json!({ "change": { "archived": false } }), options)
        }
    };
    let json = options.json;
    let caller = HostCaller::enter(&options, topic).await?;
    let answer = caller.call(tool, options.with_reason(arguments, tool != "topic.get")).await;
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
