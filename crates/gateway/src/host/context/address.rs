//! How scopes and keys are written: as words in a tool's arguments, as `context://{scope}/{key}` for a resource.
//!
//! Invariant: `participant` is the writer. Another's scope cannot be named.

use std::borrow::Cow;

use salon_log::context::{ContextScope, Key, ToolId};
use salon_protocol::{ParticipantId, percent_decoded};

const SCHEME: &str = "context://";
const TOOL: &str = "tool:";

/// All resources, as one template.
pub(super) const TEMPLATE: &str = "context://{scope}/{key}";

/// Reads the word for a scope; an error says what would be right.
pub(super) fn read_scope(word: &str, caller: &ParticipantId) -> Result<ContextScope, String> {
    match (word, word.strip_prefix(TOOL)) {
        ("topic", _) => Ok(ContextScope::Topic),
        ("participant", _) => Ok(ContextScope::Participant(caller.clone())),
        (_, Some(id)) => ToolId::new(id).map(ContextScope::Tool).map_err(|why| format!("the id of the tool: {why}")),
        _ => Err("must be `topic`, `participant`, or `tool:` and the id of a tool".into()),
    }
}

/// The word for a scope.
pub(super) fn word(scope: &ContextScope) -> Cow<'static, str> {
    match scope {
        ContextScope::Topic => "topic".into(),
        ContextScope::Participant(_) => "participant".into(),
        ContextScope::Tool(id) => format!("{TOOL}{id}").into(),
    }
}

/// The resource of a key, as the template makes it.
pub(super) fn uri(scope: &ContextScope, key: &Key) -> String {
    let mut uri = String::from(SCHEME);
    encode(&word(scope), &mut uri);
    uri.push('/');
    encode(key.as_str(), &mut uri);
    uri
}

/// What a resource is. Also takes what a template would not have made, as long as it can be meant in one way only.
pub(super) fn read_uri(uri: &str, caller: &ParticipantId) -> Option<(ContextScope, Key)> {
    let (scope, key) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    let scope = read_scope(&percent_decoded(scope)?, caller).ok()?;
    Some((scope, Key::new(&percent_decoded(key)?).ok()?))
}

/// As a template's simple expansion does it: everything but letters, digits and `-._~` is written as its bytes.
fn encode(text: &str, into: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(char::from(byte));
        } else {
            let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
            into.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn alice() -> ParticipantId {
        ParticipantId::new("alice").expect("an id")
    }

    fn read(uri: &str) -> Option<(String, String)> {
        read_uri(uri, &alice()).map(|(scope, key)| (format!("{scope:?}"), key.to_string()))
    }

    #[test]
    fn scopes_are_read_and_written() {
        for given in ["topic", "participant", "tool:arm", "tool:a b:c"] {
            let scope = read_scope(given, &alice()).expect("a scope");
            assert_eq!(word(&scope), given);
        }
        assert_eq!(read_scope("participant", &alice()), Ok(ContextScope::Participant(alice())));
        let wrong = Err("must be `topic`, `participant`, or `tool:` and the id of a tool".to_owned());
        for given in ["", "Topic", "participant:bob", "tool", "bob"] {
            assert_eq!(read_scope(given, &alice()), wrong, "{given:?}");
        }
        assert_eq!(read_scope("tool:", &alice()), Err("the id of the tool: it is empty".into()));
    }

    #[test]
    fn a_resource_is_read_as_the_template_makes_it_and_a_little_beyond() {
        let key = Key::new("plan/a b").expect("a key");
        let tool = ContextScope::Tool(ToolId::new("arm").expect("an id"));
        assert_eq!(uri(&ContextScope::Topic, &key), "context://topic/plan%2Fa%20b");
        assert_eq!(uri(&tool, &key), "context://tool%3Aarm/plan%2Fa%20b");
        let expected = Some(("Topic".to_owned(), "plan/a b".to_owned()));
        assert_eq!(read("context://topic/plan%2Fa%20b"), expected);
        assert_eq!(read("context://topic/plan/a b"), expected);
        assert_eq!(read("context://topic/plan%2fa%20b"), expected);
        assert_eq!(read_uri("context://tool:arm/x", &alice()).map(|(scope, _)| scope), Some(tool));
        for wrong in [
            "context://topic/",
            "context://topic",
            "context://participant:bob/x",
            "context://topic/%",
            "context://topic/%4",
            "context://topic/%+1",
            "context://topic/%ff",
            "context://topic/%00",
            "Context://topic/x",
            "file:///x",
            "",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(key in "\\PC{1,64}", id in "\\PC{1,32}") {
            let (key, id) = (Key::new(&key), ToolId::new(&id));
            // Counted by proptest: it fails when nearly all are left out.
            prop_assume!(key.is_ok() && id.is_ok());
            let (key, id) = (key.expect("checked"), id.expect("checked"));
            for scope in [ContextScope::Topic, ContextScope::Participant(alice()), ContextScope::Tool(id)] {
                let uri = uri(&scope, &key);
                prop_assert!(uri.is_ascii());
                prop_assert_eq!(read_uri(&uri, &alice()), Some((scope, key.clone())));
            }
        }

        #[test]
        fn anything_is_read_or_refused(uri in "context://\\PC{0,32}") {
            if let Some((scope, key)) = read_uri(&uri, &alice()) {
                prop_assert_eq!(read_uri(&super::uri(&scope, &key), &alice()), Some((scope, key)));
            }
        }
    }
}
