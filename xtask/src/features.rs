//! Lints every package with no features and with each feature alone.
//!
//! `--all-features` hides code that only compiles because another feature brought its dependency along.

use std::process::Command;

use crate::metadata::{Metadata, Package};

pub(crate) fn run() -> Result<(), String> {
    let metadata = Metadata::here()?;
    for arguments in selections(&metadata.packages) {
        let shown = arguments.join(" ");
        println!("features: {shown}");
        let mut cargo = Command::new(env!("CARGO"));
        // By clippy and not by `check`, so that an import that only one feature uses fails as well.
        cargo.args(["clippy", "--quiet"]).args(&arguments).args(["--", "-D", "warnings"]);
        let status = cargo.current_dir(&metadata.workspace_root).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(format!("it does not pass: cargo clippy {shown}"));
        }
    }
    Ok(())
}

/// The feature selections to lint, as arguments of cargo.
///
/// The parts of the program are linted without features together, because that is how they are built, and each selection of its own
/// compiles dependencies again. A published package is linted without features by itself. A feature that is all there is needs no run of
/// its own: the gate lints with all features.
fn selections(packages: &[Package]) -> Vec<Vec<String>> {
    let with_features: Vec<&Package> = packages.iter().filter(|package| !names(package).is_empty()).collect();
    let (published, parts): (Vec<&Package>, Vec<&Package>) =
        with_features.into_iter().partition(|package| package.publish.is_none());
    let mut found = Vec::new();
    if !parts.is_empty() {
        found.push(select(&parts, None));
    }
    found.extend(published.iter().map(|package| select(&[package], None)));
    for package in parts.iter().chain(&published) {
        let named = names(package);
        let alone = named.iter().filter(|_| named.len() > 1);
        found.extend(alone.map(|feature| select(&[package], Some(feature))));
    }
    found
}

/// The features of a package, but for `default`.
fn names(package: &Package) -> Vec<&str> {
    package.features.keys().map(String::as_str).filter(|name| *name != "default").collect()
}

fn select(packages: &[&Package], feature: Option<&str>) -> Vec<String> {
    let mut arguments: Vec<String> =
        packages.iter().flat_map(|package| ["--package".to_owned(), package.name.clone()]).collect();
    arguments.push("--no-default-features".into());
    arguments.extend(feature.into_iter().flat_map(|feature| ["--features".to_owned(), feature.to_owned()]));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_selected_alone_and_the_parts_of_the_program_together() {
        let package = |name: &str, features: serde_json::Value, publish: serde_json::Value| {
            let package = serde_json::json!({
                "name": name, "manifest_path": "a", "dependencies": [], "features": features, "publish": publish
            });
            serde_json::from_value::<Package>(package).expect("the shape of cargo metadata")
        };
        let never = serde_json::json!([]);
        let packages = [
            package("cli", serde_json::json!({"default": ["nats"], "nats": []}), never.clone()),
            package("log", serde_json::json!({"default": ["nats"], "nats": [], "contract": []}), never.clone()),
            package("rooms", serde_json::json!({}), never),
            package("client", serde_json::json!({"default": ["tls"], "rmcp": [], "tls": []}), serde_json::json!(null)),
        ];
        let shown: Vec<String> = selections(&packages).iter().map(|arguments| arguments.join(" ")).collect();
        assert_eq!(
            shown,
            [
                "--package cli --package log --no-default-features",
                "--package client --no-default-features",
                "--package log --no-default-features --features contract",
                "--package log --no-default-features --features nats",
                "--package client --no-default-features --features rmcp",
                "--package client --no-default-features --features tls",
            ]
        );
    }
}
