//! The file of a backup: a tar archive (POSIX.1-1988 ustar), uncompressed, with the manifest first.
//!
//! Any `tar` can list and unpack it. Reading is strict: exactly the files that the manifest names, in its order, with its sizes and
//! digests. Deliberately absent: paths, links, owners and everything else that a tar archive could say.

use std::io::{self, ErrorKind, Read, Write};

use aws_lc_rs::digest::{Context, SHA256};
use salon_protocol::Timestamp;

use super::manifest::{ArchivedFile, BackupManifest, MANIFEST, MAX_MANIFEST_BYTES};

const BLOCK: usize = 512;
/// Two blocks of zeros end an archive.
const END_BYTES: u64 = 2 * BLOCK as u64;
const CHUNK_BYTES: usize = 1 << 20;

/// Where a header has its fields.
const NAME: std::ops::Range<usize> = 0..100;
const MODE: std::ops::Range<usize> = 100..108;
const SIZE: std::ops::Range<usize> = 124..136;
const MODIFIED: std::ops::Range<usize> = 136..148;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const TYPE: usize = 156;
const MAGIC: std::ops::Range<usize> = 257..265;
const USTAR: &[u8; 8] = b"ustar\x0000";
const REGULAR: u8 = b'0';

/// Why an archive is not one that can be restored.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    #[error("it is not a file that `salon backup` made")]
    NotABackup,
    #[error("it is incomplete: it ends within `{0}`")]
    Truncated(String),
    #[error("it is incomplete: {found} of at least {expected} bytes are there")]
    Short { found: u64, expected: u64 },
    #[error("it is damaged: `{0}` is not what was backed up")]
    Digest(String),
    #[error("Salon {salon} made it, which is newer than this program")]
    Newer { salon: String },
    #[error("{0}")]
    Unexpected(String),
    #[error("it could not be read: {0}")]
    Read(io::Error),
    #[error("`{name}` could not be written: {source}")]
    Write { name: String, source: io::Error },
    #[error("cancelled")]
    Cancelled,
}

/// Called with the bytes done and the bytes in total; `false` cancels.
pub(super) type Watch<'a> = dyn FnMut(u64, u64) -> bool + 'a;

/// Writes an archive of a manifest and the files it names, which are read from `open`.
pub(super) fn pack(
    out: &mut dyn Write,
    manifest: &BackupManifest,
    modified: Timestamp,
    mut open: impl FnMut(&ArchivedFile) -> io::Result<Box<dyn Read>>,
    watch: &mut Watch<'_>,
) -> Result<(), ArchiveError> {
    let failed = |source| ArchiveError::Write { name: "the backup".into(), source };
    let (text, total) = (manifest.to_bytes(), manifest.files.iter().map(|file| file.size).sum());
    out.write_all(&header(MANIFEST, text.len() as u64, modified)).map_err(failed)?;
    out.write_all(&text).and_then(|()| pad(out, text.len() as u64)).map_err(failed)?;
    let mut done = 0;
    for file in &manifest.files {
        out.write_all(&header(&file.name, file.size, modified)).map_err(failed)?;
        let mut input = open(file).map_err(ArchiveError::Read)?;
        let digest = transfer(&mut *input, out, (&file.name, file.size), &mut |bytes| watch(done + bytes, total))?;
        if digest != file.sha256 {
            return Err(ArchiveError::Unexpected(format!("`{}` was changed meanwhile", file.name)));
        }
        pad(out, file.size).map_err(failed)?;
        done += file.size;
    }
    out.write_all(&[0; 2 * BLOCK]).and_then(|()| out.flush()).map_err(failed)
}

/// Reads an archive and checks all of it. `length` is how long it is, where that is known, and `place` hands out what each file is
/// written to. Nothing may be used before this has returned.
pub(super) fn unpack(
    input: &mut dyn Read,
    length: Option<u64>,
    mut place: impl FnMut(&ArchivedFile) -> io::Result<Box<dyn Write>>,
    watch: &mut Watch<'_>,
) -> Result<BackupManifest, ArchiveError> {
    let (manifest, manifest_bytes) = read_manifest(input)?;
    let total: u64 = manifest.files.iter().fold(0, |sum, file| sum.saturating_add(file.size));
    let expected = archive_bytes(&manifest, manifest_bytes);
    if let Some(found) = length.filter(|found| *found < expected) {
        // Found out before anything is written, however long the manifest says that its files are.
        return Err(ArchiveError::Short { found, expected });
    }
    let mut done = 0;
    for file in &manifest.files {
        let found = read_header(input, &file.name)?;
        if found != Some((file.name.clone(), file.size)) {
            return Err(ArchiveError::Unexpected(format!("`{}` is not where `{MANIFEST}` says", file.name)));
        }
        let failed = |source| ArchiveError::Write { name: file.name.clone(), source };
        let mut out = place(file).map_err(failed)?;
        let digest = transfer(input, &mut *out, (&file.name, file.size), &mut |bytes| watch(done + bytes, total))?;
        if digest != file.sha256 {
            return Err(ArchiveError::Digest(file.name.clone()));
        }
        out.flush().map_err(failed)?;
        skip_padding(input, file.size, &file.name)?;
        done += file.size;
    }
    read_end(input)?;
    Ok(manifest)
}

/// Moves so many bytes of a file, and hands out their SHA-256.
pub(super) fn transfer(
    input: &mut dyn Read,
    out: &mut dyn Write,
    (name, size): (&str, u64),
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<String, ArchiveError> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut digest = Context::new(&SHA256);
    let mut left = size;
    while left > 0 {
        let most = usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        let read = match input.read(&mut buffer[..most]) {
            Ok(0) => return Err(ArchiveError::Truncated(name.into())),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(ArchiveError::Read(error)),
        };
        digest.update(&buffer[..read]);
        out.write_all(&buffer[..read]).map_err(|source| ArchiveError::Write { name: name.into(), source })?;
        left -= read as u64;
        if !watch(size - left) {
            return Err(ArchiveError::Cancelled);
        }
    }
    Ok(digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn padding(size: u64) -> usize {
    (BLOCK - (size % BLOCK as u64) as usize) % BLOCK
}

fn pad(out: &mut dyn Write, size: u64) -> io::Result<()> {
    out.write_all(&[0; BLOCK][..padding(size)])
}

/// How long an archive is at least, with a manifest of so many bytes.
fn archive_bytes(manifest: &BackupManifest, manifest_bytes: u64) -> u64 {
    let member = |size: u64| (BLOCK as u64).saturating_add(size).saturating_add(padding(size) as u64);
    let files = manifest.files.iter().fold(0, |sum: u64, file| sum.saturating_add(member(file.size)));
    files.saturating_add(member(manifest_bytes)).saturating_add(END_BYTES)
}

fn header(name: &str, size: u64, modified: Timestamp) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |range: std::ops::Range<usize>, text: &[u8]| {
        header[range.start..range.start + text.len()].copy_from_slice(text);
    };
    put(NAME, name.as_bytes());
    put(MODE, b"0000600\0");
    put(108..116, b"0000000\0");
    put(116..124, b"0000000\0");
    if size < 1 << 33 {
        put(SIZE, format!("{size:011o}\0").as_bytes());
    } else {
        // What eleven octal digits cannot say is in base 256, as GNU and BSD tar have it.
        put(SIZE, &[&[0x80, 0, 0, 0][..], &size.to_be_bytes()].concat());
    }
    put(MODIFIED, format!("{:011o}\0", modified.0 / 1000).as_bytes());
    put(CHECKSUM, b"        ");
    put(TYPE..TYPE + 1, &[REGULAR]);
    put(MAGIC, USTAR);
    let sum = checksum(&header);
    header[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// The sum of a header's bytes, its own place counted as blanks.
fn checksum(header: &[u8; BLOCK]) -> u64 {
    let blanks = CHECKSUM.len() as u64 * u64::from(b' ');
    let outside = header.iter().enumerate().filter(|(at, _)| !CHECKSUM.contains(at));
    outside.map(|(_, byte)| u64::from(*byte)).sum::<u64>() + blanks
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    u64::from_str_radix(text, 8).ok()
}

fn size_of(field: &[u8]) -> Option<u64> {
    match field {
        [0x80, 0, 0, 0, rest @ ..] => Some(u64::from_be_bytes(rest.try_into().ok()?)),
        _ => octal(field),
    }
}

/// Reads a header: the name and size of a regular file; none at the end of the archive. `within` is what should come there.
fn read_header(input: &mut dyn Read, within: &str) -> Result<Option<(String, u64)>, ArchiveError> {
    let mut header = [0; BLOCK];
    read_block(input, &mut header, within)?;
    if header == [0; BLOCK] {
        return Ok(None);
    }
    let whole = octal(&header[CHECKSUM]) == Some(checksum(&header)) && header[MAGIC].starts_with(b"ustar");
    let name = header[NAME].split(|byte| *byte == 0).next().and_then(|name| std::str::from_utf8(name).ok());
    match (whole, name, size_of(&header[SIZE])) {
        (true, Some(name), Some(size)) if header[TYPE] == REGULAR => Ok(Some((name.to_owned(), size))),
        (true, Some(name), _) => Err(ArchiveError::Unexpected(format!("`{name}` is not a plain file"))),
        _ => Err(ArchiveError::Unexpected(format!("the header before `{within}` is damaged"))),
    }
}

/// Reads the manifest; hands out also how long it is.
fn read_manifest(input: &mut dyn Read) -> Result<(BackupManifest, u64), ArchiveError> {
    let size = match read_header(input, MANIFEST) {
        Ok(Some((name, size))) if name == MANIFEST && size <= MAX_MANIFEST_BYTES => size,
        Err(ArchiveError::Read(error)) => return Err(ArchiveError::Read(error)),
        _ => return Err(ArchiveError::NotABackup),
    };
    let mut text = Vec::new();
    transfer(input, &mut text, (MANIFEST, size), &mut |_| true)?;
    skip_padding(input, size, MANIFEST)?;
    BackupManifest::parse(&text).map(|manifest| (manifest, size))
}

fn skip_padding(input: &mut dyn Read, size: u64, within: &str) -> Result<(), ArchiveError> {
    let mut block = [0; BLOCK];
    read_block(input, &mut block[..padding(size)], within)
}

/// The end: zeros and nothing else.
fn read_end(input: &mut dyn Read) -> Result<(), ArchiveError> {
    const END: &str = "its last blocks";
    let mut block = [0; BLOCK];
    for _ in 0..2 {
        read_block(input, &mut block, END)?;
        if block != [0; BLOCK] {
            return Err(ArchiveError::Unexpected("it holds more than its manifest says".into()));
        }
    }
    loop {
        match input.read(&mut block).map_err(ArchiveError::Read)? {
            0 => return Ok(()),
            read if block[..read].iter().all(|byte| *byte == 0) => {}
            _ => return Err(ArchiveError::Unexpected("it goes on after its end".into())),
        }
    }
}

fn read_block(input: &mut dyn Read, block: &mut [u8], within: &str) -> Result<(), ArchiveError> {
    input.read_exact(block).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => ArchiveError::Truncated(within.into()),
        _ => ArchiveError::Read(error),
    })
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
