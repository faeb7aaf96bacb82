//! Calls, and questions of others.

use super::*;

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
fn a_command_that_one_may_not_use_says_what_it_needs() {
    let mut room = Room::new(160, 10);
    room.enters("/stop smoke");
    assert_eq!(room.wanted(), "list tools of system:gateway");
    let tools = vec![tool("chat.say", "Says something", &ArgumentSchema::default())];
    room.put(ChatInput::Tools { of: ParticipantId::host(), tools: Ok(tools) });
    assert_eq!(room.wanted(), "");
    let screen = room.screen();
    assert!(screen.contains("you may not do this in this room: `room.stop` needs a role"), "{screen}");
    assert!(!screen.contains("has no tool"), "{screen}");
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
fn a_call_that_waits_for_the_list_of_tools_is_cancelled_before_it_is_sent() {
    let mut room = Room::new(80, 8);
    room.enters("/call rover stop");
    room.wanted();
    room.enters("/cancel");
    assert_eq!(room.wanted(), "");
    assert!(room.screen().contains("cancelled before it was sent"), "{}", room.screen());
    room.rover_offers();
    assert_eq!(room.wanted(), "", "nothing is called any more");
}

#[test]
fn questions_are_answered() {
    let mut room = Room::new(80, 14);
    let asked = room.calls("planner", "alice", "ask_human", json!({"question": "Shall I open the gate?"}));
    room.put(ChatInput::Question(PersonQuestion { id: envelope_id(&asked), from: id("planner"), form: None }));
    let params = json!({"message": "Where to?", "requestedSchema": {}});
    let form = room.happens(
        "rover",
        "alice",
        None,
        &json!({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": params}),
    );
    let schema = r#"{"type":"object","properties":{"place":{"type":"string"},"metres":{"type":"integer"}},"required":["place"]}"#;
    let schema = ArgumentSchema::new(Some(serde_json::from_str(schema).expect("a schema")));
    room.put(ChatInput::Question(PersonQuestion { id: envelope_id(&form), from: id("rover"), form: Some(schema) }));
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
        room.put(ChatInput::Question(PersonQuestion { id: envelope_id(question), from: id("rover"), form: None }));
    }
    room.wanted.clear();
    room.enters("/decline #2");
    assert_eq!(room.wanted(), "decline e102");
    room.put(ChatInput::Withdrawn(envelope_id("e101")));
    room.enters("/answer too late");
    assert!(room.screen().contains("nobody asks you anything"), "{}", room.screen());
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
fn resources_are_listed_and_read() {
    let mut room = Room::new(80, 12);
    room.enters("/read rover");
    assert_eq!(room.wanted(), "list resources of rover");
    let rows = vec![("map://1".to_owned(), "The map".to_owned())];
    room.put(ChatInput::Resources { of: id("rover"), rows: Ok(rows) });
    room.enters("/read rover map://1");
    assert_eq!(room.wanted(), "read map://1 of rover");
    let text = Ok("north\nsouth\u{1b}[2J".to_owned());
    room.put(ChatInput::Resource { of: id("rover"), uri: "map://1".into(), text });
    room.enters("/read rover map://2");
    room.wanted();
    room.put(ChatInput::Resource { of: id("rover"), uri: "map://2".into(), text: Err("no such map".into()) });
    assert_snapshot!(room.screen(), @r"
                                                                │ people 2
    ────────────────── beginning of history ─────────────────── │ ● alice (you)
    ─────────────────────── 2025-08-17 ──────────────────────── │ ● bob Bob B.
    14:00 rover has, for `/read rover URI`                      │ agents 1
            map://1  The map                                    │ ◆ planner
    14:00 map://1 of rover                                      │ robots 1
          north                                                 │ ■ rover
          south\u{1b}[2J                                        │
    14:00 ✗ /read rover map://2                                 │
          no such map                                           │
     room:alpha · alice · ● live                                            F1 help
    › /read rover map://2
    ");
    room.control('u');
    room.enters("/read nobody");
    assert_eq!(room.wanted(), "");
}

#[test]
fn a_form_is_held_to_its_formats() {
    let mut room = Room::new(80, 10);
    let form = r#"{"type":"object","properties":{"day":{"type":"string","format":"date"},"sure":{"type":"boolean"}},"required":["day"]}"#;
    let raw: Box<serde_json::value::RawValue> = serde_json::from_str(form).expect("a schema");
    let form = Some(crate::arguments::ArgumentSchema::new(Some(&raw)));
    room.put(ChatInput::Question(PersonQuestion { id: envelope_id("q1"), from: id("rover"), form }));
    room.wanted();
    room.enters("/answer day=2026-02-30");
    assert_eq!(room.wanted(), "");
    room.control('u');
    room.enters("/answer day=2026-02-28 sure=yes");
    assert_eq!(room.wanted(), r#"answer q1 {"day":"2026-02-28","sure":true}"#);
}
