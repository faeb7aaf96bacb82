//! What people on Matrix send, as data through the decoders.

use proptest::prelude::*;
use salon_protocol::Timestamp;
use serde_json::json;

use super::events::{MatrixContent, decode_transaction, media_parts};
use super::html;
use super::late;
use super::registration::MatrixRegistration;
use super::user_ids::PuppetIds;
use crate::platform::PlatformUserId;
use crate::rich::{Flavour, InlineText, MAX_DEPTH, MentionTarget, RichText, TextBlock, render};

fn ids() -> PuppetIds {
    PuppetIds { server_name: "salon.test".into(), prefix: "salon-lab_".into(), bot: "salon-lab".into() }
}

fn mentioned(user: &str) -> MentionTarget {
    ids().participant(user).map_or_else(|| MentionTarget::User(PlatformUserId::new(user)), MentionTarget::Participant)
}

fn parsed(html: &str) -> RichText {
    html::parse(html, &mentioned)
}

/// The HTML as Markdown, which is what the room reads.
fn markdown(html: &str) -> String {
    render(&parsed(html), Flavour::Markdown)
}

/// 64 KiB is the largest event. Reading each of these took seconds where the search for an end began again with each of them.
#[test]
fn a_hostile_text_is_read_in_linear_time() {
    for unit in
        ["<a", "<a \"", "<!--", "&", "&amp", "<b>", "</b>", "<li>", "<ul>", "<blockquote>", "<a href=x>", "<pre>"]
    {
        drop(parsed(&unit.repeat((1 << 20) / unit.len())));
    }
}

#[test]
fn html_becomes_markdown() {
    for (html, expected) in [
        ("plain &amp; simple", "plain & simple"),
        ("<b>bold</b> <i>and <em>more</em></i>", "**bold** *and *more**"),
        ("one<br>two<br/>three", "one\ntwo\nthree"),
        ("<p>one</p>\n<p>two</p>", "one\n\ntwo"),
        ("<p>a  \n  b</p>", "a b"),
        ("<pre><code class=\"language-rust\">fn main() {\n}\n</code></pre>", "```rust\nfn main() {\n}\n```"),
        ("<code>a &lt; b</code>", "`a < b`"),
        ("<blockquote>said</blockquote>answer", "> said\n\nanswer"),
        ("<ul><li>a</li><li>b</li></ul>", "- a\n- b"),
        ("<ol><li>a<li>b</ol>", "1. a\n2. b"),
        ("<a href=\"https://example.org/?a=1&amp;b=2\">link</a>", "[link](https://example.org/?a=1&b=2)"),
        ("<mx-reply><blockquote>old</blockquote></mx-reply>new", "new"),
        ("<script>alert(1)</script>text", "text"),
    ] {
        assert_eq!(markdown(html), expected, "{html}");
    }
}

#[test]
fn nothing_but_text_is_left_of_unsafe_html() {
    for html in [
        "<a href=\"javascript:alert(1)\">x</a>",
        "<a href=\"JaVaScRiPt:alert(1)\">x</a>",
        "<a href='data:text/html,y'>x</a>",
        "<a href=\"https://a b\">x</a>",
        "<font onclick=\"alert(1)\" data-mx-color='\">'>x</font>",
        "<x-unknown>x</x-unknown>",
        "<!-- <b> -->x",
    ] {
        assert_eq!(parsed(html), RichText::plain("x"), "{html}");
    }
    assert_eq!(parsed("1 < 2 <3 < b"), RichText::plain("1 < 2 <3 < b"));
}

#[test]
fn links_to_users_are_mentions() {
    let mention = |html: &str| match parsed(html).blocks.as_slice() {
        [TextBlock::Paragraph(inlines)] => inlines[0].clone(),
        other => panic!("{other:?}"),
    };
    let user = MentionTarget::User(PlatformUserId::new("@ann:salon.test"));
    assert_eq!(
        mention("<a href=\"https://matrix.to/#/@ann:salon.test\">Ann</a>"),
        InlineText::Mention { target: user.clone(), label: "Ann".into() }
    );
    assert_eq!(
        mention("<a href=\"https://matrix.to/#/%40ann%3Asalon.test?via=x\">Ann</a>"),
        InlineText::Mention { target: user.clone(), label: "Ann".into() }
    );
    assert_eq!(
        mention("<a href=\"matrix:u/ann:salon.test\">Ann</a>"),
        InlineText::Mention { target: user, label: "Ann".into() }
    );
    let puppet = ids().user_id(&"robot:Alpha".parse().expect("an id")).expect("a user id");
    assert_eq!(puppet, "@salon-lab_robot=3a=41lpha:salon.test");
    let participant = MentionTarget::Participant("robot:Alpha".parse().expect("an id"));
    assert_eq!(
        mention(&format!("<a href=\"https://matrix.to/#/{puppet}\">Alpha</a>")),
        InlineText::Mention { target: participant, label: "Alpha".into() }
    );
}

#[test]
fn own_users_are_recognised() {
    for (user, is_own) in [
        ("@salon-lab:salon.test", true),
        ("@salon-lab_bob:salon.test", true),
        ("@salon-labrador:salon.test", false),
        ("@salon-lab_bob:elsewhere.test", false),
        ("@ann:salon.test", false),
    ] {
        assert_eq!(ids().is_own(user), is_own, "{user}");
    }
}

fn decoded(event: serde_json::Value) -> Option<MatrixContent> {
    let transaction = decode_transaction(json!({"events": [event]}).to_string().as_bytes()).expect("a transaction");
    transaction.events.into_iter().next().map(|event| event.content)
}

fn event(kind: &str, content: serde_json::Value) -> serde_json::Value {
    json!({
        "type": kind, "event_id": "$e", "room_id": "!r", "sender": "@ann:salon.test", "origin_server_ts": 1,
        "content": content
    })
}

#[test]
fn replies_edits_and_redactions_are_told_apart() {
    let reply = json!({"msgtype": "m.text", "body": "yes", "m.relates_to": {"m.in_reply_to": {"event_id": "$q"}}});
    match decoded(event("m.room.message", reply)) {
        Some(MatrixContent::Message(message)) => assert_eq!(message.reply_to.as_deref(), Some("$q")),
        other => panic!("{other:?}"),
    }
    // A message in a thread is no reply to the message before it.
    let thread = json!({"msgtype": "m.text", "body": "yes", "m.relates_to": {
        "rel_type": "m.thread", "event_id": "$root", "is_falling_back": true, "m.in_reply_to": {"event_id": "$last"}}});
    match decoded(event("m.room.message", thread)) {
        Some(MatrixContent::Message(message)) => assert_eq!(message.reply_to, None),
        other => panic!("{other:?}"),
    }
    let edit = json!({"msgtype": "m.text", "body": "* b", "m.new_content": {"msgtype": "m.text", "body": "b"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": "$q"}});
    match decoded(event("m.room.message", edit)) {
        Some(MatrixContent::Replacement { of, by }) => assert_eq!((of.as_str(), by.body.as_str()), ("$q", "b")),
        other => panic!("{other:?}"),
    }
    let redaction = MatrixContent::Redaction { of: "$q".into() };
    assert_eq!(decoded(event("m.room.redaction", json!({"redacts": "$q"}))), Some(redaction.clone()));
    // Before room version 11.
    let mut old = event("m.room.redaction", json!({}));
    old["redacts"] = "$q".into();
    assert_eq!(decoded(old), Some(redaction));
}

#[test]
fn a_malformed_event_does_not_hold_up_the_others() {
    let good = event("m.room.message", json!({"msgtype": "m.text", "body": "hi"}));
    let mut anonymous = good.clone();
    anonymous["sender"] = "nobody".into();
    let bad = [json!(1), json!({"type": "m.room.message"}), event("m.room.message", json!([])), anonymous];
    let body = json!({"events": [bad[0], bad[1], good, bad[2], bad[3]]}).to_string();
    let transaction = decode_transaction(body.as_bytes()).expect("a transaction");
    assert_eq!((transaction.events.len(), transaction.malformed), (1, 4));
    assert_eq!(decode_transaction(b"[]"), None);
}

#[test]
fn media_addresses_lead_nowhere_else() {
    assert_eq!(media_parts("mxc://salon.test/AbC-1_2"), Some(("salon.test", "AbC-1_2")));
    for address in ["mxc://salon.test/../x", "mxc://salon.test/", "mxc:///x", "https://salon.test/x", "mxc://a/b?c"] {
        assert_eq!(media_parts(address), None, "{address}");
    }
}

#[test]
fn the_registration_is_yaml_with_an_exclusive_namespace() {
    let registration = MatrixRegistration {
        id: "salon-lab".into(),
        url: "http://127.0.0.1:9009".into(),
        as_token: "a\"b".into(),
        hs_token: "h".into(),
        sender_localpart: "salon-lab".into(),
        server_name: "salon.test".into(),
        puppet_prefix: "salon-lab_".into(),
    };
    insta::assert_snapshot!(registration.to_yaml(), @r#"
    id: "salon-lab"
    url: "http://127.0.0.1:9009"
    as_token: "a\"b"
    hs_token: "h"
    sender_localpart: "salon-lab"
    rate_limited: false
    namespaces:
      users:
        - exclusive: true
          regex: "@salon\\-lab_.*:salon\\.test"
      aliases: []
      rooms: []
    "#);
}

fn depth(blocks: &[TextBlock]) -> usize {
    fn inline(inlines: &[InlineText]) -> usize {
        let inner = inlines.iter().map(|part| match part {
            InlineText::Strong(inner) | InlineText::Emphasis(inner) | InlineText::Strike(inner) => 1 + inline(inner),
            _ => 0,
        });
        inner.max().unwrap_or(0)
    }
    let inner = blocks.iter().map(|block| match block {
        TextBlock::Paragraph(inlines) | TextBlock::Heading(inlines) => inline(inlines),
        TextBlock::Code { .. } => 0,
        TextBlock::Quote(inner) => 1 + depth(inner),
        TextBlock::List { items, .. } => 2 + items.iter().map(|item| depth(item)).max().unwrap_or(0),
    });
    inner.max().unwrap_or(0)
}

/// Pieces that make HTML likely, in any order.
fn html_soup() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        proptest::sample::select(vec![
            "<b>",
            "</b>",
            "<i>",
            "</i>",
            "<p>",
            "</p>",
            "<blockquote>",
            "</blockquote>",
            "<ul>",
            "</ul>",
            "<ol>",
            "<li>",
            "</li>",
            "<pre>",
            "</pre>",
            "<code>",
            "</code>",
            "<a href=\"https://x\">",
            "</a>",
            "<a href='",
            "<br>",
            "<h1>",
            "</h1>",
            "<mx-reply>",
            "</mx-reply>",
            "<!--",
            "-->",
            "&amp;",
            "&#x",
            "&#55296;",
            "<",
            ">",
            "\"",
            "<img alt=y>",
            " ",
            "\n",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,4}",
    ];
    proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

#[test]
fn lists_without_items_are_as_deep_as_with_them() {
    assert!(depth(&parsed("<ul><blockquote><ul><ul><ul>deep").blocks) <= MAX_DEPTH);
    assert_eq!(depth(&parsed(&"<ul>".repeat(MAX_DEPTH)).blocks), 0, "nothing is in it");
    assert_eq!(depth(&parsed(&("<ul><li>".repeat(MAX_DEPTH) + "deep")).blocks), MAX_DEPTH);
}

proptest! {
    #[test]
    fn any_html_is_parsed_within_the_depth(html in html_soup()) {
        prop_assert!(depth(&parsed(&html).blocks) <= MAX_DEPTH);
    }

    #[test]
    fn any_bytes_are_a_transaction_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_transaction(&bytes);
    }

    #[test]
    fn any_participant_survives_the_way_to_a_user_id_and_back(name in "[!-~]{1,60}") {
        if let Ok(participant) = name.parse::<salon_protocol::ParticipantId>() {
            let user = ids().user_id(&participant).expect("short enough");
            prop_assert!(user.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"@:._=-".contains(&b)));
            prop_assert_eq!(ids().participant(&user), Some(participant));
        }
    }
}

#[test]
fn only_a_message_that_is_late_has_a_time_of_its_own() {
    let now = Timestamp(100 * 24 * 60 * 60 * 1000);
    let before = |seconds: u64| Some(Timestamp(now.0 - seconds * 1000));
    assert_eq!(late(before(29), now), None, "in time");
    assert_eq!(late(before(30), now), before(30));
    assert_eq!(late(before(40 * 24 * 60 * 60), now), None, "too long ago to be believed");
    assert_eq!(late(Some(Timestamp(now.0 + 60_000)), now), None, "of the future");
    assert_eq!(late(None, now), None);
}

/// A message of another bridge in the room is told by the member that every bridge writes.
#[test]
fn messages_of_bridges_are_marked() {
    let is_of_bridge = |content: serde_json::Value| {
        let event = json!({"type": "m.room.message", "event_id": "$1", "room_id": "!r:x", "sender": "@a:x", "content": content});
        let transaction =
            decode_transaction(json!({ "events": [event] }).to_string().as_bytes()).expect("a transaction");
        match &transaction.events[0].content {
            MatrixContent::Message(message) => message.is_of_bridge,
            MatrixContent::Replacement { by, .. } => by.is_of_bridge,
            other => panic!("{other:?}"),
        }
    };
    let replaced = json!({"rel_type": "m.replace", "event_id": "$0"});
    let new = json!({"msgtype": "m.text", "body": "b"});
    assert!(!is_of_bridge(json!({"msgtype": "m.text", "body": "a"})));
    assert!(is_of_bridge(json!({"msgtype": "m.text", "body": "a", "chat.salon.key": "k"})));
    assert!(is_of_bridge(
        json!({"msgtype": "m.text", "body": "a", "chat.salon.key": {}, "m.new_content": new, "m.relates_to": replaced})
    ));
}
