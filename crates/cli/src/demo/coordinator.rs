//! The agent that plans: it performs the MCP handshake with everybody, sends the rover from spot to spot, and answers participants that speak to it.

use std::time::Duration;

use salon_client::{CallError, Events, Room, Toolbox};
use salon_protocol::{EnvelopeId, ParticipantId};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::calc::expression_in;
use super::hearing::{self, DemoEvent};
use super::rover::STEP_COST;
use super::{CALC, CAST, DemoPace, ROVER, Spot, done, schema};

/// Where the rover is sent, over and over.
const TOUR: [Spot; 5] =
    [Spot { x: 3, y: 2 }, Spot { x: 1, y: -2 }, Spot { x: -3, y: 0 }, Spot { x: 0, y: 4 }, Spot { x: 0, y: 0 }];

/// What others can ask the coordinator: how far it has come.
pub(crate) fn tools(sent: watch::Receiver<usize>) -> Toolbox {
    let about = "Where the rover goes next, and how often it has been sent";
    Toolbox::new("Coordinator").tool("plan", about, schema(json!({})), move |_| {
        let sent = *sent.borrow();
        let next = TOUR[sent % TOUR.len()];
        let plan = json!({ "sent": sent, "next": { "x": next.x, "y": next.y } });
        async move { done(format!("sent {sent} times, next to {next}"), &plan) }
    })
}

struct Coordinator {
    room: Room,
    events: Events,
    sent: watch::Sender<usize>,
    pace: DemoPace,
    rover: ParticipantId,
    calc: ParticipantId,
}

/// Lives in the room: for one round, or until it leaves.
pub(crate) async fn live(
    room: Room,
    events: Events,
    sent: watch::Sender<usize>,
    pace: DemoPace,
    once: bool,
) -> anyhow::Result<()> {
    let named = |id: &str| ParticipantId::new(id).expect("the cast has good names");
    let mut present: Vec<_> = room.roster().into_iter().map(|participant| participant.id).collect();
    present.retain(|id| id != room.id());
    present.sort();
    let mut coordinator = Coordinator { room, events, sent, pace, rover: named(ROVER), calc: named(CALC) };
    for peer in &present {
        coordinator.meet(peer).await?;
    }
    loop {
        coordinator.round().await?;
        coordinator.breathe(pace.between_rounds).await;
        if once {
            return Ok(());
        }
    }
}

impl Coordinator {
    /// The MCP handshake, and what the other can do.
    async fn meet(&mut self, peer: &ParticipantId) -> Result<(), CallError> {
        self.room.peer(peer).tools().await?;
        self.breathe(self.pace.between_lines).await;
        Ok(())
    }

    /// One tool call. What the tool says of a failure is not an error of ours.
    async fn use_tool(&self, peer: &ParticipantId, name: &str, arguments: Value) -> Result<ToolOutcome, CallError> {
        match self.room.peer(peer).call_tool(name, &arguments).await {
            Ok(result) => Ok(ToolOutcome {
                worked: !result.is_error,
                text: result.text(),
                data: result.structured.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default(),
            }),
            Err(CallError::Answered(error)) => {
                Ok(ToolOutcome { worked: false, text: error.message, data: Value::Null })
            }
            Err(other) => Err(other),
        }
    }

    /// Publishes a chat message. That fails only when the stay ends, which the next call reports.
    async fn say(&self, text: &str, reply_to: Option<&EnvelopeId>) {
        let _ = match reply_to {
            Some(id) => self.room.reply(id, text).await,
            None => self.room.say(text).await,
        };
    }

    async fn round(&mut self) -> Result<(), CallError> {
        let goal = TOUR[*self.sent.borrow() % TOUR.len()];
        self.say(&format!("Rover, your next stop is {goal}."), None).await;
        self.breathe(self.pace.between_lines).await;
        self.send_to(goal).await?;
        self.sent.send_modify(|sent| *sent += 1);
        Ok(())
    }

    /// Sends the rover somewhere, after making sure it can get there.
    async fn send_to(&mut self, goal: Spot) -> Result<ToolOutcome, CallError> {
        let (rover, calc) = (self.rover.clone(), self.calc.clone());
        let at = self.use_tool(&rover, "position", json!({})).await?;
        let way = json!({ "from": at.data, "to": { "x": goal.x, "y": goal.y } });
        let steps = self.use_tool(&calc, "distance", way).await?.data["steps"].as_u64().unwrap_or_default();
        let battery = self.use_tool(&rover, "battery", json!({})).await?.data["battery"].as_u64().unwrap_or_default();
        let needed = steps * u64::from(STEP_COST);
        if battery < needed {
            self.say(&format!("That takes {needed} % and there are {battery} %: charge first."), None).await;
            self.use_tool(&rover, "charge", json!({})).await?;
        }
        self.use_tool(&rover, "move", json!({ "x": goal.x, "y": goal.y })).await
    }

    /// Pauses, and meanwhile deals with what is overheard.
    async fn breathe(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        loop {
            let heard = tokio::select! { biased;
                heard = hearing::next(&mut self.events, self.room.id()) => heard,
                () = sleep_until(until) => None,
            };
            let Some(heard) = heard else { return };
            // The callee may just have left; the room goes on.
            let _ = self.react(heard).await;
        }
    }

    async fn react(&mut self, heard: DemoEvent) -> Result<(), CallError> {
        match heard {
            DemoEvent::Joined { id, name } if !CAST.contains(&id.as_str()) => {
                let name = name.unwrap_or_else(|| id.to_string());
                let welcome = format!("Welcome, {name}! Say `coordinator, go to 2 3` and I send the rover.");
                let _ = self.room.say_markdown(&welcome).await;
            }
            DemoEvent::Message { id, from, text } if from.as_str() == ROVER && text.contains("charge") => {
                self.say("I see to it, rover.", Some(&id)).await;
                let rover = self.rover.clone();
                self.use_tool(&rover, "charge", json!({})).await?;
            }
            DemoEvent::Message { id, from, text }
                if ![ROVER, CALC].contains(&from.as_str()) && text.to_lowercase().contains("coordinator") =>
            {
                let reply = self.consider(&text, &id).await?;
                self.say(&reply, Some(&id)).await;
            }
            _ => {}
        }
        Ok(())
    }

    /// The request in a message, as far as an agent without a language model can read it.
    async fn consider(&mut self, text: &str, line: &EnvelopeId) -> Result<String, CallError> {
        let (rover, calc) = (self.rover.clone(), self.calc.clone());
        Ok(match CoordinatorRequest::read(text) {
            CoordinatorRequest::Go(goal) => {
                self.say(&format!("On its way to {goal}."), Some(line)).await;
                let outcome = self.send_to(goal).await?;
                if outcome.worked {
                    format!("Done: {}.", outcome.text)
                } else {
                    format!("It did not work: {}.", outcome.text)
                }
            }
            CoordinatorRequest::Compute(expression) => {
                let outcome = self.use_tool(&calc, "evaluate", json!({ "expression": expression })).await?;
                if outcome.worked {
                    format!("Calc says {}.", outcome.text)
                } else {
                    format!("Calc says no: {}.", outcome.text)
                }
            }
            CoordinatorRequest::Status => {
                let at = self.use_tool(&rover, "position", json!({})).await?.text;
                let battery = self.use_tool(&rover, "battery", json!({})).await?.text;
                format!("Rover is {at}, battery {battery}.")
            }
            CoordinatorRequest::Unclear => {
                "Hello! Ask me `where is rover`, `what is 6 * 7`, or say `go to 2 3`.".into()
            }
        })
    }
}

struct ToolOutcome {
    worked: bool,
    text: String,
    data: Value,
}

/// A request to the coordinator.
#[derive(Debug, PartialEq)]
enum CoordinatorRequest<'a> {
    Go(Spot),
    Compute(&'a str),
    Status,
    Unclear,
}

impl<'a> CoordinatorRequest<'a> {
    fn read(text: &'a str) -> Self {
        let lower = text.to_lowercase();
        let has = |words: &[&str]| lower.split(|c: char| !c.is_alphanumeric()).any(|word| words.contains(&word));
        if has(&["go", "move", "send", "drive", "walk"]) {
            let numbers = lower.split(|c: char| !c.is_ascii_digit() && c != '-').filter_map(|part| part.parse().ok());
            if let [x, y] = numbers.collect::<Vec<i64>>()[..] {
                return Self::Go(Spot { x, y });
            }
        }
        match expression_in(text) {
            Some(expression) => Self::Compute(expression),
            None if has(&["where", "position", "battery", "rover", "status"]) => Self::Status,
            None => Self::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read_from_what_people_say() {
        assert_eq!(
            CoordinatorRequest::read("Coordinator, go to (2, -3)!"),
            CoordinatorRequest::Go(Spot { x: 2, y: -3 })
        );
        assert_eq!(
            CoordinatorRequest::read("coordinator: send it to 4 4"),
            CoordinatorRequest::Go(Spot { x: 4, y: 4 })
        );
        assert_eq!(CoordinatorRequest::read("coordinator, what is 6 * 7?"), CoordinatorRequest::Compute("6 * 7"));
        assert_eq!(CoordinatorRequest::read("where is the rover, coordinator?"), CoordinatorRequest::Status);
        assert_eq!(CoordinatorRequest::read("go on, coordinator"), CoordinatorRequest::Unclear);
        assert_eq!(CoordinatorRequest::read("go to 99999999999999999999 1, coordinator"), CoordinatorRequest::Unclear);
    }
}
