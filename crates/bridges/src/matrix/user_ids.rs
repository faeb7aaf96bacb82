//! Matrix user ids of puppets, from participant ids and back.
//!
//! Client-server API, "User Identifiers": a local part has lower-case letters, digits and `.`, `_`, `=`, `-`, `/`, `+`. Every other byte of a
//! participant id is `=` and two hexadecimal digits, as the specification suggests ("Mapping from other character sets").

use salon_protocol::{ParticipantId, percent_decoded};

/// A user id has at most 255 bytes.
const MAX_USER_ID: usize = 255;

/// The puppets of one bridge on one homeserver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PuppetIds {
    pub server_name: String,
    /// What local parts of puppets start with: the namespace of the registration.
    pub prefix: String,
    /// The local part of the bridge's own user.
    pub bot: String,
}

impl PuppetIds {
    /// The user id of a participant's puppet. `None` for an id that is too long for Matrix; its messages come from the bridge's own user.
    pub fn user_id(&self, participant: &ParticipantId) -> Option<String> {
        let mut id = format!("@{}", self.prefix);
        for byte in participant.as_str().bytes() {
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' => id.push(char::from(byte)),
                _ => id.push_str(&format!("={byte:02x}")),
            }
        }
        id.push(':');
        id.push_str(&self.server_name);
        (id.len() <= MAX_USER_ID).then_some(id)
    }

    /// The participant that a user id stands for.
    pub fn participant(&self, user_id: &str) -> Option<ParticipantId> {
        let local = self.local_part(user_id)?.strip_prefix(self.prefix.as_str())?;
        let decoded = percent_decoded(&local.replace('%', "%25").replace('=', "%"))?;
        decoded.parse().ok()
    }

    pub fn bot_id(&self) -> String {
        format!("@{}:{}", self.bot, self.server_name)
    }

    /// Whether a user is the bridge's own: its bot or one of its puppets.
    pub fn is_own(&self, user_id: &str) -> bool {
        self.local_part(user_id).is_some_and(|local| local == self.bot || local.starts_with(&self.prefix))
    }

    fn local_part<'a>(&self, user_id: &'a str) -> Option<&'a str> {
        user_id.strip_prefix('@')?.strip_suffix(self.server_name.as_str())?.strip_suffix(':')
    }
}
