//! Making a backup: the log is copied, everything is measured, then all of it is written to one file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use salon_gateway::audit::rotated;
use salon_gateway::config::AUDIT_FILE;
use salon_log::sqlite::{self, CopyError, DATABASE, FILES_DATABASE, OpenError};
use uuid::Uuid;

use super::archive::{self, ArchiveError};
use super::manifest::{ArchivedFile, BackupManifest, DATA_FILES, LogFacts};
use super::progress::PercentLine;
use super::{BackupArgs, data_directory, is_standard};
use crate::commands::outcome::CANCELLED;
use crate::trouble::Trouble;
use crate::{clock, hand_over, note};

pub(super) fn run(args: &BackupArgs, progress: &mut PercentLine<'_>) -> Result<(), Trouble> {
    let data = data_directory(&args.places)?;
    if !data.join(DATABASE).exists() {
        return Err(Trouble::hinted(
            format_args!("there is no log in `{}`", data.display()),
            "name the gateway's data directory with `--data`; a log on NATS is backed up with `nats account backup`",
        ));
    }
    sqlite::refuse_unfinished(&data).map_err(Trouble::failed)?;
    let target = BackupTarget::of(args)?;
    let facts = LogFacts::from(
        sqlite::copy(&data, &target.copy, |done, total| progress.go_on("copying the log", done, total))
            .map_err(|error| uncopied(error, &target))?,
    );
    // After the log: a file is put there before the message that names it.
    sqlite::copy_files(&data, &target.files, |done, total| progress.go_on("copying the files", done, total))
        .map_err(|error| uncopied(error, &target))?;
    let written = write(&target, &data, facts, progress).map_err(|error| unwritten(&target, &error))?;
    progress.clear();
    let size = bytes(written.files.iter().map(|file| file.size).sum());
    let told = format!("Backed up {} ({size}) from `{}`.", written.log, data.display());
    match &target.file {
        Some(file) => {
            hand_over(format_args!("{told}\n`{}` holds the key that signs tokens: keep it private.", file.display()))
        }
        None => {
            note(format_args!("{told}"));
            Ok(())
        }
    }
}

/// Where a backup goes, and where it is made: a directory with a random name that only this user can enter, removed when this is dropped.
struct BackupTarget {
    /// None is standard output.
    file: Option<PathBuf>,
    workspace: PathBuf,
    /// The copy of the log, while the rest is made.
    copy: PathBuf,
    /// The copy of the files, where there are any.
    files: PathBuf,
    /// The backup, until it is whole.
    partial: PathBuf,
}

impl BackupTarget {
    fn of(args: &BackupArgs) -> Result<Self, Trouble> {
        if is_standard(&args.file) {
            if io::stdout().is_terminal() {
                return Err(Trouble::coded(
                    2,
                    "a backup is not for a terminal",
                    "redirect it: `salon backup - > FILE`",
                ));
            }
            return Self::with_workspace(None, std::env::temp_dir().join(format!("salon-backup-{}", Uuid::new_v4())));
        }
        let file = &args.file;
        let Some(name) = file.file_name().filter(|_| !file.is_dir()) else {
            return Err(Trouble::usage(anyhow!("`{}` is a directory, not a file to write", file.display())));
        };
        if file.exists() && !args.force {
            let told = format!("`{}` is there already", file.display());
            return Err(Trouble::coded(2, told, "choose another name, or replace it with `--force`"));
        }
        // Beside the file, so that the finished backup can be renamed to it.
        let workspace = file.with_file_name(format!(".{}.{}", name.display(), Uuid::new_v4()));
        Self::with_workspace(Some(file.clone()), workspace)
    }

    fn with_workspace(file: Option<PathBuf>, workspace: PathBuf) -> Result<Self, Trouble> {
        DirBuilder::new().mode(0o700).create(&workspace).map_err(|error| unwritable(&workspace, &error))?;
        let files = workspace.join(FILES_DATABASE);
        Ok(Self { file, copy: workspace.join(DATABASE), files, partial: workspace.join("partial"), workspace })
    }
}

impl Drop for BackupTarget {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.workspace);
    }
}

fn write(
    target: &BackupTarget,
    data: &Path,
    log: LogFacts,
    progress: &mut PercentLine<'_>,
) -> Result<BackupManifest, ArchiveError> {
    let source = |name: &str| match name {
        DATABASE => target.copy.clone(),
        FILES_DATABASE => target.files.clone(),
        name => data.join(name),
    };
    let mut files = Vec::new();
    let rotated = rotated_trail(data).map_err(ArchiveError::Read)?;
    for name in DATA_FILES.iter().map(|file| file.name).chain(rotated.iter().map(String::as_str)) {
        let mut file = match File::open(source(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened.map_err(ArchiveError::Read)?,
        };
        // The audit trail grows meanwhile; what it had at this moment is taken.
        let size = file.metadata().map_err(ArchiveError::Read)?.len();
        let member = (name, size);
        let sha256 =
            archive::transfer(&mut file, &mut io::sink(), member, &mut |done| progress.go_on("measuring", done, size))?;
        files.push(ArchivedFile { name: name.into(), size, sha256 });
    }
    if rotated_trail(data).map_err(ArchiveError::Read)? != rotated {
        return Err(ArchiveError::Unexpected("the audit trail was rotated meanwhile".into()));
    }
    let now = clock::now();
    let manifest = BackupManifest::new(now, log, files);
    let open = |file: &ArchivedFile| -> io::Result<Box<dyn Read>> { Ok(Box::new(File::open(source(&file.name))?)) };
    let mut watch = |done, total| progress.go_on("writing", done, total);
    let failed = |source| ArchiveError::Write { name: "the backup".into(), source };
    match &target.file {
        None => archive::pack(&mut io::stdout().lock(), &manifest, now, open, &mut watch)?,
        Some(file) => {
            let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&target.partial);
            let mut out = BufWriter::new(options.map_err(failed)?);
            archive::pack(&mut out, &manifest, now, open, &mut watch)?;
            let finished = out.into_inner().map_err(io::IntoInnerError::into_error).and_then(|out| out.sync_all());
            finished.and_then(|()| fs::rename(&target.partial, file)).map_err(failed)?;
            File::open(directory_of(file)).and_then(|directory| directory.sync_all()).map_err(failed)?;
        }
    }
    Ok(manifest)
}

/// The names of the older files of the audit trail.
fn rotated_trail(data: &Path) -> io::Result<Vec<String>> {
    let files = rotated(&data.join(AUDIT_FILE))?;
    Ok(files.iter().filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect())
}

/// The parent of a bare file name is the empty path, which cannot be opened.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn uncopied(error: CopyError, target: &BackupTarget) -> Trouble {
    match error {
        CopyError::Cancelled => cancelled(),
        CopyError::Open(OpenError::Files { path, source }) if path == target.copy => {
            unwritable(&target.workspace, &source)
        }
        CopyError::Open(error) => Trouble::failed(error),
    }
}

fn unwritable(workspace: &Path, error: &io::Error) -> Trouble {
    let directory = directory_of(workspace);
    Trouble::failed(anyhow!("nothing can be written to `{}`: {error}", directory.display()))
}

fn unwritten(target: &BackupTarget, error: &ArchiveError) -> Trouble {
    let file = target.file.as_ref().map_or("standard output".into(), |file| format!("`{}`", file.display()));
    match error {
        ArchiveError::Cancelled => cancelled(),
        ArchiveError::Write { source, .. } => Trouble::hinted(
            format_args!("{file} could not be written: {source}"),
            "there must be room for the log twice while a backup is made",
        ),
        ArchiveError::Unexpected(_) | ArchiveError::Truncated(_) => {
            Trouble::hinted(format_args!("a file changed while it was backed up: {error}"), "try again")
        }
        _ => Trouble::failed(anyhow!("the data could not be read: {error}")),
    }
}

fn cancelled() -> Trouble {
    Trouble::coded(CANCELLED, "cancelled", "no backup was made")
}

/// A number of bytes as people read it.
fn bytes(count: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| count >= *unit) {
        Some((unit, name)) => format!("{}.{} {name}", count / unit, count % unit * 10 / unit),
        None => format!("{count} bytes"),
    }
}
