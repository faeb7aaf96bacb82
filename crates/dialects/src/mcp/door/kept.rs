//! What is said in the room and must not be lost: answers, and what somebody would wait for in vain. It is kept until the room has taken
//! it, and said again as it was, under the same id, when the room had too much to do or could store nothing for a while.
//!
//! What is said again counts against the client's rate, taken or not. So nothing is while the room is known to store nothing, and otherwise only the
//! oldest is tried; the rest follows it one by one, in order, as long as it is taken.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use salon_protocol::{Code, Draft, EnvelopeId, Message, ParticipantId, Refusal, RpcId, rpc};
use serde_json::value::RawValue;

use super::{DialectAction, Door, DoorTimer};
use crate::Ticket;

/// How long what the room did not take waits before it is said again.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(250);
/// Answers that may be on their way before no more of the room is heard.
const MAX_ANSWERS: usize = 64;
/// Notifications that are kept. Those of a client that says more at once are said once.
const MAX_NOTES: usize = 256;

const INITIALIZED: &str = "notifications/initialized";

/// Whose words they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    /// The client answers.
    Client,
    /// The door answers for the client, who knows nothing of it and must not pay for it.
    Door,
    /// A notification.
    Note,
}

/// Something that was said.
#[derive(Debug)]
struct KeptDraft {
    /// The ticket it was first said with.
    first: u64,
    draft: Draft,
    voice: Voice,
}

impl KeptDraft {
    /// Whom this tells that the handshake is over.
    fn welcomes(&self) -> Option<&ParticipantId> {
        match (self.draft.envelope().message(), self.draft.envelope().to()) {
            (Some(Message::Notification { method }), [who]) if **method == *INITIALIZED => Some(who),
            _ => None,
        }
    }
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct DraftQueue {
    /// On its way, by ticket.
    sent: HashMap<u64, KeptDraft>,
    /// What the room has not taken, in the order in which it was said.
    late: BTreeMap<u64, KeptDraft>,
    /// The ticket of what is being tried again, before the rest of it.
    trial: Option<u64>,
}

impl DraftQueue {
    fn count(&self, is_counted: impl Fn(Voice) -> bool) -> usize {
        self.sent.values().chain(self.late.values()).filter(|said| is_counted(said.voice)).count()
    }

    /// Whether more may be heard that wants an answer.
    pub(super) fn has_room(&self) -> bool {
        self.count(|voice| voice != Voice::Note) < MAX_ANSWERS
    }

    /// Whether something is there that the room has not taken when it was first said.
    pub(super) fn is_late(&self) -> bool {
        !self.late.is_empty() || self.sent.iter().any(|(ticket, said)| *ticket != said.first)
    }

    /// Whether somebody is yet to hear that its handshake is over. Before that it may not be asked anything.
    pub(super) fn is_unwelcomed(&self, who: &ParticipantId) -> bool {
        self.late.values().any(|said| said.welcomes() == Some(who))
    }
}

/// Whether the room may take later what it did not take for this reason.
pub(super) fn is_passing(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::RateLimited | Code::Closing)
}

impl Door {
    /// Answers somebody's request. An answer that is more than the room takes becomes an error that says so.
    pub(super) fn pass_answer(
        &mut self,
        to: &ParticipantId,
        envelope: &EnvelopeId,
        id: &RpcId,
        message: Box<RawValue>,
        voice: Voice,
        now: Instant,
    ) {
        let to = std::slice::from_ref(to);
        let said = self.compose(to, Some(envelope), |_| message, now).or_else(|refusal| {
            let told = rpc::failure(&id.to_raw(), &super::told(&refusal));
            self.compose(to, Some(envelope), |_| told, now)
        });
        if let Ok(draft) = said {
            self.keep(draft, voice);
        }
    }

    /// Tells somebody something; what is more than the room takes is not told.
    pub(super) fn tell(
        &mut self,
        to: &ParticipantId,
        about: Option<&EnvelopeId>,
        method: &str,
        params: Option<&RawValue>,
        now: Instant,
    ) {
        self.tell_all(std::slice::from_ref(to), about, method, params, now);
    }

    /// The same to several.
    pub(super) fn tell_all(
        &mut self,
        to: &[ParticipantId],
        about: Option<&EnvelopeId>,
        method: &str,
        params: Option<&RawValue>,
        now: Instant,
    ) {
        if let Ok(draft) = self.compose(to, about, |_| rpc::notification(method, params), now) {
            self.keep(draft, Voice::Note);
        }
    }

    fn keep(&mut self, draft: Draft, voice: Voice) {
        let ticket = self.ticket();
        self.say_kept(ticket, KeptDraft { first: ticket.0, draft, voice });
    }

    fn say_kept(&mut self, ticket: Ticket, said: KeptDraft) {
        let draft = Box::new(said.draft.clone());
        self.actions.push_back(match said.voice {
            Voice::Door => DialectAction::Reply(ticket, draft),
            Voice::Client | Voice::Note => DialectAction::Publish(ticket, draft),
        });
        if said.voice != Voice::Note || self.kept.count(|voice| voice == Voice::Note) < MAX_NOTES {
            self.kept.sent.insert(ticket.0, said);
        }
    }

    /// The room took something. What waits for that goes on.
    pub(super) fn kept_taken(&mut self, ticket: Ticket, now: Instant) {
        self.kept.sent.remove(&ticket.0);
        if self.kept.trial.take_if(|trial| *trial == ticket.0).is_some() {
            self.say_oldest(now);
        }
    }

    /// The room did not take something; whether it was something that is kept. What it will not take later either nobody waits for any more.
    pub(super) fn kept_not_taken(&mut self, ticket: Ticket, refusal: &Refusal, now: Instant) -> bool {
        let was_trial = self.kept.trial.take_if(|trial| *trial == ticket.0).is_some();
        let Some(said) = self.kept.sent.remove(&ticket.0) else { return false };
        if is_passing(refusal) {
            self.kept.late.insert(said.first, said);
            self.wait_to_say(now);
        } else if was_trial {
            self.say_oldest(now);
        }
        true
    }

    fn wait_to_say(&mut self, now: Instant) {
        if self.kept.trial.is_none() && !self.timers.has(DoorTimer::Late) {
            self.after(RETRY_DELAY, DoorTimer::Late, now);
        }
    }

    /// Tries the oldest of what the room has not taken.
    pub(super) fn say_oldest(&mut self, now: Instant) {
        if self.is_out || self.kept.trial.is_some() {
            return;
        }
        self.forget_timer(DoorTimer::Late);
        if let Some((_, said)) = self.kept.late.pop_first() {
            let welcomed = said.welcomes().cloned();
            let ticket = self.ticket();
            self.kept.trial = Some(ticket.0);
            self.say_kept(ticket, said);
            if let Some(who) = welcomed {
                self.peer_ready(&who, now);
            }
        }
    }

    /// Says all of it again.
    pub(super) fn resend_drafts(&mut self, now: Instant) {
        self.forget_timer(DoorTimer::Late);
        self.kept.trial = None;
        let late = std::mem::take(&mut self.kept.late);
        let welcomed: Vec<_> = late.values().filter_map(|said| said.welcomes().cloned()).collect();
        for said in late.into_values() {
            let ticket = self.ticket();
            self.say_kept(ticket, said);
        }
        for who in welcomed {
            self.peer_ready(&who, now);
        }
    }
}
