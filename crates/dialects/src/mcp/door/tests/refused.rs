//! What the room does not take, for now or for good.

use super::*;

/// A client that can be asked for a model's answer and has been, during a call of bob's tool.
fn asked() -> Play {
    Play::introduced(DoorScope::Room, "bob", "2025-06-18", r#"{"sampling":{}}"#).after(
        r#"call 1 tools/call {"name":"bob__t"}
        settle
        bob? 1 @tools/call sampling/createMessage {}"#,
    )
}

/// The room takes what is said now, and what follows it: how many.
fn drain(play: &mut Play) -> usize {
    let (mut taken, mut at) = (0, play.published.len() - 1);
    while let Some((_, said)) = play.published.get(at).cloned() {
        play.line(&format!("accept {}", said.id()));
        taken += 1;
        at += 1;
    }
    taken
}

#[test]
fn an_answer_is_resent_as_it_was_until_the_room_takes_it() {
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
fn an_answer_that_the_room_will_never_take_is_not_resent() {
    let script = "reply @sampling/createMessage {}\nrefuse-last correlation_mismatch\ntick 1000";
    assert_snapshot!(asked().act(script), @r#"⇒ bob re e2 {"id":1,"result":{}}"#);
}

#[test]
fn what_waits_is_said_as_soon_as_the_room_can_store_again() {
    let script =
        "reply @sampling/createMessage {}\noutage\nrefuse-last closing\ntick 60000\nmark back\nrecovered\ntick 1000";
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
        play.event(DialectEvent::Refused { ticket, refusal: Refusal::new(Code::Closing, "") });
    }
    assert!(!play.door.ready());
    play.told.clear();
    play.pass(Duration::from_millis(250));
    assert_eq!(drain(&mut play), 100);
    assert_eq!(play.told.lines().filter(|line| line.contains(r#""result":{}"#)).count(), 100);
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
    let said: Vec<_> = play.published.split_off(calls).into_iter().map(|(_, said)| said.id().clone()).collect();
    // Only the oldest is tried, for each time counts against the client's rate.
    for _ in 0..10 {
        play.pass(Duration::from_millis(250));
        play.line("refuse-last rate_limited");
    }
    let tried = play.published.split_off(calls);
    assert_eq!(tried.len(), 10);
    assert!(tried.iter().all(|(_, tried)| *tried.id() == said[0]));
    // The rest follows in order until one is refused, and from there when it is time again.
    play.pass(Duration::from_millis(250));
    play.line(&format!("accept {}", said[0]));
    play.line("refuse-last rate_limited");
    play.pass(Duration::from_millis(249));
    assert_eq!(play.published.split_off(calls).len(), 2);
    play.pass(Duration::from_millis(1));
    assert_eq!(drain(&mut play), 39);
    let again: Vec<_> = play.published.split_off(calls).into_iter().map(|(_, said)| said.id().clone()).collect();
    assert_eq!(again, said[1..]);
    play.pass(Duration::from_secs(10));
    assert_eq!(play.published.len(), calls);
}

#[test]
fn what_the_room_will_never_take_does_not_hold_up_the_rest() {
    let mut play = asked();
    for number in 0..3 {
        play.line(&format!("bob? {number} @- ping"));
        play.line("refuse-last closing");
    }
    play.told.clear();
    play.run("tick 250\nrefuse-last correlation_mismatch");
    assert_eq!(drain(&mut play), 2);
    let again = play.told.replace(r#""jsonrpc":"2.0","#, "");
    assert_snapshot!(again, @r#"
    ⇒ bob re e3 {"id":0,"result":{}}
    ⇒ bob re e4 {"id":1,"result":{}}
    ⇒ bob re e5 {"id":2,"result":{}}
    "#);
}

#[test]
fn progress_that_came_too_fast_is_not_resent() {
    let play = asked().after(r#"bob? 2 @tools/call sampling/createMessage {"_meta":{"progressToken":"p"}}"#);
    let number = play.asked.last().unwrap().1.clone();
    let script = format!(
        "tell notifications/progress {{\"progressToken\":{number},\"progress\":1}}\nrefuse-last rate_limited\ntick 1000"
    );
    assert_snapshot!(play.act(&script), @r#"⇒ bob re e3 {"method":"notifications/progress","params":{"progressToken":"p","progress":1}}"#);
}

#[test]
fn nobody_is_called_before_it_has_heard_that_its_handshake_is_over() {
    let play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", "{}");
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
    let play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", "{}");
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
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    · back
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ← {"method":"notifications/message","params":{"data":"messages are stored and heard again","level":"notice","logger":"system:gateway"}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t"}}
    ⇒ bob {"id":"s-4","method":"tools/call","params":{"name":"t"}}
    "#);
}

#[test]
fn a_handshake_that_the_room_does_not_take_says_nothing_of_whom_it_greets() {
    let mut play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", "{}");
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
    ⇒ bob {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ← {"id":2,"error":{"code":-32000,"message":"refused: internal","data":{"code":"internal"}}}
    ⇒ bob {"id":"s-3","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-5","method":"tools/call","params":{"name":"t"}}
    "#);
}

#[test]
fn a_session_at_one_participant_begins_once_the_room_takes_its_handshake() {
    let play = Play::duplex(DoorScope::One(id("bob")), "bob");
    let hello = r#"call 0 initialize {"protocolVersion":"2025-06-18","capabilities":{}}"#;
    let script = format!("{hello}\nseat\nrefuse initialize closing\ntick 250\nbob: initialize {SERVER}");
    assert_snapshot!(play.act(&script), @r#"
    join - 2025-06-18
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"alice","version":""}}}
    ⇒ bob {"method":"notifications/initialized"}
    ← {"id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    "#);
    let play = Play::duplex(DoorScope::One(id("bob")), "bob");
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
    let play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", "{}");
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

#[test]
fn a_request_that_was_stored_although_it_was_refused_is_answered_once() {
    let play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", "{}");
    let script = format!(
        "call 1 tools/call {{\"name\":\"bob__t\"}}\nrefuse-id s-1 closing\nbob: initialize {SERVER}\ntick 1000"
    );
    assert_snapshot!(play.act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t"}}
    "#);
}

/// A client that has called three whose handshakes the room has not taken.
fn three_refused() -> Play {
    let mut play = Play::introduced(DoorScope::Room, "bob carol dave", "2025-06-18", "{}");
    play.run("call 1 tools/call {\"name\":\"bob__t\"}\ncall 2 tools/call {\"name\":\"carol__t\"}\ncall 3 tools/call {\"name\":\"dave__t\"}");
    play.run("refuse-id s-1 closing\nrefuse-id s-2 closing\nrefuse-id s-3 closing");
    play.published.clear();
    play
}

/// What was said since the last time.
fn ids(play: &mut Play) -> Vec<String> {
    play.published.drain(..).map(|(_, said)| said.id().to_string()).collect()
}

#[test]
fn of_several_requests_only_the_oldest_is_tried() {
    let mut play = three_refused();
    for _ in 0..3 {
        play.run("tick 250\nrefuse-last closing");
        assert_eq!(ids(&mut play), ["s-1"]);
    }
    play.run("tick 250\naccept s-1\naccept s-2\nrefuse-last closing\ntick 249");
    assert_eq!(ids(&mut play), ["s-1", "s-2", "s-3"]);
    // But not to whom is not there any more, and not held up by it.
    play.run("tick 1\nleave dave\nrefuse-last closing\ntick 1000");
    assert_eq!(ids(&mut play), ["s-3"]);
    let mut play = three_refused();
    play.run("tick 250\nleave bob\nrefuse-last closing\ntick 250");
    assert_eq!(ids(&mut play), ["s-1", "s-2"]);
}

#[test]
fn nothing_is_tried_while_the_room_is_known_to_store_nothing() {
    let mut play = three_refused();
    play.run("outage\ntick 60000\ncall 4 ping\nbob? 1 @- ping\nrefuse-last closing\ntick 59000");
    assert_eq!(ids(&mut play), ["s-4"]);
    play.run("recovered\naccept s-4\naccept s-1\ntick 10000");
    assert_eq!(ids(&mut play), ["s-4", "s-1", "s-2", "s-3"]);
}

#[test]
fn nobody_is_asked_before_it_has_heard_that_its_handshake_is_over_though_both_were_refused() {
    let mut play = with_tools(Play::introduced(DoorScope::Room, "bob carol", "2025-06-18", ASKABLE));
    play.run("join bob\njoin carol\nsettle\ncall 7 tools/call {\"name\":\"bob__t\"}\ncall 8 tools/call {\"name\":\"carol__u\"}");
    play.published.clear();
    play.run(&format!("bob: initialize {SERVER}\ncarol: initialize {SERVER}"));
    for (ticket, said) in play.published.split_off(0) {
        let refusal = Refusal::new(Code::Closing, "").regarding(Some(said.id().clone()));
        play.event(DialectEvent::Refused { ticket, refusal });
    }
    play.told.clear();
    play.run("tick 250");
    let said: Vec<_> = play.published.iter().map(|(_, said)| said.id().clone()).collect();
    let [welcome, list] = &said[..] else { panic!("{}", play.told) };
    play.line(&format!("accept {list}"));
    play.line("mark a list is taken");
    play.line(&format!("accept {welcome}"));
    // Carol is not asked before she has heard it.
    assert_snapshot!(play.act(""), @r#"
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-13","method":"tools/list"}
    · a list is taken
    ⇒ carol {"method":"notifications/initialized"}
    ⇒ carol {"id":"s-16","method":"tools/list"}
    "#);
}

#[test]
fn a_subscription_is_made_again_until_the_room_takes_it() {
    let mut play = Play::duplex(DoorScope::Room, "bob/2026-07-28");
    play.offers = vec![("bob", "resources/list", r#"{"resources":[{"uri":"a:1","name":"a"}]}"#)];
    let mut play = play.after(
        r#"ask 0 resources/list
        ask 0 resources/templates/list
        seat
        settle
        ask "l" subscriptions/listen {"notifications":{"resourceSubscriptions":["a:1"]}}"#,
    );
    let listen = play.published.last().unwrap().1.clone();
    for _ in 0..=(180_000 / 250) {
        play.run("refuse-last closing\ntick 250");
    }
    assert!(play.published.iter().all(|(_, said)| said.id() == listen.id()));
    let before = play.published.len();
    play.run("refuse-last closing\ntick 250");
    assert_eq!(play.published.len(), before + 1);
    // It may have been stored all the same, and would be told of for ever.
    play.told.clear();
    assert_snapshot!(play.act("refuse-last closing\ntell notifications/cancelled {\"requestId\":\"l\"}\ntick 1000"), @r#"⇒ bob re s-1 {"method":"notifications/cancelled","params":{"requestId":"s-1"}}"#);
}
