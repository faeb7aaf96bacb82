//! Real children and real sockets. Scripts are for `sh`, so that nothing has to be installed; a test that a process has ended
//! reads a named pipe that the process held open.

mod children;
mod legacy;
mod modern;
mod probing;
pub(crate) mod server;

use std::path::PathBuf;
use std::time::Duration;

use salon_testkit::{Scratch, within};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;

use super::*;

/// A long time: only a test that fails waits for it.
const LONG: Duration = Duration::from_secs(15);

fn shell(script: &str) -> GuestTarget {
    GuestTarget::Command {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: Vec::new(),
        cwd: None,
    }
}

fn setup() -> UpstreamSetup {
    UpstreamSetup::new("robot")
}

fn verdict(era: Era, wire: WireKind) -> ProbeVerdict {
    ProbeVerdict { eras: vec![era], discovered: None, wire, speech: LegacyDialect::Official }
}

async fn start(script: &str) -> (UpstreamConnection, Inbound) {
    UpstreamConnection::open(&shell(script), &verdict(Era::Legacy, WireKind::Stdio), Era::Legacy, &setup())
        .await
        .unwrap()
}

async fn next(inbound: &mut Inbound) -> Option<UpstreamMessage> {
    within("something from the server", inbound.next()).await.unwrap()
}

async fn message(inbound: &mut Inbound) -> String {
    match next(inbound).await {
        Some(UpstreamMessage::Message { text, .. }) => text.into(),
        other => panic!("a message was expected, not {other:?}"),
    }
}

async fn end(inbound: &mut Inbound) -> String {
    match next(inbound).await {
        Some(UpstreamMessage::Ended { why }) => why,
        other => panic!("the end was expected, not {other:?}"),
    }
}

async fn send(connection: &UpstreamConnection, text: &str) {
    within("a place for the message", connection.send(Outbound::new(text))).await.unwrap().unwrap();
}

/// A named pipe that processes hold open for writing, on descriptor 9. It ends when the last of them has.
struct LifePipe {
    _scratch: Scratch,
    path: PathBuf,
    reader: BufReader<pipe::Receiver>,
    /// Ours, lest the pipe end before anybody has opened it.
    own: pipe::Sender,
}

impl LifePipe {
    async fn new() -> Self {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().join("held");
        let made = tokio::process::Command::new("mkfifo").arg(&path).status().await.unwrap();
        assert!(made.success(), "mkfifo is needed");
        let reader = BufReader::new(pipe::OpenOptions::new().open_receiver(&path).unwrap());
        let own = pipe::OpenOptions::new().open_sender(&path).unwrap();
        Self { _scratch: scratch, path, reader, own }
    }

    /// A script whose processes hold the pipe.
    fn script(&self, script: &str) -> String {
        format!("exec 9>'{}'; {script}", self.path.display())
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        within("a line on the named pipe", self.reader.read_line(&mut line)).await.unwrap().unwrap();
        line.trim_end().to_owned()
    }

    /// Waits until nobody holds the pipe. To be called when somebody does.
    async fn released(mut self) {
        drop(self.own);
        let mut rest = Vec::new();
        within("the end of every process", self.reader.read_to_end(&mut rest)).await.unwrap().unwrap();
    }
}
