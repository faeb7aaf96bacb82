//! Offering tools of one's own, in few lines.
//!
//! A [`Toolbox`] answers the handshake, `ping`, `tools/list` and `tools/call`; whatever else a participant wants to answer is added
//! by method. Deliberately absent: checking arguments against the schema. A tool reads its arguments into types of its own, and what
//! does not fit is refused; with the feature `schemars` the schema is made from the type.

mod call;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{McpVersion, Members};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::mcp::{
    Elicitation, ElicitationAnswer, Implementation, Root, Sampling, SamplingAnswer, Tool, ToolResult, empty_object,
};
use crate::{Request, RoomRef, RpcError, Service};

pub use call::{ToolCall, ToolError};

/// A page of tools ends with whichever comes first. A message may have 1 MiB unless the gateway is configured otherwise.
const PAGE_TOOLS: usize = 100;
const PAGE_BYTES: usize = 256 << 10;

/// How many rooms one toolbox announces its changes in.
const MAX_ROOMS: usize = 1024;

type HandlerFuture<T, E> = BoxFuture<'static, Result<T, E>>;
type ToolHandler = Arc<dyn Fn(ToolCall) -> HandlerFuture<ToolResult, ToolError> + Send + Sync>;
type MethodHandler = Arc<dyn Fn(Request) -> HandlerFuture<Box<RawValue>, RpcError> + Send + Sync>;

/// Tools to offer in a room, and what else to answer there. Clones are the same toolbox.
///
/// ```
/// use salon_client::{ToolCall, Toolbox};
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
/// let tools = Toolbox::new("echo").tool("say", "Repeats what it is given", schema, |call: ToolCall| async move {
///     Ok(call.argument::<String>("text")?.into())
/// });
/// // client.room(topic).offer(tools).join().await
/// ```
///
/// Tools can come and go while it is in a room; everybody is notified with `notifications/tools/list_changed`:
///
/// ```
/// # use salon_client::{mcp::Tool, Toolbox};
/// # let tools = Toolbox::new("clock");
/// let now = Tool::new("now", "Tells the time", &serde_json::json!({"type": "object"}));
/// tools.add(now, |_| async { Ok("noon".into()) });
/// assert!(tools.remove("now"));
/// ```
#[derive(Clone)]
pub struct Toolbox {
    inner: Arc<ToolboxInner>,
}

struct ToolboxInner {
    about: Implementation,
    state: Mutex<ToolboxState>,
}

#[derive(Default)]
struct ToolboxState {
    instructions: Option<String>,
    tools: BTreeMap<String, (Arc<Tool>, ToolHandler)>,
    methods: BTreeMap<String, MethodHandler>,
    offers: Members,
    declares: Members,
    rooms: Vec<RoomRef>,
}

impl Toolbox {
    /// An empty one. The name is what others see as the server's; its version is this library's. [`of`](Self::of) sets both.
    pub fn new(name: impl Into<String>) -> Self {
        Self::of(Implementation::new(name, env!("CARGO_PKG_VERSION")))
    }

    /// An empty one of a program with a name and a version of its own.
    pub fn of(about: Implementation) -> Self {
        let toolbox = Self { inner: Arc::new(ToolboxInner { about, state: Mutex::default() }) };
        toolbox.state().offers.set("tools", &json!({"listChanged": true}));
        toolbox
    }

    /// How to use these tools, for a model to read.
    #[must_use]
    pub fn instructions(self, text: impl Into<String>) -> Self {
        self.state().instructions = Some(text.into());
        self
    }

    /// Offers a tool: its name, what it does, the JSON Schema of its arguments, and how it is done.
    #[must_use]
    pub fn tool<F, Fut>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        schema: serde_json::Value,
        run: F,
    ) -> Self
    where
        F: Fn(ToolCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolResult, ToolError>> + Send + 'static,
    {
        self.add(Tool::new(name, description, &schema), run);
        self
    }

    /// Offers a tool whose arguments are a type: the JSON Schema is made from it, and what does not fit is refused as invalid before the
    /// tool runs. Needs the feature `schemars`.
    ///
    /// ```
    /// use salon_client::{Toolbox, ToolCall, ToolError};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Add {
    ///     /// The first number
    ///     a: i64,
    ///     b: i64,
    /// }
    ///
    /// async fn add(Add { a, b }: Add, _: ToolCall) -> Result<salon_client::mcp::ToolResult, ToolError> {
    ///     let sum = a.checked_add(b).ok_or_else(|| ToolError::failed("too large"))?;
    ///     Ok(sum.to_string().into())
    /// }
    ///
    /// let tools = Toolbox::new("sums").typed_tool("add", "Adds two numbers", add);
    /// assert!(tools.tools()[0].input_schema.get().contains(r#""description":"The first number""#));
    /// ```
    ///
    /// # Panics
    ///
    /// When the type is written as something else than a JSON object, such as a number: MCP has arguments by name only.
    #[cfg(feature = "schemars")]
    #[must_use]
    pub fn typed_tool<A, F, Fut>(self, name: impl Into<String>, description: impl Into<String>, run: F) -> Self
    where
        A: DeserializeOwned + schemars::JsonSchema + Send + 'static,
        F: Fn(A, ToolCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolResult, ToolError>> + Send + 'static,
    {
        self.add(Tool::typed::<A>(name, description), move |call| match call.arguments() {
            Ok(arguments) => run(arguments, call).boxed(),
            Err(error) => ready(Err(error)).boxed(),
        });
        self
    }

    /// Answers a method of one's own choice, such as `resources/list`. It takes precedence over what a toolbox answers by itself.
    #[must_use]
    pub fn method<F, Fut>(self, method: impl Into<String>, answer: F) -> Self
    where
        F: Fn(Request) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Box<RawValue>, RpcError>> + Send + 'static,
    {
        self.state().methods.insert(method.into(), Arc::new(move |request| answer(request).boxed()));
        self
    }

    /// Names a capability in the handshake, such as `resources`, whose methods are answered by [`method`](Self::method).
    #[must_use]
    pub fn capability(self, name: impl Into<String>, options: serde_json::Value) -> Self {
        self.state().offers.set(&name.into(), &options);
        self
    }

    /// Answers questions to the person here (`elicitation/create`), and announces that in handshakes.
    #[must_use]
    pub fn on_elicitation<F, Fut>(self, ask: F) -> Self
    where
        F: Fn(Elicitation, Request) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitationAnswer, RpcError>> + Send + 'static,
    {
        self.answers("elicitation", "elicitation/create", ask)
    }

    /// Lets others use the model here (`sampling/createMessage`), and announces that in handshakes.
    #[must_use]
    pub fn on_sampling<F, Fut>(self, sample: F) -> Self
    where
        F: Fn(Sampling, Request) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<SamplingAnswer, RpcError>> + Send + 'static,
    {
        self.answers("sampling", "sampling/createMessage", sample)
    }

    /// Tells callees which directories and files they may work in (`roots/list`).
    #[must_use]
    pub fn roots(self, roots: impl IntoIterator<Item = Root>) -> Self {
        let roots: Arc<[Root]> = roots.into_iter().collect();
        self.answers("roots", "roots/list", move |_: Members, _| ready(json_of(&RootList { roots: &roots })))
    }

    /// Asks guests for a server that is this participant's alone, in place of the one that all callers share. A guest gives a participant at most
    /// eight.
    #[must_use]
    pub fn isolated(self) -> Self {
        let experimental = serde_json::json!({ salon_mcp::handshake::ISOLATED: {} });
        self.state().declares.set("experimental", &experimental);
        self
    }

    fn answers<P, A, F, Fut>(self, capability: &str, method: &str, answer: F) -> Self
    where
        P: DeserializeOwned,
        A: Serialize,
        F: Fn(P, Request) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<A, RpcError>> + Send + 'static,
    {
        self.state().declares.set(capability, &empty_object());
        self.method(method, move |request| match read(request.params_raw()) {
            Ok(params) => answer(params, request).map(|answer| json_of(&answer?)).boxed(),
            Err(error) => ready(Err(error)).boxed(),
        })
    }

    /// Offers a tool from now on, in place of one of the same name.
    pub fn add<F, Fut>(&self, tool: Tool, run: F)
    where
        F: Fn(ToolCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolResult, ToolError>> + Send + 'static,
    {
        let run: ToolHandler = Arc::new(move |call| run(call).boxed());
        self.state().tools.insert(tool.name.clone(), (Arc::new(tool), run));
        self.announce();
    }

    /// Offers a tool no more. Calls that have begun go on. Tells whether it was offered.
    pub fn remove(&self, name: &str) -> bool {
        let removed = self.state().tools.remove(name).is_some();
        if removed {
            self.announce();
        }
        removed
    }

    /// The tools on offer, by name.
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        self.state().tools.values().map(|(tool, _)| tool.clone()).collect()
    }

    fn announce(&self) {
        let rooms = {
            let mut state = self.state();
            state.rooms.retain(RoomRef::is_open);
            state.rooms.clone()
        };
        for room in rooms {
            room.announce("notifications/tools/list_changed");
        }
    }

    fn state(&self) -> MutexGuard<'_, ToolboxState> {
        self.inner.state.lock()
    }

    fn initialize(&self, params: Option<&RawValue>) -> Result<Box<RawValue>, RpcError> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "protocolVersion")]
            version: String,
        }
        let Params { version } = read(params)?;
        let state = self.state();
        json_of(&Initialize {
            protocol_version: McpVersion::answer_to(&version),
            capabilities: &state.offers,
            server_info: &self.inner.about,
            instructions: state.instructions.as_deref(),
        })
    }

    /// A page of tools. The cursor is the last name of the page before, so that pages stay right while tools come and go.
    fn list(&self, params: Option<&RawValue>) -> Result<Box<RawValue>, RpcError> {
        #[derive(Deserialize)]
        struct Params {
            cursor: Option<String>,
        }
        let Params { cursor } = read(params)?;
        let state = self.state();
        let after = cursor.map_or(Bound::Unbounded, Bound::Excluded);
        let mut page = ToolPage { tools: Vec::new(), next_cursor: None };
        let mut bytes = 0;
        for (name, (tool, _)) in state.tools.range((after, Bound::Unbounded)) {
            let tool = json_of(&**tool)?;
            if page.tools.len() == PAGE_TOOLS || (!page.tools.is_empty() && bytes + tool.get().len() > PAGE_BYTES) {
                break;
            }
            bytes += tool.get().len();
            page.tools.push(tool);
            page.next_cursor = Some(name);
        }
        if page.next_cursor == state.tools.keys().next_back() {
            page.next_cursor = None;
        }
        json_of(&page)
    }

    fn call(&self, request: Request) -> HandlerFuture<Box<RawValue>, RpcError> {
        let begun = ToolCall::read(request).and_then(|call| {
            let run = self.state().tools.get(call.name()).map(|(_, run)| run.clone());
            let run =
                run.ok_or_else(|| RpcError::invalid_params(format!("there is no tool `{}` here", call.name())))?;
            Ok(run(call))
        });
        async move {
            match begun?.await {
                Ok(result) => json_of(&result),
                Err(error) => error.into_answer(),
            }
        }
        .boxed()
    }
}

impl Service for Toolbox {
    fn request(&self, request: Request) -> BoxFuture<'static, Result<Box<RawValue>, RpcError>> {
        let method = self.state().methods.get(request.method()).cloned();
        if let Some(answer) = method {
            return answer(request);
        }
        let answer = match request.method() {
            "tools/call" => return self.call(request),
            "initialize" => self.initialize(request.params_raw()),
            "tools/list" => self.list(request.params_raw()),
            "ping" => Ok(empty_object()),
            method => Err(RpcError::method_not_found(method)),
        };
        ready(answer).boxed()
    }

    fn entered(&self, room: RoomRef) {
        let mut state = self.state();
        state.rooms.retain(RoomRef::is_open);
        if state.rooms.len() < MAX_ROOMS {
            state.rooms.push(room);
        }
    }

    fn needs_handshake(&self) -> bool {
        false
    }

    fn declares(&self) -> Box<RawValue> {
        self.state().declares.to_raw()
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Toolbox").field("name", &self.inner.about.name).field("tools", &state.tools.keys()).finish()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Initialize<'a> {
    protocol_version: &'a str,
    capabilities: &'a Members,
    server_info: &'a Implementation,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolPage<'a> {
    tools: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<&'a String>,
}

#[derive(Serialize)]
struct RootList<'a> {
    roots: &'a [Root],
}

/// Reads parameters; those that were left out are an empty object.
fn read<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, RpcError> {
    let params = params.map_or("{}", RawValue::get);
    if !params.starts_with('{') {
        return Err(RpcError::invalid_params("the parameters must be an object"));
    }
    serde_json::from_str(params).map_err(|error| RpcError::invalid_params(error.to_string()))
}

fn json_of(value: &impl Serialize) -> Result<Box<RawValue>, RpcError> {
    to_raw_value(value).map_err(|error| RpcError::internal(format!("the answer cannot be written: {error}")))
}
