//! The form of a journal row: the entries of one commit, one after another.
//!
//! Each is its topic, offset and time of arrival (8 bytes each, little-endian), the length of its text (8 bytes) and its text.

use std::sync::Arc;

use salon_protocol::{Entry, Envelope, Position, Timestamp};

use super::Fault;

/// Adds an entry to a row.
pub(super) fn write(row: &mut Vec<u8>, topic: i64, entry: &Entry) {
    let text = entry.envelope.text().as_bytes();
    row.extend_from_slice(&topic.to_le_bytes());
    row.extend_from_slice(&entry.position.offset.to_le_bytes());
    row.extend_from_slice(&entry.arrived.0.to_le_bytes());
    row.extend_from_slice(&(text.len() as u64).to_le_bytes());
    row.extend_from_slice(text);
}

/// Reads a row back, as topics and their entries.
pub(super) fn read(mut row: &[u8], epoch: u32) -> Result<Vec<(i64, Arc<Entry>)>, Fault> {
    let mut entries = Vec::new();
    while !row.is_empty() {
        let mut number = || take(&mut row, 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        let head = (|| Some((number()?, number()?, number()?, usize::try_from(number()?).ok()?)))();
        let (topic, offset, arrived, length) = head.ok_or(Fault::Journal)?;
        let text = take(&mut row, length).and_then(|bytes| std::str::from_utf8(bytes).ok()).ok_or(Fault::Journal)?;
        let envelope = Envelope::restore(text).map_err(|_| Fault::Journal)?;
        let position = Position { epoch, offset };
        entries.push((topic.cast_signed(), Arc::new(Entry { position, arrived: Timestamp(arrived), envelope })));
    }
    Ok(entries)
}

fn take<'a>(row: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = row.split_at_checked(length)?;
    *row = rest;
    Some(taken)
}
