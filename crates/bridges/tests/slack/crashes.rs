//! A room bridged to the stand-in: a thousand messages each way, while the bridge is killed in the middle.

use salon_client::{Client, Event, Gateway, StaticToken};
use salon_testkit::{Scratch, TestEngine, TestGateway, TestOptions, TestToken, eventually, within};
use serde_json::json;

use crate::bridge::{BridgeProcess, SECTION};
use crate::{SECRET, StandIn, free_port, try_post};

const COUNT: usize = 1000;
/// After how many messages both sides are compared. The history that the bridge reads after a crash has 100, of both sides.
const CHECK_EVERY: usize = 20;

fn texts(word: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{word} {number}")).collect()
}

pub(crate) async fn run() {
    let slack = StandIn::start().await;
    let options = TestOptions::new(TestEngine::Sqlite)
        .set("auth.namespaces", "slack:*=bridge:lab")
        .and_then(|options| options.set("limits.rate", "0"))
        .expect("settings");
    let gateway = TestGateway::start(options).await.expect("a gateway");
    let mut token = TestToken::new("bridge:lab");
    token.claim("acts_for", "slack:*").expect("a claim");
    let token = gateway.token(&token).expect("a token");
    let address = format!("http://{}", gateway.address());

    let folder = Scratch::new().expect("a folder");
    for (name, text) in [("token", "xoxb-salon"), ("secret", SECRET)] {
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("a secret");
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a private file");
    }
    let port = free_port();
    let section = format!(
        "platform = 'slack'\ntoken_file = 'token'\nsigning_secret_file = 'secret'\nlisten = '127.0.0.1:{port}'\n\
         api = '{}'\nmessage_interval_ms = 0\nchannels = {{ '{}' = 'room:lab' }}",
        slack.base, slack.channel
    );
    std::fs::write(folder.path().join(SECTION), section).expect("a section");
    let endpoint = format!("http://127.0.0.1:{port}/slack/events");

    let alice = gateway.token(&TestToken::new("alice")).expect("a token");
    let client = Client::new(Gateway::new(&address).expect("an address"), StaticToken::new(alice));
    let entering = client.room("room:lab".parse().expect("a topic")).name("alice");
    let (alice, mut events) = entering.join_listening().await.expect("in the room");
    let start = || BridgeProcess::start(folder.path(), &address, &token);
    let mut bridge = start();
    // A bridge begins with what is said once it is there.
    let is_there = async || alice.roster().iter().any(|one| one.id.as_str() == "bridge:lab").then_some(());
    eventually("the bridge is in the room", is_there).await.expect("it is");

    // Slack posts an event again that was not accepted.
    let deliver = async |body: serde_json::Value| {
        let posting = async || (try_post(&endpoint, &body, 0).await?.0 == 200).then_some(());
        eventually("the bridge accepts an event", posting).await.expect("it does");
    };
    let mut heard = Vec::new();
    for number in 0..COUNT {
        let person = if number % 2 == 0 { "ann" } else { "bob" };
        let message = slack.write(person, &format!("up {number}"), None).await;
        let event = json!({"type": "event_callback", "event_id": format!("Ev{number}"), "event": message});
        alice.say(&format!("down {number}")).await.expect("said");
        if number % 250 == 130 {
            bridge.kill();
            bridge = start();
        }
        deliver(event).await;
        if number % CHECK_EVERY == CHECK_EVERY - 1 {
            let hearing = async {
                while heard.len() <= number {
                    if let Event::Envelope(envelope) = events.next().await.expect("the room goes on")
                        && envelope.from().as_str().starts_with("slack:")
                    {
                        heard.extend(envelope.chat().map(|chat| chat.text.to_string()));
                    }
                }
            };
            within(&format!("up {number}"), hearing).await.expect("it is in the room");
            let last = format!("down {number}");
            let looking = async || (slack.newest_of_the_bridge().await? == last).then_some(());
            eventually(&last, looking).await.expect("it is on the platform");
        }
    }
    assert_eq!(heard, texts("up", COUNT), "in the room, once and in order");
    assert_eq!(slack.texts_of_the_bridge().await, texts("down", COUNT), "on the platform, once and in order");
}
