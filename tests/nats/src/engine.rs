//! The log on NATS keeps the contract, on one server and on three.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use libtest_mimic::Trial;
use salon_log::cluster::{Cluster, Keyspace};
use salon_log::context::ContextLimits;
use salon_log::nats::{Nats, NatsOptions, Timings};
use salon_log::{AppendError, RetentionRules, StoredQuotas, TopicLog, contract};
use salon_protocol::TopicName;
use salon_testkit::nats::NatsServers;
use salon_testkit::nats_trials;
use serde_json::json;

use crate::props::{envelope, options};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        one_server_keeps_the_contract,
        one_server_keeps_the_contract_of_contexts,
        three_servers_keep_the_contract,
        three_servers_keep_the_contract_of_contexts,
        one_server_keeps_the_contract_of_clusters,
        three_servers_keep_the_contract_of_clusters,
        what_a_quota_forbids_is_refused_without_a_round_trip_each,
    ]
}

/// Every write to a cluster waits for two servers, so ten thousand of them, one after the other, are too many for a test. On SQLite, the
/// same checks are done with what gateways have.
const BOUNDS: ContextLimits = ContextLimits { keys: 200, tools: 50 };

/// Nothing here waits for one of these times; they only end what a cluster on a busy machine takes long to do.
const PATIENT: Timings =
    Timings { append_timeout: Duration::from_secs(60), retry_timeout: Duration::from_secs(60), ..Timings::NORMAL };

/// Logs on the same servers, each with a name of its own.
struct OnServers {
    servers: NatsServers,
    count: AtomicUsize,
    /// How each log was opened, by its name.
    opened: Mutex<HashMap<String, NatsOptions>>,
}

impl OnServers {
    fn new(servers: NatsServers) -> Self {
        Self { servers, count: AtomicUsize::new(0), opened: Mutex::default() }
    }

    async fn open(&self, options: NatsOptions) -> Nats {
        self.opened.lock().expect("unpoisoned").insert(options.name.clone(), options.clone());
        Nats::open(options).await.expect("a log")
    }
}

impl contract::LogEngine for OnServers {
    type Log = Nats;

    async fn create(&self, retention: RetentionRules) -> Nats {
        contract::LogEngine::create_with(self, retention, StoredQuotas::default()).await
    }

    async fn create_with(&self, retention: RetentionRules, quotas: StoredQuotas) -> Nats {
        let name = format!("t{}", self.count.fetch_add(1, Ordering::Relaxed));
        let options = NatsOptions { name, retention, quotas, ..options(&self.servers) };
        self.open(NatsOptions { timings: PATIENT, context_bounds: BOUNDS, ..options }).await
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

impl contract::context::ContextEngine for OnServers {
    type Store = Nats;

    async fn create(&self) -> Nats {
        contract::LogEngine::create(self, RetentionRules::default()).await
    }

    async fn create_with(&self, quotas: StoredQuotas) -> Nats {
        contract::LogEngine::create_with(self, RetentionRules::default(), quotas).await
    }

    async fn restart(&self, store: Nats) -> Nats {
        contract::LogEngine::restart(self, store).await
    }

    fn bounds(&self) -> ContextLimits {
        BOUNDS
    }

    async fn close(&self, store: &Nats) {
        TopicLog::close(store).await;
    }
}

impl contract::cluster::ClusterEngine for OnServers {
    async fn nodes(&self, spaces: &[Keyspace]) -> [Arc<dyn Cluster>; 2] {
        let name = format!("t{}", self.count.fetch_add(1, Ordering::Relaxed));
        let options = NatsOptions { name, timings: PATIENT, keyspaces: spaces.to_vec(), ..options(&self.servers) };
        let (one, two) = (self.open(options.clone()).await, self.open(options).await);
        let nodes: [Arc<dyn Cluster>; 2] = [Arc::new(one), Arc::new(two)];
        nodes
    }
}

async fn what_a_quota_forbids_is_refused_without_a_round_trip_each() {
    let engine = OnServers::new(NatsServers::one().await.expect("a NATS server"));
    let quotas = StoredQuotas { participant: 1000, ..StoredQuotas::default() };
    let log = contract::LogEngine::create_with(&engine, RetentionRules::default(), quotas).await;
    let room = TopicName::new("room").expect("a name");
    let line = |id: &str, from: &str| {
        let payload =
            json!({ "jsonrpc": "2.0", "method": "notifications/test", "params": { "text": "x".repeat(600) } });
        envelope(id, from, "mcp", &payload.to_string())
    };
    log.append(&room, line("a1", "alice")).await.expect("stored");
    let is_refused = |appended: Result<_, AppendError>| matches!(appended, Err(AppendError::Quota(_)));
    // The first is looked for at the servers, in case it is stored already; the next ones are refused at once meanwhile.
    let looked_for = log.append(&room, line("a2", "alice"));
    for id in ["a3", "a4"] {
        let refused = log.append(&room, line(id, "alice")).now_or_never();
        assert!(refused.is_some_and(is_refused), "{id} waited for a round trip");
    }
    assert!(is_refused(looked_for.await));
    log.append(&room, line("b1", "bobby")).await.expect("others go on");
    let again = log.append(&room, line("a1", "alice")).await.expect("what is stored is known");
    assert!(again.repeated);
    log.close().await;
}

async fn one_server_keeps_the_contract() {
    let servers = NatsServers::one().await.expect("a NATS server");
    contract::run(&OnServers::new(servers)).await;
}

async fn one_server_keeps_the_contract_of_contexts() {
    let servers = NatsServers::one().await.expect("a NATS server");
    contract::context::run(&OnServers::new(servers)).await;
}

async fn three_servers_keep_the_contract() {
    let servers = NatsServers::three().await.expect("three NATS servers");
    contract::run(&OnServers::new(servers)).await;
}

async fn three_servers_keep_the_contract_of_contexts() {
    let servers = NatsServers::three().await.expect("three NATS servers");
    contract::context::run(&OnServers::new(servers)).await;
}

async fn one_server_keeps_the_contract_of_clusters() {
    let servers = NatsServers::one().await.expect("a NATS server");
    contract::cluster::run(&OnServers::new(servers)).await;
}

async fn three_servers_keep_the_contract_of_clusters() {
    let servers = NatsServers::three().await.expect("three NATS servers");
    contract::cluster::run(&OnServers::new(servers)).await;
}
