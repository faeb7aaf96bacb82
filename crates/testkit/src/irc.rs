//! A server of IRC with one channel, for tests of bridges: it records who is in the channel and what was said there.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Lines that may wait for a client.
const MAX_WAITING_LINES: usize = 10_000;

/// A server. It ends when this is dropped.
pub struct FakeIrc {
    pub address: SocketAddr,
    channel: Arc<Mutex<FakeChannel>>,
    _accepting: JoinSet<()>,
}

/// The channel.
#[derive(Default)]
struct FakeChannel {
    connections: u64,
    members: BTreeMap<u64, mpsc::Sender<String>>,
    most_members: usize,
    said: Vec<String>,
    /// What `AUTHENTICATE` must bring, where the server has accounts.
    credentials: Option<String>,
}

impl FakeIrc {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let channel = Arc::new(Mutex::new(FakeChannel::default()));
        let mut accepting = JoinSet::new();
        let shared = channel.clone();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, shared.clone()));
            }
        });
        Self { address, channel, _accepting: accepting }
    }

    /// A server whose connections are made by somebody else, for example with TLS.
    pub fn with_account(credentials: &str) -> Self {
        let channel = FakeChannel { credentials: Some(credentials.to_owned()), ..FakeChannel::default() };
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { address, channel: Arc::new(Mutex::new(channel)), _accepting: JoinSet::new() }
    }

    /// Serves one connection until it ends.
    pub fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        serve(stream, self.channel.clone())
    }

    /// Somebody writes into the channel.
    pub fn say(&self, nick: &str, text: &str) {
        let line = format!(":{nick}!{nick}@test PRIVMSG #lab :{text}");
        for member in self.channel.lock().members.values() {
            let _ = member.try_send(line.clone());
        }
    }

    /// What clients have written into the channel, without the codes that a bridge's lines begin with.
    pub fn said(&self) -> Vec<String> {
        self.channel.lock().said.clone()
    }

    /// How many clients are in the channel, and how many there were at most.
    pub fn members(&self) -> (usize, usize) {
        let channel = self.channel.lock();
        (channel.members.len(), channel.most_members)
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Send + 'static, channel: Arc<Mutex<FakeChannel>>) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    let (sender, mut waiting) = mpsc::channel::<String>(MAX_WAITING_LINES);
    let number = {
        let mut channel = channel.lock();
        channel.connections += 1;
        channel.connections
    };
    loop {
        let answers = tokio::select! {
            line = lines.next_line() => match line {
                Ok(Some(line)) => answer(&line, number, &sender, &channel),
                _ => break,
            },
            Some(line) = waiting.recv() => vec![line],
        };
        let text: String = answers.iter().map(|line| format!("{line}\r\n")).collect();
        if writer.write_all(text.as_bytes()).await.is_err() || writer.flush().await.is_err() {
            break;
        }
    }
    channel.lock().members.remove(&number);
}

fn answer(line: &str, number: u64, sender: &mpsc::Sender<String>, channel: &Mutex<FakeChannel>) -> Vec<String> {
    let mut channel = channel.lock();
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    match command {
        "CAP" if rest.starts_with("LS") => {
            let offered = if channel.credentials.is_some() { "sasl=PLAIN" } else { "" };
            vec![format!(":test CAP * LS :{offered}")]
        }
        "CAP" if rest.starts_with("REQ") => vec![":test CAP * ACK :sasl".into()],
        "CAP" => vec![":test 001 salon :Welcome".into()],
        "AUTHENTICATE" if rest == "PLAIN" => vec!["AUTHENTICATE +".into()],
        "AUTHENTICATE" if Some(rest) == channel.credentials.as_deref() => vec![":test 903 salon :Logged in".into()],
        "AUTHENTICATE" => vec![":test 904 salon :Wrong password".into()],
        "JOIN" => {
            channel.members.insert(number, sender.clone());
            channel.most_members = channel.most_members.max(channel.members.len());
            vec![":salon!s@test JOIN #lab".into(), ":test 366 salon #lab :End".into()]
        }
        "PING" => vec![format!(":test PONG test {rest}")],
        "PRIVMSG" => {
            channel.said.extend(rest.split_once(" :").map(|(_, text)| text.trim_start_matches('\u{f}').to_owned()));
            Vec::new()
        }
        _ => Vec::new(),
    }
}
