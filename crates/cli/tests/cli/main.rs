//! The `salon` command as a person meets it: the real binary, its output and its exit codes.

mod config;
mod crash;
mod demo;
mod full_disk;
mod help;
mod records;
mod salon;
mod serve;
mod tls;
mod token;
