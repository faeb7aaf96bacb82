//! `cargo xtask dist`: everything that people can install, from one command.
//!
//! Binaries are built once for each target (`build`) and then packed in each way; all packages are written here, so that they need no tool
//! but cargo and pip's zig. Deliberately absent: signing and uploading.

mod build;
mod crates;
mod deb;
mod files;
mod image;
mod notices;
mod npm;
mod options;
mod release;
mod sbom;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::build::{BuildTools, ReleaseTarget};
use self::options::DistOptions;
use self::release::{ManualPages, Release};
use crate::metadata::{Metadata, output};

pub(crate) use self::options::USAGE;

pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = DistOptions::parse(arguments)?;
    if cfg!(debug_assertions) {
        return run_optimized(arguments);
    }
    let here = Metadata::here()?;
    let root = &here.workspace_root;
    let toolbox = BuildTools::new(root, &here.target_directory);
    let binaries = binaries(&options, &toolbox)?;
    if binaries.is_empty() {
        return Err("error: nothing was built".into());
    }
    let version = match &options.package_version {
        Some(version) => version.clone(),
        None => here.version_of(crates::PROGRAM)?,
    };
    let epoch = epoch(root)?;
    let pages = pages(&binaries, root, &here.target_directory.join("dist-pages"))?;
    let mut releases = Vec::new();
    for (target, binary) in binaries {
        let bytes = fs::read(&binary).map_err(|error| format!("{}: {error}", binary.display()))?;
        releases.push(Release::new(target, bytes, (&version, epoch), &pages, (root, &toolbox))?);
    }
    let folder = options.out.unwrap_or_else(|| here.target_directory.join("packages"));
    write(&folder, &pack(&releases)?)
}

/// Compressing takes minutes in a build for debugging and seconds in one that is optimized, so this program starts itself again.
fn run_optimized(arguments: &[&str]) -> Result<(), String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--locked", "--release", "--package", "xtask", "--", "dist"]);
    let status = cargo.args(arguments).status().map_err(|error| format!("`cargo` could not be run: {error}"))?;
    if status.success() { Ok(()) } else { Err("dist: failed".into()) }
}

/// The binaries that there are or that can be built. What cannot is named, and is an error where it is required.
fn binaries(options: &DistOptions, toolbox: &BuildTools) -> Result<Vec<(ReleaseTarget, PathBuf)>, String> {
    let mut binaries = options.binaries.clone();
    for target in &options.targets {
        if binaries.iter().any(|(given, _)| given == target) {
            continue;
        }
        match toolbox.build(*target) {
            Ok(binary) => binaries.push((*target, binary)),
            Err(error) if options.requires(*target) => return Err(format!("error: {}: {error}", target.triple)),
            Err(error) => eprintln!("dist: skipped {}: {error}", target.triple),
        }
    }
    Ok(binaries)
}

/// Seconds since 1970, from `SOURCE_DATE_EPOCH` or else the commit: the same sources give the same packages.
fn epoch(root: &Path) -> Result<u64, String> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            let mut git = Command::new("git");
            git.args(["-c", "safe.directory=*", "log", "-1", "--format=%ct"]).current_dir(root);
            String::from_utf8_lossy(&output(&mut git)?).into_owned()
        }
    };
    text.trim().parse().map_err(|_| format!("error: `SOURCE_DATE_EPOCH` is a number of seconds, not `{text}`"))
}

/// Manual pages and completions, by a binary of this machine, or by one that cargo builds for it.
fn pages(binaries: &[(ReleaseTarget, PathBuf)], root: &Path, folder: &Path) -> Result<ManualPages, String> {
    let native = binaries.iter().find(|(target, _)| target.runs_here());
    let mut program = || match native {
        Some((_, binary)) => Command::new(binary),
        None => {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["run", "--quiet", "--locked", "--package", crates::PROGRAM, "--"]).current_dir(root);
            cargo
        }
    };
    ManualPages::written_by(&mut program, folder)
}

/// Every file of the release, with its name.
fn pack(releases: &[Release<'_>]) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut packed = Vec::new();
    for release in releases {
        packed.push(release.archive()?);
        packed.push(deb::pack(release)?);
        packed.push(wheel::pack(release)?);
        packed.push(npm::pack_platform(release)?);
        packed.push(image::pack(release)?);
        let name = format!("salon-{}-{}", release.version, release.target.triple);
        packed.push((format!("{name}.cdx.json"), release.sbom.clone().into_bytes()));
    }
    packed.extend(npm::pack_starter(releases)?);
    packed.sort();
    Ok(packed)
}

/// Writes the files and their checksums, in the form that `sha256sum --check` reads.
fn write(folder: &Path, packed: &[(String, Vec<u8>)]) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", folder.display());
    // What an earlier run left would not be in the checksums. A folder that no run has written is somebody's.
    if folder.exists() {
        let is_ours = folder.join("SHA256SUMS").is_file();
        let is_empty = fs::read_dir(folder).map_err(failed)?.next().is_none();
        if !is_ours && !is_empty {
            return Err(format!(
                "error: {} is not empty and holds no packages\n\nhint: name a new folder with --out",
                folder.display()
            ));
        }
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)?;
    let mut sums = String::new();
    for (name, bytes) in packed {
        fs::write(folder.join(name), bytes).map_err(failed)?;
        sums.push_str(&format!("{}  {name}\n", files::sha256(bytes)));
        println!("{:>12} bytes  {name}", bytes.len());
    }
    fs::write(folder.join("SHA256SUMS"), sums).map_err(failed)?;
    println!("dist: {} files and SHA256SUMS in {}", packed.len(), folder.display());
    Ok(())
}
