//! What judging a message by a topic's settings costs: without settings, with settings, and with a hundred rules.
//!
//! `cargo run --release -p salon-control --example rule_cost`. Each figure is the median of rounds that take turns, so that all of them meet the same machine.

#![expect(clippy::print_stdout, reason = "a program for people who measure")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use salon_control::{Authority, TopicSettings};
use salon_protocol::{Draft, Envelope, Limits};
use serde_json::{Value, json};

const ROUNDS: usize = 41;
const MESSAGES: u32 = 20_000;

fn envelope(rest: &str) -> Envelope {
    let text =
        format!(r#"{{"protocol":"mcp-x/v0","id":"e1","ts":"2025-08-17T14:00:00Z","from":"bob","kind":"mcp",{rest}}}"#);
    Draft::parse(text, &Limits::default()).expect("a draft").trust()
}

/// Settings with so many rules that are not for what is called here, though for the same participant.
fn settings(others: usize, last: &[Value]) -> Arc<TopicSettings> {
    let other = |number: usize| json!({ "hold": format!("call:robot-*/*_{number}"), "approvers": ["role:owner"] });
    let rules: Vec<_> = (0..others).map(other).chain(last.iter().cloned()).collect();
    let patch = json!({ "members": { "alice": "owner" }, "rules": rules });
    Arc::new(TopicSettings::default().patched(&patch).expect("settings"))
}

fn main() {
    let chat =
        envelope(r#""payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"hello"}}"#);
    let call = envelope(
        r#""to":["robot-1"],"payload":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"move_arm","arguments":{"x":1,"y":2}}}"#,
    );
    let hold = [json!({ "hold": "call:robot-*/move*", "approvers": ["role:owner"] })];
    let cases: [(&str, Option<Arc<TopicSettings>>); 5] = [
        ("no settings", None),
        ("settings without rules", Some(settings(0, &[]))),
        ("1 rule, for other tools", Some(settings(1, &[]))),
        ("100 rules, for other tools", Some(settings(100, &[]))),
        ("100 rules, the last holds the call", Some(settings(99, &hold))),
    ];
    println!("| | chat, ns | call, ns |\n|---|--:|--:|");
    let mut times = vec![[Vec::new(), Vec::new()]; cases.len()];
    for _ in 0..ROUNDS {
        for ((_, settings), times) in cases.iter().zip(&mut times) {
            for (message, times) in [&chat, &call].into_iter().zip(times) {
                let begun = Instant::now();
                for _ in 0..MESSAGES {
                    let authority = Authority::new(black_box(settings.as_ref()), None);
                    let judged = authority.map(|authority| authority.judge(black_box(message), false));
                    black_box(judged.transpose().expect("allowed or held"));
                }
                times.push(begun.elapsed().as_nanos() / u128::from(MESSAGES));
            }
        }
    }
    for ((name, _), times) in cases.iter().zip(&mut times) {
        let [chat, call] = times;
        chat.sort_unstable();
        call.sort_unstable();
        println!("| {name} | {} | {} |", chat[ROUNDS / 2], call[ROUNDS / 2]);
    }
}
