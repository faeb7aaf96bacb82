//! Tickets: what a browser shows in place of a token. Each works once, for one topic, for 30 seconds.
//!
//! Only a digest of a ticket is kept, and finding it is all there is to checking it, so neither the memory nor the time a look-up
//! takes gives one away.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use aws_lc_rs::digest::{SHA256, digest};
use salon_protocol::{ParticipantId, Timestamp, TopicName};

use super::keys::{hex, random};
use super::{AuthError, Grant};

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

impl Default for Tickets {
    fn default() -> Self {
        Self { held: Mutex::default(), per_participant: PER_PARTICIPANT, in_all: IN_ALL }
    }
}

impl Tickets {
    /// None given out yet.
    pub fn new() -> Self {
        Self::default()
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
        if now >= ticket.expires {
            Err(AuthError::TicketUnknown)
        } else if ticket.grant.expired(now) {
            Err(AuthError::Expired)
        } else if &ticket.topic != topic {
            Err(AuthError::TicketForOtherTopic)
        } else {
            Ok(ticket.grant)
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("nothing panics while the tickets are locked")
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
