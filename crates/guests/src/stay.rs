//! One stay: from the start of the server to its end, in the room in between.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_client::{Discovery, Entering, Event, Events, Link, PublishError};
use salon_mcp::handshake::{HandshakeParams, ServerProfile};
use salon_mcp::{Era, Revision};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::guest::ProbeRecord;
use crate::lane::{self, EXIT_TIMEOUT, LaneHandle, LaneOpening, LaneReport, Stuck};
use crate::oauth::GuestAccess;
use crate::outbox::GuestOutbox;
use crate::switchboard::{LaneId, Publish, Switchboard, SwitchboardAction, SwitchboardOptions, shared_handshake};
use crate::upstream::{GuestTarget, Outbound, ProbeVerdict, UpstreamError, UpstreamSetup, probe};
use crate::{GuestError, GuestStatus, Spec};

/// What may wait on its way from all connections.
const MAX_REPORTS: usize = 256;
/// How long last words may take.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// How long leaving may take.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// How a stay ended.
pub(crate) enum StayOutcome {
    /// As was wished.
    Shutdown,
    /// The server is gone, or never came. `is_permanent` where another start would end the same way.
    Lost { why: String, is_permanent: bool },
    /// Trying again would not help.
    Over(GuestError),
}

/// Why a server did not come.
struct StartError {
    why: String,
    is_permanent: bool,
}

impl From<UpstreamError> for StartError {
    fn from(error: UpstreamError) -> Self {
        Self { why: error.to_string(), is_permanent: error.is_permanent() }
    }
}

/// One stay.
pub(crate) struct GuestStay<'a, W> {
    spec: &'a Arc<Spec>,
    watch: &'a W,
    opening: LaneOpening,
    board: Switchboard,
    lanes: HashMap<LaneId, LaneHandle>,
    tasks: JoinSet<()>,
    reports: mpsc::Receiver<(LaneId, LaneReport)>,
    reporting: mpsc::Sender<(LaneId, LaneReport)>,
    outbox: Option<GuestOutbox>,
    /// How the connection to the gateway is.
    link: Option<watch::Receiver<Link>>,
    is_away: bool,
    /// The tools are known, so the guest can be announced.
    listed: bool,
    lost: Option<String>,
}

impl<'a, W: Fn(GuestStatus)> GuestStay<'a, W> {
    pub(crate) async fn begin(
        spec: &'a Arc<Spec>,
        access: Option<&'a Arc<GuestAccess>>,
        entering: &impl Fn() -> Entering,
        shutdown: &CancellationToken,
        watch: &'a W,
        known: &mut Option<ProbeRecord>,
    ) -> StayOutcome {
        let started = tokio::select! { biased;
            () = shutdown.cancelled() => return StayOutcome::Shutdown,
            started = Self::start(spec, access, watch, known) => started,
        };
        let mut stay = match started {
            Ok(stay) => stay,
            Err(StartError { why, is_permanent }) => return StayOutcome::Lost { why, is_permanent },
        };
        let (outcome, ending) = tokio::select! { biased;
            () = shutdown.cancelled() => (StayOutcome::Shutdown, Some("the guest is leaving".to_owned())),
            why = sign_in_needed(access) => (StayOutcome::Lost { why: why.clone(), is_permanent: false }, Some(why)),
            outcome = stay.last(entering) => (outcome, None),
        };
        stay.end(ending.as_deref()).await;
        outcome
    }

    /// Starts the server and performs the MCP handshake with it.
    async fn start(
        spec: &'a Arc<Spec>,
        access: Option<&Arc<GuestAccess>>,
        watch: &'a W,
        known: &mut Option<ProbeRecord>,
    ) -> Result<Self, StartError> {
        let setup = UpstreamSetup {
            guest: spec.name.as_str().into(),
            watcher: spec.watcher.clone(),
            user: spec.user.clone(),
            access: access.cloned(),
        };
        let verdict = match ProbeRecord::fresh(known.as_ref()) {
            Some(verdict) => verdict,
            None => Arc::new(probe(&spec.target, &setup, spec.timeout).await?),
        };
        // Only what leads to an open connection is worth remembering.
        *known = None;
        let ours = HandshakeParams { info: Some(lane::our_info()), ..HandshakeParams::default() };
        let setting = setting(spec, &verdict);
        let opening = LaneOpening {
            target: Arc::new(spec.target.clone()),
            verdict: verdict.clone(),
            setup,
            timeout: spec.timeout,
            era: setting.room_era(),
            handshake_params: Box::new(shared_handshake(&setting, &ours, setting.room_era())),
            revision: Revision::R2025_11_25,
        };
        let (reporting, mut reports) = mpsc::channel(MAX_REPORTS);
        let (mut lanes, mut tasks) = (HashMap::new(), JoinSet::new());
        lanes.insert(LaneId::BASE, spawn(&mut tasks, LaneId::BASE, opening.clone(), reporting.clone()));
        let server = match reports.recv().await {
            Some((_, LaneReport::Opened(server))) => *server,
            Some((_, LaneReport::Ended { why })) => return Err(StartError { why, is_permanent: false }),
            _ => return Err(StartError { why: "it ended before its handshake".into(), is_permanent: false }),
        };
        *known = Some(ProbeRecord::new(verdict));
        let board = Switchboard::new(setting, server, ours, Instant::now());
        Ok(Self {
            spec,
            watch,
            opening,
            board,
            lanes,
            tasks,
            reports,
            reporting,
            outbox: None,
            link: None,
            is_away: false,
            listed: false,
            lost: None,
        })
    }

    /// Until the server or the seat is lost.
    async fn last(&mut self, entering: &impl Fn() -> Entering) -> StayOutcome {
        loop {
            self.perform();
            if self.listed {
                break;
            }
            if let Some(outcome) = self.wait(None).await {
                return outcome;
            }
        }
        let joining = entering()
            .versions(revisions(&self.opening.verdict, self.board.server()))
            .discovery(Discovery::OnDemand)
            .directed()
            .answer_by_hand()
            .handshake_optional();
        let (room, mut events) = match joining.join_listening().await {
            Ok(joined) => joined,
            Err(why) if why.is_passing() => {
                return StayOutcome::Lost { why: why.to_string(), is_permanent: false };
            }
            Err(why) => return StayOutcome::Over(GuestError::Join { name: self.spec.name.clone(), why }),
        };
        self.board.seated(room.id().clone());
        self.link = Some(room.link());
        self.outbox = Some(GuestOutbox::new(room));
        self.report_here();
        loop {
            self.perform();
            if let Some(outcome) = self.wait(Some(&mut events)).await {
                return outcome;
            }
        }
    }

    fn report_here(&self) {
        let server = self.board.server().title();
        (self.watch)(GuestStatus::Here { server, tools: self.board.tools() });
    }

    /// Waits for the next thing to happen, when nothing is left to be done.
    async fn wait(&mut self, events: Option<&mut Events>) -> Option<StayOutcome> {
        if let Some(why) = self.lost.take() {
            return Some(StayOutcome::Lost { why, is_permanent: false });
        }
        let due = self.board.due();
        // Messages that come faster than the room takes answers wait in the server's pipe.
        let has_room = self.outbox.as_ref().is_none_or(GuestOutbox::has_room);
        if let Some(outbox) = &mut self.outbox {
            outbox.send().await;
        }
        // In no fixed order: a talkative server must not block callers, nor they it.
        tokio::select! {
            (what, outcome) = outcome(&mut self.outbox) => match outcome {
                Ok(envelope) => self.board.published(&what, envelope.id(), Instant::now()),
                Err(PublishError::Refused(refusal)) => self.board.refused(&what, &refusal, Instant::now()),
                // The stay in the room is over, which the events say as well.
                Err(_) => {}
            },
            report = self.reports.recv(), if has_room => {
                let (lane, report) = report.expect("a sender is kept here");
                self.report(lane, report);
            }
            event = next(events), if has_room => match event {
                Some(Event::Envelope(envelope)) => self.board.heard(&envelope, Instant::now()),
                Some(Event::Gap) => self.count_heads(),
                // What waits to be published waits for that, and callers with it.
                Some(_) => {}
                None => return Some(self.seat_lost().await),
            },
            () = sleep_until(due) => self.board.tick(Instant::now()),
            link = changed(&mut self.link) => match link {
                Link::Connecting { why, .. } if !std::mem::replace(&mut self.is_away, true) => {
                    (self.watch)(GuestStatus::Away { why: why.to_string() });
                }
                Link::Live if std::mem::take(&mut self.is_away) => (self.watch)(GuestStatus::Back),
                _ => {}
            },
            Some(_) = self.tasks.join_next(), if !self.tasks.is_empty() => {}
        }
        None
    }

    async fn seat_lost(&mut self) -> StayOutcome {
        let name = self.spec.name.clone();
        match self.outbox.take() {
            Some(outbox) => StayOutcome::Over(GuestError::Seat { name, why: outbox.into_room().ended().await }),
            None => StayOutcome::Lost { why: "the room was never entered".into(), is_permanent: false },
        }
    }

    fn count_heads(&mut self) {
        let Some(outbox) = &self.outbox else { return };
        let room = outbox.room().clone();
        self.board.present(|participant| room.is_present(participant), Instant::now());
    }

    fn report(&mut self, lane: LaneId, report: LaneReport) {
        let now = Instant::now();
        match report {
            LaneReport::Opened(server) => self.board.opened(lane, server.revision(), now),
            LaneReport::Message { text, related } => self.board.said(lane, &text, related, now),
            LaneReport::Unanswered { request, why, error } => {
                self.board.unanswered(lane, request, &why, error.as_deref(), now)
            }
            LaneReport::Ended { why } => {
                self.lanes.remove(&lane);
                self.board.ended(lane, &why, now);
            }
        }
    }

    fn perform(&mut self) {
        while let Some(action) = self.board.poll() {
            match action {
                SwitchboardAction::Publish(publish) => self.publish(publish),
                SwitchboardAction::Send { lane, request, text, headers } => {
                    self.tell(lane, |way| way.send(request, Outbound { text, headers }));
                }
                SwitchboardAction::Abandon { lane, request } => self.tell(lane, |way| way.abandon(request)),
                SwitchboardAction::Open { lane, era, handshake_params, revision } => {
                    let opening = LaneOpening { era, handshake_params, revision, ..self.opening.clone() };
                    let way = spawn(&mut self.tasks, lane, opening, self.reporting.clone());
                    self.lanes.insert(lane, way);
                }
                SwitchboardAction::Close { lane } => drop(self.lanes.remove(&lane)),
                SwitchboardAction::Listed => {
                    if std::mem::replace(&mut self.listed, true) {
                        self.report_here();
                    }
                }
                SwitchboardAction::Lost { why } => self.lost = Some(why),
            }
        }
    }

    fn publish(&mut self, publish: Publish) {
        if let Some(outbox) = &mut self.outbox {
            outbox.push(publish);
        }
    }

    fn tell(&mut self, lane: LaneId, tell: impl FnOnce(&LaneHandle) -> Result<(), Stuck>) {
        if let Some(Err(Stuck)) = self.lanes.get(&lane).map(tell) {
            self.lanes.remove(&lane);
            self.board.ended(lane, "it does not read what it is sent", Instant::now());
        }
    }

    /// Answers waiting callers, leaves, and ends the server. `why` is there where that does not follow from the server's end.
    async fn end(mut self, why: Option<&str>) {
        if let Some(why) = why {
            self.board.ended(LaneId::BASE, why, Instant::now());
            self.perform();
        }
        if let Some(mut outbox) = self.outbox.take() {
            let last_words = async {
                while !outbox.is_empty() {
                    outbox.send().await;
                    // What the room says to it changes nothing any more.
                    let _ = outbox.outcome().await;
                }
            };
            // The room may not read: our leave ends the calls that were not answered by now.
            let _ = tokio::time::timeout(FLUSH_TIMEOUT, last_words).await;
            let _ = tokio::time::timeout(LEAVE_TIMEOUT, outbox.into_room().leave()).await;
        }
        self.lanes.clear();
        drop(self.reports);
        let ending = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(EXIT_TIMEOUT * 3, ending).await;
    }
}

fn spawn(
    tasks: &mut JoinSet<()>,
    lane: LaneId,
    opening: LaneOpening,
    reports: mpsc::Sender<(LaneId, LaneReport)>,
) -> LaneHandle {
    let (way, commands) = LaneHandle::new();
    tasks.spawn(lane::drive(lane, opening, commands, reports));
    way
}

fn setting(spec: &Spec, verdict: &ProbeVerdict) -> SwitchboardOptions {
    SwitchboardOptions {
        name: spec.name.clone(),
        isolated: spec.isolated,
        expose: spec.expose,
        tools: spec.tools.clone(),
        timeout: spec.timeout,
        eras: verdict.eras.clone(),
        http: matches!(spec.target, GuestTarget::Url { .. }),
        seed: uuid::Uuid::new_v4().simple().to_string(),
    }
}

/// The revisions in which a participant may call this guest.
fn revisions(verdict: &ProbeVerdict, server: &ServerProfile) -> Vec<&'static str> {
    let legacy = Revision::LEGACY.into_iter().filter(|revision| *revision <= server.revision());
    let modern = verdict.speaks(Era::Modern).then_some(Revision::MODERN);
    legacy.chain(modern).map(Revision::date).collect()
}

/// Waits until the server takes no token that the guest has.
async fn sign_in_needed(access: Option<&Arc<GuestAccess>>) -> String {
    match access {
        Some(access) => access.until_sign_in_needed().await,
        None => std::future::pending().await,
    }
}

async fn outcome(
    outbox: &mut Option<GuestOutbox>,
) -> (crate::switchboard::PublishPurpose, Result<Arc<salon_protocol::Envelope>, PublishError>) {
    match outbox {
        Some(outbox) => outbox.outcome().await,
        None => std::future::pending().await,
    }
}

async fn next(events: Option<&mut Events>) -> Option<Event> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

/// The next state of the connection to the gateway.
async fn changed(link: &mut Option<watch::Receiver<Link>>) -> Link {
    match link {
        Some(watched) => match watched.changed().await {
            Ok(()) => watched.borrow_and_update().clone(),
            // The stay is over, which the events say as well.
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
