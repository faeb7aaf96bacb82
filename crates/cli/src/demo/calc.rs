//! The agent that computes: arithmetic, and ways across the grid.

use salon_client::{Events, Room, ToolError, Toolbox};
use serde::Deserialize;
use serde_json::json;

use super::arithmetic::evaluate;
use super::hearing::{self, DemoEvent};
use super::{COORDINATOR, ROVER, Spot, done, schema};

/// Lives in the room until it leaves.
pub(crate) async fn live(room: Room, mut events: Events) {
    while let Some(heard) = hearing::next(&mut events, room.id()).await {
        if let DemoEvent::Message { id, from, text } = heard
            && ![COORDINATOR, ROVER].contains(&from.as_str())
            && let Some(question) = text.trim_start().to_lowercase().strip_prefix("calc")
        {
            let said = match expression_in(question).map(|expression| (expression, evaluate(expression))) {
                None => "Give me something to compute, such as `calc 6 * 7`.".to_owned(),
                Some((expression, Ok(value))) => format!("{expression} = {value}"),
                Some((expression, Err(why))) => format!("I cannot compute {expression}: {why}."),
            };
            // Publishing fails only when the stay ends, and that ends this too.
            let _ = room.reply(&id, &said).await;
        }
    }
}

/// The first thing in a text that looks like arithmetic.
pub(crate) fn expression_in(text: &str) -> Option<&str> {
    let part_of_one = |c: char| c.is_ascii_digit() || " +-*/().".contains(c);
    let mut candidates = text.split(|c| !part_of_one(c)).map(|part| part.trim_matches([' ', '.']));
    candidates.find(|part| {
        part.contains(|c: char| c.is_ascii_digit()) && part.trim_start_matches('-').contains(['+', '-', '*', '/'])
    })
}

/// What it can do for others.
pub(crate) fn tools() -> Toolbox {
    #[derive(Deserialize)]
    struct Sum {
        expression: String,
    }
    #[derive(Deserialize)]
    struct Way {
        from: Spot,
        to: Spot,
    }
    let spot = schema(json!({ "x": { "type": "integer" }, "y": { "type": "integer" } }));
    let sum = schema(json!({ "expression": { "type": "string" } }));
    let way = schema(json!({ "from": spot, "to": spot }));
    Toolbox::new("Calc")
        .tool("evaluate", "Computes + - * / and parentheses", sum, |call| async move {
            let Sum { expression } = call.arguments()?;
            let value = evaluate(&expression).map_err(ToolError::failed)?;
            done(value.to_string(), &json!({ "value": value }))
        })
        .tool("distance", "Steps between two spots of the grid", way, |call| async move {
            let Way { from, to } = call.arguments()?;
            let steps = from.steps_to(to);
            done(format!("{steps} steps"), &json!({ "steps": steps }))
        })
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
