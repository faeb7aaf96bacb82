//! Dependencies that no source file names.
//!
//! Deliberately simple: a dependency is used when its crate name stands in the code of the package. What is only wanted for its
//! features is listed by name.

use std::collections::BTreeSet;

use super::source::is_word;
use super::{Finding, SourceTree};
use crate::metadata::{Metadata, Package};

/// (package, dependency): there for a feature that another dependency needs switched on.
const FOR_FEATURES: &[(&str, &str)] = &[];

pub(crate) fn check(metadata: &Metadata, tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut named = BTreeSet::new();
    for package in &metadata.packages {
        let manifest = relative(metadata, package);
        let folder = manifest.trim_end_matches("Cargo.toml");
        let sources: Vec<&str> =
            tree.rust().filter(|source| source.path.starts_with(folder)).map(|s| &*s.text).collect();
        for dependency in &package.dependencies {
            named.insert(&*dependency.name);
            let ident = dependency.rename.as_ref().unwrap_or(&dependency.name).replace('-', "_");
            let excused = FOR_FEATURES.contains(&(&package.name, &dependency.name));
            if !excused && !sources.iter().any(|text| names(text, &ident)) {
                let message = format!("no source of `{}` names `{}`", package.name, dependency.name);
                findings.push(at(tree, &manifest, &dependency.name, message));
            }
        }
    }
    findings.extend(of_workspace(tree, &named));
    findings
}

/// Entries of `[workspace.dependencies]` that no member asks for.
fn of_workspace(tree: &SourceTree, named: &BTreeSet<&str>) -> Vec<Finding> {
    let Some(manifest) = tree.sources.iter().find(|source| source.path == "Cargo.toml") else { return Vec::new() };
    let entries = manifest.text.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let entries = entries.take_while(|line| !line.starts_with('['));
    let unused = entries.filter_map(|line| line.split_once('=')).map(|(name, _)| name.trim());
    let unused = unused.filter(|name| !name.starts_with('#') && !named.contains(name));
    unused.map(|name| at(tree, "Cargo.toml", name, format!("no package asks for `{name}`"))).collect()
}

fn relative(metadata: &Metadata, package: &Package) -> String {
    let path = package.manifest_path.strip_prefix(&metadata.workspace_root).unwrap_or(&package.manifest_path);
    path.to_string_lossy().into_owned()
}

fn at(tree: &SourceTree, manifest: &str, dependency: &str, message: String) -> Finding {
    let text = tree.sources.iter().find(|source| source.path == manifest).map_or("", |source| &*source.text);
    let line = text
        .lines()
        .position(|line| line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with([' ', '.', '='])));
    Finding { path: manifest.into(), line: line.map(|index| index + 1), message }
}

/// Whether a crate's name stands in a text as a word of its own.
fn names(text: &str, ident: &str) -> bool {
    text.match_indices(ident)
        .any(|(at, _)| !text[..at].ends_with(is_word) && !text[at + ident.len()..].starts_with(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{rendered, tree};

    #[test]
    fn a_dependency_that_nothing_names_is_found() {
        let package = serde_json::json!({
            "name": "salon-log",
            "manifest_path": "/r/crates/log/Cargo.toml",
            "dependencies": [{"name": "tokio-util"}, {"name": "serde"}, {"name": "uuid", "rename": "ids"}],
        });
        let whole = serde_json::json!({"packages": [package], "workspace_root": "/r", "target_directory": "/r/target"});
        let metadata = serde_json::from_value(whole).expect("the shape of cargo metadata");
        let found = check(
            &metadata,
            &tree(&[
                (
                    "Cargo.toml",
                    "[workspace.dependencies]\nserde = \"1\"\nassert_cmd = \"2\"\n\n[profile.dev]\ndebug = 1\n",
                ),
                ("crates/log/Cargo.toml", "[dependencies]\nserde.workspace = true\ntokio-util.workspace = true\n"),
                ("crates/log/src/lib.rs", "use tokio_utils::x;\nuse serde::Serialize;\nids::new();\n"),
                ("crates/rooms/src/lib.rs", "use tokio_util::x;\n"),
            ]),
        );
        assert_eq!(
            rendered(found),
            [
                "crates/log/Cargo.toml:3: no source of `salon-log` names `tokio-util`",
                "Cargo.toml:3: no package asks for `assert_cmd`",
            ]
        );
    }
}
