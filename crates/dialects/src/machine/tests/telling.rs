//! Notifications, both ways.

use super::*;

#[test]
fn a_notification_goes_to_one_or_to_all() {
    let script = r#"
        notification m1 bob {"context":{"n": 12345678901234567890},"more":[1.0]} # {"trace":"t"}
        notification m2 * {"context":{}}
        x-weather/v2 m3 * {"chat":{"text":"not chat"},"stream":1}
        notification m4 * {"chat":{"text":"hello","format":"markdown"}} # {"m":1}
        notification m5 bob {"stream":{"id":"s1","sequence":0,"data":{"x": 1.0},"final":false}}
        notification m6 bob {"stream":{"id":"s1","sequence":1,"final":true}} # {"m":1}
        notification m7 - {"context":{}}
        notification m8 bob {"stream":{"id":"s1"}}
        notification m9 bob {"stream":{"id":"","sequence":1}}
        notification m10 bob {"stream":{"id":"s1","sequence":-1}}
        notification m11 bob {"stream":{"id":"s1","sequence":1,"final":"yes"}}
        notification m12 bob {"stream":"s1"}
        refuse invalid_parameters
        notification m13 bob {"chat":{"format":"html"}}
        notification m14@q9 bob {"stream":{"sequence":1}}
    "#;
    assert_snapshot!(Play::seated().act(script), @r#"
    ⇒ bob m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{"context":{"n": 12345678901234567890},"more":[1.0]},"metadata":{"trace":"t"}}}
    ⇒ * m2 {"method":"notifications/context","params":{"messageType":"notification","payload":{"context":{}}}}
    ⇒ * m3 {"method":"notifications/context","params":{"messageType":"x-weather/v2","payload":{"chat":{"text":"not chat"},"stream":1}}}
    ⇒ * m4 {"method":"notifications/chat/message","params":{"text":"hello","format":"markdown","_meta":{"metadata":{"m":1}}}}
    ⇒ bob m5 {"method":"notifications/stream","params":{"id":"s1","sequence":0,"data":{"x": 1.0},"final":false}}
    ⇒ bob m6 {"method":"notifications/stream","params":{"id":"s1","sequence":1,"final":true,"_meta":{"metadata":{"m":1}}}}
    ← [recipient_required] {"header":{"id":"s-2","type":"error","requestId":"m7","source":"system:gateway","destination":"alice"},"error":{"code":"recipient_required","message":"a notification needs one participant, or `*` for all, as its `header.destination`"}}
    ← [invalid_parameters] {"header":{"id":"s-3","type":"error","requestId":"m8","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"`payload.stream` must have the string `id` and the whole number `sequence`, and maybe `data` and `final`"}}
    ← [invalid_parameters] {"header":{"id":"s-4","type":"error","requestId":"m9","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"`payload.stream` must have the string `id` and the whole number `sequence`, and maybe `data` and `final`"}}
    ← [invalid_parameters] {"header":{"id":"s-5","type":"error","requestId":"m10","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"`payload.stream` must have the string `id` and the whole number `sequence`, and maybe `data` and `final`"}}
    ← [invalid_parameters] {"header":{"id":"s-6","type":"error","requestId":"m11","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"`payload.stream` must have the string `id` and the whole number `sequence`, and maybe `data` and `final`"}}
    ← [invalid_parameters] {"header":{"id":"s-7","type":"error","requestId":"m12","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"`payload.stream` must have the string `id` and the whole number `sequence`, and maybe `data` and `final`"}}
    ⇒ bob m13 {"method":"notifications/chat/message","params":{"format":"html"}}
    ← [invalid_parameters] {"header":{"id":"s-8","type":"error","requestId":"m13","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"no"}}
    ← [correlation_mismatch] {"header":{"id":"s-9","type":"error","requestId":"m14","source":"system:gateway","destination":"alice"},"error":{"code":"correlation_mismatch","message":"`q9` is no request that waits for your answer"}}
    "#);
}

#[test]
fn chat_streams_and_progress_keep_context_and_metadata() {
    let script = r#"
        notification m1 * {"chat":{"text":"hello"},"context":{"n": 12345678901234567890}} # {"m":1}
        notification m2 bob {"stream":{"id":"s1","sequence":0},"context":{"a":1.0}}
        notification m3 bob {"chat":{"text":"hello","_meta":{"x":1}},"context":7}
        bob* notifications/chat/message {"text":"hi","_meta":{"context":{"a": 1.0},"metadata":{"m":1},"x":1}}
        bob! notifications/stream {"id":"s1","sequence":3,"_meta":{"context":7}}
        system:gateway! notifications/context/changed {"scope":"topic","key":"k","version":3,"_meta":{"context":7}}
        bob? q1 tools/call {"name":"echo.say","_meta":{"progressToken":9}}
        notification m4@q1 bob {"stream":{"progress":1},"context":{"a":1.0}} # {"m":2}
        request m5 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        bob: initialize
        bob! notifications/progress {"progressToken":"m5","progress":1,"_meta":{"context":{"a":1.0},"metadata":{"m":2}}}
    "#;
    assert_snapshot!(Play::seated().after(REGISTER).act(script), @r#"
    ⇒ * m1 {"method":"notifications/chat/message","params":{"text":"hello","_meta":{"context":{"n": 12345678901234567890},"metadata":{"m":1}}}}
    ⇒ bob m2 {"method":"notifications/stream","params":{"id":"s1","sequence":0,"_meta":{"context":{"a":1.0}}}}
    ⇒ bob m3 {"method":"notifications/chat/message","params":{"text":"hello","_meta":{"x":1,"context":7}}}
    ← {"header":{"id":"e1","type":"notification","source":"bob","destination":"*"},"payload":{"context":{"a": 1.0},"chat":{"text":"hi"}},"metadata":{"m":1}}
    ← {"header":{"id":"e2","type":"notification","source":"bob","destination":"alice"},"payload":{"context":7,"stream":{"id":"s1","sequence":3}}}
    ← {"header":{"id":"e3","type":"notification","source":"system:gateway","destination":"alice"},"payload":{"context":{"scope":"topic","key":"k","version":3}}}
    ← {"header":{"id":"q1","type":"request","source":"bob","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{}}}}
    ⇒ bob m4 re q1 {"method":"notifications/progress","params":{"progressToken":9,"progress":1,"_meta":{"context":{"a":1.0},"metadata":{"m":2}}}}
    consult bob tools
    ⇒ bob s-4 {"id":"s-4","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob s-5 {"method":"notifications/initialized"}
    ⇒ bob m5 {"id":"m5","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m5"}}}
    ← {"header":{"id":"e6","type":"notification","requestId":"m5","source":"bob","destination":"alice"},"payload":{"context":{"a":1.0},"stream":{"sequence":1,"progress":1,"final":false}},"metadata":{"m":2}}
    "#);
}

#[test]
fn what_others_tell_comes_as_notifications() {
    let script = r#"
        bob! notifications/context {"messageType":"notification","payload":{"context":{"n": 12345678901234567890}},"metadata":{"m":1}}
        bob* notifications/context {"messageType":"x-weather","payload":{"a": 1.0}}
        bob* notifications/context {"messageType":"request","payload":7}
        bob* notifications/chat/message {"text":"hi","format":"plain","_meta":{"metadata":{"m":1}}}
        bob! notifications/stream {"id":"s1","sequence":3,"data":[1.0],"final":false}
        system:gateway! notifications/context/changed {"scope":"topic","key":"k","version":3}
        bob* notifications/tools/list_changed
        bob* notifications/vendor [1]
        join dave
        leave dave
    "#;
    assert_snapshot!(Play::seated().act(script), @r#"
    ← {"header":{"id":"e1","type":"notification","source":"bob","destination":"alice"},"payload":{"context":{"n": 12345678901234567890}},"metadata":{"m":1}}
    ← {"header":{"id":"e2","type":"x-weather","source":"bob","destination":"*"},"payload":{"a":1.0}}
    ← {"header":{"id":"e3","type":"notification","source":"bob","destination":"*"},"payload":{}}
    ← {"header":{"id":"e4","type":"notification","source":"bob","destination":"*"},"payload":{"chat":{"text":"hi","format":"plain"}},"metadata":{"m":1}}
    ← {"header":{"id":"e5","type":"notification","source":"bob","destination":"alice"},"payload":{"stream":{"id":"s1","sequence":3,"data":[1.0],"final":false}}}
    ← {"header":{"id":"e6","type":"notification","source":"system:gateway","destination":"alice"},"payload":{"context":{"scope":"topic","key":"k","version":3}}}
    ← {"header":{"id":"e7","type":"notification","source":"bob","destination":"*"},"payload":{"notification":{"method":"notifications/tools/list_changed"}}}
    ← {"header":{"id":"e8","type":"notification","source":"bob","destination":"*"},"payload":{"notification":{"method":"notifications/vendor","params":[1]}}}
    ← {"header":{"id":"e9","type":"notification","source":"system:gateway","destination":"*"},"payload":{"presence":{"event":"join","participant":{"id":"dave","mcp":{"version":"2025-06-18"}}}}}
    ← {"header":{"id":"e10","type":"notification","source":"system:gateway","destination":"*"},"payload":{"presence":{"event":"leave","participant":{"id":"dave","mcp":{"version":"2025-06-18"}}}}}
    "#);
}

#[test]
fn a_token_goes_no_further() {
    let with = |kind: &str, rest: &str| {
        let text = message(kind, rest);
        let mut play = Play::seated().after(REGISTER).after(r#"bob? q1 tools/call {"name":"echo.say"}"#);
        play.run(&format!("raw {text}\nlist bob {{\"tools\":[{{\"name\":\"t\"}}]}}"));
        if !play.open.is_empty() {
            play.run("bob: initialize");
        }
        let told = play.told;
        assert!(text.contains("s3cret") && !told.contains("s3cret"), "{told}");
        told
    };
    let mut told = String::new();
    for (kind, rest) in [
        ("request", r#"m1 bob {"tool":{"id":"t"},"security":{"token":"s3cret","permissions":["read"]}}"#),
        ("request", r#"m1 bob {"tool":{"id":"t"},"security":{"\u0074oken":"s3cret"}}"#),
        ("notification", r#"m1 * {"context":{},"security":{"token":"s3cret","permissions":["read"],"more":1}}"#),
        ("notification", r#"m1 * {"context":{},"security":{"token":"s3cret"}}"#),
        ("x-any", r#"m1 * {"security":{"token":"s3cret"}}"#),
        ("notification", r#"m1 * {"chat":{"text":"hi"},"security":{"token":"s3cret"}}"#),
        ("response", r#"m1@q1 bob {"result":1,"security":{"token":"s3cret"}}"#),
        ("notification", r#"m1 * {"security":{"token":["s3cret"]}}"#),
        ("notification", r#"m1 * {"security":{"token":"s3cret","token":"s3cret"}}"#),
        ("notification", r#"m1 * {"security":["s3cret"]}"#),
        ("notification", r#"m1 * {"security":{"token":"s3cret","permissions":"s3cret"}}"#),
        ("nonsense", r#"m1 * {"security":{"token":"s3cret"}}"#),
        ("notification", r#"m1 - {"security":{"token":"s3cret"}}"#),
    ] {
        told.push_str(&with(kind, rest));
    }
    assert_snapshot!(told, @r#"
    consult bob tools
    ⇒ bob s-4 {"id":"s-4","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob s-5 {"method":"notifications/initialized"}
    ⇒ bob m1 {"id":"m1","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m1","salon/permissions":["read"]}}}
    consult bob tools
    ⇒ bob s-4 {"id":"s-4","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob s-5 {"method":"notifications/initialized"}
    ⇒ bob m1 {"id":"m1","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m1"}}}
    ⇒ * m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{"context":{},"security":{"permissions":["read"],"more":1}}}}
    ⇒ * m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{"context":{}}}}
    ⇒ * m1 {"method":"notifications/context","params":{"messageType":"x-any","payload":{}}}
    ⇒ * m1 {"method":"notifications/chat/message","params":{"text":"hi"}}
    ⇒ bob m1 re q1 {"id":5,"result":{"content":[{"text":"1","type":"text"}],"_meta":{"salon/result":1}}}
    ← [unauthorized] {"header":{"id":"s-4","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"unauthorized","message":"`payload.security.token` must be a string"}}
    ← [invalid_json] {"header":{"id":"s-4","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_json","message":"the message is not valid JSON: the key \"token\" stands twice in one object"}}
    ← [invalid_parameters] {"header":{"id":"s-4","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"`payload.security` must be an object"}}
    ← [invalid_parameters] {"header":{"id":"s-4","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"`payload.security.permissions` must be a list of strings"}}
    ← [invalid_envelope] {"header":{"id":"s-4","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_envelope","message":"`header.messageType` must be request, response, notification or error, or begin with `x-`"}}
    ← [recipient_required] {"header":{"id":"s-4","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"recipient_required","message":"a notification needs one participant, or `*` for all, as its `header.destination`"}}
    "#);
}
