//! The time of the system. The core and the sessions are given it as an argument.

use std::time::SystemTime;

use salon_protocol::Timestamp;

pub(crate) fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}
