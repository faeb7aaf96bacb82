//! The examples, as their users run them.

use std::path::PathBuf;
use std::process::Stdio;

use salon_client::{Events, Room};
use salon_testkit::{TestGateway, TestToken, within};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use crate::peers::until_joined;
use crate::stage::{entering, gateway, heard, id, topic};

/// A program from the directory of examples. Building the whole package builds them; `cargo test --test client` alone does not.
fn example(gateway: &TestGateway, name: &str, who: &str) -> Command {
    let mut path: PathBuf = std::env::current_exe().unwrap();
    path.pop();
    path.set_file_name("examples");
    path.push(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{} is not there: `cargo build -p salon-client --examples` makes it", path.display());
    let mut command = Command::new(path);
    command
        .env("SALON_GATEWAY", format!("http://{}", gateway.address()))
        .env("SALON_TOKEN", gateway.token(&TestToken::new(who)).unwrap())
        .arg(topic().as_str())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn start(gateway: &TestGateway, events: &mut Events, name: &str, who: &str) -> Child {
    let child = example(gateway, name, who).spawn().unwrap();
    until_joined(events, who).await;
    child
}

async fn stage() -> (TestGateway, Room, Events) {
    let gateway = gateway().await;
    let (alice, events) = entering(&gateway, "alice").join_listening().await.unwrap();
    (gateway, alice, events)
}

#[tokio::test]
async fn the_coordinator_gathers_what_echo_agents_say() {
    let (gateway, alice, mut events) = stage().await;
    let mut agents = Vec::new();
    for who in ["echo-1", "echo-2"] {
        agents.push(start(&gateway, &mut events, "echo_agent", who).await);
    }
    let asked = alice.say("echo-1: are you here?").await.unwrap();
    assert_eq!(heard(&mut events).await.unwrap(), "echo-1: are you here?");
    assert_eq!(heard(&mut events).await.unwrap(), "alice said: are you here?");
    assert_eq!(asked.from(), alice.id());

    let run = example(&gateway, "coordinator", "coordinator").args(["say", r#"{"text":"hello"}"#]).output();
    let output = within("the coordinator", run).await.unwrap().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(told.starts_with("2 participants here offer `say`"), "{told}");
    let all = told.split("All:").nth(1).unwrap().split("Majority:").next().unwrap();
    assert!(all.contains("echo-1: hello") && all.contains("echo-2: hello"), "{told}");
    assert_eq!(told.matches("→ hello").count(), 2, "{told}");
    drop(agents);
    gateway.stop().await.unwrap();
}

#[tokio::test]
async fn a_person_answers_at_the_terminal() {
    let (gateway, alice, mut events) = stage().await;
    let mut person = start(&gateway, &mut events, "human_in_the_loop", "paul").await;
    let mut keyboard = person.stdin.take().unwrap();
    let mut screen = BufReader::new(person.stdout.take().unwrap()).lines();
    let peer = alice.peer(&id("paul"));

    let asking = tokio::spawn({
        let call = peer.call_tool("ask_human", &json!({"question": "Ready?"}));
        call.into_future()
    });
    assert_eq!(within("the question", screen.next_line()).await.unwrap().unwrap().unwrap(), "? alice asks: Ready?");
    keyboard.write_all(b"soon\n").await.unwrap();
    assert_eq!(within("the answer", asking).await.unwrap().unwrap().unwrap().text(), "soon");

    let form = json!({"message": "Order:", "requestedSchema": {"type": "object", "properties": {"size": {"type": "integer"}}}});
    let asking = tokio::spawn(async move { peer.request("elicitation/create", &form).await });
    assert_eq!(within("the form", screen.next_line()).await.unwrap().unwrap().unwrap(), "? alice: Order: size");
    keyboard.write_all(b"42\n").await.unwrap();
    let answer = within("the answer", asking).await.unwrap().unwrap().unwrap();
    assert_eq!(answer.get(), r#"{"action":"accept","content":{"size":42}}"#);

    keyboard.write_all(b"hello everybody\n").await.unwrap();
    assert_eq!(heard(&mut events).await.unwrap(), "hello everybody");
    drop(keyboard);
    assert!(within("the end", person.wait()).await.unwrap().unwrap().success());
    gateway.stop().await.unwrap();
}
