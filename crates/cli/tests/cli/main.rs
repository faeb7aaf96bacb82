//! The `salon` command as a person meets it: the real binary, its output and its exit codes.

mod audit;
mod backup;
mod call;
mod chat;
mod completions;
mod config;
mod control;
mod crash;
mod demo;
mod doctor;
mod framed;
mod full_disk;
mod guest_oauth;
mod guests;
mod help;
mod import;
mod keys;
#[expect(dead_code, reason = "the tests on NATS use the rest of it")]
mod killed_approval;
mod log_copy;
mod login;
mod machine;
mod mcp;
mod mcp_config;
mod mcp_room;
mod read;
mod records;
mod revoke;
mod salon;
mod serve;
mod stage;
mod talk;
mod tls;
mod token;
mod upgrades;
mod web;
