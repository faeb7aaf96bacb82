//! The command line of `salon serve`: the flags of the settings ([`SettingFlags`]), and flags that are not settings.

use std::path::PathBuf;

use clap::Args;
use salon_gateway::config::Overrides;
use salon_protocol::TopicName;

use super::flags::SettingFlags;
use crate::args::Locations;
use crate::guests::import::USUAL_TOPIC;
use crate::guests::plan::Sources;

#[derive(Debug, Args)]
#[command(after_help = "\
Every flag is also a variable (--limits-message is SALON_LIMITS_MESSAGE) and a key of salon.toml (limits.message).
Flags override variables, variables override the file.

On this machine, data in the usual place, and a browser that is signed in:
  salon serve --open

Open to others, with TLS:
  salon serve --listen 0.0.0.0:8787 --tls-cert cert.pem --tls-key key.pem --http-hosts chat.example

One of several that share their rooms on NATS, each with the same auth.key in its data directory:
  salon serve --store nats://nats-1:4222,nats://nats-2:4222,nats://nats-3:4222

What would be served, without serving it:
  salon serve --check

Whether the gateway that runs with these settings answers:
  salon serve --health")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) places: Locations,
    /// Print a link that signs a browser in as you, once, and open it where there is a desktop
    #[arg(long, conflicts_with = "check")]
    pub(crate) open: bool,
    /// Check everything that a start needs, print what would be served, and exit
    #[arg(long)]
    pub(crate) check: bool,
    /// Health check: ask the gateway that runs with these settings for /health, and exit with 0 if it is healthy, 1 if not
    #[arg(long, conflicts_with_all = ["check", "open"])]
    pub(crate) health: bool,
    /// Wait seconds where a gateway waits for tens of them, so that tests need not: leases, retries, idle streams
    #[arg(long, hide = true)]
    pub(crate) test_timings: bool,
    /// File with MCP servers to bring in as guests for this run: `mcpServers` or `servers`; may be repeated
    #[arg(long, value_name = "FILE")]
    import: Vec<PathBuf>,
    /// Room that the servers of `--import` are brought into
    #[arg(long, value_name = "TOPIC", default_value = USUAL_TOPIC, requires = "import")]
    import_topic: TopicName,
    #[command(flatten)]
    settings: SettingFlags,
}

impl ServeArgs {
    /// Where guests are written.
    pub(crate) fn sources(&self) -> Sources {
        Sources {
            places: self.places.clone(),
            file: self.places.file(),
            overrides: self.overrides(),
            imports: self.import.clone(),
            topic: self.import_topic.clone(),
        }
    }

    /// What variables and flags give.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides { data: self.places.data.clone(), ..self.settings.0.clone() }
    }
}
