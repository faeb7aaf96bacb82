//! The room in a browser, as far as the gateway has a part in it: the page's files, signing in and out, and whose cookie counts where.

use std::net::SocketAddr;

use salon_testkit::http::{HttpAnswer, HttpCall};
use salon_testkit::{TestSocket, TestSocketEvent, run};
use serde_json::{Value, json};

use crate::salon::{BINARY, Home, Running, Signal};

const TOPIC: &str = "room:web";

/// The key set of an identity provider, and a token it signed: alice, for `room:*`, until the year 2100.
const PROVIDER: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","kid":"one","x":"bUe8BRpWmvBZdQgVII6BbKfqTxilef0Vxn9zZfzdg2Q"}]}"#;
const PROVIDED: &str = "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCIsImtpZCI6Im9uZSJ9.eyJzdWIiOiJhbGljZSIsImF1ZCI6InJvb206KiIsIm5hbWUiOiJBbGljZSIsImV4cCI6NDEwMjQ0NDgwMH0.lHdmlSbSDecbqqf7Lg_gdZ1tg18PCsXIRCYeEEapyCDbnFMYRb8xyvSer3EvXroJTPkVg7AOfd4TORnJQTfdCg";

/// A browser with the gateway's page in it.
struct Browser {
    address: SocketAddr,
    cookie: Option<String>,
}

impl Browser {
    fn new(address: SocketAddr) -> Self {
        Self { address, cookie: None }
    }

    fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What the page would send, before it is sent: whatever is no GET says where it comes from.
    fn call(&self, method: &str, path: &str) -> HttpCall {
        let call = HttpCall::new(method, path);
        let call = if method == "GET" { call } else { call.header("Origin", self.origin()) };
        let call = call.header("Sec-Fetch-Site", "same-origin");
        match &self.cookie {
            Some(cookie) => call.header("Cookie", cookie),
            None => call,
        }
    }

    async fn send(&self, call: HttpCall) -> HttpAnswer {
        call.send(self.address).await.expect("an answer")
    }

    async fn get(&self, path: &str) -> HttpAnswer {
        self.send(self.call("GET", path)).await
    }

    async fn sign_in(&mut self, body: Value) -> HttpAnswer {
        let answer = self.send(self.call("POST", "/v0/session").body(body.to_string())).await;
        if let Some(set) = answer.header("set-cookie") {
            self.cookie = set.split(';').next().map(str::to_owned);
        }
        answer
    }

    async fn sign_out(&self) -> HttpAnswer {
        self.send(self.call("DELETE", "/v0/session")).await
    }

    /// A socket, as the page opens one.
    async fn enter(&self, topic: &str) -> TestSocket {
        let asked = self.call("POST", "/v0/tickets").body(json!({ "topic": topic }).to_string());
        let answer = self.send(asked).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        let ticket: Value = serde_json::from_str(&answer.body).expect("JSON");
        let ticket = ticket["ticket"].as_str().expect("a ticket");
        let call = HttpCall::new("GET", format!("/v0/ws?topic={topic}&share=true&kind=human&ticket={ticket}"));
        TestSocket::connect(self.address, call.header("Origin", self.origin()))
            .await
            .expect("it listens")
            .expect("let in")
    }
}

fn told(answer: &HttpAnswer) -> Value {
    serde_json::from_str(&answer.body).expect("JSON")
}

/// The link in a line of output, and its code.
fn link(lines: &[String]) -> (String, String) {
    let found = lines.iter().flat_map(|line| line.split(' ')).find(|word| word.contains("/#code="));
    let link = found.expect("a link").to_owned();
    let (_, code) = link.split_once("#code=").expect("a code");
    let code = code.split('&').next().expect("a code").to_owned();
    (link, code)
}

#[test]
fn the_page_comes_with_its_headers() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        let browser = Browser::new(running.address);
        let page = browser.get("/").await;
        assert_eq!(page.status, 200);
        assert!(page.body.contains("<!doctype html>"), "{}", page.body);
        let header = |name: &str| page.header(name).unwrap_or("-").to_owned();
        let names = [
            "content-type",
            "cache-control",
            "content-security-policy",
            "x-content-type-options",
            "referrer-policy",
            "cross-origin-opener-policy",
            "cross-origin-resource-policy",
            "set-cookie",
        ];
        insta::assert_snapshot!(names.map(|name| format!("{name}: {}", header(name))).join("\n"), @"
        content-type: text/html; charset=utf-8
        cache-control: no-cache
        content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src data: blob:; connect-src 'self'; font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'
        x-content-type-options: nosniff
        referrer-policy: no-referrer
        cross-origin-opener-policy: same-origin
        cross-origin-resource-policy: same-origin
        set-cookie: -
        ");

        let head = browser.send(HttpCall::new("HEAD", "/")).await;
        assert_eq!((head.status, &*head.body), (200, ""));
        assert_eq!(head.header("etag"), page.header("etag"));
        assert_eq!(head.header("content-length"), Some(page.body.len().to_string().as_str()));

        let tag = header("etag");
        for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
            let again = browser.send(HttpCall::new("GET", "/").header("If-None-Match", known)).await;
            assert_eq!((again.status, &*again.body), (304, ""));
            assert_eq!(again.header("etag"), Some(&*tag));
        }
        let other = browser.send(HttpCall::new("GET", "/").header("If-None-Match", "\"x\"")).await;
        assert_eq!(other.status, 200);

        let script = browser.get("/ui/src/main.js").await;
        assert_eq!(script.status, 200);
        assert_eq!(script.header("content-type"), Some("text/javascript; charset=utf-8"));
        assert!(script.header("etag").is_some() && script.header("x-content-type-options") == Some("nosniff"));
        // A policy is one of the document that loads a script, not of the script.
        assert!(page.header("content-security-policy").is_some() && script.header("content-security-policy").is_none());
        assert_ne!(script.header("etag"), Some(&*tag));
        assert_eq!(browser.send(HttpCall::new("POST", "/")).await.status, 405);
    });
}

#[test]
fn nothing_but_the_page_is_served() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        let browser = Browser::new(running.address);
        for wrong in [
            "/ui",
            "/ui/",
            "/ui/index.html",
            "/ui/src",
            "/ui/src/",
            "/ui/src/none.js",
            "/ui/package.json",
            "/ui/tsconfig.json",
            "/ui/tests/unit/room.test.js",
            "/ui/node_modules/typescript/package.json",
            "/ui/../Cargo.toml",
            "/ui/src/../../Cargo.toml",
            "/ui/src/..%2f..%2fCargo.toml",
            "/ui/%2e%2e/Cargo.toml",
            "/ui/src/%2e%2e/index.html",
            "/ui/..%5cCargo.toml",
            "/ui//etc/passwd",
            "/ui/%2fetc%2fpasswd",
            "/ui/src/main.js%00.txt",
            "/ui/%ff",
            "/index.html",
        ] {
            let answer = browser.get(wrong).await;
            assert_eq!(answer.status, 404, "{wrong}: {}", answer.body);
        }
    });
}

#[test]
fn a_page_that_is_switched_off_is_not_there() {
    let home = Home::new();
    run(async {
        let running = home.serve("--ui-enabled=false").await;
        let mut browser = Browser::new(running.address);
        for path in ["/", "/ui/src/main.js", "/v0/session"] {
            assert_eq!(browser.get(path).await.status, 404, "{path}");
        }
        let token = home.token(TOPIC, "alice").await;
        assert_eq!(browser.sign_in(json!({ "token": token })).await.status, 404);
        let open = home.told("serve --listen 127.0.0.1:0 --open --ui-enabled=false").await;
        insta::assert_snapshot!(open, @"
        error: `--open` opens a page, and the page is switched off

        hint: leave out `--open`, or `ui.enabled = false` (`--ui-enabled=false`)
        exit: 2
        ");
    });
}

#[test]
fn a_browser_signs_in_with_a_token_and_takes_part() {
    let home = Home::new();
    run(async {
        let running = home.serve("--ui-allow rover/*,*/search").await;
        let mut browser = Browser::new(running.address);
        let stranger = browser.get("/v0/session").await;
        assert_eq!((stranger.status, &told(&stranger)["code"]), (401, &json!("unauthorized")));
        let made =
            home.salon(&format!("token --topic {TOPIC} --topic lobby* --id alice --name Alice --kind human")).await;
        let token = made.stdout.trim();
        let answer = browser.sign_in(json!({ "token": token })).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        let mut body = told(&answer);
        assert!(body["expires"].take().as_str().is_some_and(|time| time.ends_with('Z')));
        let expected = json!({
            "participant": { "id": "alice", "name": "Alice", "kind": "human" },
            "topics": [TOPIC, "lobby*"],
            "expires": null,
            "allow": ["rover/*", "*/search"],
            "creates_topics": false,
        });
        assert_eq!(body, expected);
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let set = answer.header("set-cookie").expect("a cookie");
        let (pair, attributes) = set.split_once("; ").expect("attributes");
        assert!(pair.starts_with("salon_session_") && !pair.contains(token), "{pair}");
        let age = attributes.strip_prefix("Path=/; Max-Age=").and_then(|rest| rest.split_once("; ")).expect("an age");
        assert!((3500..=3600).contains(&age.0.parse::<u32>().expect("a number")), "as long as the token");
        assert_eq!(age.1, "HttpOnly; SameSite=Strict");
        assert!(!answer.body.contains(token), "the token is not shown again");

        let session = told(&browser.get("/v0/session").await);
        assert_eq!(session["participant"]["id"], "alice");
        let ticket = |call: HttpCall| call.body(json!({ "topic": TOPIC }).to_string());
        let answer = browser.send(ticket(browser.call("POST", "/v0/tickets"))).await;
        assert_eq!(told(&answer)["session"], session, "the page need not ask for both");
        let answer = browser.send(ticket(HttpCall::new("POST", "/v0/tickets").bearer(token))).await;
        assert_eq!(told(&answer).get("session"), None, "a token is no session");
        let mut socket = browser.enter(TOPIC).await;
        let TestSocketEvent::Text(welcome) = socket.next().await.expect("a frame") else { panic!("no welcome") };
        assert!(welcome.contains(r#""id":"alice""#), "{welcome}");
        assert_eq!(told(&browser.get("/v0/topics").await), json!({ "topics": [TOPIC] }));
        let participants = told(&browser.get(&format!("/v0/topics/{TOPIC}/participants")).await);
        assert_eq!(participants["participants"][0]["id"], "alice");
        let history = told(&browser.get(&format!("/v0/topics/{TOPIC}/history")).await);
        assert_eq!(history["history"].as_array().map(Vec::len), Some(1));
        let closed = browser.get("/v0/topics/room:other/history").await;
        assert_eq!((closed.status, &told(&closed)["code"]), (403, &json!("forbidden")));
        let closed = browser.call("POST", "/v0/tickets").body(r#"{"topic":"room:other"}"#);
        assert_eq!(browser.send(closed).await.status, 403);
    });
}

#[test]
fn a_cookie_opens_nothing_else_and_is_no_token() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        let mut browser = Browser::new(running.address);
        let token = home.token(TOPIC, "alice").await;
        browser.sign_in(json!({ "token": token })).await;
        let (name, value) = browser.cookie.as_deref().and_then(|cookie| cookie.split_once('=')).expect("a cookie");

        let chat = json!({ "protocol": "mcp-x/v0", "id": "e1", "ts": "2025-08-17T14:00:00Z", "from": "alice", "kind": "mcp",
            "payload": { "jsonrpc": "2.0", "method": "notifications/chat/message", "params": { "text": "hello" } } });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
        for (method, path, body) in [
            ("POST", format!("/v0/topics/{TOPIC}/messages"), chat.to_string()),
            ("GET", format!("/v0/topics/{TOPIC}/stream"), String::new()),
            ("POST", format!("/mcp/{TOPIC}"), call.to_string()),
            ("GET", format!("/sse?topic={TOPIC}"), String::new()),
        ] {
            let answer = browser.send(browser.call(method, &path).body(body)).await;
            assert_eq!(answer.status, 401, "{path}: {}", answer.body);
        }
        let socket = TestSocket::connect(running.address, browser.call("GET", &format!("/v0/ws?topic={TOPIC}"))).await;
        assert_eq!(socket.expect("it listens").expect_err("not let in").status, 401);

        for path in ["/v0/topics", &format!("/v0/topics/{TOPIC}/history")] {
            let bearer = HttpCall::new("GET", path).bearer(value).send(running.address).await.expect("an answer");
            assert_eq!(bearer.status, 401, "a cookie's value is no token");
            let as_cookie = HttpCall::new("GET", path).header("Cookie", format!("{name}={token}"));
            let answer = as_cookie.send(running.address).await.expect("an answer");
            assert_eq!(answer.status, 401, "a token is no cookie");
        }
        let mut other = Browser::new(running.address);
        assert_eq!(other.sign_in(json!({ "token": value })).await.status, 401, "nor does a cookie sign in again");
        assert_eq!(Browser { cookie: Some(format!("{name}={value}x")), ..other }.get("/v0/session").await.status, 401);
        let both = browser.call("GET", "/v0/topics").bearer("not.a.token");
        assert_eq!(browser.send(both).await.status, 401, "a header overrides a cookie");
    });
}

#[test]
fn only_the_page_of_the_gateway_may_use_the_cookie() {
    let home = Home::new();
    run(async {
        let running = home.serve("--http-origins http://localhost:5173").await;
        let mut browser = Browser::new(running.address);
        let token = home.token(TOPIC, "alice").await;
        browser.sign_in(json!({ "token": token })).await;
        let cookie = browser.cookie.clone().expect("a cookie");
        let body = json!({ "topic": TOPIC }).to_string();
        let ticket = || HttpCall::new("POST", "/v0/tickets").header("Cookie", &*cookie).body(&*body);
        let own = browser.origin();
        let elsewhere = format!("http://127.0.0.1:{}", running.address.port() ^ 1);
        for (call, status) in [
            (ticket().header("Origin", &*own), 201),
            (ticket().header("Origin", &*own).header("Sec-Fetch-Site", "same-origin"), 201),
            (ticket(), 403),
            (ticket().header("Origin", "null"), 403),
            (ticket().header("Origin", "https://evil.example"), 403),
            (ticket().header("Origin", &*elsewhere), 403),
            (ticket().header("Origin", "http://localhost:5173"), 403),
            (ticket().header("Origin", "http://localhost:5173").bearer(&token), 201),
            (ticket().header("Origin", &*own).header("Sec-Fetch-Site", "same-site"), 403),
            (ticket().header("Origin", &*own).header("Sec-Fetch-Site", "cross-site"), 403),
        ] {
            let answer = call.send(running.address).await.expect("an answer");
            assert_eq!(answer.status, status, "{:?}: {}", call.headers, answer.body);
        }
        let topics = || HttpCall::new("GET", "/v0/topics").header("Cookie", &*cookie);
        for (call, status) in [
            (topics(), 200),
            (topics().header("Sec-Fetch-Site", "same-origin"), 200),
            (topics().header("Sec-Fetch-Site", "same-site"), 403),
            (topics().header("Origin", "http://localhost:5173"), 403),
        ] {
            let answer = call.send(running.address).await.expect("an answer");
            assert_eq!(answer.status, status, "{:?}: {}", call.headers, answer.body);
        }
        // Nobody is signed in or out from elsewhere either.
        for origin in [None, Some("https://evil.example"), Some("http://localhost:5173"), Some(&*elsewhere)] {
            for (method, body) in [("POST", json!({ "token": token }).to_string()), ("DELETE", String::new())] {
                let call = HttpCall::new(method, "/v0/session").header("Cookie", &*cookie).body(body);
                let call = origin.into_iter().fold(call, |call, origin| call.header("Origin", origin));
                let answer = call.send(running.address).await.expect("an answer");
                assert_eq!((answer.status, answer.header("set-cookie")), (403, None), "{method} from {origin:?}");
            }
        }
        assert_eq!(browser.get("/v0/session").await.status, 200, "still signed in");
    });
}

#[test]
fn a_link_signs_in_once_and_nothing_of_it_is_written_down() {
    let home = Home::new();
    run(async {
        let mut command = home.command(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--open", "--log-filter", "trace"]).env("USER", "alice b");
        let mut running = Running::start(command).await;
        let (link, code) = link(&running.until("#code=").await);
        assert_eq!(link, format!("http://{}/#code={code}", running.address));
        assert!(code.len() == 32 && code.bytes().all(|byte| byte.is_ascii_hexdigit()), "128 bits: {code}");
        let mut browser = Browser::new(running.address);
        let answer = browser.sign_in(json!({ "code": code })).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        assert_eq!(told(&answer)["participant"], json!({ "id": "alice-b", "kind": "human" }));
        assert_eq!(told(&answer)["topics"], json!(["*"]));
        let again = Browser::new(running.address).sign_in(json!({ "code": code })).await;
        assert_eq!((again.status, again.header("set-cookie")), (401, None));
        assert!(again.body.contains("a link works once"), "{}", again.body);
        let token = home.token(TOPIC, "bob").await;
        let mut bob = Browser::new(running.address);
        assert_eq!(bob.sign_in(json!({ "token": token })).await.status, 201);
        assert_eq!(bob.get(&format!("/v0/topics/{TOPIC}/history")).await.status, 200);
        assert_eq!(bob.sign_out().await.status, 204);
        for wrong in [json!({ "token": "not.a.token" }), json!({ "code": "not-a-code" })] {
            assert_eq!(bob.sign_in(wrong).await.status, 401);
        }
        for unfit in [json!({}), json!({ "token": token, "code": code }), json!({ "token": 5 }), json!(token)] {
            let answer = bob.sign_in(unfit).await;
            assert_eq!(answer.status, 400);
            assert!(!answer.body.contains(&token), "{}", answer.body);
        }
        running.signal(Signal::TERM);
        let ran = running.end().await;
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(!ran.stdout.contains(&code), "it was told once");

        let data = home.path().join(".local/share/salon");
        let cookies = [browser.cookie, bob.cookie].map(|cookie| cookie.expect("a cookie"));
        let cookies = cookies.each_ref().map(|cookie| cookie.split_once('=').expect("a value").1);
        let trail = std::fs::read_to_string(data.join("audit.log")).expect("a trail");
        let out = std::fs::read_to_string(data.join("signed-out.jsonl")).expect("a file");
        assert!(trail.contains(r#""event":"auth_ok","participant":"alice-b""#), "{trail}");
        assert!(trail.contains(r#""reason":"signed in""#), "{trail}");
        assert!(trail.contains("a link works once"), "{trail}");
        assert!(out.contains("bob"), "{out}");
        for secret in [code.as_str(), token.as_str(), "not.a.token", "not-a-code", cookies[0], cookies[1]] {
            for (place, text) in
                [("a log line", &ran.stderr), ("the audit trail", &trail), ("the list of sign-outs", &out)]
            {
                assert!(!text.contains(secret), "{secret} is in {place}");
            }
        }
    });
}

#[test]
fn the_demo_has_a_link_to_its_room() {
    let home = Home::new();
    run(async {
        let mut command = home.command(BINARY);
        command.arg("demo");
        let mut demo = Running::spawn(command);
        let (link, code) = link(&demo.until("#code=").await);
        let (page, room) = link.split_once(&format!("#code={code}")).expect("a code");
        assert_eq!(room, "&room=room:demo");
        let address = page.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).expect("an address");
        let mut browser = Browser::new(address.parse().expect("an address"));
        let answer = browser.sign_in(json!({ "code": code })).await;
        assert_eq!(told(&answer)["participant"], json!({ "id": "visitor", "name": "Visitor", "kind": "human" }));
        assert_eq!(told(&answer)["topics"], json!(["room:demo"]));
        // Hangs up at once: a gateway that stops waits for that.
        let welcome = browser.enter("room:demo").await.next().await;
        let Ok(TestSocketEvent::Text(welcome)) = welcome else { panic!("no welcome: {welcome:?}") };
        assert!(welcome.contains(r#""id":"rover""#), "everybody is there: {welcome}");
        demo.signal(Signal::INT);
        assert_eq!(demo.end().await.code, Some(0));
    });
}

#[test]
fn a_session_outlasts_a_restart_and_so_does_its_end() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        let token = home.token("*", "alice").await;
        let mut stays = Browser::new(running.address);
        let mut leaves = Browser::new(running.address);
        stays.sign_in(json!({ "token": token })).await;
        leaves.sign_in(json!({ "token": token })).await;
        let rival = home.salon("serve --listen 127.0.0.1:0").await;
        assert_eq!(rival.code, Some(1), "a second gateway is refused, and changes nothing: {}", rival.stderr);
        let out = leaves.sign_out().await;
        assert_eq!((out.status, &*out.body), (204, ""));
        let set = out.header("set-cookie").expect("the cookie is cleared");
        assert!(set.contains("=; Path=/; Max-Age=0; HttpOnly"), "{set}");
        assert_eq!(leaves.get("/v0/session").await.status, 401, "a cookie that was kept is invalid");
        assert_eq!(leaves.sign_out().await.status, 204, "a second sign-out is allowed");
        assert_eq!(Browser::new(running.address).sign_out().await.status, 204);
        running.signal(Signal::TERM);
        assert_eq!(running.end().await.code, Some(0));

        let running = home.serve("").await;
        (stays.address, leaves.address) = (running.address, running.address);
        assert_eq!(told(&stays.get("/v0/session").await)["participant"]["id"], "alice");
        stays.enter(TOPIC).await;
        assert_eq!(leaves.get("/v0/session").await.status, 401);
        let ticket = leaves.call("POST", "/v0/tickets").body(json!({ "topic": TOPIC }).to_string());
        assert_eq!(leaves.send(ticket).await.status, 401);
        running.signal(Signal::KILL);
        assert_eq!(running.end().await.code, None);

        let running = home.serve("").await;
        leaves.address = running.address;
        assert_eq!(leaves.get("/v0/session").await.status, 401, "nor after a crash");
    });
}

/// How a socket ends.
async fn end_of(socket: &mut TestSocket) -> TestSocketEvent {
    loop {
        match socket.next().await.expect("an end") {
            TestSocketEvent::Text(_) => {}
            other => return other,
        }
    }
}

#[test]
fn signing_out_closes_what_the_browser_has_open() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        let token = home.token("*", "alice").await;
        let (mut leaves, mut stays) = (Browser::new(running.address), Browser::new(running.address));
        leaves.sign_in(json!({ "token": token })).await;
        stays.sign_in(json!({ "token": token })).await;
        let mut tabs = [leaves.enter(TOPIC).await, leaves.enter("room:other").await];
        let mut elsewhere = stays.enter(TOPIC).await;
        let asked = leaves.call("POST", "/v0/tickets").body(json!({ "topic": TOPIC }).to_string());
        let kept = told(&leaves.send(asked).await)["ticket"].as_str().expect("a ticket").to_owned();
        assert_eq!(leaves.sign_out().await.status, 204);
        for tab in &mut tabs {
            assert_eq!(end_of(tab).await, TestSocketEvent::Closed(4401, "the token has expired".into()));
        }
        let late = HttpCall::new("GET", format!("/v0/ws?topic={TOPIC}&share=true&ticket={kept}"));
        let late =
            TestSocket::connect(running.address, late.header("Origin", leaves.origin())).await.expect("it listens");
        assert_eq!(late.expect_err("a ticket of an ended sign-in").status, 401);

        // A page of another port has put a second value under the name of the cookie. It keeps nobody signed in, wherever it stands; a sign-in that it
        // stands for ends, too.
        let mut other = Browser::new(running.address);
        other.sign_in(json!({ "token": token })).await;
        for is_first in [true, false] {
            let mut disturbed = Browser::new(running.address);
            disturbed.sign_in(json!({ "token": token })).await;
            let mut tab = disturbed.enter(TOPIC).await;
            let own = disturbed.cookie.clone().expect("a cookie");
            let planted = match is_first {
                true => format!("{}=planted", own.split_once('=').expect("a value").0),
                false => other.cookie.clone().expect("a cookie"),
            };
            let both = if is_first { [planted, own.clone()] } else { [own.clone(), planted] };
            disturbed.cookie = Some(both.join("; "));
            assert_eq!(disturbed.get("/v0/session").await.status, 401, "nobody can say which of them counts");
            assert_eq!(disturbed.sign_out().await.status, 204);
            disturbed.cookie = Some(own);
            assert_eq!(disturbed.get("/v0/session").await.status, 401, "the sign-in goes on");
            assert_eq!(end_of(&mut tab).await, TestSocketEvent::Closed(4401, "the token has expired".into()));
            assert_eq!(other.get("/v0/session").await.status, if is_first { 200 } else { 401 });
        }

        let chat = json!({ "protocol": "mcp-x/v0", "id": "still-here", "ts": "2025-08-17T14:00:00Z", "from": "alice", "to": [],
            "kind": "mcp", "payload": { "jsonrpc": "2.0", "method": "notifications/chat/message", "params": { "text": "hello" } } });
        elsewhere.text(chat.to_string()).await.expect("sent");
        loop {
            match elsewhere.next().await.expect("a frame") {
                TestSocketEvent::Text(text) if text.contains("still-here") => break,
                TestSocketEvent::Text(_) => {}
                other => panic!("another sign-in of the same person ended: {other:?}"),
            }
        }
    });
}

#[test]
fn answers_to_pages_say_all_that_they_vary_with() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        let browser = Browser::new(running.address);
        let call = HttpCall::new("GET", "/ui/src/main.js").header("Origin", browser.origin());
        let answer = browser.send(call).await;
        let vary: Vec<_> =
            answer.headers.iter().filter(|(name, _)| name == "vary").map(|(_, value)| &**value).collect();
        assert_eq!(vary, ["accept-encoding", "origin"]);
    });
}

#[test]
fn guessing_is_slowed_down() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        let token = home.token(TOPIC, "alice").await;
        let mut browser = Browser::new(running.address);
        // More than can be forgotten meanwhile, however slow the machine is.
        let mut refused = None;
        for _ in 0..1000 {
            let answer = browser.sign_in(json!({ "code": "0".repeat(32) })).await;
            if answer.status != 401 {
                refused = Some(answer);
                break;
            }
        }
        let refused = refused.expect("a limit");
        assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
        let topics = HttpCall::new("GET", "/v0/topics").bearer(&token).send(running.address).await.expect("an answer");
        assert_eq!(topics.status, 200, "it concerns signing in and nothing else");
        drop(running);

        let running = home.serve("--limits-connections-per-address 0").await;
        browser.address = running.address;
        for _ in 0..30 {
            assert_eq!(browser.sign_in(json!({ "code": "0".repeat(32) })).await.status, 401);
        }
        assert_eq!(
            browser.sign_in(json!({ "token": token })).await.status,
            201,
            "addresses are not distinguished here"
        );
    });
}

#[test]
fn a_token_of_an_identity_provider_signs_in() {
    let home = Home::new();
    home.write("keys.json", PROVIDER);
    run(async {
        let running = home.serve("--auth-jwks keys.json --auth-max-token-lifetime 0").await;
        let mut browser = Browser::new(running.address);
        let answer = browser.sign_in(json!({ "token": PROVIDED })).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        assert!(answer.header("set-cookie").is_some_and(|set| set.contains("Max-Age=86")), "a day at most");
        assert_eq!(told(&answer)["participant"], json!({ "id": "alice", "name": "Alice" }));
        browser.enter(TOPIC).await;
    });
}

#[test]
fn behind_a_proxy_with_tls_the_public_url_counts() {
    let home = Home::new();
    run(async {
        let running = home.serve("--open --http-public-url https://example.org/salon").await;
        let mut running = running;
        let (link, code) = link(&running.until("#code=").await);
        assert_eq!(link, format!("https://example.org/salon/#code={code}"));
        let sign_in = |origin: &str| {
            let call = HttpCall::new("POST", "/v0/session").header("Origin", origin);
            call.header("Host", "example.org").body(json!({ "code": code }).to_string())
        };
        let plain = sign_in("http://example.org").send(running.address).await.expect("an answer");
        assert_eq!(plain.status, 403, "the page is not served without TLS");
        let answer = sign_in("https://example.org").send(running.address).await.expect("an answer");
        assert_eq!(answer.status, 201, "{}", answer.body);
        let set = answer.header("set-cookie").expect("a cookie").to_owned();
        assert!(set.starts_with("__Secure-salon_session_") && set.contains("; Path=/salon; "), "{set}");
        assert!(set.ends_with("; HttpOnly; SameSite=Strict; Secure"), "{set}");
        // A proxy may well call the gateway by another name.
        let call = HttpCall::new("POST", "/v0/tickets")
            .header("Origin", "https://example.org")
            .header("Cookie", set.split(';').next().expect("a pair"));
        let ticket = call.body(r#"{"topic":"room:a"}"#).send(running.address).await.expect("an answer");
        assert_eq!(ticket.status, 201, "{}", ticket.body);
    });
}
