//! What a tool's result has beside its content for protocols other than MCP, and when that counts.

use salon_mcp::meta;
use salon_protocol::Members;
use serde_json::value::RawValue;

/// The text of a content list that is one text and nothing else.
pub(crate) fn only_text(content: Option<&RawValue>) -> Option<String> {
    let items: Vec<&RawValue> = serde_json::from_str(content?.get()).ok()?;
    let [only] = items[..] else { return None };
    let item = Members::parse(only.get())?;
    let is_text = item.get("type").is_some_and(|kind| kind.get() == "\"text\"");
    // The other members of the text block would be lost with it.
    let is_plain = item.iter().all(|(key, _)| matches!(key, "type" | "text"));
    serde_json::from_str(item.get("text").filter(|_| is_text && is_plain)?.get()).ok()
}

/// Takes the result as its own protocol has it (`_meta["salon/result"]`). It counts only where the [text](only_text) of the content is the
/// same: nobody is shown another result than all others.
pub(crate) fn take_own_result(meta: &mut Members, text: Option<&str>) -> Option<Box<RawValue>> {
    meta.remove(meta::RESULT).filter(|own| text == Some(own.get()))
}
