//! Tickets: what a browser shows in place of a token. Each works once, for one topic, for 30 seconds.
//!
//! Only a digest of a ticket is kept, and finding it is all there is to checking it, so neither the memory nor the time a look-up
//! takes gives one away. Where several nodes share a log, they share tickets by it: one that was given out here can be used there. How
//! many are out is counted by the node that gave them out.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{ParticipantId, Timestamp, TopicName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::keys::{hex, random};
use super::token::{claims, read_claims};
use super::{AuthError, Grant};
use crate::nodes::Nodes;

/// How long a ticket works.
const LIFETIME_MS: u64 = 30_000;

/// Random bytes in a ticket.
const BYTES: usize = 24;

/// How many unused tickets one participant has at most; then its oldest goes.
const PER_PARTICIPANT: usize = 32;

/// How many unused tickets there are at most.
const IN_ALL: usize = 10_000;

type Digest = [u8; 32];

/// The tickets that were given out and not yet used.
pub struct Tickets {
    held: Mutex<Held>,
    per_participant: usize,
    in_all: usize,
    /// Where they are kept for all nodes.
    shared: Option<Arc<Nodes>>,
}

/// Three views of the same tickets: each serial is in `tickets` once, in `by_digest` once, and in its participant's queue once.
#[derive(Default)]
struct Held {
    next: u64,
    /// Oldest first, so that expired ones are in front.
    tickets: BTreeMap<u64, Ticket>,
    by_digest: HashMap<Digest, u64>,
    by_participant: HashMap<ParticipantId, VecDeque<u64>>,
}

struct Ticket {
    digest: Digest,
    grant: Grant,
    topic: TopicName,
    expires: Timestamp,
}

/// A ticket as nodes share it.
#[derive(Serialize, Deserialize)]
struct Shared {
    /// The grant, but for what no token says of itself.
    claims: Map<String, Value>,
    by_sign_in: bool,
    /// When the grant expires: claims have whole seconds, and a ticket is worth no more than what was shown for it.
    until: u64,
    topic: TopicName,
}

impl Shared {
    fn new(grant: &Grant, topic: &TopicName, now: Timestamp) -> Self {
        Self { claims: claims(grant, now), by_sign_in: grant.by_sign_in, until: grant.expires.0, topic: topic.clone() }
    }

    /// One that the log still has is not too old: it is kept for as long as a ticket works, by one clock, and not by that of whichever node
    /// gave it out.
    fn ticket(self, digest: Digest) -> Result<Ticket, AuthError> {
        let grant = read_claims(&self.claims)?;
        let grant = Grant { by_sign_in: self.by_sign_in, expires: Timestamp(self.until), ..grant };
        Ok(Ticket { digest, grant, topic: self.topic, expires: Timestamp(u64::MAX) })
    }
}

impl Ticket {
    fn judge(self, topic: &TopicName, now: Timestamp) -> Result<Grant, AuthError> {
        if now >= self.expires {
            Err(AuthError::TicketUnknown)
        } else if self.grant.expired(now) {
            Err(AuthError::Expired)
        } else if &self.topic != topic {
            Err(AuthError::TicketForOtherTopic)
        } else {
            Ok(self.grant)
        }
    }
}

impl Default for Tickets {
    fn default() -> Self {
        Self { held: Mutex::default(), per_participant: PER_PARTICIPANT, in_all: IN_ALL, shared: None }
    }
}

impl Tickets {
    /// None given out yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Those of all nodes that share a log, where there is one.
    pub(crate) fn of(shared: Option<Arc<Nodes>>) -> Self {
        Self { shared, ..Self::default() }
    }

    /// A new ticket, that works at every node.
    pub(crate) async fn give(&self, grant: &Grant, topic: &TopicName, now: Timestamp) -> Result<String, AuthError> {
        let text = self.issue(grant, topic, now)?;
        if let Some(nodes) = &self.shared {
            let value = serde_json::to_vec(&Shared::new(grant, topic, now)).expect("plain JSON");
            let kept = nodes.log().put_ticket(&hex(&digest_of(&text)), value).await;
            kept.map_err(|_| AuthError::TicketsUnavailable)?;
        }
        Ok(text)
    }

    /// The grant a ticket of any node stands for. Whatever the answer, the ticket is used up.
    pub(crate) async fn take(&self, text: &str, topic: &TopicName, now: Timestamp) -> Result<Grant, AuthError> {
        let Some(nodes) = &self.shared else { return self.redeem(text, topic, now) };
        if text.len() != 2 * BYTES {
            return Err(AuthError::TicketUnknown);
        }
        let digest = digest_of(text);
        drop(self.held().take(&digest));
        let taken = nodes.log().take_ticket(&hex(&digest)).await.map_err(|_| AuthError::TicketsUnavailable)?;
        let shared = taken.and_then(|value| serde_json::from_slice::<Shared>(&value).ok());
        shared.ok_or(AuthError::TicketUnknown)?.ticket(digest)?.judge(topic, now)
    }

    /// A new ticket for a topic the grant opens. The text is told once and not kept.
    pub fn issue(&self, grant: &Grant, topic: &TopicName, now: Timestamp) -> Result<String, AuthError> {
        grant.require(topic)?;
        if grant.expired(now) {
            return Err(AuthError::Expired);
        }
        let mut held = self.held();
        held.sweep(now);
        let own = held.by_participant.get(&grant.participant).map_or(0, VecDeque::len);
        if own > 0 && (own >= self.per_participant || held.tickets.len() >= self.in_all) {
            held.remove_oldest_of(&grant.participant);
        } else if held.tickets.len() >= self.in_all {
            return Err(AuthError::TooManyTickets);
        }
        let text = hex(&random::<BYTES>());
        let expires = Timestamp(now.0.saturating_add(LIFETIME_MS));
        held.insert(Ticket { digest: digest_of(&text), grant: grant.clone(), topic: topic.clone(), expires });
        Ok(text)
    }

    /// The grant a ticket stands for. Whatever the answer, the ticket is used up.
    pub fn redeem(&self, text: &str, topic: &TopicName, now: Timestamp) -> Result<Grant, AuthError> {
        if text.len() != 2 * BYTES {
            return Err(AuthError::TicketUnknown);
        }
        let ticket = self.held().take(&digest_of(text)).ok_or(AuthError::TicketUnknown)?;
        ticket.judge(topic, now)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }
}

fn digest_of(text: &str) -> Digest {
    digest(&SHA256, text.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

impl Held {
    fn insert(&mut self, ticket: Ticket) {
        let serial = self.next;
        self.next += 1;
        self.by_digest.insert(ticket.digest, serial);
        self.by_participant.entry(ticket.grant.participant.clone()).or_default().push_back(serial);
        self.tickets.insert(serial, ticket);
    }

    fn take(&mut self, digest: &Digest) -> Option<Ticket> {
        let serial = *self.by_digest.get(digest)?;
        self.remove(serial)
    }

    fn remove(&mut self, serial: u64) -> Option<Ticket> {
        let ticket = self.tickets.remove(&serial)?;
        self.by_digest.remove(&ticket.digest);
        if let Some(own) = self.by_participant.get_mut(&ticket.grant.participant) {
            own.retain(|other| *other != serial);
            if own.is_empty() {
                self.by_participant.remove(&ticket.grant.participant);
            }
        }
        Some(ticket)
    }

    fn remove_oldest_of(&mut self, participant: &ParticipantId) {
        if let Some(&oldest) = self.by_participant.get(participant).and_then(VecDeque::front) {
            self.remove(oldest);
        }
    }

    fn sweep(&mut self, now: Timestamp) {
        while let Some((&serial, ticket)) = self.tickets.first_key_value()
            && now >= ticket.expires
        {
            self.remove(serial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn topic(name: &str) -> TopicName {
        TopicName::new(name).expect("a name")
    }

    fn grant(id: &str) -> Grant {
        let id = ParticipantId::new(id).expect("an id");
        Grant::new(id, vec!["room:*".parse().expect("a pattern")], Timestamp(NOW.0 + 60_000))
    }

    fn later(ms: u64) -> Timestamp {
        Timestamp(NOW.0 + ms)
    }

    impl Held {
        fn check(&self) {
            assert_eq!(self.tickets.len(), self.by_digest.len());
            assert_eq!(self.tickets.len(), self.by_participant.values().map(VecDeque::len).sum::<usize>());
            assert!(self.by_participant.values().all(|own| !own.is_empty()));
        }
    }

    #[test]
    fn a_ticket_works_once() {
        let tickets = Tickets::new();
        let text = tickets.issue(&grant("alice"), &topic("room:a"), NOW).expect("a ticket");
        assert_eq!(text.len(), 48);
        let redeemed = tickets.redeem(&text, &topic("room:a"), later(29_999)).expect("the grant");
        assert_eq!(redeemed.participant.as_str(), "alice");
        assert_eq!(tickets.redeem(&text, &topic("room:a"), NOW), Err(AuthError::TicketUnknown));
        tickets.held().check();
    }

    #[test]
    fn a_shared_ticket_is_worth_what_was_shown_for_it() {
        let there_and_back = |grant: &Grant| {
            let told = serde_json::to_vec(&Shared::new(grant, &topic("room:a"), NOW)).expect("JSON");
            let shared: Shared = serde_json::from_slice(&told).expect("a ticket");
            shared.ticket([0; 32]).expect("a grant").judge(&topic("room:a"), later(29_999))
        };
        let plain = grant("alice");
        assert_eq!(there_and_back(&plain), Ok(plain.clone()));
        let rich = Grant {
            topics: vec!["room:*".parse().expect("a pattern"), "lobby".parse().expect("a pattern")],
            name: Some("Alice".into()),
            kind: Some("human".parse().expect("a kind")),
            permissions: vec!["room.write".into(), "other".into()],
            expires: later(40_001),
            by_sign_in: true,
            require_integrity: true,
            confirmation: super::super::Confirmation::new("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"),
            ..plain
        };
        assert!(rich.confirmation.is_some());
        assert_eq!(there_and_back(&rich), Ok(rich.clone()));
        let short = Grant { expires: later(29_999), ..rich };
        assert_eq!(there_and_back(&short), Err(AuthError::Expired), "not a millisecond longer");
    }

    #[test]
    fn a_ticket_is_refused_when_it_should_be() {
        let tickets = Tickets::new();
        let issue = |grant: &Grant| tickets.issue(grant, &topic("room:a"), NOW).expect("a ticket");

        let late = issue(&grant("alice"));
        assert_eq!(tickets.redeem(&late, &topic("room:a"), later(30_000)), Err(AuthError::TicketUnknown));

        let misused = issue(&grant("alice"));
        assert_eq!(tickets.redeem(&misused, &topic("room:b"), NOW), Err(AuthError::TicketForOtherTopic));
        assert_eq!(
            tickets.redeem(&misused, &topic("room:a"), NOW),
            Err(AuthError::TicketUnknown),
            "the attempt used it"
        );

        let short = issue(&Grant { expires: later(10_000), ..grant("alice") });
        assert_eq!(tickets.redeem(&short, &topic("room:a"), later(10_000)), Err(AuthError::Expired));

        for wrong in ["", "0", &"0".repeat(48), &"0".repeat(10_000), "é"] {
            assert_eq!(tickets.redeem(wrong, &topic("room:a"), NOW), Err(AuthError::TicketUnknown), "{wrong}");
        }
    }

    #[test]
    fn a_ticket_opens_no_more_than_its_grant() {
        let tickets = Tickets::new();
        let outside = tickets.issue(&grant("alice"), &topic("lobby"), NOW);
        assert_eq!(outside, Err(AuthError::TopicNotOpen(topic("lobby"))));
        assert_eq!(tickets.issue(&grant("alice"), &topic("room:a"), later(60_000)), Err(AuthError::Expired));
    }

    #[test]
    fn the_oldest_of_the_same_participant_goes_first() {
        let tickets = Tickets { per_participant: 2, ..Tickets::default() };
        let issue = |id: &str| tickets.issue(&grant(id), &topic("room:a"), NOW).expect("a ticket");
        let (bob, first, second, third) = (issue("bob"), issue("alice"), issue("alice"), issue("alice"));
        let redeem = |text: &str| tickets.redeem(text, &topic("room:a"), NOW).map(|g| g.participant.to_string());
        assert_eq!(redeem(&first), Err(AuthError::TicketUnknown));
        assert_eq!(redeem(&second).as_deref(), Ok("alice"));
        assert_eq!(redeem(&third).as_deref(), Ok("alice"));
        assert_eq!(redeem(&bob).as_deref(), Ok("bob"));
        tickets.held().check();
    }

    #[test]
    fn when_all_are_out_nobody_loses_theirs_to_another() {
        let tickets = Tickets { in_all: 2, ..Tickets::default() };
        let issue = |id: &str, now| tickets.issue(&grant(id), &topic("room:a"), now);
        let bob = issue("bob", NOW).expect("a ticket");
        let alice = issue("alice", NOW).expect("a ticket");
        assert_eq!(issue("carol", NOW), Err(AuthError::TooManyTickets));
        let again = issue("alice", NOW).expect("in place of her own");
        let redeem = |text: &str| tickets.redeem(text, &topic("room:a"), NOW).map(|g| g.participant.to_string());
        assert_eq!(redeem(&alice), Err(AuthError::TicketUnknown));
        assert_eq!(redeem(&bob).as_deref(), Ok("bob"));
        assert_eq!(redeem(&again).as_deref(), Ok("alice"));
    }

    #[test]
    fn expired_tickets_make_room() {
        let tickets = Tickets { in_all: 1, ..Tickets::default() };
        tickets.issue(&grant("bob"), &topic("room:a"), NOW).expect("a ticket");
        assert!(tickets.issue(&grant("alice"), &topic("room:a"), later(29_999)).is_err());
        tickets.issue(&grant("alice"), &topic("room:a"), later(30_000)).expect("room again");
        assert_eq!(tickets.held().tickets.len(), 1);
        tickets.held().check();
    }
}
