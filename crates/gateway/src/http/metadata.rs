//! Where to get a token (RFC 9728): what an MCP client that was refused is pointed to, and reads there without one.
//!
//! Deliberately absent: giving out tokens. That is for the authorization servers that the configuration names, or for `salon token`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use salon_protocol::{Code, ParticipantId, TopicName, percent_decoded};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Problem, Query, invalid};
use crate::auth::{SCOPE, topic_scope};
use crate::config::Config;
use crate::gateway::GatewayState;

/// Where the description of a resource is: before its own path.
pub(super) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What RFC 9728 has a protected resource say of itself
#[derive(Serialize, ToSchema)]
pub(super) struct ResourceMetadata {
    /// The address described
    resource: String,
    /// Who gives out tokens for it
    authorization_servers: Vec<String>,
    /// What to ask for to enter the room
    #[serde(skip_serializing_if = "Option::is_none")]
    scopes_supported: Option<[String; 1]>,
    bearer_methods_supported: [&'static str; 1],
    resource_name: &'static str,
}

#[utoipa::path(get, path = "/.well-known/oauth-protected-resource/mcp/{topic}", tag = "MCP",
    summary = "Where to get a token for a room as an MCP server (RFC 9728); likewise for one participant, for /sse, and for the whole gateway",
    params(("topic" = String, Path, description = "The room")),
    responses((status = 200, description = "What there is to know", body = ResourceMetadata), (status = 404, description = "The gateway has no authorization server", body = super::ProblemBody),
    (status = "4XX", description = "Refused", body = super::ProblemBody)))]
pub(super) async fn describe(
    State(gateway): State<Arc<GatewayState>>,
    names: RawPathParams,
    request: Request,
) -> Result<([(HeaderName, &'static str); 1], Json<ResourceMetadata>), Problem> {
    let config = &gateway.config;
    // Clients take a description without authorization servers for a broken one.
    if config.auth.authorization_servers.is_empty() {
        return Err(Problem::new(Code::NotFound, no_oauth(config)));
    }
    let mut topic = None;
    for (what, name) in &names {
        let wrong = match what {
            "topic" => match TopicName::new(name) {
                Ok(name) => topic.replace(name).and(None),
                Err(error) => Some(error.to_string()),
            },
            _ => ParticipantId::new(name).err().map(|error| error.to_string()),
        };
        if let Some(wrong) = wrong {
            return Err(invalid(format!("the {what} in the path is not acceptable: {wrong}")));
        }
    }
    // Escaped as the client has it: it compares this with the address it wanted.
    let path = request.uri().path().strip_prefix(WELL_KNOWN).unwrap_or_default();
    let path = path.strip_prefix(public_path(config)).unwrap_or(path);
    let address = || url([&*base(config, host(&gateway, request.headers())), path]);
    let described = ResourceMetadata {
        resource: config.auth.resource.clone().unwrap_or_else(address),
        authorization_servers: config.auth.authorization_servers.clone(),
        scopes_supported: topic.and_then(|topic| scope(config, &topic)).map(|scope| [scope]),
        bearer_methods_supported: ["header"],
        resource_name: "Salon",
    };
    // It says what the request said of the host, which is nobody else's business.
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(described)))
}

/// Adds to a refusal at an MCP address where the description of that address is, and what to ask the authorization server for (MCP
/// 2025-11-25, Authorization, "Protected Resource Metadata Discovery Requirements" and "Scope Selection Strategy").
pub(super) async fn point(State(gateway): State<Arc<GatewayState>>, request: Request, next: Next) -> Response {
    let config = &gateway.config;
    let uri = request.uri().clone();
    let resource = resource(uri.path()).filter(|_| !config.auth.authorization_servers.is_empty());
    let Some(resource) = resource else { return next.run(request).await };
    let host = host(&gateway, request.headers()).map(String::from);
    let mut response = next.run(request).await;
    if let Some(challenge) = response.headers_mut().get_mut(header::WWW_AUTHENTICATE) {
        let at = url([&*base(config, host.as_deref()), WELL_KNOWN, resource]);
        let mut more = [challenge.as_bytes(), b", resource_metadata=\"", at.as_bytes(), b"\""].concat();
        if let Some(scope) = topic(&uri).and_then(|topic| scope(config, &topic)) {
            more.extend_from_slice(format!(", scope=\"{scope}\"").as_bytes());
        }
        *challenge = HeaderValue::from_bytes(&more).expect("a challenge, a URL and a scope are printable");
    }
    response
}

/// The room of an MCP address.
fn topic(uri: &Uri) -> Option<TopicName> {
    let name = match uri.path().strip_prefix("/mcp/") {
        Some(rest) => percent_decoded(rest.split('/').next()?)?,
        None => Query::parse(uri.query()).ok()?.get("topic")?.to_owned(),
    };
    TopicName::new(name).ok()
}

/// The scope that opens a room, where scopes do that.
fn scope(config: &Config, topic: &TopicName) -> Option<String> {
    (config.auth.topics_claim == SCOPE).then(|| topic_scope(topic))
}

/// The path of the public URL, which stands before every address where a proxy has the gateway below a path.
fn public_path(config: &Config) -> &str {
    let rest = config.http.public_url.as_deref().and_then(|url| url.split_once("://")).map_or("", |(_, rest)| rest);
    rest.find('/').map_or("", |at| rest[at..].trim_end_matches('/'))
}

/// What may stand between the well-known address and a resource's own: nothing, and the path of the public URL, for a proxy that passes on
/// the address which RFC 9728 §3.1 has for it.
pub(super) fn well_known_prefixes(config: &Config) -> Vec<&str> {
    let path = public_path(config);
    // Not what a router takes for its own syntax, or has already.
    let is_plain =
        |part: &str| !part.is_empty() && !part.starts_with([':', '*', '{']) && !matches!(part, "mcp" | "sse");
    let usable = path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_plain));
    std::iter::once("").chain(usable.then_some(path)).collect()
}

/// How to get a token, as a sentence for a person.
pub(super) fn where_to_get_a_token(config: &Config) -> String {
    match &config.auth.authorization_servers[..] {
        [] => "Get one from the gateway's operator, or make it with `salon token` on its machine".into(),
        servers => format!("Get one from the authorization server {}", servers.join(" or ")),
    }
}

/// Why an address of OAuth is not here, as a sentence for a person.
fn no_oauth(config: &Config) -> String {
    let how = where_to_get_a_token(config);
    if config.auth.authorization_servers.is_empty() {
        format!(
            "a token is required, and this gateway has no OAuth sign-in. {how}, and send `Authorization: Bearer <token>`"
        )
    } else {
        format!("a token is required, and this gateway does not give out tokens itself. {how}")
    }
}

/// An error as OAuth clients read it (RFC 6749 §5.2, RFC 7591 §3.2.2): the description is what they show.
#[derive(Serialize)]
struct OAuthError {
    error: &'static str,
    error_description: String,
}

/// Answers at the addresses of an authorization server. Clients that find no metadata take the gateway for one (MCP 2025-03-26) and show
/// its answer to the person.
pub(super) async fn no_authorization_server(State(gateway): State<Arc<GatewayState>>, uri: Uri) -> Response {
    let status = if uri.path().starts_with("/.well-known/") { StatusCode::NOT_FOUND } else { StatusCode::FORBIDDEN };
    let body = OAuthError { error: "access_denied", error_description: no_oauth(&gateway.config) };
    (status, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// The addresses where clients look for an authorization server (RFC 8414, OpenID Connect Discovery) and its endpoints.
pub(super) const AUTHORIZATION_SERVER_PATHS: [&str; 7] = [
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-authorization-server/{*path}",
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/{*path}",
    "/register",
    "/authorize",
    "/token",
];

/// The path of the resource that an MCP address belongs to.
fn resource(path: &str) -> Option<&str> {
    match path {
        // Messages go to one address and their answers come from the other, which is the one that clients are given.
        "/sse" | "/message" => Some("/sse"),
        _ => path.starts_with("/mcp/").then_some(path),
    }
}

/// What comes before every path: as it is configured, else as the request has it, else where the gateway listens.
fn base(config: &Config, host: Option<&str>) -> String {
    if let Some(url) = &config.http.public_url {
        return url.clone();
    }
    let scheme = if config.tls().is_some() { "https" } else { "http" };
    host.map_or_else(|| format!("{scheme}://{}", config.listen), |host| format!("{scheme}://{host}"))
}

/// The `Host` of a request, if it is a name of this gateway's: a client of this document goes there with a token.
fn host<'a>(gateway: &GatewayState, headers: &'a HeaderMap) -> Option<&'a str> {
    headers.get(header::HOST)?.to_str().ok().filter(|host| gateway.is_own_host(host))
}

/// A URL of these parts, with everything escaped that URLs do not have: it goes between quotes.
fn url<const PARTS: usize>(parts: [&str; PARTS]) -> String {
    let mut url = String::new();
    for byte in parts.iter().flat_map(|part| part.bytes()) {
        if byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{HttpSettings, TlsSettings};

    #[test]
    fn the_base_is_configured_or_of_the_request() {
        let plain = Config::default();
        let tls = TlsSettings { cert: Some("c".into()), key: Some("k".into()) };
        let tls = Config { tls, ..Config::default() };
        let http = HttpSettings { public_url: Some("https://example.org/salon".into()), ..HttpSettings::default() };
        let public = Config { http, ..Config::default() };
        assert_eq!(base(&plain, Some("localhost:8787")), "http://localhost:8787");
        assert_eq!(base(&plain, None), "http://127.0.0.1:8787");
        assert_eq!(base(&tls, Some("chat.example")), "https://chat.example");
        assert_eq!(base(&public, Some("localhost:8787")), "https://example.org/salon");
    }

    #[test]
    fn nothing_ends_the_quotes_around_a_url() {
        assert_eq!(url(["http://a", "/mcp/room:a%20b"]), "http://a/mcp/room:a%20b");
        assert_eq!(url(["http://a:1\", x=\"", "/b\\\n é"]), "http://a:1%22,%20x=%22/b%5C%0A%20%C3%A9");
    }
}
