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

/// The text as one part of a path, or as a value in a query: everything is escaped but letters, digits and `-._~:@`. [`percent_decoded`] gives it back.
// RFC 3986 §3.3: a segment may have all of these as they are.
pub fn percent_encoded(text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.extend([
                '%',
                char::from(DIGITS[usize::from(byte >> 4)]),
                char::from(DIGITS[usize::from(byte & 15)]),
            ]);
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_in_an_address_is_escaped() {
        assert_eq!(percent_encoded("room:alpha~1@x_y-z.0"), "room:alpha~1@x_y-z.0");
        assert_eq!(percent_encoded("#a b/c?d&e=f+g%é"), "%23a%20b%2Fc%3Fd%26e%3Df%2Bg%25%C3%A9");
    }

    #[test]
    fn escapes_are_whole_and_make_text() {
        assert_eq!(percent_decoded("room%3Aalpha%20%c3%A9+").as_deref(), Some("room:alpha é+"));
        assert_eq!(percent_decoded(""), Some(String::new()));
        for broken in ["%", "%4", "%+1", "%g0", "%ff", "a%"] {
            assert_eq!(percent_decoded(broken), None, "{broken}");
        }
    }
}
