//! Other participants as MCP servers.
//!
//! A [`Peer`] is a name and a room: making one costs nothing and sends nothing. The handshake happens at the first question, once, however
//! many tasks ask at the same time. Lists are kept until the participant announces a change, leaves, or starts over.
//! [`exchange`] makes the requests, in the era that the participant speaks.

mod calling;
mod catalogue;
mod directory;
mod exchange;
mod subscription;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use salon_mcp::Era;
use salon_mcp::listing::Listing;
use salon_protocol::{EnvelopeId, ParticipantId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::mcp::{
    Completion, Initialized, LogLevel, Prompt, PromptResult, Reference, Resource, ResourceContents, ResourceTemplate,
    Tool,
};
use crate::{Call, CallError, RequestOptions, ResultError, Room};

pub use calling::{CallTool, RunningTool};
use catalogue::FetchedList;
pub(crate) use directory::Directory;
use directory::PeerRecord;
use exchange::Handshake;
pub(crate) use exchange::{AfterAnswer, CallExchange};
pub use subscription::Subscription;

/// How long a handshake and a list may take. Programs answer them, not people.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);

/// Another participant, as an MCP server. Made by [`Room::peer`].
///
/// ```no_run
/// # async fn example(room: salon_client::Room) -> Result<(), Box<dyn std::error::Error>> {
/// use serde_json::json;
///
/// let robot = room.peer(&"robot-alpha".parse()?);
/// for tool in robot.tools().await?.iter() {
///     println!("{}: {}", tool.name, tool.description.as_deref().unwrap_or_default());
/// }
/// let moved = robot
///     .call_tool("move", &json!({"x": 1, "y": 2}))
///     .on_progress(|at| println!("{} of {:?}", at.progress, at.total))
///     .await?;
/// println!("{}", moved.text());
/// # Ok(())
/// # }
/// ```
///
/// A participant that speaks only MCP 2026-07-28, which has no handshake, is asked as that revision has it; nothing else differs for the
/// caller.
///
/// It holds its [`Room`], and so keeps this participant there.
#[derive(Clone)]
pub struct Peer {
    room: Room,
    id: ParticipantId,
}

impl Room {
    /// Another participant, as an MCP server. Nothing is sent until it is asked something; it need not be here yet.
    ///
    /// The gateway itself is one too: [`ParticipantId::host`](salon_protocol::ParticipantId::host).
    pub fn peer(&self, id: &ParticipantId) -> Peer {
        Peer { room: self.clone(), id: id.clone() }
    }
}

impl Peer {
    /// Who it is.
    pub fn id(&self) -> &ParticipantId {
        &self.id
    }

    /// The room it is in.
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// Its answer to the handshake, which is performed when it has not been. Of a participant of MCP 2026-07-28 this is its answer to
    /// `server/discover`.
    pub async fn server(&self) -> Result<Arc<Initialized>, CallError> {
        self.meet().await.map(|(_, handshake)| handshake.server)
    }

    /// Every tool it offers. Kept until it announces a change; one of MCP 2026-07-28 gives each list a lifetime.
    pub async fn tools(&self) -> Result<Arc<[Tool]>, CallError> {
        // Asked even without the capability: tools are what rooms are for, and some servers do not declare it.
        let (known, _) = self.meet().await?;
        known.tools.get(|| self.fetch(Listing::Tools)).await
    }

    /// One tool by name.
    pub async fn tool(&self, name: &str) -> Result<Option<Tool>, CallError> {
        Ok(self.tools().await?.iter().find(|tool| tool.name == name).cloned())
    }

    /// Calls a tool: await it, or set options first. `&()` stands for no arguments.
    ///
    /// A tool that ran and failed is `Ok`, with [`is_error`](crate::mcp::ToolResult::is_error) set; `Err` means that there is no result.
    pub fn call_tool(&self, name: impl Into<String>, arguments: &(impl Serialize + ?Sized)) -> CallTool {
        CallTool::new(self.clone(), name.into(), arguments)
    }

    /// Every resource it offers. Kept until it announces a change.
    pub async fn resources(&self) -> Result<Arc<[Resource]>, CallError> {
        let (known, handshake) = self.meet().await?;
        if !handshake.server.offers("resources") {
            return Ok(Arc::default());
        }
        known.resources.get(|| self.fetch(Listing::Resources)).await
    }

    /// Every resource template it offers. Kept until it announces a change of its resources.
    pub async fn resource_templates(&self) -> Result<Arc<[ResourceTemplate]>, CallError> {
        let (known, handshake) = self.meet().await?;
        if !handshake.server.offers("resources") {
            return Ok(Arc::default());
        }
        known.templates.get(|| self.fetch(Listing::Templates)).await
    }

    /// Reads a resource.
    pub async fn read_resource(&self, uri: &str) -> Result<Vec<ResourceContents>, CallError> {
        #[derive(serde::Deserialize)]
        struct Read {
            contents: Vec<ResourceContents>,
        }
        self.ask::<Read>("resources/read", &json!({ "uri": uri })).await.map(|read| read.contents)
    }

    /// Subscribes to changes of a resource.
    pub async fn subscribe(&self, uri: &str) -> Result<Subscription, CallError> {
        Subscription::begin(self, uri).await
    }

    /// Ends the subscription to changes of a resource, wherever in this program it was made. For a participant of MCP 2026-07-28
    /// drop the [`Subscription`] instead; nothing is sent to it here.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), CallError> {
        if self.meet().await?.1.era == Era::Modern {
            return Ok(());
        }
        self.request("resources/unsubscribe", &json!({ "uri": uri })).await.map(drop)
    }

    /// Every prompt it offers. Kept until it announces a change.
    pub async fn prompts(&self) -> Result<Arc<[Prompt]>, CallError> {
        let (known, handshake) = self.meet().await?;
        if !handshake.server.offers("prompts") {
            return Ok(Arc::default());
        }
        known.prompts.get(|| self.fetch(Listing::Prompts)).await
    }

    /// Fills a prompt in. `&()` stands for no arguments.
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> Result<PromptResult, CallError> {
        self.ask("prompts/get", &Named { name, arguments: arguments_of(arguments)? }).await
    }

    /// Asks for values that complete what was typed so far.
    pub async fn complete(&self, what: &Reference, argument: &str, typed: &str) -> Result<Completion, CallError> {
        #[derive(serde::Deserialize)]
        struct Completed {
            completion: Completion,
        }
        let params = json!({ "ref": what, "argument": { "name": argument, "value": typed } });
        self.ask::<Completed>("completion/complete", &params).await.map(|completed| completed.completion)
    }

    /// Asks to be sent log messages that matter at least this much; they come as `notifications/message`. A participant of MCP 2026-07-28
    /// is asked with every later request.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), CallError> {
        let (known, handshake) = self.meet().await?;
        if handshake.era == Era::Modern {
            *known.log_level.lock() = Some(level);
            return Ok(());
        }
        self.request("logging/setLevel", &json!({ "level": level })).await.map(drop)
    }

    /// Asks for a sign of life. Makes no handshake. MCP 2026-07-28 has no `ping`, so there it is `server/discover`.
    pub async fn ping(&self) -> Result<(), CallError> {
        if exchange::era_of(&self.room, &self.id) == Era::Modern {
            return exchange::introduce(&self.room, &self.id).await.map(drop);
        }
        let options = RequestOptions { timeout: HANDSHAKE_TIMEOUT, progress: false, ..RequestOptions::default() };
        self.room.request_with(&self.id, "ping", &json!({}), options).await?.result().await.map(drop)
    }

    /// Asks anything, after the handshake where the participant needs one, and waits for the answer as it was written.
    pub async fn request(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<Box<RawValue>, CallError> {
        self.start(method, params, RequestOptions::default()).await?.result().await
    }

    /// Asks anything, after the handshake where the participant needs one, and hands out the call.
    pub async fn start(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
        options: RequestOptions,
    ) -> Result<Call, CallError> {
        let params = to_raw_value(params).map_err(CallError::invalid_arguments)?;
        let known = self.room.shared().directory.of(self.room.id(), &self.id);
        if let Some(handshake) = exchange::without_handshake(&self.room, &self.id).filter(|_| !known.is_greeted()) {
            let params = handshake.introduced(&params).unwrap_or(params);
            let log_level = *known.log_level.lock();
            return CallExchange::start(self, &handshake, log_level, (method, &params), options).await;
        }
        let (known, handshake) = self.meet().await?;
        let log_level = *known.log_level.lock();
        CallExchange::start(self, &handshake, log_level, (method, &params), options).await
    }

    /// Tells it something, after the handshake.
    pub async fn notify(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<EnvelopeId, CallError> {
        self.server().await?;
        let told = self.room.notify(std::slice::from_ref(&self.id), method, params).await;
        told.map(|envelope| envelope.id().clone()).map_err(CallError::from)
    }

    async fn ask<T: DeserializeOwned>(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<T, CallError> {
        read(&self.request(method, params).await?)
    }

    async fn fetch<T: DeserializeOwned>(&self, listing: Listing) -> Result<FetchedList<T>, CallError> {
        let (known, handshake) = self.meet().await?;
        let log_level = *known.log_level.lock();
        let list = exchange::fetch(self, &handshake, log_level, listing).await?;
        Ok(FetchedList::read(&self.id, listing.method(), list))
    }

    /// Performs the MCP handshake unless that was done, and hands out what is known since.
    async fn meet(&self) -> Result<(Arc<PeerRecord>, Handshake), CallError> {
        let known = self.room.shared().directory.of(self.room.id(), &self.id);
        let handshake = known.handshake(&self.room, &self.id).await?;
        Ok((known, handshake))
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("id", &self.id).field("topic", self.room.topic()).finish()
    }
}

/// Something with a name, and arguments where there are any.
#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Box<RawValue>>,
}

/// Arguments as JSON; nothing stands for none.
fn arguments_of(arguments: &(impl Serialize + ?Sized)) -> Result<Option<Box<RawValue>>, CallError> {
    let raw = to_raw_value(arguments).map_err(CallError::invalid_arguments)?;
    Ok((raw.get() != "null").then_some(raw))
}

/// Reads an answer.
fn read<T: DeserializeOwned>(answer: &RawValue) -> Result<T, CallError> {
    // By name only: an array would be read as the members in their order.
    if !answer.get().starts_with('{') {
        return Err(ResultError::NotAnObject.into());
    }
    Ok(serde_json::from_str(answer.get()).map_err(ResultError::from)?)
}
