//! `docs/protocols/conformance.md`: each statement of the specification, and the test that shows it.
//!
//! A row of its tables has the section first, then the level (a key word, or `states`), and the tests last, as [`NamedTests`] knows them. A test that
//! shows a row deals with what the row is about: a code of a refusal, a method of MCP, a tool of the gateway or a code of JSON-RPC that the columns
//! between name in backticks must be named by one of the tests.
//!
//! `docs/security.md`: each promise, and the test that shows it. A row has the promise first and the tests last; tables that do not end with
//! a column `shown by` are no promises.

use super::named_tests::NamedTests;
use super::{Finding, SourceTree};

const PAGE: &str = "docs/protocols/conformance.md";
const PROMISES: &str = "docs/security.md";
/// The one thing a row may say instead of naming a test.
const NOT_THE_GATEWAYS: &str = "binds the user's program";
/// The key words, and what is said without one.
const LEVELS: &[&str] = &["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "states"];

pub(crate) fn check(tree: &SourceTree) -> Vec<Finding> {
    let Some(page) = tree.sources.iter().find(|source| source.path == PAGE) else {
        return vec![Finding::of(PAGE, "the page is missing")];
    };
    let tests = NamedTests::of(tree);
    let codes = codes(tree);
    let mut findings = Vec::new();
    let mut statements = 0;
    for (index, line) in page.text.lines().enumerate() {
        let Some(cells) = row(line) else { continue };
        let mut find = |message: String| findings.push(Finding::at(PAGE, index + 1, message));
        let (Some(level), Some(shown)) = (cells.get(1), cells.last()) else { continue };
        if !LEVELS.contains(level) {
            find(format!("`{level}` is not one of {}", LEVELS.join(", ")));
            continue;
        }
        statements += 1;
        let named = named(shown);
        if named.is_empty() && *shown != NOT_THE_GATEWAYS {
            find(format!("a {level} without a test"));
        }
        named.iter().filter(|name| !tests.has(name)).for_each(|name| find(format!("there is no test `{name}`")));
        let shown: Vec<String> = named.iter().filter_map(|name| tests.text(name)).collect();
        let claimed = cells.get(cells.len().saturating_sub(2)).copied().unwrap_or_default();
        let is_named = |word: &str| shown.is_empty() || shown.iter().any(|text| names_code(text, word));
        let claims = self::named(claimed).into_iter().filter(|word| codes.contains(word) || is_host_tool(word));
        let columns = cells.get(2..cells.len().saturating_sub(1)).unwrap_or_default();
        let methods = columns.iter().flat_map(|cell| self::named(cell)).filter(|word| is_method(word));
        let mut missing: Vec<&str> = claims.chain(methods).filter(|word| !is_named(word)).collect();
        missing.sort_unstable();
        missing.dedup();
        missing.iter().for_each(|word| find(format!("none of the tests names `{word}`")));
        for code in rpc_codes(claimed).into_iter().filter(|code| !is_named(code)) {
            find(format!("none of the tests names {code}"));
        }
    }
    if statements == 0 {
        findings.push(Finding::of(PAGE, "it has no statement at all"));
    }
    let ambiguous = tests.ambiguous_scenes();
    findings
        .extend(ambiguous.iter().map(|name| Finding::of("tests/scenes", format!("two scenes are called `{name}`"))));
    findings.extend(check_promises(tree, &tests));
    findings
}

fn check_promises(tree: &SourceTree, tests: &NamedTests<'_>) -> Vec<Finding> {
    let Some(page) = tree.sources.iter().find(|source| source.path == PROMISES) else {
        return vec![Finding::of(PROMISES, "the page is missing")];
    };
    let mut findings = Vec::new();
    let (mut promises, mut is_table) = (0, false);
    for (index, line) in page.text.lines().enumerate() {
        let Some(cells) = row(line) else {
            is_table &= line.starts_with('|');
            continue;
        };
        let Some(shown) = cells.last() else { continue };
        if *shown == "shown by" {
            is_table = true;
            continue;
        }
        if !is_table {
            continue;
        }
        promises += 1;
        let named = named(shown);
        let mut find = |message: String| findings.push(Finding::at(PROMISES, index + 1, message));
        if named.is_empty() {
            find("a promise without a test".to_owned());
        }
        named.into_iter().filter(|name| !tests.has(name)).for_each(|name| find(format!("there is no test `{name}`")));
    }
    if promises == 0 {
        findings.push(Finding::of(PROMISES, "it has no promise at all"));
    }
    findings
}

/// The codes of refusals, as crates/protocol/src/refusal.rs declares them.
fn codes(tree: &SourceTree) -> Vec<&str> {
    let file = tree.rust().find(|source| source.path == "crates/protocol/src/refusal.rs");
    let declared =
        file.into_iter().flat_map(|source| source.text.lines()).filter_map(|line| line.trim().strip_suffix("\","));
    declared.filter_map(|line| line.split_once(" \"")).map(|(_, word)| word).collect()
}

/// Whether a word is a method of MCP, such as `tools/call`. What ends with `/*` stands for several.
fn is_method(word: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    word.contains('/') && word.split('/').all(is_part)
}

/// The gateway's tools begin with these, and a dot.
const HOST_TOOLS: &[&str] =
    &["approval", "chat", "context", "history", "message", "participant", "presence", "room", "topic"];

fn is_host_tool(word: &str) -> bool {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    // `participant.id` is a field.
    word.split_once('.').is_some_and(|(group, name)| HOST_TOOLS.contains(&group) && is_name(name) && name != "id")
}

/// The codes of JSON-RPC errors that a text names: −32768 to −32000, with a minus sign or a hyphen. Tests write a hyphen.
fn rpc_codes(text: &str) -> Vec<String> {
    let parts = text.split(['−', '-']).skip(1);
    let digits = parts.map(|part| part.chars().take_while(char::is_ascii_digit).collect::<String>());
    digits.filter(|digits| digits.len() == 5 && digits.starts_with("32")).map(|digits| format!("-{digits}")).collect()
}

/// Whether a test names a code, as its word or as the constant (`Code::FromMismatch`).
fn names_code(text: &str, code: &str) -> bool {
    let capital =
        |word: &str| word.chars().take(1).flat_map(char::to_uppercase).chain(word.chars().skip(1)).collect::<String>();
    let constant: String = code.split('_').map(capital).collect();
    text.contains(code) || text.contains(&format!("Code::{constant}"))
}

/// What stands in backticks.
fn named(shown: &str) -> Vec<&str> {
    shown.split('`').skip(1).step_by(2).collect()
}

/// The cells of a table's row; `None` for a heading, a rule and any other line.
fn row(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = inner.split('|').map(str::trim).collect();
    let rule = cells.iter().all(|cell| cell.chars().all(|c| matches!(c, '-' | ':')));
    (!rule && cells.first() != Some(&"§")).then_some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{rendered, tree};

    /// What is said of a page with one row, in a tree with a few tests.
    fn judge(level: &str, shown: &str) -> String {
        judge_both(level, shown, "`holds`").replace("docs/protocols/conformance.md:5: ", "")
    }

    /// What is said of a promise that is shown by this.
    fn judge_promise(shown: &str) -> String {
        judge_both("MUST", "`holds`", shown).replace("docs/security.md:5: ", "")
    }

    fn judge_both(level: &str, shown: &str, promise: &str) -> String {
        let promises = format!(
            "# Title\n\n| promise | shown by |\n|---|---|\n| y | {promise} |\n\n| other | table |\n| a | b |\n"
        );
        let page =
            format!("# Title\n\n| § | level | says | shown by |\n|---|---|---|---|\n| 4 | {level} | x | {shown} |\n");
        let code = "fn helper() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn holds() {}\n    #[tokio::test(start_paused = true)]\n    async fn waits() {}\n}\n";
        let frames = "fn trials() { forged() }\nfn forged() -> Vec<Bad> {}\nfn unused() -> Vec<Bad> {}\n";
        let trials = "fn trials() { [(\"ends with its token\", f)] }\n";
        let files = [
            (PAGE, &*page),
            (PROMISES, &*promises),
            ("tests/scenes/src/mcp_sessions.rs", trials),
            ("crates/rooms/src/rules.rs", code),
            ("tests/scenes/mcpx/spoof.scene", ""),
            (super::super::named_tests::FRAMES, frames),
        ];
        rendered(check(&tree(&files))).join("\n")
    }

    #[test]
    fn a_promise_names_tests_that_exist() {
        for shown in ["`scene spoof`", "`holds`", "`trial ends with its token`, `frames forged`"] {
            assert_eq!(judge_promise(shown), "", "{shown}");
        }
        assert_eq!(judge_promise("by care"), "a promise without a test");
        assert_eq!(judge_promise("`gone`"), "there is no test `gone`");
        assert_eq!(judge_promise("`trial ends`"), "there is no test `trial ends`");
    }

    #[test]
    fn a_row_names_tests_that_exist() {
        for shown in [
            "`scene spoof`",
            "`frames forged`",
            "`holds`",
            "`waits`, `scene spoof`",
            "`rooms::rules::tests::holds`",
            "`salon_rooms::rules::holds`",
            NOT_THE_GATEWAYS,
        ] {
            assert_eq!(judge("MUST", shown), "", "{shown}");
        }
    }

    #[test]
    fn a_code_that_no_test_names_is_found() {
        let judge = |claim: &str, shown: &str| {
            let page = format!(
                "| § | level | says | Salon | shown by |\n|---|---|---|---|---|\n| 4 | MUST | x | {claim} | {shown} |\n"
            );
            let files = [
                (PAGE, &*page),
                (PROMISES, "| promise | shown by |\n|---|---|\n| y | `holds` |\n"),
                (
                    "crates/protocol/src/refusal.rs",
                    "codes! {\n    /// Why.\n    TooLarge \"too_large\",\n    TooDeep \"too_deep\",\n}\n",
                ),
                (
                    "crates/a/src/a.rs",
                    "#[test]\nfn holds() {\n    refused(Code::TooLarge);\n}\n#[test]\nfn other() {\n    refused(Code::TooDeep);\n}\n",
                ),
                ("tests/scenes/mcpx/deep.scene", "alice is refused too_deep\n"),
                ("tests/scenes/mcp/lists.scene", "bob is asked tools/list by alice\nalice gets {\"code\":-32601}\n"),
                ("ui/tests/unit/a.test.js", "test('asks first', () => {});\n"),
            ];
            rendered(check(&tree(&files))).join("\n").replace("docs/protocols/conformance.md:3: ", "")
        };
        assert_eq!(judge("Refused with `too_large`", "`holds`"), "");
        assert_eq!(judge("Refused with `too_deep`", "`holds`, `scene deep`"), "");
        assert_eq!(judge("The page asks", "`page asks first`"), "");
        assert_eq!(judge("Refused with `too_deep`", "`holds`"), "none of the tests names `too_deep`");
        assert_eq!(judge("By `tools/list`", "`holds`"), "none of the tests names `tools/list`");
        assert_eq!(judge("By `tools/list`", "`scene lists`"), "");
        assert_eq!(judge("By `chat.say`, `/v0/ws` and `resources/*`", "`holds`"), "none of the tests names `chat.say`");
        assert_eq!(judge("Answered with −32601", "`scene lists`"), "");
        assert_eq!(judge("Answered with −32602", "`scene lists`"), "none of the tests names -32602");
        assert_eq!(judge("The page asks", "`page asks never`"), "there is no test `page asks never`");
    }

    #[test]
    fn two_scenes_of_one_name_are_found() {
        let row =
            "| § | level | says | Salon | shown by |\n|---|---|---|---|---|\n| 4 | MUST | x | y | `scene spoof` |\n";
        let files = [
            (PAGE, row),
            (PROMISES, "| promise | shown by |\n|---|---|\n| y | `scene spoof` |\n"),
            ("tests/scenes/mcpx/spoof.scene", ""),
            ("tests/scenes/mcp/spoof.scene", ""),
        ];
        assert_eq!(rendered(check(&tree(&files))), ["tests/scenes: two scenes are called `spoof`"]);
    }

    #[test]
    fn a_row_that_shows_nothing_is_found() {
        assert_eq!(judge("MUST NOT", ""), "a MUST NOT without a test");
        assert_eq!(judge("SHOULD", "by reading the code"), "a SHOULD without a test");
        assert_eq!(judge("MUST", "binds the client library"), "a MUST without a test");
        assert_eq!(judge("MUST", "`scene gone`"), "there is no test `scene gone`");
        assert_eq!(judge("MUST", "`frames gone`"), "there is no test `frames gone`");
        assert_eq!(judge("MUST", "`frames unused`"), "there is no test `frames unused`");
        assert_eq!(judge("MUST", "`holds`, `gone`"), "there is no test `gone`");
        assert_eq!(judge("MUST", "`helper`"), "there is no test `helper`");
        assert_eq!(judge("MUST", "`rooms::seat::holds`"), "there is no test `rooms::seat::holds`");
        assert_eq!(judge("MUST", "`log::rules::holds`"), "there is no test `log::rules::holds`");
        assert_eq!(
            judge("must", "`holds`"),
            "`must` is not one of MUST, MUST NOT, SHOULD, SHOULD NOT, MAY, states\ndocs/protocols/conformance.md: it has no statement at all"
        );
    }
}
