//! The draft dialect of MCP (its document is dated 2025-06-18): other words for a part of what MCP says.
//!
//! Nothing is served here. What a draft client says becomes MCP before the door hears it, and what the door says becomes the dialect's
//! ([`Interpreter`], around [`Door`](super::door::Door)); with a draft server it is the other way round ([`Translator`], at the connection
//! to it). The table of words is in [`words`]; the rest keeps what a translation needs to know: which request an answer is of, which
//! tools its peer was last told of.
//!
//! What the dialect has no word for passes as MCP says it. Payloads pass as they were written.

mod client;
mod conversation;
mod interpreter;
mod server;
#[cfg(test)]
mod tests;
pub mod words;

pub use interpreter::Interpreter;
pub use server::{Passed, Translator, farewell};
pub use words::{is_initialize_message, is_introduction};

/// The one version there is of it.
pub const VERSION: &str = "2025-06-18";

/// What the dialect has in place of −32602.
pub const INVALID_PARAMETERS: i64 = 4001;
