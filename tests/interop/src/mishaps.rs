//! What happens when somebody dies: a server in the middle of a call, the gateway in the middle of a conversation, the owner of a guest.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use salon_client::protocol::{CHAT_METHOD, Envelope, Message};
use salon_client::{Event, HistoryQuery, Peer, Room};
use salon_testkit::{DEADLINE, Failure, within};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::features::{contains, told};
use crate::origin::{Installed, Origin};
use crate::process::{self, Process, Signal};
use crate::stage::{GUEST, Stage, Way};

/// A server is killed while it works on a call: the caller hears at once, the server is started again, and the next call works.
pub(crate) async fn killed_guest(stage: &Stage, guest: &Peer, origin: Origin) -> Result<(), Failure> {
    let known = origin.known();

    let (tool, arguments) = &known.long;
    let mut call = guest.call_tool(*tool, arguments).start().await.map_err(told)?;
    within("the call to run", call.progress()).await?.ok_or("the call ended before it ran")?;
    let owner = stage.guests.last().and_then(Process::id).ok_or("`salon join` has ended")?;
    let servers = process::below(owner, origin.mark())?;
    // One that has gone because another was killed is as dead.
    if servers.iter().filter(|server| process::signal(**server, Signal::KILL).is_ok()).count() == 0 {
        return Err(format!("none of {servers:?} could be killed"));
    }
    // The call would go on for a minute, and the caller would wait as long without a word.
    let outcome = within("the caller to hear of it", call.result()).await?;
    if let Ok(result) = outcome {
        return Err(format!("{servers:?} were killed, and yet the call was answered: {result:?}"));
    }
    within("the guest to work again", again(guest.room(), guest, origin)).await?
}

/// Calls until a call works. Between two attempts something happened in the room.
async fn again(room: &Room, guest: &Peer, origin: Origin) -> Result<(), Failure> {
    let (tool, arguments, expected) = origin.known().echo;
    let mut events = room.events();
    loop {
        match guest.call_tool(tool, &arguments).await {
            Ok(result) => return contains(&result.text(), expected),
            Err(_) => drop(events.next().await.ok_or("the room ended")?),
        }
    }
}

/// How many lines are said, and after which of them the gateway is killed.
const LINES: usize = 60;
const KILLS: [usize; 3] = [10, 25, 45];

/// The gateway is killed and started again while one says lines, one listens, and one waits for the answer to a call: nothing is lost,
/// nothing comes twice, and the answer comes.
pub(crate) async fn killed_gateway(installed: Installed) -> Result<(), Failure> {
    let mut stage = Stage::open(installed, Origin::Rmcp, Way::Join).await?;
    let ada = stage.enter("ada").await?;
    let guest = stage.peer(&ada, GUEST).await?;
    let mut events = ada.events();
    let bob = stage.enter("bob").await?;
    let carol = stage.enter("carol").await?;
    let slow = stage.peer(&carol, GUEST).await?.call_tool("slow", &json!({ "ms": 1500, "steps": 3 }));
    let mut slow = slow.start().await.map_err(told)?;
    within("the call to run", slow.progress()).await?.ok_or("the call ended before it ran")?;

    let speaker = tokio::spawn(async move {
        for number in 0..LINES {
            bob.say(&line(number)).await.map_err(|e| format!("line {number}: {e}"))?;
        }
        Ok::<Room, Failure>(bob)
    });
    let mut heard = Vec::new();
    while heard.len() < LINES {
        let event =
            within("the next line", events.next()).await.map_err(|told| format!("{told}\n{}", stage.output()))?;
        let Event::Envelope(envelope) = event.ok_or("the room ended")? else {
            return Err("a part of the conversation was lost".into());
        };
        if let Some(text) = chat(&envelope) {
            heard.push(text);
            if KILLS.contains(&heard.len()) {
                stage.kill_gateway().await?;
            }
        }
    }
    let expected: Vec<String> = (0..LINES).map(line).collect();
    if heard != expected {
        return Err(format!("the lines came as {heard:?}"));
    }
    let bob = within("the speaker to end", speaker).await?.map_err(|e| e.to_string())??;

    let query = HistoryQuery::new().limit(1000);
    let history = ada.history(&query).await.map_err(|e| e.to_string())?;
    let kept: Vec<String> = history.envelopes.iter().rev().filter_map(chat).collect();
    if kept != expected {
        return Err(format!("history has the lines as {kept:?}"));
    }
    let answer = within("the answer to the call", slow.result()).await?.map_err(told)?;
    contains(&answer.text(), "3 steps in 1500 ms")?;
    within("the guest to work again", again(&ada, &guest, Origin::Rmcp)).await??;
    for room in [ada, bob, carol] {
        room.leave().await;
    }
    stage.close().await
}

fn line(number: usize) -> String {
    format!("line {number}")
}

/// The text of a chat message.
fn chat(envelope: &Envelope) -> Option<String> {
    let Some(Message::Notification { method }) = envelope.message() else { return None };
    let params: Value = serde_json::from_str(envelope.params()?).ok()?;
    (&**method == CHAT_METHOD).then(|| params["text"].as_str().map(str::to_owned))?
}

/// The owner of a guest ends, killed or not, be it `salon join` or the gateway: the server goes too, although it would go on. All cases at
/// once, because a server that does not end by itself is given time before it is killed.
pub(crate) async fn ended_owner(installed: Installed) -> Result<(), Failure> {
    let mut cases = JoinSet::new();
    for (way, killed) in [(Way::Join, true), (Way::Hosted, true), (Way::Join, false), (Way::Hosted, false)] {
        let case = format!("{}, {}", way.name(), if killed { "killed" } else { "stopped" });
        let ended = owner_ends(installed.clone(), way, killed);
        cases.spawn(async move { ended.await.map_err(|told| format!("{case}: {told}")) });
    }
    let failures: Vec<Failure> = cases.join_all().await.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

async fn owner_ends(installed: Installed, way: Way, killed: bool) -> Result<(), Failure> {
    let mut stage = Stage::open(installed, Origin::RmcpStubborn, way).await?;
    let ada = stage.enter("ada").await?;
    let guest = stage.peer(&ada, GUEST).await?;
    within("the guest to work", again(&ada, &guest, Origin::RmcpStubborn)).await??;
    ada.leave().await;
    let owner = stage.guests.last_mut().unwrap_or(&mut stage.gateway);
    let id = owner.id().ok_or("the owner has ended")?;
    let servers = process::below(id, Origin::RmcpStubborn.mark())?;
    if servers.is_empty() {
        return Err("no server runs".into());
    }
    if killed {
        owner.kill().await?;
    } else {
        stage.close().await?;
    }
    for server in servers {
        gone(server).await?;
    }
    Ok(())
}

/// Waits until a process that is nobody's child here has ended.
async fn gone(id: u32) -> Result<(), Failure> {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or("a process has no such id")?;
    let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(()) };
    let limit = Timespec::try_from(DEADLINE).map_err(|e| e.to_string())?;
    let waiting = move || poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&limit));
    match tokio::task::spawn_blocking(waiting).await.map_err(|e| e.to_string())? {
        Ok(0) => {
            process::signal(id, Signal::KILL)?;
            Err(format!("process {id} was still there"))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
