//! Where a gateway listens for frames.

use std::fmt;
use std::io;
use std::sync::Arc;

use hyper::http::uri::Authority;

use crate::gateway::{Connector, Dial, InvalidAddress, Tcp, Wire};
use crate::tls::Tls;

/// Where a gateway listens for frames: `tcp://127.0.0.1:8788`, or `tls://chat.example:8788`.
#[derive(Clone)]
pub struct FramedAddress {
    text: Arc<str>,
    way: Connector,
}

impl fmt::Debug for FramedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FramedAddress").field(&self.text).finish()
    }
}

impl FramedAddress {
    /// Reads an address. Without a scheme it is TCP on this machine and TLS elsewhere.
    pub fn new(text: &str) -> Result<Self, InvalidAddress> {
        let invalid = || InvalidAddress::Framed(text.to_owned());
        let (scheme, rest) = text.split_once("://").map_or((None, text), |(scheme, rest)| (Some(scheme), rest));
        let authority: Authority = rest.trim_end_matches('/').parse().map_err(|_| invalid())?;
        if authority.as_str().contains('@') {
            return Err(InvalidAddress::Userinfo);
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().filter(|_| !host.is_empty()).ok_or_else(invalid)?;
        let is_local = host.eq_ignore_ascii_case("localhost")
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        let secure = match scheme {
            Some("tcp") => false,
            Some("tls") => true,
            None => !is_local,
            Some(_) => return Err(invalid()),
        };
        let tls =
            if secure { Some(Tls::speaking(&[]).ok_or_else(|| InvalidAddress::NoTls(text.to_owned()))?) } else { None };
        let tcp = Tcp { host, port, tls };
        let scheme = if secure { "tls" } else { "tcp" };
        Ok(Self { text: format!("{scheme}://{authority}").into(), way: Connector::Tcp(tcp) })
    }

    /// A gateway that is reached in a way of one's own.
    pub fn through(dial: impl Dial) -> Self {
        Self { text: "tcp://localhost".into(), way: Connector::Own(Arc::new(dial)) }
    }

    /// Trusts the certificates of a PEM file beside those the system trusts. Needs the feature `tls`.
    #[cfg(feature = "tls")]
    pub fn trust_pem(mut self, pem: &[u8]) -> Result<Self, InvalidAddress> {
        self.way.trust_pem(pem)?;
        Ok(self)
    }

    /// The address, with its scheme.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn shared_text(&self) -> Arc<str> {
        self.text.clone()
    }

    pub(super) async fn dial(&self) -> io::Result<Box<dyn Wire>> {
        self.way.dial().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let read =
            |text: &str| FramedAddress::new(text).map_or_else(|e| e.to_string(), |address| address.text().to_owned());
        assert_eq!(read("127.0.0.1:8788"), "tcp://127.0.0.1:8788");
        assert_eq!(read("localhost:1"), "tcp://localhost:1");
        assert_eq!(read("[::1]:1"), "tcp://[::1]:1");
        assert_eq!(read("tcp://chat.example:8788/"), "tcp://chat.example:8788");
        if cfg!(feature = "tls") {
            assert_eq!(read("chat.example:8788"), "tls://chat.example:8788");
            assert_eq!(read("tls://127.0.0.1:8788"), "tls://127.0.0.1:8788");
        } else {
            assert!(read("chat.example:8788").starts_with("`chat.example:8788` needs TLS"));
        }
        for wrong in ["", "localhost", "http://localhost:1", "tcp://:1", "a b:1", "tcp://x:99999"] {
            assert_eq!(
                read(wrong),
                format!("`{wrong}` is not an address such as tcp://127.0.0.1:8788 or tls://chat.example:8788")
            );
        }
        assert!(read("tcp://me:secret@x:1").starts_with("a gateway's address has no user name"));
    }
}
