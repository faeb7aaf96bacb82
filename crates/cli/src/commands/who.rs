//! `salon who`: who is in a room.

use clap::Args;
use salon_protocol::{Participant, ParticipantKind, TopicName};
use serde::Serialize;

use super::existing;
use super::outcome::HintContext;
use super::table;
use crate::access::{Access, Reach};
use crate::trouble::Trouble;
use crate::{hand_over, note, safe};

#[derive(Debug, Args)]
pub(crate) struct WhoArgs {
    /// Which room
    topic: TopicName,
    /// Print one object: `{"topic", "participants": [{"id", "name", "kind", "mcp", "via", "status"}]}`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

#[derive(Serialize)]
struct Roster {
    topic: TopicName,
    participants: Vec<Participant>,
}

pub(crate) fn run(args: WhoArgs) -> Result<(), Trouble> {
    super::run(who(args))
}

async fn who(WhoArgs { topic, json, access }: WhoArgs) -> Result<(), Trouble> {
    let Reach { gateway, client, .. } = access.reach().map_err(Trouble::usage)?;
    let asking = HintContext { gateway: &gateway, topic: Some(&topic) };
    let mut present = client.participants(&topic).await.map_err(|error| asking.trouble(&error))?;
    present.sort_by(|a, b| a.id.cmp(&b.id));
    if json {
        let whole = serde_json::to_string(&Roster { topic, participants: present }).map_err(Trouble::failed)?;
        return hand_over(format_args!("{whole}"));
    }
    if present.is_empty() {
        let missing = existing::missing(&client, &topic).await;
        note(format_args!("{}", missing.unwrap_or_else(|| format!("nobody is in `{topic}`"))));
        return Ok(());
    }
    let rows: Vec<_> = present
        .into_iter()
        .map(|participant| {
            let kind = participant.kind.map_or("-", ParticipantKind::word).to_owned();
            let versions = if participant.mcp.versions.is_empty() {
                participant.mcp.version
            } else {
                participant.mcp.versions.join(", ")
            };
            // Somebody without a name is shown by its id, which stands there already.
            let name = participant.name.filter(|name| name != participant.id.as_str()).unwrap_or_default();
            let via = participant.via.map(|bridge| format!("via {bridge}")).unwrap_or_default();
            let status = participant.status.map(|status| status.to_string()).unwrap_or_default();
            vec![participant.id.to_string(), kind, format!("MCP {versions}"), name, via, safe::line(&status)]
        })
        .collect();
    hand_over(format_args!("{}", table::lay_out(&rows)))
}
