//! `salon bridge init`: files for a bridge, and the steps that a person has to take.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use salon_bridges::drivers;
use salon_bridges::init::InitOptions;
use salon_protocol::TopicName;

use crate::trouble::Trouble;
use crate::{hand_over, note};

#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  salon bridge init irc --server irc.example.org:6697 --channel '#lab' --topic room:lab >> salon.toml")]
pub(crate) struct InitArgs {
    /// Platform: irc, xmpp, matrix, slack, discord
    #[arg(value_name = "PLATFORM")]
    platform: String,
    /// Name of the bridge [default: the platform's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Server of the platform
    #[arg(long, value_name = "ADDRESS")]
    server: Option<String>,
    /// Channel to bridge, as the platform names it
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// Room to bridge it to
    #[arg(long, value_name = "TOPIC", default_value = crate::guests::import::USUAL_TOPIC)]
    topic: TopicName,
    /// Folder for the files that are written: that of `salon.toml`
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

pub(super) fn run(args: &InitArgs) -> Result<(), Trouble> {
    let platform = drivers::platform(&args.platform).map_err(Trouble::usage)?;
    let secret = || uuid::Uuid::new_v4().simple().to_string() + &uuid::Uuid::new_v4().simple().to_string();
    let options = InitOptions {
        name: args.name.clone().unwrap_or_else(|| args.platform.clone()),
        server: args.server.clone(),
        channel: args.channel.clone(),
        topic: args.topic.to_string(),
        secrets: [secret(), secret()],
    };
    let plan = (platform.init)(&options);
    for file in &plan.files {
        let path = args.folder.join(&file.path);
        write_new(&path, &file.text, file.is_secret)
            .map_err(|error| Trouble::failed(anyhow!("`{}` cannot be written: {error}", path.display())))?;
        note(format_args!("wrote {}", path.display()));
    }
    hand_over(format_args!("{}", plan.section.trim_end()))?;
    note(format_args!("\nNext:"));
    let last = [
        "Put the section above into `salon.toml`.".to_owned(),
        "Run `salon bridge check`, then `salon serve`.".to_owned(),
    ];
    for (index, step) in plan.steps.iter().chain(&last).enumerate() {
        note(format_args!("  {}. {step}", index + 1));
    }
    Ok(())
}

fn write_new(path: &Path, text: &str, is_secret: bool) -> std::io::Result<()> {
    let mode = if is_secret { 0o600 } else { 0o644 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}
