//! Binary content, written to files.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use data_encoding::{BASE64, BASE64_NOPAD};

use crate::note;
use crate::trouble::Trouble;

/// Files that were written: the one that was named, and for further content the same name with a number.
pub(crate) struct WrittenFiles {
    file: PathBuf,
    count: usize,
}

impl WrittenFiles {
    pub(crate) fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), count: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Writes what base64 holds into the next file.
    pub(crate) fn write(&mut self, base64: &str, mime_type: &str) -> Result<(), Trouble> {
        let text = base64.trim().trim_end_matches('=').as_bytes();
        let bytes = BASE64_NOPAD.decode(text).or_else(|_| BASE64.decode(base64.as_bytes()));
        let bytes = bytes.map_err(|error| {
            Trouble::failed(anyhow!("the content of type `{}` is not base64: {error}", crate::safe::line(mime_type)))
        })?;
        self.count += 1;
        let mut path = self.file.clone().into_os_string();
        if self.count > 1 {
            path.push(format!(".{}", self.count));
        }
        let path = PathBuf::from(path);
        std::fs::write(&path, &bytes)
            .map_err(|error| Trouble::failed(anyhow!("`{}` cannot be written: {error}", path.display())))?;
        note(format_args!("{} bytes of {} in `{}`", bytes.len(), crate::safe::line(mime_type), path.display()));
        Ok(())
    }
}
