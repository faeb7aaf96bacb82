//! What the MCP door hears: any messages of a client, over a WebSocket or HTTP, between any events of the room.

use std::time::Duration;

use salon_dialects::mcp::door::{Body, Door, Listen, McpOpening, Post, RoomAnswer, RoomQuery};
use salon_protocol::Draft;

use crate::door::{Room, Rules, catalogue, pieces};
use crate::mcp::options;

pub(crate) fn run(bytes: &[u8]) -> bool {
    let Some((how, bytes)) = bytes.split_first() else { return true };
    let (duplex, options) = options(*how);
    let room = Room::open(duplex, Mcp, |stamps, now| Door::new(options, stamps, now));
    room.live(pieces(bytes).inspect(|(_, text)| drop(Body::read(Some("2026-07-28"), text))));
    true
}

struct Mcp;

impl Rules for Mcp {
    type Dialect = Door;

    const ANSWER: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}"#;
    const STEP: Duration = Duration::from_millis(50);

    fn opening(&self, what: u8, text: &str) -> McpOpening {
        let headers = match what & 64 {
            0 => Vec::new(),
            _ => vec![("mcp-protocol-version".into(), "2026-07-28".into())],
        };
        let body = Body::read(headers.first().map(|_| "2026-07-28"), text);
        McpOpening::Post(Post { body, headers, apart: what & 128 != 0 })
    }

    fn listening(&self, after: Option<&str>) -> McpOpening {
        McpOpening::Listen(Listen { after: after.map(Into::into), endpoint: None })
    }

    fn answer(&self, query: RoomQuery) -> Option<RoomAnswer> {
        catalogue(query)
    }

    fn published(&self, draft: &Draft) {
        assert_eq!(draft.envelope().to().len(), 1, "the door speaks to one at a time");
    }

    fn said(&self, text: &str) {
        assert!(text.contains(r#""jsonrpc":"2.0""#), "{text}");
    }
}
