//! What a token says of itself, for people to see. It proves nothing: only the gateway verifies.

use anyhow::{anyhow, bail};
use salon_protocol::{ParticipantId, Timestamp, TopicName, TopicPattern};
use serde::Deserialize;

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) participant: ParticipantId,
    /// The topics it opens.
    pub(crate) topics: Vec<TopicPattern>,
    pub(crate) expires: Option<Timestamp>,
    /// From when on it is valid.
    pub(crate) begins: Option<Timestamp>,
}

impl Claims {
    /// Reads a token. No part of it is in the error.
    pub(crate) fn read(token: &str) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Raw {
            sub: Option<String>,
            aud: Option<OneOrMany>,
            exp: Option<f64>,
            nbf: Option<f64>,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum OneOrMany {
            One(String),
            Many(Vec<String>),
        }
        let not_one =
            || anyhow!("the token is not a signed JWT\n\nhint: `salon token` makes one, where the gateway runs");
        let [_, claims, _] = token.split('.').collect::<Vec<_>>()[..] else { return Err(not_one()) };
        let claims = base64url(claims).ok_or_else(not_one)?;
        let raw: Raw = serde_json::from_slice(&claims).map_err(|_| not_one())?;
        let Some(sub) = raw.sub else { bail!("the token does not say who it is for (`sub`)") };
        let participant = ParticipantId::new(sub).map_err(|why| anyhow!("the token's `sub` is not usable: {why}"))?;
        let topics = match raw.aud {
            None => Vec::new(),
            Some(OneOrMany::One(topic)) => vec![topic],
            Some(OneOrMany::Many(topics)) => topics,
        };
        // Audiences of other services may stand beside the topics.
        let topics = topics.iter().filter_map(|topic| topic.parse().ok()).collect();
        let time = |seconds: f64| Timestamp((seconds.max(0.0) * 1000.0) as u64);
        Ok(Self { participant, topics, expires: raw.exp.map(time), begins: raw.nbf.map(time) })
    }

    /// Whether it opens a topic.
    pub(crate) fn opens(&self, topic: &TopicName) -> bool {
        self.topics.iter().any(|pattern| pattern.opens(topic))
    }
}

/// Whether a text can be sent as a token at all.
pub(crate) fn is_one_word(token: &str) -> bool {
    !token.is_empty() && token.chars().all(|c| c.is_ascii_graphic())
}

fn base64url(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut held, mut bytes) = (0u32, 0, Vec::with_capacity(text.len()));
    for digit in text.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use salon_gateway::auth::{Grant, LocalKey, Signer};

    use super::*;

    #[test]
    fn a_token_of_ours_is_read() {
        let topics = vec!["room:alpha".parse().expect("a topic"), "lab:*".parse().expect("a pattern")];
        let alice = ParticipantId::new("alice").expect("an id");
        let grant = Grant::new(alice.clone(), topics.clone(), Timestamp(2_000_000_000_000));
        let token = Signer::new(&LocalKey::generate()).sign(&grant, Timestamp(1_000_000)).expect("signed");
        let claims = Claims::read(&token).expect("a token");
        assert_eq!((claims.participant, claims.topics), (alice, topics));
        assert_eq!(claims.expires, Some(Timestamp(2_000_000_000_000)));
    }

    #[test]
    fn what_is_no_token_is_refused_without_showing_it() {
        for wrong in ["", "secret", "se.cr.et", "a.b", "a.e30.c", "e30.e30.e30.e30", "a.eyJzdWIiOiJhL2IifQ.c"] {
            let told = Claims::read(wrong).expect_err("no token").to_string();
            assert!(told.starts_with("the token") && !told.contains("secret"), "{wrong}: {told}");
        }
    }
}
