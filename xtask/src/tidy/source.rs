//! A file of the tree, and what of a Rust file is code rather than comment or literal.

/// A file's text, seen by lines.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text with comments and literals blanked, line for line; empty unless it is Rust.
    code: String,
    /// Whether each line belongs to an item under `#[cfg(test)]`.
    under_test: Vec<bool>,
}

/// A line of code, with its number from 1.
pub(crate) struct SourceLine<'a> {
    pub(crate) number: usize,
    pub(crate) code: &'a str,
    pub(crate) in_tests: bool,
}

impl SourceFile {
    pub(crate) fn new(path: String, text: String) -> Self {
        let code = if path.ends_with(".rs") { code_only(&text) } else { String::new() };
        let under_test = under_test(&code);
        Self { path, text, code, under_test }
    }

    /// The lines of a Rust file, code only.
    pub(crate) fn code(&self) -> impl DoubleEndedIterator<Item = SourceLine<'_>> + ExactSizeIterator {
        let whole = self.is_tests();
        let lines: Vec<&str> = self.code.lines().collect();
        lines.into_iter().zip(&self.under_test).enumerate().map(move |(index, (code, &under))| SourceLine {
            number: index + 1,
            code,
            in_tests: whole || under,
        })
    }

    /// Lines that are not under `#[cfg(test)]`.
    pub(crate) fn lines_without_tests(&self) -> usize {
        self.under_test.iter().filter(|under| !**under).count()
    }

    /// Whether the whole file serves tests alone.
    pub(crate) fn is_tests(&self) -> bool {
        // The servers that tests bring into rooms are no tests: a slow tool has to be slow.
        let test_package = self.path.starts_with("tests/") && !self.path.starts_with("tests/servers/");
        self.path.starts_with("crates/testkit/") || test_package || self.is_test_module()
    }

    /// Whether the file is some crate's tests, as opposed to what runs tests.
    pub(crate) fn is_test_module(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.ends_with("_tests.rs") || self.path.contains("/tests/")
    }
}

/// Blanks comments, strings and characters, so that what is left can be searched as code. Line breaks stay where they are.
fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end > at {
            code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            code.push(chars[at]);
            at += 1;
        }
    }
    code
}

/// Where the comment or literal that begins at `at` ends; `at` itself when none begins there.
fn literal_end(chars: &[char], at: usize) -> usize {
    let here = |offset: usize| chars.get(at + offset).copied();
    let find = |from: usize, stop: &[char]| {
        (from..chars.len()).find(|&i| chars[i..].starts_with(stop)).map_or(chars.len(), |i| i + stop.len())
    };
    match chars[at] {
        '/' if here(1) == Some('/') => find(at, &['\n']).saturating_sub(1).max(at + 2),
        '/' if here(1) == Some('*') => {
            let (mut depth, mut i) = (1, at + 2);
            while depth > 0 && i < chars.len() {
                match (chars[i], chars.get(i + 1)) {
                    ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
                    ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
                    _ => i += 1,
                }
            }
            i.min(chars.len())
        }
        'r' if at == 0 || !is_word(chars[at - 1]) || matches!(chars[at - 1], 'b' | 'c') => {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            if chars.get(at + 1 + hashes) != Some(&'"') {
                return at;
            }
            let stop: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            find(at + 2 + hashes, &stop)
        }
        '"' => quoted_end(chars, at, '"'),
        '\'' if here(1) == Some('\\') || here(2) == Some('\'') => quoted_end(chars, at, '\''),
        _ => at,
    }
}

fn quoted_end(chars: &[char], at: usize, quote: char) -> usize {
    let mut i = at + 1;
    while i < chars.len() && chars[i] != quote {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Marks the lines of every item that stands under `#[cfg(test)]`: to its closing brace, or to its semicolon if it has none.
fn under_test(code: &str) -> Vec<bool> {
    let mut marks = Vec::new();
    let mut lines = code.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.trim_start().starts_with("#[cfg(test)]") {
            marks.push(false);
            continue;
        }
        marks.push(true);
        let mut depth = 0usize;
        let mut rest = line.trim_start().trim_start_matches("#[cfg(test)]");
        loop {
            let mut ended = false;
            for c in rest.chars() {
                match c {
                    '{' => depth += 1,
                    '}' => {
                        depth = depth.saturating_sub(1);
                        ended |= depth == 0;
                    }
                    ';' => ended |= depth == 0,
                    _ => {}
                }
            }
            if ended {
                break;
            }
            let Some(next) = lines.next() else { break };
            marks.push(true);
            rest = next;
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        let code = |text: &str| code_only(text).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(code("a // b\nc"), "a c");
        assert_eq!(code("a /* b /* c */ d */ e"), "a e");
        assert_eq!(code(r#"f("x\"y", 'z', '\'', b'"') g"#), "f( , , , b ) g");
        assert_eq!(code("r\"a\" r##\"b\"# c\"## d br\"e\" for \"f\""), "d b for");
        assert_eq!(code("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
        assert_eq!(code_only("a \"b\nc\" d").lines().count(), 2);
        for unfinished in ["\"a", "'\\", "/* a", "r#\"a", "//"] {
            assert_eq!(code_only(unfinished).trim(), "", "{unfinished}");
        }
    }

    #[test]
    fn a_test_part_ends_with_its_brace() {
        let source = SourceFile::new(
            "crates/x/src/a.rs".into(),
            "fn a() {}\n#[cfg(test)]\nuse b;\nfn c() {}\n#[cfg(test)]\nmod tests {\n    fn d() { \"}\" }\n}\nfn e() {}\n".into(),
        );
        let outside: Vec<usize> = source.code().filter(|line| !line.in_tests).map(|line| line.number).collect();
        assert_eq!(outside, [1, 4, 9]);
        assert_eq!(source.lines_without_tests(), 3);
    }
}
