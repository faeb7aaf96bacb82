//! `salon serve`: settings in, a gateway out, and lines for the person who runs it.

mod args;
mod browser;
mod check;
pub(crate) mod flags;
mod health;
mod logging;
pub(crate) mod variables;

use std::io::{self, ErrorKind, IsTerminal};
use std::net::SocketAddr;

use anyhow::anyhow;
use salon_gateway::auth::SignInLinks;
use salon_gateway::config::{Config, LogFormat};
use salon_gateway::{BridgeLeases, Entrances, GuestBoard, ServeError, Timings};
#[cfg(feature = "nats")]
use salon_log::nats::OpenError as NatsError;
use salon_log::sqlite::OpenError;
use tokio::net::TcpListener;

use crate::guests::hosting::Hosting;
use crate::guests::plan::{GuestPlan, InputAnswers};
use crate::signals::{Hangup, Stop};
use crate::trouble::Trouble;
use crate::{note, out};

pub(crate) use args::ServeArgs;
pub(crate) use logging::is_coloured;

/// How many tasks a thread runs before it asks which sockets have something. With tokio's 61, a crowd of requests holds up a message in a
/// room until as many of them have been worked on.
const TASKS_BETWEEN_EVENTS: u32 = 11;

pub(crate) fn run(args: &ServeArgs) -> Result<(), Trouble> {
    variables::refuse_renamed()?;
    let file = args.places.trusted_file().map_err(Trouble::usage)?;
    let mut config = Config::load(file.as_deref(), args.overrides()).map_err(Trouble::usage)?;
    if args.test_timings {
        config.timings = Timings::FAST;
    }
    let filter = logging::filter(&config.log.filter)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .event_interval(TASKS_BETWEEN_EVENTS)
        .enable_all()
        .build()
        .map_err(Trouble::failed)?;
    if args.health {
        return runtime.block_on(health::run(&config));
    }
    if args.check {
        let plan = args.sources().plan(&config, &InputAnswers::default()).map_err(Trouble::usage)?;
        return runtime.block_on(check::run(&config, file.as_deref(), &plan));
    }
    #[cfg(feature = "bridges")]
    let bridges = crate::bridges::plan(&config, file.as_deref())?;
    #[cfg(not(feature = "bridges"))]
    if let Some(name) = config.bridges.keys().next() {
        return Err(Trouble::usage(anyhow!("`bridges.{name}`: this `salon` was built without bridges")));
    }
    // People are asked before anything runs that would talk across them.
    let answers = InputAnswers::asking();
    let plan = args.sources().plan(&config, &answers).map_err(Trouble::usage)?;
    logging::start(config.log.format, filter);
    if args.test_timings {
        tracing::warn!("serve: test timings are on, leases last 2 s; for tests only");
    }
    if let Some(file) = &file {
        tracing::info!(file = %file.display(), "serve: settings read");
    }
    for warning in variables::unknown() {
        tracing::warn!("configuration: {warning}");
    }
    let guests = GuestHosting { plan, answers };
    #[cfg(feature = "bridges")]
    let hosted = HostedPlans { guests, bridges };
    #[cfg(not(feature = "bridges"))]
    let hosted = HostedPlans { guests };
    runtime.block_on(serve(config, args, hosted))
}

/// The guests to host.
struct GuestHosting {
    plan: GuestPlan,
    answers: InputAnswers,
}

/// What the gateway's process runs beside the gateway.
struct HostedPlans {
    guests: GuestHosting,
    #[cfg(feature = "bridges")]
    bridges: Vec<crate::bridges::BridgePlan>,
}

async fn serve(config: Config, args: &ServeArgs, hosted: HostedPlans) -> Result<(), Trouble> {
    let stop = Stop::on_signals(|| note(format_args!("stopped at once, as asked twice")))?;
    let hangup = Hangup::listen()?;
    let listener = listen(config.listen)?;
    let address = listener.local_addr().map_err(Trouble::failed)?;
    let framed = config.framed.listen.map(listen).transpose()?;
    let framed_address = framed.as_ref().map(TcpListener::local_addr).transpose().map_err(Trouble::failed)?;
    let data = config.data.display().to_string();
    let announced = config.clone();
    let links = SignInLinks::new();
    let link = args.open.then(|| browser::link(&config, address, &links)).transpose()?;
    let ready = move || {
        announce(&announced, address, framed_address);
        if let Some(link) = link {
            browser::open(&link);
        }
    };
    let (inside, doorway) = salon_gateway::inside();
    let board = GuestBoard::default();
    let reported = board.clone();
    let keys = config.data.clone();
    let leases = BridgeLeases::new();
    let entrances = Entrances::from(listener).and(doorway).framed(framed).links(links);
    let entrances = entrances.guests(board).leases(leases.clone());
    // Begins when the gateway is ready, and has ended every guest and bridge before the gateway drains.
    let hosting = async move {
        #[cfg(feature = "bridges")]
        let bridges = crate::bridges::hosting::HostedBridges::start(hosted.bridges, &inside, &leases, &keys);
        let GuestHosting { plan, answers } = hosted.guests;
        Hosting::new(args.sources(), answers, (inside, reported), keys).run(plan, hangup, stop.asked()).await;
        #[cfg(feature = "bridges")]
        bridges.end().await;
    };
    salon_gateway::serve(entrances, config, ready, hosting).await.map_err(|error| explain(error, &data))
}

/// Log lines of a command that runs until it is stopped, and is not a gateway.
#[cfg(feature = "bridges")]
pub(crate) fn log_plainly() -> Result<(), Trouble> {
    let directives = std::env::var("SALON_LOG_FILTER").unwrap_or_else(|_| "info".into());
    logging::start(LogFormat::Human, logging::filter(&directives)?);
    Ok(())
}

/// Binds the address, or says who might have it.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, Trouble> {
    salon_gateway::listen(address).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => Trouble::hinted(
            format_args!("`{address}` is in use"),
            "another gateway may be running; choose another port, or 0 for a free one",
        ),
        ErrorKind::PermissionDenied => Trouble::hinted(
            format_args!("`{address}` may not be used by you"),
            "ports below 1024 usually need privileges; choose another with `--listen`",
        ),
        _ => Trouble::failed(anyhow!("`{address}` cannot be listened on: {error}")),
    })
}

/// Prints the address of the gateway, except with JSON log lines, which have it.
fn announce(config: &Config, address: SocketAddr, framed: Option<SocketAddr>) {
    if config.log.format == LogFormat::Json {
        return;
    }
    let scheme = if config.tls().is_some() { "https" } else { "http" };
    // A gateway serves whether or not somebody reads this.
    let _ = out(format_args!("Salon on {scheme}://{address}, data in {}", config.data.display()));
    if let Some(servers) = config.nats_servers() {
        let servers = servers.hosts().join(", ");
        let _ = out(format_args!("Store `{}` on NATS at {servers}", config.nats.name));
    }
    if let Some(framed) = framed {
        let scheme = if config.tls().is_some() { "tls" } else { "tcp" };
        let _ = out(format_args!("Framed connections on {scheme}://{framed}"));
    }
    if config.dev {
        let _ = out(format_args!("Development mode: anyone on this machine gets a token for the asking"));
    }
    if io::stdout().is_terminal() {
        let _ = out(format_args!("Next: `salon chat room:lab` in another terminal. Ctrl-C ends the gateway"));
    }
}

/// Where a start can fail by a mistake in the configuration, the exit code says so.
fn explain(error: ServeError, data: &str) -> Trouble {
    match error {
        ServeError::Config(_) | ServeError::Key(_) | ServeError::Jwks { .. } | ServeError::Tls(_) => {
            Trouble::usage(error)
        }
        ServeError::LogStopped(_) => Trouble::hinted(
            error,
            format_args!(
                "every acknowledged message is stored; check the disk of `{data}` (is it full?) and start again"
            ),
        ),
        #[cfg(feature = "nats")]
        ServeError::Nats(NatsError::OtherKey { .. }) => Trouble::coded(
            2,
            error,
            format_args!("copy `auth.key` from the data directory of another of its gateways to `{data}`"),
        ),
        #[cfg(feature = "nats")]
        ServeError::Nats(NatsError::Connect { .. } | NatsError::Unavailable(_)) => Trouble::failed(error),
        #[cfg(feature = "nats")]
        ServeError::Nats(_) => Trouble::usage(error),
        ServeError::Log(OpenError::InUse { .. }) => {
            Trouble::hinted(error, "another gateway runs there; stop it, or choose another directory with `--data`")
        }
        _ => Trouble::failed(error),
    }
}
