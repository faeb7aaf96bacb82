//! The Python wheel: <https://packaging.python.org/specifications/binary-distribution-format/>.
//!
//! No Python in it: a wheel can carry programs that pip puts beside `python`. Written here and not by maturin, which would build the
//! binary a second time; so every package of a target has the same one.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::files::{PackedFile, zip};
use super::release::Release;

/// Longer than `salon`, which is too short a name to be free on every registry. The command is `salon` all the same.
const NAME: &str = "salon_gateway";

pub(crate) fn pack(release: &Release<'_>) -> Result<(String, Vec<u8>), String> {
    let version = version(&release.version);
    let tags = tags(release.target.python);
    let info = format!("{NAME}-{version}.dist-info");
    let mut files = vec![
        PackedFile::program(format!("{NAME}-{version}.data/scripts/salon"), release.binary.clone()),
        PackedFile::text(format!("{info}/licenses/LICENSE"), release.license.clone()),
        PackedFile::text(format!("{info}/licenses/THIRD-PARTY-NOTICES"), release.notices.clone()),
        PackedFile::text(format!("{info}/METADATA"), metadata(&version)),
        PackedFile::text(format!("{info}/WHEEL"), wheel(&tags)),
    ];
    let record = record(&files, &format!("{info}/RECORD"));
    files.push(PackedFile::text(format!("{info}/RECORD"), record));
    Ok((format!("{NAME}-{version}-py3-none-{}.whl", tags.join(".")), zip(&files)?))
}

/// A static binary asks nothing of the C library, so it has the tags of every Linux: glibc from 2.17 on, and musl.
fn tags(machine: &str) -> [String; 3] {
    ["manylinux_2_17", "manylinux2014", "musllinux_1_1"].map(|system| format!("{system}_{machine}"))
}

fn metadata(version: &str) -> String {
    format!(
        "Metadata-Version: 2.4\nName: salon-gateway\nVersion: {version}\n\
         Summary: Rooms in which AI agents, people and robots are MCP servers to one another\n\
         License-Expression: Apache-2.0\nLicense-File: LICENSE\nLicense-File: THIRD-PARTY-NOTICES\n\
         Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n\
         The program `salon`, a realtime gateway. `salon demo` shows a room that lives; `salon --help` lists the commands.\n"
    )
}

fn wheel(tags: &[String]) -> String {
    let mut wheel = "Wheel-Version: 1.0\nGenerator: cargo xtask dist\nRoot-Is-Purelib: false\n".to_owned();
    for tag in tags {
        let _ = writeln!(wheel, "Tag: py3-none-{tag}");
    }
    wheel
}

/// Every file with its hash, itself without.
fn record(files: &[PackedFile], own: &str) -> String {
    let mut record = String::new();
    for file in files {
        let hash = data_encoding::BASE64URL_NOPAD.encode(&Sha256::digest(&file.bytes));
        let _ = writeln!(record, "{},sha256={hash},{}", file.path, file.bytes.len());
    }
    let _ = writeln!(record, "{own},,");
    record
}

/// `1.0.0-rc.1` as Python writes it (PEP 440): `1.0.0rc1`.
fn version(version: &str) -> String {
    let Some((base, pre)) = version.split_once('-') else { return version.into() };
    let kinds = [("alpha", "a"), ("beta", "b"), ("rc", "rc")];
    let found = kinds.iter().find_map(|(name, short)| Some((short, pre.strip_prefix(name)?)));
    match found {
        Some((short, number)) => format!("{base}{short}{}", number.trim_start_matches('.')),
        None => format!("{base}.dev0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_python() {
        assert_eq!(version("1.0.0"), "1.0.0");
        assert_eq!(version("1.0.0-rc.1"), "1.0.0rc1");
        assert_eq!(version("1.0.0-beta2"), "1.0.0b2");
        assert_eq!(version("1.0.0-nightly"), "1.0.0.dev0");
    }

    #[test]
    fn the_record_has_every_file_and_itself() {
        let record = record(&[PackedFile::text("a", "abc")], "x/RECORD");
        assert_eq!(record, "a,sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0,3\nx/RECORD,,\n");
    }
}
