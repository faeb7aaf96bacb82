//! Over HTTP: a POST has its answer, everything else goes to the listener.

use super::*;

#[test]
fn a_post_is_answered_with_its_response() {
    let script = r#"
        1 request m1 bob {"tool":{"id":"t"}}
        seat
        list bob {"tools":[{"name":"t"}]}
        bob: initialize
        bob! notifications/progress {"progressToken":"m1","progress":1}
        bob: tools/call {"content":[{"type":"text","text":"hi"}]}
        2 notification m2 * {"context":{}}
        3 notification m3 - {"context":{}}
        4 raw nonsense
        5 request m5 dave {"tool":{"id":"t"}}
        refuse rate_limited
        6 notification m6 * {"context":{}}
        get 7
        bob* notifications/chat/message {"text":"one"}
    "#;
    assert_snapshot!(Play::posting().act(script), @r#"
    join
    consult bob tools
    ⇒ bob s-2 {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob s-3 {"method":"notifications/initialized"}
    ⇒ bob m1 {"id":"m1","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m1"}}}
    1 200 json
    1 ← {"header":{"id":"e3","type":"response","requestId":"m1","source":"bob","destination":"alice"},"payload":{"result":"hi"}}
    1 ends
    ⇒ * m2 {"method":"notifications/context","params":{"messageType":"notification","payload":{"context":{}}}}
    2 202
    2 ends
    3 400 json
    3 ← [recipient_required] {"header":{"id":"s-4","type":"error","requestId":"m3","source":"system:gateway","destination":"alice"},"error":{"code":"recipient_required","message":"a notification needs one participant, or `*` for all, as its `header.destination`"}}
    3 ends
    4 400 json
    4 ← [invalid_json] {"header":{"id":"s-5","type":"error","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_json","message":"the message is not valid JSON: not a JSON value at byte 0"}}
    4 ends
    5 404 json
    5 ← [recipient_not_found] {"header":{"id":"s-6","type":"error","requestId":"m5","source":"system:gateway","destination":"alice"},"error":{"code":"recipient_not_found","message":"`dave` is not in this room"}}
    5 ends
    ⇒ * m6 {"method":"notifications/context","params":{"messageType":"notification","payload":{"context":{}}}}
    6 429 json
    6 ← [rate_limited] {"header":{"id":"s-7","type":"error","requestId":"m6","source":"system:gateway","destination":"alice"},"error":{"code":"rate_limited","message":"no"}}
    6 ends
    7 200 events
    7 ← (s-1.1) {"header":{"id":"e2","type":"notification","requestId":"m1","source":"bob","destination":"alice"},"payload":{"stream":{"sequence":1,"progress":1,"final":false}}}
    7 ← (s-1.2) {"header":{"id":"e4","type":"notification","source":"bob","destination":"*"},"payload":{"chat":{"text":"one"}}}
    "#);
}

#[test]
fn a_listener_that_comes_back_misses_nothing() {
    let script = r#"
        get 1
        seat
        bob* notifications/chat/message {"text":"one"}
        bob* notifications/chat/message {"text":"two"}
        hangup 1
        bob* notifications/chat/message {"text":"three"}
        get 2 s-1.1
        bob* notifications/chat/message {"text":"four"}
        get 3
        get 4 other-1.1
        hangup 4
        bob* notifications/chat/message {"text":"five"}
        get 5 nonsense
    "#;
    assert_snapshot!(Play::posting().act(script), @r#"
    join
    1 200 events
    1 ← (s-1.1) {"header":{"id":"e1","type":"notification","source":"bob","destination":"*"},"payload":{"chat":{"text":"one"}}}
    1 ← (s-1.2) {"header":{"id":"e2","type":"notification","source":"bob","destination":"*"},"payload":{"chat":{"text":"two"}}}
    2 200 events
    2 ← (s-1.2) {"header":{"id":"e2","type":"notification","source":"bob","destination":"*"},"payload":{"chat":{"text":"two"}}}
    2 ← (s-1.3) {"header":{"id":"e3","type":"notification","source":"bob","destination":"*"},"payload":{"chat":{"text":"three"}}}
    2 ← (s-1.4) {"header":{"id":"e4","type":"notification","source":"bob","destination":"*"},"payload":{"chat":{"text":"four"}}}
    3 200 events
    2 ends
    4 200 events
    3 ends
    5 200 events
    5 ← (s-1.5) {"header":{"id":"e5","type":"notification","source":"bob","destination":"*"},"payload":{"chat":{"text":"five"}}}
    "#);
}

#[test]
fn a_seat_is_left_after_a_minute_without_a_connection() {
    let script = r#"
        1 notification m1 * {"context":{}}
        seat
        tick 59999
        get 2
        tick 60000
        tick 600000
        hangup 2
        tick 59999
        tick 1
    "#;
    assert_snapshot!(Play::posting().act(script), @r#"
    join
    ⇒ * m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{"context":{}}}}
    1 202
    1 ends
    2 200 events
    close bye
    "#);
}

#[test]
fn hanging_up_takes_a_request_back() {
    let script = r#"
        1 request m1 bob {"tool":{"id":"t"}}
        seat
        list bob {"tools":[{"name":"t"}]}
        bob: initialize
        hangup 1
        bob: tools/call {"content":[]}
        2 request m2 bob {"tool":{"id":"t"}}
        hangup 2
        list bob {"tools":[{"name":"t"}]}
    "#;
    assert_snapshot!(Play::posting().act(script), @r#"
    join
    consult bob tools
    ⇒ bob s-2 {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob s-3 {"method":"notifications/initialized"}
    ⇒ bob m1 {"id":"m1","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m1"}}}
    ⇒ bob s-4 re m1 {"method":"notifications/cancelled","params":{"reason":"the caller hung up","requestId":"m1"}}
    ⇒ bob m2 {"id":"m2","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m2"}}}
    ⇒ bob s-5 re m2 {"method":"notifications/cancelled","params":{"reason":"the caller hung up","requestId":"m2"}}
    "#);
}

#[test]
fn the_end_is_told_on_every_stream() {
    let script = r#"
        1 request m1 bob {"tool":{"id":"t"}}
        seat
        get 2
        3 request m3 bob {"tool":{"id":"t"}}
        closing
    "#;
    assert_snapshot!(Play::posting().act(script), @r#"
    join
    consult bob tools
    2 200 events
    consult bob tools
    1 503 json
    1 ← [closing] {"header":{"id":"s-3","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"closing","message":"the gateway is shutting down; connect again and resume"}}
    1 ends
    3 503 json
    3 ← [closing] {"header":{"id":"s-4","type":"error","requestId":"m3","source":"system:gateway","destination":"alice"},"error":{"code":"closing","message":"the gateway is shutting down; connect again and resume"}}
    3 ends
    2 ends
    close shutdown
    "#);
    assert_snapshot!(Play::posting().act("1 request m1 bob {\"tool\":{\"id\":\"t\"}}\nno-seat"), @r#"
    join
    1 429 json
    1 ← {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"rate_limited","message":"the room is full"}}
    1 ends
    close bye
    "#);
    assert_snapshot!(Play::posting().act("1 request m1 bob {\"tool\":{\"id\":\"t\"}}\nseat\ngap"), @r#"
    join
    consult bob tools
    1 503 json
    1 ← [closing] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"closing","message":"messages of the room that concern you are no longer kept"}}
    1 ends
    close bye
    "#);
}

#[test]
fn a_post_whose_outcome_is_not_known_at_the_end_is_answered_so() {
    let script = r#"
        1 notification m1 * {"context":{}}
        seat
        hold
        2 notification m2 * {"context":{}}
        3 request m3 system:gateway {"tool":{"id":"registry","capability":"register","parameters":{"id":"arm","capabilities":[{"name":"move"}]}}}
        closing
        take
        take
    "#;
    assert_snapshot!(Play::posting().act(script), @r#"
    join
    ⇒ * m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{"context":{}}}}
    1 202
    1 ends
    ⇒ * m2 {"method":"notifications/context","params":{"messageType":"notification","payload":{"context":{}}}}
    ⇒ * m3 {"method":"notifications/tools/list_changed"}
    2 503 json
    2 ← [closing] {"header":{"id":"s-2","type":"error","requestId":"m2","source":"system:gateway","destination":"alice"},"error":{"code":"closing","message":"the session ended before it was known whether the message was stored; with the same `messageId` it is stored once"}}
    2 ends
    3 503 json
    3 ← [closing] {"header":{"id":"s-3","type":"error","requestId":"m3","source":"system:gateway","destination":"alice"},"error":{"code":"closing","message":"the session ended before it was known whether the message was stored; with the same `messageId` it is stored once"}}
    3 ends
    close shutdown
    "#);
}

#[test]
fn what_waits_for_a_listener_is_bounded() {
    let mut play = Play::posting().after("1 notification m1 * {\"context\":{}}\nseat");
    for _ in 0..600 {
        play.run(r#"bob* notifications/chat/message {"text":"x"}"#);
    }
    let long = format!(r#"bob* notifications/chat/message {{"text":"{}"}}"#, "x".repeat(1 << 20));
    play.told.clear();
    play.run("get 2");
    assert_eq!(play.told.lines().count(), 1 + 1 + 512, "{}", play.told);
    let mut play = Play::posting().after("1 notification m1 * {\"context\":{}}\nseat");
    play.run(&[&*long; 4].join("\n"));
    play.told.clear();
    play.run("get 2");
    assert_eq!(play.told.lines().count(), 1 + 1 + 1);
}

#[test]
fn what_waits_for_the_seat_is_bounded() {
    let mut play = Play::new(|_| {});
    play.event(DialectEvent::StreamOpened(StreamId::ONLY, MachineOpening::Duplex));
    for at in 0..64 {
        play.run(&format!("notification m{at} * {{}}"));
    }
    play.told.clear();
    assert_snapshot!(play.act("notification late * {}"), @r#"← [rate_limited] {"header":{"id":"s-2","type":"error","requestId":"late","source":"system:gateway","destination":"alice"},"error":{"code":"rate_limited","message":"too many messages before the room was entered"}}"#);
}
