//! `salon log copy` between data directories, and what it refuses. With NATS it is tested beside the gateways there.

use std::net::SocketAddr;

use insta::assert_snapshot;
use salon_testkit::http::HttpCall;
use salon_testkit::{TestSocket, TestSocketEvent, run};
use serde_json::Value;

use crate::backup::{TOPIC, data, history, say, stop};
use crate::salon::Home;

/// A participant that stays connected.
struct Reader(TestSocket);

impl Reader {
    async fn connect(home: &Home, address: SocketAddr) -> Self {
        let token = home.token(TOPIC, "reader").await;
        let call = HttpCall::new("GET", format!("/v0/ws?topic={TOPIC}")).bearer(&token);
        Self(TestSocket::connect(address, call).await.expect("an answer").expect("a socket"))
    }

    /// Waits for an envelope on this connection.
    async fn sees(&mut self, id: &str) {
        loop {
            match self.0.next().await.expect("a frame") {
                TestSocketEvent::Text(text) => {
                    let came: Value = serde_json::from_str(&text).expect("JSON");
                    if came["id"] == id {
                        return;
                    }
                }
                other => panic!("instead of `{id}` there was {other:?}"),
            }
        }
    }
}

#[test]
fn topics_are_copied_while_the_gateway_runs() {
    run(async {
        let home = Home::new();
        let running = home.serve("").await;
        let token = home.token(TOPIC, "alice").await;
        for number in 0..3 {
            say(running.address, &token, &format!("e{number}")).await;
        }
        let mut reader = Reader::connect(&home, running.address).await;
        let copy = format!("log copy {} new", data(&home).display());
        assert_snapshot!(home.told(&copy).await, @"
        Copied 3 entries. Both stores have 1 topic with 3 entries: count and digest are the same.
        exit: 0
        ");
        say(running.address, &token, "e3").await;
        reader.sees("e3").await;
        assert_snapshot!(home.told(&copy).await, @"
        Copied 1 entry. Both stores have 1 topic with 4 entries: count and digest are the same.
        exit: 0
        ");
        let back = format!("log copy new {}", data(&home).display());
        assert_snapshot!(home.told(&back).await, @"
        error: the log in `HOME/.local/share/salon` is in use by another process

        hint: stop the gateway there, or choose another directory
        exit: 1
        ");
        drop(reader);
        stop(running).await;
        std::fs::copy(data(&home).join("auth.key"), home.path().join("new/auth.key")).expect("copied");
        let running = home.serve("--data new").await;
        assert_eq!(history(running.address, &token).await, ["e0", "e1", "e2", "e3"]);
        say(running.address, &token, "own").await;
        stop(running).await;
        assert_snapshot!(home.told(&copy).await, @"
        error: `room:alpha` has entries of its own in the copy

        hint: copy to a store that is empty; a redaction after the first copy is such a change
        exit: 1
        ");
        let left = std::fs::read_dir(home.path())
            .expect("a directory")
            .filter_map(|file| file.ok()?.file_name().into_string().ok());
        assert_eq!(
            left.filter(|name| name.starts_with("salon-copy")).count(),
            0,
            "the copy of the database is left over"
        );
    });
}

#[test]
fn what_cannot_be_copied_is_told() {
    run(async {
        let home = Home::new();
        assert_snapshot!(home.told("log copy nowhere new").await, @"
        error: there is no log in `nowhere`

        hint: FROM is the gateway's data directory, or its NATS servers
        exit: 1
        ");
        assert_snapshot!(home.told("log copy here here").await, @"
        error: FROM and TO are the same store

        hint: `--to-name` names another one on the same NATS servers
        exit: 2
        ");
        assert_snapshot!(home.told("log copy nats://user:secret@127.0.0.1:1 new").await, @"
        error: there is no key in `HOME/.local/share/salon`

        hint: `--data` names the data directory of a gateway of the store on NATS
        exit: 2
        ");
    });
}
