//! The demo's own eyes: the public event stream, as anybody with a token can read it.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::Context;
use salon_client::{Client, Event, Following, Gateway, StaticToken};
use salon_protocol::{PresenceEvent, TopicName};
use tokio::sync::watch;

use super::CAST;
use crate::commands::filter::FilterArgs;
use crate::transcript::{LineTranscript, When};
use crate::{clock, out};

/// A topic's event stream, open.
pub(crate) struct Audience(Following);

impl Audience {
    pub(crate) async fn open(address: SocketAddr, topic: &str, token: &str) -> anyhow::Result<Self> {
        let client = Client::new(Gateway::new(&format!("http://{address}"))?, StaticToken::new(token));
        let stream = client.follow(&TopicName::new(topic)?, None).await.context("the event stream does not open")?;
        Ok(Self(stream))
    }

    /// Prints what happens, without handshakes and lists, until the stream ends or nobody reads it; `left` counts the cast that left.
    pub(crate) async fn watch(mut self, mut transcript: LineTranscript, left: watch::Sender<usize>) {
        let began = Instant::now();
        let mut filter = FilterArgs::default().filter(clock::now(), true);
        while let Some(told) = self.0.next().await {
            let Event::Envelope(envelope) = told else { continue };
            let since = began.elapsed();
            let time_text = format!("{}:{:02}", since.as_secs() / 60, since.as_secs() % 60);
            if filter.wants(&envelope)
                && let Some(line) = transcript.line(&envelope, When { time_text: &time_text, since: Some(since) })
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
}
