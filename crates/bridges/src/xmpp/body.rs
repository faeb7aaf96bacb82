//! The body of a message: its formatting, and what it repeats of another.

use super::element::XmlElement;
use super::styling;
use crate::platform::RenderedText;
use crate::rich::RichText;

const STYLING: &str = "urn:xmpp:styling:0";
pub(super) const REPLY: &str = "urn:xmpp:reply:0";
pub(super) const FALLBACK: &str = "urn:xmpp:fallback:0";

/// Adds a text to a message. One without formatting says so where clients would read marks in it (XEP-0393 §6).
pub(super) fn with_body(message: XmlElement, text: &RenderedText) -> XmlElement {
    let message = message.child(XmlElement::new("body").text(&text.formatted));
    match text.formatted == text.plain && styling::has_directives(&text.formatted) {
        true => message.child(XmlElement::of("unstyled", STYLING)),
        false => message,
    }
}

/// The text of a message: without what it repeats of the message that it replies to, and formatted unless it says that it is not.
pub(super) fn read_body(stanza: &XmlElement, mut body: String, is_reply: bool) -> RichText {
    let is_repetition = |child: &&XmlElement| {
        child.name == "fallback" && child.attribute("xmlns") == Some(FALLBACK) && child.attribute("for") == Some(REPLY)
    };
    if let Some(repeated) = stanza.children.iter().find(is_repetition).filter(|_| is_reply)
        && let Some(range) = repeated.find("body")
    {
        // XEP-0428 §2.2: numbers of characters.
        let offset = |name: &str| range.attribute(name)?.parse::<usize>().ok();
        if let (Some(start), Some(end)) = (offset("start"), offset("end")) {
            let kept = body.chars().enumerate().filter(|(at, _)| !(start..end).contains(at));
            body = kept.map(|(_, c)| c).collect();
        }
    }
    let is_command = body.starts_with('!');
    match is_command || stanza.find_in("unstyled", STYLING).is_some() {
        true => RichText::plain(&body),
        false => styling::parse(&body),
    }
}
