//! What an entry says: the text that is searched.
//!
//! Chat lines, calls of tools and their results are. Not searched: answers to questions for people, which may be private; the calls and
//! answers of the host, which repeat what others said; files and pictures.

use std::fmt;

use salon_protocol::{CHAT_METHOD, Envelope, Message};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::SearchKind;

/// How many bytes of an entry's text are searched, from its beginning.
const MAX_CHAT_BYTES: usize = 64 << 10;
const MAX_CALL_BYTES: usize = 8 << 10;

/// Members whose values are not words: how a text is to be shown, pictures and sounds, addresses.
const SKIPPED: &[&str] =
    &["_meta", "annotations", "blob", "data", "format", "icons", "mimeType", "role", "size", "type", "uri"];

/// The text of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchDocument {
    /// Which sort of entry it is.
    pub kind: SearchKind,
    /// What is searched, one part a line.
    pub text: String,
}

impl SearchDocument {
    /// What an envelope says; `None` where nothing of it is searched.
    pub fn of(envelope: &Envelope) -> Option<Self> {
        if envelope.from().is_host() || matches!(envelope.to(), [to] if to.is_host()) {
            return None;
        }
        let (kind, parts, most) = match envelope.message()? {
            Message::Notification { method } if &**method == CHAT_METHOD => {
                (SearchKind::Chat, chat(envelope.params()?)?, MAX_CHAT_BYTES)
            }
            Message::Request { method, .. } if &**method == "tools/call" => {
                (SearchKind::Call, call(envelope.params()?)?, MAX_CALL_BYTES)
            }
            Message::Response { succeeded, .. } => (SearchKind::Result, answer(envelope, *succeeded)?, MAX_CALL_BYTES),
            _ => return None,
        };
        let mut texts = Texts { text: String::new(), most };
        for part in parts {
            let mut json = serde_json::Deserializer::from_str(part);
            // What cannot be read to its end counts as far as it was read.
            let _ = TextPart(&mut texts).deserialize(&mut json);
        }
        (!texts.text.is_empty()).then_some(Self { kind, text: texts.text })
    }
}

/// The parts of a chat message that are text: what it says, then what is linked or embedded in it.
fn chat(params: &str) -> Option<Vec<&str>> {
    #[derive(Deserialize)]
    struct ChatParams<'a> {
        #[serde(borrow)]
        text: Option<&'a RawValue>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    let ChatParams { text, content } = serde_json::from_str(params).ok()?;
    Some(text.into_iter().chain(content).map(RawValue::get).collect())
}

/// The parts of a call that are text: the tool's name, then the arguments.
fn call(params: &str) -> Option<Vec<&str>> {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        name: &'a RawValue,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    let Call { name, arguments } = serde_json::from_str(params).ok()?;
    Some([name].into_iter().chain(arguments).map(RawValue::get).collect())
}

/// The parts of an answer that are text: of the result of a tool its content, of an error its message.
fn answer(envelope: &Envelope, succeeded: bool) -> Option<Vec<&str>> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        result: Option<&'a RawValue>,
        #[serde(borrow)]
        error: Option<RpcFailure<'a>>,
    }
    #[derive(Deserialize)]
    struct RpcFailure<'a> {
        #[serde(borrow)]
        message: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolResult<'a> {
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        #[serde(borrow)]
        structured_content: Option<&'a RawValue>,
    }
    let answer: Answer<'_> = serde_json::from_str(envelope.payload()).ok()?;
    if !succeeded {
        return Some(vec![answer.error?.message?.get()]);
    }
    let ToolResult { content, structured_content } = serde_json::from_str(answer.result?.get()).ok()?;
    let is_list = |content: &&RawValue| content.get().starts_with('[');
    match (content.filter(is_list), structured_content) {
        (Some(content), _) if content.get().len() > "[]".len() => Some(vec![content.get()]),
        (_, Some(structured)) => Some(vec![structured.get()]),
        _ => None,
    }
}

/// Every string of some JSON, up to a length.
struct Texts {
    text: String,
    most: usize,
}

impl Texts {
    fn is_full(&self) -> bool {
        self.text.len() >= self.most
    }

    fn push(&mut self, text: &str) {
        if text.is_empty() || self.is_full() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let room = self.most.saturating_sub(self.text.len());
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
    }
}

/// Reads one value into the texts.
struct TextPart<'a>(&'a mut Texts);

impl<'de> DeserializeSeed<'de> for TextPart<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        if self.0.is_full() {
            value.deserialize_ignored_any(IgnoredAny).map(|_| ())
        } else {
            value.deserialize_any(self)
        }
    }
}

impl<'de> Visitor<'de> for TextPart<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.push(text);
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.0.push(&number.to_string());
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.0.push(&number.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(TextPart(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(key) = members.next_key::<String>()? {
            if SKIPPED.contains(&key.as_str()) {
                members.next_value::<IgnoredAny>()?;
            } else {
                members.next_value_seed(TextPart(&mut *self.0))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(to: &str, payload: &str) -> String {
        let envelope = format!(
            r#"{{"protocol":"mcp-x/v0","id":"e1","ts":"2025-01-01T00:00:00.000Z","from":"alice","to":{to},"kind":"mcp","payload":{payload}}}"#
        );
        let envelope = Envelope::restore(envelope).expect("an envelope");
        SearchDocument::of(&envelope)
            .map_or("nothing".into(), |document| format!("{}: {}", document.kind, document.text.replace('\n', "|")))
    }

    #[test]
    fn chat_calls_and_results_are_searched() {
        let chat = r#"{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"good morning","format":"plain",
            "content":[{"type":"resource_link","uri":"salon://x","name":"plan.pdf","mimeType":"application/pdf","size":7}]}}"#;
        assert_eq!(text("[]", chat), "chat: good morning|plan.pdf");
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"arm.move","arguments":{"to":{"place":"left shelf","x":4}},"_meta":{"progressToken":"t"}}}"#;
        assert_eq!(text(r#"["bob"]"#, call), "call: arm.move|left shelf|4");
        let result = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"moved"},{"type":"image","data":"AAAA","mimeType":"image/png"}],"structuredContent":{"state":"moved"}}}"#;
        assert_eq!(text(r#"["bob"]"#, result), "result: moved");
        let structured = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"state":"parked"}}}"#;
        assert_eq!(text(r#"["bob"]"#, structured), "result: parked");
        let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such arm"}}"#;
        assert_eq!(text(r#"["bob"]"#, error), "result: no such arm");
    }

    #[test]
    fn what_is_private_or_repeats_others_is_not() {
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"password":"hunter2"}}}"#;
        assert_eq!(text(r#"["bob"]"#, answer), "nothing");
        let wait = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"room.wait","arguments":{}}}"#;
        assert_eq!(text(r#"["system:gateway"]"#, wait), "nothing");
        let list = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"x"}]}}"#;
        assert_eq!(text(r#"["bob"]"#, list), "nothing");
        let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"half"}}"#;
        assert_eq!(text(r#"["bob"]"#, progress), "nothing");
    }

    #[test]
    fn the_text_is_bounded() {
        let long = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/chat/message","params":{{"text":"{}"}}}}"#,
            "é".repeat(MAX_CHAT_BYTES)
        );
        assert_eq!(text("[]", &long).len(), "chat: ".len() + MAX_CHAT_BYTES);
    }
}
