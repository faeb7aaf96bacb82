//! Ten clients at once on one room, all of which count their requests from 1 and use the numbers as progress tokens too.

use std::sync::Arc;

use salon_testkit::{Failure, within};
use serde_json::Value;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::clients::Era;
use crate::door::At;
use crate::origin::{Installed, Origin};
use crate::stage::{GUEST, Stage, Way};
use crate::wire::Wire;

const CLIENTS: u64 = 10;
const ROUNDS: u64 = 5;

/// Which era each of them is of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Eras {
    Legacy,
    Modern,
    Mixed,
}

impl Eras {
    pub(crate) const ALL: [Self; 3] = [Self::Legacy, Self::Modern, Self::Mixed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
            Self::Mixed => "mixed",
        }
    }

    fn of(self, number: u64) -> Era {
        match self {
            Self::Legacy => Era::Legacy,
            Self::Modern => Era::Modern,
            Self::Mixed if number.is_multiple_of(2) => Era::Legacy,
            Self::Mixed => Era::Modern,
        }
    }
}

/// No answer and no report of progress goes astray, whether clients have participants of their own or share one.
pub(crate) async fn at_once(installed: Installed, eras: Eras) -> Result<(), Failure> {
    let stage = Stage::open(installed, Origin::Rmcp, Way::Hosted).await?;
    let witness = stage.enter("witness").await?;
    stage.peer(&witness, GUEST).await?;
    let outcome = async {
        let shared = stage.token("crowd").await?;
        let together = Arc::new(Barrier::new(CLIENTS as usize));
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let token = match number {
                0..5 => stage.token(&format!("client-{number}")).await?,
                _ => shared.clone(),
            };
            // Some of them know the room, some only the guest.
            let at = if number % 3 == 0 { At::Guest } else { At::Room };
            let wire = Wire::open(stage.socket()?, at.path(), token, eras.of(number)).await?;
            clients.spawn(Client { number, prefix: at.prefix(), wire }.play(together.clone()));
        }
        let all = async {
            while let Some(ended) = clients.join_next().await {
                ended.map_err(|e| e.to_string())??;
            }
            Ok(())
        };
        within("all clients", all).await?
    };
    let outcome: Result<(), Failure> = outcome.await;
    outcome.map_err(|told| format!("{told}\n{}", stage.output()))?;
    witness.leave().await;
    stage.close().await
}

struct Client {
    number: u64,
    prefix: String,
    wire: Wire,
}

impl Client {
    async fn play(self, together: Arc<Barrier>) -> Result<(), Failure> {
        for round in 0..ROUNDS {
            together.wait().await;
            let first = 1 + round * 3;
            // Two calls and a list of the same client are in flight at once too.
            tokio::try_join!(self.echo(first, round), self.slow(first + 1), self.list(first + 2))?;
        }
        self.wire.close().await
    }

    async fn call(&self, id: u64, tool: &str, arguments: &str) -> Result<(Vec<Value>, Value), Failure> {
        let name = format!("{}{tool}", self.prefix);
        let params = format!(r#""name":"{name}","arguments":{arguments}"#);
        let meta = format!(r#""progressToken":{id}"#);
        let came = self.wire.request(id, "tools/call", Some(&name), &params, &meta).await?;
        let mut came: Vec<Value> = came
            .iter()
            .map(|text| serde_json::from_str(text).map_err(|e| format!("{e}: {text}")))
            .collect::<Result<_, _>>()?;
        let answer = came.pop().unwrap_or_default();
        Ok((came, answer))
    }

    async fn echo(&self, id: u64, round: u64) -> Result<(), Failure> {
        let value = format!("client {}, round {round}", self.number);
        let (before, answer) = self.call(id, "echo", &format!(r#"{{"value":"{value}"}}"#)).await?;
        if !before.is_empty() || answer["result"]["structuredContent"]["value"] != *value {
            return Err(format!("{value} got {answer} after {before:?}"));
        }
        Ok(())
    }

    /// A number of steps that differs from the others', so that progress that went astray is seen. A guest with much to say may leave out
    /// what later progress says too.
    async fn slow(&self, id: u64) -> Result<(), Failure> {
        let steps = 2 + self.number;
        let (before, answer) = self.call(id, "slow", &format!(r#"{{"ms":20,"steps":{steps}}}"#)).await?;
        let mut reports = Vec::new();
        for one in &before {
            let params = &one["params"];
            if params["progressToken"] != id || params["total"].as_f64() != Some(steps as f64) {
                return Err(format!("client {} was told of another's call: {one}", self.number));
            }
            reports.extend(params["progress"].as_f64());
        }
        let whole = reports.last() == Some(&(steps as f64));
        let text = format!("{steps} steps in 20 ms");
        if answer["result"]["content"][0]["text"] != *text || !whole || !reports.is_sorted_by(|one, next| one < next) {
            return Err(format!("client {} wanted {steps} steps and got {answer} after {before:?}", self.number));
        }
        Ok(())
    }

    async fn list(&self, id: u64) -> Result<(), Failure> {
        let came = self.wire.request(id, "tools/list", None, "", "").await?;
        let wanted = format!(r#""name":"{}echo""#, self.prefix);
        match came.as_slice() {
            [list] if list.contains(&wanted) => Ok(()),
            _ => Err(format!("client {} was given this list: {came:?}", self.number)),
        }
    }
}
