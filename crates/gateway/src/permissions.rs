//! What the tokens of callers permit, call by call, for whoever offers tools that not everybody may call.
//!
//! A participant may have several tokens, and several connections with them. What counts for a call is the token it was sent with: the
//! connection notes its permissions under the call's envelope before the room sees it, and whoever is called asks for them by that
//! envelope. So neither a connection that comes nor one that goes while a call is under way changes what it may do. Where requests with
//! tokens of their own share a connection, as over HTTP, it is the request's token that is noted.
//!
//! Where several gateways share a log, the call may have come by another: then all others that live are asked, and only what each that
//! knows the call permits counts. There, a token that permits nothing is noted like any other. Nothing is asked where nobody judges.
//!
//! Invariants: notes only ever narrow, on one node and across nodes: whoever takes another's id with a weaker token, wherever, gains
//! nothing by the stronger one's note. So a call is permitted nothing when a gateway that lives does not say what it knows; one that has
//! ended, or that NATS has lost, knows nothing. A call of which nothing is noted anywhere is permitted nothing. Both the notes of one
//! participant and their time are bounded. Deliberately absent: calls that came before their gateway was started.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use salon_protocol::{Envelope, EnvelopeId, Message, ParticipantId, TopicName};
use serde::{Deserialize, Serialize};

use crate::nodes::Nodes;

/// How many calls of one participant in one topic are remembered; then its oldest is not.
const MAX_NOTED: usize = 1024;

/// How long a call is remembered: longer than anybody waits for one that has not even begun.
const LIFETIME: Duration = Duration::from_secs(120);

/// The method whose callers are judged.
const CALL: &str = "tools/call";

type Granted = Arc<[String]>;

/// What everybody's calls are permitted.
#[derive(Default)]
pub(crate) struct Permissions {
    table: Mutex<Table>,
    /// Whether other gateways have notes, too.
    among_nodes: bool,
}

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
    calls: HashMap<EnvelopeId, Granted>,
    /// The same calls and when they were noted, oldest first.
    noted: VecDeque<(EnvelopeId, Instant)>,
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
    /// With nothing noted, for a gateway that has others beside it or does not.
    pub(crate) fn among_nodes(among_nodes: bool) -> Self {
        Self { among_nodes, ..Self::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Somebody connects.
    pub(crate) fn hold(self: &Arc<Self>, topic: &TopicName, who: &ParticipantId, granted: &[String]) -> Arc<Held> {
        let counted = !granted.is_empty();
        if counted {
            self.table().topics.entry(topic.clone()).or_default().entry(who.clone()).or_default().connections += 1;
        }
        let (granted, shown) = (Mutex::new(granted.into()), Mutex::default());
        Arc::new(Held { permissions: self.clone(), topic: topic.clone(), who: who.clone(), counted, granted, shown })
    }

    /// What is noted here of a call.
    fn noted(&self, topic: &TopicName, who: &ParticipantId, request: &EnvelopeId) -> Option<Granted> {
        let table = self.table();
        table.topics.get(topic)?.get(who)?.calls.get(request).cloned()
    }

    /// Answers another gateway. Of what it asks in words that are not known here nothing is known.
    pub(crate) fn answer(&self, question: &[u8]) -> Vec<u8> {
        let noted = |Question::Permitted { topic, who, request }| self.noted(&topic, &who, &request);
        let granted = serde_json::from_slice(question).ok().and_then(noted).map(|granted| granted.to_vec());
        serde_json::to_vec(&Answer { granted }).expect("a list of texts is plain JSON")
    }
}

/// What a call is permitted by the others' answers and by what is noted here. Without the answer of each it is not known who has a weaker
/// token's note of it.
fn judged(answers: Option<&[impl AsRef<[u8]>]>, here: Option<Granted>) -> Granted {
    let read = |answer: &_| serde_json::from_slice::<Answer>(AsRef::as_ref(answer)).ok();
    let Some(told) = answers.and_then(|answers| answers.iter().map(read).collect::<Option<Vec<_>>>()) else {
        tracing::warn!("another gateway did not say what it knows of a call, which is permitted nothing therefore");
        return [].into();
    };
    agreed(told.into_iter().filter_map(|answer| answer.granted).map(Granted::from).chain(here))
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
        while self.noted.front().is_some_and(|(_, at)| now >= *at + LIFETIME) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((request, _)) = self.noted.pop_front() {
            self.calls.remove(&request);
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
    /// Requests that are under way and came with tokens of their own: how many of the same id, and what all their tokens permit.
    shown: Mutex<HashMap<EnvelopeId, (usize, Granted)>>,
}

/// A request that came with a token of its own, until this is dropped.
pub(crate) struct Shown {
    held: Arc<Held>,
    request: EnvelopeId,
}

impl Drop for Shown {
    fn drop(&mut self) {
        let mut shown = self.held.shown();
        if let Some((count, _)) = shown.get_mut(&self.request) {
            *count -= 1;
            if *count == 0 {
                shown.remove(&self.request);
            }
        }
    }
}

impl Held {
    fn shown(&self) -> MutexGuard<'_, HashMap<EnvelopeId, (usize, Granted)>> {
        self.shown.lock()
    }

    /// A request comes over the connection with a token of its own. The call it makes has the request's id, and is permitted what this
    /// token permits, whatever others the connection is used with.
    pub(crate) fn show(self: &Arc<Self>, request: EnvelopeId, granted: &[String]) -> Shown {
        let mut shown = self.shown();
        let (count, least) = shown.entry(request.clone()).or_insert_with(|| (0, granted.into()));
        *count += 1;
        *least = agreed([least.clone(), granted.into()]);
        drop(shown);
        Shown { held: self.clone(), request }
    }

    fn granted(&self) -> MutexGuard<'_, Granted> {
        self.granted.lock()
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
        let shown = self.shown().get(request).map(|(_, granted)| granted.clone());
        let is_shown = shown.is_some();
        let granted = shown.unwrap_or_else(|| self.granted().clone());
        let mut table = self.permissions.table();
        table.sweep(now);
        let known = table.topics.get_mut(&self.topic).and_then(|people| people.get_mut(&self.who));
        // Where no token of the participant's permits anything there is nothing to tell apart, unless one may at another gateway or with
        // the next request.
        let caller = match known {
            Some(caller) => caller,
            None if granted.is_empty() && !is_shown && !self.permissions.among_nodes => return,
            None => table.topics.entry(self.topic.clone()).or_default().entry(self.who.clone()).or_default(),
        };
        caller.forget(now);
        // Who sends the same id with two tokens sends one call at the most.
        if let Some(noted) = caller.calls.get_mut(request) {
            *noted = noted.iter().filter(|known| granted.contains(known)).cloned().collect();
            return;
        }
        if caller.noted.len() == MAX_NOTED {
            caller.forget_oldest();
        }
        caller.calls.insert(request.clone(), granted);
        caller.noted.push_back((request.clone(), now));
    }

    /// What a call of somebody in the same room is permitted, by the notes of this gateway.
    pub(crate) fn of(&self, who: &ParticipantId, request: &EnvelopeId) -> Granted {
        agreed(self.permissions.noted(&self.topic, who, request))
    }

    /// The same, by the notes of all gateways.
    pub(crate) fn of_all(
        &self,
        nodes: &Nodes,
        who: &ParticipantId,
        request: &EnvelopeId,
    ) -> BoxFuture<'static, Granted> {
        let question = Question::Permitted { topic: self.topic.clone(), who: who.clone(), request: request.clone() };
        let asked = nodes.log().ask_others(serde_json::to_vec(&question).expect("names are plain JSON"));
        let (permissions, Question::Permitted { topic, who, request }) = (self.permissions.clone(), question);
        // What is noted here is looked up last: nothing that comes while the others are asked is missed.
        asked.map(move |answers| judged(answers.as_deref(), permissions.noted(&topic, &who, &request))).boxed()
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
    fn a_request_with_a_token_of_its_own_is_permitted_what_that_permits() {
        let permissions = Arc::new(Permissions::default());
        let now = Instant::now();
        let session = permissions.hold(&room(), &alice(), &words(&["read"]));
        session.narrow(&[]);
        let strong = session.show(id("s1"), &words(&["drive", "read"]));
        session.note_at(&id("s1"), now);
        session.note_at(&id("o1"), now);
        assert_eq!(*session.of(&alice(), &id("s1")), words(&["drive", "read"]));
        assert_eq!(*session.of(&alice(), &id("o1")), words(&[]), "another request has the session's");
        drop(strong);
        let weak = session.show(id("w1"), &[]);
        let both = session.show(id("w1"), &words(&["drive"]));
        drop(weak);
        session.note_at(&id("w1"), now);
        assert_eq!(*session.of(&alice(), &id("w1")), words(&[]), "two at once have what both permit");
        drop(both);
        assert!(session.shown().is_empty(), "nothing is kept of those that are answered");
        // One that is permitted nothing is noted, so that nothing is added to it.
        let nobody = permissions.hold(&room(), &ParticipantId::new("bob").expect("an id"), &[]);
        let (first, bob) = (nobody.show(id("b1"), &[]), nobody.who.clone());
        nobody.note_at(&id("b1"), now);
        drop(first);
        let _second = nobody.show(id("b1"), &words(&["drive"]));
        nobody.note_at(&id("b1"), now);
        assert_eq!(*nobody.of(&bob, &id("b1")), words(&[]));
    }

    #[test]
    fn only_what_every_gateway_that_knows_a_call_permits_counts() {
        let [here, there, third] = [(); 3].map(|()| Arc::new(Permissions::among_nodes(true)));
        let now = Instant::now();
        let note = |node: &Arc<Permissions>, request: &str, granted: &[&str]| {
            node.hold(&room(), &alice(), &words(granted)).note_at(&id(request), now);
        };
        note(&here, "m1", &["read"]);
        note(&there, "m1", &["drive", "read"]);
        note(&there, "m2", &["drive", "read"]);
        note(&there, "m3", &["drive", "read"]);
        note(&third, "m3", &[]);
        let judge = |request: &str| {
            let question = Question::Permitted { topic: room(), who: alice(), request: id(request) };
            let question = serde_json::to_vec(&question).expect("JSON");
            let answers = [&there, &third].map(|node| node.answer(&question));
            judged(Some(&answers), here.noted(&room(), &alice(), &id(request)))
        };
        assert_eq!(*judge("m1"), words(&["read"]));
        assert_eq!(*judge("m2"), words(&["drive", "read"]), "whoever does not know it takes nothing from it");
        assert_eq!(*judge("m3"), words(&[]), "it came with a token that permits nothing, too");
        assert_eq!(*judge("m4"), words(&[]), "nobody knows it");
    }

    #[test]
    fn a_gateway_that_lives_and_does_not_tell_permits_nothing() {
        let here = Some(Granted::from(words(&["drive"])));
        let (drive, nothing) = (r#"{"granted":["drive"]}"#, r#"{"granted":null}"#);
        assert_eq!(*judged(Some(&[drive, nothing]), here.clone()), words(&["drive"]));
        assert_eq!(*judged(Some(&[""; 0]), here.clone()), words(&["drive"]), "there is no other");
        assert_eq!(*judged(None::<&[&str]>, here.clone()), words(&[]), "one is silent");
        for unknown in ["", "[]", "{}}", r#"{"granted":"drive"}"#] {
            assert_eq!(*judged(Some(&[drive, unknown]), here.clone()), words(&[]), "{unknown}");
        }
        let asked = Permissions::among_nodes(true);
        for unknown in ["", "{}", r#"{"permitted":{}}"#, r#"{"other":{"topic":"room"}}"#] {
            assert_eq!(asked.answer(unknown.as_bytes()), nothing.as_bytes(), "nothing is known of `{unknown}`");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let permissions = Arc::new(Permissions::default());
        let now = Instant::now();
        let held = permissions.hold(&room(), &alice(), &words(&["drive"]));
        for at in 0..=MAX_NOTED {
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

    #[test]
    fn the_same_holds_for_those_who_are_permitted_nothing_where_there_are_several_gateways() {
        let permissions = Arc::new(Permissions::among_nodes(true));
        let now = Instant::now();
        let held = permissions.hold(&room(), &alice(), &[]);
        for at in 0..=MAX_NOTED {
            held.note_at(&id(&format!("m{at}")), now);
        }
        let noted = |at: usize| permissions.noted(&room(), &alice(), &id(&format!("m{at}")));
        assert_eq!((noted(0), noted(1)), (None, Some([].into())));
        let bob = permissions.hold(&room(), &ParticipantId::new("bob").expect("an id"), &[]);
        bob.note_at(&id("b1"), now + LIFETIME);
        assert_eq!(permissions.table().topics[&room()].len(), 1, "bob is left");
    }
}
