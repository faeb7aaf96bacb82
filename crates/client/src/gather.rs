//! The same question to several participants.

use std::fmt;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use salon_protocol::{ParticipantId, Tally, comparable_json};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;

use crate::mcp::ToolResult;
use crate::{CallError, DEFAULT_TIMEOUT, Room};

/// When enough participants have answered. A result with `isError` is an answer, but neither a first nor part of a majority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Gather {
    /// When one has.
    First,
    /// When all have.
    #[default]
    All,
    /// When more than half of the asked participants gave the same answer, or when that cannot happen any more.
    Majority,
}

/// What several participants answered. Made by [`Room::gather`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Gathered {
    /// Who answered what, in the order of the answers.
    pub answers: Vec<(ParticipantId, ToolResult)>,
    /// Who gave no answer, and why. Participants whose call was cancelled because enough had answered are here too.
    pub missing: Vec<(ParticipantId, CallError)>,
    /// The answer that was looked for: the first, or that of the majority. `None` when there is none, and always with [`Gather::All`].
    pub agreed: Option<ToolResult>,
}

/// A question to several participants that is about to be asked. Made by [`Room::gather`]; awaiting it asks.
#[must_use = "nobody is asked until this is awaited"]
pub struct Gathering {
    room: Room,
    peers: Vec<ParticipantId>,
    tool: String,
    arguments: Result<Box<RawValue>, CallError>,
    strategy: Gather,
    deadline: Duration,
}

impl Room {
    /// Calls the same tool of several participants and gathers what they answer.
    ///
    /// ```no_run
    /// # async fn example(room: salon_client::Room, voters: Vec<salon_client::protocol::ParticipantId>) {
    /// use salon_client::Gather;
    ///
    /// let vote = room.gather(voters, "vote", &serde_json::json!({"on": "lunch"})).strategy(Gather::Majority).await;
    /// match vote.agreed {
    ///     Some(answer) => println!("agreed: {}", answer.text()),
    ///     None => println!("no majority among {} answers", vote.answers.len()),
    /// }
    /// # }
    /// ```
    pub fn gather(
        &self,
        peers: impl IntoIterator<Item = ParticipantId>,
        tool: impl Into<String>,
        arguments: &(impl Serialize + ?Sized),
    ) -> Gathering {
        let mut asked: Vec<ParticipantId> = Vec::new();
        for peer in peers {
            // Nobody has two votes.
            if !asked.contains(&peer) {
                asked.push(peer);
            }
        }
        let arguments = to_raw_value(arguments).map_err(CallError::invalid_arguments);
        let (room, tool) = (self.clone(), tool.into());
        Gathering { room, peers: asked, tool, arguments, strategy: Gather::default(), deadline: DEFAULT_TIMEOUT }
    }
}

impl Gathering {
    /// When enough have answered; all by default. The calls that are still open then are cancelled.
    pub fn strategy(mut self, strategy: Gather) -> Self {
        self.strategy = strategy;
        self
    }

    /// How long to wait in all: 60 s by default. Answers until then are returned.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    async fn run(self) -> Gathered {
        let mut gathered = Gathered::default();
        let arguments = match &self.arguments {
            Ok(arguments) => arguments,
            Err(error) => {
                let failed = |peer| (peer, error.clone());
                return Gathered { missing: self.peers.into_iter().map(failed).collect(), ..gathered };
            }
        };
        let calls = self.peers.iter().map(|id| {
            // The deadline of the whole is what counts.
            let call =
                self.room.peer(id).call_tool(&self.tool, arguments).timeout(self.deadline).at_most(self.deadline);
            async move { (id, call.await) }
        });
        let mut calls: FuturesUnordered<_> = calls.collect();
        let mut count = Count::new(self.strategy, self.peers.len());
        let deadline = Instant::now().checked_add(self.deadline);
        let late = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(late);
        let why = loop {
            let (id, outcome) = tokio::select! { biased;
                answered = calls.next() => match answered {
                    Some(answered) => answered,
                    None => break CallError::Cancelled,
                },
                () = &mut late => break CallError::TimedOut,
            };
            let done = count.count(outcome.as_ref().ok());
            match outcome {
                Ok(result) => gathered.answers.push((id.clone(), result)),
                Err(error) => gathered.missing.push((id.clone(), error)),
            }
            if done {
                break CallError::Cancelled;
            }
        };
        // Dropping a call cancels it.
        drop(calls);
        gathered.agreed = count.agreed;
        let heard = |id: &ParticipantId| {
            gathered.answers.iter().any(|(one, _)| one == id) || gathered.missing.iter().any(|(one, _)| one == id)
        };
        let rest: Vec<_> = self.peers.iter().filter(|id| !heard(id)).map(|id| (id.clone(), why.clone())).collect();
        gathered.missing.extend(rest);
        gathered
    }
}

impl IntoFuture for Gathering {
    type Output = Gathered;
    type IntoFuture = BoxFuture<'static, Gathered>;

    fn into_future(self) -> Self::IntoFuture {
        self.run().boxed()
    }
}

impl fmt::Debug for Gathering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peers, tool, strategy, .. } = self;
        f.debug_struct("Gathering")
            .field("peers", peers)
            .field("tool", tool)
            .field("strategy", strategy)
            .finish_non_exhaustive()
    }
}

/// Counts answers until there are enough.
struct Count {
    strategy: Gather,
    tally: Tally<String>,
    open: usize,
    agreed: Option<ToolResult>,
}

impl Count {
    fn new(strategy: Gather, asked: usize) -> Self {
        Self { strategy, tally: Tally::new(asked), open: asked, agreed: None }
    }

    /// Counts an answer, or that there was none, and returns whether the rest are needed no more.
    fn count(&mut self, answer: Option<&ToolResult>) -> bool {
        self.open -= 1;
        let answer = answer.filter(|answer| !answer.is_error);
        let enough = match self.strategy {
            Gather::All => false,
            Gather::First => {
                self.agreed = answer.cloned();
                self.agreed.is_some()
            }
            Gather::Majority => {
                match answer {
                    Some(answer) => self.tally.vote(ballot(answer)),
                    None => self.tally.pass(),
                }
                // The one that makes the majority is one of it.
                self.agreed = self.tally.majority().and(answer).cloned();
                self.tally.is_settled()
            }
        };
        enough || self.open == 0
    }
}

/// An answer in a canonical form, to compare it: the structured result if there is one, the content if not.
fn ballot(answer: &ToolResult) -> String {
    match &answer.structured {
        Some(structured) => comparable_json(structured),
        None => to_raw_value(&answer.content).map_or_else(|_| String::new(), |content| comparable_json(&content)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Option<ToolResult> {
        Some(text.into())
    }

    /// Counts answers until that is enough, and returns how many it took and what was agreed.
    fn tally(strategy: Gather, answers: &[Option<ToolResult>]) -> (usize, Option<String>) {
        let mut count = Count::new(strategy, answers.len());
        let enough = answers.iter().position(|answer| count.count(answer.as_ref())).expect("the last is enough");
        (enough + 1, count.agreed.map(|agreed| agreed.text()))
    }

    #[test]
    fn the_first_answer_is_enough() {
        assert_eq!(tally(Gather::First, &[None, answer("a"), answer("b")]), (2, Some("a".into())));
        let failed = Some(ToolResult::error("no"));
        assert_eq!(tally(Gather::First, &[failed.clone(), answer("b")]), (2, Some("b".into())));
        assert_eq!(tally(Gather::First, &[failed, None]), (2, None));
    }

    #[test]
    fn all_means_all() {
        assert_eq!(tally(Gather::All, &[answer("a"), None, answer("a")]), (3, None));
    }

    #[test]
    fn a_majority_ends_it() {
        let [a, b, c] = ["a", "b", "c"].map(answer);
        assert_eq!(tally(Gather::Majority, &[a.clone(), a.clone(), b.clone()]), (2, Some("a".into())));
        assert_eq!(tally(Gather::Majority, &[b.clone(), a.clone(), None, a.clone(), a.clone()]), (5, Some("a".into())));
        // Half is no majority, and three different answers of four leave no hope.
        assert_eq!(tally(Gather::Majority, &[a.clone(), a.clone(), b.clone(), c.clone()]), (4, None));
        assert_eq!(tally(Gather::Majority, &[a.clone(), b.clone(), c.clone(), c.clone()]), (3, None));
        assert_eq!(tally(Gather::Majority, &[None, None, a.clone()]), (2, None));
        assert_eq!(tally(Gather::Majority, &[a]), (1, Some("a".into())));
    }
}
