//! The values settings have, each with one way of writing it in files, variables and flags alike.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use reqwest::Url;
use salon_control::Namespace;
use salon_log::Durability;
use salon_protocol::{ParticipantId, ParticipantKind};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

use super::guest::{Feature, GuestTransport};
use crate::auth::Confirmation;
use crate::auth::jwks::JwksSource;

/// A value that does not fit, as a sentence that says what would.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidValue(String);

impl InvalidValue {
    pub(super) fn new(text: &str, expected: impl fmt::Display) -> Self {
        Self(format!("`{text}` is not {expected}"))
    }
}

macro_rules! value {
    ($(#[$doc:meta])* $name:ident($inner:ty), $expected:literal, $parse:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(pub $inner);

        impl FromStr for $name {
            type Err = InvalidValue;
            fn from_str(text: &str) -> Result<Self, InvalidValue> {
                let parse: fn(&str) -> Option<$inner> = $parse;
                parse(text).map(Self).ok_or_else(|| InvalidValue::new(text, $expected))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }
                    fn visit_str<E: Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_i64<E: Error>(self, number: i64) -> Result<$name, E> {
                        self.visit_str(&number.to_string())
                    }
                    fn visit_u64<E: Error>(self, number: u64) -> Result<$name, E> {
                        self.visit_str(&number.to_string())
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }
    };
}

/// Who may make the first settings of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicCreation {
    /// Everybody whose token names the topic.
    Anyone,
    /// Who has the capability `manage` in the token, or the permission `operator`.
    Permitted,
    /// Who has the permission `operator`.
    Operator,
}

impl TopicCreation {
    fn word(self) -> &'static str {
        match self {
            Self::Anyone => "anyone",
            Self::Permitted => "permitted",
            Self::Operator => "operator",
        }
    }
}

value!(
    /// Where to listen.
    Address(SocketAddr),
    "an address and port such as `127.0.0.1:8787`, `[::1]:8787` or `localhost:8787`",
    |text| match text.strip_prefix("localhost:") {
        // The address that names of this machine alone lead to, whatever its resolver says.
        Some(port) => port.parse().ok().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port))),
        None => text.parse().ok(),
    }
);
value!(
    /// A number of bytes.
    Size(usize),
    "a number of bytes such as `65536`, `64KiB` or `1MiB`",
    |text| {
        let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("kB", 1000), ("MB", 1_000_000), ("GB", 1_000_000_000)];
        let (digits, unit) = split(text);
        let factor = match unit {
            "" | "B" => 1,
            _ => units.iter().find(|(name, _)| *name == unit)?.1,
        };
        digits.parse::<usize>().ok()?.checked_mul(factor)
    }
);
value!(
    /// A length of time; `0` is none.
    Span(Duration),
    "a length of time such as `500ms`, `30s`, `5m`, `12h` or `30d`",
    parse_duration
);
value!(
    /// A length of time that cannot be none.
    Deadline(Duration),
    "a length of time more than 0 such as `30s` or `5m`",
    |text| parse_duration(text).filter(|span| !span.is_zero())
);
value!(
    /// How many; `0` is no limit.
    Count(usize),
    "a whole number (0: no limit)",
    |text| text.parse::<u32>().ok()?.try_into().ok()
);
value!(
    /// How long entries are kept; `0` is for ever.
    RetentionAge(Option<Duration>),
    "a length of time such as `500ms`, `30s`, `5m`, `12h` or `30d`",
    |text| parse_duration(text).map(|age| Some(age).filter(|age| !age.is_zero()))
);
value!(
    /// How many entries of a topic are kept; `0` is any number.
    RetentionCount(Option<u64>),
    "a whole number (0: no limit)",
    |text| text.parse::<u32>().ok().map(|count| Some(u64::from(count)).filter(|count| *count > 0))
);
value!(
    /// How many levels JSON may nest. Always limited: the scan that counts them uses stack for each.
    Depth(usize),
    "a whole number from 1 to 1024",
    |text| text.parse().ok().filter(|depth| (1..=1024).contains(depth))
);
value!(
    /// A web page's origin, as browsers write it.
    Origin(String),
    "an origin as browsers send it, such as `https://chat.example` or `http://localhost:5173`",
    |text| {
        let (scheme, host) = text.split_once("://")?;
        let plain = |part: &str, more: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || more.contains(c))
        };
        (plain(scheme, "+-.") && plain(host, ".-:[]_")).then(|| text.to_owned())
    }
);
value!(
    /// A name in a request's `Host` header, without the port: in lower case, an IPv6 address in brackets.
    HostName(String),
    "a host name without scheme and port, such as `chat.example`",
    |text| {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<Ipv6Addr>() {
            return Some(format!("[{address}]"));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        (!text.is_empty() && text.chars().all(allowed)).then(|| text.to_ascii_lowercase())
    }
);
value!(
    /// Where clients reach the gateway, without a slash at its end.
    PublicUrl(String),
    "a URL such as `https://chat.example` or `https://example.org/salon`, without a query",
    |text| is_plain_url(text).then(|| text.trim_end_matches('/').to_owned())
);
value!(
    /// Who gives out tokens: an issuer's identifier, exactly as the issuer writes it.
    Issuer(String),
    "the URL of an authorization server such as `https://id.example`, without a query",
    |text| is_plain_url(text).then(|| text.to_owned())
);
value!(
    /// The audience of access tokens, exactly as the authorization server writes it.
    ResourceUrl(String),
    "the URL that access tokens have as their audience such as `https://chat.example`, without a query",
    |text| is_plain_url(text).then(|| text.to_owned())
);
value!(
    /// A claim of a token: its name, or a JSON Pointer.
    ClaimName(String),
    "a claim's name such as `scope` or `https://chat.example/topics`, or a JSON Pointer such as `/realm_access/roles`",
    |text| ((1..=256).contains(&text.len()) && !text.chars().any(char::is_control)).then(|| text.to_owned())
);
value!(
    /// A public key of Ed25519 with which messages may be signed, and what it is called.
    IntegrityKey((String, Confirmation)),
    "a name and a public key of Ed25519 in base64url, such as `robots=11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo`",
    |text| {
        let (id, key) = text.split_once('=')?;
        let is_name = (1..=256).contains(&id.len()) && !id.chars().any(char::is_control);
        Confirmation::new(key).filter(|_| is_name).map(|key| (id.to_owned(), key))
    }
);
value!(
    /// A namespace of participant ids, and the bridge that it belongs to.
    NamespaceOwner((Namespace, ParticipantId)),
    "a namespace and the participant that is its bridge, such as `matrix:*=bridge:matrix`",
    |text| {
        // An id may have the sign in it, and a namespace ends with the star before it.
        let (namespace, bridge) = text.split_once("*=")?;
        let bridge = ParticipantId::new(bridge).ok().filter(|bridge| !bridge.is_reserved())?;
        Some((format!("{namespace}*").parse().ok()?, bridge))
    }
);
value!(
    /// Tools of participants, with `*` for any characters.
    ToolPattern(String),
    "a participant and a tool such as `rover/position`, `rover/*` or `*/search`",
    |text| {
        let (who, tool) = text.split_once('/')?;
        let fits = |part: &str| !part.is_empty() && part.len() <= 256 && !part.chars().any(char::is_control);
        (fits(who) && fits(tool)).then(|| text.to_owned())
    }
);
value!(
    /// Who may make the first settings of a topic.
    Creation(TopicCreation),
    "`anyone`, `permitted` or `operator`",
    |text| [TopicCreation::Anyone, TopicCreation::Permitted, TopicCreation::Operator].into_iter().find(|who| who.word() == text)
);
value!(
    /// What a store is called on its servers.
    StoreName(String),
    "1 to 32 letters, digits, `-` or `_`",
    |text| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        ((1..=32).contains(&text.len()) && text.bytes().all(fits)).then(|| text.to_owned())
    }
);
value!(
    /// How many servers keep everything; `0` leaves it to how the store was made.
    Replicas(Option<usize>),
    "1, 3 or 5, or 0 for as many as the store was made with",
    |text| {
        let count = text.parse().ok().filter(|count| [0, 1, 3, 5].contains(count))?;
        Some(Some(count).filter(|count| *count > 0))
    }
);
value!(
    /// How many topics there may be.
    Topics(u64),
    "a whole number from 1 to 1000000",
    |text| text.parse().ok().filter(|count| (1..=1_000_000).contains(count))
);
value!(
    /// How many streams share the topics of a store on NATS.
    ShardCount(u16),
    "a whole number from 1 to 256",
    |text| text.parse().ok().filter(|count| (1..=256).contains(count))
);
value!(
    /// What an acknowledgement is worth.
    Durable(Durability),
    "one of `full`, `os`",
    |text| [Durability::Full, Durability::Os].into_iter().find(|durability| durability.word() == text)
);
value!(
    /// How log lines look.
    Format(LogFormat),
    "one of `human`, `json`",
    |text| match text {
        "human" => Some(LogFormat::Human),
        "json" => Some(LogFormat::Json),
        _ => None,
    }
);
value!(
    /// What a participant is.
    Kind(ParticipantKind),
    "one of `human`, `agent`, `robot`",
    |text| text.parse().ok()
);
value!(
    /// A name shown to people.
    DisplayName(String),
    "a name of at most 256 characters, none of them a control character",
    |text| (text.chars().count() <= 256 && !text.chars().any(char::is_control)).then(|| text.to_owned())
);
value!(
    /// What of an MCP server a room may use.
    ExposedFeature(Feature),
    "one of `tools`, `resources`, `prompts`",
    |text| match text {
        "tools" => Some(Feature::Tools),
        "resources" => Some(Feature::Resources),
        "prompts" => Some(Feature::Prompts),
        _ => None,
    }
);
value!(
    /// How an MCP server at a URL is spoken to.
    UrlTransport(GuestTransport),
    "one of `http`, `sse`",
    |text| match text {
        "http" => Some(GuestTransport::Http),
        "sse" => Some(GuestTransport::Sse),
        _ => None,
    }
);

/// Where messages are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Store {
    /// In the data directory.
    Sqlite,
    /// On the NATS servers of one cluster.
    Nats(Servers),
}

/// A store as it is written. An error does not repeat what was given: it may have a password in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrl(pub Store);

impl FromStr for StoreUrl {
    type Err = InvalidValue;
    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        if text == "sqlite" {
            return Ok(Self(Store::Sqlite));
        }
        let server = |text: &str| {
            let url = Url::parse(text).ok().filter(|url| url.has_host() && ["nats", "tls"].contains(&url.scheme()));
            url.filter(|url| ["", "/"].contains(&url.path()) && url.query().is_none()).map(|_| text.to_owned())
        };
        let servers = text.split(',').map(|part| server(part.trim())).collect::<Option<Vec<_>>>();
        servers.map(|servers| Self(Store::Nats(Servers(servers)))).ok_or_else(|| InvalidValue(STORES.into()))
    }
}

const STORES: &str =
    "a store is `sqlite`, or NATS servers such as `nats://host:4222` or `tls://host:4222`, several with commas between";

impl<'de> Deserialize<'de> for StoreUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// URLs of servers, which may have passwords in them.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Servers(pub Vec<String>);

impl fmt::Debug for Servers {
    /// Without what may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.hosts()).finish()
    }
}

impl Servers {
    /// Their hosts and ports, for people to read.
    pub fn hosts(&self) -> Vec<String> {
        let host = |text: &String| {
            let url = Url::parse(text).ok()?;
            Some(format!("{}:{}", url.host_str()?, url.port().unwrap_or(4222)))
        };
        self.0.iter().filter_map(host).collect()
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For a person at a terminal.
    Human,
    /// One object a line.
    Json,
}

/// Where public keys are; its own refusals say more than one sentence could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeysAt(pub JwksSource);

impl FromStr for KeysAt {
    type Err = InvalidValue;
    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        text.parse().map(Self).map_err(|error: crate::auth::jwks::JwksError| InvalidValue(error.to_string()))
    }
}

impl<'de> Deserialize<'de> for KeysAt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Whether a text is a URL of HTTP with nothing but a host, perhaps a port, and a path, written in the characters of URLs.
fn is_plain_url(text: &str) -> bool {
    let written = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:/[]@!$&'()*+,;=%".contains(&byte));
    // The parser forgives slashes too many and too few.
    let spelt = ["http://", "https://"]
        .iter()
        .any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| !rest.starts_with('/')));
    let url = Url::parse(text).ok();
    written && spelt && url.is_some_and(|url| url.has_host() && url.username().is_empty() && url.password().is_none())
}

fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    (digits, unit.trim_start())
}

fn parse_duration(text: &str) -> Option<Duration> {
    let (digits, unit) = split(text);
    let number: u64 = digits.parse().ok()?;
    let seconds = match unit {
        "" if number == 0 => 0,
        "ms" => return Some(Duration::from_millis(number)),
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return None,
    };
    // A century is long enough, and keeps sums of times far from their end.
    let seconds = number.checked_mul(seconds).filter(|seconds| *seconds <= 100 * 366 * 24 * 60 * 60)?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: FromStr<Err = InvalidValue> + fmt::Debug>(texts: &[&str]) -> String {
        let told = |text: &&str| text.parse::<T>().map_or_else(|e| e.to_string(), |v| format!("{text} → {v:?}"));
        texts.iter().map(told).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn sizes() {
        insta::assert_snapshot!(read::<Size>(&["0", "65536", "64KiB", "1 MiB", "2GiB", "5MB", "7B", "1mib", "-1", "1.5MiB", "MiB", "", "99999999999999GiB"]), @"
        0 → Size(0)
        65536 → Size(65536)
        64KiB → Size(65536)
        1 MiB → Size(1048576)
        2GiB → Size(2147483648)
        5MB → Size(5000000)
        7B → Size(7)
        `1mib` is not a number of bytes such as `65536`, `64KiB` or `1MiB`
        `-1` is not a number of bytes such as `65536`, `64KiB` or `1MiB`
        `1.5MiB` is not a number of bytes such as `65536`, `64KiB` or `1MiB`
        `MiB` is not a number of bytes such as `65536`, `64KiB` or `1MiB`
        `` is not a number of bytes such as `65536`, `64KiB` or `1MiB`
        `99999999999999GiB` is not a number of bytes such as `65536`, `64KiB` or `1MiB`
        ");
    }

    #[test]
    fn lengths_of_time() {
        insta::assert_snapshot!(read::<Span>(&["0", "0s", "500ms", "30s", "5m", "12h", "30d", "30", "1w", "-5s", "", "999999999d"]), @"
        0 → Span(0ns)
        0s → Span(0ns)
        500ms → Span(500ms)
        30s → Span(30s)
        5m → Span(300s)
        12h → Span(43200s)
        30d → Span(2592000s)
        `30` is not a length of time such as `500ms`, `30s`, `5m`, `12h` or `30d`
        `1w` is not a length of time such as `500ms`, `30s`, `5m`, `12h` or `30d`
        `-5s` is not a length of time such as `500ms`, `30s`, `5m`, `12h` or `30d`
        `` is not a length of time such as `500ms`, `30s`, `5m`, `12h` or `30d`
        `999999999d` is not a length of time such as `500ms`, `30s`, `5m`, `12h` or `30d`
        ");
        insta::assert_snapshot!(read::<Deadline>(&["1ms", "0", "0s"]), @"
        1ms → Deadline(1ms)
        `0` is not a length of time more than 0 such as `30s` or `5m`
        `0s` is not a length of time more than 0 such as `30s` or `5m`
        ");
    }

    #[test]
    fn names_and_numbers() {
        insta::assert_snapshot!(read::<Address>(&["[::1]:0", "127.0.0.1", "localhost:80"]), @"
        [::1]:0 → Address([::1]:0)
        `127.0.0.1` is not an address and port such as `127.0.0.1:8787`, `[::1]:8787` or `localhost:8787`
        localhost:80 → Address(127.0.0.1:80)
        ");
        insta::assert_snapshot!(read::<Count>(&["0", "100", "-1", "many"]), @"
        0 → Count(0)
        100 → Count(100)
        `-1` is not a whole number (0: no limit)
        `many` is not a whole number (0: no limit)
        ");
        insta::assert_snapshot!(read::<Depth>(&["1", "1024", "0", "1025"]), @"
        1 → Depth(1)
        1024 → Depth(1024)
        `0` is not a whole number from 1 to 1024
        `1025` is not a whole number from 1 to 1024
        ");
        insta::assert_snapshot!(read::<Origin>(&["https://chat.example", "http://[::1]:5173", "*", "null", "https://chat.example/", "https://Chat.example", "https://"]), @r#"
        https://chat.example → Origin("https://chat.example")
        http://[::1]:5173 → Origin("http://[::1]:5173")
        `*` is not an origin as browsers send it, such as `https://chat.example` or `http://localhost:5173`
        `null` is not an origin as browsers send it, such as `https://chat.example` or `http://localhost:5173`
        `https://chat.example/` is not an origin as browsers send it, such as `https://chat.example` or `http://localhost:5173`
        `https://Chat.example` is not an origin as browsers send it, such as `https://chat.example` or `http://localhost:5173`
        `https://` is not an origin as browsers send it, such as `https://chat.example` or `http://localhost:5173`
        "#);
        insta::assert_snapshot!(read::<HostName>(&["Chat.Example", "10.0.0.7", "[::1]", "::1", "chat.example:80", "https://x", ""]), @r#"
        Chat.Example → HostName("chat.example")
        10.0.0.7 → HostName("10.0.0.7")
        [::1] → HostName("[::1]")
        ::1 → HostName("[::1]")
        `chat.example:80` is not a host name without scheme and port, such as `chat.example`
        `https://x` is not a host name without scheme and port, such as `chat.example`
        `` is not a host name without scheme and port, such as `chat.example`
        "#);
        insta::assert_snapshot!(read::<PublicUrl>(&["https://chat.example/", "http://10.0.0.7:80/salon", "chat.example", "ftp://chat.example", "https://a@chat.example", "https://chat.example?a", "https://chat.example/#a", "https://chat.example/\"", "https:///x", "http:", ""]), @r#"
        https://chat.example/ → PublicUrl("https://chat.example")
        http://10.0.0.7:80/salon → PublicUrl("http://10.0.0.7:80/salon")
        `chat.example` is not a URL such as `https://chat.example` or `https://example.org/salon`, without a query
        `ftp://chat.example` is not a URL such as `https://chat.example` or `https://example.org/salon`, without a query
        `https://a@chat.example` is not a URL such as `https://chat.example` or `https://example.org/salon`, without a query
        `https://chat.example?a` is not a URL such as `https://chat.example` or `https://example.org/salon`, without a query
        `https://chat.example/#a` is not a URL such as `https://chat.example` or `https://example.org/salon`, without a query
        `https://chat.example/"` is not a URL such as `https://chat.example` or `https://example.org/salon`, without a query
        `https:///x` is not a URL such as `https://chat.example` or `https://example.org/salon`, without a query
        `http:` is not a URL such as `https://chat.example` or `https://example.org/salon`, without a query
        `` is not a URL such as `https://chat.example` or `https://example.org/salon`, without a query
        "#);
        insta::assert_snapshot!(read::<Issuer>(&["https://id.example/", "https://id.example/tenant", "id.example"]), @r#"
        https://id.example/ → Issuer("https://id.example/")
        https://id.example/tenant → Issuer("https://id.example/tenant")
        `id.example` is not the URL of an authorization server such as `https://id.example`, without a query
        "#);
        insta::assert_snapshot!(read::<ToolPattern>(&["rover/position", "*/search*", "a/b/c", "rover", "/x", "rover/", "a/\n"]), @r#"
        rover/position → ToolPattern("rover/position")
        */search* → ToolPattern("*/search*")
        a/b/c → ToolPattern("a/b/c")
        `rover` is not a participant and a tool such as `rover/position`, `rover/*` or `*/search`
        `/x` is not a participant and a tool such as `rover/position`, `rover/*` or `*/search`
        `rover/` is not a participant and a tool such as `rover/position`, `rover/*` or `*/search`
        `a/
        ` is not a participant and a tool such as `rover/position`, `rover/*` or `*/search`
        "#);
        insta::assert_snapshot!(read::<Durable>(&["full", "os", "none"]), @"
        full → Durable(Full)
        os → Durable(Os)
        `none` is not one of `full`, `os`
        ");
        insta::assert_snapshot!(read::<Format>(&["human", "json", "xml"]), @"
        human → Format(Human)
        json → Format(Json)
        `xml` is not one of `human`, `json`
        ");
        insta::assert_snapshot!(read::<KeysAt>(&["keys.json", "http://id.example/keys"]), @"
        keys.json → KeysAt(JwksSource(keys.json))
        the key set's place is not usable: keys from another machine need `https://`
        ");
    }
}
