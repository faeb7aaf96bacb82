//! Older pages, and staying where one looks.

use super::*;

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
        assert!(room.model.transcript.items().len() <= crate::chat::transcript::MAX_ITEMS);
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
    assert_eq!(room.model.transcript.items().len(), crate::chat::transcript::MAX_ITEMS);
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
