//! A person on Matrix: the client-server API by plain HTTP, with nothing of the bridge's own code.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

/// How long to wait for something to be seen, on a busy machine.
const WAIT: Duration = Duration::from_secs(90);

pub(crate) struct Person {
    http: reqwest::Client,
    base: String,
    token: String,
    pub(crate) user_id: String,
    since: Option<String>,
    seen: VecDeque<Value>,
}

static TRANSACTION: AtomicU64 = AtomicU64::new(0);

impl Person {
    pub(crate) async fn register(base: &str, name: &str) -> Self {
        let http = reqwest::Client::new();
        let body = json!({"auth": {"type": "m.login.dummy"}, "username": name, "password": "a password of the tests"});
        let mut person = Self {
            http,
            base: base.to_owned(),
            token: String::new(),
            user_id: String::new(),
            since: None,
            seen: VecDeque::new(),
        };
        let answer = person.call("POST", "/v3/register", Some(body)).await;
        person.token = answer["access_token"].as_str().expect("a token").to_owned();
        person.user_id = answer["user_id"].as_str().expect("an id").to_owned();
        let path = format!("/v3/profile/{}/displayname", person.user_id);
        let mut shown = name.to_owned();
        shown[..1].make_ascii_uppercase();
        person.call("PUT", &path, Some(json!({"displayname": shown}))).await;
        person
    }

    /// Makes a room with an alias, invites others, and returns its id.
    pub(crate) async fn create_room(&self, alias: &str, invited: &[&str]) -> String {
        let body = json!({"preset": "private_chat", "room_alias_name": alias, "invite": invited,
            "power_level_content_override": {"invite": 0}});
        let answer = self.call("POST", "/v3/createRoom", Some(body)).await;
        answer["room_id"].as_str().expect("a room").to_owned()
    }

    pub(crate) async fn join(&self, room: &str) {
        self.call("POST", &format!("/v3/rooms/{room}/join"), Some(json!({}))).await;
    }

    /// Sends a text and returns the event's id.
    pub(crate) async fn say(&self, room: &str, text: &str) -> String {
        self.send(room, json!({"msgtype": "m.text", "body": text})).await
    }

    pub(crate) async fn send(&self, room: &str, content: Value) -> String {
        let transaction = TRANSACTION.fetch_add(1, Ordering::Relaxed);
        let path = format!("/v3/rooms/{room}/send/m.room.message/t{transaction}");
        self.call("PUT", &path, Some(content)).await["event_id"].as_str().expect("an event").to_owned()
    }

    pub(crate) async fn redact(&self, room: &str, event: &str) {
        let transaction = TRANSACTION.fetch_add(1, Ordering::Relaxed);
        self.call("PUT", &format!("/v3/rooms/{room}/redact/{event}/t{transaction}"), Some(json!({}))).await;
    }

    /// The next event of others that fits, in the order of the room.
    pub(crate) async fn sees<T>(&mut self, what: &str, fits: impl Fn(&Value) -> Option<T>) -> T {
        let looking = async {
            loop {
                while let Some(event) = self.seen.pop_front() {
                    if event["sender"].as_str() == Some(&self.user_id) {
                        continue;
                    }
                    if let Some(found) = fits(&event) {
                        return found;
                    }
                }
                self.sync().await;
            }
        };
        tokio::time::timeout(WAIT, looking).await.unwrap_or_else(|_| panic!("never seen: {what}"))
    }

    /// The next message of others: who, the event, its content.
    pub(crate) async fn reads(&mut self, body: &str) -> Value {
        self.sees(body, |event| (event["content"]["body"].as_str() == Some(body)).then(|| event.clone())).await
    }

    /// Takes what is new, waiting for it where there is nothing.
    async fn sync(&mut self) {
        let filter = r#"{"room":{"timeline":{"limit":5000}},"presence":{"types":[]}}"#;
        let mut query = vec![("timeout", "5000"), ("filter", filter)];
        if let Some(since) = &self.since {
            query.push(("since", since));
        }
        let url =
            reqwest::Url::parse_with_params(&format!("{}/_matrix/client/v3/sync", self.base), query).expect("a URL");
        // A homeserver that is away comes back.
        let asking = async || self.http.get(url.clone()).bearer_auth(&self.token).send().await.ok();
        let answer = salon_testkit::eventually("the homeserver to answer", asking).await.expect("an answer");
        let Ok(text) = answer.text().await else { return };
        let Ok(answer) = serde_json::from_str::<Value>(&text) else { return };
        let Some(next) = answer["next_batch"].as_str() else { return };
        self.since = Some(next.to_owned());
        let rooms = answer["rooms"]["join"].as_object();
        for room in rooms.into_iter().flat_map(|rooms| rooms.values()) {
            assert_ne!(room["timeline"]["limited"], true, "the person missed something");
            self.seen.extend(room["timeline"]["events"].as_array().into_iter().flatten().cloned());
        }
    }

    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let url = format!("{}/_matrix/client{path}", self.base);
        let mut request = self.http.request(method.parse().expect("a method"), url);
        if !self.token.is_empty() {
            request = request.bearer_auth(&self.token);
        }
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        let answer = request.send().await.expect("the homeserver answers");
        let status = answer.status();
        let text = answer.text().await.expect("a body");
        assert!(status.is_success(), "{method} {path}: {status} {text}");
        serde_json::from_str(&text).expect("JSON")
    }
}
