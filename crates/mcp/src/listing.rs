//! Lists: tools, prompts, resources and resource templates, element by element as their owners wrote them.

use std::time::Duration;

use salon_protocol::Members;
use serde_json::value::RawValue;

/// A kind of list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Listing {
    /// Tools.
    Tools,
    /// Prompts.
    Prompts,
    /// Resources.
    Resources,
    /// Resource templates.
    Templates,
}

impl Listing {
    /// Every one of them.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// What asks for it.
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// Where the items are in the answer.
    pub fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The capability that declares it.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// What tells that it changed.
    pub fn changed(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources | Self::Templates => "notifications/resources/list_changed",
        }
    }

    /// The one that a method asks for.
    pub fn of_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|listing| listing.method() == method)
    }

    /// The member that tells its items apart.
    pub fn label(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }
}

/// Something somebody offers.
#[derive(Debug, Clone)]
pub struct ListItem {
    /// Its owner's name for it: a name, a URI or a URI template.
    pub name: Box<str>,
    /// All of it, as its owner wrote it.
    pub raw: Box<RawValue>,
}

/// Reads an answer to a list request: its items and the cursor of what follows. An item without a name is left out. `None` when it
/// is no such answer.
pub fn read_page(listing: Listing, result: &RawValue) -> Option<(Vec<ListItem>, Option<Box<str>>)> {
    let result = Members::parse(result.get())?;
    let items: Vec<Box<RawValue>> = serde_json::from_str(result.get(listing.key())?.get()).ok()?;
    let named = |raw: Box<RawValue>| {
        let name = serde_json::from_str(Members::parse(raw.get())?.get(listing.label())?.get()).ok()?;
        Some(ListItem { name, raw })
    };
    let next = result.get("nextCursor").and_then(|cursor| serde_json::from_str(cursor.get()).ok());
    Some((items.into_iter().filter_map(named).collect(), next))
}

/// How long an answer may be kept, where it says so (MCP 2026-07-28, "Caching").
pub fn ttl(result: &RawValue) -> Option<Duration> {
    let ttl = Members::parse(result.get())?.remove("ttlMs")?;
    serde_json::from_str(ttl.get()).ok().map(Duration::from_millis)
}

/// Whether a URI names a resource or something below it.
// MCP 2025-11-25, Resources, "Subscriptions": an update may be of a sub-resource of the one that was subscribed to.
pub fn is_part(uri: &str, of: &str) -> bool {
    uri.strip_prefix(of).is_some_and(|rest| rest.is_empty() || of.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_has_parts_below_it() {
        assert!(is_part("file:///a", "file:///a") && is_part("file:///a/b", "file:///a"));
        assert!(is_part("file:///a/b", "file:///a/") && !is_part("file:///ab", "file:///a"));
        assert!(!is_part("file:///", "file:///a"));
    }

    fn page(text: &str) -> Option<(Vec<String>, Option<Box<str>>)> {
        let raw = RawValue::from_string(text.into()).expect("the test writes JSON");
        let (items, next) = read_page(Listing::Tools, &raw)?;
        Some((items.iter().map(|item| item.raw.get().to_owned()).collect(), next))
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let odd = r#"{ "name":"a", "inputSchema":{"maximum":123456789012345678901234567890} }"#;
        assert_eq!(page(&format!(r#"{{"tools":[{odd}]}}"#)), Some((vec![odd.into()], None)));
        assert_eq!(page(r#"{"tools":[],"nextCursor":"2"}"#), Some((vec![], Some("2".into()))));
        assert_eq!(page(r#"{"tools":[],"nextCursor":null}"#), Some((vec![], None)));
        assert_eq!(page(r#"{"tools":[{"title":"no name"},5]}"#), Some((vec![], None)));
        assert_eq!(page(r#"{"tools":{}}"#), None);
        assert_eq!(page("[]"), None);
    }
}
