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
use super::event::{Civil, Connection, Effect, Ending, Input, Now, Page, Ticket, Tool};
use super::model::Model;
use super::person::Person;
use super::terminal::{Listener, Screen, broken};
use crate::access::Reach;
use crate::arguments::Schema;
use crate::clock;
use crate::commands::outcome::Asking;
use crate::trouble::Trouble;

/// Inputs that may wait for the loop; senders of more wait as well.
const WAITING: usize = 256;

/// How much is looked at before the screen is drawn again.
const AT_ONCE: usize = 256;

/// How many things may run beside the loop.
const MAX_TASKS: usize = 256;

/// How long a page of history is.
const PAGE: usize = 100;

/// How long a call may be silent. The person can see that it is, and cancel it.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long leaving may take when the gateway does not answer.
const PARTING: Duration = Duration::from_secs(2);

/// The exit code of a program that panicked.
const PANICKED: u8 = 101;

const WHEEL_LINES: isize = 3;

/// What comes from beside the loop.
#[derive(Debug)]
pub(super) enum Heard {
    Terminal(io::Result<TerminalEvent>),
    Input(Input),
}

pub(super) async fn chat(args: ChatArgs) -> Result<(), Trouble> {
    let Reach { place, client } = args.access.reach().map_err(Trouble::usage)?;
    if args.access.identity.is_some() {
        args.access.identity(&client).await.map_err(Trouble::usage)?;
    }
    let (tell, heard) = mpsc::channel(WAITING);
    let person = Person::new(tell.clone());
    let mut entering = client.room(args.topic.clone()).share().kind(ParticipantKind::Human).offer(person.toolbox());
    if let Some(name) = args.name {
        entering = entering.name(name);
    }
    let asking = Asking { place: &place, topic: Some(&args.topic) };
    let (room, events) = entering.join_listening().await.map_err(|error| asking.trouble(&error))?;

    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let model = Model::new(room.id().clone(), room.topic().clone(), colour, local);
    let screen = Screen::take().map_err(Trouble::failed)?;
    let listener = Listener::start(tell.clone());
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
    let done = run.run(events, heard).await;
    let Run { screen, room, model, tasks, .. } = run;
    // Keys are read until the terminal is as it was, so that none reaches the shell.
    drop(tasks);
    let whole = screen.is_whole();
    drop(screen);
    drop(listener);
    let over = match model.connection {
        Connection::Over(why) => Some(why),
        _ => None,
    };
    // A gateway that does not answer notices by itself.
    let _ = tokio::time::timeout(PARTING, room.leave()).await;
    done.map_err(Trouble::failed)?;
    if !whole {
        // What went wrong has been printed.
        return Err(Trouble::Told(PANICKED));
    }
    over.map_or(Ok(()), |why| Err(Trouble::failed(anyhow!("{why}"))))
}

fn local(time: Timestamp) -> Civil {
    let (day, minute) = clock::day_and_minute(time);
    Civil { day, minute }
}

struct Run {
    model: Model,
    screen: Screen,
    person: Person,
    tell: mpsc::Sender<Heard>,
    tasks: JoinSet<()>,
    /// How to cancel the calls that run.
    cancels: HashMap<Ticket, oneshot::Sender<()>>,
    saying: Saying,
    started: Instant,
    room: Room,
    quit: bool,
}

impl Run {
    async fn run(&mut self, mut events: Events, mut heard: mpsc::Receiver<Heard>) -> io::Result<()> {
        let mut ends =
            [signal(SignalKind::terminate())?, signal(SignalKind::hangup())?, signal(SignalKind::interrupt())?];
        let mut link = self.room.link();
        let size = self.screen.0.size()?;
        self.put(Input::Resize(size.width, size.height));
        self.put(Input::Roster(self.room.roster()));
        let mut listening = true;
        while !self.quit && self.screen.is_whole() {
            let now = self.now();
            self.screen.0.draw(|frame| self.model.draw(frame, now))?;
            let beat = self.model.beat();
            tokio::select! { biased;
                () = any(&mut ends) => return Ok(()),
                () = broken() => break,
                Some(thing) = heard.recv() => self.heard(thing)?,
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
                () = after(beat) => self.put(Input::Tick),
            }
            // Whatever else is there already is shown with it.
            for _ in 0..AT_ONCE {
                if let Ok(thing) = heard.try_recv() {
                    self.heard(thing)?;
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

    fn put(&mut self, input: Input) {
        let now = self.now();
        self.model.handle(input, now);
        for effect in self.model.effects() {
            self.perform(effect);
        }
    }

    fn heard(&mut self, thing: Heard) -> io::Result<()> {
        match thing {
            Heard::Input(input) => {
                if let Input::Ended(ticket, _) = &input {
                    self.cancels.remove(ticket);
                }
                self.put(input);
            }
            Heard::Terminal(Err(error)) => return Err(error),
            Heard::Terminal(Ok(event)) => match event {
                TerminalEvent::Key(key) => self.put(Input::Key(key)),
                TerminalEvent::Paste(text) => self.put(Input::Paste(text)),
                TerminalEvent::Resize(columns, rows) => self.put(Input::Resize(columns, rows)),
                TerminalEvent::Mouse(mouse) => match mouse.kind {
                    MouseEventKind::ScrollUp => self.put(Input::Wheel(-WHEEL_LINES)),
                    MouseEventKind::ScrollDown => self.put(Input::Wheel(WHEEL_LINES)),
                    _ => {}
                },
                TerminalEvent::FocusGained | TerminalEvent::FocusLost => {}
            },
        }
        Ok(())
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Gap => self.put(Input::Gap),
            Event::Envelope(envelope) => {
                let presence = envelope.kind() == Kind::Presence;
                self.put(Input::Envelope(envelope));
                if presence {
                    self.put(Input::Roster(self.room.roster()));
                }
            }
            // The link reports an outage and its end.
            _ => {}
        }
    }

    fn linked(&mut self, link: Link) {
        let connection = match link {
            Link::Live => Connection::Live,
            Link::Stalled { why } => Connection::Stalled(why.to_string()),
            Link::Connecting { attempt, retry_in, why } => {
                Connection::Lost { attempt, retry_in: Some(retry_in), why: why.to_string() }
            }
            Link::Ended(end) => Connection::Over(end.to_string()),
            _ => return,
        };
        self.put(Input::Connection(connection));
        self.put(Input::Roster(self.room.roster()));
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Say { ticket, text } => self.saying.say(ticket, None, text),
            Effect::Reply { ticket, to, text } => self.saying.say(ticket, Some(to), text),
            Effect::Call { ticket, to, tool, arguments } => self.call(ticket, &to, tool, arguments),
            Effect::Cancel(ticket) => {
                // The call reports its end.
                if let Some(cancel) = self.cancels.remove(&ticket) {
                    let _ = cancel.send(());
                }
            }
            Effect::Load { before } => {
                let room = self.room.clone();
                self.spawn(async move { load(&room, before).await });
            }
            Effect::ListTools(of) => {
                let room = self.room.clone();
                self.spawn(async move { list_tools(&room, of).await });
            }
            Effect::Answer { question, answer } => {
                self.person.answer(&question, answer);
            }
            Effect::Forget(question) => self.person.forget(&question),
            // Neither a bell nor a clean screen is worth ending for.
            Effect::Bell => drop(io::stdout().write_all(b"\x07").and_then(|()| io::stdout().flush())),
            Effect::Redraw => drop(self.screen.0.clear()),
            Effect::Quit => self.quit = true,
        }
    }

    fn call(&mut self, ticket: Ticket, to: &ParticipantId, tool: String, arguments: Box<RawValue>) {
        let (cancel, cancelled) = oneshot::channel();
        self.cancels.insert(ticket, cancel);
        let calling = self.room.peer(to).call_tool(tool, &arguments).timeout(PATIENCE).at_most(PATIENCE);
        let tell = self.tell.clone();
        self.spawn(async move {
            let started = async {
                let call = calling.start().await?;
                // The loop outlives its tasks.
                let _ = tell.send(Heard::Input(Input::Called(ticket, call.id().clone()))).await;
                Ok::<_, CallError>(call)
            };
            // Dropping a call that has begun cancels it.
            let outcome = tokio::select! {
                outcome = async { started.await?.result().await.map(drop) } => outcome,
                Ok(()) = cancelled => Err(CallError::Cancelled),
            };
            Input::Ended(
                ticket,
                match outcome {
                    Ok(()) | Err(CallError::Answered(_)) => Ending::Answered,
                    Err(CallError::Cancelled) => Ending::Cancelled,
                    Err(error) => Ending::Failed(error.to_string()),
                },
            )
        });
    }

    /// Runs a future beside the loop, which gets its result as an event.
    fn spawn(&mut self, work: impl Future<Output = Input> + Send + 'static) {
        let tell = self.tell.clone();
        let work = async move {
            let _ = tell.send(Heard::Input(work.await)).await;
        };
        if self.tasks.len() < MAX_TASKS {
            self.tasks.spawn(work);
        }
    }
}

async fn load(room: &Room, before: Option<EnvelopeId>) -> Input {
    let mut query = HistoryQuery::new().limit(PAGE);
    query.before = before.as_ref().map(ToString::to_string);
    let page = room.history(&query).await.map_err(|error| error.to_string());
    let page = page
        .map(|page| Page { more: page.next.is_some(), envelopes: page.envelopes.into_iter().map(Arc::new).collect() });
    Input::Page { before, page }
}

async fn list_tools(room: &Room, of: ParticipantId) -> Input {
    let tools = room.peer(&of).tools().await.map_err(|error| error.to_string());
    let tools = tools.map(|tools| {
        let tool = |tool: &salon_client::mcp::Tool| Tool {
            name: tool.name.clone(),
            description: tool.description.clone().or_else(|| tool.title.clone()).unwrap_or_default(),
            schema: Schema::new(Some(&tool.input_schema)),
        };
        tools.iter().map(tool).collect()
    });
    Input::Tools { of, tools }
}

/// Messages of the person, sent one after the other.
struct Saying {
    lines: mpsc::Sender<(Ticket, Option<EnvelopeId>, String)>,
    reports: mpsc::Receiver<Input>,
    _task: JoinSet<()>,
}

impl Saying {
    fn start(room: &Room) -> Self {
        let (lines, mut waiting) = mpsc::channel::<(Ticket, Option<EnvelopeId>, String)>(WAITING);
        let (report, reports) = mpsc::channel(WAITING);
        let room = room.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            while let Some((ticket, to, text)) = waiting.recv().await {
                let said = match &to {
                    Some(to) => room.reply(to, &text).await,
                    None => room.say(&text).await,
                };
                let input = match said {
                    Ok(_) => Input::Sent(ticket),
                    Err(PublishError::Refused(refusal)) => Input::NotSent(ticket, refusal.to_string()),
                    Err(error) => Input::NotSent(ticket, error.to_string()),
                };
                if report.send(input).await.is_err() {
                    return;
                }
            }
        });
        Self { lines, reports, _task: task }
    }

    /// The model lets fewer lines wait than there is space for.
    fn say(&self, ticket: Ticket, to: Option<EnvelopeId>, text: String) {
        let _ = self.lines.try_send((ticket, to, text));
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
