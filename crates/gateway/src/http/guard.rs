//! Before any handler: is the request meant for this gateway (`Host`), and does its page have any business here (`Origin`)?
//!
//! A browser on the same machine can be made to call a loopback server by any page; these two checks are what stops it. No browser
//! comes from inside this process, so what does may name the gateway as it likes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use salon_protocol::Code;

use super::problem::{Problem, RefusedWith};
use super::{Peer, Requester};
use crate::gateway::Gateway;

const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
const ALLOWED_HEADERS: &str =
    "authorization, content-type, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name";
/// What a page may read of an answer beyond what any page may.
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static("mcp-session-id, www-authenticate");

/// More than any call has.
const MAX_ASKED: usize = 64;

/// Headers that begin so belong to MCP, and their names depend on the tools that are called.
const MCP_HEADERS: &str = "mcp-";

/// Refuses requests for other hosts and from other pages; answers preflights and marks answers for pages that are allowed. Every refusal
/// over HTTP is counted and audited here.
pub(crate) async fn guard(State(gateway): State<Arc<Gateway>>, mut request: Request, next: Next) -> Response {
    let requester = Requester::default();
    request.extensions_mut().insert(requester.clone());
    let address = request.extensions().get().map_or(IpAddr::from(Ipv4Addr::LOCALHOST), Peer::ip);
    let response = answer(&gateway, request, next).await;
    if let Some(RefusedWith(code)) = response.extensions().get() {
        gateway.refused(*code, &requester, address);
    }
    response
}

async fn answer(gateway: &Gateway, request: Request, next: Next) -> Response {
    let inside = matches!(request.extensions().get(), Some(Peer::Inside));
    let origin = match check(gateway, request.headers(), inside) {
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
    for name in asked.take(MAX_ASKED).filter_map(|name| name.trim().parse::<HeaderName>().ok()) {
        if name.as_str().starts_with(MCP_HEADERS) && !allowed.split(", ").any(|known| known == name) {
            allowed.push_str(", ");
            allowed.push_str(name.as_str());
        }
    }
    HeaderValue::try_from(allowed).expect("names of headers are visible text")
}

/// The origin to mark the answer for, when the request names one that is allowed.
fn check(gateway: &Gateway, headers: &HeaderMap, inside: bool) -> Result<Option<HeaderValue>, Problem> {
    let forbidden = |message: &str| Problem::new(Code::Forbidden, message);
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
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
}
