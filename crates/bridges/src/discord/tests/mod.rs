//! Discord's decoders, its session and its limits, as data and with the time as an argument.

mod limits;
mod session;

use proptest::prelude::*;
use serde_json::json;

use super::gateway_payload::{self, DiscordEvent, DiscordUser, GatewayPayload};
use super::{text, username};
use crate::rich::{Flavour, render};

fn markdown(content: &str) -> String {
    let ann = DiscordUser { id: "42".into(), username: "ann".into(), global_name: Some("Ann".into()), bot: false };
    render(&text::parse(content, &[ann]), Flavour::Plain)
}

#[test]
fn content_is_read_with_its_mentions() {
    for (content, expected) in [
        ("**hi** there", "hi there"),
        ("<@42> and <@!42>", "@Ann and @Ann"),
        ("<@43>", "@43"),
        ("in <#7> <@&8>", "in #7 @role 8"),
        ("<:wave:12> <a:dance:13>", ":wave: :dance:"),
        ("||secret||", "secret"),
        ("<t:1618953630:R>", "2021-04-20T21:20:30.000Z"),
        ("a < b <@x> <:> <", "a < b <@x> <:> <"),
    ] {
        assert_eq!(markdown(content), expected, "{content}");
    }
}

#[test]
fn names_are_such_that_a_webhook_may_have_them() {
    assert_eq!(username("Robot"), "Robot");
    assert_eq!(username("  "), "(Salon)");
    assert_eq!(username("here"), "here (Salon)");
    assert_eq!(username("My Discord bot"), "My D-iscord bot");
    assert!(username(&"x".repeat(300)).chars().count() <= 80);
    assert!(!username(&"clyde".repeat(30)).to_lowercase().contains("clyde"));
}

#[test]
fn an_event_that_is_malformed_keeps_its_sequence() {
    let payload = json!({"op": 0, "s": 7, "t": "MESSAGE_CREATE", "d": {"id": 1}}).to_string();
    let expected = GatewayPayload::Dispatch { sequence: 7, event: DiscordEvent::Malformed.into() };
    assert_eq!(gateway_payload::decode(&payload), Some(expected));
    let unknown = json!({"op": 0, "s": 8, "t": "TYPING_START", "d": {}}).to_string();
    let expected = GatewayPayload::Dispatch { sequence: 8, event: DiscordEvent::Unrelated.into() };
    assert_eq!(gateway_payload::decode(&unknown), Some(expected));
}

proptest! {
    #[test]
    fn any_text_is_a_payload_or_none(text in "\\PC{0,200}") {
        let _ = gateway_payload::decode(&text);
    }

    #[test]
    fn any_content_is_read(content in "[<>@#!&:|a-z0-9*_`~ \\n\\\\é]{0,80}") {
        let _ = markdown(&content);
    }

    #[test]
    fn any_name_is_short_and_not_empty(name in "\\PC{0,120}") {
        let name = username(&name);
        prop_assert!(!name.is_empty() && name.chars().count() <= 88);
    }
}
