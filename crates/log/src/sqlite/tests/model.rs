//! The log does what a plain list would do.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Append { topic: usize, id: usize, text: usize },
    Join { topic: usize, who: usize },
    Leave { topic: usize, who: usize },
    Ask { topic: usize },
    Answer { topic: usize, request: usize },
    Trim,
    Reopen,
    Read { topic: usize, back: usize, limit: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let topic = 0..3usize;
    prop_oneof![
        8 => (topic.clone(), 0..60usize, 0..2usize).prop_map(|(topic, id, text)| Step::Append { topic, id, text }),
        2 => (topic.clone(), 0..3usize).prop_map(|(topic, who)| Step::Join { topic, who }),
        1 => (topic.clone(), 0..3usize).prop_map(|(topic, who)| Step::Leave { topic, who }),
        2 => topic.clone().prop_map(|topic| Step::Ask { topic }),
        2 => (topic.clone(), 0..5usize).prop_map(|(topic, request)| Step::Answer { topic, request }),
        1 => Just(Step::Trim),
        1 => Just(Step::Reopen),
        4 => (topic, 0..12usize, 0..12usize).prop_map(|(topic, back, limit)| Step::Read { topic, back, limit }),
    ]
}

/// A topic as a list. Its folds are computed again each time, over everything there ever was.
#[derive(Default)]
struct Model {
    ever: Vec<Arc<Entry>>,
    trimmed: usize,
}

impl Model {
    fn kept(&self) -> &[Arc<Entry>] {
        &self.ever[self.trimmed..]
    }

    fn present(&self) -> Vec<String> {
        let mut present: Vec<(String, String)> = Vec::new();
        for entry in &self.ever {
            let Some(event) = entry.envelope.presence() else { continue };
            present.retain(|(who, _)| who != event.participant.id.as_str());
            if event.event == salon_protocol::PresenceEvent::Join {
                present.push((event.participant.id.to_string(), entry.envelope.id().to_string()));
            }
        }
        present.into_iter().map(|(_, id)| id).collect()
    }

    /// Whether somebody leaves who is not present.
    fn is_absent(&self, envelope: &Envelope) -> bool {
        let event = |envelope: &Envelope| envelope.presence().map(|said| (said.participant.id, said.event));
        let Some((who, salon_protocol::PresenceEvent::Leave)) = event(envelope) else { return false };
        let mut before = self.ever.iter().rev().filter_map(|entry| event(&entry.envelope));
        !before.find(|(other, _)| *other == who).is_some_and(|(_, said)| said == salon_protocol::PresenceEvent::Join)
    }

    fn waiting(&self) -> Vec<String> {
        let asks = self.kept().iter().filter(|entry| entry.envelope.id().as_str().starts_with("ask"));
        ids(asks.filter(|ask| self.end_of(ask.envelope.id()).is_none()))
    }

    /// Why a request to `p0` does not wait for an answer, found by reading everything once more.
    fn end_of(&self, request: &EnvelopeId) -> Option<CallClosure> {
        let at = self.ever.iter().rposition(|entry| entry.envelope.id() == request).expect("it was asked");
        let event = |entry: &Arc<Entry>| {
            entry.envelope.presence().filter(|said| said.participant.id.as_str() == "p0").map(|said| said.event)
        };
        if self.ever[..at].iter().rev().find_map(event) != Some(salon_protocol::PresenceEvent::Join) {
            return Some(CallClosure::Failed);
        }
        self.ever[at..].iter().find_map(|entry| match event(entry) {
            Some(_) => Some(CallClosure::Failed),
            None if entry.envelope.correlation() == Some(request) => Some(CallClosure::Answered),
            None => None,
        })
    }
}

async fn agree(steps: Vec<Step>) {
    const KEEP: usize = 10;
    let directory = directory();
    let options = SqliteOptions { retention: rule(None, Some(KEEP as u64)), ..quick() };
    let mut log = Sqlite::open(&directory.0, options.clone()).expect("a new log");
    let topics = [topic("a"), topic("b"), topic("c")];
    let mut models: [Model; 3] = Default::default();
    for (serial, step) in steps.into_iter().enumerate() {
        let mut store = None;
        match step {
            Step::Append { topic, id, text } => {
                store = Some((topic, line(&format!("e{id}"), "alice", &format!("text {text}"))));
            }
            Step::Join { topic, who } => {
                store = Some((topic, presence(&format!("join{serial}"), "join", &format!("p{who}"))));
            }
            Step::Leave { topic, who } => {
                store = Some((topic, presence(&format!("leave{serial}"), "leave", &format!("p{who}"))));
            }
            Step::Ask { topic } => store = Some((topic, request(&format!("ask{serial}"), "alice", "p0"))),
            Step::Answer { topic, request } => {
                let mut asked =
                    models[topic].kept().iter().rev().filter(|e| e.envelope.id().as_str().starts_with("ask"));
                if let Some(ask) = asked.nth(request) {
                    let to = ask.envelope.id().as_str();
                    store = Some((topic, contract::response(&format!("answer{serial}"), "p0", to)));
                }
            }
            Step::Trim => {
                log.trim_now().await;
                for model in &mut models {
                    model.trimmed = model.trimmed.max(model.ever.len().saturating_sub(KEEP));
                }
            }
            Step::Reopen => {
                log.close().await;
                log = Sqlite::open(&directory.0, options.clone()).expect("a log that was closed");
                // Opening begins with a sweep, which must be over before the model is compared with it.
                log.trim_now().await;
                for model in &mut models {
                    model.trimmed = model.trimmed.max(model.ever.len().saturating_sub(KEEP));
                }
            }
            Step::Read { topic, back, limit } => {
                let (name, model) = (&topics[topic], &models[topic]);
                let kept = model.kept();
                let newest = log.read(name, Span::Newest, limit).await.expect("a read");
                assert_eq!(newest, kept[kept.len().saturating_sub(limit)..]);
                if let Some(at) = model.ever.len().checked_sub(back + 1) {
                    let position = model.ever[at].position;
                    let after = log.read(name, Span::After(position), limit).await;
                    if at + 1 < model.trimmed {
                        let resume = model.ever[model.trimmed - 1].position;
                        assert_eq!(after, Err(ReadError::Gap { resume }));
                    } else {
                        let rest = &model.ever[at + 1..];
                        assert_eq!(after.expect("no gap"), rest[..limit.min(rest.len())]);
                    }
                    let before = &model.ever[model.trimmed.min(at)..at];
                    let expected = &before[before.len().saturating_sub(limit)..];
                    assert_eq!(log.read(name, Span::Before(position), limit).await.expect("a read"), expected);
                }
                let standing = log.standing(name).await.expect("a standing");
                assert_eq!((ids(&standing.present), asked(&standing.waiting)), (model.present(), model.waiting()));
            }
        }
        let Some((topic, envelope)) = store else { continue };
        let model = &mut models[topic];
        let topic_states = model.kept().iter().find(|entry| entry.envelope.id() == envelope.id()).cloned();
        let outcome = log.append(&topics[topic], envelope.clone()).await.map(|a| (a.entry, a.repeated));
        let ended = answered_request(&envelope).and_then(|request| model.end_of(request)).map(AppendError::CallEnded);
        let refused = ended.or_else(|| model.is_absent(&envelope).then_some(AppendError::NotPresent));
        match topic_states {
            None if refused.is_some() => assert_eq!(outcome.err(), refused),
            None => {
                let (entry, repeated) = outcome.expect("a new id");
                assert_eq!((&entry.envelope, repeated), (&envelope, false));
                model.ever.push(entry);
            }
            Some(first) if first.envelope == envelope => assert_eq!(outcome, Ok((first, true))),
            Some(_) => assert_eq!(outcome, Err(AppendError::IdConflict)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_of_steps_agrees_with_a_list(steps in prop::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(agree(steps));
    }
}
