//! Slack's signatures and decoders, as data.

use aws_lc_rs::hmac;
use proptest::prelude::*;
use salon_protocol::Timestamp;
use serde_json::json;

use super::events::{self, SlackEvent, SlackRequest};
use super::mrkdwn;
use super::signature::{InvalidSignature, verify};
use crate::rich::{Flavour, render};

/// The example of Slack's page "Verifying requests from Slack".
const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
const BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
const SENT: &str = "1531420618";
const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";

fn at(seconds: u64) -> Timestamp {
    Timestamp(seconds * 1000)
}

#[test]
fn signatures_are_checked() {
    let check = |secret: &str, sent: &str, tag: &str, body: &str, now| {
        verify(secret, Some(sent), Some(tag), body.as_bytes(), now)
    };
    let now = at(1_531_420_618);
    assert_eq!(check(SECRET, SENT, SIGNATURE, BODY, now), Ok(()));
    assert_eq!(check(SECRET, SENT, SIGNATURE, BODY, at(1_531_420_918)), Ok(()));
    assert_eq!(check(SECRET, SENT, SIGNATURE, BODY, at(1_531_420_919)), Err(InvalidSignature::Stale));
    assert_eq!(check(SECRET, SENT, SIGNATURE, BODY, at(1_531_420_317)), Err(InvalidSignature::Stale));
    assert_eq!(check("another", SENT, SIGNATURE, BODY, now), Err(InvalidSignature::Wrong));
    assert_eq!(check(SECRET, "1531420619", SIGNATURE, BODY, now), Err(InvalidSignature::Wrong));
    assert_eq!(check(SECRET, SENT, SIGNATURE, "token=", now), Err(InvalidSignature::Wrong));
    assert_eq!(check(SECRET, SENT, &SIGNATURE[..60], BODY, now), Err(InvalidSignature::Missing));
    assert_eq!(check(SECRET, SENT, "v1=00", BODY, now), Err(InvalidSignature::Missing));
    assert_eq!(check(SECRET, "x", SIGNATURE, BODY, now), Err(InvalidSignature::Missing));
    assert_eq!(verify(SECRET, None, Some(SIGNATURE), b"", now), Err(InvalidSignature::Missing));
}

fn plain(text: &str) -> String {
    let name = |user: &str| (user == "U1").then(|| "Ann".to_owned());
    render(&mrkdwn::parse(text, &name), Flavour::Markdown)
}

#[test]
fn mrkdwn_becomes_markdown() {
    for (text, expected) in [
        ("*bold* _it_ ~gone~ `a &lt; b`", "**bold** *it* ~~gone~~ `a < b`"),
        ("2 * 3 * 4 and snake_case_name", "2 \\* 3 \\* 4 and snake_case_name"),
        ("<https://example.org?a=1&amp;b=2|here>", "[here](https://example.org?a=1&b=2)"),
        ("<https://example.org>", "https://example.org"),
        ("in <#C1|lab> <!here>", "in #lab @here"),
        ("&gt; quoted\n&gt; more\nanswer", "> quoted\n> more\n\nanswer"),
        ("```let x = 1;\nlet y = &amp;x;```", "```\nlet x = 1;\nlet y = &x;\n```"),
        ("a &lt;b&gt; &amp;amp;", "a <b> &amp;"),
        ("<javascript:alert(1)|x>", "<javascript:alert(1)|x>"),
    ] {
        assert_eq!(plain(text), expected, "{text}");
    }
}

fn event(event: serde_json::Value) -> SlackEvent {
    let body = json!({"type": "event_callback", "event_id": "Ev1", "event": event}).to_string();
    match events::decode(body.as_bytes()) {
        Some(SlackRequest::Event { event_id, event }) => {
            assert_eq!(event_id, "Ev1");
            *event
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_edits_and_deletions_are_told_apart() {
    let message = json!({"type": "message", "channel": "C1", "user": "U1", "text": "hi", "ts": "1.000100",
        "thread_ts": "0.000100"});
    match event(message) {
        SlackEvent::Message(message) => assert_eq!(message.thread_root(), Some("0.000100")),
        other => panic!("{other:?}"),
    }
    let changed = |before: &str, edited: bool| {
        let mut message = json!({"user": "U1", "text": "hi there", "ts": "1.000100"});
        if edited {
            message["edited"] = json!({"user": "U1", "ts": "2.0"});
        }
        json!({"type": "message", "subtype": "message_changed", "channel": "C1", "message": message,
            "previous_message": {"text": before, "ts": "1.000100"}})
    };
    assert!(matches!(event(changed("hi", true)), SlackEvent::Changed { .. }));
    // A preview was added to the message.
    assert_eq!(event(changed("hi there", true)), SlackEvent::Unrelated);
    assert_eq!(event(changed("hi", false)), SlackEvent::Unrelated);
    let deleted =
        json!({"type": "message", "subtype": "message_deleted", "channel": "C1", "deleted_ts": "1.0", "ts": "3.0"});
    let expected = SlackEvent::Deleted { channel: "C1".into(), ts: "1.0".into(), event_ts: "3.0".into() };
    assert_eq!(event(deleted), expected);
    let join =
        json!({"type": "message", "subtype": "channel_join", "channel": "C1", "user": "U1", "text": "x", "ts": "1.0"});
    assert_eq!(event(join), SlackEvent::Unrelated);
    let verification = events::decode(br#"{"type":"url_verification","challenge":"c"}"#);
    assert_eq!(verification, Some(SlackRequest::UrlVerification { challenge: "c".into() }));
}

#[test]
fn times_are_read_off_ids() {
    assert_eq!(events::milliseconds("1531420618.123456"), Some(1_531_420_618_123));
    assert_eq!(events::milliseconds("1531420618"), Some(1_531_420_618_000));
    assert_eq!(events::milliseconds("99999999999999999999.1"), None);
    assert_eq!(events::milliseconds("x"), None);
}

proptest! {
    #[test]
    fn any_text_is_read(text in "[<>@#!&;|a-zé*_`~ \\n]{0,80}") {
        let _ = plain(&text);
    }

    #[test]
    fn any_bytes_are_a_request_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = events::decode(&bytes);
    }

    #[test]
    fn what_is_signed_is_taken(body in proptest::collection::vec(any::<u8>(), 0..100), secret in "[a-z]{1,40}") {
        let signed = [b"v0:1000:", body.as_slice()].concat();
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), &signed);
        let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        prop_assert_eq!(verify(&secret, Some("1000"), Some(&format!("v0={hex}")), &body, at(1000)), Ok(()));
    }
}
