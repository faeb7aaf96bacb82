mod calls;
mod disk;
mod files;
mod model;
mod retention;
mod search;
mod stored;
mod tails;

use std::collections::HashMap;

use futures_util::StreamExt;
use salon_protocol::FailureCause;

use super::*;
use crate::context::{Address, ContextScope, Key, Write, WriteError};
use crate::contract::{
    self, append, append_lines, asked, caught_up, follow, ids, line, presence, request, start, topic,
};
use crate::{CallClosure, ContextStore, Retention, Tailed, answered_request};

/// A directory for one test, removed at its end.
pub(super) fn directory() -> Temporary {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("salon-log-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    fs::create_dir_all(&path).expect("a directory for temporary files");
    Temporary(path)
}

pub(super) fn quick() -> SqliteOptions {
    SqliteOptions { durability: Durability::Os, ..SqliteOptions::default() }
}

fn rule(age: Option<Duration>, count: Option<u64>) -> RetentionRules {
    RetentionRules { default: Retention { age, count }, topics: HashMap::new() }
}

struct InDirectories(Mutex<HashMap<usize, (Temporary, SqliteOptions)>>, Durability);

impl InDirectories {
    /// A log's address stands for it until it is restarted.
    fn open(&self, directory: Temporary, options: SqliteOptions) -> Sqlite {
        let log = Sqlite::open(&directory.0, options.clone()).expect("a log in an empty directory");
        self.0.lock().insert(Arc::as_ptr(&log.source).addr(), (directory, options));
        log
    }
}

impl contract::LogEngine for InDirectories {
    type Log = Sqlite;

    async fn create(&self, retention: RetentionRules) -> Sqlite {
        contract::LogEngine::create_with(self, retention, StoredQuotas::default()).await
    }

    async fn create_with(&self, retention: RetentionRules, quotas: StoredQuotas) -> Sqlite {
        let options = SqliteOptions { durability: self.1, retention, quotas, ..SqliteOptions::default() };
        let log = self.open(directory(), options);
        // A sweep is due as soon as a log is opened. It must not come in the middle of what a test appends.
        log.trim_now().await;
        log
    }

    async fn restart(&self, log: Sqlite) -> Sqlite {
        let kept = self.0.lock().remove(&Arc::as_ptr(&log.source).addr());
        let (directory, options) = kept.expect("made by this engine");
        drop(log);
        self.open(directory, options)
    }

    async fn trim(&self, log: &Sqlite) {
        log.trim_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_the_contract() {
    contract::run(&InDirectories(Mutex::default(), Durability::Os)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_copied_into_another_log() {
    let engine = InDirectories(Mutex::default(), Durability::Os);
    contract::transfer::run(&engine, &engine).await;
}

impl contract::context::ContextEngine for InDirectories {
    type Store = Sqlite;

    async fn create(&self) -> Sqlite {
        contract::LogEngine::create(self, RetentionRules::default()).await
    }

    async fn create_with(&self, quotas: StoredQuotas) -> Sqlite {
        contract::LogEngine::create_with(self, RetentionRules::default(), quotas).await
    }

    async fn restart(&self, store: Sqlite) -> Sqlite {
        contract::LogEngine::restart(self, store).await
    }

    async fn close(&self, store: &Sqlite) {
        TopicLog::close(store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_the_contract_of_contexts() {
    contract::context::run(&InDirectories(Mutex::default(), Durability::Os)).await;
}

impl contract::files::FileEngine for InDirectories {
    type Store = Sqlite;

    async fn create(&self, files: crate::files::FileQuotas) -> Sqlite {
        self.open(directory(), SqliteOptions { durability: self.1, files, ..SqliteOptions::default() })
    }

    async fn restart(&self, store: Sqlite) -> Sqlite {
        contract::LogEngine::restart(self, store).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_the_contract_of_files() {
    contract::files::run(&InDirectories(Mutex::default(), Durability::Os)).await;
}

impl contract::search::SearchEngine for InDirectories {
    fn search(&self, log: &Arc<Sqlite>) -> Arc<dyn crate::TopicSearch> {
        log.clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_the_contract_of_search() {
    contract::search::run(&InDirectories(Mutex::default(), Durability::Os)).await;
}

/// A key that everybody in a room has, and something to write to it.
pub(super) fn writing(key: &str, value: &str, cause: &str) -> (Address, Write) {
    let key = Key::new(key).expect("a key");
    let author = ParticipantId::new("alice").expect("an id");
    let write = Write { value: Some(value.into()), expected: None, author, cause: cause.into(), requested: None };
    (Address { topic: topic("room"), scope: ContextScope::Topic, key }, write)
}
