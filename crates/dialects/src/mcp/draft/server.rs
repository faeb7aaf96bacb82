//! Messages to a server that speaks the dialect, and messages from it.
//!
//! Its owner speaks MCP, under ids that it never uses twice at once; they pass as they are. The handshake is the owner's, before this
//! begins: see [`words`].

use std::collections::HashMap;

use salon_mcp::RpcHead;
use salon_mcp::listing::Listing;
use salon_protocol::{Members, rpc};
use serde_json::json;
use serde_json::value::RawValue;

use super::words::{self, raw};

/// What becomes of a message to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Passed {
    /// A message to the server.
    On(Box<str>),
    /// The owner is answered this: the dialect has no word for what was asked, and none is needed.
    Back(Box<str>),
}

/// Requests of the owner's that the server has not answered, as far as their answers need a translation.
#[derive(Debug, Default)]
pub struct Translator {
    open: HashMap<Box<str>, ServerRequest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerRequest {
    List(Listing),
    Call,
}

impl Translator {
    /// A message of the owner's.
    pub fn to_server(&mut self, text: &str) -> Passed {
        let as_it_is = || Passed::On(text.into());
        let Some(head) = RpcHead::read(text) else { return as_it_is() };
        match (head.method.as_deref(), head.id) {
            (Some(method @ ("tools/list" | "resources/list")), Some(id)) => {
                if let Some(listing) = Listing::of_method(method) {
                    self.open.insert(id.get().into(), ServerRequest::List(listing));
                }
                Passed::On(rpc::request(id, method, None).get().into())
            }
            (Some("tools/call"), Some(id)) => {
                self.open.insert(id.get().into(), ServerRequest::Call);
                let params = words::call_to_draft(head.params);
                Passed::On(rpc::request(id, "tools/invoke", params.as_deref()).get().into())
            }
            // A server of this dialect announces every change unasked, and has no capability for it.
            (Some("resources/subscribe" | "resources/unsubscribe" | "ping"), Some(id)) => {
                Passed::Back(rpc::response(id, &raw(&json!({}))).get().into())
            }
            (Some("notifications/initialized"), None) => {
                Passed::On(rpc::notification("initialized", Some(&raw(&json!({})))).get().into())
            }
            (Some("notifications/cancelled"), None) => {
                let params = words::cancel_to_draft(head.params);
                if let Some(id) = words::cancelled(params.as_deref()) {
                    self.open.remove(id.get());
                }
                Passed::On(rpc::notification("cancel", params.as_deref()).get().into())
            }
            (None, Some(_)) => Passed::On(recoded(text, words::error_to_draft)),
            _ => as_it_is(),
        }
    }

    /// A message of the server's: what the owner hears of it.
    pub fn from_server(&mut self, text: &str) -> Vec<Box<str>> {
        let Some(head) = RpcHead::read(text) else { return vec![text.into()] };
        let told = |method: &str, params: Option<&RawValue>| rpc::notification(method, params).get().into();
        match (head.method.as_deref(), head.id) {
            (None, Some(id)) => vec![self.answered(id, &head, text)],
            (Some("tools/changed"), None) => vec![told(Listing::Tools.changed(), None)],
            (Some("resources/changed"), None) => {
                let named = words::updated(head.params);
                let updated =
                    named.iter().map(|uri| told("notifications/resources/updated", Some(&raw(&json!({ "uri": uri })))));
                // Nothing says whether it is the resource that changed or the list of them.
                updated.chain([told(Listing::Resources.changed(), None)]).collect()
            }
            (Some("progress"), None) => {
                let params = words::progress_to_mcp(head.params);
                params.map(|params| told("notifications/progress", Some(&params))).into_iter().collect()
            }
            _ => vec![text.into()],
        }
    }

    fn answered(&mut self, id: &RawValue, head: &RpcHead<'_>, text: &str) -> Box<str> {
        let asked = self.open.remove(id.get());
        let (Some(result), Some(asked)) = (head.result, asked) else { return recoded(text, words::error_to_mcp) };
        let Some(mut message) = Members::parse(text) else { return text.into() };
        let result = match asked {
            ServerRequest::List(listing) => words::list_to_mcp(listing, result),
            ServerRequest::Call => words::outcome_to_mcp(result),
        };
        message.set("result", &result);
        message.to_raw().get().into()
    }

    /// A request gets no answer. The error that came instead, where there was one, as MCP has it.
    pub fn failed(&mut self, id: &str, error: Option<&str>) -> Option<Box<str>> {
        self.open.remove(id);
        let error = RawValue::from_string(error?.to_owned()).ok()?;
        Some(words::error_to_mcp(&error).get().into())
    }
}

/// An answer with its error said otherwise.
fn recoded(text: &str, recode: impl Fn(&RawValue) -> Box<RawValue>) -> Box<str> {
    let changed = Members::parse(text).and_then(|mut message| {
        let error = recode(message.get("error")?);
        message.set("error", &error);
        Some(message.to_raw().get().into())
    });
    changed.unwrap_or_else(|| text.into())
}

/// What a server gets at the end: a request under that id, and when it has been answered, that this is the end.
pub fn farewell(id: &str) -> (Box<str>, Box<str>) {
    (rpc::request(id, "shutdown", None).get().into(), rpc::notification("exit", None).get().into())
}
