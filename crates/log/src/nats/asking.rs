//! What nodes ask one another: a question to every other node that lives, answered at once from what that node knows. Nothing is stored.
//!
//! Invariant: a node counts once, by a reply subject of its own, whatever comes there. One that lives and does not answer is told apart
//! from those that know nothing. One at which nobody listens, as the NATS servers have it, has ended, has not begun, or is cut off from
//! them; it is not waited for.
//!
//! Deliberately absent: what is asked. That is between the gateways, who trust whoever their NATS account lets in.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};

use super::{Nats, RETRY_DELAY, Shared};

/// How long an answer is waited for.
const ANSWERS_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest question and the longest answer.
const MAX_BYTES: usize = 64 * 1024;

impl Nats {
    /// Asks every other node that lives, and gives their answers; `None` where one of them gave none in time. Ready at once where there is
    /// no other.
    pub fn ask_others(&self, question: Vec<u8>) -> BoxFuture<'static, Option<Vec<Bytes>>> {
        let (shared, question) = (self.shared.clone(), Bytes::from(question));
        let others = shared.nodes.others();
        if others.is_empty() {
            return std::future::ready(Some(Vec::new())).boxed();
        }
        if question.len() > MAX_BYTES {
            return std::future::ready(None).boxed();
        }
        async move { shared.ask_nodes(&others, question).await }.boxed()
    }

    /// Answers what other nodes ask, from now on and for as long as the log is open.
    pub fn answer_others(&self, answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) {
        self.spawn(self.shared.clone().answer(answer));
    }
}

/// The answers to one question, and who has yet to answer.
struct Answers<'a> {
    /// What the reply subjects begin with.
    reply: String,
    unheard: HashSet<&'a str>,
    told: Vec<Bytes>,
}

impl<'a> Answers<'a> {
    fn of(nodes: &'a [String], reply: String) -> Self {
        Self { reply, unheard: nodes.iter().map(String::as_str).collect(), told: Vec::new() }
    }

    /// Where one node answers.
    fn place(&self, node: &str) -> String {
        format!("{}.{node}", self.reply)
    }

    /// Something came: an answer, or the server's word that nobody listens there.
    fn hear(&mut self, subject: &str, is_answer: bool, payload: Bytes) {
        let node = subject.strip_prefix(&*self.reply).and_then(|rest| rest.strip_prefix('.'));
        // What cannot be taken in is no answer.
        if payload.len() <= MAX_BYTES && node.is_some_and(|node| self.unheard.remove(node)) && is_answer {
            self.told.push(payload);
        }
    }
}

impl Shared {
    async fn ask_nodes(&self, nodes: &[String], question: Bytes) -> Option<Vec<Bytes>> {
        let (link, names) = (&self.link, &self.link.names);
        let mut answers = Answers::of(nodes, names.answer(&link.inbox()));
        let hearing = async {
            let Ok(mut told) = link.subscribe(answers.place("*")).await else { return };
            for node in nodes {
                // One that cannot be asked does not answer.
                let _ = link.say_to_answer(names.ask(node), answers.place(node), question.clone()).await;
            }
            while !answers.unheard.is_empty()
                && let Some(message) = told.next().await
            {
                answers.hear(&message.subject, message.status.is_none(), message.payload);
            }
        };
        // Whether that came to its end or not, those who are unheard say so.
        let _ = tokio::time::timeout(ANSWERS_TIMEOUT, hearing).await;
        if !answers.unheard.is_empty() {
            tracing::debug!(unheard = ?answers.unheard, "some gateways did not answer in time");
        }
        answers.unheard.is_empty().then_some(answers.told)
    }

    async fn answer(self: Arc<Self>, answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) {
        loop {
            if let Ok(mut questions) = self.link.subscribe(self.link.names.ask(&self.node)).await {
                while let Some(message) = questions.next().await {
                    if let Some(reply) = message.reply.filter(|_| message.payload.len() <= MAX_BYTES) {
                        // Whoever asked takes it for silence, when it cannot be told.
                        let _ = self.link.say(reply.into_string(), answer(&message.payload).into()).await;
                    }
                }
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_once_and_only_where_it_was_asked() {
        let nodes = ["n1".to_owned(), "n2".to_owned(), "n3".to_owned()];
        let mut answers = Answers::of(&nodes, "salon.answer.q".into());
        let mut hear = |subject: &str, is_answer, payload: &'static [u8]| {
            answers.hear(subject, is_answer, Bytes::from_static(payload));
            (answers.unheard.len(), answers.told.len())
        };
        assert_eq!(hear("salon.answer.q.n1", true, b"one"), (2, 1));
        assert_eq!(hear("salon.answer.q.n1", true, b"again"), (2, 1), "it has answered");
        for elsewhere in
            ["salon.answer.q", "salon.answer.q.", "salon.answer.q.n4", "salon.answer.qn2", "salon.answer.r.n2"]
        {
            assert_eq!(hear(elsewhere, true, b"?"), (2, 1), "{elsewhere}");
        }
        assert_eq!(hear("salon.answer.q.n2", true, &[0; MAX_BYTES + 1]), (2, 1), "too long to be taken in");
        assert_eq!(hear("salon.answer.q.n2", false, b""), (1, 1), "nobody listens there");
        assert_eq!(hear("salon.answer.q.n3", true, b"three"), (0, 2));
        assert_eq!(answers.told, ["one", "three"]);
    }
}
