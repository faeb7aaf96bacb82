//! What a server says with 401 and 403: `WWW-Authenticate` (RFC 9110 §11.6.1), as far as RFC 6750 and RFC 9728 use it.

/// What is read of the header.
const MAX_BYTES: usize = 8 * 1024;

/// A challenge: the server requires a bearer token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BearerChallenge {
    /// Where its metadata is (RFC 9728 §5.1).
    pub(crate) resource_metadata: Option<String>,
    /// The scopes it wants.
    pub(crate) scope: Option<String>,
    /// `invalid_token`, `insufficient_scope`, …
    pub(crate) error: Option<String>,
}

impl BearerChallenge {
    /// The challenge for a bearer token among the values of the header; one that names metadata is preferred.
    pub(crate) fn read<'a>(values: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut found = None::<Self>;
        for challenge in values.filter(|value| value.len() <= MAX_BYTES).flat_map(bearers) {
            let better =
                challenge.resource_metadata.is_some() && found.as_ref().is_none_or(|f| f.resource_metadata.is_none());
            if found.is_none() || better {
                found = Some(challenge);
            }
        }
        found
    }

    pub(crate) fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// The bearer challenges of one header value, in which schemes and parameters are separated by the same commas.
fn bearers(value: &str) -> Vec<BearerChallenge> {
    let (mut found, mut rest) = (Vec::new(), value);
    let mut in_bearer = false;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find(|c: char| c.is_ascii_whitespace() || matches!(c, ',' | '=' | '"')).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            // Nothing is left, or nothing that the grammar has.
            return found;
        }
        match after.trim_start().strip_prefix('=') {
            Some(value) if !value.starts_with(['=', ',']) && !value.is_empty() => {
                let Some((text, left)) = parameter(value.trim_start()) else { return found };
                rest = left;
                let challenge = found.last_mut().filter(|_| in_bearer);
                if let Some(challenge) = challenge {
                    set(challenge, word, text);
                }
            }
            // The padding of a token68, which bearer challenges do not have.
            Some(padding) => rest = padding.trim_start_matches('='),
            None => {
                in_bearer = word.eq_ignore_ascii_case("bearer");
                found.extend(in_bearer.then(BearerChallenge::default));
                rest = after;
            }
        }
    }
}

fn set(challenge: &mut BearerChallenge, name: &str, text: String) {
    let place = match name.to_ascii_lowercase().as_str() {
        "resource_metadata" => &mut challenge.resource_metadata,
        "scope" => &mut challenge.scope,
        "error" => &mut challenge.error,
        _ => return,
    };
    // The first of two counts: RFC 6750 allows one.
    place.get_or_insert(text);
}

/// A parameter's value, quoted or not, and what follows it. `None` where a quote does not end.
fn parameter(value: &str) -> Option<(String, &str)> {
    let Some(quoted) = value.strip_prefix('"') else {
        let end = value.find(|c: char| c == ',' || c.is_ascii_whitespace()).unwrap_or(value.len());
        return Some((value[..end].to_owned(), &value[end..]));
    };
    let (mut text, mut escaped) = (String::new(), false);
    for (at, c) in quoted.char_indices() {
        match c {
            _ if escaped => {
                text.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return Some((text, &quoted[at + 1..])),
            _ => text.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(value: &str) -> String {
        match BearerChallenge::read(std::iter::once(value)) {
            None => "none".into(),
            Some(BearerChallenge { resource_metadata, scope, error }) => {
                [resource_metadata, scope, error].map(|part| part.unwrap_or_else(|| "-".into())).join(" | ")
            }
        }
    }

    #[test]
    fn a_challenge_is_found_among_others() {
        let table = [
            (r#"Bearer resource_metadata="https://a/b", scope="x y""#, "https://a/b | x y | -"),
            (r#"bearer realm="a, b=c", error=invalid_token"#, "- | - | invalid_token"),
            (r#"Basic realm="x", Bearer scope = "a\"b" , error="insufficient_scope""#, "- | a\"b | insufficient_scope"),
            (r#"Negotiate YWJj==, Bearer scope=x"#, "- | x | -"),
            (r#"Bearer, Bearer resource_metadata=https://a/b"#, "https://a/b | - | -"),
            (r#"Bearer scope="a", Basic scope="b", error="c""#, "- | a | -"),
            (r#"Bearer scope="a", scope="b""#, "- | a | -"),
            ("Bearer", "- | - | -"),
            (r#"Bearer scope="never ends"#, "- | - | -"),
            ("Basic realm=x", "none"),
            ("", "none"),
            ("==,\"", "none"),
        ];
        for (value, expected) in table {
            assert_eq!(read(value), expected, "{value}");
        }
        assert_eq!(read(&format!("Bearer scope=\"{}\"", "x".repeat(MAX_BYTES))), "none");
    }

    proptest! {
        #[test]
        fn a_challenge_never_panics(value in r#"(Bearer|[ ,="\\a-zé]|scope=){0,24}"#) {
            let _ = read(&value);
        }
    }
}
