//! A server's result as a client of an older revision understands it.

use salon_protocol::Members;
use serde_json::value::{RawValue, to_raw_value};

use crate::{Revision, meta};

/// A modern server's complete result of `method`, without what only the modern era has and what the client's revision cannot take.
// MCP 2026-07-28, Overview, "ResultType": it is on every result; Caching: `ttlMs` and `cacheScope` are on lists and reads.
pub fn result(method: &str, result: &RawValue, to: Revision) -> Box<RawValue> {
    let plain = meta::strip(result).unwrap_or_else(|| result.to_owned());
    let Some(mut members) = Members::parse(plain.get()) else { return plain };
    members.retain(|key| !matches!(key, "resultType" | "ttlMs" | "cacheScope"));
    match method {
        "tools/list" => {
            each(&mut members, "tools", tool);
        }
        // MCP 2025-06-18, Tools, "Structured Content": an object. Clients of that revision refuse the whole result for anything else;
        // SEP-2106: any JSON value from 2026-07-28 on.
        "tools/call" if members.get("structuredContent").is_some_and(|value| !value.get().starts_with('{')) => {
            members.remove("structuredContent");
        }
        _ => {}
    }
    blocks(method, &mut members, to);
    members.to_raw()
}

/// A legacy server's result of `method`, without content that the client's revision cannot take. `None` when there is none of that,
/// and the result can stay as it was written.
pub fn older(method: &str, result: &RawValue, to: Revision) -> Option<Box<RawValue>> {
    if to >= Revision::R2025_06_18 || !matches!(method, "tools/call" | "prompts/get") {
        return None;
    }
    let mut members = Members::parse(result.get())?;
    blocks(method, &mut members, to).then(|| members.to_raw())
}

/// Changes the content blocks of a result. Whether there was anything to change.
fn blocks(method: &str, members: &mut Members, to: Revision) -> bool {
    match method {
        "tools/call" => each(members, "content", |block| content(block, to)),
        "prompts/get" => each(members, "messages", |message| {
            let changed = content(Members::parse(message.get("content")?.get())?, to)?;
            let mut message = message;
            message.set("content", &changed);
            Some(message)
        }),
        _ => false,
    }
}

/// Changes those elements of an array that want to be changed; the others stay as written. Whether there were any.
fn each(members: &mut Members, key: &str, change: impl Fn(Members) -> Option<Members>) -> bool {
    let Some(Ok(elements)) = members.get(key).map(|raw| serde_json::from_str::<Vec<Box<RawValue>>>(raw.get())) else {
        return false;
    };
    let mut touched = false;
    let elements: Vec<_> = elements
        .into_iter()
        .map(|element| match Members::parse(element.get()).and_then(&change) {
            Some(changed) => {
                touched = true;
                changed.to_raw()
            }
            None => element,
        })
        .collect();
    if touched {
        members.set(key, &elements);
    }
    touched
}

/// Before the modern era an output schema describes an object. One that does not makes some clients refuse the whole list.
// MCP 2025-06-18, Tools, "Output Schema"; SEP-2106: any schema from 2026-07-28 on.
fn tool(mut tool: Members) -> Option<Members> {
    let schema = Members::parse(tool.get("outputSchema")?.get());
    let object = schema.is_some_and(|schema| schema.get("type").is_some_and(|kind| kind.get() == "\"object\""));
    if object {
        return None;
    }
    tool.remove("outputSchema");
    Some(tool)
}

fn text(members: &Members, key: &str) -> Option<String> {
    serde_json::from_str(members.get(key)?.get()).ok()
}

/// A content block that is newer than the revision, as one it has.
fn content(block: Members, to: Revision) -> Option<Members> {
    let kind = text(&block, "type")?;
    let mut changed = Members::default();
    match kind.as_str() {
        // MCP 2025-03-26, changelog: audio content is new; before it, an embedded resource carries the bytes.
        "audio" if to < Revision::R2025_03_26 => {
            let mut resource = Members::default();
            resource.set("uri", "urn:mcp:audio");
            for (from, key) in [("mimeType", "mimeType"), ("data", "blob")] {
                if let Some(value) = block.get(from) {
                    resource.set(key, value);
                }
            }
            changed.set("type", "resource");
            changed.set("resource", &resource);
        }
        // MCP 2025-06-18, changelog: resource links are new.
        "resource_link" if to < Revision::R2025_06_18 => {
            let (uri, name) = (text(&block, "uri").unwrap_or_default(), text(&block, "name").unwrap_or_default());
            let about = text(&block, "description").map(|about| format!(": {about}")).unwrap_or_default();
            changed.set("type", "text");
            changed.set("text", &format!("{name} <{uri}>{about}"));
        }
        _ => return None,
    }
    Some(changed)
}

/// The schema of an elicitation's form for a revision that has enumerations only as `enum` with `enumNames`. `None` when it asks
/// for something that the revision cannot say.
// MCP 2025-11-25, changelog (SEP-1330): titled enumerations by `oneOf`, and enumerations of several values, are new.
pub(crate) fn form(schema: &RawValue) -> Option<Box<RawValue>> {
    let mut schema = Members::parse(schema.get())?;
    let properties = Members::parse(schema.get("properties")?.get())?;
    let mut plain = Members::default();
    for (name, property) in properties.iter() {
        match Members::parse(property.get()) {
            Some(parsed) => plain.set(name, &field(parsed, property)?),
            None => plain.set(name, property),
        }
    }
    schema.set("properties", &plain);
    Some(schema.to_raw())
}

fn field(mut property: Members, written: &RawValue) -> Option<Box<RawValue>> {
    if property.get("type").is_some_and(|kind| kind.get() == "\"array\"") {
        return None;
    }
    let Some(choices) = property.remove("oneOf") else { return Some(written.to_owned()) };
    let choices: Vec<Members> = serde_json::from_str(choices.get()).ok()?;
    let values = |key: &str| choices.iter().map(|choice| choice.get(key)).collect::<Option<Vec<_>>>();
    property.set("enum", &values("const")?);
    if let Some(names) = values("title") {
        property.set("enumNames", &names);
    }
    to_raw_value(&property).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn said(method: &str, to: Revision, text: &str) -> String {
        let raw = RawValue::from_string(text.into()).unwrap();
        result(method, &raw, to).get().to_owned()
    }

    #[test]
    fn what_only_the_modern_era_has_goes() {
        assert_snapshot!(said("resources/read", Revision::ROOM, r#"{"resultType":"complete","contents":[ {"uri":"a"} ],"ttlMs":5,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m"},"k":1}}"#),
            @r#"{"contents":[ {"uri":"a"} ],"_meta":{"k":1}}"#);
        assert_snapshot!(said("x", Revision::ROOM, "[1]"), @"[1]");
    }

    #[test]
    fn schemas_that_are_no_objects_go() {
        assert_snapshot!(said("tools/list", Revision::ROOM, r#"{"resultType":"complete","tools":[{"name":"a","outputSchema":{"type":"array"}},{"name":"b", "outputSchema":{"type":"object"}},{"name":"c","outputSchema":true},{"name":"d"}],"nextCursor":"n"}"#),
            @r#"{"tools":[{"name":"a"},{"name":"b", "outputSchema":{"type":"object"}},{"name":"c"},{"name":"d"}],"nextCursor":"n"}"#);
    }

    #[test]
    fn structured_content_is_an_object_or_nothing() {
        assert_snapshot!(said("tools/call", Revision::ROOM, r#"{"content":[],"structuredContent":[1],"resultType":"complete"}"#), @r#"{"content":[]}"#);
        assert_snapshot!(said("tools/call", Revision::ROOM, r#"{"content":[],"structuredContent":{"n": 1.0}}"#), @r#"{"content":[],"structuredContent":{"n": 1.0}}"#);
    }

    #[test]
    fn newer_content_becomes_what_the_revision_has() {
        let blocks = r#"{"content":[{"type":"text","text":"t"},{"type":"audio","data":"AAAA","mimeType":"audio/wav"},{"type":"resource_link","uri":"file:///a","name":"a","description":"the a"}]}"#;
        assert_snapshot!(said("tools/call", Revision::R2024_11_05, blocks), @r#"{"content":[{"type":"text","text":"t"},{"type":"resource","resource":{"uri":"urn:mcp:audio","mimeType":"audio/wav","blob":"AAAA"}},{"type":"text","text":"a <file:///a>: the a"}]}"#);
        assert_snapshot!(said("tools/call", Revision::R2025_03_26, blocks), @r#"{"content":[{"type":"text","text":"t"},{"type":"audio","data":"AAAA","mimeType":"audio/wav"},{"type":"text","text":"a <file:///a>: the a"}]}"#);
        assert_eq!(said("tools/call", Revision::ROOM, blocks), blocks);
        let raw = RawValue::from_string(blocks.into()).unwrap();
        for to in [Revision::R2024_11_05, Revision::R2025_03_26] {
            assert_eq!(older("tools/call", &raw, to).unwrap().get(), said("tools/call", to, blocks));
        }
        assert!(older("tools/call", &raw, Revision::ROOM).is_none());
        let plain = RawValue::from_string(r#"{"content":[{"type":"text","text":"t"}],"ttlMs":5}"#.into()).unwrap();
        assert!(older("tools/call", &plain, Revision::R2024_11_05).is_none(), "what it has is its own");
        assert_snapshot!(said("prompts/get", Revision::R2024_11_05, r#"{"messages":[{"role":"user","content":{"type":"resource_link","uri":"u","name":"n"}},{"role":"user","content":{"type":"text","text":"t"}}]}"#), @r#"{"messages":[{"role":"user","content":{"type":"text","text":"n <u>"}},{"role":"user","content":{"type":"text","text":"t"}}]}"#);
    }
}
