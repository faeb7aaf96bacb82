//! What the tokens of callers permit, call by call, for whoever offers tools that not everybody may call.
//!
//! A participant may have several tokens, and several connections with them. What counts for a call is the token it was sent with: the
//! connection notes its permissions under the call's envelope before the room sees it, and whoever is called asks for them by that
//! envelope. So neither a connection that comes nor one that goes while a call is under way changes what it may do.
//!
//! Where several gateways share a log, the call may have come by another: then all others are asked, and only what each that knows the
//! call permits counts. Nothing is asked where nobody judges, so what a call costs is the same on every log.
//!
//! Invariants: notes only ever narrow, on one node and across nodes: whoever takes another's id with a weaker token, wherever, gains
//! nothing by the stronger one's note. A call of which nothing is noted anywhere is permitted nothing. Both the notes of one
//! participant and their time are bounded. Deliberately absent: calls that came before their gateway was started.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use salon_log::nats::Nats;
use salon_protocol::{Envelope, EnvelopeId, Message, ParticipantId, TopicName};
use serde::{Deserialize, Serialize};

/// How many calls of one participant in one topic are remembered; then its oldest is not.
const MOST_NOTED: usize = 1024;

/// How long a call is remembered: longer than anybody waits for one that has not even begun.
const LIFETIME: Duration = Duration::from_secs(120);

/// The method whose callers are judged.
const CALL: &str = "tools/call";

type Granted = Arc<[String]>;

/// What everybody's calls are permitted.
#[derive(Default)]
pub(crate) struct Permissions(Mutex<Table>);

#[derive(Default)]
struct Table {
    topics: HashMap<TopicName, HashMap<ParticipantId, Caller>>,
    swept: Option<Instant>,
}

/// One participant in one topic.
#[derive(Default)]
struct Caller {
    /// How many of its connections have a token that permits anything.
    connections: usize,
    /// Oldest first.
    calls: VecDeque<Noted>,
}

struct Noted {
    request: EnvelopeId,
    granted: Granted,
    at: Instant,
}

/// What gateways ask one another.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Question {
    /// What a call is permitted.
    Permitted { topic: TopicName, who: ParticipantId, request: EnvelopeId },
}

/// `None` where nothing is noted.
#[derive(Serialize, Deserialize)]
struct Answer {
    granted: Option<Vec<String>>,
}

impl Permissions {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("no code panics while it holds the permissions")
    }

    /// Somebody connects.
    pub(crate) fn hold(self: &Arc<Self>, topic: &TopicName, who: &ParticipantId, granted: &[String]) -> Arc<Held> {
        let counted = !granted.is_empty();
        if counted {
            self.table().topics.entry(topic.clone()).or_default().entry(who.clone()).or_default().connections += 1;
        }
        let granted = Mutex::new(granted.into());
        Arc::new(Held { permissions: self.clone(), topic: topic.clone(), who: who.clone(), counted, granted })
    }

    /// What is noted here of a call.
    fn noted(&self, topic: &TopicName, who: &ParticipantId, request: &EnvelopeId) -> Option<Granted> {
        let table = self.table();
        let caller = table.topics.get(topic)?.get(who)?;
        caller.calls.iter().rev().find(|noted| noted.request == *request).map(|noted| noted.granted.clone())
    }

    /// Answers another gateway. What it asks in words that are not known here is not answered.
    pub(crate) fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        let Question::Permitted { topic, who, request } = serde_json::from_slice(question).ok()?;
        let granted = self.noted(&topic, &who, &request).map(|granted| granted.to_vec());
        Some(serde_json::to_vec(&Answer { granted }).expect("a list of texts is plain JSON"))
    }
}

/// What everybody who knows of a call permits it.
fn agreed(known: impl IntoIterator<Item = Granted>) -> Granted {
    let both = |one: Granted, other: Granted| one.iter().filter(|each| other.contains(each)).cloned().collect();
    known.into_iter().reduce(both).unwrap_or_else(|| [].into())
}

impl Table {
    /// Forgets what is too old, everywhere, now and then.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now < swept + LIFETIME) {
            return;
        }
        self.swept = Some(now);
        self.topics.retain(|_, people| {
            people.retain(|_, caller| {
                caller.forget(now);
                !caller.is_idle()
            });
            !people.is_empty()
        });
    }
}

impl Caller {
    fn forget(&mut self, now: Instant) {
        while self.calls.front().is_some_and(|noted| now >= noted.at + LIFETIME) {
            self.calls.pop_front();
        }
    }

    fn is_idle(&self) -> bool {
        self.connections == 0 && self.calls.is_empty()
    }
}

/// One connection's permissions.
pub(crate) struct Held {
    permissions: Arc<Permissions>,
    topic: TopicName,
    who: ParticipantId,
    /// Whether it is among the caller's connections.
    counted: bool,
    granted: Mutex<Granted>,
}

impl Held {
    fn granted(&self) -> MutexGuard<'_, Granted> {
        self.granted.lock().expect("no code panics while it holds a connection's permissions")
    }

    /// The connection is used with another token as well: from here on only what both permit counts.
    pub(crate) fn narrow(&self, granted: &[String]) {
        let mut own = self.granted();
        if !own.iter().all(|permission| granted.contains(permission)) {
            *own = own.iter().filter(|permission| granted.contains(permission)).cloned().collect();
        }
    }

    /// An envelope is about to be published by this connection.
    pub(crate) fn note(&self, envelope: &Envelope) {
        let Some(Message::Request { method, .. }) = envelope.message() else { return };
        if **method != *CALL {
            return;
        }
        self.note_at(envelope.id(), Instant::now());
    }

    fn note_at(&self, request: &EnvelopeId, now: Instant) {
        let granted = self.granted().clone();
        let mut table = self.permissions.table();
        table.sweep(now);
        let known = table.topics.get_mut(&self.topic).and_then(|people| people.get_mut(&self.who));
        // Where no token of the participant's permits anything there is nothing to tell apart.
        let caller = match known {
            Some(caller) => caller,
            None if granted.is_empty() => return,
            None => table.topics.entry(self.topic.clone()).or_default().entry(self.who.clone()).or_default(),
        };
        caller.forget(now);
        // Who sends the same id with two tokens sends one call at the most.
        if let Some(noted) = caller.calls.iter_mut().rev().find(|noted| noted.request == *request) {
            noted.granted = noted.granted.iter().filter(|known| granted.contains(known)).cloned().collect();
            return;
        }
        if caller.calls.len() == MOST_NOTED {
            caller.calls.pop_front();
        }
        caller.calls.push_back(Noted { request: request.clone(), granted, at: now });
    }

    /// What a call of somebody in the same room is permitted, by the notes of this gateway.
    pub(crate) fn of(&self, who: &ParticipantId, request: &EnvelopeId) -> Granted {
        agreed(self.permissions.noted(&self.topic, who, request))
    }

    /// The same, by the notes of all gateways.
    pub(crate) fn of_all(
        &self,
        nodes: &Nats,
        who: &ParticipantId,
        request: &EnvelopeId,
    ) -> BoxFuture<'static, Granted> {
        let question = Question::Permitted { topic: self.topic.clone(), who: who.clone(), request: request.clone() };
        let asked = nodes.ask_others(serde_json::to_vec(&question).expect("names are plain JSON"));
        let (permissions, Question::Permitted { topic, who, request }) = (self.permissions.clone(), question);
        asked
            .map(move |answers| {
                let told = |answer: &[u8]| serde_json::from_slice::<Answer>(answer).ok()?.granted.map(Granted::from);
                let here = permissions.noted(&topic, &who, &request);
                agreed(answers.iter().filter_map(|answer| told(answer)).chain(here))
            })
            .boxed()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.counted {
            return;
        }
        let mut table = self.permissions.table();
        let Some(people) = table.topics.get_mut(&self.topic) else { return };
        if let Some(caller) = people.get_mut(&self.who) {
            caller.connections -= 1;
            if caller.is_idle() {
                people.remove(&self.who);
            }
        }
        if people.is_empty() {
            table.topics.remove(&self.topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> TopicName {
        TopicName::new("room").expect("a name")
    }

    fn alice() -> ParticipantId {
        ParticipantId::new("alice").expect("an id")
    }

    fn id(text: &str) -> EnvelopeId {
        EnvelopeId::new(text).expect("an id")
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_call_is_permitted_what_the_token_it_came_with_permits() {
        let permissions = Arc::new(Permissions::default());
        let other = TopicName::new("other").expect("a name");
        let now = Instant::now();
        let robot = permissions.hold(&room(), &ParticipantId::new("robot").expect("an id"), &[]);
        let strong = permissions.hold(&room(), &alice(), &words(&["drive", "read"]));
        let weak = permissions.hold(&room(), &alice(), &[]);
        let elsewhere = permissions.hold(&other, &alice(), &words(&["fly"]));
        strong.note_at(&id("s1"), now);
        weak.note_at(&id("w1"), now);
        elsewhere.note_at(&id("e1"), now);
        // Who hangs up at once is judged by what it came with, and not by who is still there.
        drop(weak);
        assert_eq!(*robot.of(&alice(), &id("w1")), words(&[]));
        assert_eq!(*robot.of(&alice(), &id("s1")), words(&["drive", "read"]));
        assert_eq!(*robot.of(&alice(), &id("e1")), words(&[]), "another topic's grant is not this one's");
        assert_eq!(*robot.of(&alice(), &id("none")), words(&[]));
        drop(strong);
        assert_eq!(*robot.of(&alice(), &id("s1")), words(&["drive", "read"]), "it may be judged late");
    }

    #[test]
    fn a_second_token_only_narrows() {
        let permissions = Arc::new(Permissions::default());
        let now = Instant::now();
        let strong = permissions.hold(&room(), &alice(), &words(&["drive", "read"]));
        let weak = permissions.hold(&room(), &alice(), &words(&["read"]));
        weak.note_at(&id("m1"), now);
        strong.note_at(&id("m1"), now);
        assert_eq!(*strong.of(&alice(), &id("m1")), words(&["read"]), "an id that was taken first by another token");
        strong.narrow(&words(&["read", "fly"]));
        strong.note_at(&id("m2"), now);
        strong.narrow(&words(&["drive", "read"]));
        strong.note_at(&id("m3"), now);
        assert_eq!(*strong.of(&alice(), &id("m2")), words(&["read"]));
        assert_eq!(*strong.of(&alice(), &id("m3")), words(&["read"]), "a session keeps the least it was used with");
    }

    #[test]
    fn only_what_every_gateway_that_knows_a_call_permits_counts() {
        let (here, there) = (Arc::new(Permissions::default()), Arc::new(Permissions::default()));
        let now = Instant::now();
        here.hold(&room(), &alice(), &words(&["read"])).note_at(&id("m1"), now);
        there.hold(&room(), &alice(), &words(&["drive", "read"])).note_at(&id("m1"), now);
        let asked = |request: &str| {
            let question = Question::Permitted { topic: room(), who: alice(), request: id(request) };
            let answer = there.answer(&serde_json::to_vec(&question).expect("JSON")).expect("an answer");
            serde_json::from_slice::<Answer>(&answer).expect("an answer").granted
        };
        assert_eq!(asked("m1"), Some(words(&["drive", "read"])));
        assert_eq!(asked("m2"), None, "of nothing that is not noted");
        let told = asked("m1").map(Granted::from);
        let known = |request: &str| here.noted(&room(), &alice(), &id(request));
        assert_eq!(*agreed(told.clone().into_iter().chain(known("m1"))), words(&["read"]));
        assert_eq!(*agreed(told.into_iter().chain(known("m2"))), words(&["drive", "read"]));
        assert_eq!(*agreed(None), words(&[]));
        for unknown in ["", "{}", r#"{"permitted":{}}"#, r#"{"other":{"topic":"room"}}"#] {
            assert_eq!(there.answer(unknown.as_bytes()), None, "{unknown}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let permissions = Arc::new(Permissions::default());
        let now = Instant::now();
        let held = permissions.hold(&room(), &alice(), &words(&["drive"]));
        for at in 0..=MOST_NOTED {
            held.note_at(&id(&format!("m{at}")), now);
        }
        assert_eq!(*held.of(&alice(), &id("m0")), words(&[]));
        assert_eq!(*held.of(&alice(), &id("m1")), words(&["drive"]));
        drop(held);
        let nobody = permissions.hold(&room(), &ParticipantId::new("bob").expect("an id"), &[]);
        nobody.note_at(&id("b1"), now + LIFETIME - Duration::from_millis(1));
        assert_eq!(*nobody.of(&alice(), &id("m1")), words(&["drive"]));
        nobody.note_at(&id("b2"), now + LIFETIME);
        assert!(permissions.table().topics.is_empty(), "nothing is kept of those who have gone");
    }
}
