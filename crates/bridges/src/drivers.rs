//! The platforms that this program has: each is a feature of the crate.

use std::sync::Arc;

use crate::config::BridgeConfig;
use crate::init::{InitOptions, InitPlan};
use crate::platform::{DriverError, PlatformDriver};

/// Opens the driver of a bridge's platform.
type OpenDriver = fn(&BridgeConfig) -> Result<Arc<dyn PlatformDriver>, DriverError>;
/// What `salon bridge init` writes for a platform.
type PlanInit = fn(&InitOptions) -> InitPlan;

/// A platform of this program.
#[derive(Debug, Clone, Copy)]
pub struct PlatformModule {
    pub name: &'static str,
    pub open: OpenDriver,
    pub init: PlanInit,
}

/// The platforms that there are, and whether this program was built with them.
const KNOWN: [&str; 5] = ["discord", "irc", "matrix", "slack", "xmpp"];

/// The platforms of this program.
pub const PLATFORMS: &[PlatformModule] = &[
    #[cfg(feature = "discord")]
    PlatformModule { name: "discord", open: crate::discord::open, init: crate::discord::init },
    #[cfg(feature = "irc")]
    PlatformModule { name: "irc", open: crate::irc::open, init: crate::irc::init },
    #[cfg(feature = "matrix")]
    PlatformModule { name: "matrix", open: crate::matrix::open, init: crate::matrix::init },
    #[cfg(feature = "slack")]
    PlatformModule { name: "slack", open: crate::slack::open, init: crate::slack::init },
    #[cfg(feature = "xmpp")]
    PlatformModule { name: "xmpp", open: crate::xmpp::open, init: crate::xmpp::init },
];

/// The platform with a name.
pub fn platform(name: &str) -> Result<PlatformModule, DriverError> {
    let found = PLATFORMS.iter().find(|platform| platform.name == name).copied();
    found.ok_or_else(|| {
        let names: Vec<&str> = PLATFORMS.iter().map(|platform| platform.name).collect();
        let names = names.join(", ");
        DriverError(match KNOWN.contains(&name) {
            true => format!("this `salon` was built without bridges to `{name}`; it has: {names}"),
            false => format!("there is no platform `{name}`; there are: {names}"),
        })
    })
}

/// Opens the driver of a bridge.
pub fn open(config: &BridgeConfig) -> Result<Arc<dyn PlatformDriver>, DriverError> {
    (platform(&config.platform)?.open)(config)
}
