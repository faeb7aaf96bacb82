//! `salon tools`: what the participants of a room can do.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::future::join_all;
use salon_client::mcp::Tool;
use salon_client::{CallError, Client, JoinError, Room};
use salon_gateway::config::Deadline;
use salon_protocol::{ParticipantId, TopicName};
use serde::Serialize;

use super::call::failed;
use super::existing::CreateOption;
use super::offers;
use super::outcome::HintContext;
use crate::access::{Access, Reach};
use crate::arguments::ArgumentSchema;
use crate::trouble::Trouble;
use crate::{hand_over, safe};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  salon tools room:alpha
  salon tools room:alpha robot --long
  salon tools room:alpha --json | jq '.participants[].tools[]?.name'")]
pub(crate) struct ToolsArgs {
    /// Which room
    topic: TopicName,
    /// Whose tools [default: those of everybody there, the gateway included]
    participant: Option<ParticipantId>,
    /// Show the whole descriptions, and the arguments
    #[arg(long, short)]
    long: bool,
    /// Print one object: `{"topic", "participants": [{"id", "tools": […]}]}`, with `error` in place of `tools` for
    /// participants that did not answer
    #[arg(long, conflicts_with = "long")]
    json: bool,
    /// How long to wait for an answer
    #[arg(long, value_name = "TIME", default_value = "5s")]
    timeout: Deadline,
    #[command(flatten)]
    create: CreateOption,
    #[command(flatten)]
    access: Access,
}

#[derive(Serialize)]
struct ToolsReport<'a> {
    topic: &'a TopicName,
    participants: Vec<ParticipantTools<'a>>,
}

#[derive(Serialize)]
struct ParticipantTools<'a> {
    id: &'a ParticipantId,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a Arc<[Tool]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

type ToolsAnswer = Result<Arc<[Tool]>, CallError>;

pub(crate) fn run(args: ToolsArgs) -> Result<(), Trouble> {
    super::run(tools(args))
}

async fn tools(args: ToolsArgs) -> Result<(), Trouble> {
    let ToolsArgs { topic, participant, long, json, timeout, create, access } = args;
    let Reach { gateway, client, .. } = access.reach().map_err(Trouble::usage)?;
    let asking = HintContext { gateway: &gateway, topic: Some(&topic) };
    create.require(&client, &topic, &asking).await?;
    let answers = match known(&client, &topic, participant.as_ref(), &asking).await? {
        Some(known) => known,
        None => {
            let answers = asked(&client, &topic, participant.as_ref(), timeout.0).await;
            answers.map_err(|error| asking.trouble(&error))?
        }
    };
    if let (Some(one), [(_, Err(error))]) = (&participant, &answers[..]) {
        return Err(failed(error, one, &asking));
    }
    if json {
        let participants = answers.iter().map(|(id, answer)| match answer {
            Ok(tools) => ParticipantTools { id, tools: Some(tools), error: None },
            Err(error) => ParticipantTools { id, tools: None, error: Some(error.to_string()) },
        });
        let offers = ToolsReport { topic: &topic, participants: participants.collect() };
        let whole = serde_json::to_string(&offers).map_err(Trouble::failed)?;
        return hand_over(format_args!("{whole}"));
    }
    let told: Vec<_> = answers.iter().map(|(id, answer)| as_text(id, answer, long)).collect();
    hand_over(format_args!("{}", told.join("\n\n")))
}

/// What the gateway knows; `None` where the participants have to be asked.
async fn known(
    client: &Client,
    topic: &TopicName,
    participant: Option<&ParticipantId>,
    asking: &HintContext<'_>,
) -> Result<Option<Vec<(ParticipantId, ToolsAnswer)>>, Trouble> {
    let offers = client.tools(topic, participant).await;
    if let Some(one) = participant {
        let tools = offers::of_one(offers, client, topic, one, asking).await?;
        return Ok(tools.map(|tools| vec![(one.clone(), Ok(tools.into()))]));
    }
    match offers {
        // Nobody is in the room, so that nobody could be asked: the gateway answers who enters.
        Ok(offers) if offers.is_empty() => Ok(None),
        Ok(offers) => {
            let answer = |items: Option<Vec<Tool>>| items.map(Arc::from).ok_or(CallError::TimedOut);
            Ok(Some(offers.into_iter().map(|offer| (offer.id, answer(offer.items))).collect()))
        }
        Err(error) if offers::is_unknown_there(&error) => Ok(None),
        Err(error) => Err(asking.trouble(&error)),
    }
}

/// Asks everybody, or one participant. A question is asked from a seat; shared, so that it takes nobody else's.
async fn asked(
    client: &Client,
    topic: &TopicName,
    participant: Option<&ParticipantId>,
    timeout: Duration,
) -> Result<Vec<(ParticipantId, ToolsAnswer)>, JoinError> {
    let room = client.room(topic.clone()).share().directed().join().await?;
    let asked = participant.map_or_else(|| everybody(&room), |one| vec![one.clone()]);
    let answers = join_all(asked.iter().map(|id| ask(&room, id, timeout))).await;
    room.leave().await;
    Ok(asked.into_iter().zip(answers).collect())
}

/// Everybody but oneself, the gateway last.
fn everybody(room: &Room) -> Vec<ParticipantId> {
    let mut everybody: Vec<_> = room.roster().into_iter().map(|participant| participant.id).collect();
    everybody.retain(|id| id != room.id() && !id.is_host());
    everybody.sort();
    everybody.push(ParticipantId::host());
    everybody
}

async fn ask(room: &Room, id: &ParticipantId, timeout: Duration) -> ToolsAnswer {
    tokio::time::timeout(timeout, room.peer(id).tools()).await.unwrap_or(Err(CallError::TimedOut))
}

fn as_text(id: &ParticipantId, answer: &ToolsAnswer, long: bool) -> String {
    let tools = match answer {
        Ok(tools) => tools,
        Err(CallError::TimedOut) => return format!("{id}\n  does not answer"),
        Err(error) => return format!("{id}\n  {}", safe::line(&error.to_string())),
    };
    if tools.is_empty() {
        return format!("{id}\n  has no tools");
    }
    let width = tools.iter().map(|tool| safe::line(&tool.name).chars().count()).max().unwrap_or(0).min(32);
    let mut told = id.to_string();
    for tool in tools.iter() {
        let about = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        let about = if long { safe::line(about) } else { in_brief(about) };
        let line = format!("  {:width$}  {about}", safe::line(&tool.name));
        told.push('\n');
        told.push_str(line.trim_end());
        for field in ArgumentSchema::new(Some(&tool.input_schema)).fields().iter().filter(|_| long) {
            let required = if field.required { ", required" } else { "" };
            let about = if field.description.is_empty() { String::new() } else { format!(": {}", field.description) };
            told.push_str("\n      ");
            told.push_str(&safe::line(&format!("{} ({}{required}){about}", field.name, field.kind)));
        }
    }
    told
}

/// The first sentence of a description, or as much of it as a line holds.
fn in_brief(about: &str) -> String {
    const MAX_BRIEF_WIDTH: usize = 100;
    let line = about.trim_start().lines().next().unwrap_or_default().trim_end();
    let end = line.match_indices(['.', '!', '?', '。']).map(|(at, end)| at + end.len()).find(|end| {
        // A dot within a word, as in `salon.toml`, ends nothing; nor does that of an abbreviation.
        let (before, after) = line.split_at(*end);
        let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
        after.starts_with(char::is_whitespace) && !matches!(word, "e.g." | "i.e." | "(e.g." | "(i.e.")
    });
    safe::clipped(&line[..end.unwrap_or(line.len())], MAX_BRIEF_WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_told_in_brief() {
        assert_eq!(in_brief("Goes there. Then it\u{1b} stays."), "Goes there.");
        assert_eq!(in_brief("\nReads `salon.toml`, e.g. the one here. More"), "Reads `salon.toml`, e.g. the one here.");
        assert_eq!(in_brief("Does it\nand more"), "Does it");
        assert_eq!(in_brief(&"x".repeat(101)), format!("{}…", "x".repeat(100)));
        assert_eq!(in_brief(""), "");
    }
}
