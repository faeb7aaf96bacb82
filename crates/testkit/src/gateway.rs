//! A gateway of one's own. The only place here that knows how a gateway is configured and started.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use salon_control::GhostGrant;
use salon_gateway::auth::{Confirmation, FIRST_KEY, Grant, LocalKey, Signer, SigningKeys};
use salon_gateway::config::{Config, Overrides, StoreUrl};
use salon_gateway::{Entrances, Inside, Timings};
use salon_protocol::{ParticipantId, Timestamp, TopicName};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::{Failure, Scratch, nats, within};

/// Which log a gateway stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestEngine {
    /// SQLite in the data directory.
    Sqlite,
    /// NATS, on a server that many gateways share, each with a log of its own.
    Nats,
}

impl TestEngine {
    /// Every engine: what runs on one runs on all.
    pub const ALL: [Self; 2] = [Self::Sqlite, Self::Nats];

    /// Whether tests on it are ignored: its server is not installed, or this build has no NATS.
    pub fn is_missing(self) -> bool {
        self == Self::Nats && (cfg!(not(feature = "nats")) || nats::is_missing())
    }

    /// Its name in a test's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Nats => "nats",
        }
    }

    fn choose(self, config: &mut Config) {
        match self {
            // The default.
            Self::Sqlite => {}
            Self::Nats => {
                let (url, name) = nats::SharedServer::new_log().expect("a NATS server");
                config.store = read::<StoreUrl>(&url).expect("its URL").0;
                config.nats.name = name;
            }
        }
    }
}

/// The defaults of a gateway, but for times that tests should not have to wait.
fn defaults() -> Config {
    Config { timings: Timings::FAST, ..Config::default() }
}

/// How a gateway is set up.
#[derive(Debug, Clone)]
pub struct TestOptions {
    config: Config,
    /// The texts of the settings that were given, by key.
    given: BTreeMap<String, Vec<String>>,
}

impl TestOptions {
    /// The defaults, on an engine.
    pub fn new(engine: TestEngine) -> Self {
        let mut config = defaults();
        engine.choose(&mut config);
        Self { config, given: BTreeMap::new() }
    }

    /// The defaults, as one of those that share a log on NATS.
    pub fn on_nats(url: &str, log: &str) -> Result<Self, Failure> {
        let mut config = defaults();
        config.store = read::<StoreUrl>(url)?.0;
        config.nats.name = log.to_owned();
        // Every log of a test makes as many streams.
        config.nats.shards = 2;
        Ok(Self { config, given: BTreeMap::new() })
    }

    /// Gives a setting by its key, as docs/reference/settings.md has it; a list grows. Also two that are not settings: `history-off`, a topic;
    /// some [timings](Timings), in milliseconds.
    pub fn set(mut self, key: &str, value: &str) -> Result<Self, Failure> {
        let config = &mut self.config;
        match key {
            "frame-timeout" => config.timings.frame_timeout = Duration::from_millis(read(value)?),
            "body-timeout" => config.timings.body_timeout = Duration::from_millis(read(value)?),
            "body-idle-timeout" => config.timings.body_idle_timeout = Duration::from_millis(read(value)?),
            "vanished-timeout" => config.timings.vanished_timeout = Duration::from_millis(read(value)?),
            "list-max-age" => config.timings.list_max_age = Duration::from_millis(read(value)?),
            "announce-interval" => config.timings.announce_interval = Duration::from_millis(read(value)?),
            "return-window" => config.timings.return_window = Duration::from_millis(read(value)?),
            "framed-session-timeout" => config.timings.framed_session_timeout = Duration::from_millis(read(value)?),
            "seat-grace" => config.timings.seat_grace = Duration::from_millis(read(value)?),
            "history-off" => drop(config.history_off.insert(read::<TopicName>(value)?)),
            _ => {
                let texts = self.given.entry(key.to_owned()).or_default();
                texts.push(value.to_owned());
                let mut given = Overrides::default();
                given.set(key, texts).map_err(|error| error.to_string())?;
                config.apply(given);
            }
        }
        Ok(self)
    }
}

fn read<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(|e| format!("`{text}` does not fit: {e}"))
}

/// A running gateway on a free loopback port, with a data directory that goes when it goes.
#[derive(Debug)]
pub struct TestGateway {
    config: Config,
    address: SocketAddr,
    framed: SocketAddr,
    signer: Signer,
    inside: Inside,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), Failure>>,
    // Last, so that it is removed when nothing uses it any more.
    _data: Scratch,
}

impl TestGateway {
    /// Starts one with a fresh data directory.
    pub async fn start(options: TestOptions) -> Result<Self, Failure> {
        let data = Scratch::new().map_err(|e| format!("no temporary directory: {e}"))?;
        Self::start_in(data, options).await
    }

    async fn start_in(data: Scratch, options: TestOptions) -> Result<Self, Failure> {
        let config = Config { data: data.path().to_owned(), ..options.config };
        let key = LocalKey::load_or_create(data.path()).map_err(|e| e.to_string())?;
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let (address, framed, inside, stop, serving) = serve(free, free, config.clone()).await?;
        Ok(Self { config, address, framed, signer: Signer::new(&key), inside, stop, serving, _data: data })
    }

    /// Starts one with a fresh data directory and the key of another, as those that share a log must.
    pub async fn beside(&self, options: TestOptions) -> Result<Self, Failure> {
        let data = Scratch::new().map_err(|e| format!("no temporary directory: {e}"))?;
        let (from, to) = (self.config.data.join("auth.key"), data.path().join("auth.key"));
        std::fs::copy(from, to).map_err(|e| format!("no key of another gateway: {e}"))?;
        Self::start_in(data, options).await
    }

    /// Where it listens; the same after a restart.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens for framed connections; the same after a restart.
    pub fn framed_address(&self) -> SocketAddr {
        self.framed
    }

    /// The way in from inside this process; another one after a restart.
    pub fn inside(&self) -> &Inside {
        &self.inside
    }

    /// Makes a token with the gateway's own key.
    pub fn token(&self, token: &TestToken) -> Result<String, Failure> {
        let now = Timestamp::from_system(SystemTime::now());
        let participant = ParticipantId::new(&token.id).map_err(|e| format!("`{}`: {e}", token.id))?;
        let topics = token.topics.iter().map(|topic| read(topic)).collect::<Result<_, _>>()?;
        let expires = Timestamp(now.0.saturating_add_signed(token.expires * 1000));
        let kind = token.kind.as_deref().map(read).transpose()?;
        let confirmation = match &token.key {
            Some(key) => Some(Confirmation::new(key).ok_or_else(|| format!("`{key}` is no public key"))?),
            None => None,
        };
        let grant = Grant {
            name: token.name.clone(),
            kind,
            permissions: token.permissions.clone(),
            capabilities: token.capabilities.clone(),
            require_integrity: token.require_integrity,
            confirmation,
            ghosts: token.ghosts()?,
            ..Grant::new(participant, topics, expires)
        };
        let grant = Grant { token_id: token.jti.clone().or(grant.token_id), ..grant };
        self.signer.sign(&grant, now).map_err(|e| e.to_string())
    }

    /// Makes a new signing key, and removes the one that [`Self::token`] signs with: at this gateway, and without telling it.
    pub fn remove_first_key(&self) -> Result<(), Failure> {
        let (data, now) = (&self.config.data, Timestamp::from_system(SystemTime::now()));
        SigningKeys::rotate(data, now).map_err(|e| e.to_string())?;
        SigningKeys::remove(data, FIRST_KEY, now).map_err(|e| e.to_string())
    }

    /// Stops it as SIGTERM would and waits until it has closed its log.
    pub async fn stop(self) -> Result<(), Failure> {
        let Self { stop, serving, .. } = self;
        end(stop, serving).await
    }

    /// Tries to serve a second time from the same data, and tells how that ended.
    pub async fn rival(&self) -> Result<Result<(), Failure>, Failure> {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let (_, _, _, stop, serving) = serve(free, free, self.config.clone()).await?;
        // It gets the stop at once: one that could start would end well.
        Ok(end(stop, serving).await)
    }

    /// Stops it and starts it again on the same data and address.
    pub async fn restart(&mut self) -> Result<(), Failure> {
        let (stop, _) = oneshot::channel();
        let stop = std::mem::replace(&mut self.stop, stop);
        let serving = std::mem::replace(&mut self.serving, tokio::spawn(async { Ok(()) }));
        end(stop, serving).await?;
        (self.address, self.framed, self.inside, self.stop, self.serving) =
            serve(self.address, self.framed, self.config.clone()).await?;
        Ok(())
    }
}

type Serving = (SocketAddr, SocketAddr, Inside, oneshot::Sender<()>, JoinHandle<Result<(), Failure>>);

async fn serve(address: SocketAddr, framed: SocketAddr, config: Config) -> Result<Serving, Failure> {
    let (listener, address) = listen(address).await?;
    let (framed_listener, framed) = listen(framed).await?;
    let (stop, stopped) = oneshot::channel();
    let config = Config { listen: address, ..config };
    let (inside, doorway) = salon_gateway::inside();
    let entrances = Entrances::from(listener).and(doorway).framed(Some(framed_listener));
    let serving = tokio::spawn(async move {
        // A gateway nobody holds any more stops as well.
        let shutdown = async { drop(stopped.await) };
        salon_gateway::serve(entrances, config, || {}, shutdown).await.map_err(|e| format!("the gateway failed: {e}"))
    });
    Ok((address, framed, inside, stop, serving))
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let listener = TcpListener::bind(address).await.map_err(|e| format!("{address} cannot be listened on: {e}"))?;
    let address = listener.local_addr().map_err(|e| e.to_string())?;
    Ok((listener, address))
}

async fn end(stop: oneshot::Sender<()>, serving: JoinHandle<Result<(), Failure>>) -> Result<(), Failure> {
    // Not heard by a gateway that has ended by itself, which its result then says.
    let _ = stop.send(());
    within("the gateway to stop", serving).await?.map_err(|e| format!("the gateway panicked: {e}"))?
}

/// A token to be made.
#[derive(Debug, Clone)]
pub struct TestToken {
    id: String,
    topics: Vec<String>,
    expires: i64,
    name: Option<String>,
    kind: Option<String>,
    permissions: Vec<String>,
    capabilities: Option<Vec<String>>,
    require_integrity: bool,
    key: Option<String>,
    jti: Option<String>,
    acts_for: Vec<String>,
    ghosts_max: Option<usize>,
    ghost_kinds: Vec<String>,
    ghosts_call: bool,
}

impl TestToken {
    /// A token for a participant that opens every topic for an hour and fixes neither name nor kind.
    pub fn new(id: &str) -> Self {
        Self {
            id: id.into(),
            topics: vec!["*".into()],
            expires: 3600,
            name: None,
            kind: None,
            permissions: Vec::new(),
            capabilities: None,
            require_integrity: false,
            key: None,
            jti: None,
            acts_for: Vec::new(),
            ghosts_max: None,
            ghost_kinds: Vec::new(),
            ghosts_call: false,
        }
    }

    fn ghosts(&self) -> Result<Option<GhostGrant>, Failure> {
        if self.acts_for.is_empty() {
            return Ok(None);
        }
        let namespaces = self.acts_for.iter().map(|namespace| read(namespace)).collect::<Result<_, _>>()?;
        let kinds = self.ghost_kinds.iter().map(|kind| read(kind)).collect::<Result<Vec<_>, _>>()?;
        let usual = GhostGrant { max: self.ghosts_max, calls: self.ghosts_call, ..GhostGrant::new(namespaces) };
        Ok(Some(if kinds.is_empty() { usual } else { GhostGrant { kinds, ..usual } }))
    }

    /// Sets one claim from its text: `topics` (separated by commas), `expires` (seconds from now, negative is past), `name`, `kind`,
    /// `permissions` and `capabilities` (separated by commas), `integrity` (`required`), `key` (a public key, in base64url), `jti`; of a bridge
    /// `acts_for` and `ghost_kinds` (separated by commas), `ghosts_max`, `ghosts_call` (`true`).
    pub fn claim(&mut self, claim: &str, value: &str) -> Result<(), Failure> {
        match claim {
            "topics" => self.topics = value.split(',').map(str::to_owned).collect(),
            "expires" => self.expires = value.parse().map_err(|_| format!("`{value}` is no number of seconds"))?,
            "name" => self.name = Some(value.into()),
            "kind" => self.kind = Some(value.into()),
            "permissions" => self.permissions = value.split(',').map(str::to_owned).collect(),
            "capabilities" => self.capabilities = Some(value.split(',').map(str::to_owned).collect()),
            "integrity" => self.require_integrity = value == "required",
            "key" => self.key = Some(value.into()),
            "jti" => self.jti = Some(value.into()),
            "acts_for" => self.acts_for = value.split(',').map(str::to_owned).collect(),
            "ghosts_max" => self.ghosts_max = Some(read(value)?),
            "ghost_kinds" => self.ghost_kinds = value.split(',').map(str::to_owned).collect(),
            "ghosts_call" => self.ghosts_call = value == "true",
            _ => return Err(format!("a token has no `{claim}` here")),
        }
        Ok(())
    }
}
