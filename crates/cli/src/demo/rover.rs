//! The robot: it walks a grid, its battery runs down, and it says so.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use salon_client::mcp::ToolResult;
use salon_client::{Events, Room, ToolCall, ToolError, Toolbox};
use serde_json::json;

use super::hearing::{self, DemoEvent};
use super::{CALC, COORDINATOR, Spot, done, schema};

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
    body: Arc<Mutex<RoverBody>>,
    /// Held while it moves or charges: it does one thing at a time.
    busy: Arc<tokio::sync::Mutex<()>>,
    /// How long a step takes.
    step: Duration,
}

#[derive(Clone, Copy)]
struct RoverBody {
    at: Spot,
    battery: u32,
}

impl Rover {
    /// A rover in the middle of the grid, whose steps take so long.
    pub(crate) fn new(step: Duration) -> Self {
        let body = RoverBody { at: Spot { x: 0, y: 0 }, battery: 40 };
        Self { body: Arc::new(Mutex::new(body)), busy: Arc::default(), step }
    }

    /// Lives in the room until it leaves.
    pub(crate) async fn live(self, room: Room, mut events: Events) {
        while let Some(heard) = hearing::next(&mut events, room.id()).await {
            if let DemoEvent::Message { id, from, text } = heard
                && ![COORDINATOR, CALC].contains(&from.as_str())
                && text.trim_start().to_lowercase().starts_with("rover")
            {
                let RoverBody { at, battery } = *self.body();
                let said = format!("I am at {at}, battery {battery} %. The coordinator plans where I go.");
                // Publishing fails only when the stay ends, and that ends this too.
                let _ = room.reply(&id, &said).await;
            }
        }
    }

    fn body(&self) -> MutexGuard<'_, RoverBody> {
        self.body.lock()
    }

    async fn walk(&self, goal: Spot, call: &ToolCall) -> Result<ToolResult, ToolError> {
        if goal.x.abs() > EDGE || goal.y.abs() > EDGE {
            return Err(ToolError::invalid(format!("`x` and `y` must be whole numbers from -{EDGE} to {EDGE}")));
        }
        let _busy = self.busy.try_lock().map_err(|_| ToolError::failed("busy with something else"))?;
        let RoverBody { at, battery } = *self.body();
        let steps = at.steps_to(goal);
        if steps * STEP_COST > battery {
            let why = format!("{goal} needs {} % and the battery has {battery} %", steps * STEP_COST);
            return Err(ToolError::failed(why));
        }
        for walked in 1..=steps {
            tokio::time::sleep(self.step).await;
            let at = {
                let mut body = self.body();
                body.at = body.at.step_towards(goal);
                body.battery -= STEP_COST;
                body.at
            };
            call.progress(walked.into(), Some(steps.into()), Some(&format!("at {at}"))).await;
        }
        let RoverBody { at, battery } = *self.body();
        // Published before the answer, so that a participant that reads the answer has read this.
        if steps > 0 && battery < LOW {
            call.room().say(&format!("Battery at {battery} %. Could somebody charge me?")).await?;
        }
        done(format!("arrived at {at}"), &json!({ "x": at.x, "y": at.y, "battery": battery }))
    }

    async fn charge(&self, call: &ToolCall) -> Result<ToolResult, ToolError> {
        let _busy = self.busy.try_lock().map_err(|_| ToolError::failed("busy with something else"))?;
        for step in 1..=CHARGING_STEPS {
            tokio::time::sleep(self.step).await;
            let battery = {
                let mut body = self.body();
                body.battery += (100 - body.battery) / (CHARGING_STEPS + 1 - step);
                body.battery
            };
            call.progress(step.into(), Some(CHARGING_STEPS.into()), Some(&format!("{battery} %"))).await;
        }
        let battery = self.body().battery;
        done(format!("battery at {battery} %"), &json!({ "battery": battery }))
    }

    /// What it can do for others.
    pub(crate) fn tools(&self) -> Toolbox {
        let axis = json!({ "type": "integer", "minimum": -EDGE, "maximum": EDGE });
        let spot = schema(json!({ "x": axis, "y": axis }));
        let nothing = schema(json!({}));
        let [walking, standing, measured, charged] = std::array::from_fn(|_| self.clone());
        Toolbox::new("Rover")
            .tool("move", "Walks to a spot on the grid", spot, move |call| {
                let rover = walking.clone();
                async move { rover.walk(call.arguments()?, &call).await }
            })
            .tool("position", "Where it is", nothing.clone(), move |_| {
                let at = standing.body().at;
                async move { done(format!("at {at}"), &json!({ "x": at.x, "y": at.y })) }
            })
            .tool("battery", "How much is left, in percent", nothing.clone(), move |_| {
                let battery = measured.body().battery;
                async move { done(format!("{battery} %"), &json!({ "battery": battery })) }
            })
            .tool("charge", "Fills the battery", nothing, move |call| {
                let rover = charged.clone();
                async move { rover.charge(&call).await }
            })
    }
}
