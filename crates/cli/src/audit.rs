//! `salon audit verify`: whether the records of an audit trail are those that the gateway wrote.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use salon_gateway::audit::{self, AuditFault, AuditReport};
use salon_gateway::config::{AUDIT_FILE, Overrides, Setting};
use serde_json::json;

use crate::args::Locations;
use crate::trouble::Trouble;
use crate::{hand_over, note, token};

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Check that every record carries the hash of the one before it
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
The gateway can keep running. FILE is the file that it writes; the older ones, FILE.N, are checked with it.

A record that was changed, added or removed breaks the chain, except at its end: keep the hash that this command prints elsewhere, and \
look for it in the trail later.

Exit status: 0 the chain is whole, 1 it is broken or cannot be read, 2 the command or the configuration is wrong.

  salon audit verify
  salon audit verify /var/lib/salon/audit.log --json")]
struct VerifyArgs {
    /// File of the audit trail [default: the one of the configuration]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print one object: `{"ok", "files", "records", "without_chain", "cut_off", "begins_midway", "unfinished", "head"}`,
    /// or `{"ok", "error", "file", "line"}`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    places: Locations,
}

pub(crate) fn run(args: AuditArgs) -> Result<(), Trouble> {
    let AuditCommand::Verify(args) = args.command;
    let path = trail(&args)?;
    match (audit::verify(&path), args.json) {
        (Ok(report), true) => {
            let mut told = json!({ "ok": true });
            if let (Some(told), Ok(serde_json::Value::Object(report))) =
                (told.as_object_mut(), serde_json::to_value(&report))
            {
                told.extend(report);
            }
            hand_over(format_args!("{told}"))
        }
        (Ok(report), false) => tell(&report),
        (Err(fault), true) => {
            let mut told = json!({ "ok": false, "error": fault.to_string() });
            if let AuditFault::Broken { path, line, .. } = &fault {
                told["file"] = json!(path.display().to_string());
                told["line"] = json!(line);
            }
            hand_over(format_args!("{told}"))?;
            Err(Trouble::Reported(1))
        }
        (Err(fault), false) => Err(match &fault {
            AuditFault::Unreadable { .. } => {
                Trouble::hinted(fault, "name the file, or the gateway's data directory with `--data`")
            }
            AuditFault::NoChain { .. } => Trouble::hinted(fault, "the gateway begins a chain when it starts"),
            AuditFault::Broken { .. } => Trouble::hinted(
                format_args!("the audit trail is not what the gateway wrote\n{fault}"),
                "compare the file with a copy from a backup",
            ),
        }),
    }
}

fn tell(report: &AuditReport) -> Result<(), Trouble> {
    let AuditReport { files, records, without_chain, cut_off, begins_midway, is_unfinished, foreign, head } = report;
    let notes = [
        (*begins_midway).then(|| "the files before the oldest are gone".to_owned()),
        (*without_chain > 0)
            .then(|| format!("{without_chain} lines are older than the chain, which covers them as a whole")),
        (*cut_off > 0).then(|| format!("{cut_off} lines were cut off when a gateway ended")),
        (!foreign.is_empty()).then(|| {
            let named: Vec<_> = foreign.iter().map(|path| format!("`{}`", path.display())).collect();
            format!("not part of the trail, because no record in it carries a hash: {}", named.join(", "))
        }),
        (*is_unfinished).then(|| "the last line has no end yet".to_owned()),
    ];
    for told in notes.into_iter().flatten() {
        note(format_args!("{told}"));
    }
    let files = if *files == 1 { "1 file".to_owned() } else { format!("{files} files") };
    hand_over(format_args!("The audit trail is whole: {records} records in {files}.\nNewest record: {head}"))
}

/// Where the trail is.
fn trail(args: &VerifyArgs) -> Result<PathBuf, Trouble> {
    if let Some(file) = &args.file {
        return Ok(file.clone());
    }
    let variable = Setting::of_key("audit.file").and_then(|setting| std::env::var_os(&setting.variable));
    if let Some(file) = variable.filter(|file| !file.is_empty()) {
        return Ok(file.into());
    }
    let given = args
        .places
        .trusted_file()
        .map_err(Trouble::usage)?
        .map(|path| Overrides::from_file(&path))
        .transpose()
        .map_err(Trouble::usage)?;
    match given.and_then(|given| given.audit.file) {
        Some(file) => Ok(file),
        None => Ok(token::data_directory(&args.places).map_err(Trouble::usage)?.join(AUDIT_FILE)),
    }
}
