//! What a dialect asks of the room's catalogue.

use std::sync::Arc;

use salon_mcp::listing::{Item, Listing};
use salon_protocol::ParticipantId;

/// Which items of a listing a participant offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueQuery {
    /// The participant that offers them.
    pub who: ParticipantId,
    /// What kind of item.
    pub listing: Listing,
}

/// The answer of the catalogue.
#[derive(Debug, Clone)]
pub struct CatalogueAnswer {
    /// What was asked.
    pub query: CatalogueQuery,
    /// The items; `None` when they are not to be had.
    pub items: Option<Arc<[Item]>>,
}
