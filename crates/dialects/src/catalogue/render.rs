//! An item as the room lists it. Only its `name`, `uri` or `uriTemplate` and its titles differ from what its owner wrote.

use salon_mcp::listing::{ListItem, Listing};
use salon_protocol::{Members, ParticipantId};
use serde_json::value::RawValue;

use super::names;

/// An item under the label that the room lists it by; `None` for one that is no object.
pub(crate) fn render(listing: Listing, who: &ParticipantId, label: &str, item: &ListItem) -> Option<Box<RawValue>> {
    let is_shown_as_written = who.is_host() && *label == *item.name;
    if is_shown_as_written {
        return Some(item.raw.clone());
    }
    let mut members = Members::parse(item.raw.get())?;
    members.set(listing.label(), label);
    if !who.is_host() {
        mark_owner(&mut members, listing, who);
    }
    Some(members.to_raw())
}

/// Adds the owner to what people are shown: to the name of a resource, which is not what finds it, and to titles.
fn mark_owner(item: &mut Members, listing: Listing, who: &ParticipantId) {
    if let (Listing::Resources | Listing::Templates, Some(name)) = (listing, text(item, "name")) {
        item.set("name", &names::qualified(who, &name));
    }
    mark_title(item, who);
    // MCP 2025-03-26 has the title of a tool among its annotations only.
    let annotations = item.get("annotations").and_then(|annotations| Members::parse(annotations.get()));
    if let Some(mut annotations) = annotations.filter(|annotations| annotations.get("title").is_some()) {
        mark_title(&mut annotations, who);
        item.set("annotations", &annotations);
    }
}

fn mark_title(holder: &mut Members, who: &ParticipantId) {
    if let Some(title) = text(holder, "title") {
        holder.set("title", &format!("{title} ({who})"));
    }
}

fn text(holder: &Members, key: &str) -> Option<String> {
    serde_json::from_str(holder.get(key)?.get()).ok()
}
