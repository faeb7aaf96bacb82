//! The robot: it walks a grid, its battery runs down, and it says so.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use salon_protocol::EnvelopeId;
use serde_json::{Value, json};

use super::client::{Overheard, RpcError, Seat, Voice};
use super::toolbox::{Done, Progress, Toolbox, invalid_params, offer, tool};
use super::{CALC, COORDINATOR, Spot};

/// What a step costs, in percent of the battery.
pub(crate) const STEP_COST: u32 = 5;
/// Below this the rover asks to be charged.
const LOW: u32 = 20;
/// How far from the middle it may go.
const EDGE: i64 = 9;
/// How many steps charging has.
const CHARGING_STEPS: u32 = 4;

#[derive(Clone)]
pub(crate) struct Rover {
    body: Arc<Mutex<Body>>,
    /// Held while it moves or charges: it does one thing at a time.
    busy: Arc<tokio::sync::Mutex<()>>,
    voice: Voice,
    /// How long a step takes.
    step: Duration,
}

#[derive(Clone, Copy)]
struct Body {
    at: Spot,
    battery: u32,
}

/// Lives in the room until its task is dropped.
pub(crate) async fn live(seat: Seat, step: Duration) {
    let Seat { voice, requests, mut overheard, present: _ } = seat;
    let body = Body { at: Spot { x: 0, y: 0 }, battery: 40 };
    let rover = Rover { body: Arc::new(Mutex::new(body)), busy: Arc::default(), voice: voice.clone(), step };
    let listening = async {
        while let Some(heard) = overheard.recv().await {
            if let Overheard::Said { id, from, text } = heard
                && ![COORDINATOR, CALC].contains(&from.as_str())
                && text.trim_start().to_lowercase().starts_with("rover")
            {
                rover.reply(&id).await;
            }
        }
    };
    tokio::join!(offer(rover.clone(), voice, requests), listening);
}

impl Rover {
    fn body(&self) -> MutexGuard<'_, Body> {
        self.body.lock().expect("no code panics while it holds the body")
    }

    async fn reply(&self, to: &EnvelopeId) {
        let Body { at, battery } = *self.body();
        self.voice
            .say(&format!("I am at {at}, battery {battery} %. The coordinator plans where I go."), Some(to))
            .await;
    }

    async fn walk(&self, goal: Spot, progress: &Progress) -> Done {
        let Ok(_busy) = self.busy.try_lock() else { return Done::badly("busy with something else") };
        let Body { at, battery } = *self.body();
        let steps = at.steps_to(goal);
        if steps * STEP_COST > battery {
            return Done::badly(format!("{goal} needs {} % and the battery has {battery} %", steps * STEP_COST));
        }
        for walked in 1..=steps {
            tokio::time::sleep(self.step).await;
            let at = {
                let mut body = self.body();
                body.at = body.at.step_towards(goal);
                body.battery -= STEP_COST;
                body.at
            };
            progress.report(walked, steps, &format!("at {at}")).await;
        }
        let Body { at, battery } = *self.body();
        // Said before the answer, so that whoever hears the answer has heard this.
        if steps > 0 && battery < LOW {
            self.voice.say(&format!("Battery at {battery} %. Could somebody charge me?"), None).await;
        }
        Done::well(format!("arrived at {at}"), json!({ "x": at.x, "y": at.y, "battery": battery }))
    }

    async fn charge(&self, progress: &Progress) -> Done {
        let Ok(_busy) = self.busy.try_lock() else { return Done::badly("busy with something else") };
        for step in 1..=CHARGING_STEPS {
            tokio::time::sleep(self.step).await;
            let battery = {
                let mut body = self.body();
                body.battery += (100 - body.battery) / (CHARGING_STEPS + 1 - step);
                body.battery
            };
            progress.report(step, CHARGING_STEPS, &format!("{battery} %")).await;
        }
        let battery = self.body().battery;
        Done::well(format!("battery at {battery} %"), json!({ "battery": battery }))
    }
}

impl Toolbox for Rover {
    const NAME: &'static str = "Rover";

    fn tools(&self) -> Value {
        let axis = json!({ "type": "integer", "minimum": -EDGE, "maximum": EDGE });
        json!([
            tool("move", "Walks to a spot on the grid", json!({ "x": axis, "y": axis })),
            tool("position", "Where it is", json!({})),
            tool("battery", "How much is left, in percent", json!({})),
            tool("charge", "Fills the battery", json!({})),
        ])
    }

    async fn call(&self, tool: &str, arguments: &Value, progress: &Progress) -> Result<Done, RpcError> {
        let Body { at, battery } = *self.body();
        match tool {
            "position" => Ok(Done::well(format!("at {at}"), json!({ "x": at.x, "y": at.y }))),
            "battery" => Ok(Done::well(format!("{battery} %"), json!({ "battery": battery }))),
            "charge" => Ok(self.charge(progress).await),
            "move" => {
                let goal = Spot::read(arguments).filter(|goal| goal.x.abs() <= EDGE && goal.y.abs() <= EDGE);
                let goal = goal.ok_or_else(|| {
                    invalid_params(format!("`x` and `y` must be whole numbers from -{EDGE} to {EDGE}"))
                })?;
                Ok(self.walk(goal, progress).await)
            }
            other => Err(invalid_params(format!("no tool `{other}` here"))),
        }
    }
}
