//! A person at a terminal, for agents to turn to: they call its tool `ask_human`, and tools that this person calls may ask back.
//!
//! Lines that answer no question are said in the room.
//!
//! ```text
//! SALON_TOKEN=… cargo run -p salon-client --example human_in_the_loop -- room:lab
//! ```
#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use std::env;
use std::error::Error;
use std::sync::Arc;

use salon_client::mcp::{Elicitation, ElicitationAnswer};
use salon_client::protocol::ParticipantKind;
use salon_client::{Client, Event, Gateway, RpcError, StaticToken, ToolCall, ToolError, Toolbox};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, mpsc, oneshot};

/// A question for the person, and where the answer goes.
type Question = (String, oneshot::Sender<String>);

/// The arguments of `ask_human`.
#[derive(Deserialize, JsonSchema)]
struct AskHuman {
    /// What to ask the person
    question: String,
}

/// Puts one question after the other.
#[derive(Clone)]
struct Person {
    questions: mpsc::Sender<Question>,
    turn: Arc<Mutex<()>>,
}

impl Person {
    async fn ask(&self, question: String) -> Option<String> {
        let _turn = self.turn.lock().await;
        let (answer, answered) = oneshot::channel();
        self.questions.send((question, answer)).await.ok()?;
        answered.await.ok()
    }

    /// Asks for every field of a form; an empty answer leaves the form.
    async fn fill(&self, from: &str, form: &Elicitation) -> Result<ElicitationAnswer, serde_json::Error> {
        let schema: Value = serde_json::from_str(form.requested_schema.get())?;
        let fields = schema["properties"].as_object().cloned().unwrap_or_default();
        if fields.is_empty() {
            let answer = self.ask(format!("{from}: {} (yes or no)", form.message)).await;
            let agreed = answer.is_some_and(|answer| answer.trim().eq_ignore_ascii_case("yes"));
            return if agreed { ElicitationAnswer::accept(&json!({})) } else { Ok(ElicitationAnswer::decline()) };
        }
        let mut content = Map::new();
        for (name, field) in fields {
            let about = field["description"].as_str().unwrap_or(&name);
            match self.ask(format!("{from}: {} {about}", form.message)).await {
                None => return Ok(ElicitationAnswer::cancel()),
                Some(line) if line.is_empty() => return Ok(ElicitationAnswer::decline()),
                Some(line) if field["type"] == "string" => drop(content.insert(name, line.into())),
                Some(line) => drop(content.insert(name, serde_json::from_str(&line).unwrap_or(Value::String(line)))),
            }
        }
        ElicitationAnswer::accept(&content)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let gateway = env::var("SALON_GATEWAY").unwrap_or_else(|_| "http://127.0.0.1:8787".into());
    let token = env::var("SALON_TOKEN").map_err(|_| "SALON_TOKEN is not set: `salon token` makes one")?;
    let topic = env::args().nth(1).unwrap_or_else(|| "room:lab".into()).parse()?;

    let (questions, mut asked) = mpsc::channel::<Question>(16);
    let person = Person { questions, turn: Arc::default() };
    let (asker, filler) = (person.clone(), person);
    let tools = Toolbox::new("person")
        .typed_tool(
            "ask_human",
            "Asks the person here and waits for the answer",
            move |ask: AskHuman, call: ToolCall| {
                let person = asker.clone();
                async move {
                    let question = format!("{} asks: {}", call.caller(), ask.question);
                    let answer = person.ask(question).await.filter(|answer| !answer.is_empty());
                    answer.map(Into::into).ok_or_else(|| ToolError::failed("the person does not want to answer"))
                }
            },
        )
        .on_elicitation(move |form, request| {
            let person = filler.clone();
            async move {
                let filled = person.fill(request.from().as_str(), &form).await;
                filled.map_err(|error| RpcError::invalid_params(error.to_string()))
            }
        });

    let client = Client::new(Gateway::new(&gateway)?, StaticToken::new(token));
    let (room, mut events) = client.room(topic).kind(ParticipantKind::Human).offer(tools).join_listening().await?;
    let mut lines = typed_lines();
    let mut open: Option<oneshot::Sender<String>> = None;
    loop {
        // A question that was withdrawn wants no answer.
        let free = open.as_ref().is_none_or(oneshot::Sender::is_closed);
        tokio::select! {
            event = events.next() => match event {
                Some(Event::Envelope(envelope)) => {
                    if let Some(chat) = envelope.chat() {
                        println!("{}: {}", envelope.from(), chat.text);
                    }
                }
                Some(Event::Gap) => println!("(something was missed)"),
                Some(Event::Outage(why)) => println!("({why})"),
                Some(Event::Recovered) => println!("(it goes on)"),
                Some(_) => {}
                None => return Err(room.ended().await.into()),
            },
            Some((question, answer)) = asked.recv(), if free => {
                println!("? {question}");
                open = Some(answer);
            }
            line = lines.recv() => {
                let Some(line) = line else { break };
                // What nobody waits for as an answer is said to everybody.
                let unasked = match open.take() {
                    Some(answer) => answer.send(line).err(),
                    None => Some(line),
                };
                if let Some(line) = unasked {
                    room.say(&line).await?;
                }
            }
        }
    }
    room.leave().await;
    Ok(())
}

/// What is typed, a line at a time. Reading a terminal blocks, so a thread does it; it ends with the program.
fn typed_lines() -> mpsc::Receiver<String> {
    let (tell, lines) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if tell.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
