//! The connection to NATS: requests that are bounded in time and say why they failed.
//!
//! Invariant: nobody waits for the client without a bound. It queues what it is to send, reads its queue only while it is connected, and
//! lets a sender that finds it full wait. So it is nobody's but this module's, nothing is put there while there is no connection, and the time
//! that something may take includes the time until it is there.
//!
//! Deliberately absent: trying again. The caller knows what may be asked twice.

use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream;
use async_nats::jetstream::consumer::{Consumer, push};
use async_nats::jetstream::context::RequestErrorKind;
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{ConsumerErrorKind, Info, LastRawMessageErrorKind};
use async_nats::{Client, HeaderMap, Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use salon_protocol::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::connect;
use super::fault::NatsFault;
use super::names::StreamNames;
use super::open::OpenError;
use super::timings::Timings;

/// How long another connection is waited for: on its way to another server of a cluster the client has none for a moment.
const RECONNECT_GRACE: Duration = Duration::from_millis(250);

const SILENT: &str = "NATS does not answer";

/// The most messages waiting for their acknowledgements, in all.
const MAX_UNACKNOWLEDGED: usize = 16 * 1024;

/// A message of a stream.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) sequence: u64,
    pub(super) time: Timestamp,
    pub(super) subject: String,
    pub(super) headers: HeaderMap,
    pub(super) payload: Bytes,
}

impl From<StreamMessage> for Stored {
    fn from(message: StreamMessage) -> Self {
        Self {
            sequence: message.sequence,
            time: millis(message.time.unix_timestamp_nanos()),
            subject: message.subject.into_string(),
            headers: message.headers,
            payload: message.payload,
        }
    }
}

/// A time of the server's.
pub(super) fn millis(nanos: i128) -> Timestamp {
    Timestamp(u64::try_from(nanos / 1_000_000).unwrap_or_default())
}

/// Whether there is a connection, and how many there have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Connection {
    pub(super) is_up: bool,
    pub(super) count: u64,
}

impl Connection {
    /// There is a new one.
    pub(super) fn note_new(&mut self) {
        *self = Self { is_up: true, count: self.count + 1 };
    }

    /// There is one; says whether that was not known.
    fn note_answer(&mut self) -> bool {
        let is_news = !self.is_up;
        if is_news {
            self.note_new();
        }
        is_news
    }
}

/// The way to NATS.
pub(super) struct NatsLink {
    client: Client,
    js: jetstream::Context,
    pub(super) names: StreamNames,
    pub(super) connection: Arc<watch::Sender<Connection>>,
    pub(super) timings: Timings,
}

impl NatsLink {
    pub(super) fn new(
        client: Client,
        names: StreamNames,
        connection: Arc<watch::Sender<Connection>>,
        timings: Timings,
    ) -> Self {
        let js = jetstream::context::ContextBuilder::new()
            .timeout(timings.answer_timeout)
            .ack_timeout(timings.answer_timeout)
            .max_ack_inflight(MAX_UNACKNOWLEDGED)
            .backpressure_on_inflight(true)
            .build(client.clone());
        Self { client, js, names, connection, timings }
    }

    fn is_up(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// That there is a connection now: what is asked for without one is sent once there is one, whenever that is.
    pub(super) fn connected(&self) -> Result<(), NatsFault> {
        if self.is_up() { Ok(()) } else { Err(NatsFault::unavailable("there is no connection to NATS")) }
    }

    /// Waits for a connection where there is none, but only for a moment.
    async fn reconnected(&self) -> Result<(), NatsFault> {
        if !self.is_up() {
            let mut connection = self.connection.subscribe();
            let _ = tokio::time::timeout(RECONNECT_GRACE, connection.wait_for(|now| now.is_up)).await;
        }
        self.connected()
    }

    /// Does something that the client has to send for, in the time that an answer may take.
    async fn bounded<T>(&self, work: impl Future<Output = Result<T, NatsFault>>) -> Result<T, NatsFault> {
        self.reconnected().await?;
        tokio::time::timeout(self.timings.answer_timeout, work)
            .await
            .unwrap_or_else(|_| Err(NatsFault::unavailable(SILENT)))
    }

    /// A subject that nobody else has.
    pub(super) fn inbox(&self) -> String {
        self.client.new_inbox()
    }

    /// The longest message that the servers take, in bytes.
    pub(super) fn longest(&self) -> usize {
        self.client.max_payload()
    }

    /// Whether the server that is connected to now can do what is asked of it here.
    pub(super) fn new_enough(&self) -> Result<(), OpenError> {
        connect::new_enough(&self.client)
    }

    /// Notes that a server has answered. The client tells of its connections only as far as it has room to, so that there is one may
    /// not have been told.
    pub(super) fn note_answer(&self) {
        self.connection.send_if_modified(Connection::note_answer);
    }

    /// Asks JetStream's API.
    pub(super) async fn ask<V: DeserializeOwned>(
        &self,
        subject: String,
        body: &impl Serialize,
    ) -> Result<V, NatsFault> {
        let asked = async {
            match self.js.request::<_, _, Response<V>>(subject, body).await {
                Ok(Response::Ok(answer)) => Ok(answer),
                Ok(Response::Err { error }) => Err((&error).into()),
                Err(error) if matches!(error.kind(), RequestErrorKind::NoResponders) => {
                    Err(NatsFault::unavailable("no server answers for JetStream"))
                }
                Err(error) => Err(NatsFault::unavailable(error)),
            }
        };
        self.bounded(asked).await
    }

    /// Hears what is said under a subject.
    pub(super) async fn subscribe(&self, subject: String) -> Result<Subscriber, NatsFault> {
        self.bounded(async { self.client.subscribe(subject).await.map_err(NatsFault::unavailable) }).await
    }

    /// Says something that is not stored.
    pub(super) async fn say(&self, subject: String, payload: Bytes) -> Result<(), NatsFault> {
        self.bounded(async { self.client.publish(subject, payload).await.map_err(NatsFault::unavailable) }).await
    }

    /// Says something that is not stored, to be answered under another subject.
    pub(super) async fn say_to_answer(&self, subject: String, answer: String, payload: Bytes) -> Result<(), NatsFault> {
        let said = self.client.publish_with_reply(subject, answer, payload);
        self.bounded(async { said.await.map_err(NatsFault::unavailable) }).await
    }

    /// Waits until everything that was said has been sent.
    pub(super) async fn flush(&self) -> Result<(), NatsFault> {
        self.bounded(async { self.client.flush().await.map_err(NatsFault::unavailable) }).await
    }

    /// Makes a consumer, and says how many messages there are for it.
    pub(super) async fn consume(&self, stream: &str, config: push::Config) -> Result<u64, NatsFault> {
        let made = async {
            let made: Consumer<push::Config> =
                self.js.create_consumer_on_stream(config, stream).await.map_err(|error| match error.kind() {
                    ConsumerErrorKind::JetStream(told) => (&told).into(),
                    _ => NatsFault::unavailable(error),
                })?;
            Ok(made.cached_info().num_pending)
        };
        self.bounded(made).await
    }

    /// A message that a consumer has brought, and how many it has brought with it.
    pub(super) fn brought(&self, message: Message) -> Option<(u64, Stored)> {
        let message = jetstream::Message { message, context: self.js.clone() };
        let info = message.info().ok()?;
        let (count, sequence, time) = (info.consumer_sequence, info.stream_sequence, info.published);
        let message = message.message;
        let stored = Stored {
            sequence,
            time: millis(time.unix_timestamp_nanos()),
            subject: message.subject.into_string(),
            headers: message.headers.unwrap_or_default(),
            payload: message.payload,
        };
        Some((count, stored))
    }

    /// What the leader of a stream says of it.
    pub(super) async fn info(&self, stream: &str) -> Result<Info, NatsFault> {
        self.ask(format!("STREAM.INFO.{stream}"), &()).await
    }

    /// Removes everything before a sequence, of some subject or of all.
    pub(super) async fn purge(&self, stream: &str, subject: Option<&str>, before: u64) -> Result<(), NatsFault> {
        #[derive(Serialize)]
        struct Purge<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            filter: Option<&'a str>,
            seq: u64,
        }
        let purge = Purge { filter: subject, seq: before };
        self.ask::<serde_json::Value>(format!("STREAM.PURGE.{stream}"), &purge).await.map(drop)
    }

    /// Erases one message: its bytes are overwritten (`STREAM.MSG.DELETE` without `no_erase`). A stream that an earlier version has made denies
    /// that; then the message is removed, and the server overwrites its bytes when it compacts the file.
    pub(super) async fn erase(&self, stream: &str, subject: &str, sequence: u64) -> Result<(), NatsFault> {
        #[derive(Serialize)]
        struct Erase {
            seq: u64,
        }
        match self.ask::<serde_json::Value>(format!("STREAM.MSG.DELETE.{stream}"), &Erase { seq: sequence }).await {
            Ok(_) | Err(NatsFault::Missing) => Ok(()),
            Err(NatsFault::Refused(_)) => self.purge(stream, Some(subject), sequence + 1).await,
            Err(fault) => Err(fault),
        }
    }

    /// Sends a message. The order of calls that have returned is the order on the wire; the future is the acknowledgement.
    pub(super) async fn send(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<BoxFuture<'static, Result<u64, NatsFault>>, NatsFault> {
        // A sender of several must not wait with each.
        self.connected()?;
        let message = PublishMessage::build().headers(headers).payload(payload);
        let sent = self.bounded(async { Ok(self.js.send_publish(subject, message).await?) });
        let acknowledgement = sent.await?;
        Ok(Box::pin(async move { Ok(acknowledgement.await?.sequence) }))
    }

    /// Stores a message in a stream that the opening has made. That nobody answers for it is an election, which ends.
    pub(super) async fn store(&self, subject: String, headers: HeaderMap, payload: Bytes) -> Result<u64, NatsFault> {
        self.reconnected().await?;
        let stored = match self.send(subject, headers, payload).await {
            Ok(acknowledgement) => acknowledgement.await,
            Err(fault) => Err(fault),
        };
        stored.map_err(|fault| match fault {
            NatsFault::Missing => NatsFault::unavailable("no server answers for a stream of the log"),
            other => other,
        })
    }

    /// The newest message of a subject, as the leader has it.
    pub(super) async fn newest(&self, stream: &str, subject: &str) -> Result<Option<Stored>, NatsFault> {
        let asked = async {
            let handle = self.js.get_stream_no_info(stream).await.map_err(NatsFault::unavailable)?;
            found(handle.get_last_raw_message_by_subject(subject).await)
        };
        self.bounded(asked).await
    }

    /// A message by its sequence, as the leader has it.
    pub(super) async fn by_sequence(&self, stream: &str, sequence: u64) -> Result<Option<Stored>, NatsFault> {
        let asked = async {
            let handle = self.js.get_stream_no_info(stream).await.map_err(NatsFault::unavailable)?;
            found(handle.get_raw_message(sequence).await)
        };
        self.bounded(asked).await
    }

    /// The first message of some subjects from a sequence on, as the leader has it.
    pub(super) async fn next(&self, stream: &str, from: u64, subjects: &str) -> Result<Option<Stored>, NatsFault> {
        let asked = async {
            let handle = self.js.get_stream_no_info(stream).await.map_err(NatsFault::unavailable)?;
            found(handle.get_first_raw_message_by_subject(subjects, from).await)
        };
        self.bounded(asked).await
    }

    /// Some messages in a row, from any replica: it may lack the newest.
    pub(super) async fn batch(&self, stream: &str, batch: &FetchRange) -> Result<Vec<Stored>, NatsFault> {
        let inbox = self.inbox();
        let mut answers = self.subscribe(inbox.clone()).await?;
        let body = serde_json::to_vec(batch).expect("a batch is plain JSON");
        self.say_to_answer(format!("$JS.API.DIRECT.GET.{stream}"), inbox, body.into()).await?;
        let mut found = Vec::new();
        loop {
            let answer = tokio::time::timeout(self.timings.answer_timeout, answers.next()).await;
            let Ok(Some(message)) = answer else { return Err(NatsFault::unavailable("no answer to a read")) };
            match message.status {
                None | Some(StatusCode::OK) => {
                    let stored = StreamMessage::try_from(message);
                    found.push(stored.map_err(|_| NatsFault::Damaged("a message".into()))?.into());
                }
                Some(StatusCode::NO_RESPONDERS) => return Err(NatsFault::unavailable("no server answers reads")),
                // The end of the batch, or of what there is.
                Some(_) => return Ok(found),
            }
        }
    }
}

fn found(answer: Result<StreamMessage, jetstream::stream::RawMessageError>) -> Result<Option<Stored>, NatsFault> {
    match answer {
        Ok(message) => Ok(Some(message.into())),
        Err(error) => match error.kind() {
            LastRawMessageErrorKind::NoMessageFound => Ok(None),
            LastRawMessageErrorKind::JetStream(told) => match NatsFault::from(&told) {
                NatsFault::Missing => Ok(None),
                other => Err(other),
            },
            _ => Err(NatsFault::unavailable(error)),
        },
    }
}

/// Which messages: from a sequence on, so many of them, and no more once they have so many bytes.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FetchRange {
    #[serde(rename = "seq", skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<u64>,
    /// Only these subjects.
    #[serde(rename = "next_by_subj", skip_serializing_if = "Option::is_none")]
    pub(super) filter: Option<String>,
    #[serde(rename = "batch")]
    pub(super) count: usize,
    #[serde(rename = "max_bytes", skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_of_a_connection_that_nobody_told_of() {
        let mut connection = Connection { is_up: true, count: 3 };
        assert!(!connection.note_answer(), "that was known");
        connection.is_up = false;
        assert!(connection.note_answer());
        assert_eq!(connection, Connection { is_up: true, count: 4 }, "what was made on the one before is made anew");
    }
}
