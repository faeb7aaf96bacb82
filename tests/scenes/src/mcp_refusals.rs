//! What the addresses of MCP refuse before any session hears of it: each with its status, and a body in the form its reader knows.

use libtest_mimic::Trial;
use salon_testkit::http::{HttpAnswer, HttpCall};
use salon_testkit::{Failure, TestEngine, TestGateway, TestOptions, TestSocket, TestToken};
use serde_json::Value;

use crate::tables::{Case, Logs, check_all, trial};

/// The message limit here, in bytes.
const LIMIT: usize = 4096;

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
const EVENTS: (&str, &str) = ("Accept", "text/event-stream");
const MODERN: (&str, &str) = ("MCP-Protocol-Version", "2026-07-28");
const UNKNOWN: (&str, &str) = ("Mcp-Session-Id", "00112233445566778899aabbccddeeff");

/// Whose token the request carries.
#[derive(Clone, Copy)]
enum As {
    Nobody,
    /// Opens `room:alpha`.
    Alice,
    /// Opens `room:alpha` and `room:beta`.
    Both,
}

/// What a refusal looks like.
#[derive(Clone, Copy)]
enum Form {
    /// A JSON-RPC error with this code that answers no request.
    Rpc(i64),
    /// The gateway's own, with this code.
    Problem(&'static str),
    /// Nothing.
    Bare,
}

struct Refused {
    name: &'static str,
    who: As,
    call: HttpCall,
    status: u16,
    form: Form,
    header: Option<(&'static str, &'static str)>,
}

/// Who asks, how and where.
type Asking<'a> = (As, &'a str, &'a str);

fn refused(
    name: &'static str,
    (who, method, path): Asking<'_>,
    headers: &[(&str, &str)],
    body: &str,
    status: u16,
    form: Form,
) -> Refused {
    let call = headers.iter().fold(HttpCall::new(method, path), |call, (name, value)| call.header(name, *value));
    Refused { name, who, call: call.body(body), status, form, header: None }
}

impl Refused {
    fn saying(mut self, header: &'static str, value: &'static str) -> Self {
        self.header = Some((header, value));
        self
    }
}

impl Case for Refused {
    fn name(&self) -> String {
        self.name.to_owned()
    }
}

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    if !Logs::SqliteOnly.include(engine) {
        return Vec::new();
    }
    let tables: [(&str, Vec<Refused>); 4] =
        [("posts", posts()), ("streams", streams()), ("ends", ends()), ("strangers", strangers())];
    let refusals = tables.into_iter().map(|(name, table)| {
        trial(engine, &format!("mcp::refused::{name}"), move || async move {
            check_all(table, async || open(engine).await, refuse).await?.stop().await
        })
    });
    let others = [
        trial(engine, "mcp::preflight", move || preflight(engine)),
        trial(engine, "mcp::refused::a WebSocket without a token", move || socket_without_token(engine)),
    ];
    refusals.chain(others).collect()
}

fn posts() -> Vec<Refused> {
    use As::Alice;
    let room = "/mcp/room:alpha";
    let large = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(LIMIT));
    vec![
        refused(
            "a POST whose type is not JSON",
            (Alice, "POST", room),
            &[("Content-Type", "text/plain")],
            LIST,
            415,
            Form::Rpc(-32000),
        ),
        refused("a POST of no type", (Alice, "POST", room), &[], "", 415, Form::Rpc(-32000)),
        refused("a POST over the limit", (Alice, "POST", room), &[], &large, 413, Form::Rpc(-32000)),
        refused("a POST that is not JSON", (Alice, "POST", room), &[], "{", 400, Form::Rpc(-32700)),
        refused("a message without a session", (Alice, "POST", room), &[], LIST, 400, Form::Rpc(-32000)),
        refused("a message of no such session", (Alice, "POST", room), &[UNKNOWN], LIST, 404, Form::Rpc(-32001)),
        refused(
            "an initialize within no such session",
            (Alice, "POST", room),
            &[UNKNOWN],
            INITIALIZE,
            404,
            Form::Rpc(-32001),
        ),
        refused(
            "a message in an unknown revision",
            (Alice, "POST", room),
            &[UNKNOWN, ("MCP-Protocol-Version", "2025-02-31")],
            LIST,
            400,
            Form::Rpc(-32000),
        ),
        refused("a message to nowhere", (Alice, "POST", "/message"), &[], LIST, 400, Form::Rpc(-32000)),
        refused(
            "a message to no such session",
            (Alice, "POST", "/message?sessionId=00"),
            &[],
            LIST,
            404,
            Form::Rpc(-32001),
        ),
        refused("an initialize without a topic", (As::Both, "POST", "/sse"), &[], INITIALIZE, 400, Form::Rpc(-32000)),
        refused(
            "an initialize in an invalid topic",
            (Alice, "POST", "/mcp/room%2Falpha"),
            &[],
            INITIALIZE,
            400,
            Form::Rpc(-32000),
        ),
        refused(
            "an initialize with an invalid participant",
            (Alice, "POST", "/mcp/room:alpha/a%2Fb"),
            &[],
            INITIALIZE,
            400,
            Form::Rpc(-32000),
        ),
        refused(
            "a query that says a thing twice",
            (Alice, "POST", "/sse?topic=room:alpha&topic=room:alpha"),
            &[],
            INITIALIZE,
            400,
            Form::Rpc(-32000),
        ),
    ]
}

fn streams() -> Vec<Refused> {
    use As::Alice;
    let room = "/mcp/room:alpha";
    vec![
        refused("a stream that is not asked for", (Alice, "GET", room), &[], "", 406, Form::Rpc(-32000)),
        refused(
            "a stream that must be JSON",
            (Alice, "GET", room),
            &[("Accept", "application/json")],
            "",
            406,
            Form::Rpc(-32000),
        ),
        refused("a stream of no such session", (Alice, "GET", room), &[EVENTS, UNKNOWN], "", 404, Form::Rpc(-32001)),
        refused(
            "a stream in the revision without streams",
            (Alice, "GET", room),
            &[EVENTS, MODERN],
            "",
            405,
            Form::Rpc(-32000),
        )
        .saying("allow", "POST"),
        refused(
            "a stream in a later revision",
            (Alice, "GET", room),
            &[EVENTS, ("MCP-Protocol-Version", "2027-01-01")],
            "",
            405,
            Form::Rpc(-32000),
        )
        .saying("allow", "POST"),
        refused(
            "a stream in an unknown revision",
            (Alice, "GET", room),
            &[EVENTS, ("MCP-Protocol-Version", "latest")],
            "",
            400,
            Form::Rpc(-32000),
        ),
        refused("a stream without a topic", (As::Both, "GET", "/sse"), &[EVENTS], "", 400, Form::Rpc(-32000)),
        refused(
            "a stream where messages go",
            (Alice, "GET", "/message?sessionId=00"),
            &[EVENTS],
            "",
            405,
            Form::Rpc(-32000),
        )
        .saying("allow", "POST"),
        refused("a look without a body", (Alice, "HEAD", room), &[EVENTS], "", 405, Form::Bare)
            .saying("allow", "GET, POST, DELETE"),
        refused("a method of no use", (Alice, "PUT", room), &[], LIST, 405, Form::Rpc(-32000))
            .saying("allow", "GET, POST, DELETE"),
    ]
}

fn ends() -> Vec<Refused> {
    use As::Alice;
    let room = "/mcp/room:alpha";
    vec![
        refused("the end of nothing", (Alice, "DELETE", room), &[], "", 400, Form::Rpc(-32000)),
        refused("the end of no such session", (Alice, "DELETE", room), &[UNKNOWN], "", 404, Form::Rpc(-32001)),
        refused(
            "the end in the revision without sessions",
            (Alice, "DELETE", room),
            &[UNKNOWN, MODERN],
            "",
            405,
            Form::Rpc(-32000),
        )
        .saying("allow", "POST"),
    ]
}

fn strangers() -> Vec<Refused> {
    let room = "/mcp/room:alpha";
    let mut table = vec![
        refused(
            "another room",
            (As::Alice, "POST", "/mcp/room:beta"),
            &[],
            INITIALIZE,
            403,
            Form::Problem("forbidden"),
        ),
        refused(
            "another room as a query",
            (As::Alice, "GET", "/sse?topic=room:beta"),
            &[EVENTS],
            "",
            403,
            Form::Problem("forbidden"),
        ),
        refused(
            "another host",
            (As::Alice, "POST", room),
            &[("Host", "rebound.example")],
            INITIALIZE,
            403,
            Form::Problem("forbidden"),
        ),
        refused(
            "another page",
            (As::Alice, "POST", room),
            &[("Origin", "https://other.example")],
            INITIALIZE,
            403,
            Form::Problem("forbidden"),
        ),
        refused(
            "a token in the address",
            (As::Nobody, "POST", "/mcp/room:alpha?access_token=x"),
            &[],
            INITIALIZE,
            401,
            Form::Problem("unauthorized"),
        ),
        refused(
            "an invalid token",
            (As::Nobody, "POST", room),
            &[("Authorization", "Bearer x.y.z")],
            INITIALIZE,
            401,
            Form::Problem("unauthorized"),
        ),
    ];
    let everywhere = [
        ("nobody's POST", "POST", room, INITIALIZE),
        ("nobody's POST to a participant", "POST", "/mcp/room:alpha/bob", INITIALIZE),
        ("nobody's GET", "GET", room, ""),
        ("nobody's DELETE", "DELETE", room, ""),
        ("nobody's HTTP+SSE", "GET", "/sse?topic=room:alpha", ""),
        ("nobody's POST for HTTP+SSE", "POST", "/sse?topic=room:alpha", INITIALIZE),
        ("nobody's message", "POST", "/message?sessionId=00", LIST),
    ];
    table.extend(everywhere.map(|(name, method, path, body)| {
        refused(name, (As::Nobody, method, path), &[EVENTS, UNKNOWN], body, 401, Form::Problem("unauthorized"))
    }));
    table
}

async fn open(engine: TestEngine) -> Result<TestGateway, Failure> {
    TestGateway::start(TestOptions::new(engine).set("limits.message", &LIMIT.to_string())?).await
}

async fn refuse(gateway: &mut TestGateway, refused: Refused) -> Result<(), Failure> {
    let topics = match refused.who {
        As::Nobody => None,
        As::Alice => Some("room:alpha"),
        As::Both => Some("room:alpha,room:beta"),
    };
    let mut call = refused.call;
    if let Some(topics) = topics {
        let mut token = TestToken::new("alice");
        token.claim("topics", topics)?;
        call = call.bearer(&gateway.token(&token)?);
    }
    let answer = call.send(gateway.address()).await?;
    let fits = answer.status == refused.status
        && is_of(refused.form, &answer)
        && refused.header.is_none_or(|(name, value)| answer.header(name) == Some(value));
    if !fits {
        return Err(format!("expected {} and another answer than {answer:?}", refused.status));
    }
    Ok(())
}

fn is_of(form: Form, answer: &HttpAnswer) -> bool {
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    match form {
        Form::Rpc(code) => {
            let error = &body["error"];
            body["jsonrpc"] == "2.0" && body["id"].is_null() && error["code"] == code && is_text(&error["message"])
        }
        Form::Problem(code) => body["code"] == code && is_text(&body["error"]),
        Form::Bare => answer.body.is_empty(),
    }
}

/// A page that is allowed may send what MCP needs, and read what it needs.
async fn preflight(engine: TestEngine) -> Result<(), Failure> {
    let origin = "https://app.example";
    let gateway = TestGateway::start(TestOptions::new(engine).set("http.origins", origin)?).await?;
    let asked = "authorization,mcp-session-id,mcp-protocol-version,Mcp-Param-City,x-other";
    let call = HttpCall::new("OPTIONS", "/mcp/room:alpha").header("Origin", origin);
    let call = call.header("Access-Control-Request-Method", "DELETE").header("Access-Control-Request-Headers", asked);
    let answer = call.send(gateway.address()).await?;
    let said = |answer: &HttpAnswer, header: &str| answer.header(header).unwrap_or_default().to_owned();
    let (methods, headers) =
        (said(&answer, "access-control-allow-methods"), said(&answer, "access-control-allow-headers"));
    let wanted = ["authorization", "content-type", "last-event-id", "mcp-session-id", "mcp-protocol-version"];
    let mut all = wanted.iter().chain(&["mcp-method", "mcp-name", "mcp-param-city"]);
    if answer.status != 204 || !methods.contains("DELETE") || !all.all(|name| headers.contains(name)) {
        return Err(format!("the page may not do what it must: {answer:?}"));
    }
    if headers.contains("x-other") {
        return Err(format!("the page may send what nobody needs: {headers}"));
    }
    let answer = HttpCall::new("POST", "/mcp/room:alpha").header("Origin", origin).send(gateway.address()).await?;
    let exposed = said(&answer, "access-control-expose-headers");
    if answer.status != 401 || exposed != "mcp-session-id, www-authenticate" {
        return Err(format!("the page cannot read what it must: {answer:?}"));
    }
    gateway.stop().await
}

async fn socket_without_token(engine: TestEngine) -> Result<(), Failure> {
    let gateway = open(engine).await?;
    let call = HttpCall::new("GET", "/mcp/room:alpha").header("Sec-WebSocket-Protocol", "mcp");
    match TestSocket::connect(gateway.address(), call).await? {
        Err(answer) if answer.status == 401 && is_of(Form::Problem("unauthorized"), &answer) => gateway.stop().await,
        Err(answer) => Err(format!("expected 401, came {answer:?}")),
        Ok(_) => Err("expected 401, came a WebSocket".into()),
    }
}
