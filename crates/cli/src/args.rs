//! The command line: which commands there are, and what each says of itself.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Once;

use anyhow::{Context, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use salon_gateway::auth::Confirmation;
use salon_gateway::config::Deadline;
use salon_protocol::{ParticipantId, ParticipantKind, TopicPattern};

use crate::audit;
use crate::backup;
use crate::chat;
use crate::commands;
use crate::guests;
use crate::key;
use crate::mcp;
use crate::note;
use crate::serve::{ServeArgs, flags};

/// Rooms in which AI agents, people and robots are MCP servers to one another
#[derive(Debug, Parser)]
#[command(
    name = "salon",
    version,
    disable_help_subcommand = true,
    after_help = "Try it, nothing needed:\n  salon demo\n\n\
                  A room of your own, in two terminals:\n  salon serve\n  salon chat room:alpha\n\n\
                  A token for somebody else:\n  salon token --topic room:alpha --id alice"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run the gateway
    Serve(Box<ServeArgs>),
    /// Make a token with which somebody can enter topics
    Token(TokenArgs),
    /// Watch a room live: a gateway, a robot and two agents, and you if you like
    Demo(DemoArgs),
    /// Bring an MCP server into a room: a command, or a URL
    Join(Box<guests::join::JoinArgs>),
    /// Take over the MCP servers that other programs know of, as guests of a room
    Import(guests::import::ImportArgs),
    /// Show a room to an MCP client as one server, on standard input and output
    Mcp(Box<mcp::McpArgs>),
    /// Be in a room: talk, watch, call tools, answer questions
    Chat(Box<chat::ChatArgs>),
    /// Say something in a room
    Say(commands::say::SayArgs),
    /// Call a participant's tool
    Call(Box<commands::call::CallArgs>),
    /// Show what the participants of a room can do
    Tools(commands::tools::ToolsArgs),
    /// Show who is in a room
    Who(commands::who::WhoArgs),
    /// Show which rooms there are
    Topics(commands::topics::TopicsArgs),
    /// Show and change a topic's settings; pause, remove and stop participants
    Topic(Box<commands::topic::TopicArgs>),
    /// Show the calls that wait for approval
    Approvals(commands::control::ApprovalsArgs),
    /// Approve a call that waits for it
    Approve(commands::control::DecideArgs),
    /// Deny a call that waits for approval
    Deny(commands::control::DecideArgs),
    /// Show what was said in a room
    History(commands::history::HistoryArgs),
    /// Follow a room as it happens, without being in it
    Tail(commands::tail::TailArgs),
    /// Speak the Multi-Component Protocol: connect, send, receive, disconnect
    Framed(Box<commands::framed::FramedArgs>),
    /// Keep a token for a gateway, so that other commands need not be told, or sign in to the server of a guest
    Login(commands::login::LoginArgs),
    /// Forget the token for a gateway, or for the server of a guest
    Logout(commands::login::LogoutArgs),
    /// List, rotate and remove the keys that tokens are signed with
    Key(key::KeyArgs),
    /// Revoke tokens, so that the gateway refuses them from now on
    Revoke(commands::revoke::RevokeArgs),
    /// Write the data of a gateway to one file, while it runs
    Backup(backup::BackupArgs),
    /// Put a backup into a data directory
    Restore(backup::RestoreArgs),
    /// Check the audit trail of a gateway
    Audit(audit::AuditArgs),
    /// Look at what stands between you and a room, and say what to do
    Doctor(commands::doctor::DoctorArgs),
    /// Print the completions for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Write the manual pages (man 1) of all commands into a folder
    #[command(hide = true)]
    Man {
        /// Folder, which must be there
        folder: PathBuf,
    },
    /// Print the description of the REST endpoints (OpenAPI, JSON)
    #[command(hide = true)]
    Openapi,
}

/// Where the configuration and the data are: the same for every command that needs them.
#[derive(Debug, Args)]
pub(crate) struct Locations {
    /// Configuration file [default: salon.toml, if there is one]
    #[arg(long, value_name = "FILE", env = "SALON_CONFIG", hide_env = true)]
    pub(crate) config: Option<PathBuf>,
    #[arg(long, value_name = "DIR", env = "SALON_DATA", hide_env = true, help = flags::help("data"))]
    pub(crate) data: Option<PathBuf>,
}

impl Locations {
    /// The configuration file there is.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        const USUAL: &str = "salon.toml";
        self.config.clone().or_else(|| std::path::Path::new(USUAL).exists().then(|| USUAL.into()))
    }

    /// The same. One that nobody named, and that is only found in the working directory, must not be one that others can write.
    pub(crate) fn trusted_file(&self) -> anyhow::Result<Option<PathBuf>> {
        let Some(file) = self.file() else { return Ok(None) };
        if self.config.is_none() {
            let is_open = salon_gateway::others_can_write(&file);
            if is_open.with_context(|| format!("`{}` cannot be read", file.display()))? {
                bail!(
                    "others can write `{}` in this directory\n\nhint: `chmod go-w` it if it is yours, or name it with `--config`",
                    file.display()
                );
            }
            static ANNOUNCED: Once = Once::new();
            if io::stderr().is_terminal() {
                ANNOUNCED
                    .call_once(|| note(format_args!("with the settings of `{}` in this directory", file.display())));
            }
        }
        Ok(Some(file))
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
The token alone goes to stdout:
  TOKEN=$(salon token --topic room:alpha --id alice)

An agent that may enter every room for a week:
  salon token --topic 'room:*' --id helper --kind agent --ttl 7d")]
pub(crate) struct TokenArgs {
    /// Topic the token opens, or all that begin so: `room:*`; may be repeated
    #[arg(long, value_name = "TOPIC", required = true)]
    pub(crate) topic: Vec<TopicPattern>,
    /// Who the token is for
    #[arg(long, value_name = "ID", value_parser = own_id)]
    pub(crate) id: ParticipantId,
    /// Name shown to people
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// What they are
    #[arg(long, value_parser = PossibleValuesParser::new(["human", "agent", "robot"]).try_map(|kind| kind.parse::<ParticipantKind>()))]
    pub(crate) kind: Option<ParticipantKind>,
    /// How long the token is good for: 30s, 15m, 12h, 7d; at most 365d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = ttl)]
    pub(crate) ttl: Deadline,
    /// Permission the token carries; may be repeated
    #[arg(long, value_name = "PERMISSION")]
    pub(crate) permission: Vec<String>,
    /// Capability the token is limited to, such as `say` or `call:robot-*/look*`; may be repeated
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) capability: Vec<String>,
    /// Have every message signed; the token is then good for the Machine Context Protocol alone
    #[arg(long)]
    pub(crate) require_integrity: bool,
    /// Ed25519 public key of the token's participant, in base64url; its messages are verified with it
    #[arg(long, value_name = "KEY", value_parser = public_key)]
    pub(crate) integrity_key: Option<Confirmation>,
    #[command(flatten)]
    pub(crate) places: Locations,
}

pub(crate) fn own_id(text: &str) -> Result<ParticipantId, String> {
    let id = ParticipantId::new(text).map_err(|error| error.to_string())?;
    if id.is_reserved() { Err("ids that begin with `system:` are the gateway's own".into()) } else { Ok(id) }
}

fn public_key(text: &str) -> Result<Confirmation, &'static str> {
    Confirmation::new(text).ok_or("it is not 32 bytes in base64url without padding")
}

fn ttl(text: &str) -> Result<Deadline, String> {
    const LONGEST_DAYS: u64 = 365;
    let ttl: Deadline = text.parse().map_err(|error: salon_gateway::config::InvalidValue| error.to_string())?;
    if ttl.0.as_secs() > LONGEST_DAYS * 24 * 60 * 60 {
        return Err(format!("a token is good for at most {LONGEST_DAYS}d"));
    }
    Ok(ttl)
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Show one round and end, instead of going on until Ctrl-C
    #[arg(long)]
    pub(crate) once: bool,
    /// Port on 127.0.0.1 [default: a free one]
    #[arg(long, value_name = "PORT", default_value = "0", hide_default_value = true)]
    pub(crate) port: u16,
}
