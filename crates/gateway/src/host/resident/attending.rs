//! What the host overhears for its catalogue, and how it answers sessions from it.

use std::sync::Arc;
use std::time::Duration;

use salon_dialects::CatalogueSnapshot;
use salon_mcp::listing::{ListItem, Listing};
use salon_protocol::{CloseReason, Message, Participant, ParticipantId, PresenceEvent, Stamp};
use salon_rooms::{Happening, Interest};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::super::catalogue::{Consulted, ListRequest};
use super::super::handshake;
use super::super::office::Office;
use super::{Resident, registry};

/// How often at most a changed catalogue is published: a crowd that joins at once is one change to sessions.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(50);

impl Resident {
    /// Notes what concerns the catalogue or answers the host.
    pub(super) fn overhear(&mut self, happening: &Happening) {
        if matches!(happening, Happening::Gap) {
            self.start_catalogue_over();
        }
        let now = Instant::now();
        for entry in happening.entries() {
            let envelope = &entry.envelope;
            match envelope.message() {
                Some(Message::Response { .. }) => {
                    let is_late = !self.office.calls.answered(entry);
                    if is_late && envelope.to().iter().any(ParticipantId::is_host) {
                        self.office.catalogue().heard(envelope.from(), now);
                    }
                }
                Some(Message::Notification { method }) => {
                    let is_changed = |listing: &Listing| listing.changed() == &**method;
                    let changed: Vec<_> = Listing::ALL.into_iter().filter(is_changed).collect();
                    if !changed.is_empty() {
                        let demand = self.office.board.demand(envelope.from());
                        let list_requests = self.office.catalogue().changed(envelope.from(), &changed, demand, now);
                        self.run_in_turn(list_requests);
                    }
                }
                Some(_) => {}
                None => {
                    if let Some(presence) = envelope.presence() {
                        self.overhear_presence(presence.event, &presence.participant.id, now);
                    }
                }
            }
        }
    }

    fn overhear_presence(&mut self, event: PresenceEvent, who: &ParticipantId, now: Instant) {
        match event {
            PresenceEvent::Heartbeat | PresenceEvent::Status => {}
            PresenceEvent::Leave => {
                // It may be back by now: then its join comes next.
                self.office.catalogue().forget(who);
                self.office.catalogue_changed.notify_one();
            }
            PresenceEvent::Join => {
                let Some(participant) = self.office.desk.participant(who) else { return };
                let demand = self.office.board.demand(who);
                let list_requests = self.office.catalogue().joined(&participant, demand, now);
                self.run_in_turn(list_requests);
            }
        }
    }

    /// Something was missed, so nothing that was noted is to be trusted.
    pub(super) fn start_over(&mut self, reason: CloseReason) {
        tracing::debug!(topic = %self.office.desk.topic(), ?reason, "host: seat lost, starting over");
        self.everything = Some(self.office.desk.observe(None, Interest::default()));
        self.office.calls.clear();
        self.start_catalogue_over();
    }

    fn start_catalogue_over(&mut self) {
        let (roster, demand) = (self.office.desk.roster(), self.office.board.demand(&ParticipantId::host()));
        let list_requests = self.office.catalogue().start_over(&roster, demand, Instant::now());
        self.run(list_requests);
        self.office.catalogue_changed.notify_one();
    }

    /// Notes from now on what concerns the catalogue, and publishes it.
    pub(super) fn attend(&mut self) {
        if self.everything.is_none() {
            self.everything = Some(self.office.desk.observe(None, Interest::default()));
            self.tasks.spawn(publish(self.office.clone()));
        }
    }

    fn run_in_turn(&mut self, list_requests: Vec<ListRequest>) {
        if !list_requests.is_empty() {
            self.tasks.spawn(handshake::run_in_turn(self.office.clone(), list_requests));
        }
    }

    pub(super) fn run(&mut self, list_requests: Vec<ListRequest>) {
        for list_request in list_requests {
            self.tasks.spawn(handshake::run(self.office.clone(), list_request));
        }
    }

    /// Looks a list of everybody up in the catalogue, and asks the participants that are not in it.
    pub(super) fn consult(&mut self, roster: &[Arc<Participant>], listing: Listing) -> Vec<Consulted> {
        if !roster.is_empty() {
            self.attend();
        }
        let now = Instant::now();
        let looked_up: Vec<_> = {
            let mut catalogue = self.office.catalogue();
            roster.iter().map(|who| catalogue.consult(who, listing, now)).collect()
        };
        let mut consulted = Vec::with_capacity(looked_up.len());
        for (place, list_request) in looked_up {
            if let Some(list_request) = list_request {
                self.tasks.spawn(handshake::run(self.office.clone(), list_request));
            }
            consulted.push(place);
        }
        consulted
    }

    /// Brings lists of everybody's up to date, and answers a session with the snapshot that has them.
    pub(super) fn gather(
        &mut self,
        asker: &ParticipantId,
        listings: &'static [Listing],
        answer: oneshot::Sender<Arc<CatalogueSnapshot>>,
    ) {
        self.attend();
        let (now, office) = (Instant::now(), self.office.clone());
        let (list_requests, waiting) = {
            let mut catalogue = office.catalogue();
            if !catalogue.is_complete() {
                catalogue.complete(&office.desk.roster(), now);
            }
            catalogue.gather(asker, listings, now)
        };
        self.run(list_requests);
        // The session may have gone meanwhile, here and below.
        let Some(waiting) = waiting else {
            let _ = answer.send(office.catalogue().publish());
            return;
        };
        self.tasks.spawn(async move {
            waiting.settled().await;
            let _ = answer.send(office.catalogue().publish());
        });
    }

    /// Answers a door, when it is known what somebody offers. The door waits as long as it likes.
    pub(super) async fn look_up(
        &mut self,
        (asker, stamp): (&ParticipantId, Option<&Stamp>),
        who: &ParticipantId,
        listing: Listing,
        answer: oneshot::Sender<Option<Arc<[ListItem]>>>,
    ) {
        if who.is_host() {
            let own = match listing {
                Listing::Tools => Some(registry::tools(&self.office, asker, stamp)),
                Listing::Prompts => Some(Arc::default()),
                Listing::Resources | Listing::Templates => self.context.offer(&self.office, asker, listing).await,
            };
            // The door may have gone meanwhile, here and below.
            let _ = answer.send(own);
            return;
        }
        let Some(participant) = self.office.desk.participant(who) else {
            let _ = answer.send(None);
            return;
        };
        let Some(mut consulted) = self.consult(&[participant], listing).pop() else { return };
        self.tasks.spawn(async move {
            let offer = consulted.settled().await;
            let _ = answer.send(offer.ok().map(|offer| offer.items.clone()));
        });
    }
}

/// Publishes the catalogue when it has changed, at most once in an interval.
async fn publish(office: Arc<Office>) {
    loop {
        office.catalogue_changed.notified().await;
        office.catalogue().publish();
        sleep(PUBLISH_INTERVAL).await;
    }
}
