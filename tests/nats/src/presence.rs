//! Presence on several nodes is true again, whatever became of a node, of a place, or of the way to NATS.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use libtest_mimic::Trial;
use salon_control::GhostGrant;
use salon_log::nats::Nats;
use salon_log::{Claim, Lapse, LogHealth, ReadError, Tail, Tailed, TopicLog};
use salon_protocol::{CloseReason, Code, Draft, Limits, Participant, Presence, PresenceEvent};
use salon_rooms::{
    Admission, Arrival, BridgeSettings, ByteRates, Deliver, GhostIntroduction, Publishing, Rate, Rooms, Settings,
    Timings,
};
use salon_testkit::nats::{NatsServers, frame};
use salon_testkit::nats_trials;
use salon_testkit::proxy::Proxy;
use salon_testkit::{eventually, within};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::watch;

use crate::props::{at, claim, presence, room, roster, who};
use crate::ways::{Unanswered, lossy_way, way};

pub(crate) fn trials() -> Vec<Trial> {
    nats_trials![
        an_orphaned_participant_is_removed,
        participants_of_a_lost_node_are_removed,
        a_planned_stop_hands_places_over,
        a_participant_that_has_just_joined_at_another_node_can_be_called,
        ghosts_move_with_their_bridge_and_leave_with_its_node,
        a_shared_place_lapses_when_the_last_of_its_nodes_is_gone,
        a_node_that_was_cut_off_yields_to_living_nodes,
        a_place_that_was_claimed_in_vain_is_let_go_of,
        a_claim_that_is_late_is_let_go_of,
    ]
}

async fn node(url: &str) -> Arc<Nats> {
    Arc::new(Nats::open(at(url)).await.expect("a node"))
}

/// Rooms on a node, where a participant that is not back at once has left.
pub(crate) fn rooms(log: &Arc<Nats>) -> Rooms {
    let settings = Settings {
        ring: 1 << 20,
        rings: 1 << 20,
        rate: Rate::default(),
        byte_rates: ByteRates::UNLIMITED,
        bridges: BridgeSettings::default(),
        participants: 0,
        rooms: 0,
        rooms_each: 0,
        grace: Duration::ZERO,
        leaves: [7; 16],
        witness: None,
        timings: Timings::FAST,
    };
    Rooms::new(log.clone(), settings, Box::new(|_| Box::pin(std::future::pending())))
}

async fn enter(rooms: &Rooms, id: &str) -> Arrival {
    enter_for(rooms, id, None).await
}

async fn enter_for(rooms: &Rooms, id: &str, ghosts: Option<GhostGrant>) -> Arrival {
    let admission = Admission {
        participant: Participant::new(who(id)),
        claim: Claim::Exclusive,
        after: None,
        recent: None,
        deliver: Deliver::All,
        echo: true,
        stamp: None,
        ghosts,
    };
    rooms.enter(&room(), admission).await.expect("a seat")
}

/// What the log says of who comes and goes.
struct PresenceLog {
    tail: Tail,
    waiting: VecDeque<Presence>,
}

impl PresenceLog {
    async fn from_now(log: &Nats) -> Self {
        let begin = log.standing(&room()).await.expect("a standing").head;
        Self { tail: log.tail(&room(), begin), waiting: VecDeque::new() }
    }

    /// The next that is said of somebody.
    async fn next_of(&mut self, id: &str) -> PresenceEvent {
        let told = async {
            loop {
                while let Some(said) = self.waiting.pop_front() {
                    if said.participant.id.as_str() == id {
                        return said.event;
                    }
                }
                match self.tail.next().await {
                    Some(Ok(Tailed::Entries(entries))) => {
                        self.waiting.extend(entries.iter().filter_map(|entry| entry.envelope.presence()));
                    }
                    other => panic!("a tail yielded {other:?}"),
                }
            }
        };
        within(&format!("something to be said of {id}"), told).await.expect("in time")
    }
}

async fn is_gone(log: &Nats, count: u64) {
    let mut gone = log.gone().expect("several nodes");
    within("a node to be gone", gone.wait_for(|gone| *gone >= count)).await.expect("in time").expect("a log");
}

/// A place that another node took for a moment, and let go of without saying so in the log: its client hung up while it was let in, or
/// had a shared place on both and left both at once.
async fn an_orphaned_participant_is_removed() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = (node(&servers.url()).await, node(&servers.url()).await);
    let mut heard = PresenceLog::from_now(&one).await;
    let rooms = rooms(&one);
    let mut alice = enter(&rooms, "alice").await;
    let _bob = enter(&rooms, "bob").await;
    assert_eq!(heard.next_of("alice").await, PresenceEvent::Join);

    let (taken, _) = claim(&two, "alice", Claim::Exclusive).await;
    let ended = within("her seat to end", std::future::poll_fn(|cx| alice.seat.poll_rest(cx))).await;
    assert_eq!(ended, Ok(CloseReason::Replaced));
    drop(alice);
    // Once the room has removed a participant that left after her, it has seen that she is seated elsewhere.
    let carol = enter(&rooms, "carol").await;
    drop(carol);
    assert_eq!(heard.next_of("carol").await, PresenceEvent::Join);
    assert_eq!(heard.next_of("carol").await, PresenceEvent::Leave);
    drop(taken);
    assert_eq!(heard.next_of("alice").await, PresenceEvent::Leave);
    rooms.close().await;
    one.close().await;
    two.close().await;
}

/// A node that ended after it had let go of a place and before it could store the leave.
async fn participants_of_a_lost_node_are_removed() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = (node(&servers.url()).await, node(&servers.url()).await);
    let mut heard = PresenceLog::from_now(&one).await;
    let rooms = rooms(&one);
    let watching = tokio::spawn({
        let rooms = rooms.clone();
        async move { rooms.remove_lapsed().await }
    });
    two.append(&room(), presence("join")).await.expect("stored");
    assert_eq!(heard.next_of("alice").await, PresenceEvent::Join);
    two.close().await;
    assert_eq!(heard.next_of("alice").await, PresenceEvent::Leave);
    watching.abort();
    rooms.close().await;
    one.close().await;
}

/// A participant of a gateway that is stopped, back at another in time, has neither left nor joined.
async fn a_planned_stop_hands_places_over() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = (node(&servers.url()).await, node(&servers.url()).await);
    let mut heard = PresenceLog::from_now(&two).await;
    let (stopped, other) = (rooms(&one), rooms(&two));
    let _bob = enter(&other, "bob").await;
    let (alice, carol) = (enter(&stopped, "alice").await, enter(&stopped, "carol").await);
    for id in ["bob", "alice", "carol"] {
        assert_eq!(heard.next_of(id).await, PresenceEvent::Join);
    }
    stopped.dismiss();
    drop((alice, carol));
    stopped.close().await;
    one.close().await;
    let _alice = enter(&other, "alice").await;
    // Carol does not come back, so her time is over some time after alice's return.
    let told = async {
        loop {
            let Some(Ok(Tailed::Entries(entries))) = heard.tail.next().await else { panic!("a tail ended") };
            if let Some(said) = entries.iter().find_map(|entry| entry.envelope.presence()) {
                assert_eq!((said.participant.id.as_str(), said.event), ("carol", PresenceEvent::Leave));
                return;
            }
        }
    };
    within("carol's leave", told).await.expect("in time");
    other.close().await;
    two.close().await;
}

/// The caller may know of the join by another way than its own node, which has not read it yet.
async fn a_participant_that_has_just_joined_at_another_node_can_be_called() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let proxy = Proxy::to(servers.port(0)).await.expect("a proxy");
    let (one, two) = (node(&servers.url()).await, node(&proxy.url()).await);
    let (here, there) = (rooms(&one), rooms(&two));
    let bob = enter(&there, "bob").await.seat;
    let call = |id: &str, to: &str| {
        let payload = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let text = format!(
            r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"bob","to":["{to}"],"kind":"mcp","payload":{payload}}}"#
        );
        Draft::parse(text, &Limits::default()).expect("a draft")
    };
    proxy.hold();
    let carol = enter(&here, "carol").await;
    let outcomes = [bob.publish(call("c1", "carol")), bob.publish(call("c2", "nobody"))];
    proxy.release();
    let [called, refused] = outcomes.map(Publishing::outcome);
    let called = within("carol to be called", called).await.expect("in time").expect("an entry");
    assert_eq!(called.entry.envelope.id().as_str(), "c1");
    let refused = within("a refusal", refused).await.expect("in time").expect_err("nobody is there");
    assert_eq!(refused.code, Code::RecipientNotFound);
    drop((bob, carol));
    here.close().await;
    there.close().await;
    one.close().await;
    two.close().await;
}

/// A bridge that connects to another node takes the ghosts with it that it enters there. When that node dies, all of them leave.
async fn ghosts_move_with_their_bridge_and_leave_with_its_node() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let proxy = Proxy::to(servers.port(0)).await.expect("a proxy");
    let (one, two) = (node(&servers.url()).await, node(&proxy.url()).await);
    let mut heard = PresenceLog::from_now(&one).await;
    let (here, there) = (rooms(&one), rooms(&two));
    let watching = tokio::spawn({
        let rooms = here.clone();
        async move { rooms.remove_lapsed().await }
    });
    let _alice = enter(&here, "alice").await;
    let grant = || Some(GhostGrant::new(vec!["m:*".parse().expect("a namespace")]));
    let ghost = |id: &str| GhostIntroduction { id: who(id), name: None, kind: None };
    let first = enter_for(&here, "bridge", grant()).await.seat;
    for id in ["m:ann", "m:bob"] {
        first.ghosts().expect("a bridge").enter(ghost(id)).await.expect("entered");
        assert_eq!(heard.next_of(id).await, PresenceEvent::Join);
    }

    let second = enter_for(&there, "bridge", grant()).await.seat;
    second.ghosts().expect("a bridge").enter(ghost("m:ann")).await.expect("entered");
    drop(first);
    let mut kept = PresenceLog::from_now(&one).await;
    assert_eq!(heard.next_of("m:bob").await, PresenceEvent::Leave);
    // What she publishes comes after that, and she has not left before it.
    second.ghosts().expect("a bridge").enter(ghost("m:cat")).await.expect("entered");
    assert_eq!(kept.next_of("m:cat").await, PresenceEvent::Join);
    let standing = one.standing(&room()).await.expect("a standing");
    let present = |id: &str| {
        standing.present.iter().any(|entry| entry.envelope.presence().is_some_and(|one| one.participant.id == who(id)))
    };
    assert!(present("m:ann") && present("bridge") && !present("m:bob"));

    proxy.hold();
    for id in ["m:ann", "m:cat", "bridge"] {
        let gone = async || {
            let standing = one.standing(&room()).await.expect("a standing");
            let is_present = standing
                .present
                .iter()
                .filter_map(|entry| entry.envelope.presence())
                .any(|one| one.participant.id == who(id));
            (!is_present).then_some(())
        };
        eventually("everybody of the node to leave", gone).await.expect("in time");
    }
    watching.abort();
    proxy.release();
    drop(second);
    here.close().await;
    one.close().await;
    two.close().await;
}

async fn a_shared_place_lapses_when_the_last_of_its_nodes_is_gone() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (one, two) = (node(&servers.url()).await, node(&servers.url()).await);
    let three = node(&servers.url()).await;
    let mut lapses = one.lapses();
    let (_beside, _) = claim(&two, "bob", Claim::Shared).await;
    let (_bob, _) = claim(&three, "bob", Claim::Shared).await;
    // Without a goodbye, one after the other: the leases outlive the logs that gave them.
    drop(two);
    tokio::select! {
        lapse = lapses.next() => panic!("{lapse:?}, and the other node lives"),
        () = is_gone(&one, 1) => {}
    }
    drop(three);
    let lapse = within("the place to lapse", lapses.next()).await.expect("in time");
    assert_eq!(lapse, Some(vec![Lapse { topic: room(), participant: who("bob") }]));
    one.close().await;
}

/// A node that was cut off for longer than a lease does not take back what others have taken meanwhile, and declares nobody dead by
/// what it remembers.
async fn a_node_that_was_cut_off_yields_to_living_nodes() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let proxy = Proxy::to(servers.port(0)).await.expect("a proxy");
    let (cut_off, other) = (node(&proxy.url()).await, node(&servers.url()).await);
    let mut lapses = other.lapses();
    let (_alice, lost) = claim(&cut_off, "alice", Claim::Exclusive).await;
    let (_bob, mut kept_bob) = claim(&other, "bob", Claim::Exclusive).await;
    let mut health = cut_off.health();
    let is_two = async || (cut_off.roster(&room()).await.expect("a roster").len() == 2).then_some(());
    eventually("both to be known", is_two).await.expect("in time");

    proxy.hold();
    let lapse = within("its place to lapse", lapses.next()).await.expect("in time");
    assert_eq!(lapse, Some(vec![Lapse { topic: room(), participant: who("alice") }]));
    let (_newer, mut kept) = claim(&other, "alice", Claim::Exclusive).await;
    assert!(matches!(*health.borrow_and_update(), LogHealth::Unreachable(_)), "it cannot know that it is well");
    proxy.release();

    // Until it has listened for a lease, it counts nobody as gone.
    let mut lost = lost;
    let is_told = async || {
        let roster = cut_off.roster(&room()).await.expect("a roster");
        assert!(roster.contains(&who("bob")), "a node that lives was taken to be gone: {roster:?}");
        Some(lost.try_recv()).filter(|told| *told != Err(TryRecvError::Empty))
    };
    assert_eq!(eventually("the older holder to hear of it", is_told).await.expect("in time"), Ok(()));
    let well = health.wait_for(|health| *health == LogHealth::Writable);
    within("it to be well", well).await.expect("in time").expect("it says so");
    assert_eq!(kept.try_recv(), Err(TryRecvError::Empty), "the newer holder lost its place to the older one");
    assert_eq!(kept_bob.try_recv(), Err(TryRecvError::Empty));
    cut_off.close().await;
    other.close().await;
}

/// A claim that is stored and not acknowledged, at a node that hears of nothing that becomes of places.
async fn a_place_that_was_claimed_in_vain_is_let_go_of() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (is_deaf, unanswered) = (Arc::new(AtomicBool::new(false)), Unanswered::default());
    let is_lost = is_deaf.clone();
    let url = lossy_way(servers.port(0), move |frame| {
        let is_of_place = is_lost.load(Ordering::Relaxed) && frame.word(1).starts_with("$KV.salon-seats.");
        if is_of_place && frame.is_clients {
            unanswered.note(frame);
        }
        unanswered.has(frame) || (is_of_place && !frame.is_clients)
    });
    let (one, other) = (node(&url.await).await, node(&servers.url()).await);
    // So it knows of the place, and that it is nobody's.
    let (before, _) = claim(&other, "alice", Claim::Exclusive).await;
    roster(&one, &["alice"]).await;
    drop(before);
    roster(&one, &[]).await;

    is_deaf.store(true, Ordering::Relaxed);
    let claiming = one.claim(&room(), &who("alice"), Claim::Exclusive, Box::new(|| {}));
    roster(&other, &["alice"]).await;
    let given_up = within("the claim to be given up", claiming).await.expect("in time").map(drop);
    assert!(matches!(given_up, Err(ReadError::Unavailable(_))), "{given_up:?}");
    roster(&other, &[]).await;
    one.close().await;
    other.close().await;
}

/// A claim that comes to the server only after the claimant was told that it failed.
async fn a_claim_that_is_late_is_let_go_of() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let (held, is_due) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let (late, due) = (held.clone(), is_due.clone());
    // How often it was looked at the place, and how often it was claimed.
    let (tell, mut told) = watch::channel((0, 0));
    let url = way(servers.port(0), move |frame| {
        let mut late = late.lock().expect("unpoisoned");
        let passed = match (frame.is_clients, due.load(Ordering::Relaxed)) {
            (true, false) if frame.word(1).starts_with("$KV.salon-seats.") => {
                late.push(frame);
                tell.send_modify(|(_, claims)| *claims += 1);
                Vec::new()
            }
            (true, false) if frame.line.contains("STREAM.MSG.GET.KV_salon-seats ") => {
                tell.send_modify(|(looks, _)| *looks += 1);
                vec![frame]
            }
            // The first of them: the others came later, and would be refused.
            (true, true) => late.drain(..).take(1).chain([frame]).collect(),
            _ => vec![frame],
        };
        std::future::ready(passed)
    });
    let one = node(&url.await).await;
    let mut said = servers.wire("SUB $KV.salon-seats.> 1\r\nPING\r\n").await.expect("a connection");
    let mut heard = async |wanted: &str| {
        let heard = async {
            loop {
                let (line, body) = frame(&mut said).await.expect("a frame");
                if String::from_utf8_lossy(&[line.into_bytes(), body].concat()).contains(wanted) {
                    return;
                }
            }
        };
        within(wanted, heard).await.expect("in time");
    };
    heard("PONG").await;
    let claiming = one.claim(&room(), &who("alice"), Claim::Exclusive, Box::new(|| {}));
    let given_up = within("the claim to be given up", claiming).await.expect("in time").map(drop);
    assert!(matches!(given_up, Err(ReadError::Unavailable(_))), "{given_up:?}");
    // Each try begins with a look, and what follows the last of them, too.
    let looked = told.wait_for(|(looks, claims)| looks > claims);
    within("a look at what is stored", looked).await.expect("in time").expect("a way");
    is_due.store(true, Ordering::Relaxed);
    heard(r#""participant":"alice""#).await;
    heard("KV-Operation").await;
    roster(&one, &[]).await;
    one.close().await;
}
