//! The approval machine: however notices, votes, cancellations, leaves and restarts follow each other, a call is let through at most once, only
//! after enough approvals of exactly its text, and ends once.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use salon_control::{
    APPROVAL_DECIDED_METHOD, APPROVAL_REQUESTED_METHOD, ApprovalDecision, ApprovalRequest, DELETED_METHOD, Decision,
    RoleName, SETTINGS_METHOD, SettingsChange, TopicSettings,
};
use salon_protocol::{Entry, Envelope, EnvelopeId, FailureCause, ParticipantId, Position, Timestamp};
use serde_json::{Value, json};

use super::*;

fn id(text: &str) -> ParticipantId {
    ParticipantId::new(text).expect("an id")
}

fn envelope_id(text: &str) -> EnvelopeId {
    EnvelopeId::new(text).expect("an id")
}

fn text(id: &str, from: &str, to: &[&str], payload: &Value) -> String {
    let envelope = json!({ "protocol": "mcp-x/v0", "id": id, "ts": "2026-01-01T00:00:00Z", "from": from, "to": to, "kind": "mcp", "payload": payload });
    envelope.to_string()
}

/// The call of bob's number, as he wrote it.
fn call(number: u8) -> String {
    let payload = json!({ "jsonrpc": "2.0", "id": number, "method": "tools/call", "params": { "name": "move" } });
    text(&format!("c{number}"), "bob", &["robot"], &payload)
}

/// Settings of alice's topic.
fn founded(version: u64) -> TopicSettings {
    TopicSettings { version, members: [(id("alice"), RoleName::owner())].into(), ..TopicSettings::default() }
}

struct Log {
    fold: Fold,
    offset: u64,
}

impl Log {
    fn new() -> Self {
        let mut log = Self { fold: Fold::default(), offset: 0 };
        log.presence("join", "bob");
        log.presence("join", "robot");
        log
    }

    fn take(&mut self, text: String) -> FoldEffect {
        self.offset += 1;
        let envelope = Envelope::restore(text).expect("an envelope");
        let position = Position { epoch: 1, offset: self.offset };
        // What the log would refuse is not in it.
        if let Some(why) = self.fold.ignores(&envelope) {
            return FoldEffect::Ignored(why);
        }
        self.fold.apply(&Arc::new(Entry { position, arrived: Timestamp(0), stamp: None, envelope }))
    }

    fn notice(&mut self, method: &str, params: &impl serde::Serialize) -> FoldEffect {
        let payload = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let id = format!("n{}", self.offset);
        self.take(text(&id, "system:gateway", &[], &payload))
    }

    fn presence(&mut self, event: &str, who: &str) -> FoldEffect {
        let payload = json!({ "event": event, "participant": { "id": who } });
        let envelope = json!({ "protocol": "mcp-x/v0", "id": format!("p{}", self.offset), "ts": "2026-01-01T00:00:00Z", "from": "system:gateway", "kind": "presence", "payload": payload });
        self.take(envelope.to_string())
    }

    fn hold(&mut self, number: u8, needs: u32) -> FoldEffect {
        let request = call(number);
        let digest = format!("sha256:{number}");
        let (caller, callee, tool) = (id("bob"), id("robot"), "move".to_owned());
        let id = envelope_id(&format!("c{number}"));
        let held = ApprovalRequest {
            id,
            request,
            digest,
            caller,
            callee,
            tool,
            needs,
            approvers: Vec::new(),
            self_approval: false,
            expires: Timestamp(1),
        };
        self.notice(APPROVAL_REQUESTED_METHOD, &held)
    }

    fn decide(&mut self, number: u8, decision: Decision, by: Option<&str>, digest: &str) -> FoldEffect {
        let decided = ApprovalDecision {
            id: envelope_id(&format!("c{number}")),
            digest: digest.into(),
            decision,
            by: by.map(id),
            reason: None,
        };
        self.notice(APPROVAL_DECIDED_METHOD, &decided)
    }

    fn cancel(&mut self, number: u8) -> FoldEffect {
        let payload =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": number } });
        let id = format!("x{}", self.offset);
        self.take(text(&id, "bob", &["robot"], &payload))
    }

    fn restart(&mut self) {
        self.fold = Fold::restore(&self.fold.standing(1, 0));
    }

    fn settings(&mut self, version: u64, patch: &Value) -> FoldEffect {
        let settings = founded(version - 1).patched(patch).expect("settings");
        self.notice(SETTINGS_METHOD, &SettingsChange { settings, by: id("alice"), reason: None })
    }

    fn causes(&self) -> Vec<(String, FailureCause)> {
        let failed = self.fold.failed_calls(&id("bob"), 0, self.offset);
        failed.into_iter().map(|call| (call.request.to_string(), call.cause)).collect()
    }
}

#[test]
fn of_two_changes_from_one_version_the_first_counts() {
    let mut log = Log::new();
    assert_eq!(log.settings(1, &json!({ "title": "one" })), FoldEffect::Counts);
    assert_eq!(log.settings(1, &json!({ "title": "two" })), FoldEffect::Ignored(Ignored::Stale));
    assert_eq!(log.settings(2, &json!({ "title": "three" })), FoldEffect::Counts);
    log.restart();
    assert_eq!(log.fold.settings().and_then(|settings| settings.title.clone()).as_deref(), Some("three"));
    assert_eq!(log.settings(2, &json!({})), FoldEffect::Ignored(Ignored::Stale));
}

#[test]
fn nobody_but_the_gateway_writes_notices() {
    let mut log = Log::new();
    let change = SettingsChange {
        settings: founded(0).patched(&json!({ "archived": true })).expect("settings"),
        by: id("bob"),
        reason: None,
    };
    let payload = json!({ "jsonrpc": "2.0", "method": SETTINGS_METHOD, "params": change });
    assert_eq!(log.take(text("m1", "bob", &[], &payload)), FoldEffect::Counts);
    assert_eq!(log.fold.settings(), None);
}

#[test]
fn a_pause_ends_calls_that_wait_and_calls_that_are_held() {
    let mut log = Log::new();
    log.take(call(1));
    log.hold(2, 1);
    assert_eq!(log.settings(1, &json!({ "paused": ["bob"] })), FoldEffect::FailsCalls);
    let stopped = |request: &str| (request.to_owned(), FailureCause::Stopped);
    assert_eq!(log.causes(), [stopped("c1"), stopped("c2")]);
    log.restart();
    assert_eq!(log.causes(), [stopped("c1"), stopped("c2")], "a restart keeps why");
    assert!(log.fold.held_calls().is_empty());
}

#[test]
fn what_is_held_for_a_participant_that_has_left_is_stale() {
    let mut log = Log::new();
    log.hold(1, 1);
    // A leave of somebody who is not here changes nothing.
    assert_eq!(log.presence("leave", "carol"), FoldEffect::Ignored(Ignored::Leave));
    assert_eq!(log.fold.held_calls().len(), 1);
    assert_eq!(log.presence("leave", "bob"), FoldEffect::FailsCalls);
    assert_eq!(log.causes(), [("c1".to_owned(), FailureCause::Withdrawn)]);
    assert_eq!(log.hold(2, 1), FoldEffect::Ignored(Ignored::Stale));
    assert_eq!(log.fold.released(&envelope_id("c1")), Some(FailureCause::Withdrawn));
}

#[test]
fn a_stop_spares_moderators_and_ends_each_call_once() {
    let mut log = Log::new();
    log.presence("join", "alice");
    log.take(call(1));
    assert_eq!(log.settings(1, &json!({ "stopped": true })), FoldEffect::FailsCalls);
    assert_eq!(log.causes(), [("c1".to_owned(), FailureCause::Stopped)]);
    let stopped = |log: &Log, after| -> Vec<_> {
        log.fold.stopped_calls(after).into_iter().map(|call| call.request.to_string()).collect()
    };
    assert_eq!(stopped(&log, 0), ["c1"]);
    assert!(stopped(&log, log.offset).is_empty());
    // A person may have called meanwhile; the next change of the settings is not another stop.
    log.take(call(2));
    assert_eq!(log.settings(2, &json!({ "stopped": true, "title": "x" })), FoldEffect::Counts);
}

#[test]
fn nothing_of_before_counts_after_a_deletion() {
    let mut log = Log::new();
    log.settings(1, &json!({ "access": "members" }));
    log.hold(1, 1);
    assert_eq!(log.notice(DELETED_METHOD, &json!({ "by": "alice" })), FoldEffect::Counts);
    for restarted in [false, true] {
        if restarted {
            log.restart();
        }
        assert!(log.fold.is_vacant() && log.fold.settings().is_none() && log.fold.held_calls().is_empty());
        assert_eq!((log.fold.population(), log.causes()), (0, vec![]));
        // What nodes had accepted before they read of it.
        assert_eq!(log.take(call(2)), FoldEffect::Ignored(Ignored::Stale));
        assert_eq!(log.decide(1, Decision::Approved, Some("v1"), "sha256:1"), FoldEffect::Ignored(Ignored::Stale));
        assert_eq!(log.notice(DELETED_METHOD, &json!({ "by": "alice" })), FoldEffect::Ignored(Ignored::Stale));
        assert_eq!(log.presence("leave", "bob"), FoldEffect::Ignored(Ignored::Stale));
    }
    assert_eq!(log.presence("join", "carol"), FoldEffect::Counts);
    assert!(!log.fold.is_vacant());
    log.restart();
    assert!(!log.fold.is_vacant() && log.fold.deletion().is_some(), "what is before it is still to be removed");
}

#[derive(Debug, Clone)]
enum Step {
    Hold(u8),
    Vote(u8, u8),
    WrongDigest(u8, u8),
    Deny(u8),
    Expire(u8),
    Cancel(u8),
    Store(u8),
    /// A node that does not know yet that the call has ended stores it.
    StoreLate(u8),
    Drop(u8),
    Pause,
    Leave,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let number = 1..4_u8;
    prop_oneof![
        4 => number.clone().prop_map(Step::Hold),
        6 => (number.clone(), 0..3_u8).prop_map(|(number, by)| Step::Vote(number, by)),
        1 => (number.clone(), 0..3_u8).prop_map(|(number, by)| Step::WrongDigest(number, by)),
        1 => number.clone().prop_map(Step::Deny),
        1 => number.clone().prop_map(Step::Expire),
        1 => number.clone().prop_map(Step::Cancel),
        4 => number.clone().prop_map(Step::Store),
        2 => number.clone().prop_map(Step::StoreLate),
        1 => number.prop_map(Step::Drop),
        1 => Just(Step::Pause),
        1 => Just(Step::Leave),
        2 => Just(Step::Restart),
    ]
}

/// What a call should be, by the rules in words.
#[derive(Debug, Clone, PartialEq)]
enum Expected {
    Held(Vec<u8>),
    Approved,
    Stored,
    Failed(FailureCause),
}

proptest! {
    #[test]
    fn a_held_call_is_let_through_once_or_ends_once(needs in 1..3_u32, steps in proptest::collection::vec(step(), 0..40)) {
        let mut log = Log::new();
        let mut expected: BTreeMap<u8, Expected> = BTreeMap::new();
        let mut version = 0;
        for step in steps {
            match step {
                // An id is used once: the log refuses a second.
                Step::Hold(number) if !expected.contains_key(&number) => {
                    log.hold(number, needs);
                    expected.insert(number, Expected::Held(Vec::new()));
                }
                // The log refuses the notice of a call that is stored, by its id.
                Step::Hold(number) if expected[&number] == Expected::Stored => {}
                Step::Hold(number) => {
                    prop_assert_eq!(log.hold(number, needs), FoldEffect::Ignored(Ignored::Stale));
                }
                Step::Vote(number, by) => {
                    log.decide(number, Decision::Approved, Some(&format!("v{by}")), &format!("sha256:{number}"));
                    if let Some(Expected::Held(votes)) = expected.get_mut(&number) {
                        if !votes.contains(&by) { votes.push(by); }
                        if votes.len() >= needs as usize { expected.insert(number, Expected::Approved); }
                    }
                }
                Step::WrongDigest(number, by) => {
                    let effect = log.decide(number, Decision::Approved, Some(&format!("v{by}")), "sha256:other");
                    prop_assert_eq!(effect, FoldEffect::Ignored(Ignored::Stale));
                }
                Step::Deny(number) | Step::Expire(number) => {
                    let (decision, cause) = match step {
                        Step::Deny(_) => (Decision::Denied, FailureCause::Denied),
                        _ => (Decision::Expired, FailureCause::Expired),
                    };
                    log.decide(number, decision, None, &format!("sha256:{number}"));
                    if matches!(expected.get(&number), Some(Expected::Held(_))) {
                        expected.insert(number, Expected::Failed(cause));
                    }
                }
                Step::Cancel(number) => {
                    log.cancel(number);
                    if matches!(expected.get(&number), Some(Expected::Held(_) | Expected::Approved)) {
                        expected.insert(number, Expected::Failed(FailureCause::Withdrawn));
                    }
                }
                // A node stores what the fold says is approved, and nothing else.
                Step::Store(number) => {
                    let held = log.fold.held_calls().get(&envelope_id(&format!("c{number}"))).filter(|hold| hold.is_approved());
                    let approved = held.map(|hold| hold.request.request.clone());
                    prop_assert_eq!(approved.is_some(), expected.get(&number) == Some(&Expected::Approved));
                    if let Some(text) = approved {
                        prop_assert_eq!(&text, &call(number), "these bytes were approved");
                        log.take(text);
                        expected.insert(number, Expected::Stored);
                    }
                }
                Step::StoreLate(number) => {
                    if matches!(expected.get(&number), Some(Expected::Failed(_))) {
                        prop_assert_eq!(log.take(call(number)), FoldEffect::Ignored(Ignored::Stale));
                    }
                }
                Step::Drop(number) => {
                    log.decide(number, Decision::Dropped, None, &format!("sha256:{number}"));
                    if expected.get(&number) == Some(&Expected::Approved) {
                        expected.insert(number, Expected::Failed(FailureCause::Withdrawn));
                    }
                }
                Step::Pause => {
                    log.settings(version + 1, &json!({ "paused": ["bob"] }));
                    log.settings(version + 2, &json!({}));
                    version += 2;
                    for state in expected.values_mut() {
                        if !matches!(state, Expected::Failed(_)) { *state = Expected::Failed(FailureCause::Stopped); }
                    }
                }
                Step::Leave => {
                    log.presence("leave", "bob");
                    log.presence("join", "bob");
                    for state in expected.values_mut() {
                        if matches!(state, Expected::Held(_) | Expected::Approved) {
                            *state = Expected::Failed(FailureCause::Withdrawn);
                        }
                    }
                }
                Step::Restart => log.restart(),
            }
            // Another node, which opens the topic now, agrees.
            let other = Fold::restore(&log.fold.standing(1, 0));
            prop_assert!(other.held_calls().keys().eq(log.fold.held_calls().keys()), "what another node holds");
            let approved = |fold: &Fold| fold.held_calls().values().map(HeldCall::is_approved).collect::<Vec<_>>();
            prop_assert_eq!(approved(&other), approved(&log.fold), "what another node would store");
            let failed: BTreeMap<String, FailureCause> = log.causes().into_iter().collect();
            prop_assert_eq!(failed.len(), log.causes().len(), "a call ends once");
            for (number, state) in &expected {
                let request = format!("c{number}");
                let held = log.fold.held_calls().contains_key(&envelope_id(&request));
                prop_assert_eq!(held, matches!(state, Expected::Held(_) | Expected::Approved), "{}", request);
                let cause = match state { Expected::Failed(cause) => Some(*cause), _ => None };
                prop_assert_eq!(failed.get(&request).copied(), cause, "{}", request);
                let waits = log.fold.end_of(&envelope_id(&request)).is_none();
                prop_assert_eq!(waits, *state == Expected::Stored, "{}", request);
            }
        }
    }
}
