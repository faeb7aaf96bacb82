//! What an HTTP/1.1 server answers to one request, taken as it arrives. Only what MCP servers send: a length or chunks, JSON or events.

use std::io::BufRead as _;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A JSON-RPC message from a server: an answer if it has an id and no method.
#[derive(Deserialize)]
pub(crate) struct RpcMessage<'a> {
    pub(crate) id: Option<u64>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
}

/// One response, as far as it has come.
#[derive(Default)]
pub(crate) struct HttpResponse {
    /// What is not yet part of the body.
    raw: Vec<u8>,
    head: Option<ResponseHead>,
    body: Vec<u8>,
    /// How far the body was looked through for events.
    looked_at: usize,
    done: bool,
}

struct ResponseHead {
    status: u16,
    session: Option<String>,
    events: bool,
    /// The length, or chunks.
    length: Option<usize>,
}

impl HttpResponse {
    pub(crate) fn clear(&mut self) {
        self.raw.clear();
        self.body.clear();
        (self.head, self.looked_at, self.done) = (None, 0, false);
    }

    /// Whether it has come whole: only then may the connection be used again.
    pub(crate) fn is_whole(&self) -> bool {
        self.done
    }

    pub(crate) fn status(&self) -> Option<u16> {
        self.head.as_ref().map(|head| head.status)
    }

    /// The session that the response opens.
    pub(crate) fn session(&self) -> Option<&str> {
        self.head.as_ref()?.session.as_deref()
    }

    /// The body, for a report of what went wrong.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.raw.extend_from_slice(bytes);
        if self.head.is_none() {
            let Some(end) = find(&self.raw, b"\r\n\r\n") else { return Ok(()) };
            self.head = Some(read_head(&self.raw[..end])?);
            self.raw.drain(..end + 4);
        }
        match self.head.as_ref().context("the head was read")?.length {
            Some(length) => {
                self.body.append(&mut self.raw);
                self.done = self.body.len() >= length;
                if self.body.len() > length {
                    bail!("more came than the response has");
                }
            }
            None => self.take_chunks()?,
        }
        Ok(())
    }

    fn take_chunks(&mut self) -> Result<()> {
        let mut at = 0;
        while let Some(line) = find(&self.raw[at..], b"\r\n") {
            let size = std::str::from_utf8(&self.raw[at..at + line])?.split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size.trim(), 16).with_context(|| format!("`{size}` is no chunk size"))?;
            let start = at + line + 2;
            // A chunk is taken when it is there with the line end after it; the last, which is empty, ends the response.
            if self.raw.len() < start + size + 2 {
                break;
            }
            self.body.extend_from_slice(&self.raw[start..start + size]);
            at = start + size + 2;
            if size == 0 {
                self.done = true;
                if at < self.raw.len() {
                    bail!("more came than the response has");
                }
                break;
            }
        }
        self.raw.drain(..at);
        Ok(())
    }

    /// Hands the answer to `look` once it is there: with events, that may be before the response has ended.
    pub(crate) fn answer<T>(&mut self, look: impl FnOnce(RpcMessage<'_>) -> Result<T>) -> Result<Option<T>> {
        let Some(head) = &self.head else { return Ok(None) };
        if !head.events {
            return if self.done { look(read_message(&self.body)?).map(Some) } else { Ok(None) };
        }
        while let Some((length, end)) = event_end(&self.body[self.looked_at..]) {
            let event = &self.body[self.looked_at..self.looked_at + length];
            self.looked_at += end;
            let data = event.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"data:"));
            // An event without data only names itself, so that a stream can be had again.
            let Some(data) = data.map(<[u8]>::trim_ascii).filter(|data| !data.is_empty()) else { continue };
            let message = read_message(data)?;
            if message.method.is_none() {
                return look(message).map(Some);
            }
        }
        if self.done {
            bail!("the events ended without an answer");
        }
        Ok(None)
    }
}

fn read_message(text: &[u8]) -> Result<RpcMessage<'_>> {
    serde_json::from_slice(text).with_context(|| format!("not JSON-RPC: {}", String::from_utf8_lossy(text)))
}

fn read_head(head: &[u8]) -> Result<ResponseHead> {
    let head = std::str::from_utf8(head)?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).context("not HTTP/1.1")?;
    let status = status.split(' ').next().unwrap_or_default().parse()?;
    let (mut session, mut events, mut length, mut chunked) = (None, false, None, false);
    for line in lines {
        let (name, value) = line.split_once(':').context("a header without a colon")?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "mcp-session-id" => session = Some(value.to_owned()),
            "content-type" => events = value.starts_with("text/event-stream"),
            "content-length" => length = Some(value.parse()?),
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    if length.is_none() && !chunked {
        bail!("a response without a length:\n{head}");
    }
    Ok(ResponseHead { status, session, events, length })
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|some| some == wanted)
}

/// How long the first event is, and where the next begins.
fn event_end(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut at = 0;
    loop {
        at += (&bytes[at..]).skip_until(b'\n').ok().filter(|&line| line > 0 && bytes[at + line - 1] == b'\n')?;
        // The empty line after an event ends as all its lines do.
        let blank = [&b"\n"[..], b"\r\n"].into_iter().find(|blank| bytes[at..].starts_with(blank));
        if let Some(blank) = blank {
            return Some((at, at + blank.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made of a response that comes in pieces of some length.
    fn read(response: &str, piece: usize) -> String {
        let mut reply = HttpResponse::default();
        let mut answer = None;
        for bytes in response.as_bytes().chunks(piece) {
            let taken = reply.take(bytes).and_then(|()| {
                if answer.is_none() {
                    answer = reply.answer(|message| {
                        let of = |part: Option<&RawValue>| part.map_or("–", RawValue::get).to_owned();
                        Ok(format!("{:?} {} {}", message.id, of(message.result), of(message.error)))
                    })?;
                }
                Ok(())
            });
            if let Err(error) = taken {
                return format!("{error:#}");
            }
        }
        let whole = if reply.is_whole() { "whole" } else { "cut" };
        format!("{:?} {:?} {whole}: {}", reply.status(), reply.session(), answer.unwrap_or_default())
    }

    #[test]
    fn responses_are_read_however_they_are_cut() {
        let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nMcp-Session-Id: s1\r\nContent-Length: 38\r\n\r\n\
                    {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":true}";
        let events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
                      a\r\nid: 1\ndata\r\n3\r\n:\n\n\r\n21;x=y\r\nevent: message\r\ndata: {\"method\":\"\r\n\
                      7\r\nx\"}\r\n\r\n\r\n21\r\ndata: {\"id\":8,\"error\":{\"code\":1}}\r\n2\r\n\n\n\r\n0\r\n\r\n";
        let long = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{}";
        let lost = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
        let table = [
            (json, r#"Some(200) Some("s1") whole: Some(7) true –"#),
            (events, r#"Some(200) None whole: Some(8) – {"code":1}"#),
            (&events[..events.len() - 5], r#"Some(200) None cut: Some(8) – {"code":1}"#),
            (long, "more came than the response has"),
            (lost, "the events ended without an answer"),
            ("HTTP/1.1 200 OK\r\nServer: x\r\n\r\n", "a response without a length:\nHTTP/1.1 200 OK\r\nServer: x"),
        ];
        for (response, expected) in table {
            // Pieces so small that the second byte of `long` comes after the end are a matter of the next response.
            let least = if response == long { response.len() } else { 1 };
            for piece in least..=response.len() {
                assert_eq!(read(response, piece), expected, "in pieces of {piece}");
            }
        }
    }
}
