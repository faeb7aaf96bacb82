//! Builds the static binary of a target.
//!
//! Everything that is needed beside Rust comes from a package registry: zig, which is a C cross compiler with musl, and
//! `cargo-zigbuild`, which tells cargo to use it. The standard library of the target is the one that rustup installed; where there is
//! none, it is built from its sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::crates::PROGRAM;
use super::notices::LinkedRuntime;
use crate::metadata::output;

/// What pip installs into a virtual environment below the target directory: exact versions with the checksums of their wheels for Linux on
/// x86-64 and on 64-bit ARM, because what builds a release decides what is in it.
const TOOLS: &str = include_str!("tools.txt");

/// Inherits from `release`; what differs is in the workspace's Cargo.toml.
const PROFILE: &str = "dist";

/// A machine that releases are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReleaseTarget {
    pub(crate) triple: &'static str,
    /// What each kind of package calls the machine.
    pub(crate) debian: &'static str,
    pub(crate) python: &'static str,
    pub(crate) node: &'static str,
    pub(crate) image: &'static str,
}

pub(crate) const TARGETS: [ReleaseTarget; 2] = [
    ReleaseTarget {
        triple: "x86_64-unknown-linux-musl",
        debian: "amd64",
        python: "x86_64",
        node: "x64",
        image: "amd64",
    },
    ReleaseTarget {
        triple: "aarch64-unknown-linux-musl",
        debian: "arm64",
        python: "aarch64",
        node: "arm64",
        image: "arm64",
    },
];

impl ReleaseTarget {
    pub(crate) fn named(triple: &str) -> Result<Self, String> {
        let known = TARGETS.map(|target| target.triple).join("`, `");
        let target = TARGETS.into_iter().find(|target| target.triple == triple);
        target.ok_or_else(|| format!("error: `{triple}` is not a release target\n\nhint: the targets are `{known}`"))
    }

    /// Whether its binary runs on the machine that this program was built for.
    pub(crate) fn runs_here(self) -> bool {
        cfg!(target_os = "linux") && self.triple.split('-').next() == Some(std::env::consts::ARCH)
    }
}

/// Where a target's standard library comes from.
#[derive(Debug, PartialEq, Eq)]
enum StandardLibrary {
    Installed,
    /// The folder `library` of Rust's sources, of exactly the compiler's version.
    Sources(PathBuf),
}

/// The programs that build, and the texts that have to go with what they link in.
pub(crate) struct BuildTools {
    folder: PathBuf,
    root: PathBuf,
    target_directory: PathBuf,
}

impl BuildTools {
    pub(crate) fn new(root: &Path, target_directory: &Path) -> Self {
        Self {
            folder: target_directory.join("dist-tools"),
            root: root.to_owned(),
            target_directory: target_directory.to_owned(),
        }
    }

    /// Installs what is missing.
    fn install(&self) -> Result<(), String> {
        let installed = self.folder.join("installed.txt");
        if fs::read_to_string(&installed).is_ok_and(|text| text == TOOLS) {
            return Ok(());
        }
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&self.folder))?;
        let requirements = self.folder.join("requirements.txt");
        fs::write(&requirements, TOOLS).map_err(|error| format!("{}: {error}", requirements.display()))?;
        let mut pip = Command::new(self.folder.join("bin/python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--require-hashes",
            "--only-binary",
            ":all:",
        ]);
        run(pip.arg("--requirement").arg(&requirements))?;
        fs::write(&installed, TOOLS).map_err(|error| format!("{}: {error}", installed.display()))
    }

    /// Builds the binary. An error says what is missing.
    pub(crate) fn build(&self, target: ReleaseTarget) -> Result<PathBuf, String> {
        let library = self.standard_library(target)?;
        self.install()?;
        let bin = self.folder.join("bin");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut cargo = Command::new(bin.join("cargo-zigbuild"));
        cargo.args(["zigbuild", "--locked", "--package", PROGRAM, "--profile", PROFILE, "--target", target.triple]);
        cargo.arg("--target-dir").arg(&self.target_directory);
        cargo.env("PATH", format!("{}:{path}", bin.display())).current_dir(&self.root);
        cargo.env(flags_variable(target.triple), self.flags(&library));
        // Set for this program by `cargo xtask`; a second cargo must find its own.
        cargo.env_remove("CARGO").env_remove("RUSTFLAGS");
        if let StandardLibrary::Sources(sources) = &library {
            cargo.args(["-Z", "build-std=std,panic_unwind"]);
            cargo.env("RUSTC_BOOTSTRAP", "1").env("__CARGO_TESTS_ONLY_SRC_ROOT", sources);
        }
        run(&mut cargo)?;
        Ok(self.target_directory.join(target.triple).join(PROFILE).join("salon"))
    }

    fn flags(&self, library: &StandardLibrary) -> String {
        // zig brings the start files, the C library and the unwinder; `-pie` because it does not know `-static-pie`.
        let mut flags = "-C link-self-contained=no -C link-arg=-pie".to_owned();
        let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let cargo = cargo.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
        let mut renamed = vec![(Some(&*self.root), "/salon"), (cargo.as_deref(), "/cargo")];
        // The last that matches counts, and the sources may lie in the workspace.
        if let StandardLibrary::Sources(sources) = library {
            renamed.push((Some(sources), "/rust"));
        }
        for (from, to) in renamed {
            if let Some(from) = from {
                flags.push_str(&format!(" --remap-path-prefix={}={to}", from.display()));
            }
        }
        flags
    }

    fn standard_library(&self, target: ReleaseTarget) -> Result<StandardLibrary, String> {
        let print = |arguments: &[&str]| {
            let told = output(Command::new("rustc").args(arguments))?;
            Ok::<_, String>(String::from_utf8_lossy(&told).trim().to_owned())
        };
        let installed = print(&["--print", "target-libdir", "--target", target.triple])?;
        if has_standard_library(Path::new(&installed)) {
            return Ok(StandardLibrary::Installed);
        }
        let version = print(&["--version"])?;
        let version = version.split(' ').nth(1).unwrap_or_default();
        let sysroot = Path::new(&print(&["--print", "sysroot"])?).join("lib/rustlib/src/rust/library");
        let fetched = self.target_directory.join("rust-src").join(version).join("library");
        let sources = [sysroot, fetched].into_iter().find(|folder| folder.join("std/Cargo.toml").is_file());
        sources.map(StandardLibrary::Sources).ok_or_else(|| {
            format!(
                "no standard library for `{}`\n\nhint: run `rustup target add {}`, or where rustup cannot download, `scripts/rust-src`",
                target.triple, target.triple
            )
        })
    }

    /// The MIT licence, for crates that do not bring it.
    pub(crate) fn mit_license() -> Result<String, String> {
        let path = rust_documents()?.join("licenses/MIT.txt");
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// What is linked in beside crates, with the licences that came with it.
    pub(crate) fn runtime(&self) -> Result<Vec<LinkedRuntime>, String> {
        self.install()?;
        let zig = find_zig(&self.folder)?;
        Ok(vec![
            LinkedRuntime { name: "musl", license: "MIT", text: zig.join("lib/libc/musl/COPYRIGHT") },
            LinkedRuntime {
                name: "LLVM libunwind",
                license: "Apache-2.0 WITH LLVM-exception",
                text: zig.join("lib/libunwind/LICENSE.TXT"),
            },
            LinkedRuntime {
                name: "Rust standard library",
                license: "MIT OR Apache-2.0",
                text: rust_documents()?.join("COPYRIGHT-library.html"),
            },
        ])
    }
}

/// Where the toolchain has the documents of Rust itself.
fn rust_documents() -> Result<PathBuf, String> {
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    Ok(Path::new(String::from_utf8_lossy(&sysroot).trim()).join("share/doc/rust"))
}

/// `lib/python3.11/site-packages/ziglang` or the like.
fn find_zig(environment: &Path) -> Result<PathBuf, String> {
    let folder = environment.join("lib");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut found = entries.filter_map(|entry| Some(entry.ok()?.path().join("site-packages/ziglang")));
    found.find(|path| path.is_dir()).ok_or_else(|| format!("`{}` has no zig", folder.display()))
}

fn has_standard_library(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).any(|name| name.starts_with("libstd-"))
}

/// Cargo's variable for the flags of one target.
fn flags_variable(triple: &str) -> String {
    format!("CARGO_TARGET_{}_RUSTFLAGS", triple.to_uppercase().replace('-', "_"))
}

/// Runs a command whose output a person wants to see.
fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("`{name}` could not be run: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("`{name}` failed ({status})")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_the_variable_of_their_target() {
        assert_eq!(flags_variable("aarch64-unknown-linux-musl"), "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS");
    }

    #[test]
    fn an_unknown_target_is_refused_with_those_there_are() {
        let error = ReleaseTarget::named("wasm32-wasip1").expect_err("refused");
        assert!(error.starts_with("error: `wasm32-wasip1` is not") && error.contains("`aarch64-unknown-linux-musl`"));
    }
}
