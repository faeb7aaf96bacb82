//! The ghosts of a channel: which participant a person of the platform is, and who has been seated.

use std::collections::HashMap;

use salon_protocol::{ParticipantId, Timestamp};

use super::ids::digest_hex;
use crate::platform::{PlatformAuthor, PlatformUserId};
use crate::room::GhostProfile;

/// The most characters of an id before it is shortened.
const MAX_ID_CHARS: usize = 120;
/// The most characters of a display name.
const MAX_NAME_CHARS: usize = 100;

/// The id of a ghost. One person is one id for ever, and no two people have the same: what an id cannot have is written as `=` and two
/// hexadecimal digits, and an id that would be too long ends with a digest.
pub fn ghost_id(namespace: &str, user: &PlatformUserId) -> ParticipantId {
    let mut id = format!("{namespace}:");
    let last = user.0.len().saturating_sub(1);
    for (at, byte) in user.0.bytes().enumerate() {
        let c = char::from(byte);
        let is_kept =
            byte.is_ascii_graphic() && !matches!(c, '"' | '%' | '*' | '/' | '<' | '>' | '?' | '\\' | '`' | '=');
        if is_kept || (c == ' ' && at != last) {
            id.push(c);
        } else {
            id.push_str(&format!("={byte:02X}"));
        }
    }
    if id.len() > MAX_ID_CHARS {
        id.truncate(MAX_ID_CHARS - 18);
        id.push_str("=~");
        id.push_str(&digest_hex(&[user.0.as_bytes()], 16));
    }
    ParticipantId::new(id).expect("every character that an id cannot have is escaped")
}

/// Somebody of the platform.
#[derive(Debug, Clone)]
struct GhostState {
    /// Not known of one whose message is left from an earlier run, until it speaks again.
    user: Option<PlatformUserId>,
    name: String,
    /// The name under which it is in the room.
    seated_as: Option<String>,
    last_active: Timestamp,
}

/// The people of a channel that the bridge knows of.
#[derive(Debug)]
pub(crate) struct ChannelGhosts {
    namespace: String,
    ghosts: HashMap<ParticipantId, GhostState>,
    max: usize,
}

impl ChannelGhosts {
    pub(crate) fn new(namespace: String, max: usize) -> Self {
        Self { namespace, ghosts: HashMap::new(), max }
    }

    pub(crate) fn id(&self, user: &PlatformUserId) -> ParticipantId {
        ghost_id(&self.namespace, user)
    }

    /// Whether a participant is one of this bridge's ghosts.
    pub(crate) fn is_own(&self, participant: &ParticipantId) -> bool {
        participant.as_str().strip_prefix(&*self.namespace).is_some_and(|rest| rest.starts_with(':'))
    }

    /// Notes that somebody is there, and returns the ghost. Where there are too many, the one that was silent the longest is forgotten; it is returned
    /// as well where it has to leave the room.
    pub(crate) fn meet(&mut self, author: &PlatformAuthor, now: Timestamp) -> (GhostProfile, Option<ParticipantId>) {
        let id = self.id(&author.id);
        let name = display_name(&author.name, &author.id);
        let ghost = GhostProfile { id: id.clone(), name: name.clone() };
        if let Some(known) = self.ghosts.get_mut(&id) {
            (known.user, known.name, known.last_active) = (Some(author.id.clone()), name, now);
            return (ghost, None);
        }
        let evicted = if self.ghosts.len() >= self.max { self.evict() } else { None };
        let state = GhostState { user: Some(author.id.clone()), name, seated_as: None, last_active: now };
        self.ghosts.insert(id, state);
        (ghost, evicted)
    }

    /// A ghost under the name that it was last seen with.
    pub(crate) fn profile(&self, id: ParticipantId) -> GhostProfile {
        let name = self.ghosts.get(&id).map_or_else(|| id.to_string(), |state| state.name.clone());
        GhostProfile { id, name }
    }

    fn evict(&mut self) -> Option<ParticipantId> {
        let oldest = self.ghosts.iter().min_by_key(|(id, state)| (state.last_active, (*id).clone()));
        let oldest = oldest.map(|(id, _)| id.clone())?;
        let state = self.ghosts.remove(&oldest)?;
        state.seated_as.map(|_| oldest)
    }

    /// Whether a ghost is in the room, under any name.
    pub(crate) fn is_seated(&self, ghost: &ParticipantId) -> bool {
        self.ghosts.get(ghost).is_some_and(|state| state.seated_as.is_some())
    }

    /// Whether a ghost is in the room under this name.
    pub(crate) fn is_seated_as(&self, ghost: &GhostProfile) -> bool {
        self.ghosts.get(&ghost.id).is_some_and(|state| state.seated_as.as_ref() == Some(&ghost.name))
    }

    pub(crate) fn seat(&mut self, ghost: &GhostProfile, now: Timestamp) {
        let unknown = GhostState { user: None, name: ghost.name.clone(), seated_as: None, last_active: now };
        let state = self.ghosts.entry(ghost.id.clone()).or_insert(unknown);
        state.seated_as = Some(ghost.name.clone());
    }

    pub(crate) fn unseat(&mut self, ghost: &ParticipantId) {
        if let Some(state) = self.ghosts.get_mut(ghost) {
            state.seated_as = None;
        }
    }

    /// Forgets somebody; returns the ghost where it has to leave the room.
    pub(crate) fn forget(&mut self, user: &PlatformUserId) -> Option<ParticipantId> {
        let id = self.id(user);
        self.ghosts.remove(&id)?.seated_as.map(|_| id)
    }

    /// The room was entered anew: nobody is seated.
    pub(crate) fn unseat_all(&mut self) {
        self.ghosts.values_mut().for_each(|state| state.seated_as = None);
    }

    /// The person that a text names: by the ghost's id, or by a name that only one has.
    pub(crate) fn named(&self, text: &str) -> Option<(PlatformUserId, String)> {
        let person = |state: &GhostState| Some((state.user.clone()?, state.name.clone()));
        if let Some(state) = self.ghosts.get(text) {
            return person(state);
        }
        let mut named = self.ghosts.values().filter(|state| state.name.eq_ignore_ascii_case(text));
        match (named.next(), named.next()) {
            (Some(state), None) => person(state),
            _ => None,
        }
    }
}

/// A name without what could hide or imitate something, or the id where nothing is left.
fn display_name(name: &str, user: &PlatformUserId) -> String {
    let is_invisible = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let clean: String = name.chars().filter(|c| !is_invisible(*c)).take(MAX_NAME_CHARS).collect();
    let clean = clean.trim();
    if clean.is_empty() {
        user.0.chars().filter(|c| !is_invisible(*c)).take(MAX_NAME_CHARS).collect()
    } else {
        clean.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_are_readable_where_they_can_be() {
        let id = |user: &str| ghost_id("x", &PlatformUserId::new(user)).to_string();
        assert_eq!(id("@alice:server.example"), "x:@alice:server.example");
        assert_eq!(id("lab@muc.example/Ann B"), "x:lab@muc.example=2FAnn B");
        assert_eq!(id("a=2F "), "x:a=3D2F=20");
        assert_eq!(id("ä`"), "x:=C3=A4=60");
        assert_eq!(id(&"a".repeat(200)).len(), 120);
    }

    proptest! {
        #[test]
        fn no_two_people_have_one_id(one in "\\PC{1,60}", other in "\\PC{1,60}") {
            let id = |user: &str| ghost_id("x", &PlatformUserId::new(user));
            prop_assert_eq!(id(&one) == id(&other), one == other);
        }
    }
}
