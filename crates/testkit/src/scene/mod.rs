//! Scenes: conversations of several participants with a gateway, written for people to read, one step a line.
//!
//! ```text
//! # What the scene shows.
//! gateway with limits.rate 5, dev
//!
//! alice joins room:alpha by mcpx with history=10 echo=false
//! bob joins room:alpha by mcpx
//! alice gets join bob
//! alice says hello as e1
//! alice and bob get e1
//! bob gets nothing more
//! ```
//!
//! **Names.** `alice/tab` is another connection of the participant `alice`. An indented line continues the one above it. A word `$X`
//! stands for a value bound before; `$TOKEN` is the speaker's own token, `$ADDRESS` and `$PORT` are the gateway's, `$LF`, `$CR` and `$TAB` are those characters,
//! and `$SOON` is three seconds after the step begins.
//! `$X is JSON` names a value once and for all: where somebody sends `"$X"`, these very bytes are sent, and where somebody is to get `"$X"`, these very
//! bytes must come, though all else in JSON is matched by what it means.
//!
//! **Settings** come first, `gateway with SETTING [VALUE], …`; see [`crate::gateway::TestOptions::set`].
//!
//! **Coming and going.** `W joins TOPIC by mcpx`, `W follows TOPIC` (the stream of events), `W cannot join TOPIC: STATUS CODE`,
//! `W cannot follow TOPIC: STATUS CODE`, each with `with KEY=VALUE …` behind the topic: a capitalised key is a header, one that begins
//! with `token.` shapes the token (`topics`, `expires` in seconds from now, `name`, `kind`), `auth=` is how it is shown (`header`,
//! `ticket`, `subprotocol`, `url`, `none`), everything else goes into the query. `W is welcomed JSON`, `W leaves`,
//! `W's connection breaks`, `W is closed CODE`, `W's stream ends`, `the gateway restarts`,
//! `no second gateway starts on the same data`. `W finally joins …` retries a join that is refused with 429: the gateway counts a
//! connection until it has closed its own side, which is a moment after the peer has seen the end.
//!
//! **Bridges.** `W enters X [JSON]` sends `ghost.enter` with the members of JSON, and takes the answer from among what comes; `W cannot enter X [JSON]: CODE` is
//! refused. `W removes X [REASON]` sends `ghost.leave`. What a ghost says its bridge sends, with `from`. `token.acts_for=`, `token.ghosts_max=`,
//! `token.ghost_kinds=` and `token.ghosts_call=` shape the bridge's token.
//!
//! **By the MCP door.** `W joins TOPIC by mcp` is an MCP client that begins as its revision does: with `initialize`, whose answer is what
//! it is welcomed with, and `notifications/initialized`; or with `server/discover`. `by mcp at X` sees the participant X alone, who must answer
//! first: the welcome is then read by `W is welcomed`. `over http` and `over sse` (`over sse with first=post`: as the source has it) are other
//! carriers than the WebSocket. `version=` is the revision, `offers=` its capabilities separated by commas, `client=` its name.
//! `W connects to TOPIC by mcp` opens the connection and says nothing. `W sends JSON` then fills in `jsonrpc` and, in a revision without a
//! handshake, `_meta`; `W answers $X [RESULT]` answers a request that was got. `W gets nothing more` calls `presence.get`, whose answer must be
//! next: what was in the log before the call has been passed on before its answer.
//! The other side, by mcpx: `W meets X as ID CAPABILITIES` lets anything pass until X's `initialize` comes, and answers it;
//! `W is asked METHOD by X as $Y [PARAMS]` lets anything pass until X asks W that, and binds the request's id.
//!
//! **By the framed door.** `W joins TOPIC by framed` (`with capabilities=a,b`) CONNECTs; the answer is what it is welcomed with. `W sends JSON` is then the body of a SEND, in
//! which `sessionId` is filled in; a SEND that is refused is what `W gets` next. `as ID` is the request's id, and `$ID` from then on what the gateway calls the message. `W gets` RECEIVEs, message by message;
//! `W answers $X [RESULT]` answers what was got; `W leaves` DISCONNECTs.
//!
//! **By the Machine Context Protocol.** `W joins TOPIC by machine`, over a WebSocket or `over http`, where it listens too; with `auth=message` the token is in the first message.
//! `W connects to TOPIC by machine` says nothing yet. `W sends JSON` fills in what is missing of the header; `W calls X TOOL.CAPABILITY as ID [PARAMETERS]` is a request,
//! `W answers $X [RESULT]` or `… error ERROR` answers one that was got, `W says TEXT as ID` is chat.
//!
//! **In the draft dialect.** `W joins TOPIC by draft` is a client of the MCP door that says the same in other words: as `by mcp`, and `over poll` too. `offers=` is what it
//! declares of `progress,cancellation`: both, unless it is said.
//!
//! **Servers as guests.** `W serves TOPIC by draft [TOOLS]`, or `by mcp`, is a server that a guest brings into the room as W. Handshakes and lists it answers by itself, the
//! list of tools with these; anything else is what `W gets`, to be answered by `W answers $X [RESULT]` or `… error ERROR`. `W sends JSON` goes to all who are
//! connected to it. `W offers TOOLS` changes its list.
//!
//! **Sending.** `W sends JSON` fills in what is missing of `protocol`, `ts`, `from`, `kind` and `payload.jsonrpc`; `W sends raw TEXT`
//! fills in nothing. For short: `W says TEXT as ID`, `W notifies X|everyone as ID`, `W calls X [METHOD] as ID [PARAMS]`,
//! `W answers REQUEST as ID [RESULT]` or `… as ID error ERROR` (the request was sent in the scene, or it is `$X`, the id of one that
//! somebody got as JSON), `W repeats ID`, `W posts to TOPIC JSON → STATUS [JSON]`, and
//! `W floods COUNT until refused CODE`, which over HTTP is `W floods TOPIC with COUNT posts until refused CODE`.
//!
//! **Receiving.** `W gets ID …`: exactly the bytes that were sent under these ids, in this order. `W gets JSON`: a frame that has at
//! least this. `W gets raw TEXT`, `W gets join X [JSON]`, `W gets leave X [JSON]`, `W gets heartbeat X`, `W is refused CODE [regarding ID]`,
//! `W is told CODE regarding ID` (the same about somebody else's doing, which may come before or after the presence that caused it).
//! Every step looks at the next frame, and only these pass by unseen where they are not asked for: heartbeats, the fences below, the
//! reader's own joins and leaves, and, before a close, any presence. `W waits for ID` or `W waits for JSON` lets anything pass until it comes.
//! `W gets nothing more` publishes a fence, an envelope from somebody who is not in the room, and the fence must be what comes next: the log's
//! order proves what waiting could only suggest.
//!
//! **Asking.** `W asks METHOD PATH [with HEADER=VALUE …] [BODY] → STATUS [with HEADER=VALUE …] [listing TERM …] [JSON]`, or `nobody asks …` without a token. `STATUS`
//! may be `2xx`. `listing` means that `messages` and `history` are both exactly these entries, bytes included: an id, `join:X` or
//! `leave:X`; nothing at all is `listing none`.
//!
//! **JSON** is matched by what it names: `"(any)"` is any value, `"(absent)"` no value, `"(has X)"` any text with X in it, `"$X"` binds or repeats one, be it a value or a member's name; in an array a final
//! `"(more)"` lets the rest pass and a first `"(some)"` asks for the others in any place.

mod client;
mod compose;
mod connection;
mod expect;
mod framed;
mod ghosts;
mod machine;
mod matching;
mod parse;
mod requests;
mod served;
mod stage;

use std::path::Path;

use serde_json::Value;

use crate::gateway::TestEngine;

/// A scene that has been read.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// How the gateway is set up.
    pub(crate) settings: Vec<(String, String)>,
    /// What happens.
    pub(crate) steps: Vec<SceneLine>,
}

/// A step and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SceneLine {
    pub(crate) number: usize,
    pub(crate) text: String,
    pub(crate) step: SceneStep,
}

/// A connection's name: the participant's id, and what tells it from the participant's other connections.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionName(pub(crate) String);

impl ConnectionName {
    pub(crate) fn participant(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }
}

/// The `with` part of a step, in order.
pub(crate) type With = Vec<(String, String)>;

/// By which door somebody comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SceneWay {
    Mcpx,
    /// As an MCP client, which sees the room or one participant.
    Mcp {
        at: Option<String>,
        over: Over,
    },
    /// The same, in the draft dialect.
    Draft {
        at: Option<String>,
        over: Over,
    },
    /// By the Multi-Component Protocol.
    Framed,
    /// By the Machine Context Protocol.
    Machine {
        over: Over,
    },
}

/// What carries an MCP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    WebSocket,
    Http,
    Sse,
    Poll,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SceneStep {
    /// A value gets a name.
    Name {
        name: String,
        value: String,
    },
    Join {
        who: ConnectionName,
        topic: String,
        way: SceneWay,
        with: With,
    },
    Connect {
        who: ConnectionName,
        topic: String,
        way: SceneWay,
        with: With,
    },
    /// A server becomes a guest; `draft` is what it speaks.
    Serve {
        who: ConnectionName,
        topic: String,
        draft: bool,
        tools: String,
    },
    Offer {
        who: ConnectionName,
        tools: String,
    },
    Meet {
        who: ConnectionName,
        whom: String,
        id: String,
        capabilities: String,
    },
    /// A join that is retried while it is refused with 429.
    FinallyJoin(Box<SceneStep>),
    CannotJoin {
        who: ConnectionName,
        topic: String,
        with: With,
        refused: ExpectedRefusal,
    },
    Follow {
        who: ConnectionName,
        topic: String,
        with: With,
    },
    CannotFollow {
        who: ConnectionName,
        topic: String,
        with: With,
        refused: ExpectedRefusal,
    },
    Welcomed {
        who: ConnectionName,
        expected: Expected,
    },
    Send {
        who: ConnectionName,
        what: SceneOutgoing,
    },
    Post {
        who: ConnectionName,
        topic: String,
        envelope: String,
        answer: Expected,
    },
    Flood {
        who: ConnectionName,
        count: usize,
        code: String,
    },
    FloodByPosts {
        who: ConnectionName,
        topic: String,
        count: usize,
        code: String,
    },
    Get {
        who: Vec<ConnectionName>,
        what: SceneIncoming,
    },
    Wait {
        who: Vec<ConnectionName>,
        what: SceneIncoming,
    },
    Closed {
        who: Vec<ConnectionName>,
        code: u16,
    },
    StreamEnds {
        who: ConnectionName,
    },
    Leave {
        who: ConnectionName,
    },
    /// A bridge enters a ghost, which may be refused.
    EnterGhost {
        who: ConnectionName,
        ghost: String,
        more: String,
        refused: Option<String>,
    },
    RemoveGhost {
        who: ConnectionName,
        ghost: String,
        reason: Option<String>,
    },
    Break {
        who: ConnectionName,
    },
    Restart,
    NoRival,
    Ask {
        who: Option<ConnectionName>,
        method: String,
        path: String,
        with: With,
        body: String,
        answer: Expected,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExpectedRefusal {
    pub(crate) status: String,
    pub(crate) code: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SceneOutgoing {
    Filled(String),
    Raw(String),
    Chat { text: String, id: String },
    Notify { to: Option<String>, id: String },
    Call { to: String, method: String, id: String, params: Option<String> },
    Answer { request: String, id: String, result: Option<String>, failed: bool },
    Reply { request: String, result: Option<String>, failed: bool },
    Repeat { id: String },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SceneIncoming {
    Sent(Vec<String>),
    Raw(String),
    Json(Value),
    Presence { event: &'static str, of: String, more: Option<Value> },
    Refusal { code: String, regarding: Option<String> },
    ErrorNotice { code: String, regarding: Option<String> },
    NothingMore,
}

/// What an answer or a welcome must have. An empty `status` is not looked at.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Expected {
    pub(crate) status: String,
    pub(crate) headers: With,
    pub(crate) listing: Option<Vec<String>>,
    pub(crate) json: Option<Value>,
}

impl Scene {
    /// Reads a scene; an error names the line.
    pub fn parse(text: &str) -> Result<Self, crate::Failure> {
        parse::scene(text)
    }

    /// Plays it against a gateway on the given engine. An error tells the step, what came instead, and all that happened before.
    pub async fn play(&self, engine: TestEngine) -> Result<(), crate::Failure> {
        stage::play(self, engine).await
    }
}

/// Reads and plays one file.
pub fn play_file(path: &Path, engine: TestEngine) -> Result<(), crate::Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let scene = Scene::parse(&text).map_err(|e| format!("{file}:{e}"))?;
    crate::run(scene.play(engine)).map_err(|e| format!("{file}:{e}"))
}
