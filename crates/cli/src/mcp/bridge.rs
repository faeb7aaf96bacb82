//! Messages between a client and the gateway, and the answers while the gateway is away. Sans-IO: time is an argument.
//!
//! Invariants: every request of the client is answered once, by the gateway or by an error of ours; the client sees one answer to its
//! one `initialize`, however many sessions the gateway has had with it; no question of a lost session is answered to another.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use salon_protocol::rpc::{failure, notification};
use salon_protocol::{Members, RpcError, RpcId};
use serde_json::value::{RawValue, to_raw_value};

use super::head::{Heads, MessageHead, cancelled, promised_lists, speaks_draft, uri};
use super::lines::{MAX_LINE, ReadLine};
use crate::json;

/// How long something waits for a gateway that is away.
pub(super) const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How much waits for it at the most, and how many requests may be open at once.
const MAX_WAITING: usize = 1024;
const MAX_WAITING_BYTES: usize = 64 << 20;
const MAX_OPEN: usize = 4096;

/// How many subscriptions are made again in a new session.
const MAX_SUBSCRIPTIONS: usize = 1024;

const CANCELLED_METHOD: &str = "notifications/cancelled";

/// Where the gateway is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum BridgeLink {
    /// Not there, and why.
    Away(String),
    /// There again, and about to take the client back.
    Greeting,
    Ready,
}

/// The client's `initialize`, resent to every new session.
#[derive(Debug)]
struct ClientHandshake {
    text: String,
    id: RpcId,
    answered: bool,
    /// Its `notifications/initialized`.
    initialized: Option<String>,
}

/// Something that waits for the gateway.
#[derive(Debug)]
struct WaitingMessage {
    text: String,
    heads: Heads,
    until: Instant,
}

/// What we ask of a new session ourselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BridgeRequest {
    Handshake,
    Standing,
}

/// The gateway does not take the client back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CancelRefused(pub(super) String);

#[derive(Debug)]
pub(super) struct Bridge {
    link: BridgeLink,
    handshake: Option<ClientHandshake>,
    /// Whether a client of the draft dialect has sent its last message.
    exited: bool,
    /// What the client has set in its session: its log level, and its subscriptions by URI.
    level: Option<String>,
    subscriptions: BTreeMap<String, String>,
    /// Requests of the client that the gateway has.
    open: OpenIds,
    /// Questions of the gateway that the client has.
    open_questions: OpenIds,
    waiting: VecDeque<WaitingMessage>,
    waiting_bytes: usize,
    own_requests: HashMap<RpcId, BridgeRequest>,
    /// Names our own requests, as no client would.
    name: String,
    number: u64,
    limit: Option<usize>,
    to_client: VecDeque<String>,
    to_gateway: VecDeque<String>,
}

impl Bridge {
    /// With a gateway that is there. `name` is what no id of a client begins with.
    pub(super) fn new(name: String) -> Self {
        Self {
            link: BridgeLink::Ready,
            handshake: None,
            exited: false,
            level: None,
            subscriptions: BTreeMap::new(),
            open: OpenIds::default(),
            open_questions: OpenIds::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            own_requests: HashMap::new(),
            name,
            number: 0,
            limit: None,
            to_client: VecDeque::new(),
            to_gateway: VecDeque::new(),
        }
    }

    /// The next line for the client.
    pub(super) fn poll_client(&mut self) -> Option<String> {
        self.to_client.pop_front()
    }

    /// The next text for the gateway.
    pub(super) fn poll_gateway(&mut self) -> Option<String> {
        self.to_gateway.pop_front()
    }

    /// How many lines wait for the client.
    pub(super) fn client_backlog(&self) -> usize {
        self.to_client.len()
    }

    /// Whether somebody waits for an answer, or something waits to be sent.
    pub(super) fn is_in_flight(&self) -> bool {
        !self.open.is_empty() || !self.waiting.is_empty() || !self.to_gateway.is_empty()
    }

    /// Whether there is any use for a gateway now. Without a session a gateway sends nothing before it is asked.
    pub(super) fn needs_gateway(&self) -> bool {
        self.handshake.is_some() || !self.waiting.is_empty()
    }

    /// Whether the client has nothing more to say, though its input is open.
    pub(super) fn has_exited(&self) -> bool {
        self.exited
    }

    pub(super) fn is_greeting(&self) -> bool {
        self.link == BridgeLink::Greeting
    }

    /// When the first of those that wait has waited long enough.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.front().map(|waiting| waiting.until)
    }

    /// The gateway is there; it takes messages of so many bytes, where it says so.
    pub(super) fn connected(&mut self, limit: Option<usize>) {
        self.limit = limit.filter(|limit| *limit > 0);
        match self.handshake.as_ref().filter(|handshake| handshake.answered).map(|handshake| handshake.text.clone()) {
            Some(handshake) => {
                self.link = BridgeLink::Greeting;
                self.send_own_request(&handshake, BridgeRequest::Handshake);
            }
            None => self.proceed(),
        }
    }

    /// The connection is gone, and with it everything that was under way.
    pub(super) fn lost(&mut self, why: &str, now: Instant) {
        self.link = BridgeLink::Away(why.to_owned());
        self.own_requests.clear();
        self.to_gateway.clear();
        let handshake =
            self.handshake.as_ref().filter(|handshake| !handshake.answered).map(|handshake| handshake.id.clone());
        for id in self.open.take() {
            if Some(&id) != handshake.as_ref() {
                self.fail(&id, &self.gone());
            } else if let Some(ClientHandshake { text, .. }) = &self.handshake {
                // Without its answer a client gives up, so this one is asked again.
                let heads = Heads::read(text).expect("it was read before");
                self.waiting_bytes += text.len();
                self.waiting.push_front(WaitingMessage { text: text.clone(), heads, until: now + RECONNECT_TIMEOUT });
            }
        }
        for id in self.open_questions.take() {
            let reason =
                RawValue::from_string(format!(r#"{{"requestId":{},"reason":"the gateway is gone"}}"#, id.to_json()));
            let cancelled = notification(CANCELLED_METHOD, Some(&reason.expect("an id is JSON")));
            self.to_client.push_back(cancelled.get().to_owned());
        }
    }

    /// There will be no gateway any more: waiting requests fail with the reason.
    pub(super) fn give_up(&mut self, why: &str) {
        let error = RpcError::new(RpcError::SERVER_ERROR, why);
        let waiting: Vec<_> = self.waiting.drain(..).collect();
        let ids =
            self.open.take().into_iter().chain(waiting.iter().flat_map(|waiting| waiting.heads.requests().cloned()));
        for id in ids.collect::<Vec<_>>() {
            self.fail(&id, &error);
        }
    }

    /// Fails requests that have waited too long for the gateway to come back.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| waiting.until <= now) {
            self.waiting_bytes -= waiting.text.len();
            self.reject_connection(&waiting.heads);
        }
    }

    /// A line from the client.
    pub(super) fn handle_line(&mut self, line: ReadLine, now: Instant) {
        let bytes = match line {
            ReadLine::Whole(bytes) => bytes,
            ReadLine::TooLong => {
                return self
                    .fail_unread(RpcError::INVALID_REQUEST, format!("the message has more than {MAX_LINE} bytes"));
            }
        };
        let Ok(text) = String::from_utf8(bytes) else {
            return self.fail_unread(RpcError::PARSE_ERROR, "the line is not UTF-8".into());
        };
        let text = text.trim_ascii();
        if text.is_empty() {
            return;
        }
        let Some(heads) = Heads::read(text) else {
            return self.fail_unread(RpcError::PARSE_ERROR, "the line is not JSON".into());
        };
        if let Some(limit) = self.limit.filter(|limit| text.len() > *limit) {
            return self.too_long(&heads, text.len(), limit);
        }
        self.pass(text, heads, now);
    }

    fn pass(&mut self, text: &str, heads: Heads, now: Instant) {
        if let Some(MessageHead::Response { id, .. }) = heads.only()
            && !self.open_questions.close(id)
        {
            // It answers a question of a session that is over.
            return;
        }
        if heads.requests().count() + self.open.len() > MAX_OPEN {
            let error =
                RpcError::new(RpcError::SERVER_ERROR, format!("more than {MAX_OPEN} requests wait for an answer"));
            return heads.requests().for_each(|id| self.fail(id, &error));
        }
        self.note(text, &heads);
        if self.link == BridgeLink::Ready {
            self.send(text.to_owned(), &heads);
        } else if self.waiting.len() < MAX_WAITING && self.waiting_bytes + text.len() <= MAX_WAITING_BYTES {
            self.waiting_bytes += text.len();
            self.waiting.push_back(WaitingMessage { text: text.to_owned(), heads, until: now + RECONNECT_TIMEOUT });
        } else {
            self.reject_connection(&heads);
        }
    }

    /// Keeps the messages that a new session has to get again.
    fn note(&mut self, text: &str, heads: &Heads) {
        match heads.only() {
            Some(MessageHead::Request { id, method }) => match &**method {
                "initialize" => {
                    self.handshake = Some(ClientHandshake {
                        text: text.to_owned(),
                        id: id.clone(),
                        answered: false,
                        initialized: None,
                    });
                    (self.level, self.subscriptions) = (None, BTreeMap::new());
                }
                "logging/setLevel" => self.level = Some(text.to_owned()),
                "resources/subscribe" => {
                    if let Some(uri) = uri(text)
                        && (self.subscriptions.len() < MAX_SUBSCRIPTIONS || self.subscriptions.contains_key(&uri))
                    {
                        self.subscriptions.insert(uri, text.to_owned());
                    }
                }
                "resources/unsubscribe" => {
                    if let Some(uri) = uri(text) {
                        self.subscriptions.remove(&uri);
                    }
                }
                _ => {}
            },
            Some(MessageHead::Notification { method })
                if matches!(&**method, "notifications/initialized" | "initialized") =>
            {
                if let Some(handshake) = &mut self.handshake {
                    handshake.initialized = Some(text.to_owned());
                }
            }
            Some(MessageHead::Notification { method }) if &**method == "exit" => {
                self.exited = self.handshake.as_ref().is_some_and(|handshake| speaks_draft(&handshake.text));
            }
            Some(MessageHead::Notification { method }) if &**method == CANCELLED_METHOD => {
                // There may be no answer to it, and nobody waits for one.
                if let Some(id) = cancelled(text) {
                    self.open.close(&id);
                }
            }
            _ => {}
        }
    }

    fn send(&mut self, text: String, heads: &Heads) {
        heads.requests().for_each(|id| self.open.open(id.clone()));
        self.to_gateway.push_back(text);
    }

    /// A text from the gateway.
    pub(super) fn handle_text(&mut self, text: &str) -> Result<(), CancelRefused> {
        let Some(heads) = Heads::read(text) else { return Ok(()) };
        if let Some(MessageHead::Response { id, succeeded }) = heads.only()
            && let Some(own_request) = self.own_requests.remove(id)
        {
            return match own_request {
                BridgeRequest::Standing => Ok(()),
                BridgeRequest::Handshake if *succeeded => {
                    self.cancel_outcome(text);
                    Ok(())
                }
                BridgeRequest::Handshake => Err(CancelRefused(error_message(text))),
            };
        }
        if matches!(heads.only(), Some(MessageHead::Notification { method }) if &**method == CANCELLED_METHOD)
            && let Some(id) = cancelled(text)
        {
            self.open_questions.close(&id);
        }
        for head in &heads.all {
            match head {
                MessageHead::Response { id, succeeded } => {
                    self.open.close(id);
                    if let Some(handshake) =
                        self.handshake.as_mut().filter(|handshake| !handshake.answered && handshake.id == *id)
                    {
                        handshake.answered = *succeeded;
                        if !*succeeded {
                            self.handshake = None;
                        }
                    }
                }
                MessageHead::Request { id, .. } if self.open_questions.len() < MAX_OPEN => {
                    self.open_questions.open(id.clone())
                }
                _ => {}
            }
        }
        // A message is a line, whichever side wrote it.
        let line = if text.contains(['\n', '\r']) { json::compact(text) } else { text.to_owned() };
        self.to_client.push_back(line);
        Ok(())
    }

    /// The new session has taken the client's `initialize`: subscriptions and the log level of the old one follow.
    fn cancel_outcome(&mut self, answer: &str) {
        self.to_gateway.extend(self.handshake.as_ref().and_then(|handshake| handshake.initialized.clone()));
        let standing: Vec<_> = self.level.iter().chain(self.subscriptions.values()).cloned().collect();
        for text in standing {
            self.send_own_request(&text, BridgeRequest::Standing);
        }
        for list in promised_lists(answer) {
            // Changes in between were not announced.
            let changed = notification(&format!("notifications/{list}/list_changed"), None);
            self.to_client.push_back(changed.get().to_owned());
        }
        self.proceed();
    }

    /// Everything that waited may go.
    fn proceed(&mut self) {
        self.link = BridgeLink::Ready;
        self.waiting_bytes = 0;
        for WaitingMessage { text, heads, .. } in std::mem::take(&mut self.waiting) {
            self.send(text, &heads);
        }
    }

    /// Asks something of the gateway that the client has asked before, under an id of our own.
    fn send_own_request(&mut self, text: &str, own_request: BridgeRequest) {
        let Some(mut members) = Members::parse(text) else { return };
        self.number += 1;
        let id = format!("{}-{}", self.name, self.number);
        members.set("id", &id);
        self.own_requests.insert(RpcId::String(id.into()), own_request);
        self.to_gateway.push_back(members.to_raw().get().to_owned());
    }

    fn gone(&self) -> RpcError {
        let why = match &self.link {
            BridgeLink::Away(why) => format!(": {why}"),
            BridgeLink::Greeting | BridgeLink::Ready => String::new(),
        };
        RpcError::new(RpcError::SERVER_ERROR, format!("the gateway is gone{why}; reconnecting"))
    }

    /// Answers the requests of what will not be sent.
    fn reject_connection(&mut self, heads: &Heads) {
        let error = self.gone();
        for id in heads.requests() {
            self.fail(id, &error);
            if self.handshake.as_ref().is_some_and(|handshake| !handshake.answered && handshake.id == *id) {
                self.handshake = None;
            }
        }
    }

    fn too_long(&mut self, heads: &Heads, bytes: usize, limit: usize) {
        let message = format!("the message has {bytes} bytes; this gateway takes at most {limit}");
        let error = RpcError::new(RpcError::INVALID_REQUEST, message);
        heads.requests().for_each(|id| self.fail(id, &error));
        // The asker must not wait for an answer that cannot be sent.
        for id in heads.responses() {
            if self.open_questions.close(id) && self.link == BridgeLink::Ready {
                self.to_gateway.push_back(failure(&id.to_raw(), &error).get().to_owned());
            }
        }
    }

    fn fail(&mut self, id: &RpcId, error: &RpcError) {
        self.to_client.push_back(failure(&id.to_raw(), error).get().to_owned());
    }

    /// An error about something whose id could not be read.
    fn fail_unread(&mut self, code: i64, message: String) {
        let nobody = to_raw_value(&()).expect("null is JSON");
        self.to_client.push_back(failure(&nobody, &RpcError::new(code, message)).get().to_owned());
    }
}

fn error_message(text: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Answer {
        error: RpcError,
    }
    serde_json::from_str::<Answer>(text).map_or_else(|_| "it does not say why".into(), |answer| answer.error.message)
}

/// Ids that wait for an answer, in the order they came.
#[derive(Debug, Default)]
struct OpenIds {
    ids: HashMap<RpcId, u64>,
    next: u64,
}

impl OpenIds {
    fn len(&self) -> usize {
        self.ids.len()
    }

    fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn open(&mut self, id: RpcId) {
        self.next += 1;
        self.ids.insert(id, self.next);
    }

    /// Whether it was open.
    fn close(&mut self, id: &RpcId) -> bool {
        self.ids.remove(id).is_some()
    }

    fn take(&mut self) -> Vec<RpcId> {
        let mut ids: Vec<_> = self.ids.drain().collect();
        ids.sort_by_key(|(_, number)| *number);
        ids.into_iter().map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
#[path = "bridge_tests.rs"]
mod tests;
