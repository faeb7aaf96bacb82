//! A gateway with a certificate: the same room, through bytes that the room cannot write itself.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use rustls::pki_types::{CertificateDer, ServerName};
use salon_testkit::{run, within};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Message, http::HeaderValue};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::salon::Home;

const TOPIC: &str = "room:tls";

type Connection = WebSocketStream<tokio_rustls::client::TlsStream<TcpStream>>;

async fn connect(address: SocketAddr, certificate: CertificateDer<'static>, token: &str) -> Connection {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.expect("it listens");
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake");
    let mut request =
        format!("wss://localhost:{}/v0/ws?topic={TOPIC}", address.port()).into_client_request().expect("a request");
    let bearer = HeaderValue::try_from(format!("Bearer {token}")).expect("a header");
    request.headers_mut().insert("authorization", bearer);
    client_async(request, stream).await.expect("it lets them in").0
}

async fn next(connection: &mut Connection) -> Value {
    loop {
        let message =
            within("a frame", connection.next()).await.expect("in time").expect("still open").expect("a frame");
        if let Message::Text(text) = message {
            return serde_json::from_str(&text).expect("JSON");
        }
    }
}

#[test]
fn a_room_behind_tls_is_the_same_room() {
    let home = Home::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    home.write("cert.pem", &made.cert.pem());
    home.write("key.pem", &made.signing_key.serialize_pem());
    run(async {
        let running = home.serve("--tls-cert cert.pem --tls-key key.pem").await;
        let certificate = made.cert.der().clone();
        let mut alice = connect(running.address, certificate.clone(), &home.token(TOPIC, "alice").await).await;
        assert_eq!(next(&mut alice).await["payload"]["event"], "welcome");
        let mut bob = connect(running.address, certificate, &home.token(TOPIC, "bob").await).await;
        assert_eq!(next(&mut bob).await["payload"]["event"], "welcome");
        assert_eq!(next(&mut alice).await["payload"]["event"], "join");

        // Small ones and one of several TLS records, in a row.
        for (number, size) in [10, 60_000, 10].into_iter().enumerate() {
            let chat = json!({
                "protocol": "mcp-x/v0", "id": format!("e{number}"), "ts": "2025-08-17T14:00:00Z", "from": "alice", "kind": "mcp",
                "payload": { "jsonrpc": "2.0", "method": "notifications/chat/message", "params": { "text": "x".repeat(size) } },
            });
            alice.send(Message::text(chat.to_string())).await.expect("sent");
        }
        for connection in [&mut alice, &mut bob] {
            for number in 0..3 {
                assert_eq!(next(connection).await["id"], format!("e{number}"));
            }
        }
    });
}
