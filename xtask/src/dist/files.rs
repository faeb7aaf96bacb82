//! Files on their way into a package, and the archive formats that packages are made of.
//!
//! The same input gives the same bytes: every time is the release's, every owner a number, every order that of the caller.
//! Deliberately absent: reading archives.

use std::collections::BTreeSet;
use std::io::Write;

use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compression, Crc};
use sha2::{Digest, Sha256};

/// The bit of a Unix mode that says "regular file", as zip archives want it.
const REGULAR_FILE: u32 = 0o100_000;

/// What is compressed in no time. The best level needs three times as long for a program and saves a hundredth.
const FEW_BYTES: usize = 4 << 20;

/// One file or folder of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackedFile {
    /// Relative to the package's root, with `/`; a folder ends with one.
    pub(crate) path: String,
    pub(crate) mode: u32,
    /// User and group.
    pub(crate) owner: u64,
    pub(crate) bytes: Vec<u8>,
}

impl PackedFile {
    pub(crate) fn text(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: 0o644, owner: 0, bytes: bytes.into() }
    }

    pub(crate) fn program(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { mode: 0o755, ..Self::text(path, bytes) }
    }

    pub(crate) fn folder(path: impl Into<String>, mode: u32, owner: u64) -> Self {
        Self { path: path.into(), mode, owner, bytes: Vec::new() }
    }
}

/// A tar archive (ustar) with every folder before what is in it.
pub(crate) fn tar(prefix: &str, files: &[PackedFile], epoch: u64) -> Result<Vec<u8>, String> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut folders = BTreeSet::new();
    let listed: BTreeSet<&str> = files.iter().map(|file| &*file.path).collect();
    for file in files {
        for (at, _) in file.path.trim_end_matches('/').match_indices('/') {
            let parent = &file.path[..=at];
            if !listed.contains(parent) && folders.insert(parent) {
                append(&mut archive, prefix, &PackedFile::folder(parent, 0o755, 0), epoch)?;
            }
        }
        append(&mut archive, prefix, file, epoch)?;
    }
    archive.into_inner().map_err(|error| format!("tar: {error}"))
}

fn append(archive: &mut tar::Builder<Vec<u8>>, prefix: &str, file: &PackedFile, epoch: u64) -> Result<(), String> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(if file.path.ends_with('/') { tar::EntryType::Directory } else { tar::EntryType::Regular });
    header.set_mode(file.mode);
    header.set_uid(file.owner);
    header.set_gid(file.owner);
    header.set_mtime(epoch);
    header.set_size(file.bytes.len() as u64);
    let path = format!("{prefix}{}", file.path);
    // `Header::set_path` would drop the `./` that Debian's archives begin with.
    let name = &mut header.as_old_mut().name;
    if path.len() >= name.len() {
        return Err(format!("`{path}` is too long a path for a package"));
    }
    name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_cksum();
    archive.append(&header, &*file.bytes).map_err(|error| format!("tar: `{path}`: {error}"))
}

/// Compressed without a name or a time; as well as can be where that costs no time, which Debian asks of its documents.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let level = if bytes.len() < FEW_BYTES { Compression::best() } else { Compression::default() };
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|error| format!("gzip: {error}"))
}

/// A `.deb` is one of these (ar, in its common form).
pub(crate) fn ar(members: &[(&str, Vec<u8>)], epoch: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let head = format!("{name:<16}{epoch:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", bytes.len());
        archive.extend(head.bytes());
        archive.extend(bytes);
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

/// A zip archive without what wheels do not need: comments, sizes above 4 GiB, times other than 1980-01-01.
/// Layout: APPNOTE.TXT 6.3.10, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.16 (end record).
pub(crate) fn zip(files: &[PackedFile]) -> Result<Vec<u8>, String> {
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    for file in files {
        let start = short(archive.len())?;
        let mut checksum = Crc::new();
        checksum.update(&file.bytes);
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        let packed = encoder.write_all(&file.bytes).and_then(|()| encoder.finish());
        let packed = packed.map_err(|error| format!("zip: `{}`: {error}", file.path))?;

        // Version 2.0, names in UTF-8, deflate, 00:00 on 1980-01-01: the same in both headers.
        let mut common = Vec::new();
        for field in [20_u16, 0x0800, 8, 0, 0x0021] {
            common.extend(field.to_le_bytes());
        }
        for field in [checksum.sum(), short(packed.len())?, short(file.bytes.len())?] {
            common.extend(field.to_le_bytes());
        }
        let name = u16::try_from(file.path.len()).map_err(|_| format!("zip: `{}` is too long", file.path))?;
        common.extend(name.to_le_bytes());
        common.extend([0, 0]);

        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(file.path.bytes());
        archive.extend(&packed);

        // Made by 2.0 on Unix, so that the mode counts.
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend(((REGULAR_FILE | file.mode) << 16).to_le_bytes());
        directory.extend(start.to_le_bytes());
        directory.extend(file.path.bytes());
    }
    let (start, length) = (short(archive.len())?, short(directory.len())?);
    let count = u16::try_from(files.len()).map_err(|_| "zip: too many files")?;
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    archive.extend([length.to_le_bytes(), start.to_le_bytes()].concat());
    archive.extend([0, 0]);
    Ok(archive)
}

fn short(length: usize) -> Result<u32, String> {
    u32::try_from(length).map_err(|_| "zip: more than 4 GiB".into())
}

/// SHA-256 in lower-case hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_tar_has_folders_first_and_keeps_modes_and_owners() {
        let files = [PackedFile::program("usr/bin/salon", "x"), PackedFile::folder("var/lib/salon/", 0o700, 10001)];
        let bytes = tar("./", &files, 7).expect("a tar");
        let mut archive = tar::Archive::new(&*bytes);
        let entries = archive.entries().expect("entries").map(|entry| {
            let entry = entry.expect("an entry");
            let header = entry.header();
            let name = String::from_utf8(header.path_bytes().into_owned()).expect("UTF-8");
            (name, header.mode().expect("mode"), header.uid().expect("uid"), header.mtime().expect("time"))
        });
        let expected = [
            ("./usr/", 0o755, 0),
            ("./usr/bin/", 0o755, 0),
            ("./usr/bin/salon", 0o755, 0),
            ("./var/", 0o755, 0),
            ("./var/lib/", 0o755, 0),
            ("./var/lib/salon/", 0o700, 10001),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(name, mode, owner)| ((*name).to_owned(), *mode, *owner, 7)).collect();
        assert_eq!(entries.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn ar_pads_members_to_even_lengths() {
        let archive =
            String::from_utf8(ar(&[("debian-binary", b"2.0".to_vec()), ("b", b"x".to_vec())], 5)).expect("ASCII");
        assert_eq!(archive.len(), 8 + 60 + 4 + 60 + 2);
        assert!(
            archive[8..].starts_with("debian-binary   5           0     0     100644  3         `\n2.0\nb "),
            "{archive}"
        );
    }

    #[test]
    fn zip_finds_its_directory_and_unpacks() {
        let text = "hello ".repeat(100);
        let archive = zip(&[PackedFile::text("a", "1"), PackedFile::program("b/c", &*text)]).expect("a zip");
        let end = &archive[archive.len() - 22..];
        let number = |at: usize| u32::from_le_bytes(end[at..at + 4].try_into().expect("four")) as usize;
        assert_eq!(u16::from_le_bytes([end[10], end[11]]), 2);
        let directory = &archive[number(16)..number(16) + number(12)];
        assert_eq!(directory.len(), 46 + 1 + 46 + 3);
        let second = &directory[47..];
        assert_eq!(&second[46..], b"b/c");
        assert_eq!(u16::from_le_bytes([second[40], second[41]]), 0o100_755);
        let start = u32::from_le_bytes(second[42..46].try_into().expect("four")) as usize;
        assert_eq!(&archive[start..start + 4], b"PK\x03\x04");
        let mut unpacked = String::new();
        flate2::read::DeflateDecoder::new(&archive[start + 30 + 3..]).read_to_string(&mut unpacked).expect("deflate");
        assert_eq!(unpacked, text);
    }

    #[test]
    fn sha256_is_the_known_one() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
