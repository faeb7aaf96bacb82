//! Access tokens of an authorization server (RFC 9068): which of them are for this gateway, and what they grant.
//!
//! Deliberately absent: signatures and times, which are checked for all tokens alike, and giving out tokens.

use std::net::SocketAddr;

use reqwest::Url;
use salon_protocol::{ParticipantKind, TopicName, TopicPattern, percent_decoded};
use serde_json::{Map, Value, json};

use super::token::{MAX_NAME_CHARS, invalid, text};
use super::{AuthError, subject};
use crate::config::Config;

/// The claim that topics and permissions are read from unless another is configured (RFC 9068 §2.2.3).
pub const SCOPE: &str = "scope";

/// Begins a scope that opens a topic, or the topics of a prefix.
pub(crate) const TOPIC_SCOPE: &str = "topic:";

/// Begins a scope that is a permission.
const PERMISSION_SCOPE: &str = "permission:";

/// The longest permission, in bytes.
const MAX_PERMISSION_BYTES: usize = 256;

/// What access tokens must say to be good here, and where they say what they grant.
#[derive(Debug, Clone)]
pub struct OAuthRules {
    /// The issuers, exactly as they write themselves in `iss`.
    pub issuers: Vec<String>,
    /// The gateway's URLs, without a trailing slash. The first stands in refusals.
    pub urls: Vec<Url>,
    /// Another audience that stands for the whole gateway.
    pub resource: Option<String>,
    /// The claim that names the topics: a name, or a JSON Pointer.
    pub topics_claim: String,
    /// The claim that names the permissions.
    pub permissions_claim: String,
}

/// How much of the gateway a token is for (RFC 8707).
#[derive(Debug, PartialEq, Eq)]
enum TokenAudience {
    Gateway,
    Topic(TopicName),
}

/// Refuses what is signed with the same keys and is no access token: ID tokens, refresh tokens, logout tokens.
///
/// RFC 9068 has `at+jwt` as the type. Many servers write `JWT` instead or nothing, for ID tokens too, so there the claims decide.
pub(super) fn require_access_token(typ: Option<&str>, claims: &Map<String, Value>) -> Result<(), AuthError> {
    let typ = typ.unwrap_or("jwt").to_ascii_lowercase();
    match typ.strip_prefix("application/").unwrap_or(&typ) {
        "at+jwt" => return Ok(()),
        "jwt" => {}
        _ => return Err(AuthError::NotAnAccessToken),
    }
    // OpenID Connect Core §3.1.3.6 and §3.3.2.11: only ID tokens have these.
    let hashes = ["at_hash", "c_hash", "s_hash"].into_iter().any(|name| claims.contains_key(name));
    // Some servers have the kind of token in a claim, and the `nonce` of the request in access tokens as well.
    let is_wrong = match claims.get("typ").and_then(Value::as_str) {
        Some(kind) => !kind.eq_ignore_ascii_case("bearer"),
        None => claims.contains_key("nonce"),
    };
    if hashes || is_wrong || is_for_its_client(claims) { Err(AuthError::NotAnAccessToken) } else { Ok(()) }
}

/// Whether a token is for the client that it was issued to, as ID tokens are (OpenID Connect Core §2): an access token is for a resource server. Tokens
/// that say `typ: Bearer` are access tokens, whatever else their audience names.
fn is_for_its_client(claims: &Map<String, Value>) -> bool {
    if claims.contains_key("typ") {
        return false;
    }
    let audiences = match claims.get("aud") {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(one)) => vec![one.as_str()],
        _ => Vec::new(),
    };
    // RFC 9068 §2.2 names the client `client_id`, OpenID Connect Core §2 `azp`.
    ["azp", "client_id"].iter().filter_map(|name| claims.get(*name)?.as_str()).any(|client| audiences.contains(&client))
}

impl OAuthRules {
    /// The rules of a configuration, where it has authorization servers. The address is the one that the gateway listens at.
    pub(crate) fn of(config: &Config, listening: Option<SocketAddr>) -> Option<Self> {
        let auth = &config.auth;
        (!auth.authorization_servers.is_empty()).then(|| Self {
            issuers: auth.authorization_servers.clone(),
            urls: own_urls(config, listening.unwrap_or(config.listen)),
            resource: auth.resource.clone(),
            topics_claim: auth.topics_claim.clone(),
            permissions_claim: auth.permissions_claim.clone(),
        })
    }

    /// The claims of an access token as a token of the gateway's own would have them.
    pub(super) fn translate(&self, claims: &Map<String, Value>) -> Result<Map<String, Value>, AuthError> {
        let issuer = text("iss", claims.get("iss").ok_or(AuthError::MissingClaim("iss"))?)?;
        if !self.issuers.iter().any(|known| known == issuer) {
            return Err(AuthError::WrongIssuer);
        }
        // Who acts for others is decided where the gateway runs, with `salon token`, and not by people who can have claims mapped.
        if claims.contains_key("acts_for") {
            let why = "an access token of an authorization server acts for nobody; use one of `salon token --acts-for`";
            return Err(invalid("acts_for", why));
        }
        let audiences = self.audiences(claims.get("aud").ok_or(AuthError::MissingClaim("aud"))?)?;
        let subject = text("sub", claims.get("sub").ok_or(AuthError::MissingClaim("sub"))?)?;
        let mut own = Map::new();
        own.insert("sub".into(), json!(subject::participant_of_subject(subject)?));
        own.insert("aud".into(), json!(self.topics(claims, &audiences)?));
        own.insert("permissions".into(), json!(self.permissions(claims)));
        for name in ["exp", "nbf", "iat", "jti", "cnf", "require_integrity", "capabilities"] {
            own.extend(claims.get(name).map(|value| (name.to_owned(), value.clone())));
        }
        // They have other meanings elsewhere, so permissions that are not ours are left out rather than refused.
        let fits = |name: &&str| name.chars().count() <= MAX_NAME_CHARS && !name.chars().any(char::is_control);
        let name = claims.get("name").and_then(Value::as_str).filter(fits);
        own.extend(name.map(|name| ("name".to_owned(), json!(name))));
        let kind = claims.get("kind").and_then(Value::as_str).filter(|kind| kind.parse::<ParticipantKind>().is_ok());
        own.extend(kind.map(|kind| ("kind".to_owned(), json!(kind))));
        Ok(own)
    }

    fn audiences(&self, aud: &Value) -> Result<Vec<TokenAudience>, AuthError> {
        let named = match aud {
            Value::Array(list) => list.iter().map(|one| text("aud", one)).collect::<Result<Vec<_>, _>>()?,
            one => vec![text("aud", one)?],
        };
        let audiences: Vec<_> = named.into_iter().filter_map(|name| self.audience(name)).collect();
        if audiences.is_empty() { Err(AuthError::WrongAudience(self.resource_name())) } else { Ok(audiences) }
    }

    /// What an audience is here: the gateway, one of its MCP addresses, or (`None`) somebody else.
    fn audience(&self, name: &str) -> Option<TokenAudience> {
        if self.resource.as_deref() == Some(name) {
            return Some(TokenAudience::Gateway);
        }
        let url = Url::parse(name).ok()?;
        // An address that the parser had to tidy (`/a/..`) may be another one to the server that gave it out.
        let is_plain =
            url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
        if written_path(name) != url.path() || !is_plain {
            return None;
        }
        let own = self.urls.iter().filter(|own| own.origin() == url.origin());
        let path = own.filter_map(|own| path_below(own, &url)).next()?;
        match path.strip_prefix("/mcp/") {
            None => matches!(path, "" | "/" | "/sse").then_some(TokenAudience::Gateway),
            Some(rest) => {
                let topic = rest.split('/').next().and_then(percent_decoded)?;
                let is_address = rest.split('/').count() <= 2;
                TopicName::new(topic).ok().filter(|_| is_address).map(TokenAudience::Topic)
            }
        }
    }

    /// The audience to ask for, as a refusal names it.
    fn resource_name(&self) -> String {
        let url = || self.urls.first().map(|url| url.as_str().trim_end_matches('/').to_owned());
        self.resource.clone().or_else(url).unwrap_or_default()
    }

    /// The topics that a token opens: those of its claim, as far as its audience goes.
    fn topics(&self, claims: &Map<String, Value>, audiences: &[TokenAudience]) -> Result<Vec<String>, AuthError> {
        let granted = self.values(claims, &self.topics_claim, TOPIC_SCOPE);
        let granted: Vec<TopicPattern> = granted.iter().filter_map(|pattern| pattern.parse().ok()).collect();
        let topics: Vec<_> = if audiences.contains(&TokenAudience::Gateway) {
            granted.iter().map(ToString::to_string).collect()
        } else {
            let named = audiences.iter().filter_map(|audience| match audience {
                TokenAudience::Topic(topic) => Some(topic),
                TokenAudience::Gateway => None,
            });
            let opened = named.filter(|topic| granted.iter().any(|pattern| pattern.opens(topic)));
            opened.map(ToString::to_string).collect()
        };
        if topics.is_empty() { Err(AuthError::NoTopic(self.topics_claim.clone())) } else { Ok(topics) }
    }

    fn permissions(&self, claims: &Map<String, Value>) -> Vec<String> {
        let mut permissions = self.values(claims, &self.permissions_claim, PERMISSION_SCOPE);
        permissions.retain(|name| (1..=MAX_PERMISSION_BYTES).contains(&name.len()));
        permissions
    }

    /// The values of a claim that are meant: those with the prefix where topics and permissions are among other scopes, else all.
    fn values(&self, claims: &Map<String, Value>, claim: &str, prefix: &str) -> Vec<String> {
        let is_scope = claim == SCOPE;
        let found = find(claims, claim).or_else(|| claims.get("scp").filter(|_| is_scope));
        let all: Vec<&str> = match found {
            Some(Value::String(list)) => list.split_ascii_whitespace().collect(),
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let is_shared = is_scope || self.topics_claim == self.permissions_claim;
        let meant = all.into_iter().filter_map(|value| match value.strip_prefix(prefix) {
            Some(value) => Some(value),
            None => (!is_shared).then_some(value),
        });
        // RFC 6749 §3.3: a scope has no spaces, quotes or backslashes, so they are escaped.
        if is_scope { meant.filter_map(percent_decoded).collect() } else { meant.map(str::to_owned).collect() }
    }
}

/// The URLs of a gateway: as it is configured, else as it can be reached on its own machine and by its host names.
fn own_urls(config: &Config, listening: SocketAddr) -> Vec<Url> {
    let port = listening.port();
    let scheme = if config.tls().is_some() { "https" } else { "http" };
    let mut texts = Vec::new();
    match &config.http.public_url {
        Some(url) => texts.push(url.clone()),
        None => {
            texts.push(format!("{scheme}://{listening}"));
            let local = ["localhost", "127.0.0.1", "[::1]"].into_iter().filter(|_| listening.ip().is_loopback());
            texts.extend(local.map(|host| format!("{scheme}://{host}:{port}")));
            let named = config.http.hosts.iter();
            texts.extend(named.flat_map(|host| [format!("{scheme}://{host}"), format!("{scheme}://{host}:{port}")]));
        }
    }
    texts.iter().filter_map(|text| Url::parse(text).ok()).collect()
}

/// The path of a URL below another of the same origin.
fn path_below<'a>(base: &Url, url: &'a Url) -> Option<&'a str> {
    let path = url.path().strip_prefix(base.path().trim_end_matches('/'))?;
    (path.is_empty() || path.starts_with('/')).then_some(path)
}

/// The path as it stands in a URL.
fn written_path(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    rest.find('/').map_or("/", |at| &rest[at..])
}

/// The claim of a name or a JSON Pointer.
fn find<'a>(claims: &'a Map<String, Value>, claim: &str) -> Option<&'a Value> {
    // RFC 6901, for claims inside others (`/realm_access/roles`).
    let Some(path) = claim.strip_prefix('/') else { return claims.get(claim) };
    let (first, rest) = path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let value = claims.get(&first.replace("~1", "/").replace("~0", "~"))?;
    rest.map_or(Some(value), |rest| value.pointer(&format!("/{rest}")))
}

/// The scope that opens a topic, as clients ask for it.
pub(crate) fn topic_scope(topic: &TopicName) -> String {
    let mut scope = TOPIC_SCOPE.to_owned();
    for byte in topic.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:@!$&'()*+,;=/?#[]{}|^`<>".contains(&byte) {
            scope.push(char::from(byte));
        } else {
            scope.push_str(&format!("%{byte:02X}"));
        }
    }
    scope
}

#[cfg(test)]
#[path = "oauth_tests.rs"]
mod tests;
