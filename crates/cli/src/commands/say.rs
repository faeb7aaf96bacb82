//! `salon say`: one line of chat, without taking a seat.

use std::io::{IsTerminal, Read};

use anyhow::{Context, anyhow};
use clap::Args;
use salon_protocol::{CHAT_METHOD, EnvelopeId, ParticipantId, TopicName};
use serde_json::json;

use super::existing::CreateOption;
use super::seatless::{NotificationTarget, SeatlessAuthor};
use crate::access::Access;
use crate::trouble::Trouble;
use crate::{hand_over, note};

/// The longest text that is read; what the gateway takes is usually less.
const MAX_BYTES: u64 = 16 << 20;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  salon say room:alpha good morning
  date | salon say room:alpha
  salon say room:alpha --markdown '**done**' --to bob")]
pub(crate) struct SayArgs {
    /// Room to say it in
    topic: TopicName,
    /// Text; without it, or with `-`, standard input is read
    text: Vec<String>,
    /// The text is Markdown
    #[arg(long)]
    markdown: bool,
    /// Envelope this replies to
    #[arg(long, value_name = "ID")]
    reply_to: Option<EnvelopeId>,
    /// Participant it is addressed to, although everybody sees it; may be repeated
    #[arg(long, value_name = "ID")]
    to: Vec<ParticipantId>,
    /// Print `{"id": …}` of the message
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    create: CreateOption,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: SayArgs) -> Result<(), Trouble> {
    let text = text(&args.text).map_err(Trouble::usage)?;
    super::run(say(args, text))
}

async fn say(args: SayArgs, text: String) -> Result<(), Trouble> {
    let author = SeatlessAuthor::reach(&args.access, &[]).await?;
    let format = if args.markdown { "markdown" } else { "plain" };
    args.create.require(&author.client, &args.topic, &author.asking(&args.topic)).await?;
    let target = NotificationTarget { to: &args.to, envelope: args.reply_to.as_ref() };
    let params = json!({ "text": text, "format": format });
    let id = author.notify(&args.topic, target, CHAT_METHOD, &params).await?;
    if args.json { hand_over(format_args!("{}", json!({ "id": id }))) } else { Ok(()) }
}

pub(super) fn text(words: &[String]) -> anyhow::Result<String> {
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
