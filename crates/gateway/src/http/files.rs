//! The files of a topic: putting one there, reading it, and removing it.
//!
//! Invariant: nothing that somebody uploaded is shown by a browser as a page of the gateway. Only pictures of a few types are shown at all,
//! everything else is a download, and every answer forbids scripts, plug-ins and guessing of types.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use axum::Json;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http_body_util::BodyExt;
use salon_log::FileStore;
use salon_log::files::{FileError, FileId, FileName, NewFile, StoredFile};
use salon_protocol::{Code, Refusal, TopicName, percent_encoded};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

use super::{Incoming, Problem, invalid};
use crate::audit::{AuditEvent, AuditKind};
use crate::auth::{Grant, hex};
use crate::clock;
use crate::files::{self, FileRange};
use crate::gateway::GatewayState;
use crate::topic_control::TopicControl;

/// How long a file may take. It must not stop coming for as long as any other body.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Serialize, ToSchema)]
pub(super) struct UploadedFile {
    /// What a message names it by, in a `resource_link`. `system:gateway` reads it (`resources/read`)
    uri: String,
    name: String,
    mime_type: String,
    size: u64,
    /// In hexadecimal
    sha256: String,
    /// Where it is read, relative to the gateway
    url: String,
}

impl UploadedFile {
    fn new(StoredFile { file, size, sha256 }: StoredFile) -> Self {
        Self {
            uri: files::uri(&file.id),
            name: file.name.to_string(),
            mime_type: file.mime_type,
            size,
            sha256,
            url: format!("/v0/topics/{}/files/{}", percent_encoded(file.topic.as_str()), file.id),
        }
    }
}

#[utoipa::path(post, path = "/v0/topics/{topic}/files", tag = "MCPx", summary = "Put a file into a topic. Nobody is told of it: send a message with a `resource_link`",
    params(("topic" = String, Path), ("name" = String, Query, description = "What it is called: no path, at most 255 bytes")),
    request_body(content = String, description = "The file. Its `Content-Type` is kept", content_type = "application/octet-stream"),
    responses((status = 201, description = "Stored", body = UploadedFile), (status = "4XX", description = "Refused", body = super::ProblemBody),
        (status = 503, description = "Not now", body = super::ProblemBody)),
    security(("bearer" = []), ("session" = [])))]
pub(super) async fn put(incoming: Incoming, request: Request) -> Result<(StatusCode, Json<UploadedFile>), Problem> {
    let topic = incoming.topic()?;
    let grant = incoming.credentials(request.headers(), Some(&topic)).by_header_or_cookie(request.method())?;
    let name: FileName =
        incoming.query.name("name")?.ok_or_else(|| invalid("`name` is missing: what the file is called"))?;
    let gateway = &incoming.gateway;
    // It costs as much of the sender's rate as a message.
    gateway.rooms.count_refused(&grant.participant).map_err(|wait| gateway.rooms.too_many(wait))?;
    gateway.rooms.check_say(&topic, &grant.participant, grant.stamp().as_ref()).await?;
    let file = NewFile {
        id: FileId::from_bytes(uuid::Uuid::new_v4().into_bytes()),
        topic,
        name,
        mime_type: files::media_type(request.headers().get(header::CONTENT_TYPE)),
        author: grant.participant.clone(),
        created: clock::now(),
    };
    let stored = receive(gateway, &grant, file, request.into_body()).await?;
    Ok((StatusCode::CREATED, Json(UploadedFile::new(stored))))
}

/// Receives a body piece by piece. Only what the store has not taken yet is in memory.
async fn receive(gateway: &GatewayState, grant: &Grant, file: NewFile, mut body: Body) -> Result<StoredFile, Refusal> {
    let most = gateway.config.limits.file as u64;
    let too_large = || Refusal::new(Code::TooLarge, format!("the file is longer than the limit of {most} bytes"));
    // Before any of it is read: a client that waits for `100 Continue` (RFC 9110 §10.1.1) is told so instead.
    if most > 0 && body.size_hint().lower() > most {
        return Err(too_large());
    }
    let _intake = gateway.bodies.begin(grant.into())?;
    let topic = file.topic.clone();
    let mut upload = gateway.files.begin(file).await.map_err(|error| not_stored(&error))?;
    // Once more, now that the upload is known: a topic that is deleted from now on removes it.
    gateway.rooms.check_say(&topic, &grant.participant, grant.stamp().as_ref()).await?;
    let timings = &gateway.config.timings;
    let deadline = Instant::now() + UPLOAD_TIMEOUT;
    let (mut hash, mut size) = (Context::new(&SHA256), 0_u64);
    loop {
        let silent = Instant::now() + timings.body_idle_timeout;
        let piece = match timeout_at(deadline.min(silent), body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            Ok(Some(Err(_))) => {
                return Err(Refusal::new(Code::InvalidParameters, "the body could not be read to its end"));
            }
            Err(_) => return Err(Refusal::new(Code::Timeout, "the body took too long")),
        };
        size += piece.len() as u64;
        if most > 0 && size > most {
            return Err(too_large());
        }
        // What comes too fast waits, and with it the sender.
        while let Err(wait) = gateway.rooms.take_file_bytes(&topic, &grant.participant, piece.len()) {
            if Instant::now() + wait >= deadline {
                return Err(Refusal::new(Code::RateLimited, "the file is longer than your rate of bytes allows now"));
            }
            tokio::time::sleep(wait).await;
        }
        hash.update(&piece);
        upload.write(piece).await.map_err(|error| not_stored(&error))?;
    }
    upload.finish(hex(hash.finish().as_ref())).await.map_err(|error| not_stored(&error))
}

fn not_stored(error: &FileError) -> Refusal {
    match error {
        FileError::Quota { .. } | FileError::TooMany { .. } => Refusal::new(Code::StorageFull, error.to_string()),
        FileError::Removed => Refusal::new(Code::NotFound, error.to_string()),
        FileError::Unavailable(_) => Refusal::new(Code::Closing, "the gateway takes no files now; try again later"),
        FileError::Failed(_) => Refusal::new(Code::Internal, "the file could not be stored"),
    }
}

#[utoipa::path(get, path = "/v0/topics/{topic}/files/{file}", tag = "MCPx", summary = "A file of a topic",
    params(("topic" = String, Path), ("file" = String, Path, description = "Its id: 32 hexadecimal digits"),
        ("Range" = Option<String>, Header, description = "One range of bytes"), ("If-None-Match" = Option<String>, Header)),
    responses((status = 200, description = "The file. A download, unless it is a PNG, JPEG, GIF or WebP picture", content_type = "application/octet-stream"),
        (status = 206, description = "The range of it"), (status = 304, description = "It is the one that is known"),
        (status = "4XX", description = "Refused", body = super::ProblemBody)),
    security(("bearer" = []), ("session" = [])))]
pub(super) async fn get(incoming: Incoming, request: Request) -> Result<Response, Problem> {
    let topic = incoming.topic()?;
    let grant = incoming.credentials(request.headers(), Some(&topic)).by_header_or_cookie(request.method())?;
    let gateway = &incoming.gateway;
    gateway.reads.take(&grant.participant)?;
    gateway.rooms.check_access(&topic, &grant.participant, grant.stamp().as_ref()).await?;
    let unknown = || Refusal::new(Code::NotFound, "there is no such file in this topic");
    let id: FileId = incoming.in_path("file").and_then(|id| id.parse().ok()).ok_or_else(unknown)?;
    let store = gateway.files.clone();
    let found = store.find(&topic, &id).await.map_err(|error| salon_rooms::unreadable(&error))?;
    Ok(answer(store, topic, found.ok_or_else(unknown)?, request.headers()))
}

#[utoipa::path(delete, path = "/v0/topics/{topic}/files/{file}", tag = "MCPx", summary = "Remove a file from a topic, for good: one's own, or with the capability `moderate`",
    params(("topic" = String, Path), ("file" = String, Path, description = "Its id: 32 hexadecimal digits")),
    responses((status = 204, description = "Removed. Messages that link it are as they were"), (status = 404, description = "There is no such file", body = super::ProblemBody),
        (status = "4XX", description = "Refused", body = super::ProblemBody)),
    security(("bearer" = []), ("session" = [])))]
pub(super) async fn remove(incoming: Incoming, request: Request) -> Result<StatusCode, Problem> {
    let topic = incoming.topic()?;
    let grant = incoming.credentials(request.headers(), Some(&topic)).by_header_or_cookie(request.method())?;
    let (gateway, who, stamp) = (&incoming.gateway, &grant.participant, grant.stamp());
    gateway.rooms.charge(who, 1)?;
    gateway.rooms.check_access(&topic, who, stamp.as_ref()).await?;
    let unknown = || Refusal::new(Code::NotFound, "there is no such file in this topic");
    let id: FileId = incoming.in_path("file").and_then(|id| id.parse().ok()).ok_or_else(unknown)?;
    let found = gateway.files.find(&topic, &id).await.map_err(|error| salon_rooms::unreadable(&error))?;
    if found.ok_or_else(unknown)?.file.author == *who {
        gateway.rooms.check_say(&topic, who, stamp.as_ref()).await?;
    } else {
        let (desk, creation) = (gateway.rooms.desk(&topic, who).await?, gateway.config.topic_creation());
        TopicControl { desk: &desk, creation, who, stamp: stamp.as_ref() }.check_moderation()?;
    }
    gateway.files.remove(&topic, &id).await.map_err(|error| files::not_removed(&topic, &error))?;
    let event = AuditEvent::new(AuditKind::FileRemoved, clock::now()).participant(who).topic(&topic);
    gateway.audit.record(event.reason(id.to_string()));
    Ok(StatusCode::NO_CONTENT)
}

fn answer(store: Arc<dyn FileStore>, topic: TopicName, file: StoredFile, asked: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", file.sha256);
    let text = |name| asked.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let mut response = if text(header::IF_NONE_MATCH).is_some_and(|known| files::has_tag(known, &tag)) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        // A range of another version is of no use (RFC 9110 §13.1.5).
        let is_current = text(header::IF_RANGE).is_none_or(|known| known == tag);
        match FileRange::read(text(header::RANGE).filter(|_| is_current), file.size) {
            FileRange::Whole => body(store, topic, &file, 0, file.size, StatusCode::OK),
            FileRange::Part { from, to } => {
                let mut response = body(store, topic, &file, from, to + 1, StatusCode::PARTIAL_CONTENT);
                insert(&mut response, header::CONTENT_RANGE, &format!("bytes {from}-{to}/{}", file.size));
                response
            }
            FileRange::Unsatisfiable => {
                let mut response = StatusCode::RANGE_NOT_SATISFIABLE.into_response();
                insert(&mut response, header::CONTENT_RANGE, &format!("bytes */{}", file.size));
                response
            }
        }
    };
    insert(&mut response, header::ETAG, &tag);
    for (name, value) in files::safe_headers(&file.file) {
        insert(&mut response, name, &value);
    }
    response
}

fn insert(response: &mut Response, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// The bytes from one place to another, read as they are sent.
fn body(
    store: Arc<dyn FileStore>,
    topic: TopicName,
    file: &StoredFile,
    from: u64,
    to: u64,
    status: StatusCode,
) -> Response {
    let id = file.file.id.clone();
    let chunks = stream::unfold(from, move |at| {
        let (store, topic, id) = (store.clone(), topic.clone(), id.clone());
        async move {
            if at >= to {
                return None;
            }
            let read = store.read(&topic, &id, at).await.map_err(|error| std::io::Error::other(error.to_string()));
            Some(match read {
                Ok(chunk) if chunk.is_empty() => {
                    // Removed meanwhile: the body ends before its length, which the client notices.
                    (Err(std::io::Error::other("the file was removed")), to)
                }
                Ok(mut chunk) => {
                    let left = usize::try_from(to - at).unwrap_or(usize::MAX);
                    chunk.truncate(left);
                    let next = at + chunk.len() as u64;
                    (Ok::<Bytes, std::io::Error>(chunk), next)
                }
                Err(error) => (Err(error), to),
            })
        }
    });
    let mut response = (status, Body::from_stream(chunks)).into_response();
    insert(&mut response, header::CONTENT_LENGTH, &(to - from).to_string());
    response
}
