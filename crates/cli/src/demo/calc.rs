//! The agent that computes: arithmetic, and ways across the grid.

use serde_json::{Value, json};

use super::arithmetic::evaluate;
use super::client::{Overheard, RpcError, Seat};
use super::toolbox::{Done, Progress, Toolbox, invalid_params, offer, tool};
use super::{COORDINATOR, ROVER, Spot};

#[derive(Clone)]
pub(crate) struct Calc;

/// Lives in the room until its task is dropped.
pub(crate) async fn live(seat: Seat) {
    let Seat { voice, requests, mut overheard, present: _ } = seat;
    let listening = async {
        while let Some(heard) = overheard.recv().await {
            if let Overheard::Said { id, from, text } = heard
                && ![COORDINATOR, ROVER].contains(&from.as_str())
                && let Some(question) = text.trim_start().to_lowercase().strip_prefix("calc")
            {
                let said = match expression_in(question).map(|expression| (expression, evaluate(expression))) {
                    None => "Give me something to compute, such as `calc 6 * 7`.".to_owned(),
                    Some((expression, Ok(value))) => format!("{expression} = {value}"),
                    Some((expression, Err(why))) => format!("I cannot compute {expression}: {why}."),
                };
                voice.say(&said, Some(&id)).await;
            }
        }
    };
    tokio::join!(offer(Calc, voice.clone(), requests), listening);
}

/// The first thing in a text that looks like arithmetic.
pub(crate) fn expression_in(text: &str) -> Option<&str> {
    let part_of_one = |c: char| c.is_ascii_digit() || " +-*/().".contains(c);
    let mut candidates = text.split(|c| !part_of_one(c)).map(|part| part.trim_matches([' ', '.']));
    candidates.find(|part| {
        part.contains(|c: char| c.is_ascii_digit()) && part.trim_start_matches('-').contains(['+', '-', '*', '/'])
    })
}

impl Toolbox for Calc {
    const NAME: &'static str = "Calc";

    fn tools(&self) -> Value {
        let axes = json!({ "x": { "type": "integer" }, "y": { "type": "integer" } });
        let spot = json!({ "type": "object", "properties": axes, "required": ["x", "y"] });
        json!([
            tool("evaluate", "Computes + - * / and parentheses", json!({ "expression": { "type": "string" } })),
            tool("distance", "Steps between two spots of the grid", json!({ "from": spot, "to": spot })),
        ])
    }

    async fn call(&self, tool: &str, arguments: &Value, _: &Progress) -> Result<Done, RpcError> {
        match tool {
            "evaluate" => {
                let expression = arguments["expression"].as_str();
                let expression = expression.ok_or_else(|| invalid_params("`expression` must be a string"))?;
                Ok(match evaluate(expression) {
                    Ok(value) => Done::well(value.to_string(), json!({ "value": value })),
                    Err(why) => Done::badly(why),
                })
            }
            "distance" => {
                let spot = |name: &str| {
                    Spot::read(&arguments[name])
                        .ok_or_else(|| invalid_params(format!("`{name}` must have whole numbers `x` and `y`")))
                };
                let steps = spot("from")?.steps_to(spot("to")?);
                Ok(Done::well(format!("{steps} steps"), json!({ "steps": steps })))
            }
            other => Err(invalid_params(format!("no tool `{other}` here"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_found_in_what_people_say() {
        assert_eq!(expression_in("coordinator, what is 6 * (3 + 4)?"), Some("6 * (3 + 4)"));
        assert_eq!(expression_in("on 5 May: 1+1."), Some("1+1"));
        assert_eq!(expression_in("well-known nonsense at 5 - really"), Some("5 -"));
        assert_eq!(expression_in("go to 2 3"), None);
        assert_eq!(expression_in("go to -2"), None);
    }
}
