//! `salon bridge check`: what is in the way of a bridge.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use salon_bridges::config::BridgeConfig;
use salon_bridges::drivers;
use salon_bridges::platform::{CheckFinding, CheckVerdict};
use salon_client::ErrorKind;

use super::{client, read_file};
use crate::access::Access;
use crate::trouble::Trouble;
use crate::{out, safe};

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// File with sections `[bridges.NAME]`
    #[arg(value_name = "FILE", default_value = "salon.toml")]
    file: PathBuf,
    /// Only the bridge with this name
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    #[command(flatten)]
    access: Access,
}

pub(super) async fn run(args: CheckArgs) -> Result<(), Trouble> {
    let configs = read_file(&args.file, args.only.as_deref()).map_err(Trouble::usage)?;
    let mut problems = 0;
    for config in configs {
        let _ = out(format_args!("{} ({})", config.name, safe::line(&config.platform)));
        let mut findings = match drivers::open(&config) {
            Ok(driver) => driver.check().await,
            Err(error) => {
                vec![problem("settings", error.to_string(), "correct `salon.toml`, or the file that it names")]
            }
        };
        findings.extend(check_rooms(&args.access, &config).await);
        for finding in findings {
            let subject = safe::line(&finding.subject);
            let _ = match finding.verdict {
                CheckVerdict::Fine { detail } => out(format_args!("  ok       {subject}: {}", safe::line(&detail))),
                CheckVerdict::Problem { detail, hint } => {
                    problems += 1;
                    out(format_args!(
                        "  problem  {subject}: {}\n           hint: {}",
                        safe::block(&detail),
                        safe::line(&hint)
                    ))
                }
            };
        }
    }
    match problems {
        0 => Ok(()),
        1 => Err(Trouble::failed(anyhow!("1 problem"))),
        count => Err(Trouble::failed(anyhow!("{count} problems"))),
    }
}

/// What is in the way of a bridge in its rooms. A gateway that does not run yet is not: `salon serve` starts it together with the bridge.
async fn check_rooms(access: &Access, config: &BridgeConfig) -> Vec<CheckFinding> {
    const NOT_RUNNING: &str = "no gateway runs here yet; `salon serve` starts one with this bridge";
    let is_here = access.is_here().unwrap_or(false);
    let subjects = config.channels.values().map(|topic| (topic, format!("room {topic}")));
    if is_here && access.local_keys().is_ok_and(|keys| keys.is_none()) {
        return subjects.map(|(_, subject)| fine(&subject, NOT_RUNNING)).collect();
    }
    let client = match client(access, config) {
        Ok(client) => client,
        Err(error) => return vec![problem("token", error.to_string(), "give the bridge a token with `--token-file`")],
    };
    let mut findings = Vec::new();
    for (topic, subject) in subjects {
        findings.push(match client.participants(topic).await {
            Ok(present) if present.iter().any(|one| one.id == config.participant()) => {
                fine(&subject, "the bridge is in it")
            }
            Ok(_) => fine(&subject, "the bridge may enter"),
            Err(error) if is_here && error.kind() == ErrorKind::Unreachable => fine(&subject, NOT_RUNNING),
            Err(error) => problem(&subject, error.to_string(), "is the gateway running? `salon doctor` looks"),
        });
    }
    findings
}

fn fine(subject: &str, detail: &str) -> CheckFinding {
    CheckFinding { subject: subject.into(), verdict: CheckVerdict::Fine { detail: detail.into() } }
}

fn problem(subject: &str, detail: String, hint: &str) -> CheckFinding {
    CheckFinding { subject: subject.into(), verdict: CheckVerdict::Problem { detail, hint: hint.into() } }
}
