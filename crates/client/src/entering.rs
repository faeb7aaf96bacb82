//! On the way into a room: what to ask for, and the first connection.

use std::sync::Arc;

use futures_util::StreamExt;
use salon_protocol::{Envelope, EnvelopeId, Kind, PROTOCOL, Participant, ParticipantId, ParticipantKind, TopicName};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_tungstenite::tungstenite::Message;

use crate::client::query_string;
use crate::connection::HANDSHAKE_TIME;
use crate::error::{HttpRefusal, ReplyError};
use crate::socket::{ClientSocket, cut_off, upgrade};
use crate::{Backoff, Client, Discovery, Events, JoinError, RestError, Room, Service, Toolbox};

/// Handshakes under way at once.
const MAX_HANDSHAKES: usize = 8;

/// On the way into a room. Made by [`Client::room`]; [`join`](Self::join) goes in.
#[must_use = "nobody has entered until `join` is called"]
pub struct Entering {
    pub(crate) client: Client,
    pub(crate) topic: TopicName,
    pub(crate) entry_options: EntryOptions,
    pub(crate) after: Option<EnvelopeId>,
    pub(crate) service: Answering,
    pub(crate) discovery: Discovery,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) greetings: usize,
}

/// What every connection of one stay asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct EntryOptions {
    name: Option<String>,
    kind: Option<ParticipantKind>,
    pub(crate) share: bool,
    pub(crate) directed: bool,
    versions: Vec<String>,
    handshake_optional: bool,
    pub(crate) single_calls: bool,
}

/// Who answers what others ask.
pub(crate) enum Answering {
    /// Not chosen; the participant offers nothing, and answers requests with an error.
    Default,
    /// This does.
    By(Arc<dyn Service>),
    /// The listener to the events.
    ByHand,
}

impl Entering {
    pub(crate) fn new(client: Client, topic: TopicName) -> Self {
        Self {
            client,
            topic,
            entry_options: EntryOptions::default(),
            after: None,
            service: Answering::Default,
            discovery: Discovery::default(),
            backoff: Some(Backoff::default()),
            greetings: MAX_HANDSHAKES,
        }
    }

    /// A name for people to read, unless the token fixes one.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.entry_options.name = Some(name.into());
        self
    }

    /// What this participant is, unless the token fixes it.
    pub fn kind(mut self, kind: ParticipantKind) -> Self {
        self.entry_options.kind = Some(kind);
        self
    }

    /// Sits beside other connections of the same participant that share as well, instead of taking the seat from them.
    pub fn share(mut self) -> Self {
        self.entry_options.share = true;
        self
    }

    /// Promises that this connection, which [shares](Self::share) its seat, makes single calls and subscribes to nothing. Participants that were called are
    /// then not notified when it ends, which saves an envelope: nothing that matters is kept for it.
    pub fn single_calls(mut self) -> Self {
        self.entry_options.single_calls = true;
        self
    }

    /// Receives only envelopes to everybody and to this participant, not those between others.
    pub fn directed(mut self) -> Self {
        self.entry_options.directed = true;
        self
    }

    /// Begins right after an envelope seen in an earlier stay, so that nothing in between is missed.
    pub fn after(mut self, envelope: EnvelopeId) -> Self {
        self.after = Some(envelope);
        self
    }

    /// The MCP revisions this participant takes requests of; the room's default alone unless given.
    pub fn versions<V: Into<String>>(mut self, versions: impl IntoIterator<Item = V>) -> Self {
        self.entry_options.versions = versions.into_iter().map(Into::into).collect();
        self
    }

    /// Tells the others that requests are answered without an MCP handshake before them. A [`Service`] says so itself; this is for
    /// [`answer_by_hand`](Self::answer_by_hand).
    pub fn handshake_optional(mut self) -> Self {
        self.entry_options.handshake_optional = true;
        self
    }

    /// What others can ask of this participant. Without it the participant is an MCP server that offers nothing.
    pub fn offer(mut self, service: impl Service) -> Self {
        self.service = Answering::By(Arc::new(service));
        self
    }

    /// Leaves requests to the listener of [`Events`]: nothing is answered by itself, not even a handshake.
    pub fn answer_by_hand(mut self) -> Self {
        self.service = Answering::ByHand;
        self
    }

    /// How to get to know the others.
    pub fn discovery(mut self, discovery: Discovery) -> Self {
        self.discovery = discovery;
        self
    }

    /// Handshakes at once with participants that were not asked for by name; 8 unless given.
    pub fn greetings(mut self, at_once: usize) -> Self {
        self.greetings = at_once;
        self
    }

    /// How long to wait before each attempt to come back.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// Does not come back after a lost connection.
    pub fn once(mut self) -> Self {
        self.backoff = None;
        self
    }

    /// Enters. The first connection is tried once; after it, lost ones are made good.
    pub async fn join(self) -> Result<Room, JoinError> {
        self.join_listening().await.map(|(room, _)| room)
    }

    /// Enters, and receives everything from the very first envelope.
    pub async fn join_listening(mut self) -> Result<(Room, Events), JoinError> {
        self.entry_options.handshake_optional |= match &self.service {
            Answering::Default => true,
            Answering::By(service) => !service.needs_handshake(),
            Answering::ByHand => false,
        };
        let opened = match open(&self.client, &self.topic, &self.entry_options, self.after.as_ref(), false).await {
            Err(error) if is_stale_token(&error) => {
                open(&self.client, &self.topic, &self.entry_options, self.after.as_ref(), true).await?
            }
            opened => opened?,
        };
        Ok(Room::begin(self, opened))
    }

    pub(crate) fn take_service(&mut self, id: &ParticipantId) -> Option<Arc<dyn Service>> {
        match std::mem::replace(&mut self.service, Answering::ByHand) {
            Answering::Default => Some(Arc::new(Toolbox::new(id.as_str()))),
            Answering::By(service) => Some(service),
            Answering::ByHand => None,
        }
    }
}

/// Whether another token may open what this one did not.
pub(crate) fn is_stale_token(error: &RestError) -> bool {
    matches!(error, RestError::Refused(HttpRefusal { status: 401, .. }))
}

/// An open connection and what it was welcomed with.
pub(crate) struct OpenedConnection {
    pub(crate) socket: ClientSocket,
    pub(crate) id: ParticipantId,
    pub(crate) roster: Vec<Participant>,
    /// The newest envelope before this connection began, where the welcome has it.
    pub(crate) last: Option<EnvelopeId>,
    /// The longest envelope the gateway takes, in bytes, where the welcome has it.
    pub(crate) message_limit: Option<usize>,
    /// Where an answer may be longer than another message.
    pub(crate) answer_limit: Option<usize>,
    /// The namespaces that a bridge acts for.
    pub(crate) acts_for: Vec<String>,
}

/// Opens one connection and waits for its welcome.
pub(crate) async fn open(
    client: &Client,
    topic: &TopicName,
    entry_options: &EntryOptions,
    after: Option<&EnvelopeId>,
    refresh: bool,
) -> Result<OpenedConnection, RestError> {
    let versions = entry_options.versions.join(",");
    let query = query_string(&[
        ("topic", Some(topic.as_str())),
        ("protocol", Some(PROTOCOL)),
        ("name", entry_options.name.as_deref()),
        ("kind", entry_options.kind.map(ParticipantKind::word)),
        ("share", entry_options.share.then_some("true")),
        ("deliver", entry_options.directed.then_some("directed")),
        ("mcp", (!versions.is_empty()).then_some(&*versions)),
        ("handshake", entry_options.handshake_optional.then_some("optional")),
        ("after", after.map(EnvelopeId::as_str)),
        // The newest envelope is where to resume from before anything else has been received.
        ("history", after.is_none().then_some("1")),
    ]);
    let opening = async {
        let (mut socket, _) = upgrade(client, &format!("/v0/ws{query}"), None, refresh).await?;
        let welcome = match socket.next().await {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(_))) | None => return Err(client.unreachable(cut_off())),
            Some(Ok(_)) => return Err(client.unreadable(ReplyError::NoWelcome)),
            Some(Err(error)) => return Err(client.unreachable(std::io::Error::other(error))),
        };
        let welcome = Envelope::restore(welcome.as_str()).map_err(|refusal| client.unreadable(refusal))?;
        read_welcome(&welcome, socket).map_err(|why| client.unreadable(why))
    };
    match tokio::time::timeout(HANDSHAKE_TIME, opening).await {
        Ok(opened) => opened,
        Err(_) => Err(client.unreachable(std::io::Error::new(std::io::ErrorKind::TimedOut, "no welcome in time"))),
    }
}

fn read_welcome(welcome: &Envelope, socket: ClientSocket) -> Result<OpenedConnection, ReplyError> {
    #[derive(Deserialize)]
    struct Welcome {
        event: String,
        participant_id: ParticipantId,
        participant: Option<Participant>,
        /// The others. A gateway of 0.2 lists the newcomer among them.
        participants: Vec<Participant>,
        history: History,
        #[serde(default)]
        limits: Limits,
        #[serde(default)]
        ghosts: WelcomedGhosts,
    }
    #[derive(Deserialize, Default)]
    struct WelcomedGhosts {
        #[serde(default)]
        acts_for: Vec<String>,
    }
    #[derive(Deserialize, Default)]
    struct Limits {
        message: Option<usize>,
        answer: Option<usize>,
    }
    #[derive(Deserialize)]
    struct History {
        #[serde(default)]
        recent: Vec<Box<RawValue>>,
    }
    if welcome.kind() != Kind::System {
        return Err(ReplyError::NoWelcome);
    }
    let read: Welcome = serde_json::from_str(welcome.payload())?;
    if read.event != "welcome" {
        return Err(ReplyError::NoWelcome);
    }
    let newest = read.history.recent.last().and_then(|text| Envelope::restore(text.get()).ok());
    let last = newest.map(|envelope| envelope.id().clone());
    let (message_limit, answer_limit) = (read.limits.message, read.limits.answer);
    let mut roster = read.participants;
    let is_listed = roster.iter().any(|one| one.id == read.participant_id);
    roster.extend(read.participant.filter(|_| !is_listed));
    let acts_for = read.ghosts.acts_for;
    Ok(OpenedConnection { socket, id: read.participant_id, roster, last, message_limit, answer_limit, acts_for })
}
