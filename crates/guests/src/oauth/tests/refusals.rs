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
    refused: the answer of the authorization server cannot be used: its page for the code is not a URL of https
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

#[test]
fn a_client_of_one_authorization_server_is_not_shown_to_another() {
    let begun = |client| {
        let mut options = options(SignInWay::Browser);
        options.client = Some(client);
        Script::begin(options).ok(RESOURCE).last().to_owned()
    };
    let secret = || RegisteredClient::new("ours", Some("hunter2".into()));
    let lines = [
        begun(secret()),
        begun(secret().of_issuer("https://other.example")),
        begun(RegisteredClient::new("ours", None).of_issuer("https://other.example")),
        begun(secret().of_issuer("https://id.example/")),
        begun(RegisteredClient::new("ours", None)),
    ];
    assert_snapshot!(lines.join("\n"), @"
    refused: a client secret needs `--oauth-issuer`: the server could name any authorization server and get the secret
    refused: the server does not name `https://other.example`, the authorization server of the client; no other gets its id or secret
    refused: the server does not name `https://other.example`, the authorization server of the client; no other gets its id or secret
    GET https://id.example/.well-known/oauth-authorization-server
    GET https://id.example/.well-known/oauth-authorization-server
    ");
    // Of several, only its own is asked.
    let mut options = options(SignInWay::Browser);
    options.client = Some(secret().of_issuer("https://id.example"));
    let two = RESOURCE.replace(r#"["https://id.example"]"#, r#"["https://evil.example","https://id.example"]"#);
    let script = Script::begin(options).ok(&two);
    assert_eq!(script.last(), "GET https://id.example/.well-known/oauth-authorization-server");
}

#[test]
fn a_device_code_is_shown_with_who_gave_it_out() {
    let begun = |device: &str| {
        let mut flow = Script::begin(options(SignInWay::Device)).ok(RESOURCE).ok(SERVER).ok(CLIENT).flow.unwrap();
        let answer = OAuthAnswer { status: StatusCode::OK, body: device.into() };
        match flow.answered(Ok(answer), Instant::now(), NOW) {
            Ok(SignInStep::Wait { prompt: Some(prompt), .. }) => Ok(prompt),
            other => Err(format!("{other:?}")),
        }
    };
    let at = |page: &str| begun(&DEVICE.replace("https://id.example/go", page));
    let prompt = at("https://id.example/go").unwrap();
    assert_eq!(
        (&*prompt.issuer, &*prompt.resource, prompt.is_foreign_page),
        ("https://id.example", "https://mcp.example/mcp", false)
    );
    assert!(!at("https://www.id.example/go").unwrap().is_foreign_page);
    for foreign in ["https://evilid.example/go", "https://example/go", "https://id.example.evil.example/go"] {
        assert!(at(foreign).unwrap().is_foreign_page, "{foreign}");
    }
    for page in ["http://id.example/go", "https://id.example@evil.example/go", "javascript:x", "data:text/html,x"] {
        assert!(at(page).is_err(), "{page}");
    }
    let long = "A".repeat(33);
    for code in ["", "AB CD", "A\\u001b[2J", "\u{430}", &*long] {
        assert!(begun(&DEVICE.replace("WDJB-MJHT", code)).is_err(), "{code}");
    }
    // The page with the code in it is the same server's.
    let complete = |url: &str| {
        let field = format!(r#"{{"verification_uri_complete":"{url}","device_code""#);
        begun(&DEVICE.replace(r#"{"device_code""#, &field)).unwrap().complete_url
    };
    assert_eq!(complete("https://id.example/go?c=1").as_deref(), Some("https://id.example/go?c=1"));
    assert_eq!(complete("https://evil.example/go?c=1"), None);
}

#[test]
fn an_authorization_server_with_the_page_of_another_is_refused() {
    let page = r#""authorization_endpoint":"https://honest.example/authorize""#;
    let mixed = SERVER.replace(r#""authorization_endpoint":"https://id.example/authorize?tenant=1""#, page);
    let silent = mixed.replace("authorization_response_iss_parameter_supported", "x");
    let last = by_browser().ok(RESOURCE).ok(&silent).last().to_owned();
    assert!(last.contains("on different servers"), "{last}");
    assert!(by_browser().ok(RESOURCE).ok(&mixed).ok(CLIENT).last().starts_with("browse https://honest.example/"));
    let user = SERVER.replace("https://id.example/token", "https://id.example@evil.example/token");
    let last = by_browser().ok(RESOURCE).ok(&user).last().to_owned();
    assert_eq!(last, "GET https://id.example/.well-known/openid-configuration");
}

#[test]
fn only_errors_of_the_grant_void_tokens() {
    let tokens = browsing().redirect(BACK).ok(TOKENS).tokens.unwrap();
    let voided = |status, error: &str| {
        let body = format!(r#"{{"error":"{error}"}}"#);
        let answer = OAuthAnswer { status: StatusCode::from_u16(status).unwrap(), body };
        tokens.refreshed(&answer, NOW).unwrap_err().is_final()
    };
    for error in ["invalid_grant", "invalid_client", "unauthorized_client"] {
        assert!(voided(400, error) && voided(401, error), "{error}");
        assert!(!voided(429, error) && !voided(503, error), "{error}");
    }
    for error in ["invalid_request", "invalid_scope", "temporarily_unavailable", "Not Found"] {
        assert!(!voided(400, error) && !voided(404, error), "{error}");
    }
}

#[test]
fn a_device_code_outlives_trouble_of_the_server() {
    let second = Duration::from_secs(1);
    let script = showing().wait(5 * second).answer(503, r#"{"error":"access_denied"}"#);
    let script = script.wait(10 * second).answer(429, "<html>");
    assert_eq!([script.lines[6].as_str(), script.lines[8].as_str()], ["wait 10s", "wait 20s"]);
    assert!(script.wait(20 * second).ok(TOKENS).last().starts_with("done a1"));
}
