//! From the client to the others.

use super::*;

#[test]
fn a_request_is_a_tool_call_after_a_handshake_and_its_answer_a_response() {
    let script = r#"
        request m1 bob {"tool":{"id":"arm","capability":"move","parameters":{"n": 12345678901234567890,"z":1,"a":"é"}},"context":{"k": 1.0}} # {"trace":"t","integrity":{"alg":"HS256","keyId":"k","value":"AA"}}
        list bob {"tools":[{"name":"arm"},{"name":"arm.move"}]}
        bob: initialize {"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"b"}}
        bob: tools/call {"content":[{"type":"text","text":"ok"}],"structuredContent":{"n": 12345678901234567890},"_meta":{"context":{"v": 2},"metadata":{"m":1}}}
        request m2 bob {"tool":{"id":"arm","capability":"none"}}
        list bob {"tools":[{"name":"arm"},{"name":"arm.move"}]}
        bob: tools/call {"content":[{"type":"text","text":"told"}]}
        request m3 bob {"tool":{"id":"arm"}}
        list bob none
        bob: tools/call {"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}
        request m4 bob {"tool":{"id":"leg","capability":"move"}}
        list bob {"tools":[{"name":"arm.move"}]}
    "#;
    assert_snapshot!(Play::seated().act(script), @r#"
    consult bob tools
    ⇒ bob s-2 {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob s-3 {"method":"notifications/initialized"}
    ⇒ bob m1 {"id":"m1","method":"tools/call","params":{"name":"arm.move","arguments":{"n": 12345678901234567890,"z":1,"a":"é"},"_meta":{"progressToken":"m1","context":{"k": 1.0},"metadata":{"trace":"t"}}}}
    ← {"header":{"id":"e2","type":"response","requestId":"m1","source":"bob","destination":"alice"},"payload":{"result":{"n": 12345678901234567890},"context":{"v": 2}},"metadata":{"m":1}}
    ⇒ bob m2 {"id":"m2","method":"tools/call","params":{"name":"arm","arguments":{},"_meta":{"progressToken":"m2"}}}
    ← {"header":{"id":"e3","type":"response","requestId":"m2","source":"bob","destination":"alice"},"payload":{"result":"told"}}
    ⇒ bob m3 {"id":"m3","method":"tools/call","params":{"name":"arm","arguments":{},"_meta":{"progressToken":"m3"}}}
    ← {"header":{"id":"e4","type":"response","requestId":"m3","source":"bob","destination":"alice"},"payload":{"result":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}
    consult bob tools
    ← [not_found] {"header":{"id":"s-4","type":"error","requestId":"m4","source":"system:gateway","destination":"alice"},"error":{"code":"not_found","message":"`bob` has no such tool, or not with this capability"}}
    "#);
}

#[test]
fn a_capability_is_called_by_its_own_name_where_the_catalogue_is_unknown() {
    let script = r#"
        request m1 bob {"tool":{"id":"arm","capability":"move"}}
        list bob none
        bob: initialize
    "#;
    let told = Play::seated().act(script);
    let call = told.lines().last().unwrap_or_default();
    assert!(call.contains(r#""method":"tools/call","params":{"name":"arm.move","#), "{told}");
}

#[test]
fn what_somebody_listed_is_remembered_until_it_changes() {
    let script = r#"
        request m1 bob {"tool":{"id":"a"}}
        list bob {"tools":[{"name":"a"}]}
        bob: initialize
        request m2 bob {"tool":{"id":"a"}}
        request m3 bob {"tool":{"id":"b"}}
        list bob {"tools":[{"name":"a"},{"name":"b"}]}
        bob* notifications/tools/list_changed
        request m4 bob {"tool":{"id":"a"}}
        list bob {"tools":[{"name":"a"}]}
        join bob
        request m5 bob {"tool":{"id":"a"}}
        request m6 alice {"tool":{"id":"a"}}
    "#;
    assert_snapshot!(Play::seated().act(script), @r#"
    consult bob tools
    ⇒ bob s-2 {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob s-3 {"method":"notifications/initialized"}
    ⇒ bob m1 {"id":"m1","method":"tools/call","params":{"name":"a","arguments":{},"_meta":{"progressToken":"m1"}}}
    ⇒ bob m2 {"id":"m2","method":"tools/call","params":{"name":"a","arguments":{},"_meta":{"progressToken":"m2"}}}
    consult bob tools
    ⇒ bob m3 {"id":"m3","method":"tools/call","params":{"name":"b","arguments":{},"_meta":{"progressToken":"m3"}}}
    ← {"header":{"id":"e2","type":"notification","source":"bob","destination":"*"},"payload":{"notification":{"method":"notifications/tools/list_changed"}}}
    consult bob tools
    ⇒ bob m4 {"id":"m4","method":"tools/call","params":{"name":"a","arguments":{},"_meta":{"progressToken":"m4"}}}
    ← {"header":{"id":"e3","type":"notification","source":"system:gateway","destination":"*"},"payload":{"presence":{"event":"join","participant":{"id":"bob","mcp":{"version":"2025-06-18"}}}}}
    consult bob tools
    ← [invalid_parameters] {"header":{"id":"s-4","type":"error","requestId":"m6","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"a request to yourself would have nobody to answer it"}}
    "#);
}

#[test]
fn a_failure_is_an_error_in_the_words_of_the_room() {
    let script = r#"
        request m1 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        bob: initialize error {"code":-32601,"message":"what?"}
        bob: tools/call {"content":[{"type":"text","text":"it broke"}],"isError":true}
        request m2 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        bob: tools/call {"content":[{"type":"text","text":"it broke"}],"isError":true,"structuredContent":{"why":1}}
        request m3 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        bob: tools/call error {"code":-32602,"message":"no such tool","data":{"n": 12345678901234567890}}
        request m4 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        bob: tools/call error {"code":-1,"message":"not you","data":{"code":"forbidden","details":{"need": ["x"]}}}
        request m5 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        bob: tools/call error {"code":-5,"message":"odd","data":[1]}
        request m6 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        bob: tools/call {"content":[{"type":"text","text":"m"}],"isError":true,"_meta":{"salon/error":{"code":"mine","message":"m","details":{"a": 1}}}}
        request m7 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        bob: tools/call {"content":[{"type":"text","text":"m"}],"isError":true,"_meta":{"salon/error":{"code":"not_found","message":"m"}}}
    "#;
    assert_snapshot!(Play::seated().act(script), @r#"
    consult bob tools
    ⇒ bob s-2 {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob m1 {"id":"m1","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m1"}}}
    ← {"header":{"id":"e2","type":"error","requestId":"m1","source":"bob","destination":"alice"},"error":{"code":"tool_error","message":"it broke"}}
    ⇒ bob m2 {"id":"m2","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m2"}}}
    ← {"header":{"id":"e3","type":"error","requestId":"m2","source":"bob","destination":"alice"},"error":{"code":"tool_error","message":"it broke","details":{"why":1}}}
    ⇒ bob m3 {"id":"m3","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m3"}}}
    ← {"header":{"id":"e4","type":"error","requestId":"m3","source":"bob","destination":"alice"},"error":{"code":"invalid_parameters","message":"no such tool","details":{"n": 12345678901234567890}}}
    ⇒ bob m4 {"id":"m4","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m4"}}}
    ← {"header":{"id":"e5","type":"error","requestId":"m4","source":"bob","destination":"alice"},"error":{"code":"forbidden","message":"not you","details":{"need": ["x"]}}}
    ⇒ bob m5 {"id":"m5","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m5"}}}
    ← {"header":{"id":"e6","type":"error","requestId":"m5","source":"bob","destination":"alice"},"error":{"code":"tool_error","message":"odd","details":[1]}}
    ⇒ bob m6 {"id":"m6","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m6"}}}
    ← {"header":{"id":"e7","type":"error","requestId":"m6","source":"bob","destination":"alice"},"error":{"code":"tool_error","message":"m","details":{"a": 1}}}
    ⇒ bob m7 {"id":"m7","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m7"}}}
    ← {"header":{"id":"e8","type":"error","requestId":"m7","source":"bob","destination":"alice"},"error":{"code":"not_found","message":"m"}}
    "#);
}

#[test]
fn nobody_is_shown_another_result_than_all_others() {
    let mut told = String::new();
    for result in [
        r#"{"content":[{"type":"text","text":"[1, 2]"}],"_meta":{"salon/result":[1, 2]}}"#,
        r#"{"content":[{"type":"text","text":"no"}],"_meta":{"salon/result":"yes"}}"#,
        r#"{"content":[],"structuredContent":{"ok":false},"_meta":{"salon/result":{"ok":true}}}"#,
        r#"{"content":[{"type":"text","text":"as MCP has it"}],"_meta":{"result":1,"error":{"code":"forbidden"}}}"#,
        r#"{"content":[{"type":"text","text":"no"}],"isError":true,"_meta":{"salon/error":{"code":"forbidden","message":"yes"}}}"#,
        r#"{"content":[{"type":"text","text":"the tool failed"}],"isError":true,"_meta":{"salon/error":{"code":"forbidden"}}}"#,
    ] {
        let play = Play::seated().after(
            r#"request m1 bob {"tool":{"id":"t"}}
            list bob {"tools":[{"name":"t"}]}
            bob: initialize"#,
        );
        let said = play.act(&format!("bob: tools/call {result}"));
        told.push_str(said.split_once(r#""alice"},"#).map_or(&*said, |(_, rest)| rest));
    }
    assert_snapshot!(told, @r#"
    "payload":{"result":[1, 2]}}
    "payload":{"result":"no"}}
    "payload":{"result":{"ok":false}}}
    "payload":{"result":"as MCP has it"}}
    "error":{"code":"tool_error","message":"no"}}
    "error":{"code":"forbidden","message":""}}
    "#);
}

#[test]
fn somebody_of_the_modern_era_needs_no_handshake() {
    let script = r#"
        request m1 modern {"tool":{"id":"t"},"context":{"k":1}}
        list modern {"tools":[{"name":"t"}]}
        modern: tools/call {"resultType":"complete","content":[{"type":"text","text":"hi"}]}
        request m2 modern {"tool":{"id":"t"}}
        list modern {"tools":[{"name":"t"}]}
        modern: tools/call {"resultType":"input_required","inputRequests":{"what":{"method":"sampling/createMessage"}}}
        request m3 modern {"tool":{"id":"t"}}
        modern: tools/call {"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create"}},"requestState":"s"}
        modern: tools/call {"resultType":"complete","content":[{"type":"text","text":"without"}]}
    "#;
    assert_snapshot!(Play::seated().act(script), @r#"
    consult modern tools
    ⇒ modern m1 {"id":"m1","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m1","context":{"k":1},"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"alice","version":""},"io.modelcontextprotocol/clientCapabilities":{}}}}
    ← {"header":{"id":"e1","type":"response","requestId":"m1","source":"modern","destination":"alice"},"payload":{"result":"hi"}}
    ⇒ modern m2 {"id":"m2","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m2","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"alice","version":""},"io.modelcontextprotocol/clientCapabilities":{}}}}
    ← {"header":{"id":"e2","type":"error","requestId":"m2","source":"modern","destination":"alice"},"error":{"code":"tool_error","message":"the tool asks its caller something, which this protocol has no way to answer"}}
    ⇒ modern m3 {"id":"m3","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m3","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"alice","version":""},"io.modelcontextprotocol/clientCapabilities":{}}}}
    ⇒ modern s-2 {"id":"s-2","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m3","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"alice","version":""},"io.modelcontextprotocol/clientCapabilities":{}},"inputResponses":{"who":{"action":"decline"}},"requestState":"s"}}
    ← {"header":{"id":"e4","type":"response","requestId":"m3","source":"modern","destination":"alice"},"payload":{"result":"without"}}
    "#);
}

#[test]
fn a_call_never_hangs() {
    let script = r#"
        request m1 dave {"tool":{"id":"t"}}
        request m2 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        tick 59999
        bob: initialize
        tick 1
        request m3 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        gone m3 bob
        request m4 carol {"tool":{"id":"t"}}
        request m5 carol {"tool":{"id":"t"}}
        list carol {"tools":[{"name":"t"}]}
        leave carol
        request m6 bob {"tool":{"id":"t"}}
        refuse rate_limited
        list bob {"tools":[{"name":"t"}]}
        request m7 bob {"tool":{"id":"t"}}
        repeat
        list bob {"tools":[{"name":"t"}]}
        request m8 bob {"tool":{"id":"t"}}
        closing
    "#;
    assert_snapshot!(Play::seated().act(script), @r#"
    ← [recipient_not_found] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"recipient_not_found","message":"`dave` is not in this room"}}
    consult bob tools
    ⇒ bob s-3 {"id":"s-3","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob s-4 {"method":"notifications/initialized"}
    ⇒ bob m2 {"id":"m2","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m2"}}}
    ⇒ bob s-5 re m2 {"method":"notifications/cancelled","params":{"reason":"the answer took too long","requestId":"m2"}}
    ← [timeout] {"header":{"id":"s-6","type":"error","requestId":"m2","source":"system:gateway","destination":"alice"},"error":{"code":"timeout","message":"`bob` did not answer within 60 seconds"}}
    ⇒ bob m3 {"id":"m3","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m3"}}}
    ← [recipient_not_found] {"header":{"id":"s-7","type":"error","requestId":"m3","source":"system:gateway","destination":"alice"},"error":{"code":"recipient_not_found","message":"`bob` left before it answered"}}
    consult carol tools
    consult carol tools
    ⇒ carol s-8 {"id":"s-8","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ← [recipient_not_found] {"header":{"id":"s-9","type":"error","requestId":"m4","source":"system:gateway","destination":"alice"},"error":{"code":"recipient_not_found","message":"`carol` is not in this room"}}
    ← [recipient_not_found] {"header":{"id":"s-10","type":"error","requestId":"m5","source":"system:gateway","destination":"alice"},"error":{"code":"recipient_not_found","message":"`carol` is not in this room"}}
    ← {"header":{"id":"e2","type":"notification","source":"system:gateway","destination":"*"},"payload":{"presence":{"event":"leave","participant":{"id":"carol","mcp":{"version":"2025-06-18"}}}}}
    ⇒ bob m6 {"id":"m6","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m6"}}}
    ⇒ bob m7 {"id":"m7","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m7"}}}
    ← [rate_limited] {"header":{"id":"s-11","type":"error","requestId":"m7","source":"system:gateway","destination":"alice"},"error":{"code":"rate_limited","message":"no"}}
    ⇒ bob m8 {"id":"m8","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m8"}}}
    ← [id_conflict] {"header":{"id":"s-12","type":"error","requestId":"m8","source":"system:gateway","destination":"alice"},"error":{"code":"id_conflict","message":"a request with this `messageId` was sent before, and it is answered once"}}
    ← [closing] {"header":{"id":"s-13","type":"error","requestId":"m6","source":"system:gateway","destination":"alice"},"error":{"code":"closing","message":"the gateway is shutting down; connect again and resume"}}
    close shutdown
    "#);
}

#[test]
fn progress_comes_with_its_request_and_lengthens_the_wait() {
    let script = r#"
        request m1 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        bob: initialize
        tick 50000
        bob! notifications/progress {"progressToken":"m1","progress":1,"total":2,"message":"half"}
        carol! notifications/progress {"progressToken":"m1","progress":2}
        bob! notifications/progress {"progressToken":"m9","progress":2}
        tick 50000
        bob! notifications/progress {"progressToken":"m1","progress":2,"total":2}
        tick 60000
        bob! notifications/progress {"progressToken":"m1","progress":3}
    "#;
    assert_snapshot!(Play::seated().act(script), @r#"
    consult bob tools
    ⇒ bob s-2 {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob s-3 {"method":"notifications/initialized"}
    ⇒ bob m1 {"id":"m1","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m1"}}}
    ← {"header":{"id":"e2","type":"notification","requestId":"m1","source":"bob","destination":"alice"},"payload":{"stream":{"sequence":1,"progress":1,"total":2,"message":"half","final":false}}}
    ← {"header":{"id":"e5","type":"notification","requestId":"m1","source":"bob","destination":"alice"},"payload":{"stream":{"sequence":2,"progress":2,"total":2,"final":true}}}
    ⇒ bob s-4 re m1 {"method":"notifications/cancelled","params":{"reason":"the answer took too long","requestId":"m1"}}
    ← [timeout] {"header":{"id":"s-5","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"timeout","message":"`bob` did not answer within 60 seconds"}}
    "#);
}

#[test]
fn a_held_request_waits_for_its_approval_and_then_for_its_answer() {
    let mut play = Play::seated().after(
        r#"request m1 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        hold
        bob: initialize
        take
        await-approval
        tick 86400000"#,
    );
    // One of two approvals is none.
    play.run(r#"system:gateway* notifications/approval/decided {"id":"m1","decision":"approved"}"#);
    play.told.clear();
    play.run("tick 86400000\nstored m1\ntick 59999");
    assert_snapshot!(play.told, @"");
    play.run("tick 1");
    assert_snapshot!(play.told, @r#"
    ⇒ bob s-4 re m1 {"method":"notifications/cancelled","params":{"reason":"the answer took too long","requestId":"m1"}}
    ← [timeout] {"header":{"id":"s-5","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"timeout","message":"`bob` did not answer within 60 seconds"}}
    "#);
}

#[test]
fn what_is_taken_back_is_told_when_it_can_be() {
    for code in ["rate_limited", "closing"] {
        let mut play = Play::seated().after(
            r#"
            request m1 bob {"tool":{"id":"t"}}
            list bob {"tools":[{"name":"t"}]}
            bob: initialize
            "#,
        );
        play.run(&format!(
            "refuse {code}\nnotification m2@m1 - {{\"cancelled\":{{}}}}\nrefuse {code}\ntick 250\ntick 250\ntick 250"
        ));
        let told: Vec<_> = play.told.lines().filter(|line| line.contains("notifications/cancelled")).collect();
        assert_eq!(told.len(), 3, "{code}: {}", play.told);
        assert!(told.iter().all(|line| *line == told[0]), "it may have been stored, so it keeps its id: {told:?}");
        assert_eq!(play.door.poll_timeout(), None, "nothing is left to be said");
    }
    // Nobody is there to hear it.
    let told = Play::seated().act(
        r#"
        request m1 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        bob: initialize
        refuse recipient_not_found
        notification m2@m1 - {"cancelled":{}}
        tick 1000
        "#,
    );
    assert_eq!(told.matches("notifications/cancelled").count(), 1, "{told}");
}

#[test]
fn cancellations_that_are_not_sent_yet_are_bounded() {
    let mut play = Play::seated().after(
        r#"
        request m0 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        bob: initialize
        "#,
    );
    play.run("refuse rate_limited");
    for at in 0..256 {
        let next = at + 1;
        play.run(&format!("notification n{at}@m{at} - {{\"cancelled\":{{}}}}"));
        play.told.clear();
        play.run(&format!("request m{next} bob {{\"tool\":{{\"id\":\"t\"}}}}"));
    }
    assert!(play.told.contains("256 requests of yours are open already"), "{}", play.told);
    play.run("tick 250");
    play.told.clear();
    play.run(r#"request last bob {"tool":{"id":"t"}}"#);
    assert!(play.told.starts_with("⇒ bob last "), "{}", play.told);
}

/// A WebSocket of alice's with open calls `m1`, `m2` and `m3`.
fn calling() -> Play {
    Play::seated().after(
        r#"
        request m1 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        bob: initialize
        request m2 bob {"tool":{"id":"t"}}
        request m3 bob {"tool":{"id":"t"}}
        "#,
    )
}

/// What was taken back, in the order in which that was said.
fn cancel_outcome(told: &str) -> Vec<&str> {
    let said = told.lines().filter(|line| line.contains("notifications/cancelled"));
    said.map(|line| line.split(" re ").nth(1).unwrap().split(' ').next().unwrap()).collect()
}

/// Takes a call back.
fn take_back(at: usize) -> String {
    format!("notification n{at}@m{at} - {{\"cancelled\":{{}}}}\n")
}

#[test]
fn what_is_taken_back_is_told_again_one_by_one() {
    let mut play = calling();
    play.run(&["hold\n", &take_back(1), &take_back(2), &take_back(3)].concat());
    play.run("drop rate_limited\ndrop rate_limited\ndrop rate_limited");
    play.told.clear();
    play.run("tick 250");
    assert_eq!(cancel_outcome(&play.told), ["m1"], "the others wait");
    play.run("drop rate_limited\ntick 249");
    assert_eq!(cancel_outcome(&play.told), ["m1"], "nor is another tried when that is refused");
    play.run("tick 1\ntake\ntake");
    assert_eq!(cancel_outcome(&play.told), ["m1", "m1", "m2", "m3"]);
    play.run("take");
    assert_eq!(play.door.poll_timeout(), None, "nothing is left to be said");
}

#[test]
fn nothing_is_told_again_while_nothing_can_be_stored() {
    let [first, second, third] = [1, 2, 3].map(take_back);
    let scripts = [
        ["hold\n", &first, &second, "drop closing\noutage\ndrop closing\n", &third].concat(),
        ["hold\n", &first, &second, "outage\n", &third, "drop closing\ndrop closing\n"].concat(),
    ];
    for script in scripts {
        let mut play = calling();
        play.run(&script);
        assert_eq!(cancel_outcome(&play.told), ["m1", "m2"]);
        play.told.clear();
        assert_eq!(play.door.poll_timeout(), None, "there is no use in trying");
        play.run("tick 10000");
        assert_eq!(cancel_outcome(&play.told), [""; 0]);
        play.run("recovered\ntake\ntake\ntake");
        assert_eq!(cancel_outcome(&play.told), ["m1", "m2", "m3"]);
        assert_eq!(play.door.poll_timeout(), None, "nothing is left to be said");
    }
}

#[test]
fn a_session_lasts_until_what_it_says_is_taken() {
    let mut play = Play::posting().after("1 request m1 bob {\"tool\":{\"id\":\"t\"}}\nseat");
    play.run("list bob {\"tools\":[{\"name\":\"t\"}]}\nbob: initialize\nhold\nhangup 1");
    assert_eq!(cancel_outcome(&play.told), ["m1"]);
    play.run("tick 60000");
    assert!(!play.told.contains("close"), "{}", play.told);
    play.run("take\ntick 60000");
    assert!(play.told.ends_with("close bye\n"), "{}", play.told);
}

#[test]
fn a_request_is_taken_back_by_its_sender() {
    let script = r#"
        request m1 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}
        bob: initialize
        notification m2@m1 - {"cancelled":{}}
        bob: tools/call {"content":[]}
        notification m3@m1 - {"cancelled":{}}
        request m4 bob {"tool":{"id":"t"}}
        request m4 bob {"tool":{"id":"t"}}
    "#;
    assert_snapshot!(Play::seated().act(script), @r#"
    consult bob tools
    ⇒ bob s-2 {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob s-3 {"method":"notifications/initialized"}
    ⇒ bob m1 {"id":"m1","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m1"}}}
    ⇒ bob s-4 re m1 {"method":"notifications/cancelled","params":{"reason":"the caller cancelled","requestId":"m1"}}
    ← [closing] {"header":{"id":"s-5","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"closing","message":"the request was cancelled by its sender"}}
    ← [correlation_mismatch] {"header":{"id":"s-6","type":"error","requestId":"m3","source":"system:gateway","destination":"alice"},"error":{"code":"correlation_mismatch","message":"`m1` is no request that waits for your answer"}}
    ⇒ bob m4 {"id":"m4","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m4"}}}
    ← [id_conflict] {"header":{"id":"s-7","type":"error","requestId":"m4","source":"system:gateway","destination":"alice"},"error":{"code":"id_conflict","message":"a request with this `messageId` is open already"}}
    "#);
}

#[test]
fn only_whom_it_was_asked_of_answers_a_call() {
    let mut play = Play::seated().after(
        r#"request m1 bob {"tool":{"id":"t"}}
        list bob {"tools":[{"name":"t"}]}"#,
    );
    let greeting = play.open[0].2.clone();
    play.entry(
        None,
        "carol",
        &[id("alice")],
        EnvelopeKind::Mcp,
        Some(&greeting),
        r#"{"jsonrpc":"2.0","id":"x","result":{}}"#,
    );
    play.run("bob: initialize");
    play.told.clear();
    play.entry(
        None,
        "carol",
        &[id("alice")],
        EnvelopeKind::Mcp,
        Some("m1"),
        r#"{"jsonrpc":"2.0","id":"m1","result":"forged"}"#,
    );
    assert_eq!(play.told, "");
    assert_snapshot!(play.act("bob: tools/call {}"), @r#"← {"header":{"id":"e4","type":"response","requestId":"m1","source":"bob","destination":"alice"},"payload":{"result":null}}"#);
}
