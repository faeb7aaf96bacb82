//! Connecting to NATS servers, and whether they are such as can be used.
//!
//! Invariant: what a URL has before its host is shown to the servers and to nobody else.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_nats::rustls::pki_types::pem::{self, PemObject};
use async_nats::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use async_nats::rustls::{self, AlertDescription};
use async_nats::{ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerAddr};
use tokio::sync::watch;

use super::link::Connection;
use super::open::{NatsOptions, OpenError};

/// The oldest server that can do what is asked of it here.
pub(super) const OLDEST: (u64, u64) = (2, 11);
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const RECONNECT_DELAY: Duration = Duration::from_millis(500);
/// The shortest messages that something can be done with: the longest value of a context, and where its older versions are.
pub(super) const LEAST_PAYLOAD: usize = 128 * 1024;

/// Connects to a server that can do what is asked of it here.
pub(super) async fn reach(
    options: &NatsOptions,
) -> Result<(async_nats::Client, Arc<watch::Sender<Connection>>), OpenError> {
    let (client, connection) = connect(options).await?;
    new_enough(&client)?;
    let found = client.max_payload();
    if found < LEAST_PAYLOAD {
        return Err(OpenError::TooShort { found });
    }
    Ok((client, connection))
}

/// Whether the server that is connected to now can do what is asked of it here.
pub(super) fn new_enough(client: &async_nats::Client) -> Result<(), OpenError> {
    let server = client.server_info();
    match version(&server.version) < OLDEST {
        true => Err(OpenError::TooOld { found: server.version }),
        false => Ok(()),
    }
}

/// How a node shows who it is, where the URLs say so.
#[derive(Clone, PartialEq, Eq)]
enum UrlCredentials {
    Password(String, String),
    Token(String),
}

/// Takes what a URL has before its host off it: the client does not send it, and would write it to its own log lines.
fn undress(server: ServerAddr) -> Result<(ServerAddr, Option<UrlCredentials>), OpenError> {
    let mut url = server.into_inner();
    let user = decoded(url.username()).ok_or(OpenError::Url)?;
    let password = url.password().map(|password| decoded(password).ok_or(OpenError::Url)).transpose()?;
    let shown = match (user, password) {
        (user, Some(password)) => Some(UrlCredentials::Password(user, password)),
        (token, None) if !token.is_empty() => Some(UrlCredentials::Token(token)),
        _ => None,
    };
    url.set_password(None).and_then(|()| url.set_username("")).map_err(|()| OpenError::Url)?;
    Ok((ServerAddr::from_url(url).map_err(|_| OpenError::Url)?, shown))
}

/// A part of a URL without its percent signs; `None` where they make no sense.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'%' => u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

async fn connect(options: &NatsOptions) -> Result<(async_nats::Client, Arc<watch::Sender<Connection>>), OpenError> {
    let parsed = options.servers.iter().map(|url| url.parse::<ServerAddr>());
    let servers = parsed.collect::<Result<Vec<_>, _>>().map_err(|_| OpenError::Url)?;
    if servers.is_empty() {
        return Err(OpenError::Url);
    }
    let undressed = servers.into_iter().map(undress).collect::<Result<Vec<_>, _>>()?;
    let (servers, shown): (Vec<_>, Vec<_>) = undressed.into_iter().unzip();
    let mut shown = shown.into_iter().flatten();
    let first = shown.next();
    if shown.any(|other| Some(&other) != first.as_ref()) {
        return Err(OpenError::Users);
    }
    let named: Vec<_> = servers.iter().map(|server| format!("`{}:{}`", server.host(), server.port())).collect();
    let told = Arc::new(watch::Sender::new(Connection { is_up: true, count: 0 }));
    let state = told.clone();
    let mut connecting = ConnectOptions::new()
        .name("salon")
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(options.timings.ping_interval)
        .reconnect_delay_callback(|tries| if tries <= 1 { Duration::ZERO } else { RECONNECT_DELAY })
        .require_tls(servers.iter().any(ServerAddr::tls_required))
        .event_callback(move |event| {
            match event {
                Event::Connected => state.send_modify(Connection::note_new),
                Event::Disconnected | Event::Closed => state.send_modify(|now| now.is_up = false),
                Event::ServerError(error) => tracing::warn!(%error, "nats: server error"),
                Event::ClientError(error) => tracing::debug!(%error, "nats: client error"),
                Event::SlowConsumer(_) | Event::LameDuckMode | Event::Draining => {}
            }
            async {}
        });
    connecting = match first {
        Some(UrlCredentials::Password(user, password)) => connecting.user_and_password(user, password),
        Some(UrlCredentials::Token(token)) => connecting.token(token),
        None => connecting,
    };
    if let Some(path) = &options.credentials {
        let read = connecting.credentials_file(path).await;
        connecting = read.map_err(|why| OpenError::File { path: path.clone(), why })?;
    }
    if let Some(path) = &options.ca {
        has_certificates(path)?;
        connecting = connecting.add_root_certificates(path.clone());
    }
    if let Some((certificate, key)) = &options.certificate {
        has_certificates(certificate)?;
        PrivateKeyDer::from_pem_file(key).map_err(|why| unusable(key, why))?;
        connecting = connecting.add_client_certificate(certificate.clone(), key.clone());
    }
    match connecting.connect(servers).await {
        Ok(client) => Ok((client, told)),
        Err(why) => Err(OpenError::Connect { servers: named.join(", "), why: why.to_string(), advice: advice(&why) }),
    }
}

/// Whether a file has certificates in it. The client would take one without for none to trust, and none to show.
fn has_certificates(path: &Path) -> Result<(), OpenError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read.map_err(|why| unusable(path, why))? {
        some if !some.is_empty() => Ok(()),
        _ => Err(unusable(path, pem::Error::NoItemsFound)),
    }
}

fn unusable(path: &Path, why: pem::Error) -> OpenError {
    let why = match why {
        pem::Error::Io(why) => why,
        pem::Error::NoItemsFound => io::Error::new(io::ErrorKind::InvalidData, "nothing of its kind is in it, as PEM"),
        other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
    };
    OpenError::File { path: path.to_owned(), why }
}

/// What can be done where there is no connection.
fn advice(why: &ConnectError) -> &'static str {
    let failed = why.source().and_then(|source| source.downcast_ref::<io::Error>());
    let tls = failed.and_then(io::Error::get_ref).and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match (why.kind(), tls) {
        (ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication, _) => {
            "see that the servers know what they are shown: the user and password or the token in `store`, or the file `nats.credentials`"
        }
        (ConnectErrorKind::Tls, _) => "see that `nats.key` is the key of `nats.cert`",
        (_, Some(rustls::Error::InvalidCertificate(_))) => {
            "see that their certificates are for these names, and that what signed them is in `nats.ca`"
        }
        (
            _,
            Some(rustls::Error::AlertReceived(AlertDescription::UserCanceled | AlertDescription::HandshakeFailure)),
        ) => "see that they take the versions and ciphers of TLS that are common now",
        (_, Some(rustls::Error::AlertReceived(_))) => {
            "see that they are shown a certificate they trust: `nats.cert` and `nats.key`"
        }
        (_, Some(rustls::Error::InvalidMessage(_))) => {
            "see that they speak TLS, or name them with `nats://` where they need not"
        }
        _ if failed.is_some_and(|failed| failed.kind() == io::ErrorKind::ConnectionRefused) => {
            "see that they run, and that `store` names them"
        }
        // One that wants a certificate may close before it can be heard why.
        (ConnectErrorKind::Io, _) => {
            "see that they run, that `store` names them, and, if they ask for one, that they are shown a certificate they trust: \
             `nats.cert` and `nats.key`"
        }
        _ => "see that they run, and that `store` names them",
    }
}

/// The first two numbers of a version; of one that cannot be read, as high as there is.
fn version(text: &str) -> (u64, u64) {
    let mut numbers = text.split(['.', '-']).map_while(|number| number.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor),
        _ => (u64::MAX, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_taken_off_the_url() {
        let of = |url: &str| {
            let (server, shown) = undress(url.parse().expect("a URL"))?;
            let shown = shown.map(|shown| match shown {
                UrlCredentials::Password(user, password) => format!("{user} {password}"),
                UrlCredentials::Token(token) => token,
            });
            Ok::<_, OpenError>((server.into_inner().to_string(), shown))
        };
        let bare = |url: &str| (url.to_owned(), None);
        assert_eq!(of("nats://h:4222").expect("fits"), bare("nats://h:4222"));
        let (url, shown) = of("tls://al%40ice:p%3a%2Fss@h").expect("fits");
        assert_eq!((&*url, shown.as_deref()), ("tls://h", Some("al@ice p:/ss")));
        let (url, shown) = of("nats://t0ken@h:1").expect("fits");
        assert_eq!((&*url, shown.as_deref()), ("nats://h:1", Some("t0ken")));
        assert!(matches!(of("nats://u:%ff@h"), Err(OpenError::Url)));
        assert!(matches!(of("nats://u:%zz@h"), Err(OpenError::Url)));
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let old = |text| version(text) < OLDEST;
        assert!(old("2.9.10") && old("2.10.29") && old("1.99.0"));
        assert!(!old("2.11.0") && !old("2.15.1") && !old("2.12.0-RC.1") && !old("3.0.0") && !old("edge"));
    }
}
