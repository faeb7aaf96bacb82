//! The command line of `cargo xtask dist`.

use std::path::PathBuf;

use super::build::{ReleaseTarget, TARGETS};

pub(crate) const USAGE: &str = "\
  dist [OPTIONS]       build what people install: archive, .deb, wheel, npm packages, image, notices, SBOM, checksums
                       --target TRIPLE            only this target; may be repeated (default: all that can be built)
                       --require TRIPLE|all       fail, and do not skip, when this target cannot be built
                       --binary TRIPLE=FILE       pack this file, and do not build the target
                       --package-version VERSION  another version than the workspace's
                       --out DIR                  where to write (default: target/packages), which is emptied first";

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DistOptions {
    pub(crate) targets: Vec<ReleaseTarget>,
    pub(crate) required: Vec<ReleaseTarget>,
    pub(crate) binaries: Vec<(ReleaseTarget, PathBuf)>,
    pub(crate) package_version: Option<String>,
    pub(crate) out: Option<PathBuf>,
}

impl DistOptions {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        for pair in arguments.chunks(2) {
            let [flag, value] = *pair else {
                return Err(format!("error: `{}` needs a value\n\n{USAGE}", pair[0]));
            };
            match flag {
                "--target" => options.targets.push(ReleaseTarget::named(value)?),
                "--require" if value == "all" => options.required.extend(TARGETS),
                "--require" => options.required.push(ReleaseTarget::named(value)?),
                "--binary" => {
                    let (triple, file) = value.split_once('=').ok_or("error: `--binary` takes TRIPLE=FILE")?;
                    options.binaries.push((ReleaseTarget::named(triple)?, file.into()));
                }
                "--package-version" => options.package_version = Some(value.into()),
                "--out" => options.out = Some(value.into()),
                _ => return Err(format!("error: unknown option `{flag}`\n\n{USAGE}")),
            }
        }
        // Given binaries are enough; otherwise everything is tried.
        if options.targets.is_empty() && options.binaries.is_empty() {
            options.targets.extend(TARGETS);
        }
        let missing = options.required.iter().filter(|target| !options.targets.contains(target));
        options.targets.extend(missing.copied().collect::<Vec<_>>());
        Ok(options)
    }

    pub(crate) fn requires(&self, target: ReleaseTarget) -> bool {
        self.required.contains(&target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn triples(targets: &[ReleaseTarget]) -> Vec<&str> {
        targets.iter().map(|target| target.triple).collect()
    }

    #[test]
    fn all_targets_are_tried_unless_some_are_named() {
        let parse = |arguments: &[&str]| DistOptions::parse(arguments).expect("options");
        assert_eq!(parse(&[]).targets.len(), TARGETS.len());
        assert_eq!(parse(&["--binary", "x86_64-unknown-linux-musl=salon"]).targets, []);
        let named = parse(&["--target", "x86_64-unknown-linux-musl", "--require", "aarch64-unknown-linux-musl"]);
        assert_eq!(triples(&named.targets), ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"]);
        assert!(!named.requires(named.targets[0]) && named.requires(named.targets[1]));
    }

    #[test]
    fn mistakes_are_refused() {
        for (arguments, message) in [
            (&["--out"][..], "error: `--out` needs a value"),
            (&["--fast", "yes"], "error: unknown option `--fast`"),
            (&["--binary", "salon"], "error: `--binary` takes TRIPLE=FILE"),
        ] {
            let error = DistOptions::parse(arguments).expect_err("refused");
            assert!(error.starts_with(message), "{error}");
        }
    }
}
