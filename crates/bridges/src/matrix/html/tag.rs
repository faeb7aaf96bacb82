//! Tags and character references of HTML.

pub(super) struct HtmlTag<'a> {
    pub(super) name: String,
    pub(super) is_closing: bool,
    attributes: &'a str,
}

impl<'a> HtmlTag<'a> {
    /// A tag at the beginning of a text, and what follows it.
    pub(super) fn parse(text: &'a str) -> Option<(Self, &'a str)> {
        let inner = text.strip_prefix('<')?;
        if let Some(comment) = inner.strip_prefix("!--") {
            let end = comment.find("-->").map_or("", |at| &comment[at + 3..]);
            return Some((Self { name: String::new(), is_closing: false, attributes: "" }, end));
        }
        let (is_closing, inner) = inner.strip_prefix('/').map_or((false, inner), |inner| (true, inner));
        if !inner.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return None;
        }
        let end = tag_end(inner)?;
        let (tag, after) = (&inner[..end], &inner[end + 1..]);
        let name_end = tag.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(tag.len());
        let (name, attributes) = tag.split_at(name_end);
        Some((Self { name: name.to_ascii_lowercase(), is_closing, attributes }, after))
    }

    pub(super) fn attribute(&self, wanted: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            let name_end = rest.find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '/')).unwrap_or(rest.len());
            let (name, tail) = rest.split_at(name_end);
            let tail = tail.trim_start();
            let Some(value) = tail.strip_prefix('=') else {
                if name.is_empty() {
                    return None;
                }
                rest = tail;
                continue;
            };
            let value = value.trim_start();
            let (value, tail) = match value.chars().next() {
                Some(quote @ ('"' | '\'')) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
                _ => value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len())),
            };
            if name.eq_ignore_ascii_case(wanted) {
                return Some(unescape(value));
            }
            rest = tail;
        }
    }
}

/// Where the `>` of a tag is. One in a quoted value does not count.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    // A quote that is never closed: the tag ends at its first `>`.
    quote.and_then(|_| tag.find('>'))
}

/// The longest name or number of a character reference.
const MAX_REFERENCE_BYTES: usize = 8;

/// The character references that `formatted_body` needs (HTML, "Named character references"): the five of XML, `nbsp` and numbers.
pub(super) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        // No further than a reference goes, so that a text of nothing but `&` is read once.
        let end = rest.bytes().skip(1).take(MAX_REFERENCE_BYTES + 1).position(|byte| byte == b';');
        let reference = end.map(|length| &rest[1..=length]);
        match reference.and_then(|name| Some((name.len(), character(name)?))) {
            Some((length, character)) => {
                out.push(character);
                rest = &rest[length + 2..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn character(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).filter(|character| !character.is_control() || *character == '\n')?
        }
    })
}
