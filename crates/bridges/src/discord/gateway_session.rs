//! A session of Discord's gateway as a state machine: what to send, when to send a heartbeat, when to reconnect, and how.
//!
//! Discord API v10, "Gateway": connection lifecycle, heartbeats, resuming. Sans-IO: texts and the time in, steps out. The owner opens the
//! WebSocket at [`GatewaySession::address`], hands over what comes, and obeys the steps.

use std::time::{Duration, Instant};

use serde_json::json;

use super::gateway_payload::{self, DiscordEvent, GatewayPayload};

/// Server messages with their content, deletions and edits: `GUILD_MESSAGES` and `MESSAGE_CONTENT` ("List of Intents").
const INTENTS: u64 = (1 << 9) | (1 << 15);

/// Bounds for what Discord may ask for as the interval of heartbeats; it asks for about 41 s.
const HEARTBEAT_RANGE: (u64, u64) = (100, 300_000);

/// How long after a connect Discord may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);

/// What the owner of a session does next, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum GatewayStep {
    Send(String),
    /// Drop the WebSocket and connect again. A close with code 1000 or 1001 would end the session.
    Reconnect,
    Event(Box<DiscordEvent>),
    /// The session has started or resumed. What happened before a start has to be fetched.
    Online {
        is_resumed: bool,
    },
}

/// How to go on after a WebSocket has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterClose {
    /// Connect again, at [`GatewaySession::address`].
    Reconnect,
    /// A person has to change something.
    Fatal(&'static str),
}

/// One session, over as many connections as it takes.
#[derive(Debug)]
pub struct GatewaySession {
    token: String,
    /// Where to connect for a new session.
    url: String,
    resume: Option<ResumePoint>,
    connection: Option<GatewayConnection>,
}

/// What a session is resumed by.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ResumePoint {
    session_id: String,
    url: String,
    sequence: u64,
}

#[derive(Debug)]
struct GatewayConnection {
    interval: Option<Duration>,
    /// When the next heartbeat is due, or hello must have come.
    deadline: Instant,
    is_acknowledged: bool,
    /// Whether the session has started or resumed on this connection.
    is_online: bool,
}

impl GatewaySession {
    /// `url` is that of `GET /gateway/bot`.
    pub fn new(token: &str, url: &str) -> Self {
        Self { token: token.into(), url: url.into(), resume: None, connection: None }
    }

    /// Where to connect: Discord has an address of its own for resuming.
    pub fn address(&self) -> String {
        let base = self.resume.as_ref().map_or(&self.url, |resume| &resume.url);
        format!("{}/?v=10&encoding=json", base.trim_end_matches('/'))
    }

    /// The WebSocket is open.
    pub fn opened(&mut self, now: Instant) {
        self.connection = Some(GatewayConnection {
            interval: None,
            deadline: now + HELLO_TIMEOUT,
            is_acknowledged: true,
            is_online: false,
        });
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.connection.as_ref().map(|connection| connection.deadline)
    }

    pub fn is_online(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_online)
    }

    /// Takes a text of the gateway. `random` is any number, each as likely as every other.
    pub fn handle_text(&mut self, text: &str, now: Instant, random: u64) -> Vec<GatewayStep> {
        let (Some(payload), Some(connection)) = (gateway_payload::decode(text), &mut self.connection) else {
            return Vec::new();
        };
        match payload {
            GatewayPayload::Hello { heartbeat_interval_ms } => {
                let millis = heartbeat_interval_ms.clamp(HEARTBEAT_RANGE.0, HEARTBEAT_RANGE.1);
                let interval = Duration::from_millis(millis);
                connection.interval = Some(interval);
                // The first one after a random part of the interval, so that clients that reconnect together do not beat together.
                let jitter = (u128::from(millis) * u128::from(random)) >> 64;
                connection.deadline = now + Duration::from_millis(u64::try_from(jitter).unwrap_or(millis));
                vec![GatewayStep::Send(self.introduction())]
            }
            GatewayPayload::HeartbeatRequest => vec![self.heartbeat()],
            GatewayPayload::HeartbeatAck => {
                connection.is_acknowledged = true;
                Vec::new()
            }
            GatewayPayload::Reconnect => vec![GatewayStep::Reconnect],
            GatewayPayload::InvalidSession { is_resumable } => {
                if !is_resumable {
                    self.resume = None;
                }
                vec![GatewayStep::Reconnect]
            }
            GatewayPayload::Dispatch { sequence, event } => self.dispatch(sequence, event),
            GatewayPayload::Other => Vec::new(),
        }
    }

    fn dispatch(&mut self, sequence: u64, event: Box<DiscordEvent>) -> Vec<GatewayStep> {
        if let DiscordEvent::Ready { session_id, resume_url, .. } = &*event {
            let url = if is_websocket(resume_url) { resume_url } else { &self.url };
            self.resume = Some(ResumePoint { session_id: session_id.clone(), url: url.clone(), sequence });
        } else if let Some(resume) = &mut self.resume {
            // An event that comes again, or late, does not move the session back.
            resume.sequence = resume.sequence.max(sequence);
        }
        let online = match *event {
            DiscordEvent::Ready { .. } => Some(false),
            DiscordEvent::Resumed => Some(true),
            _ => None,
        };
        if let (Some(_), Some(connection)) = (online, &mut self.connection) {
            connection.is_online = true;
        }
        let mut steps = vec![GatewayStep::Event(event)];
        steps.extend(online.map(|is_resumed| GatewayStep::Online { is_resumed }));
        steps
    }

    /// The deadline has passed: a heartbeat is due, or the connection is dead.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<GatewayStep> {
        let Some(connection) = &mut self.connection else { return Vec::new() };
        if now < connection.deadline {
            return Vec::new();
        }
        match connection.interval {
            Some(interval) if connection.is_acknowledged => {
                connection.deadline = now + interval;
                connection.is_acknowledged = false;
                vec![self.heartbeat()]
            }
            // "Gateway", "Sending Heartbeats": without an acknowledgement the connection is dead, and the session is to be resumed. Without hello
            // there is nothing to wait for either.
            _ => {
                connection.deadline = now + HELLO_TIMEOUT;
                vec![GatewayStep::Reconnect]
            }
        }
    }

    /// The WebSocket has ended; with a code where Discord closed it.
    pub fn closed(&mut self, code: Option<u16>) -> AfterClose {
        self.connection = None;
        match code {
            Some(4004) => AfterClose::Fatal("Discord does not know the bot's token"),
            Some(4010..=4012) => AfterClose::Fatal("Discord does not speak this version of its gateway any more"),
            Some(4013) => AfterClose::Fatal("Discord does not know the intents that were asked for"),
            Some(4014) => AfterClose::Fatal(
                "the bot may not read messages: switch on the Message Content Intent in the developer portal",
            ),
            // 4007 invalid sequence, 4009 session timed out: a new session has to start. So it has after a close that ends the session.
            Some(1000 | 1001 | 4007 | 4009) => {
                self.resume = None;
                AfterClose::Reconnect
            }
            _ => AfterClose::Reconnect,
        }
    }

    /// Identify, or resume where there is a session.
    fn introduction(&self) -> String {
        let payload = match &self.resume {
            Some(resume) => json!({"op": 6, "d": {
                "token": self.token, "session_id": resume.session_id, "seq": resume.sequence}}),
            None => json!({"op": 2, "d": {
                "token": self.token, "intents": INTENTS,
                "properties": {"os": std::env::consts::OS, "browser": "salon", "device": "salon"}}}),
        };
        payload.to_string()
    }

    fn heartbeat(&self) -> GatewayStep {
        let sequence = self.resume.as_ref().map(|resume| resume.sequence);
        GatewayStep::Send(json!({"op": 1, "d": sequence}).to_string())
    }
}

fn is_websocket(url: &str) -> bool {
    url.starts_with("wss://") || url.starts_with("ws://")
}
