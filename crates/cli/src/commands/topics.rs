//! `salon topics`: which rooms there are.

use clap::Args;
use serde_json::json;

use super::outcome::HintContext;
use crate::access::{Access, Reach};
use crate::trouble::Trouble;
use crate::{hand_over, note};

#[derive(Debug, Args)]
pub(crate) struct TopicsArgs {
    /// Print one object: `{"topics": ["…"]}`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: TopicsArgs) -> Result<(), Trouble> {
    super::run(topics(args))
}

async fn topics(TopicsArgs { json, access }: TopicsArgs) -> Result<(), Trouble> {
    let Reach { gateway, client, .. } = access.reach().map_err(Trouble::usage)?;
    let asking = HintContext { gateway: &gateway, topic: None };
    let mut topics = client.topics().await.map_err(|error| asking.trouble(&error))?;
    topics.sort();
    if json {
        return hand_over(format_args!("{}", json!({ "topics": topics })));
    }
    if topics.is_empty() {
        note(format_args!("nobody has entered a topic yet that the token opens"));
        return Ok(());
    }
    let names: Vec<_> = topics.iter().map(|topic| topic.as_str()).collect();
    hand_over(format_args!("{}", names.join("\n")))
}
