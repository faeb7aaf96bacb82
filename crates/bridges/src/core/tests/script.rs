//! A conversation as text: what happens on both sides, and what the core does about it.
//!
//! ```text
//! bob: hello            bob says something in the room; `bob/md:` in Markdown, `bob ↩e1:` in reply
//! @ann: hi              ann says something on the platform; `@ann ↩p1:` in reply
//! ```
//! Actions are done at once, messages get ids p1, p2, … in their order on the platform. `! …` lines change that.

use super::*;
use crate::platform::{AuthorOrigin, PlatformAuthor, PlatformMessage, PlatformUserId};
use crate::rich::RichText;
use crate::room::{RoomCall, RoomEventBody, RoomReply, RoomSpeech, ToolLine};

pub(super) struct Script {
    core: BridgeCore,
    disk: StoredChannel,
    now: Timestamp,
    transcript: String,
    envelopes: usize,
    messages: usize,
    failure: Option<PlatformFailure>,
    /// Actions that are not answered.
    is_stuck: bool,
    room: Vec<RoomEvent>,
    run: u64,
    setup: Box<dyn Fn(StoredChannel, u64) -> CoreSetup>,
}

impl Script {
    pub(super) fn new(capabilities: PlatformCapabilities, options: BridgeOptions) -> Self {
        let setup = move |stored, run| super::setup(capabilities.clone(), options.clone(), stored, run);
        let core = BridgeCore::new(setup(StoredChannel::default(), 1));
        let mut script = Self {
            core,
            disk: StoredChannel::default(),
            now: Timestamp(1_000_000),
            transcript: String::new(),
            envelopes: 0,
            messages: 0,
            failure: None,
            is_stuck: false,
            room: Vec::new(),
            run: 1,
            setup: Box::new(setup),
        };
        script.begin();
        script
    }

    fn begin(&mut self) {
        let bob = Participant { name: Some("Bob".into()), ..Participant::new(name("bob")) };
        self.input(CoreInput::RoomEntered(vec![bob, Participant::new(name("robot"))]));
        self.input(CoreInput::Platform(PlatformEvent::Connected, None));
        self.input(CoreInput::Platform(PlatformEvent::CaughtUp, None));
    }

    /// Runs lines and returns what was done.
    pub(super) fn run(mut self, lines: &str) -> String {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.transcript.push_str(line);
            self.transcript.push('\n');
            self.line(line);
        }
        self.transcript
    }

    fn line(&mut self, line: &str) {
        if let Some(directive) = line.strip_prefix("! ") {
            return self.directive(directive);
        }
        let (head, text) = line.split_once(": ").expect("somebody: something");
        let text = text.replace("\\n", "\n");
        let (who, reply_to) = head.split_once(" ↩").map_or((head, None), |(who, id)| (who, Some(id)));
        if let Some(user) = who.strip_prefix('@') {
            self.messages += 1;
            let message = PlatformMessage {
                id: Some(PlatformMessageId::new(format!("p{}", self.messages))),
                author: author(user),
                content: RichText::plain(&text),
                reply_to: reply_to.map(PlatformMessageId::new),
                attachments: vec![],
                sent_at: None,
            };
            return self.input(CoreInput::Platform(PlatformEvent::Message(message), None));
        }
        let (from, is_markdown) = who.strip_suffix("/md").map_or((who, false), |from| (from, true));
        let reply_to = reply_to.map(|id| EnvelopeId::new(id).expect("an id"));
        self.room(from, RoomEventBody::Chat { text, is_markdown, reply_to });
    }

    fn room(&mut self, from: &str, body: RoomEventBody) {
        self.envelopes += 1;
        let id = EnvelopeId::new(format!("e{}", self.envelopes)).expect("an id");
        let event = RoomEvent { id, from: name(from), sent_at: None, body };
        self.room.push(event.clone());
        self.input(CoreInput::Room(event));
    }

    fn directive(&mut self, directive: &str) {
        let words: Vec<&str> = directive.splitn(4, ' ').collect();
        let id = |text: &str| EnvelopeId::new(text).expect("an id");
        let call = |caller: &str, rest: &str| {
            let (tool, arguments) = rest.split_once(' ').unwrap_or((rest, ""));
            RoomCall { caller: name(caller), callee: name("robot"), tool: tool.into(), arguments: arguments.into() }
        };
        match &words[..] {
            ["edit", from, target, text] => {
                self.room(from, RoomEventBody::Edit { target: id(target), text: (*text).into(), is_markdown: false });
            }
            ["retract", from, target] => self.room(from, RoomEventBody::Retract { target: id(target) }),
            ["call", from, "robot", rest] => self.room(from, RoomEventBody::Call(call(from, rest))),
            ["answer", of, outcome, text] => {
                let body = RoomEventBody::Answer { call: id(of), is_error: *outcome == "error", text: (*text).into() };
                self.room("robot", body);
            }
            ["hold", held, digest, rest] => {
                let digest = format!("sha256:{digest}");
                let notice = HeldNotice { id: id(held), digest, call: call("bob", rest) };
                self.room("system:gateway", RoomEventBody::Held(notice));
            }
            ["decided", held, decision, by] => {
                let body = RoomEventBody::Decided { call: id(held), decision: (*decision).into(), by: Some(name(by)) };
                self.room("system:gateway", body);
            }
            ["joined", who] => self.room(who, RoomEventBody::Joined(Participant::new(name(who)))),
            ["left", who] => self.room(who, RoomEventBody::Left(name(who))),
            ["@edit", user, target, text] => {
                let (target, content) = (PlatformMessageId::new(*target), RichText::plain(text));
                let event = PlatformEvent::Edit { target, author: author(user), content, id: None };
                self.input(CoreInput::Platform(event, None));
            }
            ["@retract", user, target] => {
                // `%`: a moderator.
                let (user, is_moderated) = user.strip_prefix('%').map_or((*user, false), |user| (user, true));
                let (target, author) = (PlatformMessageId::new(*target), author(user));
                let event = PlatformEvent::Retract { target, author, is_moderated, id: None };
                self.input(CoreInput::Platform(event, None));
            }
            ["@left", user] => {
                self.input(CoreInput::Platform(PlatformEvent::Leave { user: PlatformUserId::new(*user) }, None));
            }
            ["limit", ms] => {
                let after = Duration::from_millis(ms.parse().expect("a number"));
                self.failure = Some(PlatformFailure::RetryAfter { after, reason: "429".into() });
            }
            ["forbid"] => self.failure = Some(PlatformFailure::Permanent { reason: "no permission".into() }),
            ["stuck"] => self.is_stuck = true,
            ["offline"] => {
                self.input(CoreInput::Platform(PlatformEvent::Disconnected { reason: "gone".into() }, None));
            }
            ["lose"] => self.failure = Some(PlatformFailure::Unknown { reason: "no answer".into() }),
            ["caught-up"] => self.input(CoreInput::Platform(PlatformEvent::CaughtUp, None)),
            ["online"] => {
                self.input(CoreInput::Platform(PlatformEvent::Connected, None));
                self.input(CoreInput::Platform(PlatformEvent::CaughtUp, None));
            }
            ["restart"] => {
                self.is_stuck = false;
                self.run += 1;
                self.core = BridgeCore::new((self.setup)(self.disk.clone(), self.run));
                self.begin();
                let seen = self.room.iter().position(|event| Some(&event.id) == self.disk.position.as_ref());
                let replayed: Vec<RoomEvent> = self.room[seen.map_or(0, |at| at + 1)..].to_vec();
                for event in replayed {
                    self.input(CoreInput::Room(event));
                }
            }
            ["wait", ms] => {
                self.now.0 += ms.parse::<u64>().expect("a number");
                self.input(CoreInput::Tick);
            }
            other => panic!("no such line: {other:?}"),
        }
    }

    fn input(&mut self, input: CoreInput) {
        for output in self.core.handle(input, self.now) {
            match output {
                CoreOutput::Store(change) => self.disk.apply(change),
                CoreOutput::Acknowledge(_) => {}
                CoreOutput::Platform(action) => {
                    self.transcript.push_str(&format!("    platform: {}\n", shown_action(&action)));
                    if self.is_stuck {
                        continue;
                    }
                    let result = match self.failure.take() {
                        Some(failure) => Err(failure),
                        None => {
                            let is_message = matches!(action, PlatformAction::Send { .. });
                            self.messages += usize::from(is_message);
                            let id = is_message.then(|| PlatformMessageId::new(format!("p{}", self.messages)));
                            Ok(PlatformReceipt { id })
                        }
                    };
                    self.input(CoreInput::PlatformResult(action.key().clone(), result));
                }
                CoreOutput::Room(action) => {
                    self.transcript.push_str(&format!("    room: {}\n", shown_request(&action)));
                    let ticket = action.ticket();
                    let reply = match &action {
                        RoomAction::ListTools { .. } => RoomReply::Tools(vec![ToolLine {
                            participant: name("robot"),
                            name: "move".into(),
                            description: "Moves".into(),
                        }]),
                        RoomAction::CallTool { .. } => RoomReply::ToolResult { is_error: false, text: "moved".into() },
                        _ => RoomReply::Done,
                    };
                    self.input(CoreInput::RoomResult(ticket, Ok(reply)));
                }
            }
        }
    }
}

fn name(text: &str) -> ParticipantId {
    ParticipantId::new(text).expect("a name")
}

/// `ann` is a verified person; `ann?` is not verified; `ann*` is a bot; `ann!` is the bridge itself.
fn author(user: &str) -> PlatformAuthor {
    let origin = match user.chars().last() {
        Some('*') => AuthorOrigin::Bot,
        Some('!') => AuthorOrigin::OwnBridge,
        _ => AuthorOrigin::Person,
    };
    let id = user.trim_end_matches(['?', '*', '!']);
    PlatformAuthor { id: PlatformUserId::new(id), name: id.to_uppercase(), origin, is_verified: !user.ends_with('?') }
}

fn shown_action(action: &PlatformAction) -> String {
    let by = |speaker: &Option<crate::platform::Speaker>| {
        speaker.as_ref().map_or("(bridge)".to_owned(), |speaker| speaker.name.clone())
    };
    match action {
        PlatformAction::Send { speaker, text, reply_to, .. } => {
            let reply = reply_to.as_ref().map(|id| format!(" ↩{id}")).unwrap_or_default();
            let pings: Vec<&str> = text.mentions.iter().map(PlatformUserId::as_str).collect();
            let pings = if pings.is_empty() { String::new() } else { format!(" (pings {})", pings.join(", ")) };
            format!("{}{reply}: {}{pings}", by(speaker), text.formatted.replace('\n', "\\n"))
        }
        PlatformAction::Edit { speaker, target, text, .. } => {
            format!("{} edits {target}: {}", by(speaker), text.formatted.replace('\n', "\\n"))
        }
        PlatformAction::Retract { speaker, target, .. } => format!("{} retracts {target}", by(speaker)),
        PlatformAction::RemovePuppet { participant, .. } => format!("puppet of {participant} leaves"),
    }
}

fn shown_request(action: &RoomAction) -> String {
    match action {
        RoomAction::EnterGhost { ghost, .. } => format!("{} enters as {}", ghost.id, ghost.name),
        RoomAction::LeaveGhost { ghost, .. } => format!("{ghost} leaves"),
        RoomAction::Publish { ghost, speech, id, .. } => {
            let id = &id.as_str()[..6];
            match speech {
                RoomSpeech::Chat { text, is_markdown, reply_to } => {
                    let reply = reply_to
                        .as_ref()
                        .map(|id| format!(" ↩{}", &id.as_str()[..id.as_str().len().min(6)]))
                        .unwrap_or_default();
                    format!("{id} {ghost}{}{reply}: {text}", if *is_markdown { "/md" } else { "" })
                }
                RoomSpeech::Edit { target, text, .. } => {
                    format!("{id} {ghost} edits {}: {text}", &target.as_str()[..6])
                }
                RoomSpeech::Retract { target } => format!("{id} {ghost} retracts {}", &target.as_str()[..6]),
            }
        }
        RoomAction::Notice { text, .. } => format!("(bridge): {text}"),
        RoomAction::ListTools { participant, .. } => format!("tools of {participant:?}"),
        RoomAction::CallTool { ghost, callee, tool, arguments, .. } => {
            format!("{ghost} calls {callee} {tool} {}", serde_json::Value::Object(arguments.clone()))
        }
    }
}
