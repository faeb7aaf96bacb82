//! Tokens made here, for a gateway that runs on this machine and has its data where this user can read it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use salon_client::{Token, TokenError, TokenProvider};
use salon_gateway::auth::{Grant, LocalKey, Signer};
use salon_protocol::{ParticipantId, Timestamp, TopicPattern};

use crate::args::Places;
use crate::{clock, token};

/// How long a token made here is good for. A new one is made whenever one is needed.
const TTL: Duration = Duration::from_secs(60 * 60);

/// Makes a token whenever one is wanted.
pub(super) struct LocalTokens {
    signer: Signer,
    who: ParticipantId,
}

impl LocalTokens {
    pub(super) fn new(key: &LocalKey, who: ParticipantId) -> Self {
        Self { signer: Signer::new(key), who }
    }

    fn make(&self) -> Result<Token, TokenError> {
        let now = clock::now();
        let ttl = u64::try_from(TTL.as_millis()).expect("an hour fits");
        // Whoever holds the key may enter everywhere.
        let everywhere = vec![TopicPattern::Prefix("".into())];
        let grant = Grant::new(self.who.clone(), everywhere, Timestamp(now.0.saturating_add(ttl)));
        self.signer.sign(&grant, now).map(Token::from).map_err(TokenError::provider)
    }
}

impl TokenProvider for LocalTokens {
    fn token(&self, _refresh: bool) -> BoxFuture<'_, Result<Token, TokenError>> {
        ready(self.make()).boxed()
    }
}

/// The key of the data directory that `salon serve` would use if it were started here, and that directory.
pub(super) fn key() -> anyhow::Result<Option<(PathBuf, LocalKey)>> {
    let path = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = token::data_directory(&Places { config: path("SALON_CONFIG"), data: path("SALON_DATA") })?;
    Ok(LocalKey::find(&data)?.map(|key| (data, key)))
}

/// The user's name, as far as it can be an id.
pub(super) fn user() -> Option<ParticipantId> {
    let named = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let home = || Some(Path::new(&std::env::var_os("HOME")?).file_name()?.to_str()?.to_owned());
    let name = named.or_else(home)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._~@-".contains(c);
    let id: String = name.chars().map(|c| if allowed(c) { c } else { '-' }).take(128).collect();
    // An id that begins with a dash would look like a flag.
    ParticipantId::new(id.trim_matches('-')).ok()
}
