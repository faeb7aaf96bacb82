//! A room bridged to the stand-in: a thousand messages each way, while limits are hit, answers are lost, connections break, events are repeated, and the
//! bridge crashes.

use std::sync::Arc;

use salon_bridges::config::BridgeConfig;
use salon_bridges::discord;
use salon_bridges::runner::{self, BridgeRun};
use salon_client::{Client, Event, Events, Gateway, Room, StaticToken};
use salon_testkit::{Scratch, TestEngine, TestGateway, TestOptions, TestToken, eventually, within};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fake::{CHANNEL, FakeDiscord, Push, Refusal};

const COUNT: usize = 1000;
/// After how many messages both sides are compared. The history that the bridge reads after a crash has 100.
const CHECK_EVERY: usize = 20;

struct Stage {
    fake: Arc<FakeDiscord>,
    gateway: TestGateway,
    config: BridgeConfig,
    folder: Scratch,
    token: String,
}

impl Stage {
    async fn set() -> Self {
        let options = TestOptions::new(TestEngine::Sqlite)
            .set("auth.namespaces", "discord:*=bridge:lab")
            .and_then(|options| options.set("limits.rate", "0"))
            .expect("settings");
        let gateway = TestGateway::start(options).await.expect("a gateway");
        let mut token = TestToken::new("bridge:lab");
        token.claim("acts_for", "discord:*").expect("a claim");
        let token = gateway.token(&token).expect("a token");
        let fake = FakeDiscord::start().await;
        let folder = Scratch::new().expect("a folder");
        let file = folder.path().join("token");
        std::fs::write(&file, "secret").expect("a token");
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a private file");
        let section = format!(
            "platform = 'discord'\ntoken_file = 'token'\napi = 'http://{}'\nreconnect_ms = 10\nmessage_interval_ms = 0\n\
             channels = {{ '{CHANNEL}' = 'room:lab' }}",
            fake.rest
        );
        let section = toml::from_str(&section).expect("TOML");
        let config = BridgeConfig::read("lab", &section, folder.path()).expect("a bridge");
        Self { fake, gateway, config, folder, token }
    }

    fn client(&self, token: String) -> Client {
        let address = Gateway::new(&format!("http://{}", self.gateway.address())).expect("an address");
        Client::new(address, StaticToken::new(token))
    }

    async fn join(&self, id: &str) -> (Room, Events) {
        let client = self.client(self.gateway.token(&TestToken::new(id)).expect("a token"));
        client.room("room:lab".parse().expect("a topic")).name(id).join_listening().await.expect("in the room")
    }

    fn start(&self) -> JoinHandle<()> {
        let run = BridgeRun {
            config: self.config.clone(),
            driver: discord::open(&self.config).expect("a driver"),
            client: self.client(self.token.clone()),
            store: self.folder.path().join("bridge.sqlite"),
            shared: None,
        };
        tokio::spawn(async move {
            let ended = runner::run(run, CancellationToken::new(), Arc::new(|_| {})).await;
            panic!("nobody stopped it: {ended:?}");
        })
    }

    /// Ends everything of the bridge at once. Its store can be opened when all of it is gone.
    async fn crash(&self, running: JoinHandle<()>) -> JoinHandle<()> {
        running.abort();
        assert!(running.await.is_err_and(|error| error.is_cancelled()), "the bridge ran until now");
        let is_free = async || {
            let opened = salon_bridges::store::BridgeStore::open(&self.folder.path().join("bridge.sqlite"), [0; 32]);
            opened.ok().map(drop)
        };
        eventually("its tasks have ended", is_free).await.expect("they do");
        self.start()
    }
}

fn texts(word: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{word} {number}")).collect()
}

#[tokio::test]
async fn a_thousand_messages_survive_limits_breaks_repetitions_and_crashes() {
    let stage = Stage::set().await;
    let fake = &stage.fake;
    let (alice, mut events) = stage.join("alice").await;
    let mut running = stage.start();
    // A bridge begins with what is said once it is there.
    let is_there = async || alice.roster().iter().any(|one| one.id.as_str() == "bridge:lab").then_some(());
    eventually("the bridge is in the room", is_there).await.expect("it is");
    let mut heard = Vec::new();
    for number in 0..COUNT {
        fake.write("42", &format!("up {number}"));
        alice.say(&format!("down {number}")).await.expect("said");
        match number % 200 {
            30 => fake.refuse_next(Refusal::Limited { retry_after: 0.02, is_global: false }),
            50 => fake.refuse_next(Refusal::Lost),
            70 => fake.push(Push::Close(None)),
            90 => fake.repeat_in_disorder(10),
            110 => fake.push(Push::Close(Some(4000))),
            130 => {
                fake.invalidate_session();
                fake.push(Push::Close(None));
            }
            150 => running = stage.crash(running).await,
            _ => {}
        }
        if number % CHECK_EVERY == CHECK_EVERY - 1 {
            let all = async || (fake.written().len() > number).then_some(());
            eventually(&format!("down {number}"), all).await.expect("it is on the platform");
            let hearing = async {
                while heard.len() <= number {
                    if let Event::Envelope(envelope) = events.next().await.expect("the room goes on")
                        && envelope.from().as_str() == "discord:42"
                    {
                        heard.extend(envelope.chat().map(|chat| chat.text.to_string()));
                    }
                }
            };
            within(&format!("up {number}"), hearing).await.expect("it is in the room");
        }
    }
    let written: Vec<_> = fake.written().into_iter().map(|(_, content)| content).collect();
    assert_eq!(written, texts("down", COUNT), "on the platform, once and in order");
    assert_eq!(heard, texts("up", COUNT), "in the room, once and in order");
    let introductions = fake.introductions();
    assert!(introductions.contains(&"resume"), "{introductions:?}");
    running.abort();
}
