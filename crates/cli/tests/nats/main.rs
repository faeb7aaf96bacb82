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

fn main() -> std::process::ExitCode {
    let mut arguments = Arguments::from_args();
    // Three gateways, three NATS servers and forty clients are enough for two cores, and two of these scenes run at a time.
    arguments.test_threads.get_or_insert(2);
    let trials = faults::trials().into_iter().chain(gateways::trials()).chain(bridges::trials());
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
