//! `salon framed`: a session from a shell, one command after the other.

use insta::assert_snapshot;
use salon_client::Toolbox;
use salon_protocol::ParticipantKind;
use salon_testkit::run;
use serde_json::Value;
use tokio::process::Command;

use crate::salon::{BINARY, Home, finish};
use crate::stage::{Stage, TOPIC, fed};

impl Stage {
    fn framed(&self, session: &str, arguments: &[&str]) -> Command {
        let mut command = self.alice(&["framed"]);
        command.args(arguments).env("SALON_FRAMED", format!("tcp://{}", self.gateway.framed_address()));
        command.env("SALON_FRAMED_SESSION", session);
        command
    }

    async fn framed_told(&self, session: &str, arguments: &[&str]) -> String {
        self.normal(finish(self.framed(session, arguments)).await)
    }
}

#[test]
fn a_session_from_a_shell() {
    run(async {
        let stage = Stage::new().await;
        let bob = stage.enter("bob", ParticipantKind::Human, Toolbox::new("bob")).await;
        let connected = finish(stage.framed("", &["connect", "--topic", TOPIC, "--capability", "lift"])).await;
        assert_eq!((connected.code, &*connected.stderr), (Some(0), ""));
        let session = connected.stdout.trim();
        assert!(session.len() == 32 && session.bytes().all(|byte| byte.is_ascii_hexdigit()), "{session}");

        for sent in [
            &["send", "good", "morning"][..],
            &["send", r#"{"floor":12345678901234567890}"#, "--to", "bob"],
            &["send", "--text", "[1]"],
        ] {
            let sent = finish(stage.framed(session, sent)).await;
            assert_eq!((sent.code, &*sent.stderr), (Some(0), ""), "{}", sent.stdout);
        }
        let bytes = fed(stage.framed(session, &["send", "--content-type", "image/x-dots"]), "dots").await;
        assert_eq!(bytes.code, Some(0));
        assert_snapshot!(stage.told(&["history", TOPIC]).await, @"
        TIME  + bob joined, a human
        TIME  + alice joined, an agent
        TIME  alice: good morning
        TIME  alice … bob               data
        TIME  alice: [1]
        TIME  alice … everybody         data
        exit: 0
        ");

        bob.say("hello alice").await.expect("said");
        bob.say("and again").await.expect("said");
        let received = finish(stage.framed(session, &["receive", "--timeout", "20s"])).await;
        let texts: Vec<Value> = received
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["payload"]["params"]["text"].clone())
            .collect();
        assert_eq!(texts, ["hello alice", "and again"]);
        assert_snapshot!(stage.framed_told(session, &["receive", "--timeout", "0"]).await, @"exit: 0");

        assert_snapshot!(stage.framed_told(session, &["send", "--to", "ghost", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#]).await, @"
        error: `ghost` is not in this room
        exit: 5
        ");
        assert_snapshot!(stage.framed_told(session, &["disconnect", "--reason", "done"]).await, @"exit: 0");
        assert_snapshot!(stage.framed_told(session, &["receive"]).await, @"
        error: there is no such session, or not any more; begin with CONNECT

        hint: a session lasts for a minute after its last command, and as long as its token; `salon framed connect` begins another
        exit: 5
        ");
        assert_snapshot!(stage.framed_told("", &["receive"]).await, @"
        error: there is no session

        hint: `export SALON_FRAMED_SESSION=$(salon framed connect --topic TOPIC)` begins one
        exit: 2
        ");
        drop(bob);
    });
}

#[test]
fn who_cannot_come_in_is_told_why() {
    run(async {
        let stage = Stage::new().await;
        let other = stage.token("alice", "topics=room:other");
        let mut command = stage.person(&other, &["framed", "connect", "--topic", TOPIC]);
        command.env("SALON_FRAMED", stage.gateway.framed_address().to_string());
        assert_snapshot!(stage.normal(finish(command).await), @"
        error: topic `room:alpha` is not open to this token
        exit: 5
        ");
        assert_snapshot!(stage.framed_told("", &["connect", "--topic", TOPIC, "--at", "ftp://x"]).await, @"
        error: `ftp://x` is not an address such as tcp://127.0.0.1:8788 or tls://chat.example:8788
        exit: 2
        ");
        // The other door of the same gateway.
        let http = stage.gateway.address().to_string();
        let told = stage.framed_told("", &["connect", "--topic", TOPIC, "--at", &http]).await;
        assert!(told.ends_with("exit: 7"), "{told}");
    });
}

#[test]
fn a_session_behind_tls() {
    let home = Home::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    home.write("cert.pem", &made.cert.pem());
    home.write("key.pem", &made.signing_key.serialize_pem());
    run(async {
        let mut running = home.serve("--tls-cert cert.pem --tls-key key.pem --framed-listen 127.0.0.1:0").await;
        let line = running.line().await.expect("a second line");
        let port = line.rsplit(':').next().expect("a port").trim().to_owned();
        assert!(line.starts_with("Framed connections on tls://127.0.0.1:"), "{line}");
        let token = home.token(TOPIC, "alice").await;
        let framed = |session: &str, arguments: &[&str]| {
            let mut command = home.command(BINARY);
            command.arg("framed").args(arguments).env("SALON_TOKEN", &token).env("SALON_CA", "cert.pem");
            command.env("SALON_FRAMED", format!("tls://localhost:{port}")).env("SALON_FRAMED_SESSION", session);
            command
        };
        let connected = finish(framed("", &["connect"])).await;
        assert_eq!((connected.code, &*connected.stderr), (Some(0), ""));
        let sent = finish(framed(connected.stdout.trim(), &["send", "hello"])).await;
        assert_eq!((sent.code, &*sent.stderr), (Some(0), ""));
        // Without TLS nobody gets in.
        let mut plain = framed("", &["connect"]);
        plain.env("SALON_FRAMED", format!("tcp://localhost:{port}"));
        assert_eq!(finish(plain).await.code, Some(7));
    });
}
