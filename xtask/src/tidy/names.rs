//! Names: a type has one meaning in the workspace, and names are words that a reader would search for.

use std::collections::BTreeMap;

use super::source::{SourceFile, SourceLine, is_word};
use super::{Finding, SourceTree};

/// What makes a type, at the beginning of a line. Types inside functions and associated types are indented.
const KEYWORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// Types that two crates or two engines have: in which files, and why they are the same thing.
const SHARED: &[(&str, &[&str], &str)] = &[
    (
        "Extent",
        &["crates/log/src/nats/reader.rs", "crates/log/src/sqlite/settled.rs"],
        "which positions of a topic an engine has",
    ),
    (
        "OpenError",
        &["crates/log/src/nats/open.rs", "crates/log/src/sqlite/mod.rs"],
        "why an engine could not be opened",
    ),
    (
        "ReadmeExamples",
        &["crates/client/src/lib.rs", "crates/mcp/src/lib.rs", "crates/protocol/src/lib.rs"],
        "compiles the README of its crate",
    ),
    (
        "Room",
        &["crates/client/src/room.rs", "crates/rooms/src/room.rs"],
        "a topic's live state, on a node and in a client",
    ),
    (
        "Scratch",
        &["crates/gateway/src/scratch.rs", "crates/testkit/src/scratch.rs"],
        "a temporary directory of tests; the gateway's own cannot use the test kit",
    ),
    (
        "Timings",
        &["crates/gateway/src/timings.rs", "crates/log/src/nats/timings.rs", "crates/rooms/src/timings.rs"],
        "how long a crate waits for what",
    ),
];

/// Names of types that say nothing, and what to write instead.
const ODD_TYPES: &[(&str, &str)] = &[
    ("Asked", "`PendingCall`, `PendingRequest`"),
    ("Deed", "`Action`"),
    ("Errand", "`Request`, `OwnRequest`"),
    ("Heard", "`Delivery`, `Event`"),
    ("Held", "`Lease`, `Table`, a noun that says what is held"),
    ("Hello", "`HandshakeParams`"),
    ("Known", "`Record`, `State`, a noun that says what is known"),
    ("Manner", "`ClientProfile`"),
    ("Met", "`HandshakeResult`"),
    ("No", "`Rejection`, `DoorError`"),
    ("Place", "`Position`, `SeatClaim`, `SeatState`"),
    ("Put", "a noun that says what is written or asked"),
    ("Said", "`Message`, `Event`"),
    ("Shown", "`View`"),
    ("Told", "`Notification`, `Notice`"),
    ("Unfit", "`InvalidValue`, `SchemaError`"),
    ("Wanted", "`Request`, `Subscription`, `Range`"),
    ("Wish", "`Request`, `Options`"),
    ("Wrong", "an error that names what is wrong"),
];

/// Words with which a type's name does not begin, nor a variant's consist of, and what to write instead.
const ODD_FIRST_WORDS: &[(&str, &str)] = &[
    ("Asked", "`Pending…`, `Open…`, a noun that says what was asked"),
    ("Heard", "`Received…`, `…Event`"),
    ("Known", "`…Cache`, `…Table`, `Fetched`"),
    ("Said", "`…Message`, `…Event`"),
    ("Shown", "`…View`, `Visible`"),
    ("Told", "`…Notification`, `Reported`"),
    ("Wanted", "`Requested…`, `…Request`"),
];

/// Words with which a type's name does not end, and what to write instead.
const ODD_LAST_WORDS: &[(&str, &str)] = &[
    ("Asked", "`…Request`"),
    ("Heard", "`…Event`"),
    ("Known", "`…Record`, `…State`"),
    ("Place", "`…Address`, `…Position`, `…Location`, `…Key`"),
    ("Said", "`…Message`"),
    ("Shown", "`…View`"),
    ("Told", "`…Notification`"),
    ("Wanted", "`…Request`"),
    ("Wish", "`…Request`, `…Options`"),
];

/// Names of constants that do not say which quantity they are, and what to write instead.
const ODD_CONSTANTS: &[(&str, &str)] = &[
    ("ABANDONED", "`IDLE_TIMEOUT`"),
    ("AFTERMATH", "`DRAIN_TIMEOUT`, `EXIT_TIMEOUT`"),
    ("AT_ONCE", "`MAX_…`"),
    ("CANCELLATIONS", "`MAX_CANCELLATIONS`"),
    ("CONFIDENCE", "`SIBLING_GRACE`"),
    ("ENDING", "`STOP_TIMEOUT`"),
    ("FAREWELL", "`DELETE_TIMEOUT`, `CLOSE_TIMEOUT`"),
    ("GOODBYE", "`CLOSE_TIMEOUT`"),
    ("GRACE", "`EXIT_TIMEOUT`, or whose grace it is"),
    ("GREETING", "`HANDSHAKE_TIMEOUT`"),
    ("GREETINGS", "`MAX_HANDSHAKES`"),
    ("IN_FLIGHT", "`MAX_IN_FLIGHT`, or what is in flight"),
    ("IN_LINE", "`MAX_QUEUED`"),
    ("IN_LINE_BYTES", "`MAX_QUEUED_BYTES`"),
    ("LASTED", "`RESET_BACKOFF_AFTER`"),
    ("LASTING", "`RESET_BACKOFF_AFTER`"),
    ("LAST_ANSWERS", "`ANSWERS_TIMEOUT`"),
    ("LAST_WORD", "`EXIT_TIMEOUT`"),
    ("LAST_WORDS", "`FLUSH_TIMEOUT`"),
    ("LEAVING", "`LEAVE_TIMEOUT`"),
    ("LINGER", "`DRAIN_TIMEOUT`"),
    ("LITTLE", "`SMALL_BYTES`"),
    ("LONGEST_DOUBT", "`GIVE_UP_AFTER`"),
    ("MANY", "`MAX_…`, or what there are many of"),
    ("ORDERS", "`MAX_ORDERS`"),
    ("OVERFLOW", "`MAX_OVERFLOW`"),
    ("PARTICIPANTS", "`MAX_PARTICIPANTS`"),
    ("PARTING", "`LEAVE_TIMEOUT`"),
    ("PATIENCE", "`APPEND_TIMEOUT`, or what else times out"),
    ("PAUSE", "`RETRY_DELAY`, or which delay it is"),
    ("PEACE", "`RETRY_AFTER`"),
    ("PER_PARTICIPANT", "`MAX_PER_PARTICIPANT`"),
    ("REMEMBERED", "`…_TTL`, `MAX_REMEMBERED`"),
    ("SILENCE", "`SILENCE_TIMEOUT`"),
    ("SLACK", "`MAX_SPARE_…`, `EXTRA_BYTES`"),
    ("SLOW", "`STREAM_OPEN_DELAY`, or what is slow"),
    ("STEADY", "`RESET_BACKOFF_AFTER`"),
    ("THINKING", "`ANSWER_TIMEOUT`"),
    ("WAITING", "`MAX_WAITING_…`"),
    ("WAITING_BYTES", "`MAX_WAITING_BYTES`"),
    ("WAIT_OUT", "`…_RETRY_DELAY`"),
    ("WORD", "`NOTIFICATION_TIMEOUT`"),
];

/// What is wrong with the names in the tree.
pub(crate) fn check(tree: &SourceTree) -> Vec<Finding> {
    duplicates(tree).into_iter().chain(tree.rust().flat_map(odd_names)).collect()
}

/// A type's name that stands in two files. A second one in the same file is the same type for another platform or feature.
fn duplicates(tree: &SourceTree) -> Vec<Finding> {
    let mut homes: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for source in tree.rust().filter(|source| !is_apart(source)) {
        for line in source.code().filter(|line| !line.in_tests || source.path.starts_with("crates/testkit/")) {
            let Some(name) = defined_type(line.code).filter(|_| !line.code.starts_with(' ')) else { continue };
            let files = homes.entry(name).or_default();
            if !is_alias_of_itself(line.code, name) && files.last().is_none_or(|(path, _)| *path != source.path) {
                files.push((&source.path, line.number));
            }
        }
    }
    let is_shared =
        |name: &str, path: &str| SHARED.iter().any(|(shared, files, _)| *shared == name && files.contains(&path));
    let second = homes.into_iter().flat_map(|(name, mut files)| {
        files.sort_by_key(|(path, _)| !is_shared(name, path));
        let first = files[0].0;
        let others = files.into_iter().skip(1).filter(move |(path, _)| !is_shared(name, path));
        others.map(move |(path, number)| {
            Finding::at(
                path,
                number,
                format!("`{name}` is a type in {first} too: a name has one meaning in the workspace"),
            )
        })
    });
    second.collect()
}

/// Whether a file's types are no part of what a reader of the workspace looks up.
fn is_apart(source: &SourceFile) -> bool {
    source.is_test_module()
        || source.path.starts_with("tests/")
        || source.path.starts_with("fuzz/")
        || source.path.contains("/examples/")
}

/// Names that no engineer would search for. Tests are held to it too: they are read first.
fn odd_names(source: &SourceFile) -> Vec<Finding> {
    let of_line = |line: SourceLine<'_>| {
        let odd_type = defined_type(line.code).and_then(|name| find(ODD_TYPES, name));
        let odd_type = odd_type.map(|(name, instead)| format!("`{name}` says nothing as a type; write {instead}"));
        let odd_type = odd_type.or_else(|| defined_type(line.code).and_then(odd_word));
        let odd_type = odd_type.or_else(|| defined_variant(line.code).and_then(odd_variant));
        let message = odd_type.or_else(|| defined_constant(line.code).and_then(odd_constant));
        message.map(|message| Finding::at(&source.path, line.number, message))
    };
    source.code().filter_map(of_line).collect()
}

fn odd_word(name: &str) -> Option<String> {
    let is_next = |rest: &str| rest.starts_with(char::is_uppercase);
    let begins = |(odd, _): &&(&str, &str)| name.strip_prefix(*odd).is_some_and(is_next);
    let ends = |(odd, _): &&(&str, &str)| name.ends_with(*odd);
    let (odd, instead) = ODD_FIRST_WORDS.iter().find(begins).or_else(|| ODD_LAST_WORDS.iter().find(ends))?;
    Some(format!("`{name}`: `{odd}` does not say what it is; write {instead}"))
}

fn odd_variant(name: &str) -> Option<String> {
    let (_, instead) = find(ODD_FIRST_WORDS, name)?;
    Some(format!("`{name}` says nothing as a variant; write {instead}"))
}

fn odd_constant(name: &str) -> Option<String> {
    if let Some((_, instead)) = find(ODD_CONSTANTS, name) {
        return Some(format!("`{name}` does not say which quantity it is; write {instead}"));
    }
    if name.split('_').any(|word| word == "MOST") {
        return Some(format!("`{name}`: a limit begins with `MAX_` and says what it limits"));
    }
    let is_bare_unit = name.split('_').next().is_some_and(|word| matches!(word, "SECOND" | "SECONDS"));
    is_bare_unit.then(|| format!("`{name}` is a unit, not a quantity; say what takes so long, or `ONE_SECOND`"))
}

fn find(list: &[(&'static str, &'static str)], name: &str) -> Option<(&'static str, &'static str)> {
    list.iter().find(|(odd, _)| *odd == name).copied()
}

/// The name of the type that a line of code defines.
fn defined_type(code: &str) -> Option<&str> {
    let (keyword, rest) = without_visibility(code).split_once(' ')?;
    KEYWORDS.contains(&keyword).then(|| word(rest)).filter(|name| name.starts_with(char::is_uppercase))
}

/// The name of the variant that a line of code may define: the first word of a line, before a comma or its fields.
fn defined_variant(code: &str) -> Option<&str> {
    let code = code.strip_prefix("    ")?.trim_start();
    let (name, rest) = code.split_at(word(code).len());
    let rest = rest.trim();
    // A match arm or an expression goes on after the braces.
    let is_whole = rest.is_empty() || rest == "," || rest == "{" || rest.ends_with("),") || rest.ends_with("},");
    (name.starts_with(char::is_uppercase) && is_whole && !rest.contains("=>")).then_some(name)
}

/// The name of the constant that a line of code defines.
fn defined_constant(code: &str) -> Option<&str> {
    let rest = without_visibility(code).strip_prefix("const ")?;
    Some(word(rest)).filter(|name| rest[name.len()..].starts_with(':'))
}

fn without_visibility(code: &str) -> &str {
    let code = code.trim_start();
    match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or("", |(_, rest)| rest.trim_start()),
        Some(rest) if rest.starts_with(' ') => rest.trim_start(),
        _ => code,
    }
}

fn word(code: &str) -> &str {
    &code[..code.find(|c| !is_word(c)).unwrap_or(code.len())]
}

/// Whether a line is an alias such as `type Event = crate::Event<A>`, which is no second meaning.
fn is_alias_of_itself(code: &str, name: &str) -> bool {
    let Some((_, meant)) = code.split_once('=') else { return false };
    let path = meant.split(['<', ';']).next().unwrap_or_default().trim();
    path.rsplit_once("::").is_some_and(|(_, last)| last == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{rendered, tree};

    #[test]
    fn a_second_type_of_a_name_is_found() {
        let files = [
            ("crates/a/src/a.rs", "pub struct Lane {}\n"),
            ("crates/b/src/b.rs", "pub(super) enum Lane<T> {\n}\n"),
            ("crates/b/src/c.rs", "\ntype Lane = u8;\n"),
        ];
        assert_eq!(
            rendered(check(&tree(&files))),
            [
                "crates/b/src/b.rs:1: `Lane` is a type in crates/a/src/a.rs too: a name has one meaning in the workspace",
                "crates/b/src/c.rs:2: `Lane` is a type in crates/a/src/a.rs too: a name has one meaning in the workspace",
            ]
        );
    }

    #[test]
    fn what_is_no_second_meaning_passes() {
        let files = [
            ("crates/a/src/a.rs", "#[cfg(unix)]\nstruct Lane;\n#[cfg(windows)]\nstruct Lane;\npub trait Steps {}\n"),
            ("crates/a/src/alias.rs", "type Lane = crate::a::Lane<u8>;\nimpl X for Y {\n    type Steps = u8;\n}\n"),
            ("crates/b/src/b.rs", "#[cfg(test)]\nmod tests {\n    struct Lane;\n}\n// struct Lane;\n"),
            ("crates/log/src/nats/open.rs", "struct OpenError;\n"),
            ("crates/log/src/sqlite/mod.rs", "struct OpenError;\n"),
            ("crates/c/tests/c.rs", "struct Lane;\n"),
            ("tests/scenes/src/d.rs", "struct Lane;\n"),
        ];
        assert_eq!(rendered(check(&tree(&files))), [""; 0]);
    }

    #[test]
    fn a_shared_name_is_shared_by_its_files_alone() {
        let files = [
            ("crates/a/src/a.rs", "enum OpenError {}\n"),
            ("crates/log/src/nats/open.rs", "enum OpenError {}\n"),
            ("crates/log/src/sqlite/mod.rs", "enum OpenError {}\n"),
        ];
        assert_eq!(
            rendered(check(&tree(&files))),
            [
                "crates/a/src/a.rs:1: `OpenError` is a type in crates/log/src/nats/open.rs too: a name has one meaning in the workspace"
            ]
        );
    }

    #[test]
    fn the_test_kit_counts_among_the_types() {
        let files = [("crates/a/src/a.rs", "struct Lane;\n"), ("crates/testkit/src/b.rs", "struct Lane;\n")];
        assert_eq!(rendered(check(&tree(&files))).len(), 1);
    }

    #[test]
    fn a_type_is_named_by_a_noun() {
        assert_eq!(
            rendered(check(&tree(&[("crates/a/src/a.rs", "fn a() {\n    struct Told<'a> {}\n}\n")]))),
            ["crates/a/src/a.rs:2: `Told` says nothing as a type; write `Notification`, `Notice`"]
        );
        for (name, _) in ODD_TYPES {
            let found = rendered(check(&tree(&[("crates/a/tests/a.rs", &format!("pub(crate) enum {name} {{}}\n"))])));
            assert_eq!(found.len(), 1, "{name}");
        }
        let judge = |code: &str| rendered(check(&tree(&[("a.rs", code)]))).join("\n");
        assert_eq!(
            judge("struct ShownCall;\n"),
            "a.rs:1: `ShownCall`: `Shown` does not say what it is; write `…View`, `Visible`"
        );
        assert_eq!(
            judge("type GhostPlace = u8;\n"),
            "a.rs:1: `GhostPlace`: `Place` does not say what it is; write `…Address`, `…Position`, `…Location`, `…Key`"
        );
        for variant in ["Told,", "Told(u8),", "Told { code: u8 },", "Told {"] {
            assert_eq!(
                judge(&format!("enum Item {{\n    {variant}\n")),
                "a.rs:2: `Told` says nothing as a variant; write `…Notification`, `Reported`",
                "{variant}"
            );
        }
        assert_eq!(judge("struct Knowledge;\nstruct Placement;\nstruct Showing;\n    Item::Told,\n"), "");
    }

    #[test]
    fn a_constant_says_its_quantity() {
        let judge = |code: &str| rendered(check(&tree(&[("a.rs", code)]))).join("\n");
        assert_eq!(
            judge("pub(super) const PATIENCE: Duration = A;\n"),
            "a.rs:1: `PATIENCE` does not say which quantity it is; write `APPEND_TIMEOUT`, or what else times out"
        );
        for (name, _) in ODD_CONSTANTS {
            assert_ne!(judge(&format!("    const {name}: u8 = 1;\n")), "", "{name}");
        }
        for most in ["MOST", "MOST_CALLS", "AT_MOST"] {
            assert_eq!(
                judge(&format!("const {most}: u8 = 1;\n")),
                format!("a.rs:1: `{most}`: a limit begins with `MAX_` and says what it limits")
            );
        }
        assert_eq!(
            judge("const SECOND: Duration = A;\n"),
            "a.rs:1: `SECOND` is a unit, not a quantity; say what takes so long, or `ONE_SECOND`"
        );
        let fine = "const MAX_CALLS: u8 = 1;\nconst RECONNECT_GRACE: u8 = 2;\nconst EVENTS_PER_SECOND: u8 = 3;\nconst fn most() {}\n";
        assert_eq!(judge(fine), "");
    }
}
