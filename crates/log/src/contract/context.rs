//! The contract of [`ContextStore`] as a suite that every engine runs; the numbers are those of its documentation.

use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use salon_protocol::ParticipantId;

use super::checks::{all, within};
use super::topic;
use crate::context::{
    Address, Change, Changed, Changes, ContextLimits, ContextScope, Existence, Key, MAX_VALUE_BYTES, MAX_VERSIONS,
    ToolId, Write, WriteError, Written,
};
use crate::{ContextStore, QuotaExceeded, QuotaScope, StoredQuotas};

/// An engine as the suite needs it.
pub trait ContextEngine {
    /// Its store.
    type Store: ContextStore;

    /// A new store with nothing in it.
    fn create(&self) -> impl Future<Output = Self::Store>;

    /// A new store with quotas.
    fn create_with(&self, quotas: StoredQuotas) -> impl Future<Output = Self::Store>;

    /// The same store after its process ended and began again.
    fn restart(&self, store: Self::Store) -> impl Future<Output = Self::Store>;

    /// How much a context has.
    fn bounds(&self) -> ContextLimits {
        ContextLimits::default()
    }

    /// Finishes what was submitted, then takes nothing more.
    fn close(&self, store: &Self::Store) -> impl Future<Output = ()>;
}

/// Runs the whole suite; panics at the first broken promise.
pub async fn run(engine: &impl ContextEngine) {
    all(vec![
        within("1: every write makes a version", writes_make_versions(engine)).boxed_local(),
        within("2: calls take effect in their order", calls_keep_their_order(engine)).boxed_local(),
        within("3: what is expected is compared", expectations_are_compared(engine)).boxed_local(),
        within("3: of several writes that expect one version one is done", one_wins(engine)).boxed_local(),
        within("4: a cause is one write", a_cause_is_one_write(engine)).boxed_local(),
        within("5: the newest versions are kept", newest_versions_are_kept(engine)).boxed_local(),
        within("6: a scope has so many keys", keys_are_bounded(engine)).boxed_local(),
        within("6: a topic has so many tools", tools_are_bounded(engine)).boxed_local(),
        within("7: what is apart stays apart", scopes_are_apart(engine)).boxed_local(),
        within("8: changes are told", changes_are_told(engine)).boxed_local(),
        within("8: a slow follower learns that it missed something", the_slow_are_told(engine)).boxed_local(),
        within("9: a closed store takes nothing", closed_takes_nothing(engine)).boxed_local(),
        within("10: a context has a quota", contexts_have_quotas(engine)).boxed_local(),
        within("values are kept as they are", values_are_kept(engine)).boxed_local(),
        within("history comes in pages", history_is_pages(engine)).boxed_local(),
        within("lists come in pages", lists_are_pages(engine)).boxed_local(),
    ])
    .await;
}

// What the checks are written with.

fn key(text: &str) -> Key {
    Key::new(text).expect("a key")
}

fn tool(id: &str) -> ContextScope {
    ContextScope::Tool(ToolId::new(id).expect("a tool's id"))
}

fn participant(id: &str) -> ParticipantId {
    ParticipantId::new(id).expect("a participant's id")
}

/// A key of the scope that everybody in a room has.
fn at(text: &str) -> Address {
    Address { topic: topic("room"), scope: ContextScope::Topic, key: key(text) }
}

/// A write that is caused by nothing else.
fn write(value: Option<&str>, expected: Option<u64>) -> Write {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let cause = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string();
    let author = participant("alice");
    Write { value: value.map(Into::into), expected, author, cause: cause.into(), requested: None }
}

async fn put(store: &impl ContextStore, address: &Address, value: &str) -> u64 {
    let written = store.write(address.clone(), write(Some(value), None)).await;
    written.expect("a write without conditions").version
}

async fn delete(store: &impl ContextStore, address: &Address) -> u64 {
    store.write(address.clone(), write(None, None)).await.expect("a delete of what is there").version
}

async fn try_to(
    store: &impl ContextStore,
    address: &Address,
    value: Option<&str>,
    expected: Option<u64>,
) -> Result<u64, WriteError> {
    store.write(address.clone(), write(value, expected)).await.map(|written| written.version)
}

/// A version and its value, `None` when there is no such version.
async fn read(store: &impl ContextStore, address: &Address, version: Option<u64>) -> Option<(u64, Option<String>)> {
    let found = store.get(address, version).await.expect("a read");
    found.map(|version| (version.number, version.value.map(|value| value.to_string())))
}

fn some(version: u64, value: &str) -> Option<(u64, Option<String>)> {
    Some((version, Some(value.into())))
}

async fn numbers(store: &impl ContextStore, address: &Address, before: Option<u64>, limit: usize) -> Vec<u64> {
    let versions = store.history(address, before, limit).await.expect("a history");
    versions.iter().map(|version| version.number).collect()
}

async fn keys(
    store: &impl ContextStore,
    room: &str,
    scope: &ContextScope,
    after: Option<&str>,
    limit: usize,
) -> Vec<(String, u64)> {
    let listed = store.list(&topic(room), scope, after.map(key).as_ref(), limit).await.expect("a list");
    listed.into_iter().map(|listed| (listed.key.to_string(), listed.version)).collect()
}

async fn next(changes: &mut Changes) -> Change {
    match changes.next().await {
        Some(Changed::One(change)) => change,
        other => panic!("8: instead of a change {other:?} was told"),
    }
}

fn nothing_more(changes: &mut Changes) {
    if let Some(more) = changes.next().now_or_never() {
        panic!("8: a follower that had everything also gets {more:?}");
    }
}

// The checks.

async fn writes_make_versions(engine: &impl ContextEngine) {
    let (mut store, mode) = (engine.create().await, at("mode"));
    assert_eq!(read(&store, &mode, None).await, None, "1: something is there that nobody wrote");
    assert_eq!(numbers(&store, &mode, None, 10).await, [0; 0], "1: what nobody wrote has a history");
    let steps = [Some("1"), Some("2"), None, Some("4"), None, Some("6")];
    for (number, value) in (1..).zip(steps) {
        let version = match value {
            Some(value) => put(&store, &mode, value).await,
            None => delete(&store, &mode).await,
        };
        assert_eq!(version, number, "1: versions do not count");
        let expected = Some((number, value.map(ToOwned::to_owned)));
        assert_eq!(read(&store, &mode, None).await, expected, "2: what was written is not read");
        if number % 2 == 0 {
            store = engine.restart(store).await;
            assert_eq!(read(&store, &mode, None).await, expected, "2: a restart lost what was written");
        }
    }
    for (number, value) in (1..).zip(steps) {
        let expected = Some((number, value.map(ToOwned::to_owned)));
        assert_eq!(read(&store, &mode, Some(number)).await, expected, "1: an older version is another now");
    }
    assert_eq!(
        numbers(&store, &mode, None, 10).await,
        [6, 5, 4, 3, 2, 1],
        "1: history is newest first, deletes included"
    );
    for coming in [7, u64::MAX] {
        assert_eq!(read(&store, &mode, Some(coming)).await, None, "1: a version that is yet to come was read");
    }
    assert_eq!(read(&store, &mode, Some(0)).await, None, "1: a version before the first was read");
    let newest = store.get(&mode, None).await.expect("a read").expect("it is there");
    assert_eq!(newest.author, participant("alice"), "1: a version does not say who wrote it");
}

async fn calls_keep_their_order(engine: &impl ContextEngine) {
    let (store, count) = (engine.create().await, at("count"));
    let mut writes: Vec<_> = (1..=50).map(|n| store.write(count.clone(), write(Some(&n.to_string()), None))).collect();
    // One is given up by its caller; it is done all the same.
    drop(writes.remove(20));
    for write in writes.into_iter().rev() {
        write.await.expect("a write without conditions");
    }
    for n in [1, 20, 21, 22, 50] {
        assert_eq!(read(&store, &count, Some(n)).await, some(n, &n.to_string()), "2: writes changed places");
    }
}

async fn expectations_are_compared(engine: &impl ContextEngine) {
    let (store, mode) = (engine.create().await, at("mode"));
    let refused = |current| Err(WriteError::Conflict { current });
    assert_eq!(try_to(&store, &mode, Some("a"), Some(1)).await, refused(0), "3: it expected what never was");
    assert_eq!(
        try_to(&store, &mode, None, None).await,
        Err(WriteError::Absent { current: 0 }),
        "3: nothing was deleted"
    );
    assert_eq!(try_to(&store, &mode, Some("a"), Some(0)).await, Ok(1), "3: it expected nothing, and nothing is there");
    assert_eq!(
        try_to(&store, &mode, Some("b"), Some(0)).await,
        refused(1),
        "3: it expected nothing, and something is there"
    );
    assert_eq!(try_to(&store, &mode, None, Some(0)).await, refused(1), "3: a delete expected nothing");
    assert_eq!(try_to(&store, &mode, Some("b"), Some(1)).await, Ok(2), "3: it expected the newest");
    assert_eq!(try_to(&store, &mode, Some("c"), Some(1)).await, refused(2), "3: it expected an older one");
    assert_eq!(try_to(&store, &mode, None, Some(1)).await, refused(2), "3: a delete expected an older one");
    assert_eq!(try_to(&store, &mode, None, Some(2)).await, Ok(3), "3: a delete expected the newest");
    assert_eq!(
        try_to(&store, &mode, None, None).await,
        Err(WriteError::Absent { current: 3 }),
        "3: it was deleted twice"
    );
    assert_eq!(
        try_to(&store, &mode, Some("d"), Some(2)).await,
        refused(3),
        "3: it expected one from before the delete"
    );
    assert_eq!(try_to(&store, &mode, Some("d"), Some(0)).await, Ok(4), "3: it expected nothing, and it was deleted");
    assert_eq!(delete(&store, &mode).await, 5);
    assert_eq!(try_to(&store, &mode, Some("e"), Some(5)).await, Ok(6), "3: it expected the delete");
    assert_eq!(numbers(&store, &mode, None, 10).await, [6, 5, 4, 3, 2, 1], "3: what was refused left something behind");
    let elsewhere = Address { scope: tool("other"), ..mode };
    assert_eq!(try_to(&store, &elsewhere, Some("a"), Some(6)).await, refused(0));
    assert_eq!(store.tools(&topic("room")).await, Ok(vec![]), "3: what was refused left a scope behind");
}

async fn one_wins(engine: &impl ContextEngine) {
    let (store, lock) = (engine.create().await, at("lock"));
    for round in 0..5 {
        let tries = (0..8).map(|n| store.write(lock.clone(), write(Some(&n.to_string()), Some(round))));
        let outcomes = join_all(tries.collect::<Vec<_>>()).await;
        let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(won, 1, "3: of the writes that expected one version {won} were done");
        let lost = outcomes.iter().filter(|outcome| **outcome == Err(WriteError::Conflict { current: round + 1 }));
        assert_eq!(lost.count(), 7, "3: a refused write names the newest version");
    }
}

async fn a_cause_is_one_write(engine: &impl ContextEngine) {
    let (mut store, mode) = (engine.create().await, at("mode"));
    let mut changes = store.changes(&topic("room"));
    let once = Write { cause: "request 1".into(), ..write(Some("1"), Some(0)) };
    let first = store.write(mode.clone(), once.clone()).await.expect("a first write");
    assert!(!first.repeated, "4: a first write is a repeated one");
    put(&store, &mode, "2").await;
    assert_eq!((next(&mut changes).await.version, next(&mut changes).await.version), (1, 2));
    let repeated = Written { repeated: true, ..first };
    for _ in 0..2 {
        // Though what it expects is no longer so.
        assert_eq!(store.write(mode.clone(), once.clone()).await, Ok(repeated), "4: the same write again");
        store = engine.restart(store).await;
    }
    assert_eq!(read(&store, &mode, None).await, some(2, "2"), "4: what was written again changed something");
    let mut changes = store.changes(&topic("room"));
    assert_eq!(store.write(mode.clone(), once.clone()).await, Ok(repeated), "4: the same write again");
    nothing_more(&mut changes);
    let elsewhere = store.write(at("other"), once).await.expect("a write to another key");
    assert!(!elsewhere.repeated, "4: a cause is for one key");
}

async fn newest_versions_are_kept(engine: &impl ContextEngine) {
    let (store, count) = (engine.create().await, at("count"));
    let last = MAX_VERSIONS + 20;
    let writes = (1..=last).map(|n| store.write(count.clone(), write(Some(&n.to_string()), None)));
    for written in join_all(writes.collect::<Vec<_>>()).await {
        written.expect("a write without conditions");
    }
    let kept: Vec<_> = (21..=last).rev().collect();
    assert_eq!(numbers(&store, &count, None, 1000).await, kept, "5: not the newest are kept");
    assert_eq!(read(&store, &count, Some(20)).await, None, "5: an older one than those is read");
    assert_eq!(read(&store, &count, Some(21)).await, some(21, "21"), "5: the oldest of those is not");
}

async fn keys_are_bounded(engine: &impl ContextEngine) {
    let (store, limit) = (engine.create().await, engine.bounds().keys);
    let name = |n: u64| at(&format!("k{n:05}"));
    let writes = (0..limit).map(|n| store.write(name(n), write(Some("1"), None)));
    for written in join_all(writes.collect::<Vec<_>>()).await {
        assert_eq!(written.expect("a write within the limit").version, 1);
    }
    let one_more = at("one more");
    assert_eq!(try_to(&store, &one_more, Some("1"), None).await, Err(WriteError::TooManyKeys), "6: it has one more");
    assert_eq!(put(&store, &name(7), "2").await, 2, "6: what is there can be written");
    for n in [5, 3] {
        delete(&store, &name(n)).await;
    }
    assert_eq!(numbers(&store, &name(5), None, 10).await, [2, 1], "6: nobody needed its place");
    put(&store, &one_more, "1").await;
    assert_eq!(numbers(&store, &name(5), None, 10).await, [0; 0], "6: the longest deleted made room");
    assert_eq!(numbers(&store, &name(3), None, 10).await, [2, 1], "6: and no other did");
    let again = put(&store, &name(5), "again").await;
    assert!(again > 2, "6: a version that was forgotten is given out again");
    assert_eq!(read(&store, &name(5), Some(again)).await, some(again, "again"));
    assert_eq!(try_to(&store, &at("two more"), Some("1"), None).await, Err(WriteError::TooManyKeys));
    let elsewhere = Address { scope: tool("t"), ..one_more };
    assert_eq!(put(&store, &elsewhere, "1").await, 1, "6: another scope is another count");
}

async fn tools_are_bounded(engine: &impl ContextEngine) {
    let (store, limit) = (engine.create().await, engine.bounds().tools);
    let of = |n: u64| Address { scope: tool(&format!("t{n:04}")), ..at("state") };
    let writes = (0..limit).map(|n| store.write(of(n), write(Some("1"), None)));
    for written in join_all(writes.collect::<Vec<_>>()).await {
        written.expect("a write within the limit");
    }
    let one_more = of(limit);
    assert_eq!(try_to(&store, &one_more, Some("1"), None).await, Err(WriteError::TooManyTools), "6: it has one more");
    assert_eq!(put(&store, &Address { topic: topic("elsewhere"), ..one_more.clone() }, "1").await, 1);
    put(&store, &at("of everybody"), "1").await;
    assert_eq!(delete(&store, &of(4)).await, 2);
    put(&store, &one_more, "1").await;
    let tools = store.tools(&topic("room")).await.expect("a list of tools");
    assert_eq!(tools.len() as u64, limit, "6: not every tool that has something is listed");
    assert!(!tools.contains(&ToolId::new("t0004").expect("an id")), "6: one that has nothing is listed");
    assert_eq!(try_to(&store, &of(4), Some("1"), None).await, Err(WriteError::TooManyTools));
    delete(&store, &of(5)).await;
    assert!(put(&store, &of(4), "again").await > 2, "6: a version that was forgotten is given out again");
}

async fn scopes_are_apart(engine: &impl ContextEngine) {
    let store = engine.create().await;
    // Names that would be one if they were only put behind each other.
    let scopes = [
        ContextScope::Topic,
        ContextScope::Participant(participant("alice")),
        ContextScope::Participant(participant("bob")),
        ContextScope::Participant(participant("tool:x")),
        tool("x"),
        tool("topic"),
        tool("participant:alice"),
    ];
    let mut places = Vec::new();
    for room in ["room", "elsewhere"] {
        for scope in &scopes {
            for name in ["mode", "mode/x"] {
                places.push(Address { topic: topic(room), scope: scope.clone(), key: key(name) });
            }
        }
    }
    for (n, place) in places.iter().enumerate() {
        assert_eq!(put(&store, place, &n.to_string()).await, 1, "7: {place:?} was there before");
    }
    let store = engine.restart(store).await;
    for (n, place) in places.iter().enumerate() {
        assert_eq!(read(&store, place, None).await, some(1, &n.to_string()), "7: {place:?} is another's");
    }
    delete(&store, &places[0]).await;
    for place in &places[1..] {
        assert!(read(&store, place, None).await.is_some_and(|(_, value)| value.is_some()), "7: {place:?} went as well");
    }
    let listed = keys(&store, "room", &ContextScope::Topic, None, 10).await;
    assert_eq!(listed, [("mode/x".into(), 1)], "7: a scope lists its own keys that exist");
    let tools = store.tools(&topic("room")).await.expect("a list of tools");
    let tools: Vec<_> = tools.iter().map(ToolId::as_str).collect();
    assert_eq!(tools, ["participant:alice", "topic", "x"], "7: tools are listed by their ids");
}

async fn changes_are_told(engine: &impl ContextEngine) {
    let (store, mode) = (engine.create().await, at("mode"));
    put(&store, &mode, "0").await;
    let (mut first, mut second) = (store.changes(&topic("room")), store.changes(&topic("room")));
    let mut elsewhere = store.changes(&topic("elsewhere"));
    let own = Address { scope: ContextScope::Participant(participant("alice")), ..mode.clone() };
    put(&store, &mode, "1").await;
    put(&store, &own, "1").await;
    delete(&store, &mode).await;
    try_to(&store, &mode, Some("2"), Some(1)).await.expect_err("it expects an older one");
    put(&store, &mode, "2").await;
    let change = |address: &Address, version, existence| {
        let Address { scope, key, .. } = address.clone();
        Change { scope, key, version, existence }
    };
    let expected = [
        change(&mode, 2, Existence::Unchanged),
        change(&own, 1, Existence::Begun),
        change(&mode, 3, Existence::Ended),
        change(&mode, 4, Existence::Begun),
    ];
    for changes in [&mut first, &mut second] {
        for expected in &expected {
            assert_eq!(next(changes).await, *expected, "8: changes are told in their order");
        }
        nothing_more(changes);
    }
    nothing_more(&mut elsewhere);
    drop(first);
    put(&store, &mode, "3").await;
    assert_eq!(next(&mut second).await.version, 5, "8: that one stopped is nothing to another");
    engine.close(&store).await;
    assert_eq!(second.next().await, None, "8: it goes on though the store is closed");
    assert_eq!(store.changes(&topic("room")).next().await, None, "8: a closed store can be followed");
}

async fn the_slow_are_told(engine: &impl ContextEngine) {
    // Far more than wait for one who follows.
    const COUNT: u64 = 1000;
    let (store, count) = (engine.create().await, at("count"));
    let mut changes = store.changes(&topic("room"));
    let writes = (1..=COUNT).map(|n| store.write(count.clone(), write(Some(&n.to_string()), None)));
    for written in join_all(writes.collect::<Vec<_>>()).await {
        written.expect("a write without conditions");
    }
    let (mut last, mut missed) = (0, false);
    while last < COUNT {
        match changes.next().await {
            Some(Changed::One(change)) => {
                assert!(missed || change.version == last + 1, "8: changes were left out and nobody said so");
                assert!(change.version > last, "8: changes are told in their order");
                (last, missed) = (change.version, false);
            }
            Some(Changed::Missed) => missed = true,
            None => panic!("8: changes end though the store is open"),
        }
    }
}

async fn closed_takes_nothing(engine: &impl ContextEngine) {
    let (store, count) = (engine.create().await, at("count"));
    let writes: Vec<_> = (1..=20).map(|n| store.write(count.clone(), write(Some(&n.to_string()), None))).collect();
    engine.close(&store).await;
    for write in writes {
        write.await.expect("what was submitted before the close is finished");
    }
    let late = try_to(&store, &count, Some("late"), None).await;
    assert!(matches!(late, Err(WriteError::Stopped(_))), "9: a closed store answered a write with {late:?}");
    let store = engine.restart(store).await;
    assert_eq!(read(&store, &count, None).await, some(20, "20"), "9: what was acknowledged is not kept");
}

async fn contexts_have_quotas(engine: &impl ContextEngine) {
    let long = "x".repeat(1000);
    let store = engine.create_with(StoredQuotas { context: 10_000, ..StoredQuotas::default() }).await;
    for n in 0..9 {
        put(&store, &at("a"), &long).await;
        assert_eq!(numbers(&store, &at("a"), None, 100).await.len(), n + 1, "10: nobody needed the room");
    }
    put(&store, &at("b"), &long).await;
    let full = WriteError::Quota(QuotaExceeded { scope: QuotaScope::Context, limit: 10_000 });
    let store = engine.restart(store).await;
    assert_eq!(try_to(&store, &at("c"), Some("1"), None).await, Err(full), "10: a context has more than its quota");
    assert_eq!(read(&store, &at("c"), None).await, None, "10: what was refused is there");
    let elsewhere = Address { topic: topic("elsewhere"), ..at("c") };
    assert_eq!(put(&store, &elsewhere, &long).await, 1, "10: another topic is counted by itself");

    let newest = put(&store, &at("b"), "2").await;
    assert_eq!(numbers(&store, &at("b"), None, 100).await, [newest], "10: older versions make no room for a newer");
    assert_eq!(numbers(&store, &at("a"), None, 100).await.len(), 9, "10: another key made room");
    put(&store, &at("c"), "1").await;
    let deleted = delete(&store, &at("a")).await;
    assert_eq!(numbers(&store, &at("a"), None, 100).await, [deleted], "10: a delete makes no room");
    let store = engine.restart(store).await;
    for _ in 0..9 {
        put(&store, &at("c"), &long).await;
    }
    assert_eq!(numbers(&store, &at("c"), None, 100).await.len(), 10, "10: what was removed still counts");
}

async fn values_are_kept(engine: &impl ContextEngine) {
    let (store, mode) = (engine.create().await, at("Ключ / \u{1f511} %2F"));
    let longest = "x".repeat(MAX_VALUE_BYTES);
    for value in ["", "null", r#"{ "b" : 9007199254740993, "a":1.0 , "é\u00e9":"\u0000" }"#, &longest] {
        let version = put(&store, &mode, value).await;
        assert_eq!(read(&store, &mode, None).await, some(version, value), "a value is not what was written");
    }
    let listed = store.list(&topic("room"), &ContextScope::Topic, None, 10).await.expect("a list");
    assert_eq!((&listed[0].key, listed[0].bytes), (&mode.key, MAX_VALUE_BYTES as u64));
    let too_long = try_to(&store, &mode, Some(&format!("{longest}x")), None).await;
    assert_eq!(too_long, Err(WriteError::TooLarge { bytes: MAX_VALUE_BYTES + 1 }), "a value is longer than the limit");
    assert_eq!(read(&store, &mode, None).await, some(4, &longest), "what was refused was written");
}

async fn history_is_pages(engine: &impl ContextEngine) {
    let (store, mode) = (engine.create().await, at("mode"));
    let value = "x".repeat(MAX_VALUE_BYTES);
    for _ in 0..40 {
        put(&store, &mode, &value).await;
    }
    assert_eq!(numbers(&store, &mode, None, 3).await, [40, 39, 38]);
    assert_eq!(numbers(&store, &mode, Some(38), 2).await, [37, 36]);
    assert_eq!(numbers(&store, &mode, Some(2), 2).await, [1]);
    assert_eq!(numbers(&store, &mode, Some(1), 2).await, [0; 0]);
    assert_eq!(numbers(&store, &mode, Some(u64::MAX), 1).await, [40]);
    assert_eq!(numbers(&store, &mode, None, 0).await, [0; 0]);
    let page = numbers(&store, &mode, None, 1000).await.len();
    assert!((1..40).contains(&page), "a page is bounded by its bytes, but has {page} versions");
}

async fn lists_are_pages(engine: &impl ContextEngine) {
    let store = engine.create().await;
    let mut names = ["b", "a", "B", "é", "a/1", "a1", "\u{1f511}", "\u{ffff}"];
    for name in names {
        put(&store, &at(name), "1").await;
    }
    put(&store, &at("gone"), "1").await;
    delete(&store, &at("gone")).await;
    names.sort_unstable();
    let listed = async |after: Option<&str>, limit| {
        let page = keys(&store, "room", &ContextScope::Topic, after, limit).await;
        page.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(listed(None, 100).await, names, "keys are listed in the order of their bytes, those that exist");
    for limit in [1, 3] {
        let mut all = Vec::new();
        loop {
            let page = listed(all.last().map(String::as_str), limit).await;
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= limit);
            all.extend(page);
        }
        assert_eq!(all, names, "pages of {limit} make the list");
    }
    assert_eq!(listed(Some("gone"), 1).await, ["é"], "a list goes on after a key that is gone");
    assert_eq!(keys(&store, "elsewhere", &ContextScope::Topic, None, 10).await, []);
}
