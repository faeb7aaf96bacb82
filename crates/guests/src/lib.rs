//! An existing MCP server as a participant of a room.
//!
//! A guest is a command or a URL that speaks MCP, whichever revision. It sits in the room while its server works, and many callers
//! use it at once without being mixed up. Deliberately absent: reading configuration, and deciding which guests there are.

mod guest;
pub mod import;
mod lane;
pub mod oauth;
mod outbox;
pub mod private_file;
mod spec;
mod stay;
mod switchboard;
mod tool_filter;
pub mod upstream;

pub use guest::run;
pub use spec::{Expose, GuestError, GuestStatus, RestartPolicy, Spec};
pub use tool_filter::ToolFilter;
