//! An agent that repeats what it is given, as a tool and in the chat.
//!
//! ```text
//! SALON_TOKEN=… cargo run -p salon-client --example echo_agent -- room:lab
//! ```
#![expect(clippy::print_stdout, reason = "it is a program for a terminal")]

use std::env;
use std::error::Error;

use salon_client::mcp::ToolResult;
use salon_client::protocol::ParticipantKind;
use salon_client::{Client, Event, Gateway, StaticToken, ToolCall, ToolError, Toolbox};
use schemars::JsonSchema;
use serde::Deserialize;

/// The arguments of `say`: the JSON Schema that others see is made from this.
#[derive(Deserialize, JsonSchema)]
struct Say {
    /// What to repeat
    text: String,
}

async fn say(Say { text }: Say, _: ToolCall) -> Result<ToolResult, ToolError> {
    Ok(text.into())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let gateway = env::var("SALON_GATEWAY").unwrap_or_else(|_| "http://127.0.0.1:8787".into());
    let token = env::var("SALON_TOKEN").map_err(|_| "SALON_TOKEN is not set: `salon token` makes one")?;
    let topic = env::args().nth(1).unwrap_or_else(|| "room:lab".into()).parse()?;

    let tools = Toolbox::new("echo").typed_tool("say", "Repeats what it is given", say);

    let client = Client::new(Gateway::new(&gateway)?, StaticToken::new(token));
    let (room, mut events) = client.room(topic).kind(ParticipantKind::Agent).offer(tools).join_listening().await?;

    println!("{} is in {}; say `{}: something` there", room.id(), room.topic(), room.id());
    while let Some(event) = events.next().await {
        let Event::Envelope(envelope) = event else { continue };
        // Only what is said to it by name, which its own answers never are: two of these must not talk for ever.
        let Some(chat) = envelope.chat() else { continue };
        let to_me = chat.text.strip_prefix(room.id().as_str()).and_then(|rest| rest.strip_prefix(':'));
        if let Some(text) = to_me {
            room.reply(envelope.id(), &format!("{} said: {}", envelope.from(), text.trim())).await?;
        }
    }
    Err(room.ended().await.into())
}
