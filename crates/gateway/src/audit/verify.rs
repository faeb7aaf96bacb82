//! Follows the chain of a trail from its oldest file to its newest.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use serde::Serialize;

use super::chain::{self, CHAIN_START, CUT_OFF, ChainLink};
use super::files::{has_chain, numbered_files};
use crate::auth::hex;
use crate::private_file;

/// What there is of a trail whose chain is whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AuditReport {
    /// How many files it has.
    pub files: usize,
    /// How many records are in the chain.
    pub records: u64,
    /// How many lines before the chain the hash of its first record covers.
    pub without_chain: u64,
    /// How many lines were cut off when a gateway ended, and are marked so.
    pub cut_off: u64,
    /// Whether records before the oldest are gone: their files were removed.
    pub begins_midway: bool,
    /// Whether the last line has no end yet: it is being written, or the gateway was killed.
    #[serde(rename = "unfinished")]
    pub is_unfinished: bool,
    /// Numbered files beside the trail that have no chain, such as another program's rotation left: they are not part of it.
    pub foreign: Vec<PathBuf>,
    /// The hash of the newest record. Kept elsewhere, it shows later that no record up to it was changed or removed.
    pub head: String,
}

/// Why a trail cannot be relied on.
#[derive(Debug, thiserror::Error)]
pub enum AuditFault {
    /// A file cannot be read.
    #[error("`{}` cannot be read: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: io::Error,
    },
    /// No record carries a hash.
    #[error("`{}` has no chain: no record in it carries the hash of the one before", path.display())]
    NoChain {
        /// The file.
        path: PathBuf,
    },
    /// A record is not what the others say of it.
    #[error("`{}` line {line}: {why}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Checks that every record of the trail carries the hash of the record before it.
pub fn verify(path: &Path) -> Result<AuditReport, AuditFault> {
    let (files, foreign) = open_all(path)?;
    let report = AuditReport { files: files.len(), foreign, ..AuditReport::default() };
    let mut walk = Walk { report, ..Walk::default() };
    let newest = files.len() - 1;
    for (at, (path, file)) in files.into_iter().enumerate() {
        walk.file(&path, file, at == newest)?;
    }
    walk.end(path)
}

/// The files of a trail, oldest first, and the numbered files beside them that are not part of it.
type TrailFiles = (Vec<(PathBuf, File)>, Vec<PathBuf>);

/// Opens the files of a trail. The one that is written is opened first, so that a rotation meanwhile is noticed.
fn open_all(path: &Path) -> Result<TrailFiles, AuditFault> {
    let unreadable = |path: &Path, why| AuditFault::Unreadable { path: path.into(), why };
    let open = |path: &Path| {
        let file = private_file::open(path, OpenOptions::new().read(true)).map_err(|why| unreadable(path, why))?;
        let about = file.metadata().map_err(|why| unreadable(path, why))?;
        Ok((path.to_owned(), file, (about.dev(), about.ino())))
    };
    let current = open(path)?;
    let (mut files, mut foreign) = (Vec::new(), Vec::new());
    for (_, path) in numbered_files(path).map_err(|why| unreadable(path, why))? {
        let (path, mut file, id) = open(&path)?;
        if !has_chain(&mut file).map_err(|why| unreadable(&path, why))? {
            foreign.push(path);
        } else if id != current.2 {
            files.push((path, file));
        }
    }
    files.push((current.0, current.1));
    Ok((files, foreign))
}

/// A line without a hash, which something after it must account for.
struct Loose {
    path: PathBuf,
    line: u64,
    hash: String,
    /// How many such lines there are from it on.
    count: u64,
}

#[derive(Default)]
struct Walk {
    report: AuditReport,
    /// The hash of the last record of the chain.
    head: Option<String>,
    loose: Option<Loose>,
}

impl Walk {
    fn file(&mut self, path: &Path, file: File, is_newest: bool) -> Result<(), AuditFault> {
        let mut lines = BufReader::new(file);
        let mut whole = Context::new(&SHA256);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let read = lines.read_until(b'\n', &mut line);
            let length = read.map_err(|why| AuditFault::Unreadable { path: path.into(), why })?;
            if length == 0 {
                break;
            }
            let Some(record) = line.strip_suffix(b"\n") else {
                if is_newest {
                    self.report.is_unfinished = true;
                    break;
                }
                return Err(broken(path, number, "it has no end, and is not the last of the trail"));
            };
            self.line(path, number, record, &whole).map_err(|why| self.blame(path, number, why))?;
            whole.update(&line);
        }
        Ok(())
    }

    /// A line without a hash that nothing accounts for is what is wrong, not the line that shows it.
    fn blame(&mut self, path: &Path, number: u64, why: &'static str) -> AuditFault {
        match self.loose.take() {
            Some(loose) => broken(&loose.path, loose.line, NO_HASH),
            None => broken(path, number, why),
        }
    }

    fn line(&mut self, path: &Path, number: u64, record: &[u8], before: &Context) -> Result<(), &'static str> {
        let link = ChainLink::read(record);
        let hash = chain::hash(record);
        let Some(prev) = link.prev else {
            match &mut self.loose {
                Some(loose) => loose.count += 1,
                None => self.loose = Some(Loose { path: path.into(), line: number, hash, count: 1 }),
            }
            return Ok(());
        };
        match link.event.as_deref() {
            Some(CHAIN_START) => {
                if self.head.is_some() && self.loose.is_none() {
                    return Err("a chain starts here, in the middle of another");
                }
                let loose = self.loose.take();
                if prev != hex(before.clone().finish().as_ref()) {
                    return Err("the lines before it are not those that were there when the chain started");
                }
                self.report.without_chain += loose.map_or(0, |loose| loose.count);
            }
            Some(CUT_OFF) => {
                let accounted = |loose: &Loose| loose.count == 1 && loose.hash == prev;
                let follows = self.head.is_none() || link.after == self.head;
                if !self.loose.take().as_ref().is_some_and(accounted) || !follows {
                    return Err("it says that a line was cut off, and the line is not the one before it");
                }
                self.report.cut_off += 1;
            }
            _ if self.loose.is_some() => return Err(NO_HASH),
            _ => match &self.head {
                Some(head) if *head != prev => return Err(DOES_NOT_FOLLOW),
                Some(_) => {}
                None => self.report.begins_midway = true,
            },
        }
        self.report.records += 1;
        self.head = Some(hash);
        Ok(())
    }

    fn end(mut self, path: &Path) -> Result<AuditReport, AuditFault> {
        let Some(head) = self.head.take() else { return Err(AuditFault::NoChain { path: path.into() }) };
        match self.loose {
            Some(loose) => Err(broken(&loose.path, loose.line, NO_HASH)),
            None => Ok(AuditReport { head, ..self.report }),
        }
    }
}

const NO_HASH: &str = "it does not carry the hash of the record before it";
const DOES_NOT_FOLLOW: &str =
    "it does not follow the record before it: one of the two was changed, or records between them were removed";

fn broken(path: &Path, line: u64, why: &'static str) -> AuditFault {
    AuditFault::Broken { path: path.into(), line, why }
}
