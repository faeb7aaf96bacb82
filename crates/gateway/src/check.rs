//! What a start would need, tried without starting, and what others can get at.
//!
//! Nothing outlives the check: a file made to see whether files can be made is removed again, and a lock is let go at once.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use salon_log::sqlite::{self, Sight};

use crate::ServeError;
use crate::auth::jwks::JwksSource;
use crate::config::Config;
use crate::private_file;
use crate::server;

/// Tries everything a start would need, but for keys: settings, certificates, the data directory, its log and the audit trail. Tells
/// what is worth knowing and no mistake.
pub fn check(config: &Config) -> Result<Vec<String>, ServeError> {
    config.validate()?;
    if let Some((cert, key)) = config.tls() {
        server::tls(cert, key, &[])?;
    }
    directory(&config.data).map_err(|why| ServeError::Data { path: config.data.display().to_string(), why })?;
    let mut notes = warnings(config);
    if config.nats_servers().is_none() && sqlite::look(&config.data)? == Sight::InUse {
        notes.push(format!("`{}` is in use by another gateway now", config.data.display()));
    }
    if let Some(path) = config.audit_path() {
        audit(&path, &config.data).map_err(|why| ServeError::Audit { path: path.display().to_string(), why })?;
    }
    Ok(notes)
}

/// Tries whether the log could be opened, where it is on NATS: servers, streams, replicas and the key that all its gateways have. Makes
/// nothing. A key that is still to be made is not known to others.
#[cfg(feature = "nats")]
pub async fn check_log(config: &Config) -> Result<(), ServeError> {
    let key = crate::auth::LocalKey::find(&config.data).map_err(crate::auth::RotationError::from)?;
    match config.nats_options(key.as_ref().map(crate::fingerprint).unwrap_or_default()) {
        Some(options) => Ok(salon_log::nats::Nats::look(&options).await?),
        None => Ok(()),
    }
}

/// What the gateway can run with and should not: files that others can get at, tokens that nobody would take. One sentence each.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let data = &config.data;
    let audit = config.audit_path();
    let own = [(data.clone(), 0o700), (data.join(sqlite::DATABASE), 0o600)].into_iter();
    let own = own.chain(audit.map(|path| (path, 0o600)));
    // A certificate's key is often shared with a group that is there for it.
    let all = own.chain(config.tls.key.clone().map(|path| (path, 0o640)));
    let oauth = !config.auth.authorization_servers.is_empty();
    let untrusted = (oauth && config.auth.jwks.is_none()).then_some(
        "clients are sent to authorization servers whose tokens are not trusted here: name their keys with `--auth-jwks`",
    );
    // What a proxy or another machine calls the gateway is not known, and so not what its tokens have as their audience.
    let is_unnamed = config.http.public_url.is_none() && config.http.hosts.is_empty() && config.auth.resource.is_none();
    let unnamed = (oauth && is_unnamed && !config.listen.ip().is_loopback()).then_some(
        "access tokens must name the gateway's URL as their audience, which is not known here: give it with `--http-public-url`",
    );
    let any_issuer = match &config.auth.jwks {
        Some(JwksSource::Url(url)) if !oauth => Some(format!(
            "tokens of the keys at `{url}` are accepted whatever their issuer (`iss`): if they are those of an identity provider, name it with `--auth-authorization-servers`"
        )),
        _ => None,
    };
    let modes = all.filter_map(|(path, fitting)| {
        let found = fs::metadata(&path).ok().filter(|found| found.is_file() || found.is_dir())?;
        let mode = found.permissions().mode() & 0o777;
        let (path, closed) = (path.display(), mode & fitting);
        (mode & !fitting & 0o077 != 0).then(|| {
            format!("`{path}` is open to other users (mode {mode:03o}); `chmod {closed:03o} {path}` closes it")
        })
    });
    untrusted.into_iter().chain(unnamed).map(str::to_owned).chain(any_issuer).chain(modes).collect()
}

/// Whether a directory can be written to, or made.
fn directory(path: &Path) -> io::Result<()> {
    for place in path.ancestors() {
        let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
        match fs::metadata(place) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(found) if !found.is_dir() => return Err(ErrorKind::NotADirectory.into()),
            Ok(_) => return can_make_files(place),
        }
    }
    Err(ErrorKind::NotFound.into())
}

fn can_make_files(directory: &Path) -> io::Result<()> {
    let probe = directory.join(format!(".salon-check-{}", std::process::id()));
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&probe)?;
    fs::remove_file(&probe)
}

/// Whether a symbolic link leads to a pipe or a device.
fn leads_to_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Whether an audit trail can be added to, or made.
fn audit(path: &Path, data: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        // A pipe or a device would wait for its other end, or take the attempt for more than it is.
        Ok(found) if !found.is_file() && !found.is_dir() && !found.is_symlink() => Ok(()),
        // Such as `/dev/stdout`.
        Ok(found) if found.is_symlink() && leads_to_device(path) => Ok(()),
        Ok(_) => private_file::open(path, OpenOptions::new().read(true).append(true)).map(drop),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            // Those of the data directory are made by then.
            if data.starts_with(folder) { Ok(()) } else { can_make_files(folder) }
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AuditSettings, TlsSettings};
    use crate::scratch::Scratch;

    /// What a check tells, with the scratch directory's name left out.
    fn told(scratch: &Scratch, config: &Config) -> String {
        let told = check(config).map_or_else(|error| error.to_string(), |notes| notes.join("\n"));
        told.replace(&scratch.path().display().to_string(), "HERE")
    }

    fn config(data: impl Into<std::path::PathBuf>) -> Config {
        Config { data: data.into(), ..Config::default() }
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    }

    #[test]
    fn a_data_directory_that_cannot_be_is_told() {
        let scratch = Scratch::new();
        let here = scratch.path();
        chmod(here, 0o700);
        assert_eq!(told(&scratch, &config(here.join("to/be/made"))), "");
        assert_eq!(fs::read_dir(here).expect("readable").count(), 0, "nothing is left behind");
        fs::write(here.join("file"), "").expect("written");
        insta::assert_snapshot!(told(&scratch, &config(here.join("file"))), @"the data directory `HERE/file` cannot be used: not a directory");
        insta::assert_snapshot!(told(&scratch, &config(here.join("file/data"))), @"the data directory `HERE/file/data` cannot be used: Not a directory (os error 20)");
    }

    #[test]
    fn an_audit_trail_that_cannot_be_is_told() {
        let scratch = Scratch::new();
        let here = scratch.path();
        chmod(here, 0o700);
        let audit = |file: &str| AuditSettings { file: Some(here.join(file)), ..AuditSettings::default() };
        let with = |file: &str| Config { audit: audit(file), ..config(here.join("data")) };
        assert_eq!(told(&scratch, &with("audit.log")), "");
        assert_eq!(told(&scratch, &with("data/audit.log")), "");
        fs::create_dir(here.join("folder")).expect("made");
        insta::assert_snapshot!(told(&scratch, &with("folder")), @"the audit trail `HERE/folder` cannot be used: Is a directory (os error 21)");
        insta::assert_snapshot!(told(&scratch, &with("missing/audit.log")), @"the audit trail `HERE/missing/audit.log` cannot be used: No such file or directory (os error 2)");
        assert_eq!(
            told(&scratch, &Config { audit: AuditSettings { enabled: false, ..audit("folder") }, ..with("folder") }),
            ""
        );
    }

    #[test]
    fn keys_of_an_identity_provider_without_its_name_are_told() {
        let scratch = Scratch::new();
        chmod(scratch.path(), 0o700);
        let with = |jwks: &str, issuers: &[&str]| {
            let mut config = config(scratch.path());
            config.auth.jwks = Some(jwks.parse().expect("a source"));
            config.auth.authorization_servers = issuers.iter().map(ToString::to_string).collect();
            warnings(&config).join("\n")
        };
        insta::assert_snapshot!(with("https://id.example/keys", &[]), @"tokens of the keys at `https://id.example/keys` are accepted whatever their issuer (`iss`): if they are those of an identity provider, name it with `--auth-authorization-servers`");
        assert_eq!(with("https://id.example/keys", &["https://id.example"]), "");
        assert_eq!(with("keys.json", &[]), "", "keys in a file are the operator's own");
    }

    #[test]
    fn what_is_open_to_others_is_told() {
        let scratch = Scratch::new();
        let here = scratch.path();
        for (name, mode) in [("log.db", 0o644), ("audit.log", 0o620), ("shared.pem", 0o640), ("open.pem", 0o604)] {
            fs::write(here.join(name), "").expect("written");
            chmod(&here.join(name), mode);
        }
        chmod(here, 0o755);
        let tls = |key: &str| TlsSettings { key: Some(here.join(key)), ..TlsSettings::default() };
        let with = |key: &str| Config { tls: tls(key), ..config(here) };
        let told = |config: &Config| warnings(config).join("\n").replace(&here.display().to_string(), "HERE");
        insta::assert_snapshot!(told(&with("open.pem")), @"
        `HERE` is open to other users (mode 755); `chmod 700 HERE` closes it
        `HERE/log.db` is open to other users (mode 644); `chmod 600 HERE/log.db` closes it
        `HERE/audit.log` is open to other users (mode 620); `chmod 600 HERE/audit.log` closes it
        `HERE/open.pem` is open to other users (mode 604); `chmod 600 HERE/open.pem` closes it
        ");
        assert!(!told(&with("shared.pem")).contains("shared.pem"), "a group may read a certificate's key");
    }
}
