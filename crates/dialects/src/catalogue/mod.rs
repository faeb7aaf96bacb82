//! The room's catalogue, as dialects read it: what every participant offers, and under which names the room lists it.
//!
//! The room's host finds out what participants offer and publishes a [`CatalogueSnapshot`]: immutable, with a version, names and URIs merged once
//! per change ([`merged`]). Sessions read snapshots; none of them asks or merges per participant.
//!
//! Deliberately absent: asking participants, ages and deadlines. Those are the host's.

mod builder;
mod merged;
mod names;
mod render;
mod shards;
mod templates;
#[cfg(test)]
mod tests;
mod uris;

use std::sync::Arc;

use salon_control::Authority;
use salon_mcp::listing::{ListItem, Listing};
use salon_protocol::ParticipantId;
use serde_json::value::RawValue;

pub use builder::{CatalogueSnapshot, MAX_ROOM_BYTES, MAX_ROOM_ITEMS, Placement, SnapshotBuilder};
pub use merged::Merged;
pub(crate) use merged::{Offered, OwnerRank, is_same};
pub(crate) use names::{ends_at_first_underscores, natural};
pub(crate) use render::render;
pub(crate) use uris::{SCHEME, qualified as qualified_uri};

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
    pub items: Option<Arc<[ListItem]>>,
}

/// What a session asks that sees the room as one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoomQuery {
    /// One participant's items. For the host's own, which depend on who asks.
    One(CatalogueQuery),
    /// Find out what all participants offer of these kinds. Answered when that is known, or has been waited for long enough.
    Gather {
        /// Names the query in its answer.
        number: u64,
        /// The kinds.
        listings: &'static [Listing],
    },
    /// Look at these lists of a participant that joins from now on.
    Watch {
        /// The kinds.
        listings: Vec<Listing>,
    },
    /// The next snapshot with a version above this one.
    Next {
        /// The version that the session has.
        after: u64,
    },
    /// What the topic's settings and the client's token allow: a tool that the client may not call is not in its list.
    Authority,
    /// Wait as a call of [`WAIT_TOOL`] says, outside of the room's log.
    Wait {
        /// Names the query in its answer.
        number: u64,
        /// The parameters of the call, as JSON.
        params: Box<str>,
    },
    /// Nobody needs the answer to a [`RoomQuery::Wait`] any more.
    StopWaiting {
        /// The number of the wait.
        number: u64,
    },
}

/// The host's tool that waits until something happens.
pub const WAIT_TOOL: &str = "room.wait";

/// The answer to a [`RoomQuery`].
#[derive(Debug, Clone)]
pub enum RoomAnswer {
    /// To [`RoomQuery::One`].
    One(CatalogueAnswer),
    /// To [`RoomQuery::Gather`]; no snapshot when the room has no host to ask.
    Gathered {
        /// The query's number.
        number: u64,
        /// What participants offer by now.
        snapshot: Option<Arc<CatalogueSnapshot>>,
    },
    /// To [`RoomQuery::Watch`].
    Watching,
    /// To [`RoomQuery::Next`].
    Next(Arc<CatalogueSnapshot>),
    /// To [`RoomQuery::Authority`]; `None` where nothing is forbidden.
    Authority(Option<Arc<Authority>>),
    /// To [`RoomQuery::Wait`].
    Waited {
        /// The query's number.
        number: u64,
        /// The result of the call where nothing happened; `None` where the call has to be made in the room.
        idle: Option<Box<RawValue>>,
    },
    /// To [`RoomQuery::StopWaiting`].
    StoppedWaiting,
}
