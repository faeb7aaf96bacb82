//! Bridges: a room and a channel of a chat platform show each other's messages.
//!
//! | part | what it is |
//! |---|---|
//! | [`platform`] | what a platform reports and does: [`PlatformEvent`](platform::PlatformEvent), [`PlatformAction`](platform::PlatformAction), the trait [`PlatformDriver`](platform::PlatformDriver) |
//! | [`room`] | the same for the room: [`RoomEvent`](room::RoomEvent), [`RoomAction`](room::RoomAction) |
//! | [`core`] | what follows from what: a state machine without IO |
//! | [`store`] | what a bridge remembers across restarts |
//! | [`rich`] | formatted text in a neutral form, and each platform's way of writing it |
//!
//! A person of the platform is in the room as a *ghost*, a participant that the bridge seats. A participant of the room is on the platform
//! as a *puppet*, where the platform can show one.
//!
//! Deliberately absent: the gateway. A bridge is a client of a gateway like any other participant.

#[cfg(any(feature = "matrix", feature = "slack"))]
mod callback_driver;
#[cfg(any(feature = "discord", feature = "irc", feature = "matrix", feature = "slack", feature = "xmpp"))]
mod check;
mod clock;
pub mod config;
#[cfg(any(feature = "discord", feature = "matrix", feature = "slack"))]
mod connected_channels;
pub mod core;
#[cfg(feature = "discord")]
pub mod discord;
#[cfg(any(feature = "matrix", feature = "slack"))]
mod display_names;
pub mod drivers;
#[cfg(any(feature = "matrix", feature = "slack"))]
mod http_receiver;
#[cfg(any(feature = "discord", feature = "matrix", feature = "slack"))]
mod http_sender;
pub mod init;
#[cfg(feature = "irc")]
pub mod irc;
#[cfg(feature = "matrix")]
pub mod matrix;
pub mod platform;
pub mod rich;
pub mod room;
pub mod runner;
#[cfg(feature = "slack")]
pub mod slack;
pub mod store;
#[cfg(any(feature = "irc", feature = "xmpp"))]
mod stream_driver;
#[cfg(feature = "xmpp")]
pub mod xmpp;
