use super::server::{Events, Server};
use super::*;

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const AGREED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;

fn related(text: &str, id: Option<&str>) -> Option<UpstreamMessage> {
    Some(UpstreamMessage::Message { text: text.into(), related: id.map(Box::from) })
}

async fn connect(server: &Server, wire: WireKind) -> Result<(UpstreamConnection, Inbound), UpstreamError> {
    UpstreamConnection::open(&server.target(), &verdict(Era::Legacy, wire), Era::Legacy, &setup()).await
}

/// A session, begun: the connection, and its GET stream.
async fn begin(server: &mut Server) -> (UpstreamConnection, Inbound, Events) {
    let (connection, mut inbound) = connect(server, WireKind::Streamable).await.unwrap();
    send(&connection, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#).await;
    let asked = server.expect("POST /mcp").await;
    assert_eq!((asked.header("mcp-session-id"), asked.header("mcp-protocol-version")), (None, None));
    assert_eq!(asked.header("accept"), Some("application/json, text/event-stream"));
    asked.with("mcp-session-id", "s1").json(AGREED);
    assert_eq!(next(&mut inbound).await, related(AGREED, Some("0")));
    send(&connection, INITIALIZED).await;
    let told = server.expect("notifications/initialized").await;
    assert_eq!((told.header("mcp-session-id"), told.header("mcp-protocol-version")), (Some("s1"), Some("2025-06-18")));
    told.status(202);
    let listening = server.expect("GET /mcp").await;
    assert_eq!(listening.header("mcp-session-id"), Some("s1"));
    let stream = listening.events();
    (connection, inbound, stream)
}

#[tokio::test]
async fn calls_wait_until_the_servers_own_stream_is_open() {
    let mut server = Server::start().await;
    let (connection, mut inbound) = connect(&server, WireKind::Streamable).await.unwrap();
    send(&connection, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#).await;
    server.expect("POST /mcp").await.with("mcp-session-id", "s1").json(AGREED);
    assert_eq!(next(&mut inbound).await, related(AGREED, Some("0")));
    send(&connection, INITIALIZED).await;
    send(&connection, r#"{"id":"a","method":"tools/list"}"#).await;
    server.expect("notifications/initialized").await.status(202);
    let _stream = server.expect("GET /mcp").await.events();
    server.expect("tools/list").await.json(r#"{"id":"a","result":{}}"#);
    assert_eq!(next(&mut inbound).await, related(r#"{"id":"a","result":{}}"#, Some("\"a\"")));
}

#[tokio::test]
async fn a_session_is_begun_used_and_deleted() {
    let mut server = Server::start().await;
    let (connection, mut inbound, stream) = begin(&mut server).await;

    stream.data(r#"{"method":"notifications/tools/list_changed"}"#).await;
    assert_eq!(next(&mut inbound).await, related(r#"{"method":"notifications/tools/list_changed"}"#, None));

    send(&connection, r#"{"id":"a","method":"tools/list"}"#).await;
    // Versions that had batches may answer with one.
    let asked = server.expect("tools/list").await;
    assert_eq!(
        (asked.header("mcp-session-id"), asked.header("mcp-protocol-version")),
        (Some("s1"), Some("2025-06-18"))
    );
    asked.json(r#"[{"method":"notifications/message"}, {"id":"a","result":{"n":12345678901234567890}}]"#);
    assert_eq!(next(&mut inbound).await, related(r#"{"method":"notifications/message"}"#, Some("\"a\"")));
    assert_eq!(next(&mut inbound).await, related(r#"{"id":"a","result":{"n":12345678901234567890}}"#, Some("\"a\"")));

    let closing = tokio::spawn(connection.close(LONG));
    let deleted = server.expect("DELETE /mcp").await;
    assert_eq!(deleted.header("mcp-session-id"), Some("s1"));
    deleted.status(200);
    within("the end", closing).await.unwrap().unwrap();
    assert_eq!(next(&mut inbound).await, None);
}

#[tokio::test]
async fn a_dropped_connection_deletes_its_session_too() {
    let mut server = Server::start().await;
    let (connection, _inbound, stream) = begin(&mut server).await;
    drop(connection);
    server.expect("DELETE /mcp").await.status(405);
    stream.closed().await;
}

#[tokio::test]
async fn answers_come_as_events_while_the_server_asks_back() {
    let mut server = Server::start().await;
    let (connection, mut inbound, _stream) = begin(&mut server).await;
    send(&connection, r#"{"id":1,"method":"tools/call"}"#).await;
    let events = server.expect("tools/call").await.events();
    events.data(r#"{"id":0,"method":"elicitation/create"}"#).await;
    assert_eq!(next(&mut inbound).await, related(r#"{"id":0,"method":"elicitation/create"}"#, Some("1")));
    send(&connection, r#"{"id":0,"result":{}}"#).await;
    server.expect(r#"{"id":0,"result":{}}"#).await.status(202);
    events.data(r#"{"id":1,"result":{}}"#).await;
    assert_eq!(next(&mut inbound).await, related(r#"{"id":1,"result":{}}"#, Some("1")));
}

#[tokio::test]
async fn nothing_overtakes_the_word_that_ends_the_handshake() {
    let mut server = Server::start().await;
    let (connection, _inbound) = connect(&server, WireKind::Streamable).await.unwrap();
    let (other, _other_inbound) = connect(&server, WireKind::Streamable).await.unwrap();
    send(&connection, INITIALIZED).await;
    send(&connection, r#"{"id":1,"method":"tools/list"}"#).await;
    let told = server.expect("notifications/initialized").await;
    // Sent later by somebody else, and here before what is held back.
    send(&other, r#"{"id":1,"method":"ping"}"#).await;
    let _asked = server.expect("ping").await;
    told.status(202);
    let mut seen = [server.expect("").await, server.expect("").await].map(|exchange| exchange.method + &exchange.body);
    seen.sort();
    assert_eq!(seen, ["GET", r#"POST{"id":1,"method":"tools/list"}"#]);
}

#[tokio::test]
async fn a_broken_stream_is_resumed_where_it_broke() {
    let mut server = Server::start().await;
    let (connection, mut inbound, _stream) = begin(&mut server).await;
    send(&connection, r#"{"id":1,"method":"tools/call"}"#).await;
    let events = server.expect("tools/call").await.events();
    events.send("retry: 20\nid: e1\ndata:\n\n").await;
    events.send("id: e2\ndata: {\"method\":\"notifications/progress\"}\n\n").await;
    assert_eq!(next(&mut inbound).await, related(r#"{"method":"notifications/progress"}"#, Some("1")));
    drop(events);

    let resumed = server.expect("GET /mcp").await;
    assert_eq!((resumed.header("last-event-id"), resumed.header("mcp-session-id")), (Some("e2"), Some("s1")));
    // Once more in vain, then for good.
    resumed.status(503);
    let resumed = server.expect("GET /mcp").await;
    assert_eq!(resumed.header("last-event-id"), Some("e2"));
    let events = resumed.events();
    events.send("id: e3\ndata: {\"id\":1,\"result\":{}}\n\n").await;
    assert_eq!(next(&mut inbound).await, related(r#"{"id":1,"result":{}}"#, Some("1")));
}

#[tokio::test]
async fn the_get_stream_is_resumed_too() {
    let mut server = Server::start().await;
    let (_connection, mut inbound, stream) = begin(&mut server).await;
    stream.send("retry: 20\nid: g1\ndata: {\"method\":\"one\"}\n\n").await;
    assert_eq!(next(&mut inbound).await, related(r#"{"method":"one"}"#, None));
    drop(stream);
    let resumed = server.expect("GET /mcp").await;
    assert_eq!(resumed.header("last-event-id"), Some("g1"));
    resumed.events().data(r#"{"method":"two"}"#).await;
    assert_eq!(next(&mut inbound).await, related(r#"{"method":"two"}"#, None));
}

#[tokio::test]
async fn a_stream_that_cannot_be_resumed_fails_its_request() {
    let mut server = Server::start().await;
    let (connection, mut inbound, _stream) = begin(&mut server).await;
    send(&connection, r#"{"id":1,"method":"tools/call"}"#).await;
    server.expect("tools/call").await.events().data(r#"{"method":"notifications/progress"}"#).await;
    next(&mut inbound).await;
    let why = "the server's stream ended before the answer".to_owned();
    assert_eq!(next(&mut inbound).await, Some(UpstreamMessage::Failed { id: "1".into(), why, error: None }));
}

#[tokio::test]
async fn an_abandoned_request_keeps_no_stream_and_no_place() {
    let mut server = Server::start().await;
    let (connection, mut inbound, _stream) = begin(&mut server).await;
    // More than there are places, one after the other.
    for id in 1..=65 {
        send(&connection, &format!(r#"{{"id":{id},"method":"tools/call"}}"#)).await;
        let events = server.expect("tools/call").await.events();
        events.send("id: e1\ndata:\n\n").await;
        connection.abandon(&id.to_string());
        events.closed().await;
    }
    send(&connection, r#"{"id":66,"method":"ping"}"#).await;
    server.expect("ping").await.json(r#"{"id":66,"result":{}}"#);
    assert_eq!(message(&mut inbound).await, r#"{"id":66,"result":{}}"#);
}

#[tokio::test]
async fn a_session_that_is_gone_ends_the_connection() {
    for (status, body) in
        [(404, ""), (400, r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session ID"},"id":null}"#)]
    {
        let mut server = Server::start().await;
        let (connection, mut inbound, _stream) = begin(&mut server).await;
        send(&connection, r#"{"id":1,"method":"tools/list"}"#).await;
        server.expect("tools/list").await.answer(status, "application/json", body);
        let Some(UpstreamMessage::Failed { id, .. }) = next(&mut inbound).await else { panic!("it failed") };
        assert_eq!(&*id, "1");
        assert_eq!(end(&mut inbound).await, "the server does not know our session any more");
        assert_eq!(next(&mut inbound).await, None);
        let refused = connection.send(Outbound::new(INITIALIZED)).await;
        assert!(matches!(refused, Err(UpstreamError::Closed)));
    }
}

#[tokio::test]
async fn a_refused_request_fails_alone() {
    let mut server = Server::start().await;
    let (connection, mut inbound, _stream) = begin(&mut server).await;
    let refusals = [
        (401, "", "the server answered HTTP 401", None),
        (
            400,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Bad"}}"#,
            "the server answered HTTP 400: Bad",
            Some(r#"{"code":-32600,"message":"Bad"}"#),
        ),
        (307, "", "the server answered HTTP 307, a redirect to another origin, which is not followed", None),
        (202, "", "the server's answer has no answer to the request in it", None),
    ];
    for (status, body, why, error) in refusals {
        send(&connection, r#"{"id":7,"method":"tools/list"}"#).await;
        let asked = server.expect("tools/list").await;
        asked.with("location", "http://elsewhere.invalid/mcp").answer(status, "application/json", body);
        let failed = UpstreamMessage::Failed { id: "7".into(), why: why.to_owned(), error: error.map(Box::from) };
        assert_eq!(next(&mut inbound).await, Some(failed));
    }
    send(&connection, r#"{"id":8,"method":"tools/list"}"#).await;
    server.expect("tools/list").await.json(r#"{"id":8,"result":{}}"#);
    assert_eq!(next(&mut inbound).await, related(r#"{"id":8,"result":{}}"#, Some("8")));
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed() {
    let mut server = Server::start().await;
    let (connection, mut inbound) = connect(&server, WireKind::Streamable).await.unwrap();
    send(&connection, r#"{"id":1,"method":"ping"}"#).await;
    server.expect("POST /mcp ").await.with("location", "/mcp/").status(307);
    server.expect("POST /mcp/ {\"id\":1").await.json(r#"{"id":1,"result":{}}"#);
    assert_eq!(message(&mut inbound).await, r#"{"id":1,"result":{}}"#);
}

/// Opens a connection by HTTP+SSE whose stream names that endpoint.
async fn open_sse(
    server: &mut Server,
    endpoint: &str,
) -> (Result<(UpstreamConnection, Inbound), UpstreamError>, Events) {
    let target = server.target();
    let (verdict, setup) = (verdict(Era::Legacy, WireKind::Sse), setup());
    tokio::join!(UpstreamConnection::open(&target, &verdict, Era::Legacy, &setup), async {
        let stream = server.expect("GET /mcp").await.events();
        stream.send(&format!("event: endpoint\ndata: {endpoint}\n\n")).await;
        stream
    })
}

#[tokio::test]
async fn http_sse_has_one_stream_for_everything() {
    let mut server = Server::start().await;
    let (opened, stream) = open_sse(&mut server, "/messages?session=1").await;
    let (connection, mut inbound) = opened.unwrap();
    send(&connection, r#"{"id":1,"method":"initialize"}"#).await;
    server.expect(r#"POST /messages?session=1 {"id":1"#).await.status(202);
    stream.data(r#"{"id":1,"result":{}}"#).await;
    assert_eq!(next(&mut inbound).await, related(r#"{"id":1,"result":{}}"#, None));

    send(&connection, r#"{"id":2,"method":"tools/list"}"#).await;
    server.expect("tools/list").await.status(400);
    let why = "the server answered HTTP 400".to_owned();
    let failed = UpstreamMessage::Failed { id: "2".into(), why, error: None };
    assert_eq!(next(&mut inbound).await, Some(failed));

    drop(stream);
    assert_eq!(end(&mut inbound).await, "the server's stream ended");
}

#[tokio::test]
async fn an_endpoint_elsewhere_is_refused() {
    let mut server = Server::start().await;
    let (opened, _stream) = open_sse(&mut server, "http://elsewhere.invalid/messages").await;
    let error = opened.err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("it does not speak MCP: its endpoint is at another origin"));
}

#[tokio::test]
async fn a_closed_http_sse_connection_hangs_up() {
    let mut server = Server::start().await;
    let (opened, stream) = open_sse(&mut server, "/messages").await;
    let (connection, mut inbound) = opened.unwrap();
    connection.close(LONG).await;
    stream.closed().await;
    assert_eq!(next(&mut inbound).await, None);
}
