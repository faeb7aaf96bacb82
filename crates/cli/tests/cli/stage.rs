//! A gateway, a robot in a room, and people at terminals: what the everyday commands are tried against.

use std::process::Stdio;

use salon_client::mcp::Elicitation;
use salon_client::{Client, Gateway as At, Room, RpcError, StaticToken, ToolCall, ToolError, Toolbox};
use salon_protocol::{ParticipantKind, TopicName};
use salon_testkit::{TestEngine, TestGateway, TestOptions, TestToken, within};
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::mpsc;

use crate::salon::{BINARY, Home, Ran, Running, finish};

pub(crate) const TOPIC: &str = "room:alpha";

/// Everything there is, and nobody on it yet.
pub(crate) struct Stage {
    pub(crate) home: Home,
    pub(crate) gateway: TestGateway,
}

/// What happens to a call that does not end by itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Working {
    Begun,
    Cancelled,
}

/// Tells when it is dropped.
struct Dropped(mpsc::Sender<Working>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.try_send(Working::Cancelled);
    }
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let gateway = TestGateway::start(TestOptions::new(TestEngine::Sqlite)).await.expect("it starts");
        Self { home: Home::new(), gateway }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.gateway.address())
    }

    /// A token that opens every topic, with claims such as `topics=room:*` separated by blanks.
    pub(crate) fn token(&self, id: &str, claims: &str) -> String {
        let mut token = TestToken::new(id);
        for claim in claims.split_whitespace() {
            let (name, value) = claim.split_once('=').expect("a claim");
            token.claim(name, value).expect("a claim");
        }
        self.gateway.token(&token).expect("signed")
    }

    /// A command that knows the gateway and has a token of alice's.
    pub(crate) fn alice(&self, arguments: &[&str]) -> Command {
        self.person(&self.token("alice", ""), arguments)
    }

    /// A command that knows the gateway and has a token.
    pub(crate) fn person(&self, token: &str, arguments: &[&str]) -> Command {
        let mut command = self.home.command(BINARY);
        command.args(arguments).env("SALON_GATEWAY", self.url()).env("SALON_TOKEN", token);
        command
    }

    /// What alice sees of a command: output, errors and exit code, without what differs from run to run.
    pub(crate) async fn told(&self, arguments: &[&str]) -> String {
        self.normal(finish(self.alice(arguments)).await)
    }

    /// What somebody with another token sees.
    pub(crate) async fn told_to(&self, token: &str, arguments: &[&str]) -> String {
        self.normal(finish(self.person(token, arguments)).await)
    }

    /// A run without what differs from run to run: addresses, directories, times and ids.
    pub(crate) fn normal(&self, Ran { code, stdout, stderr }: Ran) -> String {
        let told = format!("{stdout}{stderr}exit: {}", code.expect("no signal ended it"));
        let told = told.replace(&self.url(), "GATEWAY").replace(&self.gateway.address().to_string(), "ADDRESS");
        let told = told.replace(&self.home.path().display().to_string(), "HOME");
        let words: Vec<_> = told.split_inclusive([' ', '\n', '"', '`', ',']).map(normal_word).collect();
        let mut normal = String::new();
        for (at, (word, shape)) in words.iter().enumerate() {
            // A date alone may be a version.
            let time_next = words.get(at + 1).is_some_and(|(next, _)| next.starts_with("TIME"));
            if !(*shape == "0000-00-00" && time_next) {
                normal.push_str(word);
            }
        }
        normal
    }

    /// The room as others enter it.
    pub(crate) async fn enter(&self, id: &str, kind: ParticipantKind, tools: Toolbox) -> Room {
        let client = Client::new(At::new(&self.url()).expect("an address"), StaticToken::new(self.token(id, "")));
        let entering = client.room(TopicName::new(TOPIC).expect("a topic")).kind(kind).offer(tools);
        within("the room to be entered", entering.join()).await.expect("in time").expect("let in")
    }

    /// A robot in the room. It reports what happens to its `hang`.
    pub(crate) async fn robot(&self) -> (Room, mpsc::Receiver<Working>) {
        let (tell, told) = mpsc::channel(8);
        (self.enter("robot", ParticipantKind::Robot, tools(tell)).await, told)
    }

    /// Says something as somebody.
    pub(crate) async fn say(&self, id: &str, text: &str) {
        let ran = finish(self.person(&self.token(id, ""), &["say", TOPIC, "--create", text])).await;
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    }
}

/// Runs a command with something on its standard input.
pub(crate) async fn fed(mut command: Command, text: &str) -> Ran {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).await.expect("it reads");
    drop(stdin);
    let output = within("the command to end", child.wait_with_output()).await.expect("in time").expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Starts a command without waiting for anything.
pub(crate) fn begun(command: Command) -> Running {
    Running::spawn(command)
}

/// A word without what differs from run to run, and the shape it had.
fn normal_word(word: &str) -> (String, String) {
    let end = if word.ends_with([' ', '\n', '"', '`', ',']) { word.len() - 1 } else { word.len() };
    let (text, end) = word.split_at(end);
    let shape: String = text.chars().map(|c| if c.is_ascii_hexdigit() { '0' } else { c }).collect();
    let digits = text.chars().all(|c| c.is_ascii_digit() || "-:.TZ".contains(c));
    let normal = match &*shape {
        "00000000-0000-0000-0000-000000000000" => "ID",
        "00:00:00" if digits => "TIME",
        _ if digits && text.ends_with('Z') && text.contains('T') => "STAMP",
        _ => text,
    };
    (format!("{normal}{end}"), shape)
}

fn tools(tell: mpsc::Sender<Working>) -> Toolbox {
    #[derive(Deserialize)]
    struct Spot {
        x: i64,
        y: i64,
    }
    let axis = json!({ "type": "integer", "minimum": -9, "maximum": 9 });
    let spot = json!({
        "type": "object",
        "properties": { "x": axis, "y": axis, "gear": { "enum": ["slow", "fast"] } },
        "required": ["x", "y"],
    });
    let any = json!({
        "type": "object",
        "properties": {
            "number": { "type": "number", "description": "Any number" },
            "list": { "type": "array", "items": { "type": "string" } },
            "deep": { "type": "object", "properties": { "flag": { "type": "boolean" } } },
        },
        "additionalProperties": true,
    });
    let nothing = json!({ "type": "object", "properties": {} });
    Toolbox::new("Robot")
        .tool("move", "Goes somewhere", spot, |call: ToolCall| async move {
            let Spot { x, y } = call.arguments()?;
            call.progress(1.0, Some(2.0), Some("half way")).await;
            Ok(format!("moved to ({x}, {y})").into())
        })
        .tool("echo", "Says what it was given", any, |call| async move { Ok(call.arguments_raw().get().into()) })
        .tool("stuck", "Fails", nothing.clone(), |_| async { Err(ToolError::failed("the wheel is stuck")) })
        .tool("fault", "Answers with an error", nothing.clone(), |_| async {
            Err(RpcError::new(-32050, "no fuel\u{1b}[2J").into())
        })
        .tool("shout", "Tries to command the terminal", nothing.clone(), |_| async {
            Ok("two\nlines \u{1b}[31mred\u{7}".into())
        })
        .tool("ask", "Asks the person who calls", nothing.clone(), |call| async move {
            let schema =
                json!({ "type": "object", "properties": { "where": { "type": "string" } }, "required": ["where"] });
            let answer = call.elicit(&Elicitation::new("Where to?", &schema)).await?;
            let content = answer.content.map_or_else(|| "nothing".into(), |content| content.get().to_owned());
            Ok(format!("{:?}: {content}", answer.action).into())
        })
        .tool("hang", "Never ends", nothing, move |_| {
            let tell = tell.clone();
            async move {
                let _ = tell.send(Working::Begun).await;
                // A tool that is cancelled is dropped where it waits.
                let _dropped = Dropped(tell);
                std::future::pending().await
            }
        })
}
