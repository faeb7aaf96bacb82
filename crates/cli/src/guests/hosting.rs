//! The guests of a running gateway: each a task of its own, in a room over a connection made of memory.
//!
//! Invariant: what happens to one guest happens to no other. One that cannot be started is reported and left out until the next SIGHUP;
//! one whose terms did not change is not touched by it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use salon_client::{Client, Dial, Gateway, Token, TokenError, TokenProvider, Wire};
use salon_gateway::auth::{Grant, SigningKeys};
use salon_gateway::{GuestBoard, GuestCondition, GuestReport, Inside};
use salon_guests::{GuestError, GuestStatus};
use salon_protocol::{Timestamp, TopicPattern};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::join::offers;
use super::oauth::login_command;
use super::plan::{GuestPlan, GuestSeatKey, GuestTerms, InputAnswers, Planned, Sources};
use crate::signals::{Hangup, Hung};
use crate::{clock, safe};

/// How long a guest's token is good for. It never leaves this process; a connection that outlives it comes back with a new one.
const TTL: Duration = Duration::from_secs(12 * 60 * 60);

/// How long all guests together have to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The guests of a gateway.
pub(crate) struct Hosting {
    sources: Sources,
    answers: InputAnswers,
    gateway: Gateway,
    /// The data directory of the gateway, where its keys are.
    data: PathBuf,
    guests: BTreeMap<GuestSeatKey, Hosted>,
    /// What operators read of them.
    board: GuestBoard,
    tasks: JoinSet<Result<(), GuestError>>,
}

/// One that runs, or is about to end.
struct Hosted {
    terms: GuestTerms,
    task: Id,
    leave: CancellationToken,
    /// What to start when this one has ended.
    next: Option<GuestTerms>,
}

impl Hosting {
    pub(crate) fn new(
        sources: Sources,
        answers: InputAnswers,
        (inside, board): (Inside, GuestBoard),
        data: PathBuf,
    ) -> Self {
        Self {
            sources,
            answers: answers.settled(),
            gateway: Gateway::through(Within(inside)),
            data,
            guests: BTreeMap::new(),
            board,
            tasks: JoinSet::new(),
        }
    }

    /// Hosts the guests of `plan`, and after every hangup those of a new one, until `stop`; then ends them all.
    pub(crate) async fn run(mut self, plan: GuestPlan, mut hangup: Hangup, stop: impl Future<Output = ()>) {
        self.follow(plan);
        tokio::pin!(stop);
        loop {
            tokio::select! { biased;
                () = &mut stop => break,
                hung = hangup.next() => match hung {
                    Hung::Reload => self.reload(),
                    Hung::TerminalGone => break,
                },
                Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => self.ended(ended),
            }
        }
        for hosted in self.guests.values() {
            hosted.leave.cancel();
        }
        let ending = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, ending).await.is_err() {
            tracing::warn!("guests: shutdown deadline passed, killing the guests that are left");
        }
    }

    fn reload(&mut self) {
        match self.sources.read(&self.answers) {
            Ok(plan) => {
                tracing::info!(guests = plan.guests.len(), "guests: configuration reloaded");
                self.follow(plan);
            }
            Err(error) => {
                tracing::error!("guests: configuration not used, keeping the guests as they are: {error:#}")
            }
        }
    }

    /// Starts, stops and changes guests until they are as planned.
    fn follow(&mut self, plan: GuestPlan) {
        for warning in &plan.warnings {
            tracing::warn!("configuration: {warning}");
        }
        for (key, hosted) in &mut self.guests {
            if !plan.guests.iter().any(|planned| planned.key == *key) {
                tracing::info!(guest = %key.id, topic = %key.topic, "guest: removed from the configuration, leaving");
                hosted.next = None;
                hosted.leave.cancel();
            }
        }
        self.board
            .retain(|topic, id| plan.guests.iter().any(|Planned { key, .. }| key.topic == *topic && key.id == *id));
        for Planned { key, ready } in plan.guests {
            let terms = match ready {
                Ok(terms) => terms,
                Err(error) => {
                    let kept = if self.guests.contains_key(&key) {
                        "configuration invalid, keeping it as it was"
                    } else {
                        "configuration invalid, left out"
                    };
                    tracing::error!(guest = %key.id, topic = %key.topic, "guest: {kept}: {error:#}");
                    if !self.guests.contains_key(&key) {
                        stopped(&self.board, &key, &format!("{error:#}"));
                    }
                    continue;
                }
            };
            match self.guests.get_mut(&key) {
                None => self.start(key, terms),
                Some(hosted) if hosted.terms == terms && !hosted.leave.is_cancelled() => {}
                Some(hosted) => {
                    tracing::info!(guest = %key.id, topic = %key.topic, "guest: configuration changed, restarting");
                    hosted.next = Some(terms);
                    hosted.leave.cancel();
                }
            }
        }
    }

    fn start(&mut self, key: GuestSeatKey, terms: GuestTerms) {
        let leave = CancellationToken::new();
        let tokens = GuestTokens { data: self.data.clone(), key: key.clone(), terms: terms.clone() };
        let client = Client::new(self.gateway.clone(), tokens);
        let (spec, shutdown, told, expose) = (terms.spec(&key), leave.clone(), key.clone(), terms.expose);
        let (topic, board) = (key.topic.clone(), self.board.clone());
        let staying = async move {
            let entering = || client.room(topic.clone());
            salon_guests::run(spec, entering, shutdown, |status| {
                tell(&told, expose, &status);
                report(&board, &told, &status);
            })
            .await
        };
        let task = self.tasks.spawn(staying).id();
        self.guests.insert(key, Hosted { terms, task, leave, next: None });
    }

    fn ended(&mut self, ended: Result<(Id, Result<(), GuestError>), JoinError>) {
        let (task, trouble) = match ended {
            Ok((task, Ok(()))) => (task, None),
            Ok((task, Err(error))) => (task, Some(error.to_string())),
            Err(panic) => (panic.id(), Some(format!("it failed inside ({panic})"))),
        };
        let Some(key) = self.guests.iter().find(|(_, hosted)| hosted.task == task).map(|(key, _)| key.clone()) else {
            return;
        };
        let has_left = trouble.is_none();
        if let Some(why) = trouble {
            tracing::error!(guest = %key.id, topic = %key.topic, "guest: ended, not restarted before SIGHUP: {why}");
            stopped(&self.board, &key, &why);
        }
        match self.guests.remove(&key) {
            Some(Hosted { next: Some(terms), .. }) => self.start(key, terms),
            _ if has_left => self.board.retain(|topic, id| *topic != key.topic || *id != key.id),
            _ => {}
        }
    }
}

fn stopped(board: &GuestBoard, GuestSeatKey { topic, id }: &GuestSeatKey, why: &str) {
    board.report(topic, id, GuestReport::new(GuestCondition::Stopped, Some(safe::line(why))));
}

fn report(board: &GuestBoard, GuestSeatKey { topic, id }: &GuestSeatKey, status: &GuestStatus) {
    let condition = |condition, why: Option<&String>| GuestReport::new(condition, why.map(|why| safe::line(why)));
    let report = match status {
        GuestStatus::Starting => condition(GuestCondition::Starting, None),
        GuestStatus::Here { server, tools } => {
            let (server, tools) = (Some(safe::line(server)), Some(*tools));
            GuestReport { server, tools, ..condition(GuestCondition::Here, None) }
        }
        GuestStatus::Back => condition(GuestCondition::Here, None),
        GuestStatus::Away { why } => condition(GuestCondition::Away, Some(why)),
        GuestStatus::Restarting { why, .. } => condition(GuestCondition::Restarting, Some(why)),
        GuestStatus::SignInNeeded { why, .. } => condition(GuestCondition::SignInNeeded, Some(why)),
        // Who asked it to leave has taken it off, or starts it again.
        GuestStatus::Ended => return,
    };
    board.report(topic, id, report);
}

fn tell(GuestSeatKey { topic, id }: &GuestSeatKey, expose: salon_guests::Expose, status: &GuestStatus) {
    match status {
        GuestStatus::Starting => tracing::debug!(guest = %id, %topic, "guest: starting"),
        GuestStatus::Here { server, tools } => {
            let server = safe::line(server);
            tracing::info!(guest = %id, %topic, "guest: `{id}` ({server}) is in {topic} and offers {} to everyone there", offers(*tools, expose));
        }
        GuestStatus::Restarting { in_, why } => {
            let why = safe::line(why);
            tracing::warn!(guest = %id, %topic, "guest: {why}; restarting in {:.1} s", in_.as_secs_f64());
        }
        GuestStatus::SignInNeeded { url, why, stays } => {
            let (why, command) = (safe::line(why), login_command(url));
            let meanwhile = if *stays { "goes on without" } else { "waiting for it" };
            tracing::warn!(guest = %id, %topic, "guest: {why}; run `{command}` as this user, {meanwhile}");
        }
        GuestStatus::Away { why } => {
            tracing::warn!(guest = %id, %topic, "guest: connection to the room lost, reconnecting: {}", safe::line(why));
        }
        GuestStatus::Back => tracing::info!(guest = %id, %topic, "guest: back in the room"),
        GuestStatus::Ended => tracing::info!(guest = %id, %topic, "guest: left"),
    }
}

/// The way to the gateway of this process.
pub(crate) struct Within(pub(crate) Inside);

impl Dial for Within {
    fn dial(&self) -> BoxFuture<'_, io::Result<Box<dyn Wire>>> {
        async { Ok(Box::new(self.0.connect().await?) as Box<dyn Wire>) }.boxed()
    }
}

/// Makes a token for one guest and its one room, whenever one is wanted.
struct GuestTokens {
    data: PathBuf,
    key: GuestSeatKey,
    terms: GuestTerms,
}

impl GuestTokens {
    fn make(&self) -> Result<Token, TokenError> {
        let now = clock::now();
        let ttl = u64::try_from(TTL.as_millis()).expect("half a day fits");
        let topics = vec![TopicPattern::Exact(self.key.topic.clone())];
        let mut grant = Grant::new(self.key.id.clone(), topics, Timestamp(now.0.saturating_add(ttl)));
        (grant.name, grant.kind) = (self.terms.name.clone(), Some(self.terms.kind));
        // Read each time: the key that signed the last one may be gone.
        let keys = SigningKeys::load_or_create(&self.data).map_err(TokenError::provider)?;
        keys.signer(now).sign(&grant, now).map(Token::from).map_err(TokenError::provider)
    }
}

impl TokenProvider for GuestTokens {
    fn token(&self, _refresh: bool) -> BoxFuture<'_, Result<Token, TokenError>> {
        ready(self.make()).boxed()
    }
}
