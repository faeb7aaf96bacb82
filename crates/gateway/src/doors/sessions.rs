//! Sessions that outlive the request or connection they began with: one table for every door that has some.
//!
//! Invariants: a session counts as a connection of its participant and of the address it began from until the table forgets it. One
//! that is used with several tokens may do what all of them permit. Each door says by its keys who shares a session, and by its
//! handles how to reach one.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use salon_dialects::Dialect;
use salon_protocol::{ParticipantId, Refusal, TopicName};

use crate::auth::Grant;
use crate::carriers::{Inbox, SessionLines, StreamCarrier};
use crate::connection::ConnectionContext;
use crate::gateway::{Counts, GatewayState, LimitReached, network};
use crate::http::PeerAddress;
use crate::http::credentials::RequestCredentials;
use crate::session::Session;

/// A participant whose token is verified, and where it comes from.
pub(super) struct Visitor {
    pub(super) gateway: Arc<GatewayState>,
    pub(super) peer: PeerAddress,
    pub(super) grant: Grant,
}

/// How a door reaches a session.
pub(super) trait Handle: Clone + Send + 'static {
    /// Whether the session has ended.
    fn is_closed(&self) -> bool;

    /// Since when nobody has used the session; `None` while somebody does.
    fn idle_since(&self) -> Option<Instant>;
}

impl<O: Send + 'static> Handle for Inbox<O> {
    fn is_closed(&self) -> bool {
        Inbox::is_closed(self)
    }

    fn idle_since(&self) -> Option<Instant> {
        Inbox::idle_since(self)
    }
}

impl Handle for SessionLines {
    fn is_closed(&self) -> bool {
        SessionLines::is_closed(self)
    }

    /// Such a session lingers on purpose, so that its peer can come back.
    fn idle_since(&self) -> Option<Instant> {
        None
    }
}

/// A session that was found or begun.
pub(super) struct OpenSession<H> {
    pub(super) handle: H,
    pub(super) connection: ConnectionContext,
}

struct SessionRecord<H> {
    handle: H,
    connection: ConnectionContext,
    /// Tells it from a later session under the same key.
    number: u64,
    counted: Counts,
}

impl<H: Handle> SessionRecord<H> {
    /// Whether it is among the connections of an address. One from inside this process is among none.
    fn counts_for(&self, address: IpAddr) -> bool {
        self.counted.0.is_some() && network(self.connection.address) == network(address)
    }

    /// Uses the session with a token.
    fn used(&self, grant: &Grant) -> OpenSession<H> {
        self.connection.stamps.narrow(grant);
        self.connection.revocation.add(grant);
        OpenSession { handle: self.handle.clone(), connection: self.connection.clone() }
    }
}

/// The sessions of one door. At a limit the default refuses another session.
pub(super) struct SessionTable<K, H> {
    records: Mutex<Records<K, H>>,
    evicts_idle: bool,
}

struct Records<K, H> {
    by_key: HashMap<K, SessionRecord<H>>,
    begun: u64,
}

impl<K, H> Default for SessionTable<K, H> {
    fn default() -> Self {
        Self { records: Mutex::new(Records { by_key: HashMap::new(), begun: 0 }), evicts_idle: false }
    }
}

impl<K, H> SessionTable<K, H> {
    /// At a limit another session takes the place of its participant's idlest.
    pub(super) fn evicting_idle() -> Self {
        Self { evicts_idle: true, ..Self::default() }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static, H: Handle> SessionTable<K, H> {
    fn records(&self) -> MutexGuard<'_, Records<K, H>> {
        self.records.lock()
    }

    /// The handle of a session that is reached by knowing its key, and whose it is.
    pub(super) fn get(&self, key: &K) -> Option<(H, ParticipantId)> {
        let records = self.records();
        let record = records.by_key.get(key)?;
        Some((record.handle.clone(), record.connection.participant.clone()))
    }

    /// A session that belongs to the grant's participant, where the grant opens its topic and `is_meant` accepts it. One that is not
    /// found is not used, and keeps its permissions.
    pub(super) fn find(&self, key: &K, grant: &Grant, is_meant: impl FnOnce(&H, &TopicName) -> bool) -> Option<H> {
        let records = self.records();
        let record = records.by_key.get(key)?;
        let ConnectionContext { participant, topic, .. } = &record.connection;
        let is_found = *participant == grant.participant && grant.opens(topic) && is_meant(&record.handle, topic);
        is_found.then(|| record.used(grant).handle)
    }

    /// The session under a key that its visitors share, which is begun where there is none or where it has just ended.
    pub(super) fn find_or_begin<D: Dialect + Unpin + 'static, C: StreamCarrier<D::Opening> + 'static>(
        self: &Arc<Self>,
        visitor: &Visitor,
        key: K,
        topic: &TopicName,
        begin: impl FnOnce(ConnectionContext) -> (Pin<Box<Session<D, C>>>, H),
    ) -> Result<OpenSession<H>, Refusal> {
        let mut records = self.records();
        match records.by_key.get(&key) {
            Some(record) if !record.handle.is_closed() => Ok(record.used(&visitor.grant)),
            _ => {
                let counted = self.count(&mut records, visitor)?;
                Ok(self.insert(&mut records, visitor, key, topic, counted, begin))
            }
        }
    }

    /// Begins a session under a key of its own.
    pub(super) fn begin<D: Dialect + Unpin + 'static, C: StreamCarrier<D::Opening> + 'static>(
        self: &Arc<Self>,
        visitor: &Visitor,
        key: K,
        topic: &TopicName,
        begin: impl FnOnce(ConnectionContext) -> (Pin<Box<Session<D, C>>>, H),
    ) -> Result<H, Refusal> {
        let mut records = self.records();
        let counted = self.count(&mut records, visitor)?;
        Ok(self.insert(&mut records, visitor, key, topic, counted, begin).handle)
    }

    /// Nobody finds the session any more.
    pub(super) fn remove(&self, key: &K) {
        self.records().by_key.remove(key);
    }

    fn forget(&self, key: &K, number: u64) {
        let mut records = self.records();
        if records.by_key.get(key).is_some_and(|record| record.number == number) {
            records.by_key.remove(key);
        }
    }

    fn count(&self, records: &mut Records<K, H>, visitor: &Visitor) -> Result<Counts, Refusal> {
        if self.evicts_idle { records.make_room(visitor) } else { visitor.gateway.count(&visitor.grant, &visitor.peer) }
    }

    /// Runs a session that is counted, for as long as it lasts.
    fn insert<D: Dialect + Unpin + 'static, C: StreamCarrier<D::Opening> + 'static>(
        self: &Arc<Self>,
        records: &mut Records<K, H>,
        visitor: &Visitor,
        key: K,
        topic: &TopicName,
        counted: Counts,
        begin: impl FnOnce(ConnectionContext) -> (Pin<Box<Session<D, C>>>, H),
    ) -> OpenSession<H> {
        let Visitor { gateway, peer, grant } = visitor;
        RequestCredentials::audit_entry(gateway, peer.ip(), grant, topic);
        let connection = gateway.connection(grant, topic, peer.ip());
        let (session, handle) = begin(connection.clone());
        records.begun += 1;
        let number = records.begun;
        let found = OpenSession { handle: handle.clone(), connection: connection.clone() };
        let record = SessionRecord { handle, connection: connection.clone(), number, counted };
        records.by_key.insert(key.clone(), record);
        gateway.spawn(self.clone().run(key, number, async move { _ = super::run(session, &connection).await }));
        found
    }

    /// Runs a session, and forgets it at its end, also where that is a panic.
    async fn run(self: Arc<Self>, key: K, number: u64, session: impl Future<Output = ()>) {
        // Made here and not where the session is spawned, under the lock that forgetting takes.
        let _registration = SessionRegistration { table: self, key, number };
        session.await;
    }
}

/// A session that its table finds until this is dropped.
struct SessionRegistration<K: Clone + Eq + Hash + Send + 'static, H: Handle> {
    table: Arc<SessionTable<K, H>>,
    key: K,
    number: u64,
}

impl<K: Clone + Eq + Hash + Send + 'static, H: Handle> Drop for SessionRegistration<K, H> {
    fn drop(&mut self) {
        self.table.forget(&self.key, self.number);
    }
}

impl<K: Clone + Eq + Hash, H: Handle> Records<K, H> {
    /// Counts one more session, and ends another of its participant for it where that helps.
    fn make_room(&mut self, Visitor { gateway, peer, grant }: &Visitor) -> Result<Counts, Refusal> {
        let own = |record: &SessionRecord<H>| record.connection.participant == grant.participant;
        let ended = match gateway.try_count(grant, peer) {
            Ok(counted) => return Ok(counted),
            Err(LimitReached::Participant(refusal)) => self.end_idlest(own).then_some(()).ok_or(refusal),
            // Only one that counts for the same address.
            Err(LimitReached::Address(refusal)) => {
                let beside = |record: &SessionRecord<H>| own(record) && record.counts_for(peer.ip());
                self.end_idlest(beside).then_some(()).ok_or(refusal)
            }
        };
        ended.and_then(|()| gateway.count(grant, peer))
    }

    /// Ends the session among `those` that nobody waits for, the one unused for the longest. Says whether there was one.
    fn end_idlest(&mut self, those: impl Fn(&SessionRecord<H>) -> bool) -> bool {
        let own = self.by_key.iter().filter(|(_, record)| those(record));
        let idle = own.filter_map(|(key, record)| Some((record.handle.idle_since()?, key)));
        let Some(key) = idle.min_by_key(|(since, _)| *since).map(|(_, key)| key.clone()) else { return false };
        // A session that nobody can reach ends by itself.
        self.by_key.remove(&key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Audit;
    use crate::carriers::Exchanges;
    use crate::gateway::KeyedCounter;

    #[tokio::test]
    async fn a_session_that_panics_is_forgotten_and_no_longer_counted() {
        let table = Arc::new(SessionTable::<&str, Inbox<()>>::default());
        let connection = ConnectionContext::of_alice(Audit::off());
        let (_carrier, handle) = Exchanges::new();
        let open = KeyedCounter::new(1);
        let counted = (None, open.enter(&connection.participant, "participant").expect("the first"));
        let record = SessionRecord { handle, connection: connection.clone(), number: 1, counted };
        table.records().by_key.insert("s1", record);
        let running = tokio::spawn(table.clone().run("s1", 1, async { panic!("the test asked for it") }));
        assert!(running.await.expect_err("it panicked").is_panic());
        assert!(table.get(&"s1").is_none(), "a session that is over is found");
        assert!(open.enter(&connection.participant, "participant").is_ok(), "a session that is over counts");
    }
}
