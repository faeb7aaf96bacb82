use salon_mcp::listing::ListItem;

use super::*;
use crate::mcp::door::{DoorScope, empty};
use crate::streams::Channel;
use salon_mcp::Revision;
use salon_protocol::{Limits, TopicName};
use serde_json::value::RawValue;

const AGE: Duration = Duration::from_secs(600);

fn who(name: &str) -> ParticipantId {
    ParticipantId::new(name).unwrap()
}

fn lists(scope: DoorScope, others: &[&str]) -> DoorLists {
    let options = McpDoorOptions {
        me: who("alice"),
        topic: TopicName::new("room:a").unwrap(),
        scope,
        limits: Limits::default(),
        session: None,
        idle: None,
        vanished_timeout: Duration::ZERO,
        list_max_age: AGE,
        returning_until: None,
        few: 0,
        first: 0,
        salt: [0; 16],
        version: "9",
    };
    let mut lists = DoorLists::new(&options);
    others.iter().for_each(|name| lists.found(&who(name)));
    lists
}

fn request(method: &str, params: &str) -> DoorRequest {
    let profile = ClientProfile { revision: Revision::ROOM, capabilities: empty(), info: None, level: None };
    let raw = |text: &str| RawValue::from_string(text.into()).unwrap();
    let (id, params, profile) = (raw("1"), Some(raw(params)), Arc::new(profile));
    DoorRequest { channel: Channel::SESSION, id, method: method.into(), params, profile, headers: None }
}

fn tool(name: &str) -> Vec<ListItem> {
    let page = format!(r#"{{"tools":[{{"name":"{name}"}}]}}"#);
    let page = RawValue::from_string(page).unwrap();
    salon_mcp::listing::read_page(Listing::Tools, &page).expect("a page").0
}

/// A participant's list of the tool `t` has been fetched.
fn put(lists: &mut DoorLists, owner: &ParticipantId, now: Instant) -> Option<CopyChange> {
    lists.put(FetchedPeerList { owner, listing: Listing::Tools, items: tool("t").into(), ttl: None }, now)
}

#[test]
fn a_list_is_fetched_from_those_that_may_list_more_and_again_when_it_is_old() {
    let now = Instant::now();
    let bob = who("bob");
    let mut lists = lists(DoorScope::Room, &["bob", "system:gateway"]);
    assert_eq!(lists.fetch(&bob, Listing::Tools, false, now), ListFetch::No, "the catalogue has it");
    assert_eq!(lists.fetch(&ParticipantId::host(), Listing::Tools, false, now), ListFetch::Host);
    assert_eq!(lists.fetch(&bob, Listing::Tools, true, now), ListFetch::Participant);
    assert_eq!(lists.fetch(&bob, Listing::Tools, true, now), ListFetch::No, "it is being fetched");
    assert_eq!(put(&mut lists, &bob, now), Some(CopyChange { is_news: true, is_stale: false }));
    assert_eq!(lists.fetch(&bob, Listing::Tools, true, now), ListFetch::No, "it is known");
    assert_eq!(lists.fetch(&bob, Listing::Tools, true, now + AGE), ListFetch::Participant);
    lists.lacking(&bob, Listing::Tools, now);
    assert_eq!(lists.fetch(&bob, Listing::Tools, true, now), ListFetch::No, "it is left alone");
    lists.forgive();
    assert_eq!(lists.fetch(&bob, Listing::Tools, true, now), ListFetch::Participant);
    assert_eq!(lists.fetch(&who("carol"), Listing::Tools, true, now), ListFetch::No, "not in the room");
    lists.set_apart(&bob);
    lists.forget(&bob, Listing::Tools);
    assert_eq!(lists.fetch(&bob, Listing::Tools, false, now), ListFetch::Participant, "it said so itself");
    lists.joined(&bob);
    assert_eq!(lists.fetch(&bob, Listing::Tools, false, now), ListFetch::No, "it has started over");
}

#[test]
fn a_change_while_a_list_is_fetched_is_not_lost() {
    let now = Instant::now();
    let bob = who("bob");
    let mut lists = lists(DoorScope::Room, &["bob"]);
    assert!(!lists.stale(&bob, Listing::Tools), "nobody has asked for it");
    lists.note_interest([Listing::Tools]);
    assert!(lists.stale(&bob, Listing::Tools));
    lists.fetch(&bob, Listing::Tools, true, now);
    assert!(!lists.stale(&bob, Listing::Tools), "it is being fetched");
    assert_eq!(put(&mut lists, &bob, now), Some(CopyChange { is_news: true, is_stale: true }), "and fetched again");
    assert!(lists.stale(&bob, Listing::Tools) && !lists.has_copy(&bob, Listing::Tools));
}

#[test]
fn a_request_waits_for_the_catalogue_and_for_copies() {
    let now = Instant::now();
    let bob = who("bob");
    let mut lists = lists(DoorScope::Room, &["bob"]);
    lists.note_candidate(&bob);
    lists.fetch(&bob, Listing::Tools, true, now);
    lists.wait(4, &[Listing::Tools], request("tools/list", "{}"), now);
    assert!(lists.settled(now).is_empty());
    lists.catalogue_arrived(4);
    assert!(lists.settled(now).is_empty(), "a copy is awaited");
    assert_eq!(lists.settled(now + OWN_LIST_TIMEOUT), [4], "but not for ever");
    assert_eq!(put(&mut lists, &bob, now), Some(CopyChange { is_news: false, is_stale: false }), "the answer shows it");
    assert_eq!(lists.settled(now), [4]);
    assert!(lists.retry_as_client(4).is_some_and(|(listing, _)| listing == Listing::Tools));
    assert!(lists.retry_as_client(4).is_none(), "once");
    assert!(!lists.wait_for_copies(4, Listing::Tools, now));
    assert!(lists.take_waiter(4).is_some() && lists.timers.next().is_none() && lists.waiting() == 0);
}

#[test]
fn a_call_goes_on_as_soon_as_its_tool_is_listed() {
    let now = Instant::now();
    let mut lists = lists(DoorScope::Room, &["bob"]);
    lists.wait(4, &[Listing::Tools], request("tools/call", r#"{"name":"bob__t"}"#), now);
    assert!(lists.satisfied().is_empty() && !lists.knows_tool("bob__t"));
    put(&mut lists, &who("bob"), now);
    assert_eq!(lists.satisfied(), [4]);
    assert!(lists.knows_tool("bob__t"));
    assert!(!lists.left(&who("bob")).is_empty(), "the catalogue never had it");
    assert!(!lists.knows_tool("bob__t"));
}

#[test]
fn everybody_whose_list_is_known_is_set_apart_once() {
    let now = Instant::now();
    let mut lists = lists(DoorScope::Room, &["bob", "carol", "system:gateway"]);
    for name in ["bob", "system:gateway"] {
        put(&mut lists, &who(name), now);
    }
    assert_eq!(lists.set_all_apart(Listing::Tools), [who("bob")], "carol has no list, and the host is asked anyway");
    assert_eq!(lists.set_all_apart(Listing::Tools), []);
    assert_eq!(lists.listed_apart(), [who("bob"), ParticipantId::host()]);
    assert_eq!(super::tests::lists(DoorScope::One(who("bob")), &["bob"]).listed_apart(), [who("bob")]);
}

#[test]
fn changes_are_told_together() {
    let now = Instant::now();
    let mut lists = lists(DoorScope::Room, &[]);
    lists.note_change(Listing::Tools, now);
    lists.note_change(Listing::Prompts, now + Duration::from_secs(1));
    lists.note_change(Listing::Tools, now + Duration::from_secs(1));
    assert_eq!(lists.timers.next(), Some(now + CHANGE_DELAY), "the first sets the deadline");
    assert_eq!(lists.take_changes().len(), 2);
    assert!(lists.take_changes().is_empty());
}
