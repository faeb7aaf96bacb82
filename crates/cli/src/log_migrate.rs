//! `salon log migrate`: moves a store on NATS from a stream for each topic to streams that all topics share.
//!
//! How that is done is `salon_log::nats`. It goes on where it was interrupted.

use clap::Args;
use salon_gateway::config::StoreUrl;

use crate::args::Locations;
use crate::serve::flags::NatsFlags;
use crate::trouble::Trouble;

#[derive(Debug, Args)]
#[command(after_help = "\
STORE names NATS servers, such as nats://host:4222. Stop every gateway of the store first. Salon 0.1 made a stream for each topic, and a \
gateway of this version does not open such a store. Once the migration has begun, a gateway of Salon 0.1 can no longer write to it.

Moved are the messages of every topic, with their times and credentials, redactions, and the topics' settings. Joins and leaves are left out: \
nobody is present afterwards. Contexts, files and keys stay as they are. Everything that is moved is read back and compared before the old \
streams are deleted; until then the servers need room for both.

Run it again to continue a migration that was interrupted.

  salon log migrate nats://nats-1:4222 --data /var/lib/salon

Exit status: 0 the store has the new layout; 1 it failed; 2 the command or the configuration is wrong; 130 cancelled.")]
pub(crate) struct MigrateArgs {
    /// Store to migrate: NATS servers
    #[arg(value_name = "STORE")]
    store: StoreUrl,
    #[command(flatten)]
    places: Locations,
    #[command(flatten)]
    nats: NatsFlags,
}

#[cfg(feature = "nats")]
pub(crate) async fn migrate(args: MigrateArgs) -> Result<(), Trouble> {
    use std::sync::atomic::{AtomicBool, Ordering};

    use salon_log::nats::Nats;

    use crate::backup::progress::PercentLine;
    use crate::log_copy::on_nats::options;
    use crate::signals::Stop;
    use crate::{note, token};

    let data = token::data_directory(&args.places).map_err(Trouble::usage)?;
    let options = options(&args.places, &args.nats, &args.store.0, &data)?;
    let name = options.name.clone();
    let stop = Stop::on_signals(|| note(format_args!("stopped at once, as asked twice")))?;
    let cancelled = AtomicBool::new(false);
    let mut progress = PercentLine::new(&cancelled);
    let migrating = Nats::migrate(options, |done, total| progress.go_on("migrating topics", done, total));
    tokio::pin!(migrating);
    let migrated = tokio::select! {
        done = &mut migrating => done,
        () = stop.asked() => {
            cancelled.store(true, Ordering::Relaxed);
            migrating.await
        }
    };
    told(&name, migrated)
}

#[cfg(feature = "nats")]
fn told(
    name: &str,
    migrated: Result<salon_log::nats::MigrationTotals, salon_log::nats::MigrateError>,
) -> Result<(), Trouble> {
    use salon_log::nats::{MigrateError, OpenError};
    use salon_log::transfer::TransferError;

    use crate::{hand_over, log_copy};

    let totals = migrated.map_err(|error| match error {
        MigrateError::Open(error @ OpenError::NoLog { .. }) => {
            Trouble::coded(2, error, "`--nats-name` names the store")
        }
        MigrateError::Open(error) => log_copy::on_nats::refused(error),
        MigrateError::Transfer(error @ (TransferError::Differs { .. } | TransferError::Foreign { .. })) => {
            Trouble::hinted(error, "its old stream is kept, with all that it has")
        }
        MigrateError::Transfer(error) => log_copy::failed(error),
        error @ MigrateError::NotNeeded(_) => Trouble::hinted(error, "start its gateways"),
    })?;
    hand_over(format_args!("{}", summary(name, &totals)))
}

/// What was done, in words.
#[cfg(feature = "nats")]
fn summary(name: &str, totals: &salon_log::nats::MigrationTotals) -> String {
    use crate::backup::manifest::counted;

    let topics = counted(totals.topics.topics, "topic", "topics");
    let entries = counted(totals.topics.entries, "entry", "entries");
    let deleted = counted(totals.deleted, "old stream", "old streams");
    match (totals.is_leftover, totals.topics.topics) {
        (false, _) => format!(
            "Migrated `{name}`: {topics} with {entries}, count and digest are the same. Deleted {deleted}. Start its gateways."
        ),
        (true, 0) => {
            format!("Deleted {deleted} of `{name}`: an earlier run had copied and compared them. Start its gateways.")
        }
        (true, _) => format!(
            "Copied what an earlier run had left of `{name}`: {topics} with {entries}, count and digest are the same. \
             Deleted {deleted}. Start its gateways."
        ),
    }
}

#[cfg(not(feature = "nats"))]
pub(crate) async fn migrate(_: MigrateArgs) -> Result<(), Trouble> {
    Err(Trouble::usage(anyhow::anyhow!("this `salon` was built without NATS")))
}

#[cfg(all(test, feature = "nats"))]
mod tests {
    use salon_log::nats::MigrationTotals;
    use salon_log::transfer::TransferTotals;

    use super::*;

    #[test]
    fn a_migration_says_what_it_has_done() {
        let told = |topics, is_leftover| {
            let topics = TransferTotals { topics, entries: 5 * topics, copied: 3 };
            summary("salon", &MigrationTotals { topics, deleted: 2, is_leftover })
        };
        let compared = "count and digest are the same. Deleted 2 old streams. Start its gateways.";
        assert_eq!(told(1, false), format!("Migrated `salon`: 1 topic with 5 entries, {compared}"));
        assert_eq!(
            told(2, true),
            format!("Copied what an earlier run had left of `salon`: 2 topics with 10 entries, {compared}")
        );
        assert_eq!(
            told(0, true),
            "Deleted 2 old streams of `salon`: an earlier run had copied and compared them. Start its gateways."
        );
    }
}
