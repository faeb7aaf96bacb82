//! A platform that keeps what people write until it is acknowledged, and loses every few answers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use salon_bridges::platform::{
    ActionKey, AuthorOrigin, CheckFinding, DriverError, Pace, PlatformAction, PlatformAuthor, PlatformCapabilities,
    PlatformChannel, PlatformDriver, PlatformEvent, PlatformEvents, PlatformFailure, PlatformMessage,
    PlatformMessageId, PlatformReceipt, PlatformUserId, ResendRule,
};
use salon_bridges::rich::{Flavour, RichText};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Every so manieth message is taken without an answer, or lost without one.
const UNANSWERED_EVERY: usize = 7;
const LOST_EVERY: usize = 11;
/// How many of the bridge's messages a connect finds in the history. A bridge that does not know how far it has come repeats the others.
const ECHO_WINDOW: usize = 3;

#[derive(Default)]
pub(crate) struct CrashyPlatform {
    state: Mutex<CrashyState>,
    reconnect: Notify,
    wake: Notify,
}

#[derive(Default)]
struct CrashyState {
    is_connected: bool,
    requests: usize,
    taken: Vec<(ActionKey, String)>,
    /// Replies and edits of the bridge, and what they are of.
    related: Vec<String>,
    written: Vec<Writing>,
    acknowledged: usize,
}

/// What a person does on the platform. Messages are named by their numbers: `written-0` is the first of people, `own-0` of the bridge.
#[derive(Clone)]
pub(crate) struct Writing {
    text: String,
    relation: WritingRelation,
}

#[derive(Clone)]
enum WritingRelation {
    None,
    ReplyTo(PlatformMessageId),
    EditOf(PlatformMessageId),
}

impl Writing {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.into(), relation: WritingRelation::None }
    }

    pub(crate) fn reply(target: &str, text: &str) -> Self {
        Self { text: text.into(), relation: WritingRelation::ReplyTo(PlatformMessageId::new(target)) }
    }

    pub(crate) fn edit(target: &str, text: &str) -> Self {
        Self { text: text.into(), relation: WritingRelation::EditOf(PlatformMessageId::new(target)) }
    }
}

fn channel() -> PlatformChannel {
    PlatformChannel::new("#lab")
}

impl CrashyPlatform {
    /// Somebody writes.
    pub(crate) fn write(&self, writing: Writing) {
        self.state.lock().written.push(writing);
        self.wake.notify_one();
    }

    /// The bridge's replies and edits.
    pub(crate) fn related(&self) -> Vec<String> {
        self.state.lock().related.clone()
    }

    /// What the bridge wrote.
    pub(crate) fn taken(&self) -> Vec<String> {
        self.state.lock().taken.iter().map(|(_, text)| text.clone()).collect()
    }

    fn next_written(&self) -> Option<(usize, Writing)> {
        let state = self.state.lock();
        let at = state.acknowledged;
        state.written.get(at).map(|writing| (at, writing.clone()))
    }

    async fn stay(&self, events: &PlatformEvents) -> Option<()> {
        loop {
            let report = |event| events.report(channel(), event);
            report(PlatformEvent::Connected).await.ok()?;
            let taken = self.state.lock().taken.clone();
            let older = taken.len().saturating_sub(ECHO_WINDOW);
            for (at, (key, _)) in taken.into_iter().enumerate().skip(older) {
                let id = Some(PlatformMessageId::new(format!("own-{at}")));
                report(PlatformEvent::Echo { key, id }).await.ok()?;
            }
            self.state.lock().is_connected = true;
            report(PlatformEvent::CaughtUp).await.ok()?;
            loop {
                if let Some((at, writing)) = self.next_written() {
                    let stored = events.report_stored(channel(), event(at, writing)).await;
                    stored.ok()?;
                    self.state.lock().acknowledged = at + 1;
                    continue;
                }
                tokio::select! {
                    () = self.wake.notified() => {}
                    () = self.reconnect.notified() => break,
                }
            }
            report(PlatformEvent::Disconnected { reason: "an answer was lost".into() }).await.ok()?;
        }
    }

    fn take(&self, key: &ActionKey, text: &str) -> Result<PlatformReceipt, PlatformFailure> {
        let mut state = self.state.lock();
        if !state.is_connected {
            return Err(PlatformFailure::Offline { reason: "not connected".into() });
        }
        state.requests += 1;
        let is_lost = state.requests.is_multiple_of(LOST_EVERY);
        if !is_lost {
            state.taken.push((key.clone(), text.to_owned()));
        }
        if is_lost || state.requests.is_multiple_of(UNANSWERED_EVERY) {
            state.is_connected = false;
            self.reconnect.notify_one();
            return Err(PlatformFailure::Unknown { reason: "no answer".into() });
        }
        Ok(PlatformReceipt { id: Some(PlatformMessageId::new(format!("own-{}", state.taken.len() - 1))) })
    }
}

fn event(at: usize, writing: Writing) -> PlatformEvent {
    let author = PlatformAuthor {
        id: PlatformUserId::new("ann"),
        name: "Ann".into(),
        origin: AuthorOrigin::Person,
        is_verified: true,
    };
    let (id, content) = (Some(PlatformMessageId::new(format!("written-{at}"))), RichText::plain(&writing.text));
    let reply_to = match writing.relation {
        WritingRelation::EditOf(target) => return PlatformEvent::Edit { target, author, content, id },
        WritingRelation::ReplyTo(target) => Some(target),
        WritingRelation::None => None,
    };
    PlatformEvent::Message(PlatformMessage { id, author, content, reply_to, attachments: Vec::new(), sent_at: None })
}

impl PlatformDriver for CrashyPlatform {
    fn capabilities(&self) -> PlatformCapabilities {
        PlatformCapabilities {
            flavour: Flavour::Plain,
            max_text_bytes: 1000,
            is_multiline: true,
            max_parts: 4,
            can_edit: true,
            can_retract: false,
            can_reply: true,
            shows_speaker: true,
            resend: ResendRule::AfterEcho,
            pace: Pace { interval: Duration::ZERO, burst: 1 },
        }
    }

    fn run(
        self: Arc<Self>,
        events: PlatformEvents,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), DriverError>> {
        async move {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = self.stay(&events) => {}
            }
            Ok(())
        }
        .boxed()
    }

    fn perform<'a>(
        &'a self,
        _channel: &'a PlatformChannel,
        action: &'a PlatformAction,
    ) -> BoxFuture<'a, Result<PlatformReceipt, PlatformFailure>> {
        async move {
            // A platform answers later than it is asked, so that a crash can come between.
            tokio::task::yield_now().await;
            let answer = match action {
                PlatformAction::Send { key, text, reply_to, .. } => {
                    let taken = self.take(key, &text.plain);
                    if let (Ok(_), Some(target)) = (&taken, reply_to) {
                        self.state.lock().related.push(format!("reply to {target}: {}", text.plain));
                    }
                    taken
                }
                PlatformAction::Edit { target, text, .. } => {
                    self.state.lock().related.push(format!("edit of {target}: {}", text.plain));
                    Ok(PlatformReceipt::default())
                }
                _ => Ok(PlatformReceipt::default()),
            };
            tokio::task::yield_now().await;
            answer
        }
        .boxed()
    }

    fn check(&self) -> BoxFuture<'_, Vec<CheckFinding>> {
        async { Vec::new() }.boxed()
    }
}
