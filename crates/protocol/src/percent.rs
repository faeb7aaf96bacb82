//! Percent escapes, as URIs have them.

/// The text without its escapes; `None` where one is broken, or the bytes are not UTF-8.
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_whole_and_make_text() {
        assert_eq!(percent_decoded("room%3Aalpha%20%c3%A9+").as_deref(), Some("room:alpha é+"));
        assert_eq!(percent_decoded(""), Some(String::new()));
        for broken in ["%", "%4", "%+1", "%g0", "%ff", "a%"] {
            assert_eq!(percent_decoded(broken), None, "{broken}");
        }
    }
}
