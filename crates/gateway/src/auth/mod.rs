//! Who may come in: tokens become grants here, and nowhere else.
//!
//! A [`Verifier`] turns a token into a [`Grant`], a [`Signer`] makes tokens with the gateway's own key, and `Tickets` stand in
//! for a token where a browser cannot send one. [`SignInLinks`] and `SignIns` are for the gateway's own page. Time is an argument throughout. Deliberately absent: headers and queries (the
//! doors find the token) and what a grant's holder may say (that is `rooms`).

mod confirmation;
pub mod jwks;
mod keys;
mod links;
mod local_keys;
mod oauth;
mod revocations;
mod rotation;
mod signins;
mod signouts;
mod subject;
mod tickets;
mod token;
mod visits;

use salon_control::{GhostGrant, Namespace, Namespaces};
#[cfg(feature = "nats")]
use salon_log::cluster::Keyspace;
use salon_protocol::{Code, ParticipantId, ParticipantKind, Refusal, Stamp, Timestamp, TopicName, TopicPattern};

pub use confirmation::Confirmation;
pub use keys::{KEY_BYTES, KEY_FILE, KeyFileError, KeySet, LocalKey};
pub(crate) use keys::{hex, random};
pub use links::SignInLinks;
pub(crate) use oauth::topic_scope;
pub use oauth::{OAuthRules, SCOPE};
pub use revocations::REVOCATIONS_FILE;
pub(crate) use revocations::{Revocation, RevocationWatch, Revocations, RevokeError, RevokedTokens};
pub use rotation::{FIRST_KEY, KeyInfo, KeyUse, MAX_SIGNING_KEYS_BYTES, RotationError, SIGNING_KEYS_FILE, SigningKeys};
pub(crate) use signins::{SignIns, SignedIn, SignedOut};
pub use signouts::SIGN_OUTS_FILE;
pub(crate) use subject::participant_of_subject;
pub(crate) use tickets::Tickets;
pub use token::{MAX_TOKEN_BYTES, Signer, TokenRules, Verifier};
pub(crate) use visits::SignedInVisit;

/// What gateways share of tickets and sign-outs.
#[cfg(feature = "nats")]
pub(crate) const KEYSPACES: [Keyspace; 3] = [tickets::TICKETS, signouts::SIGN_OUTS, revocations::REVOCATIONS];

/// The stamp of a token. One that is limited has a stamp that says so, whatever it is too long for.
pub(crate) fn stamp(
    token: Option<&str>,
    permissions: &[String],
    capabilities: Option<&[String]>,
    is_human: bool,
) -> Option<Stamp> {
    let encode = if is_human { Stamp::of_human } else { Stamp::new };
    encode(token, permissions, capabilities).or_else(|| Stamp::new(None, &[], capabilities.map(|_| &[] as &[String])))
}

/// A verified token: who, which topics, which permissions, until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Who it is; never an id of the gateway's own.
    pub participant: ParticipantId,
    /// The topics it may enter, never none.
    pub topics: Vec<TopicPattern>,
    /// The display name, where the token fixes it.
    pub name: Option<String>,
    /// What it is, where the token fixes it.
    pub kind: Option<ParticipantKind>,
    /// What it may do beyond being there.
    pub permissions: Vec<String>,
    /// The capabilities it is limited to; `None` where it is not limited.
    pub capabilities: Option<Vec<String>>,
    /// From here on it is invalid.
    pub expires: Timestamp,
    /// When it was issued (`iat`); 1970 where it does not say.
    pub issued: Timestamp,
    /// The token's own id (`jti`), for the audit trail and the stamps of entries.
    pub token_id: Option<String>,
    /// Whether it stands for a browser's sign-in, whose id `token_id` then is. No token says that of itself.
    pub by_sign_in: bool,
    /// The id of the token that a browser signed in with, or that its invitation was made with.
    pub origin: Option<String>,
    /// Who made the invitation that a browser signed in with: it is revoked with the tokens of that participant.
    pub inviter: Option<ParticipantId>,
    /// The key of the gateway's own that signed the token, or the token that a browser signed in with: [`FIRST_KEY`] or a `kid`. Such a grant
    /// ends when the key is removed.
    pub signing_key: Option<String>,
    /// Whether every message must be signed, which only the Machine Context Protocol can do: it opens no other door.
    pub require_integrity: bool,
    /// The key whose holder the token is for (`cnf`), with which messages can be signed.
    pub confirmation: Option<Confirmation>,
    /// Whom it may act for, if it is a bridge's.
    pub ghosts: Option<GhostGrant>,
}

impl Grant {
    /// A grant with a fresh token id, and neither name, kind nor permissions.
    pub fn new(participant: ParticipantId, topics: Vec<TopicPattern>, expires: Timestamp) -> Self {
        let token_id = Some(keys::hex(&keys::random::<16>()));
        Self {
            participant,
            topics,
            name: None,
            kind: None,
            permissions: Vec::new(),
            capabilities: None,
            expires,
            issued: Timestamp(0),
            token_id,
            by_sign_in: false,
            origin: None,
            inviter: None,
            signing_key: None,
            require_integrity: false,
            confirmation: None,
            ghosts: None,
        }
    }

    /// Whether the grant opens a topic.
    pub fn opens(&self, topic: &TopicName) -> bool {
        self.topics.iter().any(|pattern| pattern.opens(topic))
    }

    /// Refuses a topic the grant does not open.
    pub fn require(&self, topic: &TopicName) -> Result<(), AuthError> {
        if self.opens(topic) { Ok(()) } else { Err(AuthError::TopicNotOpen(topic.clone())) }
    }

    /// Refuses a grant whose holder must sign everything it says, where nothing can be signed.
    pub fn require_unsigned(&self) -> Result<(), AuthError> {
        if self.require_integrity { Err(AuthError::MustSign) } else { Ok(()) }
    }

    /// The topic, where the grant opens exactly one.
    pub fn only_topic(&self) -> Option<&TopicName> {
        let TopicPattern::Exact(first) = self.topics.first()? else { return None };
        let same = |pattern: &TopicPattern| matches!(pattern, TopicPattern::Exact(name) if name == first);
        self.topics.iter().all(same).then_some(first)
    }

    /// What entries are stamped with that are published with it.
    pub fn stamp(&self) -> Option<Stamp> {
        stamp(self.token_id.as_deref(), &self.permissions, self.capabilities.as_deref(), self.is_human())
    }

    /// Refuses a grant for an id that belongs to a bridge, and one that acts for others than it is declared for.
    pub fn require_namespaces(&self, declared: &Namespaces) -> Result<(), AuthError> {
        declared.check(&self.participant).map_err(|refusal| AuthError::BridgeId(refusal.message))?;
        let acts_for = self.ghosts.as_ref().map_or(&[][..], |ghosts| &ghosts.namespaces);
        match declared.undeclared(&self.participant, acts_for) {
            Some(namespace) => Err(AuthError::UndeclaredNamespace(namespace.clone(), self.participant.clone())),
            None => Ok(()),
        }
    }

    /// Whether the token says that its owner is a person.
    pub(crate) fn is_human(&self) -> bool {
        self.kind == Some(ParticipantKind::Human)
    }

    /// Whether its time is over.
    pub fn expired(&self, now: Timestamp) -> bool {
        now >= self.expires
    }
}

/// Why somebody was not let in. No variant carries any part of a token or a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// Nothing was presented.
    #[error("a token is required: send `Authorization: Bearer <token>`")]
    Missing,
    /// Longer than any token may be; nothing of it was read.
    #[error("the token is longer than {MAX_TOKEN_BYTES} bytes")]
    TooLong,
    /// Not three parts of base64url, or parts that are not what a JWT has there.
    #[error("the token is not a signed JWT")]
    Malformed,
    /// An algorithm no key of ours has, `none` among them.
    #[error("the token's algorithm is not one of HS256, EdDSA, ES256, RS256")]
    UnsupportedAlgorithm,
    /// A header extension that must be understood and is not.
    #[error("the token's header demands an extension (`crit`) that is not supported")]
    CriticalExtension,
    /// No key of that id, or none at all for the algorithm.
    #[error("the token is signed with a key that this gateway does not know")]
    UnknownKey,
    /// Several keys could have signed it.
    #[error("the token does not name its key (`kid`), and there are several")]
    KeyNotNamed,
    /// The key exists, for another algorithm.
    #[error("the token's algorithm is not that of its key")]
    AlgorithmMismatch,
    /// The signature is not of this key over this text.
    #[error("the token's signature is wrong")]
    BadSignature,
    /// It was revoked.
    #[error("the token was revoked")]
    Revoked,
    /// A claim that every token needs is absent.
    #[error("the token has no `{0}`")]
    MissingClaim(&'static str),
    /// A claim has another form than it must.
    #[error("the token's `{claim}` is not usable: {why}")]
    InvalidClaim {
        /// Its name.
        claim: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// It names one of the gateway's own ids.
    #[error("ids that begin with `system:` are the gateway's own")]
    ReservedId,
    /// It names an id that only a bridge may use. Has the sentence that says so.
    #[error("{0}")]
    BridgeId(String),
    /// It acts for a namespace that the gateway does not give to its owner.
    #[error(
        "the token acts for `{0}` (`acts_for`), which this gateway does not give to `{1}`: declare it with `auth.namespaces = [\"{0}={1}\"]`"
    )]
    UndeclaredNamespace(Namespace, ParticipantId),
    /// Signed with a trusted key, for another purpose.
    #[error(
        "the token is not an access token: its type (`typ`) or its claims are those of an ID token or another kind of token"
    )]
    NotAnAccessToken,
    /// Not of an authorization server of this gateway.
    #[error(
        "the token's issuer (`iss`) is not one of this gateway's authorization servers (`auth.authorization_servers`)"
    )]
    WrongIssuer,
    /// For another resource server (RFC 8707). Has the audience to ask for.
    #[error("the token is for another audience (`aud`): ask for one with `resource={0}`")]
    WrongAudience(String),
    /// For this gateway, and for none of its topics. Has the claim where they would be.
    #[error("the token opens no topic here: its claim `{0}` names none, such as the scope `topic:room:alpha`")]
    NoTopic(String),
    /// The keys of other issuers are too old to be used.
    #[error(
        "tokens of other issuers cannot be verified now: their keys could not be refreshed for too long (`auth.jwks_max_age`)"
    )]
    KeysUnavailable,
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// Its time has not begun.
    #[error("the token is not valid yet; are the clocks right?")]
    NotYetValid,
    /// Good for longer than this gateway allows.
    #[error("the token lasts longer than the {0} seconds that this gateway allows (`auth.max_token_lifetime`)")]
    TooLongLived(u64),
    /// Good, but not for this topic.
    #[error("topic `{0}` is not open to this token")]
    TopicNotOpen(TopicName),
    /// Good, but for signed messages alone.
    #[error(
        "the token demands that every message is signed (`require_integrity`): it is good at /context/v1, where the Machine Context Protocol is spoken, and nowhere else"
    )]
    MustSign,
    /// Not a ticket of ours, or not any more.
    #[error("the ticket is unknown, used or expired; a ticket works once, for 30 seconds")]
    TicketUnknown,
    /// A ticket for another topic. It is used up by the attempt.
    #[error("the ticket is for another topic")]
    TicketForOtherTopic,
    /// No room for another ticket until some are used or expire.
    #[error("too many tickets are waiting to be used; try again in 30 seconds")]
    TooManyTickets,
    /// Not the code of a link of ours, or not any more.
    #[error("the link is unknown, used or too old; a link works once, for 10 minutes")]
    CodeUnknown,
    /// A browser that shows no cookie of ours, or not any more.
    #[error("not signed in, or not any more")]
    NotSignedIn,
    /// More topics, permissions or name than a browser keeps.
    #[error("the token says more than a browser's cookie can hold; use one with fewer topics or permissions")]
    SignInTooLong,
    /// No room to remember another sign-out until some do not matter any more.
    #[error("too many have signed out today; what is signed in here ends by itself within a day")]
    TooManySignOuts,
    /// Where tickets are kept cannot be reached.
    #[error("tickets cannot be given out or used now; try again, or another gateway")]
    TicketsUnavailable,
}

impl AuthError {
    /// The stable word for the wire.
    pub fn code(&self) -> Code {
        match self {
            Self::ReservedId
            | Self::BridgeId(_)
            | Self::UndeclaredNamespace(..)
            | Self::TopicNotOpen(_)
            | Self::TicketForOtherTopic
            | Self::MustSign
            | Self::NoTopic(_) => Code::Forbidden,
            Self::TooManyTickets | Self::TooManySignOuts => Code::RateLimited,
            Self::SignInTooLong => Code::InvalidParameters,
            Self::TicketsUnavailable | Self::KeysUnavailable => Code::Closing,
            _ => Code::Unauthorized,
        }
    }
}

impl From<AuthError> for Refusal {
    fn from(error: AuthError) -> Self {
        Refusal::new(error.code(), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(topics: &[&str]) -> Grant {
        let topics = topics.iter().map(|t| t.parse().expect("a pattern")).collect();
        Grant::new(ParticipantId::new("alice").expect("an id"), topics, Timestamp(1000))
    }

    #[test]
    fn only_one_exact_topic_is_the_only_topic() {
        let only = |topics: &[&str]| grant(topics).only_topic().map(ToString::to_string);
        assert_eq!(only(&["room:a"]).as_deref(), Some("room:a"));
        assert_eq!(only(&["room:a", "room:a"]).as_deref(), Some("room:a"));
        assert_eq!(only(&["room:a", "room:b"]), None);
        assert_eq!(only(&["room:*"]), None);
        assert_eq!(only(&["room:a", "room:*"]), None);
        assert_eq!(only(&[]), None);
    }

    #[test]
    fn a_topic_outside_is_forbidden() {
        let grant = grant(&["room:a", "lobby*"]);
        let topic = |name: &str| TopicName::new(name).expect("a name");
        assert_eq!(grant.require(&topic("lobby.2")), Ok(()));
        let refusal = Refusal::from(grant.require(&topic("room:ab")).expect_err("not open"));
        assert_eq!(refusal.to_string(), "forbidden: topic `room:ab` is not open to this token");
    }

    #[test]
    fn a_grant_ends_at_its_expiry() {
        assert!(!grant(&[]).expired(Timestamp(999)));
        assert!(grant(&[]).expired(Timestamp(1000)));
    }
}
