//! Sign-ins that must not succeed, each for its reason.

use insta::assert_snapshot;

use super::*;

const BACK: &str = "code=c1&state=state&iss=https%3A%2F%2Fid.example";

fn by_browser() -> Script {
    Script::begin(options(SignInWay::Browser))
}

#[test]
fn metadata_that_cannot_be_trusted_is_refused() {
    let cases = [
        by_browser().answer(404, ""),
        by_browser().ok(&RESOURCE.replace("https://mcp.example/mcp", "https://other.example/mcp")),
        by_browser().ok(r#"{"resource":"https://mcp.example/mcp"}"#),
        by_browser()
            .ok(RESOURCE)
            .ok(&SERVER.replace(r#""issuer":"https://id.example""#, r#""issuer":"https://evil.example""#)),
        by_browser().ok(RESOURCE).ok(&SERVER.replace(r#""plain","S256""#, r#""plain""#)),
        by_browser().ok(RESOURCE).ok(&SERVER.replace("code_challenge_methods_supported", "x")),
        by_browser().ok(RESOURCE).ok(&SERVER.replace("registration_endpoint", "x")),
        by_browser()
            .ok(RESOURCE)
            .ok(&SERVER.replace("authorization_endpoint\":\"https://id.example/authorize", "x\":\"")),
        by_browser().ok(RESOURCE).answer(404, "").answer(404, ""),
        Script::begin(options(SignInWay::Device))
            .ok(RESOURCE)
            .ok(&SERVER.replace("device_authorization_endpoint", "x")),
        by_browser()
            .ok(RESOURCE)
            .ok(SERVER)
            .answer(400, r#"{"error":"invalid_redirect_uri","error_description":"no\u001b[2J loopback"}"#),
        by_browser().ok(RESOURCE).ok(SERVER).ok(r#"{"client_id":"c","token_endpoint_auth_method":"private_key_jwt"}"#),
    ];
    let lines: Vec<_> = cases.iter().map(Script::last).collect();
    assert_snapshot!(lines.join("\n"), @"
    refused: the answer of the authorization server cannot be used: HTTP 404
    refused: the server's metadata cannot be used: it is of another resource
    refused: the server's metadata cannot be used: it names no authorization server
    refused: the authorization server's metadata cannot be used: its issuer is not the one that was asked for
    refused: the authorization server does not offer PKCE with S256, which MCP requires
    refused: the authorization server does not offer PKCE with S256, which MCP requires
    refused: the authorization server registers no clients; register Salon there and give its id with `--oauth-client-id`
    refused: the authorization server's metadata cannot be used: it has no authorization endpoint
    refused: the server has no OAuth metadata, so there is no way to sign in; it may want a key, given with `--header`
    refused: the authorization server offers no device flow
    refused: the authorization server refuses: invalid_redirect_uri (no[2J loopback)
    refused: the answer of the authorization server cannot be used: it wants a way of authenticating that Salon does not have
    ");
}

#[test]
fn an_answer_of_the_browser_is_checked() {
    let cases = [
        browsing().redirect("code=c1&state=other"),
        browsing().redirect("code=c1"),
        browsing().redirect(""),
        browsing().redirect("code=c1&state=state"),
        browsing().redirect("code=c1&state=state&iss=https%3A%2F%2Fevil.example"),
        browsing().redirect("error=access_denied&state=state&iss=https%3A%2F%2Fid.example"),
        browsing().redirect("error=server_error&error_description=oh&state=state&iss=https%3A%2F%2Fid.example"),
        browsing().redirect("state=state&iss=https%3A%2F%2Fid.example"),
        // It works once.
        browsing().redirect(BACK).redirect(BACK),
    ];
    let lines: Vec<_> = cases.iter().map(Script::last).collect();
    assert_snapshot!(lines.join("\n"), @"
    unrelated
    unrelated
    unrelated
    refused: the answer is not from the authorization server that was asked
    refused: the answer is not from the authorization server that was asked
    refused: the sign-in was refused in the browser
    refused: the authorization server refuses: server_error (oh)
    refused: the answer of the authorization server cannot be used: the browser brought no code
    unrelated
    ");
    // Where the server does not promise an issuer, there need not be one, but a wrong one is wrong.
    let silent = SERVER.replace("authorization_response_iss_parameter_supported", "x");
    let begun = || by_browser().ok(RESOURCE).ok(&silent).ok(CLIENT);
    assert!(begun().redirect("code=c1&state=state").last().starts_with("POST https://id.example/token"));
    assert!(begun().redirect("code=c1&state=state&iss=x").last().contains("not from the authorization server"));
}

#[test]
fn an_answer_with_tokens_is_checked() {
    let given = |status, body: &str| browsing().redirect(BACK).answer(status, body).last().to_owned();
    let lines = [
        given(400, r#"{"error":"invalid_grant"}"#),
        given(200, &TOKENS.replace("bearer", "DPoP")),
        given(200, &TOKENS.replace("a1", "a 1")),
        given(200, &TOKENS.replace("a1", "")),
        given(200, "<html>"),
        given(302, ""),
        given(503, r#"{"error":"temporarily_unavailable"}"#),
    ];
    assert_snapshot!(lines.join("\n"), @"
    refused: the authorization server refuses: invalid_grant
    refused: the answer of the authorization server cannot be used: its token is not a bearer token
    refused: the answer of the authorization server cannot be used: its token is not one word
    refused: the answer of the authorization server cannot be used: its token is not one word
    refused: the answer of the authorization server cannot be used: it is not the JSON that was asked for
    refused: the answer of the authorization server cannot be used: HTTP 302
    refused: the answer of the authorization server cannot be used: HTTP 503
    ");
}

#[test]
fn a_device_code_ends() {
    let second = Duration::from_secs(1);
    let polled = |body: &str| showing().wait(5 * second).answer(400, body).last().to_owned();
    let lines = [
        polled(r#"{"error":"access_denied"}"#),
        polled(r#"{"error":"expired_token"}"#),
        polled(r#"{"error":"invalid_grant"}"#),
        showing().wait(600 * second).last().to_owned(),
        Script::begin(options(SignInWay::Device))
            .ok(RESOURCE)
            .ok(SERVER)
            .ok(CLIENT)
            .ok(&DEVICE.replace("https://id.example/go", "javascript:x"))
            .last()
            .to_owned(),
    ];
    assert_snapshot!(lines.join("\n"), @"
    refused: the sign-in was refused in the browser
    refused: nobody signed in in time
    refused: the authorization server refuses: invalid_grant
    refused: nobody signed in in time
    refused: the answer of the authorization server cannot be used: its page for the code is not a URL
    ");
}

#[test]
fn nothing_of_tokens_is_printed() {
    let tokens =
        browsing().redirect(BACK).ok(&TOKENS.replace("a1", "hunter2").replace("r1", "hunter3")).tokens.unwrap();
    let client = RegisteredClient::new("c1", Some("hunter4".into()));
    let told = format!("{tokens:?} {:?} {client:?} {:?}", tokens.refresh(), tokens.header());
    assert!(told.contains("https://mcp.example/mcp") && !told.contains("hunter"), "{told}");
}
