use futures_util::FutureExt as _;

use super::server::Server;
use super::*;

async fn connect(server: &Server) -> (UpstreamConnection, Inbound) {
    let verdict = verdict(Era::Modern, WireKind::Streamable);
    UpstreamConnection::open(&server.target(), &verdict, Era::Modern, &setup()).await.unwrap()
}

#[tokio::test]
async fn every_post_stands_alone_with_its_headers() {
    let mut server = Server::start().await;
    let (connection, mut inbound) = connect(&server).await;
    let headers = [("Mcp-Method", "tools/call"), ("Mcp-Name", "move")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let text = r#"{"id":1,"method":"tools/call"}"#;
    connection.send(Outbound { text: text.into(), headers }).await.unwrap();
    let asked = server.expect("tools/call").await;
    let seen = ["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-session-id"].map(|name| asked.header(name));
    assert_eq!(seen, [Some("2026-07-28"), Some("tools/call"), Some("move"), None]);
    // A session id is nothing in this era: not sent on, not deleted, and a 404 is an answer.
    asked.with("mcp-session-id", "s1").json(r#"{"id":1,"result":{}}"#);
    assert_eq!(message(&mut inbound).await, r#"{"id":1,"result":{}}"#);
    send(&connection, r#"{"id":2,"method":"x"}"#).await;
    let asked = server.expect("\"x\"").await;
    assert_eq!(asked.header("mcp-session-id"), None);
    let refusal = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}"#;
    asked.answer(404, "application/json", refusal);
    let answer = UpstreamMessage::Message { text: refusal.into(), related: Some("2".into()) };
    assert_eq!(next(&mut inbound).await, Some(answer));
    send(&connection, r#"{"id":3,"method":"y"}"#).await;
    server.expect("\"y\"").await.status(404);
    assert!(matches!(next(&mut inbound).await, Some(UpstreamMessage::Failed { .. })));
    within("the end", connection.close(LONG)).await.unwrap();
    assert_eq!(next(&mut inbound).await, None);
}

#[tokio::test]
async fn an_abandoned_request_is_hung_up_on_and_never_told_of() {
    let mut server = Server::start().await;
    let (connection, mut inbound) = connect(&server).await;
    send(&connection, r#"{"id":1,"method":"tools/call"}"#).await;
    let events = server.expect("tools/call").await.events();
    events.send(": here\n\n").await;
    connection.abandon("1");
    events.closed().await;
    send(&connection, r#"{"id":2,"method":"tools/list"}"#).await;
    server.expect("tools/list").await.json(r#"{"id":2,"result":{}}"#);
    assert_eq!(message(&mut inbound).await, r#"{"id":2,"result":{}}"#);
}

#[tokio::test]
async fn a_stream_that_ends_is_not_resumed() {
    let mut server = Server::start().await;
    let (connection, mut inbound) = connect(&server).await;
    send(&connection, r#"{"id":1,"method":"tools/call"}"#).await;
    server.expect("tools/call").await.events().send("id: e1\ndata:\n\n").await;
    let why = "the server's stream ended before the answer".to_owned();
    assert_eq!(next(&mut inbound).await, Some(UpstreamMessage::Failed { id: "1".into(), why, error: None }));
}

#[tokio::test]
async fn calls_in_plenty_hold_up_calls_but_no_answers() {
    let mut server = Server::start().await;
    let (connection, _inbound) = connect(&server).await;
    let mut open = Vec::new();
    for id in 0..64 {
        send(&connection, &format!(r#"{{"id":{id},"method":"tools/call"}}"#)).await;
        open.push(server.expect("tools/call").await);
    }
    let beyond = connection.send(Outbound::new(r#"{"id":64,"method":"tools/call"}"#));
    tokio::pin!(beyond);
    assert_eq!((&mut beyond).now_or_never().map(|sent| sent.is_ok()), None, "the 65th call waits");
    send(&connection, r#"{"id":0,"result":{}}"#).await;
    server.expect(r#""result""#).await.status(202);
    send(&connection, r#"{"id":65,"method":"subscriptions/listen"}"#).await;
    server.expect("subscriptions/listen").await.status(202);
    open.remove(0).json(r#"{"id":0,"result":{}}"#);
    within("a place", beyond).await.unwrap().unwrap();
    server.expect("tools/call").await.status(202);
}

#[tokio::test]
async fn subscriptions_beyond_the_limit_are_refused_rather_than_kept_waiting() {
    let mut server = Server::start().await;
    let (connection, _inbound) = connect(&server).await;
    let mut open = Vec::new();
    for id in 0..64 {
        send(&connection, &format!(r#"{{"id":{id},"method":"subscriptions/listen"}}"#)).await;
        open.push(server.expect("subscriptions/listen").await);
    }
    let beyond = connection.send(Outbound::new(r#"{"id":64,"method":"subscriptions/listen"}"#)).await;
    assert!(matches!(beyond, Err(UpstreamError::TooManyStreams)));
}

#[tokio::test]
async fn a_header_that_cannot_be_sent_is_named_without_its_value() {
    let server = Server::start().await;
    let (connection, _inbound) = connect(&server).await;
    let headers = vec![("Mcp-Name".to_owned(), "two\nlines".to_owned())];
    let error = connection.send(Outbound { text: "{}".into(), headers }).await.unwrap_err();
    assert_eq!(error.to_string(), "the header `Mcp-Name` cannot be sent: its name or value is not allowed in HTTP");
}

#[tokio::test]
async fn secrets_are_not_printed() {
    let target = GuestTarget::Url {
        url: "http://user:hunter2@127.0.0.1:9/mcp?key=hunter2".into(),
        headers: vec![("Authorization".into(), "hunter2".into())],
        transport: UrlTransport::Auto,
    };
    assert_eq!(format!("{target:?}"), r#"Url { headers: ["Authorization"], transport: Auto, .. }"#);
    let verdict = verdict(Era::Legacy, WireKind::Streamable);
    let (connection, _inbound) = UpstreamConnection::open(&target, &verdict, Era::Legacy, &setup()).await.unwrap();
    let told = format!("{connection:?}");
    assert!(told.contains("authorization") && !told.contains("hunter2") && !told.contains("127.0.0.1"), "{told}");
    let error = probe(&target, &setup(), LONG).await.unwrap_err();
    let told = format!("{error} {error:?}");
    assert!(told.contains("cannot reach the server") && !told.contains("hunter2"), "{told}");
}
