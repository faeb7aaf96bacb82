//! The command line: which commands there are, and what each says of itself.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::{Context, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use salon_control::{InvalidNamespace, Namespace};
use salon_gateway::auth::Confirmation;
use salon_gateway::config::Deadline;
use salon_protocol::{ParticipantId, ParticipantKind, TopicPattern};

use crate::audit;
use crate::backup;
use crate::chat;
use crate::commands;
use crate::guests;
use crate::key;
use crate::log_copy;
use crate::mcp;
use crate::note;
use crate::serve::{ServeArgs, flags};

/// Rooms in which AI agents, people and robots are MCP servers to one another
#[derive(Debug, Parser)]
#[command(
    name = "salon",
    version,
    help_template = "{about}\n\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}",
    before_help = grouped_commands(),
    after_help = "Try it:\n  salon demo\n\n\
                  Your own room, in two terminals:\n  salon serve\n  salon chat room:alpha\n\n\
                  A token for another person:\n  salon token room:alpha --as alice"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run the gateway
    Serve(Box<ServeArgs>),
    /// Make a token, which lets one participant enter topics
    Token(TokenArgs),
    /// Watch a room live: a gateway, a robot, two agents, and you
    Demo(DemoArgs),
    /// Bring an MCP server into a room: a command, or a URL
    Join(Box<guests::join::JoinArgs>),
    /// Import the MCP servers of other programs as guests of a room
    Import(guests::import::ImportArgs),
    /// Show rooms in channels of chat platforms
    #[cfg(feature = "bridges")]
    Bridge(Box<crate::bridges::BridgeArgs>),
    /// Show a room to an MCP client as one server, over stdio
    Mcp(Box<mcp::McpArgs>),
    /// Open a room as a full screen: talk, watch, call tools, answer questions
    Chat(Box<chat::ChatArgs>),
    /// Say something in a room
    Say(commands::say::SayArgs),
    /// Edit something you said in a room
    Edit(commands::revise::EditArgs),
    /// Retract something you said in a room
    Retract(commands::revise::RetractArgs),
    /// Send a direct message, which only its participants can read
    Dm(commands::dm::DmArgs),
    /// Call a participant's tool
    Call(Box<commands::call::CallArgs>),
    /// Read a participant's resource, or list its resources
    Read(commands::read::ReadArgs),
    /// Get a participant's prompt, or list its prompts
    Prompt(commands::read::PromptArgs),
    /// List the guests of salon.toml, and whether they are in their rooms
    Guests(commands::guests::GuestsArgs),
    /// List the tools of a room's participants
    Tools(commands::tools::ToolsArgs),
    /// List the participants of a room
    Who(commands::who::WhoArgs),
    /// List the rooms
    Topics(commands::topics::TopicsArgs),
    /// Show and change a topic's settings; pause and remove participants
    Topic(Box<commands::topic::TopicArgs>),
    /// List the calls that wait for approval
    Approvals(commands::control::ApprovalsArgs),
    /// Approve a call that waits for it
    Approve(commands::control::DecideArgs),
    /// Deny a call that waits for approval
    Deny(commands::control::DecideArgs),
    /// Remove the text of a message for good
    Redact(commands::message::RedactArgs),
    /// Show the status of a message: who got it, acknowledged it, answered it
    Status(commands::message::StatusArgs),
    /// Show the history of a room
    History(commands::history::HistoryArgs),
    /// Put a file into a room, read or remove one
    File(commands::file::FileArgs),
    /// Search messages, in all rooms or in one
    Search(commands::search::SearchArgs),
    /// Follow a room live, without entering it
    Tail(commands::tail::TailArgs),
    /// Speak the Multi-Component Protocol
    Framed(Box<commands::framed::FramedArgs>),
    /// Store a token for a gateway, or sign in to the server of a guest
    Login(commands::login::LoginArgs),
    /// Delete the stored token for a gateway, or for the server of a guest
    Logout(commands::login::LogoutArgs),
    /// List, rotate and remove the keys that tokens are signed with
    Key(key::KeyArgs),
    /// Revoke tokens, so that the gateway refuses them from now on
    Revoke(commands::revoke::RevokeArgs),
    /// Write the data of a gateway to one file, while it runs
    Backup(backup::BackupArgs),
    /// Put a backup into a data directory
    Restore(backup::RestoreArgs),
    /// Copy a store to another one, or migrate it
    Log(Box<log_copy::LogArgs>),
    /// Check the audit trail of a gateway
    Audit(audit::AuditArgs),
    /// Check the connection to a room step by step, and say what to fix
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

/// The commands by what they are for. One that stands nowhere comes last.
const GROUPS: &[(&str, &[&str])] = &[
    ("Take part in a room", &["chat", "say", "dm", "edit", "retract", "call", "read", "prompt", "file"]),
    ("Look at rooms", &["topics", "who", "tools", "history", "tail", "search", "status"]),
    ("Bring programs in", &["join", "import", "guests", "mcp", "framed", "bridge"]),
    ("Control a room", &["topic", "approvals", "approve", "deny", "redact"]),
    ("Run a gateway", &["serve", "demo", "backup", "restore", "log", "audit"]),
    ("Let people in", &["token", "login", "logout", "key", "revoke", "doctor"]),
];

/// The list of commands that `--help` begins with.
fn grouped_commands() -> String {
    let all = CliCommand::augment_subcommands(clap::Command::new("salon"));
    let about = |command: &clap::Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let shown: Vec<_> = all.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let line = |command: &&clap::Command| format!("  {:<12}{}\n", command.get_name(), about(command));
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let lines = names.iter().filter_map(|name| shown.iter().find(|command| command.get_name() == *name));
        text.push_str(&format!("{heading}:\n{}\n", lines.map(line).collect::<String>()));
    }
    let is_grouped = |command: &&&clap::Command| GROUPS.iter().any(|(_, names)| names.contains(&command.get_name()));
    let rest: String = shown.iter().filter(|command| !is_grouped(command)).map(line).collect();
    format!("{text}More:\n{rest}  {:<12}Print this, or the help of a command\n", "help")
}

/// Where the configuration and the data are: the same for every command that needs them.
#[derive(Debug, Clone, Args)]
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
        self.config.clone().or_else(|| Path::new(USUAL).exists().then(|| USUAL.into()))
    }

    /// The same. One that nobody named, and that is only found in the working directory, must not be one that others can write.
    pub(crate) fn trusted_file(&self) -> anyhow::Result<Option<PathBuf>> {
        let Some(file) = self.file() else { return Ok(None) };
        self.check_trusted(&file)?;
        if self.config.is_none() {
            static ANNOUNCED: Once = Once::new();
            if io::stderr().is_terminal() {
                ANNOUNCED
                    .call_once(|| note(format_args!("with the settings of `{}` in this directory", file.display())));
            }
        }
        Ok(Some(file))
    }

    /// Refuses a file that others can write, unless a person named it. Whatever reads the file again checks it again.
    pub(crate) fn check_trusted(&self, file: &Path) -> anyhow::Result<()> {
        if self.config.is_some() {
            return Ok(());
        }
        let is_open = salon_gateway::others_can_write(file);
        if is_open.with_context(|| format!("`{}` cannot be read", file.display()))? {
            bail!(
                "others can write `{}` in this directory\n\nhint: `chmod go-w` it if it is yours, or name it with `--config`",
                file.display()
            );
        }
        Ok(())
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
The token alone goes to stdout:
  TOKEN=$(salon token room:alpha --as alice)

An agent that may enter every room for a week:
  salon token 'room:*' --as helper --kind agent --ttl 7d")]
pub(crate) struct TokenArgs {
    /// Topics that the token opens; `room:*` is every topic that begins with `room:`
    #[arg(value_name = "TOPIC", required_unless_present = "topic")]
    pub(crate) topics: Vec<TopicPattern>,
    /// The same, as earlier versions had it
    #[arg(long, value_name = "TOPIC", hide = true)]
    pub(crate) topic: Vec<TopicPattern>,
    /// Id of the participant
    #[arg(long = "as", alias = "id", value_name = "ID", value_parser = own_id)]
    pub(crate) id: ParticipantId,
    /// Name shown to people
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Kind of the participant
    #[arg(long, value_parser = PossibleValuesParser::new(["human", "agent", "robot"]).try_map(|kind| kind.parse::<ParticipantKind>()))]
    pub(crate) kind: Option<ParticipantKind>,
    /// How long the token is valid: 30s, 15m, 12h, 7d; at most 365d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = ttl)]
    pub(crate) ttl: Deadline,
    /// Permission the token carries; may be repeated
    #[arg(long, value_name = "PERMISSION")]
    pub(crate) permission: Vec<String>,
    /// Capability the token is limited to, such as `say` or `call:robot-*/look*`; may be repeated
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) capability: Vec<String>,
    /// Participant ids that a bridge speaks for, such as `matrix:*`; may be repeated. The gateway must give them to it (`auth.namespaces`)
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    pub(crate) acts_for: Vec<Namespace>,
    /// How many ghosts the bridge may have at one gateway [default: as many as the gateway allows]
    #[arg(long, value_name = "COUNT", requires = "acts_for", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ghosts_max: Option<u32>,
    /// What its ghosts may be; may be repeated [default: human]
    #[arg(long, value_name = "KIND", requires = "acts_for", value_parser = PossibleValuesParser::new(["human", "agent", "robot"]).try_map(|kind| kind.parse::<ParticipantKind>()))]
    pub(crate) ghost_kind: Vec<ParticipantKind>,
    /// Let its ghosts call tools of others
    #[arg(long, requires = "acts_for")]
    pub(crate) ghosts_call: bool,
    /// Require a signature on every message; such a token works only for the Machine Context Protocol
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

fn namespace(text: &str) -> Result<Namespace, String> {
    text.parse().map_err(|why: InvalidNamespace| why.to_string())
}

fn public_key(text: &str) -> Result<Confirmation, &'static str> {
    Confirmation::new(text).ok_or("it is not 32 bytes in base64url without padding")
}

fn ttl(text: &str) -> Result<Deadline, String> {
    const MAX_DAYS: u64 = 365;
    let ttl: Deadline = text.parse().map_err(|error: salon_gateway::config::InvalidValue| error.to_string())?;
    if ttl.0.as_secs() > MAX_DAYS * 24 * 60 * 60 {
        return Err(format!("a token is good for at most {MAX_DAYS}d"));
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
