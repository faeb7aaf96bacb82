//! Links in Markdown that lead to files of this repository.

use super::{Finding, SourceTree};

pub(crate) fn check(tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in tree.markdown() {
        for (line, target) in targets(&source.text) {
            let file = target.split('#').next().unwrap_or_default();
            let foreign = file.is_empty() || file.contains("://") || file.starts_with("mailto:");
            if !foreign && resolve(&source.path, file).is_none_or(|path| !tree.paths.contains(&path)) {
                findings.push(Finding::at(&source.path, line, format!("the link leads nowhere: {target}")));
            }
        }
    }
    findings
}

/// Every link's target with its line, code left out.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Every second piece between backticks is code.
        for piece in line.split('`').step_by(2) {
            let links = piece.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
            found.extend(links.map(|target| (index + 1, target)));
        }
        if let Some((_, target)) = line.strip_prefix('[').and_then(|line| line.split_once("]: ")) {
            found.push((index + 1, target.trim()));
        }
    }
    found
}

/// A path relative to the file that names it, as one from the root; `None` when it leaves the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
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
        let text = "[a](b.md) [c](../README.md#x) [d](https://e.f/g.md) [h](#i)\n`[j](k.md)` [`l`](m.md)\n```\n[n](o.md)\n```\n[p]: q.md\n[r](../../s.md)\n";
        let findings = check(&tree(&[("docs/a.md", text), ("README.md", "[docs](docs/)\n"), ("docs/b.md", "")]));
        assert_eq!(
            rendered(findings),
            [
                "docs/a.md:2: the link leads nowhere: m.md",
                "docs/a.md:6: the link leads nowhere: q.md",
                "docs/a.md:7: the link leads nowhere: ../../s.md",
            ]
        );
    }
}
