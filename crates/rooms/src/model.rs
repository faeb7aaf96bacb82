//! Presence on one to three nodes as a model: random interleavings of what participants, nodes and the log do, against the invariants.
//!
//! The nodes are real [`Attendance`]s; the log is a list that orders what arrives and folds it, as every engine does. Appends wait on a
//! wire of their node, and may be lost there with the node. At the end everything comes to rest, and then must be true:
//!
//! 1. Nobody leaves who is not present.
//! 2. Present by the log is who is connected.
//! 3. A call ends once: by its answer, or by failing, whichever stands first. No call waits for somebody who is absent.
//! 4. Every node, and every restart, gives the same fold.
//!
//! And at any time:
//!
//! 5. A look for what is to be repaired that a node leaves out would have found nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use salon_log::{CallClosure, Claim, Fold, FoldEffect, RosterVersion, Standing, answered_request};
use salon_protocol::{
    Compose, Draft, Entry, Envelope, EnvelopeId, Kind, Limits, Participant, ParticipantId, Position, Presence,
    PresenceEvent, Timestamp,
};

use crate::attendance::{Attendance, Departure, EntryTerms};
use crate::timings::Timings;

const PEOPLE: [&str; 3] = ["alice", "bob", "carol"];
const NODES: usize = 3;

#[derive(Debug, Clone)]
enum ModelStep {
    /// Somebody connects, and supersedes a connection elsewhere.
    Enter {
        node: usize,
        who: usize,
        resumes: bool,
    },
    /// A connection ends.
    Leave {
        who: usize,
    },
    /// The oldest append of a node reaches the log, or is refused.
    Append {
        node: usize,
        is_reached: bool,
    },
    /// A node reads some of what it has not read.
    Read {
        node: usize,
        count: usize,
    },
    /// A node misses what it has not read, except the newest entries.
    Gap {
        node: usize,
        left: usize,
    },
    /// A node appends the leaves that are due.
    RemoveOrphans {
        node: usize,
    },
    /// A node looks for what nobody has seen coming.
    Repair {
        node: usize,
    },
    /// A node is killed and starts again; others find its places without a holder.
    Crash {
        node: usize,
    },
    /// A node is stopped and starts again.
    Stop {
        node: usize,
    },
    /// The time to come back is over at a node.
    EndGrace {
        node: usize,
    },
    Call {
        from: usize,
        to: usize,
    },
    /// Somebody answers one of the latest calls to them, as their node lets them.
    Answer {
        who: usize,
        call: usize,
    },
    Wait {
        seconds: u64,
    },
}

fn step() -> impl Strategy<Value = ModelStep> {
    let (node, who) = (0..NODES, 0..PEOPLE.len());
    prop_oneof![
        4 => (node.clone(), who.clone(), any::<bool>()).prop_map(|(node, who, resumes)| ModelStep::Enter { node, who, resumes }),
        2 => who.clone().prop_map(|who| ModelStep::Leave { who }),
        8 => (node.clone(), prop::bool::weighted(0.85)).prop_map(|(node, is_reached)| ModelStep::Append { node, is_reached }),
        8 => (node.clone(), 1..5usize).prop_map(|(node, count)| ModelStep::Read { node, count }),
        1 => (node.clone(), 0..3usize).prop_map(|(node, left)| ModelStep::Gap { node, left }),
        4 => node.clone().prop_map(|node| ModelStep::RemoveOrphans { node }),
        2 => node.clone().prop_map(|node| ModelStep::Repair { node }),
        1 => node.clone().prop_map(|node| ModelStep::Crash { node }),
        1 => node.clone().prop_map(|node| ModelStep::Stop { node }),
        1 => node.clone().prop_map(|node| ModelStep::EndGrace { node }),
        4 => (who.clone(), who.clone()).prop_map(|(from, to)| ModelStep::Call { from, to }),
        4 => (who, 0..3usize).prop_map(|(who, call)| ModelStep::Answer { who, call }),
        2 => (1..15u64).prop_map(|seconds| ModelStep::Wait { seconds }),
    ]
}

fn id(who: usize) -> ParticipantId {
    ParticipantId::new(PEOPLE[who]).expect("a name")
}

fn envelope_id(text: String) -> EnvelopeId {
    EnvelopeId::new(text).expect("an id")
}

fn presence(id: &EnvelopeId, event: PresenceEvent, participant: &Participant) -> Envelope {
    Compose {
        id: id.as_str(),
        ts: Timestamp(0),
        from: &ParticipantId::host(),
        to: &[],
        kind: Kind::Presence,
        correlation_id: None,
        payload: Presence { event, participant: participant.clone(), reason: None },
    }
    .envelope()
}

fn message(id: &str, from: usize, rest: &str) -> Envelope {
    let from = PEOPLE[from];
    let text = format!(
        r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"{from}","kind":"mcp",{rest}}}"#
    );
    Draft::parse(text, &Limits::default()).expect("an envelope").trust()
}

struct ModelNode {
    attendance: Attendance,
    /// How many entries of the log it has read.
    read: usize,
    wire: VecDeque<Envelope>,
}

/// The log, the nodes, and who sits at which node.
struct World {
    entries: Vec<Arc<Entry>>,
    fold: Fold,
    nodes: Vec<ModelNode>,
    seats: BTreeMap<usize, usize>,
    /// The seats as of the last look at them, and how often they had changed.
    seen_seats: (BTreeSet<usize>, u64),
    /// What became of answers, by the calls: how many counted.
    answers: BTreeMap<EnvelopeId, usize>,
    calls: Vec<(EnvelopeId, usize)>,
    serial: usize,
    now: Instant,
}

impl World {
    fn new(nodes: usize) -> Self {
        let mut world = Self {
            entries: Vec::new(),
            fold: Fold::default(),
            nodes: Vec::new(),
            seats: BTreeMap::new(),
            seen_seats: (BTreeSet::new(), 0),
            answers: BTreeMap::new(),
            calls: Vec::new(),
            serial: 0,
            now: Instant::now(),
        };
        world.nodes = (0..nodes).map(|_| world.opened()).collect();
        world
    }

    fn standing(&self) -> Standing {
        self.fold.standing(1, 0)
    }

    fn opened(&self) -> ModelNode {
        let attendance = Attendance::restore(&self.standing(), Timings::NORMAL);
        ModelNode { attendance, read: self.entries.len(), wire: VecDeque::new() }
    }

    fn next_id(&mut self, kind: &str) -> EnvelopeId {
        self.serial += 1;
        envelope_id(format!("{kind}-{}", self.serial))
    }

    fn joins(&mut self, node: usize, participant: Arc<Participant>) {
        let join = self.next_id("join");
        let node = &mut self.nodes[node];
        node.wire.push_back(presence(&join, PresenceEvent::Join, &participant));
        node.attendance.joins(participant, join, self.now);
    }

    /// The log takes an envelope, unless it has its id, or it counts for nothing. Says whether it did.
    fn store(&mut self, envelope: Envelope) -> bool {
        if self.entries.iter().any(|entry| entry.envelope.id() == envelope.id()) {
            return false;
        }
        let position = Position { epoch: 1, offset: self.entries.len() as u64 + 1 };
        let entry = Arc::new(Entry { position, arrived: Timestamp(0), stamp: None, envelope });
        if self.fold.ignores(&entry.envelope).is_some() {
            return false;
        }
        if let Some(request) = answered_request(&entry.envelope) {
            *self.answers.entry(request.clone()).or_default() += 1;
        }
        assert!(
            !matches!(self.fold.apply(&entry), FoldEffect::Ignored(_)),
            "the log has stored what counts for nothing"
        );
        self.entries.push(entry);
        true
    }

    fn append(&mut self, node: usize, is_reached: bool) {
        let Some(envelope) = self.nodes[node].wire.pop_front() else { return };
        if is_reached && self.store(envelope.clone()) {
            return;
        }
        let Some(said) = envelope.presence() else { return };
        let (who, attendance) = (&said.participant.id, &mut self.nodes[node].attendance);
        attendance.settled(who, envelope.id());
        // A leave that was not stored because the log was out of reach is due again.
        if !is_reached && said.event == PresenceEvent::Leave {
            attendance.depart(who, None);
        }
    }

    fn read(&mut self, node: usize, count: usize) {
        for _ in 0..count {
            let Some(entry) = self.entries.get(self.nodes[node].read).cloned() else { return };
            self.nodes[node].read += 1;
            let (_, returns) = self.nodes[node].attendance.take(&entry, self.now);
            returns.into_iter().for_each(|participant| self.joins(node, participant));
        }
    }

    fn gap(&mut self, node: usize, left: usize) {
        let resume = self.entries.len().saturating_sub(left).max(self.nodes[node].read);
        let standing = self.standing();
        let missed = self.nodes[node].attendance.restart(&standing, self.now);
        self.nodes[node].read = resume;
        missed.into_iter().for_each(|participant| self.joins(node, participant));
    }

    fn enter(&mut self, node: usize, who: usize, is_resumed: bool) {
        let before = self.seats.insert(who, node);
        let entrance = EntryTerms { claim: Claim::Exclusive, is_resumed, is_elsewhere: false };
        let (participant, joins) = self.nodes[node].attendance.enter(Participant::new(id(who)), entrance, self.now);
        if joins {
            self.joins(node, participant);
        }
        if let Some(before) = before {
            self.nodes[before].attendance.rise(&id(who), None, false);
        }
    }

    fn remove_orphans(&mut self, node: usize) {
        for (who, reason) in self.nodes[node].attendance.take_departed() {
            if self.seats.keys().any(|placed| id(*placed) == who) {
                continue;
            }
            let ModelNode { attendance, wire, .. } = &mut self.nodes[node];
            match attendance.departure(&who, self.now) {
                Departure::Leaves(announced) => {
                    let leave = envelope_id(format!("leave-of-{}", announced.join));
                    wire.push_back(presence(&leave, PresenceEvent::Leave, &announced.participant));
                    attendance.leaves(&who, leave, self.now);
                }
                Departure::Later => attendance.depart(&who, reason),
                Departure::Over => {}
            }
        }
    }

    fn repair(&mut self, node: usize) {
        let placed: Vec<_> = self.seats.keys().map(|who| id(*who)).collect();
        let seen: BTreeSet<_> = self.seats.keys().copied().collect();
        if seen != self.seen_seats.0 {
            self.seen_seats = (seen, self.seen_seats.1 + 1);
        }
        let version = Some(RosterVersion::new(self.seen_seats.1, 0));
        let is_settled = self.nodes[node].attendance.is_settled_at(version);
        let missing = self.nodes[node].attendance.missing(self.now);
        assert!(!is_settled || missing.is_empty(), "5: a look was left out that would have found a join");
        missing.into_iter().for_each(|participant| self.joins(node, participant));
        let attendance = &mut self.nodes[node].attendance;
        attendance.depart_orphaned(&placed, self.now);
        attendance.note_repaired(version);
        assert!(
            !is_settled || attendance.is_settled_at(version),
            "5: a look was left out that would have found an orphan"
        );
    }

    /// A node starts again. Participants that were connected to it have no place; after a crash the others learn that.
    fn end(&mut self, node: usize, is_crash: bool) {
        let here: Vec<_> = self.seats.iter().filter(|(_, at)| **at == node).map(|(who, _)| *who).collect();
        self.seats.retain(|_, at| *at != node);
        if !is_crash {
            // What it has submitted is finished before it is over.
            here.iter().for_each(|who| self.nodes[node].attendance.rise(&id(*who), None, true));
            while !self.nodes[node].wire.is_empty() {
                self.append(node, true);
            }
        }
        self.nodes[node] = self.opened();
        for other in (0..self.nodes.len()).filter(|other| *other != node && is_crash) {
            here.iter().for_each(|who| self.nodes[other].attendance.depart(&id(*who), None));
        }
    }

    fn call(&mut self, from: usize, to: usize) {
        let Some(&node) = self.seats.get(&from) else { return };
        if !self.nodes[node].attendance.fold().is_present(&id(to)) {
            return;
        }
        let request = self.next_id("call");
        let to_name = PEOPLE[to];
        let rest = format!(r#""to":["{to_name}"],"payload":{{"jsonrpc":"2.0","id":1,"method":"m"}}"#);
        self.nodes[node].wire.push_back(message(request.as_str(), from, &rest));
        self.calls.push((request, to));
    }

    fn answer(&mut self, who: usize, call: usize) {
        let Some(&node) = self.seats.get(&who) else { return };
        let mut asked = self.calls.iter().rev().filter(|(_, to)| *to == who).map(|(request, _)| request.clone());
        let Some(request) = asked.nth(call) else { return };
        if self.nodes[node].attendance.fold().end_of(&request).is_none() {
            let answer = self.next_id("answer");
            let rest = format!(r#""correlation_id":"{request}","payload":{{"jsonrpc":"2.0","id":1,"result":{{}}}}"#);
            self.nodes[node].wire.push_back(message(answer.as_str(), who, &rest));
        }
    }

    fn take(&mut self, step: ModelStep) {
        let count = self.nodes.len();
        match step {
            ModelStep::Enter { node, who, resumes } => self.enter(node % count, who, resumes),
            ModelStep::Leave { who } => {
                if let Some(node) = self.seats.remove(&who) {
                    self.nodes[node].attendance.rise(&id(who), None, false);
                }
            }
            ModelStep::Append { node, is_reached } => self.append(node % count, is_reached),
            ModelStep::Read { node, count: entries } => self.read(node % count, entries),
            ModelStep::Gap { node, left } => self.gap(node % count, left),
            ModelStep::RemoveOrphans { node } => self.remove_orphans(node % count),
            ModelStep::Repair { node } => self.repair(node % count),
            ModelStep::Crash { node } => self.end(node % count, true),
            ModelStep::Stop { node } => self.end(node % count, false),
            ModelStep::EndGrace { node } => self.nodes[node % count].attendance.end_grace(),
            ModelStep::Call { from, to } => self.call(from, to),
            ModelStep::Answer { who, call } => self.answer(who, call),
            ModelStep::Wait { seconds } => self.now += Duration::from_secs(seconds),
        }
    }

    /// Everything that is due happens, until nothing is.
    fn rest(&mut self) {
        for _ in 0..12 {
            for node in 0..self.nodes.len() {
                self.nodes[node].attendance.end_grace();
                self.remove_orphans(node);
                self.repair(node);
                while !self.nodes[node].wire.is_empty() {
                    self.append(node, true);
                }
            }
            for node in 0..self.nodes.len() {
                self.read(node, usize::MAX);
            }
            self.now += Timings::NORMAL.orphan_timeout;
        }
    }

    fn check(&self) {
        let mut present = BTreeSet::new();
        for entry in &self.entries {
            let Some(said) = entry.envelope.presence() else { continue };
            match said.event {
                PresenceEvent::Join => _ = present.insert(said.participant.id),
                PresenceEvent::Leave => assert!(present.remove(&said.participant.id), "1: leaves and is not present"),
                PresenceEvent::Heartbeat | PresenceEvent::Status => {}
            }
        }
        let connected: BTreeSet<_> = self.seats.keys().map(|who| id(*who)).collect();
        assert_eq!(present, connected, "2: present by the log is not who is connected");
        for (request, to) in &self.calls {
            self.check_call(request, &id(*to));
        }
        for node in &self.nodes {
            assert!(node.wire.is_empty(), "a node does not come to rest");
            let there = node.attendance.fold().standing(1, 0);
            assert_eq!(format!("{there:?}"), format!("{:?}", self.standing()), "4: a node has another fold");
        }
        for cut in 0..=self.entries.len() {
            let mut fold = Fold::default();
            self.entries[..cut].iter().for_each(|entry| _ = fold.apply(entry));
            let mut again = Fold::restore(&fold.standing(1, 0));
            self.entries[cut..].iter().for_each(|entry| _ = again.apply(entry));
            let (again, whole) = (again.standing(1, 0), self.standing());
            assert_eq!(format!("{again:?}"), format!("{whole:?}"), "4: a restart after {cut} entries changes the fold");
        }
    }

    /// Reads the log for one call, without the fold.
    fn check_call(&self, request: &EnvelopeId, callee: &ParticipantId) {
        let Some(asked) = self.entries.iter().position(|entry| entry.envelope.id() == request) else { return };
        let event = |entry: &Arc<Entry>| {
            entry.envelope.presence().filter(|said| said.participant.id == *callee).map(|said| said.event)
        };
        let is_present = self.entries[..asked].iter().rev().find_map(event) == Some(PresenceEvent::Join);
        let end = self.entries[asked..].iter().find_map(|entry| match event(entry) {
            Some(_) => Some(CallClosure::Failed),
            None if answered_request(&entry.envelope) == Some(request) => Some(CallClosure::Answered),
            None => None,
        });
        let end = if is_present { end } else { Some(CallClosure::Failed) };
        assert_eq!(self.fold.end_of(request), end, "3: a call has ended otherwise than the log says");
        let answers = self.answers.get(request).copied().unwrap_or_default();
        assert_eq!(answers, usize::from(end == Some(CallClosure::Answered)), "3: a call has ended twice");
        let caller = self.entries[asked].envelope.from();
        let failed = self.fold.failed_calls(caller, 0, u64::MAX - 1);
        let failures = failed.iter().filter(|failed| failed.request == *request).count();
        assert_eq!(failures, usize::from(end == Some(CallClosure::Failed)), "3: a call fails otherwise than once");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn presence_and_calls_are_true_in_the_end(nodes in 1..=NODES, steps in prop::collection::vec(step(), 1..150)) {
        let mut world = World::new(nodes);
        steps.into_iter().for_each(|step| world.take(step));
        world.rest();
        world.check();
    }
}
