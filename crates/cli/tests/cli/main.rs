//! The `salon` command as a person meets it: the real binary, its output and its exit codes.

mod backup;
mod call;
mod chat;
mod config;
mod crash;
mod demo;
mod doctor;
#[cfg(feature = "nats")]
mod faults;
mod framed;
mod full_disk;
mod guests;
mod help;
mod import;
mod keys;
mod login;
mod machine;
mod mcp;
mod mcp_config;
mod mcp_room;
#[cfg(feature = "nats")]
mod nats;
mod records;
mod salon;
mod serve;
mod stage;
mod talk;
mod tls;
mod token;
mod upgrades;
mod web;
