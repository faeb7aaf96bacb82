//! `salon log copy`: the topics of one store in another, SQLite or NATS.
//!
//! What is copied and how it is compared is `salon_log::transfer`. A store in a data directory is read from a copy of its file, so that the
//! gateway that uses it neither waits nor notices.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use salon_gateway::config::{InvalidValue, StoreUrl};
use salon_log::AppendError;
use salon_log::sqlite::{self, CopyError, DATABASE, OpenError, Sqlite, SqliteOptions};
use salon_log::transfer::{TransferError, TransferLog, TransferTotals, copy_topics};

use crate::args::Locations;
use crate::backup::manifest::counted;
use crate::backup::progress::PercentLine;
use crate::commands::outcome::CANCELLED;
use crate::log_migrate::{self, MigrateArgs};
use crate::scratch::PrivateScratch;
use crate::serve::flags::NatsFlags;
use crate::signals::Stop;
use crate::trouble::Trouble;
use crate::{commands, hand_over, note};

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Copy the topics of a store to another one: SQLite to NATS, back, or to another NATS store
    Copy(Box<CopyArgs>),
    /// Move a store on NATS that an earlier version has made to the layout of this one
    Migrate(Box<MigrateArgs>),
}

#[derive(Debug, Args)]
#[command(after_help = "\
FROM and TO are data directories, or NATS servers such as nats://host:4222. Gateways can keep using FROM. None may use TO.

Copied are the messages of every topic, with their times and credentials, redactions, and the topics' settings. Not copied are joins and \
leaves, contexts, files and keys. Everything that is copied is read back and compared.

Run it again to continue a copy that was interrupted, and to copy what FROM got since: once while the gateways run, and once more after \
they have stopped.

  salon log copy /var/lib/salon nats://nats-1:4222,nats://nats-2:4222,nats://nats-3:4222
  salon log copy nats://nats-1:4222 /var/lib/salon-new --data /var/lib/salon
  salon log copy nats://nats-1:4222 nats://nats-1:4222 --to-name salon-new

Exit status: 0 the topics are the same in both; 1 it failed; 2 the command or the configuration is wrong; 130 cancelled.")]
pub(crate) struct CopyArgs {
    /// Store to copy: a data directory, or NATS servers
    #[arg(value_name = "FROM")]
    from: LogLocation,
    /// Store to copy to: a data directory, or NATS servers
    #[arg(value_name = "TO")]
    to: LogLocation,
    /// Name of the store FROM on its NATS servers [default: `nats.name`]
    #[arg(long, value_name = "NAME")]
    from_name: Option<String>,
    /// Name of the store TO on its NATS servers [default: `nats.name`]
    #[arg(long, value_name = "NAME")]
    to_name: Option<String>,
    #[command(flatten)]
    places: Locations,
    #[command(flatten)]
    nats: NatsFlags,
}

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LogLocation {
    Directory(PathBuf),
    Nats(StoreUrl),
}

impl FromStr for LogLocation {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        match ["nats://", "tls://"].iter().any(|scheme| text.starts_with(scheme)) {
            true => text.parse().map(Self::Nats),
            false => Ok(Self::Directory(text.into())),
        }
    }
}

/// Which of the two stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopySide {
    From,
    To,
}

impl LogLocation {
    fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(path) => Some(path),
            Self::Nats(_) => None,
        }
    }
}

pub(crate) fn run(args: LogArgs) -> Result<(), Trouble> {
    match args.command {
        LogCommand::Copy(args) => commands::run(copy(*args)),
        LogCommand::Migrate(args) => commands::run(log_migrate::migrate(*args)),
    }
}

async fn copy(args: CopyArgs) -> Result<(), Trouble> {
    refuse_the_same(&args)?;
    let stop = Stop::on_signals(|| note(format_args!("stopped at once, as asked twice")))?;
    let cancelled = AtomicBool::new(false);
    let copying = copy_until(&args, &cancelled);
    tokio::pin!(copying);
    let totals = tokio::select! {
        done = &mut copying => done,
        () = stop.asked() => {
            cancelled.store(true, Ordering::Relaxed);
            copying.await
        }
    }?;
    let TransferTotals { topics, entries, copied } = totals;
    let (topics, entries) = (counted(topics, "topic", "topics"), counted(entries, "entry", "entries"));
    hand_over(format_args!(
        "Copied {}. Both stores have {topics} with {entries}: count and digest are the same.",
        counted(copied, "entry", "entries")
    ))
}

async fn copy_until(args: &CopyArgs, cancelled: &AtomicBool) -> Result<TransferTotals, Trouble> {
    let mut progress = PercentLine::new(cancelled);
    let scratch = PrivateScratch::new("copy").map_err(Trouble::failed)?;
    let source = open_source(args, scratch.path(), &mut progress).await?;
    let target = open_target(args).await?;
    let copied = copy_topics(&*source, &*target, |done, total| progress.go_on("copying topics", done, total)).await;
    progress.clear();
    target.close().await;
    source.close().await;
    copied.map_err(failed)
}

/// Refuses to copy a store into itself.
fn refuse_the_same(args: &CopyArgs) -> Result<(), Trouble> {
    let real = |place: &LogLocation| place.directory().and_then(|path| path.canonicalize().ok());
    let is_same = match (&args.from, &args.to) {
        (LogLocation::Directory(_), LogLocation::Directory(_)) => {
            args.from == args.to || (real(&args.from).is_some() && real(&args.from) == real(&args.to))
        }
        (from, to) => from == to && args.from_name == args.to_name,
    };
    match is_same {
        true => Err(Trouble::coded(
            2,
            "FROM and TO are the same store",
            "`--to-name` names another one on the same NATS servers",
        )),
        false => Ok(()),
    }
}

async fn open_source(
    args: &CopyArgs,
    scratch: &Path,
    progress: &mut PercentLine<'_>,
) -> Result<Box<dyn TransferLog>, Trouble> {
    let data = match &args.from {
        LogLocation::Directory(data) => data,
        LogLocation::Nats(servers) => return on_nats::open(args, servers, CopySide::From).await,
    };
    if !data.join(DATABASE).exists() {
        return Err(Trouble::hinted(
            format_args!("there is no log in `{}`", data.display()),
            "FROM is the gateway's data directory, or its NATS servers",
        ));
    }
    sqlite::refuse_unfinished(data).map_err(Trouble::failed)?;
    let copied = tokio::task::block_in_place(|| {
        sqlite::copy(data, &scratch.join(DATABASE), |done, total| progress.go_on("reading the log", done, total))
    });
    copied.map_err(|error| match error {
        CopyError::Cancelled => cancelled_copy(),
        CopyError::Open(error) => Trouble::failed(error),
    })?;
    Ok(Box::new(Sqlite::open(scratch, SqliteOptions::default()).map_err(Trouble::failed)?))
}

async fn open_target(args: &CopyArgs) -> Result<Box<dyn TransferLog>, Trouble> {
    let data = match &args.to {
        LogLocation::Directory(data) => data,
        LogLocation::Nats(servers) => return on_nats::open(args, servers, CopySide::To).await,
    };
    sqlite::refuse_unfinished(data).map_err(Trouble::failed)?;
    match Sqlite::open(data, SqliteOptions::default()) {
        Ok(log) => Ok(Box::new(log)),
        Err(error @ OpenError::InUse { .. }) => {
            Err(Trouble::hinted(error, "stop the gateway there, or choose another directory"))
        }
        Err(error) => Err(Trouble::failed(error)),
    }
}

#[cfg(feature = "nats")]
pub(crate) mod on_nats {
    //! Stores on NATS.

    use salon_gateway::config::{Config, Store};
    use salon_log::nats::{Nats, NatsOptions, NatsPurpose, OpenError};

    use super::*;
    use crate::token;

    pub(super) async fn open(
        args: &CopyArgs,
        StoreUrl(store): &StoreUrl,
        side: CopySide,
    ) -> Result<Box<dyn TransferLog>, Trouble> {
        let mut options = options(&args.places, &args.nats, store, &key_directory(args)?)?;
        let name = if side == CopySide::From { &args.from_name } else { &args.to_name };
        options.name = name.clone().unwrap_or(options.name);
        options.purpose = if side == CopySide::From { NatsPurpose::CopyFrom } else { NatsPurpose::CopyTo };
        match Nats::open(options).await {
            Ok(log) => Ok(Box::new(log)),
            Err(error) => Err(refused(error)),
        }
    }

    /// How a store on NATS is opened by a gateway whose data directory is known.
    pub(crate) fn options(
        places: &Locations,
        nats: &NatsFlags,
        store: &Store,
        data: &Path,
    ) -> Result<NatsOptions, Trouble> {
        crate::serve::variables::refuse_renamed()?;
        let file = places.trusted_file().map_err(Trouble::usage)?;
        let mut config = Config::load(file.as_deref(), nats.0.clone()).map_err(Trouble::usage)?;
        config.store = store.clone();
        let Some(fingerprint) = salon_gateway::store_fingerprint(data).map_err(Trouble::usage)? else {
            return Err(Trouble::coded(
                2,
                format_args!("there is no key in `{}`", data.display()),
                "`--data` names the data directory of a gateway of the store on NATS",
            ));
        };
        let not_on_nats = || Trouble::usage(anyhow!("a store on NATS is named like `nats://host:4222`"));
        config.nats_options(fingerprint).ok_or_else(not_on_nats)
    }

    /// Why a store was not opened, and what can be done.
    pub(crate) fn refused(error: OpenError) -> Trouble {
        match error {
            OpenError::OtherKey { .. } => {
                Trouble::coded(2, error, "`--data` names the data directory of a gateway of the store on NATS")
            }
            OpenError::NoLog { .. } => Trouble::coded(2, error, "`--from-name` and `--nats-name` name the store"),
            OpenError::InUse { .. } => {
                Trouble::hinted(error, "stop its gateways, wait 10 seconds where one was killed, and try again")
            }
            OpenError::Connect { .. } | OpenError::Unavailable(_) => Trouble::failed(error),
            error => Trouble::usage(error),
        }
    }

    /// Where the key is that the gateways of the store have: in the directory that was named, in FROM or TO, or in the usual one.
    fn key_directory(args: &CopyArgs) -> Result<PathBuf, Trouble> {
        let has_key = |path: &&Path| path.join(salon_gateway::auth::KEY_FILE).exists();
        let named = [&args.from, &args.to].into_iter().filter_map(LogLocation::directory).find(has_key);
        match named.filter(|_| args.places.data.is_none()) {
            Some(named) => Ok(named.to_owned()),
            None => token::data_directory(&args.places).map_err(Trouble::usage),
        }
    }
}

#[cfg(not(feature = "nats"))]
mod on_nats {
    //! This program has no NATS client.

    use super::*;

    pub(super) async fn open(_: &CopyArgs, _: &StoreUrl, _: CopySide) -> Result<Box<dyn TransferLog>, Trouble> {
        Err(Trouble::usage(anyhow!("this `salon` was built without NATS")))
    }
}

fn cancelled_copy() -> Trouble {
    Trouble::coded(CANCELLED, "cancelled", "the same command goes on where this one stopped")
}

/// Why topics were not copied, and what can be done.
pub(crate) fn failed(error: TransferError) -> Trouble {
    let hint = match &error {
        TransferError::Cancelled => return cancelled_copy(),
        TransferError::Differs { .. } | TransferError::Foreign { .. } => {
            "copy to a store that is empty; a redaction after the first copy is such a change"
        }
        TransferError::Import { why: AppendError::TooManyTopics(_), .. } => {
            "allow more with `--nats-topics`, here and at the gateways"
        }
        TransferError::Import { why: AppendError::TooLarge(_), .. } => "raise `max_payload` of the NATS servers",
        _ => "the same command goes on where this one stopped",
    };
    Trouble::hinted(error, hint)
}
