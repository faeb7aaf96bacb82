//! Random interleavings of crashes, lost results, retries, duplicates and reordered repetitions: what is on each side in the end.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::platform::{AuthorOrigin, PlatformAuthor, PlatformMessage, PlatformUserId};
use crate::rich::RichText;
use crate::room::{RoomEventBody, RoomFailure, RoomReply, RoomSpeech};

/// Something that happens.
#[derive(Debug, Clone, Copy)]
enum Step {
    RoomSays,
    PersonSays,
    /// The room's next event reaches the bridge.
    RoomReports,
    /// The platform reports the next message, or one that it has reported before.
    PlatformReports {
        again: usize,
    },
    /// The platform answers what it was asked.
    PlatformAnswers(Answer),
    RoomAnswers(Answer),
    /// The bridge is killed; of what it was about to do, so many outputs were performed.
    Crash {
        outputs: usize,
    },
    Reconnect,
    Time {
        ms: u64,
    },
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Done,
    /// Done, and the answer is lost.
    Lost,
    /// Not done, and it is not known.
    NeverArrived,
    NotNow,
}

fn step() -> impl Strategy<Value = Step> {
    let answer = prop_oneof![4 => Just(Answer::Done), 1 => Just(Answer::Lost), 1 => Just(Answer::NeverArrived), 1 => Just(Answer::NotNow)];
    prop_oneof![
        3 => Just(Step::RoomSays),
        3 => Just(Step::PersonSays),
        5 => Just(Step::RoomReports),
        5 => (0usize..8).prop_map(|again| Step::PlatformReports { again }),
        5 => answer.clone().prop_map(Step::PlatformAnswers),
        5 => answer.prop_map(Step::RoomAnswers),
        1 => (0usize..6).prop_map(|outputs| Step::Crash { outputs }),
        1 => Just(Step::Reconnect),
        2 => (1u64..3_000).prop_map(|ms| Step::Time { ms }),
    ]
}

/// Both sides, the disk and the bridge between them.
struct World {
    capabilities: PlatformCapabilities,
    core: BridgeCore,
    disk: StoredChannel,
    run: u64,
    now: Timestamp,
    /// The log of the room: id, sender, text.
    room: Vec<(EnvelopeId, ParticipantId, String)>,
    /// How far the bridge has read it.
    read: usize,
    /// What the platform shows: key and text.
    shown: Vec<(ActionKey, String)>,
    /// What people wrote on the platform, and whether the bridge has acknowledged it.
    written: Vec<(String, bool)>,
    reported: usize,
    actions: VecDeque<PlatformAction>,
    requests: VecDeque<RoomAction>,
    tickets: HashMap<u64, usize>,
    /// How many outputs are performed before the next crash.
    crash_after: Option<usize>,
}

impl World {
    fn new(capabilities: PlatformCapabilities) -> Self {
        // The room has a first envelope, so that there is a position from the beginning.
        let first = EnvelopeId::new("first").expect("an id");
        let disk = StoredChannel { position: Some(first.clone()), ..StoredChannel::default() };
        let core = BridgeCore::new(setup(capabilities.clone(), BridgeOptions::default(), disk.clone(), 1));
        let room = vec![(first, ParticipantId::host(), String::new())];
        let mut world = Self {
            capabilities,
            core,
            disk,
            run: 1,
            now: Timestamp(1_000_000),
            room,
            read: 1,
            shown: vec![],
            written: vec![],
            reported: 0,
            actions: VecDeque::new(),
            requests: VecDeque::new(),
            tickets: HashMap::new(),
            crash_after: None,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        let position = self.disk.position.clone().expect("there is one from the beginning");
        self.read = self.room.iter().position(|(id, ..)| *id == position).expect("a position is an envelope") + 1;
        self.input(CoreInput::RoomEntered(vec![]));
        self.connect();
    }

    fn connect(&mut self) {
        self.input(CoreInput::Platform(PlatformEvent::Connected, None));
        if self.capabilities.resend == ResendRule::AfterEcho {
            for (key, _) in self.shown.clone() {
                let id = Some(PlatformMessageId::new(format!("own-{key}")));
                self.input(CoreInput::Platform(PlatformEvent::Echo { key, id }, None));
            }
        }
        self.input(CoreInput::Platform(PlatformEvent::CaughtUp, None));
    }

    fn crash(&mut self) {
        // What was on its way may still arrive.
        for action in std::mem::take(&mut self.actions) {
            if self.run.is_multiple_of(2) {
                self.show(&action);
            }
        }
        for request in std::mem::take(&mut self.requests) {
            if self.run.is_multiple_of(3) {
                let _ = self.publish(&request);
            }
        }
        self.run += 1;
        self.tickets.clear();
        self.core =
            BridgeCore::new(setup(self.capabilities.clone(), BridgeOptions::default(), self.disk.clone(), self.run));
        // What was reported and not acknowledged is reported again.
        self.reported = self.written.iter().position(|(_, acknowledged)| !acknowledged).unwrap_or(self.written.len());
        self.begin();
    }

    fn input(&mut self, input: CoreInput) {
        let outputs = self.core.handle(input, self.now);
        for output in outputs {
            if let Some(left) = &mut self.crash_after {
                if *left == 0 {
                    self.crash_after = None;
                    return self.crash();
                }
                *left -= 1;
            }
            match output {
                CoreOutput::Store(change) => self.disk.apply(change),
                CoreOutput::Platform(action) => self.actions.push_back(action),
                CoreOutput::Room(request) => self.requests.push_back(request),
                CoreOutput::Acknowledge(ticket) => {
                    if let Some(index) = self.tickets.get(&ticket.0) {
                        self.written[*index].1 = true;
                    }
                }
            }
        }
    }

    /// The platform takes an action.
    fn show(&mut self, action: &PlatformAction) -> Option<PlatformMessageId> {
        let PlatformAction::Send { key, text, .. } = action else { return None };
        let is_known = self.shown.iter().any(|(other, _)| other == key);
        if !(is_known && self.capabilities.resend == ResendRule::ByKey) {
            self.shown.push((key.clone(), text.plain.clone()));
        }
        Some(PlatformMessageId::new(format!("own-{key}")))
    }

    /// The room takes a request.
    fn publish(&mut self, request: &RoomAction) -> RoomResult {
        let RoomAction::Publish { id, ghost, speech, .. } = request else { return Ok(RoomReply::Done) };
        let RoomSpeech::Chat { text, .. } = speech else { panic!("only chat is published here") };
        if self.room.iter().any(|(other, ..)| other == id) {
            return Err(RoomFailure::AlreadyPublished);
        }
        self.room.push((id.clone(), ghost.clone(), text.clone()));
        Ok(RoomReply::Done)
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::RoomSays => {
                let number = self.room.len();
                let id = EnvelopeId::new(format!("e{number}")).expect("an id");
                let from = ParticipantId::new("bob").expect("a name");
                self.room.push((id, from, format!("room {number}")));
            }
            Step::PersonSays => self.written.push((format!("platform {}", self.written.len()), false)),
            Step::RoomReports => {
                let Some((id, from, text)) = self.room.get(self.read).cloned() else { return };
                self.read += 1;
                let body = RoomEventBody::Chat { text, is_markdown: false, reply_to: None };
                self.input(CoreInput::Room(RoomEvent { id, from, sent_at: None, body }));
            }
            Step::PlatformReports { again } => {
                let index = if again > 0 && again <= self.reported { self.reported - again } else { self.reported };
                if index < self.written.len() {
                    self.reported = self.reported.max(index + 1);
                    self.report(index);
                }
            }
            Step::PlatformAnswers(answer) => {
                let Some(action) = self.actions.pop_front() else { return };
                let unknown = || Err(PlatformFailure::Unknown { reason: "lost".into() });
                let result = match answer {
                    Answer::Done => Ok(PlatformReceipt { id: self.show(&action) }),
                    Answer::Lost => {
                        self.show(&action);
                        unknown()
                    }
                    Answer::NeverArrived => unknown(),
                    Answer::NotNow => {
                        Err(PlatformFailure::RetryAfter { after: Duration::from_millis(200), reason: "429".into() })
                    }
                };
                let is_unknown = matches!(result, Err(PlatformFailure::Unknown { .. }));
                self.input(CoreInput::PlatformResult(action.key().clone(), result));
                if is_unknown && self.capabilities.resend == ResendRule::AfterEcho {
                    self.connect();
                }
            }
            Step::RoomAnswers(answer) => {
                let Some(request) = self.requests.pop_front() else { return };
                let ticket = request.ticket();
                let result = match answer {
                    Answer::Done => self.publish(&request),
                    Answer::NotNow => {
                        Err(RoomFailure::RetryAfter { after: Duration::from_millis(200), reason: "busy".into() })
                    }
                    Answer::Lost | Answer::NeverArrived => {
                        if matches!(answer, Answer::Lost) {
                            let _ = self.publish(&request);
                        }
                        self.requests.clear();
                        self.input(CoreInput::RoomLost);
                        return self.input(CoreInput::RoomEntered(vec![]));
                    }
                };
                self.input(CoreInput::RoomResult(ticket, result));
            }
            Step::Crash { outputs } => self.crash_after = Some(outputs),
            Step::Reconnect => {
                self.input(CoreInput::Platform(PlatformEvent::Disconnected { reason: "gone".into() }, None));
                self.connect();
            }
            Step::Time { ms } => {
                self.now.0 += ms;
                self.input(CoreInput::Tick);
            }
        }
    }

    fn report(&mut self, index: usize) {
        let author = PlatformAuthor {
            id: PlatformUserId::new("ann"),
            name: "Ann".into(),
            origin: AuthorOrigin::Person,
            is_verified: true,
        };
        let message = PlatformMessage {
            id: Some(PlatformMessageId::new(format!("m{index}"))),
            author,
            content: RichText::plain(&self.written[index].0),
            reply_to: None,
            attachments: vec![],
            sent_at: None,
        };
        let ticket = self.tickets.len() as u64;
        self.tickets.insert(ticket, index);
        self.input(CoreInput::Platform(PlatformEvent::Message(message), Some(EventTicket(ticket))));
    }

    /// No more faults: everything that can happen does, until nothing changes.
    fn drain(&mut self) {
        self.crash_after = None;
        self.connect();
        for _ in 0..20_000 {
            let before = (self.room.len(), self.shown.len(), self.read, self.reported);
            let has_work = !self.actions.is_empty() || !self.requests.is_empty();
            self.take(Step::RoomReports);
            self.take(Step::PlatformReports { again: 0 });
            self.take(Step::PlatformAnswers(Answer::Done));
            self.take(Step::RoomAnswers(Answer::Done));
            self.take(Step::Time { ms: 1_000 });
            let after = (self.room.len(), self.shown.len(), self.read, self.reported);
            if before == after && !has_work && self.core.queue_lengths() == (0, 0) {
                return;
            }
        }
        panic!("the bridge does not come to rest: {:?}", self.core.queue_lengths());
    }
}

fn check(capabilities: PlatformCapabilities, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let resend = capabilities.resend;
    let mut world = World::new(capabilities);
    for step in steps {
        world.take(step);
    }
    world.drain();
    let is_own = |from: &ParticipantId| from.as_str().starts_with("x:");
    let said: Vec<String> =
        world.room[1..].iter().filter(|(_, from, _)| !is_own(from)).map(|(.., text)| text.clone()).collect();
    let shown: Vec<String> = world.shown.iter().map(|(_, text)| text.clone()).collect();
    if resend == ResendRule::Never {
        // In order, none twice; one whose outcome is unknown may be missing.
        let mut rest = said.iter();
        prop_assert!(shown.iter().all(|one| rest.any(|other| other == one)), "{shown:?} is not a part of {said:?}");
    } else {
        prop_assert_eq!(&shown, &said, "the platform shows everything once, in order");
    }
    let mut in_room: Vec<String> =
        world.room[1..].iter().filter(|(_, from, _)| is_own(from)).map(|(.., text)| text.clone()).collect();
    let mut written: Vec<String> = world.written.iter().map(|(text, _)| text.clone()).collect();
    prop_assert!(world.written.iter().all(|(_, acknowledged)| *acknowledged), "everything is acknowledged in the end");
    in_room.sort_unstable();
    written.sort_unstable();
    prop_assert_eq!(in_room, written, "the room has everything once");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_message_once_on_each_side_by_key(steps in prop::collection::vec(step(), 0..120)) {
        check(able(ResendRule::ByKey), steps)?;
    }

    #[test]
    fn each_message_once_on_each_side_by_echo(steps in prop::collection::vec(step(), 0..120)) {
        check(able(ResendRule::AfterEcho), steps)?;
    }

    #[test]
    fn no_message_twice_where_the_platform_has_no_memory(steps in prop::collection::vec(step(), 0..120)) {
        check(able(ResendRule::Never), steps)?;
    }
}
