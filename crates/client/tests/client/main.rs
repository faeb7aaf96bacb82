//! The client library against a real gateway.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers as well")]

mod examples;
mod framed;
mod gathering;
mod ghosts;
mod modern;
mod outages;
mod peers;
#[cfg(feature = "rmcp")]
mod sdk;
mod sockets;
mod stage;
mod staying;
mod tokens;
