//! `salon search`: what was said in all rooms, by words.

use anyhow::anyhow;
use clap::Args;
use clap::builder::PossibleValuesParser;
use salon_client::{FoundEnvelope, SearchOptions};
use salon_protocol::{ParticipantId, TopicName};
use serde_json::json;

use super::outcome::HintContext;
use crate::access::{Access, Reach};
use crate::serve::is_coloured;
use crate::trouble::Trouble;
use crate::{hand_over, note, safe};

/// The most hits of one page.
const PAGE: u32 = 100;

/// How many pages are asked for without a hit: a store that is searched by reading it says after each how far it got.
const MAX_EMPTY_PAGES: usize = 50;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  salon search deploy
  salon search '\"rolled back\" prod*' --topic room:ops
  salon search backup --from alice --kind chat --json")]
pub(crate) struct SearchArgs {
    /// Words that must all be there; "words in quotes" are a phrase, and `migrat*` is a prefix
    #[arg(required = true, value_name = "WORD")]
    query: Vec<String>,
    /// Only in this room
    #[arg(long, value_name = "TOPIC")]
    topic: Option<TopicName>,
    /// Only messages of this participant
    #[arg(long, value_name = "ID")]
    from: Option<ParticipantId>,
    /// Only this kind
    #[arg(long, value_parser = PossibleValuesParser::new(["chat", "call", "result"]))]
    kind: Option<String>,
    /// How many at most, the newest
    #[arg(long, short = 'n', value_name = "COUNT", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Print one object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: SearchArgs) -> Result<(), Trouble> {
    if args.query.iter().all(|word| word.trim().is_empty()) {
        return Err(Trouble::usage(anyhow!("there is nothing to search for")));
    }
    super::run(search(args))
}

async fn search(args: SearchArgs) -> Result<(), Trouble> {
    let SearchArgs { query, topic, from, kind, limit, json, access } = args;
    let Reach { gateway, client, .. } = access.reach().map_err(Trouble::usage)?;
    let asking = HintContext { gateway: &gateway, topic: topic.as_ref() };
    let mut options = SearchOptions::new(query.join(" "));
    (options.topic, options.from, options.kind) = (topic.clone(), from, kind);
    let (mut found, mut is_complete, mut empty) = (Vec::new(), true, 0);
    while found.len() < limit as usize && empty < MAX_EMPTY_PAGES {
        options.limit = Some((limit as usize - found.len()).min(PAGE as usize));
        let page = client.search(&options).await.map_err(|error| asking.trouble(&error))?;
        // What a bound kept a page from is searched by the next one.
        is_complete = page.complete || page.next.is_some();
        empty = if page.hits.is_empty() { empty + 1 } else { 0 };
        found.extend(page.hits);
        options.before = page.next;
        if options.before.is_none() {
            break;
        }
    }
    if !is_complete || empty == MAX_EMPTY_PAGES {
        note(format_args!("not everything could be searched"));
    }
    if found.is_empty() {
        note(format_args!("nothing was found"));
        return Ok(());
    }
    let coloured = is_coloured(&std::io::stdout());
    let lines: Vec<String> =
        found.iter().map(|hit| if json { as_json(hit) } else { line(hit, topic.is_none(), coloured) }).collect();
    hand_over(format_args!("{}", lines.join("\n")))
}

fn as_json(hit: &FoundEnvelope) -> String {
    let FoundEnvelope { topic, id, from, ts, kind, snippet, matches, .. } = hit;
    json!({ "topic": topic, "id": id, "from": from, "ts": ts, "kind": kind, "snippet": snippet, "matches": matches })
        .to_string()
}

/// One hit for people: when, where, who, and what.
fn line(hit: &FoundEnvelope, names_topic: bool, coloured: bool) -> String {
    let place = if names_topic { format!("{}  ", hit.topic) } else { String::new() };
    let sort = if hit.kind == "chat" { String::new() } else { format!(" ({})", safe::line(&hit.kind)) };
    let ts = hit.ts.get(..16).unwrap_or(&hit.ts).replace('T', " ");
    format!("{}  {place}{}{sort}: {}", safe::line(&ts), hit.from, marked(&hit.snippet, &hit.matches, coloured))
}

/// The snippet with its matches in bold, where there are colours.
fn marked(snippet: &str, matches: &[(usize, usize)], coloured: bool) -> String {
    let units: Vec<u16> = snippet.encode_utf16().collect();
    let text = |from: usize, to: usize| safe::line(&String::from_utf16_lossy(units.get(from..to).unwrap_or_default()));
    if !coloured {
        return safe::line(snippet);
    }
    let (mut shown, mut from) = (String::new(), 0);
    for &(begin, end) in matches.iter().filter(|(begin, end)| begin <= end && *end <= units.len()) {
        shown += &format!("{}\u{1b}[1m{}\u{1b}[0m", text(from, begin), text(begin, end));
        from = end;
    }
    shown + &text(from, units.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_bold_where_there_are_colours() {
        assert_eq!(marked("a fox 😀", &[(2, 5)], true), "a \u{1b}[1mfox\u{1b}[0m 😀");
        assert_eq!(marked("a fox", &[(2, 5)], false), "a fox");
        assert_eq!(marked("a \u{1b}[31mfox", &[(9, 99), (3, 1)], true), safe::line("a \u{1b}[31mfox"));
    }
}
