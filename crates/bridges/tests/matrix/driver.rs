//! The driver against a homeserver, without a room: what is reported, and what actions come to.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use salon_bridges::config::BridgeConfig;
use salon_bridges::init::InitOptions;
use salon_bridges::matrix;
use salon_bridges::platform::{
    ActionKey, CheckVerdict, PlatformAction, PlatformChannel, PlatformDriver, PlatformEvent, PlatformEvents,
    PlatformFailure, PlatformMessageId, RenderedText, ReportedEvent, Speaker,
};
use salon_client::protocol::Timestamp;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::person::Person;
use crate::synapse::{SERVER_NAME, Synapse, free_port};

const WAIT: Duration = Duration::from_secs(60);

/// The files that `salon bridge init matrix` writes, in the homeserver's folder, with ports of the test's own.
pub(crate) async fn set_up(python: &Path, channel: &str) -> (Synapse, BridgeConfig) {
    let listen = free_port();
    let options = InitOptions {
        name: "lab".into(),
        server: None,
        channel: Some(channel.to_owned()),
        topic: "room:lab".into(),
        secrets: ["a".repeat(64), "b".repeat(64)],
    };
    let plan = matrix::init(&options);
    let own_ports = |text: &str| text.replace("127.0.0.1:9009", &format!("127.0.0.1:{listen}"));
    let registration = plan.files.iter().find(|file| file.path.ends_with(".yaml")).expect("a registration");
    let synapse = Synapse::start(python, &own_ports(&registration.text)).await;
    for file in plan.files.iter().filter(|file| file.path.ends_with(".token")) {
        let path = synapse.folder().join(&file.path);
        std::fs::write(&path, &file.text).expect("a secret");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a private file");
    }
    let section = own_ports(&plan.section).replace("http://127.0.0.1:8008", &synapse.url());
    let tables: toml::Table = toml::from_str(&section).expect("TOML");
    let table = tables["bridges"]["lab"].as_table().expect("a section");
    let config = BridgeConfig::read("lab", table, synapse.folder()).expect("a configuration");
    (synapse, config)
}

struct Running {
    driver: Arc<dyn PlatformDriver>,
    channel: PlatformChannel,
    events: mpsc::Receiver<ReportedEvent>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(config: &BridgeConfig) -> Self {
        let driver = matrix::open(config).expect("a driver");
        let (sender, events) = PlatformEvents::channel(16);
        let stop = CancellationToken::new();
        let (runner, stopped) = (driver.clone(), stop.clone());
        let task = tokio::spawn(async move { runner.run(sender, stopped).await.expect("the driver runs") });
        let channel = config.channels.keys().next().expect("a channel").clone();
        Self { driver, channel, events, stop, task }
    }

    /// The next event, acknowledged.
    async fn next(&mut self) -> PlatformEvent {
        let reported = tokio::time::timeout(WAIT, self.events.recv()).await.expect("in time").expect("a driver");
        if let Some(stored) = reported.stored {
            let _ = stored.send(());
        }
        reported.event
    }

    async fn until(&mut self, fits: impl Fn(&PlatformEvent) -> bool) -> PlatformEvent {
        loop {
            let event = self.next().await;
            if fits(&event) {
                return event;
            }
        }
    }

    async fn perform(&self, action: PlatformAction) -> Result<Option<PlatformMessageId>, PlatformFailure> {
        self.driver.perform(&self.channel, &action).await.map(|receipt| receipt.id)
    }

    async fn end(self) {
        self.stop.cancel();
        drop(self.events);
        self.task.await.expect("the driver ends");
    }
}

fn text(plain: &str, formatted: &str) -> RenderedText {
    RenderedText { formatted: formatted.into(), plain: plain.into(), mentions: Vec::new() }
}

fn send(key: &str, speaker: &str, body: RenderedText) -> PlatformAction {
    let (key, speaker) = (ActionKey::new(key), Some(robot(speaker)));
    PlatformAction::Send { key, speaker, text: body, reply_to: None, sent_at: None }
}

fn robot(id: &str) -> Speaker {
    Speaker { id: id.parse().expect("an id"), name: "Robot".into(), kind: None }
}

fn message_body(event: &PlatformEvent) -> Option<(String, String)> {
    let PlatformEvent::Message(message) = event else { return None };
    let text = salon_bridges::rich::render(&message.content, salon_bridges::rich::Flavour::Markdown);
    Some((message.author.id.to_string(), text))
}

pub(crate) async fn run(python: &Path) {
    let channel = format!("#lab:{SERVER_NAME}");
    let (mut synapse, config) = set_up(python, &channel).await;
    let mut ann = Person::register(&synapse.url(), "ann").await;
    let bob = Person::register(&synapse.url(), "bob").await;

    // Before there is a room, the check says what to do.
    let findings = matrix::open(&config).expect("a driver").check().await;
    let verdicts: Vec<_> =
        findings.iter().map(|finding| matches!(finding.verdict, CheckVerdict::Fine { .. })).collect();
    assert_eq!(verdicts, [true, true, false], "{findings:?}");

    // The bridge comes in when it is invited.
    let mut bridge = Running::start(&config);
    let room = ann.create_room("lab", &["@salon-lab:salon.test", "@bob:salon.test"]).await;
    bridge.until(|event| *event == PlatformEvent::CaughtUp).await;
    let findings = bridge.driver.check().await;
    let is_fine =
        |finding: &salon_bridges::platform::CheckFinding| matches!(finding.verdict, CheckVerdict::Fine { .. });
    assert!(findings.iter().all(is_fine), "{findings:?}");

    // From Matrix to the bridge.
    let first = ann
        .send(
            &room,
            json!({"msgtype": "m.text", "body": "hello", "format": "org.matrix.custom.html",
        "formatted_body": "<b>hello</b>"}),
        )
        .await;
    let event = bridge.until(|event| matches!(event, PlatformEvent::Message(_))).await;
    assert_eq!(message_body(&event), Some(("@ann:salon.test".into(), "**hello**".into())));
    let PlatformEvent::Message(message) = event else { unreachable!() };
    assert_eq!((message.author.name.as_str(), message.id), ("Ann", Some(PlatformMessageId::new(&first))));

    // A person enters, writes, corrects it and takes it back.
    bob.join(&room).await;
    let event = bridge.until(|event| matches!(event, PlatformEvent::Join { .. })).await;
    assert!(matches!(&event, PlatformEvent::Join { author } if author.name == "Bob"), "{event:?}");
    let wrong = bob.say(&room, "wrong").await;
    let right = json!({"msgtype": "m.text", "body": "* right", "m.new_content": {"msgtype": "m.text", "body": "right"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": wrong}});
    bob.send(&room, right).await;
    bob.redact(&room, &wrong).await;
    let edited = bridge.until(|event| matches!(event, PlatformEvent::Edit { .. })).await;
    let PlatformEvent::Edit { target, content, .. } = edited else { unreachable!() };
    assert_eq!((target.as_str(), content), (wrong.as_str(), salon_bridges::rich::RichText::plain("right")));
    let removed = bridge.until(|event| matches!(event, PlatformEvent::Retract { .. })).await;
    assert!(matches!(&removed, PlatformEvent::Retract { target, .. } if target.as_str() == wrong), "{removed:?}");

    // From the bridge to Matrix: a reply, its repetition, an edit, its removal.
    let mut reply = send("k1", "robot-1", text("*hi*", "<em>hi</em>"));
    if let PlatformAction::Send { reply_to, .. } = &mut reply {
        *reply_to = Some(PlatformMessageId::new(&first));
    }
    let sent = bridge.perform(reply.clone()).await.expect("sent").expect("an id");
    assert_eq!(bridge.perform(reply).await.expect("sent"), Some(sent.clone()), "the same key is the same message");
    let seen = ann.reads("*hi*").await;
    assert_eq!(seen["sender"], "@salon-lab_robot-1:salon.test");
    assert_eq!(seen["content"]["formatted_body"], "<em>hi</em>");
    assert_eq!(seen["content"]["m.relates_to"]["m.in_reply_to"]["event_id"], first.as_str());
    let edit = PlatformAction::Edit {
        key: ActionKey::new("k2"),
        speaker: Some(robot("robot-1")),
        target: sent.clone(),
        text: text("hello there", "hello there"),
    };
    bridge.perform(edit).await.expect("edited");
    let seen = ann
        .sees("the edit", |event| (event["content"]["m.relates_to"]["rel_type"] == "m.replace").then(|| event.clone()));
    assert_eq!(seen.await["content"]["m.new_content"]["body"], "hello there");
    let retract = PlatformAction::Retract { key: ActionKey::new("k3"), speaker: Some(robot("robot-1")), target: sent };
    bridge.perform(retract).await.expect("removed");
    ann.sees("the redaction", |event| (event["type"] == "m.room.redaction").then_some(())).await;

    // What is written while the bridge is away comes when it is back, and what it had sent is recognised.
    bridge.end().await;
    ann.say(&room, "while you were away").await;
    let mut bridge = Running::start(&config);
    let echo = bridge.until(|event| matches!(event, PlatformEvent::Echo { .. })).await;
    assert!(matches!(&echo, PlatformEvent::Echo { key, .. } if key.as_str() == "k2"), "{echo:?}");
    let event = bridge.until(|event| matches!(event, PlatformEvent::Message(_))).await;
    assert_eq!(message_body(&event).expect("a message").1, "while you were away");

    // A homeserver that crashed: the message is not lost, and the bridge is back when the homeserver is.
    synapse.kill();
    let failure = bridge.perform(send("k4", "robot-1", text("late", "late"))).await.expect_err("nobody is there");
    let is_away = matches!(failure, PlatformFailure::Offline { .. } | PlatformFailure::Unknown { .. });
    assert!(is_away, "{failure:?}");
    bridge.until(|event| matches!(event, PlatformEvent::Disconnected { .. })).await;
    synapse.restart().await;
    bridge.until(|event| *event == PlatformEvent::CaughtUp).await;
    bridge.perform(send("k4", "robot-1", text("late", "late"))).await.expect("sent");
    ann.reads("late").await;

    // What was said long before it could be sent shows when it was said.
    let said_at = Timestamp::from_system(SystemTime::now() - Duration::from_secs(2 * 60 * 60));
    let mut late = send("k5", "robot-1", text("of before", "of before"));
    if let PlatformAction::Send { sent_at, .. } = &mut late {
        *sent_at = Some(said_at);
    }
    bridge.perform(late).await.expect("sent");
    assert_eq!(ann.reads("of before").await["origin_server_ts"], said_at.0);
    bridge.end().await;
}
