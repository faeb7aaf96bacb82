//! Tokens that are made here: by which key, and for which gateway.

use insta::assert_snapshot;
use salon_testkit::http::HttpCall;
use salon_testkit::{TestSocket, TestSocketEvent, eventually, run};
use tokio::net::TcpListener;

use crate::salon::{BINARY, Home, Ran, Running, Signal, finish};

/// A directory with a `salon.toml`, in which a gateway runs that has its data there.
async fn settled(home: &Home) -> Running {
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("an address");
    let place = home.path().join("place");
    std::fs::create_dir(&place).expect("a directory");
    let settings = format!("listen = \"{free}\"\ndata = \"salon-data\"\n");
    std::fs::write(place.join("salon.toml"), settings).expect("a file is written");
    let mut command = home.command(BINARY);
    command.arg("serve").current_dir(&place);
    Running::start(command).await
}

async fn told(home: &Home, at: &str, arguments: &str) -> String {
    let mut command = home.command(BINARY);
    command.args(arguments.split_whitespace()).current_dir(home.path().join(at)).env("USER", "alice");
    let Ran { code, stdout, stderr } = finish(command).await;
    let told = format!("{stdout}{stderr}exit: {}", code.expect("no signal ended it"));
    told.replace(&home.path().display().to_string(), "HOME")
}

#[test]
fn where_the_settings_are_nothing_need_be_said() {
    run(async {
        let home = Home::new();
        let gateway = settled(&home).await;
        assert_eq!(told(&home, "place", "say room:a hello --create").await, "exit: 0");
        let elsewhere = format!("topics --gateway http://{} --data place/salon-data", gateway.address);
        assert_eq!(told(&home, "", &elsewhere).await, "room:a\nexit: 0");
        let variable = home.path().join("place/salon-data");
        let mut command = home.command(BINARY);
        command.args(["topics", "--as", "alice"]).env("SALON_GATEWAY", gateway.address.to_string());
        command.env("SALON_DATA", variable);
        let ran = finish(command).await;
        assert_eq!((&*ran.stdout, ran.code), ("room:a\n", Some(0)), "{}", ran.stderr);
        gateway.signal(Signal::TERM);
        gateway.end().await;
    });
}

#[test]
fn a_key_of_another_gateway_is_named() {
    run(async {
        let home = Home::new();
        let gateway = settled(&home).await;
        let url = format!("http://{}", gateway.address);
        let ask = async |what: &str| told(&home, "", &format!("{what} --gateway {url}")).await.replace(&url, "GATEWAY");
        assert_snapshot!(ask("topics").await, @"
        error: there is no token for `GATEWAY`, and no key in `HOME/.local/share/salon` to make one

        hint: start a gateway with `salon serve`; if one runs, name its data directory with `--data` or `SALON_DATA`, or give a token with `SALON_TOKEN` or `salon login`
        exit: 2
        ");
        // Another gateway of the same person ran here before.
        assert_eq!(told(&home, "", "token room:a --as alice").await.lines().last(), Some("exit: 0"));
        assert_snapshot!(ask("topics").await, @"
        error: the token's signature is wrong: it was made with the key in `HOME/.local/share/salon`

        hint: the gateway may have its data, and so its key, in another directory: name that with `--data` or `SALON_DATA`, or start this in the directory where its `salon.toml` is
        exit: 5
        ");
        assert!(ask("call room:a robot move --json").await.contains("made with the key in `HOME/.local/share/salon`"));
        let doctor = ask("doctor").await;
        assert!(
            doctor.contains("✓ token        made with the key in `HOME/.local/share/salon`, is for `alice`"),
            "{doctor}"
        );
        assert!(doctor.contains("signature is wrong\n               hint: the gateway may have its data"), "{doctor}");
        gateway.signal(Signal::TERM);
        gateway.end().await;
    });
}

#[test]
fn http_and_https_are_told_apart() {
    run(async {
        let home = Home::new();
        let plain = home.serve("").await;
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        home.write("cert.pem", &made.cert.pem());
        home.write("key.pem", &made.signing_key.serialize_pem());
        let secure = home.serve("--data other --tls-cert cert.pem --tls-key key.pem").await;
        for (gateway, wrong, right) in [(&plain, "https", "http"), (&secure, "http", "https")] {
            let at = gateway.address;
            for command in ["topics", "tools room:a", "tail room:a"] {
                let told = told(&home, "", &format!("{command} --gateway {wrong}://{at}")).await;
                assert_eq!(
                    told,
                    format!(
                        "error: what answers at `{wrong}://{at}` does not speak {wrong}\n\n\
                         hint: it may speak {right}: try `--gateway {right}://{at}`\nexit: 7"
                    ),
                    "{command}"
                );
            }
            let told = told(&home, "", &format!("doctor --gateway {wrong}://{at}")).await;
            assert!(
                told.contains(&format!("does not speak {wrong}\n               hint: it may speak {right}: try")),
                "{told}"
            );
        }
        for gateway in [plain, secure] {
            gateway.signal(Signal::TERM);
            gateway.end().await;
        }
    });
}

#[test]
fn keys_are_rotated_while_the_gateway_runs() {
    run(async {
        let home = Home::new();
        let gateway = settled(&home).await;
        let url = format!("http://{}", gateway.address);
        let made = async || {
            let token = told(&home, "place", "token room:a --as alice").await;
            token.lines().next().expect("a token").to_owned()
        };
        let topics = async |token: &str| told(&home, "", &format!("topics --gateway {url} --token {token}")).await;
        let is_good = async |token: &str| topics(token).await.ends_with("exit: 0");
        let old = made().await;
        assert!(is_good(&old).await);
        assert_eq!(told(&home, "place", "key list").await, "first                    signs\nexit: 0");

        let rotated = told(&home, "place", "key rotate").await;
        let kid = rotated.lines().next().expect("an id").to_owned();
        assert_snapshot!(rotated.replace(&kid, "KEY"), @"
        KEY
        it signs from now on; tokens of the older keys are good until they expire
        exit: 0
        ");
        let listed = told(&home, "place", "key list").await;
        let columns: Vec<_> =
            listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(columns, ["first verifies".to_owned(), format!("{kid} signs"), "exit: 0".to_owned()]);
        // The gateway knows the new key when the first token of it comes.
        let new = made().await;
        assert!(is_good(&new).await);
        assert!(is_good(&old).await);

        let refused = told(&home, "place", &format!("key remove {kid}")).await;
        assert_snapshot!(refused.replace(&kid, "KEY"), @"
        error: the key `KEY` signs new tokens now

        hint: run `salon key rotate` first
        exit: 1
        ");
        let live = async |token: &str| {
            let call = HttpCall::new("GET", "/v0/ws?topic=room:a&share=true").bearer(token);
            TestSocket::connect(gateway.address, call).await.expect("an answer").expect("a socket")
        };
        let (mut of_old, mut of_new) = (live(&old).await, live(&new).await);
        assert_snapshot!(told(&home, "place", "key remove first").await, @"
        tokens of `first` are refused from now on; a running gateway closes their connections within a second
        exit: 0
        ");
        let closed = loop {
            match of_old.next().await.expect("a frame") {
                TestSocketEvent::Text(_) => {}
                other => break other,
            }
        };
        assert!(matches!(closed, TestSocketEvent::Closed(4401, _)), "{closed:?}");
        of_new.ping().await.expect("the connection of the other key goes on");
        let is_refused = async || topics(&old).await.contains("a key that this gateway does not know").then_some(());
        eventually("the old token to be refused", is_refused).await.expect("refused");
        assert!(is_good(&new).await);
        assert_eq!(
            told(&home, "place", "say room:a hello --create").await,
            "exit: 0",
            "commands sign with the new key"
        );
        gateway.signal(Signal::TERM);
        gateway.end().await;
    });
}
