//! Elements of an XML stream. XMPP allows no comments, processing instructions, DTDs or custom entities (RFC 6120 §11.1).

use std::borrow::Cow;
use std::fmt::Write as _;

use quick_xml::Reader;
use quick_xml::escape::{escape, unescape};
use quick_xml::events::{BytesStart, Event};
use tokio::io::AsyncBufRead;

/// How deep a stanza may be nested.
const MAX_DEPTH: usize = 32;
/// How many bytes a stanza may have. Servers limit them to less (Prosody: 512 KiB).
const MAX_STANZA_BYTES: usize = 1 << 20;

/// An element, with its namespace in the attribute `xmlns` where it has one of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct XmlElement {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) children: Vec<XmlElement>,
    pub(super) text: String,
}

impl XmlElement {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    pub(super) fn of(name: &str, namespace: &str) -> Self {
        Self::new(name).with("xmlns", namespace)
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }

    pub(super) fn child(mut self, child: Self) -> Self {
        self.children.push(child);
        self
    }

    pub(super) fn text(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    pub(super) fn find(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// A child by its name and namespace.
    pub(super) fn find_in(&self, name: &str, namespace: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name && child.attribute("xmlns") == Some(namespace))
    }

    pub(super) fn written(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        let _ = write!(text, "<{}", self.name);
        for (name, value) in &self.attributes {
            let _ = write!(text, " {name}='{}'", escape(allowed(value)));
        }
        if self.children.is_empty() && self.text.is_empty() {
            text.push_str("/>");
            return;
        }
        let _ = write!(text, ">{}", escape(allowed(&self.text)));
        self.children.iter().for_each(|child| child.write(text));
        let _ = write!(text, "</{}>", self.name);
    }
}

/// Without characters that XML 1.0 has no way to write (§2.2). A server closes the stream for one, every time that the message is sent again.
fn allowed(text: &str) -> Cow<'_, str> {
    let is_forbidden =
        |c: char| (c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r')) || matches!(c, '\u{fffe}' | '\u{ffff}');
    match text.contains(is_forbidden) {
        true => text.replace(is_forbidden, "").into(),
        false => text.into(),
    }
}

/// What comes on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StreamItem {
    /// The opening tag of the stream.
    Opened(XmlElement),
    Stanza(XmlElement),
}

/// Reads a stream element by element.
pub(super) struct StreamReader<R> {
    reader: Reader<R>,
    buffer: Vec<u8>,
}

impl<R: AsyncBufRead + Unpin> StreamReader<R> {
    pub(super) fn new(source: R) -> Self {
        let mut reader = Reader::from_reader(source);
        reader.config_mut().expand_empty_elements = true;
        Self { reader, buffer: Vec::new() }
    }

    /// The next item; an error when the stream has ended or is not XML.
    pub(super) async fn next(&mut self) -> Result<StreamItem, String> {
        let mut open: Vec<XmlElement> = Vec::new();
        let mut bytes = 0;
        loop {
            self.buffer.clear();
            let event = self.reader.read_event_into_async(&mut self.buffer).await.map_err(|error| error.to_string())?;
            bytes += event.len();
            if bytes > MAX_STANZA_BYTES || open.len() > MAX_DEPTH {
                return Err("a stanza is too large".into());
            }
            match event {
                Event::Start(start) => {
                    let element = read_start(&start)?;
                    if element.name == "stream:stream" {
                        return Ok(StreamItem::Opened(element));
                    }
                    open.push(element);
                }
                Event::Text(text) => {
                    if let Some(element) = open.last_mut() {
                        let decoded = text.decode().map_err(|error| error.to_string())?;
                        element.text.push_str(&decoded);
                    }
                }
                Event::GeneralRef(reference) => {
                    if let Some(element) = open.last_mut() {
                        let name = reference.decode().map_err(|error| error.to_string())?;
                        let resolved = unescape(&format!("&{name};")).map_err(|error| error.to_string())?.into_owned();
                        element.text.push_str(&resolved);
                    }
                }
                Event::CData(data) => {
                    if let Some(element) = open.last_mut() {
                        element.text.push_str(&String::from_utf8_lossy(&data));
                    }
                }
                Event::End(_) => {
                    let Some(element) = open.pop() else { return Err("the server closed the stream".into()) };
                    match open.last_mut() {
                        Some(parent) => parent.children.push(element),
                        None => return Ok(StreamItem::Stanza(element)),
                    }
                }
                Event::Eof => return Err("the connection has ended".into()),
                Event::Decl(_) => {}
                Event::Empty(_) | Event::Comment(_) | Event::PI(_) | Event::DocType(_) => {
                    return Err("the server sends what XMPP does not allow".into());
                }
            }
        }
    }
}

fn read_start(start: &BytesStart<'_>) -> Result<XmlElement, String> {
    let mut element = XmlElement::new(&String::from_utf8_lossy(start.name().as_ref()));
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = attribute.unescape_value().map_err(|error| error.to_string())?;
        element.attributes.push((String::from_utf8_lossy(attribute.key.as_ref()).into_owned(), value.into_owned()));
    }
    Ok(element)
}
