//! The one way to name a gateway and the credentials for it, shared by every command that talks to one.
//!
//! In order of decreasing weight: flags, variables, what `salon login` stored, and for a gateway on this machine its own key.
//! Invariant: no token is printed, put into an error or shown by `Debug`.

pub(crate) mod claims;
pub(crate) mod credentials;
mod local;
mod place;

use std::fmt;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use salon_client::{Client, Gateway, StaticToken, TokenCommand, TokenFile, TokenProvider};
use salon_protocol::ParticipantId;

use self::claims::TokenClaims;
use self::credentials::{StoredLogins, StoredToken};
pub(crate) use self::local::user;
use self::local::{Here, LocalTokens};
pub(crate) use self::place::GatewayUrl;
use crate::args::own_id;
use crate::note;

const HEADING: &str = "Gateway and credentials";

/// The default address of a gateway.
pub(crate) const USUAL_GATEWAY: &str = "http://127.0.0.1:8787";

#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub(crate) struct Access {
    /// URL of the gateway [default: the one logged in to last, or http://127.0.0.1:8787]
    #[arg(long, value_name = "URL", env = "SALON_GATEWAY", hide_env_values = true, help_heading = HEADING)]
    pub(crate) gateway: Option<String>,
    /// Token; in SALON_TOKEN it is not in the process list [env: SALON_TOKEN]
    // Read from the environment by hand: to clap a variable is as explicit as a flag, and would contradict the other two.
    #[arg(long, value_name = "TOKEN", help_heading = HEADING, conflicts_with_all = ["token_file", "token_command"])]
    pub(crate) token: Option<Secret>,
    /// File with the token, read each time a token is needed
    #[arg(long, value_name = "FILE", help_heading = HEADING, conflicts_with = "token_command")]
    pub(crate) token_file: Option<PathBuf>,
    /// Command that prints the token, run by `sh` each time a token is needed
    #[arg(long, value_name = "COMMAND", help_heading = HEADING)]
    pub(crate) token_command: Option<String>,
    /// Certificate to trust in addition to those of the system, PEM
    #[arg(long, value_name = "FILE", env = "SALON_CA", hide_env_values = true, help_heading = HEADING)]
    pub(crate) ca: Option<PathBuf>,
    /// Your participant id, if the gateway's key on this machine makes the token [default: your user name]
    #[arg(long = "as", value_name = "ID", value_parser = own_id, help_heading = HEADING)]
    pub(crate) identity: Option<ParticipantId>,
    /// Data directory of the gateway, with its key [default: as for `salon serve`]
    #[arg(long, value_name = "DIR", env = "SALON_DATA", hide_env_values = true, help_heading = HEADING)]
    pub(crate) data: Option<PathBuf>,
}

/// A text that must not be seen.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

/// Where a token comes from. Its text completes "the token from …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenSource {
    Flag,
    Variable,
    File(PathBuf),
    Command,
    /// What `salon login` stored.
    Login,
    /// This machine's own key, found in a data directory.
    LocalKey(PathBuf),
}

impl fmt::Display for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("`--token`"),
            Self::Variable => f.write_str("`SALON_TOKEN`"),
            Self::File(path) => write!(f, "`{}`", path.display()),
            Self::Command => f.write_str("the token command"),
            Self::Login => f.write_str("`salon login`"),
            Self::LocalKey(data) => write!(f, "the key in `{}`", data.display()),
        }
    }
}

/// Where tokens come from, and what hands them out.
pub(crate) struct AccessTokens {
    pub(crate) source: TokenSource,
    /// Tokens that were given too, and are not used.
    pub(crate) unused: Vec<TokenSource>,
    /// A token that a flag overrides, and whom it is for.
    pub(crate) overridden: Option<(TokenSource, ParticipantId)>,
    pub(crate) provider: Box<dyn TokenProvider>,
}

/// A gateway that can be talked to.
#[derive(Debug)]
pub(crate) struct Reach {
    pub(crate) gateway: GatewayUrl,
    pub(crate) client: Client,
    pub(crate) choice: TokenChoice,
}

/// Which token is used, of those that there are.
#[derive(Debug)]
pub(crate) struct TokenChoice {
    pub(crate) source: TokenSource,
    pub(crate) unused: Vec<TokenSource>,
}

impl Access {
    /// A client for the gateway with the credentials for it. Says on stderr, if that is a terminal, when the token is made here.
    pub(crate) fn reach(&self) -> anyhow::Result<Reach> {
        self.reach_with(&[])
    }

    /// The same with permissions that a token made here has.
    pub(crate) fn reach_with(&self, permissions: &[&str]) -> anyhow::Result<Reach> {
        let stored = StoredLogins::read()?;
        let place = self.place_among(&stored)?;
        let ca = self.certificate(&place, &stored)?;
        let gateway = gateway(&place, ca.as_deref())?;
        let tokens = self.tokens_among(&place, &stored, permissions)?;
        if !place.is_secure() && !place.is_loopback() {
            note(format_args!(
                "warning: the token goes to `{place}` without encryption, and everybody on the way can read it; use `https://`"
            ));
        }
        if let (Some((source, who)), Some(wanted)) = (&tokens.overridden, self.local_identity()) {
            note(format_args!(
                "as `{wanted}`, by this machine's own key; the token from {source} is for `{who}` and is not used"
            ));
        }
        // A user who gave an id need not be told it, nor does a script.
        if let (TokenSource::LocalKey(_), None, Some(who)) = (&tokens.source, &self.identity, self.local_identity())
            && std::io::stderr().is_terminal()
        {
            note(format_args!("as `{who}`, by this machine's own key (`--as` or `salon login` changes that)"));
        }
        let place = match &tokens.source {
            TokenSource::LocalKey(data) => place.by_key_in(data.clone()),
            _ => place,
        };
        let choice = TokenChoice { source: tokens.source, unused: tokens.unused };
        Ok(Reach { gateway: place, client: Client::new(gateway, tokens.provider), choice })
    }

    /// Who the client's token says it is, and what it opens. The token is read, not verified: that is the gateway's to do.
    pub(crate) async fn identity(&self, client: &Client) -> anyhow::Result<TokenClaims> {
        let token = client.token().await.context("there is no token")?;
        let claims = TokenClaims::read(token.expose())?;
        if let Some(wanted) = self.identity.as_ref().filter(|wanted| **wanted != claims.participant) {
            bail!(
                "the token is for `{0}`, not for `{wanted}`\n\nhint: `salon token TOPIC --as {wanted}` makes one, to be given with `--token`; without `--as` you are `{0}`",
                claims.participant
            );
        }
        Ok(claims)
    }

    /// The gateway that is meant.
    pub(crate) fn place_among(&self, stored: &StoredLogins) -> anyhow::Result<GatewayUrl> {
        let named = self.gateway.as_deref().filter(|url| !url.is_empty());
        match named.or(stored.latest.as_deref()) {
            Some(url) => GatewayUrl::read(url),
            None => GatewayUrl::read(self.here()?.url.as_deref().unwrap_or(USUAL_GATEWAY)),
        }
    }

    /// The gateway that would run here.
    fn here(&self) -> anyhow::Result<Here> {
        Here::find(self.data.as_deref().filter(|data| *data != Path::new("")))
    }

    /// The certificate that was given, or is stored for the gateway.
    pub(crate) fn certificate(&self, place: &GatewayUrl, stored: &StoredLogins) -> anyhow::Result<Option<Vec<u8>>> {
        let path = self.ca.as_ref().or_else(|| stored.of(place)?.ca.as_ref());
        let read = path.map(|path| std::fs::read(path).with_context(|| format!("`{}` cannot be read", path.display())));
        read.transpose()
    }

    /// What hands out tokens for the gateway.
    pub(crate) fn tokens_among(
        &self,
        place: &GatewayUrl,
        stored: &StoredLogins,
        permissions: &[&str],
    ) -> anyhow::Result<AccessTokens> {
        let stored = stored.of(place).and_then(|stored| stored.token.clone()).map(|token| (TokenSource::Login, token));
        let mut all = self.given_all()?.into_iter().chain(stored);
        let mut overridden = None;
        if let Some((source, token)) = all.next() {
            match self.contradicts(&source, &token).filter(|_| place.is_loopback()) {
                Some(who) if self.here()?.keys()?.is_some() => overridden = Some((source, who)),
                _ => {
                    let unused = all.map(|(source, _)| source).collect();
                    return Ok(AccessTokens { source, unused, overridden, provider: token.provider() });
                }
            }
        }
        let unused = overridden.iter().map(|(source, _)| source.clone()).chain(all.map(|(source, _)| source)).collect();
        if !place.is_loopback() {
            let hint = format!("ask its operator for a token, then run `salon login {place}` or set `SALON_TOKEN`");
            bail!("there is no token for `{place}`\n\nhint: {hint}")
        }
        let here = self.here()?;
        let Some(keys) = here.keys()? else {
            bail!(
                "there is no token for `{place}`, and no key in `{}` to make one\n\nhint: start a gateway with `salon \
                 serve`; if one runs, name its data directory with `--data` or `SALON_DATA`, or give a token with \
                 `SALON_TOKEN` or `salon login`",
                here.data.display()
            )
        };
        let who = self
            .local_identity()
            .ok_or_else(|| anyhow!("it is not known who you are\n\nhint: say it with `--as ID`, or set `USER`"))?;
        let tokens = LocalTokens::new(keys, who, permissions);
        Ok(AccessTokens { source: TokenSource::LocalKey(here.data), unused, overridden, provider: Box::new(tokens) })
    }

    /// Whom a token is for that no flag gave, where a flag says otherwise: `--as` another participant, or `--data` where the key is.
    fn contradicts(&self, source: &TokenSource, token: &StoredToken) -> Option<ParticipantId> {
        if !matches!(source, TokenSource::Variable | TokenSource::Login) {
            return None;
        }
        let StoredToken::Token(token) = token else { return None };
        let of_token = TokenClaims::read(&token.0).ok()?.participant;
        let names_another = self.identity.as_ref().is_some_and(|wanted| *wanted != of_token);
        let variable = std::env::var_os("SALON_DATA").map(PathBuf::from);
        let names_key = self.data.is_some() && self.data != variable && *source == TokenSource::Variable;
        (names_another || names_key).then_some(of_token)
    }

    /// The keys of the gateway on this machine, with which a token can be made, where there are any.
    #[cfg(feature = "bridges")]
    pub(crate) fn local_keys(&self) -> anyhow::Result<Option<salon_gateway::auth::SigningKeys>> {
        self.here()?.keys()
    }

    /// Whether the gateway is meant that `salon serve` runs on this machine, with a token made by its key.
    #[cfg(feature = "bridges")]
    pub(crate) fn is_here(&self) -> anyhow::Result<bool> {
        Ok(self.given()?.is_none() && self.place_among(&StoredLogins::read()?)?.is_loopback())
    }

    /// A way to the gateway without a token.
    #[cfg(feature = "bridges")]
    pub(crate) fn gateway(&self) -> anyhow::Result<Gateway> {
        let stored = StoredLogins::read()?;
        let place = self.place_among(&stored)?;
        gateway(&place, self.certificate(&place, &stored)?.as_deref())
    }

    /// The token that flags or variables name.
    pub(crate) fn given(&self) -> anyhow::Result<Option<(TokenSource, StoredToken)>> {
        Ok(self.given_all()?.into_iter().next())
    }

    /// The tokens that flags and variables name, the one that counts first.
    fn given_all(&self) -> anyhow::Result<Vec<(TokenSource, StoredToken)>> {
        let flag = if let Some(token) = &self.token {
            Some((TokenSource::Flag, StoredToken::Token(token.clone())))
        } else if let Some(path) = &self.token_file {
            Some((TokenSource::File(path.clone()), StoredToken::File(path.clone())))
        } else {
            self.token_command.as_ref().map(|command| (TokenSource::Command, StoredToken::Command(command.clone())))
        };
        let variable = std::env::var_os("SALON_TOKEN").filter(|token| !token.is_empty());
        let variable = match (variable.map(std::ffi::OsString::into_string), &flag) {
            (Some(Ok(token)), _) => Some((TokenSource::Variable, StoredToken::Token(token.into()))),
            (Some(Err(_)), None) => bail!("`SALON_TOKEN` is not text"),
            _ => None,
        };
        let all: Vec<_> = flag.into_iter().chain(variable).collect();
        match all.first() {
            Some((source, StoredToken::Token(token))) if !claims::is_one_word(&token.0) => {
                bail!("the token from {source} is not one word")
            }
            _ => Ok(all),
        }
    }

    fn local_identity(&self) -> Option<ParticipantId> {
        self.identity.clone().or_else(local::user)
    }
}

/// The gateway as the library wants it.
pub(crate) fn gateway(place: &GatewayUrl, ca: Option<&[u8]>) -> anyhow::Result<Gateway> {
    let gateway = Gateway::new(place.url())?;
    Ok(match ca {
        Some(pem) => gateway.trust_pem(pem).context("the file of `--ca` is not usable")?,
        None => gateway,
    })
}

impl StoredToken {
    /// What hands out the token.
    pub(crate) fn provider(&self) -> Box<dyn TokenProvider> {
        match self {
            Self::Token(token) => Box::new(StaticToken::new(token.0.as_str())),
            Self::File(path) => Box::new(TokenFile::new(path)),
            Self::Command(command) => Box::new(TokenCommand::new("sh", ["-c", command])),
        }
    }
}
