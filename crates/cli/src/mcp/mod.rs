//! `salon mcp`: a room as an MCP server on standard input and output, for any client that starts a command.
//!
//! Lines on one side, a WebSocket to the gateway's MCP door on the other. Standard output carries messages and nothing else. Deliberately
//! absent: any knowledge of MCP beyond what it takes to come back after a lost connection (`bridge`).

mod bridge;
mod config;
mod head;
mod lines;
mod pump;

use std::io::IsTerminal;

use anyhow::anyhow;
use clap::Args;
use salon_client::Backoff;
use salon_protocol::{ParticipantId, TopicName, percent_encoded};

use self::config::{McpClient, PrintedConfig};
use self::pump::{BridgeDoor, Pump, PumpEnds};
use crate::access::{Access, Reach, TokenSource};
use crate::commands::outcome::HintContext;
use crate::guests::import::USUAL_TOPIC;
use crate::signals::Stop;
use crate::trouble::Trouble;
use crate::{hand_over, note, safe};

/// The WebSocket subprotocol of the gateway's MCP door.
const SUBPROTOCOL: &str = "mcp";

#[derive(Debug, Args)]
#[command(after_help = "\
Configuration of a client that starts servers by a command:
  salon mcp room:alpha --as claude

What to paste into a client:
  salon mcp --print-config claude-code room:alpha
  salon mcp --print-config cursor room:alpha --http")]
#[command(mut_arg("identity", |id| id.help("Id of the client in the room; must be the participant of the token")))]
pub(crate) struct McpArgs {
    /// Room to join
    #[arg(required_unless_present = "print_config")]
    topic: Option<TopicName>,
    /// Show this participant alone, under the names it gives its tools
    #[arg(long, value_name = "PARTICIPANT")]
    only: Option<ParticipantId>,
    /// Print the configuration for this client, and exit
    #[arg(long, value_name = "CLIENT")]
    print_config: Option<McpClient>,
    /// With `--print-config`: have the client connect to the gateway itself, by URL and token
    #[arg(long, requires = "print_config")]
    http: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: McpArgs) -> Result<(), Trouble> {
    match (args.print_config, args.topic.clone()) {
        (Some(client), topic) => {
            let is_named = topic.is_some();
            let topic = topic.unwrap_or_else(|| TopicName::new(USUAL_TOPIC).expect("the usual topic is one"));
            let printed = config::print(client, args.http, topic, args.only.as_ref(), &args.access);
            let PrintedConfig { text, notes } = printed.map_err(Trouble::usage)?;
            hand_over(format_args!("{text}"))?;
            if !is_named {
                note(format_args!(
                    "no room was named, so this is for {USUAL_TOPIC}; a room may follow the client's name"
                ));
            }
            notes.iter().for_each(|line| note(format_args!("{line}")));
            Ok(())
        }
        (None, Some(topic)) => crate::commands::run(serve(args, topic)),
        (None, None) => Err(Trouble::usage(anyhow!("which room?\n\nhint: `salon topics` shows which there are"))),
    }
}

async fn serve(args: McpArgs, topic: TopicName) -> Result<(), Trouble> {
    // A token that was given for the client says who it is. One that `salon login` keeps, or this machine would make, is a person's.
    if args.access.identity.is_none() && args.access.given().map_err(Trouble::usage)?.is_none() {
        return Err(Trouble::usage(anyhow!("who is the client to be?\n\nhint: name it with `--as ID`")));
    }
    let stop = Stop::on_signals(|| note(format_args!("stopped at once, as asked twice")))?;
    let Reach { gateway, client, choice } = args.access.reach().map_err(Trouble::usage)?;
    let claims = args.access.identity(&client).await.map_err(Trouble::usage)?;
    let (id, topic) = (&claims.participant, &topic);
    // Clients keep what is written here in their logs, and show nothing of variables that their user has forgotten. That this machine's key
    // overrides a token has been said.
    if !choice.unused.is_empty() && !matches!(choice.source, TokenSource::LocalKey(_)) {
        let unused: Vec<_> = choice.unused.iter().map(ToString::to_string).collect();
        note(format_args!(
            "`{id}` in {topic} by the token from {}; not used: the token from {}",
            choice.source,
            unused.join(", ")
        ));
    }
    if !claims.opens(topic) {
        return Err(Trouble::usage(anyhow!(
            "topic `{topic}` is not open to this token\n\nhint: run `salon token {} --as {}`",
            safe::shell(topic.as_str()),
            safe::shell(id.as_str())
        )));
    }
    let asking = HintContext { gateway: &gateway, topic: Some(topic) };
    let path = match &args.only {
        Some(only) => format!("/mcp/{}/{}", percent_encoded(topic.as_str()), percent_encoded(only.as_str())),
        None => format!("/mcp/{}", percent_encoded(topic.as_str())),
    };
    let door = BridgeDoor { client, path: path.into(), backoff: Backoff::default() };
    let socket = door.open().await.map_err(|error| asking.trouble(&error))?;
    if std::io::stdin().is_terminal() {
        note(format_args!(
            "`{id}` is connected to {topic}; this speaks MCP, one message a line, and is meant to be started by a client"
        ));
    }
    let (output, written) = lines::output().map_err(Trouble::failed)?;
    let ends = PumpEnds { input: lines::input().map_err(Trouble::failed)?, output, written };
    Pump::new(door, socket).run(ends, stop).await.map_err(|error| asking.trouble(&error))
}
