//! The crash test with power failures: on a file system that is shut down without flushing. Where none can be mounted it is ignored, and the reason is
//! written to standard error.

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use salon_testkit::crash::CrashPlan;
use salon_testkit::{report_ignored, run};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let obstacle = CrashPlan::power_loss_obstacle();
    if let Some(why) = obstacle.as_deref().filter(|_| !arguments.list) {
        report_ignored(why);
    }
    let trial = Trial::test("whatever_anybody_saw_survives_power_failures", || {
        let plan = CrashPlan { kills: 10, ..CrashPlan::random().losing_power() };
        Ok(run(plan.run(Path::new(env!("CARGO_BIN_EXE_salon"))))?)
    });
    libtest_mimic::run(&arguments, vec![trial.with_ignored_flag(obstacle.is_some())]).exit_code()
}
