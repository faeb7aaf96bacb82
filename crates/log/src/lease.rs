//! Leases: who holds which place, in the memory of one node.

use std::any::Any;

/// How a place is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Alone: whoever holds it is superseded.
    Exclusive,
    /// Beside others who claim it so; an exclusive holder is superseded.
    Shared,
}

/// A participant's place, held until dropped.
pub struct Lease(#[expect(dead_code, reason = "dropping it is the release")] Box<dyn Any + Send + Sync>);

impl Lease {
    /// A lease that is released by dropping `guard`.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self(Box::new(guard))
    }
}
