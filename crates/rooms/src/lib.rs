//! The judgment: which drafts enter a topic, who is present, and how everyone reads the same order.
//!
//! A [`Rooms`] opens a room for each topic somebody is in. A [`Seat`] is a participant's live place in one; dropping it leaves.
//! A [`Cursor`] only reads. Deliberately absent: wire formats, sockets, tokens.

mod approvals;
mod attendance;
mod batch;
mod bell;
mod control;
mod cursor;
mod deletion;
mod delivery_order;
mod ghosts;
mod host_access;
mod keeper;
mod lifecycle;
mod limits;
#[cfg(test)]
mod model;
mod open_rooms;
mod presence;
mod publishing;
mod receipts;
mod redactions;
mod registry;
mod ring;
mod room;
pub mod rules;
mod seat;
mod solicited;
mod statuses;
#[cfg(test)]
mod tests;
mod timings;
mod topic_limits;
mod turn;
mod visibility;

pub use batch::Batch;
pub use bell::{BatchOutlet, OfferOutcome};
pub use control::notice;
pub use cursor::{Cursor, Deliver, Happening, Interest};
pub use ghosts::{BridgeSettings, GhostIntroduction, Ghosts};
pub use host_access::HostAccess;
pub use limits::{ByteRates, Rate};
pub use presence::random_id;
pub use publishing::{Publishing, Submission};
pub use receipts::DeliveryReport;
pub use registry::{Admission, Arrival, Host, Residence, Rooms, Settings, Witness};
pub use room::{RoomVisit, resolve, unreadable};
pub use salon_log::FailedCall;
pub use seat::Seat;
pub use statuses::StatusNotice;
pub use timings::Timings;
pub use visibility::VisibleTopic;
