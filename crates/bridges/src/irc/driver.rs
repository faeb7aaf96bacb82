//! The connection to an IRC server: sockets, TLS, and waiting for the server's confirmation.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use salon_client::Wire;
use salon_client::internal::connect_tls;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::registration::IrcLogin;
use super::session::{IrcOutput, IrcSession};
use crate::clock::now;
use crate::platform::{PlatformAction, PlatformChannel, PlatformEvents, PlatformFailure, PlatformReceipt};
use crate::stream_driver::{ActionOutcome, ActionRequest, CheckTexts, ServerAddress, StreamEnd, StreamPlatform};

/// After so long a silence the server is asked whether it is there; after as long again the connection is given back.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the session looks at the time.
const TICK: Duration = Duration::from_secs(5);
/// The longest line of a server: 512 bytes (RFC 2812 §2.3) and 8,191 of tags (IRCv3 "Message Tags").
const MAX_LINE_BYTES: u64 = 512 + 8_191;
const LIMIT_HINT: &str = "the server may limit connections from one address (ngircd: `MaxConnectionsIP`). Each bridge needs one, and `check` another while the bridge runs: raise the limit for this address, or wait where it counts attempts";

/// A text that the server has not confirmed.
#[derive(Debug)]
struct Unconfirmed {
    channel: PlatformChannel,
    outcome: oneshot::Sender<ActionOutcome>,
    rejection: Option<String>,
}

pub(super) struct IrcPlatform {
    pub(super) is_encrypted: bool,
    /// Certificates to trust beside the system's, as PEM.
    pub(super) roots: Option<Vec<u8>>,
    pub(super) login: IrcLogin,
}

impl StreamPlatform for IrcPlatform {
    const NAME: &'static str = "irc";
    const CHECK: CheckTexts = CheckTexts {
        unreachable_hint: "check `server`, and `tls` if the port is not 6697",
        channel: "channel",
        entered: "joined",
        channel_hint: "let the bridge's nick in, or name another channel",
        login: "login",
        login_hint: "check `nick`, `password_file` and `account`",
    };

    fn login_hint(reason: &str) -> &'static str {
        // Servers word it differently, for example "too many connections from your IP address", "Too many host connections", "throttled". What a server
        // says before it closes the connection can be lost.
        const SIGNS: [&str; 6] =
            ["too many", "throttle", "clones", "connection reset", "broken pipe", "closed the connection"];
        let reason = reason.to_ascii_lowercase();
        if SIGNS.iter().any(|sign| reason.contains(sign)) { LIMIT_HINT } else { Self::CHECK.login_hint }
    }

    async fn open(&self, server: &ServerAddress) -> io::Result<Box<dyn Wire>> {
        let stream = server.connect().await?;
        match self.is_encrypted {
            true => connect_tls(&server.host, stream, self.roots.as_deref()).await,
            false => Ok(Box::new(stream)),
        }
    }

    async fn converse(
        &self,
        wire: Box<dyn Wire>,
        requests: &mut mpsc::Receiver<ActionRequest>,
        events: &PlatformEvents,
        stop: &CancellationToken,
    ) -> Result<(), StreamEnd> {
        let (reader, writer) = tokio::io::split(wire);
        let session = IrcSession::new(self.login.clone());
        let mut connection = IrcConnection { session, writer, events, unconfirmed: HashMap::new(), confirmations: 0 };
        connection.exchange(BufReader::new(reader), requests, stop).await
    }
}

struct IrcConnection<'a> {
    session: IrcSession,
    writer: WriteHalf<Box<dyn Wire>>,
    events: &'a PlatformEvents,
    unconfirmed: HashMap<u64, Unconfirmed>,
    confirmations: u64,
}

impl IrcConnection<'_> {
    async fn exchange(
        &mut self,
        mut reader: BufReader<ReadHalf<Box<dyn Wire>>>,
        requests: &mut mpsc::Receiver<ActionRequest>,
        stop: &CancellationToken,
    ) -> Result<(), StreamEnd> {
        // At once: after the first line, a server that refuses the connection has closed it, and what it said would be lost with the second.
        let lines = self.session.start().into_iter().filter_map(|output| match output {
            IrcOutput::Line(line) => Some(line),
            _ => None,
        });
        self.write(&lines.collect::<Vec<_>>().join("\r\n")).await?;
        let mut line = Vec::new();
        let mut ticks = tokio::time::interval(TICK);
        let mut last_line = tokio::time::Instant::now();
        let mut is_asked = false;
        loop {
            let mut limited = (&mut reader).take(MAX_LINE_BYTES);
            tokio::select! { biased;
                () = stop.cancelled() => {
                    let _ = self.writer.write_all(b"QUIT :the bridge was stopped\r\n").await;
                    return Ok(());
                }
                // `read_until` keeps what it has read so far in `line` when it is dropped.
                read = limited.read_until(b'\n', &mut line) => {
                    if read? == 0 || line.len() as u64 > MAX_LINE_BYTES {
                        return Err(StreamEnd::Lost("the server closed the connection".into()));
                    }
                    if line.ends_with(b"\n") {
                        (last_line, is_asked) = (tokio::time::Instant::now(), false);
                        let text = decoded(&line);
                        line.clear();
                        let outputs = self.session.line(text.trim_end_matches(['\r', '\n']), now());
                        self.perform(outputs).await?;
                    }
                }
                Some(request) = requests.recv() => self.say(request).await?,
                _ = ticks.tick() => {
                    let outputs = self.session.tick(now());
                    self.perform(outputs).await?;
                    let silence = last_line.elapsed();
                    if silence > SILENCE_TIMEOUT * 2 {
                        return Err(StreamEnd::Lost("the server is silent".into()));
                    }
                    if silence > SILENCE_TIMEOUT && !std::mem::replace(&mut is_asked, true) {
                        self.write("PING :salon").await?;
                    }
                }
            }
        }
    }

    async fn say(&mut self, request: ActionRequest) -> Result<(), StreamEnd> {
        let ActionRequest { channel, action, outcome } = request;
        let PlatformAction::Send { text, .. } = action else {
            let _ = outcome.send(Ok(PlatformReceipt::default()));
            return Ok(());
        };
        if !self.session.is_joined(&channel) {
            let _ = outcome.send(Err(PlatformFailure::Offline { reason: format!("not in {channel}") }));
            return Ok(());
        }
        self.confirmations += 1;
        let lines = IrcSession::say(&channel, &text.formatted, self.confirmations);
        self.unconfirmed.insert(self.confirmations, Unconfirmed { channel, outcome, rejection: None });
        for line in lines {
            self.write(&line).await?;
        }
        Ok(())
    }

    async fn write(&mut self, line: &str) -> io::Result<()> {
        self.writer.write_all(format!("{line}\r\n").as_bytes()).await?;
        self.writer.flush().await
    }

    async fn perform(&mut self, outputs: Vec<IrcOutput>) -> Result<(), StreamEnd> {
        for output in outputs {
            match output {
                IrcOutput::Line(line) => self.write(&line).await?,
                IrcOutput::Event(channel, event) => self.events.report(channel, event).await?,
                IrcOutput::Confirmed(token) => {
                    if let Some(pending) = self.unconfirmed.remove(&token) {
                        let _ = pending.outcome.send(match pending.rejection {
                            None => Ok(PlatformReceipt { id: None }),
                            Some(reason) => Err(PlatformFailure::Permanent { reason }),
                        });
                    }
                }
                IrcOutput::Rejected(channel, reason) => {
                    let pending = self.unconfirmed.values_mut().find(|pending| pending.channel == channel);
                    if let Some(pending) = pending {
                        pending.rejection = Some(reason);
                    }
                }
                IrcOutput::Refused(reason) => return Err(StreamEnd::Refused(reason)),
                IrcOutput::Closed(reason) => return Err(StreamEnd::Lost(format!("the server ends it: {reason}"))),
            }
        }
        Ok(())
    }
}

/// UTF-8 where it is, and ISO 8859-1 where it is not, as clients of IRC do.
pub(super) fn decoded(line: &[u8]) -> String {
    match std::str::from_utf8(line) {
        Ok(text) => text.to_owned(),
        Err(_) => line.iter().map(|byte| char::from(*byte)).collect(),
    }
}
