//! How clients open streams at this door.

use crate::{CatalogueAnswer, CatalogueQuery};

pub(super) type Event = crate::Event<MachineOpening, CatalogueAnswer>;
pub(super) type Action = crate::Action<CatalogueQuery>;

/// How a stream begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MachineOpening {
    /// Both sides speak when they like.
    #[default]
    Duplex,
    /// A request over HTTP; its body is the one frame that comes.
    Post,
    /// A request over HTTP for a stream of events, after the last event its sender has seen.
    Listen(Option<Box<str>>),
}
