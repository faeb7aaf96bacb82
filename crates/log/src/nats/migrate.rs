//! Migrating a log from a stream a topic to shards: its topics are copied ([`crate::transfer`]) from the old streams to the new ones of the same log, read back
//! and compared, and the old ones are deleted.
//!
//! Every step can be repeated. Until everything is copied, the log's record stays as it was and no gateway opens it. What was chosen for the new layout is
//! kept beside it, so that a migration that was interrupted goes on.
//!
//! Invariant: an old stream is deleted only if its metadata says that it was copied and compared up to the newest sequence that it has. A gateway of the
//! earlier version may still run without being known, so the old streams take no messages any more before they are read, and they are listed again
//! afterwards: one that has grown or is new is copied as well.

use std::sync::Arc;

use async_nats::HeaderMap;

use super::Nats;
use super::bucket::Bucket;
use super::connect::reach;
use super::fault::NatsFault;
use super::legacy::{self, LegacyLog};
use super::link::NatsLink;
use super::names::StreamNames;
use super::open::{self, NatsOptions, NatsPurpose, OpenError, RECORD, answers, patiently};
use crate::TopicLog;
use crate::transfer::{TransferError, TransferTotals, copy_topics};

/// Where it is kept what was chosen for the new layout.
pub(super) const MIGRATION: &str = "migration";
/// How often old streams are listed again because they have changed: then somebody writes all the time.
const MAX_ROUNDS: usize = 8;

/// What a migration has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MigrationTotals {
    /// What was compared and copied. After an earlier run these are only the topics that it had not compared.
    pub topics: TransferTotals,
    /// How many streams of topics were deleted.
    pub deleted: u64,
    /// Whether an earlier run had given the log its new layout, and only old streams were left.
    pub is_leftover: bool,
}

/// Why a log was not migrated. What was copied before stays, and nothing of the old layout is removed that was not copied and compared.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// It could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its topics could not be copied.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// It is as it must be.
    #[error("the log `{0}` has the newest layout already")]
    NotNeeded(String),
}

impl From<NatsFault> for MigrateError {
    fn from(fault: NatsFault) -> Self {
        Self::Open(OpenError::Unavailable(fault.to_string()))
    }
}

impl Nats {
    /// Migrates a log that an earlier version has made. No gateway may have it open. `progress` is called with the entries done and the entries in total,
    /// and may end it with `false`.
    pub async fn migrate(
        options: NatsOptions,
        progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<MigrationTotals, MigrateError> {
        let names = StreamNames::new(&options.name).ok_or_else(|| OpenError::Name(options.name.clone()))?;
        let (client, connection) = reach(&options).await?;
        let link = Arc::new(NatsLink::new(client, names, connection, options.timings));
        answers(&link).await?;
        let meta = Bucket::new(&link.names, "meta");
        let no_log = || OpenError::NoLog { name: options.name.clone() };
        let kept = patiently(&link, || meta.get(&link, RECORD)).await?;
        let stored = kept.value.ok_or_else(no_log)?;
        let epoch = open::old_epoch(&stored.payload, &options)?;
        let mut migration = Migration { link, options, epoch: epoch.unwrap_or_default(), progress };
        let mut totals = MigrationTotals { is_leftover: epoch.is_none(), ..MigrationTotals::default() };
        match epoch {
            Some(_) => {
                totals.topics = migration.copy(NatsPurpose::Migrate).await?;
                // From here on gateways open the new layout.
                let link = &migration.link;
                let chosen = patiently(link, || meta.get(link, MIGRATION)).await?.value.ok_or(NatsFault::Missing)?;
                meta.replace(link, RECORD, kept.revision, chosen.payload, HeaderMap::new()).await?;
                meta.remove(link, MIGRATION, None).await?;
            }
            None if legacy::list(&migration.link).await?.is_empty() => {
                return Err(MigrateError::NotNeeded(migration.options.name));
            }
            None => {}
        }
        for _ in 0..MAX_ROUNDS {
            let (deleted, left) = legacy::remove_copied(&migration.link).await?;
            totals.deleted += deleted;
            if left == 0 {
                return Ok(totals);
            }
            // An old gateway has made them or has written to them since.
            let TransferTotals { topics, entries, copied } = migration.copy(NatsPurpose::CopyTo).await?;
            totals.topics.topics += topics;
            totals.topics.entries += entries;
            totals.topics.copied += copied;
        }
        Err(migration.in_use())
    }
}

/// A migration on its way.
struct Migration<P> {
    link: Arc<NatsLink>,
    options: NatsOptions,
    /// The epoch of the old layout.
    epoch: u32,
    progress: P,
}

impl<P: FnMut(u64, u64) -> bool> Migration<P> {
    fn in_use(&self) -> MigrateError {
        OpenError::InUse { name: self.options.name.clone() }.into()
    }

    /// Copies old streams until all are copied and compared up to their newest sequences. To migrate is to compare every one of them, whatever an
    /// earlier run had done; later only those count that were not compared.
    async fn copy(&mut self, purpose: NatsPurpose) -> Result<TransferTotals, MigrateError> {
        // That no gateway has it open is known before anything is listed.
        let target = Nats::open(NatsOptions { purpose, ..self.options.clone() }).await?;
        let copied = self.copy_into(&target, purpose == NatsPurpose::Migrate).await;
        target.close().await;
        copied
    }

    async fn copy_into(&mut self, target: &Nats, is_all: bool) -> Result<TransferTotals, MigrateError> {
        let mut totals = TransferTotals::default();
        for round in 0..MAX_ROUNDS {
            let mut streams = legacy::list(&self.link).await?;
            if round > 0 && streams.iter().all(|info| legacy::is_copied(&self.link, info)) {
                return Ok(totals);
            }
            if !is_all {
                streams.retain(|info| !legacy::is_copied(&self.link, info));
            }
            let old = Arc::new(LegacyLog::close_streams(&self.link, self.epoch, streams).await?);
            let TransferTotals { topics, entries, copied } = copy_topics(&old, target, &mut self.progress).await?;
            old.note_copied().await?;
            totals = match is_all {
                true => TransferTotals { topics, entries, copied: totals.copied + copied },
                false => TransferTotals {
                    topics: totals.topics + topics,
                    entries: totals.entries + entries,
                    copied: totals.copied + copied,
                },
            };
        }
        Err(self.in_use())
    }
}
