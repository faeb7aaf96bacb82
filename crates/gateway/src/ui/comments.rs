//! Leaves comments out of scripts and style sheets when they are packed for a browser: they are a quarter of what would travel.
//!
//! Only whole lines go, and their line breaks stay, so that the line numbers of an error are those of the source. The files are ours: no text
//! in them has a line that begins like a comment.

/// The text without comments that fill their lines. Other texts are returned as they are.
pub(super) fn without_comments(path: &str, data: &[u8]) -> Vec<u8> {
    let is_ours = path.ends_with(".css") || (path.ends_with(".js") && !path.starts_with("vendor/"));
    let Some(text) = std::str::from_utf8(data).ok().filter(|_| is_ours) else { return data.to_vec() };
    let mut kept = String::with_capacity(text.len());
    let mut is_inside = false;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let is_comment = if is_inside {
            is_inside = !trimmed.ends_with("*/");
            true
        } else if trimmed.starts_with("/*") {
            // One that ends before its line does has code beside it.
            is_inside = !trimmed.contains("*/");
            is_inside || trimmed.find("*/") == Some(trimmed.len() - 2)
        } else {
            trimmed.starts_with("//")
        };
        kept.push_str(if is_comment { "\n" } else { line });
    }
    kept.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(path: &str, text: &str) -> String {
        String::from_utf8(without_comments(path, text.as_bytes())).expect("text")
    }

    #[test]
    fn comments_go_and_lines_stay_where_they_are() {
        let text = "// first\nimport 'a'; // beside\n/** one */\n/**\n * many\n */\nlet a = /** @type {any} */ (b);\n  /* c */ d();\n";
        let expected = "\nimport 'a'; // beside\n\n\n\n\nlet a = /** @type {any} */ (b);\n  /* c */ d();\n";
        assert_eq!(kept("src/a.js", text), expected);
        assert_eq!(kept("css/a.css", "/* a */\nb { c: d }\n"), "\nb { c: d }\n");
        assert_eq!(kept("vendor/a.js", "// licence\n"), "// licence\n");
        assert_eq!(kept("index.html", "// text\n"), "// text\n");
    }
}
