//! Tokens: signed JWTs, made with the gateway's own key and verified with any key it knows.
//!
//! The algorithm belongs to the key, never to the token: HS256 is the gateway's own secret and nothing else, so a public key can
//! not be passed off as a shared one.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, EncodingKey, Header, decode, decode_header, encode};
use salon_control::{CapabilitySet, GhostGrant, MAX_NAMESPACES_OF_BRIDGE};
use salon_protocol::{ParticipantId, ParticipantKind, Timestamp, TopicPattern};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, watch};

use super::keys::{Choice, VerifyingKey};
use super::local_keys::FollowedKeys;
use super::{AuthError, Confirmation, Grant, KeySet, LocalKey, OAuthRules, SigningKeys, oauth};

/// The longest token that is looked at.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// The longest display name, in characters.
pub(super) const MAX_NAME_CHARS: usize = 256;

/// As many kinds of participants as there are.
const MAX_KINDS: usize = 3;

/// How far another machine's clock may be ahead of ours when it says from when on a token is valid. Never added to its expiry.
const CLOCK_LEEWAY_MS: u64 = 30_000;

/// The last millisecond that RFC 3339 can write.
const END_OF_TIME_MS: u64 = 253_402_300_799_999;

/// What the key that signs tokens of development mode is derived for: a gateway that is not in it does not know the key.
const DEV_TOKENS: &str = "development tokens";

/// What holds for tokens beyond their signature.
#[derive(Debug, Clone, Default)]
pub struct TokenRules {
    /// Whether tokens of development mode are good.
    pub dev: bool,
    /// The longest that a token may last; zero is any time.
    pub max_lifetime: Duration,
    /// What tokens of other keys must say where they are access tokens of an authorization server. Without it they are written like the
    /// gateway's own.
    pub oauth: Option<OAuthRules>,
}

/// Turns tokens into grants. Cloning shares it.
#[derive(Clone)]
pub struct Verifier(Arc<TokenKeys>);

struct TokenKeys {
    local: FollowedKeys,
    /// The longest that a token may last; zero is any time.
    max_lifetime: Duration,
    oauth: Option<OAuthRules>,
    foreign: watch::Sender<KeySet>,
    /// Whether the tokens are sign-ins, which name the key that signed the token that they stand for.
    is_for_sign_ins: bool,
    /// Told when a token names a key that is not there, so that the task that refreshes the foreign keys looks again.
    unknown: Notify,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({:?})", *self.0.foreign.borrow())
    }
}

impl Verifier {
    /// A verifier for tokens signed with the gateway's own key.
    pub fn new(local: &LocalKey) -> Self {
        Self::with_rules(local, TokenRules::default())
    }

    /// The same, by further rules.
    pub fn with_rules(local: &LocalKey, rules: TokenRules) -> Self {
        Self::with_keys(FollowedKeys::new(&local.clone().into(), None, rules.dev), rules)
    }

    /// The same with all keys of a data directory. It follows what becomes of them there.
    pub fn following(data: &Path, keys: &SigningKeys, rules: TokenRules) -> Self {
        Self::with_keys(FollowedKeys::new(keys, Some(data), rules.dev), rules)
    }

    /// A verifier for sign-ins of browsers, by the key that they are signed with.
    pub(super) fn for_sign_ins(key: &LocalKey) -> Self {
        Self::build(FollowedKeys::new(&key.clone().into(), None, false), TokenRules::default(), true)
    }

    fn with_keys(local: FollowedKeys, rules: TokenRules) -> Self {
        Self::build(local, rules, false)
    }

    fn build(local: FollowedKeys, rules: TokenRules, is_for_sign_ins: bool) -> Self {
        Self(Arc::new(TokenKeys {
            local,
            is_for_sign_ins,
            max_lifetime: rules.max_lifetime,
            oauth: rules.oauth,
            foreign: watch::Sender::new(KeySet::default()),
            unknown: Notify::new(),
        }))
    }

    /// Reads the gateway's own keys again, where their file has changed.
    pub fn reload_local_keys(&self) {
        self.0.local.reload();
    }

    /// The gateway's own keys that were removed. Their tokens are refused, and what was opened with them ends.
    pub(crate) fn removed_local_keys(&self) -> Vec<String> {
        self.0.local.removed()
    }

    /// Trusts these keys beside the gateway's own, and none of those it was given before.
    pub fn trust(&self, keys: KeySet) {
        self.0.foreign.send_replace(keys);
    }

    /// Trusts no other keys than the gateway's own until it is given some again.
    pub(super) fn distrust(&self) {
        self.0.foreign.send_replace(KeySet::unavailable());
    }

    /// Waits until a token has named a key that is not there.
    pub(super) async fn unknown_key(&self) {
        self.0.unknown.notified().await;
    }

    /// Tells of every change of the foreign keys.
    #[cfg(test)]
    pub(super) fn changes(&self) -> watch::Receiver<KeySet> {
        self.0.foreign.subscribe()
    }

    /// What a token grants at a moment.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<Grant, AuthError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(AuthError::TooLong);
        }
        let header = decode_header(token).map_err(|_| AuthError::Malformed)?;
        if header.crit.is_some() {
            return Err(AuthError::CriticalExtension);
        }
        match header.alg {
            Algorithm::HS256 => {
                let (claims, signing_key) = self.0.local.claims(token, header.kid.as_deref())?;
                let grant = self.grant(claims, now)?;
                Ok(if self.0.is_for_sign_ins { grant } else { Grant { signing_key, ..grant } })
            }
            Algorithm::EdDSA | Algorithm::ES256 | Algorithm::RS256 => {
                let foreign = self.0.foreign.borrow();
                match foreign.choose(header.kid.as_deref(), header.alg) {
                    Choice::Key(key) => self.foreign_grant(signed_claims(token, key)?, header.typ.as_deref(), now),
                    Choice::Unavailable => Err(AuthError::KeysUnavailable),
                    Choice::Ambiguous => Err(AuthError::KeyNotNamed),
                    Choice::Unknown => {
                        self.0.unknown.notify_one();
                        Err(AuthError::UnknownKey)
                    }
                }
            }
            _ => Err(AuthError::UnsupportedAlgorithm),
        }
    }

    fn check_lifetime(&self, lifetime_ms: u64) -> Result<(), AuthError> {
        let max = self.0.max_lifetime;
        let allowed = u64::try_from(max.as_millis()).unwrap_or(u64::MAX).saturating_add(CLOCK_LEEWAY_MS);
        if max.is_zero() || lifetime_ms <= allowed { Ok(()) } else { Err(AuthError::TooLongLived(max.as_secs())) }
    }

    /// What a token of somebody else's key grants.
    fn foreign_grant(&self, claims: Map<String, Value>, typ: Option<&str>, now: Timestamp) -> Result<Grant, AuthError> {
        oauth::require_access_token(typ, &claims)?;
        match &self.0.oauth {
            Some(rules) => self.grant(rules.translate(&claims)?, now),
            // Whatever it says of itself, none of our keys has signed it.
            None => self.grant(claims, now).map(|grant| Grant { signing_key: None, ..grant }),
        }
    }

    fn grant(&self, claims: Map<String, Value>, now: Timestamp) -> Result<Grant, AuthError> {
        let claims = Claims::deserialize(Value::Object(claims)).map_err(|_| AuthError::Malformed)?;
        let grant = claims.grant()?;
        if grant.expired(now) {
            return Err(AuthError::Expired);
        }
        let soon = Timestamp(now.0.saturating_add(CLOCK_LEEWAY_MS));
        for (claim, value) in [("nbf", &claims.nbf), ("iat", &claims.iat)] {
            if let Some(value) = value
                && date(claim, value)? > soon
            {
                return Err(AuthError::NotYetValid);
            }
        }
        // A token that does not say when it was issued counts from now.
        let issued = claims.iat.as_ref().map(|iat| date("iat", iat)).transpose()?.unwrap_or(now);
        self.check_lifetime(grant.expires.0.saturating_sub(issued.0))?;
        Ok(grant)
    }
}

/// The claims of a token that a key has signed. The key's validation knows its one algorithm, and a token of any other is refused before
/// its signature is looked at.
pub(super) fn signed_claims(token: &str, key: &VerifyingKey) -> Result<Map<String, Value>, AuthError> {
    let decoded = decode::<Map<String, Value>>(token, &key.key, &key.validation);
    decoded.map(|data| data.claims).map_err(|error| match error.kind() {
        ErrorKind::InvalidSignature => AuthError::BadSignature,
        ErrorKind::InvalidAlgorithm => AuthError::AlgorithmMismatch,
        _ => AuthError::Malformed,
    })
}

/// Makes tokens with the gateway's own key.
#[derive(Clone)]
pub struct Signer {
    key: EncodingKey,
    /// What its tokens name the key by.
    kid: Option<String>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(..)")
    }
}

impl LocalKey {
    /// The key of development mode, which a gateway that is not in it does not know.
    pub(crate) fn for_development(&self) -> Self {
        self.derive(DEV_TOKENS)
    }
}

impl Signer {
    /// A signer with the gateway's own key.
    pub fn new(local: &LocalKey) -> Self {
        Self { key: local.encoding(), kid: None }
    }

    /// A signer with one of several keys, which its tokens name.
    pub(super) fn with_kid(key: &LocalKey, kid: String) -> Self {
        Self { key: key.encoding(), kid: Some(kid) }
    }

    /// A signer of tokens that are good in development mode alone.
    pub(crate) fn dev(local: &LocalKey) -> Self {
        Self::new(&local.for_development())
    }

    /// The token for a grant, issued at a moment. Expiries are whole seconds on the wire and are rounded up. What
    /// [`Verifier::verify`] would refuse is refused here, in the same words.
    pub fn sign(&self, grant: &Grant, issued: Timestamp) -> Result<String, AuthError> {
        let claims = claims(grant, issued);
        read_claims(&claims)?;
        let header = Header { kid: self.kid.clone(), ..Header::new(Algorithm::HS256) };
        let token = encode(&header, &claims, &self.key)
            .expect("a map of JSON values serialises, and an HMAC of it cannot fail");
        if token.len() > MAX_TOKEN_BYTES { Err(AuthError::TooLong) } else { Ok(token) }
    }
}

/// What a grant says, as a token has it.
pub(super) fn claims(grant: &Grant, issued: Timestamp) -> Map<String, Value> {
    let mut claims = Map::new();
    claims.insert("sub".into(), json!(grant.participant));
    let topics: Vec<_> = grant.topics.iter().map(ToString::to_string).collect();
    claims.insert("aud".into(), if let [only] = &topics[..] { json!(only) } else { json!(topics) });
    if let Some(name) = &grant.name {
        claims.insert("name".into(), json!(name));
    }
    if let Some(kind) = grant.kind {
        claims.insert("kind".into(), json!(kind));
    }
    if !grant.permissions.is_empty() {
        claims.insert("permissions".into(), json!(grant.permissions));
    }
    if let Some(capabilities) = &grant.capabilities {
        claims.insert("capabilities".into(), json!(capabilities));
    }
    if grant.require_integrity {
        claims.insert("require_integrity".into(), json!(true));
    }
    if let Some(confirmation) = &grant.confirmation {
        claims.insert("cnf".into(), json!({ "jwk": confirmation.jwk() }));
    }
    if let Some(ghosts) = &grant.ghosts {
        let namespaces: Vec<_> = ghosts.namespaces.iter().map(ToString::to_string).collect();
        claims.insert("acts_for".into(), json!(namespaces));
        claims.insert("ghost_kinds".into(), json!(ghosts.kinds));
        claims.insert("ghosts_call".into(), json!(ghosts.calls));
        claims.extend(ghosts.max.map(|max| ("ghosts_max".into(), json!(max))));
    }
    // With its milliseconds (RFC 7519, NumericDate), so that a token made right after a revocation is not of before it.
    let whole = issued.0.is_multiple_of(1000);
    claims.insert("iat".into(), if whole { json!(issued.0 / 1000) } else { json!(issued.0 as f64 / 1000.0) });
    if let Some(origin) = &grant.origin {
        claims.insert("origin".into(), json!(origin));
    }
    if let Some(inviter) = &grant.inviter {
        claims.insert("inviter".into(), json!(inviter));
    }
    if let Some(key) = &grant.signing_key {
        claims.insert("signing_key".into(), json!(key));
    }
    claims.insert("exp".into(), json!(grant.expires.0.div_ceil(1000)));
    if let Some(id) = &grant.token_id {
        claims.insert("jti".into(), json!(id));
    }
    claims
}

/// The grant that some claims say.
pub(super) fn read_claims(claims: &Map<String, Value>) -> Result<Grant, AuthError> {
    Claims::deserialize(claims).map_err(|_| AuthError::Malformed)?.grant()
}

/// The claims as they came: signed, but not yet looked at one by one, so that a refusal can name the one it is about.
#[derive(Deserialize)]
struct Claims {
    sub: Option<Value>,
    aud: Option<Value>,
    exp: Option<Value>,
    nbf: Option<Value>,
    iat: Option<Value>,
    jti: Option<Value>,
    name: Option<Value>,
    kind: Option<Value>,
    permissions: Option<Value>,
    capabilities: Option<Value>,
    require_integrity: Option<Value>,
    cnf: Option<Value>,
    origin: Option<Value>,
    inviter: Option<Value>,
    signing_key: Option<Value>,
    acts_for: Option<Value>,
    ghosts_max: Option<Value>,
    ghost_kinds: Option<Value>,
    ghosts_call: Option<Value>,
}

impl Claims {
    /// The key of the token's holder, as RFC 7800 has it. Other confirmations (`jkt`, `x5t#S256`, other keys) are for others to check: they
    /// are no key to sign with, and nothing is wrong with the token.
    fn confirmation(&self) -> Option<Confirmation> {
        Confirmation::from_jwk(&self.cnf.as_ref()?["jwk"])
    }

    fn grant(&self) -> Result<Grant, AuthError> {
        let sub = text("sub", self.sub.as_ref().ok_or(AuthError::MissingClaim("sub"))?)?;
        let participant = ParticipantId::new(sub).map_err(|error| invalid("sub", error))?;
        if participant.is_reserved() {
            return Err(AuthError::ReservedId);
        }
        let issued = self.iat.as_ref().map(|iat| date("iat", iat)).transpose()?.unwrap_or(Timestamp(0));
        let expires = date("exp", self.exp.as_ref().ok_or(AuthError::MissingClaim("exp"))?)?;
        let topics = topics(self.aud.as_ref().ok_or(AuthError::MissingClaim("aud"))?)?;

        let name = self.name.as_ref().map(|name| text("name", name)).transpose()?;
        if name.is_some_and(|name| name.chars().count() > MAX_NAME_CHARS) {
            return Err(invalid("name", format_args!("it has more than {MAX_NAME_CHARS} characters")));
        }
        if name.is_some_and(|name| name.chars().any(char::is_control)) {
            return Err(invalid("name", "it has a control character"));
        }
        let kind = match &self.kind {
            None => None,
            Some(kind) => Some(text("kind", kind)?.parse().map_err(|why: &str| invalid("kind", why))?),
        };
        let permissions = self.permissions.as_ref().map(|list| texts("permissions", list)).transpose()?;
        let capabilities = self.capabilities.as_ref().map(|list| texts("capabilities", list)).transpose()?;
        if let Some(list) = &capabilities {
            CapabilitySet::parse(list).map_err(|why| invalid("capabilities", why))?;
        }
        let token_id = self.jti.as_ref().map(|id| text("jti", id)).transpose()?;
        if token_id.is_some_and(|id| id.is_empty() || id.len() > 256 || id.chars().any(char::is_control)) {
            return Err(invalid("jti", "it is not 1 to 256 characters without control characters"));
        }
        let require_integrity = match &self.require_integrity {
            None => false,
            Some(demand) => demand.as_bool().ok_or_else(|| invalid("require_integrity", "it is not true or false"))?,
        };
        Ok(Grant {
            participant,
            topics,
            name: name.map(str::to_owned),
            kind,
            permissions: permissions.unwrap_or_default(),
            capabilities,
            expires,
            issued,
            token_id: token_id.map(str::to_owned),
            by_sign_in: false,
            origin: optional_text("origin", self.origin.as_ref())?,
            inviter: self.inviter(),
            signing_key: optional_text("signing_key", self.signing_key.as_ref())?,
            require_integrity,
            confirmation: self.confirmation(),
            ghosts: self.ghosts()?,
        })
    }

    /// Only a sign-in of the gateway's own has one that means something. What an identity provider calls so is no reason to refuse its token.
    fn inviter(&self) -> Option<ParticipantId> {
        self.inviter.as_ref().and_then(Value::as_str).and_then(|id| ParticipantId::new(id).ok())
    }

    /// Whom the token acts for. The other claims of a bridge mean nothing without `acts_for`, so they are refused.
    fn ghosts(&self) -> Result<Option<GhostGrant>, AuthError> {
        let Some(acts_for) = &self.acts_for else {
            let others = [("ghosts_max", &self.ghosts_max), ("ghost_kinds", &self.ghost_kinds)];
            let mut others = others.into_iter().chain([("ghosts_call", &self.ghosts_call)]);
            return match others.find(|(_, value)| value.is_some()) {
                Some((claim, _)) => Err(invalid(claim, "it needs `acts_for`")),
                None => Ok(None),
            };
        };
        let namespaces = texts("acts_for", acts_for)?;
        if !(1..=MAX_NAMESPACES_OF_BRIDGE).contains(&namespaces.len()) {
            return Err(invalid("acts_for", format_args!("it is not 1 to {MAX_NAMESPACES_OF_BRIDGE} namespaces")));
        }
        let namespaces = namespaces.iter().map(|text| text.parse().map_err(|why| invalid("acts_for", why)));
        let mut ghosts = GhostGrant::new(namespaces.collect::<Result<_, _>>()?);
        if let Some(max) = &self.ghosts_max {
            let max = max.as_u64().filter(|max| *max > 0).and_then(|max| usize::try_from(max).ok());
            ghosts.max = Some(max.ok_or_else(|| invalid("ghosts_max", "it is not a whole number from 1"))?);
        }
        if let Some(kinds) = &self.ghost_kinds {
            let kinds = texts("ghost_kinds", kinds)?;
            let kind = |word: &String| word.parse::<ParticipantKind>().map_err(|why| invalid("ghost_kinds", why));
            ghosts.kinds = kinds.iter().map(kind).collect::<Result<_, _>>()?;
            if ghosts.kinds.is_empty() || ghosts.kinds.len() > MAX_KINDS {
                return Err(invalid("ghost_kinds", "it does not name 1 to 3 kinds"));
            }
        }
        if let Some(calls) = &self.ghosts_call {
            ghosts.calls = calls.as_bool().ok_or_else(|| invalid("ghosts_call", "it is not true or false"))?;
        }
        Ok(Some(ghosts))
    }
}

fn topics(aud: &Value) -> Result<Vec<TopicPattern>, AuthError> {
    let pattern = |value: &Value| text("aud", value)?.parse().map_err(|error| invalid("aud", error));
    match aud {
        Value::Array(list) if list.is_empty() => Err(invalid("aud", "it names no topic")),
        Value::Array(list) => list.iter().map(pattern).collect(),
        one => Ok(vec![pattern(one)?]),
    }
}

pub(super) fn text<'a>(claim: &'static str, value: &'a Value) -> Result<&'a str, AuthError> {
    value.as_str().ok_or_else(|| invalid(claim, "it is not a string"))
}

fn texts(claim: &'static str, value: &Value) -> Result<Vec<String>, AuthError> {
    let list = value.as_array().ok_or_else(|| invalid(claim, "it is not a list of strings"))?;
    list.iter().map(|item| text(claim, item).map(str::to_owned)).collect()
}

fn optional_text(claim: &'static str, value: Option<&Value>) -> Result<Option<String>, AuthError> {
    Ok(value.map(|value| text(claim, value)).transpose()?.map(str::to_owned))
}

/// Seconds since 1970, whole or not. Before that reads as 1970, after the year 9999 as its end.
fn date(claim: &'static str, value: &Value) -> Result<Timestamp, AuthError> {
    let ms = match (value.as_u64(), value.as_f64()) {
        (Some(seconds), _) => seconds.saturating_mul(1000),
        (None, Some(seconds)) => (seconds * 1000.0).round() as u64,
        (None, None) => return Err(invalid(claim, "it is not a number of seconds since 1970")),
    };
    Ok(Timestamp(ms.min(END_OF_TIME_MS)))
}

pub(super) fn invalid(claim: &'static str, why: impl fmt::Display) -> AuthError {
    AuthError::InvalidClaim { claim, why: why.to_string() }
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
