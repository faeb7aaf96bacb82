//! Crashes in the middle: nothing twice, nothing lost, in order. So it is when another process takes over.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use salon_bridges::config::BridgeConfig;
use salon_bridges::runner::{self, BridgeRun, BridgeStatus, SharedState};
use salon_bridges::store::BridgeStore;
use salon_client::protocol::Envelope;
use salon_client::{Client, Event, Events, Gateway, Outgoing, Room, StaticToken};
use salon_testkit::{Scratch, TestEngine, TestGateway, TestOptions, TestToken, eventually, within};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::platform::{CrashyPlatform, Writing};

/// How many messages go each way, and after how many the bridge crashes.
const COUNT: usize = 120;
const CRASH_EVERY: usize = 17;

fn up() -> Vec<String> {
    (0..COUNT).map(|number| format!("up {number}")).collect()
}

#[derive(Default)]
struct MemoryState(Mutex<HashMap<String, Vec<u8>>>);

impl SharedState for MemoryState {
    fn read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, String>> {
        async move { Ok(self.0.lock().get(name).cloned()) }.boxed()
    }

    fn keep<'a>(&'a self, name: &'a str, value: Vec<u8>) -> BoxFuture<'a, Result<(), String>> {
        self.0.lock().insert(name.to_owned(), value);
        async { Ok(()) }.boxed()
    }
}

struct Stage {
    gateway: TestGateway,
    platform: Arc<CrashyPlatform>,
    config: BridgeConfig,
    token: String,
    shared: Option<Arc<MemoryState>>,
    folder: Scratch,
}

impl Stage {
    async fn set(shared: Option<Arc<MemoryState>>) -> Self {
        let options = TestOptions::new(TestEngine::Sqlite)
            .set("auth.namespaces", "fake:*=bridge:lab")
            .and_then(|options| options.set("limits.rate", "0"))
            .expect("settings");
        let gateway = TestGateway::start(options).await.expect("a gateway");
        let mut token = TestToken::new("bridge:lab");
        token.claim("acts_for", "fake:*").expect("a claim");
        let token = gateway.token(&token).expect("a token");
        let folder = Scratch::new().expect("a folder");
        let section = "platform = 'fake'\nchannels = { '#lab' = 'room:lab' }";
        let config =
            BridgeConfig::read("lab", &toml::from_str(section).expect("TOML"), folder.path()).expect("a bridge");
        Self { gateway, platform: Arc::default(), config, token, shared, folder }
    }

    fn client(&self, token: String) -> Client {
        let address = Gateway::new(&format!("http://{}", self.gateway.address())).expect("an address");
        Client::new(address, StaticToken::new(token))
    }

    async fn join(&self, id: &str) -> (Room, Events) {
        let token = self.gateway.token(&TestToken::new(id)).expect("a token");
        let client = self.client(token);
        client.room("room:lab".parse().expect("a topic")).join_listening().await.expect("in the room")
    }

    fn store(&self, process: usize) -> PathBuf {
        self.folder.path().join(format!("{process}.sqlite"))
    }

    /// Starts the bridge, as a process that has its own store, and waits until it is in the room.
    async fn start(&self, process: usize) -> JoinHandle<()> {
        let run = BridgeRun {
            config: self.config.clone(),
            driver: self.platform.clone(),
            client: self.client(self.token.clone()),
            store: self.store(process),
            shared: self.shared.clone().map(|shared| shared as Arc<dyn SharedState>),
        };
        // What the process before was storing when it crashed is stored, or not, before the file is free.
        let store = self.store(process);
        let is_free = async || (!store.exists() || BridgeStore::open(&store, [0; 32]).is_ok()).then_some(());
        eventually("the store is free", is_free).await.expect("it is");
        let entered = Arc::new(Notify::new());
        let listener = entered.clone();
        let hear = move |status: &BridgeStatus| {
            if matches!(status, BridgeStatus::RoomEntered { .. }) {
                listener.notify_one();
            }
        };
        let running = tokio::spawn(async move {
            let ended = runner::run(run, CancellationToken::new(), Arc::new(hear)).await;
            panic!("nobody stopped it: {ended:?}");
        });
        within("the bridge enters the room", entered.notified()).await.expect("it does");
        running
    }

    /// Ends everything of the bridge at once, as a crash does.
    async fn crash(&self, running: JoinHandle<()>) {
        running.abort();
        assert!(running.await.is_err_and(|error| error.is_cancelled()), "the bridge ran until now");
        let is_gone = async || (Arc::strong_count(&self.platform) == 1).then_some(());
        eventually("its tasks have ended", is_gone).await.expect("they do");
    }

    /// Both sides write, and the bridge crashes again and again. A reader of the room gets what was written on the platform.
    async fn converse(&self, processes: usize) -> Vec<String> {
        let (alice, mut heard) = self.join("alice").await;
        let mut running = self.start(0).await;
        let mut crashes = 0;
        let mut shown = 0;
        for number in 0..COUNT {
            self.platform.write(Writing::new(&format!("up {number}")));
            alice.say(&format!("down {number}")).await.expect("said");
            if number % CRASH_EVERY == CRASH_EVERY - 1 {
                // Each start of the bridge shows something of what was said since, and is likely to have more to show when it crashes.
                let moving = async || (self.platform.taken().len() > shown).then_some(());
                eventually("the bridge shows something", moving).await.expect("it does");
                self.crash(running).await;
                shown = self.platform.taken().len();
                crashes += 1;
                running = self.start(crashes % processes).await;
            }
        }
        assert!(crashes >= 6, "{crashes}");
        let all = async || (self.platform.taken().len() >= COUNT).then_some(());
        eventually("everything is shown", all).await.expect("it is");
        let mut texts = Vec::new();
        let mut missing: BTreeSet<String> = up().into_iter().collect();
        let mut hear = async |missing: &mut BTreeSet<String>| match heard.next().await.expect("the room goes on") {
            Event::Envelope(envelope) if envelope.from().as_str().starts_with("fake:") => {
                let text = envelope.chat().map(|chat| chat.text.to_string()).unwrap_or_default();
                missing.remove(&text);
                texts.push(text);
            }
            _ => {}
        };
        // What a process had taken from the platform when it crashed is in its own store, so each comes back once more.
        for process in 0..processes {
            self.crash(running).await;
            running = self.start(process).await;
            let marker = format!("marker {process}");
            self.platform.write(Writing::new(&marker));
            missing.insert(marker.clone());
            let reading = async {
                while missing.contains(&marker) {
                    hear(&mut missing).await;
                }
            };
            within(&marker, reading).await.expect("it is in the room");
        }
        assert!(missing.is_empty(), "never in the room: {missing:?}");
        self.crash(running).await;
        texts.retain(|text| text.starts_with("up "));
        let expected: Vec<_> = (0..COUNT).map(|number| format!("down {number}")).collect();
        assert_eq!(self.platform.taken(), expected, "on the platform, once and in order");
        texts
    }
}

#[tokio::test]
async fn nothing_is_lost_or_repeated_when_the_bridge_crashes() {
    let texts = Stage::set(None).await.converse(1).await;
    assert_eq!(texts, up(), "in the room, once and in order");
}

#[tokio::test]
async fn nothing_is_repeated_when_another_process_takes_over() {
    let mut texts = Stage::set(Some(Arc::default())).await.converse(2).await;
    // What waits in the store of a process that is away comes later.
    texts.sort_by_key(|text| text.strip_prefix("up ").and_then(|number| number.parse::<usize>().ok()));
    assert_eq!(texts, up(), "in the room, once");
}

/// The next envelope of a ghost with a text, also where it edits one.
async fn heard(events: &mut Events, text: &str) -> Arc<Envelope> {
    let reading = async {
        loop {
            if let Event::Envelope(envelope) = events.next().await.expect("the room goes on")
                && envelope.from().as_str().starts_with("fake:")
                && envelope.chat().is_some_and(|chat| chat.text == text)
            {
                return envelope;
            }
        }
    };
    within(text, reading).await.expect("it is in the room")
}

/// Messages that one process has mirrored are known to the next, which has another store.
#[tokio::test]
async fn a_process_that_takes_over_replies_to_and_edits_what_the_other_mirrored() {
    let stage = Stage::set(Some(Arc::default())).await;
    let (alice, mut events) = stage.join("alice").await;
    let running = stage.start(0).await;
    let first = alice.say("first").await.expect("said");
    stage.platform.write(Writing::new("hello"));
    let hello = heard(&mut events, "hello").await;
    // What comes after it is stored, so that it is.
    stage.platform.write(Writing::new("hello again"));
    heard(&mut events, "hello again").await;
    let shown = async || (stage.platform.taken() == ["first"]).then_some(());
    eventually("the platform has the message", shown).await.expect("it has");
    alice.say("stored").await.expect("said");
    let shown = async || (stage.platform.taken().len() == 2).then_some(());
    eventually("the message before it is stored", shown).await.expect("it is");
    stage.crash(running).await;

    let running = stage.start(1).await;
    alice.reply(hello.id(), "indeed").await.expect("said");
    let edit = serde_json::json!({"jsonrpc": "2.0", "method": "notifications/chat/edit", "params": {"text": "First", "format": "plain"}});
    let edit = Outgoing::new(serde_json::value::to_raw_value(&edit).expect("JSON")).correlation(first.id().clone());
    alice.publish(edit).await.expect("said");
    let related = async || (stage.platform.related().len() == 2).then_some(());
    eventually("a reply and an edit", related).await.expect("they are shown");
    assert_eq!(stage.platform.related(), ["reply to written-0: indeed", "edit of own-0: First"]);

    stage.platform.write(Writing::reply("own-0", "yes"));
    assert_eq!(heard(&mut events, "yes").await.correlation(), Some(first.id()));
    stage.platform.write(Writing::edit("written-0", "Hello"));
    assert_eq!(heard(&mut events, "Hello").await.correlation(), Some(hello.id()));
    stage.crash(running).await;
}
