//! The credentials an envelope was published with. They are stored beside the envelope and are never part of its text.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ParticipantId;

/// The id and the permissions of the token that an entry was published with.
///
/// Encoded once, when a connection begins, and shared by everything it publishes. Decoded only where somebody asks: most entries are
/// delivered without anybody looking at their stamps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stamp(Arc<str>);

#[derive(Default, Serialize, Deserialize)]
struct StampFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    permissions: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    capabilities: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    human: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    via: Option<StampVia>,
}

/// What a stamp says of an entry of a ghost, which a bridge published with its own token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampVia {
    /// The bridge.
    pub bridge: ParticipantId,
    /// Whether its ghosts may chat and call nobody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub chat_only: bool,
}

impl Stamp {
    /// The longest stamp, in bytes. A token has at most as many, so what a token says always fits.
    pub const MAX_BYTES: usize = 8192;

    /// The stamp of a token with this id (`jti`), these permissions and, where it is limited to some, these capabilities. `None` where it has
    /// none of them, and where the stamp would be longer than [`Stamp::MAX_BYTES`]: an entry without a stamp has no permissions.
    pub fn new(token: Option<&str>, permissions: &[String], capabilities: Option<&[String]>) -> Option<Self> {
        if token.is_none() && permissions.is_empty() && capabilities.is_none() {
            return None;
        }
        Self::encode(token, permissions, capabilities, false)
    }

    /// The stamp of a token that says that its owner is a person.
    pub fn of_human(token: Option<&str>, permissions: &[String], capabilities: Option<&[String]>) -> Option<Self> {
        Self::encode(token, permissions, capabilities, true)
    }

    fn encode(
        token: Option<&str>,
        permissions: &[String],
        capabilities: Option<&[String]>,
        human: bool,
    ) -> Option<Self> {
        let (token, permissions) = (token.map(Into::into), permissions.to_vec());
        let capabilities = capabilities.map(<[String]>::to_vec);
        StampFields { token, permissions, capabilities, human, via: None }.encode()
    }

    /// The stamp of what a bridge publishes in the name of a ghost: the bridge's own, without the permissions that `keeps` does not name. A
    /// bridge without a stamp has a token that says nothing. What would be too long permits nothing.
    pub fn of_ghost(bridge: Option<&Self>, via: StampVia, human: bool, keeps: impl Fn(&str) -> bool) -> Self {
        let mut fields = bridge.map(Self::fields).unwrap_or_default();
        fields.permissions.retain(|permission| keeps(permission));
        (fields.human, fields.via) = (human, Some(via.clone()));
        fields.encode().unwrap_or_else(|| {
            let fields = StampFields { capabilities: Some(Vec::new()), via: Some(via), ..StampFields::default() };
            fields.encode().expect("an id is short")
        })
    }

    /// A stamp as it was stored. `None` for one that is empty or too long.
    pub fn restore(text: &str) -> Option<Self> {
        (1..=Self::MAX_BYTES).contains(&text.len()).then(|| Self(text.into()))
    }

    /// The stamp as it is stored: one line of JSON.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The id of the token, where it has one.
    pub fn token(&self) -> Option<String> {
        self.fields().token
    }

    /// What the token permits. A stamp that cannot be read permits nothing.
    pub fn permissions(&self) -> Vec<String> {
        self.fields().permissions
    }

    /// The capabilities that the token is limited to; `None` where it is not limited.
    pub fn capabilities(&self) -> Option<Vec<String>> {
        // Most tokens are not, and this is asked for every message.
        if !self.0.contains(r#""capabilities""#) {
            return None;
        }
        self.fields().capabilities
    }

    /// Whether the token, and not only its owner, says that its owner is a person.
    pub fn is_human(&self) -> bool {
        self.0.contains(r#""human""#) && self.fields().human
    }

    /// The bridge that published the entry in the name of a ghost, where one did.
    pub fn via(&self) -> Option<StampVia> {
        if !self.0.contains(r#""via""#) {
            return None;
        }
        self.fields().via
    }

    fn fields(&self) -> StampFields {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl StampFields {
    fn encode(&self) -> Option<Stamp> {
        let text = serde_json::to_string(self).expect("texts are plain JSON");
        (text.len() <= Stamp::MAX_BYTES).then(|| Stamp(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_that_says_nothing_leaves_no_stamp() {
        assert_eq!(Stamp::new(None, &[], None), None);
        let stamp = Stamp::new(Some("t1"), &["drive".into()], None).expect("a stamp");
        assert_eq!(stamp.text(), r#"{"token":"t1","permissions":["drive"]}"#);
        let stamp = Stamp::new(Some("t1"), &[], None).expect("a stamp");
        assert_eq!((stamp.text(), stamp.permissions().len()), (r#"{"token":"t1"}"#, 0));
        assert_eq!(stamp.capabilities(), None);
        let limited = Stamp::new(None, &[], Some(&["say".into()])).expect("a stamp");
        assert_eq!(limited.capabilities(), Some(vec!["say".into()]));
        assert!(Stamp::of_human(None, &[], None).is_some_and(|stamp| stamp.is_human()));
        let claims = Stamp::new(Some("human"), &["human".into()], None);
        assert!(!claims.expect("a stamp").is_human(), "a token id is not what the token says");
    }

    #[test]
    fn a_ghost_has_what_its_bridge_has_and_no_more() {
        let via = || StampVia { bridge: ParticipantId::new("bridge:matrix").expect("an id"), chat_only: true };
        let permissions = ["drive".to_owned(), "operator".to_owned()];
        let bridge = Stamp::new(Some("t1"), &permissions, Some(&["say".into()])).expect("a stamp");
        let ghost = Stamp::of_ghost(Some(&bridge), via(), true, |permission| permission != "operator");
        assert_eq!((ghost.token().as_deref(), ghost.permissions()), (Some("t1"), vec!["drive".to_owned()]));
        assert_eq!((ghost.capabilities(), ghost.is_human()), (Some(vec!["say".into()]), true));
        assert_eq!((ghost.via(), bridge.via()), (Some(via()), None));
        let human = Stamp::of_human(None, &[], None).expect("a stamp");
        assert!(
            !Stamp::of_ghost(Some(&human), via(), false, |_| true).is_human(),
            "the bridge is, and its ghost is not"
        );
        assert_eq!(Stamp::of_ghost(None, via(), false, |_| true).via(), Some(via()));
        let long = Stamp::restore(&format!(r#"{{"permissions":["{}"]}}"#, "p".repeat(Stamp::MAX_BYTES - 30)));
        let long = Stamp::of_ghost(long.as_ref(), via(), true, |_| true);
        assert_eq!((long.permissions(), long.capabilities(), long.via()), (vec![], Some(vec![]), Some(via())));
    }

    #[test]
    fn a_stamp_is_bounded_and_one_that_cannot_be_read_permits_nothing() {
        assert_eq!(Stamp::new(None, &["p".repeat(Stamp::MAX_BYTES)], None), None);
        assert_eq!(Stamp::restore(&"p".repeat(Stamp::MAX_BYTES + 1)), None);
        assert_eq!(Stamp::restore(""), None);
        for text in ["drive", "[]", r#"{"permissions":"drive"}"#, r#"{"token":1,"permissions":["drive"]}"#] {
            let stamp = Stamp::restore(text).expect("short");
            assert_eq!((stamp.token(), stamp.permissions()), (None, vec![]), "{text}");
        }
    }

    proptest! {
        #[test]
        fn roundtrip(token in proptest::option::of("\\PC{0,20}"), permissions in proptest::collection::vec(any::<String>(), 0..5)) {
            prop_assume!(token.is_some() || !permissions.is_empty());
            let stamp = Stamp::new(token.as_deref(), &permissions, None).expect("short");
            prop_assert!(!stamp.text().contains(['\r', '\n']), "it is a header's value in NATS");
            let stored = Stamp::restore(stamp.text()).expect("a stamp");
            prop_assert_eq!((stored.token(), stored.permissions()), (token, permissions));
        }
    }
}
