//! What others can do to the client by asking it: nothing of it is lost, and nothing of it lasts for ever.

use super::*;

fn armed() -> Play {
    Play::seated().after(REGISTER)
}

fn count(told: &str, of: &str) -> usize {
    told.lines().filter(|line| line.contains(of)).count()
}

#[test]
fn no_reply_is_lost_and_the_room_waits_for_them() {
    let mut play = armed();
    play.run("hold");
    for at in 0..300 {
        assert_eq!(play.door.ready(), at < 256, "{at}");
        play.run(&format!("bob? q{at} ping"));
    }
    assert_eq!(count(&play.told, "↩ bob"), 300, "what was taken from the room already is answered all the same");
    for _ in 0..300 {
        play.run("take");
    }
    assert!(play.door.ready());

    let mut play = armed();
    for at in 0..300 {
        play.run(&format!("refuse rate_limited\nbob? q{at} ping"));
    }
    assert!(!play.door.ready());
    play.told.clear();
    play.run("tick 250");
    assert_eq!(count(&play.told, "↩ bob"), 300);
    assert!(play.door.ready());
}

#[test]
fn a_reply_that_is_too_long_is_told_to_be() {
    let mut play = armed();
    (play.door.options.limits.message, play.door.options.limits.answer) = (400, 400);
    assert_snapshot!(play.act("bob? q1 tools/list"), @r#"↩ bob s-4 re q1 {"id":5,"error":{"code":-32603,"message":"the answer is longer than a message may be","data":{"code":"too_large"}}}"#);
}

#[test]
fn an_answer_that_the_room_has_no_place_for_is_told_to_both_sides() {
    for code in ["storage_full", "too_large"] {
        let told = armed().act(&format!(
            "bob? q1 tools/call {{\"name\":\"echo.say\"}}\nrefuse {code}\nresponse r1@q1 - {{\"result\":\"much\"}}\nresponse r2@q1 - {{\"result\":\"again\"}}"
        ));
        let failed = format!("the answer of `alice` does not fit into the room: no\",\"data\":{{\"code\":\"{code}\"}}");
        assert_eq!(count(&told, &failed), 1, "the caller waits in vain:\n{told}");
        assert_eq!(count(&told, &format!("← [{code}]")), 1, "the client does not know:\n{told}");
        assert_eq!(count(&told, "← [correlation_mismatch]"), 1, "the call is over:\n{told}");
    }
    // A rate passes: the client may answer again.
    let told = armed().act(
        "bob? q1 tools/call {\"name\":\"echo.say\"}\nrefuse rate_limited\nresponse r1@q1 - {\"result\":\"much\"}\nresponse r2@q1 - {\"result\":\"again\"}",
    );
    assert_eq!(count(&told, "again"), 1, "{told}");
}

#[test]
fn a_request_that_the_client_does_not_answer_is_answered_for_it() {
    let script = r#"
        bob? q1 tools/call {"name":"echo.say"}
        bob? q2 tools/call {"name":"echo.say","_meta":{"progressToken":7}}
        tick 59999
        notification n1@q1 - {"stream":{"sequence":1}}
        notification n2@q2 - {"stream":{"sequence":1}}
        bob? q3 tools/call {"name":"echo.say"}
        tick 59999
        response r3@q3 - {"result":"in time"}
        tick 1
        response r1@q1 - {"result":"too late"}
        tick 600000
    "#;
    assert_snapshot!(armed().act(script), @r#"
    ← {"header":{"id":"q1","type":"request","source":"bob","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{}}}}
    ← {"header":{"id":"q2","type":"request","source":"bob","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{}}}}
    ⇒ bob n2 re q2 {"method":"notifications/progress","params":{"progressToken":7,"progress":1}}
    ← {"header":{"id":"q3","type":"request","source":"bob","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{}}}}
    ⇒ bob r3 re q3 {"id":5,"result":{"content":[{"text":"in time","type":"text"}]}}
    ↩ bob s-5 re q1 {"id":5,"error":{"code":-32000,"message":"`alice` did not answer within 60 seconds","data":{"code":"timeout"}}}
    ↩ bob s-7 re q2 {"id":5,"error":{"code":-32000,"message":"`alice` did not answer within 60 seconds","data":{"code":"timeout"}}}
    ← {"header":{"id":"s-6","type":"notification","requestId":"q1","source":"system:gateway","destination":"alice"},"payload":{"cancelled":{"reason":"`alice` did not answer within 60 seconds"}}}
    ← {"header":{"id":"s-8","type":"notification","requestId":"q2","source":"system:gateway","destination":"alice"},"payload":{"cancelled":{"reason":"`alice` did not answer within 60 seconds"}}}
    ← [correlation_mismatch] {"header":{"id":"s-9","type":"error","requestId":"r1","source":"system:gateway","destination":"alice"},"error":{"code":"correlation_mismatch","message":"`q1` is no request that waits for your answer"}}
    "#);
}

#[test]
fn one_caller_leaves_room_for_others() {
    let mut play = armed();
    for at in 0..64 {
        play.run(&format!(r#"bob? q{at} tools/call {{"name":"echo.say"}}"#));
        let behalf = r#""_meta":{"salon/onBehalfOf":"bob","salon/request":"m1"}"#;
        play.run(&format!(r#"dave? d{at} tools/call {{"name":"echo.say",{behalf}}}"#));
    }
    play.told.clear();
    let script = r#"
        bob? q64 tools/call {"name":"echo.say"}
        system:gateway? h1 tools/call {"name":"echo.say","_meta":{"salon/onBehalfOf":"bob","salon/request":"m1"}}
        system:gateway? h2 tools/call {"name":"echo.say","_meta":{"salon/onBehalfOf":"carol","salon/request":"m2"}}
        carol? q65 tools/call {"name":"echo.say"}
        tick 60000
    "#;
    play.run(script);
    assert_eq!(count(&play.told, "↩") - 4, 64 + 64, "every one of them is answered in the end");
    play.told.truncate(play.told.find("did not answer").unwrap());
    let first: Vec<_> = play.told.lines().take(4).collect();
    assert_snapshot!(first.join("\n"), @r#"
    ↩ bob s-4 re q64 {"id":5,"error":{"code":-32603,"message":"64 requests of yours wait for answers already","data":{"code":"rate_limited"}}}
    ↩ system:gateway s-5 re h1 {"id":5,"error":{"code":-32603,"message":"64 requests of yours wait for answers already","data":{"code":"rate_limited"}}}
    ← {"header":{"id":"h2","type":"request","source":"system:gateway","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{}}}}
    ← {"header":{"id":"q65","type":"request","source":"carol","destination":"alice"},"payload":{"tool":{"id":"echo","capability":"say","parameters":{}}}}
    "#);
    play.run(r#"bob? q66 tools/call {"name":"echo.say"}"#);
    assert!(play.told.ends_with("\"parameters\":{}}}}\n"), "there is room again: {}", play.told);
}

#[test]
fn what_nobody_listened_to_is_answered_and_told() {
    let register = r#"1 request t1 system:gateway {"tool":{"id":"registry","capability":"register","parameters":{"id":"echo","capabilities":[{"name":"say"}]}}}"#;
    let mut play = Play::posting().after(register).after("seat");
    play.run("get 2\nbob? q0 tools/call {\"name\":\"echo.say\"}\nhangup 2\nbob? q1 tools/call {\"name\":\"echo.say\"}");
    for _ in 0..511 {
        play.run(r#"bob* notifications/chat/message {"text":"x"}"#);
    }
    play.told.clear();
    // The first was heard, and may yet be answered; the second is not.
    play.run(r#"bob* notifications/chat/message {"text":"x"}"#);
    assert_snapshot!(play.told, @r#"↩ bob s-4 re q1 {"id":5,"error":{"code":-32000,"message":"`alice` does not take its messages, and too many wait for it","data":{"code":"rate_limited"}}}"#);
    play.told.clear();
    play.run("get 3");
    assert_eq!(count(&play.told, "3 ←"), 1 + 512);
    let second = play.told.lines().nth(1).unwrap().to_owned();
    assert_snapshot!(second, @r#"3 ← (-) {"header":{"id":"s-5","type":"notification","source":"system:gateway","destination":"alice"},"payload":{"gap":{"messages":1}}}"#);
    play.told.clear();
    play.run("3 response r1@q1 - {\"result\":1}\n4 response r0@q0 - {\"result\":1}");
    assert_snapshot!(play.told, @r#"
    3 409 json
    3 ← [correlation_mismatch] {"header":{"id":"s-6","type":"error","requestId":"r1","source":"system:gateway","destination":"alice"},"error":{"code":"correlation_mismatch","message":"`q1` is no request that waits for your answer"}}
    3 ends
    ⇒ bob r0 re q0 {"id":5,"result":{"content":[{"text":"1","type":"text"}],"_meta":{"salon/result":1}}}
    4 202
    4 ends
    "#);
}

#[test]
fn a_request_that_changes_what_is_registered_counts_once() {
    let script = r#"
        hold
        request t3 system:gateway {"tool":{"id":"registry","capability":"register","parameters":{"id":"arm","capabilities":[{"name":"stop"}]}}}
        request t3 system:gateway {"tool":{"id":"registry","capability":"register","parameters":{"id":"arm","capabilities":[{"name":"jump"}]}}}
        take
        request t3 system:gateway {"tool":{"id":"registry","capability":"unregister","parameters":{"id":"echo"}}}
        request t4 system:gateway {"tool":{"id":"registry","capability":"unregister","parameters":{"id":"echo"}}}
        drop rate_limited
        request t4 system:gateway {"tool":{"id":"registry","capability":"unregister","parameters":{"id":"echo"}}}
        take
        bob? q1 tools/list
    "#;
    assert_snapshot!(armed().act(script), @r#"
    ⇒ * t3 {"method":"notifications/tools/list_changed"}
    ← [id_conflict] {"header":{"id":"s-4","type":"error","requestId":"t3","source":"system:gateway","destination":"alice"},"error":{"code":"id_conflict","message":"a request with this `messageId` was sent before, and it is answered once"}}
    ← {"header":{"id":"s-5","type":"response","requestId":"t3","source":"system:gateway","destination":"alice"},"payload":{"result":{"id":"arm","tools":["arm.stop"]}}}
    ← [id_conflict] {"header":{"id":"s-6","type":"error","requestId":"t3","source":"system:gateway","destination":"alice"},"error":{"code":"id_conflict","message":"a request with this `messageId` was sent before, and it is answered once"}}
    ⇒ * t4 {"method":"notifications/tools/list_changed"}
    ← [rate_limited] {"header":{"id":"s-7","type":"error","requestId":"t4","source":"system:gateway","destination":"alice"},"error":{"code":"rate_limited","message":"no"}}
    ⇒ * t4 {"method":"notifications/tools/list_changed"}
    ← {"header":{"id":"s-8","type":"response","requestId":"t4","source":"system:gateway","destination":"alice"},"payload":{"result":{"id":"echo"}}}
    ↩ bob s-9 re q1 {"id":5,"result":{"tools":[{"name":"arm.stop","inputSchema":{"type":"object"}}]}}
    "#);
    let again = r#"
        repeat
        request t9 system:gateway {"tool":{"id":"registry","capability":"register","parameters":{"id":"arm","capabilities":[{"name":"jump"}]}}}
        bob? q1 tools/list
    "#;
    assert_snapshot!(armed().act(again), @r#"
    ⇒ * t9 {"method":"notifications/tools/list_changed"}
    ← [id_conflict] {"header":{"id":"s-4","type":"error","requestId":"t9","source":"system:gateway","destination":"alice"},"error":{"code":"id_conflict","message":"a request with this `messageId` was sent before, and it is answered once"}}
    ↩ bob s-5 re q1 {"id":5,"result":{"tools":[{"name":"arm.move","description":"Moves","inputSchema":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]},"_meta":{"salon/permissions":["drive"]}},{"name":"echo.say","inputSchema":{"type":"object"}}]}}
    "#);
}

#[test]
fn a_change_that_is_taken_back_leaves_a_later_one() {
    let register = |id: &str, name: &str| {
        format!(
            r#"request {id} system:gateway {{"tool":{{"id":"registry","capability":"register","parameters":{{"id":"arm","capabilities":[{{"name":"{name}"}}]}}}}}}"#
        )
    };
    let names = |outcomes: &str| {
        let mut play = armed();
        play.run(&format!("hold\n{}\n{}\n{}", register("t3", "one"), register("t4", "two"), register("t5", "three")));
        play.run(outcomes);
        play.held = None;
        play.told.clear();
        let told = play.act("bob? q1 tools/list");
        told.split(r#""name":"arm."#).nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    assert_eq!(names("take\ntake\ntake"), "three");
    assert_eq!(names("drop internal\ntake\ntake"), "three");
    assert_eq!(names("drop internal\ntake\ndrop internal"), "two");
    assert_eq!(names("take\ndrop internal\ndrop internal"), "one");
    assert_eq!(names("drop internal\ndrop internal\ndrop internal"), "move");
}

#[test]
fn what_all_tools_together_may_take_is_bounded() {
    let register = |id: &str, tool: &str, parameters: &str| {
        format!(
            r#"request {id} system:gateway {{"tool":{{"id":"registry","capability":"register","parameters":{{"id":"{tool}","capabilities":[{{"name":"x","parameters":{parameters}}}]}}}}}}"#
        )
    };
    let patterns = |count: usize, text: &str| {
        let all: Vec<_> = (0..count).map(|at| format!(r#"{{"pattern":"{text}{at}"}}"#)).collect();
        format!(r#"{{"properties":{{"a":{{"allOf":[{}]}}}}}}"#, all.join(","))
    };
    let values = |count: usize| format!(r#"{{"properties":{{"a":{{"enum":[{}]}}}}}}"#, vec!["1"; count].join(","));
    let mut play = Play::seated();
    play.run(&register("t1", "a", &patterns(40, "x")));
    play.run(&register("t2", "b", &patterns(24, "x")));
    play.run(&register("t3", "c", &patterns(1, "x")));
    play.run(&register("t4", "a", &patterns(12, &"x".repeat(700))));
    play.run(&register("t5", "a", &patterns(11, &"x".repeat(700))));
    play.run(&register("t6", "c", &values(9_990)));
    play.run(&register("t7", "c", &values(9_000)));
    let kept = |line: &&str| line.starts_with('←');
    let told: Vec<_> = play.told.lines().filter(kept).map(|line| line.split_once(r#""alice"},"#).unwrap().1).collect();
    assert_snapshot!(told.join("\n"), @r#"
    "payload":{"result":{"id":"a","tools":["a.x"]}}}
    "payload":{"result":{"id":"b","tools":["b.x"]}}}
    "error":{"code":"too_large","message":"the parameters of your tools would have more than 64 patterns, or more than 8192 bytes of them"}}
    "error":{"code":"invalid_parameters","message":"the parameters of `x` are not usable: it would have more than 64 patterns, or more than 8192 bytes of them"}}
    "payload":{"result":{"id":"a","tools":["a.x"]}}}
    "error":{"code":"too_large","message":"the parameters of your tools would come to more than 10000 values with their references followed"}}
    "payload":{"result":{"id":"c","tools":["c.x"]}}}
    "#);
}

#[test]
fn registering_takes_its_time() {
    let mut play = Play::seated();
    let register = |id: usize| {
        let all: Vec<_> = (0..63).map(|at| format!(r#"{{"pattern":"x{at}"}}"#)).collect();
        let parameters = format!(r#"{{"properties":{{"a":{{"allOf":[{}]}}}}}}"#, all.join(","));
        format!(
            r#"request t{id} system:gateway {{"tool":{{"id":"registry","capability":"register","parameters":{{"id":"a","capabilities":[{{"name":"x","parameters":{parameters}}}]}}}}}}"#
        )
    };
    (0..7).for_each(|id| play.run(&register(id)));
    assert_eq!(count(&play.told, r#""type":"response""#), 7);
    play.told.clear();
    play.run(&register(7));
    play.run("tick 499");
    play.run(&register(7));
    assert_snapshot!(play.told, @r#"
    ← [rate_limited] {"header":{"id":"s-9","type":"error","requestId":"t7","source":"system:gateway","destination":"alice"},"error":{"code":"rate_limited","message":"you have registered too much in a short time; try again in 1 seconds"}}
    ← [rate_limited] {"header":{"id":"s-10","type":"error","requestId":"t7","source":"system:gateway","destination":"alice"},"error":{"code":"rate_limited","message":"you have registered too much in a short time; try again in 1 seconds"}}
    "#);
    play.told.clear();
    play.run("tick 1");
    play.run(&register(7));
    assert_eq!(count(&play.told, r#""type":"response""#), 1, "{}", play.told);
}
