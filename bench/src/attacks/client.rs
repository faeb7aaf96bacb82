//! The attacker's sockets: blocking, and content with any answer.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::wire::masked;

/// How long an answer may take before the attacker tries something else. Short, so that it ends soon after it is told to.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// A connection over which requests are made one after the other, for as long as the gateway keeps it.
pub(crate) struct HttpLine {
    server: SocketAddr,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl HttpLine {
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self { server, stream: None, buffer: vec![0; 64 * 1024] }
    }

    /// Makes a request, and gives the status of its answer. Whatever goes wrong ends the connection; the next request opens another.
    pub(crate) fn request(&mut self, method: &str, path: &str, token: &str, body: &[u8]) -> Option<u16> {
        let answer = self.try_request(method, path, token, body);
        if answer.is_err() {
            self.stream = None;
        }
        answer.ok()
    }

    fn try_request(&mut self, method: &str, path: &str, token: &str, body: &[u8]) -> io::Result<u16> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(open(self.server)?),
        };
        let mut request = head(self.server, method, path, token, body.len()).into_bytes();
        request.extend_from_slice(body);
        stream.write_all(&request)?;
        let mut filled = 0;
        loop {
            let read = stream.read(&mut self.buffer[filled..])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += read;
            let got = &self.buffer[..filled];
            if let Some(end) = got.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&got[..end]).to_ascii_lowercase();
                let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
                let mut rest = length.unwrap_or(0_usize).saturating_sub(filled - end - 4);
                while rest > 0 {
                    let most = self.buffer.len().min(rest);
                    let read = stream.read(&mut self.buffer[..most])?;
                    if read == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    rest -= read;
                }
                if length.is_none() || head.contains("connection: close") {
                    self.stream = None;
                }
                return status.ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
            if filled == self.buffer.len() {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

pub(crate) fn open(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&server, ANSWER_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The head of a request with a body of so many bytes.
pub(crate) fn head(server: SocketAddr, method: &str, path: &str, token: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {server}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    )
}

/// Joins a room by WebSocket; the first bytes of the answer say whether it was let in.
pub(crate) fn join(server: SocketAddr, topic: &str, token: &str) -> io::Result<(TcpStream, bool)> {
    let mut stream = open(server)?;
    write!(
        stream,
        "GET /v0/ws?topic={topic}&share=true HTTP/1.1\r\nHost: {server}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer {token}\r\n\r\n"
    )?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    Ok((stream, answer.starts_with(b"HTTP/1.1 101")))
}

/// Writes a text frame.
pub(crate) fn say(stream: &mut TcpStream, text: &str) -> io::Result<()> {
    let mut frame = Vec::with_capacity(text.len() + 14);
    masked(text.as_bytes(), &mut frame);
    stream.write_all(&frame)
}
