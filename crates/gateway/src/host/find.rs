//! `room.find_tools`: which tools there are, and whose they are.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use salon_mcp::listing::ListItem;
use salon_protocol::{ParticipantId, RpcError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::arguments::Arguments;
use super::calls::{MissingAnswer, some};
use super::catalogue::{Consulted, OfferedList};
use super::office::{HostRequest, Office};
use super::resident::registry;
use super::speech::{HostOutcome, cut, text, told};

pub(super) const MAX_TOOLS: usize = 500;
pub(super) const USUAL_TOOLS: usize = 50;

/// How long a search for tools waits for everybody together: a crowd of silent participants takes its time, and is asked on
/// behind the answer.
const FIND_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of a description or a schema is in the text.
const MAX_WORDS: usize = 1000;

/// What is looked for.
pub(super) struct FindRequest {
    query: Option<String>,
    pub(super) participant: Option<ParticipantId>,
    limit: usize,
}

impl FindRequest {
    pub(super) fn read(mut arguments: Arguments<'_>) -> Result<Self, RpcError> {
        let query = arguments.optional("query")?;
        let participant = arguments.optional("participant")?;
        let limit = arguments.number("limit", 1..=MAX_TOOLS as u64, USUAL_TOOLS as u64)? as usize;
        arguments.end()?;
        Ok(Self { query, participant, limit })
    }
}

/// The offers of the participants that answered, and the participants that did not.
async fn offers(
    consulted: Vec<Consulted>,
    deadline: Instant,
) -> (Vec<(ParticipantId, Arc<OfferedList>)>, Vec<MissingAnswer>) {
    let known = consulted.into_iter().map(|mut consulted| async move {
        let offer = consulted.offer(deadline).await;
        (consulted.who.id.clone(), offer)
    });
    let (mut offers, mut unanswered) = (Vec::new(), Vec::new());
    for (participant, offer) in join_all(known).await {
        match offer {
            Ok(offer) => offers.push((participant, offer)),
            Err(reason) => unanswered.push(MissingAnswer { participant, reason }),
        }
    }
    (offers, unanswered)
}

/// Answers once everybody who was consulted has answered, or had time enough to.
pub(super) async fn find(
    office: Arc<Office>,
    request: HostRequest,
    options: FindRequest,
    consulted: Vec<Consulted>,
) -> HostOutcome {
    let (offers, unanswered) = offers(consulted, Instant::now() + FIND_TIMEOUT).await;
    let host = ParticipantId::host();
    let own = options.participant.as_ref().is_none_or(ParticipantId::is_host);
    let (caller, stamp) = (request.caller(), request.entry.stamp.as_ref());
    let own_tools = registry::tools(&office, caller, stamp);
    let own = own.then_some((&host, &*own_tools));
    let lists = own.into_iter().chain(offers.iter().map(|(id, offer)| (id, &*offer.items)));
    let authority = office.desk.authority(caller, stamp);
    let may_call = |participant: &ParticipantId, tool: &ListItem| {
        authority.as_ref().is_none_or(|authority| authority.lists(caller, participant, &tool.name))
    };
    let tools = lists.flat_map(|(participant, tools)| tools.iter().map(move |tool| (participant, tool)));
    let tools = tools.filter(|(participant, tool)| may_call(participant, tool));
    let tools = tools.filter_map(|(participant, tool)| ToolView::of(participant, tool));
    let mut found = rank(tools.collect(), options.query.as_deref().unwrap_or_default());

    let total = found.len();
    found.truncate(options.limit);
    let mut room = office.toolbox.room_for_texts();
    // A schema counts for what it takes as it is and in words.
    found.retain(|tool| match room.checked_sub(tool.weight()) {
        Some(rest) => {
            room = rest;
            true
        }
        None => false,
    });
    let words = words(&found, total, &unanswered);
    let (unanswered, unanswered_total) = some(&unanswered);
    let structured = text(&FindResult { tools: &found, total, unanswered, unanswered_total });
    Ok(told(&words, &structured, false))
}

#[derive(Serialize)]
struct FindResult<'a> {
    tools: &'a [ToolView<'a>],
    total: usize,
    unanswered: &'a [MissingAnswer],
    #[serde(skip_serializing_if = "Option::is_none")]
    unanswered_total: Option<usize>,
}

/// A tool as it is shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolView<'a> {
    participant: &'a ParticipantId,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a RawValue>,
}

impl<'a> ToolView<'a> {
    fn of(participant: &'a ParticipantId, tool: &'a ListItem) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Fields<'a> {
            #[serde(borrow)]
            title: Option<&'a RawValue>,
            #[serde(borrow)]
            description: Option<&'a RawValue>,
            #[serde(borrow)]
            input_schema: Option<&'a RawValue>,
            #[serde(borrow)]
            annotations: Option<&'a RawValue>,
        }
        let fields: Fields<'a> = serde_json::from_str(tool.raw.get()).ok()?;
        // A value that is not text is left out; it is not a reason to hide the tool.
        let words = |raw: Option<&RawValue>| raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        Some(Self {
            participant,
            name: &tool.name,
            title: words(fields.title),
            description: words(fields.description),
            input_schema: fields.input_schema,
            annotations: fields.annotations,
        })
    }

    fn weight(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let annotations = self.annotations.map_or(0, |raw| raw.get().len());
        let schema = self.input_schema.map_or(0, |raw| raw.get().len());
        // In words a quote takes two bytes.
        let told = 2 * (text(&self.description).min(MAX_WORDS) + schema.min(MAX_WORDS));
        256 + self.name.len() + text(&self.title) + text(&self.description) + annotations + schema + told
    }

    /// How well it fits a word.
    fn fit(&self, word: &str) -> u32 {
        let has = |text: &str| text.to_lowercase().contains(word);
        let is_part = |text: &str| text.to_lowercase().split(|c: char| !c.is_alphanumeric()).any(|part| part == word);
        let texts = [
            (Some(self.name), 4),
            (self.title.as_deref(), 3),
            (Some(self.participant.as_str()), 2),
            (self.description.as_deref(), 1),
        ];
        let fits = texts.iter().filter_map(|(text, weight)| {
            let text = (*text)?;
            // A whole word counts for more than a part of one.
            has(text).then(|| if is_part(text) || text.eq_ignore_ascii_case(word) { 2 * weight } else { *weight })
        });
        fits.sum()
    }
}

/// The tools that match some word, the best first; all of them, by participant, when there are no words.
fn rank<'a>(tools: Vec<ToolView<'a>>, query: &str) -> Vec<ToolView<'a>> {
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split_whitespace().collect();
    if words.is_empty() {
        return tools;
    }
    let mut found: Vec<_> = tools
        .into_iter()
        .filter_map(|tool| {
            let fits: Vec<u32> = words.iter().map(|word| tool.fit(word)).collect();
            let matched = fits.iter().filter(|fit| **fit > 0).count();
            (matched > 0).then(|| ((matched, fits.iter().sum::<u32>()), tool))
        })
        .collect();
    // Stable, so that equals stay in order.
    found.sort_by_key(|(fit, _)| std::cmp::Reverse(*fit));
    found.into_iter().map(|(_, tool)| tool).collect()
}

fn words(found: &[ToolView<'_>], total: usize, unanswered: &[MissingAnswer]) -> String {
    let mut lines = Vec::new();
    match (found.len(), total) {
        (_, 0) => lines.push("No tool was found.".to_owned()),
        (shown, total) if shown < total => {
            lines.push(format!("{shown} of {total} tools; ask more precisely for others:"))
        }
        (shown, _) => lines.push(format!("{shown} tools:")),
    }
    for tool in found {
        let about = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or("(no description)");
        lines.push(format!("- {} of {}: {}", tool.name, tool.participant, cut(about, MAX_WORDS)));
        if let Some(schema) = tool.input_schema {
            lines.push(format!("  input schema: {}", cut(schema.get(), MAX_WORDS)));
        }
    }
    let (shown, all) = some(unanswered);
    for MissingAnswer { participant, reason } in shown {
        lines.push(format!("Not known: the tools of {participant}, who {}.", reason.words()));
    }
    lines.extend(all.map(|all| format!("Not known: the tools of {all} participants in all.")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use salon_mcp::listing::{Listing, read_page};

    fn item(raw: &RawValue) -> ListItem {
        let tools = format!(r#"{{"tools":[{raw}]}}"#);
        let page = RawValue::from_string(tools).expect("JSON");
        let (mut tools, _) = read_page(Listing::Tools, &page).expect("a page");
        tools.remove(0)
    }

    fn found(query: &str) -> String {
        let tools = [
            ("robot", r#"{"name":"arm.move","description":"Moves the arm","inputSchema":{}}"#),
            ("robot", r#"{"name":"remove","title":"Take away","inputSchema":{}}"#),
            ("clock", r#"{"name":"now","description":"Tells the time; does not move","inputSchema":{}}"#),
            ("arm", r#"{"name":"wave","description":5}"#),
        ];
        let tools: Vec<(ParticipantId, ListItem)> = tools
            .iter()
            .map(|(who, raw)| {
                let raw = RawValue::from_string((*raw).to_owned()).expect("JSON");
                (ParticipantId::new(who).expect("a name"), item(&raw))
            })
            .collect();
        let views = tools.iter().filter_map(|(who, tool)| ToolView::of(who, tool)).collect();
        rank(views, query).iter().map(|tool| tool.name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_best_come_first() {
        assert_eq!(found(""), "arm.move remove now wave");
        assert_eq!(found("move"), "arm.move remove now");
        assert_eq!(found("Move ARM"), "arm.move remove wave now", "more words before better ones");
        assert_eq!(found("clock"), "now");
        assert_eq!(found("take"), "remove");
        assert_eq!(found("nothing"), "");
    }

    #[test]
    fn a_schema_stays_as_it_was_written() {
        let schema = r#"{ "maximum":1e999, "type" : "object" }"#;
        let raw = RawValue::from_string(format!(r#"{{"name":"x","inputSchema":{schema}}}"#)).expect("JSON");
        let (who, tool) = (ParticipantId::host(), item(&raw));
        let view = ToolView::of(&who, &tool).expect("a view");
        assert!(text(&view).get().contains(schema));
    }
}
