//! Before any handler: is the request meant for this gateway (`Host`), and does its page have any business here (`Origin`)?
//!
//! A browser on the same machine can be made to call a loopback server by any page; these two checks are what stops it. No browser
//! comes from inside this process, so what does may name the gateway as it likes.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use salon_protocol::Code;

use super::Peer;
use super::problem::{Problem, RefusedWith};
use crate::gateway::Gateway;

const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, POST, OPTIONS");
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static("authorization, content-type, last-event-id");

/// Refuses requests for other hosts and from other pages; answers preflights and marks answers for pages that are allowed.
pub(crate) async fn guard(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    let response = answer(&gateway, request, next).await;
    if let Some(RefusedWith(code)) = response.extensions().get() {
        gateway.meters.refused(*code);
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
    let mut response = if preflight { StatusCode::NO_CONTENT.into_response() } else { next.run(request).await };
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
        if preflight {
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
            headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        }
    }
    response
}

/// The origin to mark the answer for, when the request names one that is allowed.
fn check(gateway: &Gateway, headers: &HeaderMap, inside: bool) -> Result<Option<HeaderValue>, Problem> {
    let forbidden = |message: &str| Problem::new(Code::Forbidden, message);
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !inside && !gateway.is_own_host(host) {
        return Err(forbidden("this gateway does not serve that `Host`; allow it with --allow-host"));
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(None) };
    let text = origin.to_str().unwrap_or_default();
    let same = ["http://", "https://"].iter().any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| rest == host));
    if same || gateway.allows_origin(text) {
        Ok(Some(origin.clone()))
    } else {
        Err(forbidden("pages of that `Origin` may not use this gateway; allow it with --allow-origin"))
    }
}
