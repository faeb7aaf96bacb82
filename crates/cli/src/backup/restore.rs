//! Restoring: the backup is unpacked and checked in a directory of its own, and only then moved to where the gateway looks.
//!
//! Invariant: a data directory is never opened while it is part old, part new. From the first file that is moved to the last, a file says
//! so (`UNFINISHED_RESTORE`), and the process that opens the directory refuses. Everything stays on one file system, which may be a mount of
//! its own.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use salon_gateway::auth::{KEY_FILE, REVOCATIONS_FILE, SIGN_OUTS_FILE, SIGNING_KEYS_FILE};
use salon_log::sqlite::{self, DATABASE, FILES_DATABASE, Hold, OpenError, UNFINISHED_RESTORE};

use super::archive;
use super::manifest::{ArchivedFile, BackupManifest, LogFacts, is_trail};
use super::progress::PercentLine;
use super::{RestoreArgs, data_directory, open, unusable};
use crate::trouble::Trouble;
use crate::{clock, hand_over};

/// Where a backup is unpacked, in the data directory.
const STAGING: &str = "restore-staging";

/// What makes a directory one that holds data. The audit trail does not: it is never replaced.
///
/// SQLite would roll a journal that an old log left back into the new one.
const REPLACED: &[&str] = &[
    DATABASE,
    "log.db-wal",
    "log.db-shm",
    "log.db-journal",
    FILES_DATABASE,
    "files.db-wal",
    "files.db-shm",
    KEY_FILE,
    SIGNING_KEYS_FILE,
    SIGN_OUTS_FILE,
    REVOCATIONS_FILE,
    UNFINISHED_RESTORE,
];

/// What the names of directories with replaced data begin with.
const REPLACED_PREFIX: &str = "replaced-";

pub(super) fn run(args: &RestoreArgs, progress: &mut PercentLine<'_>) -> Result<(), Trouble> {
    let data = data_directory(&args.places)?;
    let (mut input, length) = open(&args.file)?;
    let _hold = take(&data)?;
    let present: Vec<&str> = REPLACED.iter().copied().filter(|name| data.join(name).exists()).collect();
    if !present.is_empty() && !args.force {
        let named: Vec<_> = present.iter().map(|name| format!("`{name}`")).collect();
        return Err(Trouble::hinted(
            format_args!("`{}` holds data: {}", data.display(), named.join(", ")),
            "choose another directory with `--data`, or replace what is there with `--force`",
        ));
    }
    let staging = Staging::new(&data).map_err(|error| failed(&data, error))?;
    let place = |file: &ArchivedFile| staging.create(&file.name);
    let unpacked =
        archive::unpack(&mut *input, length, place, &mut |done, total| progress.go_on("unpacking", done, total));
    progress.clear();
    let manifest = unpacked.map_err(|error| unusable(&args.file, &error))?;
    staging.check(&manifest)?;
    let replaced = staging.put_in_place(&data, &manifest, &present).with_context(|| {
        format!("the restore into `{}` did not finish\n\nhint: run it again with `--force`", data.display())
    });
    let replaced = replaced.map_err(Trouble::failed)?;
    let mut told = format!("Restored {} into `{}` from a backup {}.", manifest.log, data.display(), manifest.origin());
    if let Some(replaced) = replaced {
        told.push_str(&format!(
            "\nWhat was there before is in `{}`; remove it when it is not needed.",
            replaced.display()
        ));
    }
    hand_over(format_args!("{told}"))
}

/// Takes the data directory, making it where there is none.
fn take(data: &Path) -> Result<Hold, Trouble> {
    DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(|error| failed(data, error))?;
    let hold = sqlite::hold_for_restore(data).map_err(|error| match error {
        OpenError::InUse { .. } => Trouble::hinted(
            format_args!("a gateway is running on `{}`", data.display()),
            "stop it, or restore into another directory with `--data`",
        ),
        error => Trouble::failed(error),
    })?;
    let owner = fs::metadata(data).map_err(|error| failed(data, error))?;
    give(&data.join(sqlite::LOCK), &owner).map_err(|error| failed(data, error))?;
    Ok(hold)
}

fn failed(data: &Path, error: io::Error) -> Trouble {
    Trouble::failed(anyhow!("`{}` cannot be used: {error}", data.display()))
}

/// Gives a file to the owner of the data directory: the user who restores may be root, and the gateway must be able to open it.
fn give(path: &Path, owner: &fs::Metadata) -> io::Result<()> {
    let now = fs::metadata(path)?;
    if (now.uid(), now.gid()) == (owner.uid(), owner.gid()) {
        return Ok(());
    }
    chown(path, Some(owner.uid()), Some(owner.gid()))
}

/// The directory in which a backup is unpacked; removed when this is dropped.
struct Staging(PathBuf);

impl Staging {
    /// Recreates it: what an interrupted restore has left is of no use.
    fn new(data: &Path) -> io::Result<Self> {
        let path = data.join(STAGING);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn io::Write>> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.0.join(name))?;
        Ok(Box::new(file))
    }

    /// Opens the log that was unpacked, and compares it with what the manifest says.
    fn check(&self, manifest: &BackupManifest) -> Result<(), Trouble> {
        let log = self.0.join(DATABASE);
        let damaged = |error: OpenError| {
            Trouble::hinted(format_args!("the log in the backup cannot be used: {error}"), "use another backup")
        };
        let found = LogFacts::from(sqlite::summarize(&log).map_err(damaged)?);
        if found != manifest.log {
            let told = format!("the backup is inconsistent: it holds {found}, and says {}", manifest.log);
            return Err(Trouble::hinted(told, "use another backup"));
        }
        sqlite::renew_epoch(&log).map_err(damaged)
    }

    /// Moves what was there out of the way and what was unpacked in its place. Hands out where the old data is now.
    fn put_in_place(
        &self,
        data: &Path,
        manifest: &BackupManifest,
        present: &[&str],
    ) -> anyhow::Result<Option<PathBuf>> {
        let owner = fs::metadata(data)?;
        let mut names: Vec<&str> = manifest.files.iter().map(|file| &*file.name).collect();
        // A key that was removed since the backup stays removed. With another `auth.key` the keys beside it are another gateway's.
        let is_same_gateway = fs::read(data.join(KEY_FILE))
            .is_ok_and(|key| fs::read(self.0.join(KEY_FILE)).is_ok_and(|restored| restored == key));
        let keeps = |name: &str| name == SIGNING_KEYS_FILE && is_same_gateway && present.contains(&SIGNING_KEYS_FILE);
        names.retain(|name| !keeps(name));
        let present = &present.iter().copied().filter(|name| !keeps(name)).collect::<Vec<_>>();
        for name in [SIGN_OUTS_FILE, REVOCATIONS_FILE] {
            if self.keep_lines(name, data, present)? && !names.contains(&name) {
                names.push(name);
            }
        }
        for name in &names {
            let path = self.0.join(name);
            give(&path, &owner)?;
            File::open(&path)?.sync_all()?;
        }
        let marker = data.join(UNFINISHED_RESTORE);
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&marker)?.sync_all()?;
        let here = File::open(data)?;
        here.sync_all()?;
        let replaced = move_away(data, present, &owner)?;
        // The trail of what happened here since overrides that of the backup.
        let has_trail = has_trail(data)?;
        for name in names.into_iter().filter(|name| !has_trail || !is_trail(name)) {
            fs::rename(self.0.join(name), data.join(name))?;
        }
        here.sync_all()?;
        fs::remove_file(&marker)?;
        here.sync_all()?;
        Ok(replaced)
    }

    /// Adds the sign-outs or revocations of the old data to those of the backup, or what was ended since would be valid again. Hands out
    /// whether there were any.
    ///
    /// The gateway merges the lines when it starts, and drops those that have expired. They are kept even if the old key is another one:
    /// at worst, somebody has to sign in again.
    fn keep_lines(&self, name: &str, data: &Path, present: &[&str]) -> io::Result<bool> {
        let mut places = vec![data.to_owned()];
        // An interrupted restore may have moved the old file away, and its own staging is gone.
        if present.contains(&UNFINISHED_RESTORE) {
            for entry in fs::read_dir(data)? {
                let entry = entry?;
                if entry.file_name().as_encoded_bytes().starts_with(REPLACED_PREFIX.as_bytes()) {
                    places.push(entry.path());
                }
            }
        }
        // The gateway never makes a symbolic link there. Root must not copy the target of one to a file of the gateway's user.
        let files = places.into_iter().map(|place| place.join(name));
        let files: Vec<_> = files.filter(|path| fs::symlink_metadata(path).is_ok_and(|file| file.is_file())).collect();
        if files.is_empty() {
            return Ok(false);
        }
        let staged = self.0.join(name);
        let mut staged = OpenOptions::new().append(true).create(true).mode(0o600).open(staged)?;
        for file in files {
            // The last line before may be there in part.
            staged.write_all(b"\n")?;
            io::copy(&mut File::open(file)?, &mut staged)?;
        }
        Ok(true)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether there is an audit trail, or part of one.
fn has_trail(data: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(data)? {
        if entry?.file_name().to_str().is_some_and(is_trail) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Moves the old data into a directory of its own, where there is any.
fn move_away(data: &Path, present: &[&str], owner: &fs::Metadata) -> io::Result<Option<PathBuf>> {
    let present: Vec<_> = present.iter().filter(|name| **name != UNFINISHED_RESTORE).collect();
    if present.is_empty() {
        return Ok(None);
    }
    let time = clock::now().to_string().replace(':', "-");
    let replaced = data.join(format!("{REPLACED_PREFIX}{time}"));
    DirBuilder::new().mode(0o700).create(&replaced)?;
    give(&replaced, owner)?;
    for name in present {
        fs::rename(data.join(name), replaced.join(name))?;
    }
    File::open(&replaced)?.sync_all()?;
    Ok(Some(replaced))
}
