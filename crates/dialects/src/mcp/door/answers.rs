//! From the others to the client: what becomes of the answer to a request.

use std::time::Instant;

use salon_mcp::input::{InputRequired, is_input_required};
use salon_mcp::{Era, code, downgrade, read_error, upgrade};
use salon_protocol::{Members, ParticipantId, RpcError, rpc};
use serde_json::json;
use serde_json::value::RawValue;

use super::asks::{ELICITATION, offers};
use super::door_call::{CallPurpose, ClientRequest, DoorCall};
use super::list_copy::FetchedPeerList;
use super::targets::{links, renamed_contents};
use super::{Door, DoorRequest, askers, modern_checks};

impl Door {
    /// Takes a call away.
    pub(super) fn drop_call(&mut self, number: u64) -> Option<DoorCall> {
        let call = self.calls.remove(number)?;
        if let Some(envelope) = call.envelope() {
            self.sessions.call_over(envelope);
        }
        Some(call)
    }

    /// Nothing will come of a call.
    pub(super) fn fail(&mut self, number: u64, error: &RpcError, now: Instant) {
        self.release_asks_of(number, now);
        if self.calls.park_outcome(number, || rpc::failure(RawValue::NULL, error)) {
            return;
        }
        let Some(call) = self.drop_call(number) else { return };
        match call.purpose {
            CallPurpose::Handshake => self.handshake_done(&call.to, Err(error.clone()), &call.profile, now),
            CallPurpose::List(reading) => self.not_listed(&call.to, reading.listing, now),
            CallPurpose::Duty => {}
            CallPurpose::Listen(listen) => self.listen_settled(listen, number),
            CallPurpose::Client(asked) => self.streams.answer_request(&asked.request, &Err(error.clone())),
        }
    }

    /// Somebody answered.
    pub(super) fn answered(&mut self, number: u64, payload: &str, now: Instant) {
        let Some(message) = Members::parse(payload) else { return };
        let Some(call) = self.calls.get(number) else { return };
        let failed = message.get("error").map(|error| read_error(Some(error)));
        match call.purpose {
            CallPurpose::Client(_) => return self.client_call_answered(number, message, now),
            CallPurpose::Listen(listen) => return self.listen_answered(listen, number, failed.as_ref(), now),
            _ => {}
        }
        let Some(call) = self.drop_call(number) else { return };
        match (call.purpose, message.get("result"), failed) {
            (CallPurpose::Handshake, Some(result), _) => self.handshake_done(&call.to, Ok(result), &call.profile, now),
            (CallPurpose::Handshake, None, error) => {
                let error = error.unwrap_or_else(|| RpcError::internal("the handshake was answered with nothing"));
                self.handshake_done(&call.to, Err(error), &call.profile, now);
            }
            (CallPurpose::List(reading), Some(result), _) => {
                self.listed(&call.to, *reading, result, &call.profile, now)
            }
            // Who has no such method has an empty list.
            (CallPurpose::List(reading), None, Some(error)) if error.code == RpcError::METHOD_NOT_FOUND => {
                self.keep_list(FetchedPeerList::empty(&call.to, reading.listing), now);
            }
            (CallPurpose::List(reading), None, _) => self.not_listed(&call.to, reading.listing, now),
            (CallPurpose::Duty | CallPurpose::Listen(_) | CallPurpose::Client(_), ..) => {}
        }
    }

    pub(super) fn client_call_answered(&mut self, number: u64, mut message: Members, now: Instant) {
        let Some(call) = self.calls.get(number) else { return };
        let Some(era) = call.sent_in() else { return };
        let (method, profile, who) = (call.method.clone(), call.profile.clone(), call.to.clone());
        let client = profile.era();
        // A participant that was only listed may not ask, neither by a request nor in an answer.
        let asks = |result: &RawValue| Members::parse(result.get()).is_some_and(|result| is_input_required(&result));
        if !askers::is_call(&method) && message.get("result").is_some_and(asks) {
            let told = format!("`{who}` answered `{method}` with a question, and only who is called may ask");
            return self.fail(number, &RpcError::internal(told), now);
        }
        let wanted = message.get("result").filter(|_| client == Era::Legacy && era == Era::Modern);
        if let Some(wanted) = wanted.and_then(InputRequired::read) {
            return self.input_required(number, wanted, now);
        }
        if client == Era::Modern
            && let Some(named) = message.get("result").and_then(|result| askers::with_asker_of_input(result, &who))
        {
            message.set("result", &named);
        }
        if client == Era::Modern && era == Era::Legacy {
            if let Some(wanted) = message.get("error").and_then(upgrade::url_elicitation) {
                return match offers(&profile.capabilities, ELICITATION) {
                    true => self.elicit_by_url(number, &wanted, now),
                    false => self.fail(number, &cannot_open_pages(&who), now),
                };
            }
            let info = self.peers.server(&who).and_then(|server| server.info());
            let upgraded = message.get("result").map(|result| upgrade::result(&method, result, info));
            if let Some(result) = upgraded {
                message.set("result", &result);
            } else if let Some(error) = message.get("error").and_then(upgrade::error) {
                message.set("error", &error);
            }
        }
        self.release_asks_of(number, now);
        if self.calls.park_outcome(number, || message.to_raw()) {
            return;
        }
        let Some(DoorCall { purpose: CallPurpose::Client(asked), .. }) = self.drop_call(number) else { return };
        if let Some(result) = message.get("result") {
            let plain = match (client, era) {
                (Era::Legacy, Era::Modern) => Some(downgrade::result(&method, result, profile.revision)),
                (Era::Legacy, Era::Legacy) => downgrade::older(&method, result, profile.revision),
                (Era::Modern, _) => None,
            };
            if let Some(plain) = plain {
                message.set("result", &plain);
            }
        }
        self.adapt(&asked, &who, &mut message);
        for completion in asked.rounds.completions() {
            self.streams.say(asked.request.channel, &completion);
        }
        self.pass_back(&asked.request, message);
    }

    /// Gives a client the answer to its request.
    pub(super) fn pass_back(&mut self, request: &DoorRequest, mut message: Members) {
        let status = match message.get("error") {
            Some(error) if request.is_modern() => modern_checks::status(read_error(Some(error)).code),
            _ => 200,
        };
        message.set("jsonrpc", "2.0");
        message.set("id", &request.id);
        self.streams.answer(request.channel, status, &message.to_raw());
    }

    /// Says what belongs to one participant as the room says it.
    pub(super) fn adapt(&mut self, asked: &ClientRequest, who: &ParticipantId, message: &mut Members) {
        let Some(result) = message.get("result") else { return };
        match (&*asked.request.method, &asked.uri) {
            ("resources/subscribe", Some((_, theirs))) => self.subscriptions.subscribe(who, theirs),
            ("resources/unsubscribe", Some((_, theirs))) => {
                self.subscriptions.unsubscribe(who, theirs);
            }
            ("resources/read", Some((asked, theirs))) if asked != theirs => {
                if let Some(renamed) = renamed_contents(result, theirs, asked) {
                    message.set("result", &renamed);
                }
            }
            ("tools/call", _) if self.is_room() && result.get().contains("resource_link") => {
                for uri in links(result) {
                    self.lists.merged.note_link(who, &uri);
                }
            }
            _ => {}
        }
    }
}

/// The error for a modern client that would have to open pages first, and does not declare that it can.
fn cannot_open_pages(who: &ParticipantId) -> RpcError {
    let told = format!("`{who}` wants a page to be opened first, and the client does not offer `{ELICITATION}`");
    let data = json!({ "requiredCapabilities": { "elicitation": { "url": {} } } });
    RpcError::new(code::MISSING_CAPABILITY, told).with_data(&data)
}
