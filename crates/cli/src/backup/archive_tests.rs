use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::rc::Rc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

type Files = BTreeMap<String, Vec<u8>>;

const TIME: Timestamp = Timestamp(1_755_439_200_000);

fn files() -> Files {
    let log: Vec<u8> = (0..5000_u32).map(|n| (n % 251) as u8).collect();
    [("log.db", log), ("auth.key", vec![7; 32]), ("signed-out.jsonl", Vec::new())].map(|(n, b)| (n.into(), b)).into()
}

fn manifest(files: &Files) -> BackupManifest {
    let archived = ["log.db", "auth.key", "signed-out.jsonl"].map(|name| {
        let bytes = &files[name];
        let size = bytes.len() as u64;
        let sha256 = transfer(&mut &bytes[..], &mut io::sink(), (name, size), &mut |_| true).expect("measured");
        ArchivedFile { name: name.into(), size, sha256 }
    });
    let log = serde_json::from_value(json!({ "version": 2, "topics": 1, "entries": 2, "context_keys": 3 }));
    BackupManifest::new(TIME, log.expect("facts"), archived.into())
}

fn packed() -> Vec<u8> {
    let files = files();
    let mut out = Vec::new();
    let open =
        |file: &ArchivedFile| -> io::Result<Box<dyn Read>> { Ok(Box::new(Cursor::new(files[&file.name].clone()))) };
    pack(&mut out, &manifest(&files), TIME, open, &mut |_, _| true).expect("packed");
    out
}

/// A file in memory.
struct Shelf(Rc<RefCell<Files>>, String);

impl Write for Shelf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().entry(self.1.clone()).or_default().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What comes of unpacking: the files that were written, and the error.
fn unpacked(bytes: &[u8], length: Option<u64>) -> (Files, Result<BackupManifest, ArchiveError>) {
    let shelf = Rc::new(RefCell::new(Files::new()));
    let place = |file: &ArchivedFile| -> io::Result<Box<dyn Write>> {
        shelf.borrow_mut().insert(file.name.clone(), Vec::new());
        Ok(Box::new(Shelf(shelf.clone(), file.name.clone())))
    };
    let outcome = unpack(&mut &bytes[..], length, place, &mut |_, _| true);
    (shelf.take(), outcome)
}

fn refusal(bytes: &[u8]) -> String {
    let (_, outcome) = unpacked(bytes, None);
    outcome.expect_err("refused").to_string()
}

/// An archive with another manifest, followed by the same files.
fn with_manifest(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value = serde_json::to_value(manifest(&files())).expect("JSON");
    change(&mut value);
    let text = value.to_string().into_bytes();
    let mut bytes = header(MANIFEST, text.len() as u64, TIME).to_vec();
    bytes.extend_from_slice(&text);
    pad(&mut bytes, text.len() as u64).expect("memory takes everything");
    bytes.extend_from_slice(&packed()[members_at()..]);
    bytes
}

/// Where the header of the first file is.
fn members_at() -> usize {
    let text = manifest(&files()).to_bytes().len();
    BLOCK + text + padding(text as u64)
}

/// An archive in which the header of `log.db` is another.
fn with_header(change: impl FnOnce(&mut [u8; BLOCK])) -> Vec<u8> {
    let mut bytes = packed();
    let range = members_at()..members_at() + BLOCK;
    let mut header: [u8; BLOCK] = bytes[range.clone()].try_into().expect("a block");
    change(&mut header);
    let sum = checksum(&header);
    header[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    bytes[range].copy_from_slice(&header);
    bytes
}

#[test]
fn what_was_packed_is_unpacked() {
    let bytes = packed();
    assert_eq!(bytes.len() % BLOCK, 0);
    let (found, outcome) = unpacked(&bytes, Some(bytes.len() as u64));
    assert_eq!(outcome.expect("whole").files, manifest(&files()).files);
    assert_eq!(found, files());
    let longer = [&bytes[..], &[0; 9 * BLOCK]].concat();
    assert!(unpacked(&longer, Some(longer.len() as u64)).1.is_ok(), "tar may fill the last record with zeros");
}

#[test]
fn any_tar_can_read_it() {
    use std::process::{Command, Stdio};
    let mut tar =
        Command::new("tar").args(["-tvf", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("tar");
    tar.stdin.take().expect("a pipe").write_all(&packed()).expect("read");
    let listed = tar.wait_with_output().expect("it ends");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let shown: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    let shown: Vec<_> = shown.iter().map(|row| (row[0], row[2], row[row.len() - 1])).collect();
    assert_eq!(shown.len(), 4, "{listed}");
    assert_eq!(
        shown[1..],
        [("-rw-------", "5000", "log.db"), ("-rw-------", "32", "auth.key"), ("-rw-------", "0", "signed-out.jsonl"),]
    );
}

#[test]
fn sizes_beyond_octal_are_read_back() {
    for size in [0, 511, (1 << 33) - 1, 1 << 33, u64::MAX] {
        assert_eq!(size_of(&header("log.db", size, TIME)[SIZE]), Some(size));
    }
}

#[test]
fn an_archive_that_ends_too_soon_is_refused_wherever_it_ends() {
    let bytes = packed();
    for end in (0..bytes.len()).step_by(64).chain([bytes.len() - 1]) {
        assert!(unpacked(&bytes[..end], None).1.is_err(), "{end} bytes of {}", bytes.len());
        let (written, outcome) = unpacked(&bytes[..end], Some(end as u64));
        assert!(outcome.is_err() && written.is_empty(), "its length says so before anything is written");
    }
}

#[test]
fn what_is_damaged_is_refused() {
    let bytes = packed();
    let mut in_log = bytes.clone();
    in_log[members_at() + BLOCK + 100] ^= 1;
    assert_eq!(refusal(&in_log), "it is damaged: `log.db` is not what was backed up");
    let mut in_header = bytes.clone();
    in_header[members_at() + 1] ^= 1;
    assert_eq!(refusal(&in_header), "the header before `log.db` is damaged");
    assert_eq!(refusal(&[&bytes[..], b"more"].concat()), "it goes on after its end");
    let end = bytes.len() - 2 * BLOCK;
    let more = [&bytes[..end], &header("audit.log", 0, TIME), &[0; 2 * BLOCK]].concat();
    assert_eq!(refusal(&more), "it holds more than its manifest says");
    assert_eq!(refusal(b"hello"), "it is not a file that `salon backup` made");
    assert_eq!(refusal(&[0; 4096]), "it is not a file that `salon backup` made");
    assert_eq!(refusal(&header("README", 10, TIME)), "it is not a file that `salon backup` made");
    assert_eq!(refusal(&header(MANIFEST, u64::MAX, TIME)), "it is not a file that `salon backup` made");
}

#[test]
fn only_known_files_are_ever_written() {
    for name in ["../auth.key", "/etc/passwd", "log.db/x", "log.db-wal", "", ".", "AUTH.KEY", "auth.key\u{0}"] {
        let bytes = with_manifest(|manifest| manifest["files"][1]["name"] = json!(name));
        let (written, outcome) = unpacked(&bytes, None);
        let told = outcome.expect_err("refused").to_string();
        assert!(told.contains("which no backup has there"), "{name}: {told}");
        assert_eq!(written, Files::new(), "{name}");
    }
    let twice = with_manifest(|manifest| manifest["files"][1] = manifest["files"][0].clone());
    assert_eq!(refusal(&twice), "it holds `log.db`, which no backup has there");
    let none = with_manifest(|manifest| manifest["files"] = json!([]));
    assert_eq!(refusal(&none), "it does not hold `log.db`");
    // Whatever the manifest says, a header may say something else.
    let outside = with_header(|header| header[..10].copy_from_slice(b"../log.db\0"));
    assert_eq!(refusal(&outside), "`log.db` is not where `salon-backup.json` says");
    for kind in [b'1', b'2', b'5', b'g', b'x', b'L'] {
        let link = with_header(|header| header[TYPE] = kind);
        assert_eq!(refusal(&link), "`log.db` is not a plain file");
    }
}

#[test]
fn absurd_sizes_are_refused() {
    let key = with_manifest(|manifest| manifest["files"][1]["size"] = json!(33));
    assert_eq!(refusal(&key), "`auth.key` cannot have 33 bytes");
    let log = with_manifest(|manifest| manifest["files"][0]["size"] = json!(u64::MAX));
    let (written, outcome) = unpacked(&log, Some(log.len() as u64));
    let told = outcome.expect_err("refused").to_string();
    assert_eq!(told, format!("it is incomplete: {} of at least {} bytes are there", log.len(), u64::MAX));
    assert!(written.is_empty());
    assert_eq!(refusal(&log), "`log.db` is not where `salon-backup.json` says");
    let size = with_header(|header| header[SIZE].fill(b'7'));
    assert_eq!(refusal(&size), "`log.db` is not where `salon-backup.json` says");
}

#[test]
fn what_a_newer_version_made_is_refused_by_its_name() {
    let format = with_manifest(|manifest| {
        manifest["format_version"] = json!(2);
        manifest["salon"] = json!("9.0.0");
        manifest["files"] = json!("something else entirely");
    });
    assert_eq!(refusal(&format), "Salon 9.0.0 made it, which is newer than this program");
    let log = with_manifest(|manifest| manifest["log"]["version"] = json!(99));
    assert!(refusal(&log).ends_with("made it, which is newer than this program"));
}

#[test]
fn work_is_cancelled_between_pieces() {
    let bytes = packed();
    let outcome = unpack(&mut &bytes[..], None, |_| Ok(Box::new(io::sink())), &mut |_, _| false);
    assert!(matches!(outcome, Err(ArchiveError::Cancelled)), "{outcome:?}");
}

proptest! {
    #[test]
    fn no_change_goes_unnoticed_and_none_panics(at in 0..packed().len(), bit in 0..8) {
        let mut bytes = packed();
        bytes[at] ^= 1_u8 << bit;
        let (written, outcome) = unpacked(&bytes, Some(bytes.len() as u64));
        // Fields that are not read, and padding, may differ; what is unpacked may not.
        if outcome.is_ok() {
            prop_assert_eq!(written, files());
        }
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
        prop_assert!(unpacked(&bytes, None).1.is_err());
    }
}
