//! Tests that need a NATS server, as trials that are ignored where there is none.

use libtest_mimic::Trial;

use super::is_missing;

/// A trial that runs a test on a runtime of its own. `name` is its path, of which the name of the crate is left out.
pub fn trial<T: Future<Output = ()>>(name: &str, test: impl FnOnce() -> T + Send + 'static) -> Trial {
    let name = name.split_once("::").map_or(name, |(_, name)| name);
    let run = move || {
        crate::run(test());
        Ok(())
    };
    Trial::test(name, run).with_ignored_flag(is_missing())
}

/// A list of trials, one for each of some asynchronous functions without arguments. One that is not listed is dead code, which the
/// compiler tells.
#[macro_export]
macro_rules! nats_trials {
    ($($test:ident),* $(,)?) => {
        vec![$($crate::nats::trial(concat!(module_path!(), "::", stringify!($test)), $test)),*]
    };
}
