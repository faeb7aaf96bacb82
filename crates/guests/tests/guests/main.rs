//! Guests in a real room, with real servers in Python.

#![expect(clippy::unwrap_used, reason = "these are tests, their helpers included")]

mod cast;
mod oauth;
mod sharing;
mod supervision;
mod translation;
