//! The Matrix bridge against a real homeserver, Synapse, and against one that forgets. `scripts/test bridges` installs Synapse; without it its tests are
//! reported as ignored.

mod bridge;
mod driver;
mod fake_homeserver;
mod person;
mod room;
mod synapse;
mod unsent;

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
    let fake = |name: &'static str, run: fn()| {
        Trial::test(name, move || {
            run();
            Ok(())
        })
    };
    let trials = vec![
        fake("an_event_that_was_not_handed_over_comes_before_the_next", || {
            salon_testkit::run(unsent::before_the_next());
        }),
        fake("an_event_that_was_not_handed_over_comes_without_another", || {
            salon_testkit::run(unsent::after_the_last());
        }),
        fake("an_event_of_while_both_were_away_comes", || salon_testkit::run(unsent::while_both_were_away())),
        fake("a_key_that_a_person_wrote_is_not_the_bridges", || salon_testkit::run(unsent::a_key_of_a_person())),
        fake("a_large_request_of_a_stranger_is_not_read", || salon_testkit::run(unsent::a_request_of_a_stranger())),
        trial("the_driver_against_synapse", |python| salon_testkit::run(driver::run(python))),
        trial("a_conversation_through_synapse", |python| salon_testkit::run(room::conversation(python))),
        trial("a_thousand_messages_survive_crashes", |python| salon_testkit::run(room::crashes(python))),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}
