//! The Matrix bridge against a real homeserver, Synapse. `scripts/test bridges` installs it; without it the tests are reported as ignored.

mod bridge;
mod driver;
mod person;
mod room;
mod synapse;

use libtest_mimic::{Arguments, Trial};

fn main() {
    bridge::run_if_asked();
    let arguments = Arguments::from_args();
    let python = synapse::python();
    let trial = |name: &'static str, run: fn(&std::path::Path)| {
        let python = python.clone();
        let is_missing = python.is_none();
        Trial::test(name, move || {
            run(&python.expect("ignored without it"));
            Ok(())
        })
        .with_ignored_flag(is_missing)
    };
    let trials = vec![
        trial("the_driver_against_synapse", |python| salon_testkit::run(driver::run(python))),
        trial("a_conversation_through_synapse", |python| salon_testkit::run(room::conversation(python))),
        trial("a_thousand_messages_survive_crashes", |python| salon_testkit::run(room::crashes(python))),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}
