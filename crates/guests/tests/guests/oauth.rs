//! Guests whose server wants a sign-in, from the first 401 to the last refresh.

use std::sync::Arc;

use salon_guests::oauth::{
    GuestSignInOutcome, OAuthOptions, RegisteredClient, ResourceUrl, SignInNotice, SignInPrompt, SignInWay, TokenStore,
    sign_in,
};
use salon_guests::upstream::{GuestTarget, UrlTransport};
use salon_guests::{GuestError, GuestStatus};
use salon_testkit::oauth::{OAuthServer, OAuthSwitches};
use salon_testkit::{Scratch, eventually, run, within};

use crate::cast::{Guest, Stage, text};

const REFRESH: &str = "POST /token refresh_token";

/// A browser that follows redirects by itself, as that of a person who is signed in already does.
fn browser() -> SignInPrompt {
    let show = |notice: &SignInNotice| {
        let SignInNotice::Browse { url } = notice else { panic!("{notice:?}") };
        tokio::spawn(reqwest::get(url.clone()));
    };
    SignInPrompt { way: SignInWay::Browser, show: Arc::new(show) }
}

struct Vault {
    stage: Stage,
    server: OAuthServer,
    scratch: Scratch,
}

impl Vault {
    async fn new(change: impl FnOnce(&mut OAuthSwitches)) -> Self {
        let mut switches = OAuthSwitches::default();
        change(&mut switches);
        let server = OAuthServer::start(switches).await.unwrap();
        Self { stage: Stage::new().await, server, scratch: Scratch::new().unwrap() }
    }

    fn options(&self, prompt: Option<SignInPrompt>) -> OAuthOptions {
        OAuthOptions { store: TokenStore::new(self.scratch.path().join("guests")), client: None, prompt }
    }

    fn guest(&self, options: OAuthOptions, headers: Vec<(String, String)>) -> Guest {
        let target = GuestTarget::Url { url: self.server.url(), headers, transport: UrlTransport::Auto };
        self.stage.guest_at(target, |spec| spec.oauth = Some(options))
    }

    fn stored(&self) -> String {
        let store = TokenStore::new(self.scratch.path().join("guests"));
        std::fs::read_to_string(store.path(&ResourceUrl::parse(&self.server.url()).unwrap())).unwrap()
    }

    /// Signs in as `salon login --guest` does.
    async fn sign_in(&self) {
        let outcome = within("the sign-in", sign_in(&self.server.url(), self.options(Some(browser())))).await;
        assert!(matches!(outcome.unwrap().unwrap(), GuestSignInOutcome::SignedIn(_)));
    }
}

async fn needed(guest: &mut Guest) -> String {
    match guest.until(|status| matches!(status, GuestStatus::SignInNeeded { .. })).await {
        GuestStatus::SignInNeeded { url, why, stays } => format!("{url} {why} {stays}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_guest_signs_in_and_its_tokens_are_refreshed_and_rotate() {
    run(async {
        let vault = Vault::new(|_| {}).await;
        let mut guest = vault.guest(vault.options(Some(browser())), Vec::new());
        guest.here().await;
        assert_eq!(
            vault.server.log(),
            [
                "GET /.well-known/oauth-protected-resource/mcp",
                "GET /.well-known/oauth-authorization-server",
                "POST /register",
                "GET /authorize",
                "POST /token authorization_code",
            ]
        );
        let mut alice = vault.stage.caller("alice").await;
        let mut bob = vault.stage.caller("bob").await;
        for refreshes in 1..=3 {
            vault.server.expire();
            // Both find out that the token is void; it is refreshed for one of them.
            let (first, second) = (alice.call("open", "{}").await, bob.call("open", "{}").await);
            assert_eq!(text(&alice.result(&first).await), "with read");
            assert_eq!(text(&bob.result(&second).await), "with read");
            assert_eq!(vault.server.count(REFRESH), refreshes);
        }
        assert_eq!(vault.server.count("a refresh token came twice"), 0);
        guest.stop().await;

        // Another start needs nobody.
        let mut guest = vault.guest(vault.options(None), Vec::new());
        guest.here().await;
        assert_eq!((vault.server.count("GET /authorize"), vault.server.count(REFRESH)), (1, 3));
        guest.stop().await;
    });
}

#[test]
fn tokens_are_refreshed_before_they_expire() {
    run(async {
        // Due at once.
        let vault = Vault::new(|switches| switches.token_seconds = 0).await;
        vault.sign_in().await;
        let refreshed = vault.server.count(REFRESH);
        let mut guest = vault.guest(vault.options(None), Vec::new());
        guest.here().await;
        assert!(vault.server.count(REFRESH) > refreshed);
        assert_eq!(vault.server.count("a refresh token came twice"), 0);
        guest.stop().await;
    });
}

#[test]
fn a_guest_without_a_person_waits_for_tokens_and_takes_them() {
    run(async {
        let vault = Vault::new(|switches| switches.names_metadata = false).await;
        let mut guest = vault.guest(vault.options(None), Vec::new());
        assert_eq!(needed(&mut guest).await, format!("{} it wants a sign-in false", vault.server.url()));
        vault.sign_in().await;
        guest.here().await;

        let mut alice = vault.stage.caller("alice").await;
        vault.server.revoke();
        let call = alice.call("open", "{}").await;
        assert!(alice.result(&call).await["error"].is_object());
        let why = needed(&mut guest).await;
        assert!(
            why.contains("its tokens are no good any more: the authorization server refuses: invalid_grant"),
            "{why}"
        );
        alice.guest_leaves().await;
        vault.sign_in().await;
        guest.here().await;
        let call = alice.call("open", "{}").await;
        assert_eq!(text(&alice.result(&call).await), "with read");
        guest.stop().await;
    });
}

#[test]
fn a_call_that_needs_more_scopes_has_them_asked_for_once() {
    run(async {
        let vault = Vault::new(|_| {}).await;
        let mut guest = vault.guest(vault.options(Some(browser())), Vec::new());
        guest.here().await;
        let mut alice = vault.stage.caller("alice").await;
        let call = alice.call("admin", "{}").await;
        assert!(alice.result(&call).await["error"].is_object());
        let why = needed(&mut guest).await;
        assert!(why.ends_with("a request needs other scopes: read admin true"), "{why}");
        let answered = eventually("tokens with the scope", async || {
            let call = alice.call("admin", "{}").await;
            alice.result(&call).await["result"]["content"][0]["text"].as_str().map(str::to_owned)
        });
        assert_eq!(answered.await.unwrap(), "with read admin");
        assert_eq!(vault.server.count("GET /authorize"), 2);
        guest.stop().await;
    });
}

#[test]
fn without_a_person_the_next_sign_in_asks_for_the_scopes_that_were_missing() {
    run(async {
        let vault = Vault::new(|_| {}).await;
        vault.sign_in().await;
        let mut guest = vault.guest(vault.options(None), Vec::new());
        guest.here().await;
        let mut alice = vault.stage.caller("alice").await;
        let call = alice.call("admin", "{}").await;
        assert!(alice.result(&call).await["error"].is_object());
        needed(&mut guest).await;
        let stored = eventually("the scope to be stored", async || {
            Some(()).filter(|()| vault.stored().contains(r#""wanted_scope": "read admin""#))
        });
        stored.await.unwrap();
        vault.sign_in().await;
        let answered = eventually("the guest to take the tokens", async || {
            let call = alice.call("admin", "{}").await;
            alice.result(&call).await["result"]["content"][0]["text"].as_str().map(str::to_owned)
        });
        assert_eq!(answered.await.unwrap(), "with read admin");
        guest.stop().await;
    });
}

#[test]
fn a_device_code_signs_in_without_a_browser() {
    run(async {
        let vault = Vault::new(|_| {}).await;
        let (seen, mut shown) = tokio::sync::mpsc::unbounded_channel();
        let show = move |notice: &SignInNotice| drop(seen.send(notice.clone()));
        let prompt = SignInPrompt { way: SignInWay::DeviceIfOffered, show: Arc::new(show) };
        let mut guest = vault.guest(vault.options(Some(prompt)), Vec::new());
        match within("the code", shown.recv()).await.unwrap() {
            Some(SignInNotice::Code(prompt)) => assert_eq!(prompt.code, "WDJB-MJHT"),
            other => panic!("{other:?}"),
        }
        vault.server.approve_devices();
        guest.here().await;
        guest.stop().await;
    });
}

#[test]
fn a_token_is_not_sent_where_a_redirect_leads() {
    run(async {
        let other = OAuthServer::start(OAuthSwitches::default()).await.unwrap();
        for same_origin in [false, true] {
            let vault = Vault::new(|_| {}).await;
            let mut guest = vault.guest(vault.options(Some(browser())), Vec::new());
            guest.here().await;
            let mut alice = vault.stage.caller("alice").await;
            let target = if same_origin { format!("{}/", vault.server.url()) } else { other.url() };
            vault.server.change(|switches| switches.redirects_to = Some(target));
            let call = alice.call("open", "{}").await;
            let answer = alice.result(&call).await.to_string();
            assert!(answer.contains("HTTP 307, a redirect"), "{answer}");
            guest.stop().await;
        }
        assert_eq!(other.mcp_requests(), 0);
    });
}

#[test]
fn credentials_of_the_user_are_not_replaced() {
    run(async {
        let vault = Vault::new(|_| {}).await;
        let headers = vec![("Authorization".to_owned(), "Bearer mine".to_owned())];
        let mut guest = vault.guest(vault.options(Some(browser())), headers);
        match guest.until(|status| !matches!(status, GuestStatus::Starting)).await {
            GuestStatus::Restarting { why, .. } => assert!(why.contains("HTTP 401"), "{why}"),
            other => panic!("{other:?}"),
        }
        assert!(vault.server.log().is_empty());
        guest.stop().await;
    });
}

#[test]
fn a_sign_in_that_fails_ends_the_guest_with_its_reason() {
    run(async {
        type Change = fn(&mut OAuthSwitches);
        let table: [(Change, &str); 3] = [
            (|switches| switches.consents = false, "the sign-in was refused in the browser"),
            (
                |switches| switches.response_issuer = Some("https://evil.example".into()),
                "not from the authorization server",
            ),
            (|switches| switches.registers = false, "`--oauth-client-id`"),
        ];
        for (change, expected) in table {
            let vault = Vault::new(change).await;
            let guest = vault.guest(vault.options(Some(browser())), Vec::new());
            let ended = within("the guest to end", guest.running).await.unwrap().unwrap();
            let Err(GuestError::SignIn { why, .. }) = ended else { panic!("{ended:?}") };
            assert!(why.to_string().contains(expected), "{why}");
        }
    });
}

#[test]
fn a_client_that_was_registered_by_hand_signs_in() {
    run(async {
        let vault = Vault::new(|switches| switches.registers = false).await;
        vault.server.add_client("ours");
        let client = Some(RegisteredClient::new("ours", Some("secret".into())).of_issuer(vault.server.issuer()));
        let mut guest = vault.guest(OAuthOptions { client, ..vault.options(Some(browser())) }, Vec::new());
        guest.here().await;
        let mut alice = vault.stage.caller("alice").await;
        vault.server.expire();
        let call = alice.call("open", "{}").await;
        assert_eq!(text(&alice.result(&call).await), "with read");
        guest.stop().await;
    });
}

#[test]
fn a_server_that_refuses_a_fresh_token_opens_no_second_page() {
    run(async {
        let vault = Vault::new(|switches| switches.refuses_tokens = true).await;
        let guest = vault.guest(vault.options(Some(browser())), Vec::new());
        let ended = within("the guest to end", guest.running).await.unwrap().unwrap();
        let Err(GuestError::SignIn { why, .. }) = ended else { panic!("{ended:?}") };
        assert!(why.to_string().contains("refuses the token"), "{why}");
        assert_eq!(vault.server.count("GET /authorize"), 1);
    });
}

#[test]
fn a_guest_does_not_bring_back_tokens_that_were_forgotten() {
    run(async {
        let vault = Vault::new(|_| {}).await;
        vault.sign_in().await;
        let mut guest = vault.guest(vault.options(None), Vec::new());
        guest.here().await;
        let store = TokenStore::new(vault.scratch.path().join("guests"));
        let url = ResourceUrl::parse(&vault.server.url()).unwrap();
        assert!(store.forget(&url).unwrap());
        vault.server.expire();
        let mut alice = vault.stage.caller("alice").await;
        let call = alice.call("open", "{}").await;
        assert!(alice.result(&call).await["error"].is_object());
        needed(&mut guest).await;
        assert_eq!((vault.server.count(REFRESH), store.read(&url).unwrap()), (0, None));
        // A sign-in after that is taken.
        vault.sign_in().await;
        guest.here().await;
        guest.stop().await;
    });
}

#[test]
fn a_file_of_older_tokens_does_not_replace_newer_ones() {
    run(async {
        let vault = Vault::new(|_| {}).await;
        vault.sign_in().await;
        let mut guest = vault.guest(vault.options(None), Vec::new());
        guest.here().await;
        let path = TokenStore::new(vault.scratch.path().join("guests"))
            .path(&ResourceUrl::parse(&vault.server.url()).unwrap());
        let old = vault.stored();
        let mut alice = vault.stage.caller("alice").await;
        for _ in 0..2 {
            vault.server.expire();
            let call = alice.call("open", "{}").await;
            assert_eq!(text(&alice.result(&call).await), "with read");
            // As if they could not be stored.
            std::fs::write(&path, &old).unwrap();
        }
        assert_eq!((vault.server.count(REFRESH), vault.server.count("a refresh token came twice")), (2, 0));
        guest.stop().await;
    });
}
