//! `salon chat`: a room as a full screen.
//!
//! The model ([`model::Model`]) takes what happens and says what is to be done; it knows neither terminal nor network, and time is an
//! argument. The view draws it. [`run`] brings terminal, room and model together. Deliberately absent: confirmation of calls (a person who
//! typed one meant it), and any state on disk.

mod approvals;
mod blocks;
mod commands;
mod completion;
mod composer;
mod event;
mod fold;
mod item;
mod keys;
mod layout;
mod markdown;
mod model;
mod person;
mod run;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod theme;
mod transcript;
mod view;
mod wishes;

use std::io::{IsTerminal, stdin, stdout};

use anyhow::anyhow;
use clap::Args;
use salon_protocol::TopicName;

pub(crate) use self::commands::words;
use crate::access::Access;
use crate::trouble::Trouble;

/// The tool that puts a question to the person.
const ASK_HUMAN: &str = "ask_human";

#[derive(Debug, Args)]
#[command(after_help = "\
Talk to everybody, call somebody's tool, see who is here:
  salon chat room:alpha
  › good morning
  › /call rover move x=1 y=2
  › /who

`/help` lists what else there is. Others can ask you something with your tool `ask_human`.")]
pub(crate) struct ChatArgs {
    /// Room to enter
    topic: TopicName,
    /// Name shown to people, unless the token fixes one
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: ChatArgs) -> Result<(), Trouble> {
    if !stdin().is_terminal() || !stdout().is_terminal() {
        let message = "`salon chat` needs a terminal\n\nhint: `salon tail` and `salon say` do without one";
        return Err(Trouble::usage(anyhow!(message)));
    }
    crate::commands::run(run::chat(args))
}
