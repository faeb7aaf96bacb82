//! Which crates are in the binary, asked of cargo: the input of the notices and of the SBOM.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::metadata::output;

/// The package whose binary is released.
pub(crate) const PROGRAM: &str = "salon-cli";

/// A crate that is linked into the binary.
#[derive(Debug, Clone)]
pub(crate) struct LinkedCrate {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression.
    pub(crate) license: Option<String>,
    pub(crate) repository: Option<String>,
    pub(crate) folder: PathBuf,
    /// Of the package in the registry; a crate of this workspace has none.
    pub(crate) sha256: Option<String>,
    /// `name@version` of the linked crates it uses itself.
    pub(crate) uses: BTreeSet<String>,
}

impl LinkedCrate {
    pub(crate) fn key(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

#[derive(Deserialize)]
struct Resolved {
    packages: Vec<ResolvedPackage>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct ResolvedPackage {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    repository: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<ResolvedNode>,
}

#[derive(Deserialize)]
struct ResolvedNode {
    id: String,
    dependencies: Vec<String>,
}

/// The crates linked into the binary for a target, by `name@version`.
///
/// `cargo tree` knows which features this one package turns on; `cargo metadata`, which mixes those of the whole workspace, knows
/// licences and folders.
pub(crate) fn linked(root: &Path, triple: &str) -> Result<BTreeMap<String, LinkedCrate>, String> {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--locked", "--package", PROGRAM, "--target", triple, "--edges", "normal,no-proc-macro"]);
    let tree = output(tree.args(["--prefix", "none", "--format", "{p}"]).current_dir(root))?;
    let keys = tree_keys(&String::from_utf8_lossy(&tree));

    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", triple]);
    let metadata = output(metadata.current_dir(root))?;
    let metadata: Resolved =
        serde_json::from_slice(&metadata).map_err(|error| format!("cargo metadata is not understood: {error}"))?;
    let lock = root.join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    let found = assemble(metadata, &keys, &checksums(&lock));
    match keys.iter().find(|key| !found.contains_key(*key)) {
        Some(key) => Err(format!("`{key}` is in `cargo tree` and not in `cargo metadata`")),
        None => Ok(found),
    }
}

/// `name@version` from lines such as `serde v1.0.2 (*)`.
fn tree_keys(lines: &str) -> BTreeSet<String> {
    let key = |line: &str| {
        let mut words = line.split(' ');
        Some(format!("{}@{}", words.next()?, words.next()?.strip_prefix('v')?))
    };
    lines.lines().filter_map(key).collect()
}

/// The checksum of each package of a `Cargo.lock`, by `name@version`.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.and_then(|line| line.strip_suffix('"')).map(str::to_owned)
    };
    let packages = lock.split("[[package]]").filter_map(|package| {
        let key = format!("{}@{}", value(package, "name")?, value(package, "version")?);
        Some((key, value(package, "checksum")?))
    });
    packages.collect()
}

fn assemble(
    metadata: Resolved,
    keys: &BTreeSet<String>,
    checksums: &BTreeMap<String, String>,
) -> BTreeMap<String, LinkedCrate> {
    let key_of = |package: &ResolvedPackage| format!("{}@{}", package.name, package.version);
    let ids: BTreeMap<String, String> =
        metadata.packages.iter().map(|package| (package.id.clone(), key_of(package))).collect();
    let mut uses: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for node in &metadata.resolve.nodes {
        let used = node.dependencies.iter().filter_map(|id| ids.get(id)).filter(|key| keys.contains(*key));
        uses.insert(&node.id, used.cloned().collect());
    }
    let mut found = BTreeMap::new();
    for package in metadata.packages {
        let key = key_of(&package);
        if !keys.contains(&key) {
            continue;
        }
        let linked = LinkedCrate {
            sha256: checksums.get(&key).cloned(),
            uses: uses.remove(&*package.id).unwrap_or_default(),
            // Crates from before SPDX expressions write `MIT/Apache-2.0`.
            license: package.license.map(|license| license.replace('/', " OR ")),
            name: package.name,
            version: package.version,
            repository: package.repository,
            folder: package.manifest_path.parent().map(Path::to_owned).unwrap_or_default(),
        };
        found.insert(key, linked);
    }
    found
}

#[cfg(test)]
pub(crate) fn sample(name: &str, license: &str, folder: &Path, uses: &[&str]) -> LinkedCrate {
    LinkedCrate {
        name: name.into(),
        version: "1.2.3".into(),
        license: Some(license.into()),
        repository: Some(format!("https://{name}.example")),
        folder: folder.into(),
        sha256: Some("00ff".into()),
        uses: uses.iter().map(|used| format!("{used}@1.2.3")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_lines_become_keys() {
        let keys = tree_keys("salon-cli v0.1.0 (/somewhere)\nserde v1.0.2\n\nserde v1.0.2 (*)\n");
        assert_eq!(keys.into_iter().collect::<Vec<_>>(), ["salon-cli@0.1.0", "serde@1.0.2"]);
    }

    #[test]
    fn checksums_are_those_of_the_lock() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"12\"\n\n\
                    [[package]]\nname = \"b\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n";
        assert_eq!(checksums(lock), BTreeMap::from([("a@1.0.0".into(), "12".into())]));
    }

    #[test]
    fn only_linked_crates_are_kept_with_what_they_use() {
        let metadata = r#"{"packages": [
            {"id": "1", "name": "a", "version": "1.0.0", "license": "MIT/Apache-2.0", "manifest_path": "/x/a/Cargo.toml"},
            {"id": "2", "name": "b", "version": "2.0.0", "manifest_path": "/x/b/Cargo.toml"},
            {"id": "3", "name": "macros", "version": "3.0.0", "manifest_path": "/x/m/Cargo.toml"}],
            "resolve": {"nodes": [{"id": "1", "dependencies": ["2", "3"]}, {"id": "2", "dependencies": []}]}}"#;
        let keys = BTreeSet::from(["a@1.0.0".to_owned(), "b@2.0.0".to_owned()]);
        let found = assemble(serde_json::from_str(metadata).expect("metadata"), &keys, &BTreeMap::new());
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a@1.0.0", "b@2.0.0"]);
        let a = &found["a@1.0.0"];
        assert_eq!(a.license.as_deref(), Some("MIT OR Apache-2.0"));
        assert_eq!(a.uses.iter().collect::<Vec<_>>(), ["b@2.0.0"]);
        assert_eq!(a.folder, Path::new("/x/a"));
    }
}
