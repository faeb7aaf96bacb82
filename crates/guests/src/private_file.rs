//! Files that only their owner can read, replaced as a whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Writes a file with mode 0600, in a directory with mode 0700 that is made if it is not there.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    make_directory(directory)?;
    let scratch = directory.join(format!(".{}", uuid::Uuid::new_v4()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&scratch)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&scratch, path)
    })();
    if written.is_err() {
        // It holds secrets, and nobody would look for them there.
        let _ = fs::remove_file(&scratch);
    }
    written?;
    File::open(directory)?.sync_all()
}

/// Makes a directory that is its owner's alone, or makes it so.
pub(crate) fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // It may have been there before, open to others.
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
}

/// Reads a file; `None` where there is none. One that others could have read or written is refused.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mode = file.metadata()?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(io::Error::other(format!("it is open to other users (mode {mode:03o}); run `chmod 600` on it")));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Some(text))
}
