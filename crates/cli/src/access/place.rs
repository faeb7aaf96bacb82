//! A gateway's address, in the one form under which credentials are kept for it.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use reqwest::Url;
use salon_gateway::is_loopback;

/// Where a gateway is: scheme, host and port, and a path if a proxy gives it one. No slash at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GatewayUrl {
    url: Url,
    /// The data directory whose key makes the tokens for it, where none was given.
    key: Option<PathBuf>,
}

impl GatewayUrl {
    /// Reads what a person wrote. Without a scheme it is `http` on this machine and `https` elsewhere.
    pub(crate) fn read(text: &str) -> anyhow::Result<Self> {
        let wrong = |why: &str| {
            anyhow!("`{}` is not a gateway's address: {why}\n\nhint: it looks like `https://chat.example`", shown(text))
        };
        let whole = if text.contains("://") {
            text.to_owned()
        } else {
            let secure = Url::parse(&format!("https://{text}")).map_err(|error| wrong(&error.to_string()))?;
            let scheme = if secure.host_str().is_some_and(is_loopback) { "http" } else { "https" };
            format!("{scheme}://{text}")
        };
        // A gateway is often known by the address of its WebSocket.
        let whole = match whole.split_once("://") {
            Some(("ws", rest)) => format!("http://{rest}"),
            Some(("wss", rest)) => format!("https://{rest}"),
            _ => whole,
        };
        let mut url = Url::parse(&whole).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("its scheme must be http or https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            // Not repeated, because it has a secret in it.
            bail!(
                "a gateway's address has no credentials in it\n\nhint: give a token with `SALON_TOKEN` or `salon login`"
            );
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it has a query or a fragment"));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self { url, key: None })
    }

    /// The same place, for which tokens are made by the key in a data directory.
    pub(super) fn by_key_in(self, data: PathBuf) -> Self {
        Self { key: Some(data), ..self }
    }

    /// The data directory whose key makes the tokens for it.
    pub(crate) fn key(&self) -> Option<&Path> {
        self.key.as_deref()
    }

    /// The address without a slash at its end.
    pub(crate) fn url(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// Whether it is this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        is_loopback(self.host())
    }

    /// Whether what is sent there is encrypted.
    pub(crate) fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// `http` or `https`.
    pub(crate) fn scheme(&self) -> &str {
        self.url.scheme()
    }

    /// The same address with another scheme.
    pub(crate) fn with_scheme(&self, scheme: &str) -> String {
        format!("{scheme}{}", self.url().trim_start_matches(self.scheme()))
    }

    /// Its host as a resolver takes it, without the brackets of an IPv6 address.
    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// Its port, the scheme's if none was given.
    pub(crate) fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(80)
    }
}

impl fmt::Display for GatewayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url())
    }
}

/// Whatever stands before an `@` may be a secret.
fn shown(text: &str) -> String {
    text.rsplit_once('@')
        .map_or_else(|| text.escape_debug().to_string(), |(_, rest)| format!("…@{}", rest.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        GatewayUrl::read(text).map_or_else(|error| error.to_string(), |place| place.to_string())
    }

    #[test]
    fn one_gateway_has_one_form() {
        assert_eq!(read("http://127.0.0.1:8787/"), "http://127.0.0.1:8787");
        assert_eq!(read("HTTPS://Chat.Example:443//"), "https://chat.example");
        assert_eq!(read("chat.example/salon/"), "https://chat.example/salon");
        assert_eq!(read("localhost:8787"), "http://localhost:8787");
        assert_eq!(read("[::1]:8787"), "http://[::1]:8787");
        assert_eq!(read("wss://chat.example/"), "https://chat.example");
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_secrets() {
        insta::assert_snapshot!(read("ftp://chat.example"), @"
        `ftp://chat.example` is not a gateway's address: its scheme must be http or https

        hint: it looks like `https://chat.example`
        ");
        insta::assert_snapshot!(read("https://chat.example?token=x"), @"
        `https://chat.example?token=x` is not a gateway's address: it has a query or a fragment

        hint: it looks like `https://chat.example`
        ");
        insta::assert_snapshot!(read("https://alice:secret@chat.example"), @"
        a gateway's address has no credentials in it

        hint: give a token with `SALON_TOKEN` or `salon login`
        ");
        assert!(!read("alice:secret@:").contains("secret"));
        assert!(!read("").contains("panicked"));
    }
}
