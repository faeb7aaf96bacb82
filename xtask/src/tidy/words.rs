//! The words of the documentation and of the help: those that no engineer would search for, and what to write instead.
//!
//! Checked are the text of Markdown pages, whole Rust files, with the words of a test's name one by one, and, whole, the page of help texts, which a
//! test holds to what the program prints. Only words that are wrong wherever they stand are listed. The changelog tells what was, in the words of its
//! time.

use super::markdown::prose;
use super::source::{SourceFile, is_word};
use super::{Finding, SourceTree};

const HELP: &str = "docs/reference/help.md";
const PAGES: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];

const ODD_WORDS: &[(&str, &str)] = &[
    ("acquaintance", "performs the MCP handshake"),
    ("aloud", "prints"),
    ("are no json", "are not JSON"),
    ("begin anew", "start over"),
    ("begins anew", "starts over"),
    ("begun anew", "started over"),
    ("deed", "action"),
    ("errand", "request"),
    ("given up on", "timed out, cancelled"),
    ("homeless", "orphaned"),
    ("is no json", "is not JSON"),
    ("is worth nothing", "is invalid"),
    ("mends", "fixes"),
    ("not told", "not notified, does not learn"),
    ("outweighs", "overrides"),
    ("put away", "evicted"),
    ("said again", "repeated, resent"),
    ("say again", "retry, resend"),
    ("seen off", "removed"),
    ("shake hands", "perform the MCP handshake"),
    ("shakes hands", "performs the MCP handshake"),
    ("the room's no", "the room's refusal"),
    ("those who", "participants that"),
    ("weightier", "which overrides which"),
    ("what is none", "none"),
    ("whoever", "the participant that, anybody that"),
    ("whomever", "no matter whom"),
];

pub(crate) fn check(tree: &SourceTree) -> Vec<Finding> {
    // The lists of words are in Rust files too.
    let code = tree.rust().filter(|source| !source.path.starts_with("xtask/src/tidy/"));
    tree.markdown().filter(|source| is_checked(&source.path)).chain(code).flat_map(odd_words).collect()
}

fn is_checked(path: &str) -> bool {
    path.starts_with("docs/") || path.starts_with("examples/") || PAGES.contains(&path)
}

fn odd_words(source: &SourceFile) -> Vec<Finding> {
    let is_code = source.path.ends_with(".rs");
    let lines: Vec<(usize, &str)> = match is_code || source.path == HELP {
        true => source.text.lines().enumerate().map(|(index, line)| (index + 1, line)).collect(),
        false => prose(&source.text).collect(),
    };
    let mut findings = Vec::new();
    for (number, line) in lines {
        let line = line.to_lowercase();
        let line = if is_code { line.replace('_', " ") } else { line };
        for (odd, instead) in ODD_WORDS.iter().filter(|(odd, _)| has(&line, odd)) {
            findings.push(Finding::at(&source.path, number, format!("`{odd}`: write \"{instead}\"")));
        }
    }
    findings
}

/// Whether the words stand in a line by themselves.
fn has(line: &str, words: &str) -> bool {
    line.match_indices(words)
        .any(|(at, _)| !line[..at].ends_with(is_word) && !line[at + words.len()..].starts_with(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{rendered, tree};

    #[test]
    fn odd_words_are_found_where_people_read() {
        let text = "Whoever calls pays.\nIndeed, this mends it.\n```\nwhoever\n```\n";
        let code = "// It mends.\nfn whoever_is_slow() {}\n";
        let files =
            [("docs/a.md", text), ("CHANGELOG.md", text), ("crates/a/src/a.rs", code), ("xtask/src/tidy/a.rs", code)];
        assert_eq!(
            rendered(check(&tree(&files))),
            [
                "docs/a.md:1: `whoever`: write \"the participant that, anybody that\"",
                "docs/a.md:2: `mends`: write \"fixes\"",
                "crates/a/src/a.rs:1: `mends`: write \"fixes\"",
                "crates/a/src/a.rs:2: `whoever`: write \"the participant that, anybody that\"",
            ]
        );
        assert_eq!(rendered(check(&tree(&[(HELP, "```text\nwhoever\n```\n")]))).len(), 1);
    }
}
