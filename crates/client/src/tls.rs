//! TLS by rustls, with the roots that the system trusts and those of a PEM file.
//!
//! Without the feature `tls` there is no value of [`Tls`], so no address that needs one can be made.

#[cfg(feature = "tls")]
mod with_rustls {
    use std::io;
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;

    use crate::gateway::{InvalidAddress, Wire};

    /// How a connection is encrypted.
    #[derive(Clone)]
    pub(crate) struct Tls {
        roots: Vec<CertificateDer<'static>>,
        /// The protocols over TLS (ALPN), where they are named.
        protocols: &'static [&'static [u8]],
    }

    impl Tls {
        /// TLS with the system's roots; `None` in a build without it.
        pub(crate) fn speaking(protocols: &'static [&'static [u8]]) -> Option<Self> {
            Some(Self { roots: Vec::new(), protocols })
        }

        pub(crate) fn trust(&mut self, roots: Vec<CertificateDer<'static>>) {
            self.roots.extend(roots);
        }

        pub(crate) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<Box<dyn Wire>> {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            let connector = self.connector().map_err(io::Error::other)?;
            Ok(Box::new(connector.connect(name, stream).await?) as Box<dyn Wire>)
        }

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

    /// Encrypts a connection to a server that is not a gateway. `pem` has certificates to trust beside the system's.
    pub async fn connect_tls(host: &str, stream: TcpStream, pem: Option<&[u8]>) -> io::Result<Box<dyn Wire>> {
        let roots = pem.map(certificates).transpose().map_err(io::Error::other)?;
        Tls { roots: roots.unwrap_or_default(), protocols: &[] }.connect(host, stream).await
    }

    /// The certificates of a PEM file, of which there is at least one.
    pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, InvalidAddress> {
        let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let roots = roots.map_err(|error| InvalidAddress::Certificate(Arc::new(error)))?;
        if roots.is_empty() { Err(InvalidAddress::NoCertificate) } else { Ok(roots) }
    }
}

#[cfg(feature = "tls")]
pub use with_rustls::connect_tls;
#[cfg(feature = "tls")]
pub(crate) use with_rustls::{Tls, certificates};

/// How a connection is encrypted: not at all, in this build.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Copy)]
pub(crate) enum Tls {}

#[cfg(not(feature = "tls"))]
impl Tls {
    /// `None`: this build has no TLS.
    pub(crate) fn speaking(_protocols: &'static [&'static [u8]]) -> Option<Self> {
        None
    }

    pub(crate) async fn connect(
        &self,
        _host: &str,
        _stream: tokio::net::TcpStream,
    ) -> std::io::Result<Box<dyn crate::gateway::Wire>> {
        match *self {}
    }
}
