//! Where to get a token (RFC 9728): what an MCP client that was refused is pointed to, and reads there without one.
//!
//! Deliberately absent: giving out tokens. That is for the authorization servers that the configuration names, or for `salon token`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use salon_protocol::{ParticipantId, TopicName};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Problem, invalid};
use crate::config::Config;
use crate::gateway::GatewayState;

/// Where the description of a resource is: before its own path.
pub(super) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What RFC 9728 has a protected resource say of itself
#[derive(Serialize, ToSchema)]
pub(super) struct ResourceMetadata {
    /// The address described
    resource: String,
    /// Who gives out tokens for it, where somebody does
    #[serde(skip_serializing_if = "Vec::is_empty")]
    authorization_servers: Vec<String>,
    bearer_methods_supported: [&'static str; 1],
    resource_name: &'static str,
}

#[utoipa::path(get, path = "/.well-known/oauth-protected-resource/mcp/{topic}", tag = "MCP",
    summary = "Where to get a token for a room as an MCP server (RFC 9728); likewise for one participant, for /sse, and for the whole gateway",
    params(("topic" = String, Path, description = "The room")),
    responses((status = 200, description = "What there is to know", body = ResourceMetadata), (status = "4XX", description = "Refused", body = super::ProblemBody)))]
pub(super) async fn describe(
    State(gateway): State<Arc<GatewayState>>,
    names: RawPathParams,
    request: Request,
) -> Result<([(HeaderName, &'static str); 1], Json<ResourceMetadata>), Problem> {
    for (what, name) in &names {
        let wrong = match what {
            "topic" => TopicName::new(name).err().map(|error| error.to_string()),
            _ => ParticipantId::new(name).err().map(|error| error.to_string()),
        };
        if let Some(wrong) = wrong {
            return Err(invalid(format!("the {what} in the path is not acceptable: {wrong}")));
        }
    }
    // Escaped as the client has it: it compares this with the address it wanted.
    let path = request.uri().path().strip_prefix(WELL_KNOWN).unwrap_or_default();
    let described = ResourceMetadata {
        resource: url([&*base(&gateway.config, host(&gateway, request.headers())), path]),
        authorization_servers: gateway.config.auth.authorization_servers.clone(),
        bearer_methods_supported: ["header"],
        resource_name: "Salon",
    };
    // It says what the request said of the host, which is nobody else's business.
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(described)))
}

/// Adds to a refusal at an MCP address where the description of that address is.
pub(super) async fn point(State(gateway): State<Arc<GatewayState>>, request: Request, next: Next) -> Response {
    let uri = request.uri().clone();
    let Some(resource) = resource(uri.path()) else { return next.run(request).await };
    let host = host(&gateway, request.headers()).map(String::from);
    let mut response = next.run(request).await;
    if let Some(challenge) = response.headers_mut().get_mut(header::WWW_AUTHENTICATE) {
        let at = url([&*base(&gateway.config, host.as_deref()), WELL_KNOWN, resource]);
        let more = [challenge.as_bytes(), b", resource_metadata=\"", at.as_bytes(), b"\""].concat();
        *challenge = HeaderValue::from_bytes(&more).expect("a challenge and a URL are printable");
    }
    response
}

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
