//! `salon serve --check`: everything a start would need is tried, nothing is started, and nothing made stays.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use salon_gateway::auth::SigningKeys;
use salon_gateway::auth::jwks::Jwks;
use salon_gateway::config::Config;

use futures_util::future::join_all;
use salon_guests::Spec;
use salon_guests::upstream::{GuestTarget, UpstreamError, UpstreamSetup, probe};

use super::variables;
use crate::guests::plan::GuestPlan;
use crate::hand_over;
use crate::trouble::Trouble;

/// How long the server of a guest may take to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) async fn run(config: &Config, file: Option<&Path>, plan: &GuestPlan) -> Result<(), Trouble> {
    let data = config.data.display().to_string();
    let mut notes = salon_gateway::check(config).map_err(|error| super::explain(error, &data))?;
    #[cfg(feature = "nats")]
    salon_gateway::check_log(config).await.map_err(|error| super::explain(error, &data))?;
    notes.extend(variables::unknown());
    for address in [Some(config.listen), config.framed.listen].into_iter().flatten() {
        if let Err(error) = salon_gateway::listen(address) {
            notes.push(format!("`{address}` cannot be listened on now: {error}; a start would fail"));
        }
    }
    let key = match SigningKeys::find(&config.data).map_err(Trouble::usage)? {
        Some(_) => "the gateway's own",
        None => "the gateway's own, to be made at the first start",
    };
    let mut keys = key.to_owned();
    if let Some(source) = &config.auth.jwks {
        let jwks = Jwks::new(source.clone(), config.auth.jwks_max_age).map_err(Trouble::usage)?;
        let keys_there = jwks.fetch().await.map_err(|error| Trouble::usage(anyhow!("`{source}`: {error}")))?;
        let _ = write!(keys, ", and {} from {source}", keys_there.len());
    }
    let mut text = "The configuration is good. This would be served:\n".to_owned();
    for (what, value) in report(config, file, keys) {
        let _ = write!(text, "\n  {what:<12}{value}");
    }
    for (what, value) in guests(plan).await.into_iter().chain(notes.into_iter().map(|note| ("note", note))) {
        let _ = write!(text, "\n  {what:<12}{value}");
    }
    hand_over(format_args!("{text}"))
}

/// What an acknowledgement is worth, or where that is decided.
fn store(config: &Config) -> (&'static str, String) {
    let (name, topics) = (&config.nats.name, config.nats.topics);
    match config.nats_servers().map(|servers| servers.hosts().join(", ")) {
        None => ("durability", config.sqlite.durability.word().into()),
        Some(servers) => ("store", format!("`{name}` on NATS at {servers}, at most {topics} topics")),
    }
}

fn report(config: &Config, file: Option<&Path>, keys: String) -> Vec<(&'static str, String)> {
    let transport = match (config.tls(), config.listen.ip().is_loopback()) {
        (Some((cert, _)), _) => format!("TLS with {}", cert.display()),
        (None, true) => "plain, reachable from this machine alone".into(),
        (None, false) => "plain, reachable from other machines".into(),
    };
    let kept = match (config.retention.age, config.retention.count) {
        (None, None) => "for ever".into(),
        (Some(age), None) => format!("for {}", time(age)),
        (None, Some(count)) => format!("the newest {count} a topic"),
        (Some(age), Some(count)) => format!("for {}, the newest {count} a topic", time(age)),
    };
    let limits = &config.limits;
    let mut report = vec![
        ("settings", file.map_or("defaults, variables and flags".into(), |file| file.display().to_string())),
        ("address", config.listen.to_string()),
        ("transport", transport),
        ("data", config.data.display().to_string()),
        store(config),
        ("kept", kept),
        ("keys", keys),
        (
            "limits",
            format!(
                "message {}, messages a second {} (at once {}), participants a topic {}",
                limit(limits.message, " bytes"),
                limit(limits.rate, ""),
                limit(limits.burst, ""),
                limit(limits.participants, ""),
            ),
        ),
        ("audit", config.audit_path().map_or("none".into(), |path| path.display().to_string())),
        ("log lines", format!("{}, {:?}", config.log.filter, config.log.format).to_lowercase()),
    ];
    if let Some(framed) = config.framed.listen {
        report.insert(2, ("framed", framed.to_string()));
    }
    if !config.http.origins.is_empty() {
        report.push(("origins", config.http.origins.join(", ")));
    }
    if !config.http.hosts.is_empty() {
        report.push(("hosts", config.http.hosts.join(", ")));
    }
    if let Some(url) = &config.http.public_url {
        report.push(("public URL", url.clone()));
    }
    if !config.auth.authorization_servers.is_empty() {
        report.push(("tokens from", config.auth.authorization_servers.join(", ")));
    }
    if !config.ui.enabled {
        report.push(("web page", "none".into()));
    }
    if !config.ui.allow.is_empty() {
        report.push(("page may call", config.ui.allow.join(", ")));
    }
    if config.dev {
        report.push(("dev", "anyone on this machine gets a token for the asking".into()));
    }
    report
}

/// The guests, and what would keep one away: a program is looked up and not started, a URL is asked what it speaks.
async fn guests(plan: &GuestPlan) -> Vec<(&'static str, String)> {
    let guests = plan.guests.iter().map(|planned| async move {
        let (id, topic) = (&planned.key.id, &planned.key.topic);
        let told = match &planned.ready {
            Ok(terms) => match try_guest(&terms.spec(&planned.key)).await {
                Ok(()) => format!("{id} in {topic}"),
                Err(error) => format!("{id} in {topic} would not come: {error}"),
            },
            Err(error) => format!("{id} in {topic} would be left out: {error:#}"),
        };
        ("guest", crate::safe::line(&told))
    });
    let warning = plan.warnings.iter().map(|warning| ("note", warning.clone()));
    join_all(guests).await.into_iter().chain(warning).collect()
}

async fn try_guest(spec: &Spec) -> Result<(), UpstreamError> {
    spec.target.check()?;
    if let GuestTarget::Url { .. } = spec.target {
        let setup = UpstreamSetup::new(spec.name.as_str());
        match probe(&spec.target, &setup, PROBE_TIMEOUT).await {
            // Its own tokens are for that, which are not tried here.
            Err(UpstreamError::Unauthorized { .. }) if spec.oauth.is_some() => {}
            probed => drop(probed?),
        }
    }
    Ok(())
}

fn limit(value: usize, unit: &str) -> String {
    if value == 0 { "unlimited".into() } else { format!("{value}{unit}") }
}

/// A length of time in the largest unit that fits it.
fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [("days", 24 * 60 * 60), ("hours", 60 * 60), ("minutes", 60)];
    let fitting = units.iter().find(|(_, unit)| seconds >= *unit && seconds.is_multiple_of(*unit));
    fitting.map_or(format!("{} seconds", time.as_secs_f64()), |(name, unit)| format!("{} {name}", seconds / unit))
}
