use insta::assert_snapshot;
use proptest::prelude::*;
use salon_protocol::{Draft, Envelope, Limits};
use serde_json::json;

use super::*;
use crate::act::called_tool;
use crate::authority::{Authority, HeldBy};

fn id(text: &str) -> ParticipantId {
    ParticipantId::new(text).expect("an id")
}

/// A topic of root's that nobody has changed yet.
fn founded() -> TopicSettings {
    TopicSettings { members: [(id("root"), RoleName::owner())].into(), ..TopicSettings::default() }
}

fn settings(patch: Value) -> TopicSettings {
    founded().patched(&patch).expect("settings")
}

fn refused(patch: Value) -> String {
    founded().patched(&patch).expect_err("a refusal").to_string()
}

fn envelope(from: &str, to: &str, payload: Value) -> Envelope {
    let text = json!({ "protocol": "mcp-x/v0", "id": "e1", "ts": "2026-01-01T00:00:00Z", "from": from, "to": [to], "kind": "mcp", "payload": payload });
    Draft::parse(text.to_string(), &Limits::default()).expect("a draft").trust()
}

fn call(from: &str, to: &str, tool: &str) -> Envelope {
    envelope(
        from,
        to,
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": {} } }),
    )
}

#[test]
fn without_settings_everybody_is_a_member() {
    let none = TopicSettings::default();
    assert_eq!(none.role_of(&id("bob")).expect("a role").as_str(), "member");
    let may = none.capabilities_of(&id("bob")).expect("a member");
    assert!(may.allows(&Act::Say) && may.allows_all_calls() && !may.allows(&Act::Manage));
    assert!(!none.is_paused(&id("bob"), false) && !none.ends_calls_of(&id("bob"), None));
    assert_eq!(ruled(&none, &call("a", "robot", "move")), None);
    assert_eq!(serde_json::to_string(&none).expect("JSON"), r#"{"version":0,"access":"token"}"#);
}

#[test]
fn a_topic_for_members() {
    let room = settings(json!({ "access": "members", "members": { "alice": "owner", "bob": "observer" } }));
    assert_eq!(room.version, 1);
    assert_eq!(room.capabilities_of(&id("alice")).expect("an owner"), &CapabilitySet::all());
    assert!(!room.capabilities_of(&id("bob")).expect("an observer").allows(&Act::Say));
    assert_eq!(room.role_of(&id("mallory")), None);
    let without_bob = room.patched(&json!({ "members": { "bob": null } })).expect("settings");
    assert_eq!((without_bob.version, without_bob.role_of(&id("bob"))), (2, None));
    assert_eq!(without_bob.members.len(), 2);
}

#[test]
fn a_removed_participant_has_no_role_even_as_a_member() {
    let room = settings(json!({ "members": { "bob": "owner" }, "removed": ["bob"] }));
    assert_eq!(room.role_of(&id("bob")), None);
}

#[test]
fn a_stop_pauses_everybody_but_people_and_moderators() {
    let room = settings(json!({
        "stopped": true, "paused": ["carol"], "members": { "guard": "guard" }, "roles": { "guard": ["read", "moderate"] }
    }));
    let paused = |who: &str, is_human| room.is_paused(&id(who), is_human);
    assert!(paused("bot", false) && !paused("alice", true) && paused("carol", true));
    assert!(!paused("root", false) && !paused("guard", false), "they can end the stop");
    let ends = |who: &str| room.ends_calls_of(&id(who), None);
    assert!(ends("bot") && ends("alice") && ends("carol") && !ends("root") && !ends("guard"));
}

#[test]
fn each_cause_ends_calls_by_itself() {
    let stopped = settings(
        json!({ "stopped": true, "members": { "guard": "guard" }, "roles": { "guard": ["read", "moderate"] } }),
    );
    let ends = |patch, who: &str| {
        let after = stopped.patched(&patch).expect("settings");
        after.ends_calls_of(&id(who), Some(&stopped))
    };
    assert!(!ends(json!({ "title": "Lab" }), "alice"), "what she has called since the stop goes on");
    assert!(ends(json!({ "paused": ["alice"] }), "alice"));
    assert!(ends(json!({ "removed": ["alice"] }), "alice"));
    assert!(ends(json!({ "members": { "guard": null } }), "guard"), "the stop concerns the guard now");
}

/// What the rules say of a call: the effect, and when it would expire.
fn ruled(room: &TopicSettings, envelope: &Envelope) -> Option<(RuleEffect, u64)> {
    let tool = called_tool(envelope).unwrap_or_default();
    let act = Act::of(envelope, &tool);
    room.rule_for(envelope.from(), &act).map(|(rule, effect)| (effect, rule.expires_ms))
}

#[test]
fn the_first_rule_that_matches_counts() {
    let room = settings(json!({
        "members": { "alice": "owner" },
        "rules": [
            { "allow": "call:robot-*/stop" },
            { "hold": "call:robot-*/move*", "approvers": ["role:owner"], "callers": ["bob"] },
            { "hold": "call:robot-*/*", "approvers": ["carol"], "needs": 1, "expires_ms": 60_000 },
            { "deny": "call:*/format" },
        ]
    }));
    assert_eq!(ruled(&room, &call("bob", "robot-1", "stop")).map(|(effect, _)| effect), Some(RuleEffect::Allow));
    assert_eq!(ruled(&room, &call("bob", "robot-1", "move_arm")), Some((RuleEffect::Hold, 300_000)));
    assert_eq!(ruled(&room, &call("dave", "robot-1", "move_arm")), Some((RuleEffect::Hold, 60_000)));
    assert_eq!(ruled(&room, &call("dave", "rover", "move_arm")), None);
    assert_eq!(ruled(&room, &call("dave", "disk", "format")).map(|(effect, _)| effect), Some(RuleEffect::Deny));
    // A method that MCP does not know is a call of that name; a list is none.
    let method = |method: &str| envelope("dave", "robot-1", json!({ "jsonrpc": "2.0", "id": 1, "method": method }));
    assert_eq!(ruled(&room, &method("arm/jump")), Some((RuleEffect::Hold, 60_000)));
    assert_eq!(ruled(&room, &method("tools/list")), None);
    // A call that names no tool is one of a tool without a name, which `*` covers.
    let nameless = envelope("dave", "robot-1", json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call" }));
    assert_eq!(ruled(&room, &nameless), Some((RuleEffect::Hold, 60_000)));
    let approvers = &room.rules[1].approvers;
    assert!(room.is_one_of(approvers, &id("alice")) && !room.is_one_of(approvers, &id("bob")));
}

#[test]
fn what_is_wrong_is_said() {
    assert_snapshot!(refused(json!({ "colour": 1 })), @"there is no setting `colour`");
    assert_snapshot!(refused(json!({ "rules": [{ "hold": "call:a/b", "need": 2 }] })), @"there is no setting `need`");
    assert_snapshot!(refused(json!([])), @"the settings cannot be read: a change is an object");
    for ownerless in [
        json!({ "members": { "root": null } }),
        json!({ "members": { "root": "member" } }),
        json!({ "removed": ["root"] }),
    ] {
        assert_eq!(refused(ownerless), "a topic needs a member with the role `owner` that is not removed");
    }
    assert_snapshot!(refused(json!({ "members": { "bob": "chief" } })), @"the role `chief` is not defined");
    assert_snapshot!(refused(json!({ "roles": { "owner": [] } })), @"the role `owner` may do everything and cannot be defined otherwise");
    assert_snapshot!(refused(json!({ "rules": [{ "hold": "say" }] })), @"a rule has one of `hold`, `allow` and `deny`, with calls such as `call:robot-*/move*`");
    assert_snapshot!(refused(json!({ "rules": [{ "hold": "call:a/b", "needs": 0 }] })), @"`needs` is a number from 1 to 32");
    assert_snapshot!(refused(json!({ "rules": [{ "hold": "call:a/b", "expires_ms": 10 }] })), @"a held call expires after 1 second to 7 days");
    assert_snapshot!(refused(json!({ "rules": [{ "hold": "call:a/b", "approvers": ["role:crew"] }] })), @"the role `crew` is not defined");
    assert_snapshot!(refused(json!({ "title": "x".repeat(201) })), @"a topic has at most 200 characters in its title");
    let much: serde_json::Map<_, _> = (0..900).map(|n| (format!("{n}{}", "x".repeat(100)), json!("member"))).collect();
    assert_snapshot!(refused(json!({ "members": much })), @"a topic has at most 65536 bytes of settings");
}

proptest! {
    #[test]
    fn what_is_stored_is_read_again(stopped: bool, archived: bool, needs in 1u32..32, paused in proptest::collection::btree_set("[a-z]{1,8}", 0..4)) {
        let room = settings(json!({
            "stopped": stopped, "archived": archived, "paused": paused,
            "roles": { "crew": ["read", "!say"] }, "default_role": "crew",
            "rules": [{ "hold": "call:*/x", "needs": needs, "approvers": ["role:crew", "bob"] }],
        }));
        let text = serde_json::to_string(&room).expect("JSON");
        prop_assert_eq!(&serde_json::from_str::<TopicSettings>(&text).expect("settings"), &room);
        // So are settings of a later version, which may have more members.
        let mut later = serde_json::to_value(&room).expect("JSON");
        later["colour"] = json!(1);
        later["rules"][0]["colour"] = json!(1);
        prop_assert_eq!(serde_json::from_value::<TopicSettings>(later).expect("settings"), room);
    }
}

#[test]
fn a_call_whose_tool_cannot_be_told_is_refused() {
    let room = std::sync::Arc::new(settings(json!({ "rules": [{ "hold": "call:robot/*" }] })));
    let authority = Authority::new(Some(&room), None).expect("it has settings");
    let judge = |params: Value| {
        let payload = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        authority.judge(&envelope("bob", "robot", payload), false)
    };
    let held = |judged: Result<Option<HeldBy>, salon_protocol::Refusal>| judged.expect("held").expect("held").tool;
    assert_eq!(held(judge(json!({ "name": "m" }))), "m");
    assert_eq!(held(judge(json!({ "name": "m".repeat(1024) }))).len(), 1024);
    // Callees read no name in an array, and nobody has a tool with such a long one.
    for params in [json!(["m"]), json!({}), json!({ "name": 1 }), json!({ "name": "m".repeat(1025) })] {
        let refusal = judge(params).expect_err("refused");
        assert_eq!(refusal.code, salon_protocol::Code::InvalidParameters, "{refusal}");
    }
}

#[test]
fn every_member_may_be_changed() {
    let room = settings(json!({
        "title": "t", "description": "d", "default_role": "member", "roles": { "crew": [] }, "archived": true,
        "stopped": true, "paused": ["a"], "removed": ["b"], "limits": { "hops": 3 }, "retention": { "max_entries": 9 },
        "rules": [{ "hold": "call:a/b", "approvers": ["c"], "self_approval": true, "callers": ["d"] }],
    }));
    let names = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let room = serde_json::to_value(room).expect("JSON");
    let mut known = TopicSettings::FIELDS.map(str::to_owned);
    known.sort_unstable();
    assert_eq!(names(&room), known);
    let rule = names(&room["rules"][0]);
    assert!(
        rule.iter().all(|name| CallRule::FIELDS.contains(&name.as_str())) && rule.len() + 2 == CallRule::FIELDS.len()
    );
}

#[test]
fn a_ghost_is_what_its_bridge_and_its_own_role_allow() {
    let bridge = id("bridge:m");
    let ghost = |who: &'static str| (id(who), bridge.clone());
    let role = |room: &TopicSettings, (who, bridge): (ParticipantId, ParticipantId)| {
        room.role_of(SettingsSubject { id: &who, via: Some(&bridge) }).map(ToString::to_string)
    };
    let members =
        json!({"access": "members", "members": {"alice": "owner", "bridge:m": "member", "m:bob": "observer"}});
    let room = TopicSettings::default().patched(&members).expect("settings");
    assert_eq!(room.role_of(&id("m:ann")), None, "without its bridge it is nobody");
    assert_eq!(role(&room, ghost("m:ann")).as_deref(), Some("member"), "its bridge's membership covers it");
    assert_eq!(role(&room, ghost("m:bob")).as_deref(), Some("observer"));
    let removed = room.patched(&json!({"removed": ["m:ann"]})).expect("settings");
    assert_eq!((role(&removed, ghost("m:ann")), role(&removed, ghost("m:bob")).is_some()), (None, true));
    let without_bridge = room.patched(&json!({"members": {"bridge:m": null}})).expect("settings");
    assert_eq!((role(&without_bridge, ghost("m:ann")), role(&without_bridge, ghost("m:bob"))), (None, None));
    let subject = |who| SettingsSubject { id: who, via: Some(&bridge) };
    let ann = id("m:ann");
    let paused = room.patched(&json!({"paused": ["bridge:m"]})).expect("settings");
    assert!(paused.is_paused(subject(&ann), true) && paused.ends_calls_of(subject(&ann), Some(&room)));
    assert!(without_bridge.ends_calls_of(subject(&ann), Some(&room)) && !room.ends_calls_of(subject(&ann), None));
    let stopped = json!({"stopped": true, "members": {"m:ann": "owner"}});
    let stopped = room.patched(&stopped).expect("settings");
    assert!(stopped.is_paused(subject(&ann), false), "its bridge may not moderate, so it may not");
}
