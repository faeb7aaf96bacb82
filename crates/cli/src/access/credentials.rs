//! What `salon login` stores: for every gateway a token, or where to get one. A file that only its owner can read.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use salon_guests::private_file;
use serde::Deserialize;

use super::{GatewayUrl, Secret};

/// Everything that is stored.
#[derive(Debug, Default)]
pub(crate) struct StoredLogins {
    /// The gateway that was logged in to last.
    pub(crate) latest: Option<String>,
    gateways: BTreeMap<String, Login>,
}

/// What is stored for one gateway.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) token: Option<StoredToken>,
    pub(crate) ca: Option<PathBuf>,
}

/// A token, or where to get one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoredToken {
    Token(Secret),
    File(PathBuf),
    Command(String),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    latest: Option<String>,
    #[serde(default)]
    gateways: BTreeMap<String, LoginText>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginText {
    token: Option<String>,
    token_file: Option<PathBuf>,
    token_command: Option<String>,
    ca: Option<PathBuf>,
}

/// Where credentials are stored; `None` without a home directory.
pub(crate) fn path() -> Option<PathBuf> {
    let absolute = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("salon/credentials.toml"))
}

impl StoredLogins {
    /// Reads what is stored; nothing where there is no file. One that others could have read is refused.
    pub(crate) fn read() -> anyhow::Result<Self> {
        path().map_or_else(|| Ok(Self::default()), |path| Self::read_from(&path))
    }

    fn read_from(path: &Path) -> anyhow::Result<Self> {
        let at = path.display();
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            read => read.with_context(|| format!("`{at}` cannot be read"))?,
        };
        let mode = mode(path).with_context(|| format!("`{at}` cannot be read"))?;
        if mode & 0o077 != 0 {
            bail!(
                "`{at}` is open to other users (mode {mode:03o})\n\nhint: run `chmod 600` on it; if others could have \
                 read it, get new tokens and run `salon login` again"
            );
        }
        // The parser's own message would quote the line, and with it a token.
        let wrong = |error: toml::de::Error| {
            let line = error.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1));
            let line = line.map(|line| format!(" (line {line})")).unwrap_or_default();
            anyhow!("`{at}` is not as `salon login` writes it{line}\n\nhint: fix or delete it, and run `salon login`")
        };
        let FileText { latest, gateways } = toml::from_str(&text).map_err(wrong)?;
        let gateways = gateways.into_iter().map(|(url, login)| (url, login.into())).collect();
        Ok(Self { latest, gateways })
    }

    /// What is stored for a gateway.
    pub(crate) fn of(&self, place: &GatewayUrl) -> Option<&Login> {
        self.gateways.get(place.url())
    }

    /// Every gateway there is something for.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Login)> {
        self.gateways.iter().map(|(url, login)| (url.as_str(), login))
    }

    /// Keeps credentials for a gateway and makes it the one that is meant when none is named.
    pub(crate) fn keep(&mut self, place: &GatewayUrl, login: Login) {
        self.latest = Some(place.url().to_owned());
        self.gateways.insert(place.url().to_owned(), login);
    }

    /// Forgets what was kept for a gateway; false when nothing was.
    pub(crate) fn forget(&mut self, place: &GatewayUrl) -> bool {
        if self.latest.as_deref() == Some(place.url()) {
            self.latest = None;
        }
        self.gateways.remove(place.url()).is_some()
    }

    /// Writes everything, as a whole or not at all. Hands back where.
    pub(crate) fn write(&self) -> anyhow::Result<PathBuf> {
        let path = path().context("there is no home directory to store credentials in\n\nhint: set `HOME`")?;
        let written = self.write_to(&path).with_context(|| format!("`{}` cannot be written", path.display()));
        written.map(|()| path)
    }

    fn write_to(&self, path: &Path) -> io::Result<()> {
        private_file::write(path, &self.text())
    }

    fn text(&self) -> String {
        let mut text = String::from("# Written by `salon login`. Keep it to yourself.\n");
        let mut line = |key: &str, value: &str| text.push_str(&format!("{key} = {}\n", quoted(value)));
        if let Some(latest) = &self.latest {
            line("latest", latest);
        }
        for (url, login) in &self.gateways {
            text.push_str(&format!("\n[gateways.{}]\n", quoted(url)));
            let mut line = |key: &str, value: &str| text.push_str(&format!("{key} = {}\n", quoted(value)));
            match &login.token {
                Some(StoredToken::Token(token)) => line("token", &token.0),
                Some(StoredToken::File(path)) => line("token_file", &path.to_string_lossy()),
                Some(StoredToken::Command(command)) => line("token_command", command),
                None => {}
            }
            if let Some(ca) = &login.ca {
                line("ca", &ca.to_string_lossy());
            }
        }
        text
    }
}

impl From<LoginText> for Login {
    fn from(text: LoginText) -> Self {
        let LoginText { token, token_file, token_command, ca } = text;
        let token = token.map(|token| StoredToken::Token(token.into()));
        let token = token.or(token_file.map(StoredToken::File)).or(token_command.map(StoredToken::Command));
        Self { token, ca }
    }
}

/// The permission bits of a file.
pub(crate) fn mode(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

/// A text as a TOML string. JSON's escapes are all TOML's too; DEL is the one character that JSON leaves and TOML does not.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> GatewayUrl {
        GatewayUrl::read(url).expect("an address")
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut credentials = StoredLogins::default();
        let ca = Some(PathBuf::from("/etc/a \"b\"\u{7f}.pem"));
        credentials.keep(&place("https://a.example"), Login { token: Some(StoredToken::Token("t.o.k".into())), ca });
        let file = Login { token: Some(StoredToken::File("/run/token".into())), ca: None };
        credentials.keep(&place("https://b.example"), file);
        let command = Login { token: Some(StoredToken::Command("echo \\ 'x'\n".into())), ca: None };
        credentials.keep(&place("http://127.0.0.1:8787"), command);
        let scratch = std::env::temp_dir().join(format!("salon-{}", uuid::Uuid::new_v4()));
        let path = scratch.join("salon/credentials.toml");
        credentials.write_to(&path).expect("written");
        let read = StoredLogins::read_from(&path).expect("read");
        assert_eq!(format!("{read:?}"), format!("{credentials:?}"));
        assert_eq!(
            read.of(&place("https://a.example/")).and_then(|l| l.token.clone()),
            Some(StoredToken::Token("t.o.k".into()))
        );

        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
        let told = StoredLogins::read_from(&path).expect_err("open to others").to_string();
        assert!(told.contains("is open to other users (mode 640)"), "{told}");
        fs::remove_dir_all(&scratch).expect("removed");
    }
}
