//! `salon read` and `salon prompt`: the resources and the prompts of participants.

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use salon_client::mcp::{Content, PromptMessage, Role};
use salon_client::{CallError, Client, Room};
use salon_gateway::config::Deadline;
use salon_protocol::{ParticipantId, ParticipantKind, TopicName};
use serde_json::Value;

use super::call::failed;
use super::outcome::HintContext;
use super::output::WrittenFiles;
use super::{offers, table};
use crate::access::{Access, Reach};
use crate::trouble::Trouble;
use crate::{hand_over, json, note, safe};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  salon read room:alpha files
  salon read room:alpha files file:///srv/notes.txt
  salon read room:alpha camera photo://latest --output photo.jpg")]
pub(crate) struct ReadArgs {
    /// Which room
    topic: TopicName,
    /// Participant that has the resource
    participant: ParticipantId,
    /// URI of the resource [default: list all resources]
    uri: Option<String>,
    /// Write the content into this file; several into `FILE`, `FILE.2`, …
    #[arg(long, short, value_name = "FILE", requires = "uri")]
    output: Option<PathBuf>,
    /// Print the texts as they are, control characters included
    #[arg(long)]
    raw: bool,
    /// How long to wait for an answer
    #[arg(long, value_name = "TIME", default_value = "60s")]
    timeout: Deadline,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  salon prompt room:alpha reviewer
  salon prompt room:alpha reviewer review file=main.rs style=short")]
pub(crate) struct PromptArgs {
    /// Which room
    topic: TopicName,
    /// Participant that has the prompt
    participant: ParticipantId,
    /// Name of the prompt [default: list all prompts]
    prompt: Option<String>,
    /// Its arguments
    #[arg(value_name = "KEY=VALUE", requires = "prompt")]
    pairs: Vec<String>,
    /// How long to wait for an answer
    #[arg(long, value_name = "TIME", default_value = "60s")]
    timeout: Deadline,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: ReadArgs) -> Result<(), Trouble> {
    super::run(read(args))
}

pub(crate) fn run_prompt(args: PromptArgs) -> Result<(), Trouble> {
    super::run(prompt(args))
}

async fn read(args: ReadArgs) -> Result<(), Trouble> {
    let Reach { gateway, client, .. } = args.access.reach().map_err(Trouble::usage)?;
    let asking = HintContext { gateway: &gateway, topic: Some(&args.topic) };
    let (topic, participant) = (&args.topic, &args.participant);
    let Some(uri) = &args.uri else { return list_resources(&client, topic, participant, &asking).await };
    let room = enter(&client, topic, participant, &asking).await?;
    let peer = room.peer(participant);
    let contents = tokio::time::timeout(args.timeout.0, peer.read_resource(uri)).await;
    room.leave().await;
    let contents =
        contents.unwrap_or(Err(CallError::TimedOut)).map_err(|error| failed(&error, participant, &asking))?;
    let mut files = args.output.as_deref().map(WrittenFiles::new);
    let mut texts = Vec::new();
    for content in contents {
        let kind = content.mime_type.as_deref().unwrap_or("unknown type");
        match (&content.text, &content.blob, &mut files) {
            (Some(text), _, Some(files)) => files.write(&data_encoding::BASE64.encode(text.as_bytes()), kind)?,
            (None, Some(blob), Some(files)) => files.write(blob, kind)?,
            (Some(text), _, None) => texts.push(text.clone()),
            (None, Some(blob), None) => {
                texts.push(format!(
                    "[{kind}, {} bytes; `--output FILE` writes them]",
                    blob.trim_end_matches('=').len() * 3 / 4
                ));
            }
            (None, None, _) => {}
        }
    }
    let text = texts.join("\n");
    match (files, args.raw) {
        (Some(_), _) => Ok(()),
        (None, true) => hand_over(format_args!("{text}")),
        (None, false) => hand_over(format_args!("{}", safe::block(&text))),
    }
}

async fn list_resources(
    client: &Client,
    topic: &TopicName,
    participant: &ParticipantId,
    asking: &HintContext<'_>,
) -> Result<(), Trouble> {
    let resources = client.resources(topic, Some(participant)).await;
    let resources = offers::of_one(resources, client, topic, participant, asking).await?;
    let templates = client.resource_templates(topic, Some(participant)).await;
    let templates = offers::of_one(templates, client, topic, participant, asking).await?;
    let resources = resources.unwrap_or_default().into_iter();
    let rows = resources.map(|one| vec![safe::line(&one.uri), safe::line(one.title.as_deref().unwrap_or(&one.name))]);
    let templates = templates.unwrap_or_default().into_iter();
    let templates =
        templates.map(|one| vec![safe::line(&one.uri_template), safe::line(one.title.as_deref().unwrap_or(&one.name))]);
    let rows: Vec<_> = rows.chain(templates).collect();
    if rows.is_empty() {
        note(format_args!("`{participant}` lists no resources"));
        return Ok(());
    }
    hand_over(format_args!("{}", table::lay_out(&rows)))
}

async fn prompt(args: PromptArgs) -> Result<(), Trouble> {
    let Reach { gateway, client, .. } = args.access.reach().map_err(Trouble::usage)?;
    let asking = HintContext { gateway: &gateway, topic: Some(&args.topic) };
    let (topic, participant) = (&args.topic, &args.participant);
    let Some(name) = &args.prompt else { return list_prompts(&client, topic, participant, &asking).await };
    let mut arguments = serde_json::Map::new();
    for pair in &args.pairs {
        // MCP 2025-11-25, Prompts: the arguments of a prompt are texts.
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| Trouble::usage(anyhow!("an argument is `name=value`, and `{}` is not", safe::line(pair))))?;
        arguments.insert(key.to_owned(), Value::from(value));
    }
    let room = enter(&client, topic, participant, &asking).await?;
    let filled = tokio::time::timeout(args.timeout.0, room.peer(participant).get_prompt(name, &arguments)).await;
    room.leave().await;
    let filled = filled.unwrap_or(Err(CallError::TimedOut)).map_err(|error| failed(&error, participant, &asking))?;
    let texts: Vec<_> = filled.messages.iter().map(message).collect();
    hand_over(format_args!("{}", safe::block(&texts.join("\n"))))
}

fn message(message: &PromptMessage) -> String {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        _ => "other",
    };
    let text = match &message.content {
        Content::Text(text) => text.text.clone(),
        other => json::compact(&serde_json::to_string(other).unwrap_or_default()),
    };
    format!("{role}: {text}")
}

async fn list_prompts(
    client: &Client,
    topic: &TopicName,
    participant: &ParticipantId,
    asking: &HintContext<'_>,
) -> Result<(), Trouble> {
    let prompts = client.prompts(topic, Some(participant)).await;
    let prompts = offers::of_one(prompts, client, topic, participant, asking).await?.unwrap_or_default();
    if prompts.is_empty() {
        note(format_args!("`{participant}` lists no prompts"));
        return Ok(());
    }
    let rows: Vec<_> = prompts
        .iter()
        .map(|prompt| {
            let arguments = prompt.arguments.iter().map(|one| match one.required {
                true => format!("{}=…", one.name),
                false => format!("[{}=…]", one.name),
            });
            let arguments: Vec<_> = arguments.collect();
            let about = prompt.description.as_deref().or(prompt.title.as_deref()).unwrap_or_default();
            vec![safe::line(&prompt.name), safe::line(&arguments.join(" ")), safe::line(about)]
        })
        .collect();
    hand_over(format_args!("{}", table::lay_out(&rows)))
}

/// Enters for one question, unless the participant is not there.
async fn enter(
    client: &Client,
    topic: &TopicName,
    participant: &ParticipantId,
    asking: &HintContext<'_>,
) -> Result<Room, Trouble> {
    let nothing_known: Result<Vec<salon_client::ParticipantOffer<()>>, _> = Ok(Vec::new());
    offers::of_one(nothing_known, client, topic, participant, asking).await?;
    let kind = if std::io::stderr().is_terminal() { ParticipantKind::Human } else { ParticipantKind::Agent };
    let entering = client.room(topic.clone()).kind(kind).share().directed().single_calls();
    entering.join().await.map_err(|error| asking.trouble(&error))
}
