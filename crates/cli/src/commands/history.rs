//! `salon history`: what was said in a room, the newest at the bottom.

use std::io::IsTerminal;

use clap::Args;
use salon_client::{Client, HistoryQuery, RestError};
use salon_protocol::{Envelope, EnvelopeId, TopicName};

use super::existing;
use super::filter::{EnvelopeFilter, FilterArgs, PageFilter};
use super::outcome::HintContext;
use crate::access::{Access, Reach};
use crate::serve::is_coloured;
use crate::transcript::{LineTranscript, When, sent_at};
use crate::trouble::Trouble;
use crate::{clock, hand_over, json, note};

/// The most envelopes of one page.
const PAGE: usize = 1000;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  salon history room:alpha --limit 20
  salon history room:alpha --since 2h --from robot
  salon history room:alpha --method tools/call --grep dock
  salon history room:alpha --json | jq -r 'select(.kind == \"mcp\") | .from'")]
pub(crate) struct HistoryArgs {
    /// Which room
    topic: TopicName,
    /// How many envelopes, the newest
    #[arg(long, short = 'n', value_name = "COUNT", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Only envelopes before this: an envelope's id, or a time such as 2025-08-17T14:00:00Z
    #[arg(long, value_name = "ID|TIME")]
    before: Option<String>,
    /// Only envelopes after this one
    #[arg(long, value_name = "ID")]
    after: Option<EnvelopeId>,
    /// Print the envelopes themselves, one a line, handshakes and lists included
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: HistoryArgs) -> Result<(), Trouble> {
    super::run(history(args))
}

async fn history(args: HistoryArgs) -> Result<(), Trouble> {
    let HistoryArgs { topic, limit, before, after, json, filter, access } = args;
    let Reach { gateway, client, .. } = access.reach().map_err(Trouble::usage)?;
    let asking = HintContext { gateway: &gateway, topic: Some(&topic) };
    let is_narrow = before.is_some() || after.is_some() || filter.is_set();
    let nothing = if is_narrow { "nothing was found" } else { "nothing has happened yet" };
    let history_range = HistoryRange { most: limit as usize, before, after };
    let filter = filter.filter(clock::now(), !json);
    let found = gather(&client, &topic, history_range, filter).await;
    let HistoryFound { envelopes, enabled, folded } = found.map_err(|error| asking.trouble(&error))?;
    if !enabled {
        note(format_args!("`{topic}` keeps no history"));
    }
    let mut transcript = LineTranscript::new(is_coloured(&std::io::stdout())).at_length();
    transcript = transcript.revised_by(&envelopes);
    let lines = envelopes.iter().filter_map(|envelope| {
        if json {
            return Some(json::compact(envelope.text()));
        }
        transcript.line(envelope, When { time_text: &sent_at(envelope), since: None })
    });
    let lines: Vec<_> = lines.collect();
    if !lines.is_empty() {
        hand_over(format_args!("{}", lines.join("\n")))?;
    }
    if folded > 0 && std::io::stderr().is_terminal() {
        note(format_args!("{folded} messages of handshakes and lists are not shown; `--all` shows them"));
    }
    if lines.is_empty() && folded == 0 && enabled {
        let missing = existing::missing(&client, &topic).await;
        note(format_args!("{}", missing.unwrap_or_else(|| format!("{nothing} in `{topic}`"))));
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
    /// How many envelopes were left out because they are of handshakes and lists.
    pub(super) folded: usize,
}

/// How many envelopes are looked at for those that fit.
const MAX_LOOKED_AT: usize = 100_000;

/// Reads page after page until there are enough that fit.
pub(super) async fn gather(
    client: &Client,
    topic: &TopicName,
    history_range: HistoryRange,
    filter: EnvelopeFilter,
) -> Result<HistoryFound, RestError> {
    let HistoryRange { most, before, after } = history_range;
    let mut query = HistoryQuery::new().limit(most.clamp(1, PAGE));
    (query.before, query.after) = (before, after);
    let (mut pages, mut looked_at, mut enabled) = (PageFilter::new(filter), 0, true);
    while pages.count() < most && looked_at < MAX_LOOKED_AT {
        let page = client.history(topic, &query).await?;
        enabled = page.enabled;
        looked_at += page.envelopes.len();
        let goes_on = page.envelopes.into_iter().all(|envelope| pages.take(envelope));
        query.before = page.next;
        if !goes_on || query.before.is_none() {
            break;
        }
    }
    let (envelopes, folded) = pages.finish(most);
    Ok(HistoryFound { envelopes, enabled, folded })
}
