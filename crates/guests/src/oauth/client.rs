//! Who we are to an authorization server: a client it registered (RFC 7591), or one that its operator did.

use std::fmt;

use data_encoding::BASE64;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::AuthorizationError;
use super::address::Endpoint;
use super::error::shown;
use super::exchange::{Form, OAuthAnswer, OAuthRequest};
use super::metadata::AuthorizationServer;

/// The grant type of RFC 8628.
pub(super) const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A client that an authorization server knows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredClient {
    /// Its id.
    pub id: String,
    /// Its secret, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Whether the secret goes into the form rather than into a header.
    #[serde(default)]
    pub(super) secret_in_form: bool,
    /// The authorization server that registered it by hand: no other gets its id and secret.
    #[serde(skip)]
    issuer: Option<String>,
}

impl RegisteredClient {
    /// A client that was registered by hand.
    pub fn new(id: impl Into<String>, secret: Option<String>) -> Self {
        Self { id: id.into(), secret, secret_in_form: false, issuer: None }
    }

    /// The same, for this authorization server alone. A client with a secret is used only with this.
    #[must_use]
    pub fn of_issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Those of the authorization servers an MCP server names that may know this client. The MCP server chooses the list, so without
    /// a configured issuer it could have the secret sent to itself.
    pub(super) fn own_issuers(&self, mut named: Vec<Url>) -> Result<Vec<Url>, AuthorizationError> {
        let Some(issuer) = &self.issuer else {
            return if self.secret.is_none() { Ok(named) } else { Err(AuthorizationError::NoIssuer) };
        };
        let own = Url::parse(issuer).map_err(|_| AuthorizationError::ForeignClient(shown(issuer)))?;
        named.retain(|url| *url == own);
        if named.is_empty() { Err(AuthorizationError::ForeignClient(shown(issuer))) } else { Ok(named) }
    }

    /// The same with the way of authenticating that a server takes.
    pub(super) fn for_server(mut self, server: &AuthorizationServer) -> Self {
        self.secret_in_form = !server.takes("client_secret_basic") && server.takes("client_secret_post");
        self
    }

    /// A request to the token endpoint, or another, in the name of the client (RFC 6749 §2.3.1).
    pub(super) fn request(&self, Endpoint(url): Endpoint, form: Form) -> OAuthRequest {
        match &self.secret {
            Some(secret) if !self.secret_in_form => {
                let encoded = |text: &str| form_encoded(text);
                let pair = format!("{}:{}", encoded(&self.id), encoded(secret));
                let authorization = Some(format!("Basic {}", BASE64.encode(pair.as_bytes())));
                OAuthRequest { authorization, ..OAuthRequest::form(url, &form) }
            }
            secret => {
                let form = form.with("client_id", &self.id).with_some("client_secret", secret.as_deref());
                OAuthRequest::form(url, &form)
            }
        }
    }
}

impl fmt::Debug for RegisteredClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredClient").field("id", &self.id).finish_non_exhaustive()
    }
}

fn form_encoded(text: &str) -> String {
    let mut url = Url::parse("form:").expect("a URL without a host");
    url.query_pairs_mut().append_key_only(text);
    url.query().unwrap_or_default().to_owned()
}

/// The request that registers us. A browser comes back to `redirect`; without one only the device flow is used.
pub(super) fn registration(
    server: &AuthorizationServer,
    redirect: Option<&str>,
    scope: Option<&str>,
) -> Result<OAuthRequest, AuthorizationError> {
    let Endpoint(url) = server.registration_endpoint.clone().ok_or(AuthorizationError::NoRegistration)?;
    let method = ["none", "client_secret_basic", "client_secret_post"].into_iter().find(|method| server.takes(method));
    let mut grants = vec!["refresh_token"];
    grants.push(if redirect.is_some() { "authorization_code" } else { DEVICE_GRANT });
    let mut client = json!({
        "client_name": "Salon",
        "application_type": "native",
        "grant_types": grants,
        "redirect_uris": redirect.into_iter().collect::<Vec<_>>(),
        "response_types": redirect.iter().map(|_| "code").collect::<Vec<_>>(),
        "token_endpoint_auth_method": method.unwrap_or("none"),
    });
    if let Some(scope) = scope {
        client["scope"] = scope.into();
    }
    Ok(OAuthRequest::json(url, client.to_string()))
}

/// Reads the answer to [`registration`].
pub(super) fn registered(answer: &OAuthAnswer) -> Result<RegisteredClient, AuthorizationError> {
    #[derive(Deserialize)]
    struct ClientText {
        client_id: String,
        client_secret: Option<String>,
        token_endpoint_auth_method: Option<String>,
    }
    let ClientText { client_id, client_secret, token_endpoint_auth_method } = answer.read()?;
    let secret_in_form = match token_endpoint_auth_method.as_deref() {
        Some("none") => return Ok(RegisteredClient::new(client_id, None)),
        Some("client_secret_post") => true,
        Some("client_secret_basic") | None => false,
        Some(_) => {
            return Err(AuthorizationError::Answer("it wants a way of authenticating that Salon does not have".into()));
        }
    };
    Ok(RegisteredClient { secret_in_form, ..RegisteredClient::new(client_id, client_secret) })
}
