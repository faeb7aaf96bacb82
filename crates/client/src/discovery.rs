//! Getting to know the others, and what they have to offer.
//!
//! Everybody in a room sees every handshake, so a crowd makes many: handshakes are made a few at a time, and a
//! participant that performs the handshake with every newcomer waits a random moment first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use salon_protocol::{Participant, ParticipantId, PresenceEvent};
use tokio::task::JoinSet;

use crate::ghosts::is_ghost;
use crate::mcp::Tool;
use crate::{CallError, Event, Events, Room, RoomRef};

/// The longest wait before an unasked handshake.
const JITTER: Duration = Duration::from_millis(250);

/// With which participants to perform the MCP handshake. With the gateway's own participant only when it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Discovery {
    /// Greets everyone who is here and everyone who comes, and lists their tools, so that they are known before they are needed.
    Eager,
    /// Greets everyone who is here when [`Room::tools`] asks what there is.
    #[default]
    Lazy,
    /// Performs the handshake only with participants named by [`Room::peer`]; [`Room::tools`] lists these.
    OnDemand,
}

/// What the others offer. Made by [`Room::tools`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Offers {
    /// Every tool, and whose it is, in the order of the participants' ids.
    pub tools: Vec<(ParticipantId, Tool)>,
    /// Participants whose offers are unknown, and why.
    pub silent: Vec<(ParticipantId, CallError)>,
}

impl Room {
    /// Every tool that the others offer, as far as [`Discovery`] lets them be asked. What is known already is not asked again.
    pub async fn tools(&self) -> Offers {
        let asked = match self.shared().directory.discovery {
            Discovery::Eager | Discovery::Lazy => without_ghosts(self.roster()),
            Discovery::OnDemand => self.shared().directory.greeted(),
        };
        let others = asked.into_iter().filter(|id| id != self.id() && !id.is_host());
        let mut asking: FuturesUnordered<_> = others.map(|id| async { (self.meet(&id).await, id) }).collect();
        let mut offers = Offers::default();
        while let Some((answer, id)) = asking.next().await {
            match answer {
                Ok(tools) => offers.tools.extend(tools.iter().map(|tool| (id.clone(), tool.clone()))),
                Err(error) => offers.silent.push((id, error)),
            }
        }
        // Stable, so that each participant's tools stay in their own order.
        offers.tools.sort_by(|(a, _), (b, _)| a.cmp(b));
        offers.silent.sort_by(|(a, _), (b, _)| a.cmp(b));
        offers
    }

    /// Who offers a tool of this name.
    pub async fn find_tool(&self, name: &str) -> Vec<(ParticipantId, Tool)> {
        let mut offers = self.tools().await.tools;
        offers.retain(|(_, tool)| tool.name == name);
        offers
    }

    async fn meet(&self, id: &ParticipantId) -> Result<Arc<[Tool]>, CallError> {
        let turn = self.shared().directory.greetings.acquire().await;
        let tools = self.peer(id).tools().await;
        drop(turn);
        tools
    }
}

/// The participants that may offer something.
fn without_ghosts<C: FromIterator<ParticipantId>>(roster: Vec<Participant>) -> C {
    roster.into_iter().filter(|one| !is_ghost(one)).map(|one| one.id).collect()
}

/// Starts greeting, where that is wanted. The task ends with the stay, which closes its events.
pub(crate) fn begin(room: &Room, discovery: Discovery, events: Events) {
    if discovery == Discovery::Eager {
        let here = without_ghosts(room.roster());
        tokio::spawn(greet(room.downgrade(), here, events));
    }
}

/// Performs the handshake with everybody here and with newcomers. At most as many wait as were ever here at once, each once.
async fn greet(room: RoomRef, mut waiting: VecDeque<ParticipantId>, mut events: Events) {
    let mut greeting = JoinSet::new();
    loop {
        let at_once = room.upgrade().map_or(0, |room| room.shared().directory.at_once);
        while greeting.len() < at_once {
            let Some(next) = waiting.pop_front() else { break };
            greeting.spawn(greet_one(room.clone(), next));
        }
        let event = tokio::select! { biased;
            event = events.next() => event,
            Some(_) = greeting.join_next(), if !greeting.is_empty() => continue,
        };
        match event {
            Some(Event::Envelope(envelope)) => {
                let Some(presence) = envelope.presence() else { continue };
                let is_server = !is_ghost(&presence.participant);
                let id = presence.participant.id;
                waiting.retain(|one| *one != id);
                if presence.event == PresenceEvent::Join && is_server {
                    waiting.push_back(id);
                }
            }
            Some(Event::Gap) => {
                waiting = room.upgrade().map(|room| without_ghosts(room.roster())).unwrap_or_default();
            }
            // Participants seen before are still here.
            Some(Event::Outage(_) | Event::Recovered) => {}
            None => return,
        }
    }
}

async fn greet_one(room: RoomRef, id: ParticipantId) {
    tokio::time::sleep(JITTER.mul_f64(rand::random())).await;
    let Some(room) = room.upgrade().filter(|room| room.id() != &id && !id.is_host()) else { return };
    if let Err(error) = room.meet(&id).await {
        tracing::debug!(peer = %id, %error, "discovery: MCP handshake failed, participant left out");
    }
}
