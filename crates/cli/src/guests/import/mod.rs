//! `salon import`: the MCP servers people already have, written into `salon.toml` as guests.
//!
//! It shows what it would do and asks. What is in the file stays; tables are added at its end. References such as `${VAR}` are
//! written as references, so that no secret is copied that was not in the open before.

mod places;
mod tables;

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use salon_gateway::config::{Overrides, TopicKey};
use salon_guests::import::{self, Import, Imported, Launch, Product, TakenNames};
use salon_protocol::{ParticipantId, TopicName};

use super::ask;
use super::plan::{folder_of, launch};
use crate::trouble::Trouble;
use crate::{hand_over, note, out, safe};

/// The room that imported servers go to unless another is named.
pub(crate) const USUAL_TOPIC: &str = "room:lobby";

#[derive(Debug, Args)]
#[command(after_help = "\
Everything that other programs know of, after a look at it:
  salon import

One file, into a room of its own:
  salon import ~/.cursor/mcp.json --topic room:lab")]
pub(crate) struct ImportArgs {
    /// Files with `mcpServers` or `servers` [default: those of Claude, Cursor, Windsurf, Gemini, Cline, VS Code, Zed and Codex]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Room to bring the servers into
    #[arg(long, default_value = USUAL_TOPIC)]
    topic: TopicName,
    /// File to write them into
    #[arg(long, value_name = "FILE", default_value = "salon.toml")]
    into: PathBuf,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Show what would be done, and exit
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

/// A server that is to become a guest.
struct Chosen {
    id: ParticipantId,
    server: Imported,
    /// What is to be written, with what only its own file could know replaced.
    launch: Launch,
    /// What to say of it.
    remarks: Vec<String>,
    /// The keys under which values stand as they are, and not as references.
    literals: Vec<String>,
}

/// What one file gives.
struct ImportedFile {
    file: PathBuf,
    chosen: Vec<Chosen>,
    /// Servers that are left out, with the reason, and other remarks.
    remarks: Vec<String>,
}

pub(crate) fn run(args: &ImportArgs) -> Result<(), Trouble> {
    let there = Existing::read(&args.into, &args.topic)?;
    let found = find(args, &there)?;
    let guests: Vec<_> = found.iter().flat_map(|found| &found.chosen).collect();
    let mut shown = String::new();
    for found in &found {
        show(&mut shown, found);
    }
    let into = args.into.display();
    if guests.is_empty() {
        return hand_over(format_args!("{shown}There is nothing to add to {into}"));
    }
    let count = if guests.len() == 1 { "1 guest".into() } else { format!("{} guests", guests.len()) };
    let text = tables::write(&args.topic, &found);
    there.check(&text)?;
    if there.is_open() {
        let values: Vec<_> =
            guests.iter().flat_map(|guest| guest.literals.iter().map(|key| (&guest.id, key))).collect();
        for (id, key) in &values {
            let _ = writeln!(shown, "warning: {key} of `{id}` is copied as it stands, and others can read {into}");
        }
        if !values.is_empty() {
            let _ = writeln!(shown, "hint: `chmod 600 {into}`, or write `${{VAR}}` in their place\n");
        }
    }
    if args.dry_run {
        return hand_over(format_args!("{shown}{count} of {} would be written to {into}", args.topic));
    }
    let _ = out(format_args!("{}", shown.trim_end()));
    if !args.yes {
        if !ask::anybody() {
            let told = "there is nobody to ask whether this is to be written\n\nhint: say so with `--yes`";
            return Err(Trouble::usage(anyhow!(told)));
        }
        if !ask::yes(&format!("Write {count} of {} to {into}?", args.topic)).map_err(Trouble::failed)? {
            note(format_args!("nothing was written"));
            return Ok(());
        }
    }
    there.append(&text).map_err(Trouble::failed)?;
    hand_over(format_args!("{count} written to {into}; `salon serve` brings them in, SIGHUP if it runs already"))
}

/// The file that is written to, as it is.
struct Existing {
    path: PathBuf,
    text: Option<String>,
    names: TakenNames,
    launches: Vec<Launch>,
}

impl Existing {
    fn read(path: &Path, topic: &TopicName) -> Result<Self, Trouble> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => {
                Some(read.with_context(|| format!("`{}` could not be read", path.display())).map_err(Trouble::usage)?)
            }
        };
        let (mut names, mut launches) = (TakenNames::default(), Vec::new());
        if text.is_some() {
            let given = Overrides::from_file(path).map_err(Trouble::usage)?;
            for (id, guest) in given.topics.get(&TopicKey(topic.clone())).into_iter().flat_map(|topic| &topic.guests) {
                names.take(&id.0);
                launches.push(launch(&guest.server));
            }
        }
        Ok(Self { path: path.to_owned(), text, names, launches })
    }

    /// Makes sure that the file will still be read after `added` stands at its end.
    fn check(&self, added: &str) -> Result<(), Trouble> {
        let whole = format!("{}{}{added}", self.text.as_deref().unwrap_or_default(), self.line_end());
        let path = self.path.display();
        toml::from_str::<Overrides>(&whole).map(drop).map_err(|error| {
            let hint = "guests that stand there as `guests = { … }` must become tables of their own first";
            Trouble::usage(anyhow!(
                "tables at the end of `{path}` would not fit it: {}\n\nhint: {hint}",
                error.message()
            ))
        })
    }

    /// What ends the last line, where it has no end.
    fn line_end(&self) -> &'static str {
        if self.text.as_ref().is_some_and(|text| !text.is_empty() && !text.ends_with('\n')) { "\n" } else { "" }
    }

    /// Whether it is there and others may read it.
    fn is_open(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|file| file.permissions().mode() & 0o044 != 0)
    }

    fn append(&self, added: &str) -> anyhow::Result<()> {
        let mut options = OpenOptions::new();
        // Commands, addresses and values may all hold secrets. A file that was there keeps the mode its owner gave it.
        options.append(true).create(true).mode(0o600);
        let written = options
            .open(&self.path)
            .and_then(|mut file| file.write_all(format!("{}{added}", self.line_end()).as_bytes()));
        written.with_context(|| format!("`{}` could not be written", self.path.display()))
    }
}

/// Whether a server is this program, showing a room to an MCP client.
fn is_salon(launch: &Launch) -> bool {
    match launch {
        Launch::Command { command, args, .. } => {
            let is_ours = Path::new(command).file_name().is_some_and(|name| name == "salon");
            is_ours && args.first().is_some_and(|word| word == "mcp")
        }
        Launch::Url { url, .. } => {
            let rest = url.strip_prefix("http://").unwrap_or_default();
            ["127.0.0.1:8787", "localhost:8787"].iter().any(|gateway| rest.starts_with(gateway))
        }
    }
}

/// Reads the files that were named, or those in their usual places. One that was named must be readable.
fn find(args: &ImportArgs, there: &Existing) -> Result<Vec<ImportedFile>, Trouble> {
    let named = !args.files.is_empty();
    let usual = places::usual().map_err(Trouble::failed)?;
    let files = if named { args.files.clone() } else { usual.iter().filter(|path| path.exists()).cloned().collect() };
    if files.is_empty() {
        let looked: String = usual.iter().map(|path| format!("\n  {}", shown(path))).collect();
        return Err(Trouble::usage(anyhow!(
            "no file with MCP servers was found; looked for{looked}\n\nhint: name a file: `salon import FILE`"
        )));
    }
    let (mut names, mut known) = (there.names.clone(), there.launches.clone());
    let mut found = Vec::new();
    for file in files {
        match read(&file) {
            Ok((import, folder)) => found.push(choose(file, &import, &folder, &mut names, &mut known)),
            Err(error) if named => return Err(Trouble::usage(error)),
            Err(error) => {
                found.push(ImportedFile { file, chosen: Vec::new(), remarks: vec![format!("left out: {error:#}")] });
            }
        }
    }
    Ok(found)
}

fn read(file: &Path) -> anyhow::Result<(Import, PathBuf)> {
    let text = std::fs::read_to_string(file).with_context(|| format!("`{}` could not be read", file.display()))?;
    let folder = folder_of(file)?;
    let import = import::read(&text, Product::of(file), Some(&folder));
    Ok((import.map_err(|error| anyhow!("{}:{error}", file.display()))?, folder))
}

fn choose(
    file: PathBuf,
    import: &Import,
    folder: &Path,
    names: &mut TakenNames,
    known: &mut Vec<Launch>,
) -> ImportedFile {
    let mut remarks: Vec<_> = import.refused.iter().map(|refused| format!("left out: {refused}")).collect();
    remarks.extend(import.warnings.iter().map(|warning| format!("note: {warning}")));
    let mut chosen = Vec::new();
    for server in &import.servers {
        let is_project = Product::workspace(&std::path::absolute(&file).unwrap_or_default()).is_some();
        let (launch, mut said) = tables::settle(&server.launch, &import.inputs, folder, is_project);
        if is_salon(&launch) {
            remarks
                .push(format!("left out: `{}` is Salon itself, which would be a guest of its own room", server.name));
            continue;
        }
        if known.contains(&launch) {
            remarks.push(format!("left out: `{}` is there already", server.name));
            continue;
        }
        known.push(launch.clone());
        let id = names.id_for(&server.name);
        if id.as_str() != server.name {
            said.insert(0, format!("`{}` there", safe::line(&server.name)));
        }
        if server.disabled {
            said.push("switched off there, and so here".into());
        }
        let open = tables::open_secrets(&launch);
        if !open.is_empty() {
            said.push(format!("looks like a secret and is copied as it stands: {}", open.join(", ")));
        }
        let literals = tables::literals(&launch);
        chosen.push(Chosen { id, server: server.clone(), launch, remarks: said, literals });
    }
    ImportedFile { file, chosen, remarks }
}

fn show(text: &mut String, found: &ImportedFile) {
    if found.chosen.is_empty() && found.remarks.is_empty() {
        return;
    }
    let product = Product::of(&found.file);
    let _ = writeln!(text, "{} ({})", shown(&found.file), product.name());
    let width = found.chosen.iter().map(|chosen| chosen.id.as_str().len()).max().unwrap_or_default();
    for chosen in &found.chosen {
        let _ = writeln!(text, "  {:width$}  {}", chosen.id.as_str(), safe::line(&tables::summary(&chosen.launch)));
        for remark in &chosen.remarks {
            let _ = writeln!(text, "  {:width$}  - {remark}", "");
        }
    }
    for remark in &found.remarks {
        let _ = writeln!(text, "  {}", safe::line(remark));
    }
    text.push('\n');
}

/// A path as people write it.
fn shown(path: &Path) -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    match home.and_then(|home| Some(path.strip_prefix(home).ok()?.to_owned())) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}
