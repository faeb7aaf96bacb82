//! What clients of a test saw, and what the gateway kept of it.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::Failure;
use crate::http::HttpCall;

/// An envelope somebody saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) from: String,
    /// Whose coming or going it tells.
    pub(crate) presence_of: Option<String>,
    /// Whether it tells that somebody left.
    pub(crate) is_leave: bool,
}

impl Seen {
    pub(crate) fn read(text: &str) -> Result<(Self, Value), Failure> {
        let value: Value = serde_json::from_str(text).map_err(|e| format!("a frame is not JSON ({e}): {text}"))?;
        let presence = (value["kind"] == "presence").then(|| &value["payload"]["participant"]["id"]);
        let seen = Self {
            id: value["id"].as_str().ok_or_else(|| format!("an envelope without an id: {text}"))?.to_owned(),
            text: text.to_owned(),
            from: value["from"].as_str().unwrap_or_default().to_owned(),
            presence_of: presence.and_then(Value::as_str).map(str::to_owned),
            is_leave: value["kind"] == "presence" && value["payload"]["event"] == "leave",
        };
        Ok((seen, value))
    }
}

pub(crate) fn envelope(from: &str, id: &str, number: u64) -> String {
    json!({
        "protocol": "mcp-x/v0", "id": id, "ts": "2025-08-17T14:00:00Z", "from": from, "kind": "mcp",
        "payload": {"jsonrpc": "2.0", "method": "notifications/count", "params": {"n": number}},
    })
    .to_string()
}

#[derive(Deserialize)]
struct HistoryBody<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    next: Option<String>,
}

/// The whole history, oldest first.
pub(crate) async fn history(address: SocketAddr, topic: &str, token: &str) -> Result<Vec<Seen>, Failure> {
    let mut newest_first = Vec::new();
    let mut before = String::new();
    loop {
        let path = format!("/v0/topics/{topic}/history?limit=1000{before}");
        let answer = HttpCall::new("GET", path).bearer(token).send(address).await?;
        let page: HistoryBody<'_> = serde_json::from_str(&answer.body)
            .map_err(|e| format!("a page of the history is wrong ({e}): {} {}", answer.status, answer.body))?;
        for text in &page.messages {
            newest_first.push(Seen::read(text.get())?.0);
        }
        match page.next {
            Some(next) if !page.messages.is_empty() => before = format!("&before={next}"),
            Some(next) => return Err(format!("an empty page goes on before {next}")),
            None => break,
        }
    }
    newest_first.reverse();
    Ok(newest_first)
}

/// A history, and where in it everything is.
pub(crate) struct HistoryIndex<'a> {
    history: &'a [Seen],
    by_id: HashMap<&'a str, usize>,
}

impl<'a> HistoryIndex<'a> {
    /// Fails when something is there twice.
    pub(crate) fn of(history: &'a [Seen]) -> Result<Self, Failure> {
        let mut by_id = HashMap::new();
        for (place, entry) in history.iter().enumerate() {
            if by_id.insert(entry.id.as_str(), place).is_some() {
                return Err(format!("{} is in the history twice", entry.id));
            }
        }
        Ok(Self { history, by_id })
    }

    /// Whether everything somebody saw was kept, as it was.
    pub(crate) fn has_all(&self, name: &str, saw: &[Seen]) -> Result<(), Failure> {
        saw.iter().try_for_each(|seen| match self.by_id.get(seen.id.as_str()) {
            None => Err(unknown(name, seen)),
            Some(&place) if self.history[place].text != seen.text => {
                Err(format!("{name} saw {}\n  kept was {}", seen.text, self.history[place].text))
            }
            Some(_) => Ok(()),
        })
    }

    /// From the first envelope a reader saw on, it saw the history and nothing else, leaving aside its own comings and goings.
    pub(crate) fn same_order(&self, name: &str, saw: &[Seen]) -> Result<(), Failure> {
        let others = |seen: &&Seen| seen.presence_of.as_deref() != Some(name);
        let saw: Vec<&Seen> = saw.iter().filter(others).collect();
        let Some(first) = saw.first() else { return Err(format!("{name} saw nothing")) };
        let Some(&from) = self.by_id.get(first.id.as_str()) else { return Err(unknown(name, first)) };
        let kept: Vec<&Seen> = self.history[from..].iter().filter(others).collect();
        // The reader went at the end; what came behind it is nobody's promise.
        let Some(at) = saw.iter().enumerate().position(|(at, seen)| kept.get(at).is_none_or(|kept| kept.id != seen.id))
        else {
            return Ok(());
        };
        let Some(expected) = kept.get(at) else { return Err(format!("{name} saw {} again", saw[at].id)) };
        let around = |list: &[&Seen]| {
            let shown = &list[at.saturating_sub(3)..list.len().min(at + 4)];
            shown.iter().map(|seen| format!("\n    {}", seen.text)).collect::<String>()
        };
        let (saw_id, kept_id) = (&saw[at].id, &expected.id);
        let (saw, kept) = (around(&saw), around(&kept));
        Err(format!("{name} saw {saw_id} where the history has {kept_id}\n  saw{saw}\n  kept{kept}"))
    }
}

fn unknown(name: &str, seen: &Seen) -> Failure {
    format!("{name} saw {}, which is not in the history", seen.id)
}
