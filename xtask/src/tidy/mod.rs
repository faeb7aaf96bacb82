//! Checks the tree against the project's own rules. Each check is a pure function from what was read to findings; only this file
//! reads anything.

mod conformance;
mod graph;
pub(crate) mod links;
pub(crate) mod markdown;
mod msrv;
mod named_tests;
mod names;
pub(crate) mod pages;
mod size;
mod smells;
mod source;
mod unused;
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::process::Command;

use crate::metadata::{Metadata, output};
use source::SourceFile;

/// A rule that is broken, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: Option<usize>,
    message: String,
}

impl Finding {
    fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line: Some(line), message: message.into() }
    }

    fn of(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.into(), line: None, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

/// Everything the checks look at.
pub(crate) struct SourceTree {
    pub(crate) sources: Vec<SourceFile>,
    /// Every path in the tree, files and folders, relative to its root.
    pub(crate) paths: BTreeSet<String>,
}

impl SourceTree {
    fn new(files: impl IntoIterator<Item = (String, Option<String>)>) -> Self {
        let mut tree = Self { sources: Vec::new(), paths: BTreeSet::from([String::new()]) };
        for (path, text) in files {
            for (at, _) in path.match_indices('/') {
                tree.paths.insert(path[..at].into());
            }
            tree.paths.insert(path.clone());
            tree.sources.extend(text.map(|text| SourceFile::new(path, text)));
        }
        tree
    }

    /// Reads what git tracks or would track. Files that are not UTF-8 are known by name alone.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut git = Command::new("git");
        // A checkout may belong to somebody else, as in a container; only names are asked for.
        git.args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = String::from_utf8(output(git.current_dir(root))?).map_err(|_| "a file name is not UTF-8")?;
        let names: BTreeSet<&str> = listed.split('\0').filter(|name| !name.is_empty()).collect();
        let there = names.into_iter().filter(|name| root.join(name).is_file());
        Ok(Self::new(there.map(|name| (name.into(), std::fs::read_to_string(root.join(name)).ok()))))
    }

    fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.sources.iter().filter(|source| source.path.ends_with(".rs"))
    }

    fn markdown(&self) -> impl Iterator<Item = &SourceFile> {
        self.sources.iter().filter(|source| source.path.ends_with(".md"))
    }
}

pub(crate) fn run(verbose: bool) -> Result<(), String> {
    let metadata = Metadata::here()?;
    let tree = SourceTree::read(&metadata.workspace_root)?;
    let mut findings = graph::check(&metadata, &tree);
    findings.extend(size::check(&tree));
    findings.extend(conformance::check(&tree));
    findings.extend(smells::check(&tree));
    findings.extend(links::check(&tree));
    findings.extend(pages::check(&tree));
    findings.extend(words::check(&tree));
    findings.extend(unused::check(&metadata, &tree));
    findings.extend(names::check(&tree));
    findings.extend(msrv::check(&Metadata::resolved()?, &tree));
    findings.sort();
    if verbose {
        for (path, lines) in size::long(&tree) {
            println!("{path}: {lines} lines without tests; aim for 300");
        }
    }
    if findings.is_empty() {
        println!("tidy: {} files, nothing to say", tree.paths.len());
        return Ok(());
    }
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    Err(format!("{}\ntidy: {} to fix", lines.join("\n"), findings.len()))
}

#[cfg(test)]
fn tree(files: &[(&str, &str)]) -> SourceTree {
    SourceTree::new(files.iter().map(|(path, text)| ((*path).into(), Some((*text).into()))))
}

#[cfg(test)]
fn rendered(findings: Vec<Finding>) -> Vec<String> {
    findings.iter().map(Finding::to_string).collect()
}
