//! The smallest picture and the smallest sound, in Base64, and the tools that answer with nothing but content.

use serde_json::{Value, json};

/// A PNG of one red pixel.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

/// A WAV with no samples.
pub(crate) const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

/// What the tool `name` answers with, if it is one of those.
pub(crate) fn of(name: &str) -> Option<Value> {
    Some(match name {
        "test_simple_text" => json!([{ "type": "text", "text": "This is a simple text response for testing." }]),
        "test_image_content" => json!([{ "type": "image", "data": PNG, "mimeType": "image/png" }]),
        "test_audio_content" => json!([{ "type": "audio", "data": WAV, "mimeType": "audio/wav" }]),
        "test_embedded_resource" => json!([{ "type": "resource", "resource": {
            "uri": "test://embedded-resource",
            "mimeType": "text/plain",
            "text": "This is an embedded resource content.",
        } }]),
        "test_multiple_content_types" => json!([
            { "type": "text", "text": "Multiple content types test:" },
            { "type": "image", "data": PNG, "mimeType": "image/png" },
            { "type": "resource", "resource": {
                "uri": "test://mixed-content-resource",
                "mimeType": "application/json",
                "text": r#"{"test":"data","value":123}"#,
            } },
        ]),
        _ => return None,
    })
}
