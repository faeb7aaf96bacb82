//! `salon say`: one line of chat, without taking a seat.

use std::io::{IsTerminal, Read};

use anyhow::{Context, anyhow};
use clap::Args;
use salon_protocol::{CHAT_METHOD, Compose, EnvelopeId, Kind, ParticipantId, TopicName};
use serde_json::json;

use super::outcome::HintContext;
use crate::access::{Access, Reach};
use crate::trouble::Trouble;
use crate::{clock, hand_over, note};

/// The longest text that is read; what the gateway takes is usually less.
const MAX_BYTES: u64 = 16 << 20;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  salon say room:alpha good morning
  date | salon say room:alpha
  salon say room:alpha --markdown '**done**' --to bob")]
pub(crate) struct SayArgs {
    /// Where to say it
    topic: TopicName,
    /// What to say; without it, or with `-`, standard input is read
    text: Vec<String>,
    /// The text is Markdown
    #[arg(long)]
    markdown: bool,
    /// Envelope this replies to
    #[arg(long, value_name = "ID")]
    reply_to: Option<EnvelopeId>,
    /// Whom it is for, though everybody sees it; may be repeated
    #[arg(long, value_name = "ID")]
    to: Vec<ParticipantId>,
    /// Print `{"id": …}` of what was said
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: SayArgs) -> Result<(), Trouble> {
    let text = text(&args.text).map_err(Trouble::usage)?;
    super::run(say(args, text))
}

async fn say(args: SayArgs, text: String) -> Result<(), Trouble> {
    let Reach { place, client } = args.access.reach().map_err(Trouble::usage)?;
    let from = args.access.identity(&client).await.map_err(Trouble::usage)?.participant;
    let format = if args.markdown { "markdown" } else { "plain" };
    let id = uuid::Uuid::now_v7().to_string();
    let envelope = Compose {
        id: &id,
        ts: clock::now(),
        from: &from,
        to: &args.to,
        kind: Kind::Mcp,
        correlation_id: args.reply_to.as_ref().map(EnvelopeId::as_str),
        payload: json!({ "jsonrpc": "2.0", "method": CHAT_METHOD, "params": { "text": text, "format": format } }),
    };
    let asking = HintContext { place: &place, topic: Some(&args.topic) };
    client.publish(&args.topic, envelope.text()).await.map_err(|error| asking.trouble(&error))?;
    if args.json { hand_over(format_args!("{}", json!({ "id": id }))) } else { Ok(()) }
}

fn text(words: &[String]) -> anyhow::Result<String> {
    let text = match words {
        [] => read_text()?,
        [dash] if dash == "-" => read_text()?,
        words => words.join(" "),
    };
    if text.trim().is_empty() {
        return Err(anyhow!("there is nothing to say\n\nhint: give the text after the topic, or on standard input"));
    }
    Ok(text)
}

fn read_text() -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        note(format_args!("what you type is said when you end it with Ctrl-D"));
    }
    let mut text = String::new();
    let read = stdin.lock().take(MAX_BYTES + 1).read_to_string(&mut text).context("standard input cannot be read")?;
    if read as u64 > MAX_BYTES {
        return Err(anyhow!("the text has more than {} MiB", MAX_BYTES >> 20));
    }
    let end = text.trim_end_matches(['\n', '\r']).len();
    text.truncate(end);
    Ok(text)
}
