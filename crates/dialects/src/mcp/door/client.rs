//! Who the client is, and which of its requests wait until it has its seat or an introduction.
//!
//! Invariants: a request waits in one place, and is handed out once. A client asks for a seat at most once at a time. Who it is follows from
//! its handshake in the legacy era, and from every request in the modern one.
//! Deliberately absent: streams, and what requests ask for.

use std::collections::VecDeque;
use std::sync::Arc;

use salon_mcp::handshake::HandshakeParams;
use salon_mcp::{Era, Revision};
use salon_protocol::LogLevel;
use serde_json::value::RawValue;

use crate::streams::Channel;

/// Requests that may wait for the seat.
pub(super) const MAX_EARLY: usize = 64;

/// How a client speaks, and what it said of itself: once in a handshake, or with every request.
#[derive(Debug, Clone)]
pub(super) struct ClientProfile {
    pub(super) revision: Revision,
    pub(super) capabilities: Box<RawValue>,
    pub(super) info: Option<Box<RawValue>>,
    /// Which log lines it wants; a client of the legacy era sets that by `logging/setLevel`.
    pub(super) level: Option<LogLevel>,
}

impl ClientProfile {
    pub(super) fn era(&self) -> Era {
        self.revision.era()
    }

    /// The same as a handshake says it.
    pub(super) fn hello(&self) -> HandshakeParams {
        HandshakeParams { requested_revision: None, capabilities: self.capabilities.clone(), info: self.info.clone() }
    }
}

/// A request of the client's.
#[derive(Debug)]
pub(super) struct DoorRequest {
    pub(super) channel: Channel,
    pub(super) id: Box<RawValue>,
    pub(super) method: Box<str>,
    pub(super) params: Option<Box<RawValue>>,
    pub(super) profile: Arc<ClientProfile>,
    /// The headers it came with, where it came over HTTP.
    pub(super) headers: Option<Vec<(Box<str>, Box<str>)>>,
}

impl DoorRequest {
    pub(super) fn is_modern(&self) -> bool {
        self.profile.era() == Era::Modern
    }
}

/// Whether the client has its seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DoorSeatState {
    Outside,
    Entering,
    Inside,
}

/// What becomes of a request that has come.
#[derive(Debug)]
pub(super) enum RequestAdmission {
    /// The client has its seat.
    Serve(DoorRequest),
    /// It waits; whether a seat is to be asked for.
    Wait { asks_for_seat: bool },
    /// Too many wait already.
    TooMany(DoorRequest),
}

/// See the module.
#[derive(Debug)]
pub(super) struct ClientSession {
    seat: DoorSeatState,
    /// Requests that came before the seat.
    early: VecDeque<DoorRequest>,
    /// Handshakes that wait for the one participant's.
    introducing: Vec<DoorRequest>,
    /// How the client spoke last.
    latest: Option<Arc<ClientProfile>>,
    /// How it introduced itself, where it did.
    introduced: Option<Arc<ClientProfile>>,
    /// The level of log lines a legacy client asked for.
    level: Option<LogLevel>,
}

impl Default for ClientSession {
    fn default() -> Self {
        Self {
            seat: DoorSeatState::Outside,
            early: VecDeque::new(),
            introducing: Vec::new(),
            latest: None,
            introduced: None,
            level: None,
        }
    }
}

impl ClientSession {
    /// A modern client says with a request who it is.
    pub(super) fn note_profile(&mut self, profile: &Arc<ClientProfile>) {
        self.latest = Some(profile.clone());
    }

    /// A legacy client says who it is, or is told the revision that its session has.
    pub(super) fn introduce(&mut self, profile: &Arc<ClientProfile>) {
        self.latest = Some(profile.clone());
        self.introduced = Some(profile.clone());
    }

    /// Whether a legacy client has said who it is.
    pub(super) fn is_introduced(&self) -> bool {
        self.introduced.is_some()
    }

    pub(super) fn introduced(&self) -> Option<Arc<ClientProfile>> {
        self.introduced.clone()
    }

    /// The revision of the session.
    pub(super) fn revision(&self) -> Revision {
        self.introduced.as_ref().map_or(Revision::ROOM, |profile| profile.revision)
    }

    /// How the client spoke last.
    pub(super) fn latest(&self) -> Option<Arc<ClientProfile>> {
        self.latest.clone()
    }

    /// What the client calls itself.
    pub(super) fn info(&self) -> Option<Box<RawValue>> {
        self.latest.as_ref().and_then(|profile| profile.info.clone())
    }

    /// The level of log lines a legacy client asked for.
    pub(super) fn level(&self) -> Option<LogLevel> {
        self.level
    }

    pub(super) fn set_level(&mut self, level: LogLevel) {
        self.level = Some(level);
    }

    /// Takes a request on, now or when the client has its seat.
    pub(super) fn admit(&mut self, request: DoorRequest) -> RequestAdmission {
        match self.seat {
            DoorSeatState::Inside => RequestAdmission::Serve(request),
            DoorSeatState::Outside | DoorSeatState::Entering if self.early.len() >= MAX_EARLY => {
                RequestAdmission::TooMany(request)
            }
            DoorSeatState::Outside | DoorSeatState::Entering => {
                let before = std::mem::replace(&mut self.seat, DoorSeatState::Entering);
                self.early.push_back(request);
                RequestAdmission::Wait { asks_for_seat: before == DoorSeatState::Outside }
            }
        }
    }

    /// The client has its seat. Returns the requests that waited for it.
    pub(super) fn seated(&mut self) -> VecDeque<DoorRequest> {
        self.seat = DoorSeatState::Inside;
        std::mem::take(&mut self.early)
    }

    /// The client does not get its seat. Returns the requests that waited for it.
    pub(super) fn not_seated(&mut self) -> VecDeque<DoorRequest> {
        self.seat = DoorSeatState::Outside;
        std::mem::take(&mut self.early)
    }

    /// Has a handshake wait for that of the one participant.
    pub(super) fn wait_for_introduction(&mut self, request: DoorRequest) {
        self.introducing.push(request);
    }

    /// The handshakes that waited for it.
    pub(super) fn take_introducing(&mut self) -> Vec<DoorRequest> {
        std::mem::take(&mut self.introducing)
    }

    /// How many requests wait.
    pub(super) fn waiting(&self) -> usize {
        self.early.len() + self.introducing.len()
    }

    /// Takes those away that are wanted.
    pub(super) fn take_waiting(&mut self, is_wanted: impl Fn(&DoorRequest) -> bool) -> Vec<DoorRequest> {
        let all = std::mem::take(&mut self.early).into_iter();
        let (mut taken, early): (Vec<_>, _) = all.partition(|request| is_wanted(request));
        self.early = early.into();
        let all = std::mem::take(&mut self.introducing).into_iter();
        let (more, introducing): (Vec<_>, _) = all.partition(|request| is_wanted(request));
        self.introducing = introducing;
        taken.extend(more);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::door::empty;

    fn profile(revision: Revision) -> Arc<ClientProfile> {
        Arc::new(ClientProfile { revision, capabilities: empty(), info: Some(empty()), level: None })
    }

    fn request(id: &str) -> DoorRequest {
        let id = RawValue::from_string(id.into()).unwrap();
        let (profile, method) = (profile(Revision::ROOM), "tools/list".into());
        DoorRequest { channel: Channel::SESSION, id, method, params: None, profile, headers: None }
    }

    fn ids(requests: impl IntoIterator<Item = DoorRequest>) -> Vec<String> {
        requests.into_iter().map(|request| request.id.get().to_owned()).collect()
    }

    #[test]
    fn requests_wait_for_the_seat_which_is_asked_for_once() {
        let mut client = ClientSession::default();
        assert!(matches!(client.admit(request("1")), RequestAdmission::Wait { asks_for_seat: true }));
        assert!(matches!(client.admit(request("2")), RequestAdmission::Wait { asks_for_seat: false }));
        assert_eq!(client.waiting(), 2);
        assert_eq!(ids(client.seated()), ["1", "2"]);
        assert!(matches!(client.admit(request("3")), RequestAdmission::Serve(_)));
        assert_eq!(client.waiting(), 0);
    }

    #[test]
    fn a_seat_that_was_refused_is_asked_for_again() {
        let mut client = ClientSession::default();
        client.admit(request("1"));
        assert_eq!(ids(client.not_seated()), ["1"]);
        assert!(matches!(client.admit(request("2")), RequestAdmission::Wait { asks_for_seat: true }));
    }

    #[test]
    fn only_so_many_requests_wait_for_the_seat() {
        let mut client = ClientSession::default();
        for number in 0..MAX_EARLY {
            assert!(matches!(client.admit(request(&number.to_string())), RequestAdmission::Wait { .. }));
        }
        assert!(matches!(client.admit(request("99")), RequestAdmission::TooMany(refused) if refused.id.get() == "99"));
        assert_eq!(client.waiting(), MAX_EARLY);
    }

    #[test]
    fn what_is_taken_back_waits_no_longer_and_the_rest_does() {
        let mut client = ClientSession::default();
        for id in ["1", "2"] {
            client.admit(request(id));
        }
        for id in ["3", "4"] {
            client.wait_for_introduction(request(id));
        }
        let taken = client.take_waiting(|request| matches!(request.id.get(), "2" | "3"));
        assert_eq!(ids(taken), ["2", "3"]);
        assert_eq!(
            (ids(client.take_introducing()), ids(client.seated())),
            (vec!["4".to_owned()], vec!["1".to_owned()])
        );
    }

    #[test]
    fn only_a_handshake_introduces() {
        let mut client = ClientSession::default();
        client.note_profile(&profile(Revision::MODERN));
        assert!(!client.is_introduced() && client.info().is_some());
        assert_eq!(client.revision(), Revision::ROOM);
        client.introduce(&profile(Revision::R2025_03_26));
        assert_eq!((client.is_introduced(), client.revision()), (true, Revision::R2025_03_26));
    }
}
