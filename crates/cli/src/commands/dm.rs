//! `salon dm`: a topic of exactly two or more participants, and nobody else.
//!
//! The tool `dm.open` does the same ([`DirectConversation`]).

use anyhow::anyhow;
use clap::Args;
use salon_client::{Client, RestError};
use salon_control::{DirectConversation, InvalidConversation, TopicSettings};
use salon_protocol::{CHAT_METHOD, ParticipantId};
use serde_json::json;

use super::outcome::{HintContext, REFUSED};
use super::seatless::{NotificationTarget, SeatlessAuthor};
use crate::access::Access;
use crate::trouble::Trouble;
use crate::{hand_over, note, safe};

#[derive(Debug, Args)]
#[command(after_help = "\
The topic is called `dm:` and the participants, in order: `dm:alice,bob`.
Tokens must name it, for instance by `dm:*`. Only members can enter it.

Examples:
  salon dm bob 'lunch?'
  salon chat \"$(salon dm bob)\"
  salon dm bob --with carol 'lunch, all of us?'")]
pub(crate) struct DmArgs {
    /// Participant to talk to
    participant: ParticipantId,
    /// Text; without it the command makes the topic and prints its name
    text: Vec<String>,
    /// Another participant; may be repeated
    #[arg(long, value_name = "ID")]
    with: Vec<ParticipantId>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: DmArgs) -> Result<(), Trouble> {
    super::run(dm(args))
}

async fn dm(DmArgs { participant, text, with, access }: DmArgs) -> Result<(), Trouble> {
    // A token that is made here may make the topic.
    let author = SeatlessAuthor::reach(&access, &["operator"]).await?;
    let conversation = DirectConversation::new(&author.id, with.into_iter().chain([participant]));
    let conversation = conversation.map_err(Trouble::usage)?;
    let topic = conversation.topic();
    open(&author.client, &conversation, &author.asking(topic)).await?;
    if text.is_empty() {
        return hand_over(format_args!("{}", safe::line(topic.as_str())));
    }
    let params = json!({ "text": text.join(" "), "format": "plain" });
    author.notify(topic, NotificationTarget::default(), CHAT_METHOD, &params).await?;
    note(format_args!("said in `{}`", safe::line(topic.as_str())));
    Ok(())
}

/// Makes the topic, or makes sure that it is of exactly these members.
async fn open(client: &Client, conversation: &DirectConversation, asking: &HintContext<'_>) -> Result<(), Trouble> {
    let topic = conversation.topic();
    let refusal = match client.create_topic(topic, &conversation.settings()).await {
        Ok(()) => return Ok(()),
        Err(RestError::Refused(refusal)) if refusal.status == 409 || refusal.status == 403 => refusal,
        Err(error) => return Err(asking.trouble(&error)),
    };
    // It is there, made by one of the others; or this token may not make topics.
    let found = client.topic_settings(topic).await.ok().flatten();
    let found = found.and_then(|settings| serde_json::from_value::<TopicSettings>(settings).ok());
    let Some(settings) = found else { return Err(asking.trouble(&RestError::Refused(refusal))) };
    let refused = |why: InvalidConversation| {
        Trouble::Coded(REFUSED, anyhow!("{}: nothing was said there", safe::line(&why.to_string())))
    };
    conversation.check(&settings).map_err(refused)
}
