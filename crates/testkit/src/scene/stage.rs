//! Plays a scene: who is connected, what was sent, and what is expected to come.

use std::collections::BTreeMap;

use serde_json::Value;

use super::compose::Door;
use super::connection::{Came, Connection};
use super::matching::{Bindings, Named, compare, substitute};
use super::{Line, Scene, Step, Way, Who, With};
use crate::gateway::{Engine, Gateway, Options, Token};
use crate::http::{Answer, Call, EventStream};
use crate::socket::Socket;
use crate::{Failure, eventually, within};

/// Who publishes fences: somebody who is in no room.
pub(crate) const FENCE: &str = "fence";

pub(crate) async fn play(scene: &Scene, engine: Engine) -> Result<(), Failure> {
    let mut options = Options::new(engine);
    for (key, value) in &scene.settings {
        options = options.set(key, value)?;
    }
    let gateway = Gateway::start(options).await?;
    let (address, port) = (gateway.address().to_string(), gateway.address().port().to_string());
    let bindings = [("LF", "\n"), ("CR", "\r"), ("TAB", "\t"), ("ADDRESS", &address), ("PORT", &port)];
    let mut stage = Stage {
        gateway,
        connections: BTreeMap::new(),
        sent: BTreeMap::new(),
        heard: BTreeMap::new(),
        named: Named::default(),
        bindings: bindings.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        transcript: Vec::new(),
        fences: 0,
        requests: 0,
    };
    for line in &scene.steps {
        stage.transcript.push(format!("{:>4}  {}", line.number, shorten(&line.text)));
        // Bounded as a whole: frames that pass by unseen must not keep a step waiting for ever.
        let outcome = within("this step", stage.step(&line.step)).await.and_then(|outcome| outcome);
        outcome.map_err(|told| stage.tell(line, &told))?;
    }
    stage.connections.clear();
    stage.gateway.stop().await
}

pub(crate) struct Stage {
    pub(crate) gateway: Gateway,
    pub(crate) connections: BTreeMap<Who, Connection>,
    /// What was first sent under an id.
    pub(crate) sent: BTreeMap<String, String>,
    /// What somebody got as JSON, by its id.
    pub(crate) heard: BTreeMap<String, String>,
    pub(crate) bindings: Bindings,
    pub(crate) named: Named,
    pub(crate) transcript: Vec<String>,
    pub(crate) fences: usize,
    pub(crate) requests: u64,
}

impl Stage {
    fn tell(&self, line: &Line, told: &str) -> Failure {
        let transcript = self.transcript.join("\n");
        format!("{}: {}\n\n  {told}\n\nwhat happened:\n{transcript}\n", line.number, line.text)
    }

    /// Retries a join until it is refused no longer for the number of connections.
    async fn finally_join(&mut self, join: &Step) -> Result<(), Failure> {
        let what = "a join that is not refused with 429";
        let joined = eventually(what, async || match Box::pin(self.step(join)).await {
            Err(refused) if refused.contains("refused: 429") => None,
            outcome => Some(outcome),
        });
        joined.await?
    }

    async fn step(&mut self, step: &Step) -> Result<(), Failure> {
        match step {
            Step::FinallyJoin(join) => self.finally_join(join).await,
            Step::Name { name, value } => self.named.name(name, value, &mut self.bindings),
            Step::Join { who, topic, way: Way::Mcp { at, over }, with } => {
                self.come_by_mcp(who, topic, (at.as_deref(), *over), with, true).await
            }
            Step::Connect { who, topic, way: Way::Mcp { at, over }, with } => {
                self.come_by_mcp(who, topic, (at.as_deref(), *over), with, false).await
            }
            Step::Join { who, topic, way: Way::Draft { at, over }, with } => {
                self.come_by_mcp(who, topic, (at.as_deref(), *over), &in_draft(with), true).await
            }
            Step::Connect { who, topic, way: Way::Draft { at, over }, with } => {
                self.come_by_mcp(who, topic, (at.as_deref(), *over), &in_draft(with), false).await
            }
            Step::Serve { who, topic, draft, tools } => self.serve(who, topic, *draft, tools).await,
            Step::Offer { who, tools } => match self.connection(who)?.as_served() {
                Some(served) => {
                    served.offer(tools);
                    Ok(())
                }
                None => Err("only a server offers something".into()),
            },
            Step::Join { who, topic, way: Way::Machine { over }, with } => {
                self.come_by_machine(who, topic, *over, with, true).await
            }
            Step::Connect { who, topic, way: Way::Machine { over }, with } => {
                self.come_by_machine(who, topic, *over, with, false).await
            }
            Step::Join { who, topic, way: Way::Framed, with } => self.come_by_framed(who, topic, with).await,
            Step::Connect { way: Way::Mcpx | Way::Framed, .. } => Err("by this door one joins".into()),
            Step::Meet { who, whom, id, capabilities } => self.meet(who, whom, id, capabilities).await,
            Step::Join { who, topic, way: Way::Mcpx, with } => {
                let connected = self.connect(who, topic, with).await?;
                let socket = connected.map_err(|a| format!("the connection was refused: {} {}", a.status, a.body))?;
                self.connections.insert(who.clone(), Connection::socket(socket, topic));
                self.expect_welcome(who, topic).await
            }
            Step::CannotJoin { who, topic, with, refused } => match self.connect(who, topic, with).await? {
                Ok(_) => Err("the connection was not refused".into()),
                Err(answer) => self.expect_refused(&answer, &refused.status, &refused.code),
            },
            Step::Follow { who, topic, with } => {
                let opened = self.follow(who, topic, with).await?;
                let stream = opened.map_err(|a| format!("the stream was refused: {} {}", a.status, a.body))?;
                self.connections.insert(who.clone(), Connection::stream(stream, topic));
                Ok(())
            }
            Step::CannotFollow { who, topic, with, refused } => match self.follow(who, topic, with).await? {
                Ok(_) => Err("the stream was not refused".into()),
                Err(answer) => self.expect_refused(&answer, &refused.status, &refused.code),
            },
            Step::Welcomed { who, expected } => {
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
            Step::Send { who, what } if self.connection(who)?.as_framed().is_some() => {
                self.send_framed(who, what).await
            }
            Step::Send { who, what } => {
                let text = self.compose(who, what)?;
                let text = self.named.write(text);
                self.transcript.push(format!("      {} → {}", who.0, shorten(&text)));
                self.connection(who)?.send(&text).await
            }
            Step::Post { who, topic, envelope, answer } => {
                let envelope = substitute(envelope, &self.bindings);
                let body = self.fill(who, &envelope)?;
                let path = format!("/v0/topics/{topic}/messages");
                let token = self.gateway.token(&Token::new(who.participant()))?;
                let came = Call::new("POST", path).bearer(&token).body(body).send(self.gateway.address()).await?;
                self.expect_answer(answer, &came)
            }
            Step::Flood { who, count, code } => self.flood(who, *count, code).await,
            Step::FloodByPosts { who, topic, count, code } => self.flood_by_posts(who, topic, *count, code).await,
            Step::Get { who, what } => {
                for who in who {
                    self.get(who, what).await.map_err(|told| format!("{}: {told}", who.0))?;
                }
                Ok(())
            }
            Step::Wait { who, what } => {
                for who in who {
                    self.wait(who, what).await.map_err(|told| format!("{}: {told}", who.0))?;
                }
                Ok(())
            }
            Step::Closed { who, code } => {
                for who in who {
                    self.closed(who, *code).await.map_err(|told| format!("{}: {told}", who.0))?;
                }
                Ok(())
            }
            Step::StreamEnds { who } => match self.next(who, Wanted::Close).await? {
                Came::Ended => Ok(()),
                other => Err(format!("the stream went on with {other}")),
            },
            Step::Leave { who } => self.take(who)?.leave().await,
            Step::Break { who } => self.take(who).map(drop),
            Step::Restart => {
                for session in self.connections.values_mut().filter_map(Connection::as_framed) {
                    session.begin_to_wait().await?;
                }
                // Everyone listens meanwhile: a gateway that shuts down waits for its peers to say goodbye.
                let listening = self.connections.values_mut().map(Connection::drain);
                let (restarted, _) = tokio::join!(
                    self.gateway.restart(),
                    within("everyone to be closed", futures_util::future::join_all(listening)),
                );
                restarted
            }
            Step::NoRival => match self.gateway.rival().await? {
                Err(_) => Ok(()),
                Ok(()) => Err("a second gateway started on the same data".into()),
            },
            Step::Ask { who, method, path, with, body, answer } => {
                let mut call = Call::new(method, "");
                let mut token = who.as_ref().map(|who| Token::new(who.participant()));
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

    async fn connect(&mut self, who: &Who, topic: &str, with: &With) -> Result<Result<Socket, Answer>, Failure> {
        let call = self.call(who, topic, Door::Socket, with).await?;
        let offered = call.headers.iter().any(|(name, _)| name == "Sec-WebSocket-Protocol");
        let connected = Socket::connect(self.gateway.address(), call).await?;
        if let Ok(socket) = &connected {
            let expected = offered.then_some("mcpx.v0");
            if socket.subprotocol.as_deref() != expected {
                return Err(format!("expected the subprotocol {expected:?}, came {:?}", socket.subprotocol));
            }
        }
        Ok(connected)
    }

    async fn follow(&mut self, who: &Who, topic: &str, with: &With) -> Result<Result<EventStream, Answer>, Failure> {
        let call = self.call(who, topic, Door::Stream, with).await?;
        EventStream::open(self.gateway.address(), &call).await
    }

    /// The next frame that does not pass by unseen.
    pub(crate) async fn next(&mut self, who: &Who, wanted: Wanted) -> Result<Came, Failure> {
        loop {
            let came = self.connection(who)?.next().await?;
            self.transcript.push(format!("      {} ← {came}", who.0));
            match &came {
                Came::Text(text) if wanted.passes_over(text, who) => {}
                _ => return Ok(came),
            }
        }
    }

    pub(crate) fn connection(&mut self, who: &Who) -> Result<&mut Connection, Failure> {
        self.connections.get_mut(who).ok_or_else(|| format!("{} is not connected", who.0))
    }

    fn take(&mut self, who: &Who) -> Result<Connection, Failure> {
        self.connections.remove(who).ok_or_else(|| format!("{} is not connected", who.0))
    }
}

/// What a step waits for; it decides what passes by unseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Frame,
    Fence,
    Heartbeat,
    OwnPresence,
    Close,
}

impl Wanted {
    fn passes_over(self, text: &str, who: &Who) -> bool {
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
