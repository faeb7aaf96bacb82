//! Whether a URI could have been made from a URI template. Any text is taken for a value, so that what a template says about
//! escapes does not matter; only that a plain `{x}` has no `/` in it does.
//!
//! Linear in the URI, however often text repeats: where a match can go on is a set of places, and each part of the template moves
//! the whole set at once.

/// Templates with more variables or text than anybody writes match nothing.
const MAX_VARIABLES: usize = 32;
const MAX_TEMPLATE_BYTES: usize = 4096;

#[derive(Debug)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug)]
enum Part {
    /// Exactly this.
    Text(Box<str>),
    /// Any text without a `/`.
    Segment,
    /// Any text.
    Any,
}

impl Template {
    /// `None` for one that matches nothing.
    pub(crate) fn parse(template: &str) -> Option<Self> {
        if template.len() > MAX_TEMPLATE_BYTES {
            return None;
        }
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some((text, expression, after)) = next_expression(rest) {
            if !text.is_empty() {
                parts.push(Part::Text(text.into()));
            }
            // An operator, such as that of `{+path}` or `{?query}`, lets slashes in.
            let plain = expression.starts_with(|char: char| char.is_ascii_alphanumeric() || "_%".contains(char));
            parts.push(if plain || expression.is_empty() { Part::Segment } else { Part::Any });
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        let variables = parts.iter().filter(|part| !matches!(part, Part::Text(_))).count();
        (variables <= MAX_VARIABLES).then_some(Self(parts))
    }

    pub(crate) fn matches(&self, uri: &str) -> bool {
        if uri.len() > MAX_TEMPLATE_BYTES {
            return false;
        }
        let (mut parts, mut uri) = (self.0.as_slice(), uri);
        // Most templates differ in how they begin, and few need more than a look at both ends.
        if let [Part::Text(text), rest @ ..] = parts {
            let Some(after) = uri.strip_prefix(&**text) else { return false };
            (parts, uri) = (rest, after);
        }
        if let [rest @ .., Part::Text(text)] = parts {
            let Some(before) = uri.strip_suffix(&**text) else { return false };
            (parts, uri) = (rest, before);
        }
        let uri = uri.as_bytes();
        let mut places = vec![false; uri.len() + 1];
        places[0] = true;
        for part in parts {
            match part {
                Part::Any => spread(&mut places, |_| false),
                Part::Segment => spread(&mut places, |at| uri[at] == b'/'),
                Part::Text(text) => pass(&mut places, uri, text.as_bytes()),
            }
        }
        places[uri.len()]
    }
}

/// The text before an expression, the expression and what follows.
fn next_expression(template: &str) -> Option<(&str, &str, &str)> {
    let (text, rest) = template.split_once('{')?;
    let (expression, after) = rest.split_once('}')?;
    Some((text, expression, after))
}

/// From every place, on to each after it, up to a byte that is not to be passed.
fn spread(places: &mut [bool], stops: impl Fn(usize) -> bool) {
    let mut reached = false;
    for at in 0..places.len() {
        reached |= places[at];
        places[at] = reached;
        reached &= at + 1 == places.len() || !stops(at);
    }
}

/// From every place where the text stands, on to its end.
fn pass(places: &mut [bool], uri: &[u8], text: &[u8]) {
    let stands = occurrences(uri, text);
    for at in (0..places.len()).rev() {
        places[at] = at.checked_sub(text.len()).is_some_and(|from| places[from] && stands[from]);
    }
}

/// Where a text stands in another, by the lengths of what each place has in common with its beginning.
fn occurrences(uri: &[u8], text: &[u8]) -> Vec<bool> {
    let all: Vec<u8> = text.iter().chain(uri).copied().collect();
    let mut common = vec![0; all.len()];
    // The furthest stretch known to repeat the beginning.
    let (mut start, mut end) = (0, 0);
    for at in 1..all.len() {
        let mut length = if at < end { common[at - start].min(end - at) } else { 0 };
        while at + length < all.len() && all[at + length] == all[length] {
            length += 1;
        }
        common[at] = length;
        if at + length > end {
            (start, end) = (at, at + length);
        }
    }
    let mut stands: Vec<bool> = common[text.len()..].iter().map(|length| *length >= text.len()).collect();
    stands.push(text.is_empty());
    stands
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(template: &str, uri: &str) -> bool {
        Template::parse(template).is_some_and(|template| template.matches(uri))
    }

    #[test]
    fn a_value_may_be_anything_that_its_expression_allows() {
        for (template, uri, expected) in [
            ("test://template/{id}/data", "test://template/7/data", true),
            ("test://template/{id}/data", "test://template//data", true),
            ("test://template/{id}/data", "test://template/7/8/data", false),
            ("test://template/{id}/data", "test://template/7/date", false),
            ("test://template/{id}/data", "test://template/data", false),
            ("file:///{+path}", "file:///a/b/c", true),
            ("file:///{path}", "file:///a/b/c", false),
            ("file://{/path*}", "file:///a/b/c", true),
            ("db://{table}/{id}.{ext}", "db://people/7.tar.gz", true),
            ("db://{table}/{id}.{ext}", "db://people/7", false),
            ("a{x}b{+y}c", "abbc", true),
            ("a{x}b{+y}c", "a/b/c", false),
            ("a{x}b{+y}c", "axb/b/c", true),
            ("q://s{?q,limit}", "q://s?q=a/b&limit=3", true),
            ("q://s{?q,limit}", "q://s", true),
            ("{a}{b}{+c}", "", true),
            ("{+all}", "anything://at/all", true),
            ("plain://text", "plain://text", true),
            ("plain://text", "plain://text/more", false),
            ("open{brace", "open{brace", true),
            ("ü{x}ü", "üü", true),
            ("ü{x}ü", "ü", false),
            ("", "", true),
        ] {
            assert_eq!(matches(template, uri), expected, "{template} {uri}");
        }
    }

    #[test]
    fn repeated_text_costs_no_more_than_other_text() {
        let template = "{a}".to_owned() + &format!("{}{{+x}}", "a".repeat(100)).repeat(31);
        assert!(matches(&template, &"a".repeat(4096)));
        assert!(!matches(&format!("{template}b"), &"a".repeat(4096)));
        assert!(!matches("{+x}", &"a".repeat(4097)), "no resource has so long a URI");
        assert!(!matches(&"{x}".repeat(33), ""));
        assert!(!matches(&"a".repeat(5000), &"a".repeat(5000)));
    }

    /// The same, said the slow way.
    fn slow(parts: &[Part], uri: &str) -> bool {
        match parts {
            [] => uri.is_empty(),
            [Part::Text(text), rest @ ..] => uri.strip_prefix(&**text).is_some_and(|uri| slow(rest, uri)),
            [wild, rest @ ..] => {
                slow(rest, uri)
                    || uri.chars().next().is_some_and(|char| {
                        (char != '/' || matches!(wild, Part::Any)) && slow(parts, &uri[char.len_utf8()..])
                    })
            }
        }
    }

    proptest! {
        #[test]
        fn the_quick_way_is_the_slow_way(template in r"([ab/]{1,2}|\{x\}|\{\+x\}){0,7}", uri in "[ab/]{0,10}") {
            let template = Template::parse(&template).expect("it is short");
            prop_assert_eq!(template.matches(&uri), slow(&template.0, &uri));
        }

        #[test]
        fn whatever_is_asked_is_answered(template in r"(\{|\}|\+|/|\PC){0,30}", uri in r"(/|\PC){0,30}") {
            matches(&template, &uri);
        }
    }
}
