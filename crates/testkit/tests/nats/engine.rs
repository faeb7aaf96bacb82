//! The log on NATS keeps the contract, on one server and on three.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use salon_log::nats::{Nats, Options};
use salon_log::{RetentionRules, TopicLog, contract};
use salon_testkit::nats::{Servers, program};

use crate::props::options;

/// Logs on the same servers, each with a name of its own.
struct OnServers {
    servers: Servers,
    count: AtomicUsize,
    /// How each log was opened, by its name.
    opened: Mutex<HashMap<String, Options>>,
}

impl OnServers {
    fn new(servers: Servers) -> Self {
        Self { servers, count: AtomicUsize::new(0), opened: Mutex::default() }
    }

    async fn open(&self, options: Options) -> Nats {
        self.opened.lock().expect("unpoisoned").insert(options.name.clone(), options.clone());
        Nats::open(options).await.expect("a log")
    }
}

impl contract::Engine for OnServers {
    type Log = Nats;

    async fn create(&self, retention: RetentionRules) -> Nats {
        let name = format!("t{}", self.count.fetch_add(1, Ordering::Relaxed));
        self.open(Options { name, retention, ..options(&self.servers) }).await
    }

    async fn restart(&self, log: Nats) -> Nats {
        let options = self.opened.lock().expect("unpoisoned")[log.name()].clone();
        log.close().await;
        drop(log);
        self.open(options).await
    }

    async fn trim(&self, log: &Nats) {
        log.trim_now().await.expect("retention is applied");
    }
}

impl contract::context::Engine for OnServers {
    type Store = Nats;

    async fn create(&self) -> Nats {
        contract::Engine::create(self, RetentionRules::default()).await
    }

    async fn restart(&self, store: Nats) -> Nats {
        contract::Engine::restart(self, store).await
    }

    async fn close(&self, store: &Nats) {
        TopicLog::close(store).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_keeps_the_contract() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::one(&program).await.expect("a NATS server");
    contract::run(&OnServers::new(servers)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_keeps_the_contract_of_contexts() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::one(&program).await.expect("a NATS server");
    contract::context::run(&OnServers::new(servers)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_keep_the_contract() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::three(&program).await.expect("three NATS servers");
    contract::run(&OnServers::new(servers)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_keep_the_contract_of_contexts() {
    let Some(program) = program().expect("a NATS server") else { return };
    let servers = Servers::three(&program).await.expect("three NATS servers");
    contract::context::run(&OnServers::new(servers)).await;
}
