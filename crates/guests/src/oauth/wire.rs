//! Carries requests to authorization servers: no redirects, bounded answers, and no address that the server's place forbids.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::redirect;

use super::address::{NetworkZone, literal, origin};
use super::exchange::{OAuthAnswer, OAuthRequest};
use super::{AuthorizationError, ResourceUrl};

/// How long connecting may take, and a request with its answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest answer that is read.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// HTTP for one guest's sign-ins and refreshes.
#[derive(Debug, Clone)]
pub(super) struct OAuthWire {
    client: reqwest::Client,
    zone: NetworkZone,
}

impl OAuthWire {
    /// Finds out where the guest's server is.
    pub(super) async fn open(resource: &ResourceUrl) -> Result<Self, AuthorizationError> {
        let url = resource.url();
        let zone = match literal(url) {
            Some(address) => NetworkZone::of(url, [address]),
            None => {
                let host = url.host_str().unwrap_or_default();
                let found = tokio::time::timeout(CONNECT_TIMEOUT, tokio::net::lookup_host((host, 0))).await;
                let found: Vec<_> = found.ok().and_then(Result::ok).into_iter().flatten().collect();
                NetworkZone::of(url, found.iter().map(SocketAddr::ip))
            }
        };
        let mut client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
            .referer(false)
            .redirect(redirect::Policy::none())
            .dns_resolver(ZoneResolver(zone));
        if zone == NetworkZone::Loopback {
            // No proxy reaches our own loopback.
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| unreachable(url, error))?;
        Ok(Self { client, zone })
    }

    pub(super) async fn ask(&self, request: OAuthRequest) -> Result<OAuthAnswer, AuthorizationError> {
        let OAuthRequest { url, body, authorization } = request;
        self.check(&url)?;
        let mut building = match body {
            Some((kind, text)) => self.client.post(url.clone()).header(CONTENT_TYPE, kind).body(text),
            None => self.client.get(url.clone()),
        };
        if let Some(authorization) = authorization {
            let mut value = HeaderValue::try_from(authorization)
                .map_err(|_| AuthorizationError::Answer("its client id cannot be sent".into()))?;
            value.set_sensitive(true);
            building = building.header(AUTHORIZATION, value);
        }
        let answered = building.header(ACCEPT, "application/json").send().await;
        let mut response = answered.map_err(|error| unreachable(&url, error))?;
        let (status, mut bytes) = (response.status(), Vec::new());
        if status.is_redirection() {
            return Err(AuthorizationError::Answer("it redirects, which is not followed".into()));
        }
        while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(&url, error))? {
            if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Err(AuthorizationError::Answer(format!("it has more than {} KiB", MAX_ANSWER_BYTES >> 10)));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(OAuthAnswer { status, body: String::from_utf8_lossy(&bytes).into_owned() })
    }

    /// Whether the server may send us, or a browser, to a URL.
    pub(super) fn check(&self, url: &reqwest::Url) -> Result<(), AuthorizationError> {
        self.zone.check(url)
    }
}

/// The innermost cause, without the URL.
fn unreachable(url: &reqwest::Url, error: reqwest::Error) -> AuthorizationError {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let why = if error.is_timeout() { "no answer in time".to_owned() } else { cause.to_string() };
    AuthorizationError::Unreachable { host: origin(url), why }
}

/// Resolves names to addresses that a server in a zone may send us to, and no others.
struct ZoneResolver(NetworkZone);

impl Resolve for ZoneResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let zone = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let admitted: Vec<_> = found.filter(|address| zone.admits(address.ip())).collect();
            if admitted.is_empty() {
                return Err("its name leads to an address that is not on the server's own network".into());
            }
            Ok(Box::new(admitted.into_iter()) as Addrs)
        })
    }
}
