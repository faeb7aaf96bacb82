//! The host's tools: what `tools/list` shows of them, and what serves each.
//!
//! A new tool is a file that describes and serves it, and a line in each of the two lists here. Six older ones are described in `descriptions`.

use std::sync::{Arc, LazyLock};

use salon_dialects::WAIT_TOOL;
use salon_mcp::listing::{ListItem, Listing, read_page};
use salon_protocol::{ParticipantId, RpcError, Stamp};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::super::arguments::Arguments;
use super::super::control::ControlCall;
use super::super::descriptions::{chat_say, history_get, presence_get, tools_of_others, wait};
use super::super::messages::MessageCall;
use super::super::office::{HostRequest, Office};
use super::super::speech::{failed, text};
use super::super::{context, control, direct, find, gather, messages, search, status, waiting};
use super::{Resident, read_id};

/// The tools.
static TOOLS: LazyLock<Arc<[ListItem]>> = LazyLock::new(|| {
    let tools = [
        vec![presence_get(), status::description(), direct::description(), chat_say(), history_get()],
        vec![search::description()],
        messages::descriptions(),
        tools_of_others(),
        vec![wait()],
        control::descriptions(),
        context::descriptions(),
    ]
    .concat();
    let page = read_page(Listing::Tools, &text(&json!({ "tools": tools })));
    page.map(|(tools, _)| tools.into()).unwrap_or_default()
});

/// The tools that are listed to a participant. Those for control are listed where it may use them.
pub(in crate::host) fn tools(office: &Office, caller: &ParticipantId, stamp: Option<&Stamp>) -> Arc<[ListItem]> {
    let is_listed = |tool: &&ListItem| match ControlCall::is_one(&tool.name) || &*tool.name == "message.redact" {
        true => control::is_listed(&tool.name, office, caller, stamp),
        false => {
            let authority = office.desk.authority(caller, stamp);
            authority.is_none_or(|authority| authority.lists(caller, &ParticipantId::host(), &tool.name))
        }
    };
    TOOLS.iter().filter(is_listed).cloned().collect()
}

/// The same as the result of `tools/list`.
pub(in crate::host) fn list(office: &Office, caller: &ParticipantId, stamp: Option<&Stamp>) -> Box<RawValue> {
    let tools = tools(office, caller, stamp);
    let tools: Vec<&RawValue> = tools.iter().map(|tool| &*tool.raw).collect();
    text(&json!({ "tools": tools }))
}

impl Resident {
    /// Serves a call, or begins to.
    pub(super) async fn call(&mut self, request: &mut HostRequest, params: Option<&str>) -> StartedCall {
        let call = HostToolCall::read(params.unwrap_or("{}"))?;
        if call.name == WAIT_TOOL {
            request.purpose = waiting::PURPOSE;
            self.ask_waiting(request.caller()).await;
        }
        let arguments = Arguments::new(&call.name, call.arguments)?;
        let (toolbox, desk) = (&self.office.toolbox, &self.office.desk);
        match call.name.as_str() {
            "chat.say" => toolbox.say(desk, request, arguments).await.map(Some),
            tool if MessageCall::is_one(tool) => {
                MessageCall::serve(&self.office, request, tool, arguments).await.map(Some)
            }
            "dm.open" => direct::open(&self.office, &self.rooms, request, arguments).await.map(Some),
            "presence.set" => status::set(&self.office, request, arguments).await.map(Some),
            "presence.get" => toolbox.presence(desk, arguments).map(Some),
            "history.get" => toolbox.history(desk.topic(), arguments).await.map(Some),
            "room.find_tools" => self.find_tools(request, arguments),
            "room.search" => self.search(request, arguments),
            "room.call_all" => {
                let token = call.meta.and_then(|meta| meta.progress_token);
                self.call_all(request, arguments, token.filter(|token| read_id(token).is_some()))
            }
            WAIT_TOOL => self.wait(request, arguments),
            other if ControlCall::is_one(other) => {
                ControlCall::serve(&self.office, request, other, arguments).await.map(Some)
            }
            other => match self.context.call(&self.office, request, other, arguments).await {
                Some(outcome) => outcome.map(Some),
                None => Err(RpcError::invalid_params(format!("the gateway has no tool `{other}`"))),
            },
        }
    }

    fn find_tools(&mut self, request: &HostRequest, arguments: Arguments<'_>) -> StartedCall {
        let options = find::FindRequest::read(arguments)?;
        self.admit(request.caller(), false)?;
        let roster = match &options.participant {
            None => self.others(request),
            Some(named) if named.is_host() => Vec::new(),
            Some(named) => match self.office.desk.participant(named) {
                Some(participant) => vec![participant],
                None => return Ok(Some(failed(&format!("`{named}` is not in this room")))),
            },
        };
        let consulted = self.consult(&roster, Listing::Tools);
        self.begin(request, false, Box::pin(find::find(self.office.clone(), request.clone(), options, consulted)));
        Ok(None)
    }

    fn call_all(
        &mut self,
        request: &HostRequest,
        arguments: Arguments<'_>,
        progress: Option<&RawValue>,
    ) -> StartedCall {
        let options = gather::GatherRequest::read(arguments)?;
        if request.is_old {
            let message = "the gateway was restarted while it gathered answers; the participants that were asked may have acted; ask again";
            return Err(RpcError::internal(message));
        }
        self.admit(request.caller(), true)?;
        let roster = match &options.participants {
            None => self.others(request),
            Some(named) => named.iter().filter_map(|id| self.office.desk.participant(id)).collect(),
        };
        let consulted = self.consult(&roster, Listing::Tools);
        let progress = progress.map(ToOwned::to_owned);
        let gathering = gather::call_all(self.office.clone(), request.clone(), options, consulted, progress);
        self.begin(request, true, Box::pin(gathering));
        Ok(None)
    }

    fn wait(&mut self, request: &HostRequest, arguments: Arguments<'_>) -> StartedCall {
        let options = waiting::WaitRequest::read(arguments)?;
        self.admit(request.caller(), false)?;
        self.begin(request, false, Box::pin(waiting::wait(self.office.clone(), request.clone(), options)));
        Ok(None)
    }

    fn search(&mut self, request: &HostRequest, arguments: Arguments<'_>) -> StartedCall {
        let options = search::RoomSearchRequest::read(arguments)?;
        self.admit(request.caller(), false)?;
        self.begin(request, false, Box::pin(search::search(self.office.clone(), request.clone(), options)));
        Ok(None)
    }
}

/// What became of a request: a result at once, or none when it takes time.
type StartedCall = Result<Option<Box<RawValue>>, RpcError>;

/// The parameters of `tools/call`.
#[derive(Deserialize)]
pub(super) struct HostToolCall<'a> {
    pub(super) name: String,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<HostCallMeta<'a>>,
}

#[derive(Deserialize)]
pub(super) struct HostCallMeta<'a> {
    #[serde(borrow, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
}

impl<'a> HostToolCall<'a> {
    pub(super) fn read(params: &'a str) -> Result<Self, RpcError> {
        let read = serde_json::from_str(params);
        read.map_err(|error| RpcError::invalid_params(format!("the parameters of a tool call: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_listed_with_a_schema() {
        let names: Vec<_> = TOOLS.iter().map(|tool| &*tool.name).collect();
        let expected = "presence.get presence.set dm.open chat.say history.get room.search chat.edit chat.retract message.redact message.status room.find_tools room.call_all room.wait \
            topic.get topic.configure participant.pause participant.resume participant.remove participant.readmit room.stop room.resume \
            approval.list approval.decide context.get context.list context.history context.put context.delete context.watch";
        assert_eq!(names.join(" "), expected);
        for tool in TOOLS.iter() {
            let tool: serde_json::Value = serde_json::from_str(tool.raw.get()).expect("JSON");
            assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
            assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
            assert!(!tool["description"].as_str().unwrap_or_default().contains("  "), "{tool}");
        }
    }
}
