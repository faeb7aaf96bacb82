//! From the client to the others: whom a request is for, and how it is passed on.

use std::time::{Duration, Instant};

use salon_mcp::listing::Listing;
use salon_mcp::{Era, meta};
use salon_protocol::{Draft, Members, ParticipantId, RpcError, rpc};

use super::counted::code_of;
use super::door_call::{CallPurpose, ClientRequest, DoorCall};
use super::incoming::{text_of, token_of};
use super::list_copy::FetchedPeerList;
use super::merge::OwnerLookup;
use super::modern;
use super::targets::{RequestTarget, ambiguous, completed, not_yet, unknown};
use super::{Door, DoorRequest, DoorScope, askers, modern_checks};

/// The longest id of a participant, beyond which no name begins with one.
const MAX_OWNER_LENGTH: usize = 128;

/// How long a call may go on without progress. Clients give up sooner, by cancelling; this is for those that never do.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(600);

impl Door {
    /// Sees to a request of a client that has its seat.
    pub(super) fn serve(&mut self, request: DoorRequest, now: Instant) {
        let modern = request.is_modern();
        match &*request.method {
            "initialize" if !modern => return self.introduce(request, now),
            "server/discover" if modern => return self.discover(request, now),
            "subscriptions/listen" if modern => return self.open_listen(request, now),
            "initialize" | "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" if modern => {
                let told = format!("MCP {} has no `{}`", request.profile.revision, request.method);
                return self.refuse(&request, RpcError::new(RpcError::METHOD_NOT_FOUND, told));
            }
            _ => {}
        }
        if modern && let Some(resumed) = self.resumed(&request) {
            return match resumed {
                Ok(number) => self.resume(number, request, now),
                Err(error) => self.refuse(&request, error),
            };
        }
        // Which arguments travel as headers too is only known from the list of tools.
        if request.headers.is_some() && modern && &*request.method == "tools/call" {
            return self.gather_tool(request, now);
        }
        match &self.options.scope {
            DoorScope::One(who) => {
                let who = who.clone();
                self.pass_on(request, &who, None, now);
            }
            DoorScope::Room => self.serve_room(request, false, now),
        }
    }

    /// The same once the lists that it needed are there, or not to be had.
    pub(super) fn serve_gathered(&mut self, request: DoorRequest, now: Instant) {
        if &*request.method == "subscriptions/listen" {
            return self.begin_listen(request, now);
        }
        match &self.options.scope {
            DoorScope::One(who) => {
                let who = who.clone();
                let name = text_of(request.params.as_deref(), "name").unwrap_or_default();
                match self.check_headers(&request, &who, &name) {
                    Ok(()) => self.pass_on(request, &who, None, now),
                    Err(wrong) => self.refuse_with(&request, wrong.status, &wrong.error),
                }
            }
            DoorScope::Room => self.serve_room(request, true, now),
        }
    }

    fn refuse_with(&mut self, request: &DoorRequest, status: u16, error: &RpcError) {
        self.outbox.count(code_of(error));
        let message = rpc::failure(&request.id, error);
        self.streams.answer(request.channel, status, &message);
    }

    /// The headers that repeat arguments of a tool.
    fn check_headers(
        &self,
        request: &DoorRequest,
        who: &ParticipantId,
        name: &str,
    ) -> Result<(), modern_checks::ModernError> {
        let Some(headers) = request.headers.as_deref().filter(|_| request.is_modern()) else { return Ok(()) };
        let tools = self.lists.merged.items(who, Listing::Tools);
        let Some(tool) = tools.iter().find(|tool| *tool.name == *name) else { return Ok(()) };
        let params = request.params.as_deref().and_then(|params| Members::parse(params.get())).unwrap_or_default();
        modern_checks::check_params(headers, &tool.raw, params.get("arguments"))
    }

    fn serve_room(&mut self, request: DoorRequest, gathered: bool, now: Instant) {
        if let Some(listing) = Listing::of_method(&request.method) {
            return self.list(request, listing, now);
        }
        if &*request.method == "logging/setLevel" {
            return self.set_level(&request, now);
        }
        let params = request.params.as_deref();
        let target = match &*request.method {
            "tools/call" => text_of(params, "name").map(|name| RequestTarget::Name(Listing::Tools, name)),
            "prompts/get" => text_of(params, "name").map(|name| RequestTarget::Name(Listing::Prompts, name)),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                text_of(params, "uri").map(RequestTarget::Uri)
            }
            "completion/complete" => completed(params),
            other => {
                let error = RpcError::method_not_found(other);
                return self.refuse(&request, error);
            }
        };
        let Some(target) = target else {
            let what = match &*request.method {
                "tools/call" | "prompts/get" => "`name` must be a string",
                "completion/complete" => "`ref` must be a `ref/prompt` with a `name` or a `ref/resource` with a `uri`",
                _ => "`uri` must be a string",
            };
            return self.refuse(&request, RpcError::invalid_params(what));
        };
        let (found, needs): (_, &'static [Listing]) = match &target {
            RequestTarget::Name(Listing::Tools, name) => {
                (self.lists.merged.find(Listing::Tools, name), &[Listing::Tools])
            }
            RequestTarget::Name(_, name) => (self.lists.merged.find(Listing::Prompts, name), &[Listing::Prompts]),
            RequestTarget::Uri(uri) => (self.lists.merged.find_uri(uri), &[Listing::Resources, Listing::Templates]),
            RequestTarget::Template(uri) => {
                (self.lists.merged.find_template(uri), &[Listing::Resources, Listing::Templates])
            }
        };
        match found {
            OwnerLookup::One(who, theirs) => self.pass_to(request, &who, &target, theirs, now),
            OwnerLookup::Several(owners) => {
                let error = ambiguous(&target, &owners);
                self.refuse(&request, error);
            }
            OwnerLookup::Nobody => match self.owner_named(&target) {
                Some((who, theirs)) => self.pass_to(request, &who, &target, theirs, now),
                None if gathered => {
                    let is_settled = self.options.returning_until.is_none_or(|until| until <= now);
                    let error = if is_settled { unknown(&target, request.profile.era()) } else { not_yet(&target) };
                    self.refuse(&request, error);
                }
                None => self.gather(needs, request, now),
            },
        }
    }

    /// The participant whose name stands before that of a tool or prompt. The participant itself answers whether it has such a one: it may offer
    /// this client more than it lists to others.
    fn owner_named(&self, target: &RequestTarget) -> Option<(ParticipantId, String)> {
        let RequestTarget::Name(_, name) = target else { return None };
        let (who, theirs) = name.split_once("__").filter(|(who, _)| who.len() <= MAX_OWNER_LENGTH)?;
        // An ambiguous one counts as missing.
        if theirs.starts_with('_') || theirs.contains("__") {
            return None;
        }
        let who = ParticipantId::new(who).ok()?;
        self.peers.has(&who).then(|| (who, theirs.to_owned()))
    }

    fn pass_to(
        &mut self,
        mut request: DoorRequest,
        who: &ParticipantId,
        target: &RequestTarget,
        theirs: String,
        now: Instant,
    ) {
        if let Err(wrong) = self.check_headers(&request, who, &theirs) {
            return self.refuse_with(&request, wrong.status, &wrong.error);
        }
        let mut uri = None;
        let renamed = request.params.as_deref().and_then(|params| Members::parse(params.get())).map(|mut params| {
            if &*request.method == "completion/complete" {
                let mut named = params.get("ref").and_then(|named| Members::parse(named.get())).unwrap_or_default();
                let key = if matches!(target, RequestTarget::Name(..)) { "name" } else { "uri" };
                named.set(key, &theirs);
                params.set("ref", &named);
            } else if let RequestTarget::Uri(asked) = target {
                params.set("uri", &theirs);
                uri = Some((asked.clone(), theirs.clone()));
            } else {
                params.set("name", &theirs);
                // What a task is called here nobody else would know.
                params.remove("task");
            }
            params.to_raw()
        });
        request.params = renamed;
        self.pass_on(request, who, uri, now);
    }

    /// Passes a request on as it is.
    pub(super) fn pass_on(
        &mut self,
        mut request: DoorRequest,
        who: &ParticipantId,
        uri: Option<(String, String)>,
        now: Instant,
    ) {
        let era = self.peers.era(who, request.profile.era());
        match (&*request.method, era) {
            (_, Some(Era::Legacy)) if request.is_modern() && modern::has_state(&request) => {
                return self.refuse(&request, modern::lost());
            }
            ("logging/setLevel", Some(Era::Legacy)) => self.note_level(&request, who),
            ("logging/setLevel", Some(Era::Modern)) => return self.set_level(&request, now),
            ("resources/subscribe" | "resources/unsubscribe", Some(Era::Modern)) => {
                return self.resubscribe(&request, who, now);
            }
            _ => {}
        }
        let params = request.params.take();
        let (method, profile) = (request.method.clone(), request.profile.clone());
        let uri = uri.or_else(|| text_of(params.as_deref(), "uri").map(|uri| (uri.clone(), uri)));
        // Another subscription of the same client's goes on.
        if let Some((_, theirs)) = uri.as_ref().filter(|_| &*method == "resources/unsubscribe")
            && self.subscriptions.is_streamed(who, theirs)
        {
            self.subscriptions.unsubscribe(who, theirs);
            return self.streams.answer_request(&request, &Ok(super::empty()));
        }
        let token = token_of(params.as_deref());
        let number = self.fresh();
        let purpose = CallPurpose::Client(Box::new(ClientRequest::new(request, token, uri)));
        // The gateway's own participant answers always, and a subscription lasts.
        let lasts = who.is_host() || &*method == "subscriptions/listen";
        let deadline = (!lasts).then(|| now + CALL_TIMEOUT);
        self.calls.insert(number, DoorCall::new(who, method, params, profile, purpose), deadline);
        self.dispatch(number, now);
    }

    /// Sends a request to the room, as soon as its participant has the handshake it needs.
    pub(super) fn dispatch(&mut self, number: u64, now: Instant) {
        let Some(call) = self.calls.get(number) else { return };
        let (who, profile) = (call.to.clone(), call.profile.clone());
        let Some(era) = self.peers.era(&who, profile.era()) else {
            let error = self.absent(&who);
            return self.fail(number, &error, now);
        };
        if call.is_client() && askers::is_call(&call.method) {
            self.grant_questions(&who, &profile, now);
        }
        let is_handshake = self.calls.get(number).is_some_and(|call| matches!(call.purpose, CallPurpose::Handshake));
        if era == Era::Legacy && !is_handshake {
            match self.is_peer_ready(&who, number, &profile, now) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.fail(number, &error, now),
            }
            if self.lacks(number, &who) {
                return self.answered_empty(number, now);
            }
            if let Some(level) = profile.level {
                self.request_level(&who, level, &profile, now);
            }
        }
        if !self.wait_at_gateway(number, era) {
            self.send(number, era, now);
        }
    }

    /// Whether a participant declared in its handshake that it has no such list.
    fn lacks(&self, number: u64, who: &ParticipantId) -> bool {
        let Some(DoorCall { purpose: CallPurpose::List(reading), .. }) = self.calls.get(number) else { return false };
        let server = self.peers.server(who);
        server.is_some_and(|server| !server.has(reading.listing.capability()))
    }

    fn answered_empty(&mut self, number: u64, now: Instant) {
        if let Some(DoorCall { to, purpose: CallPurpose::List(reading), .. }) = self.drop_call(number) {
            self.keep_list(FetchedPeerList::empty(&to, reading.listing), now);
        }
    }

    pub(super) fn send(&mut self, number: u64, era: Era, now: Instant) {
        let Some(call) = self.calls.get(number) else { return };
        let (who, method, profile) = (call.to.clone(), call.method.clone(), call.profile.clone());
        let is_client = call.is_client();
        let keeps_token = call.client().is_some_and(|asked| asked.token.is_some());
        // A request of the door's own may have to be sent again, and so may a call across the eras whose client is asked something.
        let params = self.calls.params(number, !is_client || profile.era() != era);
        let params = match (profile.era(), era) {
            (Era::Modern, Era::Legacy) => params.map(|params| meta::strip(&params).unwrap_or(params)),
            (Era::Modern, Era::Modern) if is_client => params,
            (_, Era::Modern) => {
                let me = self.info();
                let hello = profile.hello();
                let asker = meta::RequesterMeta {
                    capabilities: &hello.modern_capabilities(),
                    info: hello.info.as_deref().unwrap_or(&me),
                    level: profile.level.or(self.client.level()),
                };
                meta::upgrade(params.as_deref(), asker)
            }
            (Era::Legacy, Era::Legacy) => params,
        };
        let payload = |id: &str| {
            let ours =
                params.as_deref().filter(|_| keeps_token).and_then(|params| meta::with_progress_token(params, &id));
            rpc::request(id, &method, ours.as_deref().or(params.as_deref()))
        };
        match self.outbox.compose(std::slice::from_ref(&who), None, payload, now) {
            Ok(draft) => {
                self.send_call(number, Box::new(draft), era);
                if is_client {
                    if self.peers.note_call(&who) {
                        self.lists.expire(&who, now);
                    }
                    self.lists.note_candidate(&who);
                }
            }
            Err(refusal) => self.fail_refused(number, &refusal, now),
        }
    }

    /// Sends a draft, in an era. What may have to be sent again unchanged is kept.
    pub(super) fn send_call(&mut self, number: u64, draft: Box<Draft>, era: Era) {
        self.sessions.note(draft.envelope(), true);
        self.calls.sent(number, &draft, era);
        self.outbox.publish(draft);
    }
}
