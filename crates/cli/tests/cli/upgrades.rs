//! Data directories of earlier versions, opened by this one.

use std::path::{Path, PathBuf};

use salon_testkit::{data_fixture, run};

use crate::salon::BINARY;

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/upgrades");
    let found = std::fs::read_dir(folder).expect("the folder of fixtures").map(|entry| entry.expect("an entry").path());
    let mut found: Vec<_> = found.filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

#[test]
fn data_of_every_earlier_version_is_opened_and_goes_on() {
    let fixtures = fixtures();
    assert!(fixtures.len() >= 2, "those of 0.1.0 are there: {fixtures:?}");
    for fixture in fixtures {
        let checked = run(data_fixture::check(Path::new(BINARY), &fixture));
        checked.unwrap_or_else(|failure| panic!("{}: {failure}", fixture.display()));
    }
}
