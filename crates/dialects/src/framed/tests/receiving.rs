use super::*;

const CHAT: &str = r#"{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"hi"}}"#;

/// What was received, without the payloads.
fn brief(told: &str) -> String {
    told.replace(CHAT, "…")
}

#[test]
fn nothing_is_taken_from_the_room_before_it_is_wanted() {
    let mut play = Play::seated();
    assert_snapshot!(brief(&play.run(&format!(r#"
        wants
        1 RECEIVE r1 {{"timeout":5000}}
        wants
        bob → * e1 {CHAT}
        wants
        1 RECEIVE r2 {{"timeout":"5000"}}
        wants
        tick 4999
        tick 1
        wants
    "#))), @r#"
    wants false
    wants true
    1 ← 200 RECEIVE r1 {"messages":[{"id":"e1","sender":"bob","payload":…,"timestamp":5001,"destination":"*","kind":"mcp"}]}
    wants false
    wants true
    1 ← 200 RECEIVE r2 {"messages":[]}
    wants false
    "#);
}

#[test]
fn one_look_at_the_room_is_one_batch() {
    let mut play = Play::seated();
    play.line(r#"1 RECEIVE r1 {"timeout":5000}"#);
    for number in 0..103 {
        play.publish(&format!("bob → * e{number} {CHAT}"));
    }
    play.collect();
    let first = std::mem::take(&mut play.told);
    assert_eq!(first.matches("\"id\"").count(), 100);
    assert!(!play.framed.ready(), "what waits here is received first");
    let second = play.run(r#"1 RECEIVE r2 {"timeout":0}"#);
    assert_eq!(second.matches("\"id\"").count(), 3);
}

#[test]
fn a_batch_ends_when_it_is_large_but_has_at_least_one_message() {
    let mut play = Play::seated();
    play.line(r#"1 RECEIVE r1 {"timeout":5000}"#);
    let large =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"p":"{}"}}}}"#, "x".repeat(300 << 10));
    for number in 0..3 {
        play.publish(&format!("bob → * e{number} {large}"));
    }
    play.collect();
    assert_eq!(std::mem::take(&mut play.told).matches("\"sender\"").count(), 1);
    for stream in [1, 1] {
        assert_eq!(play.run(&format!("{stream} RECEIVE r2 {{}}")).matches("\"sender\"").count(), 1);
    }
}

#[test]
fn a_batch_comes_again_until_it_is_acknowledged() {
    let mut play = Play::seated();
    assert_snapshot!(brief(&play.run(&format!(r#"
        1 RECEIVE r1 {{}}
        bob → * e1 {CHAT}
        hangup 1
        2 RECEIVE r2 {{}}
        3 RECEIVE r3 {{}}
        2 RECEIVE r4 {{}}
        bob → * e2 {CHAT}
        2 RECEIVE r5 {{}}
        bob → * e3 {CHAT}
    "#))), @r#"
    1 ← 200 RECEIVE r1 {"messages":[{"id":"e1","sender":"bob","payload":…,"timestamp":5001,"destination":"*","kind":"mcp"}]}
    2 ← 200 RECEIVE r2 {"messages":[{"id":"e1","sender":"bob","payload":…,"timestamp":5001,"destination":"*","kind":"mcp"}]}
    3 ← 200 RECEIVE r3 {"messages":[{"id":"e1","sender":"bob","payload":…,"timestamp":5001,"destination":"*","kind":"mcp"}]}
    2 ← 200 RECEIVE r4 {"messages":[{"id":"e2","sender":"bob","payload":…,"timestamp":5002,"destination":"*","kind":"mcp"}]}
    2 ← 200 RECEIVE r5 {"messages":[{"id":"e3","sender":"bob","payload":…,"timestamp":5003,"destination":"*","kind":"mcp"}]}
    "#);
}

#[test]
fn what_was_redacted_meanwhile_does_not_come_again() {
    let mut play = Play::seated();
    play.run(&format!("1 RECEIVE r1 {{}}\nbob → * e1 {CHAT}\nhangup 1"));
    play.told.clear();
    let text = r#"{"protocol":"mcp-x/v0","id":"e1","ts":"1970-01-01T00:00:00Z","from":"bob","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/gone"}}"#;
    let tombstone = entry(1, text.into());
    play.framed.refresh(&|_| tombstone.clone());
    let again = play.run("2 RECEIVE r2 {}");
    assert!(again.contains("notifications/gone") && !again.contains(CHAT), "{again}");
}

#[test]
fn what_was_sent_into_a_broken_connection_goes_to_a_stream_that_waits() {
    let mut play = Play::seated();
    assert_snapshot!(brief(&play.run(&format!(r#"
        1 RECEIVE r1 {{}}
        2 RECEIVE r2 {{}}
        bob → * e1 {CHAT}
        hangup 1
    "#))), @r#"
    1 ← 200 RECEIVE r1 {"messages":[{"id":"e1","sender":"bob","payload":…,"timestamp":5001,"destination":"*","kind":"mcp"}]}
    2 ← 200 RECEIVE r2 {"messages":[{"id":"e1","sender":"bob","payload":…,"timestamp":5001,"destination":"*","kind":"mcp"}]}
    "#);
}

#[test]
fn two_connections_share_what_comes_and_do_nothing_twice() {
    let mut play = Play::seated();
    // The second was there before the batch was, and the first is at work on it.
    assert_snapshot!(brief(&play.run(&format!(r#"
        1 RECEIVE r1 {{}}
        2 RECEIVE r2 {{"timeout":0}}
        tick 1
        bob → * e1 {CHAT}
        2 RECEIVE r3 {{"timeout":100}}
        tick 100
        2 RECEIVE r4 {{}}
        hangup 1
    "#))), @r#"
    1 ← 200 RECEIVE r1 {"messages":[{"id":"e1","sender":"bob","payload":…,"timestamp":5001,"destination":"*","kind":"mcp"}]}
    2 ← 200 RECEIVE r2 {"messages":[]}
    2 ← 200 RECEIVE r3 {"messages":[]}
    2 ← 200 RECEIVE r4 {"messages":[{"id":"e1","sender":"bob","payload":…,"timestamp":5001,"destination":"*","kind":"mcp"}]}
    "#);
}

#[test]
fn who_hung_up_takes_nothing() {
    let mut play = Play::seated();
    assert_snapshot!(brief(&play.run(&format!(r#"
        1 RECEIVE r1 {{}}
        2 RECEIVE r2 {{}}
        hangup 1
        bob → * e1 {CHAT}
    "#))), @r#"2 ← 200 RECEIVE r2 {"messages":[{"id":"e1","sender":"bob","payload":…,"timestamp":5001,"destination":"*","kind":"mcp"}]}"#);
    play.event(DialectEvent::StreamClosed(StreamId(2)));
    play.framed.handle_frame(StreamId(2), Frame::Binary(request("RECEIVE", "{}")), play.now);
    assert_eq!(play.run("wants"), "wants false\n");
}

fn request(method: &str, body: &str) -> Box<[u8]> {
    let header = format!(r#"{{"id":"x","method":"{method}","version":"MCP/1.0"}}"#);
    encode(header.as_bytes(), body.as_bytes())
}

#[test]
fn messages_say_what_their_envelopes_say() {
    let mut play = Play::seated();
    play.line("1 RECEIVE r1 {}");
    play.presence(PresenceEvent::Join, "bob");
    play.presence(PresenceEvent::Join, "alice");
    play.publish(r#"bob → alice q1 {"jsonrpc":"2.0", "id":12345678901234567890,"method":"tools/call"}"#);
    play.publish(r#"bob → alice,carol n1/e0 {"jsonrpc":"2.0","method":"notifications/x"}"#);
    play.event(DialectEvent::CallFailed {
        request: EnvelopeId::new("x:s1").unwrap(),
        id: RpcId::parse("\"7\"").unwrap(),
        callee: id("bob"),
        cause: FailureCause::CalleeLeft,
        reason: None,
    });
    play.event(DialectEvent::Gap);
    play.collect();
    assert_snapshot!(play.told.replace("},{\"id\"", "},\n{\"id\""), @r#"
    1 ← 200 RECEIVE r1 {"messages":[{"id":"p1","sender":"system:gateway","payload":{"event":"join","participant":{"id":"bob","mcp":{"version":"2025-06-18"}}},"timestamp":5001,"destination":"*","kind":"presence"},
    {"id":"q1","sender":"bob","payload":{"jsonrpc":"2.0", "id":12345678901234567890,"method":"tools/call"},"timestamp":5003,"destination":"alice","kind":"mcp"},
    {"id":"n1","sender":"bob","payload":{"jsonrpc":"2.0","method":"notifications/x"},"timestamp":5004,"destination":["alice","carol"],"kind":"mcp","correlationId":"e0"},
    {"id":"x-1","sender":"system:gateway","payload":{"jsonrpc":"2.0","id":"7","error":{"code":-32000,"message":"`bob` left before it answered","data":{"code":"recipient_not_found"}}},"timestamp":1000,"destination":"alice","kind":"mcp","correlationId":"x:s1"},
    {"id":"x-2","sender":"system:gateway","payload":{"event":"error","type":"error","code":"not_found","message":"messages before the next one are no longer kept, and you have not received them"},"timestamp":1000,"destination":"alice","kind":"system"}]}
    "#);
}

#[test]
fn an_outage_is_reported_to_receivers_that_ask_and_not_later_to_others() {
    let mut play = Play::seated();
    play.event(DialectEvent::Outage);
    play.event(DialectEvent::Recovered);
    assert_eq!(play.run("1 RECEIVE r1 {}"), "", "it is over");
    play.event(DialectEvent::Outage);
    play.collect();
    let told = std::mem::take(&mut play.told);
    assert!(told.starts_with("1 ← 200 RECEIVE r1 ") && told.contains(r#""code":"closing""#), "{told}");
    assert!(told.contains(r#""details":{"passing":true}"#) && told.contains(r#""kind":"system""#), "{told}");
    play.event(DialectEvent::Recovered);
    let told = play.run("1 RECEIVE r2 {}");
    assert!(told.contains(r#""payload":{"event":"ready","type":"ready""#), "{told}");
}

#[test]
fn not_everybody_may_wait() {
    let mut play = Play::seated();
    for number in 0..super::super::receiving::MAX_WAITING {
        assert_eq!(play.run(&format!("1 RECEIVE w{number} {{}}")), "");
    }
    assert_snapshot!(play.run("1 RECEIVE one-too-many {}"), @r#"1 ← 429 RECEIVE one-too-many {"status":"error","code":"rate_limited","message":"16 RECEIVEs of this session wait already"}"#);
}

#[test]
fn polling_counts_only_when_it_does_not_wait() {
    let mut play = Play::seated();
    play.run(r#"1 RECEIVE r1 {"timeout":1000}"#);
    assert!(!play.framed.is_counted());
    play.run(r#"1 RECEIVE r2 {"timeout":0}"#);
    assert!(play.framed.is_counted());
    play.run(r#"1 SEND s1 {}"#);
    assert!(play.framed.is_counted());
}
