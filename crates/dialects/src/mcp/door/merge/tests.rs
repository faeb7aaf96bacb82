use std::collections::HashSet;

use insta::assert_snapshot;
use proptest::prelude::*;
use salon_mcp::listing::read_page;
use serde_json::Value;
use serde_json::value::RawValue;

use super::*;
use crate::SnapshotBuilder;

fn id(text: &str) -> ParticipantId {
    ParticipantId::new(text).unwrap()
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap()
}

fn item(listing: Listing, name: &str) -> ListItem {
    let object = serde_json::json!({ listing.label(): name });
    ListItem { name: name.into(), raw: raw(&object.to_string()) }
}

/// A shelf whose client is shown these lists: those of participants as the room's catalogue has them.
fn shelf_of(lists: &[(ParticipantId, Listing, Vec<ListItem>)]) -> MergedLists {
    let mut builder = SnapshotBuilder::after(&CatalogueSnapshot::default());
    let mut shelf = MergedLists::default();
    for (who, listing, items) in lists {
        match who.is_host() {
            true => drop(shelf.put(who, *listing, items.clone())),
            false => drop(builder.put(who, *listing, items.clone().into(), true)),
        }
    }
    shelf.update(builder.snapshot(), &BTreeSet::new());
    shelf
}

/// A shelf from `participant: name name …` lines.
fn shelf(listing: Listing, lines: &[(&str, &[&str])]) -> MergedLists {
    let items = |names: &[&str]| names.iter().map(|name| item(listing, name)).collect();
    shelf_of(&lines.iter().map(|(who, names)| (id(who), listing, items(names))).collect::<Vec<_>>())
}

/// Everything the room lists, page by page.
fn pages(shelf: &MergedLists, listing: Listing) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let (page, next) = shelf.page(listing, cursor.as_deref()).expect("the cursor is ours");
        let name = |raw: &RawValue| {
            let value: Value = serde_json::from_str(raw.get()).unwrap();
            value[listing.label()].as_str().unwrap().to_owned()
        };
        pages.push(page.iter().map(|item| name(item)).collect());
        match next {
            Some(next) => cursor = Some(next),
            None => return pages,
        }
    }
}

fn listed(shelf: &MergedLists, listing: Listing) -> String {
    pages(shelf, listing).concat().join("\n")
}

fn told(found: OwnerLookup) -> String {
    match found {
        OwnerLookup::One(who, name) => format!("{who} {name}"),
        OwnerLookup::Nobody => "nobody".into(),
        OwnerLookup::Several(who) => format!("several: {who:?}"),
    }
}

#[test]
fn a_page_is_read_as_far_as_its_items_have_names() {
    let read = |listing, text: &str| match read_page(listing, &raw(text)) {
        Some((items, next)) => {
            let items = items.iter().map(|item| format!("{} {}\n", item.name, item.raw));
            format!("{}next {next:?}", items.collect::<String>())
        }
        None => "none".into(),
    };
    assert_snapshot!(read(Listing::Tools, r#"{"tools":[{"name":"\u0061","n": 12345678901234567890},{"title":"x"},{"name":7},8],"nextCursor":"c"}"#), @r#"
    a {"name":"\u0061","n": 12345678901234567890}
    next Some("c")
    "#);
    assert_snapshot!(read(Listing::Templates, r#"{"resourceTemplates":[{"uriTemplate":"a:{x}","name":"n"}],"nextCursor":null}"#), @r#"
    a:{x} {"uriTemplate":"a:{x}","name":"n"}
    next None
    "#);
    assert_snapshot!(read(Listing::Prompts, r#"{"tools":[]}"#), @"none");
    assert_snapshot!(read(Listing::Resources, r#"{"resources":{}}"#), @"none");
    assert_snapshot!(read(Listing::Resources, "[]"), @"none");
}

#[test]
fn methods_lead_to_their_lists() {
    for listing in Listing::ALL {
        assert_eq!(Listing::of_method(listing.method()), Some(listing));
    }
    assert_eq!(Listing::of_method("tools/call"), None);
}

#[test]
fn the_host_comes_first_and_the_others_by_id() {
    let shelf = shelf(
        Listing::Tools,
        &[
            ("zoe", &["b", "a"]),
            ("alice", &["search", "get.file"]),
            ("system:gateway", &["chat.say", "room.wait"]),
            ("bob@home", &["search"]),
            ("carol", &["a-tool-whose-name-is-so-long-that-it-does-not-fit-with-its-prefix"]),
        ],
    );
    assert_snapshot!(listed(&shelf, Listing::Tools), @"
    chat_say
    room_wait
    alice__search
    alice__get_file_bbcc5a31
    bob_home__search_15bc0fc3
    carol__a-tool-whose-name-is-so-long-that-it-does-not-fi_f2e15e20
    zoe__b
    zoe__a
    ");
}

#[test]
fn names_lead_back_to_their_owners() {
    let shelf = shelf(
        Listing::Prompts,
        &[("system:gateway", &["chat.say"]), ("alice", &["search", "get.file", "chat.say"]), ("bob@home", &["search"])],
    );
    let find = |name: &str| told(shelf.find(Listing::Prompts, name));
    assert_snapshot!(find("chat_say"), @"system:gateway chat.say");
    assert_snapshot!(find("chat.say"), @"system:gateway chat.say");
    assert_snapshot!(find("system:gateway__chat.say"), @"system:gateway chat.say");
    assert_snapshot!(find("alice__search"), @"alice search");
    assert_snapshot!(find("alice__get_file_bbcc5a31"), @"alice get.file");
    assert_snapshot!(find("alice__get.file"), @"alice get.file");
    assert_snapshot!(find("get.file"), @"alice get.file");
    assert_snapshot!(find("bob@home__search"), @"bob@home search");
    assert_snapshot!(find("search"), @r#"several: ["alice", "bob@home"]"#);
    assert_snapshot!(find("alice__get_file"), @"nobody");
    assert_snapshot!(find(""), @"nobody");
    assert_snapshot!(told(shelf.find(Listing::Tools, "alice__search")), @"nobody");
}

#[test]
fn two_never_have_one_name() {
    let shelf = shelf(
        Listing::Tools,
        &[("system:gateway", &["chat.say", "chat_say", ""]), ("a", &["b__c", "b__c", "x"]), ("a__b", &["c"])],
    );
    assert_snapshot!(listed(&shelf, Listing::Tools), @"
    chat_say
    chat_say_93171233
    _0b6ff0c9
    a__b__c_bbeb6ab7
    a__x
    a__b__c_089a7a89
    ");
    assert_snapshot!(told(shelf.find(Listing::Tools, "a__b__c")), @r#"several: ["a", "a__b"]"#);
    assert_snapshot!(told(shelf.find(Listing::Tools, "a__b__c_089a7a89")), @"a__b c");
}

/// A name is read as beginning with the owner that ends at its first `__`, no matter who is present.
#[test]
fn a_name_with_more_underscores_leads_to_the_owner_before_the_first_two() {
    let shelf =
        shelf(Listing::Tools, &[("bob", &["get__user", "_private", "a_"]), ("carol_", &["x"]), ("dave__d", &["y"])]);
    let find = |name: &str| told(shelf.find(Listing::Tools, name));
    assert_snapshot!(find("bob__get__user"), @"bob get__user");
    assert_snapshot!(find("bob___private"), @"bob _private");
    assert_snapshot!(find("bob__a_"), @"bob a_");
    assert_snapshot!(find("carol___x"), @"nobody");
    assert_snapshot!(find("dave__d__y"), @"nobody");
    assert_snapshot!(find("get__user"), @"nobody");
    assert_snapshot!(find("y"), @"dave__d y");
}

#[test]
fn only_the_name_of_an_item_is_changed() {
    let mut shelf = MergedLists::default();
    let text = r#"{"title": "T","name":"t","inputSchema":{"maximum": 12345678901234567890},"x-vendor": 1.0}"#;
    let (items, _) = read_page(Listing::Tools, &raw(&format!(r#"{{"tools":[{text}]}}"#))).unwrap();
    shelf.put(&id("alice"), Listing::Tools, items.clone());
    shelf.put(&ParticipantId::host(), Listing::Tools, items);
    let (page, next) = shelf.page(Listing::Tools, None).unwrap();
    assert_eq!(page[0].get(), text);
    assert_snapshot!(page[1].get(), @r#"{"title":"T (alice)","name":"alice__t","inputSchema":{"maximum": 12345678901234567890},"x-vendor":1.0}"#);
    assert_eq!(next, None);
    assert_eq!(shelf.items(&id("alice"), Listing::Tools)[0].raw.get(), text);
    assert!(shelf.items(&id("bob"), Listing::Tools).is_empty());
}

/// The items of a list of everybody's, when these participants list that.
fn shown(listing: Listing, lists: &[(&str, &str)]) -> String {
    let items = |items: &str| read_page(listing, &raw(&format!(r#"{{"{}":{items}}}"#, listing.key()))).unwrap().0;
    let shelf = shelf_of(&lists.iter().map(|(who, list)| (id(who), listing, items(list))).collect::<Vec<_>>());
    let (page, _) = shelf.page(listing, None).unwrap();
    page.iter().map(|item| format!("{}\n", item.get())).collect()
}

#[test]
fn resources_are_named_after_their_owners_too() {
    assert_snapshot!(shown(Listing::Resources, &[
        ("system:gateway", r#"[{"uri":"context://room/a","name":"a"}]"#),
        ("bob", r#"[{"uri":"file:///a","name":"Read me.md","size": 1.0},{"uri":"file:///b"},{"uri":"file:///c","name":7}]"#),
    ]), @r#"
    {"uri":"context://room/a","name":"a"}
    {"uri":"file:///a","name":"bob__Read me.md","size":1.0}
    {"uri":"file:///b"}
    {"uri":"file:///c","name":7}
    "#);
    assert_snapshot!(shown(Listing::Templates, &[("bob", r#"[{"uriTemplate":"db:{x}","name":"row"}]"#)]), @r#"{"uriTemplate":"db:{x}","name":"bob__row"}"#);
}

#[test]
fn titles_tell_owners_apart() {
    assert_snapshot!(shown(Listing::Tools, &[
        ("system:gateway", r#"[{"name":"chat.say","title":"Say"}]"#),
        ("alice", r#"[{"name":"move","title":"Move","annotations":{"title":"Move","readOnlyHint":true}}]"#),
        ("bob", r#"[{"name":"move","title":"Move"},{"name":"stop","annotations":{"readOnlyHint":true}},{"name":"odd","title":7}]"#),
    ]), @r#"
    {"name":"chat_say","title":"Say"}
    {"name":"alice__move","title":"Move (alice)","annotations":{"title":"Move (alice)","readOnlyHint":true}}
    {"name":"bob__move","title":"Move (bob)"}
    {"name":"bob__stop","annotations":{"readOnlyHint":true}}
    {"name":"bob__odd","title":7}
    "#);
    assert_snapshot!(shown(Listing::Prompts, &[("bob", r#"[{"name":"p","title":"P"}]"#)]), @r#"{"name":"bob__p","title":"P (bob)"}"#);
}

#[test]
fn what_can_only_be_called_as_a_task_is_not_listed() {
    assert_snapshot!(shown(Listing::Tools, &[
        ("bob", r#"[{"name":"a","execution":{"taskSupport":"required"}},{"name":"b","execution":{"taskSupport":"optional"}},{"name":"c","execution":{"taskSupport":5}},{"name":"d","execution":5}]"#),
    ]), @r#"
    {"name":"bob__b","execution":{"taskSupport":"optional"}}
    {"name":"bob__c","execution":{"taskSupport":5}}
    {"name":"bob__d","execution":5}
    "#);
}

#[test]
fn what_changed_is_told() {
    let one = || vec![item(Listing::Tools, "t")];
    let mut shelf = MergedLists::default();
    let (alice, bob) = (id("alice"), id("bob"));
    assert!(!shelf.put(&alice, Listing::Tools, Vec::new()));
    assert!(shelf.put(&alice, Listing::Tools, one()));
    assert!(!shelf.put(&alice, Listing::Tools, one()));
    let described = ListItem { raw: raw(r#"{"name":"t","description":"d"}"#), ..one().remove(0) };
    assert!(shelf.put(&alice, Listing::Tools, vec![described]));
    assert!(shelf.put(&alice, Listing::Templates, vec![item(Listing::Templates, "a:{x}")]));
    assert_snapshot!(told(shelf.find(Listing::Tools, "t")), @"alice t");
    assert!(shelf.put(&bob, Listing::Tools, one()));
    assert_snapshot!(told(shelf.find(Listing::Tools, "t")), @r#"several: ["alice", "bob"]"#);
    shelf.note_link(&alice, "x:1");
    assert!(shelf.bytes() > 0);
    assert_eq!(shelf.remove(&alice), [Listing::Tools, Listing::Templates]);
    assert_eq!(shelf.remove(&alice), []);
    assert_snapshot!(told(shelf.find(Listing::Tools, "t")), @"bob t");
    assert_eq!(shelf.remove(&bob), [Listing::Tools]);
    assert_eq!(shelf.bytes(), 0);
}

#[test]
fn a_uri_stays_as_it_is_while_it_is_one_participants() {
    let mut shelf = shelf(
        Listing::Resources,
        &[
            ("alice", &["file:///a", "file:///shared", "salon://bob/file:///b"]),
            ("bob", &["file:///b", "file:///shared"]),
        ],
    );
    assert_snapshot!(listed(&shelf, Listing::Resources), @"
    file:///a
    salon://alice/file:///shared
    salon://alice/salon://bob/file:///b
    file:///b
    salon://bob/file:///shared
    ");
    let find = |shelf: &MergedLists, uri: &str| told(shelf.find_uri(uri));
    assert_snapshot!(find(&shelf, "file:///a"), @"alice file:///a");
    assert_snapshot!(find(&shelf, "file:///shared"), @r#"several: ["alice", "bob"]"#);
    assert_snapshot!(find(&shelf, "salon://bob/file:///shared"), @"bob file:///shared");
    assert_snapshot!(find(&shelf, "salon://bob/file:///b"), @"bob file:///b");
    assert_snapshot!(find(&shelf, "salon://alice/salon://bob/file:///b"), @"alice salon://bob/file:///b");
    assert_snapshot!(find(&shelf, "salon://carol/file:///b"), @"nobody");
    assert_snapshot!(find(&shelf, "salon://bob"), @"nobody");
    assert_snapshot!(find(&shelf, "file:///c"), @"nobody");
    let called = |shelf: &MergedLists, who: &str, uri: &str| shelf.listed_uri(&id(who), uri);
    assert_snapshot!(called(&shelf, "alice", "file:///a"), @"file:///a");
    assert_snapshot!(called(&shelf, "bob", "file:///a"), @"salon://bob/file:///a");
    assert_snapshot!(called(&shelf, "bob", "file:///shared"), @"salon://bob/file:///shared");
    assert_snapshot!(called(&shelf, "bob", "file:///unlisted"), @"file:///unlisted");
    assert_snapshot!(called(&shelf, "alice", "salon://bob/x"), @"salon://alice/salon://bob/x");
    shelf.remove(&id("bob"));
    assert_snapshot!(listed(&shelf, Listing::Resources), @"
    file:///a
    file:///shared
    salon://alice/salon://bob/file:///b
    ");
    assert_snapshot!(find(&shelf, "salon://bob/file:///b"), @"nobody");
}

#[test]
fn many_templates_of_one_hide_nobody_elses() {
    let mut shelf = shelf(Listing::Templates, &[("bob", &["doc:{x}"])]);
    let many = (0..1100).map(|number| item(Listing::Templates, &format!("a{number}:{{x}}")));
    shelf.put(&id("alice"), Listing::Templates, many.collect::<Vec<_>>());
    assert_snapshot!(told(shelf.find_uri("doc:1")), @"bob doc:1");
    assert_snapshot!(told(shelf.find_uri("a1023:1")), @"alice a1023:1");
    assert_snapshot!(told(shelf.find_uri("a1024:1")), @"nobody");
}

#[test]
fn links_and_templates_lead_to_their_owners_too() {
    let mut shelf = shelf(
        Listing::Templates,
        &[("alice", &["db:///{table}/{id}", "db:///{table}/{+rest}", "log:{day}"]), ("bob", &["log:{day}", "doc:{x}"])],
    );
    assert_snapshot!(listed(&shelf, Listing::Templates), @"
    db:///{table}/{id}
    db:///{table}/{+rest}
    salon://alice/log:{day}
    salon://bob/log:{day}
    doc:{x}
    ");
    assert_snapshot!(told(shelf.find_uri("db:///people/7")), @"alice db:///people/7");
    assert_snapshot!(told(shelf.find_uri("log:monday")), @r#"several: ["alice", "bob"]"#);
    assert_snapshot!(told(shelf.find_uri("salon://bob/log:monday")), @"bob log:monday");
    assert_snapshot!(told(shelf.find_template("doc:{x}")), @"bob doc:{x}");
    assert_snapshot!(told(shelf.find_template("log:{day}")), @r#"several: ["alice", "bob"]"#);
    assert_snapshot!(told(shelf.find_template("salon://alice/log:{day}")), @"alice log:{day}");
    assert_snapshot!(told(shelf.find_template("db:///people/7")), @"alice db:///people/7");
    shelf.note_link(&id("bob"), "db:///people/7");
    shelf.note_link(&id("bob"), "db:///people/7");
    assert_snapshot!(told(shelf.find_uri("db:///people/7")), @r#"several: ["alice", "bob"]"#);
    assert_snapshot!(shelf.listed_uri(&id("alice"), "db:///people/7"), @"salon://alice/db:///people/7");
    shelf.note_link(&id("alice"), "db:///people/7");
    assert_snapshot!(told(shelf.find_uri("db:///people/7")), @r#"several: ["alice", "bob"]"#);
    shelf.remove(&id("bob"));
    assert_snapshot!(told(shelf.find_uri("db:///people/7")), @"alice db:///people/7");
    shelf.note_link(&id("alice"), "old:1");
    assert_snapshot!(told(shelf.find_uri("old:1")), @"alice old:1");
    for n in 0..1024 {
        shelf.note_link(&id("alice"), &format!("new:{n}"));
    }
    assert_snapshot!(told(shelf.find_uri("old:1")), @"nobody");
    shelf.note_link(&id("alice"), &"x".repeat(5000));
    assert!(shelf.bytes() < 16 << 10);
    assert_snapshot!(told(shelf.find_uri("new:0")), @"alice new:0");
    shelf.remove(&id("alice"));
    assert_snapshot!(told(shelf.find_uri("new:0")), @"nobody");
}

#[test]
fn a_page_is_full_by_number_or_by_size() {
    let many: Vec<_> = (0..600).map(|n| item(Listing::Tools, &n.to_string())).collect();
    let mut shelf = MergedLists::default();
    shelf.put(&id("alice"), Listing::Tools, many);
    assert_eq!(pages(&shelf, Listing::Tools).iter().map(Vec::len).collect::<Vec<_>>(), [250, 250, 100]);

    let long = |name: &str| ListItem {
        raw: raw(&format!(r#"{{"name":"{name}","description":"{}"}}"#, "x".repeat(300 << 10))),
        ..item(Listing::Tools, name)
    };
    shelf.put(&id("alice"), Listing::Tools, vec![long("a"), long("b"), long("c")]);
    assert_eq!(pages(&shelf, Listing::Tools).len(), 3);
}

#[test]
fn who_leaves_between_two_pages_takes_nobody_along() {
    let names = |prefix: &str| (0..200).map(|n| item(Listing::Tools, &format!("{prefix}{n}"))).collect::<Vec<_>>();
    let mut shelf = MergedLists::default();
    for who in ["a", "b", "c"] {
        shelf.put(&id(who), Listing::Tools, names(who));
    }
    let (first, next) = shelf.page(Listing::Tools, None).map(|(page, next)| (page.len(), next)).unwrap();
    shelf.remove(&id("b"));
    let (rest, end) = shelf.page(Listing::Tools, next.as_deref()).unwrap();
    assert_eq!((first, rest.len(), end), (250, 200, None));
    assert!(rest[0].get().contains("c__c0"));
}

#[test]
fn a_cursor_that_is_none_of_ours_is_not_taken() {
    let shelf = shelf(Listing::Tools, &[("alice", &["t"])]);
    for cursor in ["", "x", "1", "x/alice", "-1/alice", "1/", "1/a?b", "99999999999999999999999/alice"] {
        assert!(shelf.page(Listing::Tools, Some(cursor)).is_none(), "{cursor}");
    }
    assert_eq!(shelf.page(Listing::Tools, Some("7/alice")).map(|(page, next)| (page.len(), next)), Some((0, None)));
}

fn stocks(names: &'static str) -> impl Strategy<Value = Vec<(ParticipantId, Vec<String>)>> {
    let who = prop_oneof![Just("system:gateway".to_owned()), "[a-b_.:@]{1,4}", "[a-z]{60,128}"]
        .prop_filter_map("an id", |text| ParticipantId::new(text).ok());
    prop::collection::vec((who, prop::collection::vec(names, 0..20)), 0..8)
}

/// A shelf whose client is shown these lists, some of them as the room's catalogue has them: all, none, or those of every other owner.
fn filled(listing: Listing, stocks: &[(ParticipantId, Vec<String>)], from_room: u8) -> MergedLists {
    let items = |names: &[String]| names.iter().map(|name| item(listing, name)).collect::<Vec<_>>();
    let is_from_room = |at: usize| from_room == 1 || (from_room == 2 && at.is_multiple_of(2));
    let stocks: BTreeMap<_, _> = stocks.iter().cloned().collect();
    let lists = stocks.iter().enumerate().filter(|(at, _)| is_from_room(*at));
    let mut shelf = shelf_of(&lists.map(|(_, (who, names))| (who.clone(), listing, items(names))).collect::<Vec<_>>());
    for (_, (who, names)) in stocks.iter().enumerate().filter(|(at, _)| !is_from_room(*at)) {
        shelf.put(who, listing, items(names));
    }
    shelf
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn names_are_taken_by_every_host_and_lead_back(stocks in stocks(r"[ab_.]{0,3}|\PC{0,90}"), from_room in 0..3_u8) {
        let shelf = filled(Listing::Tools, &stocks, from_room);
        let names = pages(&shelf, Listing::Tools).concat();
        let stocks: BTreeMap<_, _> = stocks.into_iter().collect();
        let offered: HashSet<_> =
            stocks.iter().flat_map(|(who, names)| names.iter().map(|name| (who.clone(), name.clone()))).collect();
        let mut found = HashSet::new();
        for name in &names {
            prop_assert!((1..=64).contains(&name.len()), "{}", name);
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{}", name);
            let OwnerLookup::One(who, own) = shelf.find(Listing::Tools, name) else { panic!("{name} is lost") };
            found.insert((who, own));
        }
        prop_assert_eq!(names.len(), found.len());
        prop_assert_eq!(found, offered);
    }

    #[test]
    fn uris_lead_back(stocks in stocks(r"(salon://)?(a/|b/)?[xy]{1,2}"), from_room in 0..3_u8) {
        let shelf = filled(Listing::Resources, &stocks, from_room);
        let listed: HashSet<_> = pages(&shelf, Listing::Resources).concat().into_iter().collect();
        let stocks: BTreeMap<_, _> = stocks.into_iter().collect();
        for (who, names) in &stocks {
            for name in names {
                let uri = shelf.listed_uri(who, name);
                prop_assert_eq!(shelf.find_uri(&uri), OwnerLookup::One(who.clone(), name.clone()));
                prop_assert!(listed.contains(&uri));
            }
        }
    }

    #[test]
    fn pages_have_everything_once(counts in prop::collection::vec(0_usize..400, 1..5)) {
        let stocks: Vec<_> = counts.iter().enumerate().map(|(who, count)| {
            (id(&format!("p{who}")), (0..*count).map(|n| n.to_string()).collect())
        }).collect();
        let shelf = filled(Listing::Tools, &stocks, 2);
        let expected: Vec<_> = stocks.iter().flat_map(|(who, names)| names.iter().map(move |name| format!("{who}__{name}"))).collect();
        prop_assert_eq!(pages(&shelf, Listing::Tools).concat(), expected);
    }

    #[test]
    fn whatever_is_asked_is_answered(text in r"(salon://|\{|\}|/|__|a|\PC){0,12}") {
        let mut shelf = filled(Listing::Tools, &[(id("a"), vec![text.clone()])], 0);
        shelf.put(&id("a"), Listing::Templates, vec![item(Listing::Templates, &text)]);
        shelf.note_link(&id("a"), &text);
        shelf.find(Listing::Tools, &text);
        shelf.find_uri(&text);
        shelf.find_template(&text);
        shelf.listed_uri(&id("a"), &text);
        shelf.page(Listing::Tools, Some(&text));
    }
}
