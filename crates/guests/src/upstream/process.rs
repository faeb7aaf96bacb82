//! A child's process group, signalled as a whole.

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};

/// A process group. Our children lead a group of their own, so that what they start ends with
/// them. A process that makes a group or session of its own has left, and is not ours any more.
#[derive(Debug)]
pub(super) struct Group(Mutex<Option<Pid>>);

impl Group {
    /// The group led by that process.
    pub(super) fn led_by(process: Option<u32>) -> Self {
        let pid = process.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self(Mutex::new(pid))
    }

    /// Asks every member to end.
    pub(super) fn terminate(&self) {
        if let Some(group) = *self.lock() {
            // The only failure is that nobody is left.
            let _ = kill_process_group(group, Signal::TERM);
        }
    }

    /// Kills every member. To be called as soon as the leader has been waited for: from then on its number could be given to
    /// another process, though not while a member of the group is left. Does nothing the second time.
    pub(super) fn kill(&self) {
        if let Some(group) = self.lock().take() {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Option<Pid>> {
        self.0.lock()
    }
}
