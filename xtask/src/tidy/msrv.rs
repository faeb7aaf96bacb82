//! The minimum Rust version of what is published: not below that of any dependency.
//!
//! A package that promises less than its dependencies need fails for its users. Dev-dependencies do not count: nobody who
//! depends on a package builds them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Finding, SourceTree};

/// Optional dependencies that need more than the package promises. The package's documentation says so.
const EXCUSED: &[(&str, &str)] = &[("salon-client", "rmcp")];

/// What `cargo metadata` says of all packages, those from outside too.
#[derive(Debug, Deserialize)]
pub(crate) struct ResolvedPackages {
    packages: Vec<Pinned>,
    resolve: DependencyGraph,
}

#[derive(Debug, Deserialize)]
struct Pinned {
    id: String,
    name: String,
    version: String,
    rust_version: Option<String>,
    /// The registries it may be published to; none at all is an empty list.
    publish: Option<Vec<String>>,
    /// Where it comes from; absent for the packages of this workspace.
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct DependencyGraph {
    nodes: Vec<ResolveNode>,
}

#[derive(Debug, Deserialize)]
struct ResolveNode {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

pub(crate) fn check(resolved: &ResolvedPackages, tree: &SourceTree) -> Vec<Finding> {
    let packages: BTreeMap<&str, &Pinned> = resolved.packages.iter().map(|package| (&*package.id, package)).collect();
    let nodes: BTreeMap<&str, &ResolveNode> = resolved.resolve.nodes.iter().map(|node| (&*node.id, node)).collect();
    let published = resolved.packages.iter().filter(|package| {
        package.source.is_none() && package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    });
    published.flat_map(|package| too_low(package, &packages, &nodes, tree)).collect()
}

fn too_low(
    package: &Pinned,
    packages: &BTreeMap<&str, &Pinned>,
    nodes: &BTreeMap<&str, &ResolveNode>,
    tree: &SourceTree,
) -> Vec<Finding> {
    let folder = package.name.trim_start_matches("salon-");
    let manifest = format!("crates/{folder}/Cargo.toml");
    let text = tree.sources.iter().find(|source| source.path == manifest).map_or("", |source| &*source.text);
    let line = text.lines().position(|line| line.starts_with("rust-version")).map(|index| index + 1);
    let finding = |message| Finding { path: manifest.clone(), line, message };
    let Some(promised) = package.rust_version.as_deref() else {
        return vec![finding(format!("`{}` is published and names no `rust-version`", package.name))];
    };
    let needed = reachable(package, packages, nodes).into_iter().filter_map(|id| {
        let dependency = packages.get(id)?;
        let needs = dependency.rust_version.as_deref()?;
        (numbers(needs) > numbers(promised)).then(|| {
            let Pinned { name, version, .. } = dependency;
            format!("`{}` promises Rust {promised}, and `{name}` {version} needs {needs}", package.name)
        })
    });
    needed.map(finding).collect()
}

/// Everything a package is built with, but for what is excused.
fn reachable<'a>(
    package: &'a Pinned,
    packages: &BTreeMap<&str, &Pinned>,
    nodes: &BTreeMap<&str, &'a ResolveNode>,
) -> BTreeSet<&'a str> {
    let excused = |from: &str, to: &str| {
        let name = |id: &str| packages.get(id).map_or("", |package| &*package.name);
        EXCUSED.contains(&(name(from), name(to)))
    };
    let mut reached = BTreeSet::new();
    let mut open = vec![&*package.id];
    while let Some(id) = open.pop() {
        if !reached.insert(id) {
            continue;
        }
        let edges = nodes.get(id).map_or(&[][..], |node| &node.deps);
        let built = edges.iter().filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev")));
        open.extend(built.map(|edge| &*edge.pkg).filter(|to| !excused(id, to)));
    }
    reached
}

/// `1.85` and `1.85.0` are the same.
fn numbers(version: &str) -> [u32; 3] {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(u32::MAX));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{rendered, tree};

    /// Packages as `name version [rust-version]: dependency ~dev-dependency`; those of this workspace begin with `salon-`.
    fn judge(packages: &[&str]) -> Vec<String> {
        let (mut all, mut nodes) = (Vec::new(), Vec::new());
        for line in packages {
            let (head, deps) = line.split_once(':').expect("a package and a colon");
            let mut head = head.split_whitespace();
            let (name, version, rust) = (head.next(), head.next(), head.next());
            let outside = name.is_some_and(|name| !name.starts_with("salon-"));
            all.push(serde_json::json!({
                "id": name, "name": name, "version": version, "rust_version": rust,
                "source": outside.then_some("registry"), "publish": (name == Some("salon-cli")).then_some([""; 0]),
            }));
            let deps: Vec<_> = deps
                .split_whitespace()
                .map(|dep| match dep.strip_prefix('~') {
                    Some(dev) => serde_json::json!({"pkg": dev, "dep_kinds": [{"kind": "dev"}]}),
                    None => serde_json::json!({"pkg": dep, "dep_kinds": [{"kind": "dev"}, {"kind": null}]}),
                })
                .collect();
            nodes.push(serde_json::json!({"id": name, "deps": deps}));
        }
        let whole = serde_json::json!({"packages": all, "resolve": {"nodes": nodes}});
        let resolved = serde_json::from_value(whole).expect("the shape of cargo metadata");
        let manifest = "[package]\nname = \"salon-client\"\nrust-version = \"1.85\"\n";
        rendered(check(&resolved, &tree(&[("crates/client/Cargo.toml", manifest)])))
    }

    #[test]
    fn a_dependency_that_needs_more_is_found_however_deep() {
        let found = judge(&[
            "salon-client 0.2.0 1.85: tokio rmcp ~proptest",
            "salon-cli 0.2.0 1.80: tokio",
            "tokio 1.0.0 1.85.0: uuid",
            "uuid 1.29.0 1.85.1:",
            "rmcp 3.8.0 1.88:",
            "proptest 1.0.0 1.90:",
        ]);
        assert_eq!(
            found,
            ["crates/client/Cargo.toml:3: `salon-client` promises Rust 1.85, and `uuid` 1.29.0 needs 1.85.1"]
        );
    }

    #[test]
    fn what_is_published_names_a_version() {
        assert_eq!(
            judge(&["salon-client 0.2.0:"]),
            ["crates/client/Cargo.toml:3: `salon-client` is published and names no `rust-version`"]
        );
    }
}
