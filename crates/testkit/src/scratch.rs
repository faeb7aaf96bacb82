use std::path::{Path, PathBuf};

/// A directory of its own under the system's temporary one, removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one.
    pub fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("salon-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Whatever cannot be removed is the system's to clean: a test has nothing to say about it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
