//! What a gateway with a certificate needs, and the clients that trust it.

use std::fs;
use std::io::{ErrorKind, Read, Result as IoResult, Write};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use mio::net::TcpStream;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::contender::BenchScratch;

pub(crate) type SharedClientConfig = Arc<ClientConfig>;

/// A certificate of this run alone.
pub(crate) struct TlsSetup {
    directory: BenchScratch,
    pub(crate) client: SharedClientConfig,
}

impl TlsSetup {
    pub(crate) fn new() -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let directory = BenchScratch::new()?;
        fs::write(directory.0.join("cert.pem"), made.cert.pem())?;
        fs::write(directory.0.join("key.pem"), made.signing_key.serialize_pem())?;
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Every client is somebody else: none resumes the session of another.
        client.resumption = rustls::client::Resumption::disabled();
        Ok(Self { directory, client: Arc::new(client) })
    }

    /// The flags of the gateway.
    pub(crate) fn flags(&self) -> [String; 4] {
        let path = |name: &str| self.directory.0.join(name).display().to_string();
        ["--tls-cert".to_owned(), path("cert.pem"), "--tls-key".to_owned(), path("key.pem")]
    }
}

/// A client's connection, which never blocks.
pub(crate) enum LoadStream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl LoadStream {
    pub(crate) fn new(stream: TcpStream, tls: Option<SharedClientConfig>) -> Result<Self> {
        let Some(config) = tls else { return Ok(Self::Plain(stream)) };
        let name = ServerName::try_from("localhost").context("a name")?;
        Ok(Self::Tls(Box::new(StreamOwned::new(ClientConnection::new(config, name)?, stream))))
    }

    pub(crate) fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &mut stream.sock,
        }
    }

    /// Whether a read of less than was asked for has emptied the socket.
    pub(crate) fn ends_with_short_read(&self) -> bool {
        matches!(self, Self::Plain(_))
    }
}

impl Read for LoadStream {
    fn read(&mut self, buffer: &mut [u8]) -> IoResult<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for LoadStream {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    /// Writes what was encrypted and has not been taken by the socket.
    fn flush(&mut self) -> IoResult<()> {
        let Self::Tls(stream) = self else { return Ok(()) };
        while stream.conn.wants_write() {
            if stream.conn.write_tls(&mut stream.sock)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}
