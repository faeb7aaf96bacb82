//! What is known of a multi-user chat: its occupants, the bridge's puppets in it, the ids of its messages.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::platform::{PlatformAction, PlatformMessageId};

/// Message ids that are remembered for corrections, replies and retractions.
const MAX_ALIASES: usize = 4_000;

/// A multi-user chat.
#[derive(Debug, Default)]
pub(super) struct MucState {
    pub(super) is_joined: bool,
    pub(super) is_caught_up: bool,
    /// By nick: the real address, where the chat shows it.
    pub(super) occupants: BTreeMap<String, Option<String>>,
    /// By the local part of the puppet's address.
    pub(super) puppets: HashMap<String, PuppetState>,
    /// From the id that a sender gave to the id that the chat gave, and back.
    pub(super) aliases: MessageAliases,
    /// The action that waits for its reflection.
    pub(super) pending: Option<PendingAction>,
}

#[derive(Debug)]
pub(super) struct PuppetState {
    pub(super) nick: String,
    pub(super) is_joined: bool,
    pub(super) attempts: u32,
}

#[derive(Debug)]
pub(super) struct PendingAction {
    pub(super) action: PlatformAction,
    pub(super) puppet: Option<String>,
    pub(super) is_sent: bool,
}

/// Ids of messages, both ways.
#[derive(Debug, Default)]
pub(super) struct MessageAliases {
    /// By nick and id.
    by_sender: HashMap<(String, String), PlatformMessageId>,
    pub(super) by_message: HashMap<PlatformMessageId, String>,
    order: VecDeque<((String, String), PlatformMessageId)>,
}

impl MessageAliases {
    pub(super) fn add(&mut self, nick: &str, id: &str, message: &PlatformMessageId) {
        let sender = (nick.to_owned(), id.to_owned());
        if self.by_sender.get(&sender) == Some(message) {
            return;
        }
        if self.order.len() >= MAX_ALIASES
            && let Some((sender, message)) = self.order.pop_front()
        {
            self.by_sender.remove(&sender);
            self.by_message.remove(&message);
        }
        self.by_sender.insert(sender.clone(), message.clone());
        self.by_message.insert(message.clone(), id.to_owned());
        self.order.push_back((sender, message.clone()));
    }

    /// The message to which an occupant gave an id.
    pub(super) fn message(&self, nick: &str, id: &str) -> Option<&PlatformMessageId> {
        self.by_sender.get(&(nick.to_owned(), id.to_owned()))
    }
}
