//! A list, read page by page.

use std::time::Duration;

use salon_protocol::Members;
use serde_json::value::RawValue;

use super::CallFailure;
use crate::listing::{ListItem, Listing, read_page};
use crate::{Era, is_method_not_found};

/// The longest a list is kept, whatever its `ttlMs` says: that is another participant's number, and a clock cannot add all of them.
const MAX_LIST_AGE: Duration = Duration::from_secs(60 * 60);

/// The longest list that is read.
#[derive(Debug, Clone, Copy)]
pub struct ListLimits {
    /// Pages.
    pub pages: usize,
    /// Items of all pages.
    pub items: usize,
    /// Bytes of all pages, as written.
    pub bytes: usize,
}

/// All pages of a list.
#[derive(Debug, Clone, Default)]
pub struct WholeList {
    /// Its items, as written.
    pub items: Vec<ListItem>,
    /// How long it may be kept; `None` until the server says that it changed.
    pub lifetime: Option<Duration>,
}

#[derive(Debug, Clone)]
pub(super) struct ListReading {
    listing: Listing,
    limits: ListLimits,
    list: WholeList,
    cursor: Option<Box<str>>,
    pages: usize,
    bytes: usize,
}

pub(super) enum PageOutcome {
    More,
    Done(WholeList),
    Failed(CallFailure),
}

impl ListReading {
    pub(super) fn new(listing: Listing, limits: ListLimits) -> Self {
        Self { listing, limits, list: WholeList::default(), cursor: None, pages: 0, bytes: 0 }
    }

    /// The parameters of the request for the next page.
    // MCP 2025-11-25, Pagination: the cursor is opaque, and given back as it came.
    pub(super) fn params(&self) -> Box<RawValue> {
        let mut params = Members::default();
        if let Some(cursor) = &self.cursor {
            params.set("cursor", cursor);
        }
        params.to_raw()
    }

    pub(super) fn page(&mut self, outcome: Result<&RawValue, &RawValue>, era: Era) -> PageOutcome {
        let result = match outcome {
            Ok(result) => result,
            // The server has no such list, and says so in another way.
            Err(error) if is_method_not_found(error) => {
                self.note_lifetime(Duration::ZERO, era);
                return PageOutcome::Done(std::mem::take(&mut self.list));
            }
            Err(error) => return PageOutcome::Failed(CallFailure::Answered(error.to_owned())),
        };
        let Some((items, next)) = read_page(self.listing, result) else {
            return PageOutcome::Failed(CallFailure::Unreadable);
        };
        self.note_lifetime(lifetime(result), era);
        self.pages += 1;
        self.bytes += result.get().len();
        self.list.items.extend(items);
        let ListLimits { pages, items, bytes } = self.limits;
        if self.list.items.len() > items || self.bytes > bytes {
            return PageOutcome::Failed(CallFailure::Endless);
        }
        match next {
            None => PageOutcome::Done(std::mem::take(&mut self.list)),
            // A cursor that leads to itself leads nowhere.
            next if next == self.cursor || self.pages >= pages => PageOutcome::Failed(CallFailure::Endless),
            next => {
                self.cursor = next;
                PageOutcome::More
            }
        }
    }

    /// A modern server announces changes only to those that listen for them, so its lists are kept for as long as they say.
    fn note_lifetime(&mut self, page: Duration, era: Era) {
        if era == Era::Modern {
            self.list.lifetime = Some(self.list.lifetime.map_or(page, |lifetime| lifetime.min(page)));
        }
    }
}

/// How long a page may be kept: `ttlMs`, and not at all where that is missing.
// MCP 2026-07-28, Caching, "Time-to-Live (TTL) Field".
fn lifetime(page: &RawValue) -> Duration {
    let ttl = Members::parse(page.get()).and_then(|page| serde_json::from_str::<f64>(page.get("ttlMs")?.get()).ok());
    let seconds = ttl.map(|millis| (millis / 1000.0).min(MAX_LIST_AGE.as_secs_f64()));
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_a_lifetime_is_not_kept() {
        let lifetime = |text: &str| lifetime(&RawValue::from_string(text.into()).expect("JSON"));
        assert_eq!(lifetime(r#"{"ttlMs":1500}"#), Duration::from_millis(1500));
        for none in ["{}", r#"{"ttlMs":0}"#, r#"{"ttlMs":-1}"#, r#"{"ttlMs":"1"}"#] {
            assert_eq!(lifetime(none), Duration::ZERO, "{none}");
        }
        for huge in [r#"{"ttlMs":1e22}"#, r#"{"ttlMs":1e300}"#] {
            assert_eq!(lifetime(huge), MAX_LIST_AGE, "{huge}");
            assert!(std::time::Instant::now().checked_add(lifetime(huge)).is_some());
        }
    }
}
