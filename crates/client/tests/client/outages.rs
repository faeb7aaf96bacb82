//! What is held back while a gateway can store nothing. The gateway is played by hand: what matters happens between two of its frames.

use std::collections::VecDeque;
use std::io;

use futures_util::future::{BoxFuture, join_all};
use futures_util::{FutureExt, SinkExt, StreamExt};
use parking_lot::Mutex;
use salon_client::{CallError, Client, Dial, Entering, Event, Events, Gateway, Link, Room, StaticToken, Wire};
use salon_testkit::within;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::stage::{heard, id, quick, topic};

/// Leads to one connection after the other, while there are any.
struct Wires(Mutex<VecDeque<DuplexStream>>);

impl Dial for Wires {
    fn dial(&self) -> BoxFuture<'_, io::Result<Box<dyn Wire>>> {
        let wire = self.0.lock().pop_front();
        let dialled = wire.map(|wire| Box::new(wire) as Box<dyn Wire>).ok_or(io::ErrorKind::NotConnected.into());
        Box::pin(std::future::ready(dialled))
    }
}

/// The gateway's end of it.
struct Played(WebSocketStream<DuplexStream>);

impl Played {
    /// Lets alice in.
    async fn accept(far: DuplexStream) -> Self {
        within("a connection to begin", async {
            let mut played = Self(tokio_tungstenite::accept_async(far).await.unwrap());
            let welcome = json!({ "event": "welcome", "participant_id": "alice", "participants": [], "history": {} });
            played.tell(None, welcome).await;
            played
        })
        .await
        .unwrap()
    }

    async fn send(&mut self, envelope: &Value) {
        let sending = self.0.send(Message::text(envelope.to_string()));
        within("a frame to be taken", sending).await.unwrap().unwrap();
    }

    /// What the gateway says of itself, or of something that was sent.
    async fn tell(&mut self, about: Option<&Value>, payload: Value) {
        let mut told = json!({ "protocol": "mcp-x/v0", "id": "word", "ts": "2025-08-17T14:00:00Z", "from": "system:gateway",
            "to": ["alice"], "kind": "system", "payload": payload });
        if let Some(about) = about {
            told["correlation_id"] = about["id"].clone();
        }
        self.send(&told).await;
    }

    async fn refuse(&mut self, sent: &Value) {
        self.refuse_as(sent, "closing").await;
    }

    async fn refuse_as(&mut self, sent: &Value, code: &str) {
        self.tell(Some(sent), json!({ "event": "error", "code": code, "message": "not now" })).await;
    }

    async fn notify_outage(&mut self) {
        let details = json!({ "passing": true });
        self.tell(None, json!({ "event": "error", "code": "closing", "message": "not now", "details": details })).await;
    }

    async fn tell_ready(&mut self) {
        self.tell(None, json!({ "event": "ready", "message": "now" })).await;
    }

    /// Makes sure that everything before has been heard.
    async fn reach(&mut self, events: &mut Events) {
        self.send(&line("hear")).await;
        assert_eq!(heard(events).await.unwrap(), "hear");
    }

    async fn next(&mut self) -> Value {
        within("a frame", async {
            loop {
                if let Message::Text(text) = self.0.next().await.unwrap().unwrap() {
                    return serde_json::from_str(text.as_str()).unwrap();
                }
            }
        })
        .await
        .unwrap()
    }

    /// The next chat lines, whole.
    async fn lines<const N: usize>(&mut self, texts: [&str; N]) -> [Value; N] {
        let mut lines = [const { Value::Null }; N];
        for (line, text) in lines.iter_mut().zip(texts) {
            *line = self.next().await;
            assert_eq!(line["payload"]["params"]["text"], text, "{line}");
        }
        lines
    }

    /// Reads on until the other end has gone.
    async fn wait_until_closed(mut self) {
        within("the end", async { while let Some(Ok(_)) = self.0.next().await {} }).await.unwrap();
    }
}

/// Alice on her way in, and the other ends of the connections she can have.
fn alice_outside<const N: usize>() -> (Entering, [DuplexStream; N]) {
    let mut wires = VecDeque::new();
    let far = std::array::from_fn(|_| {
        let (near, far) = tokio::io::duplex(1 << 16);
        wires.push_back(near);
        far
    });
    let client = Client::new(Gateway::through(Wires(Mutex::new(wires))), StaticToken::new("any"));
    (client.room(topic()).answer_by_hand(), far)
}

async fn enter(alice: Entering, far: DuplexStream) -> (Room, Events, Played) {
    let entering = async { tokio::join!(alice.join_listening(), Played::accept(far)) };
    let (joined, played) = within("alice to enter", entering).await.unwrap();
    let (room, events) = joined.unwrap();
    (room, events, played)
}

async fn alice() -> (Room, Events, Played) {
    let (alice, [far]) = alice_outside();
    enter(alice.once(), far).await
}

/// What bob says.
fn line(text: &str) -> Value {
    let payload = json!({ "jsonrpc": "2.0", "method": "notifications/chat/message", "params": { "text": text } });
    json!({ "protocol": "mcp-x/v0", "id": text, "ts": "2025-08-17T14:00:00Z", "from": "bob", "to": [], "kind": "mcp",
        "payload": payload })
}

async fn next(events: &mut Events) -> Event {
    within("an event", events.next()).await.unwrap().unwrap()
}

/// Says several things without waiting for the one before.
fn say<const N: usize>(room: &Room, texts: [&'static str; N]) -> impl Future<Output = ()> + use<N> {
    let room = room.clone();
    let saying = tokio::spawn(async move { join_all(texts.map(|text| room.say(text))).await });
    async {
        let outcomes = within("everything to be stored", saying).await.unwrap().unwrap();
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    }
}

/// It was stored and its acknowledgement was late: the echo comes after the refusal.
#[tokio::test]
async fn what_was_refused_and_is_heard_all_the_same_keeps_nothing_else_back() {
    let (room, _events, mut gateway) = alice().await;
    let saying = say(&room, ["1", "2", "3"]);
    let [one, two, _] = gateway.lines(["1", "2", "3"]).await;
    gateway.refuse(&one).await;
    gateway.refuse(&two).await;
    gateway.send(&one).await;
    for line in gateway.lines(["2", "3"]).await {
        gateway.send(&line).await;
    }
    saying.await;
    // Nothing is left to be held back, even where all of it was heard.
    let saying = say(&room, ["4"]);
    let [four] = gateway.lines(["4"]).await;
    gateway.refuse(&four).await;
    gateway.send(&four).await;
    saying.await;
    let saying = say(&room, ["5"]);
    let [five] = gateway.lines(["5"]).await;
    gateway.send(&five).await;
    saying.await;
    drop(room);
    gateway.wait_until_closed().await;
}

#[tokio::test]
async fn what_is_refused_is_sent_again_in_the_order_in_which_it_was_sent_and_nothing_overtakes_it() {
    let (room, mut events, mut gateway) = alice().await;
    let saying = say(&room, ["1", "2", "3"]);
    let [one, _, three] = gateway.lines(["1", "2", "3"]).await;
    gateway.refuse(&three).await;
    gateway.refuse(&one).await;
    gateway.reach(&mut events).await;
    let later = say(&room, ["4"]);
    for line in gateway.lines(["1", "2", "3", "4"]).await {
        gateway.send(&line).await;
    }
    saying.await;
    later.await;
    drop(room);
    gateway.wait_until_closed().await;
}

/// Its caller was told that it failed; nobody expects it to be carried out minutes later.
#[tokio::test]
async fn a_call_that_was_given_up_is_not_sent_again() {
    let (room, _events, mut gateway) = alice().await;
    let call = room.request(&id("bob"), "robot/move", &json!({})).await.unwrap();
    let request = gateway.next().await;
    assert_eq!(request["payload"]["method"], "robot/move");
    drop(call);
    let cancellation = gateway.next().await;
    assert_eq!(cancellation["payload"]["method"], "notifications/cancelled");
    gateway.refuse(&request).await;
    gateway.refuse(&cancellation).await;
    // It may have been stored all the same, so that it is withdrawn.
    assert_eq!(gateway.next().await, cancellation);
    gateway.send(&cancellation).await;
    let saying = say(&room, ["after"]);
    let [after] = gateway.lines(["after"]).await;
    gateway.send(&after).await;
    saying.await;
    drop(room);
    gateway.wait_until_closed().await;
}

/// The first of them is stored and being answered, whatever becomes of the second.
#[tokio::test]
async fn a_passing_refusal_of_what_was_sent_again_fails_no_call_that_is_stored() {
    let (room, mut events, mut gateway) = alice().await;
    let call = room.request(&id("bob"), "robot/move", &json!({})).await.unwrap();
    let request = gateway.next().await;
    gateway.refuse(&request).await;
    gateway.notify_outage().await;
    gateway.tell_ready().await;
    assert_eq!(gateway.next().await, request, "the same again");
    gateway.send(&request).await;
    gateway.refuse(&request).await;
    gateway.refuse_as(&request, "rate_limited").await;
    let answer = json!({ "jsonrpc": "2.0", "id": request["payload"]["id"], "result": { "moved": true } });
    let answer = json!({ "protocol": "mcp-x/v0", "id": "answer", "ts": "2025-08-17T14:00:00Z", "from": "bob", "to": ["alice"],
        "kind": "mcp", "correlation_id": request["id"], "payload": answer });
    gateway.send(&answer).await;
    let result = within("the answer", call.result()).await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(result.get()).unwrap(), json!({ "moved": true }));
    // A no for good is one, also to what is stored.
    let call = room.request(&id("bob"), "robot/move", &json!({})).await.unwrap();
    let request = gateway.next().await;
    gateway.send(&request).await;
    gateway.refuse_as(&request, "recipient_not_found").await;
    let failed = within("the refusal", call.result()).await.unwrap();
    assert!(matches!(failed, Err(CallError::Gone(_))), "{failed:?}");
    // A notification is not affected either, and nothing is reported of it.
    let saying = say(&room, ["1"]);
    let [one] = gateway.lines(["1"]).await;
    gateway.send(&one).await;
    saying.await;
    assert_eq!(heard(&mut events).await.unwrap(), "1");
    gateway.refuse(&one).await;
    gateway.send(&line("hear")).await;
    let Event::Envelope(told) = next(&mut events).await else { panic!("no envelope") };
    assert_eq!(told.id().as_str(), "hear");
    drop(room);
    gateway.wait_until_closed().await;
}

/// The new connection's welcome says as much as the word that the old one could not bring any more.
#[tokio::test]
async fn an_outage_that_is_over_with_the_next_connection_is_told_to_be_over_once() {
    let (alice, [first, second]) = alice_outside();
    let (room, mut events, mut gateway) = enter(alice.backoff(quick()), first).await;
    // There is something to come back to.
    gateway.reach(&mut events).await;
    gateway.notify_outage().await;
    assert!(matches!(next(&mut events).await, Event::Outage(_)));
    assert!(matches!(*room.link().borrow(), Link::Stalled { .. }));
    drop(gateway);
    let mut gateway = Played::accept(second).await;
    assert!(matches!(next(&mut events).await, Event::Recovered));
    assert!(matches!(*room.link().borrow(), Link::Live));
    gateway.tell_ready().await;
    gateway.send(&line("hear")).await;
    assert!(matches!(next(&mut events).await, Event::Envelope(_)), "not again");
    drop(room);
    gateway.wait_until_closed().await;
}

#[tokio::test]
async fn a_leave_comes_after_the_delayed_messages() {
    let (room, mut events, mut gateway) = alice().await;
    let saying = say(&room, ["1"]);
    let [one] = gateway.lines(["1"]).await;
    gateway.refuse(&one).await;
    gateway.reach(&mut events).await;
    let speaker = room.clone();
    let mut last = Box::pin(speaker.say("2"));
    assert!(last.as_mut().now_or_never().is_none());
    let leaving = tokio::spawn(room.leave());
    for line in gateway.lines(["1", "2"]).await {
        gateway.send(&line).await;
    }
    saying.await;
    within("the last word", last).await.unwrap().unwrap();
    gateway.wait_until_closed().await;
    within("alice to leave", leaving).await.unwrap().unwrap();
}
