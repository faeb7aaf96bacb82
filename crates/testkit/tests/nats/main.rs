//! The log and gateways on real NATS servers.

mod engine;
mod forgetting;
mod gateways;
mod nodes;
mod presence;
mod repairs;
mod start;
