//! The software bill of materials: CycloneDX 1.5, JSON (<https://cyclonedx.org/docs/1.5/json/>).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::crates::{LinkedCrate, PROGRAM};
use super::notices::LinkedRuntime;

/// What the document is about.
pub(crate) struct SbomSubject<'a> {
    pub(crate) version: &'a str,
    pub(crate) triple: &'a str,
    /// Of the binary.
    pub(crate) sha256: &'a str,
    /// When the release was made, RFC 3339.
    pub(crate) timestamp: &'a str,
}

pub(crate) fn write(
    subject: &SbomSubject<'_>,
    crates: &BTreeMap<String, LinkedCrate>,
    runtime: &[LinkedRuntime],
) -> Value {
    let program = format!("pkg:cargo/{PROGRAM}@{}", subject.version);
    let name = |linked: &LinkedCrate| if linked.name == PROGRAM { program.clone() } else { purl(linked) };
    let mut components: Vec<Value> = crates.values().filter(|linked| linked.name != PROGRAM).map(component).collect();
    components.extend(runtime.iter().map(|part| {
        json!({ "type": "library", "bom-ref": part.name, "name": part.name, "licenses": [{ "expression": part.license }] })
    }));
    let dependencies: Vec<Value> = crates
        .values()
        .map(|linked| {
            let mut used: Vec<String> = linked.uses.iter().filter_map(|key| crates.get(key)).map(name).collect();
            if linked.name == PROGRAM {
                used.extend(runtime.iter().map(|part| part.name.to_owned()));
            }
            json!({ "ref": name(linked), "dependsOn": used })
        })
        .collect();
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": subject.timestamp,
            "component": {
                "type": "application",
                "bom-ref": program,
                "name": "salon",
                "version": subject.version,
                "licenses": [{ "expression": "Apache-2.0" }],
                "purl": program,
                "hashes": [{ "alg": "SHA-256", "content": subject.sha256 }],
                "properties": [{ "name": "cargo:target", "value": subject.triple }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    })
}

fn purl(linked: &LinkedCrate) -> String {
    // The one character of a Cargo version that a package URL must not have as it is.
    format!("pkg:cargo/{}@{}", linked.name, linked.version.replace('+', "%2B"))
}

fn component(linked: &LinkedCrate) -> Value {
    let purl = purl(linked);
    let mut component = json!({
        "type": "library", "bom-ref": purl, "name": linked.name, "version": linked.version, "purl": purl,
    });
    if let Some(license) = &linked.license {
        component["licenses"] = json!([{ "expression": license }]);
    }
    if let Some(sha256) = &linked.sha256 {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sha256 }]);
    }
    if let Some(repository) = &linked.repository {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::crates::sample;
    use super::*;

    #[test]
    fn the_program_depends_on_its_crates_and_they_have_hashes() {
        let crates = [sample(PROGRAM, "Apache-2.0", Path::new(""), &["a"]), sample("a", "MIT", Path::new(""), &[])];
        let crates = crates.into_iter().map(|linked| (linked.key(), linked)).collect();
        let subject = SbomSubject { version: "1.2.3", triple: "t", sha256: "ab", timestamp: "2026-01-01T00:00:00Z" };
        let document = write(&subject, &crates, &[]);
        assert_eq!(document["components"].as_array().map(Vec::len), Some(1));
        assert_eq!(document["components"][0]["hashes"][0]["content"], "00ff");
        assert_eq!(document["dependencies"][1]["ref"], "pkg:cargo/salon-cli@1.2.3");
        assert_eq!(document["dependencies"][1]["dependsOn"], json!(["pkg:cargo/a@1.2.3"]));
    }
}
