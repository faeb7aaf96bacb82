//! `salon doctor`: what stands between this machine and a room, looked at one thing after the other.
//!
//! Everything is tried for real, as the other commands do it. Deliberately absent: repairs.

mod checks;
mod report;

use clap::Args;
use salon_protocol::TopicName;

use self::report::{DoctorFinding, DoctorReport};
use crate::access::Access;
use crate::trouble::Trouble;

#[derive(Debug, Args)]
#[command(after_help = "\
Checks the credentials file, the gateway's address, DNS, TCP, TLS, health,
readiness, protocol and clock, and the token. Then it enters the topic and
leaves it again, which the others there see. The exit status is 1 if something
is wrong.")]
pub(crate) struct DoctorArgs {
    /// Room to enter as a test
    pub(super) topic: Option<TopicName>,
    /// Print one object: `{"ok", "gateway", "checks": [{"check", "status", "message", "hint"}]}`, a status being
    /// ok, warning or problem
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) access: Access,
}

pub(crate) fn run(args: DoctorArgs) -> Result<(), Trouble> {
    super::run(async move {
        let mut report = DoctorReport::new(args.json);
        checks::all(&args, &mut report).await;
        report.end()
    })
}
