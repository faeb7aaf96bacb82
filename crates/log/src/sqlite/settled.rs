//! Questions to the database, which knows what is settled. All of one answer are asked in one transaction.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, Rows, params};
use salon_control::{ControlNotice, Decision};
use salon_protocol::{Entry, Envelope, EnvelopeId, FailureCause, Message, Position, Stamp, Timestamp, TopicName};

use super::SqliteFault;
use super::schema::{self, LAST_OFFSET, key};
use crate::{FailedRequest, Fold, OpenRequest, Standing};

/// What is settled of a topic: everything after `trimmed` up to and with `head`, without holes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// `None` when the database has never heard of the topic, or has forgotten it.
    pub(super) topic: Option<i64>,
    pub(super) trimmed: u64,
    pub(super) head: u64,
    /// When the newest arrived.
    pub(super) newest: Option<Timestamp>,
}

pub(super) fn extent(db: &Connection, name: &TopicName) -> Result<Extent, SqliteFault> {
    let mut topic_states = db.prepare_cached("SELECT topic, trimmed FROM topics WHERE name = ?1")?;
    match topic_states.query_row([name.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional()? {
        Some((topic, trimmed)) => extent_of(db, topic, trimmed),
        None => {
            let floor = schema::floor(db)?;
            Ok(Extent { topic: None, trimmed: floor, head: floor, newest: None })
        }
    }
}

pub(super) fn extent_of(db: &Connection, topic: i64, trimmed: u64) -> Result<Extent, SqliteFault> {
    let mut newest =
        db.prepare_cached("SELECT key, arrived FROM entries WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
    let newest = newest
        .query_row([key(topic, 0), key(topic, LAST_OFFSET)], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .map(|(key, arrived)| (schema::offset(key), Timestamp(arrived)));
    let head = newest.map_or(trimmed, |(offset, _)| offset);
    Ok(Extent { topic: Some(topic), trimmed, head, newest: newest.map(|(_, arrived)| arrived) })
}

/// A topic's name and the offset of its newest settled entry, by its number; `None` where the topic has been forgotten.
pub(super) fn name_and_head(db: &Connection, topic: i64) -> Result<Option<(TopicName, u64)>, SqliteFault> {
    let mut query = db.prepare_cached("SELECT name, trimmed FROM topics WHERE topic = ?1")?;
    let found = query.query_row([topic], |row| Ok((row.get::<_, String>(0)?, row.get(1)?))).optional()?;
    let Some((name, trimmed)) = found else { return Ok(None) };
    let name = TopicName::new(&name).map_err(|_| SqliteFault::Topic { name })?;
    Ok(Some((name, extent_of(db, topic, trimmed)?.head)))
}

/// Every topic: its number, up to where it is trimmed, and its name.
pub(super) fn all_topics(db: &Connection) -> Result<Vec<(i64, u64, TopicName)>, SqliteFault> {
    let mut query = db.prepare_cached("SELECT topic, trimmed, name FROM topics")?;
    let mut rows = query.query([])?;
    let mut topics = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(2)?;
        let name = TopicName::new(&name).map_err(|_| SqliteFault::Topic { name })?;
        topics.push((row.get(0)?, row.get(1)?, name));
    }
    Ok(topics)
}

/// The number of a topic.
pub(super) fn number(db: &Connection, name: &TopicName) -> Result<Option<i64>, SqliteFault> {
    let mut query = db.prepare_cached("SELECT topic FROM topics WHERE name = ?1")?;
    Ok(query.query_row([name.as_str()], |row| row.get(0)).optional()?)
}

/// Makes an entry of a key, a time of arrival, a text and a stamp.
pub(super) fn entry(epoch: u32, row: &Row<'_>) -> Result<Arc<Entry>, SqliteFault> {
    let (key, arrived) = (row.get(0)?, row.get(1)?);
    let text = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
    let envelope = Envelope::restore(text).map_err(|_| SqliteFault::Entry { key })?;
    let stamp = row.get_ref(3)?.as_str_or_null().map_err(rusqlite::Error::from)?.and_then(Stamp::restore);
    let position = Position { epoch, offset: schema::offset(key) };
    Ok(Arc::new(Entry { position, arrived: Timestamp(arrived), stamp, envelope }))
}

/// The oldest entries with `after < offset <= through`, up to `limit`, and no more once they have `bytes`.
pub(super) fn after(
    db: &Connection,
    epoch: u32,
    topic: i64,
    (after, through): (u64, u64),
    limit: usize,
    bytes: usize,
) -> Result<Vec<Arc<Entry>>, SqliteFault> {
    let mut query = db.prepare_cached(
        "SELECT key, arrived, text, stamp FROM entries WHERE key > ?1 AND key <= ?2 ORDER BY key LIMIT ?3",
    )?;
    let mut rows = query.query(params![key(topic, after), key(topic, through), sql_limit(limit)])?;
    entries(epoch, &mut rows, bytes)
}

/// The newest entries up to and with `through`, up to `limit`, and no more once they have `bytes`; oldest first.
pub(super) fn up_to(
    db: &Connection,
    epoch: u32,
    topic: i64,
    through: u64,
    limit: usize,
    bytes: usize,
) -> Result<Vec<Arc<Entry>>, SqliteFault> {
    let mut query = db.prepare_cached(
        "SELECT key, arrived, text, stamp FROM entries WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT ?3",
    )?;
    let mut rows = query.query(params![key(topic, 0), key(topic, through), sql_limit(limit)])?;
    let mut found = entries(epoch, &mut rows, bytes)?;
    found.reverse();
    Ok(found)
}

/// The entries of some rows, and no more once they have `bytes`.
fn entries(epoch: u32, rows: &mut Rows<'_>, bytes: usize) -> Result<Vec<Arc<Entry>>, SqliteFault> {
    let mut found = Vec::new();
    let mut size = 0;
    while size < bytes
        && let Some(row) = rows.next()?
    {
        let entry = entry(epoch, row)?;
        size += entry.envelope.text().len();
        found.push(entry);
    }
    Ok(found)
}

fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The offset of the newest settled entry that arrived before a time, or `trimmed`. Times of arrival never fall along a topic,
/// so this takes a look at a few entries and no index.
pub(super) fn newest_before(db: &Connection, extent: &Extent, time: Timestamp) -> Result<u64, SqliteFault> {
    let Some(topic) = extent.topic else { return Ok(extent.trimmed) };
    let mut arrived = db.prepare_cached("SELECT arrived FROM entries WHERE key = ?1")?;
    // Everything up to `before` arrived before the time, everything from `not_before` did not.
    let (mut before, mut not_before) = (extent.trimmed, extent.head + 1);
    while not_before - before > 1 {
        let middle = before.midpoint(not_before);
        if arrived.query_row([key(topic, middle)], |row| row.get::<_, u64>(0))? < time.0 {
            before = middle;
        } else {
            not_before = middle;
        }
    }
    Ok(before)
}

pub(super) fn find(
    db: &Connection,
    epoch: u32,
    name: &TopicName,
    id: &EnvelopeId,
) -> Result<Option<Arc<Entry>>, SqliteFault> {
    let mut query = db.prepare_cached(
        "SELECT key, arrived, text, stamp FROM entries
         WHERE topic = (SELECT topic FROM topics WHERE name = ?1) AND id = ?2",
    )?;
    let mut rows = query.query([name.as_str(), id.as_str()])?;
    rows.next()?.map(|row| entry(epoch, row)).transpose()
}

/// The fold of everything settled.
pub(super) fn fold(db: &Connection, epoch: u32, extent: &Extent) -> Result<Fold, SqliteFault> {
    let mut standing = Standing::nothing(Position { epoch, offset: extent.head });
    let Some(topic) = extent.topic else { return Ok(Fold::restore(&standing)) };
    let mut joins = db.prepare_cached(
        "SELECT present.key, coalesce(present.arrived, entries.arrived), coalesce(present.text, entries.text), entries.stamp
         FROM present LEFT JOIN entries ON entries.key = present.key WHERE present.topic = ?1",
    )?;
    let mut rows = joins.query([topic])?;
    while let Some(row) = rows.next()? {
        standing.present.push(entry(epoch, row)?);
    }
    let mut notices = db.prepare_cached(
        "SELECT control.key, coalesce(control.arrived, entries.arrived), coalesce(control.text, entries.text),
             coalesce(control.stamp, entries.stamp)
         FROM control LEFT JOIN entries ON entries.key = control.key WHERE control.topic = ?1 ORDER BY control.key",
    )?;
    let mut rows = notices.query([topic])?;
    while let Some(row) = rows.next()? {
        standing.control.push(entry(epoch, row)?);
    }
    let mut calls = db.prepare_cached(
        "SELECT entries.key, arrived, text, stamp, failed FROM unanswered JOIN entries ON entries.key = unanswered.key
         WHERE unanswered.key BETWEEN ?1 AND ?2 ORDER BY unanswered.key DESC LIMIT ?3",
    )?;
    // As many as may wait, the host's among them, and as many as may have failed.
    let bounds = params![key(topic, 0), key(topic, LAST_OFFSET), sql_limit(3 * Standing::MAX_CALLS)];
    let mut rows = calls.query(bounds)?;
    let mut causes = HashMap::new();
    while let Some(row) = rows.next()? {
        let asked = entry(epoch, row)?;
        let Some(open) = OpenRequest::of(&asked).or_else(|| OpenRequest::held_by(&asked)) else { continue };
        match row.get(4)? {
            Some(at) => {
                let mut cause = match causes.entry((at, at == open.offset)) {
                    Slot::Occupied(cause) => *cause.get(),
                    Slot::Vacant(cause) => *cause.insert(failure_cause(db, topic, at, open.offset)?),
                };
                // A call that was held ends by the leave of its caller.
                if cause == FailureCause::CalleeLeft && ControlNotice::is_one(&asked.envelope) {
                    cause = FailureCause::Withdrawn;
                }
                standing.failed.push(FailedRequest { at, open, cause });
            }
            None => standing.waiting.push(open),
        }
    }
    standing.waiting.reverse();
    Ok(Fold::restore(&standing))
}

/// Why a call failed at an offset. It follows from the entry there: too many calls wait by another request, callees leave by presence, held
/// calls end by a decision or by their callers' cancellation.
fn failure_cause(db: &Connection, topic: i64, at: u64, asked: u64) -> Result<FailureCause, SqliteFault> {
    if at == asked {
        return Ok(FailureCause::CalleeLeft);
    }
    let key = key(topic, at);
    let mut query = db.prepare_cached("SELECT text FROM entries WHERE key = ?1")?;
    let Some(text) = query.query_row([key], |row| row.get::<_, String>(0)).optional()? else {
        return Ok(FailureCause::CalleeLeft);
    };
    let envelope = Envelope::restore(text).map_err(|_| SqliteFault::Entry { key })?;
    Ok(match envelope.message() {
        Some(Message::Request { .. }) => FailureCause::TooManyWaiting,
        Some(Message::Notification { .. }) => match ControlNotice::of(&envelope) {
            Some(ControlNotice::Decided(decided)) if decided.decision == Decision::Expired => FailureCause::Expired,
            Some(ControlNotice::Decided(decided)) if decided.decision == Decision::Dropped => FailureCause::Withdrawn,
            Some(ControlNotice::Decided(_)) => FailureCause::Denied,
            Some(ControlNotice::Redacted(_)) => FailureCause::Withdrawn,
            Some(_) => FailureCause::Stopped,
            None => FailureCause::Withdrawn,
        },
        _ => FailureCause::CalleeLeft,
    })
}
