//! How long a source file may be.

use super::{Finding, SourceTree};

/// The most lines a file may have, its tests not counted.
const LIMIT: usize = 600;
/// Above this a file is worth a look.
const LONG: usize = 400;

pub(crate) fn check(tree: &SourceTree) -> Vec<Finding> {
    let lengths = tree.rust().filter(|source| !source.is_test_module());
    lengths
        .map(|source| (source, source.lines_without_tests()))
        .filter(|(_, lines)| *lines > LIMIT)
        .map(|(source, lines)| Finding::of(&source.path, format!("{lines} lines without tests; the limit is {LIMIT}")))
        .collect()
}

/// Files worth a look, the longest first.
pub(crate) fn long(tree: &SourceTree) -> Vec<(&str, usize)> {
    let mut long: Vec<(&str, usize)> =
        tree.rust().map(|source| (&*source.path, source.lines_without_tests())).collect();
    long.retain(|(_, lines)| *lines > LONG);
    long.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
    long
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{rendered, tree};

    #[test]
    fn tests_do_not_count() {
        let line = "fn a() {}\n";
        let with_tests = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", line.repeat(600), line.repeat(600));
        let findings = check(&tree(&[
            ("crates/a/src/fits.rs", &with_tests),
            ("crates/a/src/long.rs", &line.repeat(601)),
            ("crates/a/src/x/tests.rs", &line.repeat(601)),
        ]));
        assert_eq!(rendered(findings), ["crates/a/src/long.rs: 601 lines without tests; the limit is 600"]);
    }
}
