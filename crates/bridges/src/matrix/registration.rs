//! The registration of the bridge with its homeserver: the file `registration.yaml`.
//!
//! Matrix application service API v1.15, "MatrixRegistration".

use std::fmt::Write as _;

/// What the registration file says.
#[derive(Clone, PartialEq, Eq)]
pub struct MatrixRegistration {
    pub id: String,
    /// Where the homeserver sends transactions to.
    pub url: String,
    pub as_token: String,
    pub hs_token: String,
    pub sender_localpart: String,
    /// The server name of the homeserver: what stands behind the colon of its users' ids.
    pub server_name: String,
    /// What the local parts of puppets start with.
    pub puppet_prefix: String,
}

impl MatrixRegistration {
    /// The file, as YAML that is JSON where quoting matters.
    pub fn to_yaml(&self) -> String {
        let pattern = format!("@{}.*:{}", escaped(&self.puppet_prefix), escaped(&self.server_name));
        let mut yaml = String::new();
        for (key, value) in [
            ("id", &self.id),
            ("url", &self.url),
            ("as_token", &self.as_token),
            ("hs_token", &self.hs_token),
            ("sender_localpart", &self.sender_localpart),
        ] {
            let _ = writeln!(yaml, "{key}: {}", quoted(value));
        }
        // The bridge spaces its messages itself when the homeserver asks for it; without limits a busy room is not held up.
        yaml.push_str("rate_limited: false\nnamespaces:\n  users:\n    - exclusive: true\n      regex: ");
        yaml.push_str(&quoted(&pattern));
        yaml.push_str("\n  aliases: []\n  rooms: []\n");
        yaml
    }
}

/// A double-quoted scalar: JSON strings are YAML (YAML 1.2.2 §7.3.1) and TOML.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A text as part of a regular expression.
fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for character in text.chars() {
        if !character.is_ascii_alphanumeric() && character != '_' && character.is_ascii() {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}
