//! `salon backup` and `salon restore`: a data directory in one file, and back.
//!
//! The log is copied while a gateway writes to it (`salon_log::sqlite::copy`). A backup holds everything that a data directory has, the
//! gateway's key included. Deliberately absent: logs on NATS, compression and encryption, which other tools do (`-` is for pipes).

mod archive;
mod make;
pub(crate) mod manifest;
pub(crate) mod progress;
mod restore;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use clap::Args;
use salon_gateway::config::{Overrides, Setting, Store, StoreUrl};

use self::archive::ArchiveError;
use self::progress::PercentLine;
use crate::args::Locations;
use crate::commands::outcome::CANCELLED;
use crate::serve::variables;
use crate::signals::Stop;
use crate::trouble::Trouble;
use crate::{commands, hand_over, note, token};

#[derive(Debug, Args)]
#[command(after_help = "\
The gateway can keep running. Everything it acknowledged before this command started is in the backup.

FILE is a tar archive with the log, the gateway's key, the sign-outs and the audit trail. Anyone who has it can make \
tokens and read every room: keep it private.

  salon backup /backup/salon.tar
  salon backup --verify /backup/salon.tar
  salon backup - | age -r RECIPIENT > /backup/salon.tar.age")]
pub(crate) struct BackupArgs {
    /// File to write, or `-` for standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace FILE if it is there
    #[arg(long)]
    force: bool,
    /// Check that FILE is complete and can be restored, instead of writing it
    #[arg(long, conflicts_with = "force")]
    verify: bool,
    #[command(flatten)]
    places: Locations,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Stop the gateway first. Run this as the gateway's user, or as root. FILE is checked before anything is replaced.

  salon restore /backup/salon.tar --data /var/lib/salon --force
  age -d -i KEY /backup/salon.tar.age | salon restore -")]
pub(crate) struct RestoreArgs {
    /// File that `salon backup` made, or `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace the data in the directory; the old data is kept there in `replaced-TIME`
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    places: Locations,
}

pub(crate) fn backup(args: BackupArgs) -> Result<(), Trouble> {
    commands::run(cancellable(move |cancelled| {
        let mut progress = PercentLine::new(cancelled);
        if args.verify { verify(&args.file, &mut progress) } else { make::run(&args, &mut progress) }
    }))
}

pub(crate) fn restore(args: RestoreArgs) -> Result<(), Trouble> {
    commands::run(cancellable(move |cancelled| restore::run(&args, &mut PercentLine::new(cancelled))))
}

/// Runs work on a thread, which ends when a flag is set.
async fn cancellable(work: impl FnOnce(&AtomicBool) -> Result<(), Trouble> + Send + 'static) -> Result<(), Trouble> {
    let stop = Stop::on_signals(|| note(format_args!("stopped at once, as asked twice")))?;
    let cancelled = Arc::new(AtomicBool::new(false));
    let flag = cancelled.clone();
    let mut working = tokio::task::spawn_blocking(move || work(&flag));
    let done = tokio::select! {
        done = &mut working => done,
        () = stop.asked() => {
            cancelled.store(true, Ordering::Relaxed);
            working.await
        }
    };
    done.map_err(Trouble::failed)?
}

fn verify(file: &Path, progress: &mut PercentLine<'_>) -> Result<(), Trouble> {
    let (mut input, length) = open(file)?;
    let checked = archive::unpack(&mut *input, length, |_| Ok(Box::new(io::sink())), &mut |done, total| {
        progress.go_on("checking", done, total)
    });
    progress.clear();
    let manifest = checked.map_err(|error| unusable(file, &error))?;
    let names: Vec<_> = manifest.files.iter().map(|file| format!("`{}`", file.name)).collect();
    hand_over(format_args!(
        "The backup is complete: {}, {}.\nIt holds {}.",
        manifest.log,
        manifest.origin(),
        names.join(", ")
    ))
}

/// A backup to read, and how long it is where that is known.
fn open(file: &Path) -> Result<(Box<dyn Read>, Option<u64>), Trouble> {
    if is_standard(file) {
        return Ok((Box::new(io::stdin().lock()), None));
    }
    let opened = File::open(file).and_then(|opened| Ok((opened.metadata()?, opened)));
    let (about, opened) = opened.map_err(|error| unusable(file, &ArchiveError::Read(error)))?;
    if about.is_dir() {
        return Err(unusable(file, &ArchiveError::NotABackup));
    }
    Ok((Box::new(opened), about.is_file().then_some(about.len())))
}

fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}

/// A backup that cannot be restored, or work that somebody has cancelled.
fn unusable(file: &Path, error: &ArchiveError) -> Trouble {
    let file = if is_standard(file) { "standard input".into() } else { format!("`{}`", file.display()) };
    let hint = match error {
        ArchiveError::Cancelled => return Trouble::coded(CANCELLED, "cancelled", "nothing was changed"),
        ArchiveError::Newer { .. } => "use that version of Salon, or a newer one",
        ArchiveError::Write { .. } => return Trouble::failed(anyhow!("{error}")),
        ArchiveError::Read(source) => return Trouble::failed(anyhow!("{file} could not be read: {source}")),
        _ => "`salon backup --verify FILE` checks a backup; use another one",
    };
    Trouble::hinted(format_args!("{file} cannot be restored: {error}"), hint)
}

/// The data directory of a gateway that has its store there.
fn data_directory(places: &Locations) -> Result<PathBuf, Trouble> {
    variables::refuse_renamed()?;
    let data = token::data_directory(places).map_err(Trouble::usage)?;
    let given = places
        .trusted_file()
        .map_err(Trouble::usage)?
        .map(|path| Overrides::from_file(&path))
        .transpose()
        .map_err(Trouble::usage)?;
    let variable = Setting::of_key("store").and_then(|setting| std::env::var(&setting.variable).ok());
    let variable = variable.filter(|store| !store.is_empty()).map(|store| store.parse::<StoreUrl>());
    let given = variable.transpose().map_err(Trouble::usage)?.or(given.and_then(|given| given.store));
    if given.is_some_and(|StoreUrl(store)| store != Store::Sqlite) {
        let hint = format!(
            "copy its streams with `nats account backup DIR` and `auth.key` from `{}`: see \"Back up a store on NATS\" in docs/operations/nats.md",
            data.display()
        );
        let told = "the store is on NATS, and `salon backup` and `salon restore` are for stores in a data directory";
        return Err(Trouble::coded(2, told, hint));
    }
    Ok(data)
}
