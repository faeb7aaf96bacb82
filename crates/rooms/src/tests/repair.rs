//! Repair of presence where other nodes share the log: it costs nothing while nothing changes, and misses nothing that time brings.

use salon_protocol::{Compose, Kind, Presence, PresenceEvent, Timestamp};

use super::*;
use crate::room::Room;

/// A join, as another node appends it.
fn join(id: &str) -> Envelope {
    let participant = Participant::new(ParticipantId::new(id).expect("a name"));
    Compose {
        id: &format!("join-{id}"),
        ts: Timestamp(0),
        from: &ParticipantId::host(),
        to: &[],
        kind: Kind::Presence,
        correlation_id: None,
        payload: Presence { event: PresenceEvent::Join, participant, reason: None },
    }
    .envelope()
}

/// Rooms that are repaired only when a test says so. A participant without a place has departed at once.
fn unrepaired(log: &Arc<Faulty>) -> Rooms {
    let timings =
        Timings { repair_interval: Duration::from_secs(3600), orphan_timeout: Duration::ZERO, ..Timings::NORMAL };
    log.rooms_with(Settings { timings, ..settings() })
}

/// The open room, repaired until nothing is left to do: an entry may not have been read.
async fn settled(rooms: &Rooms, log: &Faulty) -> Arc<Room> {
    let room = rooms.visit_open(&room()).expect("it is open").room().clone();
    let settling = async {
        while !room.attendance().is_settled_at(log.roster_version(&room.topic)) {
            assert!(!room.repair().await.expect("a repair"), "somebody has departed");
            tokio::task::yield_now().await;
        }
    };
    soon("a room without anything to repair", settling).await;
    room
}

#[tokio::test]
async fn a_room_in_which_nothing_changes_reads_no_roster() {
    let log = Faulty::shared();
    let rooms = unrepaired(&log);
    let alice = enter(&rooms, "alice").await;
    let room = settled(&rooms, &log).await;
    let reads = || log.roster_reads.load(Ordering::SeqCst);
    let before = reads();
    for _ in 0..3 {
        assert!(!room.repair().await.expect("a repair"));
    }
    assert_eq!(reads(), before, "the roster was read although nothing had changed");
    log.roster_version.fetch_add(1, Ordering::SeqCst);
    for _ in 0..3 {
        assert!(!room.repair().await.expect("a repair"));
    }
    assert_eq!(reads(), before + 1, "a roster that has changed is read once");
    drop(alice);
    close(rooms, log).await;
}

#[tokio::test]
async fn a_roster_that_changes_while_it_is_read_is_read_again() {
    let log = Faulty::shared();
    let rooms = unrepaired(&log);
    let alice = enter(&rooms, "alice").await;
    let room = settled(&rooms, &log).await;
    let reads = || log.roster_reads.load(Ordering::SeqCst);
    log.changes_during_reads.store(1, Ordering::SeqCst);
    log.roster_version.fetch_add(1, Ordering::SeqCst);
    let before = reads();
    assert!(!room.repair().await.expect("a repair"));
    // As which nodes live may be as before again.
    log.changes_during_reads.store(0, Ordering::SeqCst);
    log.roster_version.fetch_sub(1, Ordering::SeqCst);
    assert!(!room.repair().await.expect("a repair"));
    assert_eq!(reads(), before + 2, "it was taken for settled by a roster of another version");
    drop(alice);
    close(rooms, log).await;
}

#[tokio::test]
async fn a_participant_without_a_place_departs_though_no_roster_changes() {
    let log = Faulty::shared();
    let rooms = unrepaired(&log);
    let alice = enter(&rooms, "alice").await;
    let room = settled(&rooms, &log).await;
    log.append(&room.topic, join("bob")).await.expect("stored");
    let bob = ParticipantId::new("bob").expect("a name");
    let read = async {
        while !room.attendance().fold().is_present(&bob) {
            tokio::task::yield_now().await;
        }
    };
    soon("the join to be read", read).await;
    assert!(room.repair().await.expect("a repair"), "a participant that no node has was not found");
    drop(alice);
    close(rooms, log).await;
}
