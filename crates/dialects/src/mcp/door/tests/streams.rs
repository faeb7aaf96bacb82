//! Sessions over HTTP: which stream an answer goes out on, and when a session ends.

use super::*;

fn http(revision: &str) -> Play {
    let play = Play::new(DoorScope::Room, "bob", |options| options.idle = Some(Duration::from_secs(300)));
    play.after(&format!(
        r#"1 call 0 initialize {{"protocolVersion":"{revision}","capabilities":{{}}}}
        seat
        2 call 0 tools/call {{"name":"bob__t"}}
        bob: initialize {SERVER}
        bob: tools/call {{}}"#
    ))
}

#[test]
fn an_answer_is_plain_json_until_something_else_is_said() {
    let script = r#"
        3 call 1 tools/call {"name":"bob__t"}
        bob: tools/call {"n":1}
        4 call 2 tools/call {"name":"bob__t","_meta":{"progressToken":1}}
        bob! @tools/call notifications/progress {"progressToken":"@","progress":1}
        bob: tools/call {"n":2}
        5 call 3 tools/call {"name":"bob__t"}
        tick 4999
        tick 1
        bob: tools/call {"n":3}
        6 call 4 tools/call {"name":"nothing__t"}
        tick 3000
        7 call 5 tools/call {"name":"bob__t"}
        8 tell notifications/cancelled {"requestId":5}
        tick 5000
    "#;
    assert_snapshot!(http("2025-06-18").act(script), @r#"
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t"}}
    begin 3 200 json
    3← {"id":1,"result":{"n":1}}
    finish 3
    ⇒ bob {"id":"s-5","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"s-5"}}}
    begin 4 200 events
    4← #4-1 {"method":"notifications/progress","params":{"progressToken":1,"progress":1}}
    4← #4-2 {"id":2,"result":{"n":2}}
    finish 4
    ⇒ bob {"id":"s-6","method":"tools/call","params":{"name":"t"}}
    begin 5 200 events
    5← #5-1 {"id":3,"result":{"n":3}}
    finish 5
    consult bob tools/list
    consult system:gateway tools/list
    begin 6 200 json
    6← {"id":4,"error":{"code":-32602,"message":"nobody here offers a tool `nothing__t`"}}
    finish 6
    ⇒ bob {"id":"s-7","method":"tools/call","params":{"name":"t"}}
    ⇒ bob re s-7 {"method":"notifications/cancelled","params":{"requestId":"s-7"}}
    begin 8 202 empty
    finish 8
    begin 7 202 empty
    finish 7
    "#);
}

#[test]
fn a_lost_stream_is_gone_on_with() {
    let script = r#"
        3 call 1 tools/call {"name":"bob__t","_meta":{"progressToken":1}}
        bob! @tools/call notifications/progress {"progressToken":"@","progress":1}
        hangup 3
        bob! @tools/call notifications/progress {"progressToken":"@","progress":2}
        bob: tools/call {"n":1}
        get 4 3-1
    "#;
    assert_snapshot!(http("2025-11-25").act(script), @r#"
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"s-4"}}}
    begin 3 200 events
    3← #3-0 retry 1s 
    3← #3-1 {"method":"notifications/progress","params":{"progressToken":1,"progress":1}}
    begin 4 200 events
    4← #3-2 {"method":"notifications/progress","params":{"progressToken":1,"progress":2}}
    4← #3-3 {"id":1,"result":{"n":1}}
    finish 4
    "#);
}

#[test]
fn what_belongs_to_no_request_waits_for_a_listener() {
    let script = r#"
        bob! @- notifications/message {"level":"error","data":1}
        get 3
        bob! @- notifications/message {"level":"error","data":2}
        get 4
        bob! @- notifications/message {"level":"error","data":3}
        hangup 4
        bob! @- notifications/message {"level":"error","data":4}
        get 5 0-2
    "#;
    assert_snapshot!(http("2025-06-18").act(script), @r#"
    begin 3 200 events
    3← #0-1 {"method":"notifications/message","params":{"level":"error","data":1}}
    3← #0-2 {"method":"notifications/message","params":{"level":"error","data":2}}
    begin 4 200 events
    finish 3
    4← #0-3 {"method":"notifications/message","params":{"level":"error","data":3}}
    begin 5 200 events
    5← #0-3 {"method":"notifications/message","params":{"level":"error","data":3}}
    5← #0-4 {"method":"notifications/message","params":{"level":"error","data":4}}
    "#);
}

#[test]
fn answers_may_go_elsewhere() {
    let play = Play::new(DoorScope::Room, "bob", |_| {});
    let script = r#"
        get 1
        2 apart call 1 initialize {"protocolVersion":"2024-11-05"}
        seat
        3 apart call 2 ping
        4 apart client {
        5 apart tell notifications/initialized
        6 apart call 3 tools/call {"name":"bob__t"}
        hangup 1
    "#;
    let told = play.act(script);
    let told: Vec<_> =
        told.lines().map(|line| line.split_once(r#","capabilities"#).map_or(line, |(head, _)| head)).collect();
    assert_snapshot!(told.join("\n"), @r#"
    begin 1 200 events
    join - 2024-11-05
    begin 2 202 empty
    finish 2
    1← #0-1 {"id":1,"result":{"protocolVersion":"2024-11-05"
    begin 3 202 empty
    finish 3
    1← #0-2 {"id":2,"result":{}}
    begin 4 400 json
    4← {"id":null,"error":{"code":-32700,"message":"the body is not valid JSON"}}
    finish 4
    begin 5 202 empty
    finish 5
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2024-11-05"
    begin 6 202 empty
    finish 6
    "#);
}

#[test]
fn a_session_ends_when_nothing_is_heard_for_long() {
    let script = r#"
        tick 299999
        3 call 1 ping
        tick 299999
        get 4
        tick 900000
        hangup 4
        tick 59999
        mark almost
        tick 1
    "#;
    assert_snapshot!(http("2025-06-18").act(script), @r#"
    begin 3 200 json
    3← {"id":1,"result":{}}
    finish 3
    begin 4 200 events
    · almost
    close bye
    "#);
}

#[test]
fn a_session_lasts_while_a_request_is_open_and_then_as_long_as_any() {
    let script = r#"
        3 call 1 tools/call {"name":"bob__t"}
        tick 500000
        bob: tools/call {}
        tick 299999
        mark almost
        tick 1
    "#;
    assert_snapshot!(http("2025-06-18").act(script), @r#"
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t"}}
    begin 3 200 events
    3← #3-1 {"id":1,"result":{}}
    finish 3
    · almost
    close bye
    "#);
}

#[test]
fn who_listened_and_hung_up_is_not_waited_for_long() {
    let begin = r#"
        1 call 0 initialize {"protocolVersion":"2025-06-18","capabilities":{}}
        seat
    "#;
    let play =
        || Play::new(DoorScope::Room, "bob", |options| options.idle = Some(Duration::from_secs(1800))).after(begin);
    let script = "get 2\nhangup 2\ntick 59999\nmark almost\ntick 1";
    assert_snapshot!(play().act(script), @r#"
    begin 2 200 events
    · almost
    close bye
    "#);
    let script = "get 2\nhangup 2\n3 call 1 ping\ntick 1799999\nmark it goes on without listening\ntick 1";
    assert_snapshot!(play().act(script), @r#"
    begin 2 200 events
    begin 3 200 json
    3← {"id":1,"result":{}}
    finish 3
    · it goes on without listening
    close bye
    "#);
    let script = "3 call 1 tools/list\nhangup 3\ntick 59999\nmark almost\ntick 1";
    assert_snapshot!(play().act(script), @"
    consult bob tools/list
    consult system:gateway tools/list
    · almost
    close bye
    ");
    let brief = Play::new(DoorScope::Room, "bob", |options| options.idle = Some(Duration::from_secs(10))).after(begin);
    assert_snapshot!(brief.act("get 2\nhangup 2\ntick 10000"), @r#"
    begin 2 200 events
    close bye
    "#);
    assert_snapshot!(play().act("get 2\nhangup 2\nget 3\ntick 1799999\nmark it is back"), @r#"
    begin 2 200 events
    begin 3 200 events
    · it is back
    "#);
}

#[test]
fn what_is_still_to_be_said_is_said_before_an_idle_session_ends() {
    let play = || http("2025-06-18").after("bob? 1 @- ping\noutage\nrefuse-last closing\ntick 300000");
    assert_snapshot!(play().act("tick 60000\nmark back\nrecovered\nrefuse-last rate_limited\ntick 250\naccept s-4\ntick 250"), @r#"
    · back
    ⇒ bob re e3 {"id":1,"result":{}}
    ⇒ bob re e3 {"id":1,"result":{}}
    close bye
    "#);
    // But not for ever.
    assert_snapshot!(play().act("tick 119999\nmark long\ntick 1"), @r#"
    · long
    close bye
    "#);
}

#[test]
fn every_stream_is_finished_when_the_session_ends() {
    let script = r#"
        3 call 1 tools/call {"name":"bob__t"}
        4 call 2 tools/list
        get 5
        closing
    "#;
    assert_snapshot!(http("2025-06-18").act(script), @r#"
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t"}}
    consult bob tools/list
    consult system:gateway tools/list
    begin 5 200 events
    ⇒ bob re s-4 {"method":"notifications/cancelled","params":{"requestId":"s-4","reason":"the session of the client has ended"}}
    begin 4 200 json
    4← {"id":2,"error":{"code":-32000,"message":"the gateway is shutting down; connect again and resume"}}
    finish 4
    begin 3 200 json
    3← {"id":1,"error":{"code":-32000,"message":"the gateway is shutting down; connect again and resume"}}
    finish 3
    finish 5
    close shutdown
    "#);
}

#[test]
fn a_client_that_dies_during_a_question_does_not_stay_for_ever() {
    let begin = r#"
        1 call 0 initialize {"protocolVersion":"2025-06-18","capabilities":{"sampling":{}}}
        seat
        2 call 1 tools/call {"name":"bob__t"}
        settle
        bob? 1 @tools/call sampling/createMessage {"messages":[]}
    "#;
    let play = Play::new(DoorScope::Room, "bob", |options| options.idle = Some(Duration::from_secs(1800))).after(begin);
    assert_snapshot!(play.act("hangup 2\ntick 3000000"), @r#"
    ⇒ bob re s-3 {"method":"notifications/cancelled","params":{"requestId":"s-3"}}
    ⇒ bob re e2 {"id":1,"error":{"code":-32603,"message":"the client has gone away and cannot be asked"}}
    close bye
    "#);
}

#[test]
fn a_get_that_resumes_an_answer_is_not_the_sessions_listener() {
    let begin = format!(
        r#"1 call 0 initialize {{"protocolVersion":"2025-11-25","capabilities":{{}}}}
        seat
        get 2
        3 call 1 tools/call {{"name":"bob__t"}}
        bob: initialize {SERVER}
        hangup 3
        get 4 2-0
        bob: tools/call {{"n":1}}"#
    );
    let play =
        Play::new(DoorScope::Room, "bob", |options| options.idle = Some(Duration::from_secs(1800))).after(&begin);
    let script = "hangup 2\ntick 59999\nmark almost\ntick 1";
    assert_snapshot!(play.act(script), @"
    · almost
    close bye
    ");
}
