//! Promise 7: what follows from the entries is the same on every node and after every restart.

use super::{LogEngine, append, asked, follow, id, ids, line, presence, request, response, start, topic};
use crate::{AppendError, CallClosure, RetentionRules, Span, Standing, TopicLog};

/// Who is present and which requests wait, by the ids of their envelopes.
pub(super) fn shown(standing: &Standing) -> (Vec<String>, Vec<String>) {
    (ids(&standing.present), asked(&standing.waiting))
}

pub(super) async fn standing_is_a_fold(engine: &impl LogEngine) {
    let (mut log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    let nothing = log.standing(&room).await.expect("the standing of nobody's topic");
    assert_eq!(shown(&nothing), (vec![], vec![]), "7: something stands in a topic nobody entered");
    // Who is present, which requests wait, and which have failed, after each.
    let steps = [
        (presence("j1", "join", "alice"), &["j1"][..], &[][..], &[][..]),
        (presence("j2", "join", "bob"), &["j1", "j2"], &[], &[]),
        (request("r1", "alice", "bob"), &["j1", "j2"], &["r1"], &[]),
        (request("r2", "alice", "bob"), &["j1", "j2"], &["r1", "r2"], &[]),
        (response("a1", "bob", "r1"), &["j1", "j2"], &["r2"], &[]),
        (presence("j3", "join", "alice"), &["j2", "j3"], &["r2"], &[]),
        (presence("l1", "leave", "bob"), &["j3"], &[], &["r2"]),
        (request("r3", "alice", "bob"), &["j3"], &[], &["r2", "r3"]),
        (line("hello", "alice", "hello"), &["j3"], &[], &["r2", "r3"]),
        (presence("j4", "join", "bob"), &["j3", "j4"], &[], &["r2", "r3"]),
        (request("r4", "alice", "bob"), &["j3", "j4"], &["r4"], &["r2", "r3"]),
        (request("r5", "alice", "bob"), &["j3", "j4"], &["r4", "r5"], &["r2", "r3"]),
        (response("a4", "bob", "r4"), &["j3", "j4"], &["r5"], &["r2", "r3"]),
        (presence("j5", "join", "bob"), &["j3", "j5"], &[], &["r2", "r3", "r5"]),
    ];
    append(&log, &topic("elsewhere"), presence("j0", "join", "dave")).await;
    for (n, (envelope, present, waiting, failed)) in steps.into_iter().enumerate() {
        let id = envelope.id().clone();
        let entry = append(&log, &room, envelope).await;
        let before = log.standing(&room).await.expect("a standing");
        assert_eq!(before.head, entry.position, "7: the standing after {id} is not as of it");
        let texts = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let expected = (texts(present), texts(waiting));
        assert_eq!(shown(&before), expected, "7: who is present and what waits after {id}");
        let open = |standing: &Standing| standing.failed.iter().map(|call| call.open.clone()).collect::<Vec<_>>();
        assert_eq!(asked(&open(&before)), texts(failed), "7: which requests have failed after {id}");
        match n % 3 {
            1 => engine.trim(&log).await,
            2 => log = engine.restart(log).await,
            _ => continue,
        }
        let after = log.standing(&room).await.expect("a standing");
        assert_eq!(
            (after.head, shown(&after)),
            (entry.position, expected),
            "7: a restart after {id} changed the standing"
        );
        assert_eq!(after.present, before.present, "7: a restart after {id} changed an entry");
        assert_eq!(after.failed, before.failed, "7: a restart after {id} changed what has failed, or when");
    }
}

/// A call ends once, by what stands first in the log: its answer, or the leave of the participant that was asked.
pub(super) async fn calls_end_once(engine: &impl LogEngine) {
    let (mut log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    append(&log, &room, presence("j1", "join", "bob")).await;
    for name in ["r1", "r2", "r3"] {
        append(&log, &room, request(name, "alice", "bob")).await;
    }
    let mut tail = log.tail(&room, start(&log, &room).await);
    append(&log, &room, response("a1", "bob", "r1")).await;
    // Submitted together, so that each engine has to decide by the order in which it stores them.
    let together = [
        log.append(&room, response("a2", "bob", "r2")),
        log.append(&room, response("a2-again", "bob", "r2")),
        log.append(&room, presence("l1", "leave", "bob")),
        log.append(&room, response("a3", "bob", "r3")),
        log.append(&room, response("a9", "bob", "nothing")),
        log.append(&room, presence("l2", "leave", "bob")),
        log.append(&room, presence("l3", "leave", "carol")),
    ];
    let mut outcomes = Vec::new();
    for append in together {
        outcomes.push(append.await.map(|appended| appended.repeated));
    }
    let ended = |end| Err(AppendError::CallEnded(end));
    let (answered, failed) = (ended(CallClosure::Answered), ended(CallClosure::Failed));
    let absent = Err(AppendError::NotPresent);
    assert_eq!(
        outcomes,
        [Ok(false), answered.clone(), Ok(false), failed.clone(), answered, absent.clone(), absent],
        "7: a call ends twice, or somebody leaves who is not present"
    );
    append(&log, &room, line("last", "alice", "hello")).await;
    assert_eq!(ids(&follow(&mut tail, 4).await), ["a1", "a2", "l1", "last"], "7: a tail yields what was refused");
    for _ in 0..2 {
        let kept = log.read(&room, Span::Newest, 4).await.expect("a read");
        assert_eq!(ids(&kept), ["a1", "a2", "l1", "last"], "7: a refused answer is read");
        let begin = kept[0].position;
        let pages = async |limit| ids(&log.read(&room, Span::After(begin), limit).await.expect("a read"));
        assert_eq!(pages(1).await, ["a2"]);
        assert_eq!(pages(3).await, ["a2", "l1", "last"], "7: a page is short because of a refused answer");
        let before = log.read(&room, Span::Before(kept[3].position), 2).await.expect("a read");
        assert_eq!(ids(&before), ["a2", "l1"], "7: a page is short because of a refused answer");
        for name in ["a2-again", "a3", "a9", "l2", "l3"] {
            assert!(log.find(&room, &id(name)).await.expect("a search").is_none(), "7: {name} is found");
        }
        let again = log.append(&room, response("a3", "bob", "r3")).await.map(|appended| appended.repeated);
        assert_eq!(again, failed, "7: an answer that was refused is taken the second time");
        let again = log.append(&room, response("a2", "bob", "r2")).await.map(|appended| appended.repeated);
        assert_eq!(again, Ok(true), "7: an answer that was taken is refused the second time");
        engine.trim(&log).await;
        log = engine.restart(log).await;
    }
}

pub(super) async fn requests_are_found(engine: &impl LogEngine) {
    let (log, room) = (engine.create(RetentionRules::default()).await, topic("room"));
    let waits = async |name: &str| {
        let found = log.find(&room, &id(name)).await.expect("a search");
        let standing = log.standing(&room).await.expect("a standing");
        found.map(|found| (found.envelope.id() == &id(name), asked(&standing.waiting).iter().any(|open| open == name)))
    };
    assert_eq!(waits("r1").await, None, "7: something was found in a topic nobody entered");
    append(&log, &room, presence("j1", "join", "bob")).await;
    append(&log, &room, line("hello", "alice", "hello")).await;
    for name in ["r1", "r2", "r3"] {
        append(&log, &room, request(name, "alice", "bob")).await;
    }
    append(&log, &room, response("a1", "bob", "r1")).await;
    let before = [Some((true, false)), Some((true, false)), Some((true, true)), Some((true, true)), None];
    let names = ["hello", "r1", "r2", "r3", "r4"];
    for (name, expected) in names.iter().zip(before) {
        assert_eq!(waits(name).await, expected, "7: whether {name} is found, and waits");
    }
    engine.trim(&log).await;
    append(&log, &room, response("a2", "bob", "r2")).await;
    let after = [Some((true, false)), Some((true, false)), Some((true, false)), Some((true, true)), None];
    for (name, expected) in names.iter().zip(after) {
        assert_eq!(waits(name).await, expected, "7: whether {name} is found, and waits, later");
    }
    assert!(log.find(&topic("elsewhere"), &id("r3")).await.expect("a search").is_none(), "7: found in another topic");
}
