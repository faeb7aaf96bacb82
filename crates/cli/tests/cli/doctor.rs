//! `doctor`: what is wrong, and what to do about it.

use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use salon_testkit::run;
use serde_json::Value;

use crate::salon::{BINARY, Home, Signal, finish};
use crate::stage::{Stage, TOPIC, fed};

/// How long a gateway has been up differs from run to run.
fn settled(told: &str) -> String {
    let line = |line: &str| match line
        .split_once("up for ")
        .and_then(|(before, after)| Some((before, after.split_once(',')?.1)))
    {
        Some((before, after)) => format!("{before}up for SOME TIME,{after}"),
        None => line.to_owned(),
    };
    told.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn all_is_well() {
    run(async {
        let stage = Stage::new().await;
        let (_robot, _) = stage.robot().await;
        assert_snapshot!(settled(&stage.told(&["doctor", TOPIC]).await), @"
        ✓ tcp          ADDRESS takes connections
        ✓ health       healthy, up for SOME TIME, speaks mcp-x/v0
        ✓ ready        it takes messages
        ✓ clock        the gateway's is this machine's
        ✓ token        is for `alice` and opens *, until TIME
        ✓ access       the gateway accepts the token
        ✓ topic        `room:alpha` was entered and left again; 1 other there
        exit: 0
        ");
        let json = finish(stage.alice(&["doctor", "--json"])).await;
        let json: Value = serde_json::from_str(&json.stdout).expect("JSON");
        assert_eq!((&json["ok"], &json["gateway"]), (&Value::Bool(true), &Value::from(stage.url())));
        assert_eq!(json["checks"][0]["check"], "tcp");
        assert_eq!(json["checks"][0]["status"], "ok");
    });
}

#[test]
fn a_token_that_is_wrong_is_named() {
    run(async {
        let stage = Stage::new().await;
        let doctor = async |token: &str| settled(&stage.told_to(token, &["doctor", TOPIC]).await);
        assert_snapshot!(doctor("nonsense").await, @"
        ✓ tcp          ADDRESS takes connections
        ✓ health       healthy, up for SOME TIME, speaks mcp-x/v0
        ✓ ready        it takes messages
        ✓ clock        the gateway's is this machine's
        ✗ token        the token is not a signed JWT
                       hint: `salon token` makes one, where the gateway runs
        ✗ access       the gateway does not accept the token: the token is not a signed JWT
                       hint: see what is said of the token above
        exit: 1
        ");
        assert_snapshot!(doctor(&stage.token("alice", "expires=-3600")).await, @"
        ✓ tcp          ADDRESS takes connections
        ✓ health       healthy, up for SOME TIME, speaks mcp-x/v0
        ✓ ready        it takes messages
        ✓ clock        the gateway's is this machine's
        ✗ token        is for `alice` and opens *; it expired at TIME
                       hint: get a new one, and store it with `salon login`
        ✗ access       the gateway does not accept the token: the token has expired
                       hint: see what is said of the token above
        exit: 1
        ");
        assert_snapshot!(doctor(&stage.token("alice", "expires=60")).await, @"
        ✓ tcp          ADDRESS takes connections
        ✓ health       healthy, up for SOME TIME, speaks mcp-x/v0
        ✓ ready        it takes messages
        ✓ clock        the gateway's is this machine's
        ! token        is for `alice` and opens *; it expires at TIME, soon
                       hint: get a new one, and store it with `salon login`
        ✓ access       the gateway accepts the token
        ✓ topic        `room:alpha` was entered and left again; 0 others there
        exit: 0
        ");
        assert_snapshot!(doctor(&stage.token("alice", "topics=room:other")).await, @"
        ✓ tcp          ADDRESS takes connections
        ✓ health       healthy, up for SOME TIME, speaks mcp-x/v0
        ✓ ready        it takes messages
        ✓ clock        the gateway's is this machine's
        ✓ token        is for `alice` and opens room:other, until TIME
        ✓ access       the gateway accepts the token
        ✗ topic        `room:alpha` is not open to this token
                       hint: where the gateway runs, `salon token room:alpha --as ID` makes a token that opens it
        exit: 1
        ");
        let stranger = Stage::new().await.token("alice", "");
        assert_snapshot!(doctor(&stranger).await, @"
        ✓ tcp          ADDRESS takes connections
        ✓ health       healthy, up for SOME TIME, speaks mcp-x/v0
        ✓ ready        it takes messages
        ✓ clock        the gateway's is this machine's
        ✓ token        is for `alice` and opens *, until TIME
        ✗ access       the gateway does not accept the token: the token's signature is wrong
                       hint: a token works only for the gateway whose key signed it; get one from there
        exit: 1
        ");
    });
}

#[test]
fn a_gateway_that_is_not_there_is_named() {
    run(async {
        let home = Home::new();
        let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = nobody.local_addr().expect("an address").to_string();
        drop(nobody);
        let told = home.told(&format!("doctor --gateway {address}")).await;
        assert_snapshot!(told.replace(&address, "ADDRESS"), @"
        ✗ token        there is no token for `http://ADDRESS`, and no key in `HOME/.local/share/salon` to make one
                       hint: start a gateway with `salon serve`; if one runs, name its data directory with `--data` or `SALON_DATA`, or give a token with `SALON_TOKEN` or `salon login`
        ✗ tcp          http://ADDRESS cannot be connected to: Connection refused (os error 111)
                       hint: nothing listens there: start it with `salon serve`
        exit: 1
        ");
        let told = home.told(&format!("doctor --gateway {address} --token a.b.c --json")).await;
        assert!(told.contains(r#""ok":false"#) && told.contains(r#""check":"tcp","status":"problem""#), "{told}");

        // Somebody is there, and is no gateway.
        let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = other.local_addr().expect("an address").to_string();
        let answering = tokio::spawn(async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            while let Ok((mut stream, _)) = other.accept().await {
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nwhat?").await;
            }
        });
        let told = home.told(&format!("doctor --gateway {address}")).await;
        assert_snapshot!(told.replace(&address, "ADDRESS"), @"
        ✗ token        there is no token for `http://ADDRESS`, and no key in `HOME/.local/share/salon` to make one
                       hint: start a gateway with `salon serve`; if one runs, name its data directory with `--data` or `SALON_DATA`, or give a token with `SALON_TOKEN` or `salon login`
        ✓ tcp          ADDRESS takes connections
        ✗ health       `http://ADDRESS/health` does not answer as it should: the answer was 404 Not Found, and not a gateway's
                       hint: is it a Salon gateway, and is it http or https?
        exit: 1
        ");
        answering.abort();
    });
}

#[test]
fn credentials_that_others_can_read_are_named() {
    run(async {
        let stage = Stage::new().await;
        let login = |arguments: &[&str]| {
            let mut command = stage.home.command(BINARY);
            command.args(arguments);
            command
        };
        assert_eq!(fed(login(&["login", &stage.url()]), &stage.token("alice", "")).await.code, Some(0));
        let file = stage.home.path().join(".config/salon/credentials.toml");
        let directory = file.parent().expect("a directory");
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).expect("changed");
        assert_snapshot!(settled(&stage.normal(finish(login(&["doctor"])).await)), @"
        ! credentials  `HOME/.config/salon/credentials.toml` is private and has 1 login, but its directory is open to others (mode 755)
                       hint: run `chmod 700` on the directory
        ✓ tcp          ADDRESS takes connections
        ✓ health       healthy, up for SOME TIME, speaks mcp-x/v0
        ✓ ready        it takes messages
        ✓ clock        the gateway's is this machine's
        ✓ token        is for `alice` and opens *, until TIME
        ✓ access       the gateway accepts the token
        exit: 0
        ");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o604)).expect("changed");
        assert_snapshot!(settled(&stage.told(&["doctor"]).await), @"
        ✗ credentials  `HOME/.config/salon/credentials.toml` is open to other users (mode 604)
                       hint: run `chmod 600` on it; if others could have read it, get new tokens and run `salon login` again
        ✓ tcp          ADDRESS takes connections
        ✓ health       healthy, up for SOME TIME, speaks mcp-x/v0
        ✓ ready        it takes messages
        ✓ clock        the gateway's is this machine's
        ✓ token        is for `alice` and opens *, until TIME
        ✓ access       the gateway accepts the token
        exit: 1
        ");
    });
}

#[test]
fn a_certificate_of_ones_own_is_trusted_when_named() {
    let home = Home::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    home.write("cert.pem", &made.cert.pem());
    home.write("key.pem", &made.signing_key.serialize_pem());
    run(async {
        let running = home.serve("--tls-cert cert.pem --tls-key key.pem").await;
        let gateway = format!("https://localhost:{}", running.address.port());
        let told = async |arguments: &str| {
            let told = home.told(&format!("{arguments} --gateway {gateway} --as alice")).await;
            let told = told.replace(&gateway, "GATEWAY").replace(&running.address.to_string(), "ADDRESS");
            // A name may lead to more than one address.
            settled(&told).lines().filter(|line| !line.contains(" dns ")).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(told("say room:a hello --create --ca cert.pem").await, "exit: 0");
        let doctor = told("doctor room:a --ca cert.pem").await;
        assert!(doctor.contains("✓ tls          the certificate is trusted"), "{doctor}");
        assert!(doctor.contains("✓ topic") && doctor.ends_with("exit: 0"), "{doctor}");
        let doctor = told("doctor room:a").await;
        assert!(doctor.contains("✗ tls          no secure connection: ") && doctor.contains("`--ca`"), "{doctor}");
        assert!(told("topics").await.ends_with("exit: 7"));
        assert_snapshot!(told("topics --ca key.pem").await, @"
        error: the file of `--ca` is not usable: the file has no certificate
        exit: 2
        ");
        running.signal(Signal::TERM);
        running.end().await;
    });
}
