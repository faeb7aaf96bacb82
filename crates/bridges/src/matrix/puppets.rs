//! The Matrix users that stand for participants: registered, named and brought into rooms when they first speak there.
//!
//! Every step is idempotent, so one that failed is simply done again with the next message.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;
use salon_protocol::ParticipantId;

use super::homeserver::{Homeserver, HomeserverFailure};
use super::user_ids::PuppetIds;
use crate::platform::Speaker;

/// Puppets that are remembered. Beyond that they are registered and joined once more, which changes nothing.
const MAX_REMEMBERED: usize = 4096;

/// Client-server API, "Profiles": homeservers take at most 256 characters.
const MAX_NAME_CHARS: usize = 100;

/// What has been done for each puppet in this run.
pub(super) struct Puppets {
    ids: PuppetIds,
    puppets: Mutex<HashMap<ParticipantId, MatrixPuppet>>,
}

#[derive(Default, Clone)]
struct MatrixPuppet {
    is_registered: bool,
    name: Option<String>,
    rooms: HashSet<String>,
}

impl Puppets {
    pub(super) fn new(ids: PuppetIds) -> Self {
        Self { ids, puppets: Mutex::default() }
    }

    /// The user that speaks for a participant in a room, ready to speak. `None` for one that Matrix has no id for.
    pub(super) async fn enter(
        &self,
        homeserver: &Homeserver,
        room: &str,
        speaker: &Speaker,
    ) -> Result<Option<String>, HomeserverFailure> {
        let Some(user) = self.ids.user_id(&speaker.id) else { return Ok(None) };
        let known = self.puppets.lock().get(&speaker.id).cloned().unwrap_or_default();
        if !known.is_registered {
            let localpart = user.trim_start_matches('@').split(':').next().unwrap_or_default();
            homeserver.register(localpart).await?;
            self.update(&speaker.id, |puppet| puppet.is_registered = true);
        }
        let name: String = speaker.name.chars().take(MAX_NAME_CHARS).collect();
        if known.name.as_deref() != Some(&name) {
            homeserver.set_display_name(&user, &name).await?;
            self.update(&speaker.id, |puppet| puppet.name = Some(name));
        }
        if !known.rooms.contains(room) {
            join(homeserver, room, &user).await?;
            self.update(&speaker.id, |puppet| {
                puppet.rooms.insert(room.to_owned());
            });
        }
        Ok(Some(user))
    }

    /// The puppet of a participant leaves a room, if it is there.
    pub(super) async fn leave(
        &self,
        homeserver: &Homeserver,
        room: &str,
        participant: &ParticipantId,
    ) -> Result<(), HomeserverFailure> {
        self.forget_room(participant, room);
        let Some(user) = self.ids.user_id(participant) else { return Ok(()) };
        match homeserver.leave(room, &user).await {
            Err(HomeserverFailure::Refused { status: 400..=428, .. }) => Ok(()),
            left => left,
        }
    }

    /// The puppet is not in the room any more: it left, or somebody removed it.
    pub(super) fn forget_room(&self, participant: &ParticipantId, room: &str) {
        if let Some(puppet) = self.puppets.lock().get_mut(participant) {
            puppet.rooms.remove(room);
        }
    }

    fn update(&self, participant: &ParticipantId, change: impl FnOnce(&mut MatrixPuppet)) {
        let mut puppets = self.puppets.lock();
        if puppets.len() >= MAX_REMEMBERED && !puppets.contains_key(participant) {
            puppets.clear();
        }
        change(puppets.entry(participant.clone()).or_default());
    }
}

/// Brings a puppet into a room: it joins, where the room is open; else the bridge's own user invites it first.
async fn join(homeserver: &Homeserver, room: &str, user: &str) -> Result<(), HomeserverFailure> {
    match homeserver.join(room, Some(user)).await {
        Err(failure) if failure.is_code("M_FORBIDDEN") => {
            homeserver.invite(room, user).await?;
            homeserver.join(room, Some(user)).await
        }
        joined => joined,
    }
}
