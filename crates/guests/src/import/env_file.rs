//! Files of `KEY=VALUE` lines, as `envFile` names them.

/// A line that is not as it must be. The line itself is not shown: such files hold secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct EnvFileError {
    /// The line, the first being 1.
    pub line: usize,
    pub why: &'static str,
}

/// Reads the variables of such a file, in order. Blank lines and lines that begin with `#` are passed over, `export ` may stand before a
/// key. A value in single quotes is taken as it stands; in double quotes `\n`, `\r`, `\t`, `\"`, `\\` and `\$` are escapes; one without
/// quotes ends at ` #`. Nothing is expanded.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, EnvFileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut variables = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |why| EnvFileError { line: at + 1, why };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        let (key, value) = line.split_once('=').ok_or_else(|| wrong("there is no `=`"))?;
        let key = key.trim_end();
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if key.is_empty() || !key.chars().all(is_name) {
            return Err(wrong("what stands before `=` is no variable's name"));
        }
        variables.push((key.to_owned(), self::value(value.trim_start()).map_err(wrong)?));
    }
    Ok(variables)
}

fn value(text: &str) -> Result<String, &'static str> {
    const UNCLOSED: &str = "a quote is opened and not closed on the same line";
    let (value, rest) = match text.chars().next() {
        Some('\'') => {
            let (value, rest) = text[1..].split_once('\'').ok_or(UNCLOSED)?;
            (value.to_owned(), rest)
        }
        Some('"') => double_quoted(&text[1..]).ok_or(UNCLOSED)?,
        _ => {
            let comment = text.match_indices('#').map(|(at, _)| at);
            let is_apart = |at: &usize| *at == 0 || text[..*at].ends_with([' ', '\t']);
            let end = comment.into_iter().find(is_apart).unwrap_or(text.len());
            return Ok(text[..end].trim_end().to_owned());
        }
    };
    let rest = rest.trim_start();
    if rest.is_empty() || rest.starts_with('#') { Ok(value) } else { Err("there is something after the closing quote") }
}

/// The value, and what follows its closing quote.
fn double_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text.chars();
    loop {
        match rest.next()? {
            '"' => return Some((value, rest.as_str())),
            '\\' => match rest.next()? {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                c @ ('"' | '\\' | '$') => value.push(c),
                other => value.extend(['\\', other]),
            },
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_and_without_quotes() {
        let text = "\u{feff}# a comment\n\nA=1\nexport B = two words # said\r\nC='as # it $stands\\n'\nD=\"line\\nnext \\\"x\\\" \\d\" # x\n  E=\nF=a#b\nG=#c\nh.i-j==\n";
        insta::assert_snapshot!(format!("{:#?}", parse(text).expect("variables")), @r#"
        [
            (
                "A",
                "1",
            ),
            (
                "B",
                "two words",
            ),
            (
                "C",
                "as # it $stands\\n",
            ),
            (
                "D",
                "line\nnext \"x\" \\d",
            ),
            (
                "E",
                "",
            ),
            (
                "F",
                "a#b",
            ),
            (
                "G",
                "",
            ),
            (
                "h.i-j",
                "=",
            ),
        ]
        "#);
    }

    #[test]
    fn mistakes_are_told_by_line_and_show_nothing() {
        for (text, line) in [
            ("A=1\nsecret", 2),
            ("=secret", 1),
            ("a b=secret", 1),
            ("\n\nA=\"secret", 3),
            ("A='secret", 1),
            ("A=\"s\" ecret", 1),
            ("A=\"secret\\", 1),
        ] {
            let error = parse(text).expect_err(text);
            assert_eq!(error.line, line, "{text}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
