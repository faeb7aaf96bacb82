//! `salon serve`: settings in, a gateway out, and a person who is told what goes on.

mod args;
mod check;
mod logging;

use std::io::ErrorKind;
use std::net::SocketAddr;

use anyhow::anyhow;
use salon_gateway::ServeError;
use salon_gateway::config::{Config, LogFormat};
use salon_log::sqlite::OpenError;
use tokio::net::TcpListener;

use crate::signals::Stop;
use crate::trouble::Trouble;
use crate::{note, out};

pub(crate) use args::ServeArgs;
pub(crate) use logging::is_coloured;

pub(crate) fn run(args: &ServeArgs) -> Result<(), Trouble> {
    let file = args.places.file();
    let config = Config::load(file.as_deref(), args.overrides()).map_err(Trouble::usage)?;
    let filter = logging::filter(&config.log_filter)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Trouble::failed)?;
    if args.check {
        return runtime.block_on(check::run(&config, file.as_deref()));
    }
    logging::start(config.log_format, filter);
    runtime.block_on(serve(config))
}

async fn serve(config: Config) -> Result<(), Trouble> {
    let stop = Stop::on_signals(|| note(format_args!("stopped at once, as asked twice")))?;
    let listener = listen(config.listen)?;
    let address = listener.local_addr().map_err(Trouble::failed)?;
    let data = config.data.display().to_string();
    let announced = config.clone();
    let ready = move || announce(&announced, address);
    salon_gateway::serve(listener, config, ready, stop.asked()).await.map_err(|error| explain(error, &data))
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

/// Tells where the gateway is. With JSON log lines there is no person to tell, and the log has it.
fn announce(config: &Config, address: SocketAddr) {
    if config.log_format == LogFormat::Json {
        return;
    }
    let scheme = if config.tls().is_some() { "https" } else { "http" };
    // A gateway serves whether or not somebody reads this.
    let _ = out(format_args!("Salon on {scheme}://{address}, data in {}", config.data.display()));
    if config.dev {
        let _ = out(format_args!("Development mode: anyone on this machine gets a token for the asking"));
    }
}

/// Where a start can fail by a mistake in the configuration, the exit code says so.
fn explain(error: ServeError, data: &str) -> Trouble {
    match error {
        ServeError::Config(_) | ServeError::Key(_) | ServeError::Jwks(_) | ServeError::Tls(_) => Trouble::usage(error),
        ServeError::LogStopped(_) => Trouble::hinted(
            error,
            format_args!(
                "nothing unstored was acknowledged; mend what holds `{data}` (is the disk full?) and start again"
            ),
        ),
        ServeError::Log(OpenError::InUse { .. }) => {
            Trouble::hinted(error, "another gateway runs there; stop it, or choose another directory with `--data`")
        }
        _ => Trouble::failed(error),
    }
}
