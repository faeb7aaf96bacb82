//! The tests that a document names to show something, each in backticks: `scene name` for tests/scenes/**/name.scene, `frames name` for a table
//! of tests/scenes/src/bad_frames.rs, `trial name` for a row of any other table of trials, `page name` for a test of the page in ui/tests,
//! `name` for a test function anywhere, `crate::module::name` for one there. A function in the list of `nats_trials!` is a test function.

use super::SourceTree;
use super::source::{SourceFile, SourceLine};

pub(super) const FRAMES: &str = "tests/scenes/src/bad_frames.rs";

/// The tests that a document may name.
pub(super) struct NamedTests<'a> {
    scenes: Vec<(&'a str, &'a str)>,
    frames: Option<&'a SourceFile>,
    functions: Vec<TestFunction<'a>>,
    /// The files in which tables of trials are.
    trials: Vec<&'a SourceFile>,
    /// The files of the page's tests.
    pages: Vec<&'a SourceFile>,
}

/// A test function, and what it does.
struct TestFunction<'a> {
    path: &'a str,
    name: String,
    body: String,
}

impl<'a> NamedTests<'a> {
    pub(super) fn of(tree: &'a SourceTree) -> Self {
        let scene = |source: &'a SourceFile| {
            let name = source.path.strip_prefix("tests/scenes/")?.strip_suffix(".scene")?.rsplit('/').next()?;
            Some((name, &*source.text))
        };
        Self {
            scenes: tree.sources.iter().filter_map(scene).collect(),
            frames: tree.rust().find(|source| source.path == FRAMES),
            functions: tree.rust().flat_map(functions).collect(),
            trials: tree.rust().filter(|source| source.path.contains("tests/")).collect(),
            pages: tree.sources.iter().filter(|source| source.path.starts_with("ui/tests/")).collect(),
        }
    }

    /// Names that two scenes have, so that nobody knows which is meant.
    pub(super) fn ambiguous_scenes(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = self.scenes.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        let mut doubled: Vec<&str> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        doubled.dedup();
        doubled
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// What a test does: its scene, its table, the body of its function. Of a trial and of a test of the page, the file.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        if let Some(scene) = name.strip_prefix("scene ") {
            return self.scenes.iter().find(|(found, _)| *found == scene).map(|(_, text)| (*text).to_owned());
        }
        if let Some(table) = name.strip_prefix("frames ") {
            // A table counts only if it is used as well as there.
            let (made, used) = (format!("fn {table}() -> Vec<Bad>"), format!("{table}()"));
            let frames = self.frames?;
            let lines = || frames.code().map(|line| line.code);
            lines().find(|code| !code.contains(&made) && code.contains(&used))?;
            let start = frames.code().find(|line| line.code.contains(&made))?.number;
            return Some(body(frames, start));
        }
        let in_files = |files: &[&SourceFile], entries: &[String]| {
            let found = files.iter().find(|source| entries.iter().any(|entry| source.text.contains(entry)));
            found.map(|source| source.text.clone())
        };
        if let Some(trial) = name.strip_prefix("trial ") {
            return in_files(&self.trials, &[format!("\"{trial}\",")]);
        }
        if let Some(test) = name.strip_prefix("page ") {
            return in_files(&self.pages, &[format!("test('{test}',"), format!("test(\"{test}\",")]);
        }
        let mut modules: Vec<&str> = name.split("::").collect();
        let function = modules.pop().unwrap_or_default();
        let found = self.functions.iter().find(|found| found.name == function && is_in(found.path, &modules));
        found.map(|found| found.body.clone())
    }
}

/// The lines of a function from its first one to the brace that closes it.
fn body(source: &SourceFile, start: usize) -> String {
    let lines: Vec<&str> = source.text.lines().skip(start - 1).collect();
    let indent = lines.first().map_or(0, |line| line.len() - line.trim_start().len());
    let closing = format!("{}}}", " ".repeat(indent));
    let is_end = |(at, line): (usize, &&str)| **line == closing || (at == 0 && line.ends_with('}'));
    let end = lines.iter().enumerate().position(is_end);
    lines[..end.map_or(lines.len(), |end| end + 1)].join("\n")
}

/// Whether a file is where a path of modules says, its first being the crate. A module of the file itself is not looked for.
fn is_in(path: &str, modules: &[&str]) -> bool {
    let Some((first, inner)) = modules.split_first() else { return true };
    let folder = first.strip_prefix("salon_").unwrap_or(first);
    let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    let crate_is = parts.get(1) == Some(&folder) && matches!(parts[0], "crates" | "tests") || parts[0] == folder;
    crate_is && inner.iter().filter(|module| **module != "tests").all(|module| parts.contains(module))
}

/// A file's test functions.
fn functions(source: &SourceFile) -> Vec<TestFunction<'_>> {
    let mut functions = Vec::new();
    let trials = nats_trials(&source.text);
    let mut marked = false;
    for SourceLine { code, number, .. } in source.code() {
        let code = code.trim();
        marked |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
        if let Some((_, rest)) = code.split_once("fn ").filter(|(before, _)| before.is_empty() || before.ends_with(' '))
        {
            let name: String = rest.chars().take_while(|c| super::source::is_word(*c)).collect();
            if !std::mem::take(&mut marked) && !trials.contains(&&*name) {
                continue;
            }
            functions.push(TestFunction { path: &source.path, name, body: body(source, number) });
        }
    }
    functions
}

/// The functions that a file lists in `nats_trials![…]`.
fn nats_trials(text: &str) -> Vec<&str> {
    let lists = text.split("nats_trials![").skip(1).filter_map(|rest| rest.split_once(']'));
    lists.flat_map(|(list, _)| list.split(',')).map(str::trim).filter(|name| !name.is_empty()).collect()
}
