//! `presence.set`: a participant says what it is doing, for everybody to see.

use std::time::Duration;

use salon_protocol::{EnvelopeId, PresenceState, PresenceStatus, RpcError, Timestamp};
use salon_rooms::StatusNotice;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::office::{HostRequest, Office};
use super::speech::{HostOutcome, derived_id, failed, structured};
use crate::clock;

/// How far ahead a status may end by itself.
const MAX_UNTIL: Duration = Duration::from_hours(366 * 24);

/// What the id of the entry is derived for.
pub(super) const PURPOSE: &str = "status";

/// Answers `presence.set`.
pub(super) async fn set(office: &Office, request: &HostRequest, arguments: Arguments<'_>) -> HostOutcome {
    let status = read(arguments, clock::now())?;
    let (desk, who, asked) = (&office.desk, request.caller(), request.entry.envelope.id());
    let current = desk.status_of(who);
    // Without the text: an answer is not redacted with the status.
    let (word, until) = (status.as_ref().map(|status| status.status), status.as_ref().and_then(|status| status.until));
    let answer = structured(&json!({ "participant": who, "status": word, "until": until }));
    // What changes nothing is not stored.
    let about = match (&status, &current) {
        (Some(status), Some((current, _))) if status == current => return Ok(answer),
        (None, None) => return Ok(answer),
        (None, Some((_, said_by))) => said_by,
        (Some(_), _) => asked,
    };
    let id = EnvelopeId::new(derived_id(&office.toolbox.namespace, PURPOSE, asked)).expect("a UUID is an id");
    match desk.set_status(who, status, StatusNotice { id: &id, about }).await {
        Ok(()) => Ok(answer),
        Err(refusal) => Ok(failed(&refusal.message)),
    }
}

fn read(mut arguments: Arguments<'_>, now: Timestamp) -> Result<Option<PresenceStatus>, RpcError> {
    let state: Option<PresenceState> = match arguments.written("status").map(RawValue::get) {
        None => return Err(arguments.wrong("status", "it is missing")),
        Some("null") => None,
        Some(written) => {
            let word = serde_json::from_str::<String>(written).ok();
            let state = word.as_deref().unwrap_or_default().parse();
            Some(state.map_err(|why| arguments.wrong("status", why))?)
        }
    };
    let text: Option<String> = arguments.optional("text")?;
    let until: Option<Timestamp> = arguments.optional("until")?;
    if let Some(text) = &text {
        if text.chars().count() > PresenceStatus::MAX_TEXT_CHARS {
            let why = format!("it has more than {} characters", PresenceStatus::MAX_TEXT_CHARS);
            return Err(arguments.wrong("text", &why));
        }
        if text.chars().any(char::is_control) {
            return Err(arguments.wrong("text", "it has a line break or another control character"));
        }
    }
    if let Some(until) = until {
        if until <= now {
            return Err(arguments.wrong("until", "it is not in the future"));
        }
        if until.0 - now.0 > MAX_UNTIL.as_millis() as u64 {
            return Err(arguments.wrong("until", "it is more than 366 days ahead"));
        }
    }
    if state.is_none() && (text.is_some() || until.is_some()) {
        return Err(arguments.wrong("status", "`null` removes the status, and goes with neither `text` nor `until`"));
    }
    arguments.end()?;
    Ok(state.map(|status| PresenceStatus { status, text: text.filter(|text| !text.is_empty()), until }))
}

/// The tool as `tools/list` shows it.
pub(super) fn description() -> Value {
    let words: Vec<_> = PresenceState::ALL.iter().map(|state| state.word()).collect();
    json!({
        "name": "presence.set",
        "title": "Say what you are doing",
        "description": "Tells everybody in this room what you are doing: `working` on something, `blocked` until somebody helps, `away`, \
            `idle`, `typing`. It is shown beside your name until you set another, until its time is over, or until you leave",
        "inputSchema": {
            "type": "object",
            "properties": {
                "status": { "type": ["string", "null"], "enum": words.iter().map(|word| json!(word)).chain([Value::Null]).collect::<Vec<_>>(),
                    "description": "What you are doing; `null` removes the status" },
                "text": { "type": "string", "maxLength": PresenceStatus::MAX_TEXT_CHARS, "description": "More about it, on one line" },
                "until": { "type": "string", "format": "date-time", "description": "When it ends by itself, as an RFC 3339 time" }
            },
            "required": ["status"],
            "additionalProperties": false
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "participant": { "type": "string" },
                "status": { "type": ["string", "null"] },
                "until": { "type": ["string", "null"], "format": "date-time" }
            },
            "required": ["participant", "status", "until"],
            "additionalProperties": false
        },
        "annotations": { "idempotentHint": true, "destructiveHint": false }
    })
}

/// What a status is.
pub(super) fn schema() -> Value {
    let words: Vec<_> = PresenceState::ALL.iter().map(|state| state.word()).collect();
    json!({
        "type": "object",
        "properties": {
            "status": { "type": "string", "enum": words },
            "text": { "type": "string" },
            "until": { "type": "string", "format": "date-time" }
        },
        "required": ["status"]
    })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn status(arguments: &str) -> String {
        let now = Timestamp::parse("2026-01-01T12:00:00Z").expect("a time");
        let raw: Box<RawValue> = serde_json::from_str(arguments).expect("the test writes JSON");
        let read = Arguments::new("presence.set", Some(&raw)).and_then(|arguments| read(arguments, now));
        read.map(|status| json!(status).to_string()).unwrap_or_else(|error| error.message)
    }

    #[test]
    fn a_status_is_bounded_in_length_and_time() {
        assert_snapshot!(status(r#"{"status":"away"}"#), @r#"{"status":"away"}"#);
        assert_snapshot!(status(r#"{"status":null}"#), @"null");
        assert_snapshot!(status(r#"{"status":"working","text":"wiring","until":"2026-01-01T14:00:00+01:00"}"#), @r#"{"status":"working","text":"wiring","until":"2026-01-01T13:00:00.000Z"}"#);
        assert_snapshot!(status(r#"{"status":"asleep"}"#), @"the argument `status` of `presence.set`: it is not one of idle, working, blocked, away, typing");
        assert_snapshot!(status("{}"), @"the argument `status` of `presence.set`: it is missing");
        assert_snapshot!(status(r#"{"status":"away","until":"2026-01-01T12:00:00Z"}"#), @"the argument `until` of `presence.set`: it is not in the future");
        assert_snapshot!(status(r#"{"status":"away","until":"2027-02-01T12:00:00Z"}"#), @"the argument `until` of `presence.set`: it is more than 366 days ahead");
        assert_snapshot!(status(r#"{"status":"away","until":"noon"}"#), @"the argument `until` of `presence.set`: not a time of RFC 3339");
        assert_snapshot!(status(r#"{"status":"away","text":"two\nlines"}"#), @"the argument `text` of `presence.set`: it has a line break or another control character");
        assert_snapshot!(status(r#"{"status":null,"text":"gone"}"#), @"the argument `status` of `presence.set`: `null` removes the status, and goes with neither `text` nor `until`");
        let long = "x".repeat(201);
        assert_snapshot!(status(&format!(r#"{{"status":"away","text":"{long}"}}"#)), @"the argument `text` of `presence.set`: it has more than 200 characters");
    }
}
