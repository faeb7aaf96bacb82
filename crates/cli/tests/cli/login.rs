//! `login`, `logout`, and where credentials come from.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use insta::assert_snapshot;
use salon_testkit::{run, within};

use crate::salon::{BINARY, Home, Signal, finish};
use crate::stage::{Stage, TOPIC, fed};

fn file(home: &Home) -> PathBuf {
    home.path().join(".config/salon/credentials.toml")
}

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).expect("there").permissions().mode() & 0o777
}

impl Stage {
    /// A command with nothing but a home directory.
    fn bare(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = self.home.command(BINARY);
        command.args(arguments);
        command
    }

    async fn bare_told(&self, arguments: &[&str]) -> String {
        self.normal(finish(self.bare(arguments)).await)
    }
}

#[test]
fn a_token_is_kept_for_its_gateway() {
    run(async {
        let stage = Stage::new().await;
        let token = stage.token("alice", "topics=room:*,lobby");
        let login = fed(stage.bare(&["login", &stage.url()]), &format!("{token}\n")).await;
        assert_snapshot!(stage.normal(login), @"
        logged in to GATEWAY as `alice`, which opens room:*, lobby, until TIME
        stored in `HOME/.config/salon/credentials.toml`, for your eyes only
        exit: 0
        ");
        let file = file(&stage.home);
        assert_eq!((mode(&file), mode(file.parent().expect("a directory"))), (0o600, 0o700));
        let entries = std::fs::read_dir(file.parent().expect("a directory")).expect("readable").count();
        assert_eq!(entries, 1, "nothing is left beside it");

        assert_snapshot!(stage.bare_told(&["say", TOPIC, "hello", "--create"]).await, @"exit: 0");
        assert_snapshot!(stage.bare_told(&["history", TOPIC]).await, @"
        TIME  alice: hello
        exit: 0
        ");
        assert_snapshot!(stage.bare_told(&["login", "--list"]).await, @"
        * GATEWAY  alice  room:*, lobby  until TIME
        exit: 0
        ");
        assert_snapshot!(stage.bare_told(&["login", "--list", "--json"]).await, @r#"
        {"gateways":[{"url":"GATEWAY","latest":true,"participant":"alice","topics":["room:*","lobby"],"expires":"STAMP"}],"guests":[]}
        exit: 0
        "#);
        assert_snapshot!(stage.bare_told(&["say", TOPIC, "--as", "bob", "hello"]).await, @"
        error: the token is for `alice`, not for `bob`

        hint: `salon token TOPIC --as bob` makes one, to be given with `--token`; without `--as` you are `alice`
        exit: 2
        ");

        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("changed");
        assert_snapshot!(stage.bare_told(&["topics"]).await, @"
        error: `HOME/.config/salon/credentials.toml` is open to other users (mode 644)

        hint: run `chmod 600` on it; if others could have read it, get new tokens and run `salon login` again
        exit: 2
        ");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("changed");
        assert_snapshot!(stage.bare_told(&["logout"]).await, @"
        logged out from GATEWAY; the token itself is good until it expires
        exit: 0
        ");
        assert_snapshot!(stage.bare_told(&["login", "--list"]).await, @"
        no gateway is logged in to
        exit: 0
        ");
        assert_snapshot!(stage.bare_told(&["logout", &stage.url()]).await, @"
        error: you are not logged in to `GATEWAY`

        hint: `salon login --list` shows where you are logged in
        exit: 2
        ");
        std::fs::write(&file, format!("token = \"{token}\"\n")).expect("written");
        let told = stage.bare_told(&["topics"]).await;
        assert_snapshot!(told, @"
        error: `HOME/.config/salon/credentials.toml` is not as `salon login` writes it (line 1)

        hint: fix or delete it, and run `salon login`
        exit: 2
        ");
    });
}

#[test]
fn a_token_is_asked_for_without_showing_it() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    run(async {
        let stage = Stage::new().await;
        let token = stage.token("alice", "");
        let mut terminal = stage.home.command("script");
        terminal.args(["-qec", &format!("{BINARY} login {}", stage.url()), "/dev/null"]).env("TERM", "dumb");
        let mut child = terminal.stdin(std::process::Stdio::piped()).spawn().expect("it starts");
        let (mut keys, mut screen) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let mut shown = Vec::new();
        let typing = async {
            while !String::from_utf8_lossy(&shown).contains("(not shown): ") {
                assert_ne!(screen.read_buf(&mut shown).await.expect("a pipe"), 0, "it does not ask");
            }
            keys.write_all(format!("x\u{7f}{token}\r").as_bytes()).await.expect("it reads");
            screen.read_to_end(&mut shown).await.expect("a pipe");
            child.wait().await.expect("it ends").code()
        };
        assert_eq!(within("the login", typing).await, Ok(Some(0)));
        let shown = String::from_utf8_lossy(&shown);
        assert!(shown.contains("as `alice`"), "{shown}");
        assert!(!shown.contains(&token[..8]), "{shown}");
    });
}

#[test]
fn only_a_token_that_works_is_kept() {
    run(async {
        let stage = Stage::new().await;
        let login = async |token: &str| stage.normal(fed(stage.bare(&["login", &stage.url()]), token).await);
        assert_snapshot!(login("").await, @"
        error: no token was given

        hint: `salon token` makes one, where the gateway runs
        exit: 2
        ");
        assert_snapshot!(login("two words").await, @"
        error: what was given is no token: it must be one word

        hint: `salon token` makes one, where the gateway runs
        exit: 2
        ");
        assert_snapshot!(login("nonsense").await, @"
        error: the token is not a signed JWT

        hint: `salon token` makes one, where the gateway runs
        exit: 2
        ");
        assert_snapshot!(login(&stage.token("alice", "expires=-60")).await, @"
        error: the token has expired

        hint: `salon doctor` looks at the token; `salon login GATEWAY` stores another
        exit: 5
        ");
        assert!(!file(&stage.home).exists());
    });
}

#[test]
fn flags_override_variables_and_variables_stored_logins() {
    run(async {
        let stage = Stage::new().await;
        let kept = stage.token("kept", "");
        assert_eq!(fed(stage.bare(&["login", &stage.url()]), &kept).await.code, Some(0));
        stage.home.write("token", &format!("{}\n", stage.token("filed", "")));
        let by_flag = stage.token("flagged", "");
        let script = format!("echo {}", stage.token("commanded", ""));
        let say = async |flags: &[&str], variable: Option<&str>| {
            let mut command = stage.bare(&[&["say", TOPIC, "hi", "--create"], flags].concat());
            command.envs(variable.map(|token| ("SALON_TOKEN", token.to_owned())));
            let ran = finish(command).await;
            assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
        };
        let variable = stage.token("variable", "");
        say(&[], None).await;
        say(&[], Some(&variable)).await;
        say(&["--token", &by_flag], Some(&variable)).await;
        say(&["--token-file", "token"], Some(&variable)).await;
        say(&["--token-command", &script], Some(&variable)).await;
        assert_snapshot!(stage.bare_told(&["history", TOPIC]).await, @"
        TIME  kept: hi
        TIME  variable: hi
        TIME  flagged: hi
        TIME  filed: hi
        TIME  commanded: hi
        exit: 0
        ");
        let both = stage.bare_told(&["topics", "--token", &by_flag, "--token-file", "token"]).await;
        assert_snapshot!(both, @"
        error: the argument '--token <TOKEN>' cannot be used with '--token-file <FILE>'

        Usage: salon topics --token <TOKEN>

        hint: `--help` lists what there is
        exit: 2
        ");
        assert_snapshot!(stage.bare_told(&["topics", "--token-file", "missing"]).await, @"
        error: there is no token: the token file missing cannot be read: No such file or directory (os error 2)
        exit: 2
        ");
        assert_snapshot!(stage.bare_told(&["topics", "--token-command", "echo secret >&2; exit 3"]).await, @r#"
        error: there is no token: the token command "sh" failed (exit status: 3): secret
        exit: 2
        "#);
        assert_snapshot!(stage.bare_told(&["topics", "--token", "a b"]).await, @"
        error: the token from `--token` is not one word
        exit: 2
        ");
    });
}

#[test]
fn a_gateway_on_this_machine_needs_no_login() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        let gateway = format!("http://{}", running.address);
        let salon = async |arguments: &[&str]| {
            let mut command = home.command(BINARY);
            command.args(arguments).env("SALON_GATEWAY", &gateway).env("USER", "Élise B");
            let ran = finish(command).await;
            let line = |line: &str| line.get(21..).unwrap_or(line).to_owned();
            let stdout = ran.stdout.lines().map(line).collect::<Vec<_>>().join("\n");
            format!("{stdout}\n{}exit: {}", ran.stderr, ran.code.expect("no signal"))
        };
        assert_snapshot!(salon(&["say", TOPIC, "hello", "--create"]).await, @"exit: 0");
        assert_snapshot!(salon(&["say", TOPIC, "--as", "bob", "hello"]).await, @"exit: 0");
        assert_snapshot!(salon(&["history", TOPIC, "--as", "carol"]).await, @"
        lise-B: hello
        bob: hello
        exit: 0
        ");
        running.signal(Signal::TERM);
        running.end().await;
    });
}

#[test]
fn without_credentials_there_is_a_hint() {
    let home = Home::new();
    run(async {
        assert_snapshot!(home.told("who room:alpha").await, @"
        error: there is no token for `http://127.0.0.1:8787`, and no key in `HOME/.local/share/salon` to make one

        hint: start a gateway with `salon serve`; if one runs, name its data directory with `--data` or `SALON_DATA`, or give a token with `SALON_TOKEN` or `salon login`
        exit: 2
        ");
        assert_snapshot!(home.told("who room:alpha --gateway https://chat.example").await, @"
        error: there is no token for `https://chat.example`

        hint: ask its operator for a token, then run `salon login https://chat.example` or set `SALON_TOKEN`
        exit: 2
        ");
        assert_snapshot!(home.told("who room:alpha --gateway https://alice:secret@chat.example").await, @"
        error: a gateway's address has no credentials in it

        hint: give a token with `SALON_TOKEN` or `salon login`
        exit: 2
        ");
        assert_snapshot!(home.told("who room:alpha --gateway ftp://chat.example").await, @"
        error: `ftp://chat.example` is not a gateway's address: its scheme must be http or https

        hint: it looks like `https://chat.example`
        exit: 2
        ");
        assert_snapshot!(home.told("logout").await, @"
        error: there is no gateway to log out from

        hint: `salon login --list` shows where you are logged in
        exit: 2
        ");
    });
}
