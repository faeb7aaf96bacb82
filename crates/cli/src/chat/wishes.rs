//! What commands do.

use salon_protocol::{EnvelopeId, Participant, ParticipantId, Timestamp};

use super::commands::{COMMANDS, ChatRequest, words};
use super::event::{ChatEffect, ChatTool, Now, QuestionAnswer};
use super::item::TextTone;
use super::model::{Echo, Model, OutgoingLine, RunningCall, Unchecked};
use super::text::{clip, safe_line};
use super::theme::sign;
use crate::arguments::ArgumentSchema;
use crate::commands::offers::did_you_mean;

/// How many lines may be on their way at once.
const MAX_OUTGOING: usize = 32;

/// How many calls may run at once.
const MAX_RUNNING: usize = 64;

/// How many participants are asked for their tools at once.
const MAX_PENDING_QUESTIONS: usize = 16;

/// How much of a resource is shown.
const MAX_SHOWN_BYTES: usize = 16 << 10;

/// How many tools are named where one that was called is missing.
const MAX_NAMED: usize = 6;

/// How many participants `/who` lists.
const MAX_LISTED: usize = 200;

const KEYS: &[(&str, &str)] = &[
    ("Tab", "complete; again takes the next"),
    ("PageUp, PageDown, wheel", "scroll"),
    ("Home, End", "to the ends of the line; when it is empty, of the transcript"),
    ("Up, Down", "lines written before"),
    ("Alt-Enter", "a new line"),
    ("Ctrl-W, Ctrl-U, Ctrl-K", "erase a word, to the start, to the end"),
    ("Shift and mouse", "select text"),
];

impl Model {
    pub(super) fn run_command(&mut self, run_command: ChatRequest, line: &str, now: Now) {
        let done = match run_command {
            ChatRequest::Say(text) => self.say(text),
            ChatRequest::Reply { by, text } => self.reply(by.as_deref(), text),
            ChatRequest::Edit(text) => self.edit(text),
            ChatRequest::Retract => self.retract(),
            ChatRequest::Call { to, tool, pairs } => self.resolve(&to).and_then(|to| {
                let ticket = self.ticket();
                self.call(Unchecked { ticket, to, tool, pairs, line: line.to_owned() }, now)
            }),
            ChatRequest::Decide { id, approves } => self.transcript.approvals.find(&id).and_then(|(id, digest)| {
                let decision = if approves { "approve" } else { "deny" };
                let pairs = vec![format!("id={id}"), format!("digest={digest}"), format!("decision={decision}")];
                let (ticket, tool) = (self.ticket(), "approval.decide".to_owned());
                self.call(Unchecked { ticket, to: ParticipantId::host(), tool, pairs, line: line.to_owned() }, now)
            }),
            ChatRequest::Status { word, lasts, text } => {
                let mut pairs = vec![format!("status={}", word.as_deref().unwrap_or("null"))];
                pairs.extend(text.map(|text| format!("text={text}")));
                let until = lasts.map(|lasts| Timestamp(now.wall.0.saturating_add(lasts.as_millis() as u64)));
                pairs.extend(until.map(|until| format!("until={until}")));
                let (ticket, tool) = (self.ticket(), "presence.set".to_owned());
                self.call(Unchecked { ticket, to: ParticipantId::host(), tool, pairs, line: line.to_owned() }, now)
            }
            ChatRequest::Cancel(whose) => self.cancel(whose.as_deref()),
            ChatRequest::Tools(whose) => self.tools(whose.as_deref(), now),
            ChatRequest::Read { of, uri } => self.read(&of, uri),
            ChatRequest::Answer { number, text } => self.answer(number, Some(&text)),
            ChatRequest::Decline { number } => self.answer(number, None),
            ChatRequest::Who => {
                self.show_roster(now);
                Ok(())
            }
            ChatRequest::History => {
                self.show_oldest(now);
                Ok(())
            }
            ChatRequest::All => {
                self.all = !self.all;
                self.scroll(0, now);
                self.hint =
                    Some(if self.all { "everything is shown" } else { "handshakes and lists are folded" }.into());
                Ok(())
            }
            ChatRequest::Help => {
                self.show_help(now);
                Ok(())
            }
            ChatRequest::Quit => {
                self.do_later(ChatEffect::Quit);
                Ok(())
            }
        };
        if let Err(why) = done {
            self.complain(line, &why, now);
        }
    }

    fn send(&mut self, line: String, echo: Echo, stage: &'static str) -> Result<u64, String> {
        let ticket = self.ticket();
        self.put(OutgoingLine { ticket, line, echo, stage }).map(|()| ticket)
    }

    fn put(&mut self, outgoing: OutgoingLine) -> Result<(), String> {
        if self.outgoing.len() >= MAX_OUTGOING {
            return Err("too much is waiting to be sent".into());
        }
        self.outgoing.push(outgoing);
        Ok(())
    }

    fn say(&mut self, text: String) -> Result<(), String> {
        let ticket = self.send(text.clone(), Echo::Text(text.clone()), "sending")?;
        self.do_later(ChatEffect::Say { ticket, text });
        Ok(())
    }

    fn reply(&mut self, by: Option<&str>, text: String) -> Result<(), String> {
        // Who has left may still be replied to.
        let by = by.map(|by| self.resolve(by).or_else(|why| by.parse().map_err(|_| why))).transpose()?;
        let to =
            self.transcript.last_message(by.as_ref()).cloned().ok_or("nothing was said that could be replied to")?;
        let ticket = self.send(text.clone(), Echo::Text(text.clone()), "sending")?;
        self.do_later(ChatEffect::Reply { ticket, to, text });
        Ok(())
    }

    fn own_message(&self) -> Result<EnvelopeId, String> {
        self.transcript.last_own_message().cloned().ok_or_else(|| "you have not said anything here yet".into())
    }

    fn edit(&mut self, text: String) -> Result<(), String> {
        let original = self.own_message()?;
        let ticket = self.send(format!("/edit {text}"), Echo::Revision(original.clone()), "editing")?;
        self.do_later(ChatEffect::Edit { ticket, original, text });
        Ok(())
    }

    fn retract(&mut self) -> Result<(), String> {
        let original = self.own_message()?;
        let ticket = self.send("/retract".into(), Echo::Revision(original.clone()), "retracting")?;
        self.do_later(ChatEffect::Retract { ticket, original });
        Ok(())
    }

    fn call(&mut self, call: Unchecked, now: Now) -> Result<(), String> {
        if self.running.len() + self.unchecked.len() >= MAX_RUNNING {
            return Err("too many calls of yours are running; `/cancel` ends one".into());
        }
        let echo = Echo::Call(call.to.clone(), call.tool.clone());
        let known = self.tools.contains_key(&call.to);
        let stage = if known { "calling" } else { "asking what it offers" };
        self.put(OutgoingLine { ticket: call.ticket, line: call.line.clone(), echo, stage })?;
        if known {
            self.check_and_call(call, now);
        } else {
            self.ask_for_tools(call.to.clone(), false);
            self.unchecked.push(call);
        }
        Ok(())
    }

    /// Makes the call, now that it is known what the tool wants.
    pub(super) fn check_and_call(&mut self, call: Unchecked, now: Now) {
        let Unchecked { ticket, to, tool, pairs, line } = call;
        let tools = self.tools.get(&to).map(Vec::as_slice).unwrap_or_default();
        let checked = match tools.iter().find(|known| known.name == tool) {
            None if tools.is_empty() => Err(format!("{to} offers no tools")),
            // The gateway lists only the tools that its reader may call, and a command names one that it has.
            None if to.is_host() && !line.starts_with("/call") => Err(format!(
                "you may not do this in this room: `{tool}` needs a role that allows it, or a token with the permission \
                 `operator`\non the gateway's machine, `salon topic` does it"
            )),
            None => {
                let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
                let hint = match did_you_mean(&tool, names.iter().copied()) {
                    Some(meant) => meant,
                    None if names.len() <= MAX_NAMED => format!("it has {}", names.join(", ")),
                    None => format!("`/tools {to}` lists its tools"),
                };
                Err(format!("{to} has no tool `{tool}`; {hint}"))
            }
            Some(known) => known.schema.read(&pairs).map_err(|unfit| format!("{unfit}\nit is: {}", signature(known))),
        };
        match checked {
            Ok(arguments) => {
                if let Some(outgoing) = self.outgoing.iter_mut().find(|outgoing| outgoing.ticket == ticket) {
                    outgoing.stage = "calling";
                }
                self.running.push(RunningCall { ticket, to: to.clone(), line, envelope: None });
                self.do_later(ChatEffect::Call { ticket, to, tool, arguments });
            }
            Err(why) => {
                self.take_outgoing(ticket);
                self.complain(&line, &why, now);
            }
        }
    }

    fn cancel(&mut self, whose: Option<&str>) -> Result<(), String> {
        let whose = whose.map(|whose| self.resolve(whose)).transpose()?;
        let wanted = |running: &&RunningCall| whose.as_ref().is_none_or(|whose| running.to == *whose);
        let ticket = self.running.iter().rev().find(wanted).map(|running| running.ticket);
        // One that waits for the list of tools has not begun: nobody need be told.
        let is_meant = |call: &Unchecked| whose.as_ref().is_none_or(|whose| call.to == *whose);
        if let Some(at) = self.unchecked.iter().rposition(is_meant).filter(|_| ticket.is_none()) {
            let call = self.unchecked.remove(at);
            self.take_outgoing(call.ticket);
            self.hint = Some(format!("cancelled before it was sent: {}", call.line));
            return Ok(());
        }
        self.do_later(ChatEffect::Cancel(ticket.ok_or("no call of yours is running")?));
        Ok(())
    }

    fn tools(&mut self, whose: Option<&str>, now: Now) -> Result<(), String> {
        let whose = match whose {
            Some(whose) => vec![self.resolve(whose)?],
            None => self.others().map(|one| one.id.clone()).chain([ParticipantId::host()]).collect(),
        };
        if whose.len() > MAX_PENDING_QUESTIONS {
            return Err(format!("{} are here: name one", whose.len()));
        }
        for id in whose {
            match self.tools.get(&id).cloned() {
                Some(tools) => self.show_tools(&id, &tools, now),
                None => self.ask_for_tools(id, true),
            }
        }
        Ok(())
    }

    fn read(&mut self, of: &str, uri: Option<String>) -> Result<(), String> {
        let of = self.resolve(of)?;
        let (hint, effect) = match uri {
            Some(uri) => (format!("reading {uri} of {of}"), ChatEffect::ReadResource { of, uri }),
            None => (format!("asking {of} for its resources"), ChatEffect::ListResources(of)),
        };
        self.hint = Some(hint);
        self.do_later(effect);
        Ok(())
    }

    pub(super) fn show_resources(&mut self, of: &ParticipantId, rows: Result<Vec<(String, String)>, String>, now: Now) {
        self.hint = None;
        match rows {
            Ok(rows) if rows.is_empty() => self.list(&format!("{of} lists no resources"), rows, now),
            Ok(rows) => self.list(&format!("{of} has, for `/read {of} URI`"), rows, now),
            Err(why) => self.complain(&format!("/read {of}"), &why, now),
        }
    }

    pub(super) fn show_resource(&mut self, of: &ParticipantId, uri: &str, text: Result<String, String>, now: Now) {
        self.hint = None;
        match text {
            Ok(text) => {
                self.list(&format!("{} of {of}\n{}", safe_line(uri), clip(&text, MAX_SHOWN_BYTES)), Vec::new(), now);
            }
            Err(why) => self.complain(&format!("/read {of} {uri}"), &why, now),
        }
    }

    /// Asks somebody what they offer, unless that is under way.
    pub(super) fn ask_for_tools(&mut self, whose: ParticipantId, show: bool) {
        match self.asking.get_mut(&whose) {
            Some(wanted) => *wanted |= show,
            None => {
                self.asking.insert(whose.clone(), show);
                self.do_later(ChatEffect::ListTools(whose));
            }
        }
    }

    pub(super) fn show_tools(&mut self, of: &ParticipantId, tools: &[ChatTool], now: Now) {
        let text = if tools.is_empty() { format!("{of} offers no tools") } else { format!("{of} offers") };
        let rows = tools.iter().map(|tool| (signature(tool), tool.description.clone())).collect();
        self.list(&text, rows, now);
    }

    fn show_roster(&mut self, now: Now) {
        let row = |one: &Participant| {
            let kind = one.kind.map_or("", |kind| kind.word());
            let name = one.name.as_deref().filter(|name| !name.eq_ignore_ascii_case(one.id.as_str()));
            let name = name.unwrap_or_default();
            let you = if one.id == self.me { " (you)" } else { "" };
            let via = one.via.as_ref().map(|bridge| format!(" via {bridge}")).unwrap_or_default();
            let status = one.status.as_ref().map(|status| format!(" · {}", safe_line(&status.to_string())));
            let status = status.unwrap_or_default();
            (format!("{} {}", sign(one.kind), one.id), format!("{kind} {name}{you}{via}{status}"))
        };
        let rows: Vec<_> = self.roster.iter().take(MAX_LISTED).map(row).collect();
        let (count, hidden) = (self.roster.len(), self.roster.len() - rows.len());
        let hidden = if hidden > 0 { format!(", {hidden} of them not listed") } else { String::new() };
        self.list(&format!("{count} here{hidden}"), rows, now);
    }

    fn show_help(&mut self, now: Now) {
        let commands = COMMANDS.iter().map(|one| (format!("/{} {}", one.name, one.usage), one.about.to_owned()));
        let keys = KEYS.iter().map(|(key, about)| ((*key).to_owned(), (*about).to_owned()));
        self.list("Commands and keys", commands.chain(keys).collect(), now);
    }

    fn list(&mut self, text: &str, rows: Vec<(String, String)>, now: Now) {
        let key = self.transcript.next_key();
        self.transcript.table(now.wall, TextTone::Requested, text, rows);
        self.show(key, now);
    }

    /// Answers a question with a text, or declines it.
    fn answer(&mut self, number: Option<usize>, text: Option<&str>) -> Result<(), String> {
        if self.questions.is_empty() {
            return Err("nobody asks you anything".into());
        }
        let place = number.unwrap_or(1).checked_sub(1).filter(|place| *place < self.questions.len());
        let place = place.ok_or_else(|| format!("there are {} questions", self.questions.len()))?;
        let answer = match (text, &self.questions[place].form) {
            (None, _) => QuestionAnswer::Declined,
            (Some(text), None) => QuestionAnswer::Text(text.to_owned()),
            (Some(text), Some(form)) => QuestionAnswer::Form(filled(form, text)?),
        };
        let question = self.questions.remove(place).id;
        self.do_later(ChatEffect::Answer { question, answer });
        Ok(())
    }
}

/// A form as it was filled in. Where it has only one field, the text is its value.
fn filled(form: &ArgumentSchema, text: &str) -> Result<Box<serde_json::value::RawValue>, String> {
    let pairs = match &form.fields()[..] {
        [only] if !text.starts_with(&format!("{}=", only.name)) && !text.starts_with('{') => {
            vec![format!("{}={text}", only.name)]
        }
        _ => words(text)?,
    };
    form.fill_in(&pairs).map_err(|unfit| unfit.to_string())
}

/// A tool with its arguments, those in brackets that may be left out.
fn signature(tool: &ChatTool) -> String {
    let mut told = safe_line(&tool.name);
    for field in tool.schema.fields() {
        let kind = if field.kind.is_empty() { "…" } else { &field.kind };
        let pair = safe_line(&format!("{}={kind}", field.name));
        told.push_str(&if field.required { format!(" {pair}") } else { format!(" [{pair}]") });
    }
    told
}
