//! A room with three people in it, one of whom is up to no good. Many cases share one room, so whatever a check leaves behind is read
//! before the next one begins.

use salon_testkit::http::HttpCall;
use salon_testkit::{Failure, TestEngine, TestGateway, TestOptions, TestSocket, TestSocketEvent, TestToken};
use serde_json::Value;

/// The requests that are open in the room: bob's to alice (JSON-RPC id 1), and bob's to mallory (JSON-RPC id 7).
pub(crate) const TO_ALICE: &str = "q-alice";
pub(crate) const TO_MALLORY: &str = "q-mallory";

pub(crate) struct Room {
    gateway: TestGateway,
    pub(crate) alice: TestSocket,
    pub(crate) bob: TestSocket,
    pub(crate) mallory: TestSocket,
    /// How many envelopes were published to show that the room goes on: each needs an id of its own.
    proofs: usize,
}

impl Room {
    pub(crate) async fn open(engine: TestEngine) -> Result<Self, Failure> {
        // Cases follow each other faster than anybody may publish, and what is refused counts.
        let gateway = TestGateway::start(TestOptions::new(engine).set("limits.rate", "0")?).await?;
        let alice = join(&gateway, "alice").await?;
        let bob = join(&gateway, "bob").await?;
        let mallory = join(&gateway, "mallory").await?;
        let mut room = Self { gateway, alice, bob, mallory, proofs: 0 };
        room.bob.text(envelope("bob", TO_ALICE, r#""to":["alice"],"#, r#""id":1,"method":"tools/list""#)).await?;
        room.ask_mallory(TO_MALLORY).await?;
        Ok(room)
    }

    /// Bob asks mallory something, and everybody has read everything up to that.
    async fn ask_mallory(&mut self, id: &str) -> Result<(), Failure> {
        let last = envelope("bob", id, r#""to":["mallory"],"#, r#""id":7,"method":"tools/list""#);
        self.bob.text(&last).await?;
        for socket in [&mut self.alice, &mut self.bob, &mut self.mallory] {
            while next(socket).await? != last {}
        }
        Ok(())
    }

    fn proof(&mut self, from: &str) -> String {
        self.proofs += 1;
        envelope(from, &format!("still-here-{}", self.proofs), "", r#""method":"notifications/note""#)
    }

    /// Mallory can still speak, and what she says is the next thing that she, alice and bob hear.
    pub(crate) async fn goes_on(&mut self) -> Result<(), Failure> {
        let proof = self.proof("mallory");
        self.mallory.text(&proof).await?;
        for (name, socket) in [("mallory", &mut self.mallory), ("alice", &mut self.alice), ("bob", &mut self.bob)] {
            let came = next(socket).await?;
            if came != proof {
                return Err(format!("{name} was to hear only of the proof, and heard {came}"));
            }
        }
        Ok(())
    }

    /// Mallory is gone; alice and bob hear of that and of nothing else, and go on. Then mallory comes back.
    pub(crate) async fn goes_on_without_mallory(&mut self) -> Result<(), Failure> {
        for (name, socket) in [("alice", &mut self.alice), ("bob", &mut self.bob)] {
            let mut expected = vec!["leave"];
            if name == "bob" {
                // His request to mallory will not be answered any more; he may hear so before or after her leave.
                expected.push("error");
            }
            while !expected.is_empty() {
                let came = next(socket).await?;
                let value: Value = serde_json::from_str(&came).map_err(|e| e.to_string())?;
                let event = value["payload"]["event"].as_str().unwrap_or_default();
                let at = expected.iter().position(|&wanted| wanted == event);
                expected.remove(at.ok_or_else(|| format!("{name} heard {came}"))?);
            }
        }
        let proof = self.proof("bob");
        self.bob.text(&proof).await?;
        for (name, socket) in [("alice", &mut self.alice), ("bob", &mut self.bob)] {
            let came = next(socket).await?;
            if came != proof {
                return Err(format!("{name} was to hear only of the proof, and heard {came}"));
            }
        }
        self.mallory = join(&self.gateway, "mallory").await?;
        let again = format!("{TO_MALLORY}-{}", self.proofs);
        self.ask_mallory(&again).await
    }

    pub(crate) async fn close(self) -> Result<(), Failure> {
        let Self { gateway, alice, bob, mallory, .. } = self;
        drop((alice, bob, mallory));
        gateway.stop().await
    }
}

pub(crate) async fn join(gateway: &TestGateway, name: &str) -> Result<TestSocket, Failure> {
    let call = HttpCall::new("GET", "/v0/ws?topic=room:alpha").bearer(&gateway.token(&TestToken::new(name))?);
    let connected = TestSocket::connect(gateway.address(), call).await?;
    let mut socket = connected.map_err(|answer| format!("{name} was refused: {} {}", answer.status, answer.body))?;
    next(&mut socket).await?;
    Ok(socket)
}

/// The next text frame.
pub(crate) async fn next(socket: &mut TestSocket) -> Result<String, Failure> {
    match socket.next().await? {
        TestSocketEvent::Text(text) => Ok(text),
        other => Err(format!("expected a frame, came {other:?}")),
    }
}

/// An envelope with some further fields, and its payload's fields.
pub(crate) fn envelope(from: &str, id: &str, fields: &str, payload: &str) -> String {
    format!(
        r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"{from}",{fields}"kind":"mcp","payload":{{"jsonrpc":"2.0",{payload}}}}}"#
    )
}
