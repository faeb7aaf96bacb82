//! Callers and servers of different revisions.

use super::*;

const MODERN_META: &str = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"},"name":"t"}"#;

#[test]
fn modern_callers_are_refused_by_a_legacy_server_and_passed_to_a_modern_one() {
    assert_snapshot!(legacy(&format!("alice#1 tools/call {MODERN_META}")), @r#"⇒ alice re e1 {"id":1,"error":{"code":-32022,"message":"`guest` does not speak MCP 2026-07-28; it begins with `initialize`","data":{"requested":"2026-07-28","supported":["2024-11-05","2025-03-26","2025-06-18","2025-11-25"]}}}"#);
    let script = format!(
        r#"alice#1 tools/call {MODERN_META}
        0> {{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":4,"progress":1}}}}
        0> {{"jsonrpc":"2.0","id":4,"result":{{"resultType":"input_required","requestState":"s"}}}}
        alice#2 initialize {MODERN_META}"#
    );
    assert_snapshot!(modern(&script), @r#"
    → 0 {"id":4,"method":"tools/call","params":{"_meta":{"/protocolVersion":"2026-07-28","/clientCapabilities":{},"progressToken":4},"name":"t"}}
    ⇒ alice re e1 {"method":"notifications/progress","params":{"progressToken":"p","progress":1}}
    ⇒ alice re e1 {"id":1,"result":{"resultType":"input_required","requestState":"s"}}
    ⇒ alice re e2 {"id":2,"error":{"code":-32601,"message":"MCP 2026-07-28 has no `initialize`"}}
    "#);
}

#[test]
fn a_server_of_both_eras_is_spoken_to_in_its_callers() {
    let script = format!("alice#1 tools/list\nbob#1 tools/call {MODERN_META}\nopen 4");
    assert_snapshot!(Play::seated(&[Era::Modern, Era::Legacy], |_| {}).act(&script), @r#"
    → 0 {"id":3,"method":"tools/list","params":{}}
    open 4 Modern 2025-11-25 {}
    → 4 {"id":5,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":5},"name":"t"}}
    → 4 {"id":6,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"salon"},"io.modelcontextprotocol/clientCapabilities":{}}}}
    "#);
}

#[test]
fn a_legacy_caller_of_a_modern_server_is_translated() {
    let script = r#"
        alice#1 initialize {"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"tasks":{}},"clientInfo":{"name":"a"}}
        alice#2 logging/setLevel {"level":"info"}
        alice#3 tools/call {"name":"t","arguments":{"n": 1.0},"task":{}}
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":1}}
        0> {"jsonrpc":"2.0","id":4,"result":{"resultType":"complete","content":[],"structuredContent":[1],"_meta":{"io.modelcontextprotocol/serverInfo":{}}}}
        alice#4 tasks/list
        alice#5 ping
    "#;
    assert_snapshot!(modern(script), @r#"
    ⇒ alice re e1 {"id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    ⇒ alice re e2 {"id":2,"result":{}}
    → 0 {"id":4,"method":"tools/call","params":{"name":"t","arguments":{"n": 1.0},"_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"a"},"/clientCapabilities":{"elicitation":{}},"/logLevel":"info"}}}
    ⇒ alice {"method":"notifications/message","params":{"level":"warning","data":1}}
    ⇒ alice re e3 {"id":3,"result":{"content":[]}}
    ⇒ alice re e4 {"id":4,"error":{"code":-32601,"message":"tasks are not carried between revisions of MCP"}}
    ⇒ alice re e5 {"id":5,"result":{}}
    "#);
}

#[test]
fn what_a_modern_server_wants_to_know_is_asked_for() {
    let script = r#"
        alice#1 initialize {"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{}}}
        alice#2 tools/call {"name":"t","_meta":{"progressToken":7}}
        0> {"jsonrpc":"2.0","id":4,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","url":"u"}},"b":{"method":"sampling/createMessage","params":{"n": 1}}},"requestState":"s\u0031"}}
        alice=6 {"text":"hi"}
        alice=5 error
        0> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}
        0> {"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","requestState":"t"}}
        tick 2
        0> {"jsonrpc":"2.0","id":8,"result":{"resultType":"complete","content":[]}}
    "#;
    assert_snapshot!(modern(script).split_once('\n').unwrap().1, @r#"
    → 0 {"id":4,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":4,…,"/clientCapabilities":{"elicitation":{},"sampling":{}}}}}
    ⇒ alice re e2 {"id":5,"method":"elicitation/create","params":{"mode":"url","url":"u","elicitationId":"seed-4-0"}}
    ⇒ alice re e2 {"id":6,"method":"sampling/createMessage","params":{"n": 1}}
    → 0 {"id":7,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":7,…,"/clientCapabilities":{"elicitation":{},"sampling":{}}},"inputResponses":{"b":{"text":"hi"},"a":{"action":"cancel"}},"requestState":"s\u0031"}}
    ⇒ alice re e2 {"method":"notifications/progress","params":{"progressToken":7,"progress":1}}
    → 0 {"id":8,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":8,…,"/clientCapabilities":{"elicitation":{},"sampling":{}}},"requestState":"t"}}
    ⇒ alice re e2 {"id":2,"result":{"content":[]}}
    ⇒ alice {"method":"notifications/elicitation/complete","params":{"elicitationId":"seed-4-0"}}
    "#);
}

#[test]
fn a_question_that_is_refused_fails_the_call_unless_it_is_a_persons_to_refuse() {
    let ask = |method: &str| {
        format!(
            r#"alice#0 initialize {{"capabilities":{{"sampling":{{}},"elicitation":{{}}}}}}
            alice#1 tools/call {{"name":"t"}}
            0> {{"jsonrpc":"2.0","id":4,"result":{{"resultType":"input_required","inputRequests":{{"a":{{"method":"{method}"}}}}}}}}
            alice=5 error"#
        )
    };
    assert_snapshot!(modern(&ask("sampling/createMessage")).lines().last().unwrap(), @r#"⇒ alice re e2 {"id":1,"error":{"code":-1,"message":"no"}}"#);
    assert_snapshot!(modern(&ask("elicitation/create")).lines().last().unwrap(), @r#"→ 0 {"id":6,"method":"tools/call","params":{"name":"t","_meta":{…,"/clientCapabilities":{"sampling":{},"elicitation":{}}},"inputResponses":{"a":{"action":"cancel"}}}}"#);
    let mut again = ask("sampling/createMessage").replace("alice=5 error", "");
    for number in 0..11 {
        let (ask, next) = (5 + 2 * number, 6 + 2 * number);
        again.push_str(&format!("\nalice={ask} {{}}\n"));
        again.push_str(&format!(r#"0> {{"jsonrpc":"2.0","id":{next},"result":{{"resultType":"input_required","inputRequests":{{"a":{{"method":"sampling/createMessage"}}}}}}}}"#));
    }
    assert_snapshot!(modern(&again).lines().last().unwrap(), @r#"⇒ alice re e2 {"id":1,"error":{"code":-32603,"message":"the server of `guest` asked back too often"}}"#);
    // A caller that has declared no capabilities is not asked.
    let ask = |method: &str| ask(method).lines().skip(1).take(2).collect::<Vec<_>>().join("\n");
    assert_snapshot!(modern(&ask("sampling/createMessage")).lines().last().unwrap(), @r#"⇒ alice re e1 {"id":1,"error":{"code":-32603,"message":"the server of `guest` cannot go on without `sampling/createMessage`, which the client does not offer"}}"#);
    assert_snapshot!(modern(&ask("elicitation/create")).lines().last().unwrap(), @r#"→ 0 {"id":5,"method":"tools/call","params":{"name":"t","_meta":{…,"/clientCapabilities":{}},"inputResponses":{"a":{"action":"decline"}}}}"#);
}

#[test]
fn subscriptions_of_legacy_callers_are_one_to_a_modern_server() {
    let ack = |number: u32| {
        format!(
            r#"0> {{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{number}}}}}}}"#
        )
    };
    let script = format!(
        r#"alice#1 resources/subscribe {{"uri":"a"}}
        bob#1 resources/subscribe {{"uri":"b"}}
        {}
        {}
        0> {{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":5}},"uri":"b"}}}}
        leave bob
        {}
        0> {{"jsonrpc":"2.0","id":6,"result":{{"resultType":"complete"}}}}
        tick 1"#,
        ack(4),
        ack(5),
        ack(6)
    );
    assert_snapshot!(modern(&script), @r#"
    → 0 {"id":4,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a"]},"_meta":{…,"/clientCapabilities":{}}}}
    ⇒ alice re e1 {"id":1,"result":{}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":3,"reason":"replaced"}}
    → 0 {"id":5,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a","b"]},"_meta":{…,"/clientCapabilities":{}}}}
    ⇒ bob re e2 {"id":1,"result":{}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":4,"reason":"replaced"}}
    ⇒ bob {"method":"notifications/resources/updated","params":{"uri":"b"}}
    → 0 {"id":6,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a"]},"_meta":{…,"/clientCapabilities":{}}}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":5,"reason":"replaced"}}
    → 0 {"id":7,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a"]},"_meta":{…,"/clientCapabilities":{}}}}
    "#);
}

#[test]
fn a_modern_callers_own_subscription_is_told_under_its_own_id() {
    let script = r#"
        alice#"l" subscriptions/listen {"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true}}
        0> {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4},"notifications":{}}}
        0> {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4}}}
        tick 600
        alice! notifications/cancelled {"requestId":"l"}
    "#;
    assert_snapshot!(modern(script), @r#"
    → 0 {"id":4,"method":"subscriptions/listen","params":{"_meta":{"/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true}}}
    ⇒ alice re e1 {"method":"notifications/subscriptions/acknowledged","params":{"_meta":{"/subscriptionId":"l"},"notifications":{}}}
    ⇒ alice re e1 {"method":"notifications/tools/list_changed","params":{"_meta":{"/subscriptionId":"l"}}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":4}}
    "#);
}

#[test]
fn over_http_requests_have_headers_and_a_word_tells_whether_the_server_is_there() {
    let script = r#"
        alice#1 tools/call {"name":"t","arguments":{"r":"eu"}}
        0> {"jsonrpc":"2.0","id":4,"error":{"code":-32020,"message":"header"}}
        0> {"jsonrpc":"2.0","id":5,"result":{"tools":[{"name":"t","inputSchema":{"properties":{"r":{"x-mcp-header":"Region"}}}}]}}
        alice! notifications/cancelled {"requestId":1}
        alice#2 tools/list
        fail 7 connection refused
        fail 8 connection refused
    "#;
    let told = Play::seated(&[Era::Modern], |setting| setting.http = true).act(script);
    let told: Vec<_> = told.lines().map(|line| line.split(r#","params""#).next().unwrap()).collect();
    assert_snapshot!(told.join("\n"), @r#"
    → 0[Mcp-Method: tools/call][Mcp-Name: t] {"id":4,"method":"tools/call"
    → 0[Mcp-Method: tools/list] {"id":5,"method":"tools/list"
    ⇒ * {"method":"notifications/tools/list_changed"
    listed 1
    → 0[Mcp-Method: tools/call][Mcp-Name: t][Mcp-Param-Region: eu] {"id":6,"method":"tools/call"
    → 0 abandon 6
    → 0[Mcp-Method: tools/list] {"id":7,"method":"tools/list"
    → 0[Mcp-Method: server/discover] {"id":8,"method":"server/discover"
    ⇒ alice re e3 {"id":2,"error":{"code":-32603,"message":"the server of `guest` gave no answer: connection refused"}}
    lost: the server of `guest` gave no answer: connection refused
    "#);
}

#[test]
fn a_call_whose_headers_are_corrected_keeps_what_the_server_was_answered() {
    let script = r#"
        alice#1 initialize {"protocolVersion":"2025-11-25","capabilities":{"roots":{}}}
        alice#2 tools/call {"name":"t"}
        0> {"jsonrpc":"2.0","id":4,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}}
        alice=5 {"roots":[]}
        0> {"jsonrpc":"2.0","id":6,"error":{"code":-32020,"message":"header"}}
        0> {"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"t"}]}}
    "#;
    let told = Play::seated(&[Era::Modern], |setting| setting.http = true).act(script);
    let last = told.lines().last().unwrap();
    assert!(last.contains(r#""id":8"#), "{last}");
    assert!(last.contains(r#""inputResponses":{"a":{"roots":[]}},"requestState":"s""#), "{last}");
}

#[test]
fn changes_in_the_process_of_one_era_are_announced_to_its_callers() {
    let script = r#"
        alice#1 tools/call {"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}
        open 3
        bob#1 tools/call {"name":"t"}
        3> {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":5}}}
        3> {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":5}}}
        3> {"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":5}}}
    "#;
    let told = Play::seated(&[Era::Legacy, Era::Modern], |_| {}).act(script);
    assert_snapshot!(told.replace("io.modelcontextprotocol/", "/"), @r#"
    open 3 Modern 2025-11-25 {}
    → 3 {"id":4,"method":"tools/call","params":{"name":"t","_meta":{"/protocolVersion":"2026-07-28"}}}
    → 3 {"id":5,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"salon"},"/clientCapabilities":{}}}}
    → 0 {"id":6,"method":"tools/call","params":{"name":"t"}}
    ⇒ alice {"method":"notifications/tools/list_changed","params":{}}
    ⇒ alice {"method":"notifications/prompts/list_changed","params":{}}
    "#);
    // One server behind a URL says it on the base lane already.
    let told = Play::seated(&[Era::Legacy, Era::Modern], |setting| setting.http = true).act(script);
    assert!(!told.contains("subscriptions/listen"), "{told}");
}
