use super::server::Server;
use super::*;

/// What a server shows: eras and wire.
fn told(verdict: &ProbeVerdict) -> String {
    format!("{:?} {:?}", verdict.eras, verdict.wire)
}

async fn probed(target: &GuestTarget, limit: Duration) -> Result<String, String> {
    let probing = within("the verdict", probe(target, &setup(), limit)).await.unwrap();
    probing.map(|verdict| told(&verdict)).map_err(|error| error.to_string())
}

/// A shell script that answers each line by the patterns it matches.
fn server(cases: &str) -> GuestTarget {
    shell(&format!(r#"while read -r line; do case "$line" in {cases} esac; done"#))
}

const DISCOVERED: &str = r#"echo '{"id":"salon-discover","result":{"supportedVersions":["2026-07-28"]}}'"#;
const DUAL: &str = r#"echo '{"id":"salon-discover","result":{"supportedVersions":["2026-07-28","2025-11-25"]}}'"#;
const INITIALIZED: &str = r#"echo '{"id":"salon-initialize","result":{"protocolVersion":"2025-06-18"}}'"#;
const UNKNOWN: &str = r#"echo '{"id":"salon-discover","error":{"code":-32601,"message":"no"}}'"#;

#[tokio::test]
async fn a_modern_command() {
    let target = server(&format!("*discover*) {DISCOVERED};; *) exit 1;;"));
    assert_eq!(probed(&target, LONG).await.unwrap(), "[Modern] Stdio");
}

#[tokio::test]
async fn a_command_that_lists_both_eras_is_believed() {
    let target = server(&format!("*discover*) {DUAL};; *) exit 1;;"));
    assert_eq!(probed(&target, LONG).await.unwrap(), "[Modern, Legacy] Stdio");
}

#[tokio::test]
async fn a_command_with_an_era_a_child_is_dual() {
    // The first question decides the era for good.
    let target = shell(&format!(
        r#"read -r line; case "$line" in *discover*) {DISCOVERED}; cat >/dev/null;; *initialize*) {INITIALIZED}; cat >/dev/null;; esac"#
    ));
    let verdict = within("the verdict", probe(&target, &setup(), LONG)).await.unwrap().unwrap();
    assert_eq!(told(&verdict), "[Modern, Legacy] Stdio");
    assert_eq!(verdict.discovered.unwrap().get(), r#"{"supportedVersions":["2026-07-28"]}"#);
}

#[tokio::test]
async fn a_legacy_command_that_says_so_is_asked_on() {
    // A single child: the second would find the mark of the first.
    let scratch = Scratch::new().unwrap();
    let mark = scratch.path().join("mark");
    let target = shell(&format!(
        r#"mkdir '{}' || exit 1; while read -r line; do case "$line" in *discover*) {UNKNOWN};; *initialize*) {INITIALIZED};; esac; done"#,
        mark.display()
    ));
    assert_eq!(probed(&target, LONG).await.unwrap(), "[Legacy] Stdio");
}

#[tokio::test]
async fn a_legacy_command_that_ends_on_discover_is_started_again() {
    let target = server(&format!("*discover*) exit 1;; *initialize*) {INITIALIZED};;"));
    assert_eq!(probed(&target, LONG).await.unwrap(), "[Legacy] Stdio");
}

#[tokio::test]
async fn a_legacy_command_that_ignores_discover_is_asked_on() {
    let target = server(&format!("*initialize*) {INITIALIZED};;"));
    assert_eq!(probed(&target, Duration::from_secs(2)).await.unwrap(), "[Legacy] Stdio");
}

#[tokio::test]
async fn a_command_that_discover_confuses_is_started_again() {
    let target = shell(&format!(
        r#"read -r line; case "$line" in *discover*) cat >/dev/null;; *initialize*) {INITIALIZED}; cat >/dev/null;; esac"#
    ));
    assert_eq!(probed(&target, Duration::from_secs(4)).await.unwrap(), "[Legacy] Stdio");
}

#[tokio::test]
async fn a_modern_command_that_begins_slowly_is_not_taken_for_legacy() {
    // It reads only when both questions have been asked.
    let target = shell(&format!(
        r#"read -r first; read -r second; case "$first$second" in *discover*initialize*) {DUAL};; esac; cat >/dev/null"#
    ));
    assert_eq!(probed(&target, Duration::from_secs(4)).await.unwrap(), "[Modern, Legacy] Stdio");
}

#[tokio::test]
async fn a_command_that_wants_another_try_gets_one() {
    let again =
        r#"echo '{"id":"salon-discover","error":{"code":-32022,"message":"","data":{"supported":["2026-07-28"]}}}'"#;
    let target = shell(&format!(r#"read -r line; {again}; read -r line; {DUAL}; cat >/dev/null"#));
    assert_eq!(probed(&target, LONG).await.unwrap(), "[Modern, Legacy] Stdio");
}

#[tokio::test]
async fn what_is_no_server_is_an_error() {
    let ended = probed(&shell("exit 4"), LONG).await.unwrap_err();
    assert_eq!(ended, "it did not answer: it ended (exit status: 4)");
    let silent = probed(&shell("cat >/dev/null"), Duration::from_millis(400)).await.unwrap_err();
    assert_eq!(silent, "no answer within 0.4 s");
    let refuses = r#"*initialize*) echo '{"id":"salon-initialize","error":{"code":-32602,"message":"too old"}}';;"#;
    let refused = probed(&server(refuses), Duration::from_secs(2)).await.unwrap_err();
    assert_eq!(refused, "it does not speak MCP: it refuses `initialize`: too old");
}

const DISCOVERED_JSON: &str =
    r#"{"jsonrpc":"2.0","id":"salon-discover","result":{"supportedVersions":["2026-07-28"]}}"#;
const DUAL_JSON: &str =
    r#"{"jsonrpc":"2.0","id":"salon-discover","result":{"supportedVersions":["2026-07-28","2025-03-26"]}}"#;
const INITIALIZED_JSON: &str = r#"{"jsonrpc":"2.0","id":"salon-initialize","result":{"protocolVersion":"2025-06-18"}}"#;

/// Probes a URL while the test answers.
async fn answering(transport: UrlTransport, answers: impl AsyncFnOnce(&mut Server)) -> Result<String, String> {
    let mut server = Server::start().await;
    let target = server.target_as(transport);
    let (verdict, ()) = tokio::join!(probed(&target, LONG), answers(&mut server));
    verdict
}

#[tokio::test]
async fn a_modern_url() {
    let verdict = answering(UrlTransport::Auto, async |server| {
        let asked = server.expect("server/discover").await;
        let seen = (asked.header("mcp-protocol-version"), asked.header("mcp-method"));
        assert_eq!(seen, (Some("2026-07-28"), Some("server/discover")));
        asked.json(DISCOVERED_JSON);
        server.expect("initialize").await.answer(
            404,
            "application/json",
            r#"{"jsonrpc":"2.0","id":"salon-initialize","error":{"code":-32601,"message":"no"}}"#,
        );
    });
    assert_eq!(verdict.await.unwrap(), "[Modern] Streamable");
}

#[tokio::test]
async fn a_url_that_lists_both_eras_as_events() {
    let verdict = answering(UrlTransport::Auto, async |server| {
        server.expect("server/discover").await.events().data(DUAL_JSON).await;
    });
    assert_eq!(verdict.await.unwrap(), "[Modern, Legacy] Streamable");
}

#[tokio::test]
async fn a_url_that_answers_both_is_dual_and_its_session_deleted() {
    let verdict = answering(UrlTransport::Auto, async |server| {
        server.expect("server/discover").await.json(DISCOVERED_JSON);
        server.expect("initialize").await.with("mcp-session-id", "s1").json(INITIALIZED_JSON);
        let deleted = server.expect("DELETE /mcp").await;
        assert_eq!(deleted.header("mcp-session-id"), Some("s1"));
        deleted.status(200);
    });
    assert_eq!(verdict.await.unwrap(), "[Modern, Legacy] Streamable");
}

#[tokio::test]
async fn a_legacy_url_whatever_it_says_to_discover() {
    let replies = [
        (400, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#),
        (200, r#"{"jsonrpc":"2.0","id":"salon-discover","error":{"code":-32601,"message":"Method not found"}}"#),
        (404, ""),
        (422, "Unexpected message, expect initialize request"),
    ];
    for (status, body) in replies {
        let verdict = answering(UrlTransport::Auto, async |server| {
            server.expect("server/discover").await.answer(status, "application/json", body);
            let asked = server.expect("initialize").await;
            assert_eq!(asked.header("mcp-protocol-version"), None);
            asked.json(INITIALIZED_JSON);
        });
        assert_eq!(verdict.await.unwrap(), "[Legacy] Streamable", "{status} {body}");
    }
}

#[tokio::test]
async fn a_url_that_has_only_http_sse() {
    let endpoint = async |server: &mut Server| {
        let events = server.expect("GET /mcp").await.events();
        events.send("event: endpoint\ndata: /messages\n\n").await;
        events.closed().await;
    };
    for status in [400, 404, 405] {
        let verdict = answering(UrlTransport::Auto, async |server| {
            server.expect("server/discover").await.status(status);
            server.expect("initialize").await.status(status);
            endpoint(server).await;
        });
        assert_eq!(verdict.await.unwrap(), "[Legacy] Sse", "{status}");
    }
    let told = answering(UrlTransport::Sse, endpoint).await;
    assert_eq!(told.unwrap(), "[Legacy] Sse");
    let refused = answering(UrlTransport::Streamable, async |server| {
        server.expect("server/discover").await.status(404);
        server.expect("initialize").await.status(404);
    });
    assert_eq!(refused.await.unwrap_err(), "it does not speak MCP: the server answered HTTP 404");
}

#[tokio::test]
async fn what_says_nothing_about_eras_is_never_legacy() {
    for (status, said) in [
        (401, "the server refuses us (HTTP 401): credentials may be missing or wrong"),
        (403, "the server refuses us (HTTP 403): credentials may be missing or wrong"),
        (429, "the server answered HTTP 429"),
        (500, "the server answered HTTP 500"),
        (503, "the server answered HTTP 503"),
        (308, "the server answered HTTP 308, a redirect to another origin, which is not followed"),
    ] {
        let verdict = answering(UrlTransport::Auto, async |server| {
            let asked = server.expect("server/discover").await;
            asked.with("location", "http://elsewhere.invalid/").status(status);
        });
        assert_eq!(verdict.await.unwrap_err(), said);
        let verdict = answering(UrlTransport::Auto, async |server| {
            server.expect("server/discover").await.status(400);
            let asked = server.expect("initialize").await;
            asked.with("location", "http://elsewhere.invalid/").status(status);
        });
        assert_eq!(verdict.await.unwrap_err(), said);
    }
    let mut server = Server::start().await;
    let target = server.target();
    let (silent, _open) = tokio::join!(probed(&target, Duration::from_millis(1500)), server.expect("server/discover"));
    assert_eq!(silent.unwrap_err(), "no answer within 1.5 s");
}

#[tokio::test]
async fn a_web_site_is_no_server() {
    let verdict = answering(UrlTransport::Auto, async |server| {
        server.expect("server/discover").await.answer(200, "text/html", "<html>");
        server.expect("initialize").await.answer(200, "text/html", "<html>");
    });
    assert_eq!(verdict.await.unwrap_err(), "it does not speak MCP: it answers a POST with something else than MCP");
    let verdict = answering(UrlTransport::Auto, async |server| {
        server.expect("server/discover").await.status(405);
        server.expect("initialize").await.status(405);
        server.expect("GET /mcp").await.answer(200, "text/html", "<html>");
    });
    let why =
        "it does not speak MCP: the server answered HTTP 405, and it has no stream of events with an endpoint either";
    assert_eq!(verdict.await.unwrap_err(), why);
}

#[tokio::test]
async fn an_address_that_is_none_is_refused() {
    for (url, said) in [
        ("robot", "not a usable URL: relative URL without a base"),
        ("ftp://127.0.0.1/", "not a usable URL: `ftp` is not http or https"),
    ] {
        let target = GuestTarget::Url { url: url.into(), headers: vec![], transport: UrlTransport::Auto };
        assert_eq!(probed(&target, LONG).await.unwrap_err(), said);
    }
}
