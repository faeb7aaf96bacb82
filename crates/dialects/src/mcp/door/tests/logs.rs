//! Log lines, and who wants which.

use super::*;

#[test]
fn a_level_is_sent_to_participants_of_now_and_of_later() {
    let play = Play::introduced(DoorScope::Room, "bob carol", "2025-06-18", "{}").after(&format!(
        r#"call 0 tools/call {{"name":"bob__t"}}
        bob: initialize {SERVER}
        bob: tools/call {{}}"#
    ));
    let script = format!(
        r#"call 1 logging/setLevel {{"level":"warning"}}
        bob: logging/setLevel {{}}
        call 2 tools/call {{"name":"carol__u"}}
        carol: initialize {SERVER}
        call 3 logging/setLevel {{"level":"loud"}}
        call 4 logging/setLevel
        call 5 logging/setLevel {{"level":"warning"}}
        call 6 logging/setLevel {{"level":"debug"}}
        join bob
        call 7 tools/call {{"name":"bob__t"}}
        bob: initialize {{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}}}}"#
    );
    assert_snapshot!(play.act(&script), @r#"
    ⇒ bob {"id":"s-4","method":"logging/setLevel","params":{"level":"warning"}}
    ← {"id":1,"result":{}}
    ⇒ carol {"id":"s-5","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ carol {"method":"notifications/initialized"}
    ⇒ carol {"id":"s-7","method":"logging/setLevel","params":{"level":"warning"}}
    ⇒ carol {"id":"s-8","method":"tools/call","params":{"name":"u"}}
    ← {"id":3,"error":{"code":-32602,"message":"`level` must be one of debug, info, notice, warning, error, critical, alert, emergency"}}
    ← {"id":4,"error":{"code":-32602,"message":"`level` must be one of debug, info, notice, warning, error, critical, alert, emergency"}}
    ← {"id":5,"result":{}}
    ⇒ bob {"id":"s-9","method":"logging/setLevel","params":{"level":"debug"}}
    ⇒ carol {"id":"s-10","method":"logging/setLevel","params":{"level":"debug"}}
    ← {"id":6,"result":{}}
    consult bob tools/list
    consult bob prompts/list
    consult bob resources/list
    consult bob resources/templates/list
    ⇒ bob {"id":"s-11","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-13","method":"tools/call","params":{"name":"t"}}
    "#);
}

#[test]
fn lines_come_from_the_level_on() {
    let script = r#"
        bob! @- notifications/message {"level":"debug","data":{"n": 12345678901234567890},"x":1.0}
        call 1 logging/setLevel {"level":"warning"}
        bob! @- notifications/message {"level":"debug","data":1}
        bob! @- notifications/message {"level":"warning","data":2}
        bob! @- notifications/message {"level":"odd","data":3}
        dave! @- notifications/message {"level":"error","data":4}
    "#;
    assert_snapshot!(room().act(script), @r#"
    ← {"method":"notifications/message","params":{"level":"debug","data":{"n": 12345678901234567890},"x":1.0}}
    ⇒ bob {"id":"s-7","method":"logging/setLevel","params":{"level":"warning"}}
    ⇒ carol {"id":"s-8","method":"logging/setLevel","params":{"level":"warning"}}
    ← {"id":1,"result":{}}
    ← {"method":"notifications/message","params":{"level":"warning","data":2}}
    "#);
}

#[test]
fn strangers_tell_the_client_nothing() {
    let play = Play::introduced(DoorScope::Room, "bob dave/2026-07-28", "2025-06-18", "{}");
    let script = format!(
        r#"bob! @- notifications/vendor
        bob! @- notifications/message {{"level":"error","data":1}}
        bob! @- notifications/elicitation/complete {{"elicitationId":"e"}}
        bob! @=e9 notifications/vendor
        call 1 tools/call {{"name":"bob__t"}}
        bob: initialize {SERVER}
        mark it is known now
        bob! @- notifications/vendor {{"n":1}}
        bob: tools/call {{}}
        bob! @- notifications/vendor {{"n":2}}
        bob! @=e9 notifications/vendor {{"n":"of another session"}}
        bob* notifications/vendor {{"n":"to everybody"}}
        dave! @- notifications/vendor {{"n":3}}
        call 2 tools/call {{"name":"dave__t"}}
        dave! @tools/call notifications/vendor {{"n":4}}
        dave: tools/call {{}}
        dave! @- notifications/vendor {{"n":5}}"#
    );
    assert_snapshot!(play.act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t"}}
    · it is known now
    ← {"method":"notifications/vendor","params":{"n":1}}
    ← {"id":1,"result":{}}
    ← {"method":"notifications/vendor","params":{"n":2}}
    ⇒ dave {"id":"s-4","method":"tools/call","params":{"name":"t","_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{}}}}
    ← {"method":"notifications/vendor","params":{"n":4}}
    ← {"id":2,"result":{}}
    "#);
}

#[test]
fn other_news_pass_as_they_are() {
    let script = r#"
        bob! @- notifications/elicitation/complete {"elicitationId":"e"}
        bob! @- notifications/vendor {"n": 1.0}
        bob! @- notifications/chat/message {"text":"hi"}
    "#;
    assert_snapshot!(room().act(script), @r#"
    ← {"method":"notifications/elicitation/complete","params":{"elicitationId":"e"}}
    ← {"method":"notifications/vendor","params":{"n": 1.0}}
    "#);
}

#[test]
fn a_client_that_hears_log_lines_is_told_of_an_outage() {
    let script = r#"
        outage
        recovered
        call 1 logging/setLevel {"level":"warning"}
        outage
        recovered
    "#;
    let told = room().act(script);
    let lines: Vec<_> = told.lines().filter(|line| line.contains("notifications/message")).collect();
    assert_eq!(lines.len(), 3, "{told}");
    assert!(lines[0].contains(r#""level":"warning""#) && lines[0].contains(r#""logger":"system:gateway""#), "{told}");
    assert!(lines[1].contains(r#""level":"notice""#) && lines[1].contains("stored and heard again"), "{told}");
    assert!(lines[2].contains(r#""level":"warning""#), "a notice is less than what it wants: {told}");
    let modern = Play::duplex(DoorScope::Room, "bob").act("outage\nrecovered");
    assert_eq!(modern, "", "who has not said that it hears any");
}
