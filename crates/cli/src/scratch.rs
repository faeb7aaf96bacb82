//! A directory that is gone when its owner is.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

pub(crate) struct PrivateScratch(PathBuf);

impl PrivateScratch {
    /// Makes a directory that only its owner can read. Its name is short, because people paste it; one that exists is an error.
    pub(crate) fn new(purpose: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("salon-{purpose}-{:08x}", uuid::Uuid::new_v4().as_fields().0));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateScratch {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own tidying of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
