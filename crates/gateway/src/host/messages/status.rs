//! `message.status`: what became of a message, as far as the log and the connections tell.

use std::time::Duration;

use salon_log::cluster::Keyspace;
use salon_protocol::{ChatRevision, Entry, EnvelopeId, Message, ParticipantId, Redaction, Timestamp};
use salon_rooms::DeliveryReport;
use serde::Serialize;

use super::MessageCall;
use super::related::RelatedEntries;
use crate::host::arguments::Arguments;
use crate::host::office::Office;
use crate::host::speech::{HostOutcome, failed, structured};

/// Where nodes tell each other how far their participants were handed a room, for one answer.
pub(crate) const RECEIPTS: Keyspace = Keyspace { name: "receipts", time_to_live: Duration::from_secs(30) };

/// How many participants at other nodes are asked about, and for how long.
const MAX_ELSEWHERE: usize = 64;
const WAIT: Duration = Duration::from_millis(50);
const MAX_WAITS: usize = 6;

/// How many entries after the message are looked through.
const MAX_SCANNED: usize = 10_000;

#[derive(Serialize)]
struct MessageStatus<'a> {
    id: &'a EnvelopeId,
    from: &'a ParticipantId,
    position: String,
    stored_at: Timestamp,
    delivered_to: Vec<ParticipantId>,
    pending: Vec<ParticipantId>,
    /// Connected to another gateway, which did not say.
    unknown: Vec<ParticipantId>,
    acknowledged_by: Vec<Receipt<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered: Option<Receipt<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    edited: Option<Receipt<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retracted: Option<Receipt<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redacted: Option<Redaction>,
    complete: bool,
}

/// An entry about the message.
#[derive(Serialize)]
struct Receipt<'a> {
    by: &'a ParticipantId,
    at: Timestamp,
    id: &'a EnvelopeId,
}

impl<'a> Receipt<'a> {
    fn of(entry: &'a Entry) -> Self {
        Self { by: entry.envelope.from(), at: entry.arrived, id: entry.envelope.id() }
    }
}

impl MessageCall<'_> {
    pub(super) async fn status(&self, mut arguments: Arguments<'_>) -> HostOutcome {
        let id: EnvelopeId = arguments.required("id")?;
        arguments.end()?;
        let desk = &self.office.desk;
        let Some(message) = (match self.find(&id).await {
            Ok(found) => found,
            Err(why) => return Ok(failed(&why)),
        }) else {
            let is_held = desk.held_calls().iter().any(|held| held.request.id == id);
            let why = match is_held {
                true => format!("the call `{id}` waits for approval: it is stored once it is approved"),
                false => format!("no message `{id}` is kept in this topic"),
            };
            return Ok(failed(&why));
        };
        let related =
            RelatedEntries::find(&*self.office.toolbox.log, desk.topic(), message.position, MAX_SCANNED, |entry| {
                entry.envelope.correlation() == Some(&id)
            })
            .await;
        let RelatedEntries { entries, is_complete } = match related {
            Ok(related) => related,
            Err(refusal) => return Ok(failed(&refusal.message)),
        };
        let DeliveryReport { delivered, pending, elsewhere } = self.deliveries(&message).await;
        let author = message.envelope.from();
        let revision = |is_wanted: fn(&ChatRevision) -> bool| {
            let own = entries.iter().rev().filter(|entry| entry.envelope.from() == author);
            let mut found =
                own.filter(|entry| entry.envelope.chat_revision().is_some_and(|(_, what)| is_wanted(&what)));
            found.next().map(|entry| Receipt::of(entry))
        };
        let is_answer =
            |entry: &&std::sync::Arc<Entry>| matches!(entry.envelope.message(), Some(Message::Response { .. }));
        let status = MessageStatus {
            id: &id,
            from: author,
            position: message.position.to_string(),
            stored_at: message.arrived,
            delivered_to: delivered,
            pending,
            unknown: elsewhere,
            acknowledged_by: acknowledgements(&entries),
            answered: entries.iter().find(is_answer).map(|entry| Receipt::of(entry)),
            edited: revision(|what| matches!(what, ChatRevision::Edited(_))),
            retracted: revision(|what| *what == ChatRevision::Retracted),
            redacted: message.envelope.redaction(),
            complete: is_complete,
        };
        Ok(structured(&status))
    }

    /// Who was handed a message, at every node that says so in time.
    async fn deliveries(&self, message: &Entry) -> DeliveryReport {
        let mut report = self.office.desk.delivery_report(message);
        let cluster = &self.office.toolbox.cluster;
        for _ in 0..MAX_WAITS {
            if report.elsewhere.is_empty() || report.elsewhere.len() > MAX_ELSEWHERE {
                break;
            }
            for who in std::mem::take(&mut report.elsewhere) {
                let key = receipt_key(self.request.entry.envelope.id(), &who);
                let taken = cluster.take(RECEIPTS, &key).await.ok().flatten();
                let handed = taken.and_then(|value| String::from_utf8(value).ok()?.parse::<u64>().ok());
                match handed {
                    Some(handed) if handed >= message.position.offset => report.delivered.push(who),
                    Some(_) => report.pending.push(who),
                    None => report.elsewhere.push(who),
                }
            }
            if !report.elsewhere.is_empty() {
                tokio::time::sleep(WAIT).await;
            }
        }
        report
    }
}

fn acknowledgements(entries: &[std::sync::Arc<Entry>]) -> Vec<Receipt<'_>> {
    // MCPx v0 §4.1.1
    let is_acknowledgement = |method: &str| method == "notifications/message_acknowledged";
    let mut receipts: Vec<Receipt<'_>> = Vec::new();
    for entry in entries {
        let is_one =
            matches!(entry.envelope.message(), Some(Message::Notification { method }) if is_acknowledgement(method));
        if is_one && !receipts.iter().any(|receipt| receipt.by == entry.envelope.from()) {
            receipts.push(Receipt::of(entry));
        }
    }
    receipts
}

/// The key under which a node says how far a participant was handed the room, for the answer to one request.
fn receipt_key(request: &EnvelopeId, who: &ParticipantId) -> String {
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, format!("{request} {who}").as_bytes()).to_string()
}

/// Tells the node that answers a request for a status how far the participants that sit here were handed the room.
pub(in crate::host) async fn contribute(office: &Office, asked: &EnvelopeId) {
    let keep = |(who, offset): (ParticipantId, u64)| {
        office.toolbox.cluster.keep(RECEIPTS, &receipt_key(asked, &who), offset.to_string().into_bytes())
    };
    // Who asks gets an answer without it.
    futures_util::future::join_all(office.desk.handed().into_iter().take(MAX_ELSEWHERE).map(keep)).await;
}
