//! Screens, drawn from envelopes and keys. Time passes only when a test says so.

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
        let tool = |name: &str, description: &str, schema: &ArgumentSchema| ChatTool {
            name: name.into(),
            description: description.into(),
            schema: schema.clone(),
        };
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
            ChatEffect::Call { to, tool, arguments, .. } => format!("call {to} {tool} {arguments}"),
            ChatEffect::Load { before } => format!("load before {}", before.map_or("now".into(), |id| id.to_string())),
            ChatEffect::ListTools(of) => format!("list tools of {of}"),
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

/// A little of everything.
fn lively(columns: u16, rows: u16) -> Room {
    let mut room = Room::new(columns, rows);
    room.joins("rover", "robot");
    room.says(
        "bob",
        "Morning! Is the rover awake? I would like to know how far it is to the north wall before we send it there.",
    );
    let hello = room.asks("planner", "rover", "initialize");
    room.answers("rover", "planner", &hello, json!({"protocolVersion": "2025-06-18", "serverInfo": {"name": "rover"}}));
    room.pass(61_000);
    let reply = room.says("alice", "It is.");
    room.happens(
        "planner",
        "",
        Some(&reply),
        &json!({"jsonrpc": "2.0", "method": "notifications/chat/message",
        "params": {"text": "Then **let us go**:\n- `measure` first\n- *then* move", "format": "markdown"}}),
    );
    let measured = room.calls("planner", "rover", "measure", json!({"direction": "north"}));
    room.pass(240);
    room.answers("rover", "planner", &measured, text("12.5 m"));
    let moved =
        room.calls("planner", "rover", "move", json!({"x": 0, "y": 12.5, "label": "to the wall", "gear": "slow"}));
    room.pass(3_100);
    room.progresses(
        "rover",
        "planner",
        &moved,
        json!({"progressToken": 7, "progress": 5, "total": 12.5, "message": "on the way"}),
    );
    room
}

#[test]
fn a_wide_screen() {
    assert_snapshot!(lively(100, 24).screen());
}

#[test]
fn the_usual_screen() {
    assert_snapshot!(lively(80, 24).screen());
}

#[test]
fn a_narrow_screen() {
    assert_snapshot!(lively(40, 24).screen());
}

#[test]
fn hardly_a_screen() {
    assert_snapshot!(lively(20, 5).screen());
}

#[test]
fn no_screen_at_all() {
    assert_snapshot!(lively(18, 4).screen());
}

#[test]
fn everything_unfolded() {
    let mut room = lively(80, 24);
    room.press(KeyCode::F(2));
    assert_snapshot!(room.screen());
}

#[test]
fn calls_that_fail_stand_out() {
    let mut room = Room::new(80, 16);
    let refused = room.calls("planner", "rover", "move", json!({"x": 900}));
    room.pass(20);
    room.answers(
        "rover",
        "planner",
        &refused,
        json!({"content": [{"type": "text", "text": "900 m is beyond the fence"}], "isError": true}),
    );
    let lost = room.calls("planner", "rover", "measure", json!({}));
    let failed = room.calls("bob", "planner", "think", json!({}));
    room.pass(1_500);
    room.happens(
        "planner",
        "bob",
        Some(&failed),
        &json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "out of thoughts"}}),
    );
    room.leaves("rover");
    assert!(!lost.is_empty());
    let cancelled = room.calls("bob", "planner", "think", json!({"about": "x".repeat(200)}));
    room.happens(
        "bob",
        "planner",
        None,
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    );
    assert!(!cancelled.is_empty());
    let long = room.calls("bob", "planner", "recite", json!({}));
    room.answers("planner", "bob", &long, text(&"All work and no play makes a dull robot. ".repeat(20)));
    assert_snapshot!(room.screen());
}

#[test]
fn nothing_others_write_commands_the_terminal() {
    let mut room = Room::new(80, 9);
    room.says("bob", "\u{1b}[2Jgone\u{7} \u{202e}kcab\u{202c} 日本語 👩‍💻 fine");
    let call = room.calls("bob", "rover", "move\u{1b}[31m", json!({"to\u{7}": "\u{9b}31m"}));
    room.answers("rover", "bob", &call, text("\u{1b}]0;title\u{7}done"));
    room.put(ChatInput::Roster(vec![
        serde_json::from_value(json!({"id": "eve", "name": "E\u{1b}[7mve"})).expect("one"),
    ]));
    let screen = room.screen();
    assert!(!screen.chars().any(|c| c != '\n' && c.is_control()));
    assert_snapshot!(screen);
}

#[test]
fn suggestions_are_shown_and_taken_in_turn() {
    let mut room = Room::new(80, 14);
    room.says("bob", "hello");
    room.types("/call ro");
    room.press(KeyCode::Tab);
    assert_eq!(room.model.composer.text(), "/call rover ");
    room.press(KeyCode::Tab);
    assert_eq!(room.wanted(), "list tools of rover");
    assert_snapshot!(room.screen());
    room.rover_offers();
    assert_snapshot!(room.screen());
    room.press(KeyCode::Tab);
    room.press(KeyCode::Tab);
    assert_eq!(room.model.composer.text(), "/call rover measure ");
    room.press(KeyCode::BackTab);
    assert_eq!(room.model.composer.text(), "/call rover move ");
    room.types("x=1 ");
    room.press(KeyCode::Tab);
    assert_snapshot!(room.screen());
    room.press(KeyCode::Esc);
    assert_eq!(room.model.composer.text(), "/call rover move x=1 ");
}

#[test]
fn a_call_is_checked_before_it_is_made() {
    let mut room = Room::new(80, 16);
    room.enters("/call rover move x=far");
    assert_eq!(room.wanted(), "list tools of rover");
    assert!(room.screen().contains("/call rover move x=far (asking what it offers)"), "{}", room.screen());
    room.rover_offers();
    assert_eq!(room.wanted(), "");
    assert_eq!(room.model.composer.text(), "/call rover move x=far", "it is given back to be corrected");
    room.control('u');
    room.enters("/call nobody move");
    room.control('u');
    room.enters("/call rover fly");
    room.control('u');
    room.enters("/call rover move x=1 y=2.50");
    assert_eq!(room.wanted(), r#"call rover move {"x":1,"y":2.50}"#);
    assert_snapshot!(room.screen());
}

#[test]
fn what_is_refused_is_shown_with_why() {
    let mut room = Room::new(80, 12);
    room.enters("hello there");
    assert_eq!(room.wanted(), "say hello there");
    assert!(room.screen().contains("hello there (sending)"), "{}", room.screen());
    room.put(ChatInput::NotSent(1, "rate_limited: at most 100 messages a second".into()));
    room.control('u');
    room.rover_offers();
    room.enters("/call rover stop");
    room.put(ChatInput::Ended(2, CallEnding::Failed("`rover` is not in the room".into())));
    assert_snapshot!(room.screen());
}

#[test]
fn a_call_of_ones_own_runs_and_is_cancelled() {
    let mut room = Room::new(80, 8);
    room.rover_offers();
    room.enters("/call rover stop");
    assert_eq!(room.wanted(), "call rover stop {}");
    let call = room.calls("alice", "rover", "stop", json!({}));
    assert!(!room.screen().contains("(calling)"), "the call itself is shown instead");
    room.put(ChatInput::Called(1, envelope_id(&call)));
    room.enters("/cancel");
    assert_eq!(room.wanted(), "cancel 1");
    room.put(ChatInput::Ended(1, CallEnding::Cancelled));
    room.enters("/cancel");
    assert_snapshot!(room.screen());
}

#[test]
fn an_echo_takes_the_place_of_what_was_being_sent() {
    let mut room = Room::new(80, 8);
    room.enters("hello");
    room.says("alice", "hello");
    assert!(!room.screen().contains("sending"), "{}", room.screen());
    room.put(ChatInput::Sent(1));
    assert_eq!(room.screen().matches("hello").count(), 1);
}

#[test]
fn a_lost_connection_is_told_and_so_is_its_return() {
    let mut room = Room::new(80, 10);
    room.says("bob", "hello");
    let lost = |attempt, retry_in: u64| ConnectionStatus::Lost {
        attempt,
        retry_in: Some(Duration::from_millis(retry_in)),
        why: "connection refused".into(),
    };
    room.put(ChatInput::Connection(lost(1, 900)));
    room.pass(1000);
    room.put(ChatInput::Connection(lost(4, 3000)));
    room.pass(500);
    assert_snapshot!(room.screen());
    room.pass(11_000);
    room.put(ChatInput::Connection(ConnectionStatus::Live));
    assert_snapshot!(room.screen());
    room.put(ChatInput::Connection(ConnectionStatus::Over(
        "a newer connection of this participant took its seat".into(),
    )));
    assert_snapshot!(room.screen());
}

#[test]
fn an_outage_is_no_lost_connection() {
    let mut room = Room::new(80, 10);
    room.says("bob", "hello");
    room.put(ChatInput::Connection(ConnectionStatus::Stalled("nothing can be stored at the moment".into())));
    assert_snapshot!(room.screen());
    room.pass(11_000);
    room.put(ChatInput::Connection(ConnectionStatus::Live));
    assert_snapshot!(room.screen());
}

#[test]
fn looking_back_stays_where_it_is_while_more_comes() {
    let mut room = Room::new(80, 10);
    for n in 1..=40 {
        room.says("bob", &format!("line {n}"));
    }
    room.press(KeyCode::PageUp);
    let before = room.screen();
    room.says("planner", "while you looked away");
    room.says("planner", "alice, are you there?");
    assert_eq!(room.wanted(), "bell");
    let told = |screen: &str| screen.lines().take(8).map(|line| line[..40].to_owned()).collect::<Vec<_>>();
    assert_eq!(told(&room.screen()), told(&before));
    assert_snapshot!(room.screen());
    room.press(KeyCode::End);
    assert_snapshot!(room.screen());
}

/// Pages of a history of so many lines, as the gateway would give them.
struct History(Vec<Arc<Envelope>>);

impl History {
    fn new(room: &mut Room, lines: usize) -> Self {
        Self((1..=lines).map(|n| room.make("bob", "", None, &chat(&format!("line {n}")))).collect())
    }

    /// Answers every request for a page.
    fn serve(&self, room: &mut Room) -> usize {
        let mut served = 0;
        while let Some(at) = room.wanted.iter().position(|effect| matches!(effect, ChatEffect::Load { .. })) {
            let ChatEffect::Load { before } = room.wanted.remove(at) else { unreachable!("it was looked for") };
            let end =
                before.as_ref().map_or(self.0.len(), |id| self.0.iter().position(|e| e.id() == id).expect("known"));
            let start = end.saturating_sub(100);
            let envelopes = self.0[start..end].iter().rev().cloned().collect();
            room.put(ChatInput::Page { before, page: Ok(ChatHistoryPage { envelopes, more: start > 0 }) });
            served += 1;
        }
        served
    }
}

#[test]
fn older_pages_are_loaded_when_the_top_is_reached() {
    let mut room = Room::unloaded(80, 10, true);
    let history = History::new(&mut room, 250);
    assert!(room.screen().contains("loading …"), "{}", room.screen());
    assert_eq!(history.serve(&mut room), 1);
    assert!(room.screen().contains("line 250"));
    room.press(KeyCode::Home);
    assert!(room.screen().contains("loading …"), "{}", room.screen());
    assert_eq!(history.serve(&mut room), 1);
    // Still where it was, with more above.
    assert!(room.screen().lines().any(|line| line.contains("line 151")), "{}", room.screen());
    room.press(KeyCode::Home);
    history.serve(&mut room);
    room.press(KeyCode::Home);
    assert_eq!(history.serve(&mut room), 0);
    assert_snapshot!(room.screen());
}

#[test]
fn a_page_that_cannot_be_had_is_told_and_tried_again() {
    let mut room = Room::unloaded(80, 8, true);
    room.wanted.clear();
    room.put(ChatInput::Page { before: None, page: Err("the gateway cannot be reached".into()) });
    assert_snapshot!(room.screen());
    room.put(ChatInput::Connection(ConnectionStatus::Lost { attempt: 1, retry_in: None, why: String::new() }));
    room.put(ChatInput::Connection(ConnectionStatus::Live));
    assert_eq!(room.wanted(), "load before now");
}

#[test]
fn the_window_is_bounded_at_both_ends() {
    let mut room = Room::unloaded(80, 10, true);
    let history = History::new(&mut room, 5000);
    history.serve(&mut room);
    for _ in 0..40 {
        room.press(KeyCode::Home);
        history.serve(&mut room);
        assert!(room.model.transcript.items().len() <= super::transcript::MAX_ITEMS);
    }
    assert!(room.screen().contains("line 1000") || room.model.transcript.is_detached());
    room.says("bob", "meanwhile");
    assert!(!room.screen().contains("meanwhile"));
    room.press(KeyCode::End);
    assert_eq!(room.model.transcript.items().len(), 0);
    let mut all = History(history.0.clone());
    let meanwhile = room.make("bob", "", None, &chat("the present"));
    all.0.push(meanwhile);
    all.serve(&mut room);
    assert!(room.screen().contains("the present"), "{}", room.screen());
    // And a long life at the present lets go of the past.
    for n in 0..3000 {
        room.says("bob", &format!("more {n}"));
    }
    assert_eq!(room.model.transcript.items().len(), super::transcript::MAX_ITEMS);
    room.wanted.clear();
    room.press(KeyCode::Home);
    assert!(room.wanted().starts_with("load before e"), "what was let go can be loaded again");
}

#[test]
fn calls_are_paired_across_pages() {
    let mut room = Room::unloaded(80, 9, true);
    room.wanted.clear();
    let call = room.make(
        "bob",
        "rover",
        None,
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "stop"}}),
    );
    room.elapsed += Duration::from_secs(2);
    let left = room.make(
        "bob",
        "planner",
        None,
        &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "think"}}),
    );
    room.answers("rover", "bob", "e1", text("stopped"));
    room.leaves("planner");
    // Asked for before anything had happened: it does not fit any more, and is asked for again.
    room.put(ChatInput::Page { before: None, page: Ok(ChatHistoryPage { envelopes: vec![left.clone()], more: true }) });
    assert_eq!(room.wanted(), "load before e3");
    room.put(ChatInput::Page {
        before: Some(envelope_id("e3")),
        page: Ok(ChatHistoryPage { envelopes: vec![left, call], more: false }),
    });
    assert_snapshot!(room.screen());
}

#[test]
fn questions_are_answered() {
    let mut room = Room::new(80, 14);
    let asked = room.calls("planner", "alice", "ask_human", json!({"question": "Shall I open the gate?"}));
    room.put(ChatInput::Asked(PersonQuestion { id: envelope_id(&asked), from: id("planner"), form: None }));
    let params = json!({"message": "Where to?", "requestedSchema": {}});
    let form = room.happens(
        "rover",
        "alice",
        None,
        &json!({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": params}),
    );
    let schema = r#"{"type":"object","properties":{"place":{"type":"string"},"metres":{"type":"integer"}},"required":["place"]}"#;
    let schema = ArgumentSchema::new(Some(serde_json::from_str(schema).expect("a schema")));
    room.put(ChatInput::Asked(PersonQuestion { id: envelope_id(&form), from: id("rover"), form: Some(schema) }));
    assert_eq!(room.wanted(), "bell, bell");
    assert_snapshot!(room.screen());
    room.enters("/answer #2 place=home metres=many");
    room.control('u');
    room.enters("/answer #2 place='the shed' metres=3");
    assert_eq!(room.wanted(), format!(r#"answer {form} {{"place":"the shed","metres":3}}"#));
    room.enters("/answer yes, do");
    assert_eq!(room.wanted(), format!("answer {asked} yes, do"));
    room.answers("alice", "planner", &asked, text("yes, do"));
    room.answers("alice", "rover", &form, json!({"action": "accept", "content": {"place": "the shed", "metres": 3}}));
    room.enters("/decline");
    assert_snapshot!(room.screen());
}

#[test]
fn a_question_is_declined_or_withdrawn() {
    let mut room = Room::new(80, 8);
    for question in ["e101", "e102"] {
        room.put(ChatInput::Asked(PersonQuestion { id: envelope_id(question), from: id("rover"), form: None }));
    }
    room.wanted.clear();
    room.enters("/decline #2");
    assert_eq!(room.wanted(), "decline e102");
    room.put(ChatInput::Withdrawn(envelope_id("e101")));
    room.enters("/answer too late");
    assert!(room.screen().contains("nobody asks you anything"), "{}", room.screen());
}

#[test]
fn lists_are_shown_on_request() {
    let mut room = Room::new(80, 24);
    room.enters("/who");
    room.enters("/tools rover");
    assert_eq!(room.wanted(), "list tools of rover");
    room.rover_offers();
    room.enters("/tools rover");
    assert_eq!(room.wanted(), "", "it is known by now");
    room.enters("/tools planner");
    room.put(ChatInput::Tools { of: id("planner"), tools: Err("no answer in time".into()) });
    assert_snapshot!(room.screen());
    room.happens("rover", "", None, &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    room.enters("/tools rover");
    assert_eq!(room.wanted(), "list tools of planner, list tools of rover", "it may have changed");
}

#[test]
fn help_helps() {
    let mut room = Room::new(100, 24);
    room.press(KeyCode::F(1));
    assert_snapshot!(room.screen());
}

#[test]
fn replies_quote_what_they_reply_to() {
    let mut room = Room::new(80, 8);
    room.says("bob", "Shall we?");
    room.says("planner", "I am ready.");
    room.enters("/reply @bob yes");
    assert_eq!(room.wanted(), "reply to e1: yes");
    room.happens("alice", "", Some("e1"), &chat("yes"));
    room.enters("/reply good");
    assert_eq!(room.wanted(), "reply to e2: good");
    assert_snapshot!(room.screen());
}

#[test]
fn a_long_line_is_written_in_several() {
    let mut room = Room::new(40, 12);
    room.types(&"words and more words ".repeat(4));
    room.put(ChatInput::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::ALT)));
    room.types("second 日本語");
    room.press(KeyCode::Left);
    assert_snapshot!(room.screen());
    room.press(KeyCode::Enter);
    assert_eq!(room.wanted(), format!("say {}\nsecond 日本語", "words and more words ".repeat(4)));
}

#[test]
fn leaving_takes_two_presses_or_a_command() {
    let mut room = Room::new(80, 8);
    room.types("half a line");
    room.control('c');
    room.control('c');
    assert_eq!((room.wanted().as_str(), room.model.hint.as_deref()), ("", Some("Ctrl-C again leaves")));
    room.control('c');
    assert_eq!(room.wanted(), "quit");
    room.control('d');
    room.enters("/quit");
    assert_eq!(room.wanted(), "quit, quit");
}

#[test]
fn the_first_answer_counts() {
    let mut room = Room::new(80, 8);
    let call = room.calls("bob", "rover", "stop", json!({}));
    room.answers("rover", "bob", &call, text("stopped"));
    room.answers("rover", "bob", &call, text("again"));
    assert!(room.screen().contains("✓ stopped") && !room.screen().contains("again"), "{}", room.screen());
}

#[test]
fn a_screen_that_grows_shows_the_end_when_it_can() {
    let mut room = Room::new(80, 10);
    (1..=20).for_each(|n| drop(room.says("bob", &format!("line {n}"))));
    room.put(ChatInput::Wheel(-3));
    room.says("bob", "the last");
    assert!(room.screen().contains("1 new"), "{}", room.screen());
    room.put(ChatInput::Resize(80, 30));
    let screen = room.screen();
    let last = screen.lines().rev().nth(2).unwrap_or_default();
    assert!(last.contains("the last") && !screen.contains("End: to the present"), "{screen}");
}

#[test]
fn what_went_wrong_is_as_harmless_as_the_rest() {
    let mut room = Room::new(80, 8);
    room.types("/call rover ");
    room.press(KeyCode::Tab);
    room.put(ChatInput::Tools { of: id("rover"), tools: Err("\u{1b}[2J".into()) });
    assert!(room.screen().contains("rover: \\u{1b}[2J"), "{}", room.screen());
}

#[test]
fn a_crowd_that_comes_is_one_event() {
    let mut room = Room::new(80, 10);
    for n in 1..=30 {
        room.joins(&format!("agent-{n}"), "agent");
    }
    room.leaves("agent-1");
    room.leaves("agent-2");
    assert_snapshot!(room.screen());
}

#[test]
fn days_are_told_apart() {
    let mut room = Room::new(80, 8);
    room.says("bob", "good night");
    room.pass(12 * 60 * 60 * 1000);
    room.says("bob", "good morning");
    assert_snapshot!(room.screen());
}
