//! `room.wait`: blocks until something for the caller happens, and answers with everything since the caller's place.
//!
//! A wait is a cursor over the room, like every other reader: what lies behind is read from the log, what comes from the ring. It
//! changes nothing in the room, so one that a restart interrupted is simply taken up again, and one that a door asks for is no entry
//! while nothing happens ([`wait_idle`]).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use salon_protocol::{Entry, EnvelopeId, ParticipantId, RpcError};
use salon_rooms::{Happening, Interest};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::arguments::Arguments;
use super::events::{self, Interests, Sort};
use super::office::{HostRequest, Office};
use super::places::{ReadPosition, WaitingCaller};
use super::speech::{HostOutcome, derived_id, failed, text, told};
use crate::{clock, history};

pub(super) const MAX_EVENTS: usize = 1000;
pub(super) const USUAL_EVENTS: usize = 100;
pub(super) const MAX_SENDERS: usize = 256;

/// What the id of an answer is derived for. Waits have their own, by which [`Interests`] knows them again.
pub(super) const PURPOSE: &str = "wait";

/// How long a wait whose time is over goes on reading what lies behind already.
const CATCHING_UP: Duration = Duration::from_secs(10);

const BATCH: usize = 64 * 1024;

/// What is waited for.
pub(super) struct WaitRequest {
    after: Option<EnvelopeId>,
    sorts: HashSet<Sort>,
    from: Option<HashSet<ParticipantId>>,
    time: Duration,
    limit: usize,
}

impl WaitRequest {
    pub(super) fn read(mut arguments: Arguments<'_>) -> Result<Self, RpcError> {
        let after = arguments.optional("after")?;
        let sorts: Option<HashSet<Sort>> = arguments.optional("for")?;
        if sorts.as_ref().is_some_and(HashSet::is_empty) {
            return Err(arguments.wrong("for", "must name something to wait for"));
        }
        let from: Option<HashSet<ParticipantId>> = arguments.optional("from")?;
        if from.as_ref().is_some_and(|from| from.is_empty() || from.len() > MAX_SENDERS) {
            return Err(arguments.wrong("from", &format!("must name 1 to {MAX_SENDERS} participants")));
        }
        let time = arguments.time()?;
        let limit = arguments.number("limit", 1..=MAX_EVENTS as u64, USUAL_EVENTS as u64)? as usize;
        arguments.end()?;
        let sorts = sorts.unwrap_or_else(|| [Sort::Mention, Sort::Chat, Sort::Join].into());
        Ok(Self { after, sorts, from, time, limit })
    }
}

/// Waits, and answers.
pub(super) async fn wait(office: Arc<Office>, request: HostRequest, options: WaitRequest) -> HostOutcome {
    let waited = if request.is_old {
        Duration::from_millis(clock::now().0.saturating_sub(request.entry.arrived.0))
    } else {
        Duration::ZERO
    };
    let deadline = Instant::now() + options.time.saturating_sub(waited);
    let caller = WaitingCaller { id: request.caller(), request: Some(&request.entry) };
    let since = match ReadPosition::begin(&office, caller, options.after.clone()).await {
        Ok(place) => place,
        Err(told) => return Ok(failed(&told)),
    };
    let seen = SeenEvents::gather(&office, request.caller(), options, since.clone(), deadline).await?;
    Ok(seen.answer_and_note(&office, request.caller(), since))
}

/// Waits for somebody whose call is not in the log. `None` where something happened: the answer moves the caller's read position, so the call
/// and its answer have to be entries. It has moved nothing then, and the same call finds the same events.
pub(super) async fn wait_idle(
    office: Arc<Office>,
    caller: ParticipantId,
    options: WaitRequest,
) -> Option<Box<RawValue>> {
    let deadline = Instant::now() + options.time;
    let waiting = WaitingCaller { id: &caller, request: None };
    let since = ReadPosition::begin(&office, waiting, options.after.clone()).await.ok()?;
    let seen = SeenEvents::gather(&office, &caller, options, since.clone(), deadline).await.ok()?;
    seen.is_idle().then(|| seen.answer_and_note(&office, &caller, since))
}

/// Whether an entry answers a wait.
pub(super) fn is_answer(entry: &Entry, namespace: &uuid::Uuid) -> bool {
    let envelope = &entry.envelope;
    envelope.from().is_host()
        && envelope
            .correlation()
            .is_some_and(|request| derived_id(namespace, PURPOSE, request) == envelope.id().as_str())
}

/// Where an answer to a wait began and ended.
pub(super) fn read_span(entry: &Entry) -> Option<(EnvelopeId, EnvelopeId)> {
    #[derive(Deserialize)]
    struct Payload {
        result: ToolResult,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolResult {
        structured_content: Span,
    }
    #[derive(Deserialize)]
    struct Span {
        since: EnvelopeId,
        cursor: EnvelopeId,
    }
    let payload: Payload = serde_json::from_str(entry.envelope.payload()).ok()?;
    let Span { since, cursor } = payload.result.structured_content;
    Some((since, cursor))
}

/// The structured result, as [`output_schema`] describes it.
#[derive(Serialize)]
struct WaitResult<'a> {
    events: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    omitted: &'a [EnvelopeId],
    since: &'a EnvelopeId,
    cursor: &'a EnvelopeId,
    more: bool,
    timed_out: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    gap: bool,
}

/// The `outputSchema` of the tool (MCP 2025-06-18, Tools, "Output Schema"). Clients hold results to it.
pub(super) fn output_schema() -> Value {
    let id = |about: &str| json!({ "type": "string", "description": about });
    let flag = |about: &str| json!({ "type": "boolean", "description": about });
    json!({
        "type": "object",
        "properties": {
            "events": {
                "type": "array", "items": { "type": "object" },
                "description": "What happened, oldest first: envelopes with `id`, `ts`, `from`, `kind` and `payload`. The text of a chat line \
                    is `payload.params.text`"
            },
            "omitted": {
                "type": "array", "items": { "type": "string" },
                "description": "Ids of envelopes that are too long to show here"
            },
            "since": id("The envelope after which this wait began"),
            "cursor": id("The last envelope this wait has passed; `after` of the next wait"),
            "more": flag("There are more events already; call again at once"),
            "timed_out": flag("Nothing happened in the time; call again to go on waiting"),
            "gap": flag("What happened first is no longer stored")
        },
        "required": ["events", "since", "cursor", "more", "timed_out"]
    })
}

/// What has been seen so far.
struct SeenEvents {
    interests: Interests,
    limit: usize,
    /// Bytes left for events, as they are and in words.
    room: usize,
    events: Vec<Arc<Entry>>,
    lines: Vec<String>,
    /// Events too long for any answer.
    omitted: Vec<EnvelopeId>,
    /// The last entry passed, event or not.
    passed: ReadPosition,
    /// There is an event that does not fit any more.
    more: bool,
    gap: bool,
}

impl SeenEvents {
    /// Reads the room after a position until there is an answer, or the time is over.
    async fn gather(
        office: &Office,
        caller: &ParticipantId,
        options: WaitRequest,
        since: ReadPosition,
        deadline: Instant,
    ) -> Result<Self, RpcError> {
        let present = office.desk.participant(caller);
        let name = present.as_ref().and_then(|participant| participant.name.as_deref());
        let interests = Interests {
            caller: caller.clone(),
            names: Interests::names(caller, name),
            sorts: options.sorts,
            from: options.from,
            namespace: office.toolbox.namespace,
        };
        let mut cursor = office.desk.observe(Some(since.position), Interest::default());
        let mut gathered = Self {
            interests,
            limit: options.limit,
            room: office.toolbox.room_for_texts(),
            events: Vec::new(),
            lines: Vec::new(),
            omitted: Vec::new(),
            passed: since,
            more: false,
            gap: false,
        };
        let mut happenings = Vec::new();
        loop {
            let is_caught_up = cursor.lag() == 0;
            if gathered.more || (is_caught_up && gathered.has_something()) {
                return Ok(gathered);
            }
            let end = if is_caught_up { deadline } else { deadline + CATCHING_UP };
            tokio::select! { biased;
                () = tokio::time::sleep_until(end) => {
                    gathered.more = !is_caught_up;
                    return Ok(gathered);
                }
                next = cursor.next(&mut happenings, BATCH) => {
                    if next.is_err() {
                        return Err(RpcError::internal("the room could not be read on; ask again"));
                    }
                    for happening in happenings.drain(..) {
                        gathered.gap |= matches!(happening, Happening::Gap);
                        happening.entries().iter().for_each(|entry| gathered.take(entry));
                    }
                }
            }
        }
    }

    /// Whether nothing happened.
    fn is_idle(&self) -> bool {
        !self.has_something() && !self.more
    }

    /// The answer. A caller that is still here has read so far.
    fn answer_and_note(self, office: &Office, caller: &ParticipantId, since: ReadPosition) -> Box<RawValue> {
        let answer = self.answer(&since);
        let place = if office.desk.participant(caller).is_some() { self.passed } else { since };
        office.toolbox.read_positions().note(office.desk.topic(), caller, place);
        answer
    }

    fn has_something(&self) -> bool {
        !self.events.is_empty() || !self.omitted.is_empty() || self.gap
    }

    /// Takes the next entry, unless the answer is full.
    fn take(&mut self, entry: &Arc<Entry>) {
        if self.more {
            return;
        }
        if self.interests.wants(entry) {
            let mut line = events::words(entry);
            let mut length = entry.envelope.text().len() + text(&line).get().len();
            let is_omitted = length > self.room && self.lines.is_empty();
            if is_omitted {
                line = format!("(envelope {} is too long to show here)", entry.envelope.id());
                length = 0;
            }
            if self.lines.len() == self.limit || length > self.room {
                self.more = true;
                return;
            }
            self.room -= length;
            self.lines.push(line);
            match is_omitted {
                true => self.omitted.push(entry.envelope.id().clone()),
                false => self.events.push(entry.clone()),
            }
        }
        self.passed = ReadPosition::of(entry);
    }

    fn answer(&self, since: &ReadPosition) -> Box<RawValue> {
        let timed_out = self.is_idle();
        let waited = WaitResult {
            events: self.events.iter().map(|entry| history::raw(entry)).collect(),
            omitted: &self.omitted,
            since: &since.id,
            cursor: &self.passed.id,
            more: self.more,
            timed_out,
            gap: self.gap,
        };
        let mut lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        if self.gap {
            lines.insert(0, "(what happened first is no longer kept)");
        }
        if timed_out {
            lines.push("Nothing happened.");
        }
        if self.more {
            lines.push("There is more; call again.");
        }
        told(&lines.join("\n"), &text(&waited), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_schema_describes_the_result() {
        let id: EnvelopeId = "e-1".parse().expect("an id");
        let keys = |omitted: &[EnvelopeId], gap| {
            let result =
                WaitResult { events: Vec::new(), omitted, since: &id, cursor: &id, more: false, timed_out: true, gap };
            let Value::Object(result) = serde_json::to_value(result).expect("plain data") else { panic!("an object") };
            result.keys().cloned().collect::<HashSet<String>>()
        };
        let schema = output_schema();
        let described = schema["properties"].as_object().expect("properties").keys().cloned().collect();
        let required = schema["required"].as_array().expect("a list");
        let required = required.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        assert_eq!((keys(std::slice::from_ref(&id), true), keys(&[], false)), (described, required));
    }
}
