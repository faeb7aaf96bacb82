//! The checks, in the order in which one thing needs another. What cannot be looked at any more is left out.

use std::io;
use std::time::Duration;

use salon_client::{Client, Health, RestError};
use salon_protocol::{PROTOCOL, Timestamp, TopicName};
use tokio::net::TcpStream;

use super::{DoctorArgs, DoctorFinding, DoctorReport};
use crate::access::claims::TokenClaims;
use crate::access::credentials::{self, StoredLogins};
use crate::access::{self, AccessTokens, GatewayUrl, TokenSource};
use crate::clock;
use crate::commands::login;
use crate::commands::outcome::{OTHER_KEY, other_scheme};
use crate::safe;

/// How long connecting may take.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Beyond this a token that has just been made may not be valid yet for the gateway.
const MAX_SKEW_MS: u64 = 30_000;

/// Beyond this the clocks deserve a look.
const SOME_SKEW_MS: u64 = 5_000;

/// A token that ends within this time is worth a word.
const SOON_MS: u64 = 5 * 60 * 1000;

pub(super) async fn all(args: &DoctorArgs, report: &mut DoctorReport) {
    let stored = credentials(report);
    let place = match args.access.place_among(&stored) {
        Ok(place) => place,
        Err(error) => return report.add(DoctorFinding::error("gateway", &error, "name one with `--gateway`")),
    };
    report.gateway = Some(place.to_string());
    let tokens = token(args, &place, &stored, report);
    let ca = match args.access.certificate(&place, &stored) {
        Ok(ca) => ca,
        Err(error) => return report.add(DoctorFinding::error("ca", &error, "give the right file with `--ca`")),
    };
    let gateway = match access::gateway(&place, ca.as_deref()) {
        Ok(gateway) => gateway,
        Err(error) => return report.add(DoctorFinding::error("ca", &error, "give the right file with `--ca`")),
    };
    if !reachable(&place, report).await {
        return;
    }
    let Some(AccessTokens { source, provider, .. }) = tokens else {
        // What needs no token can still be looked at.
        let client = Client::new(gateway, salon_client::StaticToken::new("none"));
        healthy(&client, &place, report).await;
        return;
    };
    let client = Client::new(gateway, provider);
    if !healthy(&client, &place, report).await {
        return;
    }
    let claims = claims(args, &client, &source, report).await;
    if accepted(&client, &source, claims.is_some(), report).await
        && let Some(topic) = &args.topic
    {
        enter(&client, topic, claims.as_ref(), report).await;
    }
}

/// The credentials file is private, or there is none.
fn credentials(report: &mut DoctorReport) -> StoredLogins {
    let path = credentials::path().filter(|path| path.exists());
    match (StoredLogins::read(), path) {
        (Err(error), _) => {
            report.add(DoctorFinding::error("credentials", &error, "fix or delete the file"));
            StoredLogins::default()
        }
        (Ok(stored), None) => stored,
        (Ok(stored), Some(path)) => {
            let count = stored.all().count();
            let logins = if count == 1 { "1 login".into() } else { format!("{count} logins") };
            let private = format!("`{}` is private and has {logins}", path.display());
            report.add(match path.parent().map(credentials::mode) {
                Some(Ok(mode)) if mode & 0o077 != 0 => DoctorFinding::warning(
                    "credentials",
                    format!("{private}, but its directory is open to others (mode {mode:03o})"),
                    "run `chmod 700` on the directory",
                ),
                _ => DoctorFinding::ok("credentials", private),
            });
            stored
        }
    }
}

/// There is a token, from somewhere.
fn token(
    args: &DoctorArgs,
    place: &GatewayUrl,
    stored: &StoredLogins,
    report: &mut DoctorReport,
) -> Option<AccessTokens> {
    match args.access.tokens_among(place, stored, &[]) {
        Ok(tokens) => Some(tokens),
        Err(error) => {
            report.add(DoctorFinding::error(
                "token",
                &error,
                "give one with `--token`, `SALON_TOKEN` or `salon login`",
            ));
            None
        }
    }
}

/// Its name resolves, and something accepts connections there.
async fn reachable(place: &GatewayUrl, report: &mut DoctorReport) -> bool {
    let named = (place.host(), place.port());
    let addresses: Vec<_> = match tokio::time::timeout(CONNECT_TIME, tokio::net::lookup_host(named)).await {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => {
            let hint = "is the name right, and is the network there?";
            report.add(DoctorFinding::problem("dns", format!("`{}` cannot be looked up: {error}", place.host()), hint));
            return false;
        }
        Err(_) => {
            let hint = "is the network there?";
            report.add(DoctorFinding::problem("dns", format!("`{}` cannot be looked up in time", place.host()), hint));
            return false;
        }
    };
    // An address that is written as a number needs no looking up.
    if place.host().parse::<std::net::IpAddr>().is_err() {
        let list = addresses.iter().map(|address| address.ip().to_string()).collect::<Vec<_>>().join(", ");
        report.add(DoctorFinding::ok("dns", format!("`{}` is {list}", place.host())));
    }
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name leads to no address");
    for address in addresses {
        match tokio::time::timeout(CONNECT_TIME, TcpStream::connect(address)).await {
            Ok(Ok(_)) => {
                report.add(DoctorFinding::ok("tcp", format!("{address} takes connections")));
                return true;
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::new(io::ErrorKind::TimedOut, "no connection in time"),
        }
    }
    let hint = match (last.kind(), place.is_loopback()) {
        (io::ErrorKind::ConnectionRefused, true) => "nothing listens there: start it with `salon serve`",
        (io::ErrorKind::ConnectionRefused, false) => {
            "nothing listens there: is the port right, and does the gateway run?"
        }
        _ => "is a firewall in the way?",
    };
    report.add(DoctorFinding::problem("tcp", format!("{place} cannot be connected to: {last}"), hint));
    false
}

/// It is a gateway, speaks our protocol, takes messages, and has about the same time.
async fn healthy(client: &Client, place: &GatewayUrl, report: &mut DoctorReport) -> bool {
    let before = clock::now();
    let health = match client.health().await {
        Ok(health) => health,
        Err(error) if let Some(hint) = other_scheme(place, &error) => {
            let message = format!("what answers there does not speak {}", place.scheme());
            report.add(DoctorFinding::problem("tls", message, hint));
            return false;
        }
        Err(RestError::Unreachable { source, .. }) if place.is_secure() => {
            let hint = "if its certificate is signed by an authority of your own, give that with `--ca`";
            report.add(DoctorFinding::problem("tls", format!("no secure connection: {source}"), hint));
            return false;
        }
        Err(error) => {
            let hint = "is it a Salon gateway, and is it http or https?";
            report.add(DoctorFinding::problem(
                "health",
                format!("`{place}/health` does not answer as it should: {error}"),
                hint,
            ));
            return false;
        }
    };
    let after = clock::now();
    if place.is_secure() {
        report.add(DoctorFinding::ok("tls", "the certificate is trusted"));
    } else if !place.is_loopback() {
        let hint = "use https where the gateway has it; `salon serve --tls-cert` and `--tls-key` give it to one";
        report.add(DoctorFinding::warning("tls", "none: tokens and messages can be read on the way", hint));
    }
    let Health { status, timestamp, uptime, protocol, .. } = health;
    if protocol != PROTOCOL {
        let hint = "this `salon` and the gateway are of different times: bring the older one up to date";
        report.add(DoctorFinding::problem("protocol", format!("it speaks {protocol}, not {PROTOCOL}"), hint));
        return false;
    }
    report.add(DoctorFinding::ok("health", format!("{status}, up for {}, speaks {protocol}", long(uptime))));
    report.add(match client.ready().await {
        Ok(()) => DoctorFinding::ok("ready", "it takes messages"),
        Err(error) => DoctorFinding::problem("ready", error.to_string(), "its log lines say why; is its disk full?"),
    });
    report.add(skew(&timestamp, before, after));
    true
}

/// How far the gateway's clock is from ours, which is known up to the time its answer took.
fn skew(theirs: &str, before: Timestamp, after: Timestamp) -> DoctorFinding {
    let Some(theirs) = Timestamp::parse(theirs) else {
        return DoctorFinding::warning(
            "clock",
            "the gateway does not tell its time",
            "is something between you and it?",
        );
    };
    let (off, word) =
        if theirs < before { (before.0 - theirs.0, "behind") } else { (theirs.0.saturating_sub(after.0), "ahead of") };
    let message = format!("the gateway's clock is {} {word} this machine's", long(off as f64 / 1000.0));
    let hint = "set the clocks right: tokens are valid from one time to another";
    match off {
        MAX_SKEW_MS.. => DoctorFinding::problem("clock", message, hint),
        SOME_SKEW_MS.. => DoctorFinding::warning("clock", message, hint),
        _ => DoctorFinding::ok("clock", "the gateway's is this machine's"),
    }
}

/// The claims of the token; `None` when they show that it is invalid.
async fn claims(
    args: &DoctorArgs,
    client: &Client,
    source: &TokenSource,
    report: &mut DoctorReport,
) -> Option<TokenClaims> {
    let claims = match args.access.identity(client).await {
        Ok(claims) => claims,
        Err(error) => {
            report.add(DoctorFinding::error("token", &error, "`salon token` makes one, where the gateway runs"));
            return None;
        }
    };
    let now = clock::now();
    let opens = login::shown_topics(&claims.topics);
    let made = match source {
        TokenSource::LocalKey(data) => format!("made with the key in `{}`, ", data.display()),
        _ => String::new(),
    };
    let is_for = format!("{made}is for `{}` and opens {opens}", claims.participant);
    let again = "get a new one, and store it with `salon login`";
    let finding = match (claims.expires, claims.begins) {
        (Some(end), _) if end <= now => {
            DoctorFinding::problem("token", format!("{is_for}; it expired at {}", clock::second(end)), again)
        }
        (_, Some(begin)) if begin.0 > now.0 + MAX_SKEW_MS => {
            let message = format!("{is_for}; it is not valid before {}", clock::second(begin));
            DoctorFinding::problem("token", message, "wait, or look at the clocks")
        }
        (None, _) => DoctorFinding::problem("token", format!("{is_for}; it does not say until when (`exp`)"), again),
        (Some(end), _) if end.0 - now.0 < SOON_MS => {
            DoctorFinding::warning("token", format!("{is_for}; it expires at {}, soon", clock::second(end)), again)
        }
        (Some(end), _) => DoctorFinding::ok("token", format!("{is_for}, until {}", clock::second(end))),
    };
    let good = !finding.is_problem();
    report.add(finding);
    good.then_some(claims)
}

/// The gateway takes the token.
async fn accepted(client: &Client, source: &TokenSource, looks_good: bool, report: &mut DoctorReport) -> bool {
    let finding = match client.topics().await {
        Ok(_) => DoctorFinding::ok("access", "the gateway accepts the token"),
        Err(error) => {
            let hint = if matches!(source, TokenSource::LocalKey(_)) {
                OTHER_KEY
            } else if looks_good {
                "a token works only for the gateway whose key signed it; get one from there"
            } else {
                "see what is said of the token above"
            };
            DoctorFinding::problem("access", format!("the gateway does not accept the token: {error}"), hint)
        }
    };
    let accepted = finding.is_ok();
    report.add(finding);
    accepted
}

/// The topic can be entered, over a WebSocket as live commands do.
async fn enter(client: &Client, topic: &TopicName, claims: Option<&TokenClaims>, report: &mut DoctorReport) {
    if claims.is_some_and(|claims| !claims.opens(topic)) {
        let hint = format!(
            "where the gateway runs, `salon token {} --as ID` makes a token that opens it",
            safe::shell(topic.as_str())
        );
        return report.add(DoctorFinding::problem("topic", format!("`{topic}` is not open to this token"), hint));
    }
    // Shared, so that a participant with the same token stays.
    report.add(match client.room(topic.clone()).share().once().join().await {
        Ok(room) => {
            let others = room.roster().iter().filter(|present| present.id != *room.id()).count();
            room.leave().await;
            let others = if others == 1 { "1 other".into() } else { format!("{others} others") };
            DoctorFinding::ok("topic", format!("`{topic}` was entered and left again; {others} there"))
        }
        Err(error @ RestError::Refused(_)) => DoctorFinding::problem(
            "topic",
            format!("`{topic}` cannot be entered: {error}"),
            "the gateway's log lines say more",
        ),
        Err(error) => {
            let hint = "does a proxy in between let WebSockets pass?";
            DoctorFinding::problem("topic", format!("`{topic}` cannot be entered: {error}"), hint)
        }
    });
}

/// A length of time for people.
fn long(seconds: f64) -> String {
    match seconds as u64 {
        0..=119 => format!("{seconds:.0} s"),
        minutes @ 120..=7199 => format!("{} min", minutes / 60),
        hours @ 7200..=172_799 => format!("{} h", hours / 3600),
        days => format!("{} days", days / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_compared_up_to_the_time_an_answer_takes() {
        let told = |theirs: u64| {
            let finding = skew(&Timestamp(theirs).to_string(), Timestamp(1_000_000), Timestamp(1_002_000));
            serde_json::to_value(finding).expect("JSON")["status"].as_str().expect("a status").to_owned()
        };
        assert_eq!([996_000, 1_001_000, 1_006_000].map(told), ["ok"; 3]);
        assert_eq!([994_000, 1_008_000].map(told), ["warning"; 2]);
        assert_eq!([960_000, 1_040_000].map(told), ["problem"; 2]);
    }

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        assert_eq!([0.4, 119.0, 120.0, 7200.0, 200_000.0].map(long), ["0 s", "119 s", "2 min", "2 h", "2 days"]);
    }
}
