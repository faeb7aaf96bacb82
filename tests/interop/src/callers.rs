//! Many callers of one server over one pipe.

use salon_client::Peer;
use salon_testkit::{Failure, within};
use serde_json::json;
use tokio::task::JoinSet;

use crate::features::told;
use crate::origin::{Installed, Origin};
use crate::process;
use crate::stage::{GUEST, Stage, Way};

const CALLERS: u32 = 20;
const ROUNDS: u32 = 5;

/// Twenty callers make the same calls at the same time. Every one of them counts its requests from one and uses those numbers as
/// progress tokens, so all of them collide; what differs is what each asks for, and that must come back.
pub(crate) async fn twenty(installed: Installed) -> Result<(), Failure> {
    let stage = Stage::open(installed, Origin::Rmcp, Way::Join).await?;
    let mut rooms = Vec::new();
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let room = stage.enter(&format!("caller-{number}")).await?;
        callers.spawn(caller(number, stage.peer(&room, GUEST).await?));
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

async fn caller(number: u32, guest: Peer) -> Result<(), Failure> {
    // Different numbers of steps, so that progress that went astray is seen.
    let steps = 2 + number % 5;
    for round in 0..ROUNDS {
        let value = format!("caller {number}, round {round}");
        let echo = guest.call_tool("echo", &json!({ "value": value }));
        let mut slow = guest.call_tool("slow", &json!({ "ms": 20, "steps": steps })).start().await.map_err(told)?;
        let echoed = echo.await.map_err(told)?.text();
        if echoed != format!(r#"{{"value":"{value}"}}"#) {
            return Err(format!("{value} got {echoed}"));
        }
        let mut reports = Vec::new();
        while let Some(report) = slow.progress().await {
            reports.push((report.progress, report.total));
        }
        let expected: Vec<_> = (0..=steps).map(|step| (f64::from(step), Some(f64::from(steps)))).collect();
        if reports != expected {
            return Err(format!("{value} expected {steps} steps and got {reports:?}"));
        }
        let done = slow.result().await.map_err(told)?.text();
        if done != format!("{steps} steps in 20 ms") {
            return Err(format!("{value} with {steps} steps got `{done}`"));
        }
    }
    Ok(())
}
