//! `context://` resources: what exists in a topic, and to its owner what is a participant's own.

use std::sync::Arc;

use salon_log::context::{Address, ContextScope, Key};
use salon_log::files::{FileId, StoredFile};
use salon_log::{ContextStore, ReadError};
use salon_mcp::code;
use salon_mcp::listing::{ListItem, Listing};
use salon_protocol::{ParticipantId, RpcError, TopicName};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::super::office::{HostRequest, Office};
use super::super::speech::{self, HostOutcome, text};
use super::address::{self, TEMPLATE, read_uri};
use super::watches::{WatchForm, WatchTarget};
use super::{RoomContext, unreadable};
use crate::files::{self, base64};

/// How many resources a page has.
const PAGE: usize = 250;

/// How many resources a door lists, and how many bytes of them. The others can be read by their URI.
const MAX_AT_DOORS: usize = 4096;
const MAX_BYTES_AT_DOORS: usize = 4 << 20;

impl RoomContext {
    /// Serves a request about resources; `None` when it is about something else.
    pub(in super::super) async fn serve(
        &mut self,
        office: &Office,
        request: &HostRequest,
        method: &str,
        params: Option<&str>,
    ) -> Option<HostOutcome> {
        if !method.starts_with("resources/") {
            return None;
        }
        self.attend(office);
        Some(match method {
            "resources/list" => self.page(office, request, params).await,
            "resources/templates/list" => Ok(text(&json!({ "resourceTemplates": [template(), file_template()] }))),
            "resources/read" => match file_named(params) {
                Some((uri, id)) => read_file(office, &uri, &id).await,
                None => read(&*self.store, office, request, params).await,
            },
            "resources/subscribe" => self.subscribe(office, request, params, false),
            "resources/unsubscribe" => self.subscribe(office, request, params, true),
            _ => return None,
        })
    }

    async fn page(&mut self, office: &Office, request: &HostRequest, params: Option<&str>) -> HostOutcome {
        #[derive(Deserialize)]
        struct Params {
            cursor: Option<String>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Page<'a> {
            resources: Vec<&'a RawValue>,
            #[serde(skip_serializing_if = "Option::is_none")]
            next_cursor: Option<&'a str>,
        }
        let Params { cursor } = read_params(params)?;
        // A cursor is the URI that a page ended with.
        let after = match cursor {
            None => None,
            Some(cursor) => {
                let none_of_ours = || RpcError::invalid_params("`cursor` was not issued here");
                Some(read_uri(&cursor, request.caller()).ok_or_else(none_of_ours)?)
            }
        };
        self.is_relied_on = true;
        let bounds = (PAGE, office.toolbox.room_for_texts());
        let (topic, caller) = (office.desk.topic(), request.caller());
        let scopes = scopes(&*self.store, topic, Some(caller)).await.map_err(|error| unreadable(&error))?;
        let listed = resources(&*self.store, topic, scopes, after, bounds).await;
        let (items, is_all) = listed.map_err(|error| unreadable(&error))?;
        let next_cursor = items.last().filter(|_| !is_all).map(|last| &*last.name);
        Ok(text(&Page { resources: items.iter().map(|item| &*item.raw).collect(), next_cursor }))
    }

    fn subscribe(&mut self, office: &Office, request: &HostRequest, params: Option<&str>, ends: bool) -> HostOutcome {
        let (uri, scope, key) = named(request, params)?;
        let (target, form) = (WatchTarget { scope, key: Some(key) }, WatchForm::Resource(uri.into()));
        match self.watch(office, request, target, form, ends) {
            Ok(()) => Ok(text(&json!({}))),
            Err(message) => Err(speech::busy(message)),
        }
    }

    /// What a door lists for somebody; `None` when it could not be read.
    pub(in super::super) async fn offer(
        &mut self,
        office: &Office,
        asker: &ParticipantId,
        listing: Listing,
    ) -> Option<Arc<[ListItem]>> {
        match listing {
            Listing::Templates => {
                let item = |name: &str, raw: serde_json::Value| ListItem { name: name.into(), raw: text(&raw) };
                Some(Arc::from([item(TEMPLATE, template()), item(files::TEMPLATE, file_template())]))
            }
            Listing::Resources => {
                self.attend(office);
                self.is_relied_on = true;
                let offered = self.offer_resources(office.desk.topic(), asker).await;
                offered.map_err(|error| unreadable(&error)).ok()
            }
            Listing::Tools | Listing::Prompts => None,
        }
    }

    async fn offer_resources(
        &mut self,
        topic: &TopicName,
        asker: &ParticipantId,
    ) -> Result<Arc<[ListItem]>, ReadError> {
        let bounds = (MAX_AT_DOORS, MAX_BYTES_AT_DOORS);
        let shared = match self.listed.upgrade() {
            Some(shared) => shared,
            None => {
                let scopes = scopes(&*self.store, topic, None).await?;
                let (items, _) = resources(&*self.store, topic, scopes, None, bounds).await?;
                let shared: Arc<[ListItem]> = items.into();
                self.listed = Arc::downgrade(&shared);
                shared
            }
        };
        let own = vec![ContextScope::Participant(asker.clone())];
        let (own, _) = resources(&*self.store, topic, own, None, bounds).await?;
        // Most have nothing of their own, and all of them have one list.
        Ok(if own.is_empty() { shared } else { own.into_iter().chain(shared.iter().cloned()).collect() })
    }
}

async fn read(store: &dyn ContextStore, office: &Office, request: &HostRequest, params: Option<&str>) -> HostOutcome {
    let (uri, scope, key) = named(request, params)?;
    let address = Address { topic: office.desk.topic().clone(), scope, key };
    let newest = store.get(&address, None).await.map_err(|error| unreadable(&error))?;
    let Some((version, value)) = newest.and_then(|newest| Some((newest.number, newest.value?))) else {
        return Err(no_resource(&uri));
    };
    let meta = json!({ "salon/version": version });
    let contents = json!({ "uri": uri, "mimeType": "application/json", "text": &*value, "_meta": meta });
    Ok(text(&json!({ "contents": [contents] })))
}

/// The scopes of a topic that a caller can list, in order.
async fn scopes(
    store: &dyn ContextStore,
    topic: &TopicName,
    caller: Option<&ParticipantId>,
) -> Result<Vec<ContextScope>, ReadError> {
    let mut scopes = vec![ContextScope::Topic];
    scopes.extend(caller.cloned().map(ContextScope::Participant));
    scopes.extend(store.tools(topic).await?.into_iter().map(ContextScope::Tool));
    Ok(scopes)
}

/// What exists in some scopes, which are in order: the resources after one, as many and as many bytes of them as the bounds allow, but
/// at least one. Also whether these are all.
async fn resources(
    store: &dyn ContextStore,
    topic: &TopicName,
    scopes: Vec<ContextScope>,
    after: Option<(ContextScope, Key)>,
    (most, mut room): (usize, usize),
) -> Result<(Vec<ListItem>, bool), ReadError> {
    let mut items: Vec<ListItem> = Vec::new();
    for scope in scopes {
        let after = match &after {
            Some((passed, _)) if scope < *passed => continue,
            Some((passed, key)) if scope == *passed => Some(key),
            _ => None,
        };
        for listed in store.list(topic, &scope, after, most + 1 - items.len()).await? {
            let item = item(&scope, &listed.key);
            let weight = item.raw.get().len();
            if items.len() == most || (weight > room && !items.is_empty()) {
                return Ok((items, false));
            }
            room = room.saturating_sub(weight);
            items.push(item);
        }
    }
    Ok((items, true))
}

fn item(scope: &ContextScope, key: &Key) -> ListItem {
    let uri = address::uri(scope, key);
    let description = match scope {
        ContextScope::Topic => "Context of this room".to_owned(),
        ContextScope::Participant(_) => "Context of your own".to_owned(),
        ContextScope::Tool(id) => format!("Context of the tool {id}"),
    };
    let raw = text(&json!({
        "uri": uri, "name": key.as_str(), "description": description, "mimeType": "application/json",
    }));
    ListItem { name: uri.into(), raw }
}

fn template() -> serde_json::Value {
    json!({
        "uriTemplate": TEMPLATE,
        "name": "context",
        "title": "Context",
        "description": "What is kept in this room by name, as JSON. `scope` is `topic`, `participant` (your own) or `tool:` and the \
            id of a tool. Subscribe to one to hear when it changes.",
        "mimeType": "application/json",
    })
}

fn file_template() -> serde_json::Value {
    json!({
        "uriTemplate": files::TEMPLATE,
        "name": "file",
        "title": "File",
        "description": "A file that somebody put into this room, as messages link it.",
    })
}

/// The file that a request to read a resource names, where it names one.
fn file_named(params: Option<&str>) -> Option<(String, FileId)> {
    #[derive(Deserialize)]
    struct Params {
        uri: String,
    }
    let Params { uri } = serde_json::from_str(params?).ok()?;
    let id = files::read_uri(&uri)?;
    Some((uri, id))
}

/// A file of this room as a resource: its text where it is text, its bytes in base64 otherwise (MCP 2025-06-18, Resources, "Resource Contents").
async fn read_file(office: &Office, uri: &str, id: &FileId) -> HostOutcome {
    let (topic, store) = (office.desk.topic(), &office.toolbox.files);
    let found = store.find(topic, id).await.map_err(|error| unreadable(&error))?;
    let Some(StoredFile { file, size, .. }) = found else { return Err(no_resource(uri)) };
    let most = files::MAX_RESOURCE_BYTES.min(office.toolbox.room_for_files());
    if size > most {
        let message = format!("the file has {size} bytes, and a resource has at most {most}; read it over HTTP");
        return Err(RpcError::invalid_params(message).with_data(&json!({ "uri": uri })));
    }
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < size {
        let chunk = store.read(topic, id, bytes.len() as u64).await.map_err(|error| unreadable(&error))?;
        if chunk.is_empty() {
            return Err(no_resource(uri));
        }
        bytes.extend_from_slice(&chunk);
    }
    let mut contents = json!({ "uri": uri, "mimeType": file.mime_type, "_meta": { "salon/name": file.name.as_str() } });
    match String::from_utf8(bytes) {
        Ok(text) if files::is_text(&file.mime_type) => contents["text"] = text.into(),
        Ok(text) => contents["blob"] = base64(text.as_bytes()).into(),
        Err(error) => contents["blob"] = base64(error.as_bytes()).into(),
    }
    Ok(text(&json!({ "contents": [contents] })))
}

fn read_params<'a, T: Deserialize<'a>>(params: Option<&'a str>) -> Result<T, RpcError> {
    serde_json::from_str(params.unwrap_or("{}"))
        .map_err(|error| RpcError::invalid_params(format!("the parameters: {error}")))
}

/// The resource that a request names.
fn named(request: &HostRequest, params: Option<&str>) -> Result<(String, ContextScope, Key), RpcError> {
    #[derive(Deserialize)]
    struct Params {
        uri: String,
    }
    let Params { uri } = read_params(params)?;
    match read_uri(&uri, request.caller()) {
        Some((scope, key)) => Ok((uri, scope, key)),
        None => Err(no_resource(&uri)),
    }
}

fn no_resource(uri: &str) -> RpcError {
    RpcError::new(code::RESOURCE_NOT_FOUND, "there is no such resource here").with_data(&json!({ "uri": uri }))
}
