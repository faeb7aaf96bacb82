//! TOML, read into the same values as JSON: Codex keeps its servers so.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::jsonc::{JsonNode, JsonValue, JsoncError};

pub(super) fn parse(text: &str) -> Result<JsonNode, JsoncError> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        JsoncError { at, message: error.message().to_owned() }
    })?;
    Ok(JsonNode { at: 0, value: object(table.get_ref()) })
}

fn object(table: &DeTable<'_>) -> JsonValue {
    let members = table.iter().map(|(key, value)| (key.get_ref().to_string(), node(value)));
    let mut members: Vec<_> = members.collect();
    // In the order of the file.
    members.sort_by_key(|(_, node)| node.at);
    JsonValue::Object(members)
}

fn node(value: &Spanned<DeValue<'_>>) -> JsonNode {
    let read = match value.get_ref() {
        DeValue::String(text) => JsonValue::Text(text.to_string()),
        DeValue::Boolean(flag) => JsonValue::Bool(*flag),
        DeValue::Integer(number) => number.as_str().parse().map_or(JsonValue::Null, JsonValue::Number),
        DeValue::Float(number) => number.as_str().parse().map_or(JsonValue::Null, JsonValue::Number),
        DeValue::Datetime(time) => JsonValue::Text(time.to_string()),
        DeValue::Array(items) => JsonValue::List(items.iter().map(node).collect()),
        DeValue::Table(table) => object(table),
    };
    JsonNode { at: value.span().start, value: read }
}
