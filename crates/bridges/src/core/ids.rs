//! Ids that follow from other ids, so that the same message has the same id after a crash.

use salon_protocol::EnvelopeId;
use sha2::{Digest, Sha256};

use crate::platform::ActionKey;

/// Hexadecimal digits of the SHA-256 of some parts. Each part is preceded by its length, so that no two lists of parts are alike.
pub(crate) fn digest_hex(parts: &[&[u8]], digits: usize) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let bytes = hash.finalize();
    bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).take(digits).map(char::from).collect()
}

/// Makes ids for one channel. `key` is a secret of the bridge, so that nobody can take an envelope's id before the bridge does.
#[derive(Debug, Clone)]
pub(crate) struct IdSource {
    pub(crate) key: [u8; 32],
    pub(crate) channel: String,
    /// Differs in every run of the bridge.
    pub(crate) run: u64,
    pub(crate) counter: u64,
}

impl IdSource {
    /// The envelope that a message of the platform becomes.
    pub(crate) fn envelope(&mut self, platform_id: Option<&str>) -> EnvelopeId {
        let digest = match platform_id {
            Some(id) => digest_hex(&[b"message", &self.key, self.channel.as_bytes(), id.as_bytes()], 40),
            None => {
                self.counter += 1;
                let (run, counter) = (self.run.to_be_bytes(), self.counter.to_be_bytes());
                digest_hex(&[b"numbered", &self.key, self.channel.as_bytes(), &run, &counter], 40)
            }
        };
        EnvelopeId::new(format!("b-{digest}")).expect("hexadecimal digits make an id")
    }

    /// The key of the `part`-th action that an envelope causes.
    pub(crate) fn action(&self, envelope: &EnvelopeId, part: usize) -> ActionKey {
        let part = (part as u64).to_be_bytes();
        let parts = [b"action", self.channel.as_bytes(), envelope.as_str().as_bytes(), &part[..]];
        ActionKey(digest_hex(&parts, 24))
    }
}
