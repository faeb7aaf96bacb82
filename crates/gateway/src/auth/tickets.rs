//! Tickets: what a browser shows in place of a token. Each works once, for one topic, for 30 seconds.
//!
//! The gateways of one log share tickets: one that was given out here can be used there. Only a digest of a ticket is kept, and finding it is
//! all there is to checking it, so neither the memory nor the time a look-up takes gives one away. How many are out is counted by the
//! gateway that gave them out.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::{Mutex, MutexGuard};
use salon_log::cluster::{Cluster, Keyspace};
use salon_protocol::{ParticipantId, Timestamp, TopicName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::keys::{hex, random};
use super::token::{claims, read_claims};
use super::{AuthError, Grant};

/// Where tickets are kept, and for how long they work.
pub(crate) const TICKETS: Keyspace = Keyspace { name: "tickets", time_to_live: Duration::from_secs(30) };

/// Random bytes in a ticket.
const BYTES: usize = 24;

/// How many unused tickets one participant has at most; then its oldest goes.
const MAX_PER_PARTICIPANT: usize = 32;

/// How many unused tickets there are at most.
const MAX_IN_ALL: usize = 10_000;

/// A digest of a ticket in hexadecimal: the key it is kept under.
type TicketKey = String;

/// Gives out tickets, and takes them back for what they stand for.
pub(crate) struct Tickets {
    cluster: Arc<dyn Cluster>,
    unused: Mutex<UnusedTickets>,
    per_participant: usize,
    in_all: usize,
}

/// Three views of the tickets that this gateway gave out: each serial is in `tickets` once, in `by_key` once, and in its participant's queue
/// once.
#[derive(Default)]
struct UnusedTickets {
    next: u64,
    /// Oldest first, so that expired ones are in front.
    tickets: BTreeMap<u64, UnusedTicket>,
    by_key: HashMap<TicketKey, u64>,
    by_participant: HashMap<ParticipantId, VecDeque<u64>>,
}

struct UnusedTicket {
    key: TicketKey,
    participant: ParticipantId,
    expires: Timestamp,
}

/// A ticket as it is kept.
#[derive(Serialize, Deserialize)]
struct KeptTicket {
    /// The grant, but for what no token says of itself.
    claims: Map<String, Value>,
    by_sign_in: bool,
    /// When the grant expires: claims have whole seconds, and a ticket is worth no more than what was shown for it.
    until: u64,
    topic: TopicName,
}

impl KeptTicket {
    fn new(grant: &Grant, topic: &TopicName) -> Self {
        Self {
            claims: claims(grant, grant.issued),
            by_sign_in: grant.by_sign_in,
            until: grant.expires.0,
            topic: topic.clone(),
        }
    }

    /// The grant it stands for. One that is still kept is not too old: its time runs by one clock, and not by that of whichever gateway
    /// gave it out.
    fn redeem(self, topic: &TopicName, now: Timestamp) -> Result<Grant, AuthError> {
        let grant = read_claims(&self.claims)?;
        let grant = Grant { by_sign_in: self.by_sign_in, expires: Timestamp(self.until), ..grant };
        if grant.expired(now) {
            Err(AuthError::Expired)
        } else if &self.topic != topic {
            Err(AuthError::TicketForOtherTopic)
        } else {
            Ok(grant)
        }
    }
}

impl Tickets {
    /// Those of all gateways that share a log. None is given out yet.
    pub(crate) fn new(cluster: Arc<dyn Cluster>) -> Self {
        let (per_participant, in_all) = (MAX_PER_PARTICIPANT, MAX_IN_ALL);
        Self { cluster, unused: Mutex::default(), per_participant, in_all }
    }

    /// A new ticket for a topic the grant opens, that works at every gateway. The text is returned once and not kept.
    pub(crate) async fn give(&self, grant: &Grant, topic: &TopicName, now: Timestamp) -> Result<String, AuthError> {
        grant.require(topic)?;
        if grant.expired(now) {
            return Err(AuthError::Expired);
        }
        let text = hex(&random::<BYTES>());
        let (key, value) = (key_of(&text), serde_json::to_vec(&KeptTicket::new(grant, topic)));
        let evicted = self.count(key.clone(), &grant.participant, now)?;
        let kept = self.cluster.keep(TICKETS, &key, value.expect("plain JSON")).await;
        if let Some(evicted) = evicted {
            // One that cannot be taken back works until its time is over.
            let _ = self.cluster.take(TICKETS, &evicted).await;
        }
        kept.map(|()| text).map_err(|_| AuthError::TicketsUnavailable)
    }

    /// The grant a ticket of any gateway stands for. Whatever the answer, the ticket is used up.
    pub(crate) async fn take(&self, text: &str, topic: &TopicName, now: Timestamp) -> Result<Grant, AuthError> {
        if text.len() != 2 * BYTES {
            return Err(AuthError::TicketUnknown);
        }
        let key = key_of(text);
        self.unused().take(&key);
        let taken = self.cluster.take(TICKETS, &key).await.map_err(|_| AuthError::TicketsUnavailable)?;
        let kept = taken.and_then(|value| serde_json::from_slice::<KeptTicket>(&value).ok());
        kept.ok_or(AuthError::TicketUnknown)?.redeem(topic, now)
    }

    /// Counts one more ticket of a participant; gives the one that makes room for it, where one must.
    fn count(
        &self,
        key: TicketKey,
        participant: &ParticipantId,
        now: Timestamp,
    ) -> Result<Option<TicketKey>, AuthError> {
        let mut unused = self.unused();
        unused.sweep(now);
        let own = unused.by_participant.get(participant).map_or(0, VecDeque::len);
        let is_full = unused.tickets.len() >= self.in_all;
        if own == 0 && is_full {
            return Err(AuthError::TooManyTickets);
        }
        let evicted = if is_full || own >= self.per_participant { unused.remove_oldest_of(participant) } else { None };
        let lifetime = u64::try_from(TICKETS.time_to_live.as_millis()).expect("seconds");
        let expires = Timestamp(now.0.saturating_add(lifetime));
        unused.insert(UnusedTicket { key, participant: participant.clone(), expires });
        Ok(evicted)
    }

    fn unused(&self) -> MutexGuard<'_, UnusedTickets> {
        self.unused.lock()
    }
}

fn key_of(text: &str) -> TicketKey {
    hex(digest(&SHA256, text.as_bytes()).as_ref())
}

impl UnusedTickets {
    fn insert(&mut self, ticket: UnusedTicket) {
        let serial = self.next;
        self.next += 1;
        self.by_key.insert(ticket.key.clone(), serial);
        self.by_participant.entry(ticket.participant.clone()).or_default().push_back(serial);
        self.tickets.insert(serial, ticket);
    }

    fn take(&mut self, key: &str) {
        if let Some(serial) = self.by_key.get(key).copied() {
            self.remove(serial);
        }
    }

    fn remove(&mut self, serial: u64) -> Option<TicketKey> {
        let ticket = self.tickets.remove(&serial)?;
        self.by_key.remove(&ticket.key);
        if let Some(own) = self.by_participant.get_mut(&ticket.participant) {
            own.retain(|other| *other != serial);
            if own.is_empty() {
                self.by_participant.remove(&ticket.participant);
            }
        }
        Some(ticket.key)
    }

    fn remove_oldest_of(&mut self, participant: &ParticipantId) -> Option<TicketKey> {
        let oldest = self.by_participant.get(participant).and_then(VecDeque::front).copied()?;
        self.remove(oldest)
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
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    use salon_log::cluster::SingleNode;

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

    impl UnusedTickets {
        fn check(&self) {
            assert_eq!(self.tickets.len(), self.by_key.len());
            assert_eq!(self.tickets.len(), self.by_participant.values().map(VecDeque::len).sum::<usize>());
            assert!(self.by_participant.values().all(|own| !own.is_empty()));
        }
    }

    /// Tickets, and the milliseconds since `NOW` by the clock of where they are kept.
    struct Stage {
        tickets: Tickets,
        clock: Arc<AtomicU64>,
    }

    impl Stage {
        fn new() -> Self {
            let (begin, clock) = (Instant::now(), Arc::new(AtomicU64::new(0)));
            let elapsed = clock.clone();
            let now = move || begin + Duration::from_millis(elapsed.load(Ordering::Relaxed));
            Self { tickets: Tickets::new(Arc::new(SingleNode::with_clock(Box::new(now)))), clock }
        }

        fn at(&self, now: Timestamp) {
            self.clock.store(now.0 - NOW.0, Ordering::Relaxed);
        }

        async fn give(&self, grant: &Grant, now: Timestamp) -> Result<String, AuthError> {
            self.at(now);
            self.tickets.give(grant, &topic("room:a"), now).await
        }

        async fn take(&self, text: &str, into: &str, now: Timestamp) -> Result<String, AuthError> {
            self.at(now);
            self.tickets.take(text, &topic(into), now).await.map(|grant| grant.participant.to_string())
        }
    }

    #[tokio::test]
    async fn a_ticket_works_once() {
        let stage = Stage::new();
        let text = stage.give(&grant("alice"), NOW).await.expect("a ticket");
        assert_eq!(text.len(), 48);
        assert_eq!(stage.take(&text, "room:a", later(29_999)).await.as_deref(), Ok("alice"));
        assert_eq!(stage.take(&text, "room:a", NOW).await, Err(AuthError::TicketUnknown));
        stage.tickets.unused().check();
    }

    #[test]
    fn a_ticket_is_worth_what_was_shown_for_it() {
        let there_and_back = |grant: &Grant| {
            let kept = serde_json::to_vec(&KeptTicket::new(grant, &topic("room:a"))).expect("JSON");
            let kept: KeptTicket = serde_json::from_slice(&kept).expect("a ticket");
            kept.redeem(&topic("room:a"), later(29_999))
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

    #[tokio::test]
    async fn a_ticket_is_refused_when_it_should_be() {
        let stage = Stage::new();
        let late = stage.give(&grant("alice"), NOW).await.expect("a ticket");
        assert_eq!(stage.take(&late, "room:a", later(30_000)).await, Err(AuthError::TicketUnknown));

        let misused = stage.give(&grant("alice"), NOW).await.expect("a ticket");
        assert_eq!(stage.take(&misused, "room:b", NOW).await, Err(AuthError::TicketForOtherTopic));
        assert_eq!(stage.take(&misused, "room:a", NOW).await, Err(AuthError::TicketUnknown), "the attempt used it");

        let short = Grant { expires: later(10_000), ..grant("alice") };
        let short = stage.give(&short, NOW).await.expect("a ticket");
        assert_eq!(stage.take(&short, "room:a", later(10_000)).await, Err(AuthError::Expired));

        for wrong in ["", "0", &"0".repeat(48), &"0".repeat(10_000), "é"] {
            assert_eq!(stage.take(wrong, "room:a", NOW).await, Err(AuthError::TicketUnknown), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_ticket_opens_no_more_than_its_grant() {
        let stage = Stage::new();
        let outside = stage.tickets.give(&grant("alice"), &topic("lobby"), NOW).await;
        assert_eq!(outside, Err(AuthError::TopicNotOpen(topic("lobby"))));
        assert_eq!(stage.give(&grant("alice"), later(60_000)).await, Err(AuthError::Expired));
    }

    #[tokio::test]
    async fn the_oldest_of_the_same_participant_goes_first() {
        let mut stage = Stage::new();
        stage.tickets.per_participant = 2;
        let mut texts = Vec::new();
        for id in ["bob", "alice", "alice", "alice"] {
            texts.push(stage.give(&grant(id), NOW).await.expect("a ticket"));
        }
        assert_eq!(stage.take(&texts[1], "room:a", NOW).await, Err(AuthError::TicketUnknown));
        for (text, id) in [(&texts[2], "alice"), (&texts[3], "alice"), (&texts[0], "bob")] {
            assert_eq!(stage.take(text, "room:a", NOW).await.as_deref(), Ok(id));
        }
        stage.tickets.unused().check();
    }

    #[tokio::test]
    async fn when_all_are_out_nobody_loses_theirs_to_another() {
        let mut stage = Stage::new();
        stage.tickets.in_all = 2;
        let bob = stage.give(&grant("bob"), NOW).await.expect("a ticket");
        let alice = stage.give(&grant("alice"), NOW).await.expect("a ticket");
        assert_eq!(stage.give(&grant("carol"), NOW).await, Err(AuthError::TooManyTickets));
        let again = stage.give(&grant("alice"), NOW).await.expect("in place of her own");
        assert_eq!(stage.take(&alice, "room:a", NOW).await, Err(AuthError::TicketUnknown));
        assert_eq!(stage.take(&bob, "room:a", NOW).await.as_deref(), Ok("bob"));
        assert_eq!(stage.take(&again, "room:a", NOW).await.as_deref(), Ok("alice"));
    }

    #[tokio::test]
    async fn expired_tickets_make_room() {
        let mut stage = Stage::new();
        stage.tickets.in_all = 1;
        stage.give(&grant("bob"), NOW).await.expect("a ticket");
        assert!(stage.give(&grant("alice"), later(29_999)).await.is_err());
        stage.give(&grant("alice"), later(30_000)).await.expect("room again");
        assert_eq!(stage.tickets.unused().tickets.len(), 1);
        stage.tickets.unused().check();
    }
}
