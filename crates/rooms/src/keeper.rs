//! Keeping a room: one task for as long as it is open, which brings it what its log has and removes participants that have gone.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use salon_log::{LogHealth, ReadError, Tail, Tailed};
use salon_protocol::{CloseReason, TopicName};
use tokio::time::{Instant, MissedTickBehavior};

use crate::lifecycle::Lifecycle;
use crate::registry::Rooms;
use crate::room::Room;
use crate::turn::is_only_presence;

/// How many entries a room takes from its log before it tells anybody of them.
const MAX_AT_ONCE: usize = 1024;

/// How often a room looks whether it is still needed.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(60);

impl Rooms {
    /// Runs a room, and lets go of it should it panic: the next participant finds it opened again.
    pub(crate) async fn watch_over(
        self,
        room: Arc<Room>,
        tail: Tail,
        host: BoxFuture<'static, ()>,
        grace: Option<Instant>,
    ) {
        let kept = AssertUnwindSafe(self.clone().keep(room.clone(), tail, host, grace)).catch_unwind().await;
        if kept.is_err() {
            tracing::error!(topic = %room.topic, "room: panicked and was closed; this is a defect");
        }
        room.advance(Lifecycle::Ended(CloseReason::Internal));
        self.forget(&room);
        // A participant that was just entering may have started the topic over, without a seat there.
        if room.is_deleted()
            && let Err(error) = self.recover_deleted(&room.topic).await
        {
            tracing::warn!(topic = %room.topic, %error, "presence recovery: deleted room unreadable");
        }
    }

    /// Runs a room until it is evicted.
    async fn keep(self, room: Arc<Room>, mut tail: Tail, host: BoxFuture<'static, ()>, grace: Option<Instant>) {
        let timings = self.0.common.settings.timings;
        room.advance(Lifecycle::Open);
        let mut closing = self.0.closing.subscribe();
        let mut grace = grace;
        let mut again = None;
        // At once: a call may have been approved, and the node that was to store it gone.
        let mut settling = Some(Instant::now());
        let mut health = self.log().health();
        // Not at once: the task that opened the room has yet to visit it.
        let mut housekeeping = tokio::time::interval_at(Instant::now() + HOUSEKEEPING_INTERVAL, HOUSEKEEPING_INTERVAL);
        let first_look = Instant::now() + first_repair_delay(&room.topic, timings.repair_interval);
        let mut looking = tokio::time::interval_at(first_look, timings.repair_interval);
        looking.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let is_shared = self.log().gone().is_some();
        let mut host = Some(host);
        let failed = loop {
            let outcome = tokio::select! { biased;
                () = async { drop(closing.wait_for(|closing| *closing).await) } => {
                    // Participants that went before have left. For as long as the shutdown waits: nobody is left here afterwards who
                    // would append that.
                    let removal = loop {
                        match room.remove_orphans().await {
                            Ok(false) => tokio::time::sleep(timings.retry_delay).await,
                            removal => break removal,
                        }
                    };
                    // The leaves are in the log; observers of the room see them too.
                    if let Some(tailed) = tail.next().now_or_never() {
                        drop(take_all(&room, tailed, &mut tail).await);
                    }
                    break removal.err();
                }
                tailed = tail.next() => take_all(&room, tailed, &mut tail).await,
                () = room.departure.notified() => {
                    // Closed to make room for another.
                    if room.has_ended() { return }
                    if room.is_deleted() { break None }
                    remove_orphans(&room, &mut again).await
                }
                () = at(again) => {
                    again = None;
                    remove_orphans(&room, &mut again).await
                }
                () = at(grace) => {
                    grace = None;
                    room.attendance().end_grace();
                    remove_orphans(&room, &mut again).await
                }
                () = async { if let Some(host) = &mut host { host.await } }, if host.is_some() => {
                    host = None;
                    Ok(())
                }
                () = room.control_changed.notified() => {
                    settling = room.enforce().await.map(|wait| Instant::now() + wait);
                    Ok(())
                }
                () = at(settling) => {
                    settling = room.enforce().await.map(|wait| Instant::now() + wait);
                    Ok(())
                }
                Ok(()) = health.changed() => {
                    if *health.borrow() == LogHealth::Writable {
                        room.reconcile();
                    }
                    Ok(())
                }
                _ = looking.tick(), if is_shared => {
                    match room.repair().await {
                        Ok(true) => remove_orphans(&room, &mut again).await,
                        repaired => repaired.map(drop),
                    }
                }
                _ = housekeeping.tick() => {
                    let now = Instant::now().into_std();
                    self.0.common.rates.sweep(now);
                    self.0.common.bridge_rates.sweep(now);
                    room.solicited.sweep(room.attendance().fold());
                    if self.evict(&room) { return }
                    Ok(())
                }
            };
            if let Err(error) = outcome {
                break Some(error);
            }
            if room.is_deleted() {
                break None;
            }
        };
        if let Some(error) = failed {
            tracing::error!(topic = %room.topic, %error, "room: log unreadable, closing the room");
        }
    }
}

/// How long after its opening a room is repaired first: a part of the interval that depends on its topic, so that rooms that are opened together
/// are not repaired together.
fn first_repair_delay(topic: &TopicName, interval: Duration) -> Duration {
    const PARTS: u32 = 1024;
    let mut hasher = DefaultHasher::new();
    topic.hash(&mut hasher);
    let part = (hasher.finish() % u64::from(PARTS)) as u32;
    interval / PARTS * (1 + part)
}

/// Removes participants that have gone, and says when to do so again where the log was out of reach.
async fn remove_orphans(room: &Room, again: &mut Option<Instant>) -> Result<(), ReadError> {
    if !room.remove_orphans().await? {
        *again = Some(Instant::now() + room.common.settings.timings.retry_delay);
    }
    Ok(())
}

/// Takes what a tail yields, together with what is waiting behind it: a room that is busy telling its readers tells them more at
/// once the next time. Comings and goings wait for more of them, but nothing else waits for that.
async fn take_all(room: &Room, first: Option<Result<Tailed, ReadError>>, tail: &mut Tail) -> Result<(), ReadError> {
    let told_at = Instant::now() + room.common.settings.timings.presence_delay;
    let mut next = first;
    let mut waiting = Vec::new();
    loop {
        match next {
            Some(Ok(Tailed::Entries(entries))) if waiting.is_empty() => waiting = entries,
            Some(Ok(Tailed::Entries(entries))) => waiting.extend(entries),
            // What the room has taken already is not missing.
            Some(Ok(Tailed::Gap { resume })) if resume.offset <= room.head() => {}
            Some(Ok(Tailed::Gap { resume })) => {
                room.take(std::mem::take(&mut waiting)).await;
                room.restart(resume).await?;
            }
            Some(Err(error)) => return Err(error),
            None => return Err(ReadError::Failed("the log has ended".into())),
        }
        if waiting.len() >= MAX_AT_ONCE {
            break;
        }
        match next_soon(room, tail, (!waiting.is_empty() && is_only_presence(&waiting)).then_some(told_at)).await {
            Some(more) => next = more,
            None => break,
        }
    }
    room.take(waiting).await;
    Ok(())
}

/// What a tail has now, or what it has until a moment. While there is one, comings and goings wake nobody.
async fn next_soon(room: &Room, tail: &mut Tail, until: Option<Instant>) -> Option<Option<Result<Tailed, ReadError>>> {
    if let Some(more) = tail.next().now_or_never() {
        return Some(more);
    }
    let until = until?;
    room.turn.set_gathering(true);
    let more = tokio::time::timeout_at(until, tail.next()).await.ok();
    room.turn.set_gathering(false);
    // What came without waking this task.
    more.or_else(|| tail.next().now_or_never())
}

/// Waits for a moment, or for ever.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_that_are_opened_together_are_not_repaired_together() {
        let interval = Duration::from_secs(3);
        let delay = |number: u32| {
            let topic = TopicName::new(format!("room:{number}")).expect("a name");
            first_repair_delay(&topic, interval)
        };
        let mut in_each_tenth = [0; 10];
        for number in 0..10_000 {
            let delay = delay(number);
            assert!(!delay.is_zero() && delay <= interval, "{delay:?}");
            in_each_tenth[(delay.as_millis() as usize * 10 / 3000).min(9)] += 1;
        }
        assert!(in_each_tenth.iter().all(|rooms| (800..1200).contains(rooms)), "{in_each_tenth:?}");
    }
}
