//! Messages that wait to be published, in order.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use salon_client::{Outgoing, PublishError, Room};
use salon_protocol::Envelope;

use crate::switchboard::{Publish, PublishPurpose};

/// Envelopes on their way to the gateway.
const MAX_IN_FLIGHT: usize = 64;
/// What may wait behind them before nothing more is taken in.
const MAX_WAITING: usize = 1024;

type PublishFuture = Pin<Box<dyn Future<Output = (PublishPurpose, Result<Arc<Envelope>, PublishError>)> + Send>>;

/// Messages that wait, and those under way. A guest may publish only so fast, and its callers together ask faster.
pub(crate) struct GuestOutbox {
    room: Room,
    waiting: VecDeque<Publish>,
    publishing: FuturesUnordered<PublishFuture>,
}

impl GuestOutbox {
    pub(crate) fn new(room: Room) -> Self {
        Self { room, waiting: VecDeque::new(), publishing: FuturesUnordered::new() }
    }

    /// Whether more can be taken in.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < MAX_WAITING
    }

    pub(crate) fn push(&mut self, publish: Publish) {
        // Later progress replaces earlier progress, so a talkative server costs one entry a call.
        if let PublishPurpose::Progress(number) = publish.what {
            let same =
                |waiting: &&mut Publish| matches!(waiting.what, PublishPurpose::Progress(other) if other == number);
            if let Some(earlier) = self.waiting.iter_mut().rev().find(same) {
                earlier.payload = publish.payload;
                return;
            }
        }
        self.waiting.push_back(publish);
    }

    /// Publishes as many as may be under way at once. The first is stored first.
    pub(crate) async fn send(&mut self) {
        while self.publishing.len() < MAX_IN_FLIGHT
            && let Some(Publish { to, session, correlation, payload, what }) = self.waiting.pop_front()
        {
            let room = self.room.clone();
            let mut publishing: PublishFuture = Box::pin(async move {
                let outgoing = Outgoing::new(payload).to(to).to_session(session).correlation(correlation);
                let outcome = room.publish(outgoing).await;
                (what, outcome)
            });
            // Polled once, it has its place in the queue to the gateway, which has room for all that are in flight, before the next one is made.
            match once(&mut publishing).await {
                Poll::Pending => self.publishing.push(publishing),
                Poll::Ready(done) => self.publishing.push(Box::pin(std::future::ready(done))),
            }
        }
    }

    /// The outcome of a message; pending while none is under way.
    pub(crate) async fn outcome(&mut self) -> (PublishPurpose, Result<Arc<Envelope>, PublishError>) {
        match self.publishing.next().await {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.publishing.is_empty()
    }

    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    /// Gives the room back.
    pub(crate) fn into_room(self) -> Room {
        self.room
    }
}

/// Polls something once, also where the task has had its turn: what must keep its order cannot wait for the next turn, in which something else
/// may come first.
pub(crate) async fn once<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    tokio::task::unconstrained(poll_fn(|context| Poll::Ready(future.as_mut().poll(context)))).await
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use salon_client::{Client, Discovery, Event, Gateway, StaticToken};
    use salon_protocol::TopicName;
    use salon_testkit::{TestEngine, TestOptions, TestToken, within};
    use serde_json::value::RawValue;

    use super::*;

    /// Uses up the turn of the task that polls it.
    async fn tire() {
        poll_fn(|context| {
            while pin!(tokio::task::consume_budget()).poll(context).is_ready() {}
            Poll::Ready(())
        })
        .await;
    }

    fn notice(method: &str) -> Publish {
        let payload = RawValue::from_string(format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#)).expect("JSON");
        Publish { to: Vec::new(), session: None, correlation: None, payload, what: PublishPurpose::Notice }
    }

    #[tokio::test]
    async fn what_is_said_by_a_tired_task_is_not_overtaken() {
        let gateway = salon_testkit::TestGateway::start(TestOptions::new(TestEngine::Sqlite)).await.expect("a gateway");
        let token = StaticToken::new(gateway.token(&TestToken::new("robo")).expect("a token"));
        let address = Gateway::new(&format!("http://{}", gateway.address())).expect("an address");
        let client = Client::new(address, token);
        let topic = TopicName::new("room:a").expect("a name");
        let entering = client.room(topic).answer_by_hand().discovery(Discovery::OnDemand);
        let (room, mut events) = within("to enter", entering.join_listening()).await.expect("in time").expect("a room");

        let mut outbox = GuestOutbox::new(room);
        let saying = tokio::spawn(async move {
            outbox.push(notice("first"));
            tire().await;
            outbox.send().await;
            tokio::task::yield_now().await;
            outbox.push(notice("second"));
            outbox.send().await;
            while !outbox.is_empty() {
                outbox.outcome().await.1.expect("stored");
            }
            outbox
        });
        let mut heard = Vec::new();
        while heard.len() < 2 {
            if let Some(Event::Envelope(envelope)) = within("what was said", events.next()).await.expect("in time")
                && let Some(salon_protocol::Message::Notification { method }) = envelope.message()
            {
                heard.push(method.to_string());
            }
        }
        assert_eq!(heard, ["first", "second"]);
        let outbox = within("the outcomes", saying).await.expect("in time").expect("no panic");
        outbox.into_room().leave().await;
    }
}
