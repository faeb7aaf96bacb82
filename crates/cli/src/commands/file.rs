//! `salon file`: files into a room, and out of it.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use salon_client::RestError;
use salon_protocol::{CHAT_METHOD, TopicName};
use serde_json::json;

use super::outcome::HintContext;
use super::seatless::{NotificationTarget, SeatlessAuthor};
use crate::access::{Access, Reach};
use crate::trouble::Trouble;
use crate::{hand_over, note};

/// The longest file that is read; what the gateway takes is usually less.
const MAX_BYTES: u64 = 1 << 30;

/// What a file's URI begins with; its id follows.
const SCHEME: &str = "salon-file://";

#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    #[command(subcommand)]
    command: FileCommand,
}

#[derive(Debug, Subcommand)]
enum FileCommand {
    /// Put a file into a room, and send a message that links it
    Put(PutArgs),
    /// Read a file of a room
    Get(GetArgs),
    /// Remove a file from a room: your own, or anybody's if you moderate there
    Remove(RemoveArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  salon file put room:alpha plan.pdf
  salon file put room:alpha photo.jpg --text 'the left shelf'")]
struct PutArgs {
    /// Which room
    topic: TopicName,
    /// Which file
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Name of the file in the room [default: the file's name]
    #[arg(long)]
    name: Option<String>,
    /// Text of the message [default: its name]
    #[arg(long)]
    text: Option<String>,
    /// Do not send a message
    #[arg(long, conflicts_with = "text")]
    silent: bool,
    /// Print the answer of the gateway: `{"uri": …, "url": …}`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  salon file get room:alpha 8f3c… --output plan.pdf
  salon file get room:alpha salon-file://8f3c… | sha256sum")]
struct GetArgs {
    /// Which room
    topic: TopicName,
    /// Which file, by its id or its URI
    id: String,
    /// Where to write it, which must not exist yet [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Messages that link the file stay as they are: `salon redact` removes their text, and the author's files with it.

Examples:
  salon file remove room:alpha 8f3c…
  salon file remove room:alpha salon-file://8f3c…")]
struct RemoveArgs {
    /// Which room
    topic: TopicName,
    /// Which file, by its id or its URI
    id: String,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: FileArgs) -> Result<(), Trouble> {
    match args.command {
        FileCommand::Put(args) => super::run(put(args)),
        FileCommand::Get(args) => super::run(get(args)),
        FileCommand::Remove(args) => super::run(remove(args)),
    }
}

async fn put(args: PutArgs) -> Result<(), Trouble> {
    let PutArgs { topic, path, name, text, silent, json, access } = args;
    let own_name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.or(own_name).ok_or_else(|| Trouble::usage(anyhow!("`{}` is not a file", path.display())))?;
    let bytes = read(&path).map_err(Trouble::usage)?;
    let author = SeatlessAuthor::reach(&access, &[]).await?;
    let stored = author.client.put_file(&topic, &name, media_type(&name), bytes.into()).await;
    let stored = stored.map_err(|error| author.asking(&topic).trouble(&error))?;
    if !silent {
        let link = json!({ "type": "resource_link", "uri": stored.uri, "name": stored.name,
            "mimeType": stored.mime_type, "size": stored.size });
        let params =
            json!({ "text": text.unwrap_or_else(|| stored.name.clone()), "format": "plain", "content": [link] });
        author.notify(&topic, NotificationTarget::default(), CHAT_METHOD, &params).await?;
    }
    if json {
        let answer = json!({ "uri": stored.uri, "name": stored.name, "mime_type": stored.mime_type, "size": stored.size,
            "sha256": stored.sha256, "url": stored.url });
        return hand_over(format_args!("{answer}"));
    }
    hand_over(format_args!("{}", stored.uri))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let about = fs::metadata(path).with_context(|| format!("`{}` cannot be read", path.display()))?;
    if !about.is_file() {
        return Err(anyhow!("`{}` is not a file", path.display()));
    }
    if about.len() > MAX_BYTES {
        return Err(anyhow!("`{}` has more than {} MiB", path.display(), MAX_BYTES >> 20));
    }
    fs::read(path).with_context(|| format!("`{}` cannot be read", path.display()))
}

/// The type by the end of a name. The gateway keeps it, and trusts it in nothing.
fn media_type(name: &str) -> &'static str {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end).to_ascii_lowercase();
    match end.as_str() {
        "csv" => "text/csv",
        "gif" => "image/gif",
        "jpeg" | "jpg" => "image/jpeg",
        "json" => "application/json",
        "md" => "text/markdown",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "log" | "txt" => "text/plain",
        "webp" => "image/webp",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}

/// Why a file was not read.
enum GetError {
    Rest(RestError),
    Write(io::Error),
}

impl From<RestError> for GetError {
    fn from(error: RestError) -> Self {
        Self::Rest(error)
    }
}

async fn get(args: GetArgs) -> Result<(), Trouble> {
    let GetArgs { topic, id, output, access } = args;
    if output.is_none() && io::stdout().is_terminal() {
        return Err(Trouble::coded(2, "a file is not for a terminal", "name one with `--output FILE`"));
    }
    let Reach { gateway, client, .. } = access.reach().map_err(Trouble::usage)?;
    let asking = HintContext { gateway: &gateway, topic: Some(&topic) };
    let id = id.strip_prefix(SCHEME).unwrap_or(&id);
    let mut out: Box<dyn Write> = match &output {
        None => Box::new(io::stdout().lock()),
        Some(path) => {
            let created = OpenOptions::new().write(true).create_new(true).open(path);
            let created = created.with_context(|| format!("`{}` cannot be made", path.display()));
            Box::new(created.map_err(Trouble::usage)?)
        }
    };
    let read = client.get_file(&topic, id, |part| out.write_all(part).map_err(GetError::Write)).await;
    match (read, &output) {
        (Ok(size), Some(path)) => {
            note(format_args!("{size} bytes written to `{}`", path.display()));
            Ok(())
        }
        (Ok(_), None) => out.flush().map_err(|error| Trouble::failed(anyhow!("stdout could not be written: {error}"))),
        (Err(error), _) => {
            if let Some(path) = &output {
                // Part of a file is not the file.
                let _ = fs::remove_file(path);
            }
            Err(match error {
                GetError::Rest(error) => asking.trouble(&error),
                GetError::Write(error) => Trouble::failed(anyhow!("the file could not be written: {error}")),
            })
        }
    }
}

async fn remove(RemoveArgs { topic, id, access }: RemoveArgs) -> Result<(), Trouble> {
    let Reach { gateway, client, .. } = access.reach().map_err(Trouble::usage)?;
    let id = id.strip_prefix(SCHEME).unwrap_or(&id);
    let removed = client.remove_file(&topic, id).await;
    removed.map_err(|error| HintContext { gateway: &gateway, topic: Some(&topic) }.trouble(&error))?;
    note(format_args!("removed from {topic}"));
    Ok(())
}
