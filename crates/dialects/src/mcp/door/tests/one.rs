//! One participant as itself.

use super::*;

fn one() -> Play {
    Play::introduced(DoorScope::One(id("bob")), "bob carol", "2025-06-18", ASKABLE)
        .after(&format!("bob: initialize {SERVER}"))
}

#[test]
fn the_handshake_is_the_participants_own() {
    let play = Play::duplex(DoorScope::One(id("bob")), "bob carol");
    let script = r#"
        call 1 initialize {"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"c"}}
        call 2 tools/list {"cursor":"theirs"}
        seat
        bob: initialize {"protocolVersion":"2025-06-18","capabilities":{"tools":{},"experimental":{"n": 1.0}},"serverInfo":{"name":"b","version":"1"},"instructions":"be kind","n": 12345678901234567890}
        bob: tools/list {"tools":[{"name":"t"}],"nextCursor":"more"}
    "#;
    assert_snapshot!(play.act(script), @r#"
    join c 2025-11-25
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"c"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/list","params":{"cursor":"theirs"}}
    ← {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"experimental":{"n": 1.0}},"serverInfo":{"name":"b","version":"1"},"instructions":"be kind","n":12345678901234567890}}
    ← {"id":2,"result":{"tools":[{"name":"t"}],"nextCursor":"more"}}
    "#);
}

#[test]
fn what_was_agreed_is_what_is_spoken() {
    let play = Play::introduced(DoorScope::One(id("bob")), "bob", "2025-11-25", ASKABLE);
    let script = r#"
        bob: initialize {"protocolVersion":"2025-03-26","capabilities":{"tools":{}}}
        client [{"jsonrpc":"2.0","id":1,"method":"ping"}]
        call 2 tools/call {"name":"t"}
        bob? 1 @tools/call elicitation/create {"message":"?"}
    "#;
    assert_snapshot!(play.act(script), @r#"
    ⇒ bob {"method":"notifications/initialized"}
    ← {"id":0,"result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{}}}}
    ← {"id":1,"result":{}}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t"}}
    ⇒ bob re e2 {"id":1,"result":{"action":"decline"}}
    "#);
}

#[test]
fn an_absent_participant_cannot_be_introduced() {
    let hello = r#"call 1 initialize {"protocolVersion":"2025-06-18","capabilities":{}}"#;
    assert_snapshot!(Play::duplex(DoorScope::One(id("dave")), "bob").act(&format!("{hello}\nseat")), @r#"
    join - 2025-06-18
    ← {"id":1,"error":{"code":-32000,"message":"`dave` is not in the room room:a","data":{"code":"recipient_not_found"}}}
    close bye
    "#);
    assert_snapshot!(Play::duplex(DoorScope::One(id("bob")), "bob").act(&format!("{hello}\nseat\nleave bob\ngone bob initialize")), @r#"
    join - 2025-06-18
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ← {"id":1,"error":{"code":-32000,"message":"`bob` is not in the room room:a","data":{"code":"recipient_not_found"}}}
    close bye
    "#);
    assert_snapshot!(Play::duplex(DoorScope::One(id("bob")), "bob").act(&format!("{hello}\nseat\nbob: initialize error {{\"code\":-32601,\"message\":\"no server\",\"x\":1}}")), @r#"
    join - 2025-06-18
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ← {"id":1,"error":{"code":-32601,"message":"no server"}}
    close bye
    "#);
    assert_snapshot!(Play::duplex(DoorScope::One(id("bob")), "bob").act(&format!("{hello}\nseat\ntick 120000")), @r#"
    join - 2025-06-18
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ← {"id":1,"error":{"code":-32603,"message":"`bob` did not answer in time"}}
    close bye
    "#);
    assert_snapshot!(Play::duplex(DoorScope::One(id("bob")), "bob").act(&format!("{hello}\nseat\njoin bob\nbob: initialize error {{}}\nbob: initialize {SERVER}")), @r#"
    join - 2025-06-18
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob {"method":"notifications/initialized"}
    ← {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    "#);
}

#[test]
fn nobody_is_its_own_server() {
    let alone = || Play::duplex(DoorScope::One(id("alice")), "alice bob");
    let hello = r#"call 0 initialize {"protocolVersion":"2025-06-18","capabilities":{}}"#;
    assert_snapshot!(alone().act(&format!("{hello}\nseat")), @r#"
    join - 2025-06-18
    ← {"id":0,"error":{"code":-32000,"message":"you are `alice` yourself, and nobody is its own server: name another participant, or none for the whole room","data":{"code":"invalid_parameters"}}}
    close bye
    "#);
    assert_snapshot!(alone().act("ask 1 server/discover\nask 2 tools/list\nask 3 subscriptions/listen {\"notifications\":{\"resourceSubscriptions\":[\"a:1\"]}}\nseat"), @r#"
    join c 2026-07-28
    ← {"id":1,"error":{"code":-32000,"message":"you are `alice` yourself, and nobody is its own server: name another participant, or none for the whole room","data":{"code":"invalid_parameters"}}}
    ← {"id":2,"error":{"code":-32000,"message":"you are `alice` yourself, and nobody is its own server: name another participant, or none for the whole room","data":{"code":"invalid_parameters"}}}
    ← {"id":3,"error":{"code":-32000,"message":"you are `alice` yourself, and nobody is its own server: name another participant, or none for the whole room","data":{"code":"invalid_parameters"}}}
    "#);
}

#[test]
fn names_and_methods_are_untouched() {
    let script = r#"
        call 1 tools/call {"name":"bob__t","task":{"ttl":1}}
        call 2 vendor/method [1,2]
        call 3 logging/setLevel {"level":"error"}
        call 4 resources/read {"uri":"salon://x/y"}
        bob! @- notifications/message {"level":"debug","data":1}
        bob! @- notifications/tools/list_changed
        bob! @- notifications/resources/updated {"uri":"salon://x/y"}
        carol! @- notifications/message {"level":"error","data":2}
        carol? 7 @- roots/list
        bob? 8 @tools/call roots/list
        bob: vendor/method [3]
    "#;
    assert_snapshot!(one().act(script), @r#"
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"bob__t","task":{"ttl":1}}}
    ⇒ bob {"id":"s-4","method":"vendor/method","params":[1,2]}
    ⇒ bob {"id":"s-5","method":"logging/setLevel","params":{"level":"error"}}
    ⇒ bob {"id":"s-6","method":"resources/read","params":{"uri":"salon://x/y"}}
    ← {"method":"notifications/message","params":{"level":"debug","data":1}}
    ← {"method":"notifications/tools/list_changed"}
    ← {"method":"notifications/resources/updated","params":{"uri":"salon://x/y"}}
    ⇒ carol re e6 {"id":7,"error":{"code":-32601,"message":"`alice` can be asked only by participants that it calls"}}
    ← {"id":6,"method":"roots/list","params":{"_meta":{"salon/askedBy":"bob"}}}
    ← {"id":2,"result":[3]}
    "#);
}

#[test]
fn who_comes_back_is_greeted_and_subscribed_to_again() {
    let script = format!(
        r#"call 1 resources/subscribe {{"uri":"a:b"}}
        bob: resources/subscribe {{}}
        leave bob
        call 2 tools/list
        join bob
        bob: initialize {SERVER}
        call 3 tools/list"#
    );
    assert_snapshot!(one().act(&script), @r#"
    ⇒ bob {"id":"s-3","method":"resources/subscribe","params":{"uri":"a:b"}}
    ← {"id":1,"result":{}}
    ← {"id":2,"error":{"code":-32000,"message":"`bob` is not in the room room:a","data":{"code":"recipient_not_found"}}}
    ⇒ bob {"id":"s-4","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":{},"elicitation":{},"roots":{}},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-6","method":"resources/subscribe","params":{"uri":"a:b"}}
    ⇒ bob {"id":"s-7","method":"tools/list"}
    "#);
}

#[test]
fn the_host_can_be_the_one() {
    let play = Play::duplex(DoorScope::One(ParticipantId::host()), "bob");
    assert_snapshot!(play.act(&format!("call 1 initialize {{\"protocolVersion\":\"2025-06-18\"}}\nseat\nsystem:gateway: initialize {SERVER}")), @r#"
    join - 2025-06-18
    ⇒ system:gateway {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""},"_meta":{"salon/door":"mcp"}}}
    ⇒ system:gateway {"method":"notifications/initialized"}
    ← {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    "#);
}
