//! Lints every package with no features and with each feature alone.
//!
//! `--all-features` hides code that only compiles because another feature brought its dependency along.

use std::process::Command;

use crate::metadata::{Metadata, Package};

pub(crate) fn run() -> Result<(), String> {
    let metadata = Metadata::here()?;
    for package in &metadata.packages {
        for arguments in selections(package) {
            let shown = arguments.join(" ");
            println!("features: {} {shown}", package.name);
            let mut cargo = Command::new(env!("CARGO"));
            // By clippy and not by `check`, so that an import that only one feature uses fails as well.
            cargo
                .args(["clippy", "--quiet", "--package", &package.name])
                .args(&arguments)
                .args(["--", "-D", "warnings"]);
            let status = cargo.current_dir(&metadata.workspace_root).status();
            if !status.is_ok_and(|status| status.success()) {
                return Err(format!("`{}` does not pass with {shown}", package.name));
            }
        }
    }
    Ok(())
}

/// The feature selections to check, as arguments of cargo: none, then each alone. Nothing where a package has no features.
fn selections(package: &Package) -> Vec<Vec<String>> {
    let named: Vec<&String> = package.features.keys().filter(|name| *name != "default").collect();
    if named.is_empty() {
        return Vec::new();
    }
    let none = vec!["--no-default-features".to_owned()];
    let alone = named.iter().map(|name| [none.clone(), vec!["--features".into(), (*name).clone()]].concat());
    [none.clone()].into_iter().chain(alone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(features: serde_json::Value) -> Vec<String> {
        let package = serde_json::json!({"name": "a", "manifest_path": "a", "dependencies": [], "features": features});
        let package = serde_json::from_value(package).expect("the shape of cargo metadata");
        selections(&package).iter().map(|arguments| arguments.join(" ")).collect()
    }

    #[test]
    fn each_feature_is_selected_alone() {
        assert_eq!(
            shown(serde_json::json!({"default": ["tls"], "rmcp": [], "tls": []})),
            ["--no-default-features", "--no-default-features --features rmcp", "--no-default-features --features tls"]
        );
    }

    #[test]
    fn a_package_without_features_is_left_to_the_ordinary_build() {
        assert_eq!(shown(serde_json::json!({})), [""; 0]);
    }
}
