//! How trials are made: which logs one runs on, and tables, which are many cases against one gateway in one trial.

use std::pin::Pin;

use libtest_mimic::Trial;
use salon_testkit::{Failure, TestEngine};

/// Which logs a trial runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logs {
    /// What the trial asserts goes through the log.
    Every,
    /// What the trial asserts is decided before or after the log, so that one log is enough.
    SqliteOnly,
}

impl Logs {
    pub(crate) fn include(self, engine: TestEngine) -> bool {
        self == Self::Every || engine == TestEngine::Sqlite
    }
}

pub(crate) type Outcome = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;

/// A trial with a gateway of its own: its name, its logs, and what it does.
pub(crate) type Row = (&'static str, Logs, fn(TestEngine) -> Outcome);

/// The trials for an engine. Their names start with the engine's and `group`.
pub(crate) fn trials(engine: TestEngine, group: &str, rows: &[Row]) -> Vec<Trial> {
    let rows = rows.iter().filter(|(_, logs, _)| logs.include(engine));
    rows.map(|&(name, _, test)| trial(engine, &format!("{group}::{name}"), move || test(engine))).collect()
}

pub(crate) fn trial<F>(engine: TestEngine, name: &str, test: impl FnOnce() -> F + Send + 'static) -> Trial
where
    F: Future<Output = Result<(), Failure>>,
{
    Trial::test(format!("{}::{name}", engine.name()), move || Ok(salon_testkit::run(test())?))
}

/// A table stops after this many failures: each of them may have waited for its deadline.
const MAX_FAILURES: usize = 20;

/// A case of a table.
pub(crate) trait Case {
    fn name(&self) -> String;
}

/// Checks the cases in order, all against what `open` has opened, and fails with every case that failed. After a failure the next case
/// has a newly opened one, so that one failure does not cause another. Returns the last one opened, to be closed.
pub(crate) async fn check_all<Fixture, C: Case>(
    cases: impl IntoIterator<Item = C>,
    open: impl AsyncFn() -> Result<Fixture, Failure>,
    check: impl AsyncFn(&mut Fixture, C) -> Result<(), Failure>,
) -> Result<Fixture, Failure> {
    let mut fixture = open().await?;
    let (mut checked, mut failures) = (0, Vec::new());
    for case in cases {
        let name = case.name();
        if failures.len() == MAX_FAILURES {
            failures.push(format!("{name} and what follows was not checked"));
            break;
        }
        checked += 1;
        if let Err(reason) = check(&mut fixture, case).await {
            failures.push(format!("{name}: {reason}"));
            fixture = open().await?;
        }
    }
    if checked == 0 {
        return Err("the table is empty".into());
    }
    if failures.is_empty() { Ok(fixture) } else { Err(failures.join("\n")) }
}
