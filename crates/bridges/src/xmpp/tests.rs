use insta::assert_snapshot;
use salon_protocol::{ParticipantId, Timestamp};

use super::element::{StreamItem, StreamReader, XmlElement};
use super::session::{XmppLogin, XmppOutput, XmppSession};
use crate::config::PlatformSecret;
use crate::platform::{ActionKey, PlatformAction, PlatformChannel, PlatformMessageId, RenderedText, Speaker};

/// The stanzas of a stream.
fn stanzas(stream: &str) -> Result<Vec<StreamItem>, String> {
    let mut reader = StreamReader::new(stream.as_bytes());
    let mut items = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        loop {
            match reader.next().await {
                Ok(item) => items.push(item),
                Err(error) if error == "the connection has ended" => return Ok(items),
                Err(error) => return Err(error),
            }
        }
    })
}

fn channel() -> PlatformChannel {
    PlatformChannel::new("lab@muc.x")
}

struct Conversation {
    session: XmppSession,
    transcript: String,
}

impl Conversation {
    fn new() -> Self {
        let login = XmppLogin {
            domain: "salon.x".into(),
            secret: PlatformSecret::new("secret"),
            nick: "salon".into(),
            channels: vec![channel()],
        };
        let mut conversation = Self { session: XmppSession::new(login), transcript: String::new() };
        let opened = conversation.session.opened(&XmlElement::new("stream:stream").with("id", "s1"));
        conversation.show(opened);
        conversation
    }

    fn server(mut self, xml: &str) -> Self {
        for item in stanzas(xml).expect("XML") {
            let StreamItem::Stanza(stanza) = item else { continue };
            self.transcript.push_str(&format!("← {}\n", stanza.written()));
            let outputs = self.session.stanza(&stanza, Timestamp(0));
            self.show(outputs);
        }
        self
    }

    fn act(mut self, action: PlatformAction) -> Self {
        let outputs = self.session.act(&channel(), action);
        self.transcript.push_str("! an action\n");
        self.show(outputs);
        self
    }

    fn show(&mut self, outputs: Vec<XmppOutput>) {
        for output in outputs {
            let shown = match output {
                XmppOutput::Send(text) => format!("  → {text}"),
                other => format!("  {other:?}"),
            };
            self.transcript.push_str(&shown);
            self.transcript.push('\n');
        }
    }
}

fn bob() -> Option<Speaker> {
    Some(Speaker { id: ParticipantId::new("agent:Bob").expect("a name"), name: "Bob".into(), kind: None })
}

fn text(text: &str) -> RenderedText {
    RenderedText { formatted: text.into(), plain: text.into(), mentions: vec![] }
}

const KEY: &str = "0123456789abcdef01234567";
/// The id of the message with that key.
const ID: &str = "salon-0123456789abcdef01234567-e6afd994dfc773b1";
const SELF: &str = "<x xmlns='http://jabber.org/protocol/muc#user'><status code='110'/></x>";

#[test]
fn a_chat_is_unlocked_heard_and_written_to() {
    let conversation = Conversation::new()
        .server("<handshake/>")
        .server("<presence from='lab@muc.x/ann' to='salon@salon.x/salon'><x xmlns='http://jabber.org/protocol/muc#user'><item jid='ann@x/phone' role='participant'/></x></presence>")
        .server("<presence from='lab@muc.x/salon' to='salon@salon.x/salon'><x xmlns='http://jabber.org/protocol/muc#user'><status code='110'/><status code='201'/></x></presence>")
        .server(&format!("<message type='groupchat' from='lab@muc.x/Bob' to='salon@salon.x/salon' id='{ID}'><body>of an earlier run</body><delay xmlns='urn:xmpp:delay' stamp='2026-01-01T00:00:00Z'/><stanza-id xmlns='urn:xmpp:sid:0' id='m1' by='lab@muc.x'/></message>"))
        .server("<message type='groupchat' from='lab@muc.x' to='salon@salon.x/salon'><subject/></message>")
        .server("<message type='groupchat' from='lab@muc.x/ann' to='salon@salon.x/salon' id='a1'><body>1 &lt; 2 &amp; &#x1F600;</body><stanza-id xmlns='urn:xmpp:sid:0' id='m2' by='lab@muc.x'/></message>")
        .server("<message type='groupchat' from='lab@muc.x/ann' to='salon@salon.x/salon' id='a2'><body>1 &lt; 3</body><replace xmlns='urn:xmpp:message-correct:0' id='a1'/><stanza-id xmlns='urn:xmpp:sid:0' id='m3' by='lab@muc.x'/></message>")
        .server("<message type='groupchat' from='lab@muc.x/ann' to='salon@salon.x/salon' id='a3'><retract xmlns='urn:xmpp:message-retract:1' id='m2'/><body>fallback</body><stanza-id xmlns='urn:xmpp:sid:0' id='m4' by='lab@muc.x'/></message>");
    assert_snapshot!(conversation.transcript);
}

/// Formatting by XEP-0393; `unstyled` switches it off; what a reply repeats (XEP-0428) and commands are not formatted.
#[test]
fn formatting_goes_both_ways() {
    let said = |id: &str, inside: &str| {
        format!("<message type='groupchat' from='lab@muc.x/ann' to='salon@salon.x/salon' id='{id}'>{inside}</message>")
    };
    let send = |key: &str, formatted: &str, plain: &str| PlatformAction::Send {
        key: ActionKey::new(key),
        speaker: None,
        text: RenderedText { formatted: formatted.into(), plain: plain.into(), mentions: vec![] },
        reply_to: None,
        sent_at: None,
    };
    let conversation = Conversation::new()
        .server("<handshake/>")
        .server(&format!("<presence from='lab@muc.x/salon' to='salon@salon.x/salon'>{SELF}</presence>"))
        .server(&said("a1", "<body>*strong* and `code`</body>"))
        .server(&said("a2", "<body>*as it is*</body><unstyled xmlns='urn:xmpp:styling:0'/>"))
        .server(&said("a3", "<body>!call robot say *this*</body>"))
        .server(&said("a4", "<body>&gt; ä said\nyes</body><reply xmlns='urn:xmpp:reply:0' id='a1' to='lab@muc.x/ann'/><fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'><body start='0' end='9'/></fallback>"))
        .act(send(KEY, "*strong*", "strong"))
        .act(send(KEY, "*not strong*", "*not strong*"));
    assert_snapshot!(conversation.transcript);
}

#[test]
fn a_puppet_enters_and_speaks() {
    let key = || ActionKey::new(KEY);
    let conversation = Conversation::new()
        .server("<handshake/>")
        .server(&format!("<presence from='lab@muc.x/salon' to='salon@salon.x/salon'>{SELF}</presence>"))
        .act(PlatformAction::Send { key: key(), speaker: bob(), text: text("a <b> & 'c'"), reply_to: Some(PlatformMessageId::new("m1")), sent_at: None })
        .server("<presence type='error' from='lab@muc.x/Bob' to='agent..ob.1df3a2f711@salon.x/salon'><error type='cancel'><conflict xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>")
        .server(&format!("<presence from='lab@muc.x/Bob_' to='agent..ob.1df3a2f711@salon.x/salon'>{SELF}</presence>"))
        .server(&format!("<message type='groupchat' from='lab@muc.x/Bob_' to='agent..ob.1df3a2f711@salon.x/salon' id='{ID}'><body>a copy</body></message>"))
        .server(&format!("<message type='groupchat' from='lab@muc.x/Bob_' to='salon@salon.x/salon' id='{ID}'><body>x</body><stanza-id xmlns='urn:xmpp:sid:0' id='m9' by='lab@muc.x'/></message>"))
        .act(PlatformAction::Edit { key: ActionKey::new(KEY.replace('0', "f")), speaker: bob(), target: PlatformMessageId::new("m9"), text: text("b") });
    assert_snapshot!(conversation.transcript);
}

#[test]
fn questions_to_the_component_are_answered() {
    let conversation = Conversation::new()
        .server("<iq type='get' from='a@x/1' to='salon.x' id='1'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>")
        .server("<iq type='get' from='a@x/1' to='salon.x' id='2'><ping xmlns='urn:xmpp:ping'/></iq>")
        .server("<iq type='set' from='a@x/1' to='salon.x' id='3'><query xmlns='jabber:iq:register'/></iq>")
        .server("<iq type='result' from='a@x/1' to='salon.x' id='4'/>")
        .server("<stream:error><not-authorized xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>");
    assert_snapshot!(conversation.transcript);
}

#[test]
fn what_is_not_allowed_ends_the_stream() {
    assert!(stanzas("<!DOCTYPE x [<!ENTITY a 'b'>]><message/>").is_err());
    assert!(stanzas("<message>&a;</message>").is_err());
    assert!(stanzas(&"<a>".repeat(100)).is_err());
    assert!(stanzas("<message><body>x</message>").is_err());
}

fn said(from: &str, id: &str, inside: &str) -> String {
    format!("<message type='groupchat' from='lab@muc.x{from}' to='salon@salon.x/salon' id='{id}'>{inside}</message>")
}

fn entered() -> Conversation {
    Conversation::new()
        .server("<handshake/>")
        .server(&format!("<presence from='lab@muc.x/salon' to='salon@salon.x/salon'>{SELF}</presence>"))
}

/// What a message was reported as: the last line of the transcript.
fn reported(conversation: Conversation) -> String {
    conversation.transcript.lines().last().unwrap_or_default().trim().to_owned()
}

/// An id proves that the bridge sent a message only where nobody else can make it.
#[test]
fn only_ids_that_the_bridge_made_are_its_own() {
    let heard = |id: &str| reported(entered().server(&said("/ann", id, "<body>hi</body>")));
    assert!(heard(ID).contains("Echo"), "{}", heard(ID));
    assert!(heard(KEY).contains("Message(") && heard(KEY).contains("origin: Person"), "{}", heard(KEY));
    let of_another = ID.replace("salon-0", "salon-1");
    assert!(heard(&of_another).contains("origin: Bot"), "{}", heard(&of_another));
    // A person cannot end an action that waits for its reflection.
    let send = PlatformAction::Send {
        key: ActionKey::new(KEY),
        speaker: None,
        text: text("hello"),
        reply_to: None,
        sent_at: None,
    };
    let forged = said("/eve", KEY, "<body>x</body>");
    assert!(!entered().act(send).server(&forged).transcript.contains("Outcome"));
}

/// Only the chat gives ids that count, and only the chat itself says that a moderator deleted something.
#[test]
fn people_cannot_give_ids_or_moderate() {
    let stanza_id = |by: &str| format!("<stanza-id xmlns='urn:xmpp:sid:0' id='m1' by='{by}'/>");
    let heard = |inside: &str| reported(entered().server(&said("/ann", "a1", &format!("<body>hi</body>{inside}"))));
    assert!(heard(&stanza_id("lab@muc.x")).contains(r#"id: Some(PlatformMessageId("m1"))"#));
    assert!(heard(&stanza_id("eve.x")).contains(r#"id: Some(PlatformMessageId("a1"))"#));
    let retract = "<retract xmlns='urn:xmpp:message-retract:1' id='m1'/>";
    assert!(reported(entered().server(&said("/ann", "a2", retract))).contains("is_moderated: false"));
    assert!(reported(entered().server(&said("", "a2", retract))).contains("is_moderated: true"));
    // What the chat itself writes was written by nobody.
    assert!(reported(entered().server(&said("", "a3", "<body>welcome</body>"))).starts_with('←'));
    // Two people can give the same id: each corrects their own message.
    let numbered = |nick: &str, id: &str| {
        said(nick, "1", &format!("<body>x</body><stanza-id xmlns='urn:xmpp:sid:0' id='{id}' by='lab@muc.x'/>"))
    };
    let correction = said("/ann", "2", "<body>y</body><replace xmlns='urn:xmpp:message-correct:0' id='1'/>");
    let corrected = entered().server(&numbered("/ann", "m1")).server(&numbered("/eve", "m2")).server(&correction);
    assert!(reported(corrected).contains(r#"Edit { target: PlatformMessageId("m1")"#));
}

/// One character that XML cannot have would end the stream, and again after each reconnect.
#[test]
fn what_is_written_is_always_xml() {
    let element = XmlElement::new("body").with("id", "a\u{1}\u{ffff}").text("b\u{fffe}\u{0}\u{1b}[1m\u{85}\tc");
    assert_eq!(element.written(), "<body id='a'>b[1m\u{85}\tc</body>");
}
