//! The documentation as a whole: every page is in `docs/SUMMARY.md`, which is the site's table of contents, and every picture is used.

use std::collections::BTreeSet;

use super::links::resolve;
use super::markdown::targets;
use super::{Finding, SourceTree};

pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";
const PICTURES: &str = "docs/images/";

pub(crate) fn check(tree: &SourceTree) -> Vec<Finding> {
    let Some(summary) = tree.markdown().find(|source| source.path == SUMMARY) else {
        return vec![Finding::of(SUMMARY, "the page is missing")];
    };
    let listed = linked(SUMMARY, &summary.text);
    let used: BTreeSet<String> = tree.markdown().flat_map(|source| linked(&source.path, &source.text)).collect();
    let pages = tree.markdown().map(|source| &source.path).filter(|path| path.starts_with("docs/") && *path != SUMMARY);
    let unlisted = pages
        .filter(|path| !listed.contains(*path))
        .map(|path| Finding::of(path, format!("the page is not in {SUMMARY}")));
    let pictures = tree.paths.iter().filter(|path| path.starts_with(PICTURES) && path.contains('.'));
    let unused =
        pictures.filter(|path| !used.contains(*path)).map(|path| Finding::of(path, "no page shows the picture"));
    unlisted.chain(unused).collect()
}

/// What a page links to, as paths from the root.
pub(crate) fn linked(page: &str, text: &str) -> BTreeSet<String> {
    let files = targets(text).into_iter().filter_map(|(_, target)| target.split('#').next());
    files.filter(|file| !file.is_empty() && !file.contains("://")).filter_map(|file| resolve(page, file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{rendered, tree};

    #[test]
    fn pages_are_listed_and_pictures_used() {
        let files = [
            (SUMMARY, "- [a](a.md)\n- [b](b/c.md)\n"),
            ("docs/a.md", "![x](images/x.png)\n"),
            ("docs/b/c.md", "[d](d.md)\n"),
            ("docs/b/d.md", ""),
            ("docs/images/x.png", ""),
            ("docs/images/y.png", ""),
            ("crates/a/README.md", ""),
        ];
        assert_eq!(
            rendered(check(&tree(&files))),
            ["docs/b/d.md: the page is not in docs/SUMMARY.md", "docs/images/y.png: no page shows the picture"]
        );
        assert_eq!(rendered(check(&tree(&[]))), ["docs/SUMMARY.md: the page is missing"]);
    }
}
