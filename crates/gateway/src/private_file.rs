//! Files that are the gateway's alone: opened where they are, never through a symbolic link that somebody put in their place.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a file. A symbolic link at its name is refused.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits();
    options.custom_flags(i32::try_from(flags).expect("the flags of open(2) are an int")).open(path).map_err(|error| {
        let is_symlink = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
        if is_symlink { is_link() } else { error }
    })
}

/// Opens a pipe or a device for writing through a symbolic link, as `/dev/stdout` is one. A regular file is refused, and none is made.
pub(crate) fn open_device(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).open(path)?;
    if file.metadata()?.is_file() { Err(is_link()) } else { Ok(file) }
}

fn is_link() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link, and none is followed here")
}

/// Whether somebody else than this user and root can change a file. A group that has the user's own number is the user's alone.
pub fn others_can_write(path: &Path) -> io::Result<bool> {
    let found = std::fs::metadata(path)?;
    let us = rustix::process::geteuid().as_raw();
    let by_group = found.mode() & 0o020 != 0 && ![us, 0].contains(&found.gid());
    Ok(found.mode() & 0o002 != 0 || by_group || ![us, 0].contains(&found.uid()))
}
