//! What files are to clients: their addresses, their types, ranges of them, and when they are removed.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use axum::http::{HeaderValue, header};
use salon_log::files::{FileError, FileId, NewFile, StoredFile};
use salon_log::{FileStore, ReadError, Span, TopicLog};
use salon_protocol::{Code, Envelope, Position, Refusal, Timestamp, TopicName};
use serde_json::Value;

/// The scheme of a file's URI. Which topic it is in, the room says in which it is read.
const SCHEME: &str = "salon-file://";

/// All files, as one template.
pub(crate) const TEMPLATE: &str = "salon-file://{id}";

/// The longest file that is read as a resource. It is an envelope then, in base64.
pub(crate) const MAX_RESOURCE_BYTES: u64 = 2 << 20;

/// Pictures that browsers show without running anything. Not SVG, which has scripts.
const SHOWN_TYPES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// What a file is that says nothing of itself.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// How often files are looked at that may have to go.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// How long a file is kept without an entry of its topic that is as old: its message may still come.
const UNSENT_GRACE: Duration = Duration::from_secs(60 * 60);

/// The URI of a file.
pub(crate) fn uri(id: &FileId) -> String {
    format!("{SCHEME}{id}")
}

/// The file that a URI names.
pub(crate) fn read_uri(uri: &str) -> Option<FileId> {
    uri.strip_prefix(SCHEME)?.parse().ok()
}

/// The type of an upload by its header, without parameters.
pub(crate) fn media_type(given: Option<&HeaderValue>) -> String {
    let text = given.and_then(|value| value.to_str().ok()).and_then(|text| text.split(';').next()).unwrap_or_default();
    let is_token =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b));
    match text.trim().split_once('/') {
        Some((sort, rest)) if text.len() <= 127 && is_token(sort) && is_token(rest) => text.trim().to_ascii_lowercase(),
        _ => UNKNOWN_TYPE.into(),
    }
}

/// Whether a file of a type is given as text.
pub(crate) fn is_text(mime_type: &str) -> bool {
    mime_type.starts_with("text/") || mime_type == "application/json"
}

/// Base64 with padding (RFC 4648 §4).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let number = group.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for at in 0..4 {
            let digit = (number >> (18 - 6 * at)) & 63;
            text.push(if at > group.len() { '=' } else { char::from(DIGITS[digit as usize]) });
        }
    }
    text
}

/// The headers of a file: shown where it is a picture, downloaded otherwise, and never run.
pub(crate) fn safe_headers(file: &NewFile) -> Vec<(header::HeaderName, String)> {
    let is_shown = SHOWN_TYPES.contains(&file.mime_type.as_str());
    let disposition =
        format!("{}; filename*=UTF-8''{}", if is_shown { "inline" } else { "attachment" }, encoded(file.name.as_str()));
    // A type that a browser would run is not even named.
    let is_active =
        |mime: &str| mime.contains("html") || mime.contains("xml") || mime.contains("script") || mime.contains("svg");
    let mime_type = if is_active(&file.mime_type) { UNKNOWN_TYPE } else { &file.mime_type };
    vec![
        (header::CONTENT_TYPE, mime_type.into()),
        (header::CONTENT_DISPOSITION, disposition),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".into()),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox".into()),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin".into()),
        (header::REFERRER_POLICY, "no-referrer".into()),
        (header::ACCEPT_RANGES, "bytes".into()),
        // A participant that is removed from a topic reads it no more, be it from a cache.
        (header::CACHE_CONTROL, "private, no-cache".into()),
    ]
}

/// A name as a header has it (RFC 8187 §3.2.1).
fn encoded(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// Whether a list of tags has one (RFC 9110 §13.1.2).
pub(crate) fn has_tag(list: &str, tag: &str) -> bool {
    list.trim() == "*" || list.split(',').any(|known| known.trim().trim_start_matches("W/") == tag)
}

/// Which part of a file is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileRange {
    Whole,
    /// From one byte to another, both included.
    Part {
        from: u64,
        to: u64,
    },
    Unsatisfiable,
}

impl FileRange {
    /// One range (RFC 9110 §14.1.2). Several, and what is no range, are the whole file.
    pub(crate) fn read(header: Option<&str>, size: u64) -> Self {
        let Some(range) = header.and_then(|header| header.strip_prefix("bytes=")) else { return Self::Whole };
        let Some((from, to)) = range.trim().split_once('-') else { return Self::Whole };
        match (from.trim().parse::<u64>(), to.trim().parse::<u64>()) {
            (Ok(from), Ok(to)) if from <= to && from < size => Self::Part { from, to: to.min(size - 1) },
            (Ok(from), Err(_)) if to.trim().is_empty() && from < size => Self::Part { from, to: size - 1 },
            (Err(_), Ok(last)) if from.trim().is_empty() && last > 0 && size > 0 => {
                Self::Part { from: size.saturating_sub(last), to: size - 1 }
            }
            (Ok(from), Ok(to)) if from > to => Self::Whole,
            (Ok(_), Ok(_)) => Self::Unsatisfiable,
            (Ok(_), Err(_)) if to.trim().is_empty() => Self::Unsatisfiable,
            (Err(_), Ok(_)) if from.trim().is_empty() => Self::Unsatisfiable,
            _ => Self::Whole,
        }
    }
}

/// Removes the files whose time is over, for ever.
pub(crate) async fn keep<T>(files: &dyn FileStore, log: &dyn TopicLog) -> T {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        sweep(files, log, crate::clock::now()).await;
    }
}

/// Removes the files that are older than what their topics keep, or whose topics are gone.
async fn sweep(files: &dyn FileStore, log: &dyn TopicLog, now: Timestamp) {
    let Ok(stored) = files.list().await else { return };
    let mut oldest: HashMap<TopicName, Timestamp> = HashMap::new();
    for StoredFile { file, .. } in stored {
        let kept_since = match oldest.get(&file.topic) {
            Some(known) => *known,
            None => {
                // Where that is not known now, nothing is removed.
                let Ok(since) = oldest_entry(log, &file.topic).await else { continue };
                *oldest.entry(file.topic.clone()).or_insert(since.unwrap_or(now))
            }
        };
        if is_over(&file, kept_since) {
            remove(files, &file).await;
        }
    }
}

/// When the oldest entry of a topic arrived; `None` where it has none.
async fn oldest_entry(log: &dyn TopicLog, topic: &TopicName) -> Result<Option<Timestamp>, ReadError> {
    let Some(newest) = log.read(topic, Span::Newest, 1).await?.pop() else { return Ok(None) };
    let oldest = log.read(topic, Span::After(Position::start(newest.position.epoch)), 1).await?;
    Ok(oldest.first().map(|entry| entry.arrived))
}

async fn remove(files: &dyn FileStore, file: &NewFile) {
    if let Err(error) = files.remove(&file.topic, &file.id).await {
        tracing::warn!(topic = %file.topic, %error, "files: file not removed, retrying in a minute");
    }
}

/// What is said where files could not be removed.
pub(crate) fn not_removed(topic: &TopicName, error: &FileError) -> Refusal {
    tracing::warn!(%topic, %error, "files: not removed, request refused");
    Refusal::new(Code::Closing, "the files could not be removed now; try again later")
}

/// The files that an envelope links by their URIs, as a `resource_link` does.
pub(crate) fn linked_files(envelope: &Envelope) -> BTreeSet<FileId> {
    fn collect(value: &Value, found: &mut BTreeSet<FileId>) {
        match value {
            Value::String(text) => found.extend(read_uri(text)),
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            Value::Object(members) => members.values().for_each(|member| collect(member, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = BTreeSet::new();
    // The depth of a payload was bounded when it came.
    if envelope.payload().contains("salon-file:")
        && let Ok(payload) = serde_json::from_str(envelope.payload())
    {
        collect(&payload, &mut found);
    }
    found
}

/// Whether a file goes: it is older than the oldest entry that is left, whichever rule removed those before it. Where no entry is left, `kept_since`
/// is now.
fn is_over(file: &NewFile, kept_since: Timestamp) -> bool {
    Duration::from_millis(kept_since.0.saturating_sub(file.created.0)) > UNSENT_GRACE
}

#[cfg(test)]
mod tests {
    use salon_log::Durability;
    use salon_log::sqlite::{Sqlite, SqliteOptions};
    use salon_protocol::ParticipantId;

    use super::*;

    fn file(name: &str, mime_type: &str) -> NewFile {
        NewFile {
            id: FileId::from_bytes([1; 16]),
            topic: TopicName::new("room:a").expect("a topic"),
            name: name.parse().expect("a name"),
            mime_type: mime_type.into(),
            author: ParticipantId::new("alice").expect("an id"),
            created: Timestamp(0),
        }
    }

    #[test]
    fn nothing_that_runs_is_shown_or_named() {
        let shown = |name: &str, mime: &str| {
            let headers = safe_headers(&file(name, mime));
            let get = |name| headers.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value.as_str());
            assert_eq!(get(header::X_CONTENT_TYPE_OPTIONS), "nosniff");
            assert_eq!(get(header::CONTENT_SECURITY_POLICY), "default-src 'none'; sandbox");
            format!("{} {}", get(header::CONTENT_TYPE), get(header::CONTENT_DISPOSITION))
        };
        assert_eq!(shown("a.png", "image/png"), "image/png inline; filename*=UTF-8''a.png");
        assert_eq!(shown("ü \"x.txt", "text/plain"), "text/plain attachment; filename*=UTF-8''%C3%BC%20%22x.txt");
        for active in ["text/html", "image/svg+xml", "application/xhtml+xml", "text/javascript", "application/xml"] {
            assert_eq!(shown("x", active), "application/octet-stream attachment; filename*=UTF-8''x", "{active}");
        }
    }

    #[test]
    fn base64_is_padded() {
        for (text, encoded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(text.as_bytes()), encoded, "RFC 4648 §10");
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }

    #[test]
    fn a_type_is_a_type() {
        let read = |text: &str| media_type(HeaderValue::from_str(text).ok().as_ref());
        assert_eq!(read("Text/Plain; charset=utf-8"), "text/plain");
        for wrong in ["", "text", "text/", "a b/c", "text/plain\u{e9}", "x/\"y\""] {
            assert_eq!(read(wrong), UNKNOWN_TYPE, "{wrong}");
        }
        assert_eq!(media_type(None), UNKNOWN_TYPE);
    }

    #[test]
    fn ranges() {
        let read = |text: &str, size| FileRange::read(Some(text), size);
        assert_eq!(read("bytes=0-4", 10), FileRange::Part { from: 0, to: 4 });
        assert_eq!(read("bytes=4-", 10), FileRange::Part { from: 4, to: 9 });
        assert_eq!(read("bytes=-3", 10), FileRange::Part { from: 7, to: 9 });
        assert_eq!(read("bytes=-30", 10), FileRange::Part { from: 0, to: 9 });
        assert_eq!(read("bytes=8-99", 10), FileRange::Part { from: 8, to: 9 });
        for none in ["bytes=10-", "bytes=10-12", "bytes=-0"] {
            assert_eq!(read(none, 10), FileRange::Unsatisfiable, "{none}");
        }
        assert_eq!(read("bytes=-1", 0), FileRange::Unsatisfiable);
        for whole in ["bytes=5-4", "bytes=0-1,3-4", "lines=1-2", "bytes=x-y", "bytes=-"] {
            assert_eq!(read(whole, 10), FileRange::Whole, "{whole}");
        }
    }

    #[tokio::test]
    async fn files_go_with_the_entries_of_their_time() {
        let options = SqliteOptions { durability: Durability::Os, ..SqliteOptions::default() };
        let log = Sqlite::temporary(options).expect("a temporary log");
        let now = crate::clock::now();
        let ago = |hours: u64| Timestamp(now.0 - hours * 3_600_000);
        let put = |number: u8, topic: &str, created| NewFile {
            id: FileId::from_bytes([number; 16]),
            topic: TopicName::new(topic).expect("a topic"),
            created,
            ..file("a", "a/b")
        };
        let files =
            [put(1, "room:a", ago(3)), put(2, "room:a", ago(0)), put(3, "room:b", ago(3)), put(4, "room:b", ago(0))];
        for file in files {
            let upload = log.begin(file).await.expect("begun");
            upload.finish(String::new()).await.expect("stored");
        }
        let left = async || {
            let stored = log.list().await.expect("listed");
            stored.iter().map(|stored| stored.file.id.as_str()[..2].to_owned()).collect::<Vec<_>>().join(" ")
        };
        // The oldest entry of this topic is of now: what was there when the first file came is gone. The other has no entries.
        let said = r#"{"protocol":"mcp-x/v0","id":"e1","ts":"2025-08-17T14:00:00Z","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"x"}}"#;
        let said = Envelope::restore(said).expect("an envelope");
        log.append(&TopicName::new("room:a").expect("a topic"), said).await.expect("stored");
        sweep(&log, &log, now).await;
        assert_eq!(left().await, "02 04");
    }

    #[test]
    fn links_are_found_wherever_they_are() {
        let envelope = |payload: &str| {
            let text = format!(
                r#"{{"protocol":"mcp-x/v0","id":"e1","ts":"2025-08-17T14:00:00Z","from":"alice","kind":"mcp","payload":{payload}}}"#
            );
            Envelope::restore(text).expect("an envelope")
        };
        let [one, other] = [1, 2].map(|number| FileId::from_bytes([number; 16]));
        let linked = format!(
            r#"{{"jsonrpc":"2.0","method":"x","params":{{"content":[{{"uri":"salon-file:\/\/{one}"}}],"also":"{}","not":"see {}"}}}}"#,
            uri(&other),
            uri(&FileId::from_bytes([3; 16]))
        );
        assert_eq!(linked_files(&envelope(&linked)), [one, other].into());
        assert_eq!(linked_files(&envelope(r#"{"jsonrpc":"2.0","method":"x"}"#)), [].into());
    }

    #[test]
    fn a_uri_names_a_file() {
        let id = FileId::from_bytes([7; 16]);
        assert_eq!(read_uri(&uri(&id)), Some(id));
        for wrong in ["salon-file://", "salon-file://../x", "file:///etc/passwd", ""] {
            assert_eq!(read_uri(wrong), None, "{wrong}");
        }
    }
}
