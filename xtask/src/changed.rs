//! Prints the packages with changed files, as arguments of cargo, for a lint that a contributor runs between edits.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::metadata::{Metadata, output};

/// Changed means: not committed, or committed after the branch left `origin/main` where there is one.
pub(crate) fn run() -> Result<(), String> {
    let metadata = Metadata::here()?;
    let root = &metadata.workspace_root;
    let base = git(root, &["merge-base", "HEAD", "origin/main"]).unwrap_or_else(|_| "HEAD".into());
    let tracked = git(root, &["diff", "--name-only", base.trim()])?;
    let untracked = git(root, &["ls-files", "--others", "--exclude-standard"])?;
    let files: Vec<&str> = tracked.lines().chain(untracked.lines()).collect();
    let arguments: Vec<String> = packages(&metadata, &files).iter().map(|name| format!("--package {name}")).collect();
    println!("{}", arguments.join(" "));
    Ok(())
}

/// The packages the files belong to. A changed manifest or lock file of the workspace belongs to all of them.
fn packages<'a>(metadata: &'a Metadata, files: &[&str]) -> BTreeSet<&'a str> {
    let of_all = |file: &&str| matches!(*file, "Cargo.toml" | "Cargo.lock" | "rust-toolchain.toml" | "clippy.toml");
    if files.iter().any(of_all) {
        return metadata.packages.iter().map(|package| &*package.name).collect();
    }
    let mut changed = BTreeSet::new();
    for package in &metadata.packages {
        let folder =
            package.manifest_path.parent().and_then(|folder| folder.strip_prefix(&metadata.workspace_root).ok());
        if folder.is_some_and(|folder| files.iter().any(|file| Path::new(file).starts_with(folder))) {
            changed.insert(&*package.name);
        }
    }
    changed
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut git = Command::new("git");
    let printed = output(git.args(["-c", "safe.directory=*"]).args(arguments).current_dir(root))?;
    String::from_utf8(printed).map_err(|_| "a file name is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_the_package_of_their_folder() {
        let package = |name: &str, folder: &str| serde_json::json!({"name": name, "manifest_path": format!("/r/{folder}/Cargo.toml"), "dependencies": []});
        let packages_of = |files: &[&str]| {
            let all = [package("salon-log", "crates/log"), package("bench", "bench")];
            let whole = serde_json::json!({"packages": all, "workspace_root": "/r", "target_directory": "/r/target"});
            let metadata: Metadata = serde_json::from_value(whole).expect("the shape of cargo metadata");
            packages(&metadata, files).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(packages_of(&["crates/log/src/a.rs"]), ["salon-log"]);
        assert_eq!(packages_of(&["crates/logbook/a.rs", "docs/a.md"]), [""; 0]);
        assert_eq!(packages_of(&["Cargo.lock"]), ["bench", "salon-log"]);
    }
}
