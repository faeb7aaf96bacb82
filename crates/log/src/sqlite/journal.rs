//! The form of a journal row: the entries of one commit, one after another.
//!
//! Each is its topic, offset and time of arrival (8 bytes each, little-endian), the lengths of its text and of its stamp (4 bytes each),
//! its text and its stamp; a length of 0 is no stamp. Before version 3 of the tables there were no stamps, and the length of the text had
//! all 8 bytes: as no text was longer than 4 bytes can tell, such a row reads the same.

use std::sync::Arc;

use salon_protocol::{Entry, Envelope, Position, Stamp, Timestamp};

use super::SqliteFault;

/// Adds an entry to a row.
pub(super) fn write(row: &mut Vec<u8>, topic: i64, entry: &Entry) {
    let (text, stamp) = (entry.envelope.text(), entry.stamp.as_ref().map_or("", Stamp::text));
    let length = |text: &str| u32::try_from(text.len()).expect("no message is as long as 4 GiB").to_le_bytes();
    row.extend_from_slice(&topic.to_le_bytes());
    row.extend_from_slice(&entry.position.offset.to_le_bytes());
    row.extend_from_slice(&entry.arrived.0.to_le_bytes());
    row.extend_from_slice(&length(text));
    row.extend_from_slice(&length(stamp));
    row.extend_from_slice(text.as_bytes());
    row.extend_from_slice(stamp.as_bytes());
}

/// A row with other texts in place of those of some entries of a topic. `None` where it has none of them.
pub(super) fn replace(row: &[u8], topic: i64, entries: &[Arc<Entry>]) -> Result<Option<Vec<u8>>, SqliteFault> {
    let (mut rest, mut replaced, mut is_changed) = (row, Vec::with_capacity(row.len()), false);
    while !rest.is_empty() {
        let before = rest;
        let (found, offset, length) = skip(&mut rest).ok_or(SqliteFault::Journal)?;
        match entries.iter().find(|entry| found == topic && entry.position.offset == offset) {
            Some(entry) => {
                write(&mut replaced, topic, entry);
                is_changed = true;
            }
            None => replaced.extend_from_slice(&before[..length]),
        }
    }
    Ok(is_changed.then_some(replaced))
}

/// Passes over an entry; says of which topic it is, its offset and its length.
fn skip(row: &mut &[u8]) -> Option<(i64, u64, usize)> {
    let number = |row: &mut &[u8]| take(row, 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let length = |row: &mut &[u8]| take(row, 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    let whole = row.len();
    let (topic, offset, _) = (number(row)?.cast_signed(), number(row)?, number(row)?);
    let (text, stamp) = (length(row)?, length(row)?);
    take(row, usize::try_from(text).ok()?.checked_add(usize::try_from(stamp).ok()?)?)?;
    Some((topic, offset, whole - row.len()))
}

/// Reads a row back, as topics and their entries.
pub(super) fn read(mut row: &[u8], epoch: u32) -> Result<Vec<(i64, Arc<Entry>)>, SqliteFault> {
    let mut entries = Vec::new();
    while !row.is_empty() {
        entries.push(entry(&mut row, epoch).ok_or(SqliteFault::Journal)?);
    }
    Ok(entries)
}

fn entry(row: &mut &[u8], epoch: u32) -> Option<(i64, Arc<Entry>)> {
    let mut number = || take(row, 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let (topic, offset, arrived) = (number()?.cast_signed(), number()?, number()?);
    let mut length = || take(row, 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    let (text, stamp) = (length()?, length()?);
    let mut text_of = |length: u32| std::str::from_utf8(take(row, usize::try_from(length).ok()?)?).ok();
    let envelope = Envelope::restore(text_of(text)?).ok()?;
    let stamp = Stamp::restore(text_of(stamp)?);
    Some((
        topic,
        Arc::new(Entry { position: Position { epoch, offset }, arrived: Timestamp(arrived), stamp, envelope }),
    ))
}

fn take<'a>(row: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = row.split_at_checked(length)?;
    *row = rest;
    Some(taken)
}
