//! `docs/conformance.md`: each statement of the specification, and the test that shows it.
//!
//! A row of its tables has the section first, then the level (a key word, or `states`), and the tests last, each in backticks:
//! `scene name` for tests/scenes/**/name.scene, `frames name` for a table of tests/scenes/src/bad_frames.rs, `name` for a test function
//! anywhere, `crate::module::name` for one there.

use super::source::{SourceFile, SourceLine};
use super::{Finding, SourceTree};

const PAGE: &str = "docs/conformance.md";
const FRAMES: &str = "tests/scenes/src/bad_frames.rs";
/// The one thing a row may say instead of naming a test.
const NOT_THE_GATEWAYS: &str = "binds the user's program";
/// The key words, and what is said without one.
const LEVELS: &[&str] = &["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "states"];

pub(crate) fn check(tree: &SourceTree) -> Vec<Finding> {
    let Some(page) = tree.sources.iter().find(|source| source.path == PAGE) else {
        return vec![Finding::of(PAGE, "the page is missing")];
    };
    let tests = Tests::of(tree);
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
        let named: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        if named.is_empty() && *shown != NOT_THE_GATEWAYS {
            find(format!("a {level} without a test"));
        }
        for name in named {
            if !tests.has(name) {
                find(format!("there is no test `{name}`"));
            }
        }
    }
    if statements == 0 {
        findings.push(Finding::of(PAGE, "it has no statement at all"));
    }
    findings
}

/// The cells of a table's row; `None` for a heading, a rule and any other line.
fn row(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = inner.split('|').map(str::trim).collect();
    let rule = cells.iter().all(|cell| cell.chars().all(|c| matches!(c, '-' | ':')));
    (!rule && cells.first() != Some(&"§")).then_some(cells)
}

struct Tests<'a> {
    scenes: Vec<&'a str>,
    frames: Option<&'a SourceFile>,
    functions: Vec<(&'a str, String)>,
}

impl<'a> Tests<'a> {
    fn of(tree: &'a SourceTree) -> Self {
        let scene = |path: &'a String| path.strip_prefix("tests/scenes/")?.strip_suffix(".scene")?.rsplit('/').next();
        let functions = tree.rust().flat_map(|source| functions(source).into_iter().map(|name| (&*source.path, name)));
        Self {
            scenes: tree.paths.iter().filter_map(scene).collect(),
            frames: tree.rust().find(|source| source.path == FRAMES),
            functions: functions.collect(),
        }
    }

    fn has(&self, name: &str) -> bool {
        if let Some(scene) = name.strip_prefix("scene ") {
            return self.scenes.contains(&scene);
        }
        if let Some(table) = name.strip_prefix("frames ") {
            // A table counts only if it is used as well as there.
            let (made, used) = (format!("fn {table}() -> Vec<Bad>"), format!("{table}()"));
            let lines = || self.frames.into_iter().flat_map(SourceFile::code).map(|line| line.code);
            return lines().any(|code| code.contains(&made))
                && lines().any(|code| !code.contains(&made) && code.contains(&used));
        }
        let mut modules: Vec<&str> = name.split("::").collect();
        let function = modules.pop().unwrap_or_default();
        self.functions.iter().any(|(path, found)| found == function && is_in(path, &modules))
    }
}

/// Whether a file is where a path of modules says, its first being the crate. A module of the file itself is not looked for.
fn is_in(path: &str, modules: &[&str]) -> bool {
    let Some((first, inner)) = modules.split_first() else { return true };
    let folder = first.strip_prefix("salon_").unwrap_or(first);
    let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    let crate_is = parts.get(1) == Some(&folder) && matches!(parts[0], "crates" | "tests") || parts[0] == folder;
    crate_is && inner.iter().filter(|module| **module != "tests").all(|module| parts.contains(module))
}

/// The names of a file's test functions.
fn functions(source: &SourceFile) -> Vec<String> {
    let mut names = Vec::new();
    let mut marked = false;
    for SourceLine { code, .. } in source.code() {
        let code = code.trim();
        marked |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
        if let Some((_, rest)) = code.split_once("fn ").filter(|(before, _)| before.is_empty() || before.ends_with(' '))
        {
            let name: String = rest.chars().take_while(|c| super::source::is_word(*c)).collect();
            names.extend(std::mem::take(&mut marked).then_some(name));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{rendered, tree};

    /// What is said of a page with one row, in a tree with a few tests.
    fn judge(level: &str, shown: &str) -> String {
        let page =
            format!("# Title\n\n| § | level | says | shown by |\n|---|---|---|---|\n| 4 | {level} | x | {shown} |\n");
        let code = "fn helper() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn holds() {}\n    #[tokio::test(start_paused = true)]\n    async fn waits() {}\n}\n";
        let frames = "fn trials() { forged() }\nfn forged() -> Vec<Bad> {}\nfn unused() -> Vec<Bad> {}\n";
        let files = [
            (PAGE, &*page),
            ("crates/rooms/src/rules.rs", code),
            ("tests/scenes/mcpx/spoof.scene", ""),
            (FRAMES, frames),
        ];
        rendered(check(&tree(&files))).join("\n").replace("docs/conformance.md:5: ", "")
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
            "`must` is not one of MUST, MUST NOT, SHOULD, SHOULD NOT, MAY, states\ndocs/conformance.md: it has no statement at all"
        );
    }
}
