//! Questions that a tool has for the person who called it, asked at the terminal.
//!
//! Only the participant that was called is answered. Without a terminal every question is declined.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;

use salon_client::mcp::{Elicitation, ElicitationAnswer};
use salon_client::{RpcError, Toolbox};
use salon_protocol::ParticipantId;
use tokio::sync::Mutex;

use crate::arguments::{ArgumentField, ArgumentSchema};
use crate::{note, safe};

/// What this side of the call answers.
pub(super) fn answers(callee: &ParticipantId, isolated: bool) -> Toolbox {
    let toolbox = Toolbox::new("salon call");
    let toolbox = if isolated { toolbox.isolated() } else { toolbox };
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        // Not offered, as there is nobody to ask; a request for it is refused.
        return toolbox.method("elicitation/create", |_| async {
            serde_json::value::to_raw_value(&ElicitationAnswer::decline())
                .map_err(|error| RpcError::internal(error.to_string()))
        });
    }
    let callee = callee.clone();
    // One question at a time: there is one terminal.
    let terminal = Arc::new(Mutex::new(()));
    toolbox.on_elicitation(move |question, request| {
        let (terminal, allowed) = (terminal.clone(), *request.from() == callee);
        let callee = callee.clone();
        async move {
            if !allowed {
                // For another connection of the same person, which would be answered for.
                return std::future::pending().await;
            }
            let _one = terminal.lock().await;
            // When the command ends meanwhile, nobody waits for what is typed.
            let asked = tokio::task::spawn_blocking(move || ask(&callee, &question)).await;
            asked.map_err(|_| RpcError::internal("the terminal cannot be read"))
        }
    })
}

fn ask(callee: &ParticipantId, question: &Elicitation) -> ElicitationAnswer {
    note(format_args!("\n{callee} asks: {}", safe::block(&question.message)));
    let mode = question.rest.get("mode").map(|mode| mode.get().to_owned());
    if mode.is_some_and(|mode| mode != "\"form\"") {
        note(format_args!("it wants an answer outside of this terminal, which is declined"));
        return ElicitationAnswer::decline();
    }
    let mut desk = FormDesk { input: io::stdin().lock(), output: io::stderr() };
    fill(&ArgumentSchema::new(Some(&question.requested_schema)), &mut desk)
}

/// Where a form is filled in: what is typed, and what is seen.
struct FormDesk<R, W> {
    input: R,
    output: W,
}

impl<R: BufRead, W: Write> FormDesk<R, W> {
    fn tell(&mut self, text: &str) {
        let _ = writeln!(self.output, "{}", safe::block(text));
    }

    /// Asks for a line; `None` when there are no more.
    fn ask(&mut self, prompt: &str) -> Option<String> {
        let _ = write!(self.output, "{}", safe::line(prompt));
        let mut line = String::new();
        match self.input.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim().to_owned()),
        }
    }
}

/// One field after the other, in the order of the form, each until it fits; and the whole until that fits.
fn fill(schema: &ArgumentSchema, desk: &mut FormDesk<impl BufRead, impl Write>) -> ElicitationAnswer {
    let fields = schema.as_written();
    if fields.is_empty() {
        return match desk.ask("yes or no: ").as_deref() {
            Some("y" | "yes") => accepted(schema, &[], desk).unwrap_or_else(ElicitationAnswer::decline),
            Some(_) => ElicitationAnswer::decline(),
            None => ElicitationAnswer::cancel(),
        };
    }
    desk.tell("(an empty line takes what is in brackets, or leaves it out; `!` declines)");
    loop {
        let mut pairs = Vec::new();
        for field in &fields {
            match enter(schema, field, desk) {
                Ok(given) => pairs.extend(given),
                Err(answer) => return answer,
            }
        }
        if let Some(answer) = accepted(schema, &pairs, desk) {
            return answer;
        }
    }
}

/// The lines about one field, as pairs; or the answer that ends the form.
fn enter(
    schema: &ArgumentSchema,
    field: &ArgumentField,
    desk: &mut FormDesk<impl BufRead, impl Write>,
) -> Result<Vec<String>, ElicitationAnswer> {
    let name = &field.name;
    for choice in field.choices.iter().filter(|choice| !choice.title.is_empty()) {
        desk.tell(&format!("  {}: {}", choice.value, choice.title));
    }
    loop {
        let line = desk.ask(&prompt(field)).ok_or_else(ElicitationAnswer::cancel)?;
        let pairs = match (&*line, &field.default) {
            ("!", _) => return Err(ElicitationAnswer::decline()),
            ("", Some(default)) => vec![format!("{name}:={default}")],
            ("", None) if field.required => {
                desk.tell(&format!("`{name}` is needed"));
                continue;
            }
            ("", None) => return Ok(Vec::new()),
            (list, _) if field.several && !list.starts_with('[') => {
                list.split(',').map(|one| format!("{name}={}", one.trim())).collect()
            }
            (value, _) => vec![format!("{name}={value}")],
        };
        match schema.try_one(&pairs) {
            Ok(()) => return Ok(pairs),
            Err(unfit) => desk.tell(&unfit.to_string()),
        }
    }
}

fn accepted(
    schema: &ArgumentSchema,
    pairs: &[String],
    desk: &mut FormDesk<impl BufRead, impl Write>,
) -> Option<ElicitationAnswer> {
    match schema.read(pairs) {
        Ok(content) => ElicitationAnswer::accept(&content).ok(),
        Err(unfit) => {
            desk.tell(&unfit.to_string());
            None
        }
    }
}

fn prompt(field: &ArgumentField) -> String {
    let ArgumentField { name, title, kind, description, .. } = field;
    let kind = match (field.several, kind.strip_prefix("array of ")) {
        (true, Some(each)) => format!("{each}, several with commas"),
        (true, None) => "several with commas".to_owned(),
        (false, _) => kind.clone(),
    };
    let notes: Vec<_> =
        [&*kind, if field.required { "required" } else { "" }].into_iter().filter(|n| !n.is_empty()).collect();
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
    let about: Vec<_> = [title, description].into_iter().filter(|text| !text.is_empty() && *text != name).collect();
    let about: String = about.iter().map(|text| format!(" {text}")).collect();
    let default = field.default.as_ref().map(|default| {
        // A text as it would be typed.
        format!(" [{}]", serde_json::from_str::<String>(default).unwrap_or_else(|_| default.clone()))
    });
    format!("{name}{notes}{about}{}: ", default.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    /// What is seen by somebody who types these lines, and what comes of it.
    fn filled(schema: &str, lines: &[&str]) -> String {
        let schema: Box<RawValue> = serde_json::from_str(schema).expect("a schema");
        let typed: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut desk = FormDesk { input: typed.as_bytes(), output: Vec::new() };
        let answer = fill(&ArgumentSchema::new(Some(&schema)), &mut desk);
        assert!(desk.input.is_empty(), "every line was asked for");
        let seen = String::from_utf8(desk.output).expect("text");
        let content = answer.content.map(|content| format!(" {}", content.get())).unwrap_or_default();
        format!("{seen}{:?}{content}", answer.action)
    }

    const FORM: &str = r#"{"type":"object","properties":{
        "name":{"type":"string","title":"Full name","minLength":2},
        "mail":{"type":"string","format":"email"},
        "age":{"type":"integer","minimum":18,"default":20},
        "gear":{"type":"string","oneOf":[{"const":"s","title":"Slow"},{"const":"f","title":"Fast"}],"default":"s"},
        "tags":{"type":"array","items":{"type":"string","enum":["a","b"]},"maxItems":2}
    },"required":["name","mail"]}"#;

    #[test]
    fn each_field_is_asked_for_until_it_fits() {
        let lines = ["", "x", "Ada L", "nowhere", "ada@example.org", "old", "17", "", "up", "fast", "a, c", "a,b"];
        insta::assert_snapshot!(filled(FORM, &lines), @r#"
        (an empty line takes what is in brackets, or leaves it out; `!` declines)
        name (string, required) Full name: `name` is needed
        name (string, required) Full name: `name`: "x" is shorter than 2 characters
        name (string, required) Full name: mail (string, required): `mail`: "nowhere" is not a "email"
        mail (string, required): age (integer) [20]: `age` must be an integer, not `old`
        age (integer) [20]: `age`: 17 is less than the minimum of 18
        age (integer) [20]:   s: Slow
          f: Fast
        gear (s|f) [s]: `gear`: "up" is not one of "s", "f"
        gear (s|f) [s]: tags (a|b, several with commas): `tags.1`: "c" is not one of "a" or "b"
        tags (a|b, several with commas): Accept {"name":"Ada L","mail":"ada@example.org","age":20,"gear":"f","tags":["a","b"]}
        "#);
    }

    #[test]
    fn what_is_not_needed_may_be_left_out() {
        let told = filled(FORM, &["Ada", "a@b.c", "", "", ""]);
        assert!(told.ends_with(r#"Accept {"name":"Ada","mail":"a@b.c","age":20,"gear":"s"}"#), "{told}");
    }

    #[test]
    fn it_is_declined_and_given_up() {
        assert!(filled(FORM, &["Ada", "!"]).ends_with("Decline"));
        assert!(filled(FORM, &["Ada"]).ends_with("Cancel"));
        assert!(filled("{}", &["yes"]).ends_with("Accept {}"));
        assert!(filled("{}", &["no"]).ends_with("Decline"));
    }

    #[test]
    fn what_does_not_go_together_is_asked_for_again() {
        let schema = r#"{"properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"minProperties":1}"#;
        let told = filled(schema, &["", "", "1", ""]);
        assert!(told.contains("propert") && told.ends_with(r#"Accept {"a":1}"#), "{told}");
    }
}
