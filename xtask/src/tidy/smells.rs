//! Text that does not belong in the tree: unfinished code, silenced lints, tests that sleep, paths of somebody's machine.

use super::source::{SourceFile, SourceLine, is_word};
use super::{Finding, SourceTree};

/// What must not stand in code, and what to say of it.
const IN_CODE: &[(&str, &str)] = &[
    ("todo!(", "unfinished: `todo!`"),
    ("unimplemented!(", "unfinished: `unimplemented!`"),
    ("dbg!(", "left behind: `dbg!`"),
    ("#[ignore", "a test that does not run proves nothing"),
];

/// What must not stand in tests.
const IN_TESTS: &[&str] = &["sleep(", "sleep_until("];

/// Folders at the root of somebody's machine.
const MACHINE_FOLDERS: &[&str] = &["/work/", "/root/", "/home/"];

/// Inputs for decoders and data of earlier versions are what they are, and the lock file is cargo's.
fn is_data(path: &str) -> bool {
    path.starts_with("fuzz/seeds/")
        || path.ends_with("Cargo.lock")
        || (path.starts_with("tests/upgrades/") && !path.ends_with(".md"))
}

pub(crate) fn check(tree: &SourceTree) -> Vec<Finding> {
    let code = tree.rust().flat_map(|source| {
        let smells = source.code().flat_map(|line| in_code(&line).map(move |message| (line.number, message)));
        smells.map(|(number, message)| Finding::at(&source.path, number, message)).collect::<Vec<_>>()
    });
    let text = tree.sources.iter().filter(|source| !is_data(&source.path)).flat_map(in_text);
    code.chain(text).collect()
}

fn in_code(line: &SourceLine<'_>) -> impl Iterator<Item = String> + use<> {
    let code = line.code;
    let mut messages: Vec<String> =
        IN_CODE.iter().filter(|(smell, _)| has(code, smell)).map(|(_, message)| (*message).into()).collect();
    if (code.contains("#[") || code.contains("#![")) && has(code, "allow(") {
        messages.push("`allow` stays when its cause is gone; say `expect` with a reason".into());
    }
    if line.in_tests && IN_TESTS.iter().any(|smell| has(code, smell)) {
        messages.push("a test waits for what it expects, it does not sleep".into());
    }
    messages.into_iter()
}

fn in_text(source: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        if MACHINE_FOLDERS.iter().any(|folder| leads_into(line, folder)) {
            findings.push(Finding::at(&source.path, index + 1, "a path of somebody's machine"));
        }
    }
    if !source.text.is_empty() && !source.text.ends_with('\n') {
        findings.push(Finding::at(&source.path, source.text.lines().count(), "no newline at the end"));
    }
    findings
}

/// Whether `needle` stands in the code and is not the tail of a longer word.
fn has(code: &str, needle: &str) -> bool {
    code.match_indices(needle).any(|(at, _)| !code[..at].ends_with(is_word))
}

/// Whether a line names something inside a folder at the root.
fn leads_into(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + folder.len()..].chars().next();
        !before.is_some_and(|c| is_word(c) || matches!(c, '.' | '-' | '}' | '~'))
            && after.is_some_and(|c| c.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{rendered, tree};

    fn smell(path: &str, text: &str) -> Vec<String> {
        rendered(check(&tree(&[(path, text)])))
    }

    #[test]
    fn unfinished_code_is_found_and_talk_of_it_is_not() {
        assert_eq!(smell("a.rs", "fn a() { todo!() }\n"), ["a.rs:1: unfinished: `todo!`"]);
        assert_eq!(smell("a.rs", "\n    dbg!(x);\n"), ["a.rs:2: left behind: `dbg!`"]);
        assert_eq!(smell("a.rs", "#[ignore = \"slow\"]\n"), ["a.rs:1: a test that does not run proves nothing"]);
        assert_eq!(smell("a.rs", "// todo!()\nlet a = \"dbg!(x)\";\nmy_todo!();\n"), [""; 0]);
    }

    #[test]
    fn a_lint_is_expected_not_allowed() {
        let rendered = "a.rs:1: `allow` stays when its cause is gone; say `expect` with a reason";
        assert_eq!(smell("a.rs", "#[allow(dead_code)]\n"), [rendered]);
        assert_eq!(smell("a.rs", "#![cfg_attr(test, allow(dead_code))]\n"), [rendered]);
        assert_eq!(smell("a.rs", "#[expect(dead_code, reason = \"later\")]\nrules.allow(1);\n"), [""; 0]);
    }

    #[test]
    fn only_tests_must_not_sleep() {
        let text = "fn a() { sleep(b) }\n#[cfg(test)]\nmod tests {\n    fn c() { tokio::time::sleep(d).await }\n}\n";
        assert_eq!(
            smell("crates/a/src/a.rs", text),
            ["crates/a/src/a.rs:4: a test waits for what it expects, it does not sleep"]
        );
        assert_eq!(smell("crates/testkit/src/a.rs", "fn a() { sleep(b) }\n").len(), 1);
        assert_eq!(smell("crates/a/tests/a.rs", "fn a() { thread::sleep(b) }\n").len(), 1);
    }

    #[test]
    fn a_machines_paths_are_found() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(smell("a.md", &format!("see {folder}x\n")), ["a.md:1: a path of somebody's machine"]);
            assert_eq!(
                smell("a.md", &format!("https://example.org{folder}x and target{folder} and {folder}\n")),
                [""; 0]
            );
        }
    }

    #[test]
    fn a_file_ends_with_a_newline() {
        assert_eq!(smell("a.toml", "a = 1\nb = 2"), ["a.toml:2: no newline at the end"]);
        assert_eq!(smell("fuzz/seeds/x/a.json", "{}"), [""; 0]);
    }
}
