//! Where a gateway is, and how bytes get there.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::http::Uri;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

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

/// Why an address is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAddress {
    /// It is no URL.
    #[error("`{0}` is not a URL such as http://127.0.0.1:8787")]
    Url(String),
    /// It is a URL of something else.
    #[error("`{0}` must begin with http://, https://, ws:// or wss://")]
    Scheme(String),
    /// It is no address of a listener for frames.
    #[error("`{0}` is not an address such as tcp://127.0.0.1:8788 or tls://chat.example:8788")]
    Framed(String),
    /// It carries a user name or a password, which belong in a token.
    #[error("a gateway's address has no user name or password in it: give a token instead")]
    Userinfo,
    /// A certificate that is none.
    #[error("the certificate cannot be read: {0}")]
    Certificate(String),
}

/// Where a gateway is.
#[derive(Clone)]
pub struct Gateway {
    url: Arc<str>,
    /// `host:port`, for the `Host` header.
    pub(crate) authority: Arc<str>,
    /// What stands before `/v0` in every path.
    pub(crate) prefix: Arc<str>,
    way: Way,
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
        let tcp = Tcp { host, port, secure, roots: Vec::new(), protocols: &[b"http/1.1"] };
        let scheme = if secure { "https" } else { "http" };
        Ok(Self {
            url: format!("{scheme}://{authority}{prefix}").into(),
            authority: authority.as_str().into(),
            prefix: prefix.into(),
            way: tcp.into(),
        })
    }

    /// A gateway that is reached in a way of one's own.
    pub fn through(dial: impl Dial) -> Self {
        Self {
            url: "http://localhost".into(),
            authority: "localhost".into(),
            prefix: "".into(),
            way: Way::through(dial),
        }
    }

    /// Trusts the certificates of a PEM file beside those the system trusts.
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

/// How connections are opened: over TCP, with or without TLS, or in a way of one's own.
#[derive(Clone)]
pub(crate) struct Way {
    dial: Arc<dyn Dial>,
    tcp: Option<Tcp>,
}

impl From<Tcp> for Way {
    fn from(tcp: Tcp) -> Self {
        Self { dial: Arc::new(tcp.clone()), tcp: Some(tcp) }
    }
}

impl Way {
    pub(crate) fn through(dial: impl Dial) -> Self {
        Self { dial: Arc::new(dial), tcp: None }
    }

    pub(crate) fn trust_pem(&mut self, pem: &[u8]) -> Result<(), InvalidAddress> {
        let roots = certificates(pem)?;
        if let Some(tcp) = &mut self.tcp {
            tcp.roots.extend(roots);
            self.dial = Arc::new(tcp.clone());
        }
        Ok(())
    }

    pub(crate) async fn dial(&self) -> io::Result<Box<dyn Wire>> {
        match tokio::time::timeout(DIAL_TIME, self.dial.dial()).await {
            Ok(dialled) => dialled,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time")),
        }
    }
}

/// The certificates of a PEM file, of which there is at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, InvalidAddress> {
    let wrong = |why: String| InvalidAddress::Certificate(why);
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let roots = roots.map_err(|error| wrong(error.to_string()))?;
    if roots.is_empty() { Err(wrong("there is none in the file".into())) } else { Ok(roots) }
}

/// The usual way.
#[derive(Clone)]
pub(crate) struct Tcp {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) secure: bool,
    pub(crate) roots: Vec<CertificateDer<'static>>,
    /// What is spoken over TLS, where that is named.
    pub(crate) protocols: &'static [&'static [u8]],
}

impl Dial for Tcp {
    fn dial(&self) -> BoxFuture<'_, io::Result<Box<dyn Wire>>> {
        Box::pin(async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            if !self.secure {
                return Ok(Box::new(stream) as Box<dyn Wire>);
            }
            let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
            let connector = self.connector().map_err(io::Error::other)?;
            Ok(Box::new(connector.connect(name, stream).await?) as Box<dyn Wire>)
        })
    }
}

impl Tcp {
    fn connector(&self) -> Result<TlsConnector, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier =
            rustls_platform_verifier::Verifier::new_with_extra_roots(self.roots.iter().cloned(), provider.clone())?;
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = self.protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> String {
        match Gateway::new(url) {
            Ok(gateway) => {
                let tcp = gateway.way.tcp.as_ref().unwrap();
                format!("{} {}:{} {:?} {:?}", gateway.url, tcp.host, tcp.port, gateway.authority, gateway.prefix)
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(read("http://127.0.0.1:8787"), r#"http://127.0.0.1:8787 127.0.0.1:8787 "127.0.0.1:8787" """#);
        assert_eq!(read("localhost:1"), r#"http://localhost:1 localhost:1 "localhost:1" """#);
        assert_eq!(read("wss://a.example/salon/"), r#"https://a.example/salon a.example:443 "a.example" "/salon""#);
        assert_eq!(read("http://[::1]:9"), r#"http://[::1]:9 ::1:9 "[::1]:9" """#);
        assert_eq!(read("ftp://x"), "`ftp://x` must begin with http://, https://, ws:// or wss://");
        assert!(read("http://me:secret@x").starts_with("a gateway's address has no user name"));
        assert_eq!(read("http://"), "`http://` is not a URL such as http://127.0.0.1:8787");
        assert_eq!(read("http://x?y=1"), "`http://x?y=1` is not a URL such as http://127.0.0.1:8787");
    }
}
