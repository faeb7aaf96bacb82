//! Resources: whose they are, and what is told of them.

use super::*;

fn with_resources() -> Play {
    let mut play = Play::introduced(DoorScope::Room, "bob carol", "2025-06-18", "{}");
    play.offers = vec![
        (
            "bob",
            "resources/list",
            r#"{"resources":[{"uri":"file:///b","name":"b"},{"uri":"file:///same","name":"s"}]}"#,
        ),
        ("carol", "resources/list", r#"{"resources":[{"uri":"file:///same","name":"s"}]}"#),
        ("carol", "resources/templates/list", r#"{"resourceTemplates":[{"uriTemplate":"db:///{id}","name":"db"}]}"#),
    ];
    play.after(
        r#"call 0 resources/list
        call 0 resources/templates/list
        settle
        call 0 tools/call {"name":"bob__t"}
        call 0 tools/call {"name":"carol__u"}
        settle
        bob: tools/call {}
        carol: tools/call {}"#,
    )
}

#[test]
fn a_resource_is_read_from_its_owner() {
    let script = r#"
        call 1 resources/read {"uri":"file:///b","x":1.0}
        call 2 resources/read {"uri":"file:///same"}
        call 3 resources/read {"uri":"salon://bob/file:///same"}
        call 4 resources/read {"uri":"db:///7"}
        call 5 resources/read {"uri":"nowhere:"}
        call 6 resources/read {"uri":"salon://dave/x"}
        call 7 completion/complete {"ref":{"type":"ref/resource","uri":"db:///{id}"},"argument":{"name":"id","value":""}}
        call 8 resources/list
        bob: resources/read {"contents":[{"uri":"file:///b","text":"t","n": 12345678901234567890}]}
        bob: resources/read {"contents":[{"uri":"file:///same","text":"t","n": 12345678901234567890},{"uri":"file:///other"}],"x":1.0}
        carol: resources/read error {"code":-32002,"message":"gone","data":{"uri":"db:///7"}}
    "#;
    assert_snapshot!(with_resources().act(script), @r#"
    ⇒ bob {"id":"s-7","method":"resources/read","params":{"uri":"file:///b","x":1.0}}
    ← {"id":2,"error":{"code":-32602,"message":"`file:///same` is offered by `bob`, `carol`; name the one you mean: `salon://owner/file:///same`"}}
    ⇒ bob {"id":"s-8","method":"resources/read","params":{"uri":"file:///same"}}
    ⇒ carol {"id":"s-9","method":"resources/read","params":{"uri":"db:///7"}}
    ← {"id":5,"error":{"code":-32002,"message":"nobody here offers a resource `nowhere:`","data":{"uri":"nowhere:"}}}
    ← {"id":6,"error":{"code":-32002,"message":"nobody here offers a resource `salon://dave/x`","data":{"uri":"salon://dave/x"}}}
    ⇒ carol {"id":"s-10","method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"db:///{id}"},"argument":{"name":"id","value":""}}}
    ← {"id":8,"result":{"resources":[{"uri":"file:///b","name":"bob__b"},{"uri":"salon://bob/file:///same","name":"bob__s"},{"uri":"salon://carol/file:///same","name":"carol__s"}]}}
    ← {"id":1,"result":{"contents":[{"uri":"file:///b","text":"t","n": 12345678901234567890}]}}
    ← {"id":3,"result":{"contents":[{"uri":"salon://bob/file:///same","text":"t","n":12345678901234567890},{"uri":"file:///other"}],"x":1.0}}
    ← {"id":4,"error":{"code":-32002,"message":"gone","data":{"uri":"db:///7"}}}
    "#);
}

#[test]
fn a_link_in_a_result_can_be_read() {
    let script = r#"
        call 1 tools/call {"name":"carol__u"}
        carol: tools/call {"content":[{"type":"resource_link","uri":"tmp:1","name":"one"}]}
        call 2 resources/read {"uri":"tmp:1"}
    "#;
    assert_snapshot!(with_resources().act(script), @r#"
    ⇒ carol {"id":"s-7","method":"tools/call","params":{"name":"u"}}
    ← {"id":1,"result":{"content":[{"type":"resource_link","uri":"tmp:1","name":"one"}]}}
    ⇒ carol {"id":"s-8","method":"resources/read","params":{"uri":"tmp:1"}}
    "#);
}

#[test]
fn updates_carry_the_uri_that_the_room_lists() {
    let script = r#"
        call 1 resources/subscribe {"uri":"salon://bob/file:///same"}
        bob: resources/subscribe {}
        call 2 resources/subscribe {"uri":"file:///b"}
        bob: resources/subscribe {}
        bob! @- notifications/resources/updated {"uri":"file:///same","title":"t","n":1.0}
        bob! @- notifications/resources/updated {"uri":"file:///b"}
        bob! @- notifications/resources/updated {}
        call 3 resources/unsubscribe {"uri":"file:///b"}
        bob: resources/unsubscribe {}
        join bob
    "#;
    assert_snapshot!(with_resources().act(&format!("{script}\nbob: initialize {SERVER}")), @r#"
    ⇒ bob {"id":"s-7","method":"resources/subscribe","params":{"uri":"file:///same"}}
    ← {"id":1,"result":{}}
    ⇒ bob {"id":"s-8","method":"resources/subscribe","params":{"uri":"file:///b"}}
    ← {"id":2,"result":{}}
    ← {"method":"notifications/resources/updated","params":{"uri":"salon://bob/file:///same","title":"t","n":1.0}}
    ← {"method":"notifications/resources/updated","params":{"uri":"file:///b"}}
    ⇒ bob {"id":"s-9","method":"resources/unsubscribe","params":{"uri":"file:///b"}}
    ← {"id":3,"result":{}}
    consult bob tools/list
    consult bob prompts/list
    consult bob resources/list
    consult bob resources/templates/list
    ⇒ bob {"id":"s-10","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
    ⇒ bob {"method":"notifications/initialized"}
    ⇒ bob {"id":"s-12","method":"resources/subscribe","params":{"uri":"file:///same"}}
    "#);
}

#[test]
fn a_subscription_that_was_refused_is_not_made_again() {
    let script = r#"
        call 1 resources/subscribe {"uri":"file:///b"}
        bob: resources/subscribe error {"code":-1,"message":"no"}
        join bob
        call 2 tools/call {"name":"bob__t"}
    "#;
    let told = with_resources().act(&format!("{script}\nbob: initialize {SERVER}"));
    assert!(told.contains(r#"consult bob resources/list"#), "{told}");
    assert_eq!(told.matches("resources/subscribe").count(), 1, "{told}");
}
