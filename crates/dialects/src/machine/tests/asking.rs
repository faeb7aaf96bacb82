//! From the others to the client: the tools it registered.

use super::*;

/// Alice with both tools registered.
fn armed() -> Play {
    Play::seated().after(REGISTER)
}

#[test]
fn who_registers_tools_is_an_mcp_server_in_the_room() {
    let script = format!(
        r#"
        bob? q1 initialize {{"protocolVersion":"2024-11-05","capabilities":{{}}}}
        bob? q2 tools/list
        {REGISTER}
        bob? q3 initialize
        bob? q4 tools/list
        bob? q5 ping
        bob? q6 resources/list
        bob! notifications/initialized
        request t3 system:gateway {{"tool":{{"id":"registry","capability":"list"}}}}
        request t4 system:gateway {{"tool":{{"id":"registry","capability":"unregister","parameters":{{"id":"arm"}}}}}}
        request t5 system:gateway {{"tool":{{"id":"registry","capability":"unregister","parameters":{{"id":"arm"}}}}}}
        bob? q7 tools/list"#
    );
    assert_snapshot!(Play::seated().act(&script), @r#"
    ↩ bob s-2 re q1 {"id":5,"result":{"capabilities":{"tools":{"listChanged":true}},"protocolVersion":"2024-11-05","serverInfo":{"name":"alice","version":"9"}}}
    ↩ bob s-3 re q2 {"id":5,"result":{"tools":[]}}
    ⇒ * t1 {"method":"notifications/tools/list_changed"}
    ← {"header":{"id":"s-4","type":"response","requestId":"t1","source":"system:gateway","destination":"alice"},"payload":{"result":{"id":"arm","tools":["arm.move"]}}}
    ⇒ * t2 {"method":"notifications/tools/list_changed"}
    ← {"header":{"id":"s-5","type":"response","requestId":"t2","source":"system:gateway","destination":"alice"},"payload":{"result":{"id":"echo","tools":["echo.say"]}}}
    ↩ bob s-6 re q3 {"id":5,"result":{"capabilities":{"tools":{"listChanged":true}},"protocolVersion":"2025-06-18","serverInfo":{"name":"alice","version":"9"}}}
    ↩ bob s-7 re q4 {"id":5,"result":{"tools":[{"name":"arm.move","description":"Moves","inputSchema":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]},"_meta":{"salon/permissions":["drive"]}},{"name":"echo.say","inputSchema":{"type":"object"}}]}}
    ↩ bob s-8 re q5 {"id":5,"result":{}}
    ↩ bob s-9 re q6 {"id":5,"error":{"code":-32601,"message":"the method `resources/list` is not offered here"}}
    ← {"header":{"id":"s-10","type":"response","requestId":"t3","source":"system:gateway","destination":"alice"},"payload":{"result":{"tools":[{"id":"arm","capabilities":[{"name":"move","description":"Moves","parameters":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}],"security":{"permissions":["drive"]}},{"id":"echo","capabilities":[{"name":"say"}]}]}}}
    ⇒ * t4 {"method":"notifications/tools/list_changed"}
    ← {"header":{"id":"s-11","type":"response","requestId":"t4","source":"system:gateway","destination":"alice"},"payload":{"result":{"id":"arm"}}}
    ← [not_found] {"header":{"id":"s-12","type":"error","requestId":"t5","source":"system:gateway","destination":"alice"},"error":{"code":"not_found","message":"no tool of this id is registered"}}
    ↩ bob s-13 re q7 {"id":5,"result":{"tools":[{"name":"echo.say","inputSchema":{"type":"object"}}]}}
    "#);
}

#[test]
fn registering_again_replaces_and_a_refused_one_changes_nothing() {
    let script = r#"
        request t3 system:gateway {"tool":{"id":"registry","capability":"register","parameters":{"id":"arm","capabilities":[{"name":"stop"}],"x-more":{"n": 1.0}}}}
        refuse rate_limited
        request t4 system:gateway {"tool":{"id":"registry","capability":"register","parameters":{"id":"arm","capabilities":[{"name":"jump"}]}}}
        refuse rate_limited
        request t5 system:gateway {"tool":{"id":"registry","capability":"unregister","parameters":{"id":"echo"}}}
        bob? q1 tools/list
        request t6 system:gateway {"tool":{"id":"registry","capability":"list"}}
    "#;
    assert_snapshot!(armed().act(script), @r#"
    ⇒ * t3 {"method":"notifications/tools/list_changed"}
    ← {"header":{"id":"s-4","type":"response","requestId":"t3","source":"system:gateway","destination":"alice"},"payload":{"result":{"id":"arm","tools":["arm.stop"]}}}
    ⇒ * t4 {"method":"notifications/tools/list_changed"}
    ← [rate_limited] {"header":{"id":"s-5","type":"error","requestId":"t4","source":"system:gateway","destination":"alice"},"error":{"code":"rate_limited","message":"no"}}
    ⇒ * t5 {"method":"notifications/tools/list_changed"}
    ← [rate_limited] {"header":{"id":"s-6","type":"error","requestId":"t5","source":"system:gateway","destination":"alice"},"error":{"code":"rate_limited","message":"no"}}
    ↩ bob s-7 re q1 {"id":5,"result":{"tools":[{"name":"arm.stop","inputSchema":{"type":"object"}},{"name":"echo.say","inputSchema":{"type":"object"}}]}}
    ← {"header":{"id":"s-8","type":"response","requestId":"t6","source":"system:gateway","destination":"alice"},"payload":{"result":{"tools":[{"id":"arm","capabilities":[{"name":"stop"}],"x-more":{"n": 1.0}},{"id":"echo","capabilities":[{"name":"say"}]}]}}}
    "#);
}

#[test]
fn a_call_comes_as_a_request_and_its_answer_goes_back() {
    let script = r#"
        bob? q1 tools/call {"name":"echo.say","arguments":{"n": 12345678901234567890,"z":1,"a":"é"},"_meta":{"progressToken":7,"context":{"k": 1.0},"metadata":{"trace":"t"}}}
        notification n1@q1 bob {"stream":{"sequence":1,"progress":1,"total":2,"message":"half"}}
        notification n2@q1 - {"stream":{"sequence":2}}
        response r1@q1 bob {"result":{"n": 12345678901234567890},"context":{"v":2}} # {"m":1}
        response r2@q1 bob {"result":1}
        bob? q2 tools/call {"name":"echo.say"}
        notification n3@q2 - {"stream":{"sequence":1}}
        response r3@q2 - {"result":"text"}
        bob? q3 tools/call {"name":"echo.say"}
        response r4@q3 - {"result":[1, 2]}
        bob? q4 tools/call {"name":"echo.say"}
        response r5@q4 - {}
        bob? q5 tools/call {"name":"echo.say"}
        error r6@q5 - {"code":"mine","message":"it broke","details":{"n": 1.0}}
        bob? q6 tools/call {"name":"echo.say"}
        raw {"header":{"messageType":"error","requestId":"q6","timestamp":"2025-03-21T10:00:00Z"},"error":{"code":"not_found","message":"as the source has it"}}
    "#;
    assert_snapshot!(armed().act(script), @r#"
    ← {"header":{"id":"q1","type":"request","source":"bob","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{"n": 12345678901234567890,"z":1,"a":"é"}},"context":{"k": 1.0}},"metadata":{"trace":"t"}}
    ⇒ bob n1 re q1 {"method":"notifications/progress","params":{"progressToken":7,"progress":1,"total":2,"message":"half"}}
    ⇒ bob n2 re q1 {"method":"notifications/progress","params":{"progressToken":7,"progress":2}}
    ⇒ bob r1 re q1 {"id":5,"result":{"content":[{"text":"{\"n\": 12345678901234567890}","type":"text"}],"structuredContent":{"n": 12345678901234567890},"_meta":{"context":{"v":2},"metadata":{"m":1}}}}
    ← [correlation_mismatch] {"header":{"id":"s-5","type":"error","requestId":"r2","source":"system:gateway","destination":"alice"},"error":{"code":"correlation_mismatch","message":"`q1` is no request that waits for your answer"}}
    ← {"header":{"id":"q2","type":"request","source":"bob","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{}}}}
    ⇒ bob r3 re q2 {"id":5,"result":{"content":[{"text":"text","type":"text"}]}}
    ← {"header":{"id":"q3","type":"request","source":"bob","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{}}}}
    ⇒ bob r4 re q3 {"id":5,"result":{"content":[{"text":"[1, 2]","type":"text"}],"_meta":{"salon/result":[1, 2]}}}
    ← {"header":{"id":"q4","type":"request","source":"bob","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{}}}}
    ⇒ bob r5 re q4 {"id":5,"result":{"content":[]}}
    ← {"header":{"id":"q5","type":"request","source":"bob","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{}}}}
    ⇒ bob r6 re q5 {"id":5,"result":{"content":[{"text":"it broke","type":"text"}],"isError":true,"_meta":{"salon/error":{"code":"mine","message":"it broke","details":{"n": 1.0}}}}}
    ← {"header":{"id":"q6","type":"request","source":"bob","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{}}}}
    ⇒ bob s-10 re q6 {"id":5,"result":{"content":[{"text":"as the source has it","type":"text"}],"isError":true,"_meta":{"salon/error":{"code":"not_found","message":"as the source has it"}}}}
    "#);
}

#[test]
fn only_what_is_registered_permitted_and_fitting_reaches_the_client() {
    let script = r#"
        permit bob drive read
        permit carol read
        bob? q1 tools/call {"name":"arm.move","arguments":{"x":1}}
        carol? q2 tools/call {"name":"arm.move","arguments":{"x":1}}
        bob? q3 tools/call {"name":"arm.move","arguments":{"x":1},"_meta":{"salon/permissions":["read"]}}
        bob? q4 tools/call {"name":"arm.move","arguments":{"x":1},"_meta":{"salon/permissions":["drive","fly"]}}
        carol? q5 tools/call {"name":"arm.move","arguments":{"x":1},"_meta":{"salon/permissions":["drive"]}}
        bob? q6 tools/call {"name":"arm.move","arguments":{"x":1},"_meta":{"salon/permissions":"drive"}}
        permit system:gateway drive read
        system:gateway? q7 tools/call {"name":"arm.move","arguments":{"x":1},"_meta":{"salon/onBehalfOf":"bob"}}
        permit system:gateway read
        system:gateway? q8 tools/call {"name":"arm.move","arguments":{"x":1},"_meta":{"salon/onBehalfOf":"carol"}}
        permit system:gateway
        system:gateway? q9 tools/call {"name":"arm.move","arguments":{"x":1}}
        carol? q10 tools/call {"name":"arm.move","arguments":{"x":1},"_meta":{"salon/onBehalfOf":"bob"}}
        bob? q11 tools/call {"name":"arm.move","arguments":{"x":"far"}}
        bob? q12 tools/call {"name":"arm.move"}
        bob? q13 tools/call {"name":"arm.move","arguments":[1]}
        bob? q14 tools/call {"name":"arm"}
        bob? q15 tools/call {"name":"leg.move"}
        bob? q16 tools/call {"arguments":{}}
        bob? q17 tools/call
    "#;
    assert_snapshot!(armed().act(script), @r#"
    ← {"header":{"id":"q1","type":"request","source":"bob","destination":"alice"},"payload":{"tool":{"id":"arm","capability":"move","parameters":{"x":1}}}}
    ↩ carol s-4 re q2 {"id":5,"error":{"code":-32000,"message":"`arm.move` needs the permission `drive`","data":{"code":"forbidden"}}}
    ↩ bob s-5 re q3 {"id":5,"error":{"code":-32000,"message":"`arm.move` needs the permission `drive`","data":{"code":"forbidden"}}}
    ← {"header":{"id":"q4","type":"request","source":"bob","destination":"alice"},"payload":{"tool":{"id":"arm","capability":"move","parameters":{"x":1}},"security":{"permissions":["drive"]}}}
    ↩ carol s-6 re q5 {"id":5,"error":{"code":-32000,"message":"`arm.move` needs the permission `drive`","data":{"code":"forbidden"}}}
    ↩ bob s-7 re q6 {"id":5,"error":{"code":-32000,"message":"`arm.move` needs the permission `drive`","data":{"code":"forbidden"}}}
    ← {"header":{"id":"q7","type":"request","source":"system:gateway","destination":"alice"},"payload":{"tool":{"id":"arm","capability":"move","parameters":{"x":1}}}}
    ↩ system:gateway s-8 re q8 {"id":5,"error":{"code":-32000,"message":"`arm.move` needs the permission `drive`","data":{"code":"forbidden"}}}
    ↩ system:gateway s-9 re q9 {"id":5,"error":{"code":-32000,"message":"`arm.move` needs the permission `drive`","data":{"code":"forbidden"}}}
    ↩ carol s-10 re q10 {"id":5,"error":{"code":-32000,"message":"`arm.move` needs the permission `drive`","data":{"code":"forbidden"}}}
    ↩ bob s-11 re q11 {"id":5,"error":{"code":-32602,"message":"`/x` does not fit the schema at `properties/x/type`","data":{"code":"invalid_parameters"}}}
    ↩ bob s-12 re q12 {"id":5,"error":{"code":-32602,"message":"the parameters do not fit the schema at `required`","data":{"code":"invalid_parameters"}}}
    ↩ bob s-13 re q13 {"id":5,"error":{"code":-32602,"message":"`arguments` must be an object"}}
    ↩ bob s-14 re q14 {"id":5,"error":{"code":-32602,"message":"no such tool is registered here","data":{"code":"not_found"}}}
    ↩ bob s-15 re q15 {"id":5,"error":{"code":-32602,"message":"no such tool is registered here","data":{"code":"not_found"}}}
    ↩ bob s-16 re q16 {"id":5,"error":{"code":-32602,"message":"`name` must be the name of a tool"}}
    ↩ bob s-17 re q17 {"id":5,"error":{"code":-32602,"message":"`name` must be the name of a tool"}}
    "#);
}

#[test]
fn what_is_replied_in_the_clients_name_waits_for_the_room() {
    let script = r#"
        refuse rate_limited
        bob? q1 tools/list
        refuse rate_limited
        carol? q2 ping
        tick 249
        refuse rate_limited
        tick 1
        tick 250
        refuse recipient_not_found
        bob? q3 ping
        tick 1000
    "#;
    assert_snapshot!(armed().act(script), @r#"
    ↩ bob s-4 re q1 {"id":5,"result":{"tools":[{"name":"arm.move","description":"Moves","inputSchema":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]},"_meta":{"salon/permissions":["drive"]}},{"name":"echo.say","inputSchema":{"type":"object"}}]}}
    ↩ carol s-5 re q2 {"id":5,"result":{}}
    ↩ bob s-4 re q1 {"id":5,"result":{"tools":[{"name":"arm.move","description":"Moves","inputSchema":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]},"_meta":{"salon/permissions":["drive"]}},{"name":"echo.say","inputSchema":{"type":"object"}}]}}
    ↩ carol s-5 re q2 {"id":5,"result":{}}
    ↩ bob s-4 re q1 {"id":5,"result":{"tools":[{"name":"arm.move","description":"Moves","inputSchema":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]},"_meta":{"salon/permissions":["drive"]}},{"name":"echo.say","inputSchema":{"type":"object"}}]}}
    ↩ bob s-6 re q3 {"id":5,"result":{}}
    "#);
}

#[test]
fn a_caller_that_cancels_or_leaves_is_not_answered() {
    let script = r#"
        bob? q1 tools/call {"name":"echo.say"}
        carol! notifications/cancelled {"requestId":5}
        bob! notifications/cancelled {"requestId":6}
        bob! notifications/cancelled {"requestId":5,"reason":"changed my mind"}
        response r1@q1 bob {"result":1}
        bob? q2 tools/call {"name":"echo.say"}
        leave bob
        response r2@q2 bob {"result":1}
        carol? q3 tools/call {"name":"echo.say"}
        response r3@q3 bob {"result":1}
        refuse rate_limited
        response r4@q3 carol {"result":1}
        response r5@q3 carol {"result":2}
    "#;
    assert_snapshot!(armed().act(script), @r#"
    ← {"header":{"id":"q1","type":"request","source":"bob","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{}}}}
    ← {"header":{"id":"e4","type":"notification","requestId":"q1","source":"bob","destination":"alice"},"payload":{"cancelled":{"reason":"changed my mind"}}}
    ← [correlation_mismatch] {"header":{"id":"s-4","type":"error","requestId":"r1","source":"system:gateway","destination":"alice"},"error":{"code":"correlation_mismatch","message":"`q1` is no request that waits for your answer"}}
    ← {"header":{"id":"q2","type":"request","source":"bob","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{}}}}
    ← {"header":{"id":"e6","type":"notification","source":"system:gateway","destination":"*"},"payload":{"presence":{"event":"leave","participant":{"id":"bob","mcp":{"version":"2025-06-18"}}}}}
    ← [correlation_mismatch] {"header":{"id":"s-5","type":"error","requestId":"r2","source":"system:gateway","destination":"alice"},"error":{"code":"correlation_mismatch","message":"`q2` is no request that waits for your answer"}}
    ← {"header":{"id":"q3","type":"request","source":"carol","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{}}}}
    ← [correlation_mismatch] {"header":{"id":"s-6","type":"error","requestId":"r3","source":"system:gateway","destination":"alice"},"error":{"code":"correlation_mismatch","message":"`q3` was asked by `carol`"}}
    ⇒ carol r4 re q3 {"id":5,"result":{"content":[{"text":"1","type":"text"}],"_meta":{"salon/result":1}}}
    ← [rate_limited] {"header":{"id":"s-8","type":"error","requestId":"r4","source":"system:gateway","destination":"alice"},"error":{"code":"rate_limited","message":"no"}}
    ⇒ carol r5 re q3 {"id":5,"result":{"content":[{"text":"2","type":"text"}],"_meta":{"salon/result":2}}}
    "#);
}

#[test]
fn an_answer_to_a_call_that_has_ended_is_not_waited_for() {
    for ended in ["call_ended", "correlation_mismatch"] {
        let script = format!(
            r#"
            bob? q1 tools/call {{"name":"echo.say"}}
            refuse {ended}
            response r1@q1 bob {{"result":1}}
            response r2@q1 bob {{"result":1}}
            tick 60000
            "#
        );
        let told = armed().act(&script);
        assert_eq!(told.matches("re q1").count(), 1, "{told}");
        assert!(told.contains("`q1` is no request that waits for your answer"), "{told}");
    }
}

#[test]
fn what_cannot_be_registered_is_told() {
    let register = |parameters: &str| {
        let script = format!(
            r#"request t1 system:gateway {{"tool":{{"id":"registry","capability":"register","parameters":{parameters}}}}}"#
        );
        let told = Play::seated().act(&script);
        let (_, error) = told.split_once(r#""error":"#).unwrap_or(("", &told));
        error.trim_end().trim_end_matches('}').to_owned()
    };
    let long = "x".repeat(65);
    let many: Vec<_> = (0..257).map(|at| format!(r#"{{"name":"c{at}"}}"#)).collect();
    let told: Vec<String> = [
        r#"{}"#.to_owned(),
        r#"{"id":"a","capabilities":[]}"#.to_owned(),
        r#"{"id":"","capabilities":[{"name":"b"}]}"#.to_owned(),
        r#"{"id":"a b","capabilities":[{"name":"b"}]}"#.to_owned(),
        format!(r#"{{"id":"{long}","capabilities":[{{"name":"b"}}]}}"#),
        r#"{"id":"a","capabilities":[{"name":"b.c"}]}"#.to_owned(),
        r#"{"id":"a","capabilities":[{"name":"b"},{"name":"b"}]}"#.to_owned(),
        r#"{"id":"a","capabilities":[{"name":"b","parameters":[]}]}"#.to_owned(),
        r#"{"id":"a","capabilities":[{"name":"b","parameters":{"type":"string"}}]}"#.to_owned(),
        r##"{"id":"a","capabilities":[{"name":"b","parameters":{"$ref":"#"}}]}"##.to_owned(),
        r#"{"id":"a","capabilities":[{"name":"b"}],"security":{"permissions":[""]}}"#.to_owned(),
        r#"{"id":"a","capabilities":[{"name":"b"}],"security":{"permissions":"x"}}"#.to_owned(),
        format!(r#"{{"id":"a","capabilities":[{}]}}"#, many.join(",")),
        format!(r#"{{"id":"a","capabilities":[{{"name":"b","description":"{}"}}]}}"#, "x".repeat(200_000)),
    ]
    .iter()
    .map(|parameters| register(parameters))
    .collect();
    assert_snapshot!(told.join("\n"), @r#"
    {"code":"invalid_parameters","message":"a registration has `id`, `capabilities` (each with a `name`, maybe a `description` and `parameters`), and maybe `security.permissions`"
    {"code":"invalid_parameters","message":"a tool has at least one capability"
    {"code":"invalid_parameters","message":"`id` must be 1 to 64 characters of A-Z a-z 0-9 _ - ."
    {"code":"invalid_parameters","message":"`id` must be 1 to 64 characters of A-Z a-z 0-9 _ - ."
    {"code":"invalid_parameters","message":"`id` must be 1 to 64 characters of A-Z a-z 0-9 _ - ."
    {"code":"invalid_parameters","message":"`capabilities.name` must be 1 to 64 characters of A-Z a-z 0-9 _ -"
    {"code":"invalid_parameters","message":"the capability `b` stands twice"
    {"code":"invalid_parameters","message":"the parameters of `b` are not usable: it is not an object"
    {"code":"invalid_parameters","message":"the parameters of `b` are not usable: their `type` must be \"object\""
    {"code":"invalid_parameters","message":"the parameters of `b` are not usable: it refers to itself in a circle"
    {"code":"invalid_parameters","message":"`security.permissions` must be at most 64 strings of 1 to 128 bytes without control characters"
    {"code":"invalid_parameters","message":"a registration has `id`, `capabilities` (each with a `name`, maybe a `description` and `parameters`), and maybe `security.permissions`"
    {"code":"too_large","message":"your tools would have more than 256 capabilities"
    {"code":"too_large","message":"the descriptions of your tools would have more than 262144 bytes"
    "#);
    let none = r#"request t1 system:gateway {"tool":{"id":"registry"}}"#;
    assert_snapshot!(Play::seated().act(none), @r#"← [not_found] {"header":{"id":"s-2","type":"error","requestId":"t1","source":"system:gateway","destination":"alice"},"error":{"code":"not_found","message":"`registry` has the capabilities register, unregister and list"}}"#);
}

#[test]
fn calls_reach_the_client_in_the_rooms_order_whether_or_not_they_need_permissions() {
    let script = r#"
        bob? q1 tools/call {"name":"arm.move","arguments":{"x":1}}
        bob? q2 tools/call {"name":"echo.say"}
        carol? q3 tools/call {"name":"arm.move","arguments":{"x":1}}
        bob? q4 tools/call {"name":"arm.move","arguments":{"x":1}}
    "#;
    let told = armed().after("permit bob drive").act(script);
    let asked: Vec<_> = told.lines().filter_map(|line| line.strip_prefix(r#"← {"header":{"id":"q"#)).collect();
    let asked: Vec<_> = asked.iter().map(|line| &line[..1]).collect();
    assert_eq!(asked, ["1", "2", "4"], "{told}");
    assert_eq!(told.matches("needs the permission `drive`").count(), 1, "{told}");
    assert!(told.contains("re q3"), "{told}");
}

#[test]
fn an_answer_that_could_not_be_stored_is_given_when_it_can_be() {
    let script = r#"
        outage
        refuse closing
        bob? q1 tools/list
        tick 10000
    "#;
    let mut play = armed();
    play.run(script);
    assert_eq!(play.told.matches("re q1").count(), 1, "there is no use in trying: {}", play.told);
    let told = play.act("recovered");
    let answers: Vec<_> = told.lines().filter(|line| line.contains("re q1")).collect();
    assert_eq!(answers.len(), 2, "{told}");
    assert_eq!(answers[0], answers[1], "it may have been stored, so it keeps its id");
    let states: Vec<_> = told.lines().filter(|line| line.contains(r#""outage":{"#)).collect();
    assert!(states[0].contains(r#""over":false"#) && states[1].contains(r#""over":true"#), "{told}");
    assert_eq!(states.len(), 2, "{told}");
}
