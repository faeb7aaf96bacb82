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
        let asked = others.into_iter().map(move |node| {
            let (shared, question) = (shared.clone(), question.clone());
            async move { shared.ask_node(&node, question).await }
        });
        futures_util::future::join_all(asked).map(|answers| answers.into_iter().flatten().collect()).boxed()
    }

    /// Answers what other nodes ask, from now on and for as long as the log is open. `None` is no answer.
    pub fn answer_others(&self, answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync + 'static) {
        self.spawn(self.shared.clone().answer(answer));
    }
}

impl Shared {
    async fn ask_node(&self, node: &str, question: Bytes) -> Option<Bytes> {
        let asked = self.link.client.request(self.link.names.ask(node), question);
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(answer)) => Some(answer.payload).filter(|answer| answer.len() <= MOST_BYTES),
            Ok(Err(error)) => {
                tracing::debug!(%node, %error, "another gateway could not be asked");
                None
            }
            Err(_) => {
                tracing::debug!(%node, "another gateway did not answer in time");
                None
            }
        }
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
