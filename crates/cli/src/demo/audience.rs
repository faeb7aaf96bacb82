//! The demo's own eyes: the public event stream, as anybody with a token can read it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use salon_protocol::{Envelope, PresenceEvent};
use tokio::sync::watch;

use super::CAST;
use super::transcript::Transcript;
use crate::out;

const CONNECT_TIME: Duration = Duration::from_secs(5);

/// A topic's event stream, open.
pub(crate) struct Audience {
    stream: reqwest::Response,
    unread: Vec<u8>,
}

impl Audience {
    pub(crate) async fn open(address: SocketAddr, topic: &str, token: &str) -> anyhow::Result<Self> {
        // Loopback is nothing for a proxy.
        let client = reqwest::Client::builder().no_proxy().connect_timeout(CONNECT_TIME).build()?;
        let url = format!("http://{address}/v0/topics/{topic}/stream");
        let stream = client.get(url).bearer_auth(token).send().await.context("the event stream does not open")?;
        if stream.status() != 200 {
            bail!("the event stream was refused with status {}", stream.status());
        }
        Ok(Self { stream, unread: Vec::new() })
    }

    /// Prints what happens until the stream ends, or nobody reads it any more; `left` counts those of the cast who left.
    pub(crate) async fn watch(mut self, mut transcript: Transcript, left: watch::Sender<usize>) {
        let began = Instant::now();
        while let Some(data) = self.next().await {
            let Ok(envelope) = Envelope::restore(data) else { continue };
            if let Some(line) = transcript.line(&envelope, began.elapsed())
                && out(format_args!("{line}")).is_err()
            {
                return;
            }
            let leave = envelope.presence().filter(|presence| presence.event == PresenceEvent::Leave);
            if leave.is_some_and(|leave| CAST.contains(&leave.participant.id.as_str())) {
                left.send_modify(|count| *count += 1);
            }
        }
    }

    /// The data of the next event that has some; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            // An event ends with an empty line; nothing in it can hold one.
            while let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = self.unread.drain(..end + 2).collect();
                let event = String::from_utf8_lossy(&event);
                let data: Vec<_> = event.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
                if !data.is_empty() {
                    return Some(data.join("\n"));
                }
            }
            self.unread.extend_from_slice(&self.stream.chunk().await.ok()??);
        }
    }
}
