//! A bound on how long a query runs.
//!
//! FTS5 looks a prefix up within one step of SQLite, during which no progress handler is called. It reads page by page, though, and every read
//! ends once the connection is interrupted. So a thread beside the query does that when the time is over.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::super::SqliteFault;

/// How often a connection is interrupted again: between two statements an interrupt does nothing.
const REPEAT_INTERVAL: Duration = Duration::from_millis(10);

/// Does something with a connection for so long at most; `None` where the time was over first.
pub(super) fn within<T>(
    db: &Connection,
    limit: Duration,
    work: impl FnOnce() -> Result<T, SqliteFault>,
) -> Result<Option<T>, SqliteFault> {
    let (handle, (done, ended)) = (db.get_interrupt_handle(), mpsc::channel::<()>());
    let outcome = thread::scope(|scope| {
        let watch = move || {
            let mut wait = limit;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                handle.interrupt();
                wait = REPEAT_INTERVAL;
            }
        };
        if let Err(error) = thread::Builder::new().name("search-timer".into()).spawn_scoped(scope, watch) {
            tracing::warn!(%error, "search: no thread for its timer, refusing the search");
            return Ok(None);
        }
        let outcome = work();
        drop(done);
        outcome.map(Some)
    });
    match outcome {
        Err(SqliteFault::Database(error)) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            Ok(None)
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_without_end_ends() {
        let db = Connection::open_in_memory().expect("a database");
        let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
        let count = || Ok(db.query_row(endless, [], |row| row.get::<_, i64>(0))?);
        assert_eq!(within(&db, Duration::from_millis(1), count).expect("no other fault"), None);
        let one = || Ok(db.query_row("SELECT 1", [], |row| row.get::<_, i64>(0))?);
        assert_eq!(within(&db, Duration::from_secs(600), one).expect("no fault"), Some(1), "the connection goes on");
    }

    /// FTS5 reads the words with a prefix before it yields the first match.
    #[test]
    fn a_prefix_of_many_words_is_interrupted() {
        let db = Connection::open_in_memory().expect("a database");
        db.execute_batch(
            "CREATE VIRTUAL TABLE words USING fts5(text, content = '', contentless_delete = 1);
             WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20000)
             INSERT INTO words (rowid, text) SELECT x, 'w' || x FROM n",
        )
        .expect("an index");
        let search = |words: &str| {
            let found = db.query_row("SELECT count(*) FROM words WHERE words MATCH ?1", [words], |row| row.get(0));
            Ok(found?)
        };
        assert_eq!(within(&db, Duration::from_secs(600), || search("w1 *")).expect("no fault"), Some(11_111_i64));
        // Repeated, so that however fast the machine is an interrupt comes in the middle of one.
        let ended = within(&db, Duration::ZERO, || {
            loop {
                search("w *")?;
            }
        });
        assert_eq!(ended.expect("no other fault"), None::<()>);
    }
}
