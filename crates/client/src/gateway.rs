//! Where a gateway is, and how bytes get there.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::http::Uri;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::tls::Tls;

/// How long connecting may take.
const DIAL_TIME: Duration = Duration::from_secs(10);

/// A connection as bytes.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Wire for T {}

/// Opens connections to a gateway. [`Gateway::new`] brings one for TCP and TLS; another can lead through memory or a tunnel.
pub trait Dial: Send + Sync + 'static {
    /// Opens one connection.
    fn dial(&self) -> BoxFuture<'_, io::Result<Box<dyn Wire>>>;
}

/// Why an address is not valid.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAddress {
    /// It is not a URL.
    #[error("`{0}` is not a URL such as http://127.0.0.1:8787")]
    Url(String),
    /// It is a URL of something else.
    #[error("`{0}` must begin with http://, https://, ws:// or wss://")]
    Scheme(String),
    /// It is not an address of a listener for frames.
    #[error("`{0}` is not an address such as tcp://127.0.0.1:8788 or tls://chat.example:8788")]
    Framed(String),
    /// It carries a user name or a password, which belong in a token.
    #[error("a gateway's address has no user name or password in it: give a token instead")]
    Userinfo,
    /// It needs TLS, and this build has none.
    #[error("`{0}` needs TLS, and this program was built without it: the feature `tls` of salon-client brings it")]
    NoTls(String),
    /// A certificate is not valid.
    #[error("the certificate cannot be read: {0}")]
    Certificate(#[source] Arc<dyn Error + Send + Sync>),
    /// A file of certificates has none.
    #[error("the file has no certificate")]
    NoCertificate,
}

/// Where a gateway is.
#[derive(Clone)]
pub struct Gateway {
    url: Arc<str>,
    /// `host:port`, for the `Host` header.
    pub(crate) authority: Arc<str>,
    /// What stands before `/v0` in every path.
    pub(crate) prefix: Arc<str>,
    way: Connector,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gateway").field(&self.url).finish()
    }
}

impl Gateway {
    /// A gateway at an address such as `http://127.0.0.1:8787`; `https`, `ws` and `wss` are understood as well, and so is a path
    /// before the gateway's own.
    pub fn new(url: &str) -> Result<Self, InvalidAddress> {
        let invalid = || InvalidAddress::Url(url.to_owned());
        let whole = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let uri: Uri = whole.parse().map_err(|_| invalid())?;
        let secure = match uri.scheme_str() {
            Some("http" | "ws") => false,
            Some("https" | "wss") => true,
            _ => return Err(InvalidAddress::Scheme(url.to_owned())),
        };
        let authority = uri.authority().ok_or_else(invalid)?;
        if authority.as_str().contains('@') {
            return Err(InvalidAddress::Userinfo);
        }
        if uri.query().is_some() || authority.host().is_empty() {
            return Err(invalid());
        }
        let prefix = uri.path().trim_end_matches('/');
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let tls = if secure {
            Some(Tls::speaking(&[b"http/1.1"]).ok_or_else(|| InvalidAddress::NoTls(url.to_owned()))?)
        } else {
            None
        };
        let tcp = Tcp { host, port, tls };
        let scheme = if secure { "https" } else { "http" };
        Ok(Self {
            url: format!("{scheme}://{authority}{prefix}").into(),
            authority: authority.as_str().into(),
            prefix: prefix.into(),
            way: Connector::Tcp(tcp),
        })
    }

    /// A gateway that is reached in a way of one's own.
    pub fn through(dial: impl Dial) -> Self {
        Self {
            url: "http://localhost".into(),
            authority: "localhost".into(),
            prefix: "".into(),
            way: Connector::Own(Arc::new(dial)),
        }
    }

    /// Trusts the certificates of a PEM file beside those the system trusts. Needs the feature `tls`.
    #[cfg(feature = "tls")]
    pub fn trust_pem(mut self, pem: &[u8]) -> Result<Self, InvalidAddress> {
        self.way.trust_pem(pem)?;
        Ok(self)
    }

    /// The address, with `http` or `https`.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn shared_url(&self) -> Arc<str> {
        self.url.clone()
    }

    pub(crate) async fn dial(&self) -> io::Result<Box<dyn Wire>> {
        self.way.dial().await
    }
}

/// How connections are opened.
#[derive(Clone)]
pub(crate) enum Connector {
    /// Over TCP, with or without TLS.
    Tcp(Tcp),
    /// In a way of one's own.
    Own(Arc<dyn Dial>),
}

impl Connector {
    #[cfg(feature = "tls")]
    pub(crate) fn trust_pem(&mut self, pem: &[u8]) -> Result<(), InvalidAddress> {
        let roots = crate::tls::certificates(pem)?;
        if let Self::Tcp(Tcp { tls: Some(tls), .. }) = self {
            tls.trust(roots);
        }
        Ok(())
    }

    pub(crate) async fn dial(&self) -> io::Result<Box<dyn Wire>> {
        let dialling = match self {
            Self::Tcp(tcp) => tcp.dial(),
            Self::Own(dial) => dial.dial(),
        };
        match tokio::time::timeout(DIAL_TIME, dialling).await {
            Ok(dialled) => dialled,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time")),
        }
    }
}

/// The usual way.
#[derive(Clone)]
pub(crate) struct Tcp {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: Option<Tls>,
}

impl Dial for Tcp {
    fn dial(&self) -> BoxFuture<'_, io::Result<Box<dyn Wire>>> {
        Box::pin(async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            match &self.tls {
                Some(tls) => tls.connect(&self.host, stream).await,
                None => Ok(Box::new(stream) as Box<dyn Wire>),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> String {
        match Gateway::new(url) {
            Ok(gateway) => {
                let Connector::Tcp(tcp) = &gateway.way else { panic!("an address is dialled over TCP") };
                format!("{} {}:{} {:?} {:?}", gateway.url, tcp.host, tcp.port, gateway.authority, gateway.prefix)
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(read("http://127.0.0.1:8787"), r#"http://127.0.0.1:8787 127.0.0.1:8787 "127.0.0.1:8787" """#);
        assert_eq!(read("localhost:1"), r#"http://localhost:1 localhost:1 "localhost:1" """#);
        assert_eq!(read("ws://a.example/salon/"), r#"http://a.example/salon a.example:80 "a.example" "/salon""#);
        assert_eq!(read("http://[::1]:9"), r#"http://[::1]:9 ::1:9 "[::1]:9" """#);
        assert_eq!(read("ftp://x"), "`ftp://x` must begin with http://, https://, ws:// or wss://");
        assert!(read("http://me:secret@x").starts_with("a gateway's address has no user name"));
        assert_eq!(read("http://"), "`http://` is not a URL such as http://127.0.0.1:8787");
        assert_eq!(read("http://x?y=1"), "`http://x?y=1` is not a URL such as http://127.0.0.1:8787");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn addresses_with_tls() {
        assert_eq!(read("wss://a.example/salon/"), r#"https://a.example/salon a.example:443 "a.example" "/salon""#);
        let trusting =
            |pem: &[u8]| Gateway::new("https://a.example").and_then(|gateway| gateway.trust_pem(pem)).map(drop);
        assert!(matches!(trusting(b""), Err(InvalidAddress::NoCertificate)));
        let broken = b"-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n";
        let Err(error @ InvalidAddress::Certificate(_)) = trusting(broken) else { panic!("it is no certificate") };
        assert!(error.source().is_some());
    }
}
