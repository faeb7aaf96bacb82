//! The topic's versioned context, as the host offers it: tools ([`tools`]), resources ([`resources`]), and news for participants that
//! watch ([`watches`]).
//!
//! The store keeps it; here is only who wants to hear of what. Requests are served in order, so a participant that has been answered that it
//! watches gets everything that is written after the answer.

mod address;
mod descriptions;
mod resources;
#[cfg(test)]
mod tests;
mod tools;
mod watches;

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use salon_log::ContextStore;
use salon_log::context::{Changed, Changes, ContextScope, Existence};
use salon_mcp::listing::ListItem;
use salon_protocol::{Code, Envelope, Participant, ParticipantId, RpcError};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::Instant;

use self::address::word;
use self::watches::{WatchForm, WatchTarget, WatchersByForm, Watches};
use super::office::{HostRequest, Office};
use super::speech::{text, told};

pub(super) use descriptions::descriptions;

/// How long the host waits between two announcements that the list of resources has changed. Every door asks for it again then.
const ANNOUNCEMENTS: Duration = Duration::from_secs(1);

/// The context of one room.
pub(super) struct RoomContext {
    store: Arc<dyn ContextStore>,
    /// What is written, once somebody here has had to do with the context.
    changes: Option<Changes>,
    watches: Watches,
    /// The resources of topic and tools as doors list them, for as long as one of them has that list.
    listed: Weak<[ListItem]>,
    /// Somebody has read the list of resources and not been told that it changed.
    is_relied_on: bool,
    /// When the next announcement is due, and when the last was.
    due: Option<Instant>,
    announced: Option<Instant>,
}

/// A notification to watchers, or to clients that have the list.
pub(super) enum ContextNotification {
    Changed(Changed),
    ListChanged,
}

/// The notification of a change to its watchers.
#[derive(Serialize)]
struct ChangeNotice<'a> {
    scope: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    missed: bool,
}

impl RoomContext {
    pub(super) fn new(store: Arc<dyn ContextStore>) -> Self {
        Self {
            store,
            changes: None,
            watches: Watches::default(),
            listed: Weak::<[ListItem; 0]>::new(),
            is_relied_on: false,
            due: None,
            announced: None,
        }
    }

    /// Begins to follow what is written, before anything is read that could change.
    fn attend(&mut self, office: &Office) {
        if self.changes.is_none() {
            self.changes = Some(self.store.changes(office.desk.topic()));
        }
    }

    /// The next news. There are always more, though they may never come.
    pub(super) async fn next(&mut self) -> ContextNotification {
        let announcing = async {
            match self.due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let changing = async {
            match &mut self.changes {
                Some(changes) => changes.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! { biased;
            change = changing => match change {
                Some(change) => ContextNotification::Changed(change),
                // The store is closed, and the room about to be.
                None => std::future::pending().await,
            },
            () = announcing => ContextNotification::ListChanged,
        }
    }

    /// Sends it to its recipients.
    pub(super) fn tell(&mut self, office: &Office, news: ContextNotification) {
        let is_here =
            |who: &Arc<Participant>| office.desk.participant(&who.id).is_some_and(|present| Arc::ptr_eq(&present, who));
        match news {
            ContextNotification::Changed(Changed::One(change)) => {
                let hearers = self.watches.of(&change.scope, &change.key, is_here);
                let (scope, deleted) = (word(&change.scope), change.existence == Existence::Ended);
                let (key, version) = (Some(change.key.as_str()), Some(change.version));
                notify_watchers(
                    office,
                    &hearers,
                    &ChangeNotice { scope: &scope, key, version, deleted, missed: false },
                );
                if change.existence != Existence::Unchanged {
                    if !matches!(change.scope, ContextScope::Participant(_)) {
                        self.listed = Weak::<[ListItem; 0]>::new();
                    }
                    self.list_changed();
                }
            }
            ContextNotification::Changed(Changed::Missed) => {
                for target in self.watches.all() {
                    let hearers = self.watches.hearers(std::slice::from_ref(&target), is_here);
                    let WatchTarget { scope, key } = &target;
                    let key = key.as_ref().map(|key| key.as_str());
                    let told = ChangeNotice { scope: &word(scope), key, version: None, deleted: false, missed: true };
                    notify_watchers(office, &hearers, &told);
                }
                self.listed = Weak::<[ListItem; 0]>::new();
                self.list_changed();
            }
            ContextNotification::ListChanged => {
                (self.due, self.announced, self.is_relied_on) = (None, Some(Instant::now()), false);
                office.notify(&[], "notifications/resources/list_changed", &json!({}));
            }
        }
    }

    /// Notifies the clients that have the list of its change.
    fn list_changed(&mut self) {
        if self.is_relied_on && self.due.is_none() {
            let now = Instant::now();
            self.due = Some(self.announced.map_or(now, |announced| now.max(announced + ANNOUNCEMENTS)));
        }
    }

    /// Begins or ends a watch of a caller's.
    fn watch(
        &mut self,
        office: &Office,
        request: &HostRequest,
        target: WatchTarget,
        form: WatchForm,
        ends: bool,
    ) -> Result<(), String> {
        let (caller, session) = (request.caller(), request.entry.envelope.from_session());
        if ends {
            self.watches.end(caller, session, &target, &form);
            return Ok(());
        }
        let Some(present) = office.desk.participant(caller) else {
            return Err("you are not in this room any more".into());
        };
        let is_here =
            |who: &Arc<Participant>| office.desk.participant(&who.id).is_some_and(|now| Arc::ptr_eq(&now, who));
        self.watches.begin(&present, session, target, form, is_here)
    }

    /// A session of a participant has ended, and what it watched is not watched for it any more.
    pub(super) fn session_ended(&mut self, envelope: &Envelope) {
        if let Some(session) = envelope.from_session() {
            self.watches.session_ended(envelope.from(), session);
        }
    }
}

fn notify_watchers(office: &Office, hearers: &WatchersByForm, told: &ChangeNotice<'_>) {
    for (form, who) in hearers {
        match form {
            WatchForm::Change => notify_all(office, who, "notifications/context/changed", told),
            WatchForm::Resource(uri) => {
                notify_all(office, who, "notifications/resources/updated", &json!({ "uri": uri }))
            }
        }
    }
}

/// Tells many the same, in as few envelopes as their limit of recipients allows.
fn notify_all(office: &Office, who: &[ParticipantId], method: &str, params: &impl Serialize) {
    const MAX_RECIPIENTS: usize = 256;
    for who in who.chunks(MAX_RECIPIENTS) {
        office.notify(who, method, params);
    }
}

/// A tool's no, with its code for programs.
fn refused(code: Code, message: &str, current: Option<u64>) -> Box<RawValue> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Refused<'a> {
        code: &'static str,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        current_version: Option<u64>,
    }
    told(message, &text(&Refused { code: code.word(), message, current_version: current }), true)
}

/// The store could not be read.
fn unreadable(error: &salon_log::ReadError) -> RpcError {
    tracing::error!(%error, "host: context unreadable, request fails");
    RpcError::internal("the context could not be read")
}
