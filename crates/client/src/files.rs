//! The files of a topic.

use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode};
use salon_protocol::{TopicName, percent_encoded};
use serde::Deserialize;

use crate::client::{Client, query_string};
use crate::error::RestError;

/// How many bytes of a file are asked for at once.
const PART_BYTES: u64 = 4 << 20;

/// A file that was put into a topic.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct PutFile {
    /// What a `resource_link` names it by.
    pub uri: String,
    /// What it is called.
    pub name: String,
    /// Its media type.
    pub mime_type: String,
    /// How many bytes it has.
    pub size: u64,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
    /// Where it is read, relative to the gateway.
    pub url: String,
}

impl Client {
    /// Puts a file into a topic. Nobody is told of it: send a message with a `resource_link` to its [`PutFile::uri`].
    pub async fn put_file(
        &self,
        topic: &TopicName,
        name: &str,
        mime_type: &str,
        bytes: Bytes,
    ) -> Result<PutFile, RestError> {
        let path =
            format!("/v0/topics/{}/files{}", percent_encoded(topic.as_str()), query_string(&[("name", Some(name))]));
        let content_type = HeaderValue::from_str(mime_type).ok();
        let content_type = content_type.unwrap_or(HeaderValue::from_static("application/octet-stream"));
        let headers = [(header::CONTENT_TYPE, content_type)];
        let (_, answer) = self.ask_with(Method::POST, &path, &headers, bytes).await?;
        serde_json::from_slice(&answer).map_err(|error| self.unreadable(error))
    }

    /// Removes a file from a topic by its id, for good: one's own, or with the capability `moderate`.
    pub async fn remove_file(&self, topic: &TopicName, id: &str) -> Result<(), RestError> {
        let path = format!("/v0/topics/{}/files/{}", percent_encoded(topic.as_str()), percent_encoded(id));
        self.ask_with(Method::DELETE, &path, &[], Bytes::new()).await.map(drop)
    }

    /// Reads a file of a topic by its id, part by part; `write` gets the parts in order.
    pub async fn get_file<E: From<RestError>>(
        &self,
        topic: &TopicName,
        id: &str,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let path = format!("/v0/topics/{}/files/{}", percent_encoded(topic.as_str()), percent_encoded(id));
        let mut done = 0;
        loop {
            let range = HeaderValue::from_str(&format!("bytes={done}-{}", done + PART_BYTES - 1));
            let range = [(header::RANGE, range.expect("digits are acceptable in a header"))];
            match self.ask_with(Method::GET, &path, &range, Bytes::new()).await {
                Ok((status, part)) => {
                    done += part.len() as u64;
                    write(&part)?;
                    if status != StatusCode::PARTIAL_CONTENT || (part.len() as u64) < PART_BYTES {
                        return Ok(done);
                    }
                }
                // The end, where the length is a multiple of a part's. So is that of an empty file.
                Err(RestError::Refused(refusal)) if refusal.status == 416 => return Ok(done),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
