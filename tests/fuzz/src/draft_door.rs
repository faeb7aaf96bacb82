//! The draft dialect in both roles: what its clients say at the MCP door, over a WebSocket, HTTP or polls, between any events of the room; and what its
//! servers say to the guest that brings them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use salon_dialects::mcp::door::{Body, Listen, McpOpening, PollBody, Post, RoomAnswer, RoomQuery};
use salon_dialects::mcp::draft::{Interpreter, Passed, Translator, is_initialize_message, is_introduction, words};
use salon_protocol::{Draft, Message, RpcId};
use serde_json::value::RawValue;

use crate::door::{Room, Rules, catalogue, is_json, pieces};
use crate::mcp::options;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"mcpVersion":"2025-06-18","clientCapabilities":{"supportsProgress":true,"supportsCancellation":true}}}"#;

/// What MCP says and the dialect has other words for.
const OFFICIAL: [&str; 4] = [
    "notifications/progress",
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
];

pub(crate) fn run(bytes: &[u8]) -> bool {
    match bytes {
        [b'S', said @ ..] => hear_server(said),
        [how, said @ ..] => hear_client(*how, said),
        [] => {}
    }
    true
}

/// What is said to a server and what it says, in turn.
fn hear_server(bytes: &[u8]) {
    let mut translator = Translator::default();
    let mut asked = HashSet::new();
    for (what, text) in pieces(bytes) {
        let Ok(value) = serde_json::from_str::<&RawValue>(text) else {
            assert_eq!(translator.from_server(text), [text.into()], "text that is not JSON passes as it is");
            continue;
        };
        introduces(value);
        match what % 4 {
            0 => match translator.to_server(text) {
                Passed::On(on) => {
                    is_json(&on);
                    asked.extend(method(text).zip(id_of(text)).map(|(_, id)| id));
                }
                Passed::Back(back) => assert_eq!(id_of(&back), id_of(text), "an answer is to what was asked"),
            },
            1 => drop(translator.failed(&id_of(text).unwrap_or_default(), Some(text))),
            _ => {
                let heard = translator.from_server(text);
                heard.iter().for_each(|message| is_json(message));
                if let (None, Some(id)) = (method(text), id_of(text)) {
                    assert_eq!(heard.len(), 1, "an answer stays one");
                    assert_eq!(id_of(&heard[0]).as_ref(), Some(&id), "under its id");
                    asked.remove(&id);
                }
            }
        }
    }
}

/// The words that need no conversation.
fn introduces(value: &RawValue) {
    let _ = (is_initialize_message(value.get()), is_introduction(value));
    for said in [
        words::introduction_to_draft(value),
        words::introduction_to_mcp(value),
        words::outcome_to_draft(value),
        words::outcome_to_mcp(value),
        words::error_to_draft(value),
        words::error_to_mcp(value),
        words::initialize_either(value),
    ] {
        is_json(said.get());
    }
}

fn member<'a>(text: &'a str, name: &str) -> Option<&'a RawValue> {
    serde_json::from_str::<HashMap<String, &RawValue>>(text).ok()?.remove(name)
}

fn method(text: &str) -> Option<String> {
    serde_json::from_str(member(text, "method")?.get()).ok()
}

/// An id that is one, as it is written.
fn id_of(text: &str) -> Option<String> {
    member(text, "id").filter(|id| RpcId::parse(id.get()).is_some()).map(|id| id.get().to_owned())
}

fn hear_client(how: u8, bytes: &[u8]) {
    let (duplex, options) = options(how);
    let began = Began { draft: how & 4 == 0 };
    let mut room = Room::open(duplex, began, |stamps, now| Interpreter::new(options, stamps, now));
    if how & 4 == 0 {
        room.hears(if how & 8 == 0 { 0 } else { 32 }, HELLO);
    }
    room.live(pieces(bytes));
}

/// Whether the client began in the dialect.
struct Began {
    draft: bool,
}

impl Rules for Began {
    type Dialect = Interpreter;

    const ANSWER: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}"#;
    const STEP: Duration = Duration::from_millis(500);

    fn opening(&self, what: u8, text: &str) -> McpOpening {
        match what & 32 {
            0 => McpOpening::Post(Post { body: Body::read(None, text), headers: Vec::new(), apart: what & 64 != 0 }),
            _ => McpOpening::Poll(Duration::from_secs(u64::from(what >> 6)), PollBody::read(text)),
        }
    }

    fn listening(&self, after: Option<&str>) -> McpOpening {
        McpOpening::Listen(Listen { after: after.map(Into::into), endpoint: None })
    }

    fn answer(&self, query: RoomQuery) -> Option<RoomAnswer> {
        catalogue(query)
    }

    fn published(&self, draft: &Draft) {
        let envelope = draft.envelope();
        assert_eq!(envelope.to().len(), 1, "the door speaks to one at a time");
        if let Some(Message::Request { method, .. }) = envelope.message() {
            assert!(&**method != "tools/invoke" || !self.draft, "the room hears MCP");
        }
    }

    fn said(&self, text: &str) {
        // A poll is answered with all that waits.
        match serde_json::from_str::<Vec<&RawValue>>(text) {
            Ok(messages) => messages.iter().for_each(|message| self.is_said(message.get())),
            Err(_) => self.is_said(text),
        }
    }
}

impl Began {
    fn is_said(&self, text: &str) {
        assert!(text.contains(r#""jsonrpc":"2.0""#), "{text}");
        if let (true, Some(method)) = (self.draft, method(text)) {
            assert!(!OFFICIAL.contains(&method.as_str()), "the dialect has a word for this: {text}");
        }
    }
}
