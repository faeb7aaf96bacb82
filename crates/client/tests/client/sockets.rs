//! WebSockets whose texts nobody here understands, at an address of the gateway that takes any.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use salon_client::internal::{Closed, SocketEvent, TextSocket};
use salon_client::{Client, Gateway, Refreshing, RestError, StaticToken};
use salon_testkit::{TestToken, within};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};

use crate::stage::{Scissors, client, gateway};

const PATH: &str = "/v0/ws?topic=room:lab&echo=true";
const SUBPROTOCOL: &str = "mcpx.v0";

fn note(id: usize, text: &str) -> String {
    format!(
        r#"{{"protocol":"mcp-x/v0","id":"n{id}","ts":"2025-08-17T14:00:00Z","from":"alice","kind":"mcp","payload":{{"jsonrpc":"2.0","method":"note","params":{{"text":"{text}"}}}}}}"#
    )
}

/// The next text that has something in it.
async fn text_with(socket: &mut TextSocket, part: &str) -> Result<String, Closed> {
    within(part, async {
        loop {
            match socket.next().await? {
                SocketEvent::Text(text) if text.contains(part) => return Ok(text),
                _ => {}
            }
        }
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_go_both_ways_and_many_at_once() {
    let gateway = gateway().await;
    let mut socket = TextSocket::to_gateway(&client(&gateway, "alice"), PATH, SUBPROTOCOL).await.unwrap();
    assert!(text_with(&mut socket, r#""event":"welcome""#).await.is_ok());
    assert!(socket.is_idle());
    // More than the socket takes at once.
    let long = "x".repeat(500_000);
    for n in 0..8 {
        socket.send(note(n, &long));
    }
    assert!(!socket.is_idle());
    for n in 0..8 {
        assert_eq!(text_with(&mut socket, &format!("\"n{n}\"")).await.unwrap(), note(n, &long));
    }
    assert!(socket.is_idle());
    within("the goodbye", socket.close()).await.unwrap();
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_refused_is_told() {
    let gateway = gateway().await;
    let refusal = |client: Client, path: &'static str, subprotocol: &'static str| async move {
        match TextSocket::to_gateway(&client, path, subprotocol).await {
            Err(RestError::Refused(refusal)) => format!("{} {}", refusal.status, refusal.code),
            other => format!("{other:?}"),
        }
    };
    let address = || Gateway::new(&format!("http://{}", gateway.address())).unwrap();
    let stranger = Client::new(address(), StaticToken::new("nonsense"));
    assert_eq!(refusal(stranger, PATH, SUBPROTOCOL).await, "401 unauthorized");
    let nowhere = client(&gateway, "alice");
    assert_eq!(refusal(nowhere.clone(), "/nowhere", SUBPROTOCOL).await, "404 not_found");
    assert!(refusal(nowhere, PATH, "of another").await.contains("Unreadable"), "the gateway took no such subprotocol");
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_refused_token_is_replaced_once() {
    let gateway = gateway().await;
    let asked = Arc::new(AtomicU32::new(0));
    let good = gateway.token(&TestToken::new("alice")).unwrap();
    let tokens = Refreshing::new({
        let asked = asked.clone();
        move || {
            let first = asked.fetch_add(1, Ordering::SeqCst) == 0;
            let token = if first { "nonsense".to_owned() } else { good.clone() };
            async move { Ok(salon_client::Token::from(token)) }
        }
    });
    let address = Gateway::new(&format!("http://{}", gateway.address())).unwrap();
    let mut socket = TextSocket::to_gateway(&Client::new(address, tokens), PATH, SUBPROTOCOL).await.unwrap();
    assert!(text_with(&mut socket, "welcome").await.is_ok());
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    drop(socket);
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn an_end_says_why() {
    let gateway = gateway().await;
    let scissors = Scissors::new(&gateway);
    let token = gateway.token(&TestToken::new("alice")).unwrap();
    let through = Client::new(Gateway::through(scissors.clone()), StaticToken::new(token));
    let mut cut = TextSocket::to_gateway(&through, PATH, SUBPROTOCOL).await.unwrap();
    assert!(text_with(&mut cut, "welcome").await.is_ok());
    scissors.cut();
    let closed = text_with(&mut cut, "nothing").await.unwrap_err();
    assert_eq!(closed.code, None);

    let mut told = TextSocket::to_gateway(&client(&gateway, "bob"), PATH, SUBPROTOCOL).await.unwrap();
    assert!(text_with(&mut told, "welcome").await.is_ok());
    // Read meanwhile, and hang up: a gateway that stops waits for that.
    let told = async move { text_with(&mut told, "nothing").await.unwrap_err() };
    let (stopped, closed) = tokio::join!(gateway.stop(), told);
    stopped.unwrap();
    assert_eq!((closed.code, closed.is_token_expired()), (Some(1001), false), "{closed}");
}

/// How a server elsewhere treats subprotocols.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Subprotocols {
    /// It answers 400 to a client that does not offer `mcp`.
    Insists,
    /// It does not look at them.
    Ignores,
}

#[tokio::test]
async fn a_server_elsewhere_may_insist_on_the_subprotocol_or_know_none() {
    for server in [Subprotocols::Insists, Subprotocols::Ignores] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/mcp", listener.local_addr().unwrap());
        #[expect(clippy::result_large_err, reason = "the library has it so")]
        let answer = move |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
            let offered = request.headers().get("sec-websocket-protocol");
            match server {
                Subprotocols::Ignores => {}
                Subprotocols::Insists if offered.is_some_and(|offered| offered == "mcp") => {
                    response.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("mcp"));
                }
                Subprotocols::Insists => {
                    let mut refused = ErrorResponse::new(None);
                    *refused.status_mut() = StatusCode::BAD_REQUEST;
                    return Err(refused);
                }
            }
            Ok(response)
        };
        let accepting = async {
            loop {
                let (wire, _) = listener.accept().await.unwrap();
                // A client that gives up one attempt may hang up in the middle of it.
                drop(tokio_tungstenite::accept_hdr_async(wire, answer).await);
            }
        };
        tokio::select! {
            opened = within("a connection", TextSocket::open(&url, &[], "mcp")) => {
                assert!(opened.unwrap().is_ok(), "{server:?}");
            }
            () = accepting => {}
        }
    }
}
