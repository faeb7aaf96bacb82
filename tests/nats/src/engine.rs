//! The log on NATS keeps the contract, on one server and on three.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use libtest_mimic::Trial;
use salon_log::cluster::{Cluster, Keyspace};
use salon_log::context::ContextLimits;
use salon_log::files::{FileError, FileId, FileQuotas, FileScope, NewFile};
use salon_log::nats::{Nats, NatsFiles, NatsOptions, Timings};
use salon_log::search::{ScanBounds, ScanSearch};
use salon_log::{AppendError, FileStore, RetentionRules, StoredQuotas, TopicLog, TopicSearch, contract};
use salon_protocol::{ParticipantId, Timestamp, TopicName};
use salon_testkit::nats::NatsServers;
use salon_testkit::nats_trials;
use serde_json::json;

use crate::props::{envelope, options};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        one_server_keeps_the_contract,
        one_server_keeps_the_contract_of_contexts,
        one_server_keeps_the_contract_of_search,
        one_server_keeps_the_contract_of_files,
        three_servers_keep_the_contract,
        three_servers_keep_the_contract_of_contexts,
        three_servers_keep_the_contract_of_files,
        gateways_count_each_others_files,
        one_server_keeps_the_contract_of_clusters,
        three_servers_keep_the_contract_of_clusters,
        what_a_quota_forbids_is_refused_without_a_round_trip_each,
    ]
}

/// Every write to a cluster waits for two servers, so ten thousand of them, one after the other, are too many for a test. On SQLite, the
/// same checks are done with what gateways have.
const BOUNDS: ContextLimits = ContextLimits { keys: 200, tools: 50 };

/// How many streams share the topics of a log: fewer than gateways have, because every check makes a log of its own.
const SHARDS: u16 = 3;

/// Nothing here waits for one of these times; they only end what a cluster on a busy machine takes long to do.
const PATIENT: Timings =
    Timings { append_timeout: Duration::from_secs(60), retry_timeout: Duration::from_secs(60), ..Timings::NORMAL };

/// Logs on the same servers, each with a name of its own.
pub(crate) struct OnServers {
    servers: NatsServers,
    count: AtomicUsize,
    /// How each log was opened, by its name.
    opened: Mutex<HashMap<String, NatsOptions>>,
}

impl OnServers {
    pub(crate) fn new(servers: NatsServers) -> Self {
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
        let options = NatsOptions { name, retention, quotas, shards: SHARDS, ..options(&self.servers) };
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

impl contract::search::SearchEngine for OnServers {
    fn search(&self, log: &Arc<Nats>) -> Arc<dyn TopicSearch> {
        Arc::new(ScanSearch::new(log.clone(), ScanBounds::default()))
    }
}

impl contract::files::FileEngine for OnServers {
    type Store = NatsFiles;

    async fn create(&self, quotas: FileQuotas) -> NatsFiles {
        let log = Arc::new(contract::LogEngine::create(self, RetentionRules::default()).await);
        NatsFiles::open(&log, quotas).await.expect("files")
    }

    async fn restart(&self, store: NatsFiles) -> NatsFiles {
        let (log, quotas) = (store.log().clone(), store.quotas());
        drop(store);
        log.close().await;
        let options = self.opened.lock().expect("unpoisoned")[log.name()].clone();
        NatsFiles::open(&Arc::new(self.open(options).await), quotas).await.expect("files")
    }
}

async fn gateways_count_each_others_files() {
    let engine = OnServers::new(NatsServers::one().await.expect("a NATS server"));
    let log = contract::LogEngine::create(&engine, RetentionRules::default()).await;
    let options = engine.opened.lock().expect("unpoisoned")[log.name()].clone();
    let quotas = FileQuotas { topic: 1000, ..FileQuotas::default() };
    let one = NatsFiles::open(&Arc::new(log), quotas).await.expect("files");
    let two = NatsFiles::open(&Arc::new(engine.open(options).await), quotas).await.expect("files");
    let file = |number: u8| NewFile {
        id: FileId::from_bytes([number; 16]),
        topic: TopicName::new("room:a").expect("a name"),
        name: "a".parse().expect("a name"),
        mime_type: "text/plain".into(),
        author: ParticipantId::new("alice").expect("an id"),
        created: Timestamp(1),
    };
    let put = async |store: &NatsFiles, number: u8, length: usize| {
        let mut upload = store.begin(file(number)).await?;
        upload.write(vec![number; length].into()).await?;
        upload.finish("00".into()).await
    };
    put(&one, 1, 800).await.expect("stored");
    let full = Err(FileError::Quota { scope: FileScope::Topic, limit: 1000 });
    assert_eq!(put(&two, 2, 300).await, full, "what another gateway has stored does not count");
    let listed = two.list().await.expect("listed");
    assert_eq!(listed.len(), 1, "a file of another gateway is not listed, or one that was refused is");
    assert_eq!(one.read(&file(1).topic, &file(1).id, 799).await, Ok(vec![1].into()));
    two.remove(&file(1).topic, &file(1).id).await.expect("removed");
    assert_eq!(one.read(&file(1).topic, &file(1).id, 0).await.map(|bytes| bytes.len()), Ok(0));
    put(&one, 3, 300).await.expect("there is room again");
    one.log().close().await;
    two.log().close().await;
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

async fn one_server_keeps_the_contract_of_search() {
    let servers = NatsServers::one().await.expect("a NATS server");
    contract::search::run(&OnServers::new(servers)).await;
}

async fn one_server_keeps_the_contract_of_files() {
    let servers = NatsServers::one().await.expect("a NATS server");
    contract::files::run(&OnServers::new(servers)).await;
}

async fn three_servers_keep_the_contract_of_files() {
    let servers = NatsServers::three().await.expect("three NATS servers");
    contract::files::run(&OnServers::new(servers)).await;
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
