//! The connection of a component: sockets, and waiting for reflections.

use std::collections::HashMap;
use std::time::Duration;

use salon_client::Wire;
use tokio::io::{AsyncWriteExt as _, BufReader, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::element::{StreamItem, StreamReader};
use super::session::{XmppLogin, XmppOutput, XmppSession};
use crate::clock::now;
use crate::platform::{ActionKey, PlatformEvents};
use crate::stream_driver::{ActionOutcome, ActionRequest, CheckTexts, StreamEnd, StreamPlatform};

/// How often white space is sent, which keeps the connection open (RFC 6120 §4.6.1), and chats are entered that could not be.
const KEEPALIVE: Duration = Duration::from_secs(15);

pub(super) struct XmppPlatform {
    pub(super) login: XmppLogin,
}

impl StreamPlatform for XmppPlatform {
    const NAME: &'static str = "xmpp";
    const CHECK: CheckTexts = CheckTexts {
        unreachable_hint: "check `server`; does the XMPP server listen for components?",
        channel: "chat",
        entered: "entered",
        channel_hint: "let the component's occupants in",
        login: "component",
        login_hint: "check `domain` and the secret: both must be as in the server's configuration; a component that is connected already must be stopped first",
    };

    async fn converse(
        &self,
        wire: Box<dyn Wire>,
        requests: &mut mpsc::Receiver<ActionRequest>,
        events: &PlatformEvents,
        stop: &CancellationToken,
    ) -> Result<(), StreamEnd> {
        let (reader, writer) = tokio::io::split(wire);
        // Reading an element cannot be interrupted without losing a part of it, so it has a task of its own, which ends with this.
        let (items, incoming) = mpsc::channel(64);
        let mut reading = JoinSet::new();
        reading.spawn(async move {
            let mut reader = StreamReader::new(BufReader::new(reader));
            loop {
                let item = reader.next().await;
                let is_last = item.is_err();
                if items.send(item).await.is_err() || is_last {
                    return;
                }
            }
        });
        let session = XmppSession::new(self.login.clone());
        let mut connection = XmppConnection { session, writer, events, waiting: HashMap::new() };
        connection.exchange(incoming, requests, stop).await
    }
}

struct XmppConnection<'a> {
    session: XmppSession,
    writer: WriteHalf<Box<dyn Wire>>,
    events: &'a PlatformEvents,
    waiting: HashMap<ActionKey, oneshot::Sender<ActionOutcome>>,
}

impl XmppConnection<'_> {
    async fn exchange(
        &mut self,
        mut incoming: mpsc::Receiver<Result<StreamItem, String>>,
        requests: &mut mpsc::Receiver<ActionRequest>,
        stop: &CancellationToken,
    ) -> Result<(), StreamEnd> {
        let start = self.session.start();
        self.write(&start).await?;
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + KEEPALIVE, KEEPALIVE);
        loop {
            tokio::select! { biased;
                () = stop.cancelled() => {
                    let _ = self.write("</stream:stream>").await;
                    return Ok(());
                }
                item = incoming.recv() => {
                    let outputs = match item {
                        Some(Ok(StreamItem::Opened(stream))) => self.session.opened(&stream),
                        Some(Ok(StreamItem::Stanza(stanza))) => self.session.stanza(&stanza, now()),
                        Some(Err(reason)) => return Err(StreamEnd::Lost(reason)),
                        None => return Err(StreamEnd::Lost("the connection has ended".into())),
                    };
                    self.perform(outputs).await?;
                }
                Some(ActionRequest { channel, action, outcome }) = requests.recv() => {
                    self.waiting.insert(action.key().clone(), outcome);
                    let outputs = self.session.act(&channel, action);
                    self.perform(outputs).await?;
                }
                _ = ticks.tick() => {
                    // One whose asker has stopped waiting has an unknown outcome: only a new connection tells.
                    if self.waiting.values().any(oneshot::Sender::is_closed) {
                        return Err(StreamEnd::Lost("the chat did not reflect a message".into()));
                    }
                    self.write(" ").await?;
                    let outputs = self.session.retry_entries();
                    self.perform(outputs).await?;
                }
            }
        }
    }

    async fn write(&mut self, text: &str) -> Result<(), StreamEnd> {
        self.writer.write_all(text.as_bytes()).await?;
        Ok(self.writer.flush().await?)
    }

    async fn perform(&mut self, outputs: Vec<XmppOutput>) -> Result<(), StreamEnd> {
        for output in outputs {
            match output {
                XmppOutput::Send(text) => self.write(&text).await?,
                XmppOutput::Event(channel, event) => self.events.report(channel, event).await?,
                XmppOutput::Outcome(key, outcome) => {
                    if let Some(waiting) = self.waiting.remove(&key) {
                        let _ = waiting.send(outcome);
                    }
                }
                XmppOutput::Refused(reason) => return Err(StreamEnd::Refused(reason)),
                XmppOutput::Closed(reason) => return Err(StreamEnd::Lost(reason)),
            }
        }
        Ok(())
    }
}
