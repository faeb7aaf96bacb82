//! `salon edit` and `salon retract`: what the author of a chat message makes of it later, without taking a seat.

use clap::Args;
use salon_protocol::{CHAT_EDIT_METHOD, CHAT_RETRACT_METHOD, EnvelopeId, TopicName};
use serde_json::{Value, json};

use super::say;
use super::seatless::{NotificationTarget, SeatlessAuthor};
use crate::access::Access;
use crate::hand_over;
use crate::trouble::Trouble;

#[derive(Debug, Args)]
#[command(after_help = "\
Only the author of a message can edit it. The history keeps both texts.

  salon edit room:alpha \"$(salon say room:alpha --json helo | jq -r .id)\" hello")]
pub(crate) struct EditArgs {
    /// Room of the message
    topic: TopicName,
    /// The message
    id: EnvelopeId,
    /// New text; without it, or with `-`, standard input is read
    text: Vec<String>,
    /// The text is Markdown
    #[arg(long)]
    markdown: bool,
    /// Print `{"id": …}` of the edit
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Only the author of a message can retract it. The history keeps its text: to remove a text for good, a moderator redacts it.")]
pub(crate) struct RetractArgs {
    /// Room of the message
    topic: TopicName,
    /// The message
    id: EnvelopeId,
    /// Print `{"id": …}` of the retraction
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn edit(args: EditArgs) -> Result<(), Trouble> {
    let text = say::text(&args.text).map_err(Trouble::usage)?;
    let format = if args.markdown { "markdown" } else { "plain" };
    let params = json!({ "text": text, "format": format });
    super::run(revise(args.topic, args.id, (CHAT_EDIT_METHOD, params), args.json, args.access))
}

pub(crate) fn retract(args: RetractArgs) -> Result<(), Trouble> {
    super::run(revise(args.topic, args.id, (CHAT_RETRACT_METHOD, json!({})), args.json, args.access))
}

async fn revise(
    topic: TopicName,
    original: EnvelopeId,
    (method, params): (&str, Value),
    json: bool,
    access: Access,
) -> Result<(), Trouble> {
    let author = SeatlessAuthor::reach(&access, &[]).await?;
    let target = NotificationTarget { to: &[], envelope: Some(&original) };
    let id = author.notify(&topic, target, method, &params).await?;
    if json { hand_over(format_args!("{}", json!({ "id": id }))) } else { Ok(()) }
}
