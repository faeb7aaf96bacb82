//! `salon call`: one call of one tool, its answer on standard output and its outcome as the exit status.

mod answer;
mod asking;

use std::io::{IsTerminal, Read, Write};

use anyhow::{Context, anyhow};
use clap::Args;
use salon_client::{CallError, End, Peer, Progress, RequestOptions, Room, RpcError};
use salon_gateway::config::Deadline;
use salon_protocol::{Code, ParticipantId, ParticipantKind, TopicName};
use serde::Serialize;
use serde_json::value::RawValue;

use self::answer::Format;
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
    /// Whose tool
    participant: ParticipantId,
    /// Which tool
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
    /// Print the whole result as the participant wrote it, or `{"error": {"code", "message", "data", "hint"}}`, of
    /// which only the message is always there
    #[arg(long)]
    json: bool,
    /// Print the text as it is, control characters included
    #[arg(long, conflicts_with = "json")]
    raw: bool,
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
        Trouble::Told(_) => return Err(trouble),
        Trouble::Coded(code, _) => *code,
        Trouble::Usage(_) => 2,
        Trouble::Failed(_) => 1,
    };
    let told = trouble.to_string();
    let told = told.strip_prefix("error: ").unwrap_or(&told);
    let (message, hint) = told.split_once("\n\nhint: ").map_or((told, None), |(message, hint)| (message, Some(hint)));
    let told = serde_json::to_string(&Failed { error: Words { message, hint } }).map_err(Trouble::failed)?;
    hand_over(format_args!("{told}"))?;
    Err(Trouble::Told(code))
}

fn calling(args: CallArgs) -> Result<(), Trouble> {
    let given = args.whole.as_deref().map(whole).transpose().map_err(Trouble::usage)?;
    super::run(async move {
        let stop = Stop::on_signals(|| ())?;
        let Reach { place, client } = args.access.reach().map_err(Trouble::usage)?;
        let asking = HintContext { place: &place, topic: Some(&args.topic) };
        let answers = asking::answers(&args.participant);
        // Shared, so that the same person's other connections stay.
        let entering = client.room(args.topic.clone()).kind(ParticipantKind::Human).share().directed().offer(answers);
        let room = tokio::select! { biased;
            () = stop.clone().asked() => return Err(Trouble::Told(CANCELLED)),
            joined = entering.join() => joined.map_err(|error| asking.trouble(&error))?,
        };
        let outcome = call(&args, given, &room, stop, &asking).await;
        room.leave().await;
        outcome
    })
}

async fn call(
    args: &CallArgs,
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
        let schema = tokio::time::timeout(args.timeout.0, schema(&peer, &args.tool, asking));
        let schema = schema.await.unwrap_or_else(|_| Err(failed(CallError::TimedOut)))?;
        let arguments = arguments(args, given, &schema).map_err(Trouble::usage)?;
        let params = Params { name: &args.tool, arguments: &arguments };
        let options = RequestOptions::new().timeout(args.timeout.0);
        peer.start("tools/call", &params, options).await.map_err(failed)
    };
    let mut call = tokio::select! { biased;
        () = stop.clone().asked() => return Err(Trouble::Told(CANCELLED)),
        prepared = prepared => prepared?,
    };
    let mut meter = Meter::new();
    loop {
        tokio::select! { biased;
            () = stop.clone().asked() => {
                meter.clear();
                call.cancel("cancelled at the terminal").await;
                return Err(Trouble::Told(CANCELLED));
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
        Ok(result) => answer::print(&result, format),
        Err(CallError::Answered(error)) if format == Format::Json => {
            #[derive(Serialize)]
            struct Failed {
                error: RpcError,
            }
            let told = serde_json::to_string(&Failed { error }).map_err(Trouble::failed)?;
            hand_over(format_args!("{told}"))?;
            Err(Trouble::Told(PROTOCOL))
        }
        Err(error) => Err(failed(error)),
    }
}

/// The schema of the tool's arguments; none when the participant lists no tools, though it may have it.
async fn schema(peer: &Peer, tool: &str, asking: &HintContext<'_>) -> Result<ArgumentSchema, Trouble> {
    let tools = match peer.tools().await {
        Ok(tools) => tools,
        Err(CallError::Answered(error)) if error.code == RpcError::METHOD_NOT_FOUND => {
            return Ok(ArgumentSchema::default());
        }
        Err(error) => return Err(failed(&error, peer.id(), asking)),
    };
    if let Some(found) = tools.iter().find(|listed| listed.name == tool) {
        return Ok(ArgumentSchema::new(Some(&found.input_schema)));
    }
    let names: Vec<_> = tools.iter().take(MAX_NAMED).map(|tool| format!("`{}`", safe::line(&tool.name))).collect();
    let hint = match &names[..] {
        [] => "it has none at all".to_owned(),
        names if tools.len() > MAX_NAMED => format!("it has {} and more: see `salon tools`", names.join(", ")),
        names => format!("it has {}", names.join(", ")),
    };
    Err(Trouble::usage(anyhow!("`{}` has no tool `{}`\n\nhint: {hint}", peer.id(), safe::line(tool))))
}

/// The arguments as JSON, checked before anybody is bothered with them.
fn arguments(args: &CallArgs, given: Option<Box<RawValue>>, schema: &ArgumentSchema) -> anyhow::Result<Box<RawValue>> {
    let read = match &given {
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
        CallError::Cancelled => Trouble::Told(CANCELLED),
        CallError::Missed => coded(UNREACHABLE),
        CallError::Ended(End::Refused(error)) => asking.trouble(error),
        CallError::Ended(End::Replaced) => coded(REFUSED),
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
        let message = progress.message.as_ref().map(|text| format!(", {text}")).unwrap_or_default();
        let line = safe::clipped(&format!("{tool}: {}{total}{message}", progress.progress), 76);
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        self.is_visible = true;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_visible) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
