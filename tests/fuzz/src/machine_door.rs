//! What the door of the Machine Context Protocol hears: any messages, over a WebSocket or HTTP, between any events of the room; and
//! the canonical form of any text.

use std::sync::Arc;
use std::time::Duration;

use salon_dialects::machine::{Machine, MachineOpening, MachineOptions, Terms, UnverifiedMessage, signed_form};
use salon_dialects::{CatalogueAnswer, CatalogueQuery};
use salon_protocol::{CanonicalJson, Code, Draft, Refusal};
use serde_json::value::RawValue;

use crate::door::{LIMITS, Room, Rules, id, is_json, offered, pieces, topic};

const REGISTER: &str = r#"{"header":{"version":"1.0","messageId":"t1","timestamp":"2025-03-21T10:00:00Z","messageType":"request","destination":"system:gateway"},"payload":{"tool":{"id":"registry","capability":"register","parameters":{"id":"a","capabilities":[{"name":"b","parameters":{"type":"object","properties":{"x":{"type":"integer"}}}}],"security":{"permissions":["p"]}}}}}"#;

pub(crate) fn run(bytes: &[u8]) -> bool {
    let Some((how, bytes)) = bytes.split_first() else { return true };
    let duplex = how & 1 == 0;
    let terms = (how & 4 != 0).then(|| terms(how & 8 != 0));
    let options = MachineOptions {
        me: id("alice"),
        topic: topic(),
        limits: LIMITS,
        terms: terms.clone().filter(|_| duplex),
        idle: (!duplex).then_some(Duration::from_secs(60)),
        version: "0",
    };
    let mut room = Room::open(duplex, Sealed { terms }, |stamps, now| Machine::new(options, stamps, now));
    if how & 2 != 0 {
        room.hears(0, REGISTER);
    }
    room.live(pieces(bytes).inspect(|(_, text)| forms(text)));
    true
}

/// A canonical form is JSON, and its own form unless it has digits that only a double's text has.
fn forms(text: &str) {
    let message = UnverifiedMessage::parse(text, &LIMITS);
    let _ = (message.id(), message.token(), signed_form(text));
    if let Ok(form) = CanonicalJson::parse(text).map(|json| json.to_string()) {
        is_json(&form);
        if let Ok(again) = CanonicalJson::parse(&form) {
            assert_eq!(again.to_string(), form);
        }
    }
}

/// Seals are taken or not by their length alone, so that both can be met with.
fn terms(sealed: bool) -> Terms {
    let no = || Err(Refusal::new(Code::Forbidden, "no"));
    Terms {
        granted: ["p".to_owned()].into(),
        sealed,
        verify: Arc::new(move |seal, signed| {
            assert!(serde_json::from_str::<&RawValue>(&signed()?).is_ok(), "what is signed is JSON");
            if seal.value.len() % 2 == 1 { Ok(()) } else { no() }
        }),
        vouch: Arc::new(move |token| if token == "t" { Ok(()) } else { no() }),
    }
}

struct Sealed {
    terms: Option<Terms>,
}

impl Rules for Sealed {
    type Dialect = Machine;

    const ANSWER: &str = "{}";
    const STEP: Duration = Duration::from_millis(500);

    fn opening(&self, _: u8, text: &str) -> MachineOpening {
        let message = UnverifiedMessage::parse(text, &LIMITS).verify(&id("alice"), self.terms.as_ref());
        MachineOpening::Post(message.map(Box::new))
    }

    fn listening(&self, after: Option<&str>) -> MachineOpening {
        MachineOpening::Listen(after.map(Into::into))
    }

    fn answer(&self, query: CatalogueQuery) -> Option<CatalogueAnswer> {
        Some(CatalogueAnswer { items: offered(query.listing), query })
    }

    fn published(&self, draft: &Draft) {
        assert!(draft.envelope().to().len() <= 1, "one, or everybody");
    }

    fn said(&self, text: &str) {
        assert!(text.starts_with(r#"{"header":{"version":"1.0","#), "{text}");
    }
}
