//! Plays a scene: who is connected, what was sent, and what is expected to come.

use std::collections::BTreeMap;
use std::time::Duration;

use salon_protocol::Timestamp;
use serde_json::Value;

use super::compose::SceneDoor;
use super::connection::{Came, SceneConnection};
use super::matching::{Bindings, NamedValues, compare, substitute};
use super::{ConnectionName, Scene, SceneLine, SceneStep, SceneWay, With};
use crate::gateway::{TestEngine, TestGateway, TestOptions, TestToken};
use crate::http::{EventStream, HttpAnswer, HttpCall};
use crate::socket::TestSocket;
use crate::{Failure, eventually, within};

/// How far ahead of a step `$SOON` is: further than the step takes, and no longer than a scene can wait for.
const SOON: Duration = Duration::from_secs(3);

/// Who publishes fences: somebody who is in no room.
pub(crate) const FENCE: &str = "fence";

pub(crate) async fn play(scene: &Scene, engine: TestEngine) -> Result<(), Failure> {
    let mut options = TestOptions::new(engine);
    for (key, value) in &scene.settings {
        options = options.set(key, value)?;
    }
    let gateway = TestGateway::start(options).await?;
    let (address, port) = (gateway.address().to_string(), gateway.address().port().to_string());
    let bindings = [("LF", "\n"), ("CR", "\r"), ("TAB", "\t"), ("ADDRESS", &address), ("PORT", &port)];
    let mut stage = SceneStage {
        gateway,
        connections: BTreeMap::new(),
        sent: BTreeMap::new(),
        last_ids: BTreeMap::new(),
        named: NamedValues::default(),
        bindings: bindings.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        transcript: Vec::new(),
        fences: 0,
        requests: 0,
    };
    for line in &scene.steps {
        let soon = Timestamp::from_system(std::time::SystemTime::now() + SOON);
        stage.bindings.insert("SOON".to_owned(), soon.to_string());
        stage.transcript.push(format!("{:>4}  {}", line.number, shorten(&line.text)));
        // Bounded as a whole: frames that pass by unseen must not keep a step waiting for ever.
        let outcome = within("this step", stage.step(&line.step)).await.and_then(|outcome| outcome);
        outcome.map_err(|told| stage.tell(line, &told))?;
    }
    stage.connections.clear();
    stage.gateway.stop().await
}

pub(crate) struct SceneStage {
    pub(crate) gateway: TestGateway,
    pub(crate) connections: BTreeMap<ConnectionName, SceneConnection>,
    /// What was first sent under an id.
    pub(crate) sent: BTreeMap<String, String>,
    /// What somebody got as JSON, by its id.
    pub(crate) last_ids: BTreeMap<String, String>,
    pub(crate) bindings: Bindings,
    pub(crate) named: NamedValues,
    pub(crate) transcript: Vec<String>,
    pub(crate) fences: usize,
    pub(crate) requests: u64,
}

impl SceneStage {
    fn tell(&self, line: &SceneLine, told: &str) -> Failure {
        let transcript = self.transcript.join("\n");
        format!("{}: {}\n\n  {told}\n\nwhat happened:\n{transcript}\n", line.number, line.text)
    }

    /// Retries a join until it is refused no longer for the number of connections.
    async fn finally_join(&mut self, join: &SceneStep) -> Result<(), Failure> {
        let what = "a join that is not refused with 429";
        let joined = eventually(what, async || match Box::pin(self.step(join)).await {
            Err(refused) if refused.contains("refused: 429") => None,
            outcome => Some(outcome),
        });
        joined.await?
    }

    async fn step(&mut self, step: &SceneStep) -> Result<(), Failure> {
        match step {
            SceneStep::FinallyJoin(join) => self.finally_join(join).await,
            SceneStep::Name { name, value } => self.named.name(name, value, &mut self.bindings),
            SceneStep::Join { who, topic, way: SceneWay::Mcp { at, over }, with } => {
                self.come_by_mcp(who, topic, (at.as_deref(), *over), with, true).await
            }
            SceneStep::Connect { who, topic, way: SceneWay::Mcp { at, over }, with } => {
                self.come_by_mcp(who, topic, (at.as_deref(), *over), with, false).await
            }
            SceneStep::Join { who, topic, way: SceneWay::Draft { at, over }, with } => {
                self.come_by_mcp(who, topic, (at.as_deref(), *over), &in_draft(with), true).await
            }
            SceneStep::Connect { who, topic, way: SceneWay::Draft { at, over }, with } => {
                self.come_by_mcp(who, topic, (at.as_deref(), *over), &in_draft(with), false).await
            }
            SceneStep::Serve { who, topic, draft, tools } => self.serve(who, topic, *draft, tools).await,
            SceneStep::Offer { who, tools } => match self.connection(who)?.as_served() {
                Some(served) => {
                    served.offer(tools);
                    Ok(())
                }
                None => Err("only a server offers something".into()),
            },
            SceneStep::Join { who, topic, way: SceneWay::Machine { over }, with } => {
                self.come_by_machine(who, topic, *over, with, true).await
            }
            SceneStep::Connect { who, topic, way: SceneWay::Machine { over }, with } => {
                self.come_by_machine(who, topic, *over, with, false).await
            }
            SceneStep::Join { who, topic, way: SceneWay::Framed, with } => self.come_by_framed(who, topic, with).await,
            SceneStep::Connect { way: SceneWay::Mcpx | SceneWay::Framed, .. } => Err("by this door one joins".into()),
            SceneStep::Meet { who, whom, id, capabilities } => self.meet(who, whom, id, capabilities).await,
            SceneStep::Join { who, topic, way: SceneWay::Mcpx, with } => {
                let connected = self.connect(who, topic, with).await?;
                let socket = connected.map_err(|a| format!("the connection was refused: {} {}", a.status, a.body))?;
                self.connections.insert(who.clone(), SceneConnection::socket(socket, topic));
                self.expect_welcome(who, topic).await
            }
            SceneStep::CannotJoin { who, topic, with, refused } => match self.connect(who, topic, with).await? {
                Ok(_) => Err("the connection was not refused".into()),
                Err(answer) => self.expect_refused(&answer, &refused.status, &refused.code),
            },
            SceneStep::Follow { who, topic, with } => {
                let opened = self.follow(who, topic, with).await?;
                let stream = opened.map_err(|a| format!("the stream was refused: {} {}", a.status, a.body))?;
                self.connections.insert(who.clone(), SceneConnection::stream(stream, topic));
                Ok(())
            }
            SceneStep::CannotFollow { who, topic, with, refused } => match self.follow(who, topic, with).await? {
                Ok(_) => Err("the stream was not refused".into()),
                Err(answer) => self.expect_refused(&answer, &refused.status, &refused.code),
            },
            SceneStep::Welcomed { who, expected } => {
                let is_client = self.connection(who)?.client.is_some();
                if is_client {
                    self.expect_introduction(who).await?;
                }
                let welcome = self.connection(who)?.welcome.clone();
                let payload: Value = serde_json::from_str(&welcome).map_err(|e| e.to_string())?;
                if let Some(terms) = &expected.listing {
                    self.expect_listing(terms, &welcome, &["payload", "history", "recent"])?;
                }
                let Some(wanted) = &expected.json else { return Ok(()) };
                let said = match (is_client, self.connection(who)?.as_framed().is_some()) {
                    (_, true) => &payload,
                    (true, _) => &payload["result"],
                    (false, _) => &payload["payload"],
                };
                compare(wanted, said, &mut self.bindings).map_err(|told| format!("{told}\n  in {said}"))
            }
            SceneStep::Send { who, what } if self.connection(who)?.as_framed().is_some() => {
                self.send_framed(who, what).await
            }
            SceneStep::Send { who, what } => {
                let text = self.compose(who, what)?;
                let text = self.named.write(text);
                self.transcript.push(format!("      {} → {}", who.0, shorten(&text)));
                self.connection(who)?.send(&text).await
            }
            SceneStep::Post { who, topic, envelope, answer } => {
                let envelope = substitute(envelope, &self.bindings);
                let body = self.fill(who, &envelope)?;
                let path = format!("/v0/topics/{topic}/messages");
                let token = self.gateway.token(&TestToken::new(who.participant()))?;
                let came = HttpCall::new("POST", path).bearer(&token).body(body).send(self.gateway.address()).await?;
                self.expect_answer(answer, &came)
            }
            SceneStep::Flood { who, count, code } => self.flood(who, *count, code).await,
            SceneStep::FloodByPosts { who, topic, count, code } => self.flood_by_posts(who, topic, *count, code).await,
            SceneStep::Get { who, what } => {
                for who in who {
                    self.get(who, what).await.map_err(|told| format!("{}: {told}", who.0))?;
                }
                Ok(())
            }
            SceneStep::Wait { who, what } => {
                for who in who {
                    self.wait(who, what).await.map_err(|told| format!("{}: {told}", who.0))?;
                }
                Ok(())
            }
            SceneStep::Closed { who, code } => {
                for who in who {
                    self.closed(who, *code).await.map_err(|told| format!("{}: {told}", who.0))?;
                }
                Ok(())
            }
            SceneStep::StreamEnds { who } => match self.next(who, AwaitedFrame::Close).await? {
                Came::Ended => Ok(()),
                other => Err(format!("the stream went on with {other}")),
            },
            SceneStep::EnterGhost { who, ghost, more, refused } => {
                self.enter_ghost(who, ghost, more, refused.as_deref()).await
            }
            SceneStep::RemoveGhost { who, ghost, reason } => self.remove_ghost(who, ghost, reason.as_deref()).await,
            SceneStep::Leave { who } => self.take(who)?.leave().await,
            SceneStep::Break { who } => self.take(who).map(drop),
            SceneStep::Restart => {
                for session in self.connections.values_mut().filter_map(SceneConnection::as_framed) {
                    session.begin_to_wait().await?;
                }
                // Everyone listens meanwhile: a gateway that shuts down waits for its peers to say goodbye.
                let listening = self.connections.values_mut().map(SceneConnection::drain);
                let (restarted, _) = tokio::join!(
                    self.gateway.restart(),
                    within("everyone to be closed", futures_util::future::join_all(listening)),
                );
                restarted
            }
            SceneStep::NoRival => match self.gateway.rival().await? {
                Err(_) => Ok(()),
                Ok(()) => Err("a second gateway started on the same data".into()),
            },
            SceneStep::Ask { who, method, path, with, body, answer } => {
                let mut call = HttpCall::new(method, "");
                let mut token = who.as_ref().map(|who| TestToken::new(who.participant()));
                for (key, value) in with {
                    match (key.strip_prefix("token."), &mut token) {
                        (Some(claim), Some(token)) => token.claim(claim, value)?,
                        _ => call = call.header(key, value),
                    }
                }
                let token = token.map(|token| self.gateway.token(&token)).transpose()?;
                self.bindings.insert("TOKEN".into(), token.clone().unwrap_or_default());
                call.path = substitute(path, &self.bindings);
                call.body = substitute(body, &self.bindings);
                for (_, value) in &mut call.headers {
                    *value = substitute(value, &self.bindings);
                }
                let authorized = call.headers.iter().any(|(name, _)| name == "Authorization");
                if let Some(token) = token.filter(|_| !authorized) {
                    call = call.bearer(&token);
                }
                let came = call.send(self.gateway.address()).await?;
                self.expect_answer(answer, &came)
            }
        }
    }

    async fn connect(
        &mut self,
        who: &ConnectionName,
        topic: &str,
        with: &With,
    ) -> Result<Result<TestSocket, HttpAnswer>, Failure> {
        let call = self.call(who, topic, SceneDoor::Socket, with).await?;
        let offered = call.headers.iter().any(|(name, _)| name == "Sec-WebSocket-Protocol");
        let connected = TestSocket::connect(self.gateway.address(), call).await?;
        if let Ok(socket) = &connected {
            let expected = offered.then_some("mcpx.v0");
            if socket.subprotocol.as_deref() != expected {
                return Err(format!("expected the subprotocol {expected:?}, came {:?}", socket.subprotocol));
            }
        }
        Ok(connected)
    }

    async fn follow(
        &mut self,
        who: &ConnectionName,
        topic: &str,
        with: &With,
    ) -> Result<Result<EventStream, HttpAnswer>, Failure> {
        let call = self.call(who, topic, SceneDoor::Stream, with).await?;
        EventStream::open(self.gateway.address(), &call).await
    }

    /// The next frame that does not pass by unseen.
    pub(crate) async fn next(&mut self, who: &ConnectionName, wanted: AwaitedFrame) -> Result<Came, Failure> {
        loop {
            let came = self.connection(who)?.next().await?;
            self.transcript.push(format!("      {} ← {came}", who.0));
            match &came {
                Came::Text(text) if wanted.passes_over(text, who) => {}
                _ => return Ok(came),
            }
        }
    }

    pub(crate) fn connection(&mut self, who: &ConnectionName) -> Result<&mut SceneConnection, Failure> {
        self.connections.get_mut(who).ok_or_else(|| format!("{} is not connected", who.0))
    }

    fn take(&mut self, who: &ConnectionName) -> Result<SceneConnection, Failure> {
        self.connections.remove(who).ok_or_else(|| format!("{} is not connected", who.0))
    }
}

/// What a step waits for; it decides what passes by unseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AwaitedFrame {
    Frame,
    Fence,
    Heartbeat,
    OwnPresence,
    Close,
}

impl AwaitedFrame {
    fn passes_over(self, text: &str, who: &ConnectionName) -> bool {
        let Ok(frame) = serde_json::from_str::<Value>(text) else { return false };
        if frame["from"] == FENCE || frame["sender"] == FENCE || frame["header"]["source"] == FENCE {
            return self != Self::Fence;
        }
        if frame["kind"] != "presence" {
            return false;
        }
        match self {
            Self::Close => true,
            _ if frame["payload"]["event"] == "heartbeat" => self != Self::Heartbeat,
            Self::OwnPresence => false,
            _ => frame["payload"]["participant"]["id"] == who.participant(),
        }
    }
}

/// The `with` of a client that speaks the draft dialect.
fn in_draft(with: &With) -> With {
    with.iter().cloned().chain([("draft".into(), "true".into())]).collect()
}

pub(crate) fn shorten(text: &str) -> String {
    const LONG: usize = 400;
    if text.chars().count() <= LONG { text.to_owned() } else { text.chars().take(LONG).chain(['…']).collect() }
}
