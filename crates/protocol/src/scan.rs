//! One linear pass over a JSON text: is it JSON, not too deep, without duplicate keys, and where do its outer fields lie?
//!
//! Stricter than `serde_json`'s `RawValue`, which takes any depth, repeated keys and lone surrogates. Nothing is decoded here but
//! keys that have escapes. Invariant: every index into the text is bounded by its length, so no input can panic.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

/// Why a text was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScanError {
    #[error("{what} at byte {at}")]
    Syntax { at: usize, what: &'static str },
    #[error("it is nested deeper than {limit} levels")]
    TooDeep { limit: usize },
    #[error("the key {key:?} stands twice in one object")]
    DuplicateKey { key: String },
}

/// A value's outermost form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

/// A key and where its value lies.
#[derive(Debug, Clone)]
pub(crate) struct Field<'a> {
    pub(crate) key: Cow<'a, str>,
    pub(crate) value: Range<usize>,
    pub(crate) shape: Shape,
}

/// The fields of the envelope and of the object under its `payload`. Filled as far as the scan came, so that a refusal can still
/// name the envelope's id.
#[derive(Debug, Default)]
pub(crate) struct Outline<'a> {
    pub(crate) envelope: Vec<Field<'a>>,
    pub(crate) payload: Vec<Field<'a>>,
    pub(crate) shape: Option<Shape>,
}

/// Objects with more keys than this are checked for duplicates with a hash set rather than pair by pair.
const PAIRWISE_KEYS: usize = 12;

/// How many fields an envelope has room for from the start.
const USUAL_FIELDS: usize = 10;

/// Scans a whole text.
pub(crate) fn scan<'a>(text: &'a str, max_depth: usize, outline: &mut Outline<'a>) -> Result<(), ScanError> {
    let mut scanner = Scanner { text, bytes: text.as_bytes(), at: 0, max_depth };
    scanner.blank();
    outline.shape = scanner.shape();
    if outline.shape == Some(Shape::Object) {
        let Outline { envelope, payload, .. } = outline;
        envelope.reserve(USUAL_FIELDS);
        payload.reserve(USUAL_FIELDS / 2);
        scanner.object(1, Some((envelope, Some(payload))))?;
    } else {
        scanner.value(1)?;
    }
    scanner.blank();
    if scanner.at < scanner.bytes.len() { Err(scanner.wrong("unexpected text after the value")) } else { Ok(()) }
}

/// Where an object's fields go, and those of the object under its `payload` key.
type Capture<'c, 'a> = Option<(&'c mut Vec<Field<'a>>, Option<&'c mut Vec<Field<'a>>>)>;

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    max_depth: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn wrong(&self, what: &'static str) -> ScanError {
        let what = if self.at >= self.bytes.len() { "unexpected end" } else { what };
        ScanError::Syntax { at: self.at, what }
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn shape(&self) -> Option<Shape> {
        Some(match self.peek()? {
            b'{' => Shape::Object,
            b'[' => Shape::Array,
            b'"' => Shape::String,
            b't' | b'f' => Shape::Bool,
            b'n' => Shape::Null,
            _ => Shape::Number,
        })
    }

    fn value(&mut self, depth: usize) -> Result<(), ScanError> {
        match self.peek() {
            Some(b'{') => self.object(depth, None),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(drop),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), ScanError> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.wrong("not a JSON value"))
        }
    }

    fn descend(&self, depth: usize) -> Result<(), ScanError> {
        if depth > self.max_depth { Err(ScanError::TooDeep { limit: self.max_depth }) } else { Ok(()) }
    }

    fn array(&mut self, depth: usize) -> Result<(), ScanError> {
        self.descend(depth)?;
        self.at += 1;
        self.blank();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.blank();
            self.value(depth + 1)?;
            self.blank();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.wrong("expected `,` or `]`")),
            }
        }
    }

    fn object(&mut self, depth: usize, mut capture: Capture<'_, 'a>) -> Result<(), ScanError> {
        self.descend(depth)?;
        self.at += 1;
        self.blank();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let mut keys = SeenKeys::default();
        loop {
            self.blank();
            if self.peek() != Some(b'"') {
                return Err(self.wrong("expected a key"));
            }
            let key = self.key()?;
            self.blank();
            if self.peek() != Some(b':') {
                return Err(self.wrong("expected `:`"));
            }
            self.at += 1;
            self.blank();
            let (start, shape) = (self.at, self.shape().ok_or_else(|| self.wrong("expected a value"))?);
            match &mut capture {
                Some((_, Some(inner))) if shape == Shape::Object && key == "payload" && inner.is_empty() => {
                    self.object(depth + 1, Some((inner, None)))?;
                }
                _ => self.value(depth + 1)?,
            }
            if let Some((fields, _)) = &mut capture {
                fields.push(Field { key: key.clone(), value: start..self.at, shape });
            }
            keys.insert(key)?;
            self.blank();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.wrong("expected `,` or `}`")),
            }
        }
    }

    fn key(&mut self) -> Result<Cow<'a, str>, ScanError> {
        let start = self.at;
        let escaped = self.string()?;
        let quoted = &self.text[start..self.at];
        if !escaped {
            return Ok(Cow::Borrowed(&quoted[1..quoted.len() - 1]));
        }
        serde_json::from_str(quoted)
            .map(Cow::Owned)
            .map_err(|_| ScanError::Syntax { at: start, what: "not a JSON string" })
    }

    /// Passes a string and says whether it has escapes.
    fn string(&mut self) -> Result<bool, ScanError> {
        self.at += 1;
        let mut escaped = false;
        loop {
            self.at += plain(&self.bytes[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(0..=0x1f) => return Err(self.wrong("control character in a string")),
                Some(_) => self.at += 1,
                None => return Err(self.wrong("unexpected end")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), ScanError> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => match self.code_unit(self.at)? {
                0xdc00..=0xdfff => Err(self.wrong("lone surrogate")),
                0xd800..=0xdbff => {
                    let next = self.at + 6;
                    let paired = self.bytes[next.min(self.bytes.len())..].starts_with(b"\\u")
                        && matches!(self.code_unit(next)?, 0xdc00..=0xdfff);
                    if !paired {
                        return Err(self.wrong("lone surrogate"));
                    }
                    self.at += 12;
                    Ok(())
                }
                _ => {
                    self.at += 6;
                    Ok(())
                }
            },
            _ => Err(self.wrong("unknown escape")),
        }
    }

    /// The four hexadecimal digits of the `\u` escape that begins at `at`.
    fn code_unit(&self, at: usize) -> Result<u32, ScanError> {
        let wrong = || ScanError::Syntax { at, what: "a \\u escape needs four hexadecimal digits" };
        let digits = self.bytes.get(at + 2..at + 6).ok_or_else(wrong)?;
        digits.iter().try_fold(0, |unit, &digit| Some(unit * 16 + char::from(digit).to_digit(16)?)).ok_or_else(wrong)
    }

    fn digits(&mut self) -> bool {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at > start
    }

    fn number(&mut self) -> Result<(), ScanError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => {
                self.digits();
            }
            _ => return Err(self.wrong("not a JSON value")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !self.digits() {
                return Err(self.wrong("expected a digit"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !self.digits() {
                return Err(self.wrong("expected a digit"));
            }
        }
        Ok(())
    }
}

/// The keys of one object so far.
#[derive(Default)]
struct SeenKeys<'a> {
    /// The first ones, as long as none of them has escapes. On the stack: most objects have few keys.
    few: [&'a str; PAIRWISE_KEYS],
    count: usize,
    /// All of them, once there are more.
    many: Option<HashSet<Cow<'a, str>>>,
}

impl<'a> SeenKeys<'a> {
    fn insert(&mut self, key: Cow<'a, str>) -> Result<(), ScanError> {
        let few = &self.few[..self.count];
        let is_fresh = match &key {
            Cow::Borrowed(plain) if self.many.is_none() && self.count < PAIRWISE_KEYS => {
                let is_fresh = !few.contains(plain);
                self.few[self.count] = plain;
                self.count += 1;
                is_fresh
            }
            _ => {
                let all = || few.iter().map(|plain| Cow::Borrowed(*plain)).collect();
                self.many.get_or_insert_with(all).insert(key.clone())
            }
        };
        if is_fresh { Ok(()) } else { Err(ScanError::DuplicateKey { key: key.chars().take(64).collect() }) }
    }
}

/// What a JSON string stands for, which the scan has passed. `None` for a value that is no string.
pub(crate) fn string_value(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    match inner.contains('\\') {
        false => Some(Cow::Borrowed(inner)),
        true => serde_json::from_str(raw).ok().map(Cow::Owned),
    }
}

/// The strings of a JSON array, which the scan has passed. `None` for another value, and where something else is among them.
pub(crate) fn string_values(raw: &str) -> Option<Vec<Cow<'_, str>>> {
    if raw.contains('\\') {
        return serde_json::from_str::<Vec<String>>(raw).ok().map(|all| all.into_iter().map(Cow::Owned).collect());
    }
    // Without escapes, every second part between quotation marks is a string.
    let mut parts = raw.split('"');
    let (mut between, mut before, mut strings) = (parts.next()?.trim(), "[", Vec::new());
    while let Some(string) = parts.next() {
        if between != before {
            return None;
        }
        strings.push(Cow::Borrowed(string));
        (between, before) = (parts.next()?.trim(), ",");
    }
    let end = if strings.is_empty() { between.strip_prefix('[')?.trim_start() } else { between };
    (end == "]").then_some(strings)
}

/// How many of the first bytes surely stand for themselves in a string, looked at eight by eight: a few at the end may do so too.
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    /// The high bit of every byte that is less than `than`; beyond the first such byte it may be wrong.
    fn less(word: u64, than: u64) -> u64 {
        word.wrapping_sub(ONES * than) & !word & HIGHS
    }
    let words = bytes.chunks_exact(8);
    let whole = words.len() * 8;
    let special = |word: &[u8]| {
        let word = u64::from_le_bytes(word.try_into().expect("a word has eight bytes"));
        less(word, 0x20) | less(word ^ (ONES * u64::from(b'"')), 1) | less(word ^ (ONES * u64::from(b'\\')), 1)
    };
    match words.map(special).enumerate().find(|(_, special)| *special != 0) {
        Some((at, special)) => at * 8 + special.trailing_zeros() as usize / 8,
        None => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn verdict(text: &str) -> String {
        let mut outline = Outline::default();
        match scan(text, 64, &mut outline) {
            Ok(()) => outline.envelope.iter().map(|f| format!("{}={} ", f.key, &text[f.value.clone()])).collect(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn fields_are_found_where_they_lie() {
        insta::assert_snapshot!(verdict(r#" {"a" : 1.0e+3 ,"\u0062":[1,{"c":null}], "payload":{"x":"\ud83d\ude00"}} "#),
            @r#"a=1.0e+3 b=[1,{"c":null}] payload={"x":"\ud83d\ude00"}"#);
    }

    #[test]
    fn what_is_not_json_is_told_where() {
        for (name, text, expected) in [
            ("an empty text", "", "unexpected end at byte 0"),
            ("only blanks", " \t\r\n ", "unexpected end at byte 5"),
            ("a lone brace", "{", "unexpected end at byte 1"),
            ("a word", "hello", "not a JSON value at byte 0"),
            ("undefined", "undefined", "not a JSON value at byte 0"),
            ("cut in a key", "{\"a\":1,\"b", "unexpected end at byte 9"),
            ("cut in a value", "{\"a\":\"b", "unexpected end at byte 7"),
            ("without its last brace", "{\"a\":{\"b\":1}", "unexpected end at byte 12"),
            ("a trailing comma", "{\"a\":1,}", "expected a key at byte 7"),
            ("a trailing comma in an array", "{\"a\":[1,]}", "not a JSON value at byte 8"),
            ("a comma too many in an array", "{\"a\":[1,,2]}", "not a JSON value at byte 8"),
            ("something behind it", "{}x", "unexpected text after the value at byte 2"),
            ("two at once", "{} {}", "unexpected text after the value at byte 3"),
            ("single quotes", "{'a':1}", "expected a key at byte 1"),
            ("an unquoted key", "{a:1}", "expected a key at byte 1"),
            ("a comment", "{/* hello */\"a\":1}", "expected a key at byte 1"),
            ("a byte order mark", "\u{feff}{}", "not a JSON value at byte 0"),
            ("a no-break space", "{\u{a0}\"a\":1}", "expected a key at byte 1"),
            ("a NUL", "\0{}", "not a JSON value at byte 0"),
            ("NaN", "{\"a\":NaN}", "not a JSON value at byte 5"),
            ("Infinity", "{\"a\":-Infinity}", "not a JSON value at byte 6"),
            ("a word cut off", "{\"a\":nul}", "not a JSON value at byte 5"),
            ("a capital True", "{\"a\":True}", "not a JSON value at byte 5"),
            ("a leading zero", "{\"a\":01}", "expected `,` or `}` at byte 6"),
            ("a leading plus", "{\"a\":+1}", "not a JSON value at byte 5"),
            ("a bare point", "{\"a\":.5}", "not a JSON value at byte 5"),
            ("a point at the end", "{\"a\":1.}", "expected a digit at byte 7"),
            ("an empty exponent", "{\"a\":1e}", "expected a digit at byte 7"),
            ("hexadecimal", "{\"a\":0x10}", "expected `,` or `}` at byte 6"),
            ("a newline in a string", "{\"a\":\"\n\"}", "control character in a string at byte 6"),
            ("a control character in a string", "{\"a\":\"\u{1}\"}", "control character in a string at byte 6"),
            ("an unknown escape", "{\"a\":\"\\x41\"}", "unknown escape at byte 6"),
            ("a short escape", "{\"a\":\"\\u12\"}", "a \\u escape needs four hexadecimal digits at byte 6"),
            ("a lone high surrogate", "{\"a\":\"\\ud800\"}", "lone surrogate at byte 6"),
            ("a lone low surrogate", "{\"a\":\"\\udc00\"}", "lone surrogate at byte 6"),
            ("a high surrogate before a letter", "{\"a\":\"\\ud800\\u0041\"}", "lone surrogate at byte 6"),
            ("two high surrogates", "{\"a\":\"\\ud83d\\ud83d\"}", "lone surrogate at byte 6"),
            ("a lone surrogate in a key", "{\"\\udfff\":1}", "lone surrogate at byte 2"),
            ("a key twice", "{\"id\":\"a\",\"id\":\"a\"}", "the key \"id\" stands twice in one object"),
            (
                "a key twice, not side by side",
                "{\"id\":1,\"from\":2,\"id\":3}",
                "the key \"id\" stands twice in one object",
            ),
            (
                "an object twice under one key",
                "{\"payload\":{},\"payload\":{\"a\":1}}",
                "the key \"payload\" stands twice in one object",
            ),
            ("a key twice, once escaped", "{\"a\":1,\"\\u0061\":2}", "the key \"a\" stands twice in one object"),
            (
                "a key twice in the payload",
                "{\"payload\":{\"method\":1,\"method\":2}}",
                "the key \"method\" stands twice in one object",
            ),
            (
                "a key twice far inside",
                "{\"a\":{\"b\":[{\"c\":1,\"d\":2,\"c\":3}]}}",
                "the key \"c\" stands twice in one object",
            ),
        ] {
            assert_eq!(verdict(text), expected, "{name}: {text}");
        }
    }

    #[test]
    fn many_keys_are_still_compared() {
        let object = |keys: Vec<usize>| {
            format!("{{{}}}", keys.iter().map(|k| format!("\"k{k}\":0")).collect::<Vec<_>>().join(","))
        };
        assert!(!verdict(&object((0..5000).collect())).contains("twice"));
        assert!(verdict(&object((0..5000).chain([3]).collect())).contains("twice"));
        assert!(verdict(&object((0..13).chain([12]).collect())).contains("twice"));
    }

    #[test]
    fn strings_of_an_array_are_what_serde_reads() {
        for raw in [
            "[]",
            "[ ]",
            r#"["a"]"#,
            "[ \"a\" ,\t\"b, [c]\"\n]",
            r#"["a\u0062","c"]"#,
            r#"["",""]"#,
            r#""a""#,
            r#"{"a":"b"}"#,
            r#"["a",1]"#,
            r#"[1,"a"]"#,
            r#"["a",["b"]]"#,
            r#"[["a"]]"#,
            r#"[null]"#,
            "7",
            "null",
        ] {
            let strings = string_values(raw).map(|all| all.into_iter().map(Cow::into_owned).collect::<Vec<_>>());
            assert_eq!(strings, serde_json::from_str::<Vec<String>>(raw).ok(), "{raw}");
        }
    }

    #[test]
    fn depth_is_counted_from_the_outermost() {
        let nested = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
        assert!(!verdict(&nested(64)).contains("deeper"));
        for levels in [65, 10_000, 200_000] {
            assert_eq!(verdict(&nested(levels)), "it is nested deeper than 64 levels");
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            ".*".prop_map(Into::into),
        ];
        leaf.prop_recursive(5, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
                prop::collection::hash_map(".*", inner, 0..20).prop_map(|m| m.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_serde_writes_is_taken(value in json()) {
            let text = value.to_string();
            prop_assert_eq!(scan(&text, 64, &mut Outline::default()), Ok(()));
            let pretty = serde_json::to_string_pretty(&value).expect("a value is writable");
            prop_assert_eq!(scan(&pretty, 64, &mut Outline::default()), Ok(()));
        }

        /// The scan may be stricter than serde_json, never laxer.
        #[test]
        fn what_is_taken_is_json(text in r#"[\[\]{}",:0-9eE+.\-a-c\\un d8]{0,40}"#) {
            if scan(&text, 64, &mut Outline::default()).is_ok() {
                prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok(), "{}", text);
            }
        }
    }
}
