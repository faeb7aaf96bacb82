//! `salon revoke`: tokens that a gateway refuses from now on.

use anyhow::anyhow;
use clap::{Args, Subcommand};
use salon_client::{RestError, TokenSelection};
use serde_json::json;

use super::outcome::HintContext;
use crate::access::claims::TokenClaims;
use crate::access::{Access, Reach};
use crate::trouble::Trouble;
use crate::{hand_over, note};

/// What the token of this command must permit.
const PERMISSION: &str = "revoke";

#[derive(Debug, Args)]
#[command(after_help = "\
On the gateway's machine, this command makes its own token with the gateway's
key. On another machine you need a token with the permission `revoke`:
  salon token '*' --as admin --permission revoke

Every gateway of the store refuses a revoked token and closes its connections.
Tokens issued later are not affected. A browser that signed in with a revoked
token is signed out.

Examples:
  salon revoke token 6f1d0c5e9b7a4f3d8c2e1a0b9f8e7d6c
  salon revoke participant alice
  salon revoke all --before 2026-01-31T12:00:00Z")]
pub(crate) struct RevokeArgs {
    #[command(subcommand)]
    what: RevokeTarget,
}

#[derive(Debug, Subcommand)]
enum RevokeTarget {
    /// Revoke one token
    Token {
        /// Id of the token (its claim `jti`, in the audit trail `token_id`), or the token itself
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        common: RevokeOptions,
    },
    /// Revoke the tokens of a participant
    Participant {
        /// Id of the participant, or its subject (`sub`) at the gateway's authorization server
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        before: RevokeBefore,
        #[command(flatten)]
        common: RevokeOptions,
    },
    /// Revoke the tokens of all participants
    All {
        #[command(flatten)]
        before: RevokeBefore,
        #[command(flatten)]
        common: RevokeOptions,
    },
}

#[derive(Debug, Args)]
struct RevokeBefore {
    /// Revoke only tokens issued up to this time [default: now]
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
}

#[derive(Debug, Args)]
struct RevokeOptions {
    /// Print one object: `{"before": "…", "participants": ["…"]}`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(args: RevokeArgs) -> Result<(), Trouble> {
    super::run(revoke(args.what))
}

async fn revoke(what: RevokeTarget) -> Result<(), Trouble> {
    let (tokens, before, RevokeOptions { json, access }) = match what {
        RevokeTarget::Token { id, common } => {
            (TokenSelection::Token(token_id(id).map_err(Trouble::usage)?), None, common)
        }
        RevokeTarget::Participant { id, before, common } => (TokenSelection::Subject(id), before.before, common),
        RevokeTarget::All { before, common } => (TokenSelection::All, before.before, common),
    };
    let Reach { gateway, client, .. } = access.reach_with(&[PERMISSION]).map_err(Trouble::usage)?;
    let asking = HintContext { gateway: &gateway, topic: None };
    let revoked = client.revoke(&tokens, before.as_deref()).await;
    let revoked = revoked.map_err(|error| match &error {
        RestError::Refused(refusal) if refusal.status == 403 => {
            let hint = "on the machine of the gateway, its own key makes a token that may: leave out `--token` and `SALON_TOKEN`, and name its data with `--data`";
            Trouble::coded(super::outcome::REFUSED, refusal.message.clone(), hint)
        }
        _ => asking.trouble(&error),
    })?;
    let (before, ids) = (&revoked.before, &revoked.participants);
    if json {
        let mut object = json!({ "before": before });
        if !ids.is_empty() {
            object["participants"] = json!(ids);
        }
        return hand_over(format_args!("{object}"));
    }
    match tokens {
        TokenSelection::Token(id) => note(format_args!("revoked the token `{id}`")),
        TokenSelection::Subject(given) => {
            let names: Vec<_> = ids.iter().map(|id| format!("`{id}`")).collect();
            let names = if names.is_empty() { vec![format!("`{given}`")] } else { names };
            note(format_args!("revoked the tokens of {} issued up to {before}", names.join(" and ")));
        }
        _ => note(format_args!("revoked all tokens issued up to {before}")),
    }
    Ok(())
}

/// The id of a token that was given as its id or whole.
fn token_id(given: String) -> anyhow::Result<String> {
    if given.matches('.').count() != 2 {
        return Ok(given);
    }
    TokenClaims::read(&given)?.id.ok_or_else(|| anyhow!("the token has no id (`jti`)\n\nhint: revoke its participant"))
}
