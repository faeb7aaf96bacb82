//! Metadata of protected resources (RFC 9728) and of authorization servers (RFC 8414, OpenID Connect Discovery), and where it is found.

use std::collections::VecDeque;

use reqwest::Url;
use serde::Deserialize;

use super::address::Endpoint;
use super::exchange::OAuthAnswer;
use super::{AuthorizationError, ResourceUrl};

/// How many authorization servers of one resource are tried.
const MAX_SERVERS: usize = 4;

/// Where a resource's metadata is: at the address in the challenge, else at the well-known ones, first that with the resource's path
/// (MCP 2025-11-25, "Protected Resource Metadata Discovery Requirements").
pub(super) fn resource_addresses(
    resource: &ResourceUrl,
    named: Option<&str>,
) -> Result<VecDeque<Url>, AuthorizationError> {
    if let Some(named) = named {
        let wrong = |_| AuthorizationError::metadata("the address of the server's metadata", "it is not a URL");
        return Ok(VecDeque::from([Url::parse(named).map_err(wrong)?]));
    }
    let path = resource.url().path().trim_end_matches('/');
    let mut addresses = VecDeque::from([well_known(resource.url(), "oauth-protected-resource", path)]);
    if !path.is_empty() {
        addresses.push_back(well_known(resource.url(), "oauth-protected-resource", ""));
    }
    Ok(addresses)
}

/// Where an authorization server's metadata is, in the order of MCP 2025-11-25, "Authorization Server Metadata Discovery".
pub(super) fn server_addresses(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut addresses =
        vec![well_known(issuer, "oauth-authorization-server", path), well_known(issuer, "openid-configuration", path)];
    if !path.is_empty() {
        let mut appended = issuer.clone();
        appended.set_path(&format!("{path}/.well-known/openid-configuration"));
        addresses.push(appended);
    }
    addresses
}

fn well_known(base: &Url, name: &str, path: &str) -> Url {
    let mut url = base.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.set_path(&format!("/.well-known/{name}{path}"));
    url
}

/// What a resource says of itself.
#[derive(Debug)]
pub(super) struct ProtectedResource {
    /// Its identifier, which tokens are asked for.
    pub(super) resource: String,
    pub(super) issuers: Vec<Url>,
    pub(super) scopes: Vec<String>,
}

impl ProtectedResource {
    /// Reads the metadata that came `from` an address.
    pub(super) fn read(answer: &OAuthAnswer, from: &Url, asked: &ResourceUrl) -> Result<Self, AuthorizationError> {
        #[derive(Deserialize)]
        struct ResourceText {
            resource: String,
            #[serde(default)]
            authorization_servers: Vec<String>,
            #[serde(default)]
            scopes_supported: Vec<String>,
        }
        let wrong = |why: &str| AuthorizationError::metadata("the server's metadata", why);
        let text: ResourceText = answer.read()?;
        // RFC 9728 §3.3: metadata of another resource would have us ask for a token that is good there. A resource may also be
        // the server as a whole, or a folder of it, but only that resource's own well-known address says so: on a shared host,
        // one server must not choose an audience that takes in its neighbours.
        let resource = Url::parse(&text.resource).map_err(|_| wrong("its resource is not a URL"))?;
        let folder = resource.path().trim_end_matches('/');
        let is_whole = folder == asked.url().path().trim_end_matches('/');
        let is_own_word = *from == well_known(&resource, "oauth-protected-resource", folder);
        if !covers(&resource, asked.url()) || !(is_whole || is_own_word) {
            return Err(wrong("it is of another resource"));
        }
        let issuers: Vec<_> =
            text.authorization_servers.iter().take(MAX_SERVERS).filter_map(|url| Url::parse(url).ok()).collect();
        if issuers.is_empty() {
            return Err(wrong("it names no authorization server"));
        }
        Ok(Self { resource: text.resource, issuers, scopes: text.scopes_supported })
    }
}

/// Whether a URL is another, or a folder above it.
fn covers(resource: &Url, asked: &Url) -> bool {
    let folder = resource.path().trim_end_matches('/');
    let below = asked.path().strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    resource.origin() == asked.origin() && resource.fragment().is_none() && below
}

/// What an authorization server says of itself.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<Endpoint>,
    pub(super) token_endpoint: Endpoint,
    pub(super) registration_endpoint: Option<Endpoint>,
    pub(super) device_authorization_endpoint: Option<Endpoint>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    /// RFC 8414 §2: `client_secret_basic` where nothing is said.
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

impl AuthorizationServer {
    pub(super) fn read(answer: &OAuthAnswer, issuer: &Url) -> Result<Self, AuthorizationError> {
        let server: Self = answer.read()?;
        // RFC 8414 §3.3. As URLs, because an address without a path is written with and without a slash.
        if Url::parse(&server.issuer).as_ref() != Ok(issuer) {
            let why = "its issuer is not the one that was asked for";
            return Err(AuthorizationError::metadata("the authorization server's metadata", why));
        }
        Ok(server)
    }

    /// Where a browser signs in. MCP refuses a server that does not say it has S256.
    pub(super) fn browser_endpoint(&self) -> Result<&Url, AuthorizationError> {
        if !self.code_challenge_methods_supported.iter().any(|method| method == "S256") {
            return Err(AuthorizationError::NoPkce);
        }
        let wrong = |why: &str| AuthorizationError::metadata("the authorization server's metadata", why);
        let Endpoint(page) =
            self.authorization_endpoint.as_ref().ok_or_else(|| wrong("it has no authorization endpoint"))?;
        // RFC 9700 §4.4: with the page of another server, and no issuer in its answer, that server's code would come here.
        let Endpoint(token) = &self.token_endpoint;
        if page.origin() != token.origin() && !self.authorization_response_iss_parameter_supported {
            return Err(wrong("its page and its token endpoint are on different servers, and it promises no `iss`"));
        }
        Ok(page)
    }

    /// Whether a client may authenticate in a way at the token endpoint. Public clients are what MCP is written for, so they may
    /// unless the server says otherwise.
    pub(super) fn takes(&self, method: &str) -> bool {
        match &self.token_endpoint_auth_methods_supported {
            Some(methods) => methods.iter().any(|offered| offered == method),
            None => matches!(method, "none" | "client_secret_basic"),
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::*;

    fn resource(url: &str) -> ResourceUrl {
        ResourceUrl::parse(url).unwrap()
    }

    fn texts(urls: impl IntoIterator<Item = Url>) -> Vec<String> {
        urls.into_iter().map(String::from).collect()
    }

    #[test]
    fn metadata_is_looked_for_in_the_order_of_the_specification() {
        let at = |url: &str, named| texts(resource_addresses(&resource(url), named).unwrap());
        assert_eq!(
            at("https://a.example/mcp/x?q=1", None),
            [
                "https://a.example/.well-known/oauth-protected-resource/mcp/x",
                "https://a.example/.well-known/oauth-protected-resource"
            ]
        );
        assert_eq!(at("https://a.example/", None), ["https://a.example/.well-known/oauth-protected-resource"]);
        assert_eq!(at("https://a.example/mcp", Some("https://b.example/m")), ["https://b.example/m"]);
        assert!(resource_addresses(&resource("https://a.example"), Some("here")).is_err());
        let server = |url: &str| texts(server_addresses(&Url::parse(url).unwrap()));
        assert_eq!(
            server("https://id.example"),
            [
                "https://id.example/.well-known/oauth-authorization-server",
                "https://id.example/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            server("https://id.example/tenant1"),
            [
                "https://id.example/.well-known/oauth-authorization-server/tenant1",
                "https://id.example/.well-known/openid-configuration/tenant1",
                "https://id.example/tenant1/.well-known/openid-configuration"
            ]
        );
    }

    #[test]
    fn metadata_of_another_resource_is_refused() {
        let asked = resource("https://a.example/mcp/room");
        let read_from = |from: &str, body: &str| {
            let answer = OAuthAnswer { status: StatusCode::OK, body: body.into() };
            match ProtectedResource::read(&answer, &Url::parse(from).unwrap(), &asked) {
                Ok(read) => format!("{} of {}", read.resource, texts(read.issuers).join(" ")),
                Err(why) => why.to_string(),
            }
        };
        let of_from = |from: &str, resource: &str| {
            let body = format!(r#"{{"resource":"{resource}","authorization_servers":["https://id.example"]}}"#);
            read_from(from, &body)
        };
        const ROOT: &str = "https://a.example/.well-known/oauth-protected-resource";
        const REFUSED: &str = "the server's metadata cannot be used: it is of another resource";
        let (read, of) = (|body: &str| read_from(ROOT, body), |resource: &str| of_from(ROOT, resource));
        assert_eq!(of("https://a.example/mcp/room"), "https://a.example/mcp/room of https://id.example/");
        assert_eq!(of("https://a.example"), "https://a.example of https://id.example/");
        let folder = format!("{ROOT}/mcp");
        assert_eq!(of_from(&folder, "https://a.example/mcp/"), "https://a.example/mcp/ of https://id.example/");
        for other in
            ["https://b.example/mcp/room", "https://a.example/mcp/ro", "http://a.example/mcp", "https://a.example:1/"]
        {
            assert_eq!(of(other), REFUSED, "{other}");
        }
        // A server does not speak for the folder that it is in, nor for the host.
        for (from, parent) in [
            ("https://a.example/mcp/room/meta", "https://a.example"),
            ("https://a.example/.well-known/oauth-protected-resource/mcp/room", "https://a.example/mcp"),
            (&folder, "https://a.example/"),
            (ROOT, "https://a.example/mcp"),
            ("https://b.example/.well-known/oauth-protected-resource", "https://a.example"),
        ] {
            assert_eq!(of_from(from, parent), REFUSED, "{parent} by {from}");
        }
        assert!(of("nothing").contains("not a URL"));
        assert!(read(r#"{"resource":"https://a.example"}"#).contains("names no authorization server"));
        assert!(read("<html>").contains("not the JSON"));
    }
}
