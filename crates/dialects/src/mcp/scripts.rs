//! What scripts share that are played to a door: the room around it, and its clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_mcp::listing::{Listing, read_page};
use salon_protocol::{Compose, Entry, Kind, Participant, ParticipantId, Position, Timestamp, TopicName};
use serde_json::value::RawValue;

use super::door::{CatalogueAnswer, CatalogueQuery, Event, McpOpening};
use crate::{Dialect, Form, Head, History, Joined, StreamId};

pub(super) fn id(text: &str) -> ParticipantId {
    ParticipantId::new(text).unwrap()
}

pub(super) fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A request of the door's that nobody has answered; without an id, one to the room's catalogue.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) to: String,
    pub(super) method: String,
    pub(super) id: Option<String>,
}

/// Somebody to whom a script is played.
pub(super) trait Stage {
    type Actor: Dialect<Opening = McpOpening, Answer = CatalogueAnswer>;

    fn actor(&mut self) -> &mut Self::Actor;

    fn now(&mut self) -> &mut Instant;

    /// How many entries there were.
    fn said(&mut self) -> &mut u32;

    /// Takes down what comes out.
    fn collect(&mut self);

    fn event(&mut self, event: Event) {
        let now = *self.now();
        self.actor().handle_event(event, now);
        self.collect();
    }

    /// Lets time go by, stopping wherever something is due.
    fn pass(&mut self, time: Duration) {
        let end = *self.now() + time;
        while let Some(due) = self.actor().poll_timeout().filter(|due| *due <= end) {
            let now = due.max(*self.now());
            *self.now() = now;
            self.actor().handle_timeout(now);
            let next = self.actor().poll_timeout();
            assert!(next.is_none_or(|next| next > now), "what was due has been seen to");
            self.collect();
        }
        *self.now() = end;
    }

    fn entry_to(&mut self, to: &[ParticipantId], from: &str, kind: Kind, correlation: Option<&str>, payload: &str) {
        *self.said() += 1;
        let envelope = Compose {
            id: &format!("e{}", self.said()),
            ts: Timestamp(0),
            from: &id(from),
            to,
            kind,
            correlation_id: correlation,
            payload: raw(payload),
        }
        .envelope();
        self.event(Event::Entry(Arc::new(Entry {
            position: Position::start(1),
            arrived: Timestamp(0),
            stamp: None,
            envelope,
        })));
    }

    fn entry(&mut self, from: &str, kind: Kind, correlation: Option<&str>, payload: &str) {
        self.entry_to(&[id("alice")], from, kind, correlation, payload);
    }

    /// Whoever was asked answers with a result, or with `error {…}`.
    fn answer_open(&mut self, open: &Open, outcome: &str) {
        let Some(id) = &open.id else {
            let listing = Listing::of_method(&open.method).unwrap();
            let items = RawValue::from_string(outcome.into()).ok().and_then(|result| read_page(listing, &result));
            let items = items.map(|(items, _)| items.into());
            return self.event(Event::Answered(CatalogueAnswer {
                query: CatalogueQuery { who: self::id(&open.to), listing },
                items,
            }));
        };
        let outcome = match outcome.strip_prefix("error ") {
            Some(error) => format!(r#""error":{error}"#),
            None => format!(r#""result":{outcome}"#),
        };
        self.entry(&open.to, Kind::Mcp, Some(id), &format!(r#"{{"jsonrpc":"2.0","id":"{id}",{outcome}}}"#));
    }

    fn join_room(&mut self, me: Participant, roster: &[Arc<Participant>]) {
        self.event(Event::Joined(Joined {
            topic: TopicName::new("room:a").unwrap(),
            participant: Arc::new(me),
            roster: roster.to_vec(),
            history: History { enabled: true, limit: 1000, recent: None },
            durability: None,
        }));
    }
}

/// How an answer begins, as a line.
pub(super) fn begun(StreamId(stream): StreamId, Head { status, form, headers }: &Head) -> String {
    let form = match form {
        Form::Empty => "empty",
        Form::Json => "json",
        Form::Events => "events",
    };
    let headers: String = headers.iter().map(|(name, value)| format!(" [{name}: {value}]")).collect();
    format!("begin {stream} {status} {form}{headers}")
}
