//! Questions that a tool has for the person who called it, asked at the terminal.
//!
//! Only the participant that was called is answered. Without a terminal every question is declined.

use std::io::{self, BufRead, IsTerminal};
use std::sync::Arc;

use salon_client::mcp::{Elicitation, ElicitationAnswer};
use salon_client::{RpcError, Toolbox};
use salon_protocol::ParticipantId;
use tokio::sync::Mutex;

use crate::arguments::{Field, Schema};
use crate::{note, safe};

/// What this side of the call answers.
pub(super) fn answers(callee: &ParticipantId) -> Toolbox {
    let toolbox = Toolbox::new("salon call");
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        // Not promised, as there is nobody to ask; whoever asks all the same gets a no.
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
    let schema = Schema::new(Some(&question.requested_schema));
    let fields = schema.fields();
    if fields.is_empty() {
        return match line("yes or no: ").as_deref().map(str::trim) {
            Some("y" | "yes") => accepted(&schema, &[]).unwrap_or_else(ElicitationAnswer::decline),
            Some(_) => ElicitationAnswer::decline(),
            None => ElicitationAnswer::cancel(),
        };
    }
    note(format_args!("(an empty line leaves one out; `!` declines)"));
    loop {
        let mut pairs = Vec::new();
        for field in &fields {
            match line(&prompt(field)).as_deref().map(str::trim) {
                None => return ElicitationAnswer::cancel(),
                Some("!") => return ElicitationAnswer::decline(),
                Some("") => {}
                Some(value) => pairs.push(format!("{}={value}", field.name)),
            }
        }
        if let Some(answer) = accepted(&schema, &pairs) {
            return answer;
        }
    }
}

fn accepted(schema: &Schema, pairs: &[String]) -> Option<ElicitationAnswer> {
    match schema.read(pairs) {
        Ok(content) => ElicitationAnswer::accept(&content).ok(),
        Err(unfit) => {
            note(format_args!("{}", safe::block(&unfit.to_string())));
            None
        }
    }
}

fn prompt(field: &Field) -> String {
    let required = if field.required { ", required" } else { "" };
    let about = if field.description.is_empty() { String::new() } else { format!(" {}", field.description) };
    safe::line(&format!("{} ({}{required}){about}: ", field.name, field.kind))
}

/// A line from the terminal; `None` at its end.
fn line(prompt: &str) -> Option<String> {
    use std::io::Write;

    let _ = write!(io::stderr(), "{prompt}");
    let mut line = String::new();
    match io::stdin().lock().read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line),
    }
}
