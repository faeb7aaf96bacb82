//! Legacy clients of participants that speak only the modern era, and clients that change theirs.

use super::*;

const MODERN: &str = "bob/2026-07-28";

#[test]
fn a_modern_participant_is_asked_without_a_handshake() {
    let play = Play::introduced(DoorScope::Room, MODERN, "2025-06-18", r#"{"tasks":{},"roots":{}}"#);
    let script = r#"call 1 tools/list
        system:gateway: tools/list {"tools":[]}
        bob: tools/list {"resultType":"complete","ttlMs":5,"cacheScope":"private","tools":[{"name":"t","outputSchema":{"type":"array"}}]}
        call 2 logging/setLevel {"level":"info"}
        call 3 tools/call {"name":"t"}
        bob! @tools/call notifications/message {"level":"warning","data":1}
        bob: tools/call error {"code":-32021,"message":"no","data":{"requiredCapabilities":{}}}
        tell notifications/roots/list_changed
        call 4 resources/read {"uri":"salon://bob/a"}
        bob: resources/read {"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[{"uri":"a"}]}"#;
    assert_snapshot!(play.act(script), @r#"
    consult bob tools/list
    consult system:gateway tools/list
    ← {"id":1,"result":{"tools":[{"name":"bob__t"}]}}
    ← {"id":2,"result":{}}
    ⇒ bob {"id":"s-1","method":"tools/call","params":{"name":"t","_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{"roots":{}},"/logLevel":"info"}}}
    ← {"method":"notifications/message","params":{"level":"warning","data":1}}
    ← {"id":3,"error":{"code":-32021,"message":"no","data":{"requiredCapabilities":{}}}}
    ⇒ bob {"id":"s-2","method":"resources/read","params":{"uri":"a","_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{"roots":{}},"/logLevel":"info"}}}
    ← {"id":4,"result":{"contents":[{"uri":"salon://bob/a"}]}}
    "#);
}

#[test]
fn a_modern_participant_is_introduced_from_its_discovery() {
    let play = Play::duplex(DoorScope::One(id("bob")), MODERN);
    let script = r#"
        call 1 initialize {"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c"}}
        seat
        bob: server/discover {"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{},"extensions":{"a":{}}},"instructions":"hi","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m","version":"1"}}}
        call 2 ping
        call 3 logging/setLevel {"level":"info"}
        call 4 tools/list
        bob: tools/list {"resultType":"complete","tools":[],"ttlMs":1,"cacheScope":"public"}
        tell notifications/roots/list_changed
    "#;
    assert_snapshot!(play.act(script), @r#"
    join c 2025-06-18
    ⇒ bob {"id":"s-1","method":"server/discover","params":{"_meta":{…,"/clientCapabilities":{}}}}
    ← {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{}},"instructions":"hi","serverInfo":{"name":"m","version":"1"}}}
    ← {"id":2,"result":{}}
    ← {"id":3,"result":{}}
    ⇒ bob {"id":"s-2","method":"tools/list","params":{"_meta":{…,"/clientCapabilities":{},"/logLevel":"info"}}}
    ← {"id":4,"result":{"tools":[]}}
    "#);
}

#[test]
fn a_legacy_clients_subscriptions_are_one_of_a_modern_participants() {
    let mut play = Play::introduced(DoorScope::Room, MODERN, "2025-06-18", "{}");
    play.offers =
        vec![("bob", "resources/list", r#"{"resources":[{"uri":"a:1","name":"a"},{"uri":"b:1","name":"b"}]}"#)];
    let play = play.after("call 0 resources/list\nsettle");
    let script = r#"
        call 1 resources/subscribe {"uri":"a:1"}
        bob! @subscriptions/listen notifications/subscriptions/acknowledged {"notifications":{}}
        bob! @subscriptions/listen notifications/resources/updated {"uri":"a:1","n":1.0,"_meta":{"io.modelcontextprotocol/subscriptionId":"s-7"}}
        call 2 resources/subscribe {"uri":"b:1"}
        call 3 resources/unsubscribe {"uri":"a:1"}
        call 4 resources/unsubscribe {"uri":"b:1"}
        call 5 resources/subscribe {"uri":"b:1"}
        join bob/2026-07-28
    "#;
    assert_snapshot!(play.act(script), @r#"
    ⇒ bob {"id":"s-1","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["a:1"]},"_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{}}}}
    ← {"id":1,"result":{}}
    ← {"method":"notifications/resources/updated","params":{"uri":"a:1","n":1.0}}
    ⇒ bob {"id":"s-2","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["a:1","b:1"]},"_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{}}}}
    ⇒ bob re s-1 {"method":"notifications/cancelled","params":{"requestId":"s-1"}}
    ← {"id":2,"result":{}}
    ⇒ bob {"id":"s-4","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["b:1"]},"_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{}}}}
    ⇒ bob re s-2 {"method":"notifications/cancelled","params":{"requestId":"s-2"}}
    ← {"id":3,"result":{}}
    ⇒ bob re s-4 {"method":"notifications/cancelled","params":{"requestId":"s-4"}}
    ← {"id":4,"result":{}}
    ⇒ bob {"id":"s-7","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["b:1"]},"_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{}}}}
    ← {"id":5,"result":{}}
    consult bob tools/list
    consult bob prompts/list
    consult bob resources/list
    consult bob resources/templates/list
    ⇒ bob {"id":"s-8","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["b:1"]},"_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{}}}}
    "#);
}

#[test]
fn a_client_may_try_the_modern_era_first() {
    let play = Play::duplex(DoorScope::Room, "bob");
    let script = r#"
        ask 1 server/discover
        seat
        call 2 tools/list
        call 3 initialize {"protocolVersion":"2025-06-18","capabilities":{}}
        call 4 logging/setLevel {"level":"info"}
    "#;
    let told = play.act(script);
    let told: Vec<_> =
        told.lines().map(|line| line.split_once(r#","capabilities"#).map_or(line, |(head, _)| head)).collect();
    assert_snapshot!(told.join("\n"), @r#"
    join c 2026-07-28
    ← {"id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]
    ← {"id":2,"error":{"code":-32600,"message":"a session begins with `initialize`"}}
    ← {"id":3,"result":{"protocolVersion":"2025-06-18"
    ← {"id":4,"result":{}}
    "#);
}

#[test]
fn both_eras_can_be_spoken_over_one_wire() {
    let script = r#"
        ask 1 server/discover
        call 2 logging/setLevel {"level":"info"}
        bob! @- notifications/message {"level":"error","data":1}
    "#;
    let told = room().act(script);
    let told: Vec<_> =
        told.lines().map(|line| line.split_once(r#","supportedVersions"#).map_or(line, |(head, _)| head)).collect();
    assert_snapshot!(told.join("\n"), @r#"
    ← {"id":1,"result":{"resultType":"complete"
    ⇒ bob {"id":"s-7","method":"logging/setLevel","params":{"level":"info"}}
    ⇒ carol {"id":"s-8","method":"logging/setLevel","params":{"level":"info"}}
    ← {"id":2,"result":{}}
    ← {"method":"notifications/message","params":{"level":"error","data":1}}
    "#);
}

#[test]
fn a_handshake_of_another_session_leaves_this_ones_as_it_is() {
    let mut play = room();
    let mut hello = |capabilities: &str| {
        let params = format!(r#"{{"protocolVersion":"2025-06-18","capabilities":{capabilities}}}"#);
        let payload = format!(r#"{{"jsonrpc":"2.0","id":"other","method":"initialize","params":{params}}}"#);
        play.entry_to(&[id("bob")], "alice", Kind::Mcp, None, &payload);
        play.line(r#"call 1 tools/call {"name":"bob__t"}"#);
    };
    hello("{}");
    hello(r#"{"roots":{}}"#);
    assert_snapshot!(play.act(""), @r#"
    ⇒ bob {"id":"s-7","method":"tools/call","params":{"name":"t"}}
    ⇒ bob {"id":"s-8","method":"tools/call","params":{"name":"t"}}
    "#);
}
