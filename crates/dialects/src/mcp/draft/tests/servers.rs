//! What a server of the dialect is told, and what its owner hears of what it says.

use super::*;

#[test]
fn every_word_to_a_server() {
    let mut translator = Translator::default();
    let mut say = |text: &str| match translator.to_server(text) {
        Passed::On(text) => format!("→ {text}"),
        Passed::Back(text) => format!("← {text}"),
    };
    let told: Vec<String> = [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"resources/list"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t","arguments":{"n":12345678901234567890},"_meta":{"progressToken":3}}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"a:1"}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"resources/unsubscribe","params":{"uri":"a:1"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"late"}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"a:1"}}"#,
        r#"{"jsonrpc":"2.0","id":"q","error":{"code":-32602,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":"q","result":{}}"#,
        "no message",
    ]
    .into_iter()
    .map(&mut say)
    .collect();
    assert_snapshot!(told.join("\n"), @r#"
    → {"jsonrpc":"2.0","method":"initialized","params":{}}
    → {"jsonrpc":"2.0","id":1,"method":"tools/list"}
    → {"jsonrpc":"2.0","id":2,"method":"resources/list"}
    → {"jsonrpc":"2.0","id":3,"method":"tools/invoke","params":{"name":"t","arguments":{"n":12345678901234567890}}}
    ← {"jsonrpc":"2.0","id":4,"result":{}}
    ← {"jsonrpc":"2.0","id":5,"result":{}}
    → {"jsonrpc":"2.0","method":"cancel","params":{"id":3}}
    ← {"jsonrpc":"2.0","id":6,"result":{}}
    → {"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"a:1"}}
    → {"jsonrpc":"2.0","id":"q","error":{"code":4001,"message":"x"}}
    → {"jsonrpc":"2.0","id":"q","result":{}}
    → no message
    "#);
}

#[test]
fn every_word_of_a_server() {
    let mut translator = Translator::default();
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"resources/list"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t"}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"t"}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"t"}}"#,
    ] {
        translator.to_server(text);
    }
    let told: Vec<String> = [
        r#"{"jsonrpc":"2.0","id":1,"result":[{"name":"t"}]}"#,
        r#"{"jsonrpc":"2.0","id":2,"result":[{"uri":"a:1"}]}"#,
        r#"{"jsonrpc":"2.0","id":3,"result":{"status":"success","output":{"n":12345678901234567890}}}"#,
        r#"{"jsonrpc":"2.0","id":4,"error":{"code":4001,"message":"Missing required parameter 'city'"}}"#,
        r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32800,"message":"cancelled"}}"#,
        // Of nothing that is open: not a list, though it looks like one.
        r#"{"jsonrpc":"2.0","id":1,"result":[{"name":"t"}]}"#,
        r#"{"jsonrpc":"2.0","method":"tools/changed","params":{"added":[{"name":"n"}],"removed":["t"]}}"#,
        r#"{"jsonrpc":"2.0","method":"resources/changed","params":{"updated":["a:1","a:2"]}}"#,
        r#"{"jsonrpc":"2.0","method":"resources/changed"}"#,
        r#"{"jsonrpc":"2.0","method":"progress","params":{"id":3,"percent":42,"message":"Searching..."}}"#,
        r#"{"jsonrpc":"2.0","method":"progress","params":{"id":3}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#,
        "no message",
    ]
    .into_iter()
    .map(|text| translator.from_server(text).join(" + "))
    .collect();
    assert_snapshot!(told.join("\n"), @r#"
    {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t"}]}}
    {"jsonrpc":"2.0","id":2,"result":{"resources":[{"uri":"a:1"}]}}
    {"jsonrpc":"2.0","id":3,"result":{"content":[{"text":"{\"n\":12345678901234567890}","type":"text"}],"structuredContent":{"n":12345678901234567890}}}
    {"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"Missing required parameter 'city'"}}
    {"jsonrpc":"2.0","id":5,"error":{"code":-32800,"message":"cancelled"}}
    {"jsonrpc":"2.0","id":1,"result":[{"name":"t"}]}
    {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
    {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:1"}} + {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:2"}} + {"jsonrpc":"2.0","method":"notifications/resources/list_changed"}
    {"jsonrpc":"2.0","method":"notifications/resources/list_changed"}
    {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":42,"total":100,"message":"Searching..."}}

    {"jsonrpc":"2.0","method":"notifications/message","params":{}}
    no message
    "#);
}

#[test]
fn a_server_that_is_left_is_told() {
    let (shutdown, exit) = farewell("bye");
    assert_eq!(&*shutdown, r#"{"jsonrpc":"2.0","id":"bye","method":"shutdown"}"#);
    assert_eq!(&*exit, r#"{"jsonrpc":"2.0","method":"exit"}"#);
}

#[test]
fn a_request_that_failed_is_forgotten_with_its_error() {
    let mut translator = Translator::default();
    translator.to_server(r#"{"id":1,"method":"tools/list"}"#);
    assert_eq!(
        translator.failed("1", Some(r#"{"code":4001,"message":"x"}"#)).as_deref(),
        Some(r#"{"code":-32602,"message":"x"}"#)
    );
    assert_eq!(translator.failed("2", None), None);
    assert_eq!(translator.from_server(r#"{"id":1,"result":[]}"#), [Box::from(r#"{"id":1,"result":[]}"#)]);
}
