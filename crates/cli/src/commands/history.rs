//! `salon history`: what was said in a room, the newest at the bottom.

use clap::Args;
use salon_client::{Client, HistoryQuery, RestError};
use salon_protocol::{Envelope, EnvelopeId, TopicName};

use super::outcome::HintContext;
use crate::access::{Access, Reach};
use crate::serve::is_coloured;
use crate::transcript::{LineTranscript, When, sent_at};
use crate::trouble::Trouble;
use crate::{hand_over, json, note};

/// The most envelopes of one page.
const PAGE: usize = 1000;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  salon history room:alpha --limit 20
  salon history room:alpha --before 2025-08-17T14:00:00Z
  salon history room:alpha --json | jq -r 'select(.kind == \"mcp\") | .from'")]
pub(crate) struct HistoryArgs {
    /// Which room
    topic: TopicName,
    /// How many envelopes, the newest of those that are meant
    #[arg(long, short = 'n', value_name = "COUNT", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Only what came before this: an envelope's id, or a time such as 2025-08-17T14:00:00Z
    #[arg(long, value_name = "ID|TIME")]
    before: Option<String>,
    /// Only what came after this envelope
    #[arg(long, value_name = "ID")]
    after: Option<EnvelopeId>,
    /// Print the envelopes themselves, one a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: HistoryArgs) -> Result<(), Trouble> {
    super::run(history(args))
}

async fn history(args: HistoryArgs) -> Result<(), Trouble> {
    let HistoryArgs { topic, limit, before, after, json, access } = args;
    let Reach { place, client } = access.reach().map_err(Trouble::usage)?;
    let asking = HintContext { place: &place, topic: Some(&topic) };
    let nothing = if before.is_none() && after.is_none() { "nothing has happened yet" } else { "nothing was found" };
    let history_range = HistoryRange { most: limit as usize, before, after };
    let HistoryFound { envelopes, enabled } =
        gather(&client, &topic, history_range, |_| true).await.map_err(|error| asking.trouble(&error))?;
    if !enabled {
        note(format_args!("`{topic}` keeps no history"));
    }
    let mut transcript = LineTranscript::new(is_coloured(&std::io::stdout())).at_length();
    let lines = envelopes.iter().filter_map(|envelope| {
        if json {
            return Some(json::compact(envelope.text()));
        }
        transcript.line(envelope, When { time_text: &sent_at(envelope), since: None })
    });
    let lines: Vec<_> = lines.collect();
    if !lines.is_empty() {
        return hand_over(format_args!("{}", lines.join("\n")));
    }
    if enabled {
        note(format_args!("{nothing} in `{topic}`"));
    }
    Ok(())
}

/// Which envelopes are wanted: the newest of those between two ends.
pub(super) struct HistoryRange {
    pub(super) most: usize,
    pub(super) before: Option<String>,
    pub(super) after: Option<EnvelopeId>,
}

/// What was found, the oldest first.
pub(super) struct HistoryFound {
    pub(super) envelopes: Vec<Envelope>,
    /// Whether the topic keeps a history at all.
    pub(super) enabled: bool,
}

/// How many envelopes are looked at for those that fit.
const MAX_LOOKED_AT: usize = 100_000;

/// Reads page after page until there are enough that fit.
pub(super) async fn gather(
    client: &Client,
    topic: &TopicName,
    history_range: HistoryRange,
    fits: impl Fn(&Envelope) -> bool,
) -> Result<HistoryFound, RestError> {
    let HistoryRange { most, before, after } = history_range;
    let mut query = HistoryQuery::new().limit(most.clamp(1, PAGE));
    (query.before, query.after) = (before, after);
    let (mut envelopes, mut looked_at, mut enabled) = (Vec::new(), 0, true);
    while envelopes.len() < most && looked_at < MAX_LOOKED_AT {
        let page = client.history(topic, &query).await?;
        enabled = page.enabled;
        looked_at += page.envelopes.len();
        envelopes.extend(page.envelopes.into_iter().filter(|envelope| fits(envelope)).take(most - envelopes.len()));
        query.before = page.next;
        if query.before.is_none() {
            break;
        }
    }
    envelopes.reverse();
    Ok(HistoryFound { envelopes, enabled })
}
