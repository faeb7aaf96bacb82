//! Which envelopes `history` and `tail` show.
//!
//! Handshakes and lists are folded away unless they are asked for: they are most of what programs send, and little of what people look for. An
//! answer is shown where its request is. Pages of history come newest first, so an answer is met before its request.

use std::collections::HashMap;
use std::time::Duration;

use clap::{Args, ValueEnum};
use salon_gateway::config::Deadline;
use salon_protocol::{CHAT_METHOD, Envelope, EnvelopeId, Kind, Message, ParticipantId, Timestamp};

use crate::transcript::calls::OpenCalls;
use crate::transcript::reading::{is_housekeeping, is_preparation, sent};

const HEADING: &str = "Which messages";

#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub(crate) struct FilterArgs {
    /// Only this kind; may be repeated
    #[arg(long, value_delimiter = ',', help_heading = HEADING)]
    kind: Vec<EnvelopeSort>,
    /// Only messages of this participant; may be repeated
    #[arg(long, value_name = "ID", help_heading = HEADING)]
    from: Vec<ParticipantId>,
    /// Only requests of this method with their answers, and notifications of it; a `*` at the end stands for anything; may be repeated
    #[arg(long, value_name = "METHOD", help_heading = HEADING)]
    method: Vec<String>,
    /// Only messages with this text; case is ignored
    #[arg(long, value_name = "TEXT", help_heading = HEADING)]
    grep: Option<String>,
    /// Only messages since then: a time such as 2025-08-17T14:00:00Z, or how long ago: 10m, 2h
    #[arg(long, value_name = "TIME", help_heading = HEADING)]
    since: Option<Since>,
    /// Show handshakes and lists as well
    #[arg(long, help_heading = HEADING)]
    all: bool,
}

/// A kind of envelope, as people distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EnvelopeSort {
    Chat,
    Request,
    Response,
    Notification,
    Presence,
}

impl EnvelopeSort {
    fn of(envelope: &Envelope) -> Option<Self> {
        match (envelope.kind(), envelope.message()) {
            (Kind::Presence, _) => Some(Self::Presence),
            (_, Some(Message::Request { .. })) => Some(Self::Request),
            (_, Some(Message::Response { .. })) => Some(Self::Response),
            (_, Some(Message::Notification { method })) if &**method == CHAT_METHOD || envelope.is_chat_revision() => {
                Some(Self::Chat)
            }
            (_, Some(Message::Notification { .. })) => Some(Self::Notification),
            _ => None,
        }
    }
}

/// A moment, or how long ago it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    At(Timestamp),
    Ago(Duration),
}

impl std::str::FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(at) = Timestamp::parse(text) {
            return Ok(Self::At(at));
        }
        let ago: Result<Deadline, _> = text.parse();
        ago.map(|ago| Self::Ago(ago.0))
            .map_err(|_| "it is neither a time such as 2025-08-17T14:00:00Z nor one such as 10m".into())
    }
}

impl FilterArgs {
    /// A filter at this moment. `folds` is false where the envelopes themselves are printed, for programs.
    pub(crate) fn filter(&self, now: Timestamp, folds: bool) -> EnvelopeFilter {
        let since = self.since.map(|since| match since {
            Since::At(at) => at,
            Since::Ago(ago) => Timestamp(now.0.saturating_sub(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX))),
        });
        EnvelopeFilter {
            since,
            folds: folds && !self.all && self.method.is_empty(),
            grep: self.grep.as_ref().map(|text| text.to_lowercase()),
            args: self.clone(),
            requests: OpenCalls::default(),
            folded: 0,
        }
    }

    /// Whether anything is asked for.
    pub(crate) fn is_set(&self) -> bool {
        let Self { kind, from, method, grep, since, all: _ } = self;
        !(kind.is_empty() && from.is_empty() && method.is_empty() && grep.is_none() && since.is_none())
    }
}

/// What a message is to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Showing {
    Visible,
    Folded,
    /// The method is not one that was asked for.
    Left,
}

/// Decides envelope by envelope, in the order of the room.
#[derive(Debug)]
pub(crate) struct EnvelopeFilter {
    args: FilterArgs,
    pub(crate) since: Option<Timestamp>,
    folds: bool,
    grep: Option<String>,
    requests: OpenCalls<Showing>,
    folded: usize,
}

impl EnvelopeFilter {
    /// Whether the next envelope is shown.
    pub(crate) fn wants(&mut self, envelope: &Envelope) -> bool {
        let showing = match envelope.message() {
            Some(Message::Request { method, .. }) => {
                let showing = self.of_request(method);
                self.requests.ask(envelope.id().clone(), showing);
                showing
            }
            Some(Message::Response { .. }) => {
                let request = self.requests.answer(envelope.correlation());
                request.unwrap_or(self.of_unknown())
            }
            Some(Message::Notification { method }) => self.of_notification(method),
            None => self.of_unknown(),
        };
        self.folded += usize::from(showing == Showing::Folded);
        showing == Showing::Visible && self.fits(envelope)
    }

    fn of_request(&self, method: &str) -> Showing {
        match () {
            () if !self.has_method(method) => Showing::Left,
            () if self.folds && is_preparation(method) => Showing::Folded,
            () => Showing::Visible,
        }
    }

    fn of_notification(&self, method: &str) -> Showing {
        match () {
            () if !self.has_method(method) => Showing::Left,
            () if self.folds && is_housekeeping(method) => Showing::Folded,
            () => Showing::Visible,
        }
    }

    /// What is not a message, or answers a request that is not known.
    fn of_unknown(&self) -> Showing {
        if self.args.method.is_empty() { Showing::Visible } else { Showing::Left }
    }

    fn has_method(&self, method: &str) -> bool {
        let is = |wanted: &String| match wanted.strip_suffix('*') {
            Some(start) => method.starts_with(start),
            None => method == wanted,
        };
        self.args.method.is_empty() || self.args.method.iter().any(is)
    }

    /// Whether an envelope fits by itself.
    fn fits(&self, envelope: &Envelope) -> bool {
        let FilterArgs { kind, from, .. } = &self.args;
        (kind.is_empty() || EnvelopeSort::of(envelope).is_some_and(|sort| kind.contains(&sort)))
            && (from.is_empty() || from.contains(envelope.from()))
            && self.grep.as_ref().is_none_or(|text| envelope.payload().to_lowercase().contains(text))
            && !self.is_too_old(envelope)
    }

    /// Whether an envelope, and so every one before it, was sent too early.
    pub(crate) fn is_too_old(&self, envelope: &Envelope) -> bool {
        self.since.is_some_and(|since| sent(envelope).is_some_and(|at| at < since))
    }
}

/// Chosen envelopes of pages that come newest first.
#[derive(Debug)]
pub(crate) struct PageFilter {
    filter: EnvelopeFilter,
    /// The newest first. An answer whose request is not to be shown is taken out again.
    chosen: Vec<Option<Envelope>>,
    count: usize,
    /// By request: the answers that were chosen.
    answers: HashMap<EnvelopeId, Vec<usize>>,
}

impl PageFilter {
    pub(crate) fn new(filter: EnvelopeFilter) -> Self {
        Self { filter, chosen: Vec::new(), count: 0, answers: HashMap::new() }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Takes the next older envelope. False when everything before it is too old.
    pub(crate) fn take(&mut self, envelope: Envelope) -> bool {
        if self.filter.is_too_old(&envelope) {
            return false;
        }
        let (showing, fits) = (self.showing(&envelope), self.filter.fits(&envelope));
        if let Some(Message::Request { .. }) = envelope.message() {
            let answers = self.answers.remove(envelope.id()).unwrap_or_default();
            for at in answers.into_iter().filter(|_| showing != Showing::Visible) {
                self.count -= usize::from(self.chosen[at].take().is_some());
                self.filter.folded += usize::from(showing == Showing::Folded);
            }
        }
        self.filter.folded += usize::from(showing == Showing::Folded);
        if showing == Showing::Visible && fits {
            if let (Some(Message::Response { .. }), Some(about)) = (envelope.message(), envelope.correlation()) {
                self.answers.entry(about.clone()).or_default().push(self.chosen.len());
            }
            self.chosen.push(Some(envelope));
            self.count += 1;
        }
        true
    }

    fn showing(&self, envelope: &Envelope) -> Showing {
        match envelope.message() {
            Some(Message::Request { method, .. }) => self.filter.of_request(method),
            Some(Message::Notification { method }) => self.filter.of_notification(method),
            // Decided when its request comes.
            Some(Message::Response { .. }) => Showing::Visible,
            None => self.filter.of_unknown(),
        }
    }

    /// The newest `most` of the chosen, the oldest first, and how many were folded away.
    pub(crate) fn finish(mut self, most: usize) -> (Vec<Envelope>, usize) {
        if !self.filter.args.method.is_empty() {
            // Their requests are not kept any more, so that their method is not known.
            for at in self.answers.into_values().flatten() {
                self.chosen[at] = None;
            }
        }
        let mut newest: Vec<_> = self.chosen.into_iter().flatten().take(most).collect();
        newest.reverse();
        (newest, self.filter.folded)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        filter: FilterArgs,
    }

    /// A handshake, a list, a call that is under way meanwhile, and a line of chat.
    fn envelopes() -> Vec<Envelope> {
        let messages = [
            ("alice", "", r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#),
            ("bob", "e0", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            ("alice", "", r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            ("alice", "", r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"move"}}"#),
            ("alice", "", r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#),
            ("bob", "e4", r#"{"jsonrpc":"2.0","id":3,"result":{"tools":[]}}"#),
            ("bob", "e3", r#"{"jsonrpc":"2.0","id":2,"result":{"content":[]}}"#),
            ("alice", "", r#"{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"Moved"}}"#),
        ];
        let text = |(n, (from, about, payload)): (usize, &(&str, &str, &str))| {
            let about = if about.is_empty() { String::new() } else { format!("\"correlation_id\":\"{about}\",") };
            format!(
                r#"{{"protocol":"mcp-x/v0","id":"e{n}","ts":"2025-08-17T14:0{n}:00Z","from":"{from}","to":["x"],"kind":"mcp",{about}"payload":{payload}}}"#
            )
        };
        messages.iter().enumerate().map(|one| Envelope::restore(text(one)).expect("an envelope")).collect()
    }

    /// What is shown as it comes, and of pages: both must agree.
    fn shown(arguments: &str) -> String {
        let line = Line::try_parse_from(["x"].into_iter().chain(arguments.split_whitespace())).expect("arguments");
        let now = Timestamp::parse("2025-08-17T14:10:00Z").expect("a time");
        let mut filter = line.filter.filter(now, true);
        let live: Vec<_> = envelopes().iter().filter(|one| filter.wants(one)).map(|one| one.id().to_string()).collect();
        let mut pages = PageFilter::new(line.filter.filter(now, true));
        let _ = envelopes().into_iter().rev().all(|envelope| pages.take(envelope));
        assert_eq!(pages.count(), live.len());
        let (found, _) = pages.finish(100);
        assert_eq!(found.iter().map(|one| one.id().to_string()).collect::<Vec<_>>(), live, "{arguments}");
        live.join(" ")
    }

    #[test]
    fn handshakes_and_lists_are_folded_unless_they_are_asked_for() {
        assert_eq!(shown(""), "e3 e6 e7");
        assert_eq!(shown("--all"), "e0 e1 e2 e3 e4 e5 e6 e7");
        assert_eq!(shown("--method tools/list"), "e4 e5");
        assert_eq!(shown("--method tools/* --kind response"), "e5 e6");
        assert_eq!(shown("--from bob"), "e6");
        assert_eq!(shown("--grep MOVE"), "e3 e7");
        assert_eq!(shown("--since 2025-08-17T14:06:00Z"), "e6 e7");
        assert_eq!(shown("--since 3m"), "e7");
    }

    #[test]
    fn what_is_folded_is_counted() {
        let now = Timestamp::parse("2025-08-17T14:10:00Z").expect("a time");
        let mut filter = FilterArgs::default().filter(now, true);
        let shown = envelopes().iter().filter(|envelope| filter.wants(envelope)).count();
        assert_eq!(shown, 3);
        let mut pages = PageFilter::new(FilterArgs::default().filter(now, true));
        let _ = envelopes().into_iter().rev().all(|envelope| pages.take(envelope));
        assert_eq!((filter.folded, pages.finish(100).1), (5, 5));
        let mut programs = FilterArgs::default().filter(now, false);
        assert!(envelopes().iter().all(|envelope| programs.wants(envelope)));
    }
}
