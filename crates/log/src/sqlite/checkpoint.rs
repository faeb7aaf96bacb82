//! Writing the write-ahead log back to the database, beside the writer.
//!
//! Left to itself, SQLite does so in the commit that makes the log long enough, and everybody waits for the flush of all of it. Here a thread
//! with a connection of its own does most of it while the writer goes on, and the writer does the rest, which came meanwhile. Only when
//! nothing is left to write back does SQLite begin to overwrite the log from its start (sqlite.org/wal.html, "Checkpointing"), and only then
//! does it flush the database. So the thread flushes it too: otherwise the writer's part would flush everything that the thread has written.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::schema::{self, PAGE, WAL_PAGES};
use super::{OpenError, SqliteFault};

/// The length at which the thread begins: what is written while it works still fits into the length that the log was given.
const BEGIN_BYTES: u64 = WAL_PAGES * PAGE / 4 * 3;

/// The length at which the writer waits for the thread, so that a slow disk does not make it grow without end.
const MAX_BYTES: u64 = 2 * WAL_PAGES * PAGE;

/// How often the thread writes back before the writer does, and at how few pages it stops. Each time is shorter, because less has come meanwhile,
/// and everybody waits while the writer does the rest.
const MAX_ROUNDS: usize = 8;
const FEW_PAGES: i64 = 64;

/// What a commit changes beside what it was given: the pages on the way to it.
const OVERHEAD_BYTES: u64 = 4 * PAGE;

/// See the module. Dropping it waits until nothing is written back any more.
pub(super) struct Checkpointer {
    requests: Option<SyncSender<()>>,
    done: Receiver<()>,
    is_running: bool,
    thread: Option<JoinHandle<()>>,
    /// How long the log has become since it was overwritten from its start, as far as can be told.
    bytes: u64,
}

impl Checkpointer {
    /// `database` is the file at `path`. It must stay open for longer than all connections to it: to close a file in a process is to lose the
    /// locks it has on it (fcntl(2), "Advisory record locking").
    pub(super) fn start(path: &Path, database: Arc<File>) -> Result<Self, OpenError> {
        let db = schema::open_checkpointer(path)?;
        let (requests, requested) = sync_channel(1);
        let (finish, done) = sync_channel(1);
        let thread = super::spawn("log-checkpoint", path, move || {
            for () in requested {
                let mut length = 0;
                for round in 0..MAX_ROUNDS {
                    // The writer's own turn says what is wrong, if anything is.
                    let Ok((longer, _)) = write_back(&db) else { break };
                    let _ = database.sync_data();
                    let is_little = longer - std::mem::replace(&mut length, longer) <= FEW_PAGES;
                    if is_little && round > 0 {
                        break;
                    }
                }
                // Nobody may wait any more.
                let _ = finish.send(());
            }
        })?;
        Ok(Self { requests: Some(requests), done, is_running: false, thread: Some(thread), bytes: 0 })
    }

    /// Whether the thread writes back, so that the writer's turn will come.
    pub(super) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Has everything written back at the next turn, however little it is.
    pub(super) fn request(&mut self) {
        self.bytes = self.bytes.max(BEGIN_BYTES);
    }

    /// Counts what a commit has written.
    pub(super) fn note(&mut self, bytes: usize) {
        self.bytes += bytes as u64 + OVERHEAD_BYTES;
    }

    /// Has the thread write back when that is due, and does the rest on the writer's connection when the thread is done.
    pub(super) fn turn(&mut self, db: &Connection) -> Result<(), SqliteFault> {
        if !self.is_running {
            // Also where the thread has failed: the next turn finds out.
            self.is_running = self.bytes >= BEGIN_BYTES;
            if self.is_running
                && let Some(requests) = &self.requests
            {
                let _ = requests.try_send(());
            }
            return Ok(());
        }
        // A thread that has failed does nothing any more; then the writer does everything.
        let is_done = match self.bytes >= MAX_BYTES {
            true => matches!(self.done.recv(), Ok(()) | Err(RecvError)),
            false => !matches!(self.done.try_recv(), Err(TryRecvError::Empty)),
        };
        if is_done {
            self.is_running = false;
            // A reader may keep some of it from being written back; then it is tried again before long.
            let (length, written) = write_back(db)?;
            self.bytes = if length == written { 0 } else { BEGIN_BYTES / 2 };
        }
        Ok(())
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been reported where it happened.
            let _ = thread.join();
        }
    }
}

/// Writes back what it can without waiting for anybody; says how many pages the log has, and how many of them are written back.
fn write_back(db: &Connection) -> Result<(i64, i64), SqliteFault> {
    let lengths = |row: &rusqlite::Row<'_>| Ok((row.get(1)?, row.get(2)?));
    Ok(db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], lengths)?)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{directory, quick};
    use super::*;
    use crate::TopicLog;
    use crate::contract::{append, line, topic};
    use crate::sqlite::Sqlite;

    /// Far more than the log may have: the writer waits at [`MAX_BYTES`], and counts texts and not pages.
    const WRITTEN: u64 = 3 * MAX_BYTES;
    const TEXT: usize = 256 * 1024;

    #[tokio::test]
    async fn the_write_ahead_log_does_not_grow_without_end() {
        let directory = directory();
        let log = Sqlite::open(&directory.0, quick()).expect("a log in an empty directory");
        let padding = "x".repeat(TEXT);
        for number in 0..WRITTEN / TEXT as u64 {
            append(&log, &topic("room:a"), line(&format!("m{number}"), "alice", &padding)).await;
        }
        let length = std::fs::metadata(directory.0.join("log.db-wal")).expect("a write-ahead log").len();
        assert!(length < WRITTEN, "{length} bytes of {WRITTEN}, each of them twice, are not written back");
        TopicLog::close(&log).await;
    }
}
