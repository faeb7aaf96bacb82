//! Storing what was copied from another log ([`crate::transfer`]).
//!
//! A copied message says in a header when it arrived in the log it comes from: that is its time for readers and for retention. A node that
//! follows the topic takes only settings from it ([`crate::Fold::adopt`]). Settings without an entry are a message with a subject of their own,
//! which no reader gets.

use std::sync::Arc;

use async_nats::HeaderMap;
use bytes::Bytes;
use futures_util::future::{BoxFuture, try_join_all};
use salon_protocol::{Entry, Timestamp, TopicName};

use super::fault::NatsFault;
use super::link::Stored;
use super::open::patiently;
use super::topic::{STAMP, Topic};
use super::{Nats, Shared, TOPIC, redact};
use crate::AppendError;
use crate::transfer::{TopicImport, TransferLog};

/// The header of a copied message: when it arrived in the log that it comes from, in milliseconds since 1970.
pub(super) const COPIED: &str = "Salon-Copied";

/// When a copied message arrived in the log that it comes from.
pub(super) fn copied_at(stored: &Stored) -> Option<Timestamp> {
    Some(Timestamp(stored.headers.get(COPIED)?.as_str().parse().ok()?))
}

/// Whether a message has settings that were copied without their entry.
pub(super) fn is_settings(stored: &Stored) -> bool {
    stored.subject.ends_with(".settings")
}

/// When a message arrived, in the order of the stream: the record of a redaction did when it was stored.
pub(super) fn arrived(stored: &Stored) -> Timestamp {
    copied_at(stored).filter(|_| !redact::is_record(stored)).unwrap_or(stored.time)
}

impl TransferLog for Nats {
    fn import(&self, topic: &TopicName, import: TopicImport) -> BoxFuture<'static, Result<(), AppendError>> {
        let (shared, topic) = (self.shared.clone(), topic.clone());
        Box::pin(async move { shared.import(&topic, import).await })
    }
}

impl Shared {
    async fn import(self: &Arc<Self>, name: &TopicName, import: TopicImport) -> Result<(), AppendError> {
        let topic = self.topic(name).map_err(|error| AppendError::Stopped(error.to_string().into()))?;
        self.make_room(&topic).await?;
        match import {
            TopicImport::Settings(notice) => Ok(self.store_settings(&topic, &notice).await?),
            TopicImport::Entries(entries) => {
                let submit = |entry: Arc<Entry>| {
                    let Entry { arrived, stamp, envelope, .. } = Arc::unwrap_or_clone(entry);
                    self.submit(name, envelope, stamp, Some(arrived))
                };
                let appends: Vec<_> = entries.into_iter().map(submit).collect();
                try_join_all(appends).await.map(drop)
            }
        }
    }

    async fn store_settings(&self, topic: &Topic, notice: &Entry) -> Result<(), NatsFault> {
        let mut headers = HeaderMap::new();
        headers.insert(COPIED, notice.arrived.0.to_string());
        if let Some(stamp) = &notice.stamp {
            headers.insert(STAMP, stamp.text());
        }
        let text = Bytes::copy_from_slice(notice.envelope.text().as_bytes());
        headers.insert(TOPIC, topic.name.as_str());
        let subject = topic.place.subjects.settings();
        let stored = patiently(&self.link, || self.link.store(subject.clone(), headers.clone(), text.clone())).await?;
        topic.reach(stored, self.link.timings.answer_timeout).await
    }
}
