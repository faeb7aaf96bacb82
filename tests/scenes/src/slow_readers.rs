//! A reader that does not read costs the others nothing, and misses nothing.

use std::ops::Range;

use libtest_mimic::Trial;
use salon_testkit::http::{EventStream, HttpCall};
use salon_testkit::{Failure, TestEngine, TestGateway, TestOptions, TestSocket, TestSocketEvent, TestToken};

use crate::room::{envelope, join, next};
use crate::tables::{self, Logs};

/// Far more than a ring of 64 KiB and the sockets' buffers hold.
const MESSAGES: usize = 3_000;
const PADDING: usize = 8_000;
/// How many messages are on their way at once.
const WINDOW: usize = 100;

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    tables::trials(
        engine,
        "slow",
        &[
            ("a reader behind the ring reads on from the log", Logs::Every, |engine| Box::pin(reads_on(engine))),
            ("a reader that takes nothing is closed and resumes", Logs::Every, |engine| Box::pin(is_closed(engine))),
        ],
    )
}

fn options(engine: TestEngine) -> Result<TestOptions, Failure> {
    TestOptions::new(engine).set("limits.rate", "0")?.set("times.heartbeat", "0")?.set("memory.per_room", "65536")
}

fn message(number: usize) -> String {
    let pad = "x".repeat(PADDING);
    let payload = format!(r#""method":"notifications/x","params":{{"pad":"{pad}"}}"#);
    envelope("alice", &format!("m{number}"), "", &payload)
}

/// The next message, and whether bob was told to have left before it. Other presence passes by.
async fn next_message(socket: &mut TestSocket, bob_left: &mut bool) -> Result<String, Failure> {
    loop {
        let text = next(socket).await?;
        if !text.contains(r#""kind":"presence""#) {
            return Ok(text);
        }
        *bob_left |= text.contains(r#""event":"leave""#) && text.contains(r#""id":"bob""#);
    }
}

async fn hear(socket: &mut TestSocket, numbers: Range<usize>, bob_left: &mut bool) -> Result<(), Failure> {
    for number in numbers {
        let came = next_message(socket, bob_left).await?;
        if came != message(number) {
            let start: String = came.chars().take(200).collect();
            return Err(format!("expected m{number}, came {start}"));
        }
    }
    Ok(())
}

/// Alice says everything, while a witness reads along and bob does not. Tells whether bob has left.
async fn say_everything(gateway: &TestGateway) -> Result<(TestSocket, bool), Failure> {
    let bob = join(gateway, "bob").await?;
    let mut witness = join(gateway, "witness").await?;
    let mut alice = join(gateway, "alice").await?;
    let mut bob_left = false;
    for first in (0..MESSAGES).step_by(WINDOW) {
        for number in first..first + WINDOW {
            alice.text(message(number)).await?;
        }
        hear(&mut alice, first..first + WINDOW, &mut bob_left).await?;
        hear(&mut witness, first..first + WINDOW, &mut bob_left).await?;
    }
    Ok((bob, bob_left))
}

async fn reads_on(engine: TestEngine) -> Result<(), Failure> {
    // However long it takes on a busy machine, bob is not closed for it.
    let gateway = TestGateway::start(options(engine)?.set("times.write_deadline", "10m")?).await?;
    let (mut bob, mut bob_left) = say_everything(&gateway).await?;
    hear(&mut bob, 0..MESSAGES, &mut bob_left).await?;
    if bob_left {
        return Err("bob was only slow, and left all the same".into());
    }
    drop(bob);
    gateway.stop().await
}

async fn is_closed(engine: TestEngine) -> Result<(), Failure> {
    let options = options(engine)?.set("times.write_deadline", "2s")?.set("times.ping_interval", "1s")?;
    let gateway = TestGateway::start(options).await?;
    let mut stream = follow(&gateway).await?;
    let (mut bob, mut bob_left) = say_everything(&gateway).await?;
    while !bob_left {
        let event = stream.next().await?.ok_or("the stream ended")?;
        bob_left |= event.data.contains(r#""event":"leave""#) && event.data.contains(r#""id":"bob""#);
    }
    drop(stream);
    // What had been written before still comes, in order, and then the end.
    let mut came = 0;
    loop {
        match bob.next().await? {
            TestSocketEvent::Text(text) if text.contains(r#""kind":"presence""#) => {}
            TestSocketEvent::Text(text) if text == message(came) => came += 1,
            TestSocketEvent::Broken | TestSocketEvent::Closed(4408, _) => break,
            other => return Err(format!("after {came} messages came {other:?}")),
        }
    }
    if came == 0 || came == MESSAGES {
        return Err(format!("{came} messages came before the end"));
    }
    let path = format!("/v0/ws?topic=room:alpha&after=m{}", came - 1);
    let call = HttpCall::new("GET", path).bearer(&gateway.token(&TestToken::new("bob"))?);
    let connected = TestSocket::connect(gateway.address(), call).await?;
    let mut bob = connected.map_err(|answer| format!("bob was refused: {} {}", answer.status, answer.body))?;
    next(&mut bob).await?;
    hear(&mut bob, came..MESSAGES, &mut bob_left).await?;
    drop(bob);
    gateway.stop().await
}

async fn follow(gateway: &TestGateway) -> Result<EventStream, Failure> {
    let token = gateway.token(&TestToken::new("watcher"))?;
    let call = HttpCall::new("GET", "/v0/topics/room:alpha/stream").bearer(&token);
    let opened = EventStream::open(gateway.address(), &call).await?;
    opened.map_err(|answer| format!("the stream was refused: {} {}", answer.status, answer.body))
}
