//! `salon tail`: what happens in a room, as it happens, without being in it.
//!
//! A lost connection is made good: the stream goes on after the last envelope that was shown.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use clap::Args;
use salon_client::{Backoff, Client, Event, Following, RestError};
use salon_protocol::{Envelope, EnvelopeId, PresenceEvent, TopicName};

use super::filter::{EnvelopeFilter, FilterArgs};
use super::history::{HistoryFound, HistoryRange, gather};
use super::outcome::HintContext;
use crate::access::{Access, Reach};
use crate::serve::is_coloured;
use crate::transcript::{LineTranscript, When, sent_at};
use crate::trouble::Trouble;
use crate::{clock, json, note, out};

/// How much is caught up with after a topic that was empty had its first envelopes while the connection was lost.
const MAX_CAUGHT_UP: usize = 10_000;

/// A stream that lasted so long was a good one: when it ends, it is opened again at once.
const RESET_BACKOFF_AFTER: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
#[command(after_help = "\
You are not a participant while you follow a room. After a restart of the
gateway the command continues where it was, and misses nothing.

  salon tail room:alpha
  salon tail room:alpha --kind chat --from alice
  salon tail room:alpha --json --lines 0 | jq .payload")]
pub(crate) struct TailArgs {
    /// Which room
    topic: TopicName,
    /// How many earlier envelopes to show first
    #[arg(long, short = 'n', value_name = "COUNT", default_value = "10", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    lines: u32,
    /// Print the envelopes themselves, one a line, handshakes and lists included
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: TailArgs) -> Result<(), Trouble> {
    super::run(tail(args))
}

async fn tail(args: TailArgs) -> Result<(), Trouble> {
    let Reach { gateway, client, .. } = args.access.reach().map_err(Trouble::usage)?;
    let asking = HintContext { gateway: &gateway, topic: Some(&args.topic) };
    let follower = TailFollower { client: &client, args: &args, filter: args.filter.filter(clock::now(), !args.json) };
    let mut screen = TailScreen::new(&args);
    // The reader of stdout is gone, which is not an error.
    follower.run(&mut screen).await.map_err(|error| asking.trouble(&error))
}

struct TailScreen {
    json: bool,
    transcript: LineTranscript,
    began: Instant,
}

impl TailScreen {
    fn new(args: &TailArgs) -> Self {
        let transcript = LineTranscript::new(is_coloured(&std::io::stdout())).at_length();
        Self { json: args.json, transcript, began: Instant::now() }
    }

    /// Shows an envelope; false when nobody reads any more.
    fn show(&mut self, envelope: &Envelope, since: Option<Duration>) -> bool {
        let line = if self.json {
            Some(json::compact(envelope.text()))
        } else {
            self.transcript.line(envelope, When { time_text: &sent_at(envelope), since })
        };
        line.is_none_or(|line| out(format_args!("{line}")).is_ok())
    }
}

/// From where on a stream is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum From {
    /// Right after an envelope.
    After(EnvelopeId),
    /// Everything there is: there was nothing yet.
    Beginning,
    /// Only what comes now: what was before is lost.
    Now,
}

/// How often in a row opening the stream failed or it ended soon. A gateway that takes every stream and ends it must not be run at
/// without a pause.
#[derive(Debug, Default)]
struct Returns(u32);

impl Returns {
    /// How long to wait before the stream is opened again, the last one having lasted so long. `random` is any number.
    fn wait(&mut self, lasted: Duration, random: u64) -> Duration {
        if lasted >= RESET_BACKOFF_AFTER {
            self.0 = 0;
        }
        let wait = self.0.checked_sub(1).map_or(Duration::ZERO, |attempt| Backoff::default().delay(attempt, random));
        self.0 = self.0.saturating_add(1);
        wait
    }
}

/// What it takes to open the stream, again and again.
struct TailFollower<'a> {
    client: &'a Client,
    args: &'a TailArgs,
    filter: EnvelopeFilter,
}

impl TailFollower<'_> {
    /// Shows what happens until nobody reads any more.
    async fn run(mut self, screen: &mut TailScreen) -> Result<(), RestError> {
        // Opened before looking back, so that nothing falls between the two.
        let mut stream = self.open(&From::Now).await?;
        let (mut opened, mut returns) = (Instant::now(), Returns::default());
        // What `--since` names is shown whole.
        let lines = if self.filter.since.is_some() { MAX_CAUGHT_UP } else { self.args.lines as usize };
        // Even when none is to be shown, the last one says where to go on after a lost connection.
        let HistoryFound { envelopes, enabled, .. } = self.look_back(lines.max(1)).await?;
        if !enabled {
            note(format_args!("`{}` keeps no history; this is from now on", self.args.topic));
        }
        let mut from = envelopes.last().map_or(From::Beginning, |last| From::After(last.id().clone()));
        if !enabled {
            from = From::Now;
        }
        // What came meanwhile is in the stream as well.
        let mut time_text = HashSet::new();
        let mut read = true;
        for envelope in &envelopes {
            time_text.insert(envelope.id().clone());
            read = read && (lines == 0 || screen.show(envelope, None));
        }
        while read {
            match stream.next().await {
                Some(Event::Gap) => missing(),
                Some(Event::Outage(why)) => note(format_args!("the gateway says: {}", crate::safe::line(&why))),
                Some(Event::Recovered) => note(format_args!("the gateway stores messages again")),
                Some(Event::Envelope(envelope)) => {
                    // A heartbeat is not stored, so nothing can be resumed after one.
                    if envelope.presence().is_none_or(|presence| presence.event != PresenceEvent::Heartbeat) {
                        from = From::After(envelope.id().clone());
                    }
                    let wanted = self.filter.wants(&envelope);
                    if !time_text.remove(envelope.id()) && wanted {
                        read = screen.show(&envelope, Some(screen.began.elapsed()));
                    }
                }
                // An event of a later version of the library is not a message.
                Some(_) => {}
                None => {
                    stream = self.come_back(&mut from, &mut returns, opened.elapsed()).await?;
                    opened = Instant::now();
                    if from == From::Beginning {
                        for envelope in self.look_back(MAX_CAUGHT_UP).await?.envelopes {
                            read = read && screen.show(&envelope, None);
                            time_text.insert(envelope.id().clone());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    async fn look_back(&self, most: usize) -> Result<HistoryFound, RestError> {
        let wanted = HistoryRange { most, before: None, after: None };
        let filter = self.args.filter.filter(clock::now(), !self.args.json);
        gather(self.client, &self.args.topic, wanted, filter).await
    }

    async fn open(&self, from: &From) -> Result<Following, RestError> {
        let after = match from {
            From::After(id) => Some(id),
            From::Beginning | From::Now => None,
        };
        self.client.follow(&self.args.topic, after).await
    }

    /// Opens the stream again, however long that takes. The one before lasted so long.
    async fn come_back(
        &self,
        from: &mut From,
        returns: &mut Returns,
        mut lasted: Duration,
    ) -> Result<Following, RestError> {
        let mut is_away = false;
        loop {
            let random = uuid::Uuid::new_v4().as_u64_pair().0;
            tokio::time::sleep(returns.wait(std::mem::take(&mut lasted), random)).await;
            match self.open(from).await {
                Ok(stream) => {
                    if is_away {
                        note(format_args!("back again"));
                    }
                    return Ok(stream);
                }
                Err(RestError::Refused(refusal)) if refusal.status == 404 && *from != From::Now => {
                    missing();
                    *from = From::Now;
                }
                Err(error) if error.is_passing() => {
                    if !std::mem::replace(&mut is_away, true) {
                        note(format_args!("the gateway is away; waiting for it"));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn missing() {
    note(format_args!("some envelopes are missing here: they are no longer kept"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_end_at_once_are_opened_less_and_less_often() {
        let mut returns = Returns::default();
        let mut wait = |lasted| returns.wait(Duration::from_secs(lasted), u64::MAX).as_secs_f64();
        assert_eq!(wait(1), 0.0);
        let waits = [wait(0), wait(29), wait(0)];
        assert!(waits[0] > 0.2 && waits[1] > 1.5 * waits[0] && waits[2] > 1.5 * waits[1], "{waits:?}");
        // A connection that worked resets the attempts.
        assert_eq!((wait(30), wait(0)), (0.0, waits[0]));
    }
}
