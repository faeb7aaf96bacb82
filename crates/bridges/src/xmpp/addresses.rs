//! Addresses: of puppets, and of occupants.

use aws_lc_rs::digest;
use salon_protocol::ParticipantId;

use crate::platform::Speaker;

pub(super) fn bare(address: &str) -> &str {
    address.split('/').next().unwrap_or_default()
}

/// The local part of a puppet's address (RFC 7622 §3.3), which has fewer characters than an id and no capitals. What is not kept is told apart by a digest.
pub(super) fn local_part(participant: &ParticipantId) -> String {
    let id = participant.as_str();
    let is_kept = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    let kept: String = id.chars().map(|c| if is_kept(c) { c } else { '.' }).collect();
    if kept == id && id != "salon" {
        return kept;
    }
    let digest = digest::digest(&digest::SHA256, id.as_bytes());
    let hex: String = digest.as_ref().iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    format!("{}.{hex}", &kept[..kept.len().min(100)])
}

/// A nick for a participant: its name, without what a resource cannot have.
pub(super) fn nick_of(speaker: &Speaker) -> String {
    let nick: String = speaker.name.chars().filter(|c| !c.is_control()).take(60).collect();
    let nick = nick.trim();
    if nick.is_empty() { speaker.id.to_string() } else { nick.to_owned() }
}
