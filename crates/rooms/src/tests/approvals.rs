//! Held calls when nodes end in between, ids are taken, and callers hold too much.

use salon_control::{
    APPROVAL_DECIDED_METHOD, ApprovalDecision, Decision, RoleName, SETTINGS_METHOD, SettingsChange, TopicSettings,
    text_digest,
};
use serde_json::{Value, json};

use super::*;
use crate::notice;

fn id(text: &str) -> EnvelopeId {
    EnvelopeId::new(text).expect("an id")
}

fn participant(text: &str) -> ParticipantId {
    ParticipantId::new(text).expect("a name")
}

/// Settings of alice's topic, as the host would write them.
fn configured(version: u64, patch: &Value) -> Envelope {
    let members = [(participant("alice"), RoleName::owner())].into();
    let before = TopicSettings { version: version - 1, members, ..TopicSettings::default() };
    let settings = before.patched(patch).expect("settings");
    let change = SettingsChange { settings, by: participant("alice"), reason: None };
    notice(&id(&format!("settings{version}")), None, SETTINGS_METHOD, &change)
}

/// An approval of a call's text.
fn approved(call: &Draft) -> Envelope {
    let decision = ApprovalDecision {
        id: call.envelope().id().clone(),
        digest: text_digest(call.envelope().text()),
        decision: Decision::Approved,
        by: Some(participant("alice")),
        reason: None,
    };
    notice(&id("approval"), Some(call.envelope().id()), APPROVAL_DECIDED_METHOD, &decision)
}

/// A call of bob's to robot.
fn moves(call: &str) -> Draft {
    draft(call, "bob", r#""to":["robot"]"#, r#""id":1,"method":"tools/call","params":{"name":"move"}"#)
}

/// A room in which calls of robot are held.
async fn held_room(log: &Arc<Faulty>) -> (Rooms, Seat, Seat) {
    let rooms = log.rooms();
    let (mut bob, robot) = (enter(&rooms, "bob").await.seat, enter(&rooms, "robot").await.seat);
    let rules = json!({ "rules": [{ "hold": "call:robot/*", "approvers": ["alice"] }] });
    log.append(&room(), configured(1, &rules)).await.expect("stored");
    until(&mut bob, "the settings", brings("settings1")).await;
    (rooms, bob, robot)
}

fn is_held(appended: &Appended) -> bool {
    salon_control::ControlNotice::holds_call(&appended.entry.envelope)
}

#[tokio::test]
async fn what_was_approved_before_a_crash_is_stored_after_it() {
    let log = Faulty::new();
    let (rooms, bob, robot) = held_room(&log).await;
    assert!(is_held(&bob.publish(moves("c1")).outcome().await.expect("held")));
    // Everybody stays present, as after a crash, and the decision is the last that the node has stored.
    rooms.dismiss();
    drop((bob, robot));
    rooms.close().await;
    log.append(&room(), approved(&moves("c1"))).await.expect("stored");
    let rooms = log.rooms();
    let mut robot = enter(&rooms, "robot").await.seat;
    let told = until(&mut robot, "the call", brings("c1")).await;
    let entries = told.iter().flat_map(Happening::entries);
    let calls: Vec<_> = entries.filter(|entry| entry.envelope.id().as_str() == "c1").collect();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].envelope.text(), moves("c1").envelope().text());
    drop(robot);
    close(rooms, log).await;
}

#[tokio::test]
async fn an_approved_call_whose_id_is_taken_fails() {
    let log = Faulty::new();
    let (rooms, mut bob, robot) = held_room(&log).await;
    bob.publish(moves("c1")).outcome().await.expect("held");
    // A node that does not know of the hold yet has accepted it.
    log.append(&room(), chat("c1")).await.expect("stored");
    log.append(&room(), approved(&moves("c1"))).await.expect("stored");
    until(&mut bob, "the failure of his call", fails("c1")).await;
    drop((bob, robot));
    close(rooms, log).await;
}

#[tokio::test]
async fn a_call_that_is_stopped_before_it_is_stored_is_not_stored() {
    let log = Faulty::new();
    let (rooms, mut bob, robot) = held_room(&log).await;
    bob.publish(moves("c1")).outcome().await.expect("held");
    log.append(&room(), configured(2, &json!({ "paused": ["bob"] }))).await.expect("stored");
    until(&mut bob, "the end of his call", fails("c1")).await;
    // What a slower node does now.
    let late = log.append(&room(), moves("c1").trust()).await;
    assert!(matches!(late, Err(AppendError::Stale)), "{late:?}");
    drop((bob, robot));
    close(rooms, log).await;
}

#[tokio::test]
async fn callees_of_a_stopped_caller_are_told_after_a_crash() {
    let log = Faulty::new();
    let rooms = log.rooms();
    let (mut bob, robot) = (enter(&rooms, "bob").await.seat, enter(&rooms, "robot").await.seat);
    bob.publish(moves("c1")).outcome().await.expect("stored");
    until(&mut bob, "his call", brings("c1")).await;
    rooms.dismiss();
    drop((bob, robot));
    rooms.close().await;
    log.append(&room(), configured(1, &json!({ "removed": ["bob"] }))).await.expect("stored");
    let rooms = log.rooms();
    let mut robot = enter(&rooms, "robot").await.seat;
    let is_cancelled = |happening: &Happening| {
        let is_one = |entry: &Arc<Entry>| {
            entry.envelope.from().as_str() == "bob" && entry.envelope.correlation() == Some(&id("c1"))
        };
        happening.entries().iter().any(is_one)
    };
    until(&mut robot, "the cancellation", is_cancelled).await;
    drop(robot);
    close(rooms, log).await;
}

#[tokio::test]
async fn one_caller_holds_only_so_much() {
    let log = Faulty::new();
    let (rooms, mut bob, robot) = held_room(&log).await;
    for number in 0..64 {
        bob.publish(moves(&format!("c{number}"))).outcome().await.expect("held");
    }
    // The same again is held once, whether or not the room has read the notice.
    assert!(is_held(&bob.publish(moves("c63")).outcome().await.expect("held")));
    let is_last = |happening: &Happening| {
        happening.entries().iter().any(|entry| entry.envelope.correlation() == Some(&id("c63")))
    };
    until(&mut bob, "the last notice", is_last).await;
    let refused = bob.publish(moves("c64")).outcome().await.expect_err("too many");
    assert_eq!((refused.code, refused.regarding), (Code::RateLimited, Some(id("c64"))));
    drop((bob, robot));
    close(rooms, log).await;
}

/// A reader without a seat, as of `GET …/stream`, has credentials too.
#[tokio::test]
async fn who_is_removed_reads_nothing_more_without_a_seat() {
    let log = Faulty::new();
    let rooms = log.rooms();
    let (mallory, topic) = (participant("mallory"), room());
    let reading = rooms.observe(&topic, None, Interest::default(), Some((&mallory, None)));
    let mut cursor = reading.await.expect("a cursor");
    log.append(&topic, configured(1, &json!({ "removed": ["mallory"] }))).await.expect("stored");
    let ended = async {
        let mut out = Vec::new();
        loop {
            if let Err(reason) = cursor.next(&mut out, 1 << 20).await {
                return reason;
            }
        }
    };
    assert_eq!(soon("the end", ended).await, CloseReason::Removed);
    let refused = rooms.observe(&topic, None, Interest::default(), Some((&mallory, None))).await.map(drop);
    assert_eq!(refused.expect_err("refused").code, Code::Forbidden);
    drop(cursor);
    close(rooms, log).await;
}
