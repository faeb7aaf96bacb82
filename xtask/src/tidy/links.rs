//! Links in Markdown that lead to files of this repository, and to headings in them; and names of documentation pages anywhere else.

use std::collections::{BTreeMap, BTreeSet};

use super::markdown::{anchors, targets};
use super::{Finding, SourceTree};

pub(crate) fn check(tree: &SourceTree) -> Vec<Finding> {
    let headings: BTreeMap<&str, BTreeSet<String>> =
        tree.markdown().map(|source| (&*source.path, anchors(&source.text))).collect();
    let mut findings = Vec::new();
    for source in tree.markdown() {
        for (line, target) in targets(&source.text) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            if file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            let path = if file.is_empty() { Some(source.path.clone()) } else { resolve(&source.path, file) };
            let Some(path) = path.filter(|path| tree.paths.contains(path)) else {
                findings.push(Finding::at(&source.path, line, format!("the link leads nowhere: {target}")));
                continue;
            };
            let has_heading = headings.get(&*path).is_some_and(|anchors| anchors.contains(anchor));
            if !anchor.is_empty() && !has_heading {
                findings.push(Finding::at(&source.path, line, format!("{path} has no heading `#{anchor}`")));
            }
        }
    }
    findings.extend(tree.sources.iter().filter(|source| !source.path.starts_with("xtask/")).flat_map(|source| {
        let named =
            source.text.lines().enumerate().flat_map(|(index, line)| named_pages(line).map(move |page| (index, page)));
        let missing = named.filter(|(_, page)| !tree.paths.contains(*page));
        missing
            .map(|(index, page)| Finding::at(&source.path, index + 1, format!("there is no page {page}")))
            .collect::<Vec<_>>()
    }));
    findings
}

/// The pages that a line names as `docs/….md`, as comments, help texts and hints of errors do.
fn named_pages(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
    line.match_indices("docs/").filter_map(move |(at, _)| {
        let is_start = !line[..at].ends_with(is_part);
        let end = line[at..].find(|c| !is_part(c)).map_or(line.len(), |length| at + length);
        let end = line[at..end].find(".md").map(|length| at + length + ".md".len())?;
        is_start.then(|| &line[at..end])
    })
}

/// A path relative to the file that names it, as one from the root; `None` when it leaves the repository.
pub(crate) fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => from.split('/').rev().skip(1).collect::<Vec<_>>().into_iter().rev().collect(),
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{rendered, tree};

    #[test]
    fn a_link_to_nothing_is_found() {
        let text = "[a](b.md) [c](../README.md#x) [d](https://e.f/g.md)\n`[j](k.md)` [`l`](m.md)\n```\n[n](o.md)\n```\n[p]: q.md\n[r](../../s.md)\n";
        let findings = check(&tree(&[("docs/a.md", text), ("README.md", "# x\n[docs](docs/)\n"), ("docs/b.md", "")]));
        assert_eq!(
            rendered(findings),
            [
                "docs/a.md:2: the link leads nowhere: m.md",
                "docs/a.md:6: the link leads nowhere: q.md",
                "docs/a.md:7: the link leads nowhere: ../../s.md",
            ]
        );
    }

    #[test]
    fn a_link_to_a_heading_needs_the_heading() {
        let text = "# Back up\n[a](#back-up) [b](#restore) [c](b.md#one) [d](b.md#two)\n";
        assert_eq!(
            rendered(check(&tree(&[("docs/a.md", text), ("docs/b.md", "## One\n")]))),
            ["docs/a.md:2: docs/a.md has no heading `#restore`", "docs/a.md:2: docs/b.md has no heading `#two`"]
        );
    }

    #[test]
    fn a_page_that_code_names_exists() {
        let code =
            "// see docs/a.md, docs/b.md\nfail(\"\\\"Back up\\\" in docs/old/c.md\");\n// https://e.f/docs/d.md\n";
        assert_eq!(
            rendered(check(&tree(&[("crates/a/src/a.rs", code), ("docs/a.md", "")]))),
            ["crates/a/src/a.rs:1: there is no page docs/b.md", "crates/a/src/a.rs:2: there is no page docs/old/c.md"]
        );
    }
}
