//! `salon bridge`: bridges to chat platforms, alone or hosted by `salon serve`.

mod check;
pub(crate) mod hosting;
mod init;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use salon_bridges::config::BridgeConfig;
use salon_bridges::drivers;
use salon_bridges::platform::PlatformDriver;
use salon_bridges::runner::{self, BridgeRun};
use salon_client::Client;
use salon_gateway::config::Config;
use tokio_util::sync::CancellationToken;
use toml::Table;

use self::hosting::{BridgeTokens, report};
use crate::access::Access;
use crate::signals::Stop;
use crate::trouble::Trouble;
use crate::{note, serve};

#[derive(Debug, Args)]
pub(crate) struct BridgeArgs {
    #[command(subcommand)]
    command: BridgeSubcommand,
}

#[derive(Debug, Subcommand)]
enum BridgeSubcommand {
    /// Run the bridges of a file, as clients of a gateway that runs elsewhere
    Run(RunArgs),
    /// Check a bridge: its settings, its platform, its rooms
    Check(check::CheckArgs),
    /// Write the files of a bridge, and print its configuration and the next steps
    Init(init::InitArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  salon bridge run bridges.toml --gateway https://salon.example --token-file bridge.token")]
pub(crate) struct RunArgs {
    /// File with sections `[bridges.NAME]`
    #[arg(value_name = "FILE", default_value = "salon.toml")]
    file: PathBuf,
    /// Only the bridge with this name
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Folder for the state of bridges [default: `bridges` beside the file]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: BridgeArgs) -> Result<(), Trouble> {
    match args.command {
        BridgeSubcommand::Run(args) => crate::commands::run(run_alone(args)),
        BridgeSubcommand::Check(args) => crate::commands::run(check::run(args)),
        BridgeSubcommand::Init(args) => init::run(&args),
    }
}

/// A bridge that is ready to run.
pub(crate) struct BridgePlan {
    pub(crate) config: BridgeConfig,
    pub(crate) driver: Arc<dyn PlatformDriver>,
}

/// The bridges of a gateway's configuration.
pub(crate) fn plan(config: &Config, file: Option<&Path>) -> Result<Vec<BridgePlan>, Trouble> {
    let directory = file.and_then(Path::parent).unwrap_or(Path::new(""));
    let plans = config.bridges.iter().map(|(name, table)| plan_one(name, table, directory));
    plans.collect::<anyhow::Result<_>>().map_err(Trouble::usage)
}

fn plan_one(name: &str, table: &Table, directory: &Path) -> anyhow::Result<BridgePlan> {
    let config = BridgeConfig::read(name, table, directory)?;
    let driver = drivers::open(&config)?;
    Ok(BridgePlan { config, driver })
}

/// The bridges of a file, of which the other sections are not looked at.
fn read_file(file: &Path, only: Option<&str>) -> anyhow::Result<Vec<BridgeConfig>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("`{}` cannot be read", file.display()))?;
    let table: Table = toml::from_str(&text).with_context(|| format!("`{}` is not TOML", file.display()))?;
    let directory = file.parent().unwrap_or(Path::new(""));
    let bridges = table.get("bridges").and_then(toml::Value::as_table).cloned().unwrap_or_default();
    let mut read = Vec::new();
    for (name, value) in bridges.iter().filter(|(name, _)| only.is_none_or(|only| *name == only)) {
        let table = value.as_table().ok_or_else(|| anyhow!("`bridges.{name}` must be a section"))?;
        read.push(BridgeConfig::read(name, table, directory)?);
    }
    if read.is_empty() {
        let which = only.map_or("no bridge".to_owned(), |name| format!("no bridge `{name}`"));
        let hint = "`salon bridge init PLATFORM` prints a section to begin with";
        return Err(anyhow!("`{}` has {which}\n\nhint: {hint}", file.display()));
    }
    Ok(read)
}

/// A client for a bridge: with the token that was given, or one made by this machine's key.
fn client(access: &Access, config: &BridgeConfig) -> anyhow::Result<Client> {
    if access.given()?.is_some() {
        return Ok(access.reach()?.client);
    }
    match access.local_keys()? {
        Some(keys) => Ok(Client::new(access.gateway()?, BridgeTokens::by_keys(keys, config)?)),
        None => Err(anyhow!(
            "there is no token for the bridge: make one with `salon token --id {} --acts-for '{}:*' --topic TOPIC`",
            config.participant(),
            config.namespace
        )),
    }
}

async fn run_alone(args: RunArgs) -> Result<(), Trouble> {
    serve::log_plainly()?;
    let configs = read_file(&args.file, args.only.as_deref()).map_err(Trouble::usage)?;
    let beside = args.file.parent().unwrap_or(Path::new("")).join("bridges");
    let state = args.state.clone().unwrap_or(beside);
    let mut runs = tokio::task::JoinSet::new();
    let cancel = CancellationToken::new();
    for config in configs {
        let driver = drivers::open(&config).map_err(Trouble::usage)?;
        let client = client(&args.access, &config).map_err(Trouble::usage)?;
        let (name, store) = (config.name.clone(), state.join(format!("{}.sqlite", config.name)));
        let listener = report(&name);
        let run = BridgeRun { config, driver, client, store, shared: None };
        let stopping = cancel.child_token();
        runs.spawn(async move { (name, runner::run(run, stopping, listener).await) });
    }
    let stop = Stop::on_signals(|| note(format_args!("stopped at once, as asked twice")))?;
    let asked = stop.asked();
    tokio::pin!(asked);
    let mut failed = Ok(());
    loop {
        tokio::select! { biased;
            () = &mut asked, if !cancel.is_cancelled() => cancel.cancel(),
            ended = runs.join_next() => match ended {
                None => return failed,
                Some(Ok((_, Ok(())))) => {}
                Some(Ok((name, Err(error)))) => {
                    failed = Err(Trouble::failed(anyhow!("bridge `{name}`: {error}")));
                    cancel.cancel();
                }
                Some(Err(error)) => return Err(Trouble::failed(anyhow!("a bridge failed inside: {error}"))),
            },
        }
    }
}
