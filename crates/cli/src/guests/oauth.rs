//! Signing in to a guest's server: the flags, the browser, and where tokens are stored. `salon login --guest` and `salon logout --guest`.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use salon_guests::oauth::{
    GuestSignInOutcome, OAuthOptions, RegisteredClient, ResourceUrl, SignInNotice, SignInPrompt, SignInWay, TokenStore,
    sign_in,
};
use salon_protocol::Timestamp;
use tokio::process::Command;

use crate::access::credentials;
use crate::trouble::Trouble;
use crate::{clock, hand_over, note, safe};

const HEADING: &str = "Signing in to the server (OAuth)";

/// The variable with the secret of a client that was registered by hand.
const SECRET: &str = "SALON_OAUTH_CLIENT_SECRET";

#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub(crate) struct OAuthArgs {
    /// Sign in on another machine: show a page and a code, and open no browser
    #[arg(long, help_heading = HEADING)]
    device: bool,
    /// OAuth client id, if the authorization server does not register clients itself
    #[arg(long, value_name = "ID", help_heading = HEADING)]
    oauth_client_id: Option<String>,
    /// File with the secret of that client, if it has one [env: SALON_OAUTH_CLIENT_SECRET is the secret itself]
    #[arg(long, value_name = "FILE", requires = "oauth_client_id", help_heading = HEADING)]
    oauth_client_secret_file: Option<PathBuf>,
    /// Authorization server of that client; required with a secret, which no other server gets
    #[arg(long, value_name = "URL", requires = "oauth_client_id", help_heading = HEADING)]
    oauth_issuer: Option<String>,
}

impl OAuthArgs {
    /// The first of the flags that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let flags = [("--device", self.device), ("--oauth-client-id", self.oauth_client_id.is_some())];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// How a server is signed in to when somebody is here, and how it is not when nobody is.
    pub(crate) fn options(&self, is_asked_for: bool) -> anyhow::Result<Option<OAuthOptions>> {
        let Some(store) = store() else { return Ok(None) };
        let anybody = is_asked_for || self.device || has_browser_command() || io::stderr().is_terminal();
        let way = match (self.device, has_browser()) {
            (true, _) => SignInWay::Device,
            (false, true) => SignInWay::Browser,
            (false, false) => SignInWay::DeviceIfOffered,
        };
        let prompt = anybody.then(|| SignInPrompt { way, show: Arc::new(show) });
        Ok(Some(OAuthOptions { store, client: self.client()?, prompt }))
    }

    fn client(&self) -> anyhow::Result<Option<RegisteredClient>> {
        let Some(id) = &self.oauth_client_id else { return Ok(None) };
        let secret = match &self.oauth_client_secret_file {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                Some(text.with_context(|| format!("`{}` cannot be read", path.display()))?.trim().to_owned())
            }
            None => std::env::var(SECRET).ok().filter(|secret| !secret.is_empty()),
        };
        let has_secret = secret.is_some();
        let client = RegisteredClient::new(id, secret);
        match &self.oauth_issuer {
            Some(issuer) => {
                // An address is judged as that of a server is: https, or this machine.
                ResourceUrl::parse(issuer).context("`--oauth-issuer` is not the address of an authorization server")?;
                Ok(Some(client.of_issuer(issuer)))
            }
            None if has_secret => bail!(
                "a client secret needs `--oauth-issuer`\n\nhint: name the authorization server that registered the client; no other gets the secret"
            ),
            None => Ok(Some(client)),
        }
    }
}

/// The tokens of guests: beside what `salon login` keeps for gateways. `None` without a home directory.
pub(crate) fn store() -> Option<TokenStore> {
    credentials::path()?.parent().map(|directory| TokenStore::new(directory.join("guests")))
}

/// What helps when a guest's server wants a sign-in.
pub(crate) fn login_command(url: &str) -> String {
    format!("salon login --guest {}", safe::shell(url))
}

/// What xdg-open, Python and others take for the user's browser as well.
fn has_browser_command() -> bool {
    std::env::var_os("BROWSER").is_some_and(|value| !value.is_empty())
}

fn has_browser() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || has_browser_command() || set("WAYLAND_DISPLAY") || set("DISPLAY")
}

/// Shows a page or a code on stderr; a page is opened as well where there is a browser.
fn show(notice: &SignInNotice) {
    match notice {
        SignInNotice::Browse { url } => {
            note(format_args!("sign in with a browser on this machine:\n  {}", safe::line(url)));
            open(url);
        }
        SignInNotice::Code(prompt) => {
            let (url, code) = (safe::line(&prompt.url), safe::line(&prompt.code));
            let (resource, issuer) = (safe::line(&prompt.resource), safe::line(&prompt.issuer));
            note(format_args!(
                "sign in to {resource} by {issuer} with any browser: open {url} and type the code {code}"
            ));
            if prompt.is_foreign_page {
                note(format_args!(
                    "warning: that page is not on the host of {issuer}; go on only if you know that it belongs to it"
                ));
            }
            if let Some(complete) = &prompt.complete_url {
                note(format_args!("  or open {}", safe::line(complete)));
            }
        }
    }
}

fn open(url: &str) {
    if !has_browser() {
        return;
    }
    let usual = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let program = std::env::var_os("BROWSER").filter(|value| !value.is_empty()).unwrap_or_else(|| usual.into());
    // Not there, or not able to: the page is on the screen. The runtime collects the child.
    let _ = Command::new(program).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}

/// `salon login --guest URL`.
pub(crate) async fn login(url: &str, args: &OAuthArgs) -> Result<(), Trouble> {
    let resource = ResourceUrl::parse(url).map_err(Trouble::usage)?;
    let options = args.options(true).map_err(Trouble::usage)?;
    let options = options.ok_or_else(|| Trouble::usage(no_home()))?;
    let path = options.store.path(&resource);
    match sign_in(url, options).await.map_err(Trouble::failed)? {
        GuestSignInOutcome::NotNeeded => {
            hand_over(format_args!("{} wants no sign-in; nothing was stored", resource.as_str()))
        }
        GuestSignInOutcome::SignedIn(tokens) => {
            note(format_args!("stored in `{}`, for your eyes only", path.display()));
            let until = tokens.expires.map(|time| format!(", until {}", shown_time(time))).unwrap_or_default();
            let by = safe::line(&tokens.issuer);
            let refreshed = if tokens.is_refreshable() { "; it is refreshed when it expires" } else { "" };
            hand_over(format_args!("signed in to {} by {by}{until}{refreshed}", resource.as_str()))
        }
    }
}

/// `salon logout --guest URL`.
pub(crate) fn logout(url: &str) -> Result<(), Trouble> {
    let resource = ResourceUrl::parse(url).map_err(Trouble::usage)?;
    let store = store().ok_or_else(|| Trouble::usage(no_home()))?;
    if !store.forget(&resource).map_err(Trouble::failed)? {
        let hint = "`salon login --list` shows where you are signed in";
        return Err(Trouble::usage(anyhow!("there are no tokens for `{}`\n\nhint: {hint}", resource.as_str())));
    }
    hand_over(format_args!("forgot the tokens for {}; they are good until they expire", resource.as_str()))
}

/// A server that is signed in to, for `salon login --list`.
pub(crate) struct GuestLogin {
    pub(crate) url: String,
    pub(crate) issuer: String,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) refreshable: bool,
}

/// The servers that are signed in to.
pub(crate) fn logins() -> anyhow::Result<Vec<GuestLogin>> {
    let all = store().map(|store| store.all()).transpose()?.unwrap_or_default();
    let login = |tokens: salon_guests::oauth::OAuthTokens| GuestLogin {
        refreshable: tokens.is_refreshable(),
        expires: tokens.expires.map(timestamp),
        url: tokens.url,
        issuer: tokens.issuer,
    };
    Ok(all.into_iter().map(login).collect())
}

/// Forgets the tokens of every guest. Hands back which, and what failed.
pub(crate) fn logout_all() -> (Vec<String>, anyhow::Result<()>) {
    let Some(store) = store() else { return (Vec::new(), Ok(())) };
    let (forgotten, outcome) = store.forget_all();
    (forgotten, outcome.map_err(Into::into))
}

fn no_home() -> anyhow::Error {
    anyhow!("there is no home directory to store tokens in\n\nhint: set `HOME`")
}

fn timestamp(seconds: u64) -> Timestamp {
    Timestamp(seconds.saturating_mul(1000))
}

fn shown_time(seconds: u64) -> String {
    clock::second(timestamp(seconds))
}
