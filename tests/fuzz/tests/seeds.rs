//! Replays every seed of the fuzz targets, as libFuzzer does before it starts to mutate them.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use fuzz_targets::{FuzzTarget, TARGETS};

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The files or folders in a folder, by name.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("a readable folder").file_name().to_string_lossy().into_owned()).collect()
}

/// Replays the seeds of one target; the names of those at which it panicked.
fn replay(name: &str, target: FuzzTarget) -> Vec<String> {
    let folder = fuzz_folder().join("seeds").join(name);
    let seeds = names(&folder);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    let failed = seeds.into_iter().filter(|seed| {
        let bytes = fs::read(folder.join(seed)).expect("a readable seed");
        // The message of a panic is on standard error, where the test's output has it.
        !catch_unwind(|| target(&bytes)).is_ok_and(|usable| usable)
    });
    failed.map(|seed| format!("fuzz/seeds/{name}/{seed}")).collect()
}

#[test]
fn every_seed_passes_its_target() {
    let failed: Vec<String> = TARGETS.iter().flat_map(|(name, target)| replay(name, *target)).collect();
    assert!(failed.is_empty(), "these seeds fail, or cannot reach the decoder: {failed:#?}");
}

/// A target that is only in one place is either never fuzzed or never replayed.
#[test]
fn targets_binaries_and_seeds_have_the_same_names() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let binaries = names(&fuzz_folder().join("targets"));
    let binaries = binaries.iter().map(|name| name.trim_end_matches(".rs").to_owned()).collect();
    assert_eq!(targets, binaries);
    assert_eq!(targets, names(&fuzz_folder().join("seeds")));
}
