//! Which crate may depend on which: the table of ARCHITECTURE.md as data.
//!
//! Only ordinary and build dependencies are looked at. A test may use whatever it needs.

use super::{Finding, SourceTree};
use crate::metadata::{Metadata, Package};

/// What one crate of the workspace may use.
struct Rule {
    name: &'static str,
    /// The crates of this workspace it may depend on.
    salon: &'static [&'static str],
    /// The only crates from outside it may depend on, where that is so narrow.
    only: Option<&'static [&'static str]>,
    /// Crates from outside it must not depend on.
    never: &'static [&'static str],
}

const fn rule(name: &'static str, salon: &'static [&'static str]) -> Rule {
    Rule { name, salon, only: None, never: &[] }
}

const RULES: &[Rule] = &[
    Rule { only: Some(&["chrono", "ryu-js", "serde", "serde_json", "thiserror"]), ..rule("salon-protocol", &[]) },
    Rule { only: Some(&["data-encoding", "serde", "serde_json"]), ..rule("salon-mcp", &["salon-protocol"]) },
    Rule { only: Some(&["serde", "serde_json", "sha2"]), ..rule("salon-control", &["salon-protocol"]) },
    Rule {
        never: &["tokio", "rand", "uuid"],
        ..rule("salon-dialects", &["salon-protocol", "salon-control", "salon-mcp"])
    },
    rule("salon-log", &["salon-protocol", "salon-control"]),
    rule("salon-rooms", &["salon-protocol", "salon-control", "salon-log"]),
    rule(
        "salon-gateway",
        &["salon-protocol", "salon-control", "salon-mcp", "salon-dialects", "salon-rooms", "salon-log"],
    ),
    rule("salon-client", &["salon-protocol", "salon-mcp"]),
    rule("salon-guests", &["salon-client", "salon-protocol", "salon-control", "salon-mcp", "salon-dialects"]),
    rule("salon-bridges", &["salon-client", "salon-protocol"]),
    rule("salon-cli", EVERYTHING),
    rule("salon-testkit", EVERYTHING),
    rule("scenes", TESTS),
    rule("interop", TESTS),
    rule("fuzz-targets", EVERYTHING),
    rule("nats", TESTS),
    rule("test-servers", &[]),
    rule("bench", TESTS),
    rule("xtask", &[]),
];

const EVERYTHING: &[&str] = &[
    "salon-protocol",
    "salon-control",
    "salon-mcp",
    "salon-dialects",
    "salon-log",
    "salon-rooms",
    "salon-gateway",
    "salon-client",
    "salon-guests",
    "salon-bridges",
];

/// The test kit is for what is itself a test.
const TESTS: &[&str] = &[
    "salon-protocol",
    "salon-control",
    "salon-log",
    "salon-rooms",
    "salon-gateway",
    "salon-client",
    "salon-guests",
    "salon-testkit",
];

/// Crates from outside that have one home each.
const HOMES: &[(&str, &[&str])] = &[
    ("axum", &["salon-gateway"]),
    ("utoipa", &["salon-gateway"]),
    ("clap", &["salon-cli"]),
    ("clap_complete", &["salon-cli"]),
    ("clap_mangen", &["salon-cli"]),
    ("rusqlite", &["salon-bridges", "salon-log"]),
    ("async-nats", &["salon-log"]),
    ("anyhow", &["salon-cli", "bench", "test-servers"]),
];

pub(crate) fn check(metadata: &Metadata, tree: &SourceTree) -> Vec<Finding> {
    let members: Vec<&str> = metadata.packages.iter().map(|package| &*package.name).collect();
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let manifest = package.manifest_path.strip_prefix(&metadata.workspace_root).unwrap_or(&package.manifest_path);
        let manifest = manifest.to_string_lossy();
        let text = tree.sources.iter().find(|source| source.path == manifest).map_or("", |source| &*source.text);
        for (dependency, message) in broken(package, &members).into_iter().chain(not_installable(package)) {
            let names = |line: &str| line.trim_start().trim_start_matches('"').starts_with(dependency);
            let line = text.lines().position(names);
            findings.push(Finding { path: manifest.to_string(), line: line.map(|index| index + 1), message });
        }
    }
    findings
}

/// The dependencies of a package that break a rule, each with what to say of it.
fn broken<'a>(package: &'a Package, members: &[&str]) -> Vec<(&'a str, String)> {
    let name = &*package.name;
    let Some(rule) = RULES.iter().find(|rule| rule.name == name) else {
        return vec![("name", format!("`{name}` is not in the crate graph; add it to xtask and to ARCHITECTURE.md"))];
    };
    let ordinary = package.dependencies.iter().filter(|dependency| dependency.kind.as_deref() != Some("dev"));
    ordinary
        .filter_map(|dependency| {
            let dependency = &*dependency.name;
            let home = HOMES.iter().find(|(guest, _)| *guest == dependency);
            let message = if members.contains(&dependency) {
                (!rule.salon.contains(&dependency)).then(|| format!("`{name}` must not depend on `{dependency}`"))
            } else if rule.never.contains(&dependency) || rule.only.is_some_and(|only| !only.contains(&dependency)) {
                Some(format!("`{name}` must not depend on `{dependency}`"))
            } else {
                home.filter(|(_, homes)| !homes.contains(&name)).map(|(_, homes)| {
                    format!("`{dependency}` belongs in {} alone, not in `{name}`", homes.join(" and "))
                })
            };
            message.map(|message| (dependency, message))
        })
        .collect()
}

/// The features of a package that name a dev-dependency. `cargo install` leaves dev-dependencies out, and fails.
fn not_installable(package: &Package) -> Vec<(&str, String)> {
    let is_ordinary = |name: &str| {
        package.dependencies.iter().any(|dependency| {
            dependency.kind.as_deref() != Some("dev") && dependency.rename.as_ref().unwrap_or(&dependency.name) == name
        })
    };
    let named = package.features.iter().flat_map(|(feature, parts)| parts.iter().map(move |part| (feature, part)));
    named
        .filter_map(|(feature, part)| {
            let dependency = part.split_once('/')?.0.trim_end_matches('?');
            (!is_ordinary(dependency)).then(|| {
                let message = format!(
                    "feature `{feature}` names the dev-dependency `{dependency}`, which `cargo install` refuses"
                );
                (&**feature, message)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{rendered, tree};

    /// Packages as `name: dependency dependency`, a dev-dependency with a `~` before it.
    fn judge(packages: &[&str]) -> Vec<String> {
        let package = |line: &&str| {
            let (name, rest) = line.split_once(':').expect("a name and a colon");
            let dependencies: Vec<_> = rest
                .split_whitespace()
                .map(|d| match d.strip_prefix('~') {
                    Some(dev) => serde_json::json!({"name": dev, "kind": "dev"}),
                    None => serde_json::json!({"name": d, "kind": null}),
                })
                .collect();
            serde_json::json!({"name": name, "manifest_path": format!("/r/{name}/Cargo.toml"), "dependencies": dependencies})
        };
        let packages: Vec<_> = packages.iter().map(package).collect();
        let whole = serde_json::json!({"packages": packages, "workspace_root": "/r", "target_directory": "/r/target"});
        let manifest = "[package]\nname = \"x\"\n[dependencies]\naxum.workspace = true\n";
        let metadata = serde_json::from_value(whole).expect("the shape of cargo metadata");
        rendered(check(&metadata, &tree(&[("salon-rooms/Cargo.toml", manifest)])))
    }

    #[test]
    fn the_graph_as_it_should_be_passes() {
        let fine = [
            "salon-protocol: serde ~proptest",
            "salon-log: salon-protocol rusqlite tokio",
            "salon-rooms: salon-log ~axum",
        ];
        assert_eq!(judge(&fine), [""; 0]);
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_is_found() {
        assert_eq!(
            judge(&["salon-rooms: salon-dialects axum", "salon-dialects:"]),
            [
                "salon-rooms/Cargo.toml: `salon-rooms` must not depend on `salon-dialects`",
                "salon-rooms/Cargo.toml:4: `axum` belongs in salon-gateway alone, not in `salon-rooms`",
            ]
        );
        let one = |line: &str| judge(&[line]).join("\n");
        assert!(one("salon-protocol: tokio").ends_with("`salon-protocol` must not depend on `tokio`"));
        assert!(one("salon-dialects: tokio").ends_with("`salon-dialects` must not depend on `tokio`"));
        assert!(one("salon-gateway: clap").ends_with("`clap` belongs in salon-cli alone, not in `salon-gateway`"));
        assert!(
            one("salon-rooms: rusqlite")
                .ends_with("`rusqlite` belongs in salon-bridges and salon-log alone, not in `salon-rooms`")
        );
        assert!(one("salon-attic:").contains("is not in the crate graph"));
    }

    #[test]
    fn a_feature_that_names_a_dev_dependency_is_found() {
        let package = |features| {
            serde_json::from_value(serde_json::json!({
                "name": "a", "manifest_path": "a", "features": features,
                "dependencies": [{"name": "log", "kind": null}, {"name": "kit", "kind": "dev"}]
            }))
        };
        let fine: Package = package(serde_json::json!({"x": ["y", "dep:log", "log/z", "log?/z"]})).expect("a package");
        assert_eq!(not_installable(&fine), []);
        let found: Package = package(serde_json::json!({"x": ["log/z", "kit/z"]})).expect("a package");
        assert_eq!(
            not_installable(&found),
            [("x", "feature `x` names the dev-dependency `kit`, which `cargo install` refuses".to_owned())]
        );
    }
}
