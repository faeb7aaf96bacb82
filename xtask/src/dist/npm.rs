//! The npm packages: one for each platform with the program in it, and one that depends on them all, as far as they fit, and starts
//! the one that is there (<https://docs.npmjs.com/cli/configuring-npm/package-json>: `os`, `cpu`, `optionalDependencies`).

use serde_json::{Map, Value, json};

use super::files::{PackedFile, gzip, tar};
use super::release::Release;

const NAME: &str = "salon-gateway";

/// The package of one platform.
pub(crate) fn pack_platform(release: &Release<'_>) -> Result<(String, Vec<u8>), String> {
    let name = platform_name(release);
    let manifest = json!({
        "name": name,
        "version": release.version,
        "description": format!("The program of {NAME} for Linux on {}", release.target.node),
        "license": "Apache-2.0",
        "os": ["linux"],
        "cpu": [release.target.node],
        "preferUnplugged": true,
        "files": ["bin", "LICENSE", "THIRD-PARTY-NOTICES"],
    });
    let files = [
        manifest_file(&manifest),
        PackedFile::program("bin/salon", release.binary.clone()),
        PackedFile::text("LICENSE", release.license.clone()),
        PackedFile::text("THIRD-PARTY-NOTICES", release.notices.clone()),
    ];
    archive(&name, &files, release)
}

/// The package that people name. It depends on the platforms that were built.
pub(crate) fn pack_starter(releases: &[Release<'_>]) -> Result<Option<(String, Vec<u8>)>, String> {
    let Some(first) = releases.first() else { return Ok(None) };
    let platforms: Map<String, Value> =
        releases.iter().map(|release| (platform_name(release), json!(release.version))).collect();
    let manifest = json!({
        "name": NAME,
        "version": first.version,
        "description": "Rooms in which AI agents, people and robots are MCP servers to one another",
        "license": "Apache-2.0",
        "bin": { "salon": "bin/salon.js" },
        "files": ["bin", "LICENSE"],
        "engines": { "node": ">=18" },
        "optionalDependencies": platforms,
    });
    let files = [
        manifest_file(&manifest),
        PackedFile::program("bin/salon.js", first.repository_file("deploy/npm/salon.js")?),
        PackedFile::text("LICENSE", first.license.clone()),
    ];
    archive(NAME, &files, first).map(Some)
}

fn platform_name(release: &Release<'_>) -> String {
    format!("{NAME}-linux-{}", release.target.node)
}

fn manifest_file(manifest: &Value) -> PackedFile {
    PackedFile::text("package.json", format!("{manifest:#}\n"))
}

fn archive(name: &str, files: &[PackedFile], release: &Release<'_>) -> Result<(String, Vec<u8>), String> {
    let bytes = gzip(&tar("package/", files, release.epoch)?)?;
    Ok((format!("{name}-{}.tgz", release.version), bytes))
}
