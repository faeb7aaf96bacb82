//! `--open`: a link that signs a browser in, and the desktop's own way of opening it.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::anyhow;
use salon_gateway::auth::{Grant, SignInLinks};
use salon_gateway::config::Config;
use salon_protocol::{ParticipantKind, Timestamp, TopicPattern};
use tokio::process::Command;

use crate::access::user;
use crate::trouble::Trouble;
use crate::{clock, out};

/// How long the browser that follows the link stays signed in.
const STAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A link that signs a browser in as this user, for every topic: the user who starts a gateway may enter everywhere.
pub(super) fn link(config: &Config, address: SocketAddr, links: &SignInLinks) -> Result<String, Trouble> {
    if !config.ui.enabled {
        return Err(Trouble::usage(anyhow!(
            "`--open` opens a page, and the page is switched off\n\nhint: leave out `--open`, or `ui.enabled = false` (`--ui-enabled=false`)"
        )));
    }
    let who = user().ok_or_else(|| {
        Trouble::usage(anyhow!(
            "your user name cannot be an id here\n\nhint: make a token with `salon token` and sign in with that"
        ))
    })?;
    let now = clock::now();
    let everywhere = vec![TopicPattern::Prefix("".into())];
    let grant = Grant {
        kind: Some(ParticipantKind::Human),
        ..Grant::new(who, everywhere, Timestamp(now.0.saturating_add(STAY_MS)))
    };
    Ok(format!("{}{}", config.page_url(address), links.fragment(grant, now)))
}

/// Prints the link on stdout, never in a log line, and has the desktop open it where there is one.
pub(super) fn open(link: &str) {
    // A gateway serves whether or not somebody reads this.
    let _ = out(format_args!("Open {link} (works once, for 10 minutes)"));
    if !std::io::stdout().is_terminal() {
        return;
    }
    let (program, there) = if cfg!(target_os = "macos") {
        ("open", true)
    } else {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        ("xdg-open", set("WAYLAND_DISPLAY") || set("DISPLAY"))
    };
    if there {
        // Not there, or not able to: the link is on the screen. The runtime collects the child.
        let _ =
            Command::new(program).arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    }
}
