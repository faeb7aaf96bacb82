//! What a backup says of itself: the first member of its archive.

use salon_gateway::auth::{
    KEY_BYTES, KEY_FILE, MAX_SIGNING_KEYS_BYTES, REVOCATIONS_FILE, SIGN_OUTS_FILE, SIGNING_KEYS_FILE,
};
use salon_gateway::config::AUDIT_FILE;
use salon_log::sqlite::{self, DATABASE, FILES_DATABASE, LogSummary};
use salon_protocol::Timestamp;
use serde::{Deserialize, Serialize};

use super::archive::ArchiveError;
use crate::safe;

/// The manifest's name in the archive.
pub(super) const MANIFEST: &str = "salon-backup.json";
/// The longest manifest that is read.
pub(super) const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// What every manifest has as its `format`.
const FORMAT: &str = "salon-backup";
/// The version of the archive's form that this program writes, and the newest that it reads.
const FORMAT_VERSION: u32 = 1;

/// A file of the data directory that a backup holds, and the longest that it may be.
pub(super) struct DataFile {
    pub(super) name: &'static str,
    max_bytes: u64,
}

/// Everything a backup can hold, in the order in which it does; the older files of the audit trail come after it ([`is_trail`]). Nothing else is
/// ever written by a restore.
pub(super) const DATA_FILES: &[DataFile] = &[
    DataFile { name: DATABASE, max_bytes: u64::MAX },
    DataFile { name: FILES_DATABASE, max_bytes: u64::MAX },
    DataFile { name: KEY_FILE, max_bytes: KEY_BYTES as u64 },
    DataFile { name: SIGNING_KEYS_FILE, max_bytes: MAX_SIGNING_KEYS_BYTES },
    DataFile { name: SIGN_OUTS_FILE, max_bytes: 1 << 30 },
    DataFile { name: REVOCATIONS_FILE, max_bytes: 1 << 30 },
    DataFile { name: AUDIT_FILE, max_bytes: u64::MAX },
];

/// Whether a file is of the audit trail: the one that is written, or an older one, `audit.log.N`.
pub(super) fn is_trail(name: &str) -> bool {
    name == AUDIT_FILE || trail_number(name).is_some()
}

/// The number of an older file of the audit trail. Only as a gateway writes it: a restore makes a file of this name.
fn trail_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(AUDIT_FILE)?.strip_prefix('.')?;
    digits.parse().ok().filter(|number: &u64| number.to_string() == digits)
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BackupManifest {
    format: String,
    format_version: u32,
    /// The version of the program that made it.
    salon: String,
    /// When, in RFC 3339.
    created: String,
    pub(super) log: LogFacts,
    pub(super) files: Vec<ArchivedFile>,
}

/// What the log holds, as [`LogSummary`] has it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogFacts {
    version: i64,
    topics: u64,
    entries: u64,
    context_keys: u64,
}

/// One file of the data directory.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ArchivedFile {
    pub(super) name: String,
    pub(super) size: u64,
    /// Lower-case hexadecimal.
    pub(super) sha256: String,
}

/// The part that every version of the manifest has.
#[derive(Deserialize)]
struct FormatMark {
    format: String,
    format_version: u32,
    #[serde(default)]
    salon: String,
}

impl BackupManifest {
    pub(super) fn new(created: Timestamp, log: LogFacts, files: Vec<ArchivedFile>) -> Self {
        Self {
            format: FORMAT.into(),
            format_version: FORMAT_VERSION,
            salon: env!("CARGO_PKG_VERSION").into(),
            created: created.to_string(),
            log,
            files,
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("names and numbers are plain JSON");
        bytes.push(b'\n');
        bytes
    }

    /// When it was made and by which version, for a person to read. A backup may come from anywhere.
    pub(super) fn origin(&self) -> String {
        format!("made {} by Salon {}", safe::line(&self.created), safe::line(&self.salon))
    }

    /// Reads a manifest and refuses one that this program cannot restore.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ArchiveError> {
        let mark: FormatMark = serde_json::from_slice(bytes).map_err(|_| ArchiveError::NotABackup)?;
        if mark.format != FORMAT {
            return Err(ArchiveError::NotABackup);
        }
        if mark.format_version != FORMAT_VERSION {
            return Err(ArchiveError::Newer { salon: mark.salon });
        }
        let manifest: Self = serde_json::from_slice(bytes)
            .map_err(|error| ArchiveError::Unexpected(format!("`{MANIFEST}` is malformed: {error}")))?;
        if manifest.log.version > sqlite::known_version() {
            return Err(ArchiveError::Newer { salon: manifest.salon });
        }
        manifest.check_files()?;
        Ok(manifest)
    }

    /// Files must be ones that a data directory has, each at most once and in their order, the log first.
    fn check_files(&self) -> Result<(), ArchiveError> {
        let mut known = DATA_FILES.iter();
        let mut last_number = None;
        for file in &self.files {
            let number = trail_number(&file.name);
            if number.is_some() && number > last_number {
                last_number = number;
                continue;
            }
            let Some(data) = known.find(|data| data.name == file.name) else {
                return Err(ArchiveError::Unexpected(format!("it holds `{}`, which no backup has there", file.name)));
            };
            if file.size > data.max_bytes {
                return Err(ArchiveError::Unexpected(format!("`{}` cannot have {} bytes", file.name, file.size)));
            }
        }
        match self.files.first() {
            Some(first) if first.name == DATABASE => Ok(()),
            _ => Err(ArchiveError::Unexpected(format!("it does not hold `{DATABASE}`"))),
        }
    }
}

impl From<LogSummary> for LogFacts {
    fn from(LogSummary { version, topics, entries, context_keys }: LogSummary) -> Self {
        Self { version, topics, entries, context_keys }
    }
}

impl std::fmt::Display for LogFacts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { topics, entries, context_keys, .. } = self;
        let topics = counted(*topics, "topic", "topics");
        let entries = counted(*entries, "entry", "entries");
        write!(f, "{topics}, {entries}, {}", counted(*context_keys, "context key", "context keys"))
    }
}

/// A number with its word.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
