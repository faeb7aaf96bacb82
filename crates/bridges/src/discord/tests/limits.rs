use std::time::{Duration, Instant};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::discord::rate_limits::{DiscordLimits, DiscordRoute};
use crate::http_sender::ApiAnswer;

fn route(resource: &str) -> DiscordRoute {
    DiscordRoute { name: "execute", resource: resource.into() }
}

fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &'static str) -> ApiAnswer {
    let headers: HeaderMap =
        headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();
    ApiAnswer { status: StatusCode::from_u16(status).expect("a status"), headers, body: body.into() }
}

const LAST: &[(&str, &str)] =
    &[("x-ratelimit-bucket", "b"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset-after", "1.5")];

#[test]
fn a_bucket_that_is_used_up_is_waited_for() {
    let now = Instant::now();
    let mut limits = DiscordLimits::default();
    assert_eq!(limits.wait(&route("1"), now), Duration::ZERO);
    assert_eq!(limits.observe(&route("1"), &answer(200, LAST, "{}"), now), None);
    assert_eq!(limits.wait(&route("1"), now), Duration::from_millis(1500));
    assert_eq!(limits.wait(&route("1"), now + Duration::from_secs(1)), Duration::from_millis(500));
    assert_eq!(limits.wait(&route("1"), now + Duration::from_secs(2)), Duration::ZERO);
    // Another webhook has a bucket of its own.
    assert_eq!(limits.wait(&route("2"), now), Duration::ZERO);
}

#[test]
fn requests_under_way_count() {
    let now = Instant::now();
    let mut limits = DiscordLimits::default();
    let two = [("x-ratelimit-bucket", "b"), ("x-ratelimit-remaining", "2"), ("x-ratelimit-reset-after", "1")];
    limits.observe(&route("1"), &answer(200, &two, "{}"), now);
    for expected in [0, 0, 1000] {
        assert_eq!(limits.wait(&route("1"), now), Duration::from_millis(expected));
        limits.spend(&route("1"));
    }
}

#[test]
fn a_429_says_how_long_and_whether_for_everything() {
    let now = Instant::now();
    let mut limits = DiscordLimits::default();
    let body = r#"{"message":"You are being rate limited.","retry_after":0.25,"global":false}"#;
    let refused = limits.observe(&route("1"), &answer(429, &[("retry-after", "1")], body), now);
    assert_eq!(refused, Some(Duration::from_millis(250)), "the body is more exact than the header");
    assert_eq!(limits.wait(&route("2"), now), Duration::ZERO);
    let global = answer(429, &[("retry-after", "3"), ("x-ratelimit-global", "true")], "");
    assert_eq!(limits.observe(&route("1"), &global, now), Some(Duration::from_secs(3)));
    assert_eq!(limits.wait(&route("2"), now), Duration::from_secs(3));
}

#[test]
fn absurd_headers_are_bounded() {
    let now = Instant::now();
    let mut limits = DiscordLimits::default();
    for (text, expected) in [("1e300", 3600), ("-1", 5), ("NaN", 5), ("x", 5), ("", 5)] {
        let headers = [("retry-after", text)];
        let waited = limits.observe(&route("1"), &answer(429, &headers, "{}"), now);
        assert_eq!(waited, Some(Duration::from_secs(expected)), "{text}");
    }
    for resource in 0..5000 {
        limits.observe(&route(&resource.to_string()), &answer(200, LAST, "{}"), now);
    }
}
