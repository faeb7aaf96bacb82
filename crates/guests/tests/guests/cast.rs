//! A room, guests in it, and callers that send exactly what the test says.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use salon_client::{Backoff, Client, Discovery, Event, Events, Gateway, Outgoing, Room, StaticToken};
use salon_guests::upstream::{GuestTarget, UrlTransport};
use salon_guests::{GuestError, GuestStatus, Spec};
use salon_protocol::{Envelope, EnvelopeId, Members, ParticipantId, TopicName};
use salon_testkit::{Scratch, TestEngine, TestOptions, TestToken, within};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const LEGACY: &str = include_str!("legacy.py");
pub(crate) const MODERN: &str = include_str!("modern.py");

pub(crate) struct Stage {
    gateway: salon_testkit::TestGateway,
    scratch: Scratch,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let gateway = salon_testkit::TestGateway::start(TestOptions::new(TestEngine::Sqlite)).await.unwrap();
        Self { gateway, scratch: Scratch::new().unwrap() }
    }

    fn client(&self, id: &str) -> Client {
        let gateway = Gateway::new(&format!("http://{}", self.gateway.address())).unwrap();
        Client::new(gateway, StaticToken::new(self.gateway.token(&TestToken::new(id)).unwrap()))
    }

    /// A file that keeps servers from starting while it is there.
    pub(crate) fn obstacle(&self) -> std::path::PathBuf {
        self.scratch.path().join("obstacle")
    }

    /// Brings a server in under the name `guest`.
    pub(crate) fn guest(&self, script: &str, change: impl FnOnce(&mut Spec)) -> Guest {
        let path = self.scratch.path().join("server.py");
        std::fs::write(&path, script).unwrap();
        let target = GuestTarget::Command {
            program: "python3".into(),
            args: vec!["-u".into(), path.into(), self.obstacle().into()],
            env: Vec::new(),
            cwd: None,
        };
        self.guest_at(target, change)
    }

    /// Brings in whatever is at a target.
    pub(crate) fn guest_at(&self, target: GuestTarget, change: impl FnOnce(&mut Spec)) -> Guest {
        let mut spec = Spec::new("guest", target);
        spec.backoff = Backoff { base: Duration::from_millis(20), cap: Duration::from_millis(50) };
        change(&mut spec);
        let (client, topic) = (self.client("guest"), topic());
        let (told, statuses) = mpsc::unbounded_channel();
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let running = tokio::spawn(async move {
            let watch = move |status| drop(told.send(status));
            salon_guests::run(spec, move || client.room(topic.clone()), stop, watch).await
        });
        Guest { statuses, shutdown, running }
    }

    /// Starts a server behind a URL; port 0 is any.
    pub(crate) async fn web(&self, port: u16) -> Web {
        let path = self.scratch.path().join("web.py");
        std::fs::write(&path, include_str!("web.py")).unwrap();
        let mut command = Command::new("python3");
        let started = command.arg(path).arg(port.to_string()).stdout(Stdio::piped()).kill_on_drop(true).spawn();
        let mut child = started.unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = within("the server's port", said.next_line()).await.unwrap().unwrap().unwrap();
        Web { child, port: port.parse().unwrap() }
    }

    pub(crate) async fn caller(&self, id: &str) -> Caller {
        let entering = self.client(id).room(topic()).answer_by_hand().discovery(Discovery::OnDemand);
        let (room, events) = within("a caller to enter", entering.join_listening()).await.unwrap().unwrap();
        Caller { room, events }
    }

    /// A connection that shares its participant's seat with others.
    pub(crate) async fn session(&self, id: &str) -> Caller {
        let entering = self.client(id).room(topic()).share().answer_by_hand().discovery(Discovery::OnDemand);
        let (room, events) = within("a session to enter", entering.join_listening()).await.unwrap().unwrap();
        Caller { room, events }
    }
}

fn topic() -> TopicName {
    TopicName::new("room:guests").unwrap()
}

/// A server behind a URL.
pub(crate) struct Web {
    child: Child,
    pub(crate) port: u16,
}

impl Web {
    pub(crate) fn target(&self) -> GuestTarget {
        let url = format!("http://127.0.0.1:{}/mcp", self.port);
        GuestTarget::Url { url, headers: Vec::new(), transport: UrlTransport::Auto }
    }

    pub(crate) async fn kill(mut self) {
        within("the server to end", self.child.kill()).await.unwrap().unwrap();
    }
}

pub(crate) struct Guest {
    pub(crate) statuses: mpsc::UnboundedReceiver<GuestStatus>,
    shutdown: CancellationToken,
    pub(crate) running: JoinHandle<Result<(), GuestError>>,
}

impl Guest {
    /// Waits for a status that fits.
    pub(crate) async fn until(&mut self, fits: impl Fn(&GuestStatus) -> bool) -> GuestStatus {
        let mut seen = Vec::new();
        let search = async {
            loop {
                let status = self.statuses.recv().await.expect("the guest goes on");
                if fits(&status) {
                    return status;
                }
                seen.push(status);
            }
        };
        let found = within("a status of the guest", search).await;
        found.unwrap_or_else(|why| panic!("{why}: {seen:?}"))
    }

    pub(crate) async fn here(&mut self) -> GuestStatus {
        self.until(|status| matches!(status, GuestStatus::Here { .. })).await
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        within("the guest to end", self.running).await.unwrap().unwrap().unwrap();
    }
}

pub(crate) struct Caller {
    pub(crate) room: Room,
    events: Events,
}

impl Caller {
    pub(crate) async fn send(&self, payload: &str) -> EnvelopeId {
        self.answer(None, payload).await
    }

    pub(crate) async fn answer(&self, correlation: Option<EnvelopeId>, payload: &str) -> EnvelopeId {
        let to = vec![ParticipantId::new("guest").unwrap()];
        let payload = RawValue::from_string(payload.into()).unwrap();
        let publish = self.room.publish(Outgoing::new(payload).to(to).correlation(correlation));
        within("a message to be stored", publish).await.unwrap().unwrap().id().clone()
    }

    /// A call of a tool, under the id 1 and the progress token 1, like everybody's.
    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> EnvelopeId {
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{{"progressToken":1}}}}}}"#
        ))
        .await
    }

    /// The next envelope that fits.
    pub(crate) async fn until(&mut self, what: &str, fits: impl Fn(&Envelope) -> bool) -> Arc<Envelope> {
        let search = async {
            loop {
                match self.events.next().await.expect("the caller stays") {
                    Event::Envelope(envelope) if fits(&envelope) => return envelope,
                    _ => {}
                }
            }
        };
        within(what, search).await.unwrap()
    }

    /// The guest's next word that is for this caller alone.
    pub(crate) async fn heard(&mut self) -> Arc<Envelope> {
        let me = self.room.id().clone();
        self.until("a word of the guest", |envelope| {
            envelope.from().as_str() == "guest" && envelope.to() == [me.clone()]
        })
        .await
    }

    /// The answer to a request, everything else left out.
    pub(crate) async fn result(&mut self, request: &EnvelopeId) -> Value {
        let answer =
            self.until("an answer", |envelope| envelope.correlation() == Some(request) && is_answer(envelope)).await;
        serde_json::from_str(answer.payload()).unwrap()
    }

    pub(crate) async fn guest_joins(&mut self) {
        self.until("the guest to join", |envelope| is_presence(envelope, "join")).await;
    }

    pub(crate) async fn guest_leaves(&mut self) {
        self.until("the guest to leave", |envelope| is_presence(envelope, "leave")).await;
    }
}

fn is_answer(envelope: &Envelope) -> bool {
    let payload = Members::parse(envelope.payload()).unwrap_or_default();
    payload.get("method").is_none() && envelope.from().as_str() == "guest"
}

fn is_presence(envelope: &Envelope, event: &str) -> bool {
    let payload = envelope.presence().and_then(|_| serde_json::from_str::<Value>(envelope.payload()).ok());
    payload.is_some_and(|payload| payload["event"] == event && payload["participant"]["id"] == "guest")
}

/// The text of a tool's result.
pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))
}
