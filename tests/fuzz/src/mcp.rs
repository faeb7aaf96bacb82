//! How the MCP door is opened, for all who come in by it.

use std::time::Duration;

use salon_dialects::mcp::door::{DoorScope, McpDoorOptions};

use crate::door::{LIMITS, id, topic};

/// Whether the client has one connection for everything, and what the door is to be, by the input's first byte.
pub(crate) fn options(how: u8) -> (bool, McpDoorOptions) {
    let duplex = how & 2 == 0;
    let options = McpDoorOptions {
        me: id("alice"),
        topic: topic(),
        scope: if how & 1 == 0 { DoorScope::Room } else { DoorScope::One(id("bob")) },
        limits: LIMITS,
        session: Some("session".into()),
        idle: (!duplex).then_some(Duration::from_secs(300)),
        vanished_timeout: Duration::from_secs(60),
        list_max_age: Duration::from_secs(60),
        returning_until: None,
        few: 2,
        first: 0,
        salt: [7; 16],
        version: "0",
    };
    (duplex, options)
}
