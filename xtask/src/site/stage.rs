//! The pages as mdBook gets them.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::SourceTree;
use crate::tidy::links::resolve;
use crate::tidy::pages::{SUMMARY, linked};

/// The staged pages by their path, the table of contents among them.
pub(super) fn pages(tree: &SourceTree) -> Result<BTreeMap<String, String>, String> {
    let text_of = |path: &str| tree.sources.iter().find(|source| source.path == path).map(|source| &*source.text);
    let summary = text_of(SUMMARY).ok_or_else(|| format!("{SUMMARY} is missing"))?;
    let pages = linked(SUMMARY, summary);
    let mut staged = BTreeMap::new();
    for page in &pages {
        let text = text_of(page).ok_or_else(|| format!("{SUMMARY} names {page}, which is missing"))?;
        staged.insert(page.clone(), rewritten(page, text, &pages, false));
    }
    staged.insert("SUMMARY.md".into(), rewritten(SUMMARY, summary, &pages, true));
    Ok(staged)
}

/// A page with its links as the site needs them; from the root of the site, where `is_rooted`.
fn rewritten(page: &str, text: &str, pages: &BTreeSet<String>, is_rooted: bool) -> String {
    let mut is_fenced = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        is_fenced ^= line.trim_start().starts_with("```");
        lines.push(if is_fenced { line.to_owned() } else { rewritten_line(page, line, pages, is_rooted) });
    }
    lines.join("\n") + "\n"
}

fn rewritten_line(page: &str, line: &str, pages: &BTreeSet<String>, is_rooted: bool) -> String {
    let mut done = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        done.push_str(before);
        let Some((target, following)) = after.split_once(')').filter(|_| !is_in_code(&done)) else {
            done.push_str("](");
            rest = after;
            continue;
        };
        match destination(page, target, pages, is_rooted) {
            Some(target) => {
                done.push_str("](");
                done.push_str(&target);
                done.push(')');
            }
            None => remove_opening(&mut done),
        }
        rest = following;
    }
    done + rest
}

fn is_in_code(before: &str) -> bool {
    before.matches('`').count() % 2 == 1
}

/// Removes the bracket that begins the text of a link, which ends here.
fn remove_opening(text: &mut String) {
    let mut depth = 1;
    for (at, c) in text.char_indices().rev() {
        match c {
            ']' => depth += 1,
            '[' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            text.remove(at);
            return;
        }
    }
}

/// Where a link leads on the site; `None` for what is not on it.
fn destination(page: &str, target: &str, pages: &BTreeSet<String>, is_rooted: bool) -> Option<String> {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
        return Some(target.into());
    }
    let path = resolve(page, file)?;
    if is_rooted {
        return Some(path);
    }
    if !pages.contains(&path) {
        return path.ends_with(".png").then(|| target.into());
    }
    // A page README.md becomes index.html; mdBook does not change the links to it.
    let file = file.strip_suffix("README.md").map_or_else(|| file.to_owned(), |folder| format!("{folder}index.html"));
    Some(anchor.map_or_else(|| file.clone(), |anchor| format!("{file}#{anchor}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_or_are_text() {
        let pages = BTreeSet::from(["docs/a.md".into(), "bench/README.md".into()]);
        let line = |line: &str| rewritten_line("docs/b/c.md", line, &pages, false);
        assert_eq!(line("see [a](../a.md#x), [b](#y)"), "see [a](../a.md#x), [b](#y)");
        assert_eq!(line("[`deploy`](../../deploy) and [a [b]](../x.rs)."), "`deploy` and a [b].");
        assert_eq!(line("`[a](b)` [c](../../bench/README.md#d)"), "`[a](b)` [c](../../bench/index.html#d)");
        assert_eq!(line("![p](../images/p.png) [s](https://e.f)"), "![p](../images/p.png) [s](https://e.f)");
        let summary = rewritten("docs/SUMMARY.md", "- [a](a.md)\n  - [b](../bench/README.md)\n", &pages, true);
        assert_eq!(summary, "- [a](docs/a.md)\n  - [b](bench/README.md)\n");
    }
}
