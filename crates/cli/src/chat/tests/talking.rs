//! What one writes, and the connection it goes by.

use super::*;

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
fn somebody_who_left_is_replied_to() {
    let mut room = Room::new(80, 8);
    room.says("bob", "Shall we?");
    room.leaves("bob");
    room.enters("/reply @bob yes");
    assert_eq!(room.wanted(), "reply to e1: yes");
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
fn what_was_said_is_edited_and_retracted() {
    let revision = |what: &str, params: Value| json!({ "jsonrpc": "2.0", "method": format!("notifications/chat/{what}"), "params": params });
    let mut room = Room::new(80, 10);
    room.says("alice", "helo");
    room.says("bob", "secret plan");
    room.enters("/edit hello");
    assert_eq!(room.wanted(), "edit e1: hello");
    assert!(room.screen().contains("editing"), "{}", room.screen());
    room.happens("alice", "", Some("e1"), &revision("edit", json!({ "text": "hello" })));
    // Nobody else's: the gateway refuses it, and a view does not show it.
    room.happens("mallory", "", Some("e1"), &revision("edit", json!({ "text": "mine" })));
    room.happens("bob", "", Some("e2"), &revision("retract", json!({})));
    room.happens("bob", "", Some("e2"), &revision("edit", json!({ "text": "after all" })));
    let screen = room.screen();
    assert!(screen.contains("hello (edited)") && screen.contains("bob (retracted)"), "{screen}");
    assert!(!["helo", "mine", "secret", "after all"].iter().any(|gone| screen.contains(gone)), "{screen}");
    room.enters("/retract");
    assert_eq!(room.wanted(), "retract e1");
}

#[test]
fn what_was_redacted_is_shown_no_more() {
    let mut room = Room::new(80, 10);
    room.says("bob", "the key is hunter2");
    room.says("planner", "thanks");
    let message = json!({ "id": "e1", "from": "bob", "offset": 1, "digest": "sha256:00", "tombstone": "{}" });
    let params = json!({ "id": "e1", "by": "alice", "reason": "a password", "messages": [message] });
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/message/redacted", "params": params });
    room.happens("system:gateway", "", Some("e1"), &notice);
    assert!(!room.screen().contains("hunter2"), "{}", room.screen());
    assert_snapshot!(room.screen());
}

#[test]
fn a_message_says_whom_it_is_for() {
    let mut room = Room::new(80, 10);
    room.happens("bob", "rover", None, &chat("please stop"));
    room.happens("rover", "alice", None, &chat("stopped"));
    room.says("bob", "thanks");
    assert_snapshot!(room.screen(), @r"
                                                                │ people 2
                                                                │ ● alice (you)
                                                                │ ● bob Bob B.
    ────────────────── beginning of history ─────────────────── │ agents 1
    ─────────────────────── 2025-08-17 ──────────────────────── │ ◆ planner
    14:00      bob → rover: please stop                         │ robots 1
    14:00    rover → alice: stopped                             │ ■ rover
    14:00      bob thanks                                       │
     room:alpha · alice · ● live                                            F1 help
    ›
    ");
}
