//! Terminal, room and model brought together: one task owns all three, and everything slow runs beside it and reports back.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use futures_util::FutureExt;
use ratatui::crossterm::event::{Event as TerminalEvent, MouseEventKind};
use salon_client::{CallError, Event, Events, HistoryQuery, Link, PublishError, Room};
use salon_protocol::{EnvelopeId, Kind, ParticipantId, ParticipantKind, Timestamp};
use serde_json::value::RawValue;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::ChatArgs;
use super::event::{
    CallEnding, ChatEffect, ChatHistoryPage, ChatInput, ChatTicket, ChatTool, Civil, ConnectionStatus, Now,
};
use super::model::Model;
use super::person::Person;
use super::terminal::{KeyListener, TerminalScreen, broken};
use crate::access::Reach;
use crate::arguments::ArgumentSchema;
use crate::clock;
use crate::commands::outcome::HintContext;
use crate::trouble::Trouble;

/// Inputs that may wait for the loop; senders of more wait as well.
const MAX_WAITING_INPUTS: usize = 256;

/// How much is looked at before the screen is drawn again.
const MAX_INPUTS_PER_DRAW: usize = 256;

/// How many things may run beside the loop.
const MAX_TASKS: usize = 256;

/// How long a page of history is.
const PAGE: usize = 100;

/// How long a call may be silent. The person can see that it is, and cancel it.
const CALL_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a resource, or the list of them, is waited for.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// How long leaving may take when the gateway does not answer.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// The exit code of a program that panicked.
const PANICKED: u8 = 101;

const WHEEL_LINES: isize = 3;

/// What comes from beside the loop.
#[derive(Debug)]
pub(super) enum LoopEvent {
    Terminal(io::Result<TerminalEvent>),
    Input(ChatInput),
}

pub(super) async fn chat(args: ChatArgs) -> Result<(), Trouble> {
    let Reach { gateway, client, .. } = args.access.reach().map_err(Trouble::usage)?;
    if args.access.identity.is_some() {
        args.access.identity(&client).await.map_err(Trouble::usage)?;
    }
    let (tell, handle_event) = mpsc::channel(MAX_WAITING_INPUTS);
    let person = Person::new(tell.clone());
    let mut entering = client.room(args.topic.clone()).share().kind(ParticipantKind::Human).offer(person.toolbox());
    if let Some(name) = args.name {
        entering = entering.name(name);
    }
    let asking = HintContext { gateway: &gateway, topic: Some(&args.topic) };
    let (room, events) = entering.join_listening().await.map_err(|error| asking.trouble(&error))?;

    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let model = Model::new(room.id().clone(), room.topic().clone(), colour, local);
    let screen = TerminalScreen::take().map_err(Trouble::failed)?;
    let listener = KeyListener::start(tell.clone());
    let mut run = Run {
        model,
        screen,
        person,
        tell,
        tasks: JoinSet::new(),
        cancels: HashMap::new(),
        saying: Saying::start(&room),
        started: Instant::now(),
        room,
        quit: false,
    };
    let done = run.run(events, handle_event).await;
    let Run { screen, room, model, tasks, .. } = run;
    // Keys are read until the terminal is as it was, so that none reaches the shell.
    drop(tasks);
    let whole = screen.is_whole();
    drop(screen);
    drop(listener);
    let over = match model.connection {
        ConnectionStatus::Over(why) => Some(why),
        _ => None,
    };
    // A gateway that does not answer notices by itself.
    let _ = tokio::time::timeout(LEAVE_TIMEOUT, room.leave()).await;
    done.map_err(Trouble::failed)?;
    if !whole {
        // What went wrong has been printed.
        return Err(Trouble::Reported(PANICKED));
    }
    over.map_or(Ok(()), |why| Err(Trouble::failed(anyhow!("{why}"))))
}

fn local(time: Timestamp) -> Civil {
    let (day, minute) = clock::day_and_minute(time);
    Civil { day, minute }
}

struct Run {
    model: Model,
    screen: TerminalScreen,
    person: Person,
    tell: mpsc::Sender<LoopEvent>,
    tasks: JoinSet<()>,
    /// How to cancel the calls that run.
    cancels: HashMap<ChatTicket, oneshot::Sender<()>>,
    saying: Saying,
    started: Instant,
    room: Room,
    quit: bool,
}

impl Run {
    async fn run(&mut self, mut events: Events, mut handle_event: mpsc::Receiver<LoopEvent>) -> io::Result<()> {
        let mut ends =
            [signal(SignalKind::terminate())?, signal(SignalKind::hangup())?, signal(SignalKind::interrupt())?];
        let mut link = self.room.link();
        let size = self.screen.0.size()?;
        self.put(ChatInput::Resize(size.width, size.height));
        self.put(ChatInput::Roster(self.room.roster()));
        let mut listening = true;
        while !self.quit && self.screen.is_whole() {
            let now = self.now();
            self.screen.0.draw(|frame| self.model.draw(frame, now))?;
            let beat = self.model.beat();
            tokio::select! { biased;
                () = any(&mut ends) => return Ok(()),
                () = broken() => break,
                Some(thing) = handle_event.recv() => self.handle_event(thing)?,
                reported = self.saying.reports.recv() => {
                    if let Some(input) = reported {
                        self.put(input);
                    }
                }
                Some(_) = self.tasks.join_next() => {}
                changed = link.changed(), if listening => {
                    listening = changed.is_ok();
                    let state = link.borrow_and_update().clone();
                    self.linked(state);
                }
                event = events.next(), if listening => match event {
                    Some(event) => self.happened(event),
                    None => {
                        listening = false;
                        let state = link.borrow_and_update().clone();
                        self.linked(state);
                    }
                },
                () = after(beat) => self.put(ChatInput::Tick),
            }
            // Whatever else is there already is shown with it.
            for _ in 0..MAX_INPUTS_PER_DRAW {
                if let Ok(thing) = handle_event.try_recv() {
                    self.handle_event(thing)?;
                } else if let Some(Some(event)) = events.next().now_or_never().filter(|_| listening) {
                    self.happened(event);
                } else {
                    break;
                }
            }
        }
        Ok(())
    }

    fn now(&self) -> Now {
        Now { wall: clock::now(), since_start: self.started.elapsed() }
    }

    fn put(&mut self, input: ChatInput) {
        let now = self.now();
        self.model.handle(input, now);
        for effect in self.model.effects() {
            self.perform(effect);
        }
    }

    fn handle_event(&mut self, thing: LoopEvent) -> io::Result<()> {
        match thing {
            LoopEvent::Input(input) => {
                if let ChatInput::Ended(ticket, _) = &input {
                    self.cancels.remove(ticket);
                }
                self.put(input);
            }
            LoopEvent::Terminal(Err(error)) => return Err(error),
            LoopEvent::Terminal(Ok(event)) => match event {
                TerminalEvent::Key(key) => self.put(ChatInput::Key(key)),
                TerminalEvent::Paste(text) => self.put(ChatInput::Paste(text)),
                TerminalEvent::Resize(columns, rows) => self.put(ChatInput::Resize(columns, rows)),
                TerminalEvent::Mouse(mouse) => match mouse.kind {
                    MouseEventKind::ScrollUp => self.put(ChatInput::Wheel(-WHEEL_LINES)),
                    MouseEventKind::ScrollDown => self.put(ChatInput::Wheel(WHEEL_LINES)),
                    _ => {}
                },
                TerminalEvent::FocusGained | TerminalEvent::FocusLost => {}
            },
        }
        Ok(())
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Gap => self.put(ChatInput::Gap),
            Event::Envelope(envelope) => {
                let presence = envelope.kind() == Kind::Presence;
                self.put(ChatInput::Envelope(envelope));
                if presence {
                    self.put(ChatInput::Roster(self.room.roster()));
                }
            }
            // The link reports an outage and its end.
            _ => {}
        }
    }

    fn linked(&mut self, link: Link) {
        let connection = match link {
            Link::Live => ConnectionStatus::Live,
            Link::Stalled { why } => ConnectionStatus::Stalled(why.to_string()),
            Link::Connecting { attempt, retry_in, why } => {
                ConnectionStatus::Lost { attempt, retry_in: Some(retry_in), why: why.to_string() }
            }
            Link::Ended(end) => ConnectionStatus::Over(end.to_string()),
            _ => return,
        };
        self.put(ChatInput::Connection(connection));
        self.put(ChatInput::Roster(self.room.roster()));
    }

    fn perform(&mut self, effect: ChatEffect) {
        match effect {
            ChatEffect::Say { ticket, text } => self.saying.send(ticket, OutgoingChat::Say(text)),
            ChatEffect::Reply { ticket, to, text } => self.saying.send(ticket, OutgoingChat::Reply(to, text)),
            ChatEffect::Edit { ticket, original, text } => self.saying.send(ticket, OutgoingChat::Edit(original, text)),
            ChatEffect::Retract { ticket, original } => self.saying.send(ticket, OutgoingChat::Retract(original)),
            ChatEffect::Call { ticket, to, tool, arguments } => self.call(ticket, &to, tool, arguments),
            ChatEffect::Cancel(ticket) => {
                // The call reports its end.
                if let Some(cancel) = self.cancels.remove(&ticket) {
                    let _ = cancel.send(());
                }
            }
            ChatEffect::Load { before } => {
                let room = self.room.clone();
                self.spawn(async move { load(&room, before).await });
            }
            ChatEffect::ListTools(of) => {
                let room = self.room.clone();
                self.spawn(async move { list_tools(&room, of).await });
            }
            ChatEffect::ListResources(of) => {
                let room = self.room.clone();
                self.spawn(async move { list_resources(&room, of).await });
            }
            ChatEffect::ReadResource { of, uri } => {
                let room = self.room.clone();
                self.spawn(async move { read_resource(&room, of, uri).await });
            }
            ChatEffect::Answer { question, answer } => {
                self.person.answer(&question, answer);
            }
            ChatEffect::Forget(question) => self.person.forget(&question),
            // Neither a bell nor a clean screen is worth ending for.
            ChatEffect::Bell => drop(io::stdout().write_all(b"\x07").and_then(|()| io::stdout().flush())),
            ChatEffect::Redraw => drop(self.screen.0.clear()),
            ChatEffect::Quit => self.quit = true,
        }
    }

    fn call(&mut self, ticket: ChatTicket, to: &ParticipantId, tool: String, arguments: Box<RawValue>) {
        let (cancel, cancelled) = oneshot::channel();
        self.cancels.insert(ticket, cancel);
        let calling = self.room.peer(to).call_tool(tool, &arguments).timeout(CALL_TIMEOUT).at_most(CALL_TIMEOUT);
        let tell = self.tell.clone();
        self.spawn(async move {
            let started = async {
                let call = calling.start().await?;
                // The loop outlives its tasks.
                let _ = tell.send(LoopEvent::Input(ChatInput::Called(ticket, call.id().clone()))).await;
                Ok::<_, CallError>(call)
            };
            // Dropping a call that has begun cancels it.
            let outcome = tokio::select! {
                outcome = async { started.await?.result().await.map(drop) } => outcome,
                Ok(()) = cancelled => Err(CallError::Cancelled),
            };
            ChatInput::Ended(
                ticket,
                match outcome {
                    Ok(()) | Err(CallError::Answered(_)) => CallEnding::Answered,
                    Err(CallError::Cancelled) => CallEnding::Cancelled,
                    Err(error) => CallEnding::Failed(error.to_string()),
                },
            )
        });
    }

    /// Runs a future beside the loop, which gets its result as an event.
    fn spawn(&mut self, work: impl Future<Output = ChatInput> + Send + 'static) {
        let tell = self.tell.clone();
        let work = async move {
            let _ = tell.send(LoopEvent::Input(work.await)).await;
        };
        if self.tasks.len() < MAX_TASKS {
            self.tasks.spawn(work);
        }
    }
}

async fn load(room: &Room, before: Option<EnvelopeId>) -> ChatInput {
    let mut query = HistoryQuery::new().limit(PAGE);
    query.before = before.as_ref().map(ToString::to_string);
    let page = room.history(&query).await.map_err(|error| error.to_string());
    let page = page.map(|page| ChatHistoryPage {
        more: page.next.is_some(),
        envelopes: page.envelopes.into_iter().map(Arc::new).collect(),
    });
    ChatInput::Page { before, page }
}

async fn list_tools(room: &Room, of: ParticipantId) -> ChatInput {
    let tools = room.peer(&of).tools().await.map_err(|error| error.to_string());
    let tools = tools.map(|tools| {
        let tool = |tool: &salon_client::mcp::Tool| ChatTool {
            name: tool.name.clone(),
            description: tool.description.clone().or_else(|| tool.title.clone()).unwrap_or_default(),
            schema: ArgumentSchema::new(Some(&tool.input_schema)),
        };
        tools.iter().map(tool).collect()
    });
    ChatInput::Tools { of, tools }
}

async fn list_resources(room: &Room, of: ParticipantId) -> ChatInput {
    let peer = room.peer(&of);
    let listed = async {
        let (resources, templates) = (peer.resources().await?, peer.resource_templates().await?);
        let label = |title: &Option<String>, name: &str| title.clone().unwrap_or_else(|| name.to_owned());
        let resources = resources.iter().map(|one| (one.uri.clone(), label(&one.title, &one.name)));
        let templates = templates.iter().map(|one| (one.uri_template.clone(), label(&one.title, &one.name)));
        Ok::<_, CallError>(resources.chain(templates).collect())
    };
    let rows = within_read_time(listed).await;
    ChatInput::Resources { of, rows }
}

async fn read_resource(room: &Room, of: ParticipantId, uri: String) -> ChatInput {
    let contents = within_read_time(room.peer(&of).read_resource(&uri)).await;
    let text = contents.map(|contents| {
        let shown = contents.iter().filter_map(|content| match (&content.text, &content.blob) {
            (Some(text), _) => Some(text.clone()),
            (None, Some(blob)) => {
                let kind = content.mime_type.as_deref().unwrap_or("unknown type");
                Some(format!(
                    "[{kind}, {} bytes; `salon read --output` writes them]",
                    blob.trim_end_matches('=').len() * 3 / 4
                ))
            }
            (None, None) => None,
        });
        shown.collect::<Vec<_>>().join("\n")
    });
    ChatInput::Resource { of, uri, text }
}

async fn within_read_time<T>(asked: impl Future<Output = Result<T, CallError>>) -> Result<T, String> {
    let answered = tokio::time::timeout(READ_TIMEOUT, asked).await.unwrap_or(Err(CallError::TimedOut));
    answered.map_err(|error| error.to_string())
}

/// What the person says, or makes of what was said.
enum OutgoingChat {
    Say(String),
    Reply(EnvelopeId, String),
    Edit(EnvelopeId, String),
    Retract(EnvelopeId),
}

/// Messages of the person, sent one after the other.
struct Saying {
    lines: mpsc::Sender<(ChatTicket, OutgoingChat)>,
    reports: mpsc::Receiver<ChatInput>,
    _task: JoinSet<()>,
}

impl Saying {
    fn start(room: &Room) -> Self {
        let (lines, mut waiting) = mpsc::channel::<(ChatTicket, OutgoingChat)>(MAX_WAITING_INPUTS);
        let (report, reports) = mpsc::channel(MAX_WAITING_INPUTS);
        let room = room.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            while let Some((ticket, outgoing)) = waiting.recv().await {
                let said = match &outgoing {
                    OutgoingChat::Say(text) => room.say(text).await,
                    OutgoingChat::Reply(to, text) => room.reply(to, text).await,
                    OutgoingChat::Edit(original, text) => room.edit(original, text).await,
                    OutgoingChat::Retract(original) => room.retract(original).await,
                };
                let input = match said {
                    Ok(_) => ChatInput::Sent(ticket),
                    Err(PublishError::Refused(refusal)) => ChatInput::NotSent(ticket, refusal.to_string()),
                    Err(error) => ChatInput::NotSent(ticket, error.to_string()),
                };
                if report.send(input).await.is_err() {
                    return;
                }
            }
        });
        Self { lines, reports, _task: task }
    }

    /// The model lets fewer lines wait than there is space for.
    fn send(&self, ticket: ChatTicket, outgoing: OutgoingChat) {
        let _ = self.lines.try_send((ticket, outgoing));
    }
}

async fn any(signals: &mut [Signal; 3]) {
    let [first, second, third] = signals;
    tokio::select! {
        _ = first.recv() => {}
        _ = second.recv() => {}
        _ = third.recv() => {}
    }
}

async fn after(beat: Option<Duration>) {
    match beat {
        Some(beat) => tokio::time::sleep(beat).await,
        None => std::future::pending().await,
    }
}
