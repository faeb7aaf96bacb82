//! What the checks read from Markdown: links, headings, and text that is not code.

use std::collections::BTreeSet;

/// The lines outside of fenced code, with their numbers.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        (!is_fenced && !is_fence).then_some((index + 1, line))
    })
}

/// Every link's target with its line, code left out.
pub(crate) fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Every second piece between backticks is code.
        for piece in line.split('`').step_by(2) {
            let links = piece.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
            found.extend(links.map(|target| (number, target)));
        }
        if let Some((_, target)) = line.strip_prefix('[').and_then(|line| line.split_once("]: ")) {
            found.push((number, target.trim()));
        }
    }
    found
}

/// The anchors of a page's headings, made as GitHub and mdBook make them: a second one of a name gets `-1`.
pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let Some(heading) =
            line.starts_with('#').then(|| line.trim_start_matches('#')).filter(|rest| rest.starts_with(' '))
        else {
            continue;
        };
        let name = anchor(heading);
        let numbered = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let mut name = String::new();
    let mut rest = heading.trim();
    // Of a link only the text counts.
    while let Some((before, after)) = rest.split_once("](") {
        name.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    name.push_str(rest);
    let kept = name.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_the_site() {
        let text = "# One, two\n## `salon join`: a b\n## [Link](x.md) here\n```\n# no\n```\n## One two\n#no\n";
        let wanted = ["link-here", "one-two", "one-two-1", "salon-join-a-b"];
        assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), wanted);
    }
}
