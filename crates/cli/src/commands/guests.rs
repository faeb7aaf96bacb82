//! `salon guests`: the guests that a configuration names, and whether they are in their rooms.

use std::collections::BTreeMap;

use clap::Args;
use salon_gateway::config::Config;
use salon_protocol::TopicName;
use serde::Serialize;

use super::outcome::HintContext;
use super::table;
use crate::access::{Access, Reach};
use crate::args::Locations;
use crate::guests::import::USUAL_TOPIC;
use crate::guests::plan::{InputAnswers, Sources};
use crate::trouble::Trouble;
use crate::{hand_over, note, safe};

#[derive(Debug, Args)]
#[command(after_help = "\
The guests are those of `salon.toml`. Why one is not in its room is in the log of `salon serve`; `salon serve --check` says what prevents it.

  salon guests
  salon guests room:lab --json")]
pub(crate) struct GuestsArgs {
    /// Only those of this room
    topic: Option<TopicName>,
    /// Configuration file [default: salon.toml, if there is one]
    #[arg(long, value_name = "FILE", env = "SALON_CONFIG", hide_env = true)]
    config: Option<std::path::PathBuf>,
    /// Print one object: `{"guests": [{"topic", "id", "state", "tools"}]}`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

#[derive(Serialize)]
struct GuestsReport {
    guests: Vec<GuestState>,
}

#[derive(Serialize)]
struct GuestState {
    topic: TopicName,
    id: String,
    /// `here`, `away` or `left out`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub(crate) fn run(args: &GuestsArgs) -> Result<(), Trouble> {
    let places = Locations { config: args.config.clone(), data: args.access.data.clone() };
    let file = places.trusted_file().map_err(Trouble::usage)?;
    let config = Config::load(file.as_deref(), salon_gateway::config::Overrides::default()).map_err(Trouble::usage)?;
    let topic = TopicName::new(USUAL_TOPIC).expect("the usual topic is one");
    let sources = Sources { places, file, overrides: Default::default(), imports: Vec::new(), topic };
    let plan = sources.plan(&config, &InputAnswers::default()).map_err(Trouble::usage)?;
    super::run(async {
        let Reach { gateway, client, .. } = args.access.reach().map_err(Trouble::usage)?;
        let mut tools = BTreeMap::new();
        let mut guests = Vec::new();
        let wanted = plan
            .guests
            .into_iter()
            .filter(|planned| args.topic.as_ref().is_none_or(|topic| *topic == planned.key.topic));
        for planned in wanted {
            let (topic, id) = (planned.key.topic, planned.key.id);
            if !tools.contains_key(&topic) {
                let asking = HintContext { gateway: &gateway, topic: Some(&topic) };
                let present = client.participants(&topic).await.map_err(|error| asking.trouble(&error))?;
                // A gateway that cannot say how many tools there are still says who is there.
                let listed = client.tools(&topic, None).await.unwrap_or_default();
                tools.insert(topic.clone(), (present, listed));
            }
            let (present, listed) = &tools[&topic];
            let is_here = present.iter().any(|one| one.id == id);
            let count = listed.iter().find(|offer| offer.id == id).and_then(|offer| Some(offer.items.as_ref()?.len()));
            let (state, why) = match planned.ready {
                Err(error) => ("left out", Some(safe::line(&format!("{error:#}")))),
                Ok(_) if is_here => ("here", None),
                Ok(_) => ("away", None),
            };
            guests.push(GuestState { topic, id: id.to_string(), state, tools: count.filter(|_| is_here), why });
        }
        show(guests, args.json)
    })
}

fn show(guests: Vec<GuestState>, json: bool) -> Result<(), Trouble> {
    if json {
        let whole = serde_json::to_string(&GuestsReport { guests }).map_err(Trouble::failed)?;
        return hand_over(format_args!("{whole}"));
    }
    if guests.is_empty() {
        note(format_args!("the configuration names no guests; `salon import` adds those of other programs"));
        return Ok(());
    }
    let rows: Vec<_> = guests
        .into_iter()
        .map(|guest| {
            let tools = match guest.tools {
                Some(1) => "1 tool".to_owned(),
                Some(count) => format!("{count} tools"),
                None => String::new(),
            };
            vec![guest.topic.to_string(), guest.id, guest.state.to_owned(), guest.why.unwrap_or(tools)]
        })
        .collect();
    hand_over(format_args!("{}", table::lay_out(&rows)))
}
