//! Storing what was copied from another log ([`crate::transfer`]): in the tables where entries are read from, without the journal and the fold.
//!
//! A notice of settings is noted as one that counts. From the rest nothing follows: no row says that anybody is present or that a call waits.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rusqlite::{Transaction, TransactionBehavior, params};
use salon_control::ControlNotice;
use salon_protocol::{Entry, Stamp, TopicName};
use tokio::sync::oneshot;

use super::schema::{LAST_OFFSET, key};
use super::writer::{Writer, WriterRequest};
use super::{CLOSED, Sqlite, SqliteFault, settle, stored};
use crate::AppendError;
use crate::transfer::{TopicImport, TransferLog};

pub(super) struct SqliteImport {
    pub(super) topic: TopicName,
    pub(super) import: TopicImport,
    pub(super) reply: oneshot::Sender<Result<(), AppendError>>,
}

impl SqliteImport {
    pub(super) fn bytes(&self) -> usize {
        match &self.import {
            TopicImport::Settings(notice) => notice.envelope.text().len(),
            TopicImport::Entries(entries) => entries.iter().map(|entry| entry.envelope.text().len()).sum(),
        }
    }
}

impl TransferLog for Sqlite {
    fn import(&self, topic: &TopicName, import: TopicImport) -> BoxFuture<'static, Result<(), AppendError>> {
        let closed = || Err(AppendError::Stopped(CLOSED.into()));
        let (reply, outcome) = oneshot::channel();
        let import = SqliteImport { topic: topic.clone(), import, reply };
        if self.requests.push(WriterRequest::Import(import)).is_err() {
            return std::future::ready(closed()).boxed();
        }
        outcome.map(move |outcome| outcome.unwrap_or_else(|_| closed())).boxed()
    }
}

impl Writer<'_> {
    /// Stores what was copied behind everything that the topic has, all of it or nothing.
    pub(super) fn import(&mut self, name: &TopicName, import: TopicImport) -> Result<(), SqliteFault> {
        // Offsets go on after what is settled.
        self.settle()?;
        let step = Transaction::new_unchecked(self.db, TransactionBehavior::Immediate)?;
        let (topic, trimmed, head) = {
            let state = self.know(name)?;
            (state.topic, state.trimmed, state.head)
        };
        match import {
            TopicImport::Settings(notice) => {
                // It has the place of an entry that retention has removed.
                let offset = if head == trimmed { head + 1 } else { trimmed };
                if offset > 0 {
                    step.prepare_cached("UPDATE topics SET trimmed = ?2 WHERE topic = ?1")?
                        .execute(params![topic, offset])?;
                    step.prepare_cached("DELETE FROM control WHERE topic = ?1")?.execute([topic])?;
                    step.prepare_cached(
                        "INSERT INTO control (topic, key, arrived, text, stamp) VALUES (?1, ?2, ?3, ?4, ?5)",
                    )?
                    .execute(params![
                        topic,
                        key(topic, offset),
                        notice.arrived.0,
                        notice.envelope.text(),
                        notice.stamp.as_ref().map(Stamp::text)
                    ])?;
                }
            }
            TopicImport::Entries(copied) => {
                let last = head + copied.len() as u64;
                if last > LAST_OFFSET {
                    return Err(SqliteFault::Exhausted);
                }
                let place = |(entry, offset): (Arc<Entry>, u64)| {
                    let (Entry { arrived, stamp, envelope, .. }, position) =
                        (Arc::unwrap_or_clone(entry), self.source.position(offset));
                    Arc::new(Entry { position, arrived, stamp, envelope })
                };
                let entries: Vec<_> = copied.into_iter().zip(head + 1..).map(place).collect();
                settle::insert(&step, topic, &entries)?;
                let is_settings = |entry: &&Arc<Entry>| {
                    matches!(ControlNotice::of(&entry.envelope), Some(ControlNotice::Settings(_)))
                };
                if let Some(settings) = entries.iter().rev().find(is_settings) {
                    step.prepare_cached("DELETE FROM control WHERE topic = ?1")?.execute([topic])?;
                    step.prepare_cached("INSERT INTO control (topic, key) VALUES (?1, ?2)")?
                        .execute([topic, key(topic, settings.position.offset)])?;
                }
                self.stored.load_topic(self.db, name, &self.source)?;
                stored::settle(&step, name, &entries)?;
                entries.iter().for_each(|entry| self.stored.add(name, entry));
                self.note_written(entries.iter().map(|entry| entry.envelope.text().len()).sum());
            }
        }
        step.commit()?;
        // What is remembered of it does not know of this.
        self.topic_states.remove(name);
        self.source.search.note_settled(topic, name);
        Ok(())
    }
}
