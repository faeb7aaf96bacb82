//! The Discord bridge against the stand-in: limits, reconnects, resumed sessions, repeated and disordered events, answers that are lost.
//!
//! Real Discord is reached only by the test `live`.

mod crashes;
mod fake;

use std::sync::Arc;
use std::time::Duration;

use fake::{CHANNEL, FakeDiscord, Push, Refusal};
use salon_bridges::config::BridgeConfig;
use salon_bridges::discord;
use salon_bridges::platform::{
    ActionKey, AuthorOrigin, PlatformAction, PlatformChannel, PlatformDriver, PlatformEvent, PlatformEvents,
    PlatformFailure, PlatformMessageId, RenderedText, ReportedEvent, Speaker,
};
use salon_bridges::rich::{Flavour, render};
use salon_testkit::{Scratch, eventually, within};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

struct Bridge {
    driver: Arc<dyn PlatformDriver>,
    channel: PlatformChannel,
    events: mpsc::Receiver<ReportedEvent>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), salon_bridges::platform::DriverError>>,
    _folder: Scratch,
}

impl Bridge {
    fn start(api: &str, token: &str, channel: &str) -> Self {
        let folder = Scratch::new().expect("a folder");
        let file = folder.path().join("token");
        std::fs::write(&file, token).expect("a token");
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a private file");
        let section = format!(
            "platform = 'discord'\ntoken_file = 'token'\napi = '{api}'\nreconnect_ms = 10\nchannels = {{ '{channel}' = 'room:lab' }}"
        );
        let config =
            BridgeConfig::read("lab", &toml::from_str(&section).expect("TOML"), folder.path()).expect("a bridge");
        let driver = discord::open(&config).expect("a driver");
        let (sender, events) = PlatformEvents::channel(16);
        let stop = CancellationToken::new();
        let (runner, stopped) = (driver.clone(), stop.clone());
        let task = tokio::spawn(async move { runner.run(sender, stopped).await });
        Self { driver, channel: PlatformChannel::new(channel), events, stop, task, _folder: folder }
    }

    async fn with(fake: &FakeDiscord) -> Self {
        let mut bridge = Self::start(&format!("http://{}", fake.rest), "secret", CHANNEL);
        bridge.until(|event| *event == PlatformEvent::CaughtUp).await;
        bridge
    }

    async fn until(&mut self, fits: impl Fn(&PlatformEvent) -> bool) -> PlatformEvent {
        let waiting = async {
            loop {
                let reported = self.events.recv().await.expect("the driver runs");
                if fits(&reported.event) {
                    return reported.event;
                }
            }
        };
        within("an event of the bridge", waiting).await.expect("an event")
    }

    /// The texts that people wrote, until one of them.
    async fn reads_until(&mut self, last: &str) -> Vec<String> {
        let mut texts = Vec::new();
        loop {
            let event = self.until(|event| matches!(event, PlatformEvent::Message(_))).await;
            let PlatformEvent::Message(message) = event else { continue };
            if message.author.origin != AuthorOrigin::Person {
                continue;
            }
            texts.push(render(&message.content, Flavour::Plain));
            if texts.last().is_some_and(|text| text == last) {
                return texts;
            }
        }
    }

    async fn send(&self, key: &str, content: &str) -> Result<Option<PlatformMessageId>, PlatformFailure> {
        let speaker = Speaker { id: "robot".parse().expect("an id"), name: "Robot".into(), kind: None };
        let text = RenderedText { formatted: content.into(), plain: content.into(), mentions: Vec::new() };
        let key = ActionKey::new(key);
        let action = PlatformAction::Send { key, speaker: Some(speaker), text, reply_to: None, sent_at: None };
        self.driver.perform(&self.channel, &action).await.map(|receipt| receipt.id)
    }

    async fn end(self) {
        self.stop.cancel();
        drop(self.events);
        within("the driver to end", self.task).await.expect("in time").expect("no panic").expect("no error");
    }
}

fn robot(text: &str) -> (String, String) {
    ("Robot".into(), text.into())
}

#[tokio::test]
async fn messages_go_both_ways() {
    let fake = FakeDiscord::start().await;
    let mut bridge = Bridge::with(&fake).await;
    fake.write("42", "hello");
    assert_eq!(bridge.reads_until("hello").await, ["hello"]);
    let sent = bridge.send("k1", "hi").await.expect("sent").expect("an id");
    assert_eq!(fake.written(), [robot("hi")]);
    // What the bridge wrote comes back, and is known as its own.
    let own = bridge.until(|event| matches!(event, PlatformEvent::Message(_))).await;
    assert!(matches!(own, PlatformEvent::Message(message) if message.author.origin == AuthorOrigin::OwnBridge));
    let text = RenderedText { formatted: "hi there".into(), plain: "hi there".into(), mentions: Vec::new() };
    let edit = PlatformAction::Edit { key: ActionKey::new("k2"), speaker: None, target: sent.clone(), text };
    bridge.driver.perform(&bridge.channel, &edit).await.expect("edited");
    assert_eq!(fake.written(), [robot("hi there")]);
    let retract = PlatformAction::Retract { key: ActionKey::new("k3"), speaker: None, target: sent };
    bridge.driver.perform(&bridge.channel, &retract).await.expect("deleted");
    bridge.driver.perform(&bridge.channel, &retract).await.expect("deleted already");
    assert!(fake.written().is_empty());
    bridge.end().await;
}

#[tokio::test]
async fn edits_and_deletions_of_people_are_reported() {
    let fake = FakeDiscord::start().await;
    let mut bridge = Bridge::with(&fake).await;
    let id = fake.write("42", "wrong");
    let author = json!({"id": "42", "username": "user42"});
    // A preview of a link is no edit.
    fake.dispatch("MESSAGE_UPDATE", json!({"id": id, "channel_id": CHANNEL, "author": author, "content": "wrong"}));
    fake.dispatch(
        "MESSAGE_UPDATE",
        json!({"id": id, "channel_id": CHANNEL, "author": author, "content": "right",
        "edited_timestamp": "2026-01-01T00:00:01.000000+00:00"}),
    );
    fake.dispatch("MESSAGE_DELETE", json!({"id": id, "channel_id": CHANNEL}));
    let mut seen = Vec::new();
    while seen.len() < 3 {
        match bridge.until(|_| true).await {
            PlatformEvent::Message(_) => seen.push("message".to_owned()),
            PlatformEvent::Edit { content, .. } => seen.push(render(&content, Flavour::Plain)),
            PlatformEvent::Retract { target, .. } => seen.push(format!("{} gone", target.as_str() == id)),
            _ => {}
        }
    }
    assert_eq!(seen, ["message", "right", "true gone"]);
    bridge.end().await;
}

#[tokio::test]
async fn limits_are_waited_for_or_reported() {
    let fake = FakeDiscord::start().await;
    let bridge = Bridge::with(&fake).await;
    fake.refuse_next(Refusal::Limited { retry_after: 0.02, is_global: false });
    bridge.send("k1", "soon").await.expect("sent after the wait");
    fake.refuse_next(Refusal::Limited { retry_after: 1000.0, is_global: true });
    let failure = bridge.send("k2", "later").await.expect_err("too long a wait");
    assert!(
        matches!(failure, PlatformFailure::RetryAfter { after, .. } if after == Duration::from_secs(1000)),
        "{failure:?}"
    );
    // A global limit holds for everything, without asking again.
    let failure = bridge.send("k2", "later").await.expect_err("still limited");
    assert!(
        matches!(failure, PlatformFailure::RetryAfter { after, .. } if after > Duration::from_secs(500)),
        "{failure:?}"
    );
    assert_eq!(fake.written(), [robot("soon")]);
    bridge.end().await;
}

#[tokio::test]
async fn a_lost_connection_is_resumed_with_what_was_missed() {
    let fake = FakeDiscord::start().await;
    let mut bridge = Bridge::with(&fake).await;
    for push in [Push::Close(None), Push::Close(Some(4000)), Push::Payload(json!({"op": 7, "d": null}).to_string())] {
        fake.push(push);
        bridge.until(|event| matches!(event, PlatformEvent::Disconnected { .. })).await;
        fake.write("42", "missed");
        bridge.until(|event| matches!(event, PlatformEvent::Message(_))).await;
        bridge.until(|event| *event == PlatformEvent::CaughtUp).await;
    }
    assert_eq!(fake.introductions(), ["identify", "resume", "resume", "resume"]);
    bridge.end().await;
}

#[tokio::test]
async fn an_invalid_session_starts_over_and_reads_the_history() {
    let fake = FakeDiscord::start().await;
    let mut bridge = Bridge::with(&fake).await;
    fake.invalidate_session();
    fake.write_unseen("42", "while you were away");
    fake.push(Push::Close(None));
    assert_eq!(bridge.reads_until("while you were away").await, ["while you were away"]);
    assert_eq!(fake.introductions(), ["identify", "resume", "identify"]);
    bridge.end().await;
}

#[tokio::test]
async fn messages_from_before_the_bridge_came_are_left_out() {
    let fake = FakeDiscord::start().await;
    fake.write_before_the_webhook("42", "long ago");
    fake.write("42", "now");
    let mut bridge = Bridge::start(&format!("http://{}", fake.rest), "secret", CHANNEL);
    assert_eq!(bridge.reads_until("now").await, ["now"]);
    bridge.end().await;
}

#[tokio::test]
async fn repeated_and_disordered_events_keep_their_ids() {
    let fake = FakeDiscord::start().await;
    let mut bridge = Bridge::with(&fake).await;
    for text in ["one", "two", "three"] {
        fake.write("42", text);
    }
    fake.repeat_in_disorder(3);
    // The core drops what it has by the ids, so that these have to be the same.
    let mut ids: Vec<String> = Vec::new();
    while ids.len() < 6 {
        let event = bridge.until(|event| matches!(event, PlatformEvent::Message(_))).await;
        let PlatformEvent::Message(message) = event else { continue };
        ids.push(message.id.expect("an id").to_string());
    }
    let (first, again) = ids.split_at(3);
    assert!(again.iter().rev().eq(first.iter()), "{ids:?}");
    // The session goes on behind the newest, not behind the last that came.
    fake.push(Push::Close(None));
    bridge.until(|event| *event == PlatformEvent::CaughtUp).await;
    assert_eq!(fake.introductions(), ["identify", "resume"]);
    bridge.end().await;
}

#[tokio::test]
async fn a_message_whose_answer_was_lost_is_found_again() {
    let fake = FakeDiscord::start().await;
    let mut bridge = Bridge::with(&fake).await;
    fake.refuse_next(Refusal::Lost);
    let failure = bridge.send("k1", "once").await.expect_err("no answer");
    assert!(matches!(failure, PlatformFailure::Unknown { .. }), "{failure:?}");
    let echo = bridge.until(|event| matches!(event, PlatformEvent::Echo { .. })).await;
    assert!(matches!(&echo, PlatformEvent::Echo { key, id: Some(_) } if key.as_str() == "k1"), "{echo:?}");
    bridge.until(|event| *event == PlatformEvent::CaughtUp).await;
    bridge.end().await;

    // After a crash the bridge does not know what it had sent. The core sends the message again, and it is not written twice.
    let bridge = Bridge::with(&fake).await;
    bridge.send("k1", "once").await.expect("found").expect("its id");
    assert_eq!(fake.written(), [robot("once")]);
    // Another message of the same words is another message.
    bridge.send("k2", "once").await.expect("sent");
    assert_eq!(fake.written(), [robot("once"), robot("once")]);
    bridge.end().await;
}

#[tokio::test]
async fn heartbeats_go_on() {
    let fake = FakeDiscord::start().await;
    fake.beat_every(500);
    let bridge = Bridge::with(&fake).await;
    // On a busy machine an acknowledgement can be late, and the bridge connects again.
    let beating = async || (fake.heartbeats() >= 2).then_some(());
    eventually("two heartbeats on one connection", beating).await.expect("heartbeats");
    bridge.end().await;
}

#[tokio::test]
async fn a_token_that_discord_does_not_know_ends_the_bridge() {
    let fake = FakeDiscord::start().await;
    let bridge = Bridge::start(&format!("http://{}", fake.rest), "another", CHANNEL);
    let ended = within("the driver to end", bridge.task).await.expect("in time").expect("no panic");
    assert_eq!(ended.expect_err("an error").0, "Discord does not know the bot's token");
}
