use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;

fn id(text: &str) -> ParticipantId {
    ParticipantId::new(text).expect("a name")
}

fn items(listing: Listing, names: &[String]) -> Arc<[ListItem]> {
    let item = |name: &String| {
        let object = serde_json::json!({ listing.label(): name });
        ListItem { name: name.as_str().into(), raw: RawValue::from_string(object.to_string()).expect("JSON") }
    };
    names.iter().map(item).collect()
}

fn list(listing: Listing, names: &[&str]) -> Arc<[ListItem]> {
    items(listing, &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
}

fn builder() -> SnapshotBuilder {
    SnapshotBuilder::after(&CatalogueSnapshot::default())
}

#[test]
fn a_snapshot_is_never_changed() {
    let mut builder = builder();
    builder.put(&id("bob"), Listing::Tools, list(Listing::Tools, &["move"]), false);
    let before = builder.snapshot();
    builder.put(&id("carol"), Listing::Tools, list(Listing::Tools, &["move"]), false);
    builder.remove(&id("bob"));
    let after = builder.snapshot();
    assert!(after.version() > before.version());
    let tools = |snapshot: &CatalogueSnapshot, who: &str| snapshot.listing(Listing::Tools).offer(&id(who)).is_some();
    assert_eq!([tools(&before, "bob"), tools(&before, "carol")], [true, false]);
    assert_eq!([tools(&after, "bob"), tools(&after, "carol")], [false, true]);
    assert!(before.listing(Listing::Tools).labelled("bob__move").is_some());
    assert!(after.listing(Listing::Tools).labelled("bob__move").is_none());
}

#[test]
fn only_a_listing_that_changed_is_built_again() {
    let mut builder = builder();
    builder.put(&id("bob"), Listing::Tools, list(Listing::Tools, &["move"]), false);
    builder.put(&id("bob"), Listing::Prompts, list(Listing::Prompts, &["greet"]), false);
    let before = builder.snapshot();
    assert!(Arc::ptr_eq(&before, &builder.snapshot()), "nothing has changed");
    assert_eq!(
        builder.put(&id("bob"), Listing::Tools, list(Listing::Tools, &["move"]), false),
        Placement::Same,
        "the same list again is no change"
    );
    assert!(Arc::ptr_eq(&before, &builder.snapshot()));
    builder.put(&id("bob"), Listing::Tools, list(Listing::Tools, &["stop"]), false);
    let after = builder.snapshot();
    assert_eq!(after.listing(Listing::Tools).version(), after.version());
    assert_eq!(after.listing(Listing::Prompts).version(), before.listing(Listing::Prompts).version());
    assert!(std::ptr::eq(after.listing(Listing::Prompts), before.listing(Listing::Prompts)), "it is the same value");
}

#[test]
fn the_first_look_at_a_participant_is_news_only_if_it_is_a_newcomer() {
    let mut builder = builder();
    let tools = |builder: &mut SnapshotBuilder| {
        let snapshot = builder.snapshot();
        let tools = snapshot.listing(Listing::Tools);
        (tools.version() == snapshot.version(), tools.announced() == snapshot.version())
    };
    let some = || list(Listing::Tools, &["move"]);
    builder.put(&id("bob"), Listing::Tools, some(), false);
    assert_eq!(tools(&mut builder), (true, false), "it was there before");
    builder.put(&id("carol"), Listing::Tools, some(), true);
    assert_eq!(tools(&mut builder), (true, true));
    builder.put(&id("dave"), Listing::Tools, list(Listing::Tools, &[]), true);
    assert_eq!(tools(&mut builder), (false, false), "it offers nothing");
    assert!(builder.snapshot().has(&id("dave")), "which is known");
    builder.put(&id("bob"), Listing::Tools, list(Listing::Tools, &["stop"]), false);
    assert_eq!(tools(&mut builder), (true, true), "a list that was known is another");
    builder.remove(&id("dave"));
    assert_eq!(tools(&mut builder), (false, false));
    builder.remove(&id("bob"));
    assert_eq!(tools(&mut builder), (true, true));
}

#[test]
fn changes_are_remembered_up_to_a_number() {
    let mut builder = builder();
    let mut versions = vec![0];
    for number in 0..70 {
        builder.put(&id(&format!("p{number}")), Listing::Tools, list(Listing::Tools, &["t"]), false);
        versions.push(builder.snapshot().version());
    }
    let snapshot = builder.snapshot();
    let since = |version: u64| {
        let changes = snapshot.listing(Listing::Tools).changes_since(version);
        changes.map(|changes| changes.map(|change| change.who.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(since(versions[68]), Some(vec!["p68".into(), "p69".into()]));
    assert_eq!(since(versions[70]), Some(vec![]));
    assert_eq!(since(versions[6]).map(|changes| changes.len()), Some(64));
    assert_eq!(since(versions[5]), None, "the oldest are forgotten");
}

#[test]
fn a_list_that_does_not_fit_is_left_out_and_counted() {
    let mut builder = builder().within(3, 1 << 20);
    assert_eq!(builder.put(&id("bob"), Listing::Tools, list(Listing::Tools, &["a", "b"]), false), Placement::Changed);
    assert_eq!(builder.put(&id("carol"), Listing::Tools, list(Listing::Tools, &["a", "b"]), false), Placement::LeftOut);
    assert_eq!(builder.put(&id("dave"), Listing::Prompts, list(Listing::Prompts, &["a"]), false), Placement::Changed);
    let snapshot = builder.snapshot();
    assert_eq!((snapshot.items(), snapshot.left_out()), (3, 1));
    assert!(!snapshot.has(&id("carol")));
    // What takes another's place counts instead of it.
    assert_eq!(builder.put(&id("bob"), Listing::Tools, list(Listing::Tools, &["c", "d"]), false), Placement::Changed);
    // A list that grows beyond the bounds is not shown as it was.
    assert_eq!(
        builder.put(&id("bob"), Listing::Tools, list(Listing::Tools, &["c", "d", "e"]), false),
        Placement::LeftOut
    );
    assert_eq!((builder.snapshot().items(), builder.snapshot().left_out()), (1, 2));
    assert_eq!(
        builder.put(&id("carol"), Listing::Tools, list(Listing::Tools, &["a", "b"]), false),
        Placement::Changed,
        "there is room now"
    );
    builder.remove(&id("bob"));
    builder.remove(&id("dave"));
    let snapshot = builder.snapshot();
    assert_eq!((snapshot.items(), snapshot.left_out()), (2, 0));
    let bytes = snapshot.bytes();
    let mut narrow = self::builder().within(100, bytes);
    assert_eq!(narrow.put(&id("carol"), Listing::Tools, list(Listing::Tools, &["a", "b"]), false), Placement::Changed);
    assert_eq!(narrow.put(&id("dave"), Listing::Tools, list(Listing::Tools, &["a"]), false), Placement::LeftOut);
}

#[test]
fn the_next_host_of_a_room_goes_on_above_the_versions_of_the_one_before() {
    let mut before = builder();
    before.put(&id("bob"), Listing::Tools, list(Listing::Tools, &["move"]), false);
    let last = before.snapshot();
    let first = SnapshotBuilder::after(&last).snapshot();
    assert!(first.version() > last.version());
    assert_eq!(first.items(), 0);
    assert!(first.listing(Listing::Tools).changes_since(last.version()).is_none(), "anything may have changed");
}

/// Whose list becomes what; `None` where it leaves.
type Step = (u8, usize, Option<Vec<String>>);

/// Owners that are told apart only by a hash, and names that look like what such a hash makes.
const OWNERS: [&str; 6] = ["a", "a_", "a@b", "a_b", "b", "system:gateway"];

fn steps(names: &'static str) -> impl Strategy<Value = Vec<Step>> {
    let change = prop::option::weighted(0.8, prop::collection::vec(names, 0..6));
    prop::collection::vec((0..2_u8, 0..OWNERS.len(), change), 0..40)
}

/// Applies steps one by one, and compares with everything built at once after each.
fn compare(listings: [Listing; 2], steps: &[Step]) -> Result<(), TestCaseError> {
    let mut builder = builder();
    let mut lists: [std::collections::BTreeMap<OwnerRank, Arc<[ListItem]>>; 2] = Default::default();
    for (which, who, change) in steps {
        let (listing, who) = (listings[*which as usize], id(OWNERS[*who]));
        let lists = &mut lists[*which as usize];
        match change {
            Some(names) => {
                builder.put(&who, listing, items(listing, names), false);
                lists.insert(OwnerRank::of(&who), items(listing, names));
            }
            None => {
                builder.remove_list(&who, listing);
                lists.remove(&OwnerRank::of(&who));
            }
        }
        let snapshot = builder.snapshot();
        let at_once = Merged::build(listing, lists.clone().into_iter(), &|_, _| false);
        prop_assert_eq!(snapshot.listing(listing).dump(), at_once.dump());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn names_built_change_by_change_are_those_built_at_once(
        steps in steps(r"[ab]|b__c|x\.y|x_y|t_[0-9a-f]|\PC{0,70}|t!_3d8e4a1f"),
    ) {
        compare([Listing::Tools, Listing::Prompts], &steps)?;
    }

    #[test]
    fn uris_built_change_by_change_are_those_built_at_once(steps in steps(r"(salon://)?[abc]{1,2}|[ab]:\{x\}")) {
        compare([Listing::Resources, Listing::Templates], &steps)?;
    }
}

#[test]
fn names_that_meet_are_told_apart_as_if_built_at_once() {
    // `a@b` has no name of its own that every host takes, so it gets a hash; `a_b` offers a tool that is named like that.
    let mut alone = builder();
    alone.put(&id("a@b"), Listing::Tools, list(Listing::Tools, &["t"]), false);
    let snapshot = alone.snapshot();
    let label = snapshot.listing(Listing::Tools).labels().next().expect("one tool").1.to_owned();
    let name = label.strip_prefix("a_b__").expect("its owner's name made plain");
    let steps: Vec<Step> = vec![
        (0, 3, Some(vec![name.into()])),
        (0, 2, Some(vec!["t".into()])),
        (0, 0, Some(vec!["x".into()])),
        (0, 2, None),
        (0, 2, Some(vec!["t".into(), "u".into()])),
        (0, 3, None),
        (0, 3, Some(vec![name.into(), "v".into()])),
    ];
    compare([Listing::Tools, Listing::Prompts], &steps).expect("the same either way");
}
