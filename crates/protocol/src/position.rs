use std::fmt;

/// Where an entry stands in its topic's log.
///
/// Ordered, not dense. Positions of different epochs belong to different logs (the store was created again) and say nothing about
/// each other, which is why [`Position::in_order`] exists and `Ord` does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// Which making of the log this belongs to.
    pub epoch: u32,
    /// The place within it; larger is later.
    pub offset: u64,
}

impl Position {
    /// Before the first entry of an epoch.
    pub const fn start(epoch: u32) -> Self {
        Self { epoch, offset: 0 }
    }

    /// Whether `self` is strictly before `later`, when the two can be compared.
    pub fn in_order(self, later: Self) -> Option<bool> {
        (self.epoch == later.epoch).then_some(self.offset < later.offset)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{}", self.epoch, self.offset)
    }
}
