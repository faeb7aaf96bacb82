//! Runs the fuzz targets for a bounded time.
//!
//! libFuzzer needs coverage counters in the code, and those are a compiler pass that the stable toolchain has too; only the
//! sanitizers need nightly, and code without `unsafe` has little use for them.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::metadata::{Metadata, output};

/// Counters at every edge, comparisons reported to the fuzzer.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// A campaign: how long each target runs, and which targets; none named is all.
#[derive(Debug, PartialEq)]
pub(crate) struct Campaign {
    seconds: u32,
    targets: Vec<String>,
}

impl Campaign {
    /// From the arguments `[--seconds N] [TARGET…]`.
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, String> {
        let mut campaign = Self { seconds: 20, targets: Vec::new() };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match *argument {
                "--seconds" => {
                    let value = rest.next().copied().unwrap_or_default();
                    campaign.seconds = value
                        .parse()
                        .ok()
                        .filter(|seconds| *seconds > 0)
                        .ok_or_else(|| format!("error: `--seconds` takes a whole number above 0, not `{value}`"))?;
                }
                flag if flag.starts_with('-') => {
                    return Err(format!("error: unknown flag `{flag}`\n\nhint: scripts/fuzz [--seconds N] [TARGET…]"));
                }
                target => campaign.targets.push(target.to_owned()),
            }
        }
        Ok(campaign)
    }

    pub(crate) fn run(&self) -> Result<(), String> {
        let here = Metadata::here()?;
        let folder = here.workspace_root.join("fuzz");
        let manifest = folder.join("Cargo.toml");
        let built = here.target_directory.join("fuzz");
        let names = self.chosen(&Metadata::of(&manifest)?)?;
        let host = host()?;

        let mut cargo = Command::new(env!("CARGO"));
        // Naming the target keeps the flags away from build scripts and procedural macros.
        cargo.args(["build", "--quiet", "--release", "--target", &host, "--manifest-path"]).arg(&manifest);
        cargo.args(names.iter().flat_map(|name| ["--bin", name]));
        let status = cargo.arg("--target-dir").arg(&built).env("RUSTFLAGS", FLAGS).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err("error: the fuzz targets did not build".into());
        }
        // A crash of one target does not keep the others from running.
        let programs = built.join(&host).join("release");
        let failures: Vec<String> =
            names.iter().filter_map(|name| fuzz(name, &programs.join(name), &folder, self.seconds).err()).collect();
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
    }

    /// The names of the targets to run.
    fn chosen(&self, fuzz: &Metadata) -> Result<Vec<String>, String> {
        let targets = fuzz.packages.iter().flat_map(|package| &package.targets);
        let binaries = targets.filter(|target| target.kind.iter().any(|kind| kind == "bin"));
        let known: Vec<String> = binaries.map(|target| target.name.clone()).collect();
        match self.targets.iter().find(|name| !known.contains(name)) {
            Some(name) => {
                Err(format!("error: there is no fuzz target `{name}`\n\nhint: the targets are {}", known.join(", ")))
            }
            None if self.targets.is_empty() => Ok(known),
            None => Ok(self.targets.clone()),
        }
    }
}

/// Runs one target. The inputs it finds stay in `fuzz/corpus`, where the next campaign starts from; an input that fails is kept in
/// `fuzz/artifacts`.
fn fuzz(name: &str, program: &Path, folder: &Path, seconds: u32) -> Result<(), String> {
    let (corpus, artifacts) = (folder.join("corpus").join(name), folder.join("artifacts"));
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder).map_err(|error| format!("error: {}: {error}", folder.display()))?;
    }
    let before = entries(&corpus)?;
    let began = Instant::now();
    let mut command = Command::new(program);
    command.arg(format!("-max_total_time={seconds}"));
    command.args(["-timeout=10", "-rss_limit_mb=2048", "-max_len=8192"]);
    command.arg(format!("-artifact_prefix={}/{name}-", artifacts.display()));
    command.arg(&corpus).arg(folder.join("seeds").join(name));
    let ran = command.output().map_err(|error| format!("error: {}: {error}", program.display()))?;
    let report = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        let input = crashing_input(&report).unwrap_or("none was written");
        return Err(format!(
            "{report}\nerror: fuzz target `{name}` failed; input: {input}\n\nhint: copy the input to fuzz/seeds/{name}, fix \
             the fault, and keep the seed"
        ));
    }
    // A build without counters runs and finds nothing, which must not pass for a clean run.
    let covered = coverage(&report).ok_or_else(|| format!("{report}\nerror: `{name}` reports no coverage"))?;
    let runs = report.lines().rev().find_map(|line| line.strip_prefix("Done ")?.split(' ').next()).unwrap_or("?");
    let new = entries(&corpus)?.saturating_sub(before);
    println!(
        "fuzz: {name}: {runs} runs in {} s, {covered} edges, {new} new inputs in {}, no crash",
        began.elapsed().as_secs(),
        corpus.display()
    );
    Ok(())
}

fn entries(folder: &Path) -> Result<usize, String> {
    fs::read_dir(folder).map(Iterator::count).map_err(|error| format!("error: {}: {error}", folder.display()))
}

/// The file that libFuzzer wrote the failing input to.
fn crashing_input(report: &str) -> Option<&str> {
    report.lines().rev().find_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path.trim())
}

/// The edges reached, from the fuzzer's last line that says so.
fn coverage(report: &str) -> Option<u64> {
    let last = report.lines().rev().find_map(|line| line.split_once(" cov: "))?.1;
    last.split(' ').next()?.parse().ok().filter(|edges| *edges > 0)
}

/// The machine's own target triple.
fn host() -> Result<String, String> {
    let told = output(Command::new("rustc").arg("-vV"))?;
    let told = String::from_utf8_lossy(&told);
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not name its host".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_is_that_of_the_last_report() {
        assert_eq!(coverage("#2 INITED cov: 12 ft: 3\n#9 DONE   cov: 34 ft: 9 corp: 1\nDone 9 runs"), Some(34));
        assert_eq!(coverage("#2 INITED cov: 0 ft: 0"), None);
        assert_eq!(coverage("INFO: Running"), None);
    }

    #[test]
    fn the_failing_input_is_named() {
        let report = "==1== ERROR\nartifact_prefix='x/'; Test unit written to x/envelope-crash-1\nBase64: AA==";
        assert_eq!(crashing_input(report), Some("x/envelope-crash-1"));
        assert_eq!(crashing_input("Done 9 runs"), None);
    }

    #[test]
    fn a_campaign_has_a_time_and_targets() {
        let campaign = |seconds, targets: &[&str]| {
            Ok(Campaign { seconds, targets: targets.iter().map(|&target| target.to_owned()).collect() })
        };
        assert_eq!(Campaign::parse(&[]), campaign(20, &[]));
        assert_eq!(Campaign::parse(&["token", "--seconds", "5", "envelope"]), campaign(5, &["token", "envelope"]));
        for wrong in [&["--seconds"][..], &["--seconds", "0"], &["--seconds", "-1"], &["--second", "1"]] {
            assert!(Campaign::parse(wrong).is_err_and(|error| error.starts_with("error: ")), "{wrong:?}");
        }
    }
}
