//! A reader that does not read costs the others nothing, and misses nothing.

use libtest_mimic::Trial;
use salon_testkit::http::Call;
use salon_testkit::{Engine, Event, Failure, Gateway, Options, Socket, Token};

use crate::room::{envelope, join, next};

/// Far more than a ring of 64 KiB and the sockets' buffers hold.
const MESSAGES: usize = 3_000;
const PADDING: usize = 8_000;
/// How many messages are on their way at once.
const WINDOW: usize = 100;

pub(crate) fn trials(engine: Engine) -> Vec<Trial> {
    let name = |what: &str| format!("{}::slow::{what}", engine.name());
    vec![
        Trial::test(name("a reader behind the ring reads on from the log"), move || {
            Ok(salon_testkit::run(reads_on(engine))?)
        }),
        Trial::test(name("a reader that takes nothing is closed and resumes"), move || {
            Ok(salon_testkit::run(is_closed(engine))?)
        }),
    ]
}

fn options(engine: Engine) -> Result<Options, Failure> {
    Options::new(engine).set("rate-limit", "0")?.set("heartbeat", "0")?.set("ring-per-room", "65536")
}

fn message(number: usize) -> String {
    let pad = "x".repeat(PADDING);
    let payload = format!(r#""method":"notifications/x","params":{{"pad":"{pad}"}}"#);
    envelope("alice", &format!("m{number}"), "", &payload)
}

/// Alice says everything, while somebody reads along and somebody else does not.
async fn say_everything(alice: &mut Socket, witness: &mut Socket) -> Result<(), Failure> {
    for first in (0..MESSAGES).step_by(WINDOW) {
        for number in first..first + WINDOW {
            alice.text(message(number)).await?;
        }
        for socket in [&mut *alice, &mut *witness] {
            for number in first..first + WINDOW {
                if next(socket).await? != message(number) {
                    return Err(format!("m{number} did not come next to one who reads"));
                }
            }
        }
    }
    Ok(())
}

async fn reads_on(engine: Engine) -> Result<(), Failure> {
    let gateway = Gateway::start(options(engine)?).await?;
    let mut bob = join(&gateway, "bob").await?;
    let mut witness = join(&gateway, "witness").await?;
    let mut alice = join(&gateway, "alice").await?;
    next(&mut witness).await?;
    say_everything(&mut alice, &mut witness).await?;
    // The joins of the others, then everything.
    next(&mut bob).await?;
    next(&mut bob).await?;
    for number in 0..MESSAGES {
        if next(&mut bob).await? != message(number) {
            return Err(format!("m{number} did not come next to the one who read late"));
        }
    }
    drop((alice, bob, witness));
    gateway.stop().await
}

async fn is_closed(engine: Engine) -> Result<(), Failure> {
    let gateway = Gateway::start(options(engine)?.set("write-deadline", "500")?.set("ping-interval", "250")?).await?;
    let mut bob = join(&gateway, "bob").await?;
    let mut witness = join(&gateway, "witness").await?;
    let mut alice = join(&gateway, "alice").await?;
    next(&mut witness).await?;
    say_everything(&mut alice, &mut witness).await?;
    let leave = next(&mut witness).await?;
    if !(leave.contains(r#""event":"leave""#) && leave.contains(r#""id":"bob""#)) {
        return Err(format!("expected that bob leaves, came {leave}"));
    }
    // What had been written before still comes, in order, and then the end.
    next(&mut bob).await?;
    next(&mut bob).await?;
    let mut came = 0;
    loop {
        match bob.next().await? {
            Event::Text(text) if text == message(came) => came += 1,
            Event::Broken | Event::Closed(4408, _) => break,
            other => return Err(format!("after {came} messages came {other:?}")),
        }
    }
    if came == 0 || came == MESSAGES {
        return Err(format!("{came} messages came before the end"));
    }
    let path = format!("/v0/ws?topic=room:alpha&after=m{}", came - 1);
    let call = Call::new("GET", path).bearer(&gateway.token(&Token::new("bob"))?);
    let connected = Socket::connect(gateway.address(), call).await?;
    let mut bob = connected.map_err(|answer| format!("bob was refused: {} {}", answer.status, answer.body))?;
    next(&mut bob).await?;
    for number in came..MESSAGES {
        if next(&mut bob).await? != message(number) {
            return Err(format!("m{number} did not come next to the one who resumed"));
        }
    }
    drop((alice, bob, witness));
    gateway.stop().await
}
