//! Pieces of content.

use salon_protocol::Members;
use serde::de::Deserializer;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Resource;
use super::fields::{required, value};

/// One piece of content, for a model or a person to take in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(Text),
    /// A picture.
    Image(Media),
    /// A sound.
    Audio(Media),
    /// A resource, with what is in it.
    Resource(Embedded),
    /// A resource, by its URI.
    ResourceLink(Resource),
    /// Something this library does not know, as it was written.
    Other(Box<RawValue>),
}

impl Content {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text { text: text.into(), annotations: None, rest: Members::default() })
    }

    /// Its text, when it is one, or that of a resource that comes with it.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(&text.text),
            Self::Resource(embedded) => embedded.resource.text.as_deref(),
            Self::Image(_) | Self::Audio(_) | Self::ResourceLink(_) | Self::Other(_) => None,
        }
    }

    fn parse_known(raw: &RawValue) -> Result<Self, String> {
        let mut members: Members = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
        Ok(match required::<String>(&mut members, "type")?.as_str() {
            "text" => Self::Text(Text::from_members(members)?),
            "image" => Self::Image(Media::from_members(members)?),
            "audio" => Self::Audio(Media::from_members(members)?),
            "resource" => Self::Resource(Embedded::from_members(members)?),
            "resource_link" => Self::ResourceLink(Resource::from_members(members)?),
            other => return Err(format!("`{other}` is not known here")),
        })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        // Whatever the reason it is not known, it can still be passed on.
        Ok(Self::parse_known(&raw).unwrap_or(Self::Other(raw)))
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = match self {
            Self::Other(raw) => return raw.serialize(serializer),
            Self::Text(_) => "text",
            Self::Image(_) => "image",
            Self::Audio(_) => "audio",
            Self::Resource(_) => "resource",
            Self::ResourceLink(_) => "resource_link",
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", kind)?;
        match self {
            Self::Text(text) => text.write_members(&mut map)?,
            Self::Image(media) | Self::Audio(media) => media.write_members(&mut map)?,
            Self::Resource(embedded) => embedded.write_members(&mut map)?,
            Self::ResourceLink(resource) => resource.write_members(&mut map)?,
            Self::Other(_) => {}
        }
        map.end()
    }
}

value! {
    /// A text.
    Text {
        /// The text.
        text: String = required "text",
        /// Hints for whom it is and how much it matters.
        annotations: Option<Box<RawValue>> = optional "annotations",
    }
}

value! {
    /// A picture or a sound.
    Media {
        /// Its bytes, in base64.
        data: String = required "data",
        /// Its media type.
        mime_type: String = always "mimeType",
        /// Hints for whom it is and how much it matters.
        annotations: Option<Box<RawValue>> = optional "annotations",
    }
}

value! {
    /// A resource with what is in it.
    Embedded {
        /// The resource.
        resource: ResourceContents = required "resource",
        /// Hints for whom it is and how much it matters.
        annotations: Option<Box<RawValue>> = optional "annotations",
    }
}

value! {
    /// What is in a resource: text, or bytes in base64.
    ResourceContents {
        /// Where it is, for its server.
        uri: String = required "uri",
        /// Its media type.
        mime_type: Option<String> = optional "mimeType",
        /// Its text, when it is text.
        text: Option<String> = optional "text",
        /// Its bytes in base64, when it is not.
        blob: Option<String> = optional "blob",
    }
}

impl Media {
    /// Bytes in base64, and their media type.
    pub fn new(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self { data: data.into(), mime_type: mime_type.into(), annotations: None, rest: Members::default() }
    }
}

impl ResourceContents {
    /// Text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::empty(uri.into()) }
    }

    /// Bytes in base64.
    pub fn blob(uri: impl Into<String>, blob: impl Into<String>) -> Self {
        Self { blob: Some(blob.into()), ..Self::empty(uri.into()) }
    }

    fn empty(uri: String) -> Self {
        Self { uri, mime_type: None, text: None, blob: None, rest: Members::default() }
    }
}

impl From<ResourceContents> for Embedded {
    fn from(resource: ResourceContents) -> Self {
        Self { resource, annotations: None, rest: Members::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_written_as_it_was_read() {
        let texts = [
            r#"{"type":"text","text":"a","annotations":{"priority":0.50},"_meta":{"n":18446744073709551616}}"#,
            r#"{"type":"image","data":"AA==","mimeType":"image/png"}"#,
            r#"{"type":"audio","data":"AA==","mimeType":"audio/wav"}"#,
            r#"{"type":"resource","resource":{"uri":"a:b","mimeType":"text/plain","text":"c"}}"#,
            r#"{"type":"resource_link","uri":"a:b","name":"c","size":3}"#,
            r#"{"type":"tool_use","id":"1","name":"n","input":{}}"#,
            r#"{"text":"no type"}"#,
            r#"{"type":"text"}"#,
            r#"[{"type":"text","text":"several"}]"#,
        ];
        for text in texts {
            let content: Content = serde_json::from_str(text).expect("anything is content");
            assert_eq!(serde_json::to_string(&content).expect("it was JSON"), text);
        }
    }

    #[test]
    fn what_is_known_is_not_other() {
        let read = |text| serde_json::from_str::<Content>(text).expect("anything is content");
        assert!(matches!(read(r#"{"type":"text","text":"a"}"#), Content::Text(Text { text, .. }) if text == "a"));
        assert!(matches!(read(r#"{"type":"resource_link","uri":"a:b","name":"c"}"#), Content::ResourceLink(_)));
        assert!(matches!(read(r#"{"type":"image"}"#), Content::Other(_)));
        let embedded = read(r#"{"type":"resource","resource":{"uri":"a:b","text":"c"}}"#);
        assert_eq!(embedded.as_text(), Some("c"));
    }
}
