//! What is said in the room and must not be lost: answers, and what somebody would wait for in vain. It is kept until the room has taken
//! it, and said again as it was, under the same id, when the room had too much to do or could store nothing for a while.

use std::collections::HashMap;
use std::time::Instant;

use salon_protocol::{Code, Draft, EnvelopeId, Message, ParticipantId, Refusal, RpcId, rpc};
use serde_json::value::RawValue;

use super::calls::PAUSE;
use super::{Door, Due};
use crate::{Action, Ticket};

/// Answers that may be on their way before no more of the room is heard.
const MOST_ANSWERS: usize = 64;
/// Notifications that are kept. Those of a client that says more at once are said once.
const MOST_NOTES: usize = 256;

const INITIALIZED: &str = "notifications/initialized";

/// Whose words they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    /// The client answers.
    Client,
    /// The door answers for the client, who knows nothing of it and must not pay for it.
    Door,
    /// Somebody is told something.
    Note,
}

/// Something that was said.
#[derive(Debug)]
struct Said {
    draft: Draft,
    voice: Voice,
}

impl Said {
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
pub(super) struct Kept {
    /// On its way, by ticket.
    sent: HashMap<u64, Said>,
    /// What the room has not taken, in the order in which it was said.
    late: Vec<Said>,
}

impl Kept {
    fn count(&self, is_counted: impl Fn(Voice) -> bool) -> usize {
        self.sent.values().chain(&self.late).filter(|said| is_counted(said.voice)).count()
    }

    /// Whether more may be heard that wants an answer.
    pub(super) fn has_room(&self) -> bool {
        self.count(|voice| voice != Voice::Note) < MOST_ANSWERS
    }

    pub(super) fn taken(&mut self, ticket: Ticket) {
        self.sent.remove(&ticket.0);
    }

    /// Whether somebody is yet to hear that its handshake is over. Before that it may not be asked anything.
    pub(super) fn is_unwelcomed(&self, who: &ParticipantId) -> bool {
        self.late.iter().any(|said| said.welcomes() == Some(who))
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
        let said = self.compose(to, Some(envelope), |_| message, now).or_else(|refusal| {
            let told = rpc::failure(&id.to_raw(), &super::told(&refusal));
            self.compose(to, Some(envelope), |_| told, now)
        });
        if let Ok(draft) = said {
            self.say_kept(Said { draft, voice });
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
        if let Ok(draft) = self.compose(to, about, |_| rpc::notification(method, params), now) {
            self.say_kept(Said { draft, voice: Voice::Note });
        }
    }

    fn say_kept(&mut self, said: Said) {
        let (ticket, draft) = (self.ticket(), Box::new(said.draft.clone()));
        self.actions.push_back(match said.voice {
            Voice::Door => Action::Reply(ticket, draft),
            Voice::Client | Voice::Note => Action::Publish(ticket, draft),
        });
        if said.voice != Voice::Note || self.kept.count(|voice| voice == Voice::Note) < MOST_NOTES {
            self.kept.sent.insert(ticket.0, said);
        }
    }

    /// The room did not take something; whether it was something that is kept. What it will not take later either nobody waits for any more.
    pub(super) fn kept_not_taken(&mut self, ticket: Ticket, refusal: &Refusal, now: Instant) -> bool {
        let Some(said) = self.kept.sent.remove(&ticket.0) else { return false };
        if is_passing(refusal) {
            if self.kept.late.is_empty() {
                self.after(PAUSE, Due::Late, now);
            }
            self.kept.late.push(said);
        }
        true
    }

    /// Says again what the room has not taken.
    pub(super) fn say_again(&mut self, now: Instant) {
        self.forget_timer(Due::Late);
        let late = std::mem::take(&mut self.kept.late);
        let welcomed: Vec<_> = late.iter().filter_map(|said| said.welcomes().cloned()).collect();
        for said in late {
            self.say_kept(said);
        }
        for who in welcomed {
            self.acquainted(&who, now);
        }
    }
}
