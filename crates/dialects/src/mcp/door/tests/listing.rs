//! What everybody offers, as one list.

use super::*;

#[test]
fn lists_are_merged_the_hosts_first() {
    let play = Play::introduced(DoorScope::Room, "carol bob alice", "2025-06-18", ASKABLE);
    let script = r#"
        call 1 tools/list
        carol: tools/list {"tools":[{"name":"t","n":12345678901234567890, "x":{"a":1.0}}]}
        bob: tools/list {"tools":[{"name":"t"},{"name":"v"}]}
        system:gateway: tools/list {"tools":[{"name":"chat.say"}]}
        call 2 tools/list
        call 3 tools/list {"cursor":"none of ours"}
        call 4 tools/list {"cursor":5}
        call 5 tools/list {"cursor":["0/bob"]}
    "#;
    assert_snapshot!(play.act(script), @r#"
    consult bob tools/list
    consult carol tools/list
    consult system:gateway tools/list
    ← {"id":1,"result":{"tools":[{"name":"chat_say"},{"name":"bob__t"},{"name":"bob__v"},{"name":"carol__t","n":12345678901234567890,"x":{"a":1.0}}]}}
    ← {"id":2,"result":{"tools":[{"name":"chat_say"},{"name":"bob__t"},{"name":"bob__v"},{"name":"carol__t","n":12345678901234567890,"x":{"a":1.0}}]}}
    ← {"id":3,"error":{"code":-32602,"message":"`cursor` was not issued here"}}
    ← {"id":4,"error":{"code":-32602,"message":"`cursor` was not issued here"}}
    ← {"id":5,"error":{"code":-32602,"message":"`cursor` was not issued here"}}
    "#);
}

#[test]
fn a_slow_participant_is_announced_later_and_not_waited_for_twice() {
    let play = Play::introduced(DoorScope::Room, "bob carol", "2025-06-18", "{}");
    let script = r#"
        call 1 tools/list
        system:gateway: tools/list {"tools":[]}
        bob: tools/list {"tools":[{"name":"t"}]}
        tick 2999
        mark almost
        tick 1
        call 2 tools/list
        tick 60000
        call 3 tools/list
        carol: tools/list {"tools":[{"name":"late"}]}
        tick 50
        call 4 tools/list
    "#;
    assert_snapshot!(play.act(script), @r#"
    consult bob tools/list
    consult carol tools/list
    consult system:gateway tools/list
    · almost
    ← {"id":1,"result":{"tools":[{"name":"bob__t"}]}}
    ← {"id":2,"result":{"tools":[{"name":"bob__t"}]}}
    ← {"id":3,"result":{"tools":[{"name":"bob__t"}]}}
    ← {"method":"notifications/tools/list_changed"}
    ← {"id":4,"result":{"tools":[{"name":"bob__t"},{"name":"carol__late"}]}}
    "#);
}

#[test]
fn what_is_not_to_be_had_is_left_out_for_a_while() {
    let play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", "{}");
    let script = r#"
        call 1 tools/list
        system:gateway: tools/list {"tools":[]}
        bob: tools/list error {}
        tick 59999
        call 2 tools/list
        tick 1
        call 3 tools/list
        bob: tools/list {"tools":[{"name":"t"}]}
    "#;
    assert_snapshot!(play.act(script), @r#"
    consult bob tools/list
    consult system:gateway tools/list
    ← {"id":1,"result":{"tools":[]}}
    ← {"id":2,"result":{"tools":[]}}
    consult bob tools/list
    ← {"id":3,"result":{"tools":[{"name":"bob__t"}]}}
    "#);
}

#[test]
fn who_has_met_the_client_and_may_ask_it_things_is_listed_in_its_name() {
    let mut play = Play::introduced(DoorScope::Room, "bob carol", "2025-06-18", ASKABLE);
    play.offers = vec![("bob", "tools/list", r#"{"tools":[{"name":"t"}]}"#)];
    let play = play.after("call 0 tools/list\nsettle");
    let script = format!(
        r#"call 1 tools/call {{"name":"bob__t"}}
        bob: initialize {SERVER}
        bob: tools/list {{"tools":[{{"name":"t"}}],"nextCursor":"more"}}
        call 2 tools/list
        bob: tools/list {{"tools":[{{"name":"only for clients that answer"}}]}}
        call 3 prompts/list
        bob: prompts/list error {{"code":-32601,"message":"no prompts"}}
        bob: prompts/list {{"prompts":[]}}
        carol: prompts/list {{"prompts":[]}}
        system:gateway: prompts/list {{"prompts":[]}}
        bob! @- notifications/tools/list_changed
        carol! @- notifications/tools/list_changed"#
    );
    assert_snapshot!(play.act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":{},"elicitation":{},"roots":{}},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t"}}
    ⇒ bob {"id":"s-4","method":"tools/list"}
    ⇒ bob {"id":"s-5","method":"tools/list","params":{"cursor":"more"}}
    ← {"id":2,"result":{"tools":[{"name":"bob__t"},{"name":"bob__only_for_clients_that_answer_abd12609"}]}}
    consult bob prompts/list
    consult carol prompts/list
    ⇒ bob {"id":"s-6","method":"prompts/list"}
    consult system:gateway prompts/list
    ← {"id":3,"result":{"prompts":[]}}
    ⇒ bob {"id":"s-7","method":"tools/list"}
    consult bob tools/list
    consult carol tools/list
    "#);
}

#[test]
fn who_has_no_such_thing_is_not_asked_for_it() {
    let play = Play::introduced(DoorScope::Room, "bob carol", "2025-06-18", ASKABLE);
    let script = r#"
        call 1 tools/call {"name":"bob__t"}
        bob: initialize {"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"b","version":"1"}}
        call 2 tools/call {"name":"carol__t"}
        carol: initialize error {"code":-32601,"message":"I am no server"}
        call 3 prompts/list
        bob: prompts/list {"prompts":[]}
        carol: prompts/list {"prompts":[]}
        system:gateway: prompts/list {"prompts":[]}
        call 4 tools/list
        carol: tools/list {"tools":[{"name":"t"}]}
        system:gateway: tools/list {"tools":[]}
        bob: tools/list error {"code":-1,"message":"no"}
        bob: tools/list error {}
        call 5 tools/list
    "#;
    assert_snapshot!(play.act(script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":{},"elicitation":{},"roots":{}},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/call","params":{"name":"t"}}
    ⇒ carol {"id":"s-4","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":{},"elicitation":{},"roots":{}},"clientInfo":{"name":"c","version":"1"}}}
    ← {"id":2,"error":{"code":-32601,"message":"I am no server"}}
    consult bob prompts/list
    consult carol prompts/list
    consult system:gateway prompts/list
    ← {"id":3,"result":{"prompts":[]}}
    consult bob tools/list
    consult carol tools/list
    ⇒ bob {"id":"s-5","method":"tools/list"}
    consult system:gateway tools/list
    ← {"id":4,"result":{"tools":[{"name":"carol__t"}]}}
    ← {"id":5,"result":{"tools":[{"name":"carol__t"}]}}
    "#);
}

#[test]
fn a_participant_with_an_unknown_introduction_cannot_be_called() {
    let play = Play::introduced(DoorScope::Room, "bob carol", "2025-06-18", "{}");
    let script = r#"
        call 2 tools/call {"name":"bob__t"}
        bob: initialize {"protocolVersion":"1999-01-01","capabilities":{"tools":{}}}
        call 3 tools/call {"name":"carol__t"}
        carol: initialize 7
        call 4 tools/call {"name":"carol__t"}
        tick 60000
        call 5 tools/call {"name":"carol__t"}
    "#;
    assert_snapshot!(play.act(script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ← {"id":2,"error":{"code":-32602,"message":"`bob` speaks MCP 1999-01-01, which is not known here","data":{"requested":"1999-01-01","supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]}}}
    ⇒ carol {"id":"s-2","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ← {"id":3,"error":{"code":-32603,"message":"`carol` introduced itself in a way that cannot be read"}}
    ← {"id":4,"error":{"code":-32603,"message":"`carol` introduced itself in a way that cannot be read"}}
    ⇒ carol {"id":"s-3","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    "#);
}

#[test]
fn a_long_list_has_pages() {
    let mut play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", "{}");
    let tools: Vec<_> = (0..400).map(|n| format!(r#"{{"name":"t{n}"}}"#)).collect();
    play.run(&format!(
        r#"call 1 tools/list
        system:gateway: tools/list {{"tools":[]}}
        bob: tools/list {{"tools":[{}]}}"#,
        tools.join(",")
    ));
    let cut = |told: &str| {
        let last = told.lines().last().unwrap();
        let (head, rest) = last.split_once("bob__").unwrap();
        let (_, tail) = rest.rsplit_once("bob__").unwrap();
        format!("{head}… {} …{tail}", rest.matches("bob__").count() + 1)
    };
    assert_snapshot!(cut(&play.told), @r#"← {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"… 250 …t249"}],"nextCursor":"250/bob"}}"#);
    let (_, next) = play.told.rsplit_once(r#""nextCursor":"#).unwrap();
    let next = next.split_once('}').unwrap().0.to_owned();
    play.run(&format!(r#"call 2 tools/list {{"cursor":{next}}}"#));
    assert_snapshot!(cut(&play.told), @r#"← {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"… 150 …t399"}]}}"#);
}

#[test]
fn a_list_without_end_is_not_taken() {
    let mut play = askable().after("bob! @- notifications/tools/list_changed");
    for page in 0..65 {
        play.told.clear();
        play.run(&format!(r#"bob: tools/list {{"tools":[{{"name":"t{page}"}}],"nextCursor":"again"}}"#));
    }
    play.run(r#"bob: tools/list {"tools":[{"name":"t"},{"name":"same"}]}"#);
    assert_snapshot!(play.act("call 1 tools/list"), @r#"← {"id":1,"result":{"tools":[{"name":"chat_say"},{"name":"bob__t"},{"name":"bob__same"},{"name":"carol__u"},{"name":"carol__same"}]}}"#);
}

#[test]
fn comings_and_goings_change_the_lists() {
    let script = r#"
        leave bob
        call 1 tools/list
        tick 50
        join dave
        dave: tools/list {"tools":[{"name":"d"}]}
        join bob
        tick 50
        leave dave
        tick 50
        join alice
        leave alice
        tick 1000
    "#;
    assert_snapshot!(room().act(script), @r#"
    ← {"id":1,"result":{"tools":[{"name":"chat_say"},{"name":"carol__u"},{"name":"carol__same"}]}}
    ← {"method":"notifications/tools/list_changed"}
    consult dave tools/list
    consult dave prompts/list
    consult dave resources/list
    consult dave resources/templates/list
    consult bob tools/list
    consult bob prompts/list
    consult bob resources/list
    consult bob resources/templates/list
    ← {"method":"notifications/tools/list_changed"}
    ← {"method":"notifications/tools/list_changed"}
    "#);
}

#[test]
fn a_list_that_changed_is_asked_for_again_and_told_of_if_it_differs() {
    let script = r#"
        bob* notifications/tools/list_changed
        bob: tools/list {"tools":[{"name":"t"},{"name":"same"}]}
        tick 50
        mark the same
        bob* notifications/tools/list_changed
        bob* notifications/tools/list_changed
        bob: tools/list {"tools":[{"name":"t2"}]}
        tick 50
        bob: tools/list {"tools":[{"name":"t3"}]}
        tick 50
        carol* notifications/prompts/list_changed
        tick 50
        dave* notifications/tools/list_changed
        tick 50
    "#;
    assert_snapshot!(room().act(script), @r#"
    consult bob tools/list
    · the same
    consult bob tools/list
    consult bob tools/list
    ← {"method":"notifications/tools/list_changed"}
    ← {"method":"notifications/tools/list_changed"}
    ← {"method":"notifications/prompts/list_changed"}
    "#);
}

#[test]
fn a_change_that_only_the_client_is_told_of_is_looked_for_in_its_name() {
    let script = r#"
        carol* notifications/tools/list_changed
        carol: tools/list {"tools":[{"name":"u"},{"name":"same"}]}
        carol! @- notifications/tools/list_changed
        carol: tools/list {"tools":[{"name":"for you"}]}
        tick 50
        carol* notifications/tools/list_changed
    "#;
    assert_snapshot!(room().act(script), @r#"
    consult carol tools/list
    ⇒ carol {"id":"s-7","method":"tools/list"}
    consult carol tools/list
    ← {"method":"notifications/tools/list_changed"}
    ⇒ carol {"id":"s-8","method":"tools/list"}
    "#);
}

#[test]
fn a_list_keeps_what_a_revision_cannot_take_to_itself() {
    let play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", "{}");
    let script = r#"
        call 1 tools/list
        system:gateway: tools/list {"tools":[]}
        bob: tools/list {"tools":[{"name":"t","outputSchema":{"type":"array"},"icons":[1e400]}]}
    "#;
    assert_snapshot!(play.act(script).lines().last().unwrap(), @r#"← {"id":1,"result":{"tools":[{"name":"bob__t","icons":[1e400]}]}}"#);
}

#[test]
fn a_room_with_nobody_but_the_host_is_a_server_too() {
    let play = Play::introduced(DoorScope::Room, "", "2025-06-18", "{}");
    let script = r#"
        call 1 tools/list
        call 2 resources/list
        call 3 resources/templates/list
        system:gateway: resources/list {"resources":[]}
        system:gateway: resources/templates/list {"resourceTemplates":[]}
        tell notifications/cancelled {"requestId":1}
        system:gateway: tools/list {"tools":[]}
    "#;
    assert_snapshot!(play.act(script), @r#"
    consult system:gateway tools/list
    consult system:gateway resources/list
    consult system:gateway resources/templates/list
    ← {"id":2,"result":{"resources":[]}}
    ← {"id":3,"result":{"resourceTemplates":[]}}
    "#);
}

#[test]
fn in_a_room_of_few_who_can_be_asked_sees_what_that_brings() {
    let play = |few: usize, capabilities: &str| {
        let mut play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", capabilities);
        play.door.options.few = few;
        play.offers = vec![("bob", "tools/list", r#"{"tools":[{"name":"t"}]}"#)];
        play
    };
    let script = format!(
        r#"
        call 1 tools/list
        bob: tools/list {{"tools":[{{"name":"t"}}]}}
        system:gateway: tools/list {{"tools":[]}}
        mark the answer waits for what it is offered by name
        bob: initialize {SERVER}
        call 2 tools/list
        bob: tools/list {{"tools":[{{"name":"t"}},{{"name":"samples"}}]}}
        tick 50
        call 3 tools/list
    "#
    );
    assert_snapshot!(play(2, ASKABLE).act(&script), @r#"
    consult bob tools/list
    consult system:gateway tools/list
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":{},"elicitation":{},"roots":{}},"clientInfo":{"name":"c","version":"1"}}}
    · the answer waits for what it is offered by name
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/list"}
    ← {"id":1,"result":{"tools":[{"name":"bob__t"},{"name":"bob__samples"}]}}
    ← {"id":2,"result":{"tools":[{"name":"bob__t"},{"name":"bob__samples"}]}}
    ← {"id":3,"result":{"tools":[{"name":"bob__t"},{"name":"bob__samples"}]}}
    "#);
    let once = "call 1 tools/list\nsettle";
    assert_snapshot!(play(1, ASKABLE).act(once), @r#"
    consult bob tools/list
    consult system:gateway tools/list
    ← {"id":1,"result":{"tools":[{"name":"bob__t"}]}}
    "#);
    assert_snapshot!(play(2, "{}").act(once), @r#"
    consult bob tools/list
    consult system:gateway tools/list
    ← {"id":1,"result":{"tools":[{"name":"bob__t"}]}}
    "#);
}

#[test]
fn what_is_offered_to_the_client_by_name_is_not_waited_for_without_end() {
    let mut play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", ASKABLE);
    play.door.options.few = 2;
    let play = play.after(
        r#"call 1 tools/list
        bob: tools/list {"tools":[{"name":"t"}]}
        system:gateway: tools/list {"tools":[]}"#,
    );
    let script = format!(
        r#"
        tick 9999
        mark almost
        tick 1
        call 2 tools/list
        bob: initialize {SERVER}
        bob: tools/list {{"tools":[{{"name":"t"}},{{"name":"samples"}}]}}
        tick 50
    "#
    );
    assert_snapshot!(play.act(&script), @r#"
    · almost
    ← {"id":1,"result":{"tools":[{"name":"bob__t"}]}}
    ← {"id":2,"result":{"tools":[{"name":"bob__t"}]}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"tools/list"}
    ← {"method":"notifications/tools/list_changed"}
    "#);
}

#[test]
fn a_newcomer_is_announced_to_a_client_that_has_not_listed() {
    let script = r#"
        join dave
        dave: tools/list {"tools":[{"name":"d"}]}
        dave: prompts/list {"prompts":[]}
        dave: resources/list {"resources":[]}
        dave: resources/templates/list {"resourceTemplates":[{"uriTemplate":"a:{x}"}]}
        tick 50
        mark nothing is announced of a participant that offers nothing
        join erin
        erin: tools/list {"tools":[]}
        erin: prompts/list {"prompts":[]}
        erin: resources/list error {}
        erin: resources/templates/list error {}
        tick 50
        mark nor is anything to a client that nobody could tell
    "#;
    assert_snapshot!(Play::introduced(DoorScope::Room, "bob", "2025-06-18", "{}").act(script), @r#"
    consult dave tools/list
    consult dave prompts/list
    consult dave resources/list
    consult dave resources/templates/list
    ← {"method":"notifications/resources/list_changed"}
    ← {"method":"notifications/tools/list_changed"}
    · nothing is announced of a participant that offers nothing
    consult erin tools/list
    consult erin prompts/list
    consult erin resources/list
    consult erin resources/templates/list
    · nor is anything to a client that nobody could tell
    "#);
    let modern = Play::duplex(DoorScope::Room, "bob").after("ask 0 server/discover\nseat");
    assert_snapshot!(modern.act("join dave\ntick 50"), @"");
}

#[test]
fn a_list_that_is_old_is_asked_for_again() {
    let mut play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", "{}");
    play.door.options.list_max_age = Duration::from_secs(60);
    play.door.lists.max_age = Duration::from_secs(60);
    play.offers = vec![("bob", "tools/list", r#"{"tools":[{"name":"t"}]}"#)];
    let play = play.after("call 0 tools/list\nsettle");
    let script = r#"
        tick 59999
        call 1 tools/list
        tick 1
        call 2 tools/list
        system:gateway: tools/list {"tools":[]}
        bob: tools/list {"tools":[{"name":"t"},{"name":"added silently"}]}
        tick 60000
        call 3 tools/list
        system:gateway: tools/list {"tools":[]}
        tick 3000
    "#;
    assert_snapshot!(play.act(script), @r#"
    ← {"id":1,"result":{"tools":[{"name":"bob__t"}]}}
    consult bob tools/list
    consult system:gateway tools/list
    ← {"id":2,"result":{"tools":[{"name":"bob__t"},{"name":"bob__added_silently_e4ffd99b"}]}}
    consult bob tools/list
    consult system:gateway tools/list
    ← {"id":3,"result":{"tools":[{"name":"bob__t"},{"name":"bob__added_silently_e4ffd99b"}]}}
    "#);
}

#[test]
fn a_modern_client_is_shown_the_list_of_the_process_that_serves_it() {
    let play = Play::duplex(DoorScope::Room, "bob/2025-11-25,2026-07-28").after(
        r#"ask 0 tools/list
        seat
        bob: tools/list {"tools":[{"name":"grow"}]}
        system:gateway: tools/list {"tools":[]}"#,
    );
    let script = r#"
        ask 1 tools/call {"name":"bob__grow"}
        bob: tools/call {"resultType":"complete","content":[]}
        ask 2 tools/list
        bob: tools/list {"resultType":"complete","ttlMs":0,"tools":[{"name":"grow"},{"name":"grown"}]}
        ask 3 tools/list
        bob: tools/list {"resultType":"complete","ttlMs":60000,"tools":[{"name":"grow"},{"name":"grown"}]}
        ask 4 tools/list
        bob! @- notifications/tools/list_changed
    "#;
    assert_snapshot!(play.act(script), @r#"
    ⇒ bob {"id":"s-1","method":"tools/call","params":{"name":"grow","_meta":{…,"/clientCapabilities":{}}}}
    ← {"id":1,"result":{"resultType":"complete","content":[]}}
    ⇒ bob {"id":"s-2","method":"tools/list","params":{"_meta":{…,"/clientCapabilities":{}}}}
    ← {"id":2,"result":{"tools":[{"name":"bob__grow"},{"name":"bob__grown"}],"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"/serverInfo":{"name":"salon","title":"Salon: room:a","version":"9"}}}}
    ⇒ bob {"id":"s-3","method":"tools/list","params":{"_meta":{…,"/clientCapabilities":{}}}}
    ← {"id":3,"result":{"tools":[{"name":"bob__grow"},{"name":"bob__grown"}],"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"/serverInfo":{"name":"salon","title":"Salon: room:a","version":"9"}}}}
    ← {"id":4,"result":{"tools":[{"name":"bob__grow"},{"name":"bob__grown"}],"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"/serverInfo":{"name":"salon","title":"Salon: room:a","version":"9"}}}}
    ⇒ bob {"id":"s-4","method":"tools/list","params":{"_meta":{…,"/clientCapabilities":{}}}}
    consult bob tools/list
    "#);
}

#[test]
fn while_participants_may_be_on_their_way_back_the_client_may_try_again() {
    let mut play = Play::introduced(DoorScope::Room, "", "2025-06-18", "{}");
    play.door.options.returning_until = Some(play.now + Duration::from_secs(30));
    let script = r#"
        call 1 tools/call {"name":"files__read"}
        system:gateway: tools/list {"tools":[]}
        call 2 resources/read {"uri":"file:///a"}
        system:gateway: resources/list {"resources":[]}
        system:gateway: resources/templates/list {"resourceTemplates":[]}
        tick 30000
        call 3 tools/call {"name":"files__read"}
    "#;
    assert_snapshot!(play.act(script), @r#"
    consult system:gateway tools/list
    ← {"id":1,"error":{"code":-32000,"message":"the gateway has just started, and the participant that offers the tool `files__read` may not be back yet; try again in a moment","data":{"code":"recipient_not_found","retryAfterMs":1000}}}
    consult system:gateway resources/list
    consult system:gateway resources/templates/list
    ← {"id":2,"error":{"code":-32000,"message":"the gateway has just started, and the participant that offers the resource `file:///a` may not be back yet; try again in a moment","data":{"code":"recipient_not_found","retryAfterMs":1000}}}
    ← {"id":3,"error":{"code":-32602,"message":"nobody here offers a tool `files__read`"}}
    "#);
}

#[test]
fn a_session_asks_no_more_often_in_a_crowd() {
    let asks = |others: usize| {
        let names: Vec<_> = (0..others).map(|number| format!("p{number}")).collect();
        let mut play = Play::introduced(DoorScope::Room, &names.join(" "), "2025-06-18", "{}");
        for listing in Listing::ALL {
            play.run(&format!("call 1 {}\nsettle", listing.method()));
        }
        play.run("call 1 tools/list\njoin zoe\nsettle\ntick 50\nleave zoe\ntick 50\ncall 2 tools/call {\"name\":\"nobodys\"}");
        (play.asks, play.told.matches("list_changed").count())
    };
    assert_eq!(asks(2), asks(300));
    // For every listing the host is asked for all participants' lists and for its own; the last call makes it look again.
    assert_eq!(asks(2).0, 2 * 4 + 2);
}

#[test]
fn a_newcomer_is_announced_in_a_crowd_too() {
    let crowd: Vec<_> = (0..300).map(|number| format!("p{number}")).collect();
    let mut play = Play::introduced(DoorScope::Room, &crowd.join(" "), "2025-06-18", "{}");
    play.offers = vec![("zoe", "tools/list", r#"{"tools":[{"name":"t"}]}"#)];
    let told = play.act("join zoe\nsettle\ntick 50");
    assert_snapshot!(told, @r#"
    consult zoe tools/list
    consult zoe prompts/list
    consult zoe resources/list
    consult zoe resources/templates/list
    ← {"method":"notifications/tools/list_changed"}
    "#);
}

#[test]
fn a_newcomer_that_offers_nothing_is_not_announced_to_a_client_that_has_listed() {
    let script = r#"
        join dave
        settle
        tick 50
        leave dave
        tick 50
    "#;
    assert_snapshot!(room().act(script), @"
    consult dave tools/list
    consult dave prompts/list
    consult dave resources/list
    consult dave resources/templates/list
    ");
}

#[test]
fn what_others_make_the_catalogue_learn_is_no_news_to_a_client_that_has_not_listed() {
    let mut play = Play::introduced(DoorScope::Room, "bob", "2025-06-18", "{}");
    let query = RoomQuery::Gather { number: 999, listings: &[Listing::Tools] };
    let consults = play.host.asked(query, play.now, Duration::from_secs(600));
    play.consult(consults);
    let script = r#"
        bob: tools/list {"tools":[{"name":"t"}]}
        tick 50
        mark it can be called at once
        call 1 tools/call {"name":"t"}
        bob* notifications/tools/list_changed
        bob: tools/list {"tools":[{"name":"u"}]}
        tick 50
    "#;
    assert_snapshot!(play.act(script), @r#"
    consult bob tools/list
    · it can be called at once
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    consult bob tools/list
    ← {"method":"notifications/tools/list_changed"}
    "#);
}
