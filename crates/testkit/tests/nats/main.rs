//! The log and gateways on real NATS servers.

mod engine;
mod forgetting;
mod gateways;
mod nodes;
mod presence;
mod props;
mod repairs;
mod start;
mod ways;
