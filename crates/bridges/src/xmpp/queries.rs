//! Questions of other entities to the component: what it is (XEP-0030), whether it is there (XEP-0199).

use super::element::XmlElement;
use super::session::STANZA_ERRORS;

const DISCO_INFO: &str = "http://jabber.org/protocol/disco#info";

/// The answer to a question; none where the stanza is an answer itself.
pub(super) fn answer(stanza: &XmlElement) -> Option<XmlElement> {
    let kind = stanza.attribute("type").unwrap_or_default();
    if !matches!(kind, "get" | "set") {
        return None;
    }
    let (from, to, id) = (stanza.attribute("from"), stanza.attribute("to"), stanza.attribute("id"));
    let answer = |kind: &str| {
        XmlElement::new("iq")
            .with("type", kind)
            .with("from", to.unwrap_or_default())
            .with("to", from.unwrap_or_default())
            .with("id", id.unwrap_or_default())
    };
    Some(if kind == "get" && stanza.find_in("query", DISCO_INFO).is_some() {
        let identity =
            XmlElement::new("identity").with("category", "gateway").with("type", "salon").with("name", "Salon bridge");
        let feature = |name: &str| XmlElement::new("feature").with("var", name);
        answer("result").child(
            XmlElement::of("query", DISCO_INFO)
                .child(identity)
                .child(feature(DISCO_INFO))
                .child(feature("urn:xmpp:ping")),
        )
    } else if kind == "get" && stanza.find_in("ping", "urn:xmpp:ping").is_some() {
        answer("result")
    } else {
        let condition = XmlElement::of("service-unavailable", STANZA_ERRORS);
        answer("error").child(XmlElement::new("error").with("type", "cancel").child(condition))
    })
}
