//! `salon demo`: a room that needs nothing, with a robot and two agents in it, shown as it lives.
//!
//! Everybody comes in by the door that others use: the participants by WebSocket, the transcript by the event stream.
//! Deliberately absent: any short cut into the gateway.

mod arithmetic;
mod audience;
mod calc;
mod coordinator;
mod hearing;
mod invitation;
mod rover;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use salon_client::mcp::ToolResult;
use salon_client::{Client, Events, Gateway, Room, StaticToken, ToolError, Toolbox};
use salon_gateway::Entrances;
use salon_gateway::auth::{Grant, LocalKey, SignInLinks, Signer};
use salon_gateway::config::Config;
use salon_protocol::{ParticipantId, ParticipantKind, Timestamp, TopicName, TopicPattern};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use self::audience::Audience;
use self::rover::Rover;
use crate::args::DemoArgs;
use crate::scratch::PrivateScratch;
use crate::signals::Stop;
use crate::transcript::LineTranscript;
use crate::trouble::Trouble;
use crate::{clock, hand_over, serve};

const TOPIC: &str = "room:demo";
const ROVER: &str = "rover";
const CALC: &str = "calc";
const COORDINATOR: &str = "coordinator";
const CAST: [&str; 3] = [ROVER, CALC, COORDINATOR];

/// How long tokens are good for: longer than any demo. They are invalid without this gateway.
const TOKEN_TIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How long a leave may take to be seen.
const LEAVE_TIME: Duration = Duration::from_secs(5);

/// A spot on the rover's grid.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct Spot {
    x: i64,
    y: i64,
}

impl Spot {
    fn steps_to(self, goal: Self) -> u32 {
        let steps = self.x.abs_diff(goal.x).saturating_add(self.y.abs_diff(goal.y));
        u32::try_from(steps).unwrap_or(u32::MAX)
    }

    fn step_towards(self, goal: Self) -> Self {
        match (goal.x - self.x).signum() {
            0 => Self { x: self.x, y: self.y + (goal.y - self.y).signum() },
            step => Self { x: self.x + step, y: self.y },
        }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.x, self.y)
    }
}

/// How quickly things happen.
#[derive(Clone, Copy)]
struct DemoPace {
    step: Duration,
    between_lines: Duration,
    between_rounds: Duration,
}

impl DemoPace {
    /// To be read as it goes by.
    const CALM: Self = Self {
        step: Duration::from_millis(500),
        between_lines: Duration::from_millis(1500),
        between_rounds: Duration::from_secs(8),
    };
    /// To be over soon.
    const BRISK: Self =
        Self { step: Duration::from_millis(40), between_lines: Duration::ZERO, between_rounds: Duration::ZERO };
}

pub(crate) fn run(args: &DemoArgs) -> Result<(), Trouble> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Trouble::failed)?;
    runtime.block_on(demo(args))
}

async fn demo(args: &DemoArgs) -> Result<(), Trouble> {
    let scratch = PrivateScratch::new("demo").map_err(Trouble::failed)?;
    let abandoned = scratch.path().to_owned();
    let stop = Stop::on_signals(move || drop(std::fs::remove_dir_all(abandoned)))?;
    let listener = serve::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, args.port)))?;
    let address = listener.local_addr().map_err(Trouble::failed)?;
    let config = Config { listen: address, data: scratch.path().to_owned(), ..Config::default() };
    let tokens = DemoTokens(Signer::new(&LocalKey::load_or_create(&config.data).map_err(Trouble::failed)?));

    let links = SignInLinks::new();
    let page = config.page_url(address);

    let (end, ended) = oneshot::channel::<()>();
    let entrances = Entrances::from(listener).links(links.clone());
    let mut gateway = tokio::spawn(salon_gateway::serve(entrances, config, || {}, async { drop(ended.await) }));
    let played = tokio::select! { biased;
        stopped = &mut gateway => {
            let stopped = stopped.map_err(Trouble::failed)?.map_err(Trouble::failed);
            return stopped.and_then(|()| Err(Trouble::failed(anyhow!("the gateway stopped by itself"))));
        }
        played = play(address, args.once, &tokens, (&page, &links, scratch.path()), stop) => played,
    };
    drop(end);
    gateway.await.map_err(Trouble::failed)?.map_err(Trouble::failed)?;
    played.map_err(Trouble::failed)?;
    hand_over(format_args!("\nThat was the room. Its data is gone."))
}

/// Lets everybody in, waits for the end, and lets them out again.
async fn play(
    address: SocketAddr,
    once: bool,
    tokens: &DemoTokens,
    (page, links, data): (&str, &SignInLinks, &Path),
    stop: Stop,
) -> anyhow::Result<()> {
    let pace = if once { DemoPace::BRISK } else { DemoPace::CALM };
    // A word that does not occur by chance: a participant that is named is addressed.
    let visitor = DemoTokens::grant("visitor", "Visitor", ParticipantKind::Human)?;
    let audience =
        Audience::open(address, TOPIC, &tokens.make("audience", "Audience", ParticipantKind::Human)?).await?;
    let rover = Rover::new(pace.step);
    let (rover_room, roved) = tokens.seat(address, ROVER, "Rover", ParticipantKind::Robot, rover.tools()).await?;
    let (calc_room, computed) = tokens.seat(address, CALC, "Calc", ParticipantKind::Agent, calc::tools()).await?;
    let sent = watch::Sender::new(0);
    let desk = coordinator::tools(sent.subscribe());
    let (room, events) = tokens.seat(address, COORDINATOR, "Coordinator", ParticipantKind::Agent, desk).await?;
    // A person who follows these instructions finds everybody there.
    let opening = if once {
        format!("One round of {TOPIC} on {address}.\n")
    } else {
        let link = format!("{page}{}&room={TOPIC}", links.fragment(visitor, clock::now()));
        invitation::text(address, TOPIC, data, &link)
    };
    hand_over(format_args!("{opening}")).map_err(|trouble| anyhow!("{trouble}"))?;

    let (left, mut leaving) = watch::channel(0);
    let mut watching = tokio::spawn(audience.watch(LineTranscript::new(serve::is_coloured(&std::io::stdout())), left));
    let roving = tokio::spawn(rover.live(rover_room.clone(), roved));
    let computing = tokio::spawn(calc::live(calc_room.clone(), computed));
    let planned = tokio::select! { biased;
        () = stop.asked() => Ok(()),
        // Nobody reads the transcript any more.
        _ = &mut watching => Ok(()),
        planned = coordinator::live(room.clone(), events, sent, pace, once) => planned,
    };
    for (number, room) in [room, calc_room, rover_room].into_iter().enumerate() {
        room.leave().await;
        let seen = tokio::time::timeout(LEAVE_TIME, leaving.wait_for(|left| *left > number)).await;
        // An error means that nobody watches, and so nobody misses it.
        let _ = seen.context("a leave was not seen in time")?;
    }
    // They ended with their stay.
    let _ = tokio::join!(roving, computing);
    watching.abort();
    planned
}

/// The schema of arguments that must all be given.
fn schema(properties: Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// It worked: a sentence for people and an object for programs.
fn done(text: String, data: &Value) -> Result<ToolResult, ToolError> {
    let mut result = ToolResult::structured(data)?;
    result.content = ToolResult::text_only(text).content;
    Ok(result)
}

/// Makes tokens for the demo's room.
struct DemoTokens(Signer);

impl DemoTokens {
    fn make(&self, id: &str, name: &str, kind: ParticipantKind) -> anyhow::Result<String> {
        Ok(self.0.sign(&Self::grant(id, name, kind)?, clock::now())?)
    }

    fn grant(id: &str, name: &str, kind: ParticipantKind) -> anyhow::Result<Grant> {
        let now = clock::now();
        let lifetime = u64::try_from(TOKEN_TIME.as_millis()).expect("a month fits");
        let topics = vec![TopicPattern::Exact(TopicName::new(TOPIC)?)];
        let mut grant = Grant::new(ParticipantId::new(id)?, topics, Timestamp(now.0 + lifetime));
        grant.name = Some(name.to_owned());
        grant.kind = Some(kind);
        Ok(grant)
    }

    async fn seat(
        &self,
        address: SocketAddr,
        id: &str,
        name: &str,
        kind: ParticipantKind,
        tools: Toolbox,
    ) -> anyhow::Result<(Room, Events)> {
        let token = StaticToken::new(self.make(id, name, kind)?);
        let client = Client::new(Gateway::new(&format!("http://{address}"))?, token);
        let entering = client.room(TopicName::new(TOPIC)?).directed().offer(tools);
        entering.join_listening().await.with_context(|| format!("{id} cannot enter the room"))
    }
}
