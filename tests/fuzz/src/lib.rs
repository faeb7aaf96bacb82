//! The fuzz targets, one a decoder: what each feeds its decoder from bytes, and what must hold of the result.
//! `fuzz/` builds them with libFuzzer; the test `seeds` replays the inputs in `fuzz/seeds` on an ordinary build.

mod bridge_platforms;
mod door;
mod draft_door;
mod envelope;
mod event_stream;
mod framed_door;
mod machine_door;
mod mcp;
mod mcp_door;
mod mcpx_door;
mod servers_file;
mod token;

/// Feeds one input to a target, and panics where the target finds a fault. False: the input cannot reach the decoder (it is not
/// UTF-8), so that a fuzzer need not keep it.
pub type FuzzTarget = fn(&[u8]) -> bool;

/// Every target, by the name of its binary and of its folder of seeds.
pub const TARGETS: [(&str, FuzzTarget); 10] = [
    ("bridge_platforms", bridge_platforms::run),
    ("draft_door", draft_door::run),
    ("envelope", envelope::run),
    ("event_stream", event_stream::run),
    ("framed_door", framed_door::run),
    ("machine_door", machine_door::run),
    ("mcp_door", mcp_door::run),
    ("mcpx_door", mcpx_door::run),
    ("servers_file", servers_file::run),
    ("token", token::run),
];

/// The target of a name. A binary asks for it once.
pub fn target(name: &str) -> Option<FuzzTarget> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
