//! `salon token`: the token alone on stdout, everything else on stderr.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::anyhow;
use salon_control::{CapabilitySet, GhostGrant};
use salon_gateway::auth::{Grant, SigningKeys};
use salon_gateway::config::{Config, Overrides};
use salon_protocol::Timestamp;

use crate::args::{Locations, TokenArgs};
use crate::trouble::Trouble;
use crate::{clock, hand_over, note};

pub(crate) fn run(args: TokenArgs) -> Result<(), Trouble> {
    let data = data_directory(&args.places).map_err(Trouble::usage)?;
    let keys = match SigningKeys::find(&data).map_err(Trouble::failed)? {
        Some(keys) => keys,
        None => {
            let keys = SigningKeys::load_or_create(&data).map_err(Trouble::failed)?;
            note(format_args!(
                "made a new key in `{}`; the token works for a gateway that has its data there",
                data.display()
            ));
            keys
        }
    };
    let now = clock::now();
    let ttl = u64::try_from(args.ttl.0.as_millis()).unwrap_or(u64::MAX);
    let expires = Timestamp(now.0.saturating_add(ttl));
    let topics = args.topics.into_iter().chain(args.topic).collect();
    let mut grant = Grant::new(args.id, topics, expires);
    grant.name = args.name;
    grant.kind = args.kind;
    grant.permissions = args.permission;
    if !args.capability.is_empty() {
        CapabilitySet::parse(&args.capability).map_err(|why| Trouble::usage(anyhow!("{why}")))?;
        grant.capabilities = Some(args.capability);
    }
    if !args.acts_for.is_empty() {
        let ghosts = GhostGrant {
            max: args.ghosts_max.map(|max| max as usize),
            calls: args.ghosts_call,
            ..GhostGrant::new(args.acts_for)
        };
        grant.ghosts =
            Some(if args.ghost_kind.is_empty() { ghosts } else { GhostGrant { kinds: args.ghost_kind, ..ghosts } });
    }
    check_namespaces(&args.places, &grant).map_err(Trouble::usage)?;
    grant.require_integrity = args.require_integrity;
    grant.confirmation = args.integrity_key;
    let token = keys.signer(now).sign(&grant, now).map_err(Trouble::usage)?;
    if io::stderr().is_terminal() {
        note(format_args!("the token is good until {}; `--ttl` sets how long", clock::second(expires)));
    }
    hand_over(format_args!("{token}"))
}

/// Refuses a token for an id that belongs to a bridge, where the configuration at hand says so. A gateway with another configuration judges
/// by its own.
fn check_namespaces(places: &Locations, grant: &Grant) -> anyhow::Result<()> {
    // With a data directory alone, no file is meant.
    if places.data.is_some() && places.config.is_none() {
        return Ok(());
    }
    let Some(path) = places.trusted_file()? else { return Ok(()) };
    let mut config = Config::default();
    config.apply(Overrides::from_file(&path)?);
    let declared = config.namespaces().map_err(|why| anyhow!("`auth.namespaces` in `{}`: {why}", path.display()))?;
    grant.require_namespaces(&declared)?;
    Ok(())
}

/// Where the data is. Only this one setting is looked at: a token can be made while the rest is not yet right.
pub(crate) fn data_directory(places: &Locations) -> anyhow::Result<PathBuf> {
    if let Some(data) = &places.data {
        return Ok(data.clone());
    }
    let given = places.trusted_file()?.map(|path| Overrides::from_file(&path)).transpose()?;
    Ok(given.and_then(|given| given.data).unwrap_or_else(|| Config::default().data))
}
