use super::*;

/// A client of that revision that has met the gateway and listed its tools.
fn listener(revision: &str) -> Play {
    let mut play = Play::introduced(DoorScope::Room, "bob", revision, "{}");
    play.offers = vec![("system:gateway", "tools/list", r#"{"tools":[{"name":"room.wait"}]}"#)];
    play.after("call 0 tools/list\nsettle\ncall 0 tools/call {\"name\":\"room_wait\"}\nsettle\nidle {}")
}

#[test]
fn a_wait_without_an_event_never_reaches_the_room() {
    assert_snapshot!(listener("2025-06-18").act(
        r#"call 1 tools/call {"name":"room_wait","arguments":{"timeout_ms":0}}
        idle {"content":[],"structuredContent":{"events":[]}}
        call 2 tools/call {"name":"room_wait"}
        happened
        system:gateway: tools/call {"content":[],"structuredContent":{"events":[1]}}"#
    ), @r#"
    wait {"name":"room.wait","arguments":{"timeout_ms":0}}
    ← {"result":{"content":[],"structuredContent":{"events":[]}},"id":1}
    wait {"name":"room.wait"}
    ⇒ system:gateway {"id":"s-3","method":"tools/call","params":{"name":"room.wait"}}
    ← {"id":2,"result":{"content":[],"structuredContent":{"events":[1]}}}
    "#);
}

#[test]
fn a_wait_that_the_client_takes_back_is_ended() {
    assert_snapshot!(listener("2025-06-18").act(
        r#"call 1 tools/call {"name":"room_wait"}
        tell notifications/cancelled {"requestId":1}
        call 2 tools/call {"name":"room_wait"}
        closing"#
    ), @r#"
    wait {"name":"room.wait"}
    stop waiting
    wait {"name":"room.wait"}
    ← {"id":2,"error":{"code":-32000,"message":"the gateway is shutting down; connect again and resume"}}
    close shutdown
    "#);
}

#[test]
fn a_modern_client_is_answered_in_its_own_words() {
    let mut play = Play::duplex(DoorScope::One(ParticipantId::host()), "bob");
    play.run(r#"ask 1 tools/call {"name":"room.wait"}"#);
    play.run("seat");
    let play = play.after("settle");
    assert_snapshot!(play.act(r#"idle {"content":[]}"#), @r#"← {"result":{"content":[],"resultType":"complete","_meta":{"/serverInfo":{"name":"s","version":"1"}}},"id":1}"#);
}
