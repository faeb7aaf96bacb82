//! Compares what was witnessed with what the gateway kept.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::TOPIC;
use super::client::{Record, Seen};
use crate::Failure;
use crate::http::Call;

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    next: Option<String>,
}

/// The whole history, oldest first.
pub(crate) async fn history(address: SocketAddr, token: &str) -> Result<Vec<Seen>, Failure> {
    let mut newest_first = Vec::new();
    let mut before = String::new();
    loop {
        let path = format!("/v0/topics/{TOPIC}/history?limit=1000{before}");
        let answer = Call::new("GET", path).bearer(token).send(address).await?;
        let page: Page<'_> = serde_json::from_str(&answer.body)
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

pub(crate) fn check(history: &[Seen], readers: &[Record], publishers: &[Record]) -> Result<(), Failure> {
    let mut places = HashMap::new();
    for (place, entry) in history.iter().enumerate() {
        if places.insert(entry.id.as_str(), place).is_some() {
            return Err(format!("{} is in the history twice", entry.id));
        }
    }
    for record in readers.iter().chain(publishers) {
        for seen in &record.seen {
            match places.get(seen.id.as_str()) {
                None => return Err(format!("{} saw {}, which is not in the history", record.name, seen.id)),
                Some(&place) if history[place].text != seen.text => {
                    return Err(format!("{} saw {}\n  kept was {}", record.name, seen.text, history[place].text));
                }
                Some(_) => {}
            }
        }
    }
    readers.iter().try_for_each(|reader| same_order(history, &places, reader))?;
    publishers.iter().try_for_each(|publisher| kept_once(history, publisher))
}

/// From the first envelope a reader saw on, it saw the history and nothing else, leaving aside its own comings and goings.
fn same_order(history: &[Seen], places: &HashMap<&str, usize>, reader: &Record) -> Result<(), Failure> {
    let others = |seen: &&Seen| seen.presence_of.as_deref() != Some(&reader.name);
    let saw: Vec<&Seen> = reader.seen.iter().filter(others).collect();
    let Some(first) = saw.first() else { return Err(format!("{} saw nothing", reader.name)) };
    let kept: Vec<&Seen> = history[places[first.id.as_str()]..].iter().filter(others).collect();
    // The reader went at the end; what came behind it is nobody's promise.
    let Some(at) = saw.iter().enumerate().position(|(at, seen)| kept.get(at).is_none_or(|kept| kept.id != seen.id))
    else {
        return Ok(());
    };
    let Some(expected) = kept.get(at) else { return Err(format!("{} saw {} again", reader.name, saw[at].id)) };
    let around = |list: &[&Seen]| {
        let shown = &list[at.saturating_sub(3)..list.len().min(at + 4)];
        shown.iter().map(|seen| format!("\n    {}", seen.text)).collect::<String>()
    };
    let (name, saw_id, kept_id) = (&reader.name, &saw[at].id, &expected.id);
    let (saw, kept) = (around(&saw), around(&kept));
    Err(format!("{name} saw {saw_id} where the history has {kept_id}\n  saw{saw}\n  kept{kept}"))
}

/// What was acknowledged is what is kept of a publisher: all of it, once, in the order it was written.
fn kept_once(history: &[Seen], publisher: &Record) -> Result<(), Failure> {
    let prefix = format!("{}-", publisher.name);
    let kept = history.iter().filter(|entry| entry.id.starts_with(&prefix)).map(|entry| &entry.text);
    if kept.eq(&publisher.acknowledged) {
        return Ok(());
    }
    let (kept, acknowledged) =
        (history.iter().filter(|e| e.id.starts_with(&prefix)).count(), publisher.acknowledged.len());
    Err(format!("of {}, {acknowledged} were acknowledged and {kept} kept, or not in that order", publisher.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(id: &str) -> Seen {
        let presence_of = id.strip_prefix("join-").map(str::to_owned);
        Seen { id: id.into(), text: format!("text of {id}"), presence_of }
    }

    fn verdict(history: &str, reader: &str, acknowledged: &str) -> String {
        let list = |ids: &str| ids.split_whitespace().map(seen).collect::<Vec<_>>();
        let record = |name: &str| Record { name: name.into(), ..Record::default() };
        let reader = Record { seen: list(reader), ..record("r") };
        let acknowledged = list(acknowledged).into_iter().map(|seen| seen.text).collect();
        let publisher = Record { acknowledged, ..record("p") };
        let told = check(&list(history), &[reader], &[publisher]).map_or_else(|told| told, |()| "fine".into());
        told.lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn every_kind_of_loss_is_found() {
        assert_eq!(verdict("join-r p-1 join-q p-2 end", "p-1 join-r join-q p-2 end", "p-1 p-2"), "fine");
        assert_eq!(verdict("join-r p-1 join-q p-2 end", "join-q p-2 end", "p-1 p-2"), "fine");
        assert_eq!(verdict("p-1 end", "p-1 p-2 end", "p-1"), "r saw p-2, which is not in the history");
        assert_eq!(verdict("p-1 p-1", "p-1", "p-1"), "p-1 is in the history twice");
        assert_eq!(verdict("p-1 p-2 end", "p-1 end", "p-1 p-2"), "r saw end where the history has p-2");
        assert_eq!(verdict("p-1 p-2 end", "p-2 p-1 end", "p-1 p-2"), "r saw p-1 where the history has end");
        assert_eq!(verdict("p-1 end", "p-1 end end", "p-1"), "r saw end again");
        assert_eq!(verdict("p-1 end", "", "p-1"), "r saw nothing");
        let told = "of p, 2 were acknowledged and 1 kept, or not in that order";
        assert_eq!(verdict("p-1 end", "p-1 end", "p-1 p-2"), told);
        assert_eq!(verdict("p-2 p-1 end", "p-2 p-1 end", "p-1 p-2").replace("2 kept", "1 kept"), told);
    }
}
