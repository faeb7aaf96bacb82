//! One connection: frames come off it and go to the sessions they name; whatever those answer goes back.
//!
//! Invariants: a frame has one answer. Reading waits for the sessions that take the frames, and they never wait for this connection. A
//! frame that has begun must end in time; silence between frames is allowed for a connection of a session.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::SelectAll;
use salon_dialects::framed::{self, Connect, Decoder, FrameRoute, refuse_header};
use salon_protocol::{Code, ParticipantId, Refusal};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::Instant;

use super::door::{self, FramedConnection, FramedDoor};
use crate::carriers::{Answers, LineInput, MAX_LINES, NotOpened, SessionLines, Socket};
use crate::clock;
use crate::http::Requester;
use crate::http::guard::pace;

/// What is read at once.
const READ_BUFFER: usize = 8 * 1024;

/// How many sessions one connection may use at once.
const MAX_SESSIONS: usize = 64;

/// The most bytes of a body that a connection without a session is simply read. Larger ones share what strangers may take together.
const MAX_UNRESERVED_BODY: usize = 64 << 10;

/// How many answers of the connection's own may wait to be written.
const OUTGOING: usize = 16;

/// How long a peer has to hang up after the last word.
const CLOSING_TIME: Duration = Duration::from_secs(2);

/// What is to be written.
enum WriterCommand {
    /// An answer that is no session's.
    Say(Box<[u8]>),
    /// A session answers from now on.
    Hear(Answers),
    /// The last word.
    Last(Box<[u8]>),
    /// Once every session has ended, there is nothing more.
    Stop,
}

/// How reading ended.
enum ReadEnd {
    HungUp,
    /// The peer gets the reason, and nothing more.
    Because(Box<[u8]>),
}

pub(super) async fn serve(door: Arc<FramedDoor>, socket: Socket, peer: SocketAddr, stop: watch::Receiver<bool>) {
    let gateway = &door.gateway;
    let (mut read, write) = tokio::io::split(socket);
    let (out, outgoing) = mpsc::channel(OUTGOING);
    let (stall, max_body) = (gateway.config.timings.frame_timeout, gateway.max_message());
    let caller = FramedConnection { door, peer };
    let mut reader = Reader {
        caller,
        stop,
        stopping: false,
        stall,
        decoder: Decoder::new(max_body),
        lines: HashMap::new(),
        sender: None,
        room: None,
        out,
    };
    let writing = write_all(write, outgoing);
    tokio::pin!(writing);
    let ending = tokio::select! { biased;
        written = &mut writing => match written {
            Ok(()) => return hang_up(&mut read).await,
            Err(error) => return tracing::debug!(%error, "connection: ended with an error"),
        },
        ending = reader.read(&mut read) => ending,
    };
    if let ReadEnd::Because(last) = ending {
        reader.pace().await;
        // A writer that has ended has nobody to tell.
        let _ = reader.out.send(WriterCommand::Last(last)).await;
        if writing.await.is_ok() {
            hang_up(&mut read).await;
        }
    }
}

/// Says one thing and closes. Its caller limits how long that takes.
pub(super) async fn refuse(socket: Socket, answer: &[u8]) -> io::Result<()> {
    let (mut read, mut write) = tokio::io::split(socket);
    write.write_all(answer).await?;
    write.shutdown().await?;
    hang_up(&mut read).await;
    Ok(())
}

/// Waits for the peer to end its side. Closing at once would, with bytes of the peer's still unread, make the system throw away
/// what it has yet to deliver.
async fn hang_up(read: &mut (impl AsyncRead + Unpin)) {
    let mut waste = [0; 1024];
    let ended = async { while read.read(&mut waste).await.is_ok_and(|count| count > 0) {} };
    let _ = tokio::time::timeout(CLOSING_TIME, ended).await;
}

async fn write_all(mut write: impl AsyncWrite + Unpin, mut outgoing: mpsc::Receiver<WriterCommand>) -> io::Result<()> {
    let mut answers = SelectAll::new();
    let mut stopping = false;
    loop {
        if stopping && answers.is_empty() && outgoing.is_empty() {
            break;
        }
        let (bytes, last) = tokio::select! { biased;
            out = outgoing.recv() => match out {
                None => return Ok(()),
                Some(WriterCommand::Say(bytes)) => (bytes.into_vec().into(), false),
                Some(WriterCommand::Last(bytes)) => (bytes.into_vec().into(), true),
                Some(WriterCommand::Hear(heard)) => {
                    answers.push(heard);
                    continue;
                }
                Some(WriterCommand::Stop) => {
                    stopping = true;
                    continue;
                }
            },
            answer = answers.next(), if !answers.is_empty() => match answer {
                Some(answer) => (answer?, false),
                None => continue,
            },
        };
        write.write_all(&bytes).await?;
        write.flush().await?;
        if last {
            break;
        }
    }
    write.shutdown().await
}

struct Reader {
    caller: FramedConnection,
    stop: watch::Receiver<bool>,
    stopping: bool,
    stall: Duration,
    decoder: Decoder,
    /// The sessions this connection uses, and some it has used that have ended.
    lines: HashMap<Box<str>, LineInput>,
    /// The participant whose session this connection has used last: it pays for frames that reach none.
    sender: Option<ParticipantId>,
    /// For a large frame that has begun, and belongs to no session yet.
    room: Option<OwnedSemaphorePermit>,
    out: mpsc::Sender<WriterCommand>,
}

impl Reader {
    async fn read(&mut self, read: &mut (impl AsyncRead + Unpin)) -> ReadEnd {
        let mut buffer = vec![0; READ_BUFFER];
        // By when the frame that has begun must end, or a stranger must have begun one.
        let mut due = Instant::now() + self.stall;
        let mut had_begun = false;
        loop {
            match self.decoder.next_frame() {
                Ok(Some(frame)) => {
                    if self.dispatch(frame).await.is_err() {
                        return ReadEnd::HungUp;
                    }
                    self.room = None;
                    // What came with it begins the next one only now.
                    due = Instant::now() + self.stall;
                    had_begun = false;
                    continue;
                }
                Ok(None) => {}
                Err(broken) => return self.ending(Code::TooLarge, broken.to_string()),
            }
            if let Err(ending) = self.make_room() {
                return ending;
            }
            let begun = self.decoder.has_begun();
            if begun && !had_begun {
                due = Instant::now() + self.stall;
            }
            had_begun = begun;
            let limited = begun || self.lines.is_empty();
            tokio::select! { biased;
                () = async { drop(self.stop.wait_for(|stop| *stop).await) }, if !self.stopping => {
                    self.stopping = true;
                    if self.out.send(WriterCommand::Stop).await.is_err() {
                        return ReadEnd::HungUp;
                    }
                }
                count = read.read(&mut buffer) => match count {
                    Ok(0) | Err(_) => return ReadEnd::HungUp,
                    Ok(count) => self.decoder.push(&buffer[..count]),
                },
                () = tokio::time::sleep_until(due), if limited => {
                    let seconds = self.stall.as_secs_f64();
                    let message = match begun {
                        true => format!("a frame that has begun must be whole within {seconds} s"),
                        false => format!("nothing was said for {seconds} s, and no session is connected here"),
                    };
                    return self.ending(Code::Timeout, message);
                }
            }
        }
    }

    /// A connection without a session may be anybody's: what anybody can have the gateway hold is bounded for all of them together.
    fn make_room(&mut self) -> Result<(), ReadEnd> {
        let body = self.decoder.announced().unwrap_or_default();
        if !self.lines.is_empty() || body <= MAX_UNRESERVED_BODY || self.room.is_some() {
            return Ok(());
        }
        self.room = self.caller.door.room_for(body);
        if self.room.is_some() {
            return Ok(());
        }
        let message = format!(
            "a connection that no session uses yet has no room for a body of {body} bytes now; begin with a smaller frame"
        );
        Err(self.ending(Code::RateLimited, message))
    }

    fn ending(&self, code: Code, message: String) -> ReadEnd {
        self.record_refusal(code, &Requester::default());
        ReadEnd::Because(refuse_header(self.decoder.header(), &Refusal::new(code, message), clock::now()))
    }

    /// Brings a frame to the session or the door that answers it. An error is the connection's end.
    async fn dispatch(&mut self, frame: Box<[u8]>) -> Result<(), WriterClosed> {
        if self.stopping {
            let refusal = Refusal::new(Code::Closing, "the gateway is shutting down");
            self.record_refusal(refusal.code, &Requester::default());
            return self.say(framed::refuse(&frame, &refusal, clock::now())).await;
        }
        match framed::route(&frame) {
            FrameRoute::Refused(refusal) => self.refuse(&frame, &refusal).await,
            FrameRoute::Connect(connect) => {
                let requester = Requester::default();
                match self.connect(&connect, &requester) {
                    Ok((id, way)) => {
                        let who = requester.get().map(|(participant, _)| participant);
                        self.open(id, &way, who, frame).await
                    }
                    Err(refusal) => self.refuse_to(&requester, &frame, &refusal).await,
                }
            }
            FrameRoute::Session(id) => self.pass(id, frame).await,
        }
    }

    fn connect(&mut self, connect: &Connect, requester: &Requester) -> Result<(Box<str>, SessionLines), Refusal> {
        self.room_for_one()?;
        let (visitor, topic) = self.caller.verify(connect)?;
        requester.set(&visitor.grant.participant, Some(&topic));
        self.caller.door.begin(&visitor, &topic)
    }

    fn room_for_one(&mut self) -> Result<(), Refusal> {
        if self.lines.len() >= MAX_SESSIONS {
            self.lines.retain(|_, line| !line.is_closed());
        }
        if self.lines.len() < MAX_SESSIONS {
            return Ok(());
        }
        Err(Refusal::new(Code::RateLimited, format!("one connection may use {MAX_SESSIONS} sessions at once")))
    }

    async fn pass(&mut self, id: Box<str>, frame: Box<[u8]>) -> Result<(), WriterClosed> {
        let mut frame = frame;
        if let Some(line) = self.lines.get(&id) {
            frame = match line.send(frame).await {
                Ok(()) => return Ok(()),
                Err(frame) => frame,
            };
            self.lines.remove(&id);
        }
        let found = self.room_for_one().and_then(|()| self.caller.door.find(&id).ok_or_else(door::unknown));
        match found {
            Ok((way, who)) => self.open(id, &way, Some(who), frame).await,
            Err(refusal) => self.refuse(&frame, &refusal).await,
        }
    }

    async fn open(
        &mut self,
        id: Box<str>,
        way: &SessionLines,
        who: Option<ParticipantId>,
        frame: Box<[u8]>,
    ) -> Result<(), WriterClosed> {
        let (line, answers) = match way.open().await {
            Ok(opened) => opened,
            Err(NotOpened::Ended) => return self.refuse(&frame, &door::unknown()).await,
            Err(NotOpened::Full) => {
                let message = format!("one session may be used over {MAX_LINES} connections at once");
                return self.refuse(&frame, &Refusal::new(Code::RateLimited, message)).await;
            }
        };
        self.out.send(WriterCommand::Hear(answers)).await.map_err(|_| WriterClosed)?;
        match line.send(frame).await {
            Ok(()) => {
                self.lines.insert(id, line);
                self.sender = who;
                Ok(())
            }
            Err(frame) => self.refuse(&frame, &door::unknown()).await,
        }
    }

    fn record_refusal(&self, code: Code, requester: &Requester) {
        self.caller.door.gateway.refused(code, requester, self.caller.peer.ip());
    }

    /// Refuses a frame that reaches no session.
    async fn refuse(&self, frame: &[u8], refusal: &Refusal) -> Result<(), WriterClosed> {
        self.refuse_to(&Requester::default(), frame, refusal).await
    }

    /// Refuses a frame, which spends the rate of its sender like a message, as far as it is known whose it is. Nothing more is read while an
    /// address that is refused too often waits.
    async fn refuse_to(&self, requester: &Requester, frame: &[u8], refusal: &Refusal) -> Result<(), WriterClosed> {
        let who = requester.get().map(|(participant, _)| participant).or_else(|| self.sender.clone());
        let spent = who.map(|who| self.caller.door.gateway.spend(&who, refusal.clone()));
        let refusal = spent.as_ref().unwrap_or(refusal);
        self.record_refusal(refusal.code, requester);
        self.pace().await;
        self.say(framed::refuse(frame, refusal, clock::now())).await
    }

    async fn say(&self, answer: Box<[u8]>) -> Result<(), WriterClosed> {
        self.out.send(WriterCommand::Say(answer)).await.map_err(|_| WriterClosed)
    }

    /// Counts a refusal of the connection's address, and waits where there were too many.
    async fn pace(&self) {
        pace(&self.caller.door.gateway.refusals, self.caller.peer.ip()).await;
    }
}

/// Nobody takes answers any more.
struct WriterClosed;
