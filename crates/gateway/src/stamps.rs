//! What the entries of one connection are stamped with: the id and the permissions of the token they came with.
//!
//! A stamp is stored with its entry, so what a call may do is decided by the token it was sent with, on every node and at any time. A
//! participant may have several tokens, and several connections with them. Where requests with tokens of their own share a connection, as
//! over HTTP, the request's token counts.
//!
//! Invariant: using a connection with another token never adds a permission. A stamp names a token only if that token alone was used.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{EnvelopeId, Stamp};

use crate::auth::{self, Grant};

/// What one connection's entries are stamped with.
pub(crate) struct ConnectionStamps(Mutex<StampTable>);

struct StampTable {
    own: CommonPermissions,
    /// Requests that are under way and came with tokens of their own: how many have the same id, and what all their tokens permit.
    by_request: HashMap<EnvelopeId, (usize, CommonPermissions)>,
}

/// What the tokens used so far have in common, and its stamp, which is encoded once.
#[derive(Clone)]
struct CommonPermissions {
    token: Option<String>,
    permissions: Vec<String>,
    capabilities: Option<Vec<String>>,
    is_human: bool,
    stamp: Option<Stamp>,
}

impl CommonPermissions {
    fn new(grant: &Grant) -> Self {
        let Grant { token_id, permissions, capabilities, .. } = grant.clone();
        Self { token: token_id, permissions, capabilities, is_human: grant.is_human(), stamp: grant.stamp() }
    }

    fn narrow(&mut self, grant: &Grant) {
        let is_same_token = self.token == grant.token_id;
        let is_same_limit = self.capabilities == grant.capabilities;
        let is_same_kind = self.is_human == grant.is_human();
        if is_same_token && self.permissions == grant.permissions && is_same_limit && is_same_kind {
            return;
        }
        // What two limits have in common is not computed: nothing.
        self.capabilities = match (self.capabilities.take(), &grant.capabilities) {
            (Some(_), Some(_)) if !is_same_limit => Some(Vec::new()),
            (own, others) => own.or_else(|| others.clone()),
        };
        self.token.take_if(|_| !is_same_token);
        self.permissions.retain(|permission| grant.permissions.contains(permission));
        self.is_human &= is_same_kind;
        self.stamp = auth::stamp(self.token.as_deref(), &self.permissions, self.capabilities.as_deref(), self.is_human);
    }
}

/// A request that came with a token of its own, until this is dropped.
pub(crate) struct StampedRequest {
    stamps: Arc<ConnectionStamps>,
    request: EnvelopeId,
}

impl ConnectionStamps {
    pub(crate) fn new(grant: &Grant) -> Arc<Self> {
        Arc::new(Self(Mutex::new(StampTable { own: CommonPermissions::new(grant), by_request: HashMap::new() })))
    }

    fn stamps(&self) -> MutexGuard<'_, StampTable> {
        self.0.lock()
    }

    /// The connection is used with another token as well: from here on only what both permit counts.
    pub(crate) fn narrow(&self, grant: &Grant) {
        self.stamps().own.narrow(grant);
    }

    /// A request comes over the connection with a token of its own. The envelope it publishes has the request's id.
    pub(crate) fn begin_request(self: &Arc<Self>, request: EnvelopeId, grant: &Grant) -> StampedRequest {
        let mut stamps = self.stamps();
        let known = stamps.by_request.entry(request.clone());
        let (count, credentials) = known.or_insert_with(|| (0, CommonPermissions::new(grant)));
        *count += 1;
        credentials.narrow(grant);
        drop(stamps);
        StampedRequest { stamps: self.clone(), request }
    }

    /// The stamp of what the connection publishes, but for requests with tokens of their own.
    pub(crate) fn own(&self) -> Option<Stamp> {
        self.stamps().own.stamp.clone()
    }

    /// The stamp of an envelope that is about to be published.
    pub(crate) fn of(&self, envelope: &EnvelopeId) -> Option<Stamp> {
        let stamps = self.stamps();
        let by_request = (!stamps.by_request.is_empty()).then(|| stamps.by_request.get(envelope)).flatten();
        by_request.map_or(&stamps.own, |(_, credentials)| credentials).stamp.clone()
    }
}

impl Drop for StampedRequest {
    fn drop(&mut self) {
        let mut stamps = self.stamps.stamps();
        if let Some((count, _)) = stamps.by_request.get_mut(&self.request) {
            *count -= 1;
            if *count == 0 {
                stamps.by_request.remove(&self.request);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use salon_protocol::{ParticipantId, Timestamp};

    use super::*;

    fn grant(token: &str, permissions: &[&str]) -> Grant {
        let alice = ParticipantId::new("alice").expect("an id");
        let permissions = permissions.iter().map(|word| (*word).to_owned()).collect();
        Grant { token_id: Some(token.into()), permissions, ..Grant::new(alice, Vec::new(), Timestamp(0)) }
    }

    fn id(text: &str) -> EnvelopeId {
        EnvelopeId::new(text).expect("an id")
    }

    /// The token and the permissions in an envelope's stamp.
    fn stamped(stamps: &ConnectionStamps, envelope: &str) -> String {
        stamps.of(&id(envelope)).map_or_else(|| "none".into(), |stamp| stamp.text().to_owned())
    }

    #[test]
    fn a_second_token_only_narrows() {
        let stamps = ConnectionStamps::new(&grant("t1", &["drive", "read"]));
        assert_eq!(stamped(&stamps, "m1"), r#"{"token":"t1","permissions":["drive","read"]}"#);
        stamps.narrow(&grant("t1", &["drive", "read"]));
        assert_eq!(stamped(&stamps, "m2"), r#"{"token":"t1","permissions":["drive","read"]}"#, "the same token again");
        stamps.narrow(&grant("t2", &["read", "fly"]));
        assert_eq!(stamped(&stamps, "m3"), r#"{"permissions":["read"]}"#, "it is not known which of the two it was");
        stamps.narrow(&grant("t1", &["drive", "read"]));
        assert_eq!(stamped(&stamps, "m4"), r#"{"permissions":["read"]}"#, "a session keeps the least it was used with");
        stamps.narrow(&grant("t3", &[]));
        assert_eq!(stamped(&stamps, "m5"), "none");
    }

    #[test]
    fn a_limit_is_never_lost() {
        let limited = |list: &[&str]| {
            let capabilities = Some(list.iter().map(|word| (*word).to_owned()).collect());
            Grant { capabilities, ..grant("t1", &[]) }
        };
        let stamps = ConnectionStamps::new(&grant("t1", &[]));
        stamps.narrow(&limited(&["say"]));
        assert_eq!(stamped(&stamps, "m1"), r#"{"token":"t1","capabilities":["say"]}"#);
        stamps.narrow(&grant("t1", &[]));
        assert_eq!(stamped(&stamps, "m2"), r#"{"token":"t1","capabilities":["say"]}"#);
        stamps.narrow(&limited(&["read"]));
        assert_eq!(stamped(&stamps, "m3"), r#"{"token":"t1","capabilities":[]}"#);
        let long = Grant { permissions: vec!["p".repeat(Stamp::MAX_BYTES)], ..limited(&["say"]) };
        assert_eq!(stamped(&ConnectionStamps::new(&long), "m4"), r#"{"capabilities":[]}"#);
    }

    #[test]
    fn a_request_with_a_token_of_its_own_is_stamped_with_that() {
        let stamps = ConnectionStamps::new(&grant("t1", &[]));
        let strong = stamps.begin_request(id("s1"), &grant("t2", &["drive", "read"]));
        assert_eq!(stamped(&stamps, "s1"), r#"{"token":"t2","permissions":["drive","read"]}"#);
        assert_eq!(stamped(&stamps, "o1"), r#"{"token":"t1"}"#, "another request has the session's");
        drop(strong);
        assert_eq!(stamped(&stamps, "s1"), r#"{"token":"t1"}"#);
        let weak = stamps.begin_request(id("w1"), &grant("t1", &[]));
        let both = stamps.begin_request(id("w1"), &grant("t2", &["drive"]));
        drop(weak);
        assert_eq!(stamped(&stamps, "w1"), "none", "two at once have what both permit");
        drop(both);
        assert!(stamps.stamps().by_request.is_empty(), "nothing is kept of those that are answered");
    }
}
