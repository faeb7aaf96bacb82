use std::path::Path;

use salon_testkit::crash::{CrashPlan, grace};
use salon_testkit::run;

use crate::salon::BINARY;

#[test]
fn whatever_anybody_saw_survives_twenty_kills() {
    run(CrashPlan::random().run(Path::new(BINARY))).expect("nothing is lost, doubled or out of order");
}

#[test]
fn participants_have_time_to_come_back_after_a_crash() {
    run(grace(Path::new(BINARY))).expect("nobody leaves who comes back, and the others do");
}
