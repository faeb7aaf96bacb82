mod model;
mod script;
mod scripts;

use super::*;
use crate::platform::{Pace, ResendRule};
use crate::rich::Flavour;

/// A platform that can do everything.
fn able(resend: ResendRule) -> PlatformCapabilities {
    PlatformCapabilities {
        flavour: Flavour::Markdown,
        max_text_bytes: 200,
        is_multiline: true,
        max_parts: 4,
        can_edit: true,
        can_retract: true,
        can_reply: true,
        shows_speaker: true,
        resend,
        pace: Pace { interval: Duration::ZERO, burst: 1 },
    }
}

/// A platform of lines, such as IRC.
fn lines() -> PlatformCapabilities {
    PlatformCapabilities {
        flavour: Flavour::Plain,
        max_text_bytes: 80,
        is_multiline: false,
        can_edit: false,
        can_retract: false,
        can_reply: false,
        shows_speaker: false,
        pace: Pace { interval: Duration::from_millis(1_300), burst: 2 },
        ..able(ResendRule::Never)
    }
}

fn setup(capabilities: PlatformCapabilities, options: BridgeOptions, stored: StoredChannel, run: u64) -> CoreSetup {
    CoreSetup {
        participant: ParticipantId::new("bridge:x").expect("a name"),
        namespace: "x".into(),
        channel: PlatformChannel::new("#lab"),
        capabilities,
        options,
        key: [7; 32],
        run,
        stored,
    }
}
