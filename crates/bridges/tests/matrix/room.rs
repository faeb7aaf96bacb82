//! A room bridged to Matrix: two people there, by plain HTTP, and two participants here.

use std::collections::HashMap;
use std::path::Path;

use salon_client::mcp::ToolResult;
use salon_client::protocol::{Envelope, EnvelopeId, Message};
use salon_client::{Client, Event, Events, Gateway, Outgoing, Room, StaticToken, Toolbox};
use salon_testkit::{TestEngine, TestGateway, TestOptions, TestToken, within};
use serde_json::{Value, json};

use crate::bridge::{BridgeProcess, SECTION};
use crate::driver::set_up;
use crate::person::Person;
use crate::synapse::{SERVER_NAME, Synapse};

/// How many messages go each way.
const COUNT: usize = 1000;

const TOPIC: &str = "room:lab";

struct Participant {
    room: Room,
    events: Events,
}

impl Participant {
    async fn join(gateway: &TestGateway, id: &str, tools: Option<Toolbox>) -> Self {
        let token = gateway.token(&TestToken::new(id)).expect("a token");
        let address = Gateway::new(&format!("http://{}", gateway.address())).expect("an address");
        let client = Client::new(address, StaticToken::new(token));
        let mut entering = client.room(TOPIC.parse().expect("a topic")).name(id);
        if let Some(tools) = tools {
            entering = entering.offer(tools);
        }
        let (room, events) = entering.join_listening().await.expect("in the room");
        Self { room, events }
    }

    /// The next envelope of others that fits.
    async fn sees(&mut self, what: &str, fits: impl Fn(&Envelope) -> bool) -> std::sync::Arc<Envelope> {
        let waiting = async {
            loop {
                match self.events.next().await.expect("the room goes on") {
                    Event::Envelope(envelope) if envelope.from() != self.room.id() && fits(&envelope) => {
                        return envelope;
                    }
                    _ => {}
                }
            }
        };
        within(what, waiting).await.expect("seen")
    }

    async fn hears(&mut self, text: &str) -> std::sync::Arc<Envelope> {
        self.sees(text, |envelope| {
            envelope.chat().is_some_and(|chat| chat.text == text) && is_method(envelope, "notifications/chat/message")
        })
        .await
    }
}

fn is_method(envelope: &Envelope, wanted: &str) -> bool {
    matches!(envelope.message(), Some(Message::Notification { method }) if &**method == wanted)
}

struct Stage {
    // Ends before what it talks to.
    bridge: BridgeProcess,
    synapse: Synapse,
    gateway: TestGateway,
    token: String,
    room: String,
    ann: Person,
    bob: Person,
}

impl Stage {
    async fn set(python: &Path) -> Self {
        let (synapse, config) = set_up(python, &format!("#lab:{SERVER_NAME}")).await;
        let options = TestOptions::new(TestEngine::Sqlite)
            .set("auth.namespaces", "matrix:*=bridge:lab")
            .and_then(|options| options.set("limits.rate", "0"))
            .expect("settings");
        let gateway = TestGateway::start(options).await.expect("a gateway");
        let mut token = TestToken::new("bridge:lab");
        token.claim("acts_for", "matrix:*").expect("a claim");
        token.claim("ghosts_call", "true").expect("a claim");
        let token = gateway.token(&token).expect("a token");
        let mut section = config.platform_options.clone();
        section.insert("platform".into(), "matrix".into());
        section.insert("ghosts_call".into(), true.into());
        section.insert("queue".into(), (2 * COUNT as i64).into());
        let channels = config.channels.iter().map(|(channel, topic)| (channel.to_string(), topic.to_string().into()));
        section.insert("channels".into(), toml::Value::Table(channels.collect()));
        let lines = section.iter().map(|(key, value)| format!("{key} = {}\n", toml_text(value)));
        std::fs::write(synapse.folder().join(SECTION), lines.collect::<String>()).expect("a section");

        let ann = Person::register(&synapse.url(), "ann").await;
        let bob = Person::register(&synapse.url(), "bob").await;
        let room = ann.create_room("lab", &["@salon-lab:salon.test", &bob.user_id]).await;
        bob.join(&room).await;
        let bridge = BridgeProcess::start(synapse.folder(), &format!("http://{}", gateway.address()), &token);
        let mut stage = Self { bridge, synapse, gateway, token, room, ann, bob };
        // A homeserver sends a bridge nothing of before it was in the room.
        let entered = stage.ann.sees("the bridge in the room", |event| {
            let is_bridge = event["state_key"] == "@salon-lab:salon.test";
            (is_bridge && event["content"]["membership"] == "join").then_some(())
        });
        entered.await;
        stage
    }

    fn restart_bridge(&mut self) {
        let gateway = format!("http://{}", self.gateway.address());
        self.bridge = BridgeProcess::start(self.synapse.folder(), &gateway, &self.token);
    }
}

fn toml_text(value: &toml::Value) -> String {
    match value {
        toml::Value::Table(table) => {
            let members = table.iter().map(|(key, value)| format!("{} = {}", json!(key), toml_text(value)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        toml::Value::String(text) => json!(text).to_string(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Boolean(value) => value.to_string(),
        other => panic!("{other:?}"),
    }
}

fn robot() -> Toolbox {
    let schema = json!({"type": "object", "properties": {"x": {"type": "number"}}});
    Toolbox::new("robot").tool("move", "Moves the arm", schema, |_| async { Ok(ToolResult::from("moved to 1")) })
}

pub(crate) async fn conversation(python: &Path) {
    let mut stage = Stage::set(python).await;
    let mut alice = Participant::join(&stage.gateway, "alice", None).await;
    let _robot = Participant::join(&stage.gateway, "robot", Some(robot())).await;
    let (room, ann, bob) = (stage.room.clone(), &mut stage.ann, &mut stage.bob);

    // Chat and a reply, both ways.
    let question = ann.say(&room, "who is here?").await;
    let heard = alice.hears("who is here?").await;
    assert_eq!(heard.from().as_str(), "matrix:@ann:salon.test");
    alice.room.reply(heard.id(), "I am").await.expect("a reply");
    let seen = bob.reads("I am").await;
    assert_eq!(seen["sender"], "@salon-lab_alice:salon.test");
    assert_eq!(seen["content"]["m.relates_to"]["m.in_reply_to"]["event_id"], question.as_str());
    let reply = json!({"msgtype": "m.text", "body": "so am I",
        "m.relates_to": {"m.in_reply_to": {"event_id": seen["event_id"]}}});
    bob.send(&room, reply).await;
    let heard = alice.hears("so am I").await;
    assert_eq!(heard.from().as_str(), "matrix:@bob:salon.test");
    assert!(heard.correlation().is_some(), "a reply");

    // Edits and retractions, both ways.
    let wrong = ann.say(&room, "at nine").await;
    let original = alice.hears("at nine").await;
    let edit = json!({"msgtype": "m.text", "body": "* at ten", "m.new_content": {"msgtype": "m.text", "body": "at ten"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": wrong}});
    ann.send(&room, edit).await;
    let edited = alice.sees("the edit", |envelope| is_method(envelope, "notifications/chat/edit")).await;
    assert_eq!(edited.correlation(), Some(original.id()));
    ann.redact(&room, &wrong).await;
    let gone = alice.sees("the retraction", |envelope| is_method(envelope, "notifications/chat/retract")).await;
    assert_eq!(gone.correlation(), Some(original.id()));
    let said = alice.room.say("draft").await.expect("said");
    let first = ann.reads("draft").await;
    publish_revision(&alice.room, said.id(), "edit", json!({"text": "final", "format": "plain"})).await;
    let replaced = ann.sees("the edit", |event| {
        let relation = &event["content"]["m.relates_to"];
        (relation["rel_type"] == "m.replace").then(|| (relation["event_id"].clone(), event["content"].clone()))
    });
    let (target, content) = replaced.await;
    assert_eq!((target, &content["m.new_content"]["body"]), (first["event_id"].clone(), &json!("final")));

    publish_revision(&alice.room, said.id(), "retract", json!({})).await;
    let redacted = ann.sees("the redaction", |event| {
        // Rooms before version 11 have it outside of the content.
        let target = [&event["content"]["redacts"], &event["redacts"]].into_iter().find(|id| id.is_string());
        target.filter(|_| event["type"] == "m.room.redaction").cloned()
    });
    assert_eq!(redacted.await, first["event_id"]);

    // A tool, called from Matrix, and its answer.
    bob.say(&room, "!call robot move x=1").await;
    ann.sees("the answer of the tool", |event| {
        let content = &event["content"];
        let bodies = [&content["body"], &content["m.new_content"]["body"]];
        bodies.iter().any(|body| body.as_str().is_some_and(|body| body.contains("moved to 1"))).then_some(())
    })
    .await;
}

async fn publish_revision(room: &Room, target: &EnvelopeId, what: &str, params: Value) {
    let payload = json!({"jsonrpc": "2.0", "method": format!("notifications/chat/{what}"), "params": params});
    let payload = serde_json::value::to_raw_value(&payload).expect("JSON");
    room.publish(Outgoing::new(payload).correlation(target.clone())).await.expect("said");
}

/// Everything arrives, once and in order, although the bridge and then the homeserver are killed in the middle.
pub(crate) async fn crashes(python: &Path) {
    let mut stage = Stage::set(python).await;
    let mut alice = Participant::join(&stage.gateway, "alice", None).await;
    // The bridge has come when a message has.
    stage.ann.say(&stage.room, "begin").await;
    alice.hears("begin").await;
    for number in 0..COUNT {
        if number == COUNT / 4 {
            stage.bridge.kill();
        }
        if number == COUNT / 2 {
            stage.restart_bridge();
        }
        if number == COUNT * 3 / 4 {
            // Synapse forgets what it was about to hand over, and the bridge may not notice that it was away.
            stage.synapse.kill();
            stage.synapse.restart().await;
        }
        alice.room.say(&format!("down {number}")).await.expect("said");
        stage.ann.say(&stage.room, &format!("up {number}")).await;
    }
    let last = format!("up {}", COUNT - 1);
    let mut heard = Vec::new();
    while heard.last() != Some(&last) {
        let envelope = alice
            .sees("a message from Matrix", |envelope| envelope.chat().is_some_and(|chat| chat.text.starts_with("up ")));
        heard.extend(envelope.await.chat().map(|chat| chat.text.to_string()));
    }
    assert_complete("up", &heard);
    let last = format!("down {}", COUNT - 1);
    let mut seen: Vec<String> = Vec::new();
    while seen.last() != Some(&last) {
        let body = stage.bob.sees("a message from the room", |event| {
            event["content"]["body"].as_str().filter(|body| body.starts_with("down ")).map(str::to_owned)
        });
        seen.push(body.await);
    }
    assert_complete("down", &seen);
}

fn assert_complete(word: &str, texts: &[String]) {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    let repeated: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(repeated.is_empty(), "more than once: {repeated:?}");
    let expected: Vec<_> = (0..COUNT).map(|number| format!("{word} {number}")).collect();
    let missing: Vec<_> = expected.iter().filter(|text| !counts.contains_key(text.as_str())).collect();
    assert!(missing.is_empty(), "never: {missing:?}");
    assert!(texts == expected, "not in order");
}
