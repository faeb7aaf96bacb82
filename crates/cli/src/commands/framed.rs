//! `salon framed`: the Multi-Component Protocol from a shell.
//!
//! Each command is a connection of its own to a session that lasts between them, for a minute: `connect` prints the session's id, and the
//! others take it. Deliberately absent: staying connected. [`salon_client::FramedSession`] does that.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use salon_client::{FramedAddress, FramedEntry, FramedError, FramedMessage, FramedSession};
use salon_gateway::config::Span;
use salon_protocol::{EnvelopeId, ParticipantId, TopicName};
use serde::Serialize;
use serde_json::value::RawValue;

use super::outcome::{REFUSED, UNREACHABLE};
use crate::access::{Access, Secret};
use crate::trouble::Trouble;
use crate::{hand_over, json, out, safe};

/// Where a framed door is usually opened.
const USUAL_ADDRESS: &str = "tcp://127.0.0.1:8788";

/// The longest input that is read; what the gateway takes is usually less.
const MAX_BYTES: u64 = 256 << 20;

#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Begin, speak, listen and leave:
  export SALON_FRAMED_SESSION=$(salon framed connect --topic room:alpha)
  salon framed send 'good morning'
  salon framed receive --timeout 10s
  salon framed disconnect"
)]
pub(crate) struct FramedArgs {
    #[command(subcommand)]
    command: FramedCommand,
}

#[derive(Debug, Subcommand)]
enum FramedCommand {
    /// Begin a session and print its id, which is a secret
    Connect(ConnectArgs),
    /// Send something, and print the id it has in the room
    Send(SendArgs),
    /// Print new messages, one JSON object a line
    Receive(ReceiveArgs),
    /// End a session and leave the room
    Disconnect(DisconnectArgs),
}

/// Where the door is.
#[derive(Debug, Args)]
struct At {
    /// Framed door of the gateway: tcp://HOST:PORT or tls://HOST:PORT
    #[arg(long, value_name = "ADDRESS", default_value = USUAL_ADDRESS, env = "SALON_FRAMED", hide_env_values = true)]
    at: String,
}

impl At {
    fn address(&self, ca: Option<&Path>) -> anyhow::Result<FramedAddress> {
        let address = FramedAddress::new(&self.at)?;
        let Some(path) = ca else { return Ok(address) };
        let pem = std::fs::read(path).with_context(|| format!("`{}` cannot be read", path.display()))?;
        address.trust_pem(&pem).context("the file of `--ca` is not usable")
    }
}

/// Which session.
#[derive(Debug, Args)]
struct Of {
    /// The session, as `connect` printed it; SALON_FRAMED_SESSION keeps it out of the list of processes [env: SALON_FRAMED_SESSION]
    #[arg(long, value_name = "ID")]
    session: Option<Secret>,
    /// Certificate to trust beside those of the system, PEM
    #[arg(long, value_name = "FILE", env = "SALON_CA", hide_env_values = true)]
    ca: Option<PathBuf>,
    #[command(flatten)]
    at: At,
}

impl Of {
    fn resume(&self) -> Result<FramedSession, Trouble> {
        let variable = || std::env::var("SALON_FRAMED_SESSION").ok().filter(|id| !id.is_empty()).map(Secret);
        let session = self.session.clone().or_else(variable).ok_or_else(|| {
            Trouble::usage(anyhow!(
                "there is no session\n\nhint: `export SALON_FRAMED_SESSION=$(salon framed connect --topic TOPIC)` begins one"
            ))
        })?;
        Ok(FramedSession::resume(self.at.address(self.ca.as_deref()).map_err(Trouble::usage)?, session.0))
    }
}

#[derive(Debug, Args)]
struct ConnectArgs {
    /// Room to enter; optional if the token opens exactly one
    #[arg(long, value_name = "TOPIC")]
    topic: Option<TopicName>,
    /// Capability to show in presence; may be repeated
    #[arg(long, value_name = "WORD")]
    capability: Vec<String>,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A text is chat; JSON is sent as it is, and is a message of MCP where it has `jsonrpc`:
  salon framed send 'good morning'
  salon framed send '{\"temperature\": 21.5}'
  salon framed send --to robot '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}'
  salon framed send --content-type image/png < photo.png")]
struct SendArgs {
    /// What to send; without it, or with `-`, standard input is read
    payload: Vec<String>,
    /// Participant it is addressed to [default: everybody]
    #[arg(long, value_name = "ID")]
    to: Option<ParticipantId>,
    /// Send the payload as text even if it is JSON
    #[arg(long, conflicts_with = "content_type")]
    text: bool,
    /// Send bytes of this type
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    #[command(flatten)]
    of: Of,
}

#[derive(Debug, Args)]
struct ReceiveArgs {
    /// How long to wait for messages, at most 30s
    #[arg(long, value_name = "TIME", default_value = "30s")]
    timeout: Span,
    #[command(flatten)]
    of: Of,
}

#[derive(Debug, Args)]
struct DisconnectArgs {
    /// Why, for the others to see
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    of: Of,
}

pub(crate) fn run(args: FramedArgs) -> Result<(), Trouble> {
    super::run(async {
        match args.command {
            FramedCommand::Connect(args) => connect(args).await,
            FramedCommand::Send(args) => send(args).await,
            FramedCommand::Receive(args) => receive(args).await,
            FramedCommand::Disconnect(args) => {
                args.of.resume()?.disconnect(args.reason.as_deref()).await.map_err(|error| trouble(&error))
            }
        }
    })
}

async fn connect(args: ConnectArgs) -> Result<(), Trouble> {
    let address = args.at.address(args.access.ca.as_deref()).map_err(Trouble::usage)?;
    let client = args.access.reach().map_err(Trouble::usage)?.client;
    let who = args.access.identity(&client).await.map_err(Trouble::usage)?.participant;
    let token = client.token().await.map_err(Trouble::usage)?;
    let mut entry = FramedEntry::new().capabilities(args.capability);
    entry.topic = args.topic;
    let session = FramedSession::connect(address, &who, token.expose(), &entry).await;
    hand_over(format_args!("{}", session.map_err(|error| trouble(&error))?.id()))
}

async fn send(args: SendArgs) -> Result<(), Trouble> {
    let bytes = input(&args.payload).map_err(Trouble::usage)?;
    let mut session = args.of.resume()?;
    let to = args.to.as_ref();
    let sent = match &args.content_type {
        Some(content_type) => session.send_bytes(content_type, &bytes, to).await,
        None => {
            let text = String::from_utf8(bytes);
            let text = text.map_err(|_| Trouble::usage(anyhow!("a body that is not text needs `--content-type`")))?;
            let text = text.trim_end_matches(['\n', '\r']);
            let json = Some(text).filter(|_| !args.text).and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
            match json {
                Some(json) => session.send(json, to).await,
                None => session.send(text, to).await,
            }
        }
    };
    hand_over(format_args!("{}", sent.map_err(|error| trouble(&error))?))
}

/// What is to be sent.
fn input(words: &[String]) -> anyhow::Result<Vec<u8>> {
    if !words.is_empty() && words != ["-"] {
        return Ok(words.join(" ").into_bytes());
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes);
    if read.context("standard input cannot be read")? as u64 > MAX_BYTES {
        return Err(anyhow!("the input has more than {} MiB", MAX_BYTES >> 20));
    }
    Ok(bytes)
}

/// Prints what there is, until nothing is left: the request that finds nothing acknowledges what came before it.
async fn receive(args: ReceiveArgs) -> Result<(), Trouble> {
    let mut session = args.of.resume()?;
    let mut wait = args.timeout.0;
    loop {
        let messages = session.receive(wait).await.map_err(|error| trouble(&error))?;
        if messages.is_empty() {
            return Ok(());
        }
        for message in &messages {
            // A closed stdout has not shown it, so it must be delivered again.
            out(format_args!("{}", shown(message))).map_err(|_| Trouble::Reported(1))?;
        }
        wait = Duration::ZERO;
    }
}

/// A message on one line, its payload as it was written.
fn shown(message: &FramedMessage) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct PrintedMessage<'a> {
        id: &'a EnvelopeId,
        sender: &'a ParticipantId,
        payload: &'a RawValue,
        timestamp: u64,
        destination: &'a [ParticipantId],
        kind: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        correlation_id: Option<&'a EnvelopeId>,
    }
    let FramedMessage { id, sender, payload, timestamp, destination, kind, correlation_id, .. } = message;
    let correlation_id = correlation_id.as_ref();
    let shown = PrintedMessage { id, sender, payload, timestamp: *timestamp, destination, kind, correlation_id };
    json::compact(&serde_json::to_string(&shown).expect("a message has only string keys"))
}

fn trouble(error: &FramedError) -> Trouble {
    let told = safe::line(&error.to_string());
    match error {
        FramedError::Unreachable { .. } => {
            let hint = "`salon serve --framed-listen 127.0.0.1:8788` opens a framed door; `--at` or `SALON_FRAMED` names another";
            Trouble::coded(UNREACHABLE, told, hint)
        }
        FramedError::Unreadable(_) => {
            Trouble::coded(UNREACHABLE, told, "is that the framed door of a gateway, and does it have TLS (`tls://`)?")
        }
        FramedError::Refused { code: 401, .. } => Trouble::coded(
            REFUSED,
            told,
            "a session lasts for a minute after its last command, and as long as its token; `salon framed connect` begins another",
        ),
        _ => Trouble::Coded(REFUSED, anyhow!("{told}")),
    }
}
