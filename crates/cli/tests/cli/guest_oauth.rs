//! Servers of guests that want a sign-in: `salon login --guest`, `salon join --url`, and guests that `salon serve` hosts.

use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use salon_testkit::oauth::{OAuthServer, OAuthSwitches};
use salon_testkit::run;

use crate::salon::{BINARY, Home, Ran, Running, Signal, finish};

/// A browser that follows redirects and shows nothing.
const BROWSER: &str = "#!/usr/bin/env python3
import sys, urllib.request
urllib.request.urlopen(sys.argv[1]).read()
";

async fn stage() -> (Home, OAuthServer) {
    let home = Home::new();
    home.write("browser", BROWSER);
    let file = home.path().join("browser");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("changed");
    (home, OAuthServer::start(OAuthSwitches::default()).await.expect("it starts"))
}

fn salon(home: &Home, arguments: &[&str]) -> tokio::process::Command {
    let mut command = home.command(BINARY);
    command.args(arguments).env("BROWSER", home.path().join("browser"));
    command
}

/// What a person sees, without what differs from run to run.
fn told(home: &Home, server: &OAuthServer, Ran { code, stdout, stderr }: Ran) -> String {
    let told = format!("{stdout}{stderr}exit: {}", code.expect("no signal ended it"));
    let told = told.replace(&server.issuer(), "SERVER").replace(&home.path().display().to_string(), "HOME");
    let lines = told.lines().map(|line| match line.split_once("/authorize?") {
        Some((before, _)) => format!("{before}/authorize?…"),
        None => match (line.find("guests/"), line.find(".json")) {
            (Some(from), Some(to)) => format!("{}…{}", &line[..from + 7], &line[to..]),
            _ => line.to_owned(),
        },
    });
    let lines: Vec<_> = lines.map(|line| line.split(", until ").next().unwrap_or_default().to_owned()).collect();
    lines.join("\n")
}

#[test]
fn a_person_signs_in_to_the_server_of_a_guest() {
    run(async {
        let (home, server) = stage().await;
        let url = server.url();
        let see = async |arguments: &[&str]| told(&home, &server, finish(salon(&home, arguments)).await);
        assert_snapshot!(see(&["login", "--guest", &url]).await, @"
        signed in to SERVER/mcp by SERVER
        sign in with a browser on this machine:
          SERVER/authorize?…
        stored in `HOME/.config/salon/guests/….json`, for your eyes only
        exit: 0
        ");
        assert_snapshot!(see(&["login", "--list"]).await, @"
          SERVER/mcp  guest, by SERVER    refreshed when needed
        exit: 0
        ");
        let json = finish(salon(&home, &["login", "--list", "--json"])).await.stdout;
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!((&json["guests"][0]["url"], &json["guests"][0]["issuer"]), (&url.into(), &server.issuer().into()));
        let folder = home.path().join(".config/salon/guests");
        let entries: Vec<_> =
            std::fs::read_dir(&folder).expect("there").map(|entry| entry.expect("one").path()).collect();
        for path in entries.iter().chain([&folder]) {
            let mode = std::fs::metadata(path).expect("there").permissions().mode() & 0o077;
            assert_eq!(mode, 0, "{} is open to others", path.display());
        }
        assert_snapshot!(see(&["logout", "--guest", &server.url()]).await, @"
        forgot the tokens for SERVER/mcp; they are good until they expire
        exit: 0
        ");
        assert_snapshot!(see(&["logout", "--guest", &server.url()]).await, @"
        error: there are no tokens for `SERVER/mcp`

        hint: `salon login --list` shows where you are signed in
        exit: 2
        ");
        server.change(|switches| switches.consents = false);
        assert_snapshot!(see(&["login", "--guest", &server.url()]).await, @"
        sign in with a browser on this machine:
          SERVER/authorize?…
        error: the sign-in was refused in the browser
        exit: 1
        ");
        assert_snapshot!(see(&["login", "--guest", "http://mcp.example/mcp"]).await, @"
        error: `http://mcp.example/mcp` is not https, and tokens are sent in the clear to this machine alone
        exit: 2
        ");
        assert_snapshot!(see(&["login", "--device"]).await, @"
        error: `--device` goes with `--guest`, not with a gateway
        exit: 2
        ");
    });
}

#[test]
fn joining_a_server_that_wants_a_sign_in_opens_the_browser() {
    run(async {
        let (home, server) = stage().await;
        let gateway = home.serve("").await;
        let at = format!("http://{}", gateway.address);
        let url = server.url();
        let join = salon(&home, &["join", "room:lab", "--as", "vault", "--gateway", &at, "--url", &url]);
        let mut join = Running::spawn(join);
        let line = join.line().await.expect("a line");
        assert_eq!(line, "`vault` (vault 1) is in room:lab and offers 2 tools to everyone there");
        let call = async |text: &str| {
            let call = home.salon(&format!("call room:lab --gateway {at} --as tester vault open")).await;
            assert_eq!(call.stdout.trim_end(), text, "{}", call.stderr);
        };
        call("with read").await;
        server.expire();
        call("with read").await;
        join.signal(Signal::INT);
        let ended = join.end().await;
        let whole = format!("{}{}", ended.stdout, ended.stderr);
        assert!(whole.contains("`vault`: it wants a sign-in") && whole.contains("/authorize?"), "{whole}");
        assert!(!whole.contains("access-") && !whole.contains("refresh-"), "{whole}");
    });
}

#[test]
fn a_hosted_guest_says_how_to_sign_in_and_takes_the_tokens_without_a_restart() {
    run(async {
        let (home, server) = stage().await;
        let url = server.url();
        home.write("salon.toml", &format!("[topics.\"room:lab\".guests.vault]\nurl = \"{url}?tenant=1\"\n"));
        let mut gateway = home.serve("--config salon.toml").await;
        gateway.complained(&format!("it wants a sign-in; run `salon login --guest {url}` as this user")).await;
        let login = finish(salon(&home, &["login", "--guest", &url])).await;
        assert_eq!(login.code, Some(0), "{}", login.stderr);
        gateway.complained("`vault` (vault 1) is in room:lab").await;
        gateway.signal(Signal::INT);
        let ended = gateway.end().await;
        let whole = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!whole.contains("access-") && !whole.contains("refresh-"), "{whole}");
    });
}
