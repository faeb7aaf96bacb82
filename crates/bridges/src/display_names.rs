//! Display names of people on a platform, as far as they are known. Bounded.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Names that are remembered. Beyond that all are asked for again.
const MAX_REMEMBERED: usize = 8192;

const MAX_NAME_CHARS: usize = 100;

#[derive(Default)]
pub(crate) struct DisplayNames {
    names: Mutex<HashMap<String, String>>,
}

impl DisplayNames {
    pub(crate) fn get(&self, user: &str) -> Option<String> {
        self.names.lock().get(user).cloned()
    }

    /// Remembers what a user is called, and returns it. A user without a name has the first part of its id.
    pub(crate) fn remember(&self, user: &str, name: Option<String>) -> String {
        let name = name.map(|name| name.trim().chars().filter(|c| !c.is_control()).take(MAX_NAME_CHARS).collect());
        let name = name.filter(|name: &String| !name.is_empty()).unwrap_or_else(|| fallback(user));
        let mut names = self.names.lock();
        if names.len() >= MAX_REMEMBERED {
            names.clear();
        }
        names.insert(user.to_owned(), name.clone());
        name
    }
}

/// The name of a user that has none: `@ann:server` is `ann`.
pub(crate) fn fallback(user: &str) -> String {
    let local = user.trim_start_matches('@').split(':').next().unwrap_or_default();
    if local.is_empty() { user.to_owned() } else { local.to_owned() }
}
