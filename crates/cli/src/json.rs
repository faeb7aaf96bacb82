//! JSON as text: laid out again without being parsed, so that every digit and the order of keys survive.

/// Without white space between its parts. The text must be JSON.
pub(crate) fn compact(text: &str) -> String {
    let mut compact = String::with_capacity(text.len());
    for (part, quoted) in parts(text) {
        if quoted { compact.push_str(part) } else { compact.extend(part.chars().filter(|c| !c.is_ascii_whitespace())) }
    }
    compact
}

/// Over several lines, indented by two. The text must be JSON.
pub(crate) fn pretty(text: &str) -> String {
    let mut pretty = String::with_capacity(text.len() * 2);
    let mut depth = 0usize;
    let line = |pretty: &mut String, depth: usize| {
        pretty.push('\n');
        pretty.extend(std::iter::repeat_n("  ", depth));
    };
    // Whether something was opened and nothing has been put into it yet.
    let mut empty = false;
    for (part, quoted) in parts(text) {
        if quoted {
            if std::mem::take(&mut empty) {
                line(&mut pretty, depth);
            }
            pretty.push_str(part);
            continue;
        }
        for c in part.chars().filter(|c| !c.is_ascii_whitespace()) {
            let closing = matches!(c, '}' | ']');
            if closing {
                depth = depth.saturating_sub(1);
            }
            // Nothing stands between the marks of what is empty; everything else begins or ends on a line of its own.
            if std::mem::take(&mut empty) != closing {
                line(&mut pretty, depth);
            }
            pretty.push(c);
            match c {
                '{' | '[' => (depth, empty) = (depth + 1, true),
                ',' => line(&mut pretty, depth),
                ':' => pretty.push(' '),
                _ => {}
            }
        }
    }
    pretty
}

/// Strings with their quotes, and whatever stands between them.
fn parts(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let quoted = rest.starts_with('"');
        let end = if quoted { string_end(rest) } else { rest.find('"').unwrap_or(rest.len()) };
        let (part, after) = rest.split_at(end);
        rest = after;
        (!part.is_empty()).then_some((part, quoted))
    })
}

fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#" { "b" : [ 1.50 , 12345678901234567890 , { } , [ ] ] , "a \" {": "x: , \\" , "n" : null } "#;

    #[test]
    fn every_digit_and_the_order_of_keys_survive() {
        assert_eq!(compact(TEXT), r#"{"b":[1.50,12345678901234567890,{},[]],"a \" {":"x: , \\","n":null}"#);
        insta::assert_snapshot!(pretty(TEXT), @r#"
        {
          "b": [
            1.50,
            12345678901234567890,
            {},
            []
          ],
          "a \" {": "x: , \\",
          "n": null
        }
        "#);
        assert_eq!(compact(&pretty(TEXT)), compact(TEXT));
        assert_eq!(pretty("\"a\""), "\"a\"");
        assert_eq!(pretty("[[1]]"), "[\n  [\n    1\n  ]\n]");
    }
}
