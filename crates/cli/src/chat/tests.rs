//! Screens, drawn from envelopes and keys. Time passes only when a test says so.

mod calling;
mod looking_back;
mod screens;
mod talking;

use std::sync::Arc;
use std::time::Duration;

use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use salon_protocol::{Envelope, EnvelopeId, ParticipantId, Timestamp, TopicName};
use serde_json::{Value, json};

use super::event::{
    CallEnding, ChatEffect, ChatHistoryPage, ChatInput, ChatTool, Civil, ConnectionStatus, Now, PersonQuestion,
    QuestionAnswer,
};
use super::model::Model;
use crate::arguments::ArgumentSchema;

/// 2025-08-17T14:00:00Z, when every test begins.
const START: u64 = 1_755_439_200_000;

fn utc(time: Timestamp) -> Civil {
    let text = time.to_string();
    Civil { day: text[..10].to_owned(), minute: text[11..16].to_owned() }
}

fn id(text: &str) -> ParticipantId {
    ParticipantId::new(text).expect("an id")
}

fn envelope_id(text: &str) -> EnvelopeId {
    EnvelopeId::new(text).expect("an id")
}

/// A model, the clock, and what it wanted done.
struct Room {
    model: Model,
    elapsed: Duration,
    count: usize,
    wanted: Vec<ChatEffect>,
}

/// A tool as a list has it.
fn tool(name: &str, description: &str, schema: &ArgumentSchema) -> ChatTool {
    ChatTool { name: name.into(), description: description.into(), schema: schema.clone() }
}

impl Room {
    /// A room with alice at the terminal, of which nothing older can be had.
    fn new(columns: u16, rows: u16) -> Self {
        let mut room = Self::unloaded(columns, rows, true);
        let empty = ChatHistoryPage { envelopes: Vec::new(), more: false };
        room.put(ChatInput::Page { before: None, page: Ok(empty) });
        room.wanted.clear();
        room
    }

    fn unloaded(columns: u16, rows: u16, colour: bool) -> Self {
        let topic = TopicName::new("room:alpha").expect("a topic");
        let model = Model::new(id("alice"), topic, colour, utc);
        let mut room = Self { model, elapsed: Duration::ZERO, count: 0, wanted: Vec::new() };
        room.put(ChatInput::Resize(columns, rows));
        room.put(ChatInput::Roster(
            [
                ("alice", "human", "Alice"),
                ("bob", "human", "Bob B."),
                ("planner", "agent", "Planner"),
                ("rover", "robot", "Rover"),
            ]
            .iter()
            .map(|(id, kind, name)| serde_json::from_value(json!({"id": id, "kind": kind, "name": name})).expect("one"))
            .collect(),
        ));
        room
    }

    fn now(&self) -> Now {
        let passed = u64::try_from(self.elapsed.as_millis()).expect("short");
        Now { wall: Timestamp(START + passed), since_start: self.elapsed }
    }

    fn put(&mut self, input: ChatInput) {
        let now = self.now();
        self.model.handle(input, now);
        self.wanted.extend(self.model.effects());
    }

    fn pass(&mut self, millis: u64) {
        self.elapsed += Duration::from_millis(millis);
        self.put(ChatInput::Tick);
    }

    fn make(&mut self, from: &str, to: &str, about: Option<&str>, payload: &Value) -> Arc<Envelope> {
        self.count += 1;
        let mut whole = json!({
            "protocol": "mcp-x/v0", "id": format!("e{}", self.count), "ts": self.now().wall.to_string(), "from": from,
            "kind": if payload.get("jsonrpc").is_some() { "mcp" } else { "presence" }, "payload": payload,
        });
        if !to.is_empty() {
            whole["to"] = json!([to]);
        }
        if let Some(about) = about {
            whole["correlation_id"] = json!(about);
        }
        Arc::new(Envelope::restore(whole.to_string()).expect("an envelope"))
    }

    /// Something happens; answers the envelope's id.
    fn happens(&mut self, from: &str, to: &str, about: Option<&str>, payload: &Value) -> String {
        let envelope = self.make(from, to, about, payload);
        let id = envelope.id().to_string();
        self.put(ChatInput::Envelope(envelope));
        id
    }

    fn says(&mut self, from: &str, text: &str) -> String {
        self.happens(from, "", None, &chat(text))
    }

    fn calls(&mut self, from: &str, to: &str, tool: &str, arguments: Value) -> String {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": 7}});
        self.happens(from, to, None, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
    }

    fn asks(&mut self, from: &str, to: &str, method: &str) -> String {
        self.happens(from, to, None, &json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": {}}))
    }

    fn answers(&mut self, from: &str, to: &str, about: &str, result: Value) {
        self.happens(from, to, Some(about), &json!({"jsonrpc": "2.0", "id": 1, "result": result}));
    }

    fn progresses(&mut self, from: &str, to: &str, about: &str, params: Value) {
        let payload = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        self.happens(from, to, Some(about), &payload);
    }

    fn joins(&mut self, who: &str, kind: &str) {
        self.happens("system:gateway", "", None, &json!({"event": "join", "participant": {"id": who, "kind": kind}}));
    }

    fn leaves(&mut self, who: &str) {
        self.happens("system:gateway", "", None, &json!({"event": "leave", "participant": {"id": who}}));
    }

    fn press(&mut self, code: KeyCode) {
        self.put(ChatInput::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }

    fn control(&mut self, letter: char) {
        self.put(ChatInput::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)));
    }

    fn types(&mut self, text: &str) {
        text.chars().for_each(|letter| self.press(KeyCode::Char(letter)));
    }

    fn enters(&mut self, line: &str) {
        self.types(line);
        self.press(KeyCode::Enter);
    }

    fn rover_offers(&mut self) {
        let schema = r#"{"type":"object","properties":{"x":{"type":"number","description":"Metres east"},"y":{"type":"number","description":"Metres north"},"gear":{"enum":["slow","fast"]}},"required":["x","y"]}"#;
        let schema = ArgumentSchema::new(Some(serde_json::from_str(schema).expect("a schema")));
        let tools = vec![
            tool("move", "Drives to a place", &schema),
            tool("measure", "Measures how far it is to the next wall", &ArgumentSchema::default()),
            tool("stop", "Stops", &ArgumentSchema::default()),
        ];
        self.put(ChatInput::Tools { of: id("rover"), tools: Ok(tools) });
    }

    fn screen(&self) -> String {
        let (columns, rows) = self.model.size;
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a screen");
        terminal.draw(|frame| self.model.draw(frame, self.now())).expect("it is drawn");
        let buffer = terminal.backend().buffer();
        let mut lines = Vec::new();
        for row in 0..rows {
            let mut line = String::new();
            let mut covered = 0;
            for column in 0..columns {
                let symbol = buffer[(column, row)].symbol();
                if covered == 0 {
                    line.push_str(symbol);
                    covered = super::text::width(symbol).max(1);
                }
                covered -= 1;
            }
            lines.push(line.trim_end().to_owned());
        }
        lines.join("\n")
    }

    /// What is to be done, in words.
    fn wanted(&mut self) -> String {
        let told = self.wanted.drain(..).map(|effect| match effect {
            ChatEffect::Say { text, .. } => format!("say {text}"),
            ChatEffect::Reply { to, text, .. } => format!("reply to {to}: {text}"),
            ChatEffect::Edit { original, text, .. } => format!("edit {original}: {text}"),
            ChatEffect::Retract { original, .. } => format!("retract {original}"),
            ChatEffect::Call { to, tool, arguments, .. } => format!("call {to} {tool} {arguments}"),
            ChatEffect::Load { before } => format!("load before {}", before.map_or("now".into(), |id| id.to_string())),
            ChatEffect::ListTools(of) => format!("list tools of {of}"),
            ChatEffect::ListResources(of) => format!("list resources of {of}"),
            ChatEffect::ReadResource { of, uri } => format!("read {uri} of {of}"),
            ChatEffect::Answer { question, answer } => match answer {
                QuestionAnswer::Text(text) => format!("answer {question} {text}"),
                QuestionAnswer::Form(content) => format!("answer {question} {content}"),
                QuestionAnswer::Declined => format!("decline {question}"),
            },
            ChatEffect::Forget(question) => format!("forget {question}"),
            ChatEffect::Cancel(ticket) => format!("cancel {ticket}"),
            ChatEffect::Bell => "bell".into(),
            ChatEffect::Redraw => "redraw".into(),
            ChatEffect::Quit => "quit".into(),
        });
        told.collect::<Vec<_>>().join(", ")
    }
}

fn chat(text: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/chat/message", "params": {"text": text}})
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}
