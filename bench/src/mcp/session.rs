//! A client of one MCP server over Streamable HTTP: a session (or, in 2026-07-28, requests that need none) on connections that stay open.
//! One thread and as many connections as calls are in flight; the same code for every server.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::mcp::http::HttpResponse;

/// Nothing that is waited for takes longer, unless it is lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the text is that a long call asks for, at least: 64 KiB.
const LONG: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BenchEra {
    /// A session, by `initialize`.
    Legacy,
    /// 2026-07-28, in which every request stands alone.
    Modern,
}

impl BenchEra {
    fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-06-18",
            Self::Modern => "2026-07-28",
        }
    }
}

/// Where a server is and what a client of it must say.
#[derive(Clone)]
pub(crate) struct SessionTarget {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    pub(crate) bearer: Option<String>,
    pub(crate) era: BenchEra,
    /// What the names of tools begin with there.
    pub(crate) prefix: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BenchTool {
    /// Answers with its arguments, a few bytes.
    Echo,
    /// Answers a few bytes with 64 KiB.
    Long,
}

impl BenchTool {
    fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Long => "long",
        }
    }

    /// A number that the answer to call `id` can be told by.
    fn token(self, id: u64) -> u64 {
        match self {
            Self::Echo => id,
            Self::Long => LONG + id % 64,
        }
    }

    fn arguments(self, id: u64) -> String {
        let name = match self {
            Self::Echo => "value",
            Self::Long => "length",
        };
        format!(r#"{{"{name}":{}}}"#, self.token(id))
    }

    /// Whether `result` is that of call `id`.
    fn check(self, id: u64, result: &RawValue) -> Result<()> {
        let CallResult { arguments, content, is_error } = serde_json::from_str(result.get())?;
        let got = match self {
            Self::Echo => arguments.map(|arguments| arguments.value),
            Self::Long => content.first().map(|block| block.text.len() as u64),
        };
        if is_error || got != Some(self.token(id)) {
            let start: String = result.get().chars().take(200).collect();
            bail!("call {id} of `{}` was answered with {start}", self.name());
        }
        Ok(())
    }
}

/// A tool's result, as far as it is looked at.
#[derive(Deserialize)]
struct CallResult<'a> {
    #[serde(rename = "structuredContent")]
    arguments: Option<CountValue>,
    #[serde(borrow)]
    content: Vec<Block<'a>>,
    #[serde(default, rename = "isError")]
    is_error: bool,
}

#[derive(Deserialize)]
struct CountValue {
    value: u64,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    text: std::borrow::Cow<'a, str>,
}

struct BenchConnection {
    stream: TcpStream,
    reply: HttpResponse,
    /// The call under way: its id, its tool, when it was sent; and whether it was answered, when only the end of the response is missing.
    call: Option<(u64, BenchTool, Instant, bool)>,
}

pub(crate) struct BenchSession {
    target: SessionTarget,
    id: Option<String>,
    last_call: u64,
    connections: Vec<BenchConnection>,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
}

impl BenchSession {
    /// Opens a session as clients do: performs the handshake where the era has one, lists the tools, and calls one.
    pub(crate) fn open(target: SessionTarget) -> Result<Self> {
        let mut session = Self {
            target,
            id: None,
            last_call: 0,
            connections: Vec::new(),
            poll: Poll::new()?,
            events: Events::with_capacity(64),
            buffer: vec![0; 256 << 10],
        };
        session.connect(1)?;
        if session.target.era == BenchEra::Legacy {
            session.ask("initialize", "", |era| {
                format!(
                    r#""protocolVersion":"{}","capabilities":{{}},"clientInfo":{{"name":"bench","version":"0"}}"#,
                    era.version()
                )
            })?;
            session.id = session.connections[0].reply.session().map(str::to_owned);
            let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            session.send(0, "notifications/initialized", "", initialized)?;
            session.finish_first()?;
            if session.connections[0].reply.status() != Some(202) {
                bail!("`notifications/initialized` was refused: {}", session.connections[0].reply.text());
            }
        }
        let tools = session.ask("tools/list", "", |_| String::new())?;
        for tool in [BenchTool::Echo, BenchTool::Long] {
            let name = format!(r#""{}{}""#, session.target.prefix, tool.name());
            if !tools.contains(&name) {
                bail!("{name} is not among its tools");
            }
        }
        session.calls(BenchTool::Echo, 1, |begun| begun < 1, &mut Vec::new())?;
        Ok(session)
    }

    /// Has so many connections open. A server may have closed one that was not used for some seconds.
    fn connect(&mut self, count: usize) -> Result<()> {
        for at in 0..count {
            if let Some(connection) = self.connections.get_mut(at) {
                match connection.stream.read(&mut self.buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    Ok(0) | Err(_) => self.poll.registry().deregister(&mut connection.stream)?,
                    Ok(_) => bail!("the server says something that nobody has asked for"),
                }
            }
            let stream = std::net::TcpStream::connect(self.target.address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            self.poll.registry().register(&mut stream, Token(at), Interest::READABLE)?;
            let connection = BenchConnection { stream, reply: HttpResponse::default(), call: None };
            if at < self.connections.len() {
                self.connections[at] = connection;
            } else {
                self.connections.push(connection);
            }
        }
        Ok(())
    }

    /// Sends a message by one of the connections. `name` is what its method is about, where it names a tool.
    fn send(&mut self, at: usize, method: &str, name: &str, message: &str) -> Result<()> {
        let SessionTarget { address, path, bearer, era, .. } = &self.target;
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            message.len()
        );
        let mut header = |name: &str, value: &str| request.extend([name, ": ", value, "\r\n"]);
        if let Some(bearer) = bearer {
            header("Authorization", &format!("Bearer {bearer}"));
        }
        if method != "initialize" {
            header("MCP-Protocol-Version", era.version());
        }
        if let Some(id) = &self.id {
            header("Mcp-Session-Id", id);
        }
        if *era == BenchEra::Modern {
            header("Mcp-Method", method);
            if !name.is_empty() {
                header("Mcp-Name", name);
            }
        }
        request.push_str("\r\n");
        request.push_str(message);
        let connection = &mut self.connections[at];
        connection.reply.clear();
        // A request is far smaller than what a socket takes at once.
        Ok(connection.stream.write_all(request.as_bytes())?)
    }

    /// A request with parameters that `members` writes, as members of an object.
    fn request(&self, id: u64, method: &str, members: &str) -> String {
        let meta = match self.target.era {
            BenchEra::Legacy => String::new(),
            BenchEra::Modern => format!(
                r#"{}"_meta":{{"io.modelcontextprotocol/protocolVersion":"{}","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"0"}}}}"#,
                if members.is_empty() { "" } else { "," },
                self.target.era.version()
            ),
        };
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{members}{meta}}}}}"#)
    }

    /// Asks something with nothing else under way, and returns the result.
    fn ask(&mut self, method: &str, name: &str, members: impl Fn(BenchEra) -> String) -> Result<String> {
        self.last_call += 1;
        let request = self.request(self.last_call, method, &members(self.target.era));
        self.send(0, method, name, &request)?;
        self.finish_first()?;
        let reply = &mut self.connections[0].reply;
        let (status, text) = (reply.status(), reply.text());
        let result = reply.answer(|message| Ok(message.result.map(|result| result.get().to_owned()))).ok().flatten();
        result.flatten().with_context(|| format!("`{method}` was answered with {status:?} {text}"))
    }

    /// Reads the first connection's response to its end.
    fn finish_first(&mut self) -> Result<()> {
        let BenchConnection { stream, reply, .. } = &mut self.connections[0];
        while !reply.is_whole() {
            match stream.read(&mut self.buffer) {
                Ok(0) => bail!("the server has closed the connection"),
                Ok(count) => reply.take(&self.buffer[..count])?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.poll.poll(&mut self.events, Some(ANSWER_TIMEOUT))?;
                    if self.events.is_empty() {
                        bail!("nothing came from the server");
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Keeps so many calls under way while `go_on` says so, which is asked with the number of calls begun; then takes what is still to
    /// come, so that nothing is under way when it returns. A call's latency ends when its answer has been read.
    pub(crate) fn calls(
        &mut self,
        tool: BenchTool,
        in_flight: usize,
        go_on: impl Fn(u64) -> bool,
        latencies: &mut Vec<u64>,
    ) -> Result<()> {
        self.connect(in_flight)?;
        let mut begun = 0;
        let mut idle: Vec<usize> = (0..in_flight).rev().collect();
        loop {
            while !idle.is_empty() && go_on(begun) {
                let at = idle.pop().context("there is one")?;
                begun += 1;
                self.begin(at, tool)?;
            }
            if idle.len() == in_flight {
                return Ok(());
            }
            self.poll.poll(&mut self.events, Some(ANSWER_TIMEOUT))?;
            if self.events.is_empty() {
                bail!("nothing came from the server");
            }
            for event in &self.events {
                let at = event.token().0;
                if self.connections[at].pump(&mut self.buffer, latencies)? {
                    idle.push(at);
                }
            }
        }
    }

    fn begin(&mut self, at: usize, tool: BenchTool) -> Result<()> {
        self.last_call += 1;
        let id = self.last_call;
        let name = format!("{}{}", self.target.prefix, tool.name());
        let members = format!(r#""name":"{name}","arguments":{}"#, tool.arguments(id));
        let request = self.request(id, "tools/call", &members);
        self.connections[at].call = Some((id, tool, Instant::now(), false));
        self.send(at, "tools/call", &name, &request)
    }
}

impl BenchConnection {
    /// Takes what has come; whether that ends the call under way.
    fn pump(&mut self, buffer: &mut [u8], latencies: &mut Vec<u64>) -> Result<bool> {
        // What comes with nothing under way is the end of the connection, which is noticed before the next call.
        let Some((id, tool, sent, answered)) = &mut self.call else { return Ok(false) };
        loop {
            match self.stream.read(buffer) {
                Ok(0) => bail!("the server has closed the connection with a call under way"),
                Ok(count) => {
                    let arrived = sent.elapsed();
                    self.reply.take(&buffer[..count])?;
                    let check = |message: crate::mcp::http::RpcMessage<'_>| {
                        let result = message.result.with_context(|| format!("a call failed: {:?}", message.error))?;
                        if message.id != Some(*id) {
                            bail!("call {id} got the answer to {:?}", message.id);
                        }
                        tool.check(*id, result)
                    };
                    if !*answered && self.reply.answer(check)?.is_some() {
                        latencies.push(arrived.as_nanos() as u64);
                        *answered = true;
                    }
                    if self.reply.is_whole() {
                        self.call = None;
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_of_the_call_will_do() {
        let text =
            |length: u64| format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "x".repeat(length as usize));
        let table = [
            (BenchTool::Echo, r#"{"content":[],"structuredContent":{"value":7}}"#.to_owned(), true),
            (BenchTool::Echo, r#"{"content":[],"structuredContent":{"value":8}}"#.to_owned(), false),
            (BenchTool::Echo, r#"{"content":[],"structuredContent":{"value":7},"isError":true}"#.to_owned(), false),
            (BenchTool::Echo, r#"{"content":[{"type":"text","text":"{\"value\":7}"}]}"#.to_owned(), false),
            (BenchTool::Long, text(LONG + 7), true),
            (BenchTool::Long, text(LONG), false),
        ];
        for (tool, result, good) in table {
            let checked = tool.check(7, &RawValue::from_string(result).unwrap());
            assert_eq!(checked.is_ok(), good, "{tool:?}: {checked:?}");
        }
    }
}
