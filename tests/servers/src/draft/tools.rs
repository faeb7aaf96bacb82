//! What the server understands, and its tools.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use crate::Server;

/// Where what is said about a request goes.
pub(crate) type Out = mpsc::UnboundedSender<String>;

/// What changes while it runs.
#[derive(Default)]
pub(crate) struct State {
    /// Whether there is the tool that `grow` adds.
    grown: bool,
    /// Calls that wait to be cancelled, by their id as JSON.
    waiting: HashMap<String, oneshot::Sender<()>>,
}

/// What becomes of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It goes on.
    Go,
    /// It was told to exit.
    Exit,
}

#[derive(Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    pub(crate) method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Invoked<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

const INTRODUCTION: &str = r#"{"server":{"name":"draft-server","version":"1.0.0"},"serverCapabilities":{"supportsToolDiscovery":true,"supportsResourceDiscovery":true,"supportsNotifications":true}}"#;

impl Server {
    /// Hears a message and says what there is to be said, the answer last.
    pub(crate) async fn hear(self: Arc<Self>, text: &str, out: &Out) -> After {
        let Ok(Message { id, method: Some(method), params }) = serde_json::from_str::<Message<'_>>(text) else {
            return After::Go;
        };
        let say = |text: String| drop(out.send(text));
        let Some(id) = id.map(RawValue::get) else {
            match method.as_str() {
                "cancel" => self.cancel(params),
                "exit" => return After::Exit,
                _ => {}
            }
            return After::Go;
        };
        let outcome = match method.as_str() {
            "initialize" => self.introduce(params),
            "tools/list" => Ok(self.tools()),
            "resources/list" => Ok(r#"[{"uri":"memo://1","name":"a memo"}]"#.to_owned()),
            "tools/invoke" => self.invoke(id, params, out).await,
            "shutdown" => Ok("null".to_owned()),
            _ => Err((-32601, "no such method".to_owned())),
        };
        say(match outcome {
            Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
            Err((code, message)) => {
                let error = serde_json::json!({ "code": code, "message": message });
                format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
            }
        });
        After::Go
    }

    fn introduce(&self, params: Option<&RawValue>) -> Result<String, (i64, String)> {
        let params: HashMap<String, &RawValue> =
            params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
        if !params.contains_key("mcpVersion") {
            return Err((4001, "Missing required parameter 'mcpVersion'".to_owned()));
        }
        let foreign = params.keys().find(|key| !matches!(key.as_str(), "mcpVersion" | "clientCapabilities"));
        match foreign.filter(|_| self.strict) {
            Some(key) => Err((4001, format!("Unexpected parameter '{key}'"))),
            None => Ok(INTRODUCTION.to_owned()),
        }
    }

    fn tools(&self) -> String {
        let grown = self.state().grown;
        let names = ["echo", "say", "fail", "need", "wait", "grow", "touch"];
        let names = names.into_iter().chain(grown.then_some("grown"));
        let tools = names.map(|name| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#));
        format!("[{}]", tools.collect::<Vec<_>>().join(","))
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }

    fn cancel(&self, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Cancelled<'a> {
            #[serde(borrow)]
            id: &'a RawValue,
        }
        let cancelled = params.and_then(|params| serde_json::from_str::<Cancelled<'_>>(params.get()).ok());
        if let Some(waiting) = cancelled.and_then(|cancelled| self.state().waiting.remove(cancelled.id.get())) {
            let _ = waiting.send(());
        }
    }

    async fn invoke(&self, id: &str, params: Option<&RawValue>, out: &Out) -> Result<String, (i64, String)> {
        let say = |text: String| drop(out.send(text));
        let invoked = params.and_then(|params| serde_json::from_str::<Invoked<'_>>(params.get()).ok());
        let Some(Invoked { name, arguments }) = invoked else {
            return Err((4001, "Missing required parameter 'name'".to_owned()));
        };
        let arguments = arguments.map_or("{}", RawValue::get);
        let success = |output: &str| Ok(format!(r#"{{"status":"success","output":{output}}}"#));
        match name.as_str() {
            // As it came, whatever is in it.
            "echo" => success(arguments),
            "say" => success(r#""Grüße, said the server""#),
            "fail" => Ok(r#"{"status":"error","output":"it broke"}"#.to_owned()),
            "need" => Err((4001, "Missing required parameter 'city'".to_owned())),
            "wait" => {
                let (cancel, cancelled) = oneshot::channel();
                self.state().waiting.insert(id.to_owned(), cancel);
                let progress = format!(r#"{{"id":{id},"percent":25,"message":"Searching..."}}"#);
                say(format!(r#"{{"jsonrpc":"2.0","method":"progress","params":{progress}}}"#));
                let _ = cancelled.await;
                Err((-32800, "cancelled".to_owned()))
            }
            "grow" => {
                self.state().grown = true;
                let changed = r#"{"added":[{"name":"grown"}],"removed":[]}"#;
                say(format!(r#"{{"jsonrpc":"2.0","method":"tools/changed","params":{changed}}}"#));
                success("true")
            }
            "grown" => success(r#"[{"type":"text","text":"tall"}]"#),
            "touch" => {
                let changed = r#"{"updated":["memo://1"]}"#;
                say(format!(r#"{{"jsonrpc":"2.0","method":"resources/changed","params":{changed}}}"#));
                success("null")
            }
            other => Err((4001, format!("no tool is called '{other}'"))),
        }
    }
}
