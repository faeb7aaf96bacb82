//! `salon join`: one MCP server in one room, for as long as the command runs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use salon_control::NamePattern;
use salon_gateway::config::Deadline;
use salon_guests::upstream::{GuestTarget, GuestUser, UrlTransport};
use salon_guests::{Expose, GuestError, GuestStatus, RestartPolicy, Spec, ToolFilter};
use salon_protocol::{ParticipantKind, TopicName};
use tokio_util::sync::CancellationToken;

use super::oauth::{OAuthArgs, login_command};
use super::{lines, watcher};
use crate::access::{Access, Reach};
use crate::commands::outcome::{HintContext, REFUSED};
use crate::signals::Stop;
use crate::trouble::Trouble;
use crate::{note, out, safe};

#[derive(Debug, Args)]
#[command(after_help = "\
A server that is started here, and ends with the command:
  salon join room:lab --as files -- npx -y @modelcontextprotocol/server-filesystem .

A server that runs elsewhere:
  salon join room:lab --as search --url https://search.example/mcp --header \"X-Key: $KEY\"

A server that wants a sign-in opens your browser, or shows a code with `--device`; `salon login --guest URL` does the \
same beforehand.")]
#[command(mut_arg("identity", |id| id.help("Id of the guest in the room; must be the participant of the token")))]
pub(crate) struct JoinArgs {
    /// Room to bring it into
    pub(crate) topic: TopicName,
    /// Name shown to people
    #[arg(long)]
    name: Option<String>,
    /// What it is
    #[arg(long, default_value = "agent", value_parser = PossibleValuesParser::new(["human", "agent", "robot"]).try_map(|kind| kind.parse::<ParticipantKind>()))]
    kind: ParticipantKind,
    /// Start a separate server for every caller
    #[arg(long)]
    isolated: bool,
    /// What the room may use: a list of tools, resources, prompts [default: everything]
    #[arg(long, value_name = "LIST")]
    expose: Option<Expose>,
    /// Tool the room may use, by its name or a pattern (`read_*`); may be repeated [default: all]
    #[arg(long, value_name = "TOOL")]
    allow_tool: Vec<NamePattern>,
    /// Tool the room may not use, written the same way; overrides `--allow-tool`
    #[arg(long, value_name = "TOOL")]
    deny_tool: Vec<NamePattern>,
    /// Do not start the server again when it ends
    #[arg(long)]
    once: bool,
    /// Replace a participant of the same id that is in the room
    #[arg(long)]
    replace: bool,
    /// How long a call may go on without progress, and how long starting may take
    #[arg(long, value_name = "TIME", default_value = "60s")]
    timeout: Deadline,
    /// Directory the command runs in [default: this one]
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    cwd: Option<PathBuf>,
    /// Variable for the command, with a value or as it is here; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]", conflicts_with = "url", value_parser = variable)]
    env: Vec<Variable>,
    /// User the command runs as, `USER[:GROUP]` by name or number; only for root [default: yourself]
    #[arg(long, value_name = "USER", conflicts_with = "url", value_parser = GuestUser::lookup)]
    user: Option<GuestUser>,
    /// Address of a server that runs elsewhere
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// Header to send with every request to the URL; may be repeated
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<SecretHeader>,
    /// Transport of the URL [default: detected]
    #[arg(long, value_name = "http|sse", value_parser = transport)]
    transport: Option<UrlTransport>,
    #[command(flatten)]
    oauth: OAuthArgs,
    #[command(flatten)]
    access: Access,
    /// Command to start, after `--`: an MCP server on its standard input and output
    #[arg(last = true, num_args = 1.., required_unless_present = "url")]
    command: Vec<OsString>,
}

/// A header whose value is not shown.
#[derive(Clone)]
pub(crate) struct SecretHeader(String, String);

impl std::fmt::Debug for SecretHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Header({}: …)", self.0)
    }
}

/// A variable whose value is not shown.
#[derive(Clone)]
pub(crate) struct Variable(String, OsString);

impl std::fmt::Debug for Variable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Variable({}=…)", self.0)
    }
}

fn variable(text: &str) -> Result<Variable, String> {
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value.into())));
    if name.is_empty() {
        return Err("a variable is written `NAME` or `NAME=VALUE`".into());
    }
    let value = value.or_else(|| std::env::var_os(name)).ok_or_else(|| format!("`{name}` is not set here"))?;
    Ok(Variable(name.into(), value))
}

fn header(text: &str) -> Result<SecretHeader, String> {
    let (name, value) = text.split_once(':').ok_or("a header is written `Name: value`")?;
    if name.trim().is_empty() {
        return Err("a header is written `Name: value`".into());
    }
    Ok(SecretHeader(name.trim().into(), value.trim().into()))
}

fn transport(text: &str) -> Result<UrlTransport, String> {
    match text {
        "http" => Ok(UrlTransport::Streamable),
        "sse" => Ok(UrlTransport::Sse),
        _ => Err("it is not one of http, sse".into()),
    }
}

impl JoinArgs {
    fn tools(&self) -> ToolFilter {
        let allow = (!self.allow_tool.is_empty()).then(|| self.allow_tool.clone());
        ToolFilter { allow, deny: self.deny_tool.clone() }
    }

    fn target(&self) -> GuestTarget {
        if let Some(url) = &self.url {
            let headers = self.header.iter().map(|SecretHeader(name, value)| (name.clone(), value.clone())).collect();
            return GuestTarget::Url { url: url.clone(), headers, transport: self.transport.unwrap_or_default() };
        }
        let mut words = self.command.iter().cloned();
        let program = words.next().expect("clap asks for a command where there is no URL");
        let env = self.env.iter().map(|Variable(name, value)| (name.into(), value.clone())).collect();
        GuestTarget::Command { program, args: words.collect(), env, cwd: self.cwd.clone() }
    }
}

pub(crate) async fn run(args: &JoinArgs) -> Result<(), Trouble> {
    // A token that was given for the guest says who it is. One that `salon login` keeps, or this machine would make, is a person's.
    if args.access.identity.is_none() && args.access.given().map_err(Trouble::usage)?.is_none() {
        return Err(Trouble::usage(anyhow!("who is it to be?\n\nhint: name the guest with `--as ID`")));
    }
    // Not clap's to check: it forgives what a flag requires where that is in conflict with something else.
    let astray = [("--header", !args.header.is_empty()), ("--transport", args.transport.is_some())];
    let mut astray = astray.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).chain(args.oauth.given());
    if args.url.is_none()
        && let Some(flag) = astray.next()
    {
        return Err(Trouble::usage(anyhow!("`{flag}` goes with `--url`, not with a command")));
    }
    // A mistake is reported at once, and once.
    args.target().check().map_err(Trouble::usage)?;
    lines::start();
    let stop = Stop::on_signals(|| note(format_args!("stopped at once, as asked twice")))?;
    let Reach { gateway, client, .. } = args.access.reach().map_err(Trouble::usage)?;
    let claims = args.access.identity(&client).await.map_err(Trouble::usage)?;
    let (id, topic) = (&claims.participant, &args.topic);
    if !claims.opens(topic) {
        return Err(Trouble::usage(anyhow!(
            "topic `{topic}` is not open to this token\n\nhint: run `salon token {} --as {}`",
            safe::shell(topic.as_str()),
            safe::shell(id.as_str())
        )));
    }
    // A mistake in the address is reported at once; a gateway that goes away later is waited for.
    let asking = HintContext { gateway: &gateway, topic: Some(topic) };
    client.health().await.map_err(|error| asking.trouble(&error))?;
    if !args.replace {
        let present = client.participants(topic).await.map_err(|error| asking.trouble(&error))?;
        if present.iter().any(|one| one.id == *id) {
            let hint = "choose another id with `--as`, or take its place with `--replace`";
            return Err(Trouble::coded(REFUSED, format_args!("`{id}` is in {topic} already"), hint));
        }
    }

    let expose = args.expose.unwrap_or_default();
    let mut spec = Spec::new(id.as_str(), args.target());
    (spec.isolated, spec.expose, spec.timeout) = (args.isolated, expose, args.timeout.0);
    spec.tools = args.tools();
    spec.restarts = if args.once { RestartPolicy::Never } else { RestartPolicy::OnceStarted };
    (spec.watcher, spec.user) = (watcher(), args.user.clone());
    spec.oauth = args.oauth.options(false).map_err(Trouble::usage)?;
    let entering = || {
        let entering = client.room(topic.clone()).kind(args.kind);
        match &args.name {
            Some(name) => entering.name(name),
            None => entering,
        }
    };
    let shutdown = CancellationToken::new();
    // It may take a while (`npx` downloads first), and somebody is looking.
    note(format_args!("{} `{id}`…", if args.url.is_some() { "reaching" } else { "starting" }));
    let prompts = spec.oauth.as_ref().is_some_and(|oauth| oauth.prompt.is_some());
    let staying =
        salon_guests::run(spec, entering, shutdown.clone(), |status| tell(id, topic, expose, prompts, &status));
    tokio::pin!(staying);
    let ended = tokio::select! {
        ended = &mut staying => ended,
        () = stop.asked() => {
            shutdown.cancel();
            staying.await
        }
    };
    ended.map_err(|error| match &error {
        GuestError::GivenUp { .. } if args.url.is_some() => {
            Trouble::hinted(error, "check the address, and the credentials with `--header`")
        }
        GuestError::GivenUp { .. } => {
            Trouble::hinted(error, "try the command by itself: an MCP server waits for input without a word")
        }
        _ => Trouble::failed(error),
    })
}

fn tell(id: impl std::fmt::Display, topic: &TopicName, expose: Expose, prompts: bool, status: &GuestStatus) {
    match status {
        GuestStatus::Starting => {}
        // The command goes on whether or not somebody reads this.
        GuestStatus::Here { server, tools } => {
            let offers = offers(*tools, expose);
            let _ = out(format_args!(
                "`{id}` ({}) is in {topic} and offers {offers} to everyone there",
                safe::line(server)
            ));
        }
        GuestStatus::Restarting { in_, why } => {
            note(format_args!("`{id}`: {}; starting it again in {}", safe::line(why), short(*in_)));
        }
        GuestStatus::SignInNeeded { url, why, .. } => {
            let why = safe::line(why);
            match prompts {
                true => note(format_args!("`{id}`: {why}")),
                false => note(format_args!("`{id}`: {why}; run `{}`", login_command(url))),
            }
        }
        GuestStatus::Away { why } => {
            note(format_args!("`{id}`: the gateway is away, waiting for it: {}", safe::line(why)))
        }
        GuestStatus::Back => note(format_args!("`{id}` is back in {topic}")),
        GuestStatus::Ended => note(format_args!("`{id}` has left")),
    }
}

/// What a guest offers, in words.
pub(super) fn offers(tools: usize, expose: Expose) -> String {
    let tools = match tools {
        _ if !expose.tools => None,
        1 => Some("1 tool".to_owned()),
        tools => Some(format!("{tools} tools")),
    };
    match (tools, expose == Expose::default()) {
        (Some(tools), true) => tools,
        (tools, _) => {
            let others = [(expose.resources, "its resources"), (expose.prompts, "its prompts")];
            let others = others.into_iter().filter(|(shown, _)| *shown).map(|(_, what)| what.to_owned());
            let all: Vec<_> = tools.into_iter().chain(others).collect();
            all.join(" and ")
        }
    }
}

fn short(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_is_told_in_words() {
        let told = |tools, expose: &str| offers(tools, expose.parse().expect("a list"));
        assert_eq!(told(14, "tools,resources,prompts"), "14 tools");
        assert_eq!(told(1, "tools"), "1 tool");
        assert_eq!(told(2, "tools,prompts"), "2 tools and its prompts");
        assert_eq!(told(2, "resources"), "its resources");
    }

    #[test]
    fn a_header_has_a_name_and_hides_its_value() {
        let read = header("Authorization: Bearer a:b").expect("a header");
        assert_eq!((&*read.0, &*read.1), ("Authorization", "Bearer a:b"));
        assert_eq!(format!("{read:?}"), "Header(Authorization: …)");
        assert!(header("Authorization").is_err() && header(": x").is_err());
    }
}
