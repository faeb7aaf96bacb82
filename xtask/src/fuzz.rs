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

pub(crate) fn run(seconds: u32) -> Result<(), String> {
    let here = Metadata::here()?;
    let folder = here.workspace_root.join("fuzz");
    let manifest = folder.join("Cargo.toml");
    let built = here.target_directory.join("fuzz");
    let host = host()?;

    let mut cargo = Command::new(env!("CARGO"));
    // Naming the target keeps the flags away from build scripts and procedural macros.
    cargo.args(["build", "--quiet", "--release", "--target", &host, "--manifest-path"]).arg(&manifest);
    let status = cargo.arg("--target-dir").arg(&built).env("RUSTFLAGS", FLAGS).status();
    if !status.is_ok_and(|status| status.success()) {
        return Err("the fuzz targets did not build".into());
    }
    for package in Metadata::of(&manifest)?.packages {
        for target in package.targets.into_iter().filter(|target| target.kind.iter().any(|kind| kind == "bin")) {
            let program = built.join(&host).join("release").join(&target.name);
            fuzz(&target.name, &program, &folder.join("seeds").join(&target.name), &built, seconds)?;
        }
    }
    Ok(())
}

/// Runs one target. What it learns stays in the target directory, so that the next run begins where this one ended.
fn fuzz(name: &str, program: &Path, seeds: &Path, built: &Path, seconds: u32) -> Result<(), String> {
    let corpus = built.join("corpus").join(name);
    fs::create_dir_all(&corpus).map_err(|error| format!("{}: {error}", corpus.display()))?;
    let began = Instant::now();
    let mut command = Command::new(program);
    command.arg(format!("-max_total_time={seconds}"));
    command.args(["-timeout=10", "-rss_limit_mb=2048", "-max_len=8192"]);
    command.arg(format!("-artifact_prefix={}/{name}-", built.display()));
    let ran = command.arg(&corpus).arg(seeds).output().map_err(|error| format!("{}: {error}", program.display()))?;
    let told = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        return Err(format!("{told}\nfuzz: {name} failed; the input that did it is named above"));
    }
    // A build without counters runs and finds nothing, which must not pass for a clean run.
    let covered = coverage(&told).ok_or_else(|| format!("{told}\nfuzz: {name} reports no coverage"))?;
    let runs = told.lines().rev().find_map(|line| line.strip_prefix("Done ")?.split(' ').next()).unwrap_or("?");
    println!("fuzz: {name}: {runs} runs in {} s, {covered} edges, nothing found", began.elapsed().as_secs());
    Ok(())
}

/// The edges reached, from the fuzzer's last line that says so.
fn coverage(told: &str) -> Option<u64> {
    let last = told.lines().rev().find_map(|line| line.split_once(" cov: "))?.1;
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
}
