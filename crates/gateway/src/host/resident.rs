//! The host at work in one room: hears what is asked, answers what it can at once, and keeps the rest going beside that.
//!
//! It reads the room twice. One cursor yields what names the host: requests to it, cancellations, and which of its own requests
//! have failed. The other yields everything, but only once the host has had to ask somebody something: answers, no matter whom they
//! name, and changes of what is offered. It is read first, so that a question about the room is answered with all that came before
//! the question.

mod attending;
pub(super) mod registry;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use salon_control::called_tool;
use salon_dialects::WAIT_TOOL;
use salon_log::ContextStore;
use salon_protocol::{
    CloseReason, Entry, EnvelopeId, Message, Participant, ParticipantId, Position, RpcError, RpcId,
    SESSION_ENDED_METHOD, Stamp,
};
use salon_rooms::{Cursor, Happening, Residence, Rooms};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::approver_forms::{ApprovalForm, ApproverForms, EligibleSessions, FormOutcome, FormSession};
use super::arguments::Arguments;
use super::calls::HostCall;
use super::catalogue::REVALIDATION_INTERVAL;
use super::context::RoomContext;
use super::library::{HostQuery, Library, LibraryDesk};
use super::office::{HostRequest, Office};
use super::speech::{self, HostOutcome, text};
use super::tools::HostToolbox;
use super::{initialize, messages, waiting};

const BATCH: usize = 64 * 1024;

/// How many answers a room works on at once: in all, for one caller, and that ask others.
const MAX_ANSWERS: usize = 1024;
const MAX_OF_ONE: usize = 16;
const MAX_GATHERINGS: usize = 64;

/// How many requests that the host of another node answers are remembered, in case that node ends before it has.
const MAX_PASSED: usize = 1024;

/// How often the host goes round before a door's question is answered with what is known, in a room that never falls silent.
const MAX_ROUNDS: usize = 256;

/// An answer that is being worked on.
struct Running {
    caller: ParticipantId,
    /// `None` where a door waits for the caller, outside of the log.
    request: Option<HostRequest>,
    is_gathering: bool,
    /// Set before the answer is published: a caller that has read it may send the next request at once, and this counts no more then.
    is_decided: Arc<AtomicBool>,
    cancel: Option<oneshot::Sender<()>>,
}

pub(super) struct Resident {
    /// Yields what names the host.
    named: Cursor,
    /// Yields everything.
    everything: Option<Cursor>,
    office: Arc<Office>,
    /// What is kept in this room by name.
    context: RoomContext,
    /// Where doors ask what somebody offers.
    library: LibraryDesk,
    /// Answers and handshakes. They end with this.
    tasks: JoinSet<()>,
    running: HashMap<Id, Running>,
    opened_at: Position,
    /// Which clients are asked about calls that wait for approval.
    forms: ApproverForms,
    /// Counts the changes of settings and held calls.
    control_changes: watch::Receiver<u64>,
    /// Questions to approvers. They end with this.
    questions: JoinSet<(EnvelopeId, FormSession, FormOutcome)>,
    /// For tools that are about another room.
    rooms: Rooms,
    /// The newest requests that are another node's to answer.
    passed: VecDeque<Arc<Entry>>,
    /// Counts the nodes that are gone, where there are several.
    gone: Option<watch::Receiver<u64>>,
    /// When lists that are too old are asked for again, and changes of tools announced that waited.
    revalidation: Interval,
}

impl Resident {
    pub(super) fn new(
        toolbox: Arc<HostToolbox>,
        context: Arc<dyn ContextStore>,
        residence: Residence,
        library: &Arc<Library>,
    ) -> Self {
        let Residence { cursor, desk, opened_at, rooms } = residence;
        let library = library.open(desk.topic());
        let mut revalidation = interval(REVALIDATION_INTERVAL);
        revalidation.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            revalidation,
            passed: VecDeque::new(),
            gone: desk.gone(),
            forms: ApproverForms::default(),
            control_changes: desk.control_changes(),
            questions: JoinSet::new(),
            named: cursor,
            everything: None,
            context: RoomContext::new(context),
            office: Arc::new(Office::new(toolbox, desk, library.board().clone())),
            library,
            tasks: JoinSet::new(),
            running: HashMap::new(),
            opened_at,
            rooms,
        }
    }

    /// Lives there until the room ends.
    pub(super) async fn reside(mut self) {
        let (mut named, mut overheard) = (Vec::new(), Vec::new());
        let (mut looked_around, mut rounds) = (false, 0_usize);
        let board = self.office.board.clone();
        loop {
            rounds += 1;
            let is_attending = self.everything.is_some();
            let listening = async {
                match &mut self.everything {
                    Some(cursor) => cursor.next(&mut overheard, BATCH).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! { biased;
                heard = listening, if !looked_around => match heard {
                    Ok(()) => {
                        overheard.drain(..).for_each(|happening| self.overhear(&happening));
                        looked_around = true;
                    }
                    Err(CloseReason::Shutdown | CloseReason::Deleted) => return,
                    Err(reason) => self.start_over(reason),
                },
                // What is done counts no more when the next request is admitted.
                Some(ended) = self.tasks.join_next_with_id() => self.finish(ended).await,
                // Before the next request is served: its answer is not to come before the news of what was done before it.
                news = self.context.next() => self.context.tell(&self.office, news),
                heard = self.named.next(&mut named, BATCH) => {
                    if heard.is_err() {
                        return;
                    }
                    for happening in named.drain(..) {
                        self.hear(happening).await;
                    }
                }
                () = node_lost(&mut self.gone) => self.serve_passed().await,
                Ok(()) = self.control_changes.changed() => self.ask_approvers(),
                Some(asked) = self.questions.join_next() => {
                    if let Ok((hold, session, FormOutcome::Unasked)) = asked {
                        self.forms.unasked(&hold, &session);
                    }
                }
                () = board.followed(), if !is_attending => self.attend(),
                _ = self.revalidation.tick(), if self.office.catalogue().has_upkeep() => {
                    let now = Instant::now();
                    let (list_requests, changes) = {
                        let mut catalogue = self.office.catalogue();
                        (catalogue.revalidate(now), catalogue.due_tool_changes(now))
                    };
                    self.run(list_requests);
                    changes.iter().for_each(|(who, changes)| self.office.announce_tool_changes(who, changes));
                }
                // Only what has been overheard counts, so this waits until nothing is left to overhear; but not for ever.
                query = self.library.next(), if !looked_around || rounds > MAX_ROUNDS => {
                    rounds = 0;
                    match query {
                        HostQuery::One { asker, stamp, who, listing, answer } => {
                            self.look_up((&asker, stamp.as_ref()), &who, listing, answer).await;
                        }
                        HostQuery::Gather { asker, listings, answer } => self.gather(&asker, listings, answer),
                        HostQuery::Wait { asker, stamp, params, answer } => {
                            self.ask_waiting(&asker).await;
                            self.wait_for_door(asker, stamp.as_ref(), &params, answer);
                        }
                    }
                }
                // A room that never falls silent must not keep the host from what names it, so that has its turn in between.
                () = std::future::ready(()), if looked_around => looked_around = false,
            }
        }
    }

    async fn hear(&mut self, happening: Happening) {
        if let Happening::CallFailed(failed) = &happening {
            self.office.calls.failed(&failed.request);
        }
        for entry in happening.entries() {
            match entry.envelope.message() {
                Some(Message::Request { id, method }) => self.serve(entry, id, method).await,
                Some(Message::Notification { method }) if &**method == "notifications/cancelled" => self.cancel(entry),
                Some(Message::Notification { method }) if &**method == SESSION_ENDED_METHOD => {
                    self.context.session_ended(&entry.envelope);
                    self.forms.session_ended(&entry.envelope);
                }
                _ => {}
            }
        }
    }

    /// Answers a request, or begins to.
    async fn serve(&mut self, entry: &Arc<Entry>, id: &RpcId, method: &str) {
        // The host of that node answers.
        if self.office.desk.is_elsewhere(entry.envelope.from()) {
            if method == "tools/call" && called_tool(&entry.envelope).as_deref() == Some("message.status") {
                messages::contribute(&self.office, entry.envelope.id()).await;
            }
            if self.passed.len() == MAX_PASSED {
                self.passed.pop_front();
            }
            self.passed.push_back(entry.clone());
            return;
        }
        let is_old = self.opened_at.in_order(entry.position) == Some(false);
        self.serve_here(entry, id, method, is_old).await;
    }

    /// Serves what was left to another node, unless it was answered or its caller sits elsewhere: a node is gone that may have been
    /// the one. Several nodes may do so at once; the ids of what they write are the same, so it is stored once.
    async fn serve_passed(&mut self) {
        for entry in std::mem::take(&mut self.passed) {
            if self.office.desk.is_elsewhere(entry.envelope.from()) {
                self.passed.push_back(entry);
            } else if let Some(Message::Request { id, method }) = entry.envelope.message() {
                self.serve_here(&entry, id, method, true).await;
            }
        }
    }

    async fn serve_here(&mut self, entry: &Arc<Entry>, id: &RpcId, method: &str, is_old: bool) {
        if is_old && self.office.has_answered(entry).await {
            return;
        }
        let mut request = HostRequest { entry: entry.clone(), id: id.clone(), purpose: "answer", is_old };
        let params = entry.envelope.params();
        match method {
            "initialize" => self.forms.meet(&entry.envelope, entry.stamp.as_ref()),
            _ => self.forms.hear(&entry.envelope, entry.stamp.as_ref()),
        }
        let begun = match method {
            "initialize" => Ok(Some(text(&initialize(params)))),
            "ping" => Ok(Some(text(&json!({})))),
            "tools/list" => Ok(Some(registry::list(&self.office, request.caller(), entry.stamp.as_ref()))),
            "tools/call" => self.call(&mut request, params).await,
            other => match self.context.serve(&self.office, &request, other, params).await {
                Some(outcome) => outcome.map(Some),
                None => Err(RpcError::method_not_found(other)),
            },
        };
        if let Some(outcome) = begun.transpose() {
            self.office.answer(&request, &outcome).await;
        }
        // A client that has called the host may be asked from now on; one of the modern era only while it waits.
        if method == "tools/call" {
            self.ask_approvers();
        }
    }

    /// Puts the questions about held calls that are due.
    fn ask_approvers(&mut self) {
        let open = self.running.values().filter(|running| !running.is_decided.load(Ordering::Acquire));
        let waiting: HashSet<_> = open.map(|running| running.caller.clone()).collect();
        for form in self.forms.due(&self.office, EligibleSessions::Now(&waiting)) {
            self.follow_form(form, None);
        }
    }

    /// Puts those that are for a participant that waits, before its wait can end: a client of the modern era is asked by the answer to it.
    async fn ask_waiting(&mut self, caller: &ParticipantId) {
        for form in self.forms.due(&self.office, EligibleSessions::Of(caller)) {
            self.attend();
            match form.put(&self.office).await {
                Some(asked) => self.follow_form(form, Some(asked)),
                None => self.forms.unasked(form.hold_id(), &form.session),
            }
        }
    }

    /// Does what is answered to a question, which is put first where it has not been.
    fn follow_form(&mut self, form: ApprovalForm, asked: Option<HostCall>) {
        self.attend();
        let (office, changes) = (self.office.clone(), self.office.desk.control_changes());
        self.questions.spawn(async move {
            let asked = match asked {
                Some(asked) => Some(asked),
                None => form.put(&office).await,
            };
            let outcome = match asked {
                Some(asked) => form.finish(&office, asked, changes).await,
                None => FormOutcome::Unasked,
            };
            (form.hold_id().clone(), form.session.clone(), outcome)
        });
    }

    /// Waits for a caller at a door. Where something has happened, or the call is not to be served at once, the door makes the call in the
    /// room: the room's rules judge it there, and its answer is kept.
    fn wait_for_door(
        &mut self,
        caller: ParticipantId,
        stamp: Option<&Stamp>,
        params: &str,
        mut answer: oneshot::Sender<Option<Box<RawValue>>>,
    ) {
        let read = || {
            let call = registry::HostToolCall::read(params)?;
            self.admit(&caller, false)?;
            waiting::WaitRequest::read(Arguments::new(&call.name, call.arguments)?)
        };
        let authority = self.office.desk.authority(&caller, stamp);
        let may_wait =
            authority.is_none_or(|authority| authority.check_call(&caller, &ParticipantId::host(), WAIT_TOOL).is_ok());
        let (Ok(options), true, false) = (read(), may_wait, self.office.desk.is_elsewhere(&caller)) else {
            // The session may have gone meanwhile, here and below.
            let _ = answer.send(None);
            return;
        };
        let is_decided = Arc::new(AtomicBool::new(false));
        let (office, decided, waits) = (self.office.clone(), is_decided.clone(), caller.clone());
        let task = self.tasks.spawn(async move {
            let idle = tokio::select! { biased;
                () = answer.closed() => None,
                idle = waiting::wait_idle(office, waits, options) => idle,
            };
            decided.store(true, Ordering::Release);
            let _ = answer.send(idle);
        });
        self.running
            .insert(task.id(), Running { caller, request: None, is_gathering: false, is_decided, cancel: None });
    }

    /// Whether there is room for one more answer that takes time.
    fn admit(&self, caller: &ParticipantId, is_gathering: bool) -> Result<(), RpcError> {
        let undecided = || self.running.values().filter(|running| !running.is_decided.load(Ordering::Acquire));
        let of_one = undecided().filter(|running| running.caller == *caller).count();
        let gatherings = undecided().filter(|running| running.is_gathering).count();
        let told = if of_one >= MAX_OF_ONE {
            format!("{MAX_OF_ONE} of your requests are being worked on; wait for one of them")
        } else if self.running.len() >= MAX_ANSWERS {
            format!("the gateway works on {MAX_ANSWERS} requests in this room already; try again later")
        } else if is_gathering && gatherings >= MAX_GATHERINGS {
            format!("the gateway gathers answers for {MAX_GATHERINGS} requests in this room already; try again later")
        } else {
            return Ok(());
        };
        Err(speech::busy(told))
    }

    /// Everybody here but the caller, who knows what it offers itself, and ghosts, who offer nothing.
    fn others(&self, request: &HostRequest) -> Vec<Arc<Participant>> {
        let mut roster = self.office.desk.roster();
        roster.retain(|participant| participant.id != *request.caller() && participant.via.is_none());
        roster
    }

    /// Works on an answer beside everything else.
    fn begin(&mut self, request: &HostRequest, is_gathering: bool, work: BoxFuture<'static, HostOutcome>) {
        let (cancel, cancelled) = oneshot::channel();
        let (office, asked) = (self.office.clone(), request.clone());
        let is_decided = Arc::new(AtomicBool::new(false));
        let decided = is_decided.clone();
        let task = self.tasks.spawn(async move {
            let outcome = tokio::select! { biased;
                Ok(()) = cancelled => Err(speech::cancelled()),
                outcome = work => outcome,
            };
            decided.store(true, Ordering::Release);
            office.answer(&asked, &outcome).await;
        });
        let (caller, request) = (request.caller().clone(), Some(request.clone()));
        let running = Running { caller, request, is_gathering, is_decided, cancel: Some(cancel) };
        self.running.insert(task.id(), running);
    }

    /// A caller does not want an answer any more.
    fn cancel(&mut self, entry: &Entry) {
        #[derive(Deserialize)]
        struct Cancelled<'a> {
            #[serde(borrow, rename = "requestId")]
            request: &'a RawValue,
        }
        let Some(Ok(cancelled)) = entry.envelope.params().map(serde_json::from_str::<Cancelled<'_>>) else { return };
        let Some(id) = read_id(cancelled.request) else { return };
        let is_named = |request: &HostRequest| request.id == id;
        let mine = |running: &&mut Running| {
            running.request.as_ref().is_some_and(is_named) && running.caller == *entry.envelope.from()
        };
        for running in self.running.values_mut().filter(mine) {
            if let Some(cancel) = running.cancel.take() {
                // It may be done just now; then there is nothing to cancel.
                let _ = cancel.send(());
            }
        }
    }

    async fn finish(&mut self, ended: Result<(Id, ()), JoinError>) {
        let (id, panicked) = match ended {
            Ok((id, ())) => (id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let running = self.running.remove(&id);
        if panicked {
            tracing::error!(topic = %self.office.desk.topic(), "host: answering panicked, catalogue cleared; this is a defect");
            // What it was about to note nobody will note now.
            self.office.catalogue().clear();
            if let Some(request) = running.and_then(|running| running.request) {
                self.office.answer(&request, &Err(RpcError::internal("the gateway failed"))).await;
            }
        }
    }
}

/// Waits until one more node is gone; for ever where there is only one.
async fn node_lost(gone: &mut Option<watch::Receiver<u64>>) {
    let is_told = match gone {
        Some(counted) => counted.changed().await.is_ok(),
        None => false,
    };
    if !is_told {
        std::future::pending().await
    }
}

/// A JSON-RPC id, or a progress token, as somebody wrote it.
fn read_id(raw: &RawValue) -> Option<RpcId> {
    match raw.get().as_bytes().first()? {
        b'"' => serde_json::from_str::<String>(raw.get()).ok().map(|text| RpcId::String(text.into())),
        b'-' | b'0'..=b'9' => Some(RpcId::Number(raw.get().into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_number_or_a_text() {
        let read = |text: &str| read_id(&RawValue::from_string(text.into()).expect("the test writes JSON"));
        assert_eq!(read(r#""\u0061""#), Some(RpcId::String("a".into())));
        assert_eq!(read("1.0"), Some(RpcId::Number("1.0".into())));
        assert_eq!(read("-1"), Some(RpcId::Number("-1".into())));
        for other in ["null", "true", "{}", "[1]"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
