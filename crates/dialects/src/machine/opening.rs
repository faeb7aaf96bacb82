//! How clients open streams at this door.

use salon_protocol::Refusal;

use super::MachineMessage;
use crate::{CatalogueAnswer, CatalogueQuery};

pub(super) type DialectEvent = crate::DialectEvent<MachineOpening, CatalogueAnswer>;
pub(super) type DialectAction = crate::DialectAction<CatalogueQuery>;

/// How a stream begins.
#[derive(Debug, Clone, Default)]
pub enum MachineOpening {
    /// Both sides speak when they like.
    #[default]
    Duplex,
    /// A request over HTTP that brings a message, or why that is refused.
    Post(Result<Box<MachineMessage>, Refusal>),
    /// A request over HTTP for a stream of events, after the last event its sender has seen.
    Listen(Option<Box<str>>),
}
