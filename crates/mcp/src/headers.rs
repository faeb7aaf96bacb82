//! The headers a modern request carries over HTTP, which repeat parts of its body for proxies that route by them.

use std::collections::HashMap;

use data_encoding::BASE64;
use salon_protocol::Members;
use serde_json::value::RawValue;

// MCP 2026-07-28, Streamable HTTP, "Standard Request Headers" and "Custom Headers from Tool Parameters" (SEP-2243).

/// How deep annotated properties are looked for: deeper than any schema people write, and no deeper than the stack is safe.
const MAX_LEVELS: usize = 16;

/// Which arguments of which tools travel as headers too, as a server's list of tools says.
#[derive(Debug, Clone, Default)]
pub struct ToolHeaders(HashMap<String, Vec<(String, Vec<String>)>>);

impl ToolHeaders {
    /// Learns from a tool as it stands in a list. A name that cannot be a header's is not taken.
    pub fn learn(&mut self, tool: &RawValue) {
        let Some(tool) = Members::parse(tool.get()) else { return };
        let Some(Ok(name)) = tool.get("name").map(|name| serde_json::from_str::<String>(name.get())) else { return };
        let found = tool.get("inputSchema").map(annotations).unwrap_or_default();
        if !found.is_empty() {
            self.0.insert(name, found);
        }
    }
}

/// How many arguments of a tool may travel as headers: each is looked up in the arguments again.
const MAX_HEADERS: usize = 32;

/// Which arguments travel as headers too, as a tool's input schema says: a header's name without its prefix, and where its value is.
pub fn annotations(schema: &RawValue) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    search(schema, &mut Vec::new(), &mut found);
    found.truncate(MAX_HEADERS);
    found
}

fn search(schema: &RawValue, path: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
    let properties = Members::parse(schema.get()).and_then(|mut schema| schema.remove("properties"));
    let Some(properties) = properties.and_then(|properties| Members::parse(properties.get())) else { return };
    for (key, property) in properties.iter() {
        path.push(key.to_owned());
        let header = Members::parse(property.get()).and_then(|mut property| property.remove("x-mcp-header"));
        let header = header.and_then(|header| serde_json::from_str::<String>(header.get()).ok());
        if let Some(header) = header.filter(|header| is_token(header)) {
            found.push((header, path.clone()));
        }
        if path.len() < MAX_LEVELS {
            search(property, path, found);
        }
        path.pop();
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// The headers of a request, but for the revision's.
pub fn headers(method: &str, params: Option<&RawValue>, tools: &ToolHeaders) -> Vec<(String, String)> {
    let mut headers = vec![("Mcp-Method".to_owned(), encode(method))];
    let params = params.and_then(|params| Members::parse(params.get())).unwrap_or_default();
    let Some(key) = name_key(method) else { return headers };
    let Some(Ok(name)) = params.get(key).map(|name| serde_json::from_str::<String>(name.get())) else { return headers };
    headers.push(("Mcp-Name".to_owned(), encode(&name)));
    if method != "tools/call" {
        return headers;
    }
    if let (Some(wanted), Some(arguments)) = (tools.0.get(&name), params.get("arguments")) {
        let mirrored = wanted.iter().filter_map(|(header, path)| Some((header, plain(&at(arguments, path)?)?)));
        headers.extend(mirrored.map(|(header, value)| (format!("Mcp-Param-{header}"), encode(&value))));
    }
    headers
}

/// The parameter that `Mcp-Name` repeats.
// MCP 2026-07-28, Streamable HTTP, "Standard Request Headers".
pub fn name_key(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" | "tasks/result" => Some("taskId"),
        _ => None,
    }
}

/// The argument at a path of keys, as written.
pub fn at(arguments: &RawValue, path: &[String]) -> Option<Box<RawValue>> {
    path.iter().try_fold(arguments.to_owned(), |value, key| Members::parse(value.get())?.remove(key))
}

/// A string, an integer or a boolean as text; `None` for anything else, null included.
pub fn plain(value: &RawValue) -> Option<String> {
    match value.get() {
        text if text.starts_with('"') => serde_json::from_str(text).ok(),
        "null" => None,
        text if text.starts_with(['{', '[']) => None,
        text => Some(text.to_owned()),
    }
}

/// A value as a header may carry it: as it is where that is safe, else in base64 between marks.
// MCP 2026-07-28, Streamable HTTP, "Value Encoding"; RFC 9110 §5.5 says which characters are safe.
fn encode(value: &str) -> String {
    let padded = value.starts_with(BLANK) || value.ends_with(BLANK);
    let marked = value.starts_with(OPENING) && value.ends_with(CLOSING);
    let safe = is_printable(value) && !padded && !marked;
    if safe { value.to_owned() } else { format!("{OPENING}{}{CLOSING}", BASE64.encode(value.as_bytes())) }
}

/// The value a header carries; `None` where it has characters that it must not have, or marks with no base64 between them.
pub fn decode(header: &str) -> Option<String> {
    let header = header.trim_matches(BLANK);
    match header.strip_prefix(OPENING).and_then(|rest| rest.strip_suffix(CLOSING)) {
        Some(encoded) => String::from_utf8(decode_base64(encoded)?).ok(),
        None => is_printable(header).then(|| header.to_owned()),
    }
}

/// Decodes Base64 (RFC 4648 §4) strictly: one text for every value. The crate also takes padding in the middle, where texts were joined.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let is_joined = text.trim_end_matches('=').contains('=');
    BASE64.decode(text.as_bytes()).ok().filter(|_| !is_joined)
}

const OPENING: &str = "=?base64?";
const CLOSING: &str = "?=";
const BLANK: [char; 2] = [' ', '\t'];

fn is_printable(value: &str) -> bool {
    value.bytes().all(|byte| matches!(byte, 0x20..=0x7e | b'\t'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use proptest::prelude::*;

    fn shown(method: &str, params: &str, tool: &str) -> String {
        let raw = |text: &str| RawValue::from_string(text.into()).unwrap();
        let mut tools = ToolHeaders::default();
        tools.learn(&raw(tool));
        let headers = headers(method, Some(&raw(params)), &tools);
        headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
    }

    #[test]
    fn the_body_is_repeated_in_headers() {
        assert_snapshot!(shown("tools/list", "{}", "{}"), @"Mcp-Method: tools/list");
        assert_snapshot!(shown("resources/read", r#"{"uri":"file:///ü"}"#, "{}"), @"
        Mcp-Method: resources/read
        Mcp-Name: =?base64?ZmlsZTovLy/DvA==?=
        ");
    }

    #[test]
    fn annotated_arguments_are_headers_too() {
        let tool = r#"{"name":"q","inputSchema":{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"},"absent":{"x-mcp-header":"Absent"}}},
            "nothing":{"x-mcp-header":"Nothing"}, "bad":{"x-mcp-header":"a b"}, "flag":{"x-mcp-header":"Flag"},
            "list":{"type":"array","items":{"properties":{"x":{"x-mcp-header":"X"}}}}}}}"#;
        let params = r#"{"name":"q","arguments":{"region":" padded ","deep":{"n":-7},"nothing":null,"bad":"b","flag":true,"list":[{"x":1}]}}"#;
        assert_snapshot!(shown("tools/call", params, tool), @"
        Mcp-Method: tools/call
        Mcp-Name: q
        Mcp-Param-Region: =?base64?IHBhZGRlZCA=?=
        Mcp-Param-N: -7
        Mcp-Param-Flag: true
        ");
    }

    #[test]
    fn values_are_encoded_as_the_specification_shows() {
        for (value, encoded) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(encode(value), encoded);
            assert_eq!(decode(encoded).as_deref(), Some(value));
        }
    }

    #[test]
    fn what_is_not_between_marks_is_as_it_stands() {
        for (header, value) in [
            ("  plain\t", Some("plain")),
            ("SGVsbG8=", Some("SGVsbG8=")),
            ("=?base64?SGVsbG8=", Some("=?base64?SGVsbG8=")),
            ("=?base64?=", Some("=?base64?=")),
            ("=?BASE64?SGVsbG8=?=", Some("=?BASE64?SGVsbG8=?=")),
            ("=?base64?SGVsbG8=?=", Some("Hello")),
            ("=?base64??=", Some("")),
            ("=?base64?SGVsbG8?=", None),
            ("=?base64?SGVs!!!bG8=?=", None),
            ("=?base64?SGVsbG9=?=", None),
            ("=?base64?SA==SA==?=", None),
            ("=?base64?=Gc=?=", None),
            ("=?base64?/w==?=", None),
            ("ü", None),
            ("a\nb", None),
        ] {
            assert_eq!(decode(header).as_deref(), value, "{header}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(value in any::<String>()) {
            let header = encode(&value);
            prop_assert!(is_printable(&header));
            prop_assert_eq!(decode(&header), Some(value));
        }

        #[test]
        fn whatever_comes_is_decoded_or_not(value in r"(=\?base64\?)?[A-D=/+\PC]{0,20}(\?=)?") {
            decode(&value);
        }
    }
}
