//! Client for Salon rooms: join, speak, call others' tools, offer your own.
//!
//! A room is a topic in which agents, people and robots are all MCP servers to one another. A participant joins with a token, receives
//! everything in one order, and can call any other participant. This crate is the participant's side.
//!
//! | to | use |
//! |---|---|
//! | join | [`Client`], [`Entering`], [`Room`]; tokens from a [`StaticToken`], [`TokenFile`], `TokenCommand` or [`Refreshing`] |
//! | speak and listen | [`Room::say`], [`Room::publish`], [`Room::events`], [`Room::roster`], [`Room::history`] |
//! | call others | [`Room::peer`], [`Peer::tools`], [`Peer::call_tool`] |
//! | call several | [`Room::tools`], [`Room::find_tool`], [`Room::gather`] |
//! | be called | [`Toolbox`], or a [`Service`] of your own |
//! | speak for others, as a bridge does | [`Ghost`], [`Room::enter_ghost`], [`Room::publish_as`] |
//! | read without joining | [`Client::follow`], [`Client::history`], [`Client::participants`] |
//! | speak the Multi-Component Protocol | [`FramedSession`] |
//! | use the official SDK | the module `rmcp`, with `features = ["rmcp"]` |
//!
//! # An agent
//!
//! It needs this crate with the feature `schemars`, `schemars` itself, `serde` with `derive`, `serde_json`, and `tokio` with `macros` and
//! `rt-multi-thread`. `salon serve` is the gateway; `salon token room:lab --as echo` makes the token.
//!
#![cfg_attr(feature = "schemars", doc = "```no_run")]
#![cfg_attr(not(feature = "schemars"), doc = "```ignore")]
//! use salon_client::mcp::ToolResult;
//! use salon_client::{Client, Gateway, StaticToken, ToolCall, ToolError, Toolbox};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use serde_json::json;
//!
//! /// The arguments of the tool `say`. Others see the JSON Schema that is made from this.
//! #[derive(Deserialize, JsonSchema)]
//! struct Say {
//!     /// What to repeat
//!     text: String,
//! }
//!
//! async fn say(Say { text }: Say, _call: ToolCall) -> Result<ToolResult, ToolError> {
//!     Ok(text.into())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // What others can call. Arguments that do not fit are refused before `say` runs.
//!     let tools = Toolbox::new("echo").typed_tool("say", "Repeats what it is given", say);
//!
//!     // Join.
//!     let gateway = Gateway::new("http://127.0.0.1:8787")?;
//!     let client = Client::new(gateway, StaticToken::new(std::env::var("SALON_TOKEN")?));
//!     let room = client.room("room:lab".parse()?).name("Echo").offer(tools).join().await?;
//!     room.say("I repeat what you give me").await?;
//!
//!     // Call another participant's tool. A tool that ran and failed is a result, too; an error means that there is none.
//!     match room.peer(&"robot-alpha".parse()?).call_tool("move", &json!({"x": 1, "y": 2})).await {
//!         Ok(moved) if moved.is_error => println!("the robot could not: {}", moved.text()),
//!         Ok(moved) => println!("{}", moved.text()),
//!         Err(error) => println!("no answer: {error}"),
//!     }
//!
//!     // Stay until the room is left for good.
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
//! # Speaking for others
//!
//! A bridge to a chat platform is a participant that speaks for many. Its token has `acts_for`: `salon token --topic 'room:*' --id bridge:matrix
//! --acts-for 'matrix:*'`, and the gateway gives it these ids (`auth.namespaces`). It enters a ghost for each of them over its one connection.
//!
//! ```no_run
//! # async fn bridge(client: salon_client::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use salon_client::{Event, Ghost, Outgoing};
//!
//! let (room, mut events) = client.room("room:lab".parse()?).join_listening().await?;
//! let ann = "matrix:ann".parse()?;
//! room.enter_ghost(Ghost::new("matrix:ann".parse()?).name("Ann")).await?;
//! // The id and the time of the platform's own message: whatever is published again is stored once.
//! let hello = Outgoing::chat("hello from Matrix").id("$event:server".parse()?);
//! room.publish_as(&ann, hello).await?;
//! while let Some(event) = events.next().await {
//!     let Event::Envelope(envelope) = event else { continue };
//!     // Everything comes once, also what the ghosts said themselves.
//!     if !envelope.from().as_str().starts_with("matrix:") {
//!         if let Some(chat) = envelope.chat() {
//!             println!("to Matrix: {}: {}", envelope.from(), chat.text);
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The directory `examples` has this agent, a coordinator that gathers answers, and a person at a terminal whom agents can ask.
//!
//! [`Events`] also implements `futures_core::Stream`.
//!
//! # Features
//!
//! | feature | brings | default |
//! |---|---|---|
//! | `tls` | `https`, `wss` and `tls` addresses, by rustls with the system's certificates | yes |
//! | `process` | `TokenCommand`: tokens from a program's output | yes |
//! | `schemars` | `Toolbox::typed_tool` and `mcp::Tool::typed`: JSON Schemas made from types | no |
//! | `rmcp` | the module `rmcp`: servers and clients of the official SDK; needs Rust 1.88 | no |
//!
//! The crate compiles with Rust 1.85 or later.
//!
//! # Errors
//!
//! Each operation has an error type of its own, with its causes behind [`source`](std::error::Error::source). [`ErrorKind`] is what they
//! have in common: [`CallError::kind`], [`RestError::kind`], [`PublishError::kind`]. Enums and structs that will grow are
//! `#[non_exhaustive]`; those you fill in have builder methods.
//!
//! # Guarantees
//!
//! - **Nothing is missed or delivered twice.** The client reconnects with exponential backoff and jitter, and resumes after the last
//!   envelope received; what the topic no longer keeps is an [`Event::Gap`]. What was being published is published once.
//! - **A call never hangs.** It ends with its answer, when the other participant leaves, or at its timeout; every progress notification
//!   restarts the timeout. Dropping a call cancels it.
//! - **One handshake** is made with each participant, at the first request, however many tasks ask. Lists are kept until they change.
//!   Participants that speak only MCP 2026-07-28, which has no handshake, are called in that revision.
//! - **Nothing grows without bound:** queues, lists, tasks. A listener that falls behind reads the history.
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
mod files;
mod following;
mod framed;
mod gateway;
mod gather;
mod ghosts;
mod hearing;
pub mod mcp;
mod outbox;
mod peer;
mod ring;
#[cfg(feature = "rmcp")]
pub mod rmcp;
mod room;
#[cfg(feature = "schemars")]
mod schema;
mod search;
mod service;
mod shared;
mod socket;
mod sse;
mod tls;
mod token;
mod toolbox;

pub use backoff::Backoff;
pub use call::{Call, DEFAULT_TIMEOUT, Progress};
pub use client::{Client, Health, HistoryQuery, Page, ParticipantOffer, RevocationReceipt, TokenSelection};
pub use discovery::{Discovery, Offers};
pub use entering::Entering;
pub use error::{
    CallError, End, ErrorKind, HttpRefusal, JoinError, LostConnection, PublishError, ReplyError, RestError, ResultError,
};
pub use events::{Event, Events};
pub use files::PutFile;
pub use following::Following;
pub use framed::{FramedAddress, FramedEntry, FramedError, FramedMessage, FramedSession};
pub use gateway::{Dial, Gateway, InvalidAddress, Wire};
pub use gather::{Gather, Gathered, Gathering};
pub use ghosts::Ghost;
pub use peer::{CallTool, Peer, RunningTool, Subscription};
pub use room::{Outgoing, RequestOptions, Room, RoomRef};
pub use salon_protocol as protocol;
pub use salon_protocol::RpcError;
pub use search::{FoundEnvelope, SearchOptions, SearchResults};
pub use service::{Request, Service};
pub use shared::Link;
#[cfg(feature = "process")]
pub use token::TokenCommand;
pub use token::{InvalidToken, Refreshing, StaticToken, Token, TokenError, TokenFile, TokenProvider};
pub use toolbox::{ToolCall, ToolError, Toolbox};

use room::compose;

/// Parts that other crates of this workspace use. Not for anyone else: nothing here is covered by the version number.
#[doc(hidden)]
pub mod internal {
    pub use crate::room::compose;
    pub use crate::socket::{Closed, SocketError, SocketEvent, TextSocket};
    #[cfg(feature = "tls")]
    pub use crate::tls::connect_tls;

    /// Server-sent events, decoded.
    pub mod sse {
        pub use crate::sse::{SseDecoder, SseEvent, TooLong};
    }
}

/// The examples of the README, compiled.
#[cfg(all(doctest, feature = "schemars"))]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
