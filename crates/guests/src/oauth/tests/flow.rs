//! Sign-ins that succeed.

use insta::assert_snapshot;

use super::*;

#[test]
fn a_browser_signs_in_with_pkce_for_the_resource() {
    let script = browsing().redirect("code=c%2F1&state=state&iss=https%3A%2F%2Fid.example").ok(TOKENS);
    assert_snapshot!(script.text(), @r#"
    GET https://mcp.example/meta
    GET https://id.example/.well-known/oauth-authorization-server
    POST https://id.example/register {"application_type":"native","client_name":"Salon","grant_types":["refresh_token","authorization_code"],"redirect_uris":["http://127.0.0.1:9/callback"],"response_types":["code"],"scope":"read write","token_endpoint_auth_method":"none"}
    browse https://id.example/authorize?tenant=1&response_type=code&client_id=c1&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcallback&state=state&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256&resource=https%3A%2F%2Fmcp.example%2Fmcp&scope=read+write
    POST https://id.example/token grant_type=authorization_code&code=c%2F1&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcallback&code_verifier=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk&resource=https%3A%2F%2Fmcp.example%2Fmcp&client_id=c1
    done a1 until Some(1003600), scope Some("read write")
    "#);
}

#[test]
fn without_a_challenge_metadata_is_looked_for() {
    let mut options = options(SignInWay::Browser);
    options.challenge = BearerChallenge { scope: Some("read".into()), ..BearerChallenge::default() };
    options.scope = Some("admin read".into());
    let tenant = RESOURCE.replace("https://id.example", "https://id.example/t1").replace("/mcp\"", "\"");
    let server = SERVER.replace(
        r#""issuer":"https://id.example""#,
        r#""issuer":"https://id.example/t1","scopes_supported":["offline_access"]"#,
    );
    let script =
        Script::begin(options).answer(404, "").ok(&tenant).answer(404, "").answer(404, "{}").ok(&server).ok(CLIENT);
    assert_snapshot!(script.text(), @r#"
    GET https://mcp.example/.well-known/oauth-protected-resource/mcp
    GET https://mcp.example/.well-known/oauth-protected-resource
    GET https://id.example/.well-known/oauth-authorization-server/t1
    GET https://id.example/.well-known/openid-configuration/t1
    GET https://id.example/t1/.well-known/openid-configuration
    POST https://id.example/register {"application_type":"native","client_name":"Salon","grant_types":["refresh_token","authorization_code"],"redirect_uris":["http://127.0.0.1:9/callback"],"response_types":["code"],"scope":"read admin offline_access","token_endpoint_auth_method":"none"}
    browse https://id.example/authorize?tenant=1&response_type=code&client_id=c1&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcallback&state=state&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256&resource=https%3A%2F%2Fmcp.example&scope=read+admin+offline_access&prompt=consent
    "#);
}

#[test]
fn a_server_without_metadata_of_its_own_is_its_own_authorization_server() {
    let mut options = options(SignInWay::Browser);
    options.challenge = BearerChallenge::default();
    let script = Script::begin(options).answer(404, "").answer(404, "");
    assert_eq!(script.last(), "GET https://mcp.example/.well-known/oauth-authorization-server");
}

#[test]
fn a_client_that_was_registered_by_hand_does_not_register() {
    let mut options = options(SignInWay::Browser);
    options.client = Some(RegisteredClient::new("ours", Some("s:e&cret".into())).of_issuer("https://id.example"));
    let back = "code=c1&state=state&iss=https%3A%2F%2Fid.example";
    let script = Script::begin(options).ok(RESOURCE).ok(SERVER).redirect(back);
    assert_snapshot!(script.lines[2..].join("\n"), @"
    browse https://id.example/authorize?tenant=1&response_type=code&client_id=ours&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcallback&state=state&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256&resource=https%3A%2F%2Fmcp.example%2Fmcp&scope=read+write
    POST https://id.example/token [Basic b3VyczpzJTNBZSUyNmNyZXQ=] grant_type=authorization_code&code=c1&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcallback&code_verifier=dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk&resource=https%3A%2F%2Fmcp.example%2Fmcp
    ");
    let post =
        SERVER.replace(r#"{"issuer""#, r#"{"token_endpoint_auth_methods_supported":["client_secret_post"],"issuer""#);
    let mut options = super::options(SignInWay::Browser);
    options.client = Some(RegisteredClient::new("ours", Some("s".into())).of_issuer("https://id.example/"));
    let script = Script::begin(options).ok(RESOURCE).ok(&post).redirect(back);
    assert!(script.last().ends_with("&client_id=ours&client_secret=s"), "{}", script.last());
}

#[test]
fn a_device_code_is_asked_about_as_often_as_the_server_allows() {
    let pending = r#"{"error":"authorization_pending"}"#;
    let slow = r#"{"error":"slow_down"}"#;
    let away = || AuthorizationError::Unreachable { host: "https://id.example".into(), why: "gone".into() };
    let second = Duration::from_secs(1);
    let script = showing().wait(5 * second).answer(400, pending).wait(5 * second).answer(400, slow);
    let script = script.wait(10 * second).outcome(Err(away())).wait(20 * second).ok(TOKENS);
    assert_snapshot!(script.text(), @r#"
    GET https://mcp.example/meta
    GET https://id.example/.well-known/oauth-authorization-server
    POST https://id.example/register {"application_type":"native","client_name":"Salon","grant_types":["refresh_token","urn:ietf:params:oauth:grant-type:device_code"],"redirect_uris":[],"response_types":[],"scope":"read write","token_endpoint_auth_method":"none"}
    POST https://id.example/device scope=read+write&resource=https%3A%2F%2Fmcp.example%2Fmcp&client_id=c1
    show WDJB-MJHT at https://id.example/go, wait 5s
    POST https://id.example/token grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&device_code=d1&resource=https%3A%2F%2Fmcp.example%2Fmcp&client_id=c1
    wait 5s
    POST https://id.example/token grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&device_code=d1&resource=https%3A%2F%2Fmcp.example%2Fmcp&client_id=c1
    wait 10s
    POST https://id.example/token grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&device_code=d1&resource=https%3A%2F%2Fmcp.example%2Fmcp&client_id=c1
    wait 20s
    POST https://id.example/token grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&device_code=d1&resource=https%3A%2F%2Fmcp.example%2Fmcp&client_id=c1
    done a1 until Some(1003600), scope Some("read write")
    "#);
}

#[test]
fn without_a_browser_the_device_flow_is_used_where_it_is_offered() {
    let begun = |server: &str| Script::begin(options(SignInWay::DeviceIfOffered)).ok(RESOURCE).ok(server).ok(CLIENT);
    assert!(begun(SERVER).last().starts_with("POST https://id.example/device scope=read+write&resource="));
    let without = SERVER.replace("device_authorization_endpoint", "x");
    assert!(begun(&without).last().starts_with("browse https://id.example/authorize?"));
}

#[test]
fn tokens_are_refreshed_before_they_expire_and_rotate() {
    let back = "code=c1&state=state&iss=https%3A%2F%2Fid.example";
    let tokens = browsing().redirect(back).ok(TOKENS).tokens.unwrap();
    assert!(!tokens.is_due(NOW + 3539) && tokens.is_due(NOW + 3540));
    let request = tokens.refresh().unwrap();
    assert_snapshot!(request.body.unwrap().1, @"grant_type=refresh_token&refresh_token=r1&resource=https%3A%2F%2Fmcp.example%2Fmcp&client_id=c1");
    let answer = |body: &str| OAuthAnswer { status: StatusCode::OK, body: body.into() };
    let rotated = r#"{"access_token":"a2","token_type":"Bearer","refresh_token":"r2","expires_in":20}"#;
    let rotated = tokens.refreshed(&answer(rotated), NOW).unwrap();
    assert_eq!((&*rotated.access_token, rotated.refresh_token.as_deref()), ("a2", Some("r2")));
    assert!(!rotated.is_due(NOW + 14) && rotated.is_due(NOW + 15));
    // One that is not replaced stays, and so do the scopes.
    let kept = rotated.refreshed(&answer(r#"{"access_token":"a3","token_type":"Bearer"}"#), NOW).unwrap();
    assert_eq!(
        (kept.refresh_token.as_deref(), kept.expires, kept.scope.as_deref()),
        (Some("r2"), None, Some("read write"))
    );
    assert!(!kept.is_due(u64::MAX));
}
