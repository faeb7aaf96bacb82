//! Where a room is between being opened and being over.
//!
//! Invariant: it only goes on, never back. A room that has ended folds nothing more, so nobody may wait for it to.

use salon_protocol::CloseReason;
use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// What the log says is known, and nothing follows it yet.
    Opening,
    /// Its task follows the log. Participants enter, publish and read.
    Open,
    /// Its readers are dismissed, and its task stores the last leaves.
    Ending(CloseReason),
    /// Its task is over.
    Ended(CloseReason),
}

impl Lifecycle {
    fn stage(self) -> u8 {
        match self {
            Self::Opening => 0,
            Self::Open => 1,
            Self::Ending(_) => 2,
            Self::Ended(_) => 3,
        }
    }

    /// Goes on to another stage; says whether it did. One that was reached before stays, with its reason.
    pub(crate) fn advance(stages: &watch::Sender<Self>, next: Self) -> bool {
        stages.send_if_modified(|stage| {
            let advances = next.stage() > stage.stage();
            if advances {
                *stage = match (*stage, next) {
                    (Self::Ending(reason), Self::Ended(_)) => Self::Ended(reason),
                    _ => next,
                };
            }
            advances
        })
    }

    /// Why its readers must go, once they must.
    pub(crate) fn end(self) -> Option<CloseReason> {
        match self {
            Self::Opening | Self::Open => None,
            Self::Ending(reason) | Self::Ended(reason) => Some(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_never_opens_again() {
        let stages = watch::Sender::new(Lifecycle::Opening);
        assert!(Lifecycle::advance(&stages, Lifecycle::Open));
        assert!(Lifecycle::advance(&stages, Lifecycle::Ending(CloseReason::Shutdown)));
        assert!(!Lifecycle::advance(&stages, Lifecycle::Open));
        assert!(Lifecycle::advance(&stages, Lifecycle::Ended(CloseReason::Internal)));
        assert_eq!(*stages.borrow(), Lifecycle::Ended(CloseReason::Shutdown), "the first reason stays");
        assert!(!Lifecycle::advance(&stages, Lifecycle::Ending(CloseReason::Internal)));
    }
}
