//! Looking at a log without opening it: is it free, and is it one that this version can open?
//!
//! Deliberately absent: SQLite, which makes files beside the database even to read it. The file's header says enough.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use super::{DATABASE, LOCK, OpenError, refuse_unfinished, schema};

/// What every SQLite file begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Where the header has the version and the mark of whose file it is, four bytes each.
const VERSION: usize = 60;
const APPLICATION: usize = 68;
const HEADER: usize = 100;

/// What was found where a log would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Nobody has it open, or there is none yet.
    Free,
    /// Another process, or another log of this one, has it open.
    InUse,
}

/// Looks at the log in a directory and makes nothing. What [`super::Sqlite::open`] would refuse at the first glance is refused here too.
pub fn look(directory: &Path) -> Result<Sight, OpenError> {
    let failed = |path: &Path, source| OpenError::Files { path: path.into(), source };
    let lock = directory.join(LOCK);
    match File::options().write(true).open(&lock) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(&lock, error)),
        Ok(file) => match file.try_lock() {
            // Dropped at once, so that a gateway that starts meanwhile is hardly ever in its way.
            Ok(()) => drop(file),
            // Not looked at further: to close a file in a process is to lose the locks it has on it.
            Err(TryLockError::WouldBlock) => return Ok(Sight::InUse),
            Err(TryLockError::Error(error)) => return Err(failed(&lock, error)),
        },
    }
    refuse_unfinished(directory)?;
    let path = directory.join(DATABASE);
    // Opened as a start would open it, for writing.
    let header = match File::options().read(true).write(true).open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Sight::Free),
        opened => opened.and_then(header).map_err(|source| failed(&path, source))?,
    };
    if header.is_empty() {
        return Ok(Sight::Free);
    }
    if header.len() < HEADER || !header.starts_with(MAGIC) {
        return Err(OpenError::NotADatabase { path });
    }
    let number = |at: usize| header[at..].first_chunk().map_or(0, |bytes| i64::from(i32::from_be_bytes(*bytes)));
    match (number(APPLICATION), number(VERSION)) {
        // Just made, and what says more is still in the write-ahead log.
        (0, 0) => Ok(Sight::Free),
        (application, version) => schema::recognize(application, version, &path).map(|()| Sight::Free),
    }
}

fn header(file: File) -> io::Result<Vec<u8>> {
    let mut header = Vec::with_capacity(HEADER);
    file.take(HEADER as u64).read_to_end(&mut header)?;
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{Sqlite, SqliteOptions};
    use super::*;

    struct TestDirectory(std::path::PathBuf);

    impl Drop for TestDirectory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn place(name: &str) -> TestDirectory {
        let path = std::env::temp_dir().join(format!("salon-look-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("a directory of its own");
        TestDirectory(path)
    }

    fn told(directory: &Path) -> String {
        match look(directory) {
            Ok(sight) => format!("{sight:?}"),
            Err(error) => error.to_string().replace(&directory.display().to_string(), "DATA"),
        }
    }

    #[test]
    fn it_tells_who_has_it_and_makes_nothing() {
        let data = place("use");
        assert_eq!(told(&data.0), "Free");
        assert_eq!(fs::read_dir(&data.0).expect("readable").count(), 0);
        let log = Sqlite::open(&data.0, SqliteOptions::default()).expect("opened");
        assert_eq!(told(&data.0), "InUse");
        drop(log);
        assert_eq!(told(&data.0), "Free");
        drop(Sqlite::open(&data.0, SqliteOptions::default()).expect("nothing was left locked"));
    }

    #[test]
    fn what_cannot_be_opened_is_told() {
        let data = place("wrong");
        let database = data.0.join(DATABASE);
        drop(Sqlite::open(&data.0, SqliteOptions::default()).expect("made"));
        let mut bytes = fs::read(&database).expect("read");
        bytes[VERSION..VERSION + 4].copy_from_slice(&99_u32.to_be_bytes());
        fs::write(&database, &bytes).expect("written");
        assert_eq!(told(&data.0), "`DATA/log.db` has version 99, but this program knows versions up to 6");
        bytes[APPLICATION] ^= 1;
        fs::write(&database, &bytes).expect("written");
        assert_eq!(told(&data.0), "`DATA/log.db` is a database, but not a log of ours");
        fs::write(&database, "hello").expect("written");
        assert_eq!(told(&data.0), "`DATA/log.db` is not a database");
        fs::remove_file(&database).expect("removed");
        fs::create_dir(&database).expect("made");
        assert_eq!(told(&data.0), "`DATA/log.db` could not be opened");
    }
}
