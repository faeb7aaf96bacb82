//! Direct conversations: topics of exactly some participants and nobody else.
//!
//! The name of such a topic follows from its participants, so everybody finds the same one. Who has made it does not: a participant that opens one looks at its
//! settings, and does not use a topic that has this name and other members.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use salon_protocol::{ParticipantId, TopicName};
use serde_json::{Value, json};

use crate::{RoleName, TopicAccess, TopicSettings};

/// How many participants a direct conversation has at most.
pub const MAX_DIRECT_MEMBERS: usize = 16;

/// A direct conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectConversation {
    members: BTreeSet<ParticipantId>,
    topic: TopicName,
}

/// Why there is no such conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvalidConversation {
    /// There is nobody but the participant itself.
    Alone,
    /// There are too many.
    TooMany(usize),
    /// The names of so many do not fit into that of a topic.
    TooLong(String),
    /// The topic is another one.
    OtherMembers(TopicName),
}

impl fmt::Display for InvalidConversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone => f.write_str("a direct conversation is with somebody else"),
            Self::TooMany(count) => {
                write!(f, "a direct conversation is of at most {MAX_DIRECT_MEMBERS} participants, not {count}")
            }
            Self::TooLong(why) => write!(f, "the names of so many do not fit into that of a topic: {why}"),
            Self::OtherMembers(topic) => write!(f, "`{topic}` is not a topic of exactly these participants"),
        }
    }
}

impl std::error::Error for InvalidConversation {}

impl DirectConversation {
    /// The conversation of a participant with others.
    pub fn new(
        participant: &ParticipantId,
        with: impl IntoIterator<Item = ParticipantId>,
    ) -> Result<Self, InvalidConversation> {
        let members: BTreeSet<_> = with.into_iter().chain([participant.clone()]).collect();
        match members.len() {
            0..=1 => return Err(InvalidConversation::Alone),
            2..=MAX_DIRECT_MEMBERS => {}
            count => return Err(InvalidConversation::TooMany(count)),
        }
        let names: Vec<_> = members.iter().map(ParticipantId::as_str).collect();
        let topic = TopicName::new(format!("dm:{}", names.join(",")))
            .map_err(|error| InvalidConversation::TooLong(error.to_string()))?;
        Ok(Self { members, topic })
    }

    /// Its topic: `dm:` and the participants in order.
    pub fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// Its participants.
    pub fn members(&self) -> &BTreeSet<ParticipantId> {
        &self.members
    }

    /// The settings that its topic is made with: only members may enter, and each of them is an owner.
    pub fn settings(&self) -> Value {
        let members: BTreeMap<_, _> = self.members.iter().map(|id| (id, RoleName::owner())).collect();
        json!({ "access": TopicAccess::Members, "members": members })
    }

    /// Whether a topic with these settings is of exactly these participants.
    pub fn check(&self, settings: &TopicSettings) -> Result<(), InvalidConversation> {
        let is_same = settings.access == TopicAccess::Members && settings.members.keys().eq(&self.members);
        if is_same { Ok(()) } else { Err(InvalidConversation::OtherMembers(self.topic.clone())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ParticipantId {
        ParticipantId::new(name).expect("a name")
    }

    #[test]
    fn a_name_follows_from_the_participants() {
        let conversation = DirectConversation::new(&id("bob"), [id("alice"), id("bob")]).expect("two");
        assert_eq!(conversation.topic().as_str(), "dm:alice,bob");
        assert_eq!(DirectConversation::new(&id("alice"), [id("alice")]), Err(InvalidConversation::Alone));
        let many = (0..16).map(|n| id(&format!("p{n}")));
        assert_eq!(DirectConversation::new(&id("alice"), many), Err(InvalidConversation::TooMany(17)));
        let long = DirectConversation::new(&id("alice"), (0..15).map(|n| id(&format!("{n}{}", "x".repeat(100)))));
        assert!(matches!(long, Err(InvalidConversation::TooLong(_))), "{long:?}");
    }

    #[test]
    fn a_topic_of_others_is_not_used() {
        let conversation = DirectConversation::new(&id("bob"), [id("alice")]).expect("two");
        let settings: TopicSettings = serde_json::from_value(conversation.settings()).expect("settings");
        assert_eq!(conversation.check(&settings), Ok(()));
        let mut with_more = settings.clone();
        with_more.members.insert(id("mallory"), RoleName::owner());
        assert!(conversation.check(&with_more).is_err());
        let mut with_fewer = settings.clone();
        with_fewer.members.remove(&id("alice"));
        assert!(conversation.check(&with_fewer).is_err());
        assert!(conversation.check(&TopicSettings { access: TopicAccess::Token, ..settings }).is_err());
    }
}
