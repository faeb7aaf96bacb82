//! Discord's rate limits: when a request may be sent, by what earlier answers said.
//!
//! Discord API v10, "Rate Limits": buckets by `X-RateLimit-Bucket` and the top-level resource, and one limit for everything. Time is an argument.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde::Deserialize;

use crate::http_sender::{ApiAnswer, bounded_wait};

/// Routes that are remembered. Beyond that those whose limit has passed are forgotten.
const MAX_ROUTES: usize = 1024;

/// The wait after a 429 that does not say how long.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(5);

/// A method, a path without the ids in it, and the resource that has limits of its own: a channel or a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct DiscordRoute {
    pub(super) name: &'static str,
    pub(super) resource: String,
}

/// What is known of the limits.
#[derive(Debug, Default)]
pub(super) struct DiscordLimits {
    /// The bucket of each route, by the name that Discord gave it.
    routes: HashMap<DiscordRoute, String>,
    /// By bucket and resource.
    buckets: HashMap<(String, String), DiscordBucket>,
    global_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct DiscordBucket {
    remaining: u64,
    resets_at: Instant,
}

#[derive(Deserialize)]
struct DiscordLimitBody {
    retry_after: Option<f64>,
    #[serde(default)]
    global: bool,
}

impl DiscordLimits {
    /// How long a request has to wait.
    pub(super) fn wait(&self, route: &DiscordRoute, now: Instant) -> Duration {
        let global = self.global_until.map(|until| until.saturating_duration_since(now));
        let bucket = self.bucket(route).filter(|bucket| bucket.remaining == 0);
        let bucket = bucket.map(|bucket| bucket.resets_at.saturating_duration_since(now));
        global.unwrap_or_default().max(bucket.unwrap_or_default())
    }

    /// Counts a request that is sent now, before its answer says what is left.
    pub(super) fn spend(&mut self, route: &DiscordRoute) {
        let Some(name) = self.routes.get(route) else { return };
        if let Some(bucket) = self.buckets.get_mut(&(name.clone(), route.resource.clone())) {
            bucket.remaining = bucket.remaining.saturating_sub(1);
        }
    }

    /// Reads the limits off an answer. Returns how long to wait where it was refused for one.
    pub(super) fn observe(&mut self, route: &DiscordRoute, answer: &ApiAnswer, now: Instant) -> Option<Duration> {
        self.make_room(now);
        let header = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok());
        if let (Some(name), Some(remaining), Some(reset_after)) = (
            header("x-ratelimit-bucket"),
            header("x-ratelimit-remaining").and_then(|text| text.parse().ok()),
            header("x-ratelimit-reset-after").and_then(|text| bounded_wait(text.parse().ok()?)),
        ) {
            self.routes.insert(route.clone(), name.to_owned());
            let bucket = DiscordBucket { remaining, resets_at: now + reset_after };
            self.buckets.insert((name.to_owned(), route.resource.clone()), bucket);
        }
        if answer.status != StatusCode::TOO_MANY_REQUESTS {
            return None;
        }
        let body: DiscordLimitBody = answer.json().unwrap_or(DiscordLimitBody { retry_after: None, global: false });
        // The body has fractions of a second, the header has none.
        let in_body = body.retry_after.and_then(bounded_wait);
        let wait = in_body.or_else(|| answer.retry_after()).unwrap_or(DEFAULT_RETRY_AFTER);
        if body.global || header("x-ratelimit-global") == Some("true") {
            self.global_until = Some(now + wait);
        }
        Some(wait)
    }

    fn bucket(&self, route: &DiscordRoute) -> Option<&DiscordBucket> {
        let name = self.routes.get(route)?;
        self.buckets.get(&(name.clone(), route.resource.clone()))
    }

    fn make_room(&mut self, now: Instant) {
        if self.routes.len() >= MAX_ROUTES || self.buckets.len() >= MAX_ROUTES {
            self.buckets.retain(|_, bucket| bucket.resets_at > now);
            let buckets = &self.buckets;
            self.routes.retain(|route, name| buckets.contains_key(&(name.clone(), route.resource.clone())));
        }
        if self.buckets.len() >= MAX_ROUTES {
            // Only limits that are all in force: forgetting one costs a 429.
            self.buckets.clear();
            self.routes.clear();
        }
    }
}
