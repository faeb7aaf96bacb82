//! What a tool gave back, printed.

use std::path::Path;

use salon_client::mcp::{Content, ToolResult};
use serde_json::value::RawValue;

use crate::commands::output::WrittenFiles;
use crate::trouble::Trouble;
use crate::{hand_over, json, note, safe};

/// How to print it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Its texts, safe to show.
    Text,
    /// Its texts as they are.
    Raw,
    /// The result as it was written, on one line.
    Json,
}

/// Writes the binary content of a result into files, and says where it is.
pub(super) fn write(result: &RawValue, file: &Path) -> Result<WrittenFiles, Trouble> {
    let read: Option<ToolResult> = serde_json::from_str(result.get()).ok();
    let mut files = WrittenFiles::new(file);
    for content in read.iter().flat_map(|read| &read.content) {
        match content {
            Content::Image(media) | Content::Audio(media) => files.write(&media.data, &media.mime_type)?,
            Content::Resource(embedded) => {
                if let Some(blob) = &embedded.resource.blob {
                    files.write(blob, embedded.resource.mime_type.as_deref().unwrap_or_default())?;
                }
            }
            _ => {}
        }
    }
    if files.is_empty() {
        note(format_args!("the answer has no binary content, so nothing was written to `{}`", file.display()));
    }
    Ok(files)
}

/// Prints a result. A tool that failed makes the exit status 1. What was written to files is not named again.
pub(super) fn print(result: &RawValue, format: Format, written: Option<&WrittenFiles>) -> Result<(), Trouble> {
    // A result of another shape has neither content nor an error, and is shown whole.
    let read: Option<ToolResult> = serde_json::from_str(result.get()).ok();
    let is_in_files = written.is_some_and(|written| !written.is_empty());
    let text = match &read {
        Some(read) if is_in_files => {
            read.content.iter().filter(|one| !is_binary(one)).map(part).collect::<Vec<_>>().join("\n")
        }
        Some(read) if format != Format::Json => text(read, result),
        _ => json::compact(result.get()),
    };
    match format {
        _ if is_in_files && text.is_empty() => {}
        Format::Raw | Format::Json => hand_over(format_args!("{text}"))?,
        Format::Text => hand_over(format_args!("{}", safe::block(&text)))?,
    }
    if read.is_some_and(|read| read.is_error) { Err(Trouble::Reported(1)) } else { Ok(()) }
}

fn is_binary(content: &Content) -> bool {
    match content {
        Content::Image(_) | Content::Audio(_) => true,
        Content::Resource(embedded) => embedded.resource.blob.is_some(),
        _ => false,
    }
}

fn text(read: &ToolResult, whole: &RawValue) -> String {
    let parts: Vec<_> = read.content.iter().map(part).collect();
    match (&read.structured, &parts[..]) {
        (Some(structured), []) => json::pretty(structured.get()),
        (None, []) => json::compact(whole.get()),
        _ => parts.join("\n"),
    }
}

fn part(content: &Content) -> String {
    match content {
        Content::Text(text) => text.text.clone(),
        Content::Image(media) => format!("[image, {}, {}]", media.mime_type, size(&media.data)),
        Content::Audio(media) => format!("[audio, {}, {}]", media.mime_type, size(&media.data)),
        Content::Resource(embedded) => match &embedded.resource.text {
            Some(text) => text.clone(),
            None => format!("[resource {}]", embedded.resource.uri),
        },
        Content::ResourceLink(link) => format!("[resource {}]", link.uri),
        Content::Other(raw) => json::compact(raw.get()),
        known_later => json::compact(&serde_json::to_string(known_later).expect("content has only string keys")),
    }
}

/// How much base64 holds.
fn size(base64: &str) -> String {
    let bytes = base64.trim_end_matches('=').len() * 3 / 4;
    if bytes < 1024 { format!("{bytes} B") } else { format!("{} KiB", bytes / 1024) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(result: &str) -> String {
        let whole: Box<RawValue> = serde_json::from_str(result).expect("JSON");
        text(&serde_json::from_str(result).expect("a result"), &whole)
    }

    #[test]
    fn what_is_no_text_is_named() {
        insta::assert_snapshot!(shown(r#"{"content":[
            {"type":"text","text":"two\nlines"},
            {"type":"image","data":"AAAA","mimeType":"image/png"},
            {"type":"resource_link","uri":"file:///a","name":"a"},
            {"type":"resource","resource":{"uri":"file:///b","text":"b's text"}},
            {"type":"hologram","z":12345678901234567890}
        ]}"#), @r#"
        two
        lines
        [image, image/png, 3 B]
        [resource file:///a]
        b's text
        {"type":"hologram","z":12345678901234567890}
        "#);
        assert_eq!(
            shown(r#"{"content":[],"structuredContent":{"n":9007199254740993}}"#),
            "{\n  \"n\": 9007199254740993\n}"
        );
        assert_eq!(shown(r#"{"content":[],"_meta":{}}"#), r#"{"content":[],"_meta":{}}"#);
    }
}
