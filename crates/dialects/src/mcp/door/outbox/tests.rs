use super::*;
use crate::mcp::door::DoorScope;
use insta::assert_snapshot;
use salon_protocol::{Timestamp, TopicName};

fn outbox(now: Instant) -> Outbox {
    let options = McpDoorOptions {
        me: id("alice"),
        topic: TopicName::new("room:a").unwrap(),
        scope: DoorScope::Room,
        limits: Limits { message: 2048, answer: 2048, ..Limits::default() },
        session: None,
        idle: None,
        vanished_timeout: Duration::ZERO,
        list_max_age: Duration::ZERO,
        returning_until: None,
        few: 0,
        first: 0,
        salt: [0; 16],
        version: "9",
    };
    Outbox::new(&options, Stamps::new("s", now, Timestamp(0)))
}

fn id(who: &str) -> ParticipantId {
    ParticipantId::new(who).unwrap()
}

fn note(outbox: &mut Outbox, method: &str, now: Instant) {
    outbox.notify(&[id("bob")], None, method, None, now);
}

fn answer(outbox: &mut Outbox, text: &str, now: Instant) {
    let request = EnvelopeId::new("e9").unwrap();
    let number = RpcId::parse("7").unwrap();
    let result = RawValue::from_string(format!("{text:?}")).unwrap();
    outbox.reply(&id("bob"), &request, &number, &Ok(result), now);
}

/// What was sent since: tickets, and the envelopes' ids.
fn sent(outbox: &mut Outbox) -> String {
    let mut sent = Vec::new();
    while let Some(action) = outbox.poll_action() {
        match action {
            DialectAction::Publish(Ticket(ticket), draft) => sent.push(format!("{ticket}:{}", draft.envelope().id())),
            DialectAction::Reply(Ticket(ticket), draft) => {
                sent.push(format!("{ticket}:{} reply", draft.envelope().id()));
            }
            other => sent.push(format!("{other:?}")),
        }
    }
    sent.join(", ")
}

fn busy() -> Refusal {
    Refusal::new(Code::RateLimited, "too much")
}

#[test]
fn late_drafts_follow_the_oldest_one_by_one_under_their_ids() {
    let now = Instant::now();
    let mut outbox = outbox(now);
    ["a", "b", "c"].iter().for_each(|method| note(&mut outbox, method, now));
    assert_snapshot!(sent(&mut outbox), @"1:s-1, 2:s-2, 3:s-3");
    for ticket in [2, 1, 3] {
        assert!(outbox.keeps(Ticket(ticket)));
        assert_eq!(outbox.refused(Ticket(ticket), &busy(), now), None);
    }
    assert!(outbox.is_late());
    assert_eq!(sent(&mut outbox), "");
    assert_eq!(outbox.timers.take(now + RETRY_DELAY), Some(DoorTimer::Late));
    outbox.retry();
    assert_snapshot!(sent(&mut outbox), @"4:s-1");
    outbox.retry();
    assert_eq!(sent(&mut outbox), "", "one is tried at a time");
    outbox.accepted(Ticket(4));
    assert_snapshot!(sent(&mut outbox), @"5:s-2");
    outbox.refused(Ticket(5), &Refusal::new(Code::RecipientNotFound, "gone"), now);
    assert_snapshot!(sent(&mut outbox), @"6:s-3");
    outbox.accepted(Ticket(6));
    assert!(!outbox.is_late() && outbox.timers.next().is_none());
}

#[test]
fn an_outage_holds_everything_back_and_its_end_sends_all_of_it() {
    let now = Instant::now();
    let mut outbox = outbox(now);
    note(&mut outbox, INITIALIZED, now);
    note(&mut outbox, "b", now);
    sent(&mut outbox);
    outbox.outage();
    outbox.refused(Ticket(1), &busy(), now);
    outbox.refused(Ticket(2), &busy(), now);
    assert!(outbox.is_unwelcomed(&id("bob")), "its handshake is not over");
    assert_eq!(outbox.retry(), None);
    assert_eq!(sent(&mut outbox), "");
    assert_eq!(outbox.recovered(), [id("bob")]);
    assert_snapshot!(sent(&mut outbox), @"3:s-1, 4:s-2");
    assert!(!outbox.is_unwelcomed(&id("bob")));
}

#[test]
fn what_is_kept_is_bounded() {
    let now = Instant::now();
    let mut outbox = outbox(now);
    for _ in 0..MAX_NOTES + 1 {
        note(&mut outbox, "a", now);
    }
    assert!(outbox.keeps(Ticket(1)) && !outbox.keeps(Ticket(MAX_NOTES as u64 + 1)));
    assert!(outbox.has_room(), "notifications do not stop the room from being read");
    for _ in 0..MAX_ANSWERS {
        answer(&mut outbox, "yes", now);
    }
    assert!(!outbox.has_room());
    outbox.accepted(Ticket(MAX_NOTES as u64 + 2));
    assert!(outbox.has_room());
}

#[test]
fn an_answer_that_is_too_long_becomes_an_error() {
    let now = Instant::now();
    let mut outbox = outbox(now);
    answer(&mut outbox, &"x".repeat(4096), now);
    let Some(DialectAction::Reply(_, draft)) = outbox.poll_action() else { panic!("no answer") };
    assert!(draft.envelope().payload().contains("\"error\""), "{}", draft.envelope().payload());
    assert!(outbox.poll_action().is_none());
}

#[test]
fn an_answer_that_the_room_has_no_place_for_becomes_an_error_once() {
    let now = Instant::now();
    let mut outbox = outbox(now);
    for code in [Code::StorageFull, Code::TooLarge] {
        answer(&mut outbox, "much", now);
        let Some(DialectAction::Reply(ticket, _)) = outbox.poll_action() else { panic!("no answer") };
        outbox.refused(ticket, &Refusal::new(code, "the limit is 5 (`limits.x`)"), now);
        let Some(DialectAction::Reply(ticket, draft)) = outbox.poll_action() else { panic!("nothing is said") };
        let envelope = draft.envelope();
        assert_eq!((envelope.to(), envelope.correlation()), (&[id("bob")][..], EnvelopeId::new("e9").ok().as_ref()));
        assert!(envelope.payload().contains(r#""id":7,"error""#), "{}", envelope.payload());
        assert!(envelope.payload().contains("the limit is 5 (`limits.x`)"), "{}", envelope.payload());
        assert!(envelope.payload().contains(code.word()), "{}", envelope.payload());
        outbox.refused(ticket, &Refusal::new(code, "not even that"), now);
        assert!(outbox.poll_action().is_none(), "it is not repeated");
    }
    answer(&mut outbox, "late", now);
    let Some(DialectAction::Reply(ticket, _)) = outbox.poll_action() else { panic!("no answer") };
    outbox.refused(ticket, &Refusal::new(Code::CallEnded, "over"), now);
    assert!(outbox.poll_action().is_none(), "nobody waits for an answer to a call that has ended");
}
