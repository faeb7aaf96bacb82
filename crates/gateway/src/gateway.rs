//! What every door and handler shares.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use salon_control::Namespaces;
use salon_log::FileStore;
use salon_protocol::{Code, ParticipantId, Refusal, TopicName};
use salon_rooms::Rooms;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::audit::Audit;
use crate::auth::{AuthError, Grant, Revocations, SignedInVisit, Signer, Tickets, Verifier};
use crate::clock;
use crate::config::Config;
use crate::connection::{ConnectionContext, record_refusal};
use crate::failures::Failures;
use crate::guest_board::GuestBoard;
use crate::host::Library;
use crate::http::bodies::Bodies;
use crate::http::reads::ReadRates;
use crate::http::{PeerAddress, Requester, guard};
use crate::is_loopback;
use crate::meters::Meters;
use crate::outages::OutageWatch;
use crate::search::Searches;
use crate::seat_keeper::SeatKeeper;
use crate::stamps::ConnectionStamps;
use crate::ui::Ui;

/// The longest page of history.
pub(crate) const MAX_HISTORY: usize = 1000;

/// The longest message even where the limit is switched off: the log takes nothing near a gigabyte.
pub(crate) const MAX_MESSAGE: usize = 256 << 20;

/// What is beside the rooms.
type Stores = (Arc<Searches>, Arc<dyn FileStore>, GuestBoard);

/// A running gateway.
pub(crate) struct GatewayState {
    pub(crate) config: Config,
    pub(crate) rooms: Rooms,
    pub(crate) library: Arc<Library>,
    pub(crate) searches: Arc<Searches>,
    pub(crate) files: Arc<dyn FileStore>,
    /// The guests that this process hosts.
    pub(crate) guests: GuestBoard,
    pub(crate) verifier: Verifier,
    /// For the tokens of development mode.
    pub(crate) signer: Signer,
    pub(crate) tickets: Tickets,
    pub(crate) revocations: Arc<Revocations>,
    /// The ids that only bridges may use.
    pub(crate) namespaces: Namespaces,
    /// What is kept for the gateway's own page, where there is one.
    pub(crate) ui: Option<Ui>,
    /// Those that share the log, where it can be shared.
    pub(crate) outages: Option<Arc<OutageWatch>>,
    pub(crate) audit: Audit,
    pub(crate) meters: Meters,
    /// Refusals outside of sessions, by address.
    pub(crate) refusals: Failures,
    pub(crate) started: Instant,
    pub(crate) shutdown: watch::Sender<bool>,
    pub(crate) seat_keeper: SeatKeeper,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) reads: ReadRates,
    by_participant: Arc<KeyedCounter<ParticipantId>>,
    by_address: Arc<KeyedCounter<IpAddr>>,
    sessions: Mutex<JoinSet<()>>,
}

impl GatewayState {
    pub(crate) fn new(
        config: Config,
        (rooms, library, (searches, files, guests), outages): (Rooms, Arc<Library>, Stores, Option<Arc<OutageWatch>>),
        (verifier, signer): (Verifier, Signer),
        (tickets, revocations, ui): (Tickets, Arc<Revocations>, Option<Ui>),
        audit: Audit,
        meters: Meters,
        shutdown: watch::Sender<bool>,
    ) -> Self {
        let seat_grace = config.timings.seat_grace;
        Self {
            bodies: Bodies::new(&config.limits, longest_message(config.limits.envelope().longest())),
            reads: ReadRates::new(config.limits.read_rate),
            by_participant: KeyedCounter::new(config.limits.connections_per_participant),
            by_address: KeyedCounter::new(config.limits.connections_per_address),
            refusals: Failures::new(
                config.limits.connections_per_address > 0,
                guard::REFUSALS_PER_SECOND,
                guard::MAX_REFUSALS_AT_ONCE,
            ),
            namespaces: config.namespaces().unwrap_or_default(),
            config,
            rooms,
            library,
            searches,
            files,
            guests,
            verifier,
            signer,
            tickets,
            revocations,
            ui,
            outages,
            audit,
            meters,
            started: Instant::now(),
            seat_keeper: SeatKeeper::new(seat_grace, shutdown.subscribe()),
            shutdown,
            sessions: Mutex::default(),
        }
    }

    fn sessions(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.sessions.lock()
    }

    /// Runs a session until it ends; the gateway owns it.
    pub(crate) fn spawn(&self, session: impl Future<Output = ()> + Send + 'static) {
        let mut sessions = self.sessions();
        while sessions.try_join_next().is_some() {}
        // Its lines have the id of the connection that began it.
        sessions.spawn(session.in_current_span());
    }

    /// Waits for all sessions to end.
    pub(crate) async fn drain(&self) {
        let mut sessions = std::mem::take(&mut *self.sessions());
        while sessions.join_next().await.is_some() {}
    }

    /// The context of a connection whose token is verified.
    pub(crate) fn connection(&self, grant: &Grant, topic: &TopicName, address: IpAddr) -> ConnectionContext {
        ConnectionContext {
            meters: self.meters.clone(),
            audit: self.audit.clone(),
            participant: grant.participant.clone(),
            topic: topic.clone(),
            address,
            stamps: ConnectionStamps::new(grant),
            revocation: self.revocations.revoked_later(grant),
            visit: self.visit(grant),
            outages: self.outages.clone(),
            seat_keeper: None,
        }
    }

    /// The sign-in that a grant stands on, held until the returned value is dropped; `None` where it stands on something else.
    pub(crate) fn visit(&self, grant: &Grant) -> Option<Arc<SignedInVisit>> {
        self.ui.as_ref().and_then(|ui| ui.visit(grant)).map(Arc::new)
    }

    /// What a token grants now, unless it is revoked.
    pub(crate) fn verify(&self, token: &str) -> Result<Grant, AuthError> {
        let grant = self.verifier.verify(token, clock::now())?;
        self.require_current(&grant)?;
        Ok(grant)
    }

    /// Refuses a grant that is revoked, or for an id that is not its owner's here. Whatever stands for a token is judged by this, too: a
    /// ticket, a cookie, a link.
    pub(crate) fn require_current(&self, grant: &Grant) -> Result<(), AuthError> {
        grant.require_namespaces(&self.namespaces)?;
        self.revocations.require(grant)
    }

    /// Counts a refusal outside of a session, and audits it where it is known whom it concerns.
    pub(crate) fn refused(&self, code: Code, requester: &Requester, address: IpAddr) {
        let who = requester.get();
        let who = who.as_ref().map(|(participant, topic)| (participant, topic.as_ref()));
        record_refusal(&self.meters, &self.audit, code, who, address);
    }

    /// Counts one more connection, until the returned value is dropped. What comes from inside has no address to be counted by.
    pub(crate) fn count(&self, grant: &Grant, peer: &PeerAddress) -> Result<Counts, Refusal> {
        Ok(self.try_count(grant, peer)?)
    }

    /// The same, with the limit that is reached.
    pub(crate) fn try_count(&self, grant: &Grant, peer: &PeerAddress) -> Result<Counts, LimitReached> {
        let by_address = match peer {
            PeerAddress::At(address) => {
                Some(self.by_address.enter(&network(address.ip()), "address").map_err(LimitReached::Address)?)
            }
            PeerAddress::Inside => None,
        };
        let by_participant = self.by_participant.enter(&grant.participant, "participant");
        Ok((by_address, by_participant.map_err(LimitReached::Participant)?))
    }

    /// Counts one more connection of somebody who has not said who it is.
    pub(crate) fn count_stranger(&self, peer: &PeerAddress) -> Result<Option<Counted<IpAddr>>, Refusal> {
        match peer {
            PeerAddress::At(address) => self.by_address.enter(&network(address.ip()), "address").map(Some),
            PeerAddress::Inside => Ok(None),
        }
    }

    /// The most bytes of an envelope: an answer may be longer than another message.
    pub(crate) fn max_envelope(&self) -> usize {
        match self.config.limits.envelope().longest() {
            0 => MAX_MESSAGE,
            limit => limit.min(MAX_MESSAGE),
        }
    }

    /// The most bytes of a message.
    pub(crate) fn max_message(&self) -> usize {
        longest_message(self.config.limits.message)
    }

    /// Counts a message that was refused before a room judged it, as one that was published is: what is said instead, where there were too
    /// many.
    pub(crate) fn spend(&self, participant: &ParticipantId, refusal: Refusal) -> Refusal {
        match self.rooms.count_refused(participant) {
            Ok(()) => refusal,
            Err(wait) => self.rooms.too_many(wait).regarding(refusal.regarding),
        }
    }

    /// Whether a topic's history can be had in pages.
    pub(crate) fn has_history(&self, topic: &TopicName) -> bool {
        !self.config.history_off.contains(topic)
    }

    /// Whether a `Host` is one of this gateway's names. An address never is somebody else's name, so addresses pass.
    pub(crate) fn is_own_host(&self, host: &str) -> bool {
        if self.config.http.hosts.iter().any(|own| own.eq_ignore_ascii_case(host)) {
            return true;
        }
        let name = name_of(host);
        let public = self.config.http.public_url.as_deref().and_then(public_host);
        if public.is_some_and(|own| own.eq_ignore_ascii_case(host) || own.eq_ignore_ascii_case(name)) {
            return true;
        }
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok()
            || self.config.http.hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Whether an origin is that of the public URL.
    pub(crate) fn is_public_origin(&self, origin: &str) -> bool {
        let origin_of = |url: &str| {
            let (scheme, rest) = url.split_once("://")?;
            let host = rest.split('/').next()?;
            // Browsers leave out the port that is usual.
            let usual = if scheme == "https" { ":443" } else { ":80" };
            Some(format!("{scheme}://{}", host.strip_suffix(usual).unwrap_or(host)))
        };
        self.config.http.public_url.as_deref().and_then(origin_of).is_some_and(|own| own.eq_ignore_ascii_case(origin))
    }

    /// Whether pages of an origin may use the gateway.
    pub(crate) fn allows_origin(&self, origin: &str) -> bool {
        self.config.http.origins.iter().any(|allowed| allowed.trim_end_matches('/').eq_ignore_ascii_case(origin))
            || (self.config.dev && is_loopback_origin(origin))
    }
}

fn longest_message(limit: usize) -> usize {
    match limit {
        0 => MAX_MESSAGE,
        limit => limit.min(MAX_MESSAGE),
    }
}

/// What an address is counted by: an IPv6 address by its first 64 bits, because one site has all that share them (RFC 6177).
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

/// The host of a public URL, with its port where it has one.
fn public_host(url: &str) -> Option<&str> {
    url.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default())
}

/// The path of a public URL, without a slash at its end: what a proxy takes away before a request comes here.
pub(crate) fn public_path(url: &str) -> &str {
    let path = url.split_once("://").and_then(|(_, rest)| rest.find('/').map(|at| &rest[at..]));
    path.unwrap_or_default().trim_end_matches('/')
}

/// The name or address of a host that may have a port, without the brackets of an IPv6 address. What is no host has none.
fn name_of(host: &str) -> &str {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let Some((name, after)) = rest.split_once(']') else { return "" };
            match after.strip_prefix(':') {
                Some(port) => (name, port),
                None if after.is_empty() => (name, ""),
                None => return "",
            }
        }
        None => host.rsplit_once(':').unwrap_or((host, "")),
    };
    if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { "" }
}

fn is_loopback_origin(origin: &str) -> bool {
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")).unwrap_or_default();
    is_loopback(name_of(host))
}

/// Why a connection is one too many.
pub(crate) enum LimitReached {
    /// Its address has as many as it may.
    Address(Refusal),
    /// Its participant has.
    Participant(Refusal),
}

impl From<LimitReached> for Refusal {
    fn from(limit: LimitReached) -> Self {
        match limit {
            LimitReached::Address(refusal) | LimitReached::Participant(refusal) => refusal,
        }
    }
}

/// A connection that is counted.
pub(crate) type Counts = (Option<Counted<IpAddr>>, Counted<ParticipantId>);

/// How many of something each key has, and how many it may have. Zero is no limit.
pub(crate) struct KeyedCounter<K> {
    limit: usize,
    counts: Mutex<HashMap<K, usize>>,
}

impl<K: Eq + Hash + Clone> KeyedCounter<K> {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, counts: Mutex::default() })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.counts.lock()
    }

    /// Counts one more, until the returned value is dropped.
    pub(crate) fn enter(self: &Arc<Self>, key: &K, of: &str) -> Result<Counted<K>, Refusal> {
        let mut counts = self.counts();
        let count = counts.entry(key.clone()).or_default();
        if self.limit > 0 && *count >= self.limit {
            let message = format!("too many connections of this {of}; the limit is {}", self.limit);
            return Err(Refusal::new(Code::RateLimited, message));
        }
        *count += 1;
        Ok(Counted { tally: self.clone(), key: key.clone() })
    }
}

/// One that is counted.
pub(crate) struct Counted<K: Eq + Hash + Clone> {
    tally: Arc<KeyedCounter<K>>,
    key: K,
}

impl<K: Eq + Hash + Clone> Drop for Counted<K> {
    fn drop(&mut self) {
        let mut counts = self.tally.counts();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_counted_by_its_network() {
        for (address, counted) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("::1", "::"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff::", "2001:db8:1:2::"),
            ("2001:db8:1:3::6", "2001:db8:1:3::"),
        ] {
            let network = network(address.parse().expect("an address"));
            assert_eq!(network.to_string(), counted, "{address}");
        }
    }

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for (host, name) in [
            ("localhost", "localhost"),
            ("localhost:8787", "localhost"),
            ("chat.example:", "chat.example"),
            ("127.0.0.1:1", "127.0.0.1"),
            ("[::1]", "::1"),
            ("[::1]:8787", "::1"),
            ("127.0.0.1:@evil.example", ""),
            ("127.0.0.1:80@evil.example", ""),
            ("[::1].evil.example", ""),
            ("[::1]@evil.example", ""),
            ("[::1", ""),
        ] {
            assert_eq!(name_of(host), name, "{host}");
        }
    }
}
