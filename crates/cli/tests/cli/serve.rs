use salon_testkit::http::HttpCall;
use salon_testkit::run;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::salon::{BINARY, Home, Running, Signal, finish};

#[test]
fn it_serves_until_told_to_stop() {
    let home = Home::new();
    for signal in [Signal::TERM, Signal::INT] {
        run(async {
            let running = home.serve("").await;
            let health = HttpCall::new("GET", "/health").send(running.address).await.expect("an answer");
            assert_eq!(health.status, 200);
            running.signal(signal);
            let ran = running.end().await;
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        });
    }
}

#[test]
fn its_health_can_be_asked_for() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        let health = format!("serve --health --listen {}", running.address);
        let told = home.told(&health).await;
        assert_eq!(told, format!("http://{}/health is healthy\nexit: 0", running.address));
        running.signal(Signal::TERM);
        assert_eq!(running.end().await.code, Some(0));
        let told = home.told(&health).await;
        assert!(told.contains("/health` is not healthy") && told.ends_with("exit: 1"), "{told}");
    });
}

#[test]
fn a_token_made_beside_it_opens_its_door() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        let token = home.token("room:alpha", "alice").await;
        let topics = HttpCall::new("GET", "/v0/topics").bearer(&token).send(running.address).await.expect("an answer");
        assert_eq!((topics.status, &*topics.body), (200, r#"{"topics":[]}"#));
    });
}

#[test]
fn log_lines_as_json_are_all_json() {
    let home = Home::new();
    run(async {
        let mut command = home.command(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]);
        let mut running = Running::spawn(command);
        let told = running.complained("\"gateway: serving\"").await;
        running.signal(Signal::TERM);
        let ran = running.end().await;
        assert_eq!((ran.code, &*ran.stdout), (Some(0), ""));
        for line in format!("{told}{}", ran.stderr).lines() {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
        }
    });
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let home = Home::new();
    run(async {
        let mut running = home.serve("--times-drain-deadline 1h").await;
        let token = home.token("room:alpha", "alice").await;
        // A request whose body never comes keeps the gateway draining.
        let mut slow = TcpStream::connect(running.address).await.expect("it listens");
        let head = format!(
            "POST /v0/topics/room:alpha/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Expect: 100-continue\r\nContent-Length: 10\r\n\r\n"
        );
        slow.write_all(head.as_bytes()).await.expect("sent");
        let mut answer = [0; 12];
        slow.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 100", "the gateway waits for the body");

        running.signal(Signal::TERM);
        running.complained("stopping").await;
        running.signal(Signal::TERM);
        let ran = running.end().await;
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.ends_with("stopped at once, as asked twice\n"), "{}", ran.stderr);
    });
}

#[test]
fn a_data_directory_has_one_gateway() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        HttpCall::new("GET", "/health").send(running.address).await.expect("it has opened its log");
        let second = home.salon("serve --listen 127.0.0.1:0").await;
        assert_eq!(second.code, Some(1));
        let told = second.stderr.replace(&home.path().display().to_string(), "HOME");
        insta::assert_snapshot!(told, @"
        error: the log in `HOME/.local/share/salon` is in use by another process

        hint: another gateway runs there; stop it, or choose another directory with `--data`
        ");
        running.signal(Signal::TERM);
        assert_eq!(running.end().await.code, Some(0), "the first is not disturbed");
    });
}

#[test]
fn a_check_beside_a_running_gateway_says_so_and_disturbs_nobody() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        HttpCall::new("GET", "/health").send(running.address).await.expect("it has opened its log");
        let told = home.told("serve --check").await;
        assert!(told.contains("note        `HOME/.local/share/salon` is in use by another gateway now\n"), "{told}");
        assert!(told.ends_with("exit: 0"), "{told}");
        running.signal(Signal::TERM);
        assert_eq!(running.end().await.code, Some(0));
        let told = home.told("serve --check").await;
        assert!(!told.contains("in use"), "{told}");
    });
}

#[test]
fn a_start_warns_of_what_is_open_and_what_is_misspelt() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let data = home.path().join("data");
    std::fs::create_dir(&data).expect("made");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).expect("set");
    run(async {
        let mut command = home.command(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", "data", "--log-format", "json"]);
        command.env("SALON_LISTN", "127.0.0.1:1");
        let mut running = Running::spawn(command);
        let told = running.complained("\"gateway: serving\"").await;
        let warned = told.lines().filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            (line["level"] == "WARN").then(|| line["message"].as_str().unwrap_or_default().to_owned())
        });
        insta::assert_snapshot!(warned.collect::<Vec<_>>().join("\n"), @"
        configuration: the variable `SALON_LISTN` is set, but nothing reads it; did you mean `SALON_LISTEN`?
        configuration: `data` is open to other users (mode 755); `chmod 700 data` closes it
        ");
        running.signal(Signal::TERM);
        assert_eq!(running.end().await.code, Some(0));
    });
}

#[test]
fn keys_that_cannot_be_had_are_told_by_their_place() {
    let home = Home::new();
    home.write("keys.json", "{}");
    insta::assert_snapshot!(run(home.told("serve --listen 127.0.0.1:0 --auth-jwks keys.json")), @"
    error: `keys.json`: the key set is not a JSON Web Key Set: missing field `keys` at line 1 column 2
    exit: 2
    ");
}

#[test]
fn a_password_in_a_mistyped_url_is_never_told() {
    run(async {
        let home = Home::new();
        let given = [
            "--store natss://u:s3cret@h:4222",
            "--store u:s3cret@h",
            "--store=nats://u:s3cret@h/x",
            "natss://u:s3cret@h",
        ];
        for given in given {
            let told = home.told(&format!("serve {given}")).await;
            assert!(!told.contains("s3cret") && told.ends_with("exit: 2"), "{given}: {told}");
        }
        let told = home.told("serve --store natss://u:s3cret@h:4222").await;
        insta::assert_snapshot!(told, @"
        error: invalid value '(not shown)' for '--store <sqlite|URL>': a store is `sqlite`, or NATS servers such as `nats://host:4222` or `tls://host:4222`, several with commas between

        hint: `--help` lists what there is
        exit: 2
        ");
    });
}

#[test]
fn an_address_in_use_is_told() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        let mut command = home.command(BINARY);
        command.args(["serve", "--data", "other", "--listen", &running.address.to_string()]);
        let ran = finish(command).await;
        assert_eq!((ran.code, &*ran.stdout), (Some(1), ""));
        insta::assert_snapshot!(ran.stderr.replace(&running.address.port().to_string(), "PORT"), @"
        error: `127.0.0.1:PORT` is in use

        hint: another gateway may be running; choose another port, or 0 for a free one
        ");
    });
}
