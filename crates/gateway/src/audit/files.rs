//! The files of the trail: `audit.log` is added to, and when it is full or old it becomes `audit.log.N`, each N one more than the last.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use salon_protocol::Timestamp;

use super::chain::{self, CHAIN_START, CUT_OFF, ChainLink, Marker};
use super::writer::Output;
use crate::private_file;

/// How much of a file's end is read to find its last records: more than any record has.
const TAIL: u64 = 64 * 1024;

/// When a file of the trail is full, and how many are kept. Zero switches each off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuditRotation {
    /// Bytes of one file.
    pub size: u64,
    /// How long records go into the same file.
    pub age: Duration,
    /// How many full files are kept beside the one that is written.
    pub count: usize,
}

/// The file that is written, and those before it.
pub(super) struct AuditFiles {
    path: PathBuf,
    rotation: AuditRotation,
    out: BufWriter<File>,
    /// Pipes and devices are written to and never renamed.
    is_regular: bool,
    size: u64,
    /// When the first record of the file was made.
    since: Option<Timestamp>,
}

impl AuditFiles {
    /// Opens the trail and makes sure that it is, or goes on as, a chain. Returns the hash of its last record.
    pub(super) fn open(path: &Path, rotation: AuditRotation, now: Timestamp) -> io::Result<(Self, String)> {
        let mut file = open(path)?;
        let is_regular = file.metadata()?.is_file();
        let found = if is_regular { look(&mut file, path)? } else { TrailEnd::Nothing };
        let (size, since) = if is_regular { (file.seek(SeekFrom::End(0))?, first_time(&mut file)?) } else { (0, None) };
        let mut files = Self { path: path.into(), rotation, out: BufWriter::new(file), is_regular, size, since };
        let (marker, prev) = match &found {
            TrailEnd::Record(head) => return Ok((files, head.clone())),
            TrailEnd::Nothing => (Marker { ts: now, event: CHAIN_START, after: None }, chain::hash(b"")),
            TrailEnd::NoChain(whole) => (Marker { ts: now, event: CHAIN_START, after: None }, whole.clone()),
            TrailEnd::CutOff { after, cut } => (Marker { ts: now, event: CUT_OFF, after: Some(after) }, cut.clone()),
        };
        let mut line = chain::line(&marker, &prev);
        let head = chain::hash(&line);
        line.push(b'\n');
        // Never rotated before this record: it is hashed with what stands before it in this very file.
        files.since.get_or_insert(now);
        files.write_all(&line)?;
        files.flush()?;
        Ok((files, head))
    }

    fn is_full(&self, ts: Timestamp, len: usize) -> bool {
        let AuditRotation { size, age, .. } = self.rotation;
        let is_old = || self.since.is_some_and(|since| u128::from(ts.0.saturating_sub(since.0)) >= age.as_millis());
        self.is_regular && self.size > 0 && (size > 0 && self.size + len as u64 > size || !age.is_zero() && is_old())
    }

    /// Puts the file aside and begins another.
    fn rotate(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.out.get_ref().sync_data()?;
        // Behind every number that is taken, be it another program's.
        let number = numbered_files(&self.path)?.last().map_or(1, |(last, _)| last + 1);
        let mut rotated = rotated(&self.path)?;
        let full = numbered(&self.path, number);
        match fs::rename(&self.path, &full) {
            // An earlier attempt came this far.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => {
                renamed?;
                rotated.push(full);
            }
        }
        self.out = BufWriter::new(open(&self.path)?);
        (self.size, self.since) = (0, None);
        let kept = self.rotation.count;
        let many = if kept > 0 { rotated.len().saturating_sub(kept) } else { 0 };
        for path in &rotated[..many] {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

impl Output for AuditFiles {
    fn begin_record(&mut self, ts: Timestamp, len: usize) {
        if self.is_full(ts, len)
            && let Err(error) = self.rotate()
        {
            tracing::error!(%error, "audit: rotation failed, continuing with the same file");
            // The next attempt comes when as much again is written.
            (self.size, self.since) = (0, None);
        }
        self.since.get_or_insert(ts);
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()?;
        if self.is_regular { self.out.get_ref().sync_data() } else { Ok(()) }
    }
}

impl Write for AuditFiles {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn open(path: &Path) -> io::Result<File> {
    match private_file::open(path, OpenOptions::new().read(true).append(true).create(true).mode(0o600)) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => private_file::open_device(path).map_err(|_| error),
        opened => opened,
    }
}

/// What the end of a trail is.
enum TrailEnd {
    /// No record anywhere.
    Nothing,
    /// A record with this hash.
    Record(String),
    /// Lines without a chain; the SHA-256 of all of them.
    NoChain(String),
    /// A record, and a line that was not written to its end.
    CutOff { after: String, cut: String },
}

/// Looks at the end of the trail. A line that has no end gets one, so that the next one stands alone.
fn look(file: &mut File, path: &Path) -> io::Result<TrailEnd> {
    let mut tail = read_tail(file)?;
    if tail.last().is_some_and(|last| *last != b'\n') {
        file.write_all(b"\n")?;
        tail.push(b'\n');
    }
    let mut lines = tail.split(|byte| *byte == b'\n').rev().skip(1);
    let earlier = || -> io::Result<Option<String>> {
        let Some(newest) = rotated(path)?.pop() else { return Ok(None) };
        let tail = read_tail(&mut private_file::open(&newest, OpenOptions::new().read(true))?)?;
        Ok(tail.split(|byte| *byte == b'\n').rev().find(|line| !line.is_empty()).and_then(chained))
    };
    let Some(last) = lines.next() else { return Ok(earlier()?.map_or(TrailEnd::Nothing, TrailEnd::Record)) };
    if let Some(head) = chained(last) {
        return Ok(TrailEnd::Record(head));
    }
    let before = match lines.next() {
        Some(line) => chained(line),
        None => earlier()?,
    };
    if let Some(after) = before {
        return Ok(TrailEnd::CutOff { after, cut: chain::hash(last) });
    }
    file.seek(SeekFrom::Start(0))?;
    let mut whole = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    let mut piece = vec![0; TAIL as usize];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(TrailEnd::NoChain(crate::auth::hex(whole.finish().as_ref()))),
            count => whole.update(&piece[..count]),
        }
    }
}

/// The hash of a line that is a record of a chain.
fn chained(line: &[u8]) -> Option<String> {
    ChainLink::read(line).prev.is_some().then(|| chain::hash(line))
}

/// The last bytes of a file. They begin with a whole line where the file has more.
fn read_tail(file: &mut File) -> io::Result<Vec<u8>> {
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    if size > TAIL
        && let Some(end) = tail.iter().position(|byte| *byte == b'\n')
    {
        tail.drain(..=end);
    }
    Ok(tail)
}

/// When the first record of a file was made.
fn first_time(file: &mut File) -> io::Result<Option<Timestamp>> {
    file.seek(SeekFrom::Start(0))?;
    let mut head = Vec::new();
    file.take(TAIL).read_to_end(&mut head)?;
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(ChainLink::read(first).ts.and_then(|ts| Timestamp::parse(&ts)))
}

/// The files before the one that is written, oldest first. Their last records carry hashes: a file without one is not part of the trail,
/// such as one that another program has rotated for a version without a chain.
pub fn rotated(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for (_, path) in numbered_files(path)? {
        // What cannot be opened is none of ours, such as a link or a file of another user; the trail goes on without it.
        let opened = private_file::open(&path, OpenOptions::new().read(true));
        if opened.and_then(|mut file| has_chain(&mut file)).unwrap_or(false) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Whether a file of the trail's name is part of it.
pub(super) fn has_chain(file: &mut File) -> io::Result<bool> {
    let tail = read_tail(file)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(tail.split(|byte| *byte == b'\n').any(|line| chained(line).is_some()))
}

/// The files that have a number behind the name of the trail, in its order.
pub(super) fn numbered_files(path: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let file_name = entry?.file_name();
        let number = file_name.to_str().and_then(|other| other.strip_prefix(name)?.strip_prefix('.')?.parse().ok());
        // Only names that are written as ours are.
        if let Some(number) = number.filter(|number| numbered(path, *number).file_name() == Some(&file_name)) {
            found.push((number, numbered(path, number)));
        }
    }
    found.sort();
    Ok(found)
}

fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    path.with_file_name(name)
}
