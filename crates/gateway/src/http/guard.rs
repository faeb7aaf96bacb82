//! Before any handler: is the request one that has one meaning (RFC 9112), is it meant for this gateway (`Host`), and does its page have
//! any business here (`Origin`)?
//!
//! A browser on the same machine can be made to call a loopback server by any page; these two checks are what stops it. No browser
//! comes from inside this process, so what does may name the gateway as it likes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use salon_protocol::Code;
use tokio::time::sleep;

use super::problem::{Problem, RefusedWith, invalid};
use super::{PeerAddress, Requester};
use crate::clock;
use crate::failures::Failures;
use crate::gateway::GatewayState;

const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
const ALLOWED_HEADERS: &str =
    "authorization, content-type, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name";
/// What a page may read of an answer beyond what any page may.
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static("mcp-session-id, www-authenticate");

/// How often an address is refused at once. Beyond that every refusal takes this long, for which its connection waits: an address has
/// a limited number of them, so a client that goes on regardless costs the gateway little.
pub(crate) const REFUSALS_PER_SECOND: u32 = 100;
pub(crate) const MAX_REFUSALS_AT_ONCE: u32 = 500;
const REFUSAL_DELAY: Duration = Duration::from_secs(2);

/// More than any call has.
const MAX_PREFLIGHT_HEADERS: usize = 64;

/// Headers that begin so belong to MCP, and their names depend on the tools that are called.
const MCP_HEADERS: &str = "mcp-";

/// Refuses requests for other hosts and from other pages; answers preflights and marks answers for pages that are allowed. Every refusal
/// over HTTP is counted and audited here.
pub(crate) async fn guard(State(gateway): State<Arc<GatewayState>>, mut request: Request, next: Next) -> Response {
    let requester = Requester::default();
    request.extensions_mut().insert(requester.clone());
    let inside = matches!(request.extensions().get(), Some(PeerAddress::Inside));
    let address = request.extensions().get().map_or(IpAddr::from(Ipv4Addr::LOCALHOST), PeerAddress::ip);
    let response = answer(&gateway, request, next).await;
    let Some(RefusedWith(code)) = response.extensions().get() else { return response };
    gateway.refused(*code, &requester, address);
    if !inside {
        pace(&gateway.refusals, address).await;
    }
    response
}

/// Counts a refusal, and waits where the address has been refused too often.
pub(crate) async fn pace(refusals: &Failures, address: IpAddr) {
    if refusals.are_too_many(address, clock::now()) {
        sleep(REFUSAL_DELAY).await;
    }
    refusals.count(address, clock::now());
}

async fn answer(gateway: &GatewayState, request: Request, next: Next) -> Response {
    let inside = matches!(request.extensions().get(), Some(PeerAddress::Inside));
    let checked = unambiguous(&request).and_then(|host| check(gateway, host, request.headers(), inside));
    let origin = match checked {
        Ok(origin) => origin,
        Err(problem) => return problem.into_response(),
    };
    let preflight = request.method() == Method::OPTIONS
        && origin.is_some()
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let allowed = preflight.then(|| allowed_headers(request.headers()));
    let mut response = if preflight { StatusCode::NO_CONTENT.into_response() } else { next.run(request).await };
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        match allowed {
            Some(allowed) => {
                headers.append(header::VARY, HeaderValue::from_static("access-control-request-headers"));
                headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
                headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
                headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
            }
            None => drop(headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS)),
        }
    }
    response
}

/// What a page may send: what every client sends, and whatever of MCP's it asks for.
fn allowed_headers(request: &HeaderMap) -> HeaderValue {
    let asked = request.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).into_iter();
    let asked = asked.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let mut allowed = ALLOWED_HEADERS.to_owned();
    for name in asked.take(MAX_PREFLIGHT_HEADERS).filter_map(|name| name.trim().parse::<HeaderName>().ok()) {
        if name.as_str().starts_with(MCP_HEADERS) && !allowed.split(", ").any(|known| known == name) {
            allowed.push_str(", ");
            allowed.push_str(name.as_str());
        }
    }
    HeaderValue::try_from(allowed).expect("names of headers are visible text")
}

/// The `Host` of a request that nobody on its way can have read differently.
fn unambiguous(request: &Request) -> Result<&str, Problem> {
    let headers = request.headers();
    let mut hosts = headers.get_all(header::HOST).into_iter();
    // RFC 9112 §3.2: exactly one, and 400 otherwise.
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(invalid("a request has one `Host`"));
    };
    let host = host.to_str().map_err(|_| invalid("`Host` is not a name or an address"))?;
    // §3.2.2: what an absolute target names counts, and a client sends the same in `Host`.
    if request.uri().authority().is_some_and(|target| !target.as_str().eq_ignore_ascii_case(host)) {
        return Err(invalid("the target of the request names another host than `Host`"));
    }
    if headers.get_all(header::ORIGIN).iter().count() > 1 {
        return Err(invalid("a request has at most one `Origin`"));
    }
    // §6.1: a coding that is not understood is 501. Where `chunked` is not the last one, hyper has answered 400 already (§6.3).
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).into_iter();
    let is_chunked = codings.next().is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    if !is_chunked || codings.next().is_some() {
        let message = "`Transfer-Encoding` may be chunked, and nothing else";
        return Err(invalid(message).with_status(StatusCode::NOT_IMPLEMENTED));
    }
    Ok(host)
}

/// The header by which a proxy says that it passed the request on: of RFC 7239, of RFC 9110 §7.6.3, or one that many use instead. A proxy that adds
/// none is not detected.
pub(super) fn proxy_header(headers: &HeaderMap) -> Option<&HeaderName> {
    let names = ["forwarded", "via", "x-real-ip"];
    headers.keys().find(|name| names.contains(&name.as_str()) || name.as_str().starts_with("x-forwarded-"))
}

/// The origin to mark the answer for, when the request names one that is allowed.
fn check(
    gateway: &GatewayState,
    host: &str,
    headers: &HeaderMap,
    inside: bool,
) -> Result<Option<HeaderValue>, Problem> {
    let forbidden = |message: &str| Problem::new(Code::Forbidden, message);
    // Development mode trusts every client that reaches a loopback address, which behind a proxy is anybody.
    if let Some(name) = proxy_header(headers).filter(|_| gateway.config.dev) {
        let message = format!("development mode does not serve requests that came through a proxy (`{name}`)");
        return Err(forbidden(&message));
    }
    if !inside && !gateway.is_own_host(host) {
        return Err(forbidden("this gateway does not serve that `Host`; allow it with --http-hosts"));
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(None) };
    let text = origin.to_str().unwrap_or_default();
    let same = ["http://", "https://"].iter().any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| rest == host));
    if same || gateway.is_public_origin(text) || gateway.allows_origin(text) {
        Ok(Some(origin.clone()))
    } else {
        Err(forbidden("pages of that `Origin` may not use this gateway; allow it with --http-origins"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_may_send_what_mcp_needs_and_nothing_else() {
        let allowed = |asked: &'static str| {
            let mut request = HeaderMap::new();
            request.insert(header::ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_static(asked));
            let value = allowed_headers(&request);
            value.to_str().expect("text").strip_prefix(ALLOWED_HEADERS).expect("the usual ones first").to_owned()
        };
        assert_eq!(allowed("authorization, Mcp-Method"), "");
        assert_eq!(allowed("Mcp-Param-City,mcp-param-zip, x-other, mcp-param-city"), ", mcp-param-city, mcp-param-zip");
        assert_eq!(allowed("mcp param, cookie, x-mcp-name"), "");
    }

    #[test]
    fn a_proxy_is_known_by_any_of_its_headers() {
        let with =
            |name: &'static str| HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static("x"))]);
        for name in ["forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-host"] {
            assert_eq!(proxy_header(&with(name)).map(HeaderName::as_str), Some(name));
        }
        for name in ["host", "x-real", "viaduct", "x-forwarded"] {
            assert_eq!(proxy_header(&with(name)), None, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_refused_again_and_again_waits_for_it() {
        let refusals = Failures::new(true, REFUSALS_PER_SECOND, MAX_REFUSALS_AT_ONCE);
        let (attacker, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let began = tokio::time::Instant::now();
        for _ in 0..MAX_REFUSALS_AT_ONCE {
            pace(&refusals, attacker).await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO, "what is refused now and then is refused at once");
        for _ in 0..MAX_REFUSALS_AT_ONCE {
            pace(&refusals, attacker).await;
        }
        assert!(began.elapsed() >= REFUSAL_DELAY, "nobody waits");
        let began = tokio::time::Instant::now();
        pace(&refusals, other).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "another address waits");
    }
}
