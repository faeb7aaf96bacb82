//! The broadcast ceiling: a server that only copies frames, as cheaply as this machine allows.
//! A task that reads a batch of messages frames it once, then writes it itself to every socket of the topic; only a
//! socket that would block gets a backlog and its own task's attention. Deliberately absent: tokens, validation,
//! presence, a log, pings, TLS. Whatever a real gateway costs more than this is the price of those.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use bytes::{Buf as _, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;
use tungstenite::handshake::derive_accept_key;

/// Bytes taken by one read, and so the size of one batch.
const READ: usize = 64 * 1024;
/// Connections that may wait to be accepted. With the usual 128 a crowd that comes at once is dropped and tries again after a second.
const BACKLOG: u32 = 4096;
/// What a socket may owe before its connection is dropped.
const MAX_BACKLOG: usize = 16 * 1024 * 1024;
const MAX_MESSAGE: usize = 1024 * 1024;
const MAX_HEAD: usize = 16 * 1024;
const MAX_SLICES: usize = 64;

thread_local! {
    /// One read buffer for each worker: an idle connection holds none.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

type CeilingRooms = Arc<Mutex<HashMap<String, Arc<CeilingRoom>>>>;

#[derive(Default)]
struct CeilingRoom {
    members: Mutex<Vec<Arc<Member>>>,
}

struct Member {
    stream: TcpStream,
    backlog: Mutex<Backlog>,
    behind: Notify,
}

#[derive(Default)]
struct Backlog {
    chunks: VecDeque<Bytes>,
    bytes: usize,
    dropped: bool,
}

/// Runs until it is killed.
pub(crate) fn run(listen: SocketAddr) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let socket = if listen.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(listen).with_context(|| format!("cannot listen on {listen}"))?;
        let listener = socket.listen(BACKLOG)?;
        let rooms = CeilingRooms::default();
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(serve(stream, Arc::clone(&rooms)));
        }
    })
}

async fn serve(stream: TcpStream, rooms: CeilingRooms) {
    // A connection that breaks concerns nobody but its peer.
    let _ = converse(stream, rooms).await;
}

async fn converse(stream: TcpStream, rooms: CeilingRooms) -> Result<()> {
    stream.set_nodelay(true)?;
    let (topic, answer, mut rest) = read_head(&stream).await?;
    let room = Arc::clone(rooms.lock().entry(topic).or_default());
    stream.writable().await?;
    let member = Arc::new(Member { stream, backlog: Mutex::default(), behind: Notify::new() });
    {
        // The answer goes out under the lock of the room, so that no message overtakes it and none is missed.
        let mut members = room.members.lock();
        if member.stream.try_write(answer.as_bytes())? != answer.len() {
            bail!("the peer takes no answer");
        }
        members.push(Arc::clone(&member));
    }
    let outcome = relay(&room, &member, &mut rest).await;
    room.members.lock().retain(|other| !Arc::ptr_eq(other, &member));
    outcome
}

async fn relay(room: &CeilingRoom, member: &Member, rest: &mut Vec<u8>) -> Result<()> {
    let mut behind = false;
    loop {
        tokio::select! {
            ready = member.stream.readable() => {
                ready?;
                if read_batch(room, member, rest)? {
                    return Ok(());
                }
            }
            () = member.behind.notified(), if !behind => behind = true,
            ready = member.stream.writable(), if behind => {
                ready?;
                behind = catch_up(member)?;
            }
        }
    }
}

/// Reads once and passes on every complete message of what was read. True at the end of the stream.
fn read_batch(room: &CeilingRoom, member: &Member, rest: &mut Vec<u8>) -> Result<bool> {
    SCRATCH.with_borrow_mut(|scratch| {
        let read = match member.stream.try_read(scratch) {
            Ok(0) => return Ok(true),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let data: &mut [u8] = if rest.is_empty() {
            &mut scratch[..read]
        } else {
            rest.extend_from_slice(&scratch[..read]);
            rest
        };
        let (batch, used, closed) = reframe(data)?;
        if !batch.is_empty() {
            broadcast(room, &batch);
        }
        if rest.is_empty() {
            rest.extend_from_slice(&scratch[used..read]);
        } else {
            rest.drain(..used);
            if rest.is_empty() {
                *rest = Vec::new();
            }
        }
        Ok(closed)
    })
}

/// Turns the complete client frames in `data` into server frames, one behind the other. Returns them, how many bytes
/// they took, and whether the peer closed.
pub(crate) fn reframe(data: &mut [u8]) -> Result<(Bytes, usize, bool)> {
    let mut batch = BytesMut::with_capacity(data.len());
    let mut used = 0;
    loop {
        let rest = &mut data[used..];
        let (header, len) = match rest {
            [_, second, a, b, ..] if *second & 0x7f == 126 => (4, usize::from(u16::from_be_bytes([*a, *b]))),
            [_, second, long @ ..] if *second & 0x7f == 127 => match long.first_chunk::<8>() {
                Some(len) => (10, usize::try_from(u64::from_be_bytes(*len))?),
                None => break,
            },
            [_, second, ..] if *second & 0x7f < 126 => (2, usize::from(*second & 0x7f)),
            _ => break,
        };
        let (first, masked) = (rest[0], rest[1] & 0x80 != 0);
        if !masked || len > MAX_MESSAGE {
            bail!("an unmasked frame or one of more than {MAX_MESSAGE} bytes");
        }
        let Some(frame) = rest.get_mut(..header + 4 + len) else { break };
        used += frame.len();
        let (head, body) = frame.split_at_mut(header + 4);
        let mask = [head[header], head[header + 1], head[header + 2], head[header + 3]];
        match first {
            0x81 => {
                unmask(body, mask);
                batch.extend_from_slice(&[0x81, head[1] & 0x7f]);
                batch.extend_from_slice(&head[2..header]);
                batch.extend_from_slice(body);
            }
            0x88 => return Ok((batch.freeze(), used, true)),
            _ => {}
        }
    }
    Ok((batch.freeze(), used, false))
}

fn unmask(body: &mut [u8], mask: [u8; 4]) {
    let mut words = body.chunks_exact_mut(4);
    for word in &mut words {
        for (byte, key) in word.iter_mut().zip(mask) {
            *byte ^= key;
        }
    }
    for (byte, key) in words.into_remainder().iter_mut().zip(mask) {
        *byte ^= key;
    }
}

/// Writes `batch` to every member, under the room's lock: that is what makes one order for all.
fn broadcast(room: &CeilingRoom, batch: &Bytes) {
    for member in room.members.lock().iter() {
        let mut backlog = member.backlog.lock();
        let sent = if backlog.chunks.is_empty() { member.stream.try_write(batch).unwrap_or(0) } else { 0 };
        if sent < batch.len() && !backlog.dropped {
            backlog.chunks.push_back(batch.slice(sent..));
            backlog.bytes += batch.len() - sent;
            if backlog.bytes > MAX_BACKLOG {
                *backlog = Backlog { dropped: true, ..Backlog::default() };
            }
            member.behind.notify_one();
        }
    }
}

/// Writes what a member is owed. True while something is left.
fn catch_up(member: &Member) -> Result<bool> {
    let mut backlog = member.backlog.lock();
    if backlog.dropped {
        bail!("the reader is too far behind");
    }
    while !backlog.chunks.is_empty() {
        let slices: Vec<IoSlice<'_>> =
            backlog.chunks.iter().take(MAX_SLICES).map(|chunk| IoSlice::new(chunk)).collect();
        let mut sent = match member.stream.try_write_vectored(&slices) {
            Ok(sent) => sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        drop(slices);
        backlog.bytes -= sent;
        while let Some(chunk) = backlog.chunks.front_mut() {
            if sent < chunk.len() {
                chunk.advance(sent);
                break;
            }
            sent -= chunk.len();
            backlog.chunks.pop_front();
        }
    }
    Ok(false)
}

/// Reads the upgrade request: the topic, the answer to send, and what came behind the request.
async fn read_head(stream: &TcpStream) -> Result<(String, String, Vec<u8>)> {
    let mut head = Vec::new();
    let end = loop {
        stream.readable().await?;
        let mut part = [0; 1024];
        match stream.try_read(&mut part) {
            Ok(0) => bail!("closed before the request ended"),
            Ok(read) => head.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error.into()),
        }
        if let Some(at) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if head.len() > MAX_HEAD {
            bail!("a request of more than {MAX_HEAD} bytes");
        }
    };
    let text = std::str::from_utf8(&head[..end])?;
    let topic = text
        .split_ascii_whitespace()
        .nth(1)
        .and_then(|target| target.split(['?', '&']).find_map(|part| part.strip_prefix("topic=")))
        .context("no topic in the request")?;
    let key = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"))
        .context("no key in the request")?
        .1;
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n",
        derive_accept_key(key.trim().as_bytes())
    );
    Ok((topic.to_owned(), answer, head[end..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_frames_become_server_frames() {
        let mask = [1, 2, 3, 4];
        let mut data = Vec::new();
        let mut expected = Vec::new();
        for len in [0usize, 5, 125, 126, 70_000] {
            let body: Vec<u8> = (0..len).map(|at| b'a' + (at % 26) as u8).collect();
            for (out, masked) in [(&mut data, true), (&mut expected, false)] {
                let bit = if masked { 0x80 } else { 0 };
                out.push(0x81);
                match len {
                    0..=125 => out.push(bit | len as u8),
                    126..=65535 => {
                        out.push(bit | 126);
                        out.extend_from_slice(&(len as u16).to_be_bytes());
                    }
                    _ => {
                        out.push(bit | 127);
                        out.extend_from_slice(&(len as u64).to_be_bytes());
                    }
                }
                if masked {
                    out.extend_from_slice(&mask);
                    out.extend(body.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
                } else {
                    out.extend_from_slice(&body);
                }
            }
        }
        let whole = data.len();
        data.extend_from_slice(&[0x81, 0x85, 1, 2]);
        let (batch, used, closed) = reframe(&mut data).unwrap();
        assert_eq!((&batch[..], used, closed), (&expected[..], whole, false));
    }

    #[test]
    fn a_close_ends_and_an_unmasked_frame_is_refused() {
        assert!(reframe(&mut [0x88, 0x80, 0, 0, 0, 0]).unwrap().2);
        assert!(reframe(&mut [0x81, 0x01, b'a']).is_err());
    }
}
