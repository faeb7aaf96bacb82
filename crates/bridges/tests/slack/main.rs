//! The Slack bridge against a stand-in for the Web API, `emulate`, with events that the test signs and posts as Slack does.
//!
//! `SALON_SLACK_STAND_IN` is the stand-in's program and `SALON_NODE` a Node that runs it; `scripts/test bridges` sets both. Real Slack is reached only
//! by `the_real_slack_takes_a_message`, which needs `SALON_LIVE_SLACK_TOKEN` and `SALON_LIVE_SLACK_CHANNEL`.

#[path = "../matrix/bridge.rs"]
mod bridge;
mod crashes;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use libtest_mimic::{Arguments, Trial};
use salon_bridges::config::BridgeConfig;
use salon_bridges::platform::{
    ActionKey, AuthorOrigin, PlatformAction, PlatformChannel, PlatformDriver, PlatformEvent, PlatformEvents,
    PlatformMessageId, RenderedText, ReportedEvent, Speaker,
};
use salon_bridges::rich::{Flavour, render};
use salon_bridges::slack;
use salon_testkit::{Scratch, eventually, within};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const SECRET: &str = "the signing secret of the tests";

fn main() {
    bridge::run_if_asked();
    let arguments = Arguments::from_args();
    let is_missing = std::env::var_os("SALON_SLACK_STAND_IN").is_none();
    let is_offline = std::env::var_os("SALON_LIVE_SLACK_TOKEN").is_none();
    let trials = vec![
        Trial::test("the_driver_against_the_stand_in", || {
            salon_testkit::run(conversation());
            Ok(())
        })
        .with_ignored_flag(is_missing),
        Trial::test("a_thousand_messages_survive_crashes", || {
            salon_testkit::run(crashes::run());
            Ok(())
        })
        .with_ignored_flag(is_missing),
        Trial::test("the_real_slack_takes_a_message", || {
            salon_testkit::run(live());
            Ok(())
        })
        .with_ignored_flag(is_offline),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// The stand-in, with a workspace of two people and the app.
struct StandIn {
    child: Child,
    base: String,
    http: reqwest::Client,
    channel: String,
    _folder: Scratch,
}

impl StandIn {
    async fn start() -> Self {
        let folder = Scratch::new().expect("a folder");
        let seed = json!({"slack": {
            "users": [{"name": "ann", "real_name": "Ann"}, {"name": "bob", "real_name": "Bob"}],
            "channels": [{"name": "lab"}],
            "oauth_apps": [{"client_id": "1.2", "client_secret": "s", "app_id": "A1", "name": "Salon", "redirect_uris": [],
                "scopes": ["chat:write"], "bot_id": "B000000009", "bot_user_id": "U000000009", "bot_name": "salon"}],
            "tokens": [
                {"token": "xoxb-salon", "user_id": "U000000009", "bot_id": "B000000009", "bot_user_id": "U000000009"},
                {"token": "xoxp-ann", "user": "ann"}, {"token": "xoxp-bob", "user": "bob"}],
        }});
        let file = folder.path().join("seed.json");
        std::fs::write(&file, seed.to_string()).expect("a seed");
        let port = free_port();
        let node = std::env::var_os("SALON_NODE").unwrap_or_else(|| "node".into());
        let program = std::env::var_os("SALON_SLACK_STAND_IN").expect("ignored without it");
        let mut command = Command::new(node);
        command.arg(program).args(["start", "--service", "slack", "--port", &port.to_string(), "--seed"]).arg(file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("the stand-in starts");
        let base = format!("http://127.0.0.1:{port}/api/");
        let mut stand_in = Self { child, base, http: reqwest::Client::new(), channel: String::new(), _folder: folder };
        let looking = async || {
            let answer = stand_in.try_call("conversations.list", "xoxp-ann", json!({})).await?;
            let channels = answer["channels"].as_array()?;
            channels.iter().find(|channel| channel["name"] == "lab")?["id"].as_str().map(str::to_owned)
        };
        stand_in.channel = eventually("the stand-in to answer", looking).await.expect("a channel");
        stand_in
    }

    async fn try_call(&self, method: &str, token: &str, body: Value) -> Option<Value> {
        let request = self.http.post(format!("{}{method}", self.base)).bearer_auth(token);
        let request = request.header("content-type", "application/json").body(body.to_string());
        serde_json::from_str(&request.send().await.ok()?.text().await.ok()?).ok()
    }

    async fn call(&self, method: &str, token: &str, body: Value) -> Value {
        let answer = self.try_call(method, token, body).await.expect("an answer");
        assert_eq!(answer["ok"], true, "{method}: {answer}");
        answer
    }

    /// A person writes. Returns the message, as an event has it.
    async fn write(&self, person: &str, text: &str, thread: Option<&str>) -> Value {
        let mut body = json!({"channel": self.channel, "text": text});
        if let Some(thread) = thread {
            body["thread_ts"] = thread.into();
        }
        let mut message = self.call("chat.postMessage", &format!("xoxp-{person}"), body).await["message"].take();
        message["channel"] = self.channel.clone().into();
        message
    }

    /// All messages of the channel, oldest first.
    async fn history(&self) -> Vec<Value> {
        let mut messages = Vec::new();
        let mut cursor = json!("");
        loop {
            let body = json!({"channel": self.channel, "limit": 500, "cursor": cursor});
            let mut answer = self.call("conversations.history", "xoxp-ann", body).await;
            messages.append(answer["messages"].as_array_mut().expect("messages"));
            cursor = answer["response_metadata"]["next_cursor"].take();
            if cursor.as_str().is_none_or(str::is_empty) {
                break;
            }
        }
        messages.reverse();
        messages
    }

    /// The newest message that the bridge wrote, where it is among the newest of all.
    async fn newest_of_the_bridge(&self) -> Option<String> {
        let body = json!({"channel": self.channel, "limit": 100});
        let answer = self.call("conversations.history", "xoxp-ann", body).await;
        let messages = answer["messages"].as_array().expect("messages");
        messages.iter().find(|message| is_of_the_bridge(message))?["text"].as_str().map(str::to_owned)
    }

    async fn texts_of_the_bridge(&self) -> Vec<String> {
        let messages = self.history().await.into_iter().filter(is_of_the_bridge);
        messages.map(|message| message["text"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// People's messages have no name of their own.
fn is_of_the_bridge(message: &Value) -> bool {
    message["username"] == "alice"
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Bridge {
    driver: Arc<dyn PlatformDriver>,
    channel: PlatformChannel,
    events: mpsc::Receiver<ReportedEvent>,
    last: Option<PlatformEvent>,
    endpoint: String,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
    _folder: Scratch,
}

impl Bridge {
    async fn start(api: &str, token: &str, channel: &str) -> Self {
        let folder = Scratch::new().expect("a folder");
        for (name, text) in [("token", token), ("secret", SECRET)] {
            let file = folder.path().join(name);
            std::fs::write(&file, text).expect("a secret");
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
                .expect("a private file");
        }
        let port = free_port();
        let section = format!(
            "platform = 'slack'\ntoken_file = 'token'\nsigning_secret_file = 'secret'\nlisten = '127.0.0.1:{port}'\n\
             api = '{api}'\nchannels = {{ '{channel}' = 'room:lab' }}"
        );
        let config =
            BridgeConfig::read("lab", &toml::from_str(&section).expect("TOML"), folder.path()).expect("a bridge");
        let driver = slack::open(&config).expect("a driver");
        let (sender, events) = PlatformEvents::channel(16);
        let stop = CancellationToken::new();
        let (runner, stopped) = (driver.clone(), stop.clone());
        let task = tokio::spawn(async move { runner.run(sender, stopped).await.expect("the driver runs") });
        let channel = PlatformChannel::new(channel);
        let endpoint = format!("http://127.0.0.1:{port}/slack/events");
        Self { driver, channel, events, last: None, endpoint, stop, task, _folder: folder }
    }

    /// The next event. One that is reported again, because it was posted again, is left out.
    async fn next(&mut self) -> PlatformEvent {
        loop {
            let reported = within("an event", self.events.recv()).await.expect("in time").expect("the driver runs");
            if let Some(stored) = reported.stored {
                let _ = stored.send(());
            }
            if self.last.as_ref() != Some(&reported.event) {
                self.last = Some(reported.event.clone());
                return reported.event;
            }
        }
    }

    /// What is reported until the channel is caught up: texts of people and keys of own messages.
    async fn catches_up(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            match self.next().await {
                PlatformEvent::CaughtUp => return told,
                PlatformEvent::Message(message) => told.push(render(&message.content, Flavour::Plain)),
                PlatformEvent::Echo { key, .. } => told.push(format!("echo {key}")),
                _ => {}
            }
        }
    }

    /// Posts a request to the bridge's endpoint, signed some seconds ago. Returns the status and the body.
    async fn post(&self, body: &Value, seconds_ago: u64) -> (u16, String) {
        post(&self.endpoint, body, seconds_ago).await
    }

    /// Delivers an event, and returns what the driver reported of it. Slack posts an event again that was not accepted in time.
    async fn deliver(&mut self, id: &str, event: &Value) -> PlatformEvent {
        let body = json!({"type": "event_callback", "event_id": id, "event": event});
        let endpoint = self.endpoint.clone();
        let posting = async || (post(&endpoint, &body, 0).await.0 == 200).then_some(());
        let (accepted, reported) = tokio::join!(eventually("the event is accepted", posting), self.next());
        accepted.expect("it is");
        reported
    }

    async fn perform(&self, action: PlatformAction) -> Option<PlatformMessageId> {
        self.driver.perform(&self.channel, &action).await.expect("done").id
    }

    async fn end(self) {
        self.stop.cancel();
        drop(self.events);
        within("the driver to end", self.task).await.expect("in time").expect("no panic");
    }
}

async fn post(endpoint: &str, body: &Value, seconds_ago: u64) -> (u16, String) {
    try_post(endpoint, body, seconds_ago).await.expect("an answer")
}

async fn try_post(endpoint: &str, body: &Value, seconds_ago: u64) -> Option<(u16, String)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let (sent, body) = ((now - seconds_ago).to_string(), body.to_string());
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let tag = hmac::sign(&key, format!("v0:{sent}:{body}").as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let request = reqwest::Client::new().post(endpoint).header("x-slack-request-timestamp", sent);
    let answer = request.header("x-slack-signature", format!("v0={hex}")).body(body).send().await.ok()?;
    Some((answer.status().as_u16(), answer.text().await.ok()?))
}

fn send(key: &str, content: &str, reply_to: Option<&str>) -> PlatformAction {
    let speaker = Speaker { id: "robot".parse().expect("an id"), name: "Robot".into(), kind: None };
    let text = RenderedText { formatted: content.into(), plain: content.into(), mentions: Vec::new() };
    let reply_to = reply_to.map(PlatformMessageId::new);
    PlatformAction::Send { key: ActionKey::new(key), speaker: Some(speaker), text, reply_to, sent_at: None }
}

async fn conversation() {
    let slack = StandIn::start().await;
    let mut bridge = Bridge::start(&slack.base, "xoxb-salon", &slack.channel).await;
    assert!(bridge.catches_up().await.is_empty());

    // Slack checks the endpoint; others are refused.
    let (status, body) = bridge.post(&json!({"type": "url_verification", "challenge": "c"}), 0).await;
    assert_eq!((status, body.as_str()), (200, r#"{"challenge":"c"}"#));
    assert_eq!(bridge.post(&json!({"type": "url_verification", "challenge": "c"}), 301).await.0, 401);
    let unsigned = reqwest::Client::new().post(&bridge.endpoint).body("{}").send().await.expect("an answer");
    assert_eq!(unsigned.status().as_u16(), 401);

    // A person writes; the event comes twice and is reported once.
    let hello = slack.write("ann", "*hello*", None).await;
    let PlatformEvent::Message(message) = bridge.deliver("Ev1", &hello).await else { panic!("no message") };
    assert_eq!((message.author.name.as_str(), message.author.origin), ("ann", AuthorOrigin::Person));
    assert_eq!(render(&message.content, Flavour::Markdown), "**hello**");
    let repeated = json!({"type": "event_callback", "event_id": "Ev1", "event": hello});
    assert_eq!(bridge.post(&repeated, 0).await.0, 200);
    let hello_ts = hello["ts"].as_str().expect("an id").to_owned();
    let changed = json!({"type": "message", "subtype": "message_changed", "channel": slack.channel,
        "message": {"user": hello["user"], "text": "hello!", "ts": hello_ts, "edited": {"ts": "9.0"}},
        "previous_message": {"text": "*hello*"}});
    // The next that is reported is the edit: the repetition was dropped.
    assert!(matches!(bridge.deliver("Ev2", &changed).await, PlatformEvent::Edit { .. }));

    // The bridge answers in a thread, edits and deletes.
    let sent = bridge.perform(send("k1", "hi Ann", Some(&hello_ts))).await.expect("an id");
    let replies =
        slack.call("conversations.replies", "xoxp-ann", json!({"channel": slack.channel, "ts": hello_ts})).await;
    let reply = replies["messages"].as_array().expect("messages").last().expect("a reply").clone();
    assert_eq!((&reply["username"], &reply["text"]), (&json!("Robot"), &json!("hi Ann")));
    // A reply to the reply is in the same thread.
    let inner = bridge.perform(send("k2", "and more", Some(sent.as_str()))).await.expect("an id");
    let replies =
        slack.call("conversations.replies", "xoxp-ann", json!({"channel": slack.channel, "ts": hello_ts})).await;
    assert_eq!(replies["messages"].as_array().expect("messages").len(), 3);
    let text = RenderedText { formatted: "hi, Ann".into(), plain: "hi, Ann".into(), mentions: Vec::new() };
    bridge.perform(PlatformAction::Edit { key: ActionKey::new("k3"), speaker: None, target: sent, text }).await;
    let retract = PlatformAction::Retract { key: ActionKey::new("k4"), speaker: None, target: inner };
    bridge.perform(retract.clone()).await;
    bridge.perform(retract).await;
    bridge.perform(send("k5", "to all", None)).await;
    let texts: Vec<_> = slack.history().await.iter().map(|message| message["text"].clone()).collect();
    assert_eq!(texts, ["*hello*", "to all"]);
    bridge.end().await;

    // What was written while the bridge was away is read from the history, and its own messages are recognised.
    slack.write("bob", "while you were away", None).await;
    let mut bridge = Bridge::start(&slack.base, "xoxb-salon", &slack.channel).await;
    let told = bridge.catches_up().await;
    assert_eq!(told, ["hello", "echo k1", "echo k5", "while you were away"]);
    bridge.end().await;
}

async fn live() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let (token, channel) = (variable("SALON_LIVE_SLACK_TOKEN"), variable("SALON_LIVE_SLACK_CHANNEL"));
    let mut bridge = Bridge::start("https://slack.com/api/", &token, &channel).await;
    bridge.catches_up().await;
    let sent = bridge.perform(send("live", "a test of Salon's bridge", None)).await.expect("an id");
    bridge.perform(PlatformAction::Retract { key: ActionKey::new("live2"), speaker: None, target: sent }).await;
    bridge.end().await;
}
