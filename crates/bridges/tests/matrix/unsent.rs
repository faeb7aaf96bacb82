//! Events that the homeserver has and never hands over. Nothing tells the bridge of them.

use std::sync::Arc;
use std::time::Duration;

use salon_bridges::config::BridgeConfig;
use salon_bridges::matrix;
use salon_bridges::platform::{PlatformDriver, PlatformEvent, PlatformEvents, PlatformMessageId, ReportedEvent};
use salon_testkit::{Scratch, within};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::fake_homeserver::{FakeHomeserver, ROOM};
use crate::synapse::free_port;

const HS_TOKEN: &str = "of-the-homeserver";
/// Longer than a test takes.
const NEVER: Duration = Duration::from_secs(3600);

struct Connected {
    homeserver: FakeHomeserver,
    bridge: String,
    events: mpsc::Receiver<ReportedEvent>,
    stop: CancellationToken,
    _folder: Scratch,
}

impl Connected {
    /// A bridge in the room. `written` is there before it starts, and `newest` is what an earlier run has stored of it.
    async fn start(look_interval: Duration, written: &[&str], newest: Option<&str>) -> Self {
        let homeserver = FakeHomeserver::start().await;
        written.iter().for_each(|text| drop(homeserver.write(text)));
        Self::start_with(homeserver, look_interval, newest).await
    }

    async fn start_with(homeserver: FakeHomeserver, look_interval: Duration, newest: Option<&str>) -> Self {
        let folder = Scratch::new().expect("a folder");
        for (name, token) in [("as", "of-the-bridge"), ("hs", HS_TOKEN)] {
            let path = folder.path().join(name);
            std::fs::write(&path, token).expect("a token");
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("private");
        }
        let listen = format!("127.0.0.1:{}", free_port());
        let section = format!(
            "platform = 'matrix'\nhomeserver = '{}'\nserver_name = 'salon.test'\nlisten = '{listen}'\nas_token_file = 'as'\n\
             hs_token_file = 'hs'\nlook_interval_ms = {}\nchannels = {{ '{ROOM}' = 'room:lab' }}",
            homeserver.url,
            look_interval.as_millis(),
        );
        let config = BridgeConfig::read("lab", &toml::from_str(&section).expect("TOML"), folder.path());
        let driver = matrix::open(&config.expect("a bridge")).expect("a driver");
        if let Some(newest) = newest {
            driver.begin(&salon_bridges::platform::PlatformChannel::new(ROOM), PlatformMessageId::new(newest));
        }
        let (sender, events) = PlatformEvents::channel(16);
        let stop = CancellationToken::new();
        let running: Arc<dyn PlatformDriver> = driver;
        tokio::spawn(running.run(sender, stop.clone()));
        let mut connected = Self { homeserver, bridge: format!("http://{listen}"), events, stop, _folder: folder };
        // Own messages would be reported before.
        let first =
            connected.until(|event| matches!(event, PlatformEvent::CaughtUp | PlatformEvent::Echo { .. })).await;
        assert_eq!(first, PlatformEvent::CaughtUp);
        connected
    }

    async fn until(&mut self, fits: impl Fn(&PlatformEvent) -> bool) -> PlatformEvent {
        let waiting = async {
            loop {
                let reported = self.events.recv().await.expect("the driver runs");
                if let Some(stored) = reported.stored {
                    let _ = stored.send(());
                }
                if fits(&reported.event) {
                    return reported.event;
                }
            }
        };
        within("an event of the driver", waiting).await.expect("it comes")
    }

    /// The texts of the next messages.
    async fn hears(&mut self, count: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for _ in 0..count {
            let event = self.until(|event| matches!(event, PlatformEvent::Message(_))).await;
            let PlatformEvent::Message(message) = event else { unreachable!() };
            texts.push(salon_bridges::rich::render(&message.content, salon_bridges::rich::Flavour::Plain));
        }
        texts
    }

    /// Hands events over, while the bridge's reports are read.
    async fn hand_over(&mut self, events: &[&Value], messages: usize) -> Vec<String> {
        let bridge = self.bridge.clone();
        let Self { homeserver, events: reports, .. } = self;
        let handing = homeserver.hand_over(&bridge, HS_TOKEN, events);
        let reading = async {
            let mut texts = Vec::new();
            while texts.len() < messages {
                let reported = reports.recv().await.expect("the driver runs");
                if let Some(stored) = reported.stored {
                    let _ = stored.send(());
                }
                if let PlatformEvent::Message(message) = reported.event {
                    texts.push(salon_bridges::rich::render(&message.content, salon_bridges::rich::Flavour::Plain));
                }
            }
            texts
        };
        let (status, texts) = within("a transaction", async { tokio::join!(handing, reading) }).await.expect("taken");
        assert_eq!(status, 200);
        texts
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The next event that is handed over shows that there were others before it.
pub(crate) async fn before_the_next() {
    let mut bridge = Connected::start(NEVER, &[], None).await;
    let first = bridge.homeserver.write("first");
    assert_eq!(bridge.hand_over(&[&first], 1).await, ["first"]);
    // More than one page of the history.
    let lost: Vec<String> = (0..150).map(|number| format!("lost {number}")).collect();
    lost.iter().for_each(|text| drop(bridge.homeserver.write(text)));
    let (next, last) = (bridge.homeserver.write("next"), bridge.homeserver.write("last"));
    let mut expected = lost;
    expected.extend(["next".to_owned(), "last".into()]);
    assert_eq!(bridge.hand_over(&[&next, &last], expected.len()).await, expected);
}

/// Where nothing is handed over afterwards, the bridge looks from time to time.
pub(crate) async fn after_the_last() {
    let mut bridge = Connected::start(Duration::from_millis(50), &[], None).await;
    let first = bridge.homeserver.write("first");
    assert_eq!(bridge.hand_over(&[&first], 1).await, ["first"]);
    bridge.homeserver.write("lost");
    assert_eq!(bridge.hears(1).await, ["lost"]);
}

/// Both were away: the bridge knows from its store what it had, and takes nothing of before.
pub(crate) async fn while_both_were_away() {
    let mut bridge = Connected::start(NEVER, &["old", "stored", "lost"], Some("$1")).await;
    assert_eq!(bridge.hears(1).await, ["lost"]);
    let next = bridge.homeserver.write("next");
    assert_eq!(bridge.hand_over(&[&next], 1).await, ["next"]);
    // A bridge that was never here before has no claim to what was written then.
    let mut new = Connected::start(NEVER, &["old"], None).await;
    let first = new.homeserver.write("first");
    assert_eq!(new.hand_over(&[&first], 1).await, ["first"]);
}

/// Everybody can write the member by which the bridge knows its own messages. Nobody else can be their sender.
pub(crate) async fn a_key_of_a_person() {
    let homeserver = FakeHomeserver::start().await;
    homeserver.write_content(json!({"msgtype": "m.text", "body": "forged", "chat.salon.key": "k1"}));
    drop(Connected::start_with(homeserver, NEVER, None).await);
}

/// Without the homeserver's token no large request is read.
pub(crate) async fn a_request_of_a_stranger() {
    let mut bridge = Connected::start(NEVER, &[], None).await;
    let large = Value::from("x".repeat(1 << 20));
    let url = bridge.bridge.clone();
    assert_eq!(bridge.homeserver.hand_over(&url, "guessed", &[]).await, 403);
    assert_eq!(bridge.homeserver.hand_over(&url, "guessed", &[&large]).await, 413);
    assert_eq!(bridge.homeserver.hand_over(&url, HS_TOKEN, &[&large]).await, 200);
}
