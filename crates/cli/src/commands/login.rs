//! `salon login` and `salon logout`: tokens kept for gateways, so that other commands need not be told.

use std::io::{self, IsTerminal, Read};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal;
use salon_client::Client;
use salon_protocol::{Timestamp, TopicPattern};
use serde::Serialize;

use super::outcome::{CANCELLED, HintContext};
use super::table;
use crate::access::claims::{TokenClaims, is_one_word};
use crate::access::credentials::{Login, StoredLogins, StoredToken};
use crate::access::{self, Access, GatewayUrl};
use crate::guests::oauth::{self, GuestLogin, OAuthArgs};
use crate::trouble::Trouble;
use crate::{clock, hand_over, note, safe};

/// The longest token that is read.
const MAX_BYTES: usize = 64 << 10;

#[derive(Debug, Args)]
#[command(after_help = "\
The command asks for the token, reads it from standard input, or takes it from
`--token-file` or `--token-command`, which later commands then use too. It tries
the token at the gateway before it stores it.

  salon login https://chat.example
  salon token 'room:*' --as alice | salon login
  salon login https://chat.example --token-command 'pass show salon'

Sign in to an MCP server that is to be a guest, with a browser, or with a code
on a machine without one:
  salon login --guest https://search.example/mcp
  salon login --guest https://search.example/mcp --device")]
pub(crate) struct LoginArgs {
    /// Which gateway [default: as for other commands]
    url: Option<String>,
    /// Sign in to the MCP server of a guest instead, and store its tokens
    #[arg(long, value_name = "URL", conflicts_with_all = ["url", "list"])]
    guest: Option<String>,
    /// List the gateways and the servers of guests with a stored token, and exit
    #[arg(long)]
    list: bool,
    /// With `--list`, print one object: `{"gateways": [{"url", "latest", "participant", "topics", "expires"}], "guests": [{"url", "issuer", "expires"}]}`
    #[arg(long, requires = "list")]
    json: bool,
    #[command(flatten)]
    oauth: OAuthArgs,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// Which gateway [default: the one logged in to last]
    url: Option<String>,
    /// Forget the tokens for the MCP server of a guest instead
    #[arg(long, value_name = "URL", conflicts_with = "url")]
    guest: Option<String>,
    /// Forget every gateway, and the server of every guest
    #[arg(long, conflicts_with_all = ["url", "guest"])]
    all: bool,
}

/// What `--list --json` prints.
#[derive(Serialize)]
struct Entries {
    gateways: Vec<LoginEntry>,
    guests: Vec<GuestEntry>,
}

#[derive(Serialize)]
struct GuestEntry {
    url: String,
    issuer: String,
    expires: Option<Timestamp>,
}

#[derive(Serialize)]
struct LoginEntry {
    url: String,
    latest: bool,
    participant: Option<String>,
    topics: Option<Vec<String>>,
    expires: Option<Timestamp>,
}

pub(crate) fn run(mut args: LoginArgs) -> Result<(), Trouble> {
    if args.list {
        return list(args.json);
    }
    if let Some(url) = &args.guest {
        return super::run(oauth::login(url, &args.oauth));
    }
    if let Some(flag) = args.oauth.given() {
        return Err(Trouble::usage(anyhow!("`{flag}` goes with `--guest`, not with a gateway")));
    }
    args.access.gateway = args.url.take().or(args.access.gateway);
    super::run(login(args.access))
}

async fn login(access: Access) -> Result<(), Trouble> {
    let mut stored = StoredLogins::read().map_err(Trouble::usage)?;
    let place = access.place_among(&stored).map_err(Trouble::usage)?;
    let ca = access.certificate(&place, &stored).map_err(Trouble::usage)?;
    let gateway = access::gateway(&place, ca.as_deref()).map_err(Trouble::usage)?;
    let token = match access.given().map_err(Trouble::usage)? {
        Some((_, token)) => absolute(token).map_err(Trouble::usage)?,
        None => StoredToken::Token(ask_for_token(&place)?.into()),
    };
    let client = Client::new(gateway, token.provider());
    let claims = access.identity(&client).await.map_err(Trouble::usage)?;
    let asking = HintContext { gateway: &place, topic: None };
    client.topics().await.map_err(|error| asking.trouble(&error))?;

    let ca = match &access.ca {
        Some(path) => Some(std::path::absolute(path).map_err(Trouble::failed)?),
        None => stored.of(&place).and_then(|login| login.ca.clone()),
    };
    stored.keep(&place, Login { token: Some(token), ca });
    let file = stored.write().map_err(Trouble::failed)?;
    note(format_args!("stored in `{}`, for your eyes only", file.display()));
    let until = claims.expires.map(|time| format!(", until {}", clock::second(time))).unwrap_or_default();
    let opens = shown_topics(&claims.topics);
    hand_over(format_args!("logged in to {place} as `{}`, which opens {opens}{until}", claims.participant))
}

/// What is stored is used from other directories as well.
fn absolute(token: StoredToken) -> anyhow::Result<StoredToken> {
    Ok(match token {
        StoredToken::File(path) => StoredToken::File(std::path::absolute(path)?),
        other => other,
    })
}

/// The topics a token opens, in words.
pub(super) fn shown_topics(topics: &[TopicPattern]) -> String {
    match topics {
        [] => "no topic".into(),
        topics => topics.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn list(as_json: bool) -> Result<(), Trouble> {
    let stored = StoredLogins::read().map_err(Trouble::usage)?;
    let (mut rows, mut entries) = (Vec::new(), Vec::new());
    for (url, login) in stored.all() {
        let latest = stored.latest.as_deref() == Some(url);
        let claims = match &login.token {
            Some(StoredToken::Token(token)) => TokenClaims::read(&token.0).ok(),
            _ => None,
        };
        let origin = match &login.token {
            Some(StoredToken::File(path)) => Some(format!("token from `{}`", path.display())),
            Some(StoredToken::Command(_)) => Some("token from a command".to_owned()),
            Some(StoredToken::Token(_)) | None => None,
        };
        let who = claims.as_ref().map(|claims| claims.participant.to_string());
        let topics = claims.as_ref().map(|claims| shown_topics(&claims.topics));
        let expires = claims.as_ref().and_then(|claims| claims.expires);
        let until = expires.map(|time| {
            let word = if time < clock::now() { "expired" } else { "until" };
            format!("{word} {}", clock::second(time))
        });
        let mark = if latest { "*" } else { " " };
        let said = origin.or(who.clone()).unwrap_or_else(|| "no token".into());
        let cells = [format!("{mark} {url}"), said, topics.unwrap_or_default(), until.unwrap_or_default()];
        rows.push(cells.to_vec());
        let topics = claims.map(|claims| claims.topics.iter().map(ToString::to_string).collect::<Vec<_>>());
        entries.push(LoginEntry { url: url.to_owned(), latest, participant: who, topics, expires });
    }
    let mut guests = Vec::new();
    for GuestLogin { url, issuer, expires, refreshable } in oauth::logins().map_err(Trouble::usage)? {
        let until = match expires {
            _ if refreshable => "refreshed when needed".to_owned(),
            Some(time) if time < clock::now() => format!("expired {}", clock::second(time)),
            Some(time) => format!("until {}", clock::second(time)),
            None => String::new(),
        };
        rows.push(vec![
            format!("  {}", safe::line(&url)),
            format!("guest, by {}", safe::line(&issuer)),
            String::new(),
            until,
        ]);
        guests.push(GuestEntry { url, issuer, expires });
    }
    if as_json {
        let whole = serde_json::to_string(&Entries { gateways: entries, guests }).map_err(Trouble::failed)?;
        return hand_over(format_args!("{whole}"));
    }
    if rows.is_empty() {
        note(format_args!("no gateway is logged in to"));
        return Ok(());
    }
    hand_over(format_args!("{}", table::lay_out(&rows)))
}

/// Forgets what was stored.
pub(crate) fn logout(args: &LogoutArgs) -> Result<(), Trouble> {
    if let Some(url) = &args.guest {
        return oauth::logout(url);
    }
    let mut stored = StoredLogins::read().map_err(Trouble::usage)?;
    let places: Vec<GatewayUrl> = if args.all {
        stored.all().filter_map(|(url, _)| GatewayUrl::read(url).ok()).collect()
    } else {
        let named = args.url.as_deref().or(stored.latest.as_deref());
        let Some(named) = named else {
            let hint = "`salon login --list` shows where you are logged in";
            return Err(Trouble::usage(anyhow!("there is no gateway to log out from\n\nhint: {hint}")));
        };
        vec![GatewayUrl::read(named).map_err(Trouble::usage)?]
    };
    for place in &places {
        if !stored.forget(place) {
            let hint = "`salon login --list` shows where you are logged in";
            return Err(Trouble::usage(anyhow!("you are not logged in to `{place}`\n\nhint: {hint}")));
        }
    }
    stored.write().map_err(Trouble::failed)?;
    for place in &places {
        hand_over(format_args!("logged out from {place}; the token itself is good until it expires"))?;
    }
    let (guests, outcome) = if args.all { oauth::logout_all() } else { (Vec::new(), Ok(())) };
    for url in &guests {
        hand_over(format_args!("forgot the tokens for {}; they are good until they expire", safe::line(url)))?;
    }
    outcome.map_err(Trouble::failed)
}

fn ask_for_token(place: &GatewayUrl) -> Result<String, Trouble> {
    let token = if io::stdin().is_terminal() {
        match read_hidden(&format!("Token for {place} (not shown): ")).map_err(Trouble::failed)? {
            Some(token) => token,
            None => return Err(Trouble::Reported(CANCELLED)),
        }
    } else {
        read_piped().map_err(Trouble::usage)?
    };
    let token = token.trim().to_owned();
    let hint = "`salon token` makes one, where the gateway runs";
    if token.is_empty() {
        return Err(Trouble::usage(anyhow!("no token was given\n\nhint: {hint}")));
    }
    if is_one_word(&token) {
        return Ok(token);
    }
    Err(Trouble::usage(anyhow!("what was given is no token: it must be one word\n\nhint: {hint}")))
}

fn read_piped() -> anyhow::Result<String> {
    let mut token = String::new();
    let read = io::stdin().lock().take(MAX_BYTES as u64 + 1).read_to_string(&mut token);
    if read.context("standard input cannot be read")? > MAX_BYTES {
        bail!("what was given is no token: it is longer than {} KiB", MAX_BYTES >> 10);
    }
    Ok(token)
}

/// Reads a line from the terminal without showing it; `None` when it was given up.
fn read_hidden(prompt: &str) -> anyhow::Result<Option<String>> {
    use std::io::Write;

    // Hidden before it is asked for: what is typed early is not shown either.
    terminal::enable_raw_mode().context("the terminal cannot be told to hide what is typed")?;
    let _ = write!(io::stderr(), "{prompt}");
    let mut line = String::new();
    let typed = loop {
        let pressed = match event::read() {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => key,
            Ok(Event::Paste(text)) => {
                line.push_str(&text);
                continue;
            }
            Ok(_) => continue,
            Err(error) => break Err(error),
        };
        match pressed {
            KeyEvent { code: KeyCode::Char('c' | 'd'), modifiers: KeyModifiers::CONTROL, .. } => break Ok(None),
            KeyEvent { code: KeyCode::Enter, .. }
            | KeyEvent { code: KeyCode::Char('j'), modifiers: KeyModifiers::CONTROL, .. } => break Ok(Some(line)),
            KeyEvent { code: KeyCode::Backspace, .. } => drop(line.pop()),
            KeyEvent { code: KeyCode::Char('u'), modifiers: KeyModifiers::CONTROL, .. } => line.clear(),
            KeyEvent { code: KeyCode::Char(c), modifiers: KeyModifiers::NONE | KeyModifiers::SHIFT, .. }
                if line.len() < MAX_BYTES =>
            {
                line.push(c);
            }
            _ => {}
        }
    };
    let restored = terminal::disable_raw_mode();
    note(format_args!(""));
    restored.context("the terminal could not be put back as it was")?;
    typed.context("the terminal cannot be read")
}
