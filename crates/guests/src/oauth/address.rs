//! Which addresses OAuth may use: TLS everywhere but on this machine, and nothing on our own network for a server outside of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::AuthorizationError;

/// A server's address in the one form under which its tokens are stored: without credentials, query and fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceUrl(Url);

impl ResourceUrl {
    /// Reads an address. It must be `https`, or `http` on this machine.
    pub fn parse(text: &str) -> Result<Self, AuthorizationError> {
        let mut url = Url::parse(text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| AuthorizationError::Address(super::error::shown(text)))?;
        url.set_query(None);
        url.set_fragment(None);
        // Only an address without a host refuses these.
        let _ = (url.set_username(""), url.set_password(None));
        if url.scheme() != "https" && !is_loopback(&url) {
            return Err(AuthorizationError::Insecure(url.into()));
        }
        Ok(Self(url))
    }

    /// The address as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The address for log lines: without its path, in which some servers expect a secret.
    pub(crate) fn origin(&self) -> String {
        origin(&self.0)
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }
}

/// An address in metadata, or in what is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Endpoint(pub(crate) Url);

impl TryFrom<String> for Endpoint {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let url = Url::parse(&text).map_err(|_| "not a URL")?;
        // What stands before the `@` looks like the host to a person.
        let is_plain = url.username().is_empty() && url.password().is_none();
        if is_plain { Ok(Self(url)) } else { Err("a URL with a user") }
    }
}

impl From<Endpoint> for String {
    fn from(Endpoint(url): Endpoint) -> Self {
        url.into()
    }
}

/// Where the guest's server is. What it may make us ask follows from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkZone {
    /// This machine: it may name everything.
    Loopback,
    /// The local network: everything but this machine.
    Local,
    /// Anywhere else: public addresses alone.
    Public,
}

impl NetworkZone {
    /// The zone of a server with these addresses. Only a URL that says so is on this machine: its owner decides where a name leads, so
    /// one public address among private ones counts, and none at all is somewhere else.
    pub(crate) fn of(url: &Url, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        if is_loopback(url) {
            return Self::Loopback;
        }
        let mut addresses = addresses.into_iter().peekable();
        let local = addresses.peek().is_some() && addresses.all(|address| !is_public(address.to_canonical()));
        if local { Self::Local } else { Self::Public }
    }

    /// Whether a server in this zone may send us to an address.
    pub(crate) fn admits(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match self {
            Self::Loopback => true,
            Self::Local => !address.is_loopback() && !address.is_unspecified(),
            Self::Public => is_public(address),
        }
    }

    /// Whether a server in this zone may have us ask a URL, as far as the URL itself shows; names are judged when they are resolved.
    pub(crate) fn check(self, url: &Url) -> Result<(), AuthorizationError> {
        let local_http = self == Self::Loopback && url.scheme() == "http" && is_loopback(url);
        if url.scheme() != "https" && !local_http {
            return Err(AuthorizationError::Insecure(origin(url)));
        }
        let admitted = match literal(url) {
            Some(address) => self.admits(address),
            None => self == Self::Loopback || !is_loopback(url),
        };
        if admitted { Ok(()) } else { Err(AuthorizationError::ForeignNetwork(origin(url))) }
    }
}

/// An address without its path, which is the server's to choose and may be long.
pub(super) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn host(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_matches(['[', ']'])
}

/// The IP address that a URL has for a host.
pub(super) fn literal(url: &Url) -> Option<IpAddr> {
    host(url).parse().ok()
}

/// Whether a URL says that it is on this machine. Tokens go there without TLS, so they must not go by a proxy.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let name = host(url).trim_end_matches('.');
    let named = name == "localhost" || name.ends_with(".localhost");
    named || literal(url).is_some_and(|address| address.to_canonical().is_loopback())
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

/// Not one of the special blocks of RFC 6890.
fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let shared = a == 100 && (64..128).contains(&b);
    let assigned = a == 192 && b == 0 && c == 0;
    let benchmarks = a == 198 && (18..20).contains(&b);
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || shared
        || assigned
        || benchmarks
        || a == 0
        || a >= 240)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // NAT64 (RFC 6052) and 6to4 (RFC 3056) have an IPv4 address inside.
    let [a, b, c, .., y, z] = address.segments();
    let inner = |high: u16, low: u16| {
        let [[p, q], [r, s]] = [high.to_be_bytes(), low.to_be_bytes()];
        is_public_v4(Ipv4Addr::new(p, q, r, s))
    };
    match (a, b) {
        (0x64, 0xff9b) => inner(y, z),
        (0x2002, _) => inner(b, c),
        (0x2001, 0xdb8) => false,
        // Global unicast; everything else is for a network, a link or nobody.
        (0x2000..=0x3fff, _) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_one_form_and_no_secret_in_it() {
        let read =
            |text: &str| ResourceUrl::parse(text).map_or_else(|why| why.to_string(), |url| url.as_str().to_owned());
        assert_eq!(read("HTTPS://u:p@Mcp.Example:443/mcp?key=1#x"), "https://mcp.example/mcp");
        assert_eq!(read("http://127.0.0.1:9/mcp"), "http://127.0.0.1:9/mcp");
        assert!(read("http://mcp.example/mcp?key=1").contains("`http://mcp.example/mcp` is not https"));
        assert!(read("wss://mcp.example").contains("is not an address"));
    }

    #[test]
    fn this_machine_has_several_names() {
        let is = |text: &str| is_loopback(&Url::parse(text).unwrap());
        for own in ["localhost", "localhost.", "a.localhost", "127.0.0.1", "127.1", "[::1]", "[::ffff:127.0.0.1]"] {
            assert!(is(&format!("http://{own}:9/mcp")), "{own}");
        }
        for other in ["localhost.example", "notlocalhost", "128.0.0.1", "[::2]", "10.0.0.1"] {
            assert!(!is(&format!("http://{other}:9/mcp")), "{other}");
        }
    }

    #[test]
    fn a_server_outside_names_no_address_inside() {
        let zone = |url: &str, addresses: &[&str]| {
            let url = Url::parse(url).unwrap();
            NetworkZone::of(&url, addresses.iter().map(|text| text.parse::<IpAddr>().unwrap()))
        };
        assert_eq!(zone("https://a.example", &["93.184.215.14"]), NetworkZone::Public);
        assert_eq!(zone("https://a.example", &["10.1.2.3", "93.184.215.14"]), NetworkZone::Public);
        assert_eq!(zone("https://a.example", &[]), NetworkZone::Public);
        assert_eq!(zone("https://a.example", &["10.1.2.3", "fd00::1"]), NetworkZone::Local);
        assert_eq!(zone("https://a.example", &["127.0.0.1"]), NetworkZone::Local);
        assert_eq!(zone("http://localhost:9", &["127.0.0.1"]), NetworkZone::Loopback);
        assert_eq!(zone("http://[::1]:9", &[]), NetworkZone::Loopback);
        let says = |zone: NetworkZone, url: &str| match zone.check(&Url::parse(url).unwrap()) {
            Ok(()) => "yes",
            Err(AuthorizationError::Insecure(_)) => "insecure",
            Err(_) => "foreign",
        };
        let table = [
            ("https://id.example/x", ["yes", "yes", "yes"]),
            ("http://id.example/x", ["insecure", "insecure", "insecure"]),
            ("http://127.0.0.1:9/x", ["yes", "insecure", "insecure"]),
            ("https://localhost/x", ["yes", "foreign", "foreign"]),
            ("https://127.1/x", ["yes", "foreign", "foreign"]),
            ("https://10.0.0.1/x", ["yes", "yes", "foreign"]),
            ("https://100.64.0.1/x", ["yes", "yes", "foreign"]),
            ("https://169.254.169.254/x", ["yes", "yes", "foreign"]),
            ("https://[fd00::1]/x", ["yes", "yes", "foreign"]),
            ("https://[64:ff9b::a00:1]/x", ["yes", "yes", "foreign"]),
            ("https://[2002:a00:1::]/x", ["yes", "yes", "foreign"]),
            ("https://[2606:2800::1]/x", ["yes", "yes", "yes"]),
            ("https://0.0.0.0/x", ["yes", "foreign", "foreign"]),
            ("file:///etc/passwd", ["insecure", "insecure", "insecure"]),
        ];
        for (url, expected) in table {
            let said = [NetworkZone::Loopback, NetworkZone::Local, NetworkZone::Public].map(|zone| says(zone, url));
            assert_eq!(said, expected, "{url}");
        }
    }
}
