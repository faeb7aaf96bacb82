//! Carriers move frames and know no grammar.

mod queue;
mod socket;
mod websocket;

pub(crate) use socket::Socket;
pub(crate) use websocket::{Received, WebSocket};
