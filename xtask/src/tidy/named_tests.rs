//! The tests that a document names to show something, each in backticks: `scene name` for tests/scenes/**/name.scene, `frames name` for a table
//! of tests/scenes/src/bad_frames.rs, `trial name` for a row of any other table of trials, `name` for a test function anywhere,
//! `crate::module::name` for one there.

use super::SourceTree;
use super::source::{SourceFile, SourceLine};

pub(super) const FRAMES: &str = "tests/scenes/src/bad_frames.rs";

/// The tests that a document may name.
pub(super) struct NamedTests<'a> {
    scenes: Vec<&'a str>,
    frames: Option<&'a SourceFile>,
    functions: Vec<(&'a str, String)>,
    /// The files in which tables of trials are.
    trials: Vec<&'a SourceFile>,
}

impl<'a> NamedTests<'a> {
    pub(super) fn of(tree: &'a SourceTree) -> Self {
        let scene = |path: &'a String| path.strip_prefix("tests/scenes/")?.strip_suffix(".scene")?.rsplit('/').next();
        let functions = tree.rust().flat_map(|source| functions(source).into_iter().map(|name| (&*source.path, name)));
        Self {
            scenes: tree.paths.iter().filter_map(scene).collect(),
            frames: tree.rust().find(|source| source.path == FRAMES),
            functions: functions.collect(),
            trials: tree.rust().filter(|source| source.path.contains("tests/")).collect(),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
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
        if let Some(trial) = name.strip_prefix("trial ") {
            let entry = format!("\"{trial}\",");
            return self.trials.iter().any(|source| source.text.contains(&entry));
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
