//! JSON as people keep it in settings: with comments and trailing commas, every value with the place where it stands.
//!
//! Strict in all else, so that a file that looks right to its owner cannot mean something else to us: a key that stands twice is an
//! error.

use std::fmt;

/// The deepest nesting that is read. Settings are nowhere near it.
const MAX_DEPTH: usize = 64;

/// A place in a text: lines and columns begin at 1, and columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPosition {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl TextPosition {
    /// The position of a byte. Counted only for error messages: a whole program's settings can be megabytes.
    pub(super) fn of(text: &str, offset: usize) -> Self {
        let before = &text[..offset];
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        Self { line: 1 + before.matches('\n').count(), column: 1 + before[start..].chars().count() }
    }
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value and the byte at which it begins.
#[derive(Debug)]
pub(super) struct JsonNode {
    pub(super) at: usize,
    pub(super) value: JsonValue,
}

#[derive(Debug)]
pub(super) enum JsonValue {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<JsonNode>),
    Object(Vec<(String, JsonNode)>),
}

impl JsonNode {
    /// What it is, for a person.
    pub(super) fn what(&self) -> &'static str {
        match self.value {
            JsonValue::Null => "null",
            JsonValue::Bool(_) => "true or false",
            JsonValue::Number(_) => "a number",
            JsonValue::Text(_) => "a string",
            JsonValue::List(_) => "a list",
            JsonValue::Object(_) => "an object",
        }
    }

    /// The value of a key, when this is an object that has it.
    pub(super) fn get(&self, key: &str) -> Option<&JsonNode> {
        let JsonValue::Object(members) = &self.value else { return None };
        members.iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }
}

/// Something in a file that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JsoncError {
    pub(super) at: usize,
    pub(super) message: String,
}

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Result<JsonNode, JsoncError> {
    let mut reader = JsoncReader { text, at: 0 };
    let node = reader.value(0)?;
    reader.blank()?;
    if reader.at < text.len() {
        return Err(reader.wrong("there is something after the end of the JSON"));
    }
    Ok(node)
}

struct JsoncReader<'a> {
    text: &'a str,
    at: usize,
}

impl JsoncReader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn wrong_at(&self, at: usize, message: impl Into<String>) -> JsoncError {
        JsoncError { at, message: message.into() }
    }

    fn wrong(&self, message: impl Into<String>) -> JsoncError {
        self.wrong_at(self.at, message)
    }

    /// Passes over blanks and comments.
    fn blank(&mut self) -> Result<(), JsoncError> {
        loop {
            let rest = &self.text[self.at..];
            if let Some(byte) = rest.bytes().next()
                && matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
            {
                self.at += 1;
            } else if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let end = rest.find("*/").ok_or_else(|| self.wrong("a comment is opened here and never closed"))?;
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<JsonNode, JsoncError> {
        self.blank()?;
        if depth > MAX_DEPTH {
            return Err(self.wrong(format!("more than {MAX_DEPTH} levels of nesting")));
        }
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => JsonValue::Text(self.string()?),
            Some(_) => {
                let rest = &self.text[start..];
                let end = rest.find(|c: char| c.is_whitespace() || ",]}/\":{[".contains(c)).unwrap_or(rest.len());
                self.at += end;
                match &rest[..end] {
                    "null" => JsonValue::Null,
                    "true" => JsonValue::Bool(true),
                    "false" => JsonValue::Bool(false),
                    word => {
                        let number = serde_json::from_str::<f64>(word);
                        JsonValue::Number(number.map_err(|_| self.wrong_at(start, "a value is expected here"))?)
                    }
                }
            }
            None => return Err(self.wrong("the text ends where a value is expected")),
        };
        Ok(JsonNode { at: start, value })
    }

    fn object(&mut self, depth: usize) -> Result<JsonValue, JsoncError> {
        let opened = self.at;
        self.at += 1;
        let mut members: Vec<(String, JsonNode)> = Vec::new();
        loop {
            self.blank()?;
            let key_at = self.at;
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(JsonValue::Object(members));
                }
                Some(b'"') => {}
                Some(_) => return Err(self.wrong("a key in double quotes, or `}`, is expected here")),
                None => return Err(self.wrong_at(opened, "an object is opened here and never closed")),
            }
            let key = self.string()?;
            if members.iter().any(|(known, _)| *known == key) {
                return Err(self.wrong_at(key_at, format!("the key `{key}` stands twice")));
            }
            self.blank()?;
            if self.peek() != Some(b':') {
                return Err(self.wrong("`:` is expected here"));
            }
            self.at += 1;
            members.push((key, self.value(depth + 1)?));
            self.comma(b'}')?;
        }
    }

    fn list(&mut self, depth: usize) -> Result<JsonValue, JsoncError> {
        let opened = self.at;
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.blank()?;
            match self.peek() {
                Some(b']') => {
                    self.at += 1;
                    return Ok(JsonValue::List(items));
                }
                None => return Err(self.wrong_at(opened, "a list is opened here and never closed")),
                Some(_) => items.push(self.value(depth + 1)?),
            }
            self.comma(b']')?;
        }
    }

    /// After a value: a comma, which may be the last, or the end, which is left standing.
    fn comma(&mut self, end: u8) -> Result<(), JsoncError> {
        self.blank()?;
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(())
            }
            Some(byte) if byte == end => Ok(()),
            // The function that opened the bracket reports the end of the text.
            None => Ok(()),
            Some(_) => Err(self.wrong(format!("`,` or `{}` is expected here", end as char))),
        }
    }

    /// A string, its escapes resolved by the same code that reads all other JSON.
    fn string(&mut self) -> Result<String, JsoncError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(b'\n') | None => return Err(self.wrong("a string is opened here and never closed")),
                Some(_) => end += 1,
            }
        }
        self.at = end + 1;
        serde_json::from_str(&self.text[start..=end])
            .map_err(|_| self.wrong_at(start, "this string has an escape or a character that JSON does not allow"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        fn tell(text: &str, node: &JsonNode) -> String {
            let tell = |node: &JsonNode| tell(text, node);
            let value = match &node.value {
                JsonValue::List(items) => format!("[{}]", items.iter().map(tell).collect::<Vec<_>>().join(" ")),
                JsonValue::Object(members) => {
                    let member = |(key, node): &(String, JsonNode)| format!("{key}={}", tell(node));
                    format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(" "))
                }
                other => format!("{other:?}"),
            };
            format!("{value}@{}", TextPosition::of(text, node.at))
        }
        let wrong = |wrong: JsoncError| format!("{}: {}", TextPosition::of(text, wrong.at), wrong.message);
        parse(text).map_or_else(wrong, |node| tell(text, &node))
    }

    #[test]
    fn comments_and_trailing_commas_are_no_part_of_it() {
        let text = "// first\n{ /* a\n b */ \"é\": [1, true,], // \"x\": 1\n  \"u\": \"http://a//b\\n\\u00e9\", \"n\":null/**/,\n}\n//";
        insta::assert_snapshot!(told(text), @r#"{é=[Number(1.0)@3:13 Bool(true)@3:16]@3:12 u=Text("http://a//b\né")@4:8 n=Null@4:35}@2:1"#);
    }

    #[test]
    fn mistakes_are_told_by_line_and_column() {
        let wrong = [
            "",
            "{\n  \"a\": 1\n  \"b\": 2\n}",
            "{\"a\": 1, \"a\": 2}",
            "{a: 1}",
            "{\"a\" 1}",
            "{\"a\": }",
            "{\"a\": nul}",
            "{\"a\": 01}",
            "{\"é\": \"x",
            "{\"a\": \"\\q\"}",
            "{\"a\": \"\\",
            "[1, 2",
            "{\"a\": [1",
            "{} {}",
            "/* x",
            "[,]",
        ];
        insta::assert_snapshot!(wrong.map(|text| format!("{text:?} → {}", told(text))).join("\n"), @r#"
        "" → 1:1: the text ends where a value is expected
        "{\n  \"a\": 1\n  \"b\": 2\n}" → 3:3: `,` or `}` is expected here
        "{\"a\": 1, \"a\": 2}" → 1:10: the key `a` stands twice
        "{a: 1}" → 1:2: a key in double quotes, or `}`, is expected here
        "{\"a\" 1}" → 1:6: `:` is expected here
        "{\"a\": }" → 1:7: a value is expected here
        "{\"a\": nul}" → 1:7: a value is expected here
        "{\"a\": 01}" → 1:7: a value is expected here
        "{\"é\": \"x" → 1:7: a string is opened here and never closed
        "{\"a\": \"\\q\"}" → 1:7: this string has an escape or a character that JSON does not allow
        "{\"a\": \"\\" → 1:7: a string is opened here and never closed
        "[1, 2" → 1:1: a list is opened here and never closed
        "{\"a\": [1" → 1:7: a list is opened here and never closed
        "{} {}" → 1:4: there is something after the end of the JSON
        "/* x" → 1:1: a comment is opened here and never closed
        "[,]" → 1:2: a value is expected here
        "#);
        let deep = told(&"[".repeat(100_000));
        assert_eq!(deep, "1:66: more than 64 levels of nesting");
    }
}
