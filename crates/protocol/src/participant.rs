use serde::{Deserialize, Serialize};

use crate::{ParticipantId, Timestamp};

/// What a participant is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParticipantKind {
    /// A person.
    Human,
    /// A program that acts on its own.
    Agent,
    /// A machine in the world.
    Robot,
}

impl ParticipantKind {
    /// Its word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Agent => "agent",
            Self::Robot => "robot",
        }
    }
}

impl std::str::FromStr for ParticipantKind {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "human" => Ok(Self::Human),
            "agent" => Ok(Self::Agent),
            "robot" => Ok(Self::Robot),
            _ => Err("it is not one of human, agent, robot"),
        }
    }
}

/// Which revisions of MCP a participant supports as a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpVersion {
    /// The revision of its handshake.
    pub version: String,
    /// Every revision it takes requests of, where it named them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    /// Whether it answers requests of a caller that performed no handshake with it, and reads what such a request says of its caller in `_meta`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handshake_optional: bool,
}

impl McpVersion {
    /// The revisions that begin with a handshake, the one that participants of a room use unless they agree otherwise first.
    pub const HANDSHAKES: [&str; 4] = ["2025-06-18", "2025-11-25", "2025-03-26", "2024-11-05"];

    /// The revision a handshake is answered with: the one that was asked for where it is known, the room's own where it is not.
    pub fn answer_to(asked: &str) -> &'static str {
        Self::HANDSHAKES.into_iter().find(|known| *known == asked).unwrap_or(Self::HANDSHAKES[0])
    }
}

impl Default for McpVersion {
    /// The room's default handshake.
    fn default() -> Self {
        Self { version: Self::HANDSHAKES[0].into(), versions: Vec::new(), handshake_optional: false }
    }
}

/// Somebody in a room, as presence shows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Participant {
    /// The stable id.
    pub id: ParticipantId,
    /// A name for people to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it is a person, an agent or a robot, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ParticipantKind>,
    /// The revisions of MCP that it supports.
    #[serde(default)]
    pub mcp: McpVersion,
    /// Capabilities that it declares for presence; the gateway gives them no meaning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// The bridge that speaks for it. Only the gateway says so, of a bridge's ghosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<ParticipantId>,
    /// What it says that it is doing (`presence.set`). It is not part of a join: the gateway adds it where it shows who is here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<PresenceStatus>,
}

impl Participant {
    /// Somebody of whom nothing but the id is known.
    pub fn new(id: ParticipantId) -> Self {
        Self {
            id,
            name: None,
            kind: None,
            mcp: McpVersion::default(),
            capabilities: Vec::new(),
            via: None,
            status: None,
        }
    }

    /// How many bytes the texts have that it chose itself.
    pub fn text_bytes(&self) -> usize {
        self.name.as_ref().map_or(0, String::len) + self.capabilities.iter().map(String::len).sum::<usize>()
    }

    /// As presence shows it: somebody without a name has its id for one, and is an agent unless it says otherwise.
    #[must_use]
    pub fn presentable(mut self) -> Self {
        self.name.get_or_insert_with(|| self.id.to_string());
        self.kind.get_or_insert(ParticipantKind::Agent);
        self
    }
}

/// What a participant can say that it is doing, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PresenceState {
    /// It waits for something to do.
    Idle,
    /// It works on something.
    Working,
    /// It cannot go on by itself.
    Blocked,
    /// It is here, and nobody looks.
    Away,
    /// It writes a message.
    Typing,
}

impl PresenceState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Idle, Self::Working, Self::Blocked, Self::Away, Self::Typing];

    /// Its word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Blocked => "blocked",
            Self::Away => "away",
            Self::Typing => "typing",
        }
    }
}

impl std::str::FromStr for PresenceState {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let state = Self::ALL.into_iter().find(|state| state.word() == text);
        state.ok_or("it is not one of idle, working, blocked, away, typing")
    }
}

/// What a participant says that it is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresenceStatus {
    /// In one word.
    pub status: PresenceState,
    /// In its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl PresenceStatus {
    /// How many characters its text may have.
    pub const MAX_TEXT_CHARS: usize = 200;

    /// Whether it has ended by a time.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// As people read it: `away: at lunch`.
impl std::fmt::Display for PresenceStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.status.word())?;
        self.text.as_ref().map_or(Ok(()), |text| write!(f, ": {text}"))
    }
}

/// What happened to a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PresenceEvent {
    /// It came in, or started over without resuming.
    Join,
    /// It went.
    Leave,
    /// It is still here; never stored.
    Heartbeat,
    /// It says what it is doing, or no longer does.
    Status,
}

/// The payload of a presence envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// What happened.
    pub event: PresenceEvent,
    /// To whom.
    pub participant: Participant,
    /// Why it left, where it gave a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
