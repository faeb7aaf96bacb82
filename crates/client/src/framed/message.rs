//! What is received.

use salon_protocol::{EnvelopeId, ParticipantId};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A message of the room, as the Multi-Component Protocol has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FramedMessage {
    /// Its id in the room.
    pub id: EnvelopeId,
    /// Who sent it.
    pub sender: ParticipantId,
    /// Its payload, as it was written: a JSON-RPC message where `kind` is `mcp`.
    pub payload: Box<RawValue>,
    /// When the gateway stored it, in milliseconds since 1970.
    pub timestamp: u64,
    /// Whom it is for; nobody in particular is everybody.
    #[serde(default, deserialize_with = "destination")]
    pub destination: Vec<ParticipantId>,
    /// `mcp`, `presence` or `system`.
    pub kind: String,
    /// The message it replies to.
    #[serde(default)]
    pub correlation_id: Option<EnvelopeId>,
}

fn destination<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<ParticipantId>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum To {
        One(String),
        Several(Vec<ParticipantId>),
    }
    match To::deserialize(deserializer)? {
        To::One(everybody) if everybody == "*" => Ok(Vec::new()),
        To::One(one) => Ok(vec![ParticipantId::new(one).map_err(serde::de::Error::custom)?]),
        To::Several(several) => Ok(several),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_its_payload_and_knows_whom_it_is_for() {
        let read = |destination: &str| {
            let text = format!(
                r#"{{"id":"e1","sender":"bob","payload":{{"n": 12345678901234567890}},"timestamp":5,"destination":{destination},"kind":"mcp","new":1}}"#
            );
            serde_json::from_str::<FramedMessage>(&text)
        };
        let message = read(r#""alice""#).expect("a message");
        assert_eq!(message.payload.get(), r#"{"n": 12345678901234567890}"#);
        assert_eq!(message.destination, [ParticipantId::new("alice").expect("an id")]);
        assert_eq!(read(r#""*""#).expect("a message").destination, []);
        assert_eq!(read(r#"["a","b"]"#).expect("a message").destination.len(), 2);
        assert!(read("5").is_err());
    }
}
