//! The challenge to a refused MCP client (RFC 6750), and the metadata it points to (RFC 9728).

use libtest_mimic::Trial;
use salon_testkit::http::HttpCall;
use salon_testkit::{Failure, TestEngine, TestGateway, TestOptions, TestToken};

use crate::tables::{self, Logs};

const ISSUER: &str = "https://id.example";

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    tables::trials(
        engine,
        "metadata",
        &[
            ("describes what is protected", Logs::SqliteOnly, |engine| Box::pin(described(engine))),
            ("challenges who has no good token", Logs::SqliteOnly, |engine| Box::pin(challenged(engine))),
            ("begins with the public URL", Logs::SqliteOnly, |engine| Box::pin(public(engine))),
            ("says how to get a token without OAuth", Logs::SqliteOnly, |engine| Box::pin(without_oauth(engine))),
        ],
    )
}

fn same(what: &str, found: &str, expected: &str) -> Result<(), Failure> {
    if found == expected { Ok(()) } else { Err(format!("{what}:\n  {found}\ninstead of\n  {expected}")) }
}

async fn described(engine: TestEngine) -> Result<(), Failure> {
    let options = TestOptions::new(engine).set("http.origins", "https://app.example")?;
    let gateway = TestGateway::start(options.set("auth.authorization_servers", ISSUER)?).await?;
    let base = format!("http://{}", gateway.address());
    for path in ["", "/sse", "/mcp/room:alpha", "/mcp/room%3Aalpha", "/mcp/room:alpha/robot-1"] {
        let answer = HttpCall::new("GET", format!("{WELL_KNOWN}{path}")).send(gateway.address()).await?;
        let scopes = if path.contains("/mcp/") { r#""scopes_supported":["topic:room:alpha"],"# } else { "" };
        let expected = format!(
            r#"{{"resource":"{base}{path}","authorization_servers":["{ISSUER}"],{scopes}"bearer_methods_supported":["header"],"resource_name":"Salon"}}"#
        );
        same(path, &format!("{} {}", answer.status, answer.body), &format!("200 {expected}"))?;
    }
    // What begins like a name of the gateway's and is somebody else's.
    for host in
        ["127.0.0.1:@evil.example", "[::1].evil.example", "127.0.0.1:80:@evil.example", "[::1]evil", "localhost:a"]
    {
        let answer = HttpCall::new("GET", WELL_KNOWN).header("Host", host).send(gateway.address()).await?;
        same(host, &answer.status.to_string(), "403")?;
    }
    for (path, status) in [
        ("/", 404),
        ("/v0/ws", 404),
        ("/mcp", 404),
        ("/mcp/", 404),
        ("/mcp/room:alpha/a/b", 404),
        ("/mcp/room%2Falpha", 400),
        ("/mcp/room:alpha/a%22b", 400),
        ("/mcp/%ff", 400),
    ] {
        let answer = HttpCall::new("GET", format!("{WELL_KNOWN}{path}")).send(gateway.address()).await?;
        same(path, &answer.status.to_string(), &status.to_string())?;
    }
    let page = HttpCall::new("GET", WELL_KNOWN).header("Origin", "https://app.example").send(gateway.address()).await?;
    same("CORS", page.header("access-control-allow-origin").unwrap_or("-"), "https://app.example")?;
    gateway.stop().await
}

async fn challenged(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine).set("auth.authorization_servers", ISSUER)?).await?;
    let base = format!("http://{}", gateway.address());
    let token = |claim, value| {
        let mut token = TestToken::new("alice");
        token.claim(claim, value)?;
        gateway.token(&token)
    };
    let (expired, elsewhere) = (token("expires", "-10")?, token("topics", "room:beta")?);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let invalid = r#"error="invalid_token", error_description="the token has expired""#;
    let scope = r#"error="insufficient_scope", error_description="topic `room:alpha` is not open to this token""#;
    let none = "Bearer realm=\"salon\"";
    for (method, path, token, expected) in [
        ("POST", "/mcp/room:alpha", None, format!("401 {none}, META/mcp/room:alpha")),
        ("GET", "/mcp/room:alpha", None, format!("401 {none}, META/mcp/room:alpha")),
        ("DELETE", "/mcp/room:alpha", None, format!("401 {none}, META/mcp/room:alpha")),
        ("POST", "/mcp/room%3Aalpha/bob", None, format!("401 {none}, META/mcp/room%3Aalpha/bob")),
        ("POST", "/mcp/room:alpha", Some(&expired), format!("401 {none}, {invalid}, META/mcp/room:alpha")),
        ("POST", "/mcp/room:alpha", Some(&elsewhere), format!("403 {none}, {scope}, META/mcp/room:alpha")),
        ("GET", "/sse?topic=room:alpha", None, format!("401 {none}, META/sse")),
        ("POST", "/message?sessionId=x", Some(&expired), format!("401 {none}, {invalid}, META/sse")),
        ("GET", "/v0/topics", None, format!("401 {none}")),
        ("GET", "/v0/topics", Some(&expired), format!("401 {none}, {invalid}")),
        ("GET", "/v0/topics/room:alpha/participants", Some(&elsewhere), format!("403 {none}, {scope}")),
    ] {
        let mut call = HttpCall::new(method, path).header("Accept", "application/json, text/event-stream");
        call.headers.extend(token.map(|token| ("Authorization".into(), format!("Bearer {token}"))));
        if method == "POST" {
            call = call.body(body);
        }
        let answer = call.send(gateway.address()).await?;
        let challenge = answer.header("www-authenticate").unwrap_or("-");
        let expected = match expected.split_once("META") {
            Some((before, path)) => {
                let scope = if method == "POST" && path == "/sse" { "" } else { ", scope=\"topic:room:alpha\"" };
                format!("{before}resource_metadata=\"{base}{WELL_KNOWN}{path}\"{scope}")
            }
            None => expected,
        };
        same(&format!("{method} {path}"), &format!("{} {challenge}", answer.status), &expected)?;
    }
    gateway.stop().await
}

async fn public(engine: TestEngine) -> Result<(), Failure> {
    let options = TestOptions::new(engine).set("http.public_url", "https://example.org/salon/")?;
    let options = options.set("auth.authorization_servers", "https://id.example")?;
    let gateway = TestGateway::start(options.set("auth.authorization_servers", "https://id.example/b/")?).await?;
    let answer = HttpCall::new("GET", format!("{WELL_KNOWN}/mcp/room:alpha")).send(gateway.address()).await?;
    let expected = r#"{"resource":"https://example.org/salon/mcp/room:alpha","authorization_servers":["https://id.example","https://id.example/b/"],"scopes_supported":["topic:room:alpha"],"bearer_methods_supported":["header"],"resource_name":"Salon"}"#;
    same("the description", &answer.body, expected)?;
    let answer = HttpCall::new("GET", format!("{WELL_KNOWN}/salon/mcp/room:alpha")).send(gateway.address()).await?;
    same("the description where RFC 9728 has it", &answer.body, expected)?;
    let answer = HttpCall::new("POST", "/mcp/room:alpha").body("{}").send(gateway.address()).await?;
    let expected = format!(
        r#"Bearer realm="salon", resource_metadata="https://example.org/salon{WELL_KNOWN}/mcp/room:alpha", scope="topic:room:alpha""#
    );
    same("the challenge", answer.header("www-authenticate").unwrap_or("-"), &expected)?;
    gateway.stop().await
}

/// What clients of MCP try in turn when they are refused and find no metadata: an authorization server at the gateway's own address.
async fn without_oauth(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let refused = HttpCall::new("POST", "/mcp/room:alpha").body("{}").send(gateway.address()).await?;
    same("the challenge", refused.header("www-authenticate").unwrap_or("-"), "Bearer realm=\"salon\"")?;
    let how = "Get one from the gateway's operator, or make it with `salon token` on its machine";
    let missing = format!(
        r#"401 {{"error":"a token is required: send `Authorization: Bearer <token>`. {how}","code":"unauthorized"}}"#
    );
    same("without a token", &format!("{} {}", refused.status, refused.body), &missing)?;
    let none = format!(
        "a token is required, and this gateway has no OAuth sign-in. {how}, and send `Authorization: Bearer <token>`"
    );
    for path in ["", "/sse", "/mcp/room:alpha", "/mcp/room:alpha/bob"] {
        let answer = HttpCall::new("GET", format!("{WELL_KNOWN}{path}")).send(gateway.address()).await?;
        let expected = format!(r#"404 {{"error":"{none}","code":"not_found"}}"#);
        same(path, &format!("{} {}", answer.status, answer.body), &expected)?;
    }
    for (method, path, status) in [
        ("GET", "/.well-known/oauth-authorization-server", 404),
        ("GET", "/.well-known/oauth-authorization-server/mcp/room:alpha", 404),
        ("GET", "/.well-known/openid-configuration", 404),
        ("GET", "/.well-known/openid-configuration/mcp/room:alpha", 404),
        ("POST", "/register", 403),
        ("GET", "/authorize?client_id=a", 403),
        ("POST", "/token", 403),
    ] {
        let answer = HttpCall::new(method, path).send(gateway.address()).await?;
        let expected = format!(r#"{status} {{"error":"access_denied","error_description":"{none}"}}"#);
        same(path, &format!("{} {}", answer.status, answer.body), &expected)?;
    }
    gateway.stop().await
}
