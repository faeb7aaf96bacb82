//! Tokens made here, for a gateway that runs on this machine and has its data where this user can read it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use salon_client::{Token, TokenError, TokenProvider};
use salon_gateway::auth::{Grant, SigningKeys};
use salon_gateway::config::{Config, Overrides};
use salon_protocol::{ParticipantId, Timestamp, TopicPattern};

use crate::args::Locations;
use crate::clock;

/// How long a token made here is good for: it never leaves this process, and a connection ends with it.
const TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Makes a token whenever one is wanted.
pub(super) struct LocalTokens {
    keys: SigningKeys,
    who: ParticipantId,
    permissions: Vec<String>,
}

impl LocalTokens {
    pub(super) fn new(keys: SigningKeys, who: ParticipantId, permissions: &[&str]) -> Self {
        let permissions = permissions.iter().map(ToString::to_string).collect();
        Self { keys, who, permissions }
    }

    fn make(&self) -> Result<Token, TokenError> {
        let now = clock::now();
        let ttl = u64::try_from(TTL.as_millis()).expect("a week fits");
        // The holder of the key may enter everywhere.
        let everywhere = vec![TopicPattern::Prefix("".into())];
        let mut grant = Grant::new(self.who.clone(), everywhere, Timestamp(now.0.saturating_add(ttl)));
        grant.permissions.clone_from(&self.permissions);
        self.keys.signer(now).sign(&grant, now).map(Token::from).map_err(TokenError::provider)
    }
}

impl TokenProvider for LocalTokens {
    fn token(&self, _refresh: bool) -> BoxFuture<'_, Result<Token, TokenError>> {
        ready(self.make()).boxed()
    }
}

/// The gateway that `salon serve` would be if it were started here.
pub(super) struct Here {
    /// Where its data is, and its key.
    pub(super) data: PathBuf,
    /// Its address, where a configuration file gives one.
    pub(super) url: Option<String>,
}

impl Here {
    /// What is meant by a data directory that was named, and else by the configuration file that is found here.
    pub(super) fn find(data: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(data) = data {
            // Another gateway than the one that a file here would describe.
            return Ok(Self { data: data.to_owned(), url: None });
        }
        let config = std::env::var_os("SALON_CONFIG").filter(|value| !value.is_empty()).map(PathBuf::from);
        let file = Locations { config, data: None }.trusted_file()?;
        let given = file.map(|path| Overrides::from_file(&path)).transpose()?.unwrap_or_default();
        let secure = given.tls.cert.is_some();
        let url = given.listen.and_then(|address| url(address.0, secure));
        Ok(Self { data: given.data.unwrap_or_else(|| Config::default().data), url })
    }

    /// Its keys, if it has some that this user can read.
    pub(super) fn keys(&self) -> anyhow::Result<Option<SigningKeys>> {
        Ok(SigningKeys::find(&self.data)?)
    }
}

/// Where to call a gateway that listens there; not known when it takes any port.
fn url(listen: SocketAddr, secure: bool) -> Option<String> {
    let host = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let scheme = if secure { "https" } else { "http" };
    (listen.port() != 0).then(|| format!("{scheme}://{}", SocketAddr::new(host, listen.port())))
}

/// The user's name, as far as it can be an id.
pub(crate) fn user() -> Option<ParticipantId> {
    let named = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let home = || Some(Path::new(&std::env::var_os("HOME")?).file_name()?.to_str()?.to_owned());
    let name = named.or_else(home)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._~@-".contains(c);
    let id: String = name.chars().map(|c| if allowed(c) { c } else { '-' }).take(128).collect();
    // An id that begins with a dash would look like a flag.
    ParticipantId::new(id.trim_matches('-')).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_called_where_it_listens() {
        let called = |listen: &str, secure| url(listen.parse().expect("an address"), secure).unwrap_or_default();
        assert_eq!(called("127.0.0.1:9000", false), "http://127.0.0.1:9000");
        assert_eq!(called("0.0.0.0:9000", true), "https://127.0.0.1:9000");
        assert_eq!(called("[::]:9000", false), "http://[::1]:9000");
        assert_eq!(called("127.0.0.1:0", false), "");
    }
}
