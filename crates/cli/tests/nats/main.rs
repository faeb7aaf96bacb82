//! `salon serve` on real NATS servers. Where none is installed, everything here is ignored.

mod bridges;
mod faults;
mod gateways;
#[expect(dead_code, reason = "the tests without NATS use the rest of it")]
#[path = "../cli/killed_approval.rs"]
mod killed_approval;
#[expect(dead_code, reason = "the tests without NATS use the rest of it")]
#[path = "../cli/salon.rs"]
mod salon;

use libtest_mimic::Arguments;
use salon_testkit::faults::clock_obstacle;
use salon_testkit::report_ignored;

fn main() -> std::process::ExitCode {
    let mut arguments = Arguments::from_args();
    // Three gateways, three NATS servers and forty clients are enough for two cores, and two of these scenes run at a time.
    arguments.test_threads.get_or_insert(2);
    if let Some(why) = clock_obstacle().filter(|_| !arguments.list) {
        report_ignored(why);
    }
    let trials = faults::trials().into_iter().chain(gateways::trials()).chain(bridges::trials());
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
