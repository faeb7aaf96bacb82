//! What the room does not take, for now or for good.

use super::*;

/// A client that can be asked for a model's answer and has been, during a call of bob's tool.
fn asked() -> Play {
    Play::introduced(Scope::Room, "bob", "2025-06-18", r#"{"sampling":{}}"#).after(
        r#"call 1 tools/call {"name":"bob__t"}
        settle
        bob? 1 @tools/call sampling/createMessage {}"#,
    )
}

#[test]
fn an_answer_is_said_again_as_it_was_until_the_room_takes_it() {
    let of = |code: &str| {
        let mut play = asked();
        play.run(&format!(
            r#"reply @sampling/createMessage {{"role":"assistant"}}
            refuse-last {code}
            tick 250
            refuse-last {code}
            tick 249
            mark now
            tick 1
            accept s-4
            tick 10000"#
        ));
        let answers: Vec<_> = play.published.iter().map(|(_, said)| said.id().as_str()).skip(3).collect();
        // Under the same id, so that one that was stored after all is not stored twice.
        assert_eq!(answers, ["s-4", "s-4", "s-4"], "{code}");
        play.act("")
    };
    assert_eq!(of("rate_limited"), of("closing"));
    assert_snapshot!(of("closing"), @r#"
    ⇒ bob re e2 {"id":1,"result":{"role":"assistant"}}
    ⇒ bob re e2 {"id":1,"result":{"role":"assistant"}}
    · now
    ⇒ bob re e2 {"id":1,"result":{"role":"assistant"}}
    "#);
}

#[test]
fn an_answer_that_the_room_will_never_take_is_not_said_again() {
    let script = "reply @sampling/createMessage {}\nrefuse-last correlation_mismatch\ntick 1000";
    assert_snapshot!(asked().act(script), @r#"⇒ bob re e2 {"id":1,"result":{}}"#);
}

#[test]
fn what_waits_is_said_as_soon_as_the_room_can_store_again() {
    let script = "reply @sampling/createMessage {}\noutage\nrefuse-last closing\nmark back\nrecovered\ntick 1000";
    assert_snapshot!(asked().act(script), @r#"
    ⇒ bob re e2 {"id":1,"result":{}}
    ← {"method":"notifications/message","params":{"data":"nothing can be stored at the moment, and nothing new can be heard; it goes on by itself, and this connection stays","level":"warning","logger":"system:gateway"}}
    · back
    ⇒ bob re e2 {"id":1,"result":{}}
    ← {"method":"notifications/message","params":{"data":"messages are stored and heard again","level":"notice","logger":"system:gateway"}}
    "#);
}

#[test]
fn only_the_clients_own_answers_count_against_its_rate() {
    let mut play = asked();
    play.run("bob? 2 @- ping\nbob? 3 @- initialize\nbob? 4 @- nonsense\nbob? 5 @- roots/list");
    assert_eq!(play.uncounted, 4);
    play.run("reply @sampling/createMessage {}");
    assert_eq!(play.uncounted, 4);
}

#[test]
fn no_more_of_the_room_is_heard_while_many_answers_wait() {
    let mut play = asked();
    for number in 0..100 {
        play.line(&format!("bob? {number} @- ping"));
    }
    assert!(!play.door.ready());
    // None of them is lost, however many there are.
    for (ticket, _) in play.published.split_off(3) {
        play.event(Event::Refused { ticket, refusal: Refusal::new(Code::Closing, "") });
    }
    assert!(!play.door.ready());
    play.told.clear();
    play.pass(Duration::from_secs(1));
    assert_eq!(play.told.lines().filter(|line| line.contains(r#""result":{}"#)).count(), 100);
    for (_, said) in play.published.clone().split_off(3) {
        play.line(&format!("accept {}", said.id()));
    }
    assert!(play.door.ready());
}

#[test]
fn a_cancellation_is_told_again() {
    let of = |code: &str| {
        asked().act(&format!(
            r#"call 2 tools/call {{"name":"bob__t"}}
            tell notifications/cancelled {{"requestId":2}}
            refuse-last {code}
            tick 249
            mark now
            tick 1
            accept s-5
            tick 1000"#
        ))
    };
    assert_eq!(of("rate_limited"), of("closing"));
    assert_snapshot!(of("closing"), @r#"
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t"}}
    ⇒ bob re s-4 {"method":"notifications/cancelled","params":{"requestId":"s-4"}}
    · now
    ⇒ bob re s-4 {"method":"notifications/cancelled","params":{"requestId":"s-4"}}
    "#);
}

#[test]
fn however_many_cancellations_come_too_fast_none_is_lost() {
    let mut play = asked();
    for number in 2..42 {
        play.line(&format!(r#"call {number} tools/call {{"name":"bob__t"}}"#));
    }
    let calls = play.published.len();
    for number in 2..42 {
        play.line(&format!(r#"tell notifications/cancelled {{"requestId":{number}}}"#));
        play.line("refuse-last rate_limited");
    }
    play.told.clear();
    play.pass(Duration::from_secs(1));
    assert_eq!(play.told.lines().filter(|line| line.contains("notifications/cancelled")).count(), 40);
    assert_eq!(play.published.len(), calls + 80);
}

#[test]
fn progress_that_came_too_fast_is_not_told_again() {
    let play = asked().after(r#"bob? 2 @tools/call sampling/createMessage {"_meta":{"progressToken":"p"}}"#);
    let number = play.asked.last().unwrap().1.clone();
    let script = format!(
        "tell notifications/progress {{\"progressToken\":{number},\"progress\":1}}\nrefuse-last rate_limited\ntick 1000"
    );
    assert_snapshot!(play.act(&script), @r#"⇒ bob re e3 {"method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#);
}

#[test]
fn nobody_is_called_before_it_has_heard_that_its_handshake_is_over() {
    let play = Play::introduced(Scope::Room, "bob", "2025-06-18", "{}");
    let script = r#"
        call 1 tools/call {"name":"bob__t"}
        bob: initialize {"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}
        refuse-id s-2 rate_limited
        refuse tools/call rate_limited
        call 2 tools/call {"name":"bob__t"}
        mark it waits
        tick 250
    "#;
    assert_snapshot!(play.act(script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t"}}
    ← {"id":1,"error":{"code":-32000,"message":"refused: rate_limited","data":{"code":"rate_limited"}}}
    · it waits
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t"}}
    "#);
}

#[test]
fn a_handshake_waits_until_the_room_can_store_again() {
    let play = Play::introduced(Scope::Room, "bob", "2025-06-18", "{}");
    let script = r#"
        call 1 tools/call {"name":"bob__t"}
        refuse initialize closing
        call 2 tools/call {"name":"bob__t"}
        tick 250
        refuse initialize closing
        mark back
        recovered
        settle
        tick 10000
    "#;
    assert_snapshot!(play.act(script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    · back
    ⇒ bob {"id":"s-3","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ← {"method":"notifications/message","params":{"data":"messages are stored and heard again","level":"notice","logger":"system:gateway"}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-5","method":"tools/call","params":{"name":"t"}}
    ⇒ bob {"id":"s-6","method":"tools/call","params":{"name":"t"}}
    "#);
}

#[test]
fn a_handshake_that_the_room_does_not_take_says_nothing_of_whom_it_greets() {
    let mut play = Play::introduced(Scope::Room, "bob", "2025-06-18", "{}");
    play.run(r#"call 1 tools/call {"name":"bob__t"}"#);
    // Longer than a handshake may wait.
    for _ in 0..=(120_000 / 250) {
        if play.open.iter().any(|open| open.method == "initialize") {
            play.run("refuse initialize closing\ntick 250");
        }
    }
    let (_, told) = play.told.rsplit_once('⇒').unwrap();
    assert_snapshot!(told.split_once('\n').unwrap().1, @r#"← {"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"refused: closing","data":{"code":"closing"}}}"#);
    play.told.clear();
    let script = r#"call 2 tools/call {"name":"bob__t"}
        refuse initialize internal
        call 3 tools/call {"name":"bob__t"}
        settle"#;
    assert_snapshot!(play.act(script), @r#"
    ⇒ bob {"id":"s-481","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ← {"id":2,"error":{"code":-32000,"message":"refused: internal","data":{"code":"internal"}}}
    ⇒ bob {"id":"s-482","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-484","method":"tools/call","params":{"name":"t"}}
    "#);
}

#[test]
fn a_session_at_one_participant_begins_once_the_room_takes_its_handshake() {
    let play = Play::duplex(Scope::One(id("bob")), "bob");
    let hello = r#"call 0 initialize {"protocolVersion":"2025-06-18","capabilities":{}}"#;
    let script = format!("{hello}\nseat\nrefuse initialize closing\ntick 250\nbob: initialize {SERVER}");
    assert_snapshot!(play.act(&script), @r#"
    join - 2025-06-18
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob {"method":"notifications/initialized"}
    ← {"id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    "#);
    let play = Play::duplex(Scope::One(id("bob")), "bob");
    assert_snapshot!(play.act(&format!("{hello}\nseat\nrefuse initialize internal")), @r#"
    join - 2025-06-18
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ← {"id":0,"error":{"code":-32000,"message":"refused: internal","data":{"code":"internal"}}}
    close bye
    "#);
}

#[test]
fn who_could_not_be_heard_for_a_while_is_asked_again() {
    let script = r#"call 1 tools/list
        settle
        call 2 tools/call {"name":"bob__t"}
        outage
        tick 120000
        mark silent
        call 3 tools/call {"name":"bob__t"}
        recovered
        call 4 tools/call {"name":"bob__t"}"#;
    let play = Play::introduced(Scope::Room, "bob", "2025-06-18", "{}");
    assert_snapshot!(play.act(script), @r#"
    consult bob tools/list
    consult system:gateway tools/list
    ← {"id":1,"result":{"tools":[]}}
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ← {"method":"notifications/message","params":{"data":"nothing can be stored at the moment, and nothing new can be heard; it goes on by itself, and this connection stays","level":"warning","logger":"system:gateway"}}
    ← {"id":2,"error":{"code":-32603,"message":"`bob` did not answer in time"}}
    · silent
    ← {"id":3,"error":{"code":-32603,"message":"`bob` did not answer in time"}}
    ← {"method":"notifications/message","params":{"data":"messages are stored and heard again","level":"notice","logger":"system:gateway"}}
    ⇒ bob {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    "#);
}
