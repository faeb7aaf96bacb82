//! The load generator: one thread, one loop over all client sockets, one read buffer.
//! It shares the machine with what it measures, so a received message costs it a header, a prefix and ten digits. Every
//! reader must get every message of its room once and in order; anything else voids the run.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::procfs::PreciseTimers;
use crate::room::{BenchRoom, PublishPace, Until};
use crate::tls::{LoadStream, SharedClientConfig};
use crate::wire::{FrameFormat, MessageSort, MessageTemplate, ServerFrame, identify};

/// Bytes taken by one read.
const READ: usize = 256 * 1024;
/// The largest message a server may send, a welcome to a crowded room included.
const MAX_FRAME: usize = 4 * 1024 * 1024;
/// A run in which nothing arrives for so long has lost something.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How a client takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadRole {
    /// Sends, and reads like everybody.
    Publisher,
    Reader,
    /// Answers requests, and reads like everybody.
    Callee,
    /// Joins and then never reads.
    Stalled,
}

/// What a run delivered.
pub(crate) struct Delivered {
    pub(crate) messages: u64,
    pub(crate) deliveries: u64,
    /// From the first message sent to the last one received.
    pub(crate) wall: Duration,
    /// Nanoseconds, ascending. Of every message, or of one in so many where there are too many.
    pub(crate) latencies: Vec<u64>,
    /// The longest latency, in nanoseconds; by a schedule, of all messages.
    pub(crate) longest: u64,
    /// By a schedule: how long after they were due messages were sent, in nanoseconds, ascending.
    pub(crate) late: Vec<u64>,
}

/// What to say to a server before being a client of it.
pub(crate) struct ClientGreeting {
    pub(crate) server: SocketAddr,
    /// What the connection is encrypted with, if it is.
    pub(crate) tls: Option<SharedClientConfig>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) expects: Expects,
}

/// What makes a client live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expects {
    /// A switch to WebSocket.
    Upgrade,
    /// A switch to WebSocket, then a first message.
    Welcome,
    /// The answer to a NATS ping.
    Pong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientState {
    New,
    Connecting,
    Upgrading,
    Welcoming,
    Live,
    /// Superseded: whatever it still gets, a close included, is of no interest.
    Retired,
}

struct LoadClient {
    stream: Option<LoadStream>,
    greeting: ClientGreeting,
    room: usize,
    role: LoadRole,
    state: ClientState,
    /// The beginning of a frame whose end has not come yet.
    rest: Vec<u8>,
    out: Vec<u8>,
    written: usize,
    /// The next notification or request, and the next response.
    next: [u32; 2],
    strangers: u64,
    live_after: Duration,
}

/// All clients of one server, or of several with the same rooms.
pub(crate) struct LoadCrowd {
    poll: Poll,
    events: Events,
    wire: FrameFormat,
    clients: Vec<LoadClient>,
    rooms: Vec<BenchRoom>,
    buffer: Vec<u8>,
    epoch: Instant,
    sampled: u32,
    latencies: Vec<u64>,
    longest: u64,
    late: Vec<u64>,
    live: usize,
}

impl LoadCrowd {
    pub(crate) fn new(wire: FrameFormat) -> Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            wire,
            clients: Vec::new(),
            rooms: Vec::new(),
            buffer: vec![0; READ],
            epoch: Instant::now(),
            sampled: 1,
            latencies: Vec::new(),
            longest: 0,
            late: Vec::new(),
            live: 0,
        })
    }

    /// A room whose publisher sends `message`; with `answer`, its callee answers each.
    pub(crate) fn add_room(&mut self, message: MessageTemplate, answer: Option<MessageTemplate>) -> usize {
        self.rooms.push(BenchRoom::new(message, answer));
        self.rooms.len() - 1
    }

    pub(crate) fn rooms(&self) -> usize {
        self.rooms.len()
    }

    /// A client that `connect` will connect. Clients are added between runs, never during one.
    pub(crate) fn add_client(&mut self, room: usize, role: LoadRole, greeting: ClientGreeting) {
        let place = &mut self.rooms[room];
        if role == LoadRole::Publisher {
            place.publisher = Some(self.clients.len());
        }
        if role != LoadRole::Stalled {
            // What was sent before this client came is accounted for as if it had had it too.
            place.readers += 1;
            place.received += u64::from(place.sent) * if place.answer.is_some() { 2 } else { 1 };
        }
        self.clients.push(LoadClient {
            stream: None,
            greeting,
            room,
            role,
            state: ClientState::New,
            rest: Vec::new(),
            out: Vec::new(),
            written: 0,
            next: [place.sent; 2],
            strangers: 0,
            live_after: Duration::ZERO,
        });
    }

    /// Readers stop counting, but their connections stay open.
    pub(crate) fn retire_readers(&mut self) {
        for client in self.clients.iter_mut().filter(|c| c.role == LoadRole::Reader && c.state == ClientState::Live) {
            client.state = ClientState::Retired;
            let room = &mut self.rooms[client.room];
            room.readers -= 1;
            room.received -= u64::from(room.sent);
            self.live -= 1;
        }
    }

    /// Connects every client that is not yet connected, `at_once` at a time, until all are live. Returns how long each took,
    /// from the beginning.
    pub(crate) fn connect(&mut self, at_once: usize) -> Result<Vec<Duration>> {
        let start = Instant::now();
        let waiting: Vec<usize> =
            (0..self.clients.len()).filter(|&at| self.clients[at].state == ClientState::New).collect();
        let goal = self.live + waiting.len();
        let mut begun = 0;
        let mut progress = (Instant::now(), self.live);
        while self.live < goal {
            while begun < waiting.len() && begun - (self.live + waiting.len() - goal) < at_once {
                self.begin(waiting[begun])?;
                begun += 1;
            }
            self.turn(Some(Duration::from_millis(100)), start)?;
            if self.live > progress.1 {
                progress = (Instant::now(), self.live);
            } else if progress.0.elapsed() > STALL_TIMEOUT {
                bail!("{} of {} clients are not live", goal - self.live, waiting.len());
            }
        }
        Ok(waiting.iter().map(|&at| self.clients[at].live_after).collect())
    }

    /// Messages that are not ours (presence, for the most part), over all live clients.
    pub(crate) fn strangers(&self) -> u64 {
        self.clients.iter().map(|client| client.strangers).sum()
    }

    /// Reads without sending until `done` says so of `strangers`, or for `limit`.
    pub(crate) fn listen(&mut self, limit: Duration, done: impl Fn(u64) -> bool) -> Result<()> {
        let start = Instant::now();
        while !done(self.strangers()) {
            let Some(left) = limit.checked_sub(start.elapsed()) else { break };
            self.turn(Some(left), start)?;
        }
        Ok(())
    }

    /// Sends at `pace` until `until`, then waits for all of it to arrive. `tick` is called about every 50 ms.
    pub(crate) fn run(
        &mut self,
        pace: PublishPace,
        until: Until,
        mut tick: impl FnMut() -> Result<()>,
    ) -> Result<Delivered> {
        self.sampled = pace.sampling(until, self.rooms.iter().map(BenchRoom::timed).max().unwrap_or(1));
        self.latencies.clear();
        self.late.clear();
        self.longest = 0;
        let (messages, deliveries) = self.totals();
        let first: Vec<u32> = self.rooms.iter().map(|room| room.sent).collect();
        let interval = pace.interval();
        let start = Instant::now();
        let (began, rooms) = ((start - self.epoch).as_nanos() as u64, self.rooms.len() as u64);
        (0..rooms).zip(&mut self.rooms).for_each(|(turn, room)| room.begin(pace, began, (turn, rooms)));
        let is_scheduled = matches!(pace, PublishPace::Scheduled(_));
        let _timers = is_scheduled.then(PreciseTimers::new);
        let (mut next_due, mut next_tick) = (start, start);
        let mut turns = (0..self.rooms.len()).cycle();
        let mut progress = (start, deliveries);
        loop {
            let now = Instant::now();
            if now >= next_tick {
                tick()?;
                next_tick = now + Duration::from_millis(50);
                let (_, arrived) = self.totals();
                if arrived > progress.1 {
                    progress = (now, arrived);
                } else if now - progress.0 > STALL_TIMEOUT {
                    bail!("{} deliveries are missing", self.rooms.iter().map(BenchRoom::outstanding).sum::<u64>());
                }
            }
            if let Some(interval) = interval {
                while now >= next_due && until.is_open(next_due - start) {
                    next_due += interval;
                    if let Some(turn) = turns.next() {
                        let room = &mut self.rooms[turn];
                        room.due = if matches!(pace, PublishPace::Every(_)) { 1 } else { room.due + 1 };
                    }
                }
            }
            let mut finished = true;
            for (at, &first) in first.iter().enumerate() {
                let left = match until {
                    Until::Elapsed(_) if until.is_open(now - start) => u32::MAX,
                    // What was due in time is sent, however late.
                    Until::Elapsed(_) if is_scheduled => self.rooms[at].due,
                    Until::Elapsed(_) => 0,
                    Until::Sent(count) => count.saturating_sub(self.rooms[at].sent - first),
                };
                let allowed = self.rooms[at].allowance(pace).min(left);
                if allowed > 0 {
                    self.publish(at, allowed)?;
                }
                finished &= left == 0 && self.rooms[at].outstanding() == 0;
            }
            if finished {
                break;
            }
            let is_waiting = interval.is_some() && until.is_open(next_due - start);
            let wake = if is_waiting { next_due.min(next_tick) } else { next_tick };
            let mut wait = wake.saturating_duration_since(now);
            if is_scheduled {
                self.wait_precisely(wait)?;
                wait = Duration::ZERO;
            }
            self.turn(Some(wait), start)?;
        }
        let wall = start.elapsed();
        let (messages_now, deliveries_now) = self.totals();
        let (mut latencies, mut late) = (std::mem::take(&mut self.latencies), std::mem::take(&mut self.late));
        latencies.sort_unstable();
        late.sort_unstable();
        let (messages, deliveries) = (messages_now - messages, deliveries_now - deliveries);
        Ok(Delivered { messages, deliveries, wall, latencies, longest: self.longest, late })
    }

    /// Waits for sockets at most `timeout`, to the microsecond: the timeouts of mio are whole milliseconds.
    fn wait_precisely(&self, timeout: Duration) -> Result<()> {
        if timeout.is_zero() {
            return Ok(());
        }
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let mut sockets = [PollFd::new(self.poll.registry(), PollFlags::IN)];
        match rustix::event::poll(&mut sockets, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn totals(&self) -> (u64, u64) {
        self.rooms.iter().fold((0, 0), |(sent, received), room| (sent + u64::from(room.sent), received + room.received))
    }

    fn begin(&mut self, at: usize) -> Result<()> {
        let greeting = &self.clients[at].greeting;
        let mut stream = TcpStream::connect(greeting.server)?;
        let tls = greeting.tls.clone();
        self.poll.registry().register(&mut stream, Token(at), Interest::READABLE | Interest::WRITABLE)?;
        self.clients[at].stream = Some(LoadStream::new(stream, tls)?);
        self.clients[at].state = ClientState::Connecting;
        Ok(())
    }

    fn publish(&mut self, at: usize, count: u32) -> Result<()> {
        let room = &mut self.rooms[at];
        let client = &mut self.clients[room.publisher.context("a room without a publisher cannot send")?];
        // A socket that takes no more is given no more.
        if !client.out.is_empty() {
            return Ok(());
        }
        let now = self.epoch.elapsed().as_nanos() as u64;
        room.write(count, now, &mut client.out);
        if room.is_scheduled() {
            let sampled = (room.sent - count..room.sent).filter(|sequence| sequence % self.sampled == 0);
            self.late.extend(sampled.map(|sequence| now.saturating_sub(room.began_at(sequence))));
        }
        client.flush()
    }

    /// Waits for sockets at most `timeout`, then reads and writes what they allow.
    fn turn(&mut self, timeout: Option<Duration>, start: Instant) -> Result<()> {
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(1));
        match self.poll.poll(&mut events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => outcome?,
        }
        for event in &events {
            let at = event.token().0;
            if event.is_writable() {
                self.on_writable(at).with_context(|| format!("client {at}"))?;
            }
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                self.on_readable(at, start).with_context(|| format!("client {at}"))?;
            }
        }
        self.events = events;
        Ok(())
    }

    fn on_writable(&mut self, at: usize) -> Result<()> {
        let client = &mut self.clients[at];
        if client.state == ClientState::Connecting {
            let stream = client.stream.as_mut().context("a connecting client has a socket")?.socket();
            if let Some(error) = stream.take_error()? {
                return Err(error).context("cannot connect");
            }
            stream.set_nodelay(true)?;
            client.state =
                if client.greeting.expects == Expects::Pong { ClientState::Welcoming } else { ClientState::Upgrading };
            client.out = client.greeting.bytes.clone();
        }
        client.flush()
    }

    fn on_readable(&mut self, at: usize, start: Instant) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = self.read(at, &mut buffer, start);
        self.buffer = buffer;
        outcome
    }

    fn read(&mut self, at: usize, buffer: &mut Vec<u8>, start: Instant) -> Result<()> {
        loop {
            let client = &mut self.clients[at];
            let Some(stream) = client.stream.as_mut() else { return Ok(()) };
            let held = client.rest.len();
            if held > MAX_FRAME {
                bail!("a frame of more than {MAX_FRAME} bytes");
            }
            if buffer.len() < held + READ {
                buffer.resize(held + READ, 0);
            }
            buffer[..held].copy_from_slice(&client.rest);
            let read = match stream.read(&mut buffer[held..held + READ]) {
                // Where a handshake has just ended, what was to be said can be said now.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return client.flush(),
                Ok(0) | Err(_) if client.state == ClientState::Retired => {
                    client.stream = None;
                    return Ok(());
                }
                Ok(0) => bail!("the server closed the connection"),
                Ok(read) => read,
                Err(error) => return Err(error.into()),
            };
            if client.state == ClientState::Retired {
                continue;
            }
            let data = &buffer[..held + read];
            let used = self.take_in(at, data, start)?;
            let client = &mut self.clients[at];
            client.rest.clear();
            client.rest.extend_from_slice(&data[used..]);
            if client.rest.is_empty() && client.rest.capacity() > READ {
                client.rest = Vec::new();
            }
            client.flush()?;
            if client.role == LoadRole::Stalled && client.state == ClientState::Live {
                let stream = client.stream.as_mut().context("a live client has a socket")?.socket();
                return Ok(self.poll.registry().deregister(stream)?);
            }
            // Edge-triggered: a short read has emptied the socket, and more bytes will be told.
            if read < READ && client.stream.as_ref().is_none_or(LoadStream::ends_with_short_read) {
                return Ok(());
            }
        }
    }

    /// Handles every complete frame of `data` and returns how many bytes those were.
    fn take_in(&mut self, at: usize, data: &[u8], start: Instant) -> Result<usize> {
        let now = self.epoch.elapsed().as_nanos() as u64;
        let client = &mut self.clients[at];
        let room = &mut self.rooms[client.room];
        let mut used = 0;
        if client.state == ClientState::Upgrading {
            let Some(end) = data.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(0) };
            if !data.starts_with(b"HTTP/1.1 101") {
                bail!("refused: {}", String::from_utf8_lossy(data));
            }
            used = end + 4;
            if client.greeting.expects == Expects::Welcome {
                client.state = ClientState::Welcoming;
            } else {
                client.enter(start, &mut self.live);
            }
        }
        let mut received = 0;
        while let Some((frame, len)) = self.wire.next(&data[used..])? {
            used += len;
            let message = match frame {
                ServerFrame::Message(message) => message,
                ServerFrame::Ping(body) => {
                    client.out.extend_from_slice(&self.wire.pong(body));
                    continue;
                }
                ServerFrame::Pong if client.state == ClientState::Welcoming => {
                    client.enter(start, &mut self.live);
                    continue;
                }
                ServerFrame::Pong | ServerFrame::Chatter => continue,
                ServerFrame::Close(reason) => bail!("closed by the server: {}", String::from_utf8_lossy(reason)),
            };
            let Some((sort, sequence)) = identify(message) else {
                if client.state == ClientState::Welcoming {
                    client.enter(start, &mut self.live);
                } else {
                    client.strangers += 1;
                    refuse_error(message)?;
                }
                continue;
            };
            let next = &mut client.next[usize::from(sort == MessageSort::Response)];
            if sequence != *next || sequence >= room.sent {
                bail!("{sort:?} {sequence} came where {next} was due and {} were sent", room.sent);
            }
            *next += 1;
            received += 1;
            let finishes = match sort {
                MessageSort::Notification => true,
                MessageSort::Response => client.role == LoadRole::Publisher,
                MessageSort::Request => false,
            };
            if finishes {
                if client.role == LoadRole::Publisher {
                    room.finished += 1;
                }
                let is_sampled = sequence % self.sampled == 0;
                if is_sampled || room.is_scheduled() {
                    let latency = now.saturating_sub(room.began_at(sequence));
                    self.longest = self.longest.max(latency);
                    if is_sampled {
                        self.latencies.push(latency);
                    }
                }
            }
            if sort == MessageSort::Request && client.role == LoadRole::Callee {
                let answer = room.answer.as_ref().ok_or_else(|| anyhow!("a request came to a room without answers"))?;
                answer.write(sequence, &mut client.out);
            }
        }
        if client.role != LoadRole::Stalled {
            room.received += received;
        }
        Ok(used)
    }
}

impl LoadClient {
    fn enter(&mut self, start: Instant, live: &mut usize) {
        self.state = ClientState::Live;
        self.live_after = start.elapsed();
        *live += 1;
    }

    fn flush(&mut self) -> Result<()> {
        let Some(stream) = self.stream.as_mut() else { return Ok(()) };
        while self.written < self.out.len() {
            match stream.write(&self.out[self.written..]) {
                Ok(0) => bail!("the socket takes nothing"),
                Ok(sent) => self.written += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) if self.state == ClientState::Retired => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.out.clear();
        self.written = 0;
        match stream.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock && self.state != ClientState::Retired => {
                Err(error.into())
            }
            _ => Ok(()),
        }
    }
}

/// A refusal means that the server did not take what it was sent: there is nothing to measure then.
fn refuse_error(message: &[u8]) -> Result<()> {
    let refused = message.windows(16).any(|part| part == br#""event":"error","#.as_slice());
    if refused {
        bail!("refused: {}", String::from_utf8_lossy(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A reader's verdict on a server that answers three messages with these.
    fn verdict(answers: &[u32]) -> Result<u64> {
        let template =
            || MessageTemplate::new(FrameFormat::WebSocket, "room", MessageSort::Notification, "alice", "", 256);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let mut frames = Vec::new();
        template().write(0, &mut frames);
        let incoming = 3 * frames.len();
        frames.clear();
        answers.iter().for_each(|&sequence| template().write(sequence, &mut frames));
        let (answer, _, _) = crate::ceiling::reframe(&mut frames)?;
        let server = std::thread::spawn(move || -> std::io::Result<()> {
            let (mut stream, _) = listener.accept()?;
            stream.read_exact(&mut [0; 5])?;
            stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")?;
            stream.read_exact(&mut vec![0; incoming])?;
            stream.write_all(&answer)?;
            // Until the reader has seen enough and hangs up.
            stream.read(&mut [0]).map(drop)
        });
        let mut crowd = LoadCrowd::new(FrameFormat::WebSocket)?;
        let room = crowd.add_room(template(), None);
        let greeting =
            ClientGreeting { server: address, tls: None, bytes: b"hello".to_vec(), expects: Expects::Upgrade };
        crowd.add_client(room, LoadRole::Publisher, greeting);
        crowd.connect(1)?;
        let outcome = crowd.run(PublishPace::Window(8), Until::Sent(3), || Ok(()));
        drop(crowd);
        server.join().expect("the server thread ends")?;
        outcome.map(|delivered| delivered.deliveries)
    }

    #[test]
    fn only_every_message_once_and_in_order_counts() {
        assert_eq!(verdict(&[0, 1, 2]).unwrap(), 3);
        for wrong in [[0, 1, 1], [0, 2, 1], [1, 2, 3]] {
            let error = format!("{:#}", verdict(&wrong).unwrap_err());
            assert!(error.contains("was due"), "{wrong:?} gave {error}");
        }
    }
}
