//! `context.get`, `put`, `list`, `history`, `delete` and `watch`.

use salon_log::ContextStore;
use salon_log::context::{Address, ContextScope, Key, MAX_VERSIONS, Version, Write, WriteError, Written};
use salon_protocol::{Code, ParticipantId, RpcError, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::arguments::Arguments;
use super::super::office::{HostRequest, Office};
use super::super::speech::{self, HostOutcome, structured, text, told};
use super::address::{read_scope, word};
use super::watches::{WatchForm, WatchTarget};
use super::{RoomContext, refused, unreadable};

pub(super) const MAX_LISTED: u64 = 1000;
pub(super) const USUAL_LISTED: u64 = 100;
pub(super) const USUAL_VERSIONS: u64 = 20;

/// A version as it is shown.
#[derive(Serialize)]
struct VersionView<'a> {
    version: u64,
    at: Timestamp,
    by: &'a ParticipantId,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a RawValue>,
    /// The value is there, but too long for this answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    omitted: bool,
}

impl<'a> VersionView<'a> {
    fn of(version: &'a Version) -> Result<Self, RpcError> {
        let Version { number, at, author, value } = version;
        let value = value.as_deref().map(serde_json::from_str).transpose();
        let value = value.map_err(|_| RpcError::internal("the value is damaged"))?;
        Ok(Self { version: *number, at: *at, by: author, deleted: value.is_none(), value, omitted: false })
    }
}

impl RoomContext {
    /// Calls a tool of the context's; `None` when there is no such tool.
    pub(in super::super) async fn call(
        &mut self,
        office: &Office,
        request: &HostRequest,
        tool: &str,
        arguments: Arguments<'_>,
    ) -> Option<HostOutcome> {
        self.attend(office);
        let store = &*self.store;
        Some(match tool {
            "context.get" => get(store, office, request, arguments).await,
            "context.put" => write(store, office, request, arguments, true).await,
            "context.delete" => write(store, office, request, arguments, false).await,
            "context.list" => list(store, office, request, arguments).await,
            "context.history" => history(store, office, request, arguments).await,
            "context.watch" => self.begin_watch(office, request, arguments).await,
            _ => return None,
        })
    }

    async fn begin_watch(
        &mut self,
        office: &Office,
        request: &HostRequest,
        mut arguments: Arguments<'_>,
    ) -> HostOutcome {
        #[derive(Serialize)]
        struct Watching<'a> {
            scope: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            key: Option<&'a str>,
            watching: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            version: Option<u64>,
        }
        let scope = scope(request, &mut arguments)?;
        let key: Option<String> = arguments.optional("key")?;
        let key = key.map(|key| Key::new(&key).map_err(|why| arguments.wrong("key", &why.to_string()))).transpose()?;
        let stop = arguments.optional("stop")?.unwrap_or(false);
        arguments.end()?;
        let target = WatchTarget { scope: scope.clone(), key: key.clone() };
        if let Err(message) = self.watch(office, request, target, WatchForm::Change, stop) {
            return Err(speech::busy(message));
        }
        let version = match &key {
            Some(key) if !stop => {
                let address = Address { topic: office.desk.topic().clone(), scope: scope.clone(), key: key.clone() };
                let newest = self.store.get(&address, None).await.map_err(|error| unreadable(&error))?;
                Some(newest.map_or(0, |newest| newest.number))
            }
            _ => None,
        };
        let key = key.as_ref().map(Key::as_str);
        Ok(structured(&Watching { scope: &word(&scope), key, watching: !stop, version }))
    }
}

async fn get(
    store: &dyn ContextStore,
    office: &Office,
    request: &HostRequest,
    mut arguments: Arguments<'_>,
) -> HostOutcome {
    #[derive(Serialize)]
    struct Got<'a> {
        scope: &'a str,
        key: &'a str,
        #[serde(flatten)]
        view: VersionView<'a>,
    }
    let address = address(office, request, &mut arguments)?;
    let version: Option<u64> = arguments.optional("version")?;
    arguments.end()?;
    let found = store.get(&address, version).await.map_err(|error| unreadable(&error))?;
    let key = &address.key;
    let found = match (found, version) {
        (None, None) => return Ok(refused(Code::NotFound, &format!("there is no `{key}`"), Some(0))),
        (None, Some(version)) => {
            let message = format!("there is no version {version} of `{key}`, or it is no longer kept");
            return Ok(refused(Code::NotFound, &message, None));
        }
        (Some(Version { number, value: None, .. }), None) => {
            let message = format!("`{key}` was deleted; that is its version {number}");
            return Ok(refused(Code::NotFound, &message, Some(number)));
        }
        (Some(found), _) => found,
    };
    let got = text(&Got { scope: &word(&address.scope), key: key.as_str(), view: VersionView::of(&found)? });
    // Said twice, a long value could be longer than any answer may be.
    if got.get().len() > office.toolbox.room_for_texts() {
        return Ok(told("The value is long, and not repeated here: see the structured content.", &got, false));
    }
    Ok(structured(&got))
}

async fn write(
    store: &dyn ContextStore,
    office: &Office,
    request: &HostRequest,
    mut arguments: Arguments<'_>,
    is_put: bool,
) -> HostOutcome {
    #[derive(Serialize)]
    struct Done<'a> {
        scope: &'a str,
        key: &'a str,
        version: u64,
        at: Timestamp,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        deleted: bool,
    }
    let address = address(office, request, &mut arguments)?;
    let value = if is_put {
        let value = arguments.written("value").ok_or_else(|| arguments.wrong("value", "it is missing"))?;
        Some(value.get().into())
    } else {
        None
    };
    let expected = arguments.optional("expectedVersion")?;
    arguments.end()?;
    let (scope, key) = (word(&address.scope), address.key.clone());
    // A position is given out once, so a request that was half answered before a crash is known again.
    let cause = request.entry.position.to_string().into();
    let requested = Some(request.entry.position);
    let write = Write { value, expected, author: request.caller().clone(), cause, requested };
    match store.write(address, write).await {
        Ok(Written { version, at, .. }) => {
            Ok(structured(&Done { scope: &scope, key: key.as_str(), version, at, deleted: !is_put }))
        }
        Err(error) => no(&key, expected, &error),
    }
}

async fn list(
    store: &dyn ContextStore,
    office: &Office,
    request: &HostRequest,
    mut arguments: Arguments<'_>,
) -> HostOutcome {
    #[derive(Serialize)]
    struct Element<'a> {
        key: &'a str,
        version: u64,
        at: Timestamp,
        by: &'a ParticipantId,
        bytes: u64,
    }
    #[derive(Serialize)]
    struct Keys<'a> {
        scope: &'a str,
        keys: Vec<Box<RawValue>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<&'a str>,
    }
    let scope = scope(request, &mut arguments)?;
    let after: Option<String> = arguments.optional("after")?;
    let after = after.map(|after| Key::new(&after).map_err(|why| arguments.wrong("after", &why.to_string())));
    let limit = arguments.number("limit", 1..=MAX_LISTED, USUAL_LISTED)? as usize;
    arguments.end()?;
    let found = store.list(office.desk.topic(), &scope, after.transpose()?.as_ref(), limit + 1).await;
    let found = found.map_err(|error| unreadable(&error))?;
    let mut room = office.toolbox.room_for_texts();
    let mut keys = Vec::new();
    for listed in found.iter().take(limit) {
        let (version, at, by, bytes) = (listed.version, listed.at, &listed.author, listed.bytes);
        let element = text(&Element { key: listed.key.as_str(), version, at, by, bytes });
        let Some(left) = room.checked_sub(element.get().len()) else { break };
        room = left;
        keys.push(element);
    }
    let next = (keys.len() < found.len()).then(|| keys.len().checked_sub(1).map(|last| found[last].key.as_str()));
    Ok(structured(&Keys { scope: &word(&scope), keys, next: next.flatten() }))
}

async fn history(
    store: &dyn ContextStore,
    office: &Office,
    request: &HostRequest,
    mut arguments: Arguments<'_>,
) -> HostOutcome {
    #[derive(Serialize)]
    struct History<'a> {
        scope: &'a str,
        key: &'a str,
        versions: Vec<Box<RawValue>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        next: Option<u64>,
    }
    let address = address(office, request, &mut arguments)?;
    let before = arguments.optional("before")?;
    let limit = arguments.number("limit", 1..=MAX_VERSIONS, USUAL_VERSIONS)? as usize;
    arguments.end()?;
    let found = store.history(&address, before, limit).await.map_err(|error| unreadable(&error))?;
    let key = &address.key;
    if found.is_empty() && before.is_none() {
        return Ok(refused(Code::NotFound, &format!("there never was a `{key}`, or it is forgotten"), Some(0)));
    }
    let mut room = office.toolbox.room_for_texts();
    let mut versions = Vec::new();
    let mut last = None;
    for version in &found {
        let mut view = VersionView::of(version)?;
        let mut element = text(&view);
        if element.get().len() > room && versions.is_empty() {
            (view.value, view.omitted) = (None, true);
            element = text(&view);
        }
        let Some(left) = room.checked_sub(element.get().len()) else { break };
        room = left;
        versions.push(element);
        last = Some(version.number);
    }
    // There may be nothing before that, but only the first version is known to be the first.
    let next = last.filter(|last| *last > 1 && (versions.len() < found.len() || found.len() == limit));
    let scope = word(&address.scope);
    Ok(structured(&History { scope: &scope, key: key.as_str(), versions, next }))
}

fn scope(request: &HostRequest, arguments: &mut Arguments<'_>) -> Result<ContextScope, RpcError> {
    let given: Option<String> = arguments.optional("scope")?;
    let given = given.as_deref().unwrap_or("topic");
    read_scope(given, request.caller()).map_err(|why| arguments.wrong("scope", &why))
}

fn address(office: &Office, request: &HostRequest, arguments: &mut Arguments<'_>) -> Result<Address, RpcError> {
    let scope = scope(request, arguments)?;
    let key: String = arguments.required("key")?;
    let key = Key::new(&key).map_err(|why| arguments.wrong("key", &why.to_string()))?;
    Ok(Address { topic: office.desk.topic().clone(), scope, key })
}

/// Why something was not written.
fn no(key: &Key, expected: Option<u64>, error: &WriteError) -> HostOutcome {
    let (code, message, current) = match error {
        WriteError::Conflict { current: 0 } => {
            let message = format!("there is no `{key}`, so it has no version {}", expected.unwrap_or(0));
            (Code::VersionConflict, message, Some(0))
        }
        WriteError::Conflict { current } => {
            let message = match expected {
                Some(0) => format!("`{key}` exists, with version {current}"),
                expected => format!("`{key}` has version {current}, not {}", expected.unwrap_or(0)),
            };
            (Code::VersionConflict, message, Some(*current))
        }
        WriteError::Absent { current } => (Code::NotFound, format!("there is no `{key}` to delete"), Some(*current)),
        limit @ (WriteError::TooLarge { .. } | WriteError::TooManyKeys | WriteError::TooManyTools) => {
            (Code::TooLarge, limit.to_string(), None)
        }
        WriteError::Deleted => (Code::NotFound, "the topic was deleted".to_owned(), None),
        WriteError::Quota(exceeded) => (Code::StorageFull, exceeded.to_string(), None),
        WriteError::Unavailable(_) => {
            let message = "the gateway cannot reach its log now; try again, or another gateway";
            (Code::Closing, message.to_owned(), None)
        }
        WriteError::ReadOnly(_) => {
            let message = "the gateway stores nothing now, because its disk is nearly full; reading goes on";
            (Code::Closing, message.to_owned(), None)
        }
        WriteError::Stopped(_) | WriteError::Refused(_) => {
            tracing::error!(%error, "host: context not written, request fails");
            return Err(RpcError::internal("the context could not be written"));
        }
    };
    Ok(refused(code, &message, current))
}
