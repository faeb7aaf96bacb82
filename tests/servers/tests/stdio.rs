//! The server as its clients start it: on its standard streams.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn server(arguments: &[&str], messages: &[Value]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rmcp-server"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    for message in messages {
        writeln!(stdin, "{message}").expect("it reads");
    }
    // The end of its input ends it, once it has answered.
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn request(id: u32, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn initialize() -> Value {
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "tester", "version": "1" },
    });
    request(0, "initialize", &params)
}

/// The result of request `id`.
fn result(output: &Output, id: u32) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let answers = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is a message"));
    let answer = answers.into_iter().find(|answer| answer["id"] == id);
    answer.unwrap_or_else(|| panic!("no answer to {id} in {text}"))["result"].clone()
}

#[test]
fn echo_answers_with_its_arguments() {
    let arguments = json!({ "value": [9_007_199_254_740_993_u64, { "deep": null }], "and": "more" });
    let call = request(1, "tools/call", &json!({ "name": "echo", "arguments": arguments }));
    let output = server(&[], &[initialize(), call]);
    assert_eq!(result(&output, 0)["protocolVersion"], "2025-06-18");
    assert_eq!(result(&output, 1)["structuredContent"], arguments);
}

#[test]
fn who_am_i_tells_what_the_client_said() {
    let call = request(1, "tools/call", &json!({ "name": "who_am_i", "arguments": {} }));
    let who = result(&server(&[], &[initialize(), call]), 1)["structuredContent"].clone();
    assert_eq!(who["clientInfo"]["name"], "tester");
    assert_eq!(who["protocolVersion"], "2025-06-18");
}

#[test]
fn lists_come_in_pages_when_asked() {
    let first = request(1, "resources/list", &json!({}));
    let last = request(2, "resources/list", &json!({ "cursor": "2" }));
    let output = server(&["--page", "2"], &[initialize(), first, last]);
    let (first, last) = (result(&output, 1), result(&output, 2));
    assert_eq!(first["resources"].as_array().map(Vec::len), Some(2));
    assert_eq!(first["nextCursor"], "2");
    assert_eq!(last["resources"][0]["uri"], "test://watched-resource");
    assert_eq!(last["nextCursor"], Value::Null);
}

#[test]
fn a_revision_it_does_not_know_is_not_agreed_on() {
    let output = server(&["--revisions", "2024-11-05,2025-03-26"], &[initialize()]);
    assert_eq!(result(&output, 0)["protocolVersion"], "2025-03-26");
}

#[test]
fn options_it_does_not_have_are_refused() {
    for arguments in [&["--port", "1"][..], &["--page", "0"], &["--http"], &["--revisions", "2025-01-01"]] {
        let output = server(arguments, &[]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: "), "{arguments:?}");
    }
}

#[test]
fn crash_ends_it_without_an_answer() {
    let call = request(1, "tools/call", &json!({ "name": "crash", "arguments": {} }));
    let output = server(&[], &[initialize(), call]);
    assert_eq!(output.status.code(), Some(3));
    assert!(!String::from_utf8_lossy(&output.stdout).contains(r#""id":1"#));
}
