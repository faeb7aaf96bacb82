//! Copying topics between logs on NATS, and between those and SQLite.

use libtest_mimic::Trial;
use salon_log::nats::{Nats, NatsOptions, NatsPurpose};
use salon_log::sqlite::{Sqlite, SqliteOptions};
use salon_log::{Durability, RetentionRules, StoredQuotas, TopicLog, contract};
use salon_testkit::nats::NatsServers;
use salon_testkit::nats_trials;

use crate::engine::OnServers;
use crate::props::{line, options, room};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        topics_of_sqlite_are_copied_to_one_server,
        topics_of_sqlite_are_copied_to_three_servers,
        topics_are_copied_to_another_log_on_a_server,
        topics_are_copied_to_sqlite,
        a_log_that_is_not_there_is_not_made_to_be_copied,
        a_log_in_use_is_not_copied_into,
    ]
}

/// Logs in directories for temporary files.
struct InTemporary;

impl contract::LogEngine for InTemporary {
    type Log = Sqlite;

    async fn create(&self, retention: RetentionRules) -> Sqlite {
        contract::LogEngine::create_with(self, retention, StoredQuotas::default()).await
    }

    async fn create_with(&self, retention: RetentionRules, quotas: StoredQuotas) -> Sqlite {
        let options = SqliteOptions { durability: Durability::Os, retention, quotas, ..SqliteOptions::default() };
        Sqlite::temporary(options).expect("a log")
    }

    /// Its directory would be gone. What SQLite has after a restart is tested beside it.
    async fn restart(&self, log: Sqlite) -> Sqlite {
        log
    }

    async fn trim(&self, log: &Sqlite) {
        log.trim_now().await;
    }
}

async fn topics_of_sqlite_are_copied_to_one_server() {
    let servers = NatsServers::one().await.expect("a NATS server");
    contract::transfer::run(&InTemporary, &OnServers::new(servers)).await;
}

async fn topics_of_sqlite_are_copied_to_three_servers() {
    let servers = NatsServers::three().await.expect("three NATS servers");
    contract::transfer::run(&InTemporary, &OnServers::new(servers)).await;
}

async fn topics_are_copied_to_another_log_on_a_server() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let engine = OnServers::new(servers);
    contract::transfer::run(&engine, &engine).await;
}

async fn topics_are_copied_to_sqlite() {
    let servers = NatsServers::one().await.expect("a NATS server");
    contract::transfer::run(&OnServers::new(servers), &InTemporary).await;
}

async fn refusal(options: NatsOptions) -> String {
    match Nats::open(options).await {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    }
}

async fn a_log_that_is_not_there_is_not_made_to_be_copied() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let source = NatsOptions { purpose: NatsPurpose::CopyFrom, ..options(&servers) };
    for _ in 0..2 {
        assert_eq!(refusal(source.clone()).await, "there is no log `salon` on these NATS servers");
    }
    let gateway = Nats::open(options(&servers)).await.expect("a gateway");
    gateway.append(&room(), line("e1")).await.expect("stored");
    // One that is in use can be copied.
    let log = Nats::open(source).await.expect("a log to copy");
    assert_eq!(log.topics().await.expect("a list").len(), 1);
    log.close().await;
    gateway.close().await;
}

async fn a_log_in_use_is_not_copied_into() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let copy = NatsOptions { purpose: NatsPurpose::CopyTo, ..options(&servers) };
    let gateway = Nats::open(options(&servers)).await.expect("a gateway");
    let told = refusal(copy.clone()).await;
    assert_eq!(told, "the log `salon` is in use by a gateway, or was until a moment ago");
    gateway.append(&room(), line("e1")).await.expect("the gateway goes on");
    gateway.close().await;
    let log = Nats::open(copy).await.expect("nobody has it open any more");
    log.close().await;
}
