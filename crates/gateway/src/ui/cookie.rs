//! The cookie's name and attributes, and whose requests it counts for.
//!
//! A cookie comes by itself, so it counts only where the page that asks is the gateway's own. `SameSite` alone would not do: to a
//! browser another port of the same host is the same site.

use axum::http::{HeaderMap, HeaderValue, Method, header};
use salon_protocol::{Code, Timestamp};

use crate::auth::LocalKey;
use crate::config::Config;
use crate::gateway::{GatewayState, public_path};
use crate::http::Problem;

/// How browsers say which page a request comes from.
const FETCH_SITE: &str = "sec-fetch-site";

pub(super) struct Cookie {
    name: String,
    path: String,
    /// Whether browsers reach the gateway by TLS.
    secure: bool,
}

impl Cookie {
    pub(super) fn new(config: &Config, local: &LocalKey) -> Self {
        let public = config.http.public_url.as_deref();
        let secure = public.map_or(config.tls().is_some(), |url| url.starts_with("https://"));
        let below = public.map(public_path).unwrap_or_default();
        let prefix = match (secure, below) {
            (false, _) => "",
            (true, "") => "__Host-",
            (true, _) => "__Secure-",
        };
        // All ports of a host share their cookies, so two gateways on one machine need two names.
        let own = local.label("sign-in cookie name");
        let path = if below.is_empty() { "/" } else { below };
        Self { name: format!("{prefix}salon_session_{own}"), path: path.into(), secure }
    }

    /// The value a browser shows. Where it shows two, a page of another port has put one there, and neither counts.
    pub(super) fn read<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let mut own = self.values(headers);
        own.next().filter(|_| own.next().is_none())
    }

    /// Every value under our name. Signing out ends what each stands for, also those that somebody else has put there.
    pub(super) fn values<'a>(&self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        let lines = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(name, _)| *name == self.name).map(|(_, value)| value)
    }

    /// What has a browser keep a value until a moment.
    pub(super) fn set(&self, value: &str, expires: Timestamp, now: Timestamp) -> HeaderValue {
        self.header(value, expires.0.saturating_sub(now.0) / 1000)
    }

    /// What has a browser forget it.
    pub(super) fn clear(&self) -> HeaderValue {
        self.header("", 0)
    }

    fn header(&self, value: &str, seconds: u64) -> HeaderValue {
        let Self { name, path, secure } = self;
        let secure = if *secure { "; Secure" } else { "" };
        let text = format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::try_from(text).expect("a signed value and a URL's path are visible text")
    }

    /// Refuses requests of pages that are not the gateway's own. Whatever changes something must say where it comes from.
    pub(super) fn require_own_page(
        &self,
        gateway: &GatewayState,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<(), Problem> {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let is_own = |origin: &HeaderValue| {
            let origin = origin.to_str().unwrap_or_default();
            let plain = !self.secure && origin.strip_prefix("http://").is_some_and(|rest| rest == host);
            let secure = origin.strip_prefix("https://").is_some_and(|rest| rest == host);
            plain || secure || gateway.is_public_origin(origin)
        };
        let origin = match headers.get(header::ORIGIN) {
            Some(origin) => is_own(origin),
            None => [Method::GET, Method::HEAD].contains(method),
        };
        let site = headers.get(FETCH_SITE).is_none_or(|site| site == "same-origin" || site == "none");
        if origin && site {
            Ok(())
        } else {
            let told =
                "the session's cookie is for the gateway's own page: the request must come from there (`Origin`)";
            Err(Problem::new(Code::Forbidden, told))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{HttpSettings, TlsSettings};

    fn cookie(config: &Config) -> String {
        let cookie = Cookie::new(config, &LocalKey::generate());
        let told = cookie.set("value", Timestamp(61_999), Timestamp(1000));
        let told = told.to_str().expect("text").to_owned();
        let own = cookie.name.rsplit_once('_').expect("a name").1;
        assert_eq!(own.len(), 8);
        told.replace(own, "KEY")
    }

    #[test]
    fn the_attributes_follow_from_how_browsers_reach_the_gateway() {
        let http = |url: &str| HttpSettings { public_url: Some(url.into()), ..HttpSettings::default() };
        let public = |url: &str| Config { http: http(url), ..Config::default() };
        let tls = TlsSettings { cert: Some("c".into()), key: Some("k".into()) };
        let tls = Config { tls, ..Config::default() };
        insta::assert_snapshot!(cookie(&Config::default()), @"salon_session_KEY=value; Path=/; Max-Age=60; HttpOnly; SameSite=Strict");
        insta::assert_snapshot!(cookie(&tls), @"__Host-salon_session_KEY=value; Path=/; Max-Age=60; HttpOnly; SameSite=Strict; Secure");
        insta::assert_snapshot!(cookie(&public("https://chat.example")), @"__Host-salon_session_KEY=value; Path=/; Max-Age=60; HttpOnly; SameSite=Strict; Secure");
        insta::assert_snapshot!(cookie(&public("https://example.org/salon")), @"__Secure-salon_session_KEY=value; Path=/salon; Max-Age=60; HttpOnly; SameSite=Strict; Secure");
        insta::assert_snapshot!(cookie(&public("http://10.0.0.7")), @"salon_session_KEY=value; Path=/; Max-Age=60; HttpOnly; SameSite=Strict");
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let cookie = Cookie::new(&Config::default(), &LocalKey::generate());
        let mut headers = HeaderMap::new();
        assert_eq!(cookie.read(&headers), None);
        headers.append(header::COOKIE, HeaderValue::from_static("a=b; salon_session_=x; broken"));
        assert_eq!(cookie.read(&headers), None);
        headers.append(header::COOKIE, HeaderValue::try_from(format!("c=d;{}=v=1; e=f", cookie.name)).expect("text"));
        assert_eq!(cookie.read(&headers), Some("v=1"));
        headers.append(header::COOKIE, HeaderValue::try_from(format!("{}=v=2", cookie.name)).expect("text"));
        assert_eq!(cookie.read(&headers), None, "one of them is not ours");
        assert_eq!(cookie.values(&headers).collect::<Vec<_>>(), ["v=1", "v=2"]);
        let cleared = cookie.clear();
        assert!(cleared.to_str().expect("text").starts_with(&format!("{}=; Path=/; Max-Age=0;", cookie.name)));
    }
}
