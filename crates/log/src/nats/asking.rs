//! What nodes ask one another: a question to every other node that lives, answered at once from what that node knows. Nothing is stored.
//!
//! Deliberately absent: what is asked. That is between the gateways, who trust whoever their NATS account lets in.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};

use super::{Nats, PAUSE, Shared};

/// How long an answer is waited for. A node whose process is gone is not waited for: the server says that nobody listens there.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest question and the longest answer.
const MOST_BYTES: usize = 64 * 1024;

impl Nats {
    /// Asks every other node that lives, and gives the answers of those that gave one in time. Ready at once where there is no other.
    pub fn ask_others(&self, question: Vec<u8>) -> BoxFuture<'static, Vec<Bytes>> {
        let (shared, question) = (self.shared.clone(), Bytes::from(question));
        let others = shared.nodes.others();
        if others.is_empty() || question.len() > MOST_BYTES {
            return std::future::ready(Vec::new()).boxed();
        }
        async move { shared.ask_nodes(&others, question).await }.boxed()
    }

    /// Answers what other nodes ask, from now on and for as long as the log is open. `None` is no answer.
    pub fn answer_others(&self, answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync + 'static) {
        self.spawn(self.shared.clone().answer(answer));
    }
}

impl Shared {
    async fn ask_nodes(&self, nodes: &[String], question: Bytes) -> Vec<Bytes> {
        let (client, names) = (&self.link.client, &self.link.names);
        let reply = names.answer(&client.new_inbox());
        let (mut answers, mut unheard) = (Vec::new(), 0_usize);
        let hearing = async {
            let Ok(mut told) = client.subscribe(reply.clone()).await else { return };
            for node in nodes {
                let asked = client.publish_with_reply(names.ask(node), reply.clone(), question.clone()).await;
                unheard += usize::from(asked.is_ok());
            }
            while unheard > 0
                && let Some(message) = told.next().await
            {
                unheard -= 1;
                // One with a status is the server's: nobody listens there.
                if message.status.is_none() && message.payload.len() <= MOST_BYTES {
                    answers.push(message.payload);
                }
            }
        };
        if tokio::time::timeout(PATIENCE, hearing).await.is_err() {
            tracing::debug!(unheard, "some gateways did not answer in time");
        }
        answers
    }

    async fn answer(self: Arc<Self>, answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync + 'static) {
        loop {
            if let Ok(mut questions) = self.link.client.subscribe(self.link.names.ask(&self.node)).await {
                while let Some(message) = questions.next().await {
                    let Some(reply) = message.reply.filter(|_| message.payload.len() <= MOST_BYTES) else { continue };
                    if let Some(answer) = answer(&message.payload) {
                        // Whoever asked does without, when it cannot be told.
                        let _ = self.link.client.publish(reply, answer.into()).await;
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
