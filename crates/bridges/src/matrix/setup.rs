//! The configuration of a Matrix bridge, `salon bridge init matrix` and `salon bridge check`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

use super::MatrixDriver;
use super::homeserver::{Homeserver, HomeserverFailure};
use super::puppets::Puppets;
use super::registration::{MatrixRegistration, quoted};
use super::user_ids::PuppetIds;
use crate::config::BridgeConfig;
use crate::connected_channels::ConnectedChannels;
use crate::display_names::DisplayNames;
use crate::init::{InitFile, InitOptions, InitPlan};
use crate::platform::{CheckFinding, DriverError, PlatformChannel, PlatformDriver};

const DEFAULT_LISTEN: &str = "127.0.0.1:9009";
/// The largest request while only pings are answered.
const MAX_PING_BYTES: usize = 64 << 10;
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// The members of `[bridges.NAME]` that are Matrix's own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MatrixConfig {
    /// Where the homeserver's client-server API is.
    homeserver: String,
    /// What stands behind the colon of its users' ids.
    server_name: String,
    /// Where the bridge takes the homeserver's requests.
    listen: Option<SocketAddr>,
    as_token_file: PathBuf,
    hs_token_file: PathBuf,
    /// `id` of the registration.
    appservice: Option<String>,
    /// `sender_localpart` of the registration.
    sender: Option<String>,
    /// What local parts of puppets start with.
    puppet_prefix: Option<String>,
    /// A public address of the homeserver's media: `/SERVER/ID` is appended.
    media_url: Option<String>,
    /// How often the bridge looks for messages that the homeserver did not hand over, in milliseconds.
    look_interval_ms: Option<u64>,
}

/// Opens a bridge.
pub fn open(config: &BridgeConfig) -> Result<Arc<dyn PlatformDriver>, DriverError> {
    let own: MatrixConfig = config.platform_members()?;
    let as_token = config.secret(&own.as_token_file)?;
    let hs_token = config.secret(&own.hs_token_file)?.expose().to_owned();
    let listen = own.listen.or_else(|| DEFAULT_LISTEN.parse().ok()).ok_or_else(|| DriverError("no `listen`".into()))?;
    let ids = PuppetIds {
        server_name: own.server_name,
        prefix: own.puppet_prefix.unwrap_or_else(|| default_prefix(&config.name)),
        bot: own.sender.unwrap_or_else(|| default_sender(&config.name)),
    };
    check_names(&ids)?;
    for channel in config.channels.keys() {
        if !channel.as_str().starts_with(['!', '#']) {
            let reason = "is neither a room id (`!…`) nor an alias (`#…:server`)";
            return Err(DriverError(format!("bridges.{}: channel `{channel}` {reason}", config.name)));
        }
    }
    let driver = MatrixDriver {
        homeserver: Homeserver::new(&own.homeserver, as_token.expose())?,
        hs_token,
        appservice: own.appservice.unwrap_or_else(|| default_sender(&config.name)),
        listen,
        media_url: own.media_url,
        channels: ConnectedChannels::new(config.channels.keys().cloned()),
        rooms: Default::default(),
        puppets: Puppets::new(ids.clone()),
        ids,
        names: DisplayNames::default(),
        look_interval: own.look_interval_ms.map_or(LOOK_INTERVAL, Duration::from_millis),
        begun: Default::default(),
        newest_taken: Default::default(),
        ready: watch::Sender::new(false),
        transactions: Default::default(),
        invited: Notify::new(),
    };
    Ok(Arc::new(driver))
}

/// Where the sender is one of the puppets' names, or a prefix is empty, other users of the homeserver would be taken for puppets.
fn check_names(ids: &PuppetIds) -> Result<(), DriverError> {
    let is_local = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    for (member, value) in [("sender", &ids.bot), ("puppet_prefix", &ids.prefix)] {
        if value.is_empty() || value.len() > 64 || !value.chars().all(is_local) {
            let allowed = "1 to 64 lower-case letters, digits, `.`, `_` and `-`";
            return Err(DriverError(format!("`{member}`: `{value}` is not {allowed}")));
        }
    }
    Ok(())
}

fn default_sender(name: &str) -> String {
    format!("salon-{}", name.to_ascii_lowercase())
}

fn default_prefix(name: &str) -> String {
    format!("salon-{}_", name.to_ascii_lowercase())
}

/// What `salon bridge init matrix` writes.
pub fn init(options: &InitOptions) -> InitPlan {
    let homeserver = options.server.clone().unwrap_or_else(|| "http://127.0.0.1:8008".into());
    let server_name = server_name(options, &homeserver);
    let name = &options.name;
    let channel = options.channel.clone().unwrap_or_else(|| format!("#lab:{server_name}"));
    let registration = MatrixRegistration {
        id: default_sender(name),
        url: format!("http://{DEFAULT_LISTEN}"),
        as_token: options.secrets[0].clone(),
        hs_token: options.secrets[1].clone(),
        sender_localpart: default_sender(name),
        server_name: server_name.clone(),
        puppet_prefix: default_prefix(name),
    };
    let section = format!(
        "[bridges.{name}]\nplatform = \"matrix\"\nhomeserver = {}\nserver_name = {}\nlisten = \"{DEFAULT_LISTEN}\"\n\
         as_token_file = \"{name}-as.token\"\nhs_token_file = \"{name}-hs.token\"\nchannels = {{ {} = {} }}\n",
        quoted(&homeserver),
        quoted(&server_name),
        quoted(&channel),
        quoted(&options.topic),
    );
    let secret = |path: String, text: String| InitFile { path, text, is_secret: true };
    let file = format!("{name}-registration.yaml");
    let bot = format!("@{}:{server_name}", default_sender(name));
    InitPlan {
        section,
        files: vec![
            secret(file.clone(), registration.to_yaml()),
            secret(format!("{name}-as.token"), format!("{}\n", options.secrets[0])),
            secret(format!("{name}-hs.token"), format!("{}\n", options.secrets[1])),
        ],
        steps: vec![
            format!(
                "Copy `{file}` to the homeserver and let the homeserver's user read it. Change `url` in it if the homeserver is on another machine."
            ),
            format!(
                "Add its path to `app_service_config_files` in `homeserver.yaml` (Synapse), then restart the homeserver."
            ),
            format!(
                "Invite {bot} into {channel}, which must not be encrypted. In a room that needs an invitation it also needs the power to invite."
            ),
        ],
    }
}

/// Behind the colon of the channel, or the host of the homeserver's address.
fn server_name(options: &InitOptions, homeserver: &str) -> String {
    let of_channel = options.channel.as_deref().and_then(|channel| channel.split_once(':')).map(|(_, server)| server);
    let of_address = || reqwest::Url::parse(homeserver).ok()?.host_str().map(str::to_owned);
    of_channel.map(str::to_owned).or_else(of_address).unwrap_or_else(|| "example.org".into())
}

impl MatrixDriver {
    /// Looks for what is in the way of a bridge. It leaves the bridge's own user registered and in the rooms.
    pub(super) async fn look(&self) -> Vec<CheckFinding> {
        let mut findings = Vec::new();
        if let Err(failure) = self.homeserver.register(&self.ids.bot).await {
            findings.push(homeserver_problem(&failure));
            return findings;
        }
        findings.push(CheckFinding::fine("homeserver", format!("it knows this bridge as {}", self.ids.bot_id())));
        findings.push(self.check_reachable().await);
        for channel in &self.channels.all {
            findings.push(self.check_channel(channel).await);
        }
        findings
    }

    /// Whether the homeserver reaches the bridge. A bridge that runs answers itself; else this does, for as long as it looks.
    async fn check_reachable(&self) -> CheckFinding {
        const SUBJECT: &str = "requests of the homeserver";
        let stop = tokio_util::sync::CancellationToken::new();
        let token = self.hs_token.clone();
        let answering = async {
            if let Ok(listener) = TcpListener::bind(self.listen).await {
                let answer = move |request| {
                    let answer = super::inbound::answer_ping(&request, &token);
                    async move { answer }
                };
                crate::http_receiver::serve(listener, |_| MAX_PING_BYTES, answer, stop.clone()).await;
            }
        };
        let pinging = async {
            let answer = self.homeserver.ping(&self.appservice).await;
            stop.cancel();
            answer
        };
        match tokio::join!(answering, pinging).1 {
            Ok(()) => CheckFinding::fine(SUBJECT, format!("it reaches the bridge at {}", self.listen)),
            Err(failure) => CheckFinding::problem(
                SUBJECT,
                failure.to_string(),
                format!(
                    "let `url` of the registration lead to {}, with the same `hs_token`, and restart the homeserver",
                    self.listen
                ),
            ),
        }
    }

    async fn check_channel(&self, channel: &PlatformChannel) -> CheckFinding {
        let subject = format!("channel {channel}");
        let room = match self.join_channel(channel).await {
            Ok(room) => room,
            Err(failure) => {
                let hint = format!("create the room and invite {} into it", self.ids.bot_id());
                return CheckFinding::problem(&subject, failure.to_string(), hint);
            }
        };
        match self.homeserver.is_encrypted(&room).await {
            Ok(true) => CheckFinding::problem(
                &subject,
                "the room is encrypted, and a bridge cannot read it",
                "make a room without encryption; it cannot be switched off in this one",
            ),
            Ok(false) => CheckFinding::fine(&subject, format!("{} is in it", self.ids.bot_id())),
            Err(failure) => CheckFinding::problem(&subject, failure.to_string(), "look at the homeserver's log"),
        }
    }
}

fn homeserver_problem(failure: &HomeserverFailure) -> CheckFinding {
    let hint = match failure {
        HomeserverFailure::ApiRequestError(_) => "start the homeserver, or correct `homeserver`",
        _ if failure.is_code("M_UNKNOWN_TOKEN") => {
            "list the registration file in `app_service_config_files` of the homeserver and restart it"
        }
        _ if failure.is_code("M_EXCLUSIVE") => "let `sender` be the `sender_localpart` of the registration",
        HomeserverFailure::Refused { .. } => "compare the registration file with this configuration",
    };
    CheckFinding::problem("homeserver", failure.to_string(), hint)
}
