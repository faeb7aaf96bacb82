//! What a scene expects, and how it tells that something else came.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::connection::Came;
use super::matching::{compare, substitute};
use super::stage::{AwaitedFrame, FENCE, SceneStage, shorten};
use super::{ConnectionName, Expected, SceneIncoming};
use crate::Failure;
use crate::gateway::TestToken;
use crate::http::{HttpAnswer, HttpCall};

impl SceneStage {
    pub(crate) async fn get(&mut self, who: &ConnectionName, what: &SceneIncoming) -> Result<(), Failure> {
        match what {
            SceneIncoming::Sent(ids) => {
                for id in ids {
                    let sent = self.sent.get(id).cloned().ok_or_else(|| format!("nobody ever sent {id}"))?;
                    let came = self.next_text(who, AwaitedFrame::Frame).await?;
                    if came != sent {
                        return Err(format!("expected, byte for byte\n    {sent}\n  came\n    {came}"));
                    }
                }
                Ok(())
            }
            SceneIncoming::Raw(text) => {
                let (expected, came) =
                    (substitute(text, &self.bindings), self.next_text(who, AwaitedFrame::Frame).await?);
                if came == expected { Ok(()) } else { Err(format!("expected\n    {expected}\n  came\n    {came}")) }
            }
            SceneIncoming::Json(expected) => {
                let text = self.next_text(who, AwaitedFrame::Frame).await?;
                let came = self.value(&text)?;
                compare(expected, &came, &mut self.bindings).map_err(|told| format!("{told}\n  in {text}"))?;
                self.hear(who, &came)
            }
            SceneIncoming::Presence { event, of, more } => {
                let wanted = match *event {
                    "heartbeat" => AwaitedFrame::Heartbeat,
                    _ if of == who.participant() => AwaitedFrame::OwnPresence,
                    _ => AwaitedFrame::Frame,
                };
                let came = self.next_value(who, wanted).await?;
                let payload = json!({"event": event, "participant": {"id": of}});
                let connection = self.connection(who)?;
                if connection.machine.is_some() {
                    let expected = super::machine::presence(&payload);
                    compare(&expected, &came, &mut self.bindings).map_err(|told| format!("{told}\n  in {came}"))?;
                    let Some(more) = more else { return Ok(()) };
                    return compare(more, &came["payload"]["presence"]["participant"], &mut self.bindings);
                }
                let expected = match connection.as_framed() {
                    Some(_) => json!({"sender": "system:gateway", "kind": "presence", "payload": payload}),
                    None => json!({
                        "protocol": "mcp-x/v0", "id": "(any)", "ts": "(any)", "from": "system:gateway", "kind": "presence",
                        "payload": payload,
                    }),
                };
                compare(&expected, &came, &mut self.bindings).map_err(|told| format!("{told}\n  in {came}"))?;
                let Some(more) = more else { return Ok(()) };
                compare(more, &came["payload"]["participant"], &mut self.bindings)
            }
            SceneIncoming::Refusal { code, regarding } => {
                let came = self.next_value(who, AwaitedFrame::Frame).await?;
                self.expect_refusal(&came, code, regarding.as_deref())
            }
            SceneIncoming::ErrorNotice { code, regarding } => {
                let mut presence = Vec::new();
                let came = loop {
                    let text = self.next_text(who, AwaitedFrame::Frame).await?;
                    let came: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
                    if came["kind"] != "presence" {
                        break came;
                    }
                    presence.push(text);
                };
                self.connection(who)?.put_back(presence);
                self.expect_refusal(&came, code, regarding.as_deref())
            }
            SceneIncoming::NothingMore => self.fence(who).await,
        }
    }

    /// Lets anything pass until it comes.
    pub(crate) async fn wait(&mut self, who: &ConnectionName, what: &SceneIncoming) -> Result<(), Failure> {
        let received = match (what, self.connection(who)?.as_framed()) {
            (SceneIncoming::Json(expected), Some(_)) => Some(SceneIncoming::Json(super::framed::received(expected))),
            _ => None,
        };
        let what = received.as_ref().unwrap_or(what);
        loop {
            let text = self.next_text(who, AwaitedFrame::OwnPresence).await?;
            let came = self.value(&text).unwrap_or_default();
            let found = match what {
                SceneIncoming::Json(expected) => compare(expected, &came, &mut self.bindings).is_ok(),
                SceneIncoming::Sent(ids) => ids.iter().any(|id| self.sent.get(id) == Some(&text)),
                _ => return Err("nobody can wait for this".into()),
            };
            if found {
                return self.hear(who, &came);
            }
        }
    }

    /// Remembers what may be answered later.
    fn hear(&mut self, who: &ConnectionName, came: &Value) -> Result<(), Failure> {
        let connection = self.connection(who)?;
        if let Some(session) = connection.as_framed() {
            session.hear(came);
        } else if let Some(machine) = &mut connection.machine {
            machine.hear(came);
        } else if let Some(served) = connection.as_served() {
            served.hear(came);
        } else if let Some(client) = &mut connection.client {
            client.hear(came);
        } else if let Some(id) = came["id"].as_str() {
            self.last_ids.entry(id.to_owned()).or_insert_with(|| came.to_string());
        }
        Ok(())
    }

    fn expect_refusal(&mut self, came: &Value, code: &str, regarding: Option<&str>) -> Result<(), Failure> {
        let regarding = regarding.map_or("(absent)".into(), |id| substitute(id, &self.bindings));
        if came["header"].is_object() {
            let expected = super::machine::refusal(code, &regarding);
            return compare(&expected, came, &mut self.bindings).map_err(|told| format!("{told}\n  in {came}"));
        }
        if came["status"] == "rejected" || came["status"] == "error" {
            let expected = json!({"status": "(any)", "code": code, "message": "(any)"});
            return compare(&expected, came, &mut self.bindings);
        }
        compare(&refusal(code, &regarding), came, &mut self.bindings).map_err(|told| format!("{told}\n  in {came}"))
    }

    pub(crate) async fn next_text(&mut self, who: &ConnectionName, wanted: AwaitedFrame) -> Result<String, Failure> {
        match self.next(who, wanted).await? {
            Came::Text(text) => Ok(text),
            other => Err(format!("expected a frame, came {other}")),
        }
    }

    async fn next_value(&mut self, who: &ConnectionName, wanted: AwaitedFrame) -> Result<Value, Failure> {
        let text = self.next_text(who, wanted).await?;
        self.value(&text)
    }

    /// What a frame says, with the names of what has one.
    fn value(&self, text: &str) -> Result<Value, Failure> {
        let read = self.named.read(text)?;
        serde_json::from_str(&read).map_err(|e| format!("a frame is not JSON ({e}): {text}"))
    }

    async fn fence(&mut self, who: &ConnectionName) -> Result<(), Failure> {
        self.fences += 1;
        let id = format!("{FENCE}-{}", self.fences);
        if self.connection(who)?.client.is_some() {
            return self.fence_by_call(who, &id).await;
        }
        let path = format!("/v0/topics/{}/messages", self.connection(who)?.topic);
        let text = self.fill(&ConnectionName(FENCE.into()), &format!(r#"{{"id":"{id}"}}"#))?;
        let token = self.gateway.token(&TestToken::new(FENCE))?;
        let posted = HttpCall::new("POST", path).bearer(&token).body(text.clone()).send(self.gateway.address()).await?;
        if posted.status / 100 != 2 {
            return Err(format!("the fence was not published: {} {}", posted.status, posted.body));
        }
        loop {
            match self.next(who, AwaitedFrame::Fence).await? {
                Came::Text(came) if came == text || is_framed_fence(&came, &id) => return Ok(()),
                // A fence of an earlier step, which nobody has looked at.
                Came::Text(came) if is_fence(&came) => {}
                other => return Err(format!("expected nothing more, came {other}")),
            }
        }
    }

    pub(crate) async fn flood(&mut self, who: &ConnectionName, count: usize, code: &str) -> Result<(), Failure> {
        let ids: Vec<String> = (1..=count).map(|i| format!("flood-{i}")).collect();
        for id in &ids {
            let text = self.fill(who, &format!(r#"{{"id":"{id}"}}"#))?;
            self.connection(who)?.send(&text).await?;
        }
        let (mut accepted, mut refused) = (0, 0);
        for _ in &ids {
            let came = self.next_value(who, AwaitedFrame::Frame).await?;
            if came["kind"] == "mcp" {
                accepted += 1;
            } else {
                let regarding =
                    came["correlation_id"].as_str().filter(|id| id.starts_with("flood-")).unwrap_or("flood-N");
                compare(&refusal(code, regarding), &came, &mut self.bindings)?;
                refused += 1;
            }
        }
        if refused > 0 && accepted > 0 {
            Ok(())
        } else {
            Err(format!("{accepted} were accepted and {refused} refused"))
        }
    }

    /// Posts until one is refused; at least the first is not.
    pub(crate) async fn flood_by_posts(
        &mut self,
        who: &ConnectionName,
        topic: &str,
        count: usize,
        code: &str,
    ) -> Result<(), Failure> {
        let token = self.gateway.token(&TestToken::new(who.participant()))?;
        for number in 1..=count {
            let body = self.fill(who, &format!(r#"{{"id":"flood-{number}"}}"#))?;
            let call = HttpCall::new("POST", format!("/v0/topics/{topic}/messages")).bearer(&token).body(body);
            let came = call.send(self.gateway.address()).await?;
            if number > 1 && came.status == 429 {
                let refused = Expected {
                    status: "429".into(),
                    json: Some(json!({"code": code, "error": "(any)"})),
                    ..Expected::default()
                };
                return self.expect_answer(&refused, &came);
            }
            if came.status != 201 {
                return Err(format!("post {number} was answered with {}", came.status));
            }
        }
        Err(format!("all {count} were accepted"))
    }

    pub(crate) async fn closed(&mut self, who: &ConnectionName, code: u16) -> Result<(), Failure> {
        loop {
            match self.next(who, AwaitedFrame::Close).await? {
                Came::Closed(came, _) if came == code => return Ok(()),
                // A shutdown is announced first.
                Came::Text(text) if code == 1001 && text.contains(r#""code":"closing""#) => {}
                // Who is removed may get what was on the way, or not.
                Came::Text(_) if [4403, 4404].contains(&code) => {}
                other => return Err(format!("expected to be closed with {code}, came {other}")),
            }
        }
    }

    pub(crate) async fn expect_welcome(&mut self, who: &ConnectionName, topic: &str) -> Result<(), Failure> {
        // The very first frame, whatever it is: nothing passes by unseen before a welcome.
        let came = self.connection(who)?.next().await?;
        self.transcript.push(format!("      {} ← {came}", who.0));
        let Came::Text(text) = came else { return Err(format!("expected a welcome, came {came}")) };
        let came: Value = serde_json::from_str(&text).map_err(|e| format!("the welcome is not JSON: {e}"))?;
        let expected = json!({
            "protocol": "mcp-x/v0", "id": "(any)", "ts": "(any)", "from": "system:gateway", "kind": "system",
            "payload": {
                "event": "welcome", "type": "welcome", "participant": {"id": who.participant()},
                "participant_id": who.participant(), "topic": topic, "participants": "(any)", "history": "(any)",
                "protocol": "mcp-x/v0", "gateway": {"id": "system:gateway"},
            },
        });
        compare(&expected, &came, &mut self.bindings)?;
        self.connection(who)?.welcome = text;
        Ok(())
    }

    pub(crate) fn expect_refused(&mut self, came: &HttpAnswer, status: &str, code: &str) -> Result<(), Failure> {
        let json = json!({"error": "(any)", "code": code});
        self.expect_answer(&Expected { status: status.into(), json: Some(json), ..Expected::default() }, came)
    }

    pub(crate) fn expect_answer(&mut self, expected: &Expected, came: &HttpAnswer) -> Result<(), Failure> {
        self.transcript.push(format!("      ← {} {}", came.status, shorten(&came.body)));
        let status = came.status.to_string();
        let fits = expected.status.bytes().zip(status.bytes()).all(|(want, came)| want == b'x' || want == came);
        if !fits {
            return Err(format!("expected status {}, came {status} {}", expected.status, came.body));
        }
        for (name, value) in &expected.headers {
            let has = came.header(&name.to_ascii_lowercase()).unwrap_or_default();
            let wanted = Value::String(substitute(value, &self.bindings));
            compare(&wanted, &Value::from(has), &mut self.bindings)
                .map_err(|told| format!("the header {name}: {told}"))?;
        }
        if let Some(terms) = &expected.listing {
            self.expect_listing(terms, &came.body, &["messages"])?;
            self.expect_listing(terms, &came.body, &["history"])?;
        }
        let Some(wanted) = &expected.json else { return Ok(()) };
        let body: Value =
            serde_json::from_str(&came.body).map_err(|e| format!("the answer is not JSON ({e}): {}", came.body))?;
        compare(wanted, &body, &mut self.bindings).map_err(|told| format!("{told}\n  in {body}"))
    }

    /// The array at `path` must hold exactly these entries, fences left out.
    pub(crate) fn expect_listing(&self, terms: &[String], text: &str, path: &[&str]) -> Result<(), Failure> {
        let place = path.join(".");
        let told = |e: serde_json::Error| format!("{place}: {e} in {text}");
        let mut inner = text;
        for key in path {
            let object: BTreeMap<&str, &RawValue> = serde_json::from_str(inner).map_err(told)?;
            inner = object.get(key).ok_or_else(|| format!("{place} is missing in {text}"))?.get();
        }
        let entries: Vec<&RawValue> = serde_json::from_str(inner).map_err(told)?;
        let entries: Vec<&str> = entries.into_iter().map(RawValue::get).filter(|text| !is_fence(text)).collect();
        let came: Vec<String> = entries.iter().map(|text| self.term(text)).collect();
        let terms: Vec<String> = terms.iter().map(|term| substitute(term, &self.bindings)).collect();
        if came != terms {
            return Err(format!("{place}: expected {}, came {}\n  in {inner}", terms.join(" "), came.join(" ")));
        }
        Ok(())
    }

    /// What a listing calls an entry; an id only when its bytes are those that were sent.
    fn term(&self, text: &str) -> String {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        let id = word(&value["id"]);
        match self.sent.get(&id) {
            Some(sent) if sent == text => id,
            Some(_) => format!("(altered {id})"),
            None if value["kind"] == "presence" => {
                let payload = &value["payload"];
                format!("{}:{}", word(&payload["event"]), word(&payload["participant"]["id"]))
            }
            None => id,
        }
    }
}

fn refusal(code: &str, regarding: &str) -> Value {
    json!({
        "protocol": "mcp-x/v0", "id": "(any)", "ts": "(any)", "from": "system:gateway", "kind": "system",
        "correlation_id": regarding,
        "payload": {"event": "error", "type": "error", "code": code, "message": "(any)"},
    })
}

fn is_fence(text: &str) -> bool {
    serde_json::from_str::<Value>(text)
        .is_ok_and(|entry| entry["from"] == FENCE || entry["sender"] == FENCE || entry["header"]["source"] == FENCE)
}

/// A fence as a client that gets no envelopes receives it.
fn is_framed_fence(text: &str, id: &str) -> bool {
    let is_it = |entry: &Value| {
        let framed = entry["sender"] == FENCE && entry["id"] == id;
        framed || entry["header"]["source"] == FENCE && entry["header"]["messageId"] == id
    };
    serde_json::from_str::<Value>(text).is_ok_and(|entry| is_it(&entry))
}
