//! The Debian package: <https://www.debian.org/doc/debian-policy/> and deb(5).
//!
//! Written here and not by `cargo-deb`, which would be a second build tool to install for two tar archives. The maintainer scripts are
//! files of their own, in `deploy/debian`.

use std::fmt::Write;

use super::files::{PackedFile, ar, gzip, tar};
use super::release::{Release, date};

/// The revision of the packaging; a release has one.
const REVISION: &str = "1";
const MAINTAINER: &str = "Salon maintainers <maintainers@salon.invalid>";

pub(crate) fn pack(release: &Release<'_>) -> Result<(String, Vec<u8>), String> {
    let version = format!("{}-{REVISION}", version(&release.version));
    let files = files(release, &version)?;
    let mut control = vec![
        PackedFile::text("control", control(release, &version, &files)),
        PackedFile::text("conffiles", "/etc/salon/salon.toml\n"),
    ];
    for script in ["postinst", "prerm", "postrm"] {
        control.push(PackedFile::program(script, release.repository_file(&format!("deploy/debian/{script}"))?));
    }
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&tar("./", &control, release.epoch)?)?),
        ("data.tar.gz", gzip(&tar("./", &files, release.epoch)?)?),
    ];
    let name = format!("salon_{version}_{}.deb", release.target.debian);
    Ok((name, ar(&members, release.epoch)))
}

fn files(release: &Release<'_>, version: &str) -> Result<Vec<PackedFile>, String> {
    let mut files = vec![
        PackedFile::program("usr/bin/salon", release.binary.clone()),
        PackedFile::text("etc/salon/salon.toml", release.repository_file("deploy/debian/salon.toml")?),
        PackedFile::text("usr/lib/systemd/system/salon.service", release.repository_file("deploy/salon.service")?),
        PackedFile::text("usr/share/doc/salon/copyright", copyright(&date(release.epoch, "+%Y")?)),
        PackedFile::text(
            "usr/share/doc/salon/changelog.Debian.gz",
            gzip(changelog(version, release.epoch)?.as_bytes())?,
        ),
        PackedFile::text("usr/share/doc/salon/changelog.gz", gzip(&release.repository_file("CHANGELOG.md")?)?),
        PackedFile::text("usr/share/doc/salon/THIRD-PARTY-NOTICES.gz", gzip(release.notices.as_bytes())?),
        PackedFile::text(
            "usr/share/lintian/overrides/salon",
            release.repository_file("deploy/debian/lintian-overrides")?,
        ),
    ];
    files.extend(release.shared_files()?);
    Ok(files)
}

fn control(release: &Release<'_>, version: &str, files: &[PackedFile]) -> String {
    // In KiB, each file rounded up, as dpkg-gencontrol counts.
    let size: usize = files.iter().map(|file| file.bytes.len().div_ceil(1024)).sum();
    let mut control = String::new();
    for (key, value) in [
        ("Package", "salon"),
        ("Version", version),
        ("Architecture", release.target.debian),
        ("Maintainer", MAINTAINER),
        ("Installed-Size", &size.to_string()),
        ("Depends", "adduser, init-system-helpers (>= 1.54)"),
        ("Recommends", "ca-certificates"),
        ("Section", "net"),
        ("Priority", "optional"),
        ("Description", "realtime gateway for rooms of agents, people and robots"),
    ] {
        let _ = writeln!(control, "{key}: {value}");
    }
    control.push_str(
        " Salon is one program: a gateway with rooms in which AI agents, people and\n \
         robots are MCP servers to one another, and the commands to use it. Rooms\n \
         are kept in an SQLite file in /var/lib/salon, or on NATS servers.\n",
    );
    control
}

/// `1.0.0-rc.1` comes before `1.0.0`, which Debian writes with a tilde.
fn version(version: &str) -> String {
    version.replacen('-', "~", 1).replace('-', ".")
}

fn changelog(version: &str, epoch: u64) -> Result<String, String> {
    let date = date(epoch, "+%a, %d %b %Y %H:%M:%S +0000")?;
    Ok(format!(
        "salon ({version}) unstable; urgency=medium\n\n  * Release. /usr/share/doc/salon/changelog.gz says what is new.\n\n -- {MAINTAINER}  {date}\n"
    ))
}

fn copyright(year: &str) -> String {
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
     Upstream-Name: Salon\n\
     Comment: The program contains libraries under licences of their own, all permissive.\n \
     /usr/share/doc/salon/THIRD-PARTY-NOTICES.gz has their names and texts.\n\
     \n\
     Files: *\n\
     Copyright: {year}, the Salon contributors\n\
     License: Apache-2.0\n \
     On Debian systems the text of the Apache License 2.0 is in\n \
     /usr/share/common-licenses/Apache-2.0.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pre_release_sorts_before_its_release() {
        assert_eq!(version("1.0.0-rc.1"), "1.0.0~rc.1");
        assert_eq!(version("1.0.0"), "1.0.0");
    }
}
