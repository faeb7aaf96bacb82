//! What goes into every package of a target: the binary, and what is to be read beside it.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::build::{BuildTools, ReleaseTarget};
use super::crates;
use super::files::{PackedFile, gzip, sha256};
use super::notices::{self, StandardTexts};
use super::sbom::{self, SbomSubject};
use crate::metadata::output;

/// What pages and completions are the same for all targets.
pub(crate) struct ManualPages {
    /// Name and text: `salon.1`, `salon-serve.1`, …
    pub(crate) manual: Vec<(String, Vec<u8>)>,
    /// Shell and script.
    pub(crate) completions: Vec<(&'static str, Vec<u8>)>,
}

impl ManualPages {
    /// Has a binary that runs on this machine write them.
    pub(crate) fn written_by(program: &mut dyn FnMut() -> Command, folder: &Path) -> Result<Self, String> {
        let failed = |error| format!("{}: {error}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(failed)?;
        }
        fs::create_dir_all(folder).map_err(failed)?;
        output(program().arg("man").arg(folder))?;
        let mut manual = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            manual.push((name, fs::read(&path).map_err(failed)?));
        }
        manual.sort();
        let mut completions = Vec::new();
        for shell in ["bash", "zsh", "fish"] {
            completions.push((shell, output(program().args(["completions", shell]))?));
        }
        Ok(Self { manual, completions })
    }
}

/// One target's release, ready to be packed.
pub(crate) struct Release<'a> {
    pub(crate) target: ReleaseTarget,
    pub(crate) version: String,
    /// Seconds since 1970: the time of every file in every package.
    pub(crate) epoch: u64,
    pub(crate) binary: Vec<u8>,
    pub(crate) license: Vec<u8>,
    pub(crate) notices: String,
    pub(crate) sbom: String,
    pub(crate) pages: &'a ManualPages,
    pub(crate) root: &'a Path,
}

impl<'a> Release<'a> {
    pub(crate) fn new(
        target: ReleaseTarget,
        binary: Vec<u8>,
        settings: (&str, u64),
        pages: &'a ManualPages,
        (root, toolbox): (&'a Path, &BuildTools),
    ) -> Result<Self, String> {
        let (version, epoch) = settings;
        let license = root.join("LICENSE");
        let license = fs::read(&license).map_err(|error| format!("{}: {error}", license.display()))?;
        let linked = crates::linked(root, target.triple)?;
        let runtime = toolbox.runtime()?;
        let standard =
            StandardTexts { apache: String::from_utf8_lossy(&license).into_owned(), mit: BuildTools::mit_license()? };
        let notices = notices::write(linked.values(), &runtime, &standard)?;
        let (sha256, timestamp) = (sha256(&binary), timestamp(epoch)?);
        let subject = SbomSubject { version, triple: target.triple, sha256: &sha256, timestamp: &timestamp };
        let sbom = format!("{:#}\n", sbom::write(&subject, &linked, &runtime));
        Ok(Self { target, version: version.into(), epoch, binary, license, notices, sbom, pages, root })
    }

    /// A file of the repository.
    pub(crate) fn repository_file(&self, path: &str) -> Result<Vec<u8>, String> {
        fs::read(self.root.join(path)).map_err(|error| format!("{path}: {error}"))
    }

    /// Manual pages and completions where Debian and most others look for them, below `usr/`.
    pub(crate) fn shared_files(&self) -> Result<Vec<PackedFile>, String> {
        let mut files = Vec::new();
        for (name, text) in &self.pages.manual {
            files.push(PackedFile::text(format!("usr/share/man/man1/{name}.gz"), gzip(text)?));
        }
        for (shell, script) in &self.pages.completions {
            let path = match *shell {
                "bash" => "usr/share/bash-completion/completions/salon",
                "zsh" => "usr/share/zsh/vendor-completions/_salon",
                _ => "usr/share/fish/vendor_completions.d/salon.fish",
            };
            files.push(PackedFile::text(path, script.clone()));
        }
        Ok(files)
    }

    /// The archive for everybody else: the binary and all that can be installed by hand.
    pub(crate) fn archive(&self) -> Result<(String, Vec<u8>), String> {
        let name = format!("salon-{}-{}", self.version, self.target.triple);
        let mut files = vec![
            PackedFile::program("salon", self.binary.clone()),
            PackedFile::text("LICENSE", self.license.clone()),
            PackedFile::text("THIRD-PARTY-NOTICES", self.notices.clone()),
            PackedFile::text("salon.service", self.repository_file("deploy/salon.service")?),
        ];
        for (page, text) in &self.pages.manual {
            files.push(PackedFile::text(format!("man/{page}"), text.clone()));
        }
        for (shell, script) in &self.pages.completions {
            files.push(PackedFile::text(format!("completions/salon.{shell}"), script.clone()));
        }
        let bytes = super::files::tar(&format!("{name}/"), &files, self.epoch)?;
        Ok((format!("{name}.tar.gz"), gzip(&bytes)?))
    }
}

/// RFC 3339 in UTC, by `date`, which every machine that builds releases has.
pub(crate) fn timestamp(epoch: u64) -> Result<String, String> {
    date(epoch, "+%Y-%m-%dT%H:%M:%SZ")
}

/// `GNU date` and that of BSD take the seconds in different ways.
pub(crate) fn date(epoch: u64, format: &str) -> Result<String, String> {
    let gnu = output(Command::new("date").env("LC_ALL", "C").args(["--utc", &format!("--date=@{epoch}"), format]));
    let told = gnu
        .or_else(|_| output(Command::new("date").env("LC_ALL", "C").args(["-u", "-r", &epoch.to_string(), format])))?;
    Ok(String::from_utf8_lossy(&told).trim().to_owned())
}
