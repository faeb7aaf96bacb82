use super::*;
use crate::mcp::door::empty;

fn bob() -> ParticipantId {
    ParticipantId::new("bob").unwrap()
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap()
}

fn server() -> Box<RawValue> {
    raw(r#"{"protocolVersion":"2025-06-18","capabilities":{"logging":{}},"serverInfo":{"name":"b","version":"1"}}"#)
}

fn with_bob() -> DoorPeers {
    let mut peers = DoorPeers::default();
    peers.joined(&bob(), McpVersion::default());
    peers
}

fn is_done(peers: &DoorPeers, capabilities: &RawValue, now: Instant) -> bool {
    matches!(peers.handshake(&bob(), capabilities, now), Some(HandshakeStatus::Done(_)))
}

#[test]
fn one_handshake_is_under_way_at_a_time_and_serves_its_capabilities() {
    let now = Instant::now();
    let (mut peers, plain, roots) = (with_bob(), empty(), raw(r#"{"roots":{}}"#));
    assert!(peers.end_handshake(&bob(), Ok(&server()), Era::Legacy, now).is_none(), "none is under way");
    assert_eq!(peers.begin_handshake(&bob(), &plain, Era::Legacy), Some(Era::Legacy));
    assert_eq!(peers.begin_handshake(&bob(), &roots, Era::Legacy), None);
    [1, 2].into_iter().for_each(|number| peers.wait(&bob(), number));
    assert_eq!(peers.end_handshake(&bob(), Ok(&server()), Era::Legacy, now), Some(HandshakeEnd::Done(Era::Legacy)));
    assert!(is_done(&peers, &plain, now) && !is_done(&peers, &roots, now));
    let capabilities = |number| Some(if number == 1 { &*roots } else { &*plain });
    assert_eq!(peers.take_waiting(&bob(), capabilities), (vec![2], vec![1]));
    assert_eq!(peers.take_waiting(&bob(), capabilities), (vec![], vec![]), "a call is taken once");
    assert_eq!(peers.begin_handshake(&bob(), &roots, Era::Legacy), Some(Era::Legacy));
}

#[test]
fn a_participant_that_is_no_server_is_left_alone_for_longer_and_after_an_outage() {
    let (now, plain) = (Instant::now(), empty());
    for (code, quiet) in [(RpcError::INTERNAL, RETRY_AFTER), (RpcError::METHOD_NOT_FOUND, NO_SERVER_RETRY_AFTER)] {
        let mut peers = with_bob();
        peers.begin_handshake(&bob(), &plain, Era::Legacy);
        let failed = peers.end_handshake(&bob(), Err(RpcError::new(code, "no")), Era::Legacy, now);
        assert_eq!(failed, Some(HandshakeEnd::Failed));
        let is_failed = |peers: &DoorPeers, at| matches!(peers.handshake(&bob(), &empty(), at), Some(HandshakeStatus::Failed(error)) if error.code == code);
        assert!(is_failed(&peers, now) && !is_failed(&peers, now + quiet));
        peers.forgive();
        assert_eq!(is_failed(&peers, now), code == RpcError::METHOD_NOT_FOUND);
    }
}

#[test]
fn an_introduction_that_cannot_be_read_is_a_failure() {
    let (now, plain) = (Instant::now(), empty());
    let mut peers = with_bob();
    for (introduction, told) in [
        (raw("[]"), "`bob` introduced itself in a way that cannot be read"),
        (raw(r#"{"protocolVersion":"1999-01-01"}"#), "`bob` speaks MCP 1999-01-01, which is not known here"),
    ] {
        peers.begin_handshake(&bob(), &plain, Era::Legacy);
        peers.end_handshake(&bob(), Ok(&introduction), Era::Legacy, now);
        let Some(HandshakeStatus::Failed(error)) = peers.handshake(&bob(), &plain, now) else { panic!("{told}") };
        assert_eq!(error.message, told);
    }
}

#[test]
fn a_participant_that_joins_again_starts_over() {
    let (now, plain) = (Instant::now(), empty());
    let mut peers = with_bob();
    peers.begin_handshake(&bob(), &plain, Era::Legacy);
    peers.end_handshake(&bob(), Ok(&server()), Era::Legacy, now);
    peers.wait(&bob(), 7);
    assert_eq!(peers.joined(&bob(), McpVersion::default()), [7]);
    assert!(!is_done(&peers, &plain, now) && peers.server(&bob()).is_none());
    peers.wait(&bob(), 8);
    assert_eq!(peers.drop_handshake(&bob()), [8]);
    peers.left(&bob());
    assert!(peers.handshake(&bob(), &plain, now).is_none() && peers.len() == 0);
}

#[test]
fn only_a_participant_that_was_called_and_has_a_handshake_may_ask() {
    let (now, plain) = (Instant::now(), empty());
    let mut peers = with_bob();
    assert!(!peers.may_ask(&bob(), ROOTS));
    peers.begin_handshake(&bob(), &plain, Era::Legacy);
    peers.end_handshake(&bob(), Ok(&server()), Era::Legacy, now);
    assert!(!peers.may_ask(&bob(), "sampling/createMessage"), "it was not called");
    assert!(peers.grant_questions(&bob()), "it asked for the roots before");
    assert!(!peers.grant_questions(&bob()) && peers.may_ask(&bob(), ROOTS));
}

#[test]
fn a_level_is_told_once_after_a_handshake_to_participants_that_log() {
    let (now, plain) = (Instant::now(), empty());
    let mut peers = with_bob();
    assert!(!peers.note_level(&bob(), LogLevel::Info, Era::Legacy));
    for _ in 0..2 {
        peers.begin_handshake(&bob(), &plain, Era::Legacy);
        peers.end_handshake(&bob(), Ok(&server()), Era::Legacy, now);
        assert!(peers.note_level(&bob(), LogLevel::Info, Era::Legacy), "a handshake makes it forget the level");
        assert!(!peers.note_level(&bob(), LogLevel::Info, Era::Legacy));
    }
    peers.set_level(&bob(), LogLevel::Debug);
    assert!(!peers.note_level(&bob(), LogLevel::Debug, Era::Legacy));
}

#[test]
fn who_keeps_something_for_the_session_is_told_once() {
    let mut peers = with_bob();
    peers.note_session_keeper(&bob());
    assert_eq!((peers.take_session_keepers(), peers.take_session_keepers()), (vec![bob()], vec![]));
}
