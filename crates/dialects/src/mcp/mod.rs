//! MCP at the gateway: the [`door`] for MCP clients, and the [`draft`] dialect of MCP that some of them speak.
//!
//! What the revisions of MCP say, and how a message of one becomes a message of another, is the crate `salon_mcp`.

pub mod door;
pub mod draft;
#[cfg(test)]
mod scripts;
