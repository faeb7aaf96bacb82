//! What a token says of itself, for people to see. It proves nothing: only the gateway verifies.

use anyhow::{anyhow, bail};
use salon_client::Token;
use salon_protocol::{Members, ParticipantId, Timestamp, TopicName, TopicPattern};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenClaims {
    pub(crate) participant: ParticipantId,
    /// The topics it opens.
    pub(crate) topics: Vec<TopicPattern>,
    pub(crate) expires: Option<Timestamp>,
    /// From when on it is valid.
    pub(crate) begins: Option<Timestamp>,
    /// Its own id (`jti`).
    pub(crate) id: Option<String>,
}

impl TokenClaims {
    /// Reads a token. No part of it is in the error.
    pub(crate) fn read(token: &str) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum OneOrMany {
            One(String),
            Many(Vec<String>),
        }
        let token = Token::from(token);
        let claims = token.claims().ok_or_else(not_one)?;
        let Some(sub) = claim::<String>(&claims, "sub")? else { bail!("the token does not say who it is for (`sub`)") };
        let participant = ParticipantId::new(sub).map_err(|why| anyhow!("the token's `sub` is not usable: {why}"))?;
        let topics = match claim(&claims, "aud")? {
            None => Vec::new(),
            Some(OneOrMany::One(topic)) => vec![topic],
            Some(OneOrMany::Many(topics)) => topics,
        };
        // Audiences of other services may stand beside the topics.
        let topics = topics.iter().filter_map(|topic| topic.parse().ok()).collect();
        let [expires, begins] = [token.expires(), token.begins()].map(|time| time.map(Timestamp::from_system));
        let id = claim(&claims, "jti")?;
        Ok(Self { participant, topics, expires, begins, id })
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

fn claim<T: DeserializeOwned>(claims: &Members, name: &str) -> anyhow::Result<Option<T>> {
    claims.get(name).map_or(Ok(None), |claim| serde_json::from_str(claim.get()).map_err(|_| not_one()))
}

fn not_one() -> anyhow::Error {
    anyhow!("the token is not a signed JWT\n\nhint: `salon token` makes one, where the gateway runs")
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
        let claims = TokenClaims::read(&token).expect("a token");
        assert_eq!((claims.participant, claims.topics), (alice, topics));
        assert_eq!(claims.expires, Some(Timestamp(2_000_000_000_000)));
    }

    #[test]
    fn what_is_no_token_is_refused_without_showing_it() {
        for wrong in ["", "secret", "se.cr.et", "a.b", "a.e30.c", "e30.e30.e30.e30", "a.eyJzdWIiOiJhL2IifQ.c"] {
            let told = TokenClaims::read(wrong).expect_err("no token").to_string();
            assert!(told.starts_with("the token") && !told.contains("secret"), "{wrong}: {told}");
        }
    }
}
