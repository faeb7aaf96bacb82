//! Ids of the bridge's messages, which a chat shows to everybody: the key, and a code that only the bridge can make.
//!
//! Where a chat hides addresses, such an id is all that tells a message of the bridge from one that a person wrote.

use aws_lc_rs::hmac;

use crate::config::PlatformSecret;
use crate::platform::ActionKey;

/// What ids of every Salon bridge begin with.
const PREFIX: &str = "salon-";
const CODE_DIGITS: usize = 16;

/// Who gave a message its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IdOrigin {
    Own(ActionKey),
    /// Another bridge of Salon in the same chat, or somebody who imitates one.
    OtherBridge,
    Person,
}

pub(super) struct MessageIds {
    key: hmac::Key,
}

impl MessageIds {
    pub(super) fn new(secret: &PlatformSecret) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes()) }
    }

    pub(super) fn id(&self, key: &ActionKey) -> String {
        let tag = hmac::sign(&self.key, format!("message id {key}").as_bytes());
        let code: String = tag.as_ref().iter().take(CODE_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
        format!("{PREFIX}{key}-{code}")
    }

    pub(super) fn origin(&self, id: &str) -> IdOrigin {
        let Some(rest) = id.strip_prefix(PREFIX) else { return IdOrigin::Person };
        let key = rest.rsplit_once('-').map(|(key, _)| ActionKey::new(key));
        match key.filter(|key| self.id(key) == id) {
            Some(key) => IdOrigin::Own(key),
            None => IdOrigin::OtherBridge,
        }
    }
}
