//! `subscriptions/listen`.

use super::*;

/// A modern client that has listed the resources.
fn listener(others: &str) -> Play {
    let mut play = Play::duplex(DoorScope::Room, others);
    play.offers = vec![("bob", "resources/list", r#"{"resources":[{"uri":"a:1","name":"a"}]}"#)];
    play.after("ask 0 resources/list\nask 0 resources/templates/list\nseat\nsettle")
}

const WANTED: &str = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["a:1","nobody:s"],"vendor":true}}"#;

#[test]
fn a_subscription_is_acknowledged_and_told_what_it_asked_for() {
    let play = listener("bob carol");
    let script = format!(
        r#"ask "l" subscriptions/listen {WANTED}
        settle
        bob: resources/subscribe {{}}
        bob! @- notifications/resources/updated {{"uri":"a:1","n":1.0,"_meta":{{"v":1}}}}
        bob! @- notifications/resources/updated {{"uri":"a:1/below"}}
        bob! @- notifications/resources/updated {{"uri":"a:12"}}
        carol! @- notifications/resources/updated {{"uri":"a:1"}}
        bob! @- notifications/tools/list_changed
        tick 50
        bob! @- notifications/prompts/list_changed
        tick 50
        join dave
        dave: tools/list {{"tools":[{{"name":"t"}}]}}
        tick 50
        leave dave
        tick 50
        join bob
        bob: initialize {SERVER}
        tell notifications/cancelled {{"requestId":"l"}}
        bob! @- notifications/resources/updated {{"uri":"a:1"}}"#
    );
    assert_snapshot!(play.act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"resources/subscribe","params":{"uri":"a:1"}}
    ← {"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:1"]},"_meta":{"/subscriptionId":"l"}}}
    ← {"method":"notifications/resources/updated","params":{"uri":"a:1","n":1.0,"_meta":{"v":1,"/subscriptionId":"l"}}}
    ← {"method":"notifications/resources/updated","params":{"uri":"a:1/below","_meta":{"/subscriptionId":"l"}}}
    ⇒ bob {"id":"s-4","method":"tools/list"}
    ← {"method":"notifications/tools/list_changed","params":{"_meta":{"/subscriptionId":"l"}}}
    consult dave tools/list
    consult dave resources/list
    consult dave resources/templates/list
    ← {"method":"notifications/tools/list_changed","params":{"_meta":{"/subscriptionId":"l"}}}
    ← {"method":"notifications/tools/list_changed","params":{"_meta":{"/subscriptionId":"l"}}}
    consult bob tools/list
    consult bob resources/list
    consult bob resources/templates/list
    ⇒ bob {"id":"s-5","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-7","method":"resources/subscribe","params":{"uri":"a:1"}}
    ⇒ bob re s-7 {"method":"notifications/cancelled","params":{"requestId":"s-7"}}
    ⇒ bob {"id":"s-9","method":"resources/unsubscribe","params":{"uri":"a:1"}}
    "#);
}

#[test]
fn a_filter_is_an_object() {
    assert_snapshot!(listener("").act("ask 1 subscriptions/listen {}\nask 2 subscriptions/listen {\"notifications\":[]}\nask 3 subscriptions/listen {\"notifications\":{}}"), @r#"
    ← {"id":1,"error":{"code":-32602,"message":"`notifications` must be an object that says what to tell"}}
    ← {"id":2,"error":{"code":-32602,"message":"`notifications` must be an object that says what to tell"}}
    ← {"method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":{"/subscriptionId":3}}}
    "#);
}

#[test]
fn a_subscription_ends_with_its_stream_or_with_the_gateway() {
    let play = || {
        let mut play = Play::new(DoorScope::Room, "bob", |_| {});
        play.offers = vec![("bob", "resources/list", r#"{"resources":[{"uri":"a:1","name":"a"}]}"#)];
        play.after("1 ask 0 resources/list\n2 ask 0 resources/templates/list\nseat\nsettle")
    };
    let script = format!(
        "3 ask 1 subscriptions/listen {WANTED}\n4 ask 2 subscriptions/listen {WANTED}\nsettle\nhangup 3\nmark one is left\nhangup 4\ntick 10000"
    );
    assert_snapshot!(play().act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"resources/subscribe","params":{"uri":"a:1"}}
    ⇒ bob {"id":"s-4","method":"resources/subscribe","params":{"uri":"a:1"}}
    ⇒ bob re s-3 {"method":"notifications/cancelled","params":{"requestId":"s-3"}}
    · one is left
    ⇒ bob re s-4 {"method":"notifications/cancelled","params":{"requestId":"s-4"}}
    ⇒ bob {"id":"s-7","method":"resources/unsubscribe","params":{"uri":"a:1"}}
    "#);
    assert_snapshot!(play().act(&format!("3 ask 1 subscriptions/listen {WANTED}\nclosing")), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c"}}}
    begin 3 200 json
    3← {"id":1,"result":{"resultType":"complete","_meta":{"/subscriptionId":1}}}
    finish 3
    close shutdown
    "#);
}

#[test]
fn modern_participants_are_subscribed_to_in_their_own_way() {
    let play = listener("bob/2026-07-28");
    let script = format!(
        r#"ask 7 subscriptions/listen {WANTED}
        bob! @subscriptions/listen notifications/subscriptions/acknowledged {{"notifications":{{}}}}
        bob! @subscriptions/listen notifications/resources/updated {{"uri":"a:1","_meta":{{"io.modelcontextprotocol/subscriptionId":"x"}}}}
        bob! @subscriptions/listen notifications/tools/list_changed {{"_meta":{{"io.modelcontextprotocol/subscriptionId":"x"}}}}
        bob: tools/list {{"resultType":"complete","tools":[]}}
        tick 50
        tick 200000
        tell notifications/cancelled {{"requestId":7}}"#
    );
    assert_snapshot!(play.act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:1"]},"_meta":{…,"/clientCapabilities":{}}}}
    ← {"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:1"]},"_meta":{"/subscriptionId":7}}}
    ← {"method":"notifications/resources/updated","params":{"uri":"a:1","_meta":{"/subscriptionId":7}}}
    ⇒ bob {"id":"s-2","method":"tools/list","params":{"_meta":{…,"/clientCapabilities":{}}}}
    ← {"method":"notifications/tools/list_changed","params":{"_meta":{"/subscriptionId":7}}}
    ⇒ bob re s-1 {"method":"notifications/cancelled","params":{"requestId":"s-1"}}
    "#);
}

#[test]
fn one_modern_participant_sees_to_it_itself() {
    let play = Play::duplex(DoorScope::One(id("bob")), "bob/2025-11-25,2026-07-28");
    let script = format!(
        r#"ask 7 subscriptions/listen {WANTED}
        seat
        bob! @subscriptions/listen notifications/subscriptions/acknowledged {{"notifications":{{"toolsListChanged":true}},"_meta":{{"io.modelcontextprotocol/subscriptionId":"s-1"}}}}
        bob! @subscriptions/listen notifications/tools/list_changed {{"_meta":{{"io.modelcontextprotocol/subscriptionId":"s-1"}}}}
        bob! @subscriptions/listen notifications/resources/updated {{"uri":"a:1","_meta":{{"io.modelcontextprotocol/subscriptionId":"s-1"}}}}
        tell notifications/cancelled {{"requestId":7}}"#
    );
    assert_snapshot!(play.act(&script), @r#"
    join c 2026-07-28
    ⇒ bob {"id":"s-1","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["a:1","nobody:s"],"vendor":true},"_meta":{…,"/clientCapabilities":{}}}}
    ← {"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"/subscriptionId":7}}}
    ← {"method":"notifications/tools/list_changed","params":{"_meta":{"/subscriptionId":7}}}
    ← {"method":"notifications/resources/updated","params":{"uri":"a:1","_meta":{"/subscriptionId":7}}}
    ⇒ bob re s-1 {"method":"notifications/cancelled","params":{"requestId":"s-1"}}
    "#);
}

#[test]
fn one_legacy_participant_is_subscribed_to() {
    let play = Play::duplex(DoorScope::One(id("bob")), "bob");
    let script = format!(
        r#"ask 7 subscriptions/listen {WANTED}
        seat
        bob: initialize {SERVER}
        bob! @- notifications/tools/list_changed
        tick 50
        bob! @- notifications/resources/updated {{"uri":"a:1"}}"#
    );
    assert_snapshot!(play.act(&script), @r#"
    join c 2026-07-28
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"resources/subscribe","params":{"uri":"a:1"}}
    ⇒ bob {"id":"s-4","method":"resources/subscribe","params":{"uri":"nobody:s"}}
    ⇒ bob {"id":"s-5","method":"tools/list"}
    ← {"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:1","nobody:s"]},"_meta":{"/subscriptionId":7}}}
    ← {"method":"notifications/tools/list_changed","params":{"_meta":{"/subscriptionId":7}}}
    ← {"method":"notifications/resources/updated","params":{"uri":"a:1","_meta":{"/subscriptionId":7}}}
    "#);
}

#[test]
fn a_subscription_ends_when_its_participant_ends_it() {
    let ask = "ask 7 subscriptions/listen";
    let script = format!(
        r#"{ask} {WANTED}
        bob! @subscriptions/listen notifications/subscriptions/acknowledged {{"notifications":{{}}}}
        carol! @subscriptions/listen notifications/subscriptions/acknowledged {{"notifications":{{}}}}
        bob: subscriptions/listen {{"resultType":"complete"}}
        mark it can be had again
        {ask} {WANTED}
        bob: subscriptions/listen error {{"code":-32603,"message":"not now"}}
        tick 1000"#
    );
    assert_snapshot!(listener("bob/2026-07-28 carol/2026-07-28").act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:1"]},"_meta":{…,"/clientCapabilities":{}}}}
    ⇒ carol {"id":"s-2","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{…,"/clientCapabilities":{}}}}
    ← {"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:1"]},"_meta":{"/subscriptionId":7}}}
    ⇒ carol re s-2 {"method":"notifications/cancelled","params":{"requestId":"s-2"}}
    ← {"method":"notifications/cancelled","params":{"requestId":7}}
    ← {"id":7,"result":{"resultType":"complete","_meta":{"/subscriptionId":7}}}
    · it can be had again
    ⇒ bob {"id":"s-4","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:1"]},"_meta":{…,"/clientCapabilities":{}}}}
    ⇒ carol {"id":"s-5","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{…,"/clientCapabilities":{}}}}
    ← {"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"/subscriptionId":7}}}
    "#);
}

#[test]
fn who_ends_the_news_of_its_lists_is_listened_to_again() {
    let ask = r#"ask 7 subscriptions/listen {"notifications":{"toolsListChanged":true}}"#;
    let acknowledged = r#"bob! @subscriptions/listen notifications/subscriptions/acknowledged {"notifications":{}}"#;
    let script = format!(
        r#"{ask}
        {acknowledged}
        bob: subscriptions/listen {{"resultType":"complete"}}
        tick 59999
        mark a minute
        tick 1
        bob: subscriptions/listen error {{"code":-32601,"message":"not any more"}}
        tick 600000
        mark who has no such thing is let be
        tell notifications/cancelled {{"requestId":7}}"#
    );
    assert_snapshot!(listener("bob/2026-07-28").act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{…,"/clientCapabilities":{}}}}
    ← {"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"/subscriptionId":7}}}
    · a minute
    ⇒ bob {"id":"s-2","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{…,"/clientCapabilities":{}}}}
    · who has no such thing is let be
    "#);
}

#[test]
fn a_resource_that_its_owner_refuses_to_tell_of_is_not_acknowledged() {
    let script = format!(
        r#"ask 7 subscriptions/listen {WANTED}
        settle
        bob: resources/subscribe error {{"code":-32602,"message":"no"}}
        bob! @- notifications/resources/updated {{"uri":"a:1"}}
        tell notifications/cancelled {{"requestId":7}}
        mark nor unsubscribed from"#
    );
    assert_snapshot!(listener("bob").act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-3","method":"resources/subscribe","params":{"uri":"a:1"}}
    ← {"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true},"_meta":{"/subscriptionId":7}}}
    · nor unsubscribed from
    "#);
}

#[test]
fn a_participant_tells_a_subscription_only_what_it_asked_for() {
    let script = format!(
        r#"ask 7 subscriptions/listen {WANTED}
        bob! @subscriptions/listen notifications/subscriptions/acknowledged {{"notifications":{{}}}}
        bob! @subscriptions/listen notifications/prompts/list_changed
        bob! @subscriptions/listen notifications/resources/updated {{"uri":"b:1"}}
        bob! @subscriptions/listen notifications/resources/updated {{"uri":"a:1"}}"#
    );
    assert_snapshot!(listener("bob/2026-07-28").act(&script), @r#"
    ⇒ bob {"id":"s-1","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:1"]},"_meta":{…,"/clientCapabilities":{}}}}
    ← {"method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:1"]},"_meta":{"/subscriptionId":7}}}
    ← {"method":"notifications/resources/updated","params":{"uri":"a:1","_meta":{"/subscriptionId":7}}}
    "#);
}

#[test]
fn a_legacy_client_stays_subscribed_where_a_modern_participant_ends_it() {
    let mut play = Play::introduced(DoorScope::Room, "bob/2026-07-28", "2025-06-18", "{}");
    play.offers = vec![("bob", "resources/list", r#"{"resources":[{"uri":"a:1","name":"a"}]}"#)];
    let play = play.after("call 0 resources/list\ncall 0 resources/templates/list\nsettle");
    let script = r#"call 1 resources/subscribe {"uri":"a:1"}
        bob: subscriptions/listen {"resultType":"complete"}
        tick 60000
        bob! @subscriptions/listen notifications/resources/updated {"uri":"a:1"}
        call 2 resources/unsubscribe {"uri":"a:1"}"#;
    assert_snapshot!(play.act(script), @r#"
    ⇒ bob {"id":"s-1","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["a:1"]},"_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{}}}}
    ← {"id":1,"result":{}}
    ⇒ bob {"id":"s-2","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["a:1"]},"_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"c","version":"1"},"/clientCapabilities":{}}}}
    ← {"method":"notifications/resources/updated","params":{"uri":"a:1"}}
    ⇒ bob re s-2 {"method":"notifications/cancelled","params":{"requestId":"s-2"}}
    ← {"id":2,"result":{}}
    "#);
}
