//! What `cargo metadata` says of a workspace, as far as the checks need it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_root: PathBuf,
    pub(crate) target_directory: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) version: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    #[serde(default)]
    pub(crate) targets: Vec<CargoTarget>,
    #[serde(default)]
    pub(crate) features: BTreeMap<String, Vec<String>>,
    /// The registries it may be published to: absent for any, empty for none.
    #[serde(default)]
    pub(crate) publish: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `dev` or `build`; absent for an ordinary one.
    pub(crate) kind: Option<String>,
    /// The name it has in code, where that is another.
    #[serde(default)]
    pub(crate) rename: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CargoTarget {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

impl Metadata {
    /// Asks cargo about the workspace of a manifest, without its dependencies.
    pub(crate) fn of(manifest: &Path) -> Result<Self, String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path"]).arg(manifest);
        serde_json::from_slice(&output(&mut cargo)?)
            .map_err(|error| format!("cargo metadata is not understood: {error}"))
    }

    /// What the workspace's lock file says of every package, with every feature, in the shape that a check wants.
    pub(crate) fn resolved<T: serde::de::DeserializeOwned>() -> Result<T, String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["metadata", "--format-version", "1", "--all-features", "--locked", "--manifest-path"]);
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        serde_json::from_slice(&output(cargo.arg(manifest))?)
            .map_err(|error| format!("cargo metadata is not understood: {error}"))
    }

    pub(crate) fn version_of(&self, name: &str) -> Result<String, String> {
        let package = self.packages.iter().find(|package| package.name == name);
        package.map(|package| package.version.clone()).ok_or_else(|| format!("the workspace has no `{name}`"))
    }

    /// The workspace this program was built from.
    pub(crate) fn here() -> Result<Self, String> {
        Self::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
    }
}

/// Runs a command that must succeed and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("`{name}` could not be run: {error}"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("`{name}` failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}
