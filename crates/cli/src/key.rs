//! `salon key`: the keys that the gateway's own tokens are signed with.

use std::path::Path;

use clap::{Args, Subcommand};
use salon_gateway::auth::{KeyInfo, KeyUse, SigningKeys};
use salon_gateway::config::Span;
use salon_protocol::Timestamp;
use serde_json::json;

use crate::args::Locations;
use crate::token::data_directory;
use crate::trouble::Trouble;
use crate::{clock, hand_over, note};

#[derive(Debug, Args)]
#[command(after_help = "\
A new key signs from now on, and a running gateway knows it at once. Tokens of the older keys are
good until they expire, or until their key is removed. `first` is the key in auth.key; its tokens
do not name a key.

Gateways that share their rooms on NATS each need the keys: rotate with --after, and copy
signing-keys.json to the data directories of the others (mode 600) before that time.

Examples:
  salon key rotate
  salon key rotate --after 10m
  salon key list
  salon key remove first")]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    action: KeyAction,
}

#[derive(Debug, Subcommand)]
enum KeyAction {
    /// List the keys, the oldest first
    List {
        /// Print one object a key: `{"kid": "…", "use": "signs", "signs_from": "…"}`
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        places: Locations,
    },
    /// Make a new key, and sign new tokens with it
    Rotate {
        /// Sign with it only after this time; the gateway accepts its tokens at once
        #[arg(long, value_name = "TIME")]
        after: Option<Span>,
        #[command(flatten)]
        places: Locations,
    },
    /// Remove a key: a running gateway refuses its tokens
    Remove {
        /// Id of the key, as `salon key list` has it
        #[arg(value_name = "KEY")]
        kid: String,
        #[command(flatten)]
        places: Locations,
    },
}

pub(crate) fn run(args: KeyArgs) -> Result<(), Trouble> {
    let now = clock::now();
    match args.action {
        KeyAction::List { json, places } => list(&data_directory(&places).map_err(Trouble::usage)?, json, now),
        KeyAction::Rotate { after, places } => {
            let data = data_directory(&places).map_err(Trouble::usage)?;
            let wait = after.map_or(0, |span| u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX));
            let signs_from = Timestamp(now.0.saturating_add(wait));
            let kid = SigningKeys::rotate(&data, signs_from).map_err(Trouble::failed)?;
            match wait {
                0 => note(format_args!("it signs from now on; tokens of the older keys are good until they expire")),
                _ => note(format_args!(
                    "it signs from {signs_from} on; copy `signing-keys.json` to other gateways before that"
                )),
            }
            hand_over(format_args!("{kid}"))
        }
        KeyAction::Remove { kid, places } => {
            let data = data_directory(&places).map_err(Trouble::usage)?;
            SigningKeys::remove(&data, &kid, now).map_err(Trouble::failed)?;
            note(format_args!(
                "tokens of `{kid}` are refused from now on; a running gateway closes their connections within a second"
            ));
            Ok(())
        }
    }
}

fn list(data: &Path, json: bool, now: Timestamp) -> Result<(), Trouble> {
    let keys = SigningKeys::find(data).map_err(Trouble::failed)?;
    let Some(keys) = keys else {
        note(format_args!("there is no key in `{}` yet", data.display()));
        return Ok(());
    };
    let lines: Vec<_> = keys.list(now).iter().map(|key| if json { object(key) } else { line(key) }).collect();
    hand_over(format_args!("{}", lines.join("\n")))
}

fn line(key: &KeyInfo) -> String {
    let what = match (key.key_use, key.signs_from) {
        (KeyUse::Waits, Some(from)) => format!("signs from {from} on"),
        (key_use, _) => word(key_use).to_owned(),
    };
    format!("{:<24} {what}", key.kid)
}

fn object(key: &KeyInfo) -> String {
    json!({ "kid": key.kid, "use": word(key.key_use), "signs_from": key.signs_from.map(|from| from.to_string()) })
        .to_string()
}

fn word(key_use: KeyUse) -> &'static str {
    match key_use {
        KeyUse::Signs => "signs",
        KeyUse::Verifies => "verifies",
        KeyUse::Waits => "waits",
        KeyUse::Refused => "refused",
    }
}
