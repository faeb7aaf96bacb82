//! Whether everybody saw what was kept, and what was kept is what was acknowledged.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::END;
use crate::Failure;
use crate::witness::{HistoryIndex, Seen};

/// What one client can bear witness to.
#[derive(Debug, Default)]
pub(crate) struct FaultRecord {
    pub(crate) name: String,
    pub(crate) topic: usize,
    /// Everything it saw, in order.
    pub(crate) seen: Vec<Seen>,
    /// What it published and saw stored, by id.
    pub(crate) acknowledged: HashSet<String>,
    /// What it said more than once.
    pub(crate) again: HashSet<String>,
    pub(crate) reached_the_end: bool,
    pub(crate) by: FaultDoor,
}

/// By which door a client was in, where what it saw is not everything that was kept, word by word.
#[derive(Debug, Default)]
pub(crate) enum FaultDoor {
    #[default]
    Socket,
    /// Framed sessions: the ids of what each of them received.
    Framed(Vec<Vec<String>>),
    /// MCP sessions: how many calls were answered.
    Mcp { answered: usize },
}

/// One topic: its history up to the end, what its clients saw, and who was connected when it ended.
pub(crate) fn check(history: &[Seen], records: &[FaultRecord], connected: &BTreeSet<String>) -> Result<(), Failure> {
    if history.last().is_none_or(|last| last.id != END) {
        return Err("the history has no end".into());
    }
    let places = HistoryIndex::of(history)?;
    let answered = calls_end_once(history)?;
    for record in records {
        match &record.by {
            FaultDoor::Socket => {}
            FaultDoor::Framed(sessions) => {
                sessions.iter().try_for_each(|session| received_all(history, &record.name, session))?;
                continue;
            }
            FaultDoor::Mcp { answered: heard } => {
                let stored = answered.get(record.name.as_str()).copied().unwrap_or_default();
                if *heard == 0 || *heard > stored {
                    return Err(format!("{} heard {heard} answers, and {stored} are kept", record.name));
                }
                continue;
            }
        }
        places.has_all(&record.name, &record.seen)?;
        places.same_order(&record.name, &record.seen)?;
        if record.reached_the_end != record.seen.last().is_some_and(|last| last.id == END) {
            return Err(format!("{} did not see the end, or saw more", record.name));
        }
        kept_once(history, record)?;
    }
    let present = presence(history)?;
    match present == *connected {
        true => Ok(()),
        false => Err(format!("present by the log: {present:?}\n  connected: {connected:?}")),
    }
}

/// What was acknowledged is what is kept, and what was said once is in the order in which it was said.
fn kept_once(history: &[Seen], record: &FaultRecord) -> Result<(), Failure> {
    let said: Vec<_> = history.iter().filter(|entry| entry.from == record.name).collect();
    let kept: Vec<_> = said.iter().map(|entry| &entry.id).collect();
    let found = kept.iter().filter(|id| record.acknowledged.contains(**id)).count();
    if found < record.acknowledged.len() || kept.len() > found {
        let (name, acknowledged) = (&record.name, record.acknowledged.len());
        let unacknowledged = said.iter().enumerate().filter(|(_, entry)| !record.acknowledged.contains(&entry.id));
        let unacknowledged: String =
            unacknowledged.map(|(at, entry)| format!("\n  number {at}: {}", entry.text)).collect();
        let kept = kept.len();
        return Err(format!(
            "of {name}, {acknowledged} were acknowledged and {kept} kept, {found} of those{unacknowledged}"
        ));
    }
    let once: Vec<_> = kept.into_iter().filter(|id| !record.again.contains(*id)).collect();
    match once.windows(2).find(|pair| pair[0] >= pair[1]) {
        None => Ok(()),
        Some(pair) => Err(format!("{} was said after {}, each once, and is kept before it", pair[0], pair[1])),
    }
}

/// How many calls of each participant have an answer. None has two.
fn calls_end_once(history: &[Seen]) -> Result<HashMap<&str, usize>, Failure> {
    let (mut callers, mut ended) = (HashMap::new(), HashSet::new());
    let mut answered: HashMap<&str, usize> = HashMap::new();
    for entry in history {
        let value: Value = serde_json::from_str(&entry.text).unwrap_or_default();
        let payload = &value["payload"];
        if payload["method"].is_string() && !payload["id"].is_null() {
            callers.insert(entry.id.as_str(), entry.from.as_str());
        } else if payload.get("result").or(payload.get("error")).is_some() {
            let of = value["correlation_id"].as_str().unwrap_or_default().to_owned();
            if let Some(caller) = callers.get(of.as_str()) {
                *answered.entry(caller).or_default() += 1;
            }
            if !ended.insert(of) {
                return Err(format!("a call has a second answer: {}", entry.text));
            }
        }
    }
    Ok(answered)
}

/// From the first message that a framed session received on, it received everything that was for it, once and in order.
fn received_all(history: &[Seen], name: &str, session: &[String]) -> Result<(), Failure> {
    let Some(first) = session.first() else { return Ok(()) };
    let is_for = |entry: &&Seen| {
        let value: Value = serde_json::from_str(&entry.text).unwrap_or_default();
        let is_named = value["to"].as_array().is_none_or(|to| to.is_empty() || to.iter().any(|one| one == name));
        is_named && entry.from != name && entry.presence_of.as_deref() != Some(name)
    };
    let kept = history.iter().filter(is_for).map(|entry| &entry.id).skip_while(|id| *id != first);
    let kept: Vec<_> = kept.take(session.len()).collect();
    match session.iter().zip(&kept).find(|(received, kept)| received != *kept) {
        Some((received, kept)) => Err(format!("{name} received {received} where the history has {kept}")),
        None if kept.len() < session.len() => {
            Err(format!("{name} received {}, and so much is not kept", session.len()))
        }
        None => Ok(()),
    }
}

/// Who is present by what is kept. Nobody leaves who is not there.
fn presence(history: &[Seen]) -> Result<BTreeSet<String>, Failure> {
    let mut present = BTreeSet::new();
    for (entry, who) in history.iter().filter_map(|entry| Some((entry, entry.presence_of.clone()?))) {
        if !entry.is_leave {
            present.insert(who);
        } else if !present.remove(&who) {
            return Err(format!("{who} leaves and is not there: {}", entry.text));
        }
    }
    Ok(present)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(id: &str) -> Seen {
        let (join, leave) = (id.strip_prefix("join-"), id.strip_prefix("leave-"));
        let presence_of = join.or(leave).map(|who| who.trim_end_matches('\'').to_owned());
        let from = id.split('-').next().unwrap_or_default().to_owned();
        Seen { id: id.into(), text: format!("text of {id}"), from, presence_of, is_leave: leave.is_some() }
    }

    /// `p` publishes and reads: what it saw, and what of this it said more than once.
    fn verdict(history: &str, saw: &str, again: &str) -> String {
        let list = |ids: &str| ids.split_whitespace().map(seen).collect::<Vec<_>>();
        let ids = |ids: &str| ids.split_whitespace().map(str::to_owned).collect::<HashSet<_>>();
        let acknowledged: HashSet<_> = ids(saw).into_iter().filter(|id| id.starts_with("p-")).collect();
        let reached_the_end = saw.ends_with(END);
        let seen = list(saw);
        let record = FaultRecord {
            name: "p".into(),
            seen,
            acknowledged,
            again: ids(again),
            reached_the_end,
            ..FaultRecord::default()
        };
        let told = check(&list(history), &[record], &["p".to_owned()].into());
        told.map_or_else(|told| told.lines().next().unwrap_or_default().to_owned(), |()| "fine".into())
    }

    #[test]
    fn every_kind_of_fault_is_found() {
        let told = |history: &str, saw: &str| verdict(history, saw, "");
        assert_eq!(told("join-p p-1 p-2 the-end", "p-1 p-2 the-end"), "fine");
        assert_eq!(told("join-p p-1 q-1 leave-p join-p' the-end", "p-1 q-1 the-end"), "fine");
        assert_eq!(told("join-p p-1 p-2", "p-1 p-2"), "the history has no end");
        assert_eq!(told("join-p p-1 p-1 the-end", "p-1 the-end"), "p-1 is in the history twice");
        assert_eq!(told("join-p p-1 the-end", "p-1 p-2 the-end"), "p saw p-2, which is not in the history");
        assert_eq!(told("join-p p-1 q-1 the-end", "p-1 the-end"), "p saw the-end where the history has q-1");
        assert_eq!(told("join-p q-1 p-1 the-end", "p-1 q-1 the-end"), "p saw q-1 where the history has the-end");
        assert_eq!(told("join-p q-1 the-end", "q-1 q-1 the-end"), "p saw q-1 where the history has the-end");
        let lost = "of p, 1 were acknowledged and 2 kept, 1 of those";
        assert_eq!(told("join-p p-1 p-2 the-end", "p-2 the-end"), lost);
        let behind = "p-2 was said after p-1, each once, and is kept before it";
        assert_eq!(told("join-p p-2 p-1 the-end", "p-2 p-1 the-end"), behind);
        assert_eq!(verdict("join-p p-2 p-1 the-end", "p-2 p-1 the-end", "p-1"), "fine");
        assert_eq!(told("join-p join-q p-1 the-end", "join-q p-1 the-end"), r#"present by the log: {"p", "q"}"#);
        assert_eq!(told("join-p leave-p p-1 the-end", "p-1 the-end"), "present by the log: {}");
        let twice = "q leaves and is not there: text of leave-q'";
        assert_eq!(told("join-p join-q leave-q leave-q' the-end", "leave-q leave-q' the-end"), twice);
    }

    fn entry(text: Value) -> Seen {
        Seen::read(&text.to_string()).expect("an envelope").0
    }

    #[test]
    fn a_second_answer_is_told() {
        let request = |id: &str| entry(json!({"id": id, "from": "p", "payload": {"id": 1, "method": "tools/call"}}));
        let answer = |id: &str, of: &str| {
            entry(json!({"id": id, "from": "q", "correlation_id": of, "payload": {"id": 1, "result": {}}}))
        };
        let history = [request("r1"), request("r2"), answer("a1", "r1")];
        assert_eq!(calls_end_once(&history), Ok(HashMap::from([("p", 1)])));
        let history = [request("r1"), answer("a1", "r1"), answer("a2", "r1")];
        assert!(calls_end_once(&history).expect_err("two answers").starts_with("a call has a second answer"));
    }

    #[test]
    fn a_framed_session_received_what_was_for_it() {
        let to = |id: &str, to: &[&str]| entry(json!({"id": id, "from": "q", "to": to}));
        let own = entry(json!({"id": "own", "from": "p"}));
        let history = [to("1", &[]), own, to("2", &["p", "r"]), to("3", &["r"]), to("4", &[])];
        let verdict = |session: &str| {
            let session: Vec<_> = session.split_whitespace().map(str::to_owned).collect();
            received_all(&history, "p", &session).err().unwrap_or_else(|| "fine".into())
        };
        assert_eq!([verdict(""), verdict("2 4"), verdict("1 2 4")], ["fine"; 3]);
        assert_eq!(verdict("1 4"), "p received 4 where the history has 2");
        assert_eq!(verdict("2 2 4"), "p received 2 where the history has 4");
        assert_eq!(verdict("4 5"), "p received 2, and so much is not kept");
        assert_eq!(verdict("9"), "p received 1, and so much is not kept");
    }
}
