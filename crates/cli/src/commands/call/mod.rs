//! `salon call`: one call of one tool, its answer on standard output and its outcome as the exit status.

mod answer;
mod asking;

use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use salon_client::mcp::Tool;
use salon_client::{CallError, Client, End, Progress, RequestOptions, Room, RpcError};
use salon_gateway::config::Deadline;
use salon_protocol::{Code, ParticipantId, ParticipantKind, TopicName};
use serde::Serialize;
use serde_json::value::RawValue;

use self::answer::Format;
use super::existing::CreateOption;
use super::offers;
use super::outcome::{CANCELLED, EXIT_STATUS, GONE, HintContext, PROTOCOL, REFUSED, TIMED_OUT, UNREACHABLE};
use crate::access::{Access, Reach};
use crate::arguments::ArgumentSchema;
use crate::signals::Stop;
use crate::trouble::Trouble;
use crate::{hand_over, safe};

/// How many tools a hint names.
const MAX_NAMED: usize = 12;

/// The longest arguments that are read from a file.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub(crate) struct CallArgs {
    /// Which room
    topic: TopicName,
    /// Participant that has the tool
    participant: ParticipantId,
    /// Name of the tool
    tool: String,
    /// Arguments: `key=value`, read as the tool's schema says, or `key:=JSON`
    #[arg(value_name = "KEY=VALUE", conflicts_with = "whole")]
    pairs: Vec<String>,
    /// All arguments as one JSON object; `@FILE` reads it from a file, `-` from standard input
    #[arg(id = "whole", long = "arguments", short = 'a', value_name = "JSON|@FILE|-")]
    whole: Option<String>,
    /// How long to wait without an answer; progress restarts the time
    #[arg(long, value_name = "TIME", default_value = "60s")]
    timeout: Deadline,
    /// Write images, audio and other binary content of the answer into this file; several into `FILE`, `FILE.2`, …
    #[arg(long, short, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
    /// Have a guest start a separate server for this call, and not use the one that all callers share
    #[arg(long)]
    isolated: bool,
    /// Print the whole result as the participant wrote it, or `{"error": {"code", "message", "data", "hint"}}`, of
    /// which only the message is always there
    #[arg(long)]
    json: bool,
    /// Print the text as it is, control characters included
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    #[command(flatten)]
    create: CreateOption,
    #[command(flatten)]
    access: Access,
}

fn after_help() -> String {
    format!(
        "\
Examples:
  salon call room:alpha robot move x=1 y=2
  salon call room:alpha search find query='cats' tags=a tags=b options.deep=true
  salon call room:alpha robot plan --arguments @plan.json --json

{EXIT_STATUS}"
    )
}

pub(crate) fn run(args: CallArgs) -> Result<(), Trouble> {
    let json = args.json;
    let outcome = calling(args);
    if json { outcome.or_else(as_json) } else { outcome }
}

/// An error on standard output as one object, with the usual exit status.
fn as_json(trouble: Trouble) -> Result<(), Trouble> {
    #[derive(Serialize)]
    struct Failed<'a> {
        error: Words<'a>,
    }
    #[derive(Serialize)]
    struct Words<'a> {
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<&'a str>,
    }
    let code = match &trouble {
        Trouble::Reported(_) => return Err(trouble),
        Trouble::Coded(code, _) => *code,
        Trouble::Usage(_) => 2,
        Trouble::Failed(_) => 1,
    };
    let told = trouble.to_string();
    let told = told.strip_prefix("error: ").unwrap_or(&told);
    let (message, hint) = told.split_once("\n\nhint: ").map_or((told, None), |(message, hint)| (message, Some(hint)));
    let told = serde_json::to_string(&Failed { error: Words { message, hint } }).map_err(Trouble::failed)?;
    hand_over(format_args!("{told}"))?;
    Err(Trouble::Reported(code))
}

fn calling(args: CallArgs) -> Result<(), Trouble> {
    let given = args.whole.as_deref().map(whole).transpose().map_err(Trouble::usage)?;
    super::run(async move {
        let stop = Stop::on_signals(|| ())?;
        let Reach { gateway, client, .. } = args.access.reach().map_err(Trouble::usage)?;
        let asking = HintContext { gateway: &gateway, topic: Some(&args.topic) };
        args.create.require(&client, &args.topic, &asking).await?;
        // Before the room is entered: a mistake leaves no trace there.
        let known = tokio::select! { biased;
            () = stop.clone().asked() => return Err(Trouble::Reported(CANCELLED)),
            known = tokio::time::timeout(args.timeout.0, tools(&args, &client, &asking)) => {
                known.unwrap_or_else(|_| Err(failed(&CallError::TimedOut, &args.participant, &asking)))?
            }
        };
        let known = known.map(|tools| arguments_for(&tools, &args, given.as_deref())).transpose()?;
        let answers = asking::answers(&args.participant, args.isolated);
        // Shared, so that the same person's other connections stay.
        let entering = client.room(args.topic.clone()).kind(ParticipantKind::Human).share().directed().offer(answers);
        // A server of this call's own has to end with it.
        let entering = if args.isolated { entering } else { entering.single_calls() };
        let room = tokio::select! { biased;
            () = stop.clone().asked() => return Err(Trouble::Reported(CANCELLED)),
            joined = entering.join() => joined.map_err(|error| asking.trouble(&error))?,
        };
        let outcome = call(&args, known, given, &room, stop, &asking).await;
        room.leave().await;
        outcome
    })
}

/// The participant's tools, as the gateway knows them.
async fn tools(args: &CallArgs, client: &Client, asking: &HintContext<'_>) -> Result<Option<Vec<Tool>>, Trouble> {
    let offers = client.tools(&args.topic, Some(&args.participant)).await;
    offers::of_one(offers, client, &args.topic, &args.participant, asking).await
}

async fn call(
    args: &CallArgs,
    schema_arguments: Option<Box<RawValue>>,
    given: Option<Box<RawValue>>,
    room: &Room,
    stop: Stop,
    asking: &HintContext<'_>,
) -> Result<(), Trouble> {
    #[derive(Serialize)]
    struct Params<'a> {
        name: &'a str,
        arguments: &'a RawValue,
    }
    let peer = room.peer(&args.participant);
    let failed = |error: CallError| failed(&error, &args.participant, asking);
    let prepared = async {
        let arguments = match schema_arguments {
            Some(arguments) => arguments,
            None => {
                let asked = tokio::time::timeout(args.timeout.0, peer.tools()).await;
                match asked.unwrap_or(Err(CallError::TimedOut)) {
                    Ok(tools) => arguments_for(&tools, args, given.as_deref())?,
                    // It lists no tools, though it may have this one.
                    Err(CallError::Answered(error)) if error.code == RpcError::METHOD_NOT_FOUND => {
                        arguments(args, given.as_deref(), &ArgumentSchema::default()).map_err(Trouble::usage)?
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
        };
        let params = Params { name: &args.tool, arguments: &arguments };
        let options = RequestOptions::new().timeout(args.timeout.0);
        peer.start("tools/call", &params, options).await.map_err(failed)
    };
    let mut call = tokio::select! { biased;
        () = stop.clone().asked() => return Err(Trouble::Reported(CANCELLED)),
        prepared = prepared => prepared?,
    };
    let mut meter = Meter::new();
    loop {
        tokio::select! { biased;
            () = stop.clone().asked() => {
                meter.clear();
                call.cancel("cancelled at the terminal").await;
                return Err(Trouble::Reported(CANCELLED));
            }
            progress = call.progress() => match progress {
                Some(progress) => meter.show(&args.tool, &progress),
                None => break,
            },
        }
    }
    meter.clear();
    let format = match (args.json, args.raw) {
        (true, _) => Format::Json,
        (false, true) => Format::Raw,
        (false, false) => Format::Text,
    };
    match call.result().await {
        Ok(result) => {
            let written = args.output.as_deref().map(|file| answer::write(&result, file)).transpose()?;
            answer::print(&result, format, written.as_ref())
        }
        Err(CallError::Answered(error)) if format == Format::Json => {
            #[derive(Serialize)]
            struct Failed {
                error: RpcError,
            }
            let told = serde_json::to_string(&Failed { error }).map_err(Trouble::failed)?;
            hand_over(format_args!("{told}"))?;
            Err(Trouble::Reported(PROTOCOL))
        }
        Err(error) => Err(failed(error)),
    }
}

/// The arguments for the tool of these that is meant.
fn arguments_for(tools: &[Tool], args: &CallArgs, given: Option<&RawValue>) -> Result<Box<RawValue>, Trouble> {
    let tool = &args.tool;
    if let Some(found) = tools.iter().find(|listed| listed.name == *tool) {
        return arguments(args, given, &ArgumentSchema::new(Some(&found.input_schema))).map_err(Trouble::usage);
    }
    let names: Vec<_> = tools.iter().take(MAX_NAMED).map(|tool| format!("`{}`", safe::line(&tool.name))).collect();
    let hint = match &names[..] {
        [] => "it has none at all".to_owned(),
        names if tools.len() > MAX_NAMED => format!("it has {} and more: see `salon tools`", names.join(", ")),
        names => format!("it has {}", names.join(", ")),
    };
    let meant = offers::did_you_mean(tool, tools.iter().map(|tool| &*tool.name));
    let hint = meant.map_or_else(|| hint.clone(), |meant| format!("{meant} {hint}"));
    Err(Trouble::usage(anyhow!("`{}` has no tool `{}`\n\nhint: {hint}", args.participant, safe::line(tool))))
}

/// The arguments as JSON, checked before anybody is bothered with them.
fn arguments(args: &CallArgs, given: Option<&RawValue>, schema: &ArgumentSchema) -> anyhow::Result<Box<RawValue>> {
    let read = match given {
        Some(whole) => schema.read(&[whole.get()]),
        None => schema.read(&args.pairs),
    };
    read.map_err(|unfit| {
        let (topic, participant) = (&args.topic, &args.participant);
        anyhow!(
            "{}\n\nhint: `salon tools {} {} --long` shows the arguments",
            safe::block(&unfit.to_string()),
            safe::shell(topic.as_str()),
            safe::shell(participant.as_str())
        )
    })
}

/// All arguments as one object, from where `--arguments` says.
fn whole(text: &str) -> anyhow::Result<Box<RawValue>> {
    let read = |source: &mut dyn Read| {
        let mut text = String::new();
        let read = source.take(MAX_BYTES + 1).read_to_string(&mut text)?;
        if read as u64 > MAX_BYTES { Err(std::io::Error::other("it is too long")) } else { Ok(text) }
    };
    let text = match text.strip_prefix('@') {
        Some(path) => {
            let opened = std::fs::File::open(path).and_then(|mut file| read(&mut file));
            opened.with_context(|| format!("`{path}` cannot be read"))?
        }
        None if text == "-" => read(&mut std::io::stdin().lock()).context("standard input cannot be read")?,
        None => text.to_owned(),
    };
    let hint = "it looks like `{\"x\": 1}`";
    let json: Box<RawValue> = serde_json::from_str(text.trim())
        .map_err(|error| anyhow!("the arguments are not JSON: {error}\n\nhint: {hint}"))?;
    if !json.get().starts_with('{') {
        return Err(anyhow!("the arguments must be a JSON object\n\nhint: {hint}"));
    }
    Ok(json)
}

/// The trouble that a call without a result is.
pub(super) fn failed(error: &CallError, participant: &ParticipantId, asking: &HintContext<'_>) -> Trouble {
    let told = safe::line(&error.to_string());
    let coded = |code: u8| Trouble::Coded(code, anyhow!("{told}"));
    let who =
        asking.topic.map_or_else(|| "salon who".into(), |topic| format!("salon who {}", safe::shell(topic.as_str())));
    match error {
        CallError::Answered(error) => {
            let message = safe::line(&error.message);
            Trouble::Coded(PROTOCOL, anyhow!("`{participant}` answered with error {}: {message}", error.code))
        }
        CallError::Unreadable(_) => coded(PROTOCOL),
        CallError::Gone(_) => Trouble::coded(GONE, told, format_args!("`{who}` shows who is there")),
        CallError::TimedOut => {
            let hint = "wait longer with `--timeout`";
            Trouble::coded(TIMED_OUT, format_args!("`{participant}` did not answer in time"), hint)
        }
        CallError::Refused(refusal) if refusal.code == Code::RecipientNotFound => coded(GONE),
        CallError::Refused(refusal) if refusal.code == Code::Timeout => coded(TIMED_OUT),
        CallError::Refused(_) => coded(REFUSED),
        CallError::Cancelled => Trouble::Reported(CANCELLED),
        CallError::Missed => coded(UNREACHABLE),
        CallError::Ended(End::Refused(error)) => asking.trouble(error),
        CallError::Ended(End::Replaced | End::Deleted) => coded(REFUSED),
        CallError::Ended(_) => coded(UNREACHABLE),
        _ => coded(PROTOCOL),
    }
}

/// A line on the terminal that says how far the call has come.
struct Meter {
    terminal: bool,
    is_visible: bool,
}

impl Meter {
    fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), is_visible: false }
    }

    fn show(&mut self, tool: &str, progress: &Progress) {
        if !self.terminal {
            return;
        }
        let total = progress.total.map(|total| format!(" of {total}")).unwrap_or_default();
        let line = match &progress.message {
            // Nothing is counted, such as while the call waits for approval.
            Some(text) if progress.progress == 0.0 && progress.total.is_none() => format!("{tool}: {text}"),
            Some(text) => format!("{tool}: {}{total}, {text}", progress.progress),
            None => format!("{tool}: {}{total}", progress.progress),
        };
        let line = safe::clipped(&line, 76);
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        self.is_visible = true;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_visible) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
