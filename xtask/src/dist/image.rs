//! The container image, from scratch: <https://github.com/opencontainers/image-spec>, an image layout in one tar archive.
//!
//! There is nothing in it but the program, the certificates of public authorities, a user and an empty data directory. It also has the
//! `manifest.json` of `docker save`, so that engines that do not read layouts load it too.

use serde_json::{Value, json};

use super::files::{PackedFile, gzip, sha256, tar};
use super::release::{Release, timestamp};

/// As in `deploy/Containerfile`, so that a volume fits both.
const USER: u64 = 10001;
const DATA: &str = "/var/lib/salon";
const NANOS_PER_SECOND: u64 = 1_000_000_000;

pub(crate) fn pack(release: &Release<'_>) -> Result<(String, Vec<u8>), String> {
    let layer = tar("", &root_files(release), release.epoch)?;
    let packed_layer = gzip(&layer)?;
    let config = serde_json::to_vec(&config(release, &sha256(&layer))?).map_err(|error| error.to_string())?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", &packed_layer)],
    });
    let manifest = serde_json::to_vec(&manifest).map_err(|error| error.to_string())?;
    let name = format!("salon:{}", release.version);
    let mut listed = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    listed["platform"] = json!({ "architecture": release.target.image, "os": "linux" });
    listed["annotations"] = json!({
        "org.opencontainers.image.ref.name": release.version,
        "io.containerd.image.name": format!("localhost/{name}"),
    });
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [listed],
    });
    let docker = json!([{
        "Config": blob_path(&config), "RepoTags": [format!("localhost/{name}")], "Layers": [blob_path(&packed_layer)],
    }]);
    let files = [
        PackedFile::text("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#),
        PackedFile::text("index.json", index.to_string()),
        PackedFile::text("manifest.json", docker.to_string()),
        PackedFile::text(blob_path(&config), config),
        PackedFile::text(blob_path(&manifest), manifest),
        PackedFile::text(blob_path(&packed_layer), packed_layer),
    ];
    Ok((format!("salon-{}-{}.oci.tar", release.version, release.target.image), tar("", &files, release.epoch)?))
}

fn root_files(release: &Release<'_>) -> Vec<PackedFile> {
    vec![
        PackedFile::text("etc/passwd", format!("salon:x:{USER}:{USER}:Salon gateway:{DATA}:/sbin/nologin\n")),
        PackedFile::text("etc/group", format!("salon:x:{USER}:\n")),
        PackedFile::text("etc/ssl/certs/ca-certificates.crt", certificates()),
        // `salon demo` keeps its room there.
        PackedFile::folder("tmp/", 0o1777, 0),
        PackedFile::text("usr/share/doc/salon/LICENSE", release.license.clone()),
        PackedFile::text("usr/share/doc/salon/THIRD-PARTY-NOTICES", release.notices.clone()),
        PackedFile::folder("var/lib/salon/", 0o700, USER),
        PackedFile::program("usr/bin/salon", release.binary.clone()),
    ]
}

/// Mozilla's list as the `webpki-root-certs` crate has it, so that Cargo.lock says which.
fn certificates() -> String {
    let pem = |der: &[u8]| {
        let text = data_encoding::BASE64.encode(der);
        let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    };
    webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(|certificate| pem(certificate)).collect()
}

fn config(release: &Release<'_>, diff_id: &str) -> Result<Value, String> {
    let created = timestamp(release.epoch)?;
    Ok(json!({
        "created": created,
        "architecture": release.target.image,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": [
                "PATH=/usr/bin",
                format!("HOME={DATA}"),
                format!("SALON_DATA={DATA}"),
                "SALON_LISTEN=0.0.0.0:8787",
                "SALON_LOG_FORMAT=json",
            ],
            "Entrypoint": ["/usr/bin/salon"],
            "Cmd": ["serve"],
            "WorkingDir": DATA,
            "Volumes": { DATA: {} },
            "ExposedPorts": { "8787/tcp": {} },
            "StopSignal": "SIGTERM",
            // Not part of OCI's configuration; Docker and Podman read it.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/salon", "serve", "--health"],
                "Interval": 15 * NANOS_PER_SECOND, "Timeout": 5 * NANOS_PER_SECOND, "StartPeriod": 40 * NANOS_PER_SECOND, "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "salon",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{diff_id}")] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    }))
}

fn descriptor(kind: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": kind, "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len() })
}

fn blob_path(bytes: &[u8]) -> String {
    format!("blobs/sha256/{}", sha256(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_pem_with_short_lines() {
        let bundle = certificates();
        assert!(bundle.starts_with("-----BEGIN CERTIFICATE-----\nMII"));
        assert_eq!(bundle.matches("BEGIN").count(), webpki_root_certs::TLS_SERVER_ROOT_CERTS.len());
        assert!(bundle.lines().all(|line| line.len() <= 64));
    }
}
