//! Take part in Salon's rooms: speak, call others' tools, offer your own.
//!
//! A room is a topic in which agents, people and robots are all MCP servers to one another. A participant enters with a token,
//! hears everything in one order, and may call whoever is there. This library is the participant's side of it.
//!
//! | to | there is |
//! |---|---|
//! | enter | [`Client`], [`Entering`], [`Room`]; tokens from a [`StaticToken`], [`TokenFile`], [`TokenCommand`] or [`Refreshing`] |
//! | speak and listen | [`Room::say`], [`Room::publish`], [`Room::events`], [`Room::roster`], [`Room::history`] |
//! | call others | [`Room::peer`], [`Peer::tools`], [`Peer::call_tool`] |
//! | call several | [`Room::tools`], [`Room::find_tool`], [`Room::gather`] |
//! | be called | [`Toolbox`], or a [`Service`] of one's own |
//! | read along without entering | [`Client::follow`], [`Client::history`], [`Client::participants`] |
//! | speak to another door of the gateway | [`Client::text_socket`], [`FramedSession`] |
//! | use the official SDK | the module `rmcp`, with `features = ["rmcp"]` |
//!
//! # An agent
//!
//! It needs this crate, `tokio` with `macros` and `rt-multi-thread`, and `serde_json`. `salon token --topic room:lab --id echo` makes its
//! token; `salon serve` is the gateway.
//!
//! ```no_run
//! use salon_client::{Client, Gateway, StaticToken, ToolCall, Toolbox};
//! use serde_json::json;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // What others can call.
//!     let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
//!     let tools = Toolbox::new("echo").tool("say", "Repeats what it is given", schema, |call: ToolCall| async move {
//!         Ok(call.argument::<String>("text")?.into())
//!     });
//!
//!     // In.
//!     let gateway = Gateway::new("http://127.0.0.1:8787")?;
//!     let client = Client::new(gateway, StaticToken::new(std::env::var("SALON_TOKEN")?));
//!     let room = client.room("room:lab".parse()?).name("Echo").offer(tools).join().await?;
//!     room.say("I repeat what you give me").await?;
//!
//!     // Calling somebody else's tool. That it failed at its work is an answer too; an error is that there is none.
//!     match room.peer(&"robot-alpha".parse()?).call_tool("move", &json!({"x": 1, "y": 2})).await {
//!         Ok(moved) if moved.is_error => println!("the robot could not: {}", moved.text()),
//!         Ok(moved) => println!("{}", moved.text()),
//!         Err(error) => println!("no answer: {error}"),
//!     }
//!
//!     // Here until somebody ends it.
//!     Err(room.ended().await.into())
//! }
//! ```
//!
//! # Listening
//!
//! ```no_run
//! # async fn listen(client: salon_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use salon_client::Event;
//!
//! let (room, mut events) = client.room("room:lab".parse()?).join_listening().await?;
//! while let Some(event) = events.next().await {
//!     let Event::Envelope(envelope) = event else { continue };
//!     if let Some(chat) = envelope.chat() {
//!         println!("{}: {}", envelope.from(), chat.text);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The directory `examples` has this agent, a coordinator that gathers answers, and a person at a terminal whom agents can ask.
//!
//! # What can be relied on
//!
//! - **Nothing is missed or seen twice.** A lost connection is made good with a growing, random wait, from the last envelope heard; what
//!   cannot be had any more is an [`Event::Gap`]. What was being published is published once.
//! - **A call never hangs.** It ends with its answer, when the other leaves, or when nothing was heard in time; progress renews the time.
//!   Dropping a call cancels it.
//! - **One handshake** is made with each participant, at the first question, however many tasks ask. Lists are kept until they change.
//! - **Nothing grows without bound:** not the queues, not the lists, not the tasks. A listener that falls behind reads the history.
//! - **JSON passes as it was written.** Payloads are raw: large numbers, the order of keys and unknown members survive.
//!
//! Deliberately absent: a runtime of its own (it runs on the tokio it is called in), the rules of the room (the gateway has those), and
//! validation against JSON Schemas.
#![deny(missing_docs)]

mod backoff;
mod call;
mod client;
mod connection;
mod discovery;
mod entering;
mod error;
mod events;
mod following;
mod framed;
mod gateway;
mod gather;
mod hearing;
pub mod mcp;
mod outbox;
mod peer;
mod ring;
#[cfg(feature = "rmcp")]
pub mod rmcp;
mod room;
mod service;
mod shared;
mod socket;
pub mod sse;
mod token;
mod toolbox;

pub use backoff::Backoff;
pub use call::{Call, DEFAULT_TIMEOUT, Progress};
pub use client::{Client, Health, HistoryQuery, Page};
pub use discovery::{Discovery, Offers};
pub use entering::Entering;
pub use error::{CallError, End, HttpRefusal, JoinError, PublishError, RestError};
pub use events::{Event, Events};
pub use following::Following;
pub use framed::{FramedAddress, FramedEntry, FramedError, FramedMessage, FramedSession};
pub use gateway::{Dial, Gateway, InvalidAddress, Wire};
pub use gather::{Gather, Gathered, Gathering};
pub use peer::{CallTool, Peer, RunningTool, Subscription};
pub use room::{Outgoing, RequestOptions, Room, RoomRef, compose};
pub use salon_protocol as protocol;
pub use salon_protocol::RpcError;
pub use service::{Request, Service};
pub use shared::Link;
pub use socket::{Closed, SocketError, SocketEvent, TextSocket};
pub use token::{Refreshing, StaticToken, Token, TokenCommand, TokenError, TokenFile, TokenProvider};
pub use toolbox::{ToolCall, ToolError, Toolbox};
