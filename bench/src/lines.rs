//! Two ways to one MCP server, for a caller that waits: its own pipes, and a seat in a room in which it is a guest.
//! Both carry the same JSON-RPC messages, written and read by the same code.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::contender::ContenderServer;
use crate::wire::{FrameFormat, ServerFrame, masked};

/// Nothing that is waited for takes longer, unless it is lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
pub(crate) const TOPIC: &str = "room:bench";
pub(crate) const GUEST: &str = "guest";
const CALLER: &str = "caller";

/// A JSON-RPC message that came back: an answer if it has an id.
#[derive(Deserialize)]
pub(crate) struct LineMessage {
    pub(crate) id: Option<u64>,
    pub(crate) result: Option<Box<RawValue>>,
    pub(crate) error: Option<Box<RawValue>>,
}

pub(crate) trait MessageLine {
    /// Sends a JSON-RPC message to the server.
    fn send(&mut self, message: &str) -> Result<()>;

    /// Waits for the next message from the server to this caller.
    fn receive(&mut self) -> Result<LineMessage>;

    /// Asks something and waits for the answer, with nothing else under way.
    fn ask(&mut self, request: &str) -> Result<Box<RawValue>> {
        self.send(request)?;
        loop {
            let LineMessage { id, result, error } = self.receive()?;
            if id.is_some() {
                return result.with_context(|| format!("the server answered with an error: {error:?}"));
            }
        }
    }

    /// The handshake of MCP.
    fn initialize(&mut self) -> Result<()> {
        self.ask(concat!(
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","#,
            r#""capabilities":{},"clientInfo":{"name":"bench","version":"0"}}}"#
        ))?;
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
    }
}

/// A server as a child process, spoken to on its pipes.
pub(crate) struct ServerPipes {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    text: String,
}

impl ServerPipes {
    pub(crate) fn open(server: &Path) -> Result<Self> {
        let mut child = Command::new(server)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", server.display()))?;
        let stdin = child.stdin.take().context("the child has no input")?;
        let stdout = BufReader::new(child.stdout.take().context("the child has no output")?);
        let mut pipes = Self { child, stdin, stdout, text: String::new() };
        pipes.initialize()?;
        Ok(pipes)
    }
}

impl MessageLine for ServerPipes {
    fn send(&mut self, message: &str) -> Result<()> {
        // One write for each message, as every client makes it.
        self.text.clear();
        self.text.push_str(message);
        self.text.push('\n');
        Ok(self.stdin.write_all(self.text.as_bytes())?)
    }

    fn receive(&mut self) -> Result<LineMessage> {
        self.text.clear();
        if self.stdout.read_line(&mut self.text)? == 0 {
            bail!("the server has ended");
        }
        Ok(serde_json::from_str(&self.text)?)
    }
}

impl Drop for ServerPipes {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing of it is wanted any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A participant's seat in the room of a gateway that hosts the server.
pub(crate) struct BenchSeat {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Where in the buffer the next frame begins, and where what was read ends.
    unread: (usize, usize),
    frame: Vec<u8>,
    sent: u64,
}

#[derive(Deserialize)]
struct BenchEnvelope<'a> {
    #[serde(borrow)]
    from: &'a str,
    #[serde(default, borrow)]
    to: Vec<&'a str>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

impl BenchSeat {
    /// Enters, waits until the guest is there, and performs the MCP handshake with it.
    pub(crate) fn open(server: &ContenderServer) -> Result<Self> {
        let stream = TcpStream::connect(server.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let mut seat = Self { stream, buffer: vec![0; 1 << 20], unread: (0, 0), frame: Vec::new(), sent: 0 };
        seat.stream.write_all(&server.greeting(TOPIC, CALLER, None)?.bytes)?;
        seat.switch()?;
        while !seat.next(|text| Ok(names_guest(text)))? {}
        seat.initialize()?;
        Ok(seat)
    }

    /// Reads the answer to the upgrade; what follows it stays in the buffer.
    fn switch(&mut self) -> Result<()> {
        loop {
            let head = &self.buffer[..self.unread.1];
            if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                if !head.starts_with(b"HTTP/1.1 101") {
                    bail!("the gateway refuses: {}", String::from_utf8_lossy(&head[..end]));
                }
                self.unread.0 = end + 4;
                return Ok(());
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> Result<()> {
        let (start, end) = self.unread;
        self.buffer.copy_within(start..end, 0);
        self.unread = (0, end - start);
        let room = &mut self.buffer[self.unread.1..];
        if room.is_empty() {
            bail!("a frame is too long for this benchmark");
        }
        let count = self.stream.read(room).context("nothing came from the gateway")?;
        if count == 0 {
            bail!("the gateway has closed the connection");
        }
        self.unread.1 += count;
        Ok(())
    }

    /// Hands the next text to `look`.
    fn next<T>(&mut self, look: impl Fn(&[u8]) -> Result<T>) -> Result<T> {
        loop {
            let (start, end) = self.unread;
            let Some((frame, length)) = FrameFormat::WebSocket.next(&self.buffer[start..end])? else {
                self.read()?;
                continue;
            };
            self.unread.0 += length;
            match frame {
                ServerFrame::Message(text) => return look(text),
                ServerFrame::Ping(body) => {
                    let pong = FrameFormat::WebSocket.pong(body);
                    self.stream.write_all(&pong)?;
                }
                ServerFrame::Close(why) => bail!("the gateway closes: {}", String::from_utf8_lossy(why)),
                ServerFrame::Pong | ServerFrame::Chatter => {}
            }
        }
    }
}

impl MessageLine for BenchSeat {
    fn send(&mut self, message: &str) -> Result<()> {
        self.sent += 1;
        let envelope = format!(
            r#"{{"protocol":"mcp-x/v0","id":"{CALLER}-{}","ts":"2026-01-01T00:00:00Z","from":"{CALLER}","to":["{GUEST}"],"kind":"mcp","payload":{message}}}"#,
            self.sent
        );
        self.frame.clear();
        masked(envelope.as_bytes(), &mut self.frame);
        Ok(self.stream.write_all(&self.frame)?)
    }

    fn receive(&mut self) -> Result<LineMessage> {
        let mine = |text: &[u8]| -> Result<Option<LineMessage>> {
            let envelope: BenchEnvelope<'_> = serde_json::from_slice(text)?;
            if envelope.from == GUEST && envelope.to == [CALLER] {
                return Ok(Some(serde_json::from_str(envelope.payload.get())?));
            }
            // What is not from the guest to this caller is the caller's own echo, presence, or a refusal.
            if envelope.from == "system:gateway" && envelope.payload.get().contains(r#""event":"error""#) {
                bail!("the gateway refuses: {}", envelope.payload);
            }
            Ok(None)
        };
        loop {
            if let Some(message) = self.next(mine)? {
                return Ok(message);
            }
        }
    }
}

/// Whether a welcome lists the guest, or a presence says that it has come.
fn names_guest(text: &[u8]) -> bool {
    let wanted = format!(r#""id":"{GUEST}""#);
    text.windows(wanted.len()).any(|some| some == wanted.as_bytes())
}
