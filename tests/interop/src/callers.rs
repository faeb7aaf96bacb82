//! Many callers of one server over one pipe.

use std::sync::Arc;

use salon_client::protocol::{Message, ParticipantId};
use salon_client::{Event, Events, Outgoing, Room};
use salon_testkit::{Failure, within};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::origin::{Installed, Origin};
use crate::process;
use crate::stage::{GUEST, Stage, Way};

const CALLERS: u32 = 20;
const ROUNDS: u32 = 5;

/// Twenty callers make the same calls at the same time, every one of them under the id 1 and with the progress token 1; what differs
/// is what each asks for, and that must come back. Their envelopes are written by hand: the library would choose ids that differ.
pub(crate) async fn twenty(installed: Installed) -> Result<(), Failure> {
    let stage = Stage::open(installed, Origin::Rmcp, Way::Join).await?;
    let mut rooms = Vec::new();
    let mut callers = JoinSet::new();
    let together = Arc::new(Barrier::new(CALLERS as usize));
    for number in 0..CALLERS {
        let room = stage.enter(&format!("caller-{number}")).await?;
        let guest = stage.peer(&room, GUEST).await?.id().clone();
        let caller = Caller { number, guest, events: room.events(), room: room.clone() };
        callers.spawn(caller.play(together.clone()));
        rooms.push(room);
    }
    let all = async {
        while let Some(ended) = callers.join_next().await {
            ended.map_err(|e| e.to_string())??;
        }
        Ok(())
    };
    let outcome: Result<(), Failure> = within("all callers", all).await.and_then(|outcome| outcome);
    outcome.map_err(|told| format!("{told}\n{}", stage.output()))?;

    // All of this was one process, or it would show nothing.
    let owner = stage.guests.last().and_then(process::Process::id).ok_or("`salon join` has ended")?;
    let servers = process::below(owner, Origin::Rmcp.mark())?;
    if servers.len() != 1 {
        return Err(format!("{} servers run where one was shared", servers.len()));
    }
    for room in rooms {
        room.leave().await;
    }
    stage.close().await
}

struct Caller {
    number: u32,
    guest: ParticipantId,
    room: Room,
    events: Events,
}

impl Caller {
    async fn play(mut self, together: Arc<Barrier>) -> Result<(), Failure> {
        // Different numbers of steps, so that progress that went astray is seen.
        let steps = 2 + self.number % 5;
        for round in 0..ROUNDS {
            together.wait().await;
            let value = format!("caller {}, round {round}", self.number);
            let (echoed, reports) = self.call("echo", json!({ "value": value })).await?;
            if echoed != format!(r#"{{"value":"{value}"}}"#) || !reports.is_empty() {
                return Err(format!("{value} got {echoed} after {reports:?}"));
            }
            let (done, reports) = self.call("slow", json!({ "ms": 20, "steps": steps })).await?;
            // A guest with much to say may leave out what later progress says too; the last of it always comes.
            let last = f64::from(steps);
            let own = reports.iter().all(|&(_, total)| total == last);
            let rising = reports.is_sorted_by(|(one, _), (next, _)| one < next);
            let whole = own && rising && reports.last() == Some(&(last, last));
            if done != format!("{steps} steps in 20 ms") || !whole {
                return Err(format!("{value} asked for {steps} steps and got `{done}` after {reports:?}"));
            }
        }
        Ok(())
    }

    /// Calls a tool. Its text, and the progress that was told until then.
    async fn call(&mut self, tool: &str, arguments: Value) -> Result<(String, Vec<(f64, f64)>), Failure> {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": 1 } });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let payload = to_raw_value(&message).map_err(|e| e.to_string())?;
        let outgoing = Outgoing::new(payload).to([self.guest.clone()]);
        let asked = self.room.publish(outgoing).await.map_err(|e| e.to_string())?;
        let mut reports = Vec::new();
        while let Some(event) = self.events.next().await {
            let Event::Envelope(envelope) = event else { return Err("something was missed".into()) };
            if *envelope.from() != self.guest || !envelope.to().contains(self.room.id()) {
                continue;
            }
            let payload = envelope.payload();
            if envelope.correlation() != Some(asked.id()) {
                return Err(format!("caller {} was told of another's call: {payload}", self.number));
            }
            let said: Value = serde_json::from_str(payload).map_err(|e| e.to_string())?;
            match envelope.message() {
                Some(Message::Notification { .. }) if said["params"]["progressToken"] == 1 => {
                    let number = |key: &str| said["params"][key].as_f64().ok_or_else(|| format!("no `{key}`: {said}"));
                    reports.push((number("progress")?, number("total")?));
                }
                Some(Message::Response { .. }) if said["id"] == 1 => {
                    let text = said["result"]["content"][0]["text"].as_str();
                    let text = text.ok_or_else(|| format!("caller {} got {said}", self.number))?;
                    return Ok((text.to_owned(), reports));
                }
                _ => return Err(format!("caller {} was told {said}", self.number)),
            }
        }
        Err(format!("the room ended before caller {} was answered", self.number))
    }
}
