//! The lines with which a person joins the demo's room. They fit a terminal of 80 by 24, and no token is among them.

use std::net::SocketAddr;
use std::path::Path;

/// What to paste is on lines of its own, without comments, which not every shell takes at its prompt.
pub(crate) fn text(address: SocketAddr, topic: &str, data: &Path, link: &str) -> String {
    let (data, program) = (data.display(), program());
    format!(
        "{topic} is open on {address}. Ctrl-C ends it.

To join in, open this in a browser (it works once, for 10 minutes):

{link}

Or paste this into another terminal:

export SALON_GATEWAY=http://{address} SALON_DATA={data}
{program} chat {topic}

Say `coordinator, go to 2 3` or `rover, where are you?`: they answer to their
names. `{program} call {topic} rover position` calls a tool.
"
    )
}

/// How this program is called: by its name where the shell finds it by that, else by its path.
fn program() -> String {
    let Ok(this) = std::env::current_exe().and_then(|path| path.canonicalize()) else { return "salon".into() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).find_map(|folder| folder.join("salon").canonicalize().ok());
    if found.as_ref() == Some(&this) {
        return "salon".into();
    }
    let here = std::env::current_dir().and_then(|path| path.canonicalize()).ok();
    let below = here.as_ref().and_then(|here| this.strip_prefix(here).ok()).map(|rest| Path::new(".").join(rest));
    below.unwrap_or(this).display().to_string()
}
