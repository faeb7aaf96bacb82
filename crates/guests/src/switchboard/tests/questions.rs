//! Questions of a server that callers share: to whom they go, and when they are declined.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// What came of a script, without the answers to handshakes.
fn asked(script: &str) -> String {
    let told = legacy(script);
    told.lines().filter(|line| !line.contains("serverInfo")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_question_goes_to_the_only_caller_with_a_running_call() {
    let script = r#"
        alice#1 initialize {"capabilities":{"elicitation":{}}}
        alice#2 tools/call {"name":"t"}
        0> {"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"sure?"}}
        alice=4 {"action":"accept"}
        0> {"jsonrpc":"2.0","id":"q2","method":"sampling/createMessage"}
        0> {"jsonrpc":"2.0","id":"q3","method":"elicitation/create","params":{"mode":"url"}}
        0> {"jsonrpc":"2.0","id":3,"result":{}}
        0> {"jsonrpc":"2.0","id":"q4","method":"elicitation/create"}
    "#;
    assert_snapshot!(asked(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t"}}
    ⇒ alice re e2 {"id":4,"method":"elicitation/create","params":{"message":"sure?"}}
    → 0 {"id":"q1","result":{"action":"accept"}}
    → 0 {"id":"q2","error":{"code":-32601,"message":"`sampling/createMessage` cannot be asked here: `alice` does not offer to answer it"}}
    → 0 {"id":"q3","error":{"code":-32601,"message":"`elicitation/create` cannot be asked here: callers that share a connection cannot be asked this; `salon/isolated` gives a caller its own"}}
    ⇒ alice re e2 {"id":2,"result":{}}
    → 0 {"id":"q4","error":{"code":-32601,"message":"`elicitation/create` cannot be asked here: no call of a participant is waiting for it"}}
    "#);
}

#[test]
fn a_question_that_could_be_anothers_is_declined() {
    let script = r#"
        alice#1 initialize {"capabilities":{"elicitation":{}}}
        alice#2 tools/call {"name":"t"}
        bob#1 tools/call {"name":"t"}
        0> {"jsonrpc":"2.0","id":"q1","method":"elicitation/create"}
        0/3> {"jsonrpc":"2.0","id":"q2","method":"elicitation/create"}
        0/4> {"jsonrpc":"2.0","id":"q3","method":"elicitation/create"}
        bob! notifications/cancelled {"requestId":1}
        0> {"jsonrpc":"2.0","id":"q4","method":"elicitation/create"}
        tick 59
        0> {"jsonrpc":"2.0","id":"q5","method":"elicitation/create"}
        tick 1
        0> {"jsonrpc":"2.0","id":"q6","method":"elicitation/create"}
    "#;
    assert_snapshot!(asked(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t"}}
    → 0 {"id":4,"method":"tools/call","params":{"name":"t"}}
    → 0 {"id":"q1","error":{"code":-32601,"message":"`elicitation/create` cannot be asked here: calls of several callers share this connection, and nothing says whose question it is"}}
    ⇒ alice re e2 {"id":5,"method":"elicitation/create"}
    → 0 {"id":"q3","error":{"code":-32601,"message":"`elicitation/create` cannot be asked here: `bob` does not offer to answer it"}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":4}}
    → 0 {"id":"q4","error":{"code":-32601,"message":"`elicitation/create` cannot be asked here: calls of several callers share this connection, and nothing says whose question it is"}}
    → 0 {"id":"q5","error":{"code":-32601,"message":"`elicitation/create` cannot be asked here: calls of several callers share this connection, and nothing says whose question it is"}}
    ⇒ alice re e2 {"id":6,"method":"elicitation/create"}
    "#);
}

#[test]
fn a_question_ends_with_its_call_and_holds_up_no_other() {
    let script = r#"
        alice#1 initialize {"capabilities":{"elicitation":{}}}
        alice#2 tools/call {"name":"t"}
        0> {"jsonrpc":"2.0","id":"q1","method":"elicitation/create"}
        bob#1 tools/call {"name":"t"}
        tick 60
        alice! notifications/cancelled {"requestId":2}
        alice=4 {"action":"accept"}
    "#;
    assert_snapshot!(asked(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t"}}
    ⇒ alice re e2 {"id":4,"method":"elicitation/create"}
    → 0 {"id":5,"method":"tools/call","params":{"name":"t"}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":5,"reason":"no answer and no progress in time"}}
    ⇒ bob re e3 {"id":1,"error":{"code":-32603,"message":"the server of `guest` gave no answer and no progress for 60 s","data":{"code":"timeout"}}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":3}}
    ⇒ alice {"method":"notifications/cancelled","params":{"requestId":4}}
    → 0 {"id":"q1","error":{"code":-32603,"message":"the call that this question belongs to is over"}}
    "#);
}

#[test]
fn a_request_can_say_what_its_caller_answers() {
    let script = r#"
        alice#1 tools/call {"name":"t","_meta":{"progressToken":7,"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}
        0> {"jsonrpc":"2.0","id":"q","method":"elicitation/create"}
        0> {"jsonrpc":"2.0","id":3,"result":{}}
        bob#1 tools/call {"name":"t","_meta":{"io.modelcontextprotocol/clientCapabilities":{"experimental":{"salon/isolated":{}}}}}
    "#;
    assert_snapshot!(asked(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":3}}}
    ⇒ alice re e1 {"id":4,"method":"elicitation/create"}
    ⇒ alice {"method":"notifications/cancelled","params":{"requestId":4}}
    → 0 {"id":"q","error":{"code":-32603,"message":"the call that this question belongs to is over"}}
    ⇒ alice re e1 {"id":1,"result":{}}
    open 5 Legacy 2025-06-18 {"experimental":{"salon/isolated":{}}}
    "#);
}

#[test]
fn one_participant_has_only_so_many_lanes() {
    let mut play = Play::seated(&[Era::Legacy], |_| {});
    let isolated = r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"experimental":{"salon/isolated":{}}}}}"#;
    for number in 0..MAX_OWN_LANES_OF_ONE {
        play.line(&format!("alice/s{number}#1 tools/call {isolated}"));
    }
    play.told.clear();
    play.line(&format!("alice/more#1 tools/call {isolated}"));
    play.line(&format!("bob#1 tools/call {isolated}"));
    assert_snapshot!(play.told, @r#"
    ⇒ alice/more re e9 {"id":1,"error":{"code":-32603,"message":"`guest` already serves 8 sessions of yours with a connection of their own","data":{"code":"rate_limited"}}}
    open 19 Legacy 2025-06-18 {"experimental":{"salon/isolated":{}}}
    "#);
}

/// Calls of others were withdrawn, but so long ago that the server has noticed: the calls that run and those withdrawn lately are all of one caller.
#[test]
fn calls_withdrawn_long_ago_do_not_make_a_question_ambiguous() {
    let script = r#"
        alice#1 initialize {"capabilities":{"elicitation":{}}}
        bob#1 tools/call {"name":"t"}
        bob! notifications/cancelled {"requestId":1}
        tick 31
        alice#2 tools/call {"name":"t"}
        alice! notifications/cancelled {"requestId":2}
        tick 30
        alice#3 tools/call {"name":"t"}
        0> {"jsonrpc":"2.0","id":"q","method":"elicitation/create"}
    "#;
    let told = asked(script);
    assert!(told.contains("⇒ alice re e6 {"), "{told}");
}

#[derive(Debug, Clone)]
enum Step {
    Call(usize),
    Answer(prop::sample::Index),
    Cancel(prop::sample::Index),
    Wait(u8),
    Question(Option<prop::sample::Index>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4_usize).prop_map(Step::Call),
        2 => any::<prop::sample::Index>().prop_map(Step::Answer),
        1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        1 => (1..40_u8).prop_map(Step::Wait),
        4 => prop::option::of(any::<prop::sample::Index>()).prop_map(Step::Question),
    ]
}

/// A call in the model: its number at the server, who made it and under which id, and when it was made.
#[derive(Debug, Clone)]
struct Running {
    number: u64,
    caller: usize,
    id: usize,
    at: Instant,
}

proptest! {
    /// Whatever is called, answered, cancelled and asked in whatever order: a question reaches a caller only if the transport names its call, or
    /// nobody else's call can be the cause; and it reaches nobody who did not offer to answer. Callers 0 and 1 offer, 2 and 3 do not.
    #[test]
    fn a_question_reaches_nobody_but_the_caller_it_belongs_to(steps in prop::collection::vec(step(), 1..60)) {
        let mut play = Play::seated(&[Era::Legacy], |_| {});
        for caller in 0..2 {
            play.line(&format!(r#"p{caller}#"hello" initialize {{"capabilities":{{"elicitation":{{}}}}}}"#));
        }
        let (mut running, mut withdrawn): (Vec<Running>, Vec<(usize, Instant)>) = (Vec::new(), Vec::new());
        let timeout = Duration::from_secs(60);
        for (at, step) in steps.into_iter().enumerate() {
            play.told.clear();
            match step {
                Step::Call(caller) => {
                    play.line(&format!("p{caller}#{at} tools/call {{}}"));
                    let number = play.board.next;
                    running.push(Running { number, caller, id: at, at: play.now });
                }
                Step::Answer(index) if !running.is_empty() => {
                    let call = running.remove(index.index(running.len()));
                    play.line(&format!(r#"0> {{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, call.number));
                }
                Step::Cancel(index) if !running.is_empty() => {
                    let call = running.remove(index.index(running.len()));
                    play.line(&format!(r#"p{}! notifications/cancelled {{"requestId":{}}}"#, call.caller, call.id));
                    withdrawn.push((call.caller, play.now));
                }
                Step::Wait(seconds) => {
                    play.line(&format!("tick {seconds}"));
                    // A call that a caller thinks about waits with it: the answer to every question comes at once here.
                    let (late, rest): (Vec<_>, Vec<_>) = running.into_iter().partition(|call| call.at + timeout <= play.now);
                    withdrawn.extend(late.into_iter().map(|call| (call.caller, play.now)));
                    running = rest;
                }
                Step::Question(related) => {
                    let named = related.filter(|_| !running.is_empty()).map(|index| running[index.index(running.len())].clone());
                    let recent = withdrawn.iter().filter(|(_, at)| *at + timeout > play.now).map(|(caller, _)| *caller);
                    let possible: BTreeSet<_> = running.iter().map(|call| call.caller).chain(recent).collect();
                    let expected = match &named {
                        Some(call) => Some(call.caller),
                        None if possible.len() == 1 && !running.is_empty() => possible.first().copied(),
                        None => None,
                    };
                    let way = named.map_or("0".to_owned(), |call| format!("0/{}", call.number));
                    play.line(&format!(r#"{way}> {{"jsonrpc":"2.0","id":"q","method":"elicitation/create"}}"#));
                    match expected.filter(|caller| *caller < 2) {
                        Some(caller) => {
                            prop_assert!(play.told.starts_with(&format!("⇒ p{caller} re ")), "{}", play.told);
                            let number = play.board.next;
                            play.line(&format!("p{caller}={number} {{}}"));
                        }
                        None => prop_assert!(play.told.starts_with(r#"→ 0 {"id":"q","error""#), "{}", play.told),
                    }
                }
                Step::Answer(_) | Step::Cancel(_) => {}
            }
        }
    }
}
