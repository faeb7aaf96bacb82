//! The serving half of a participant: an MCP server (2025-06-18) with tools, answering whoever asks in the room.

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::{Request, RpcError, Voice};

/// The revision of MCP that everybody here speaks.
pub(crate) const MCP_VERSION: &str = "2025-06-18";

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// What a participant can do for others.
pub(crate) trait Toolbox: Clone + Send + Sync + 'static {
    /// Its name in the handshake.
    const NAME: &'static str;

    /// Its tools, as `tools/list` shows them.
    fn tools(&self) -> Value;

    /// Uses one.
    fn call(
        &self,
        tool: &str,
        arguments: &Value,
        progress: &Progress,
    ) -> impl Future<Output = Result<Done, RpcError>> + Send;
}

/// What came of using a tool.
pub(crate) struct Done {
    text: String,
    data: Value,
    failed: bool,
}

impl Done {
    /// It worked: a sentence for people and an object for programs.
    pub(crate) fn well(text: impl Into<String>, data: Value) -> Self {
        Self { text: text.into(), data, failed: false }
    }

    /// The tool was used rightly and could not do it.
    pub(crate) fn badly(text: impl Into<String>) -> Self {
        Self { text: text.into(), data: Value::Null, failed: true }
    }

    fn result(self) -> Value {
        let mut result = json!({ "content": [{ "type": "text", "text": self.text }], "isError": self.failed });
        if !self.data.is_null() {
            result["structuredContent"] = self.data;
        }
        result
    }
}

/// Tells the caller how far a tool has come, if it wanted to know.
pub(crate) struct Progress {
    voice: Voice,
    request: Request,
}

impl Progress {
    pub(crate) async fn report(&self, progress: u32, total: u32, message: &str) {
        let Some(token) = self.request.params["_meta"].get("progressToken") else { return };
        let params = json!({ "progressToken": token, "progress": progress, "total": total, "message": message });
        let request = &self.request;
        self.voice.notify(&request.from, Some(&request.envelope), "notifications/progress", params).await;
    }
}

/// A tool as `tools/list` shows it.
pub(crate) fn tool(name: &str, description: &str, properties: Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    json!({ "name": name, "description": description, "inputSchema": schema })
}

/// The error for arguments that are not as the tool's schema says, and for tools that do not exist.
pub(crate) fn invalid_params(message: impl Into<String>) -> RpcError {
    RpcError { code: INVALID_PARAMS, message: message.into() }
}

/// Answers requests until the seat is gone. A long tool does not keep others waiting.
pub(crate) async fn offer<T: Toolbox>(toolbox: T, voice: Voice, mut requests: mpsc::Receiver<Request>) {
    let mut at_work = JoinSet::new();
    while let Some(request) = requests.recv().await {
        while at_work.try_join_next().is_some() {}
        let (toolbox, voice) = (toolbox.clone(), voice.clone());
        at_work.spawn(async move {
            let outcome = answer(&toolbox, &voice, &request).await;
            voice.answer(&request, outcome).await;
        });
    }
}

async fn answer<T: Toolbox>(toolbox: &T, voice: &Voice, request: &Request) -> Result<Value, RpcError> {
    match &*request.method {
        "initialize" => Ok(json!({
            "protocolVersion": MCP_VERSION,
            "capabilities": { "tools": {} },
            "serverInfo": { "name": T::NAME, "version": env!("CARGO_PKG_VERSION") },
        })),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": toolbox.tools() })),
        "tools/call" => {
            let name = request.params["name"].as_str().ok_or_else(|| invalid_params("`name` must be a string"))?;
            let progress = Progress { voice: voice.clone(), request: request.clone() };
            let done = toolbox.call(name, &request.params["arguments"], &progress).await?;
            Ok(done.result())
        }
        other => Err(RpcError { code: METHOD_NOT_FOUND, message: format!("no method `{other}` here") }),
    }
}
