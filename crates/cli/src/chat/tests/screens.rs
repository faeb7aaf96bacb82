//! Screens of every size.

use super::*;

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
