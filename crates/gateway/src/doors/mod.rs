//! Doors: a carrier and a dialect at an address.

pub(crate) mod mcpx;
