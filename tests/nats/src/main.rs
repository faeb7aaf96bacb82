//! The log and gateways on real NATS servers. Where none is installed, everything that needs one is ignored.

mod engine;
mod forgetting;
mod gateways;
mod idle;
mod lagging;
mod migration;
mod nodes;
mod presence;
mod props;
mod repairs;
mod start;
mod transfer;
mod ways;

use libtest_mimic::Arguments;

fn main() -> std::process::ExitCode {
    let mut arguments = Arguments::from_args();
    // Trials wait for sockets and disks more than they compute. Nextest ignores this, and runs each in a process of its own.
    arguments.test_threads.get_or_insert(4);
    let trials = [
        engine::trials(),
        forgetting::trials(),
        gateways::trials(),
        gateways::among::trials(),
        gateways::clients::trials(),
        gateways::control::trials(),
        idle::trials(),
        lagging::trials(),
        migration::trials(),
        nodes::trials(),
        presence::trials(),
        repairs::trials(),
        start::trials(),
        transfer::trials(),
    ];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_code()
}
