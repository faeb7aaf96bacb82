//! Participant ids for the subjects of other issuers, such as `auth0|5f7c`.
//!
//! RFC 7519 allows any text as `sub`, and a participant id has at most 128 bytes of some of ASCII. The mapping is part of what operators rely on: history
//! and permissions name these ids, so it must never change.

use aws_lc_rs::digest::{SHA256, digest};
use salon_protocol::ParticipantId;

use super::AuthError;
use super::keys::hex;
use super::token::invalid;

/// The longest participant id, in characters.
const MAX_ID_CHARS: usize = 128;

/// Stands before the digest of a subject that is too long. No escape contains it: after a `~` they have two digits.
const DIGEST_MARK: &str = "~~";

/// The participant of a subject. Different subjects have different ids:
///
/// - `A-Z a-z 0-9 . _ : @ -` stay as they are; every other byte of the UTF-8 text is `~` and two upper-case hexadecimal digits.
/// - Of a subject that would be longer than an id, the beginning stays, then `~~` and its SHA-256 in hexadecimal.
pub(crate) fn participant_of_subject(subject: &str) -> Result<ParticipantId, AuthError> {
    let mut id = String::with_capacity(subject.len());
    for byte in subject.bytes() {
        // `.` and `..` mean something else in paths.
        let is_dots = matches!(subject, "." | "..");
        if byte.is_ascii_alphanumeric() || b"_:@-".contains(&byte) || byte == b'.' && !is_dots {
            id.push(char::from(byte));
        } else {
            id.push_str(&format!("~{byte:02X}"));
        }
    }
    if id.len() > MAX_ID_CHARS {
        let digest = hex(digest(&SHA256, subject.as_bytes()).as_ref());
        id.truncate(MAX_ID_CHARS - DIGEST_MARK.len() - digest.len());
        id = format!("{id}{DIGEST_MARK}{digest}");
    }
    ParticipantId::new(id).map_err(|error| invalid("sub", error))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mapped(subject: &str) -> String {
        participant_of_subject(subject).map_or_else(|error| error.to_string(), |id| id.to_string())
    }

    /// Undoes the escapes of a short subject.
    fn unescaped(id: &str) -> String {
        let mut parts = id.split('~');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
            bytes.extend(u8::from_str_radix(digits, 16));
            bytes.extend(rest.bytes());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    #[test]
    fn a_subject_becomes_an_id() {
        assert_eq!(mapped("alice"), "alice");
        assert_eq!(mapped("248289761001"), "248289761001");
        assert_eq!(mapped("auth0|5f7c8ec7c33c6c004bbafe82"), "auth0~7C5f7c8ec7c33c6c004bbafe82");
        assert_eq!(mapped("ada@example.org"), "ada@example.org");
        assert_eq!(mapped("a b/é"), "a~20b~2F~C3~A9");
        assert_eq!(mapped("auth0~7C1"), "auth0~7E7C1", "the escape itself is escaped");
        assert_eq!(mapped(".."), "~2E~2E");
        assert_eq!(mapped("a.b"), "a.b");
        assert_eq!(mapped(""), "the token's `sub` is not usable: it is empty");
        assert_eq!(mapped(&"x".repeat(128)), "x".repeat(128));
        let long = mapped(&"x".repeat(129));
        assert_eq!(long.len(), 128);
        assert!(long.starts_with(&format!("{}~~", "x".repeat(62))), "{long}");
        assert_ne!(long, mapped(&"x".repeat(130)));
    }

    proptest! {
        #[test]
        fn different_subjects_have_different_ids(one in "[ab|~7C.]{1,4}", other in "[ab|~7C.]{1,4}") {
            prop_assert_eq!(mapped(&one) == mapped(&other), one == other);
            // Nor can a subject be written like the id of another: unescaping gives back the subject itself.
            prop_assert_eq!(unescaped(&mapped(&one)), one);
        }
    }
}
