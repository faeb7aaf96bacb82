//! A draft client's half of a conversation: its messages for the door, and the door's for it.
//!
//! To the door every request has a number of ours, which is its progress token too; the client hears its own ids. Lists are gathered page by
//! page, and the last that the client was told is remembered, so that a change can be told as a difference. Deliberately absent:
//! streams and time.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

use salon_mcp::listing::{self, ListItem, Listing};
use salon_mcp::{RpcHead, code, same_id};
use salon_protocol::{Members, RpcError, RpcId, rpc};
use serde_json::json;
use serde_json::value::RawValue;

use super::words::{self, Declared, raw};

/// How long a list may be that is answered whole.
const MAX_PAGES: usize = 1024;
const MAX_BYTES: usize = 32 << 20;

/// What is to be done with a message.
#[derive(Debug)]
pub(super) enum ClientAction<R> {
    /// The door is to hear it.
    Door(Box<RawValue>),
    /// The client is answered, where it asked.
    Answer(R, Box<RawValue>),
    /// A notification about a request, where it was made.
    About(R, Box<RawValue>),
    /// A notification to the client.
    Tell(Box<RawValue>),
    /// The client was refused something, which is counted.
    Refused(RpcError),
    /// The client is about to leave.
    ShuttingDown,
    /// The client leaves, or never came.
    Leave,
}

/// Somebody who speaks the dialect. `R` is where a request is answered.
#[derive(Debug)]
pub(super) struct DraftClient<R> {
    declared: Declared,
    greeted: bool,
    shutting_down: bool,
    open: BTreeMap<u64, DraftRequest<R>>,
    next: u64,
    tools: ListVersion,
    resources: ListVersion,
    actions: VecDeque<ClientAction<R>>,
}

/// A request that the door has not answered.
#[derive(Debug)]
enum DraftRequest<R> {
    /// The client's, under its own id.
    Client { id: Box<RawValue>, at: R, what: RequestKind },
    /// Ours, to find out what has changed.
    Look(DraftListReading),
}

#[derive(Debug)]
enum RequestKind {
    Hello,
    List(DraftListReading),
    Invoke,
    /// MCP has the same word for it, or the dialect none.
    Same,
}

/// A list that comes in pages.
#[derive(Debug)]
struct DraftListReading {
    listing: Listing,
    items: Vec<ListItem>,
    bytes: usize,
    pages: usize,
}

/// What the client was last told of a list.
#[derive(Debug, Default)]
struct ListVersion {
    /// Names, and what tells whether what they stand for is the same. None before it has asked.
    items: Option<BTreeMap<Box<str>, u64>>,
    /// Whether it is being looked at, and whether it has changed since.
    looking: bool,
    stale: bool,
}

impl<R: Clone> DraftClient<R> {
    pub(super) fn new() -> Self {
        Self {
            declared: Declared::default(),
            greeted: false,
            shutting_down: false,
            open: BTreeMap::new(),
            next: 0,
            tools: ListVersion::default(),
            resources: ListVersion::default(),
            actions: VecDeque::new(),
        }
    }

    /// What is to be done next.
    pub(super) fn poll(&mut self) -> Option<ClientAction<R>> {
        self.actions.pop_front()
    }

    /// Whether the client waits for something.
    pub(super) fn is_waiting(&self) -> bool {
        self.open.values().any(|asked| matches!(asked, DraftRequest::Client { .. }))
    }

    /// The client says something. `at` is where it is answered.
    pub(super) fn hear(&mut self, head: &RpcHead<'_>, at: R) {
        match (head.method.as_deref(), head.id) {
            (Some(method), Some(id)) => self.asked(method, id.to_owned(), head.params, at),
            (Some("initialized"), None) => self.notify_door("notifications/initialized", None),
            (Some("cancel"), None) => self.cancel(head.params),
            (Some("exit"), None) => self.actions.push_back(ClientAction::Leave),
            // Nobody asks such a client anything, and it has nothing else to tell.
            _ => {}
        }
    }

    fn asked(&mut self, method: &str, id: Box<RawValue>, params: Option<&RawValue>, at: R) {
        if RpcId::parse(id.get()).is_none() {
            return self.refuse(&id, at, RpcError::new(RpcError::INVALID_REQUEST, "an `id` is a number or a string"));
        }
        if self.shutting_down && !matches!(method, "shutdown" | "exit") {
            let told = "this session is shutting down; only `exit` follows";
            return self.refuse(&id, at, RpcError::new(RpcError::INVALID_REQUEST, told));
        }
        let gathering =
            |listing| RequestKind::List(DraftListReading { listing, items: Vec::new(), bytes: 0, pages: 0 });
        match method {
            "initialize" if !self.greeted => match words::initialize_mcp(params) {
                Ok((declared, hello)) => {
                    (self.declared, self.greeted) = (declared, true);
                    self.pass(id, at, RequestKind::Hello, method, Some(&hello));
                }
                Err(error) => {
                    self.refuse(&id, at, error);
                    self.actions.push_back(ClientAction::Leave);
                }
            },
            "tools/list" => self.pass(id, at, gathering(Listing::Tools), method, None),
            "resources/list" => self.pass(id, at, gathering(Listing::Resources), method, None),
            "tools/invoke" => {
                let token = self.declared.progress.then_some(self.next + 1);
                let params = words::invoke_to_mcp(params, token);
                self.pass(id, at, RequestKind::Invoke, "tools/call", params.as_deref());
            }
            // Both are notifications by the source; asked for an answer, they have nothing to say.
            "cancel" if !self.declared.cancellation => {
                let told = "`supportsCancellation` was not declared";
                self.refuse(&id, at, RpcError::new(RpcError::INVALID_REQUEST, told));
            }
            "cancel" => {
                self.cancel(params);
                self.actions.push_back(ClientAction::Answer(at, rpc::response(&id, RawValue::NULL)));
            }
            "exit" => {
                self.actions.push_back(ClientAction::Answer(at, rpc::response(&id, RawValue::NULL)));
                self.actions.push_back(ClientAction::Leave);
            }
            "shutdown" => {
                self.shutting_down = true;
                self.actions.push_back(ClientAction::Answer(at, rpc::response(&id, RawValue::NULL)));
                self.actions.push_back(ClientAction::ShuttingDown);
            }
            _ => self.pass(id, at, RequestKind::Same, method, params),
        }
    }

    fn refuse(&mut self, id: &RawValue, at: R, error: RpcError) {
        self.fail(id, at, &error);
        self.actions.push_back(ClientAction::Refused(error));
    }

    /// Answers with an error that is no refusal.
    fn fail(&mut self, id: &RawValue, at: R, error: &RpcError) {
        self.actions.push_back(ClientAction::Answer(at, rpc::failure(id, error)));
    }

    /// Nothing that is open will be answered otherwise.
    pub(super) fn give_up(&mut self, why: &str) {
        for asked in std::mem::take(&mut self.open).into_values() {
            if let DraftRequest::Client { id, at, .. } = asked {
                self.fail(&id, at, &RpcError::new(code::GONE, why));
            }
        }
    }

    fn notify_door(&mut self, method: &str, params: Option<&RawValue>) {
        self.actions.push_back(ClientAction::Door(rpc::notification(method, params)));
    }

    fn pass(&mut self, id: Box<RawValue>, at: R, what: RequestKind, method: &str, params: Option<&RawValue>) {
        self.ask_door(DraftRequest::Client { id, at, what }, method, params);
    }

    fn ask_door(&mut self, asked: DraftRequest<R>, method: &str, params: Option<&RawValue>) {
        self.next += 1;
        self.actions.push_back(ClientAction::Door(rpc::request(self.next, method, params)));
        self.open.insert(self.next, asked);
    }

    /// Takes a request back, and answers it. One that is not open has been answered; a handshake cannot be taken back.
    fn cancel(&mut self, params: Option<&RawValue>) {
        let Some(named) = words::cancelled(params).filter(|_| self.declared.cancellation) else { return };
        let is_it = |asked: &DraftRequest<R>| {
            let DraftRequest::Client { id, what, .. } = asked else { return false };
            !matches!(what, RequestKind::Hello) && same_id(id.get(), named.get())
        };
        let Some(number) = self.open.iter().find(|(_, asked)| is_it(asked)).map(|(number, _)| *number) else { return };
        self.notify_door("notifications/cancelled", Some(&raw(&json!({ "requestId": number }))));
        if let Some(DraftRequest::Client { id, at, .. }) = self.open.remove(&number) {
            self.fail(&id, at, &RpcError::new(RpcError::CANCELLED, "the request was cancelled"));
        }
    }

    /// The door says something.
    pub(super) fn receive_from_door(&mut self, text: &str) {
        let (Some(head), Some(message)) = (RpcHead::read(text), Members::parse(text)) else { return };
        match (head.method.as_deref(), head.id) {
            (None, Some(id)) => {
                // A cancelled request gets no more notifications.
                if let Some(asked) = id.get().parse().ok().and_then(|number: u64| self.open.remove(&number)) {
                    self.answered(asked, message);
                }
            }
            // What could not be read has no id to be answered under.
            (None, None) => self.actions.push_back(ClientAction::Tell(message.to_raw())),
            (Some("notifications/progress"), None) => self.progressed(head.params),
            (Some("notifications/tools/list_changed"), None) => self.changed(Listing::Tools),
            (Some("notifications/resources/list_changed"), None) => self.changed(Listing::Resources),
            (Some("notifications/resources/updated"), None) => {
                let uri = head.params.and_then(|params| Members::parse(params.get())?.remove("uri"));
                if let Some(uri) = uri {
                    self.notify_updated(&[uri]);
                }
            }
            (Some(_), None) => self.actions.push_back(ClientAction::Tell(message.to_raw())),
            // It has not said that it could be asked anything.
            (Some(method), Some(id)) => {
                let error = RpcError::method_not_found(method);
                self.actions.push_back(ClientAction::Door(rpc::failure(id, &error)));
            }
        }
    }

    fn answered(&mut self, asked: DraftRequest<R>, mut message: Members) {
        let result = message.get("result").map(ToOwned::to_owned);
        let (id, at, what) = match asked {
            DraftRequest::Look(gathering) => return self.looked(gathering, result.as_deref()),
            DraftRequest::Client { id, at, what } => (id, at, what),
        };
        if let Some(error) = message.get("error").map(words::error_to_draft) {
            message.set("error", &error);
        }
        if matches!(what, RequestKind::Hello) && result.is_none() {
            // The door ends a session that never began; the client may not begin another within it.
            self.greeted = false;
        }
        let result = match (what, result) {
            (RequestKind::Hello, Some(result)) => Some(words::introduction_to_draft(&result)),
            (RequestKind::Invoke, Some(result)) => Some(words::outcome_to_draft(&result)),
            (RequestKind::List(gathering), Some(result)) => match gathering.and(&result) {
                DraftPageOutcome::More(gathering, cursor) => {
                    let method = gathering.listing.method();
                    return self.pass(id, at, RequestKind::List(gathering), method, Some(&cursor));
                }
                DraftPageOutcome::Whole(listing, items) => {
                    self.known(listing).items = Some(fingerprints(&items));
                    Some(words::list_to_draft(items.iter().map(|item| &*item.raw)))
                }
                DraftPageOutcome::TooMuch => {
                    return self.refuse(&id, at, RpcError::internal("the list is too long to be told at once"));
                }
            },
            (RequestKind::Same, result) => result,
            (_, None) => None,
        };
        if let Some(result) = result {
            message.set("result", &result);
        }
        message.set("id", &id);
        self.actions.push_back(ClientAction::Answer(at, message.to_raw()));
    }

    /// A notification about a request, where the client wants that.
    fn progressed(&mut self, params: Option<&RawValue>) {
        let Some(params) = params.and_then(|params| Members::parse(params.get())) else { return };
        let number = params.get("progressToken").and_then(|token| token.get().parse().ok());
        let asked = number.and_then(|number: u64| self.open.get(&number));
        let Some(DraftRequest::Client { id, at, .. }) = asked.filter(|_| self.declared.progress) else { return };
        let told = rpc::notification("progress", Some(&words::progress_to_draft(&params, id)));
        self.actions.push_back(ClientAction::About(at.clone(), told));
    }

    fn known(&mut self, listing: Listing) -> &mut ListVersion {
        match listing {
            Listing::Resources | Listing::Templates => &mut self.resources,
            Listing::Tools | Listing::Prompts => &mut self.tools,
        }
    }

    /// A list has changed: it is looked at, to find out how. A client that has never asked for it knows of nothing that could change.
    fn changed(&mut self, listing: Listing) {
        let known = self.known(listing);
        if known.looking {
            known.stale = true;
        } else if known.items.is_some() {
            known.looking = true;
            let gathering = DraftListReading { listing, items: Vec::new(), bytes: 0, pages: 0 };
            self.ask_door(DraftRequest::Look(gathering), listing.method(), None);
        }
    }

    fn looked(&mut self, gathering: DraftListReading, result: Option<&RawValue>) {
        let listing = gathering.listing;
        let items = match result.map(|result| gathering.and(result)) {
            Some(DraftPageOutcome::More(gathering, cursor)) => {
                return self.ask_door(DraftRequest::Look(gathering), listing.method(), Some(&cursor));
            }
            Some(DraftPageOutcome::Whole(_, items)) => Some(items),
            // The next change is another chance to find out.
            Some(DraftPageOutcome::TooMuch) | None => None,
        };
        let known = self.known(listing);
        known.looking = false;
        let again = std::mem::take(&mut known.stale);
        if let Some(items) = items {
            let now = fingerprints(&items);
            let before = known.items.replace(now.clone()).unwrap_or_default();
            match listing {
                Listing::Resources | Listing::Templates => self.notify_resources(&before, &now),
                Listing::Tools | Listing::Prompts => self.notify_tools(&before, &now, &items),
            }
        }
        if again {
            self.changed(listing);
        }
    }

    /// A tool that is another now is among those added, and takes the place of its namesake.
    fn notify_tools(&mut self, before: &Fingerprints, now: &Fingerprints, items: &[ListItem]) {
        let is_new = |item: &&ListItem| before.get(&item.name) != now.get(&item.name);
        let added: Vec<&RawValue> = items.iter().filter(is_new).map(|item| &*item.raw).collect();
        let removed: Vec<&str> = before.keys().filter(|name| !now.contains_key(*name)).map(|name| &**name).collect();
        if added.is_empty() && removed.is_empty() {
            return;
        }
        let mut params = Members::default();
        params.set("added", &added);
        params.set("removed", &removed);
        self.actions.push_back(ClientAction::Tell(rpc::notification("tools/changed", Some(&params.to_raw()))));
    }

    /// Resources that are new, gone, or described otherwise than before.
    fn notify_resources(&mut self, before: &Fingerprints, now: &Fingerprints) {
        let names: BTreeSet<&str> = before.keys().chain(now.keys()).map(|name| &**name).collect();
        let differs = |name: &&str| before.get(*name) != now.get(*name);
        let updated: Vec<_> = names.into_iter().filter(differs).map(raw).collect();
        if !updated.is_empty() {
            self.notify_updated(&updated);
        }
    }

    fn notify_updated(&mut self, uris: &[Box<RawValue>]) {
        let mut params = Members::default();
        params.set("updated", uris);
        self.actions.push_back(ClientAction::Tell(rpc::notification("resources/changed", Some(&params.to_raw()))));
    }
}

type Fingerprints = BTreeMap<Box<str>, u64>;

/// What tells the elements of a list apart from others of the same name, in little room.
fn fingerprints(items: &[ListItem]) -> Fingerprints {
    let print = |item: &ListItem| {
        let mut hasher = DefaultHasher::new();
        item.raw.get().hash(&mut hasher);
        hasher.finish()
    };
    items.iter().map(|item| (item.name.clone(), print(item))).collect()
}

/// What a page makes of a list.
enum DraftPageOutcome {
    /// There is another page, asked for like this.
    More(DraftListReading, Box<RawValue>),
    Whole(Listing, Vec<ListItem>),
    TooMuch,
}

impl DraftListReading {
    fn and(mut self, result: &RawValue) -> DraftPageOutcome {
        // What has another shape than a list is an empty one.
        let (page, next) = listing::read_page(self.listing, result).unwrap_or_default();
        self.bytes += page.iter().map(|item| item.raw.get().len()).sum::<usize>();
        self.pages += 1;
        self.items.extend(page);
        match next {
            _ if self.bytes > MAX_BYTES || self.pages > MAX_PAGES => DraftPageOutcome::TooMuch,
            Some(cursor) => {
                let mut params = Members::default();
                params.set("cursor", &*cursor);
                DraftPageOutcome::More(self, params.to_raw())
            }
            None => DraftPageOutcome::Whole(self.listing, self.items),
        }
    }
}
