//! `say`, `who`, `topics`, `history` and `tail`.

use insta::assert_snapshot;
use salon_client::Toolbox;
use salon_protocol::ParticipantKind;
use salon_testkit::run;
use serde_json::Value;

use crate::salon::{BINARY, Signal, finish};
use crate::stage::{Stage, TOPIC, begun, fed};

#[test]
fn what_is_said_is_in_the_history() {
    run(async {
        let stage = Stage::new().await;
        assert_snapshot!(stage.told(&["say", TOPIC, "--create", "good", "morning"]).await, @"exit: 0");
        let said = finish(stage.alice(&["say", TOPIC, "--json", "--markdown", "**bold**", "--to", "bob"])).await;
        let id: Value = serde_json::from_str(&said.stdout).expect("JSON");
        let id = id["id"].as_str().expect("an id");
        let piped = fed(stage.alice(&["say", TOPIC, "-"]), "from\na pipe\x1b[2J\n\n").await;
        assert_eq!((piped.code, &*piped.stderr), (Some(0), ""));
        assert_snapshot!(stage.told(&["say", TOPIC, "--reply-to", id, "indeed"]).await, @"exit: 0");
        assert_snapshot!(stage.told(&["history", TOPIC]).await, @r"
        TIME  alice: good morning
        TIME  alice → bob: **bold**
        TIME  alice: from\na pipe\u{1b}[2J
        TIME  alice: indeed
        exit: 0
        ");
        assert_snapshot!(stage.told(&["history", TOPIC, "--limit", "1", "--before", id]).await, @"
        TIME  alice: good morning
        exit: 0
        ");
        assert_snapshot!(stage.told(&["history", TOPIC, "--after", id, "--json"]).await, @r#"
        {"protocol":"mcp-x/v0","id":"ID","ts":"STAMP","from":"alice","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"format":"plain","text":"from\na pipe\u001b[2J"}}}
        {"protocol":"mcp-x/v0","id":"ID","ts":"STAMP","from":"alice","kind":"mcp","correlation_id":"ID","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"format":"plain","text":"indeed"}}}
        exit: 0
        "#);
        assert_snapshot!(stage.told(&["history", TOPIC, "--after", "unknown"]).await, @"
        error: no envelope `unknown` is kept in this topic
        exit: 5
        ");
        assert_snapshot!(stage.told(&["history", "room:empty"]).await, @"
        there is no topic `room:empty`
        exit: 0
        ");
    });
}

#[test]
fn a_room_and_its_people_are_called_as_on_a_chat_platform() {
    run(async {
        let stage = Stage::new().await;
        let user = stage.token("@user:server", "");
        for room in ["#general", "!room:server", "Team Room", "a&b=c+d;e|f"] {
            assert_eq!(stage.told_to(&user, &["say", room, "hello", "--create"]).await, "exit: 0", "{room}");
            let told = stage.told_to(&user, &["history", room]).await;
            assert_eq!(told, "TIME  @user:server: hello\nexit: 0", "{room}");
            let told = stage.told_to(&user, &["who", room]).await;
            assert!(told.ends_with("exit: 0"), "{room}: {told}");
        }
        let narrow = stage.token("alice", "topics=#*");
        assert_snapshot!(stage.told_to(&narrow, &["say", "Team Room", "hello"]).await, @"
        error: topic `Team Room` is not open to this token

        hint: where the gateway runs, `salon token 'Team Room' --as ID` makes a token that opens it
        exit: 5
        ");
    });
}

#[test]
fn nothing_is_said_by_mistake() {
    run(async {
        let stage = Stage::new().await;
        assert_snapshot!(stage.told(&["say", TOPIC]).await, @"
        error: there is nothing to say

        hint: give the text after the topic, or on standard input
        exit: 2
        ");
        assert_snapshot!(stage.told(&["say", "ro/om", "hello"]).await, @"
        error: invalid value 'ro/om' for '<TOPIC>': '/' is not allowed: a name has letters and digits of ASCII, spaces between them, and ! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~

        hint: `--help` lists what there is
        exit: 2
        ");
        let other = stage.token("alice", "topics=room:other");
        assert_snapshot!(stage.told_to(&other, &["say", TOPIC, "hello"]).await, @"
        error: topic `room:alpha` is not open to this token

        hint: where the gateway runs, `salon token room:alpha --as ID` makes a token that opens it
        exit: 5
        ");
        assert_snapshot!(stage.told(&["history", TOPIC]).await, @"
        there is no topic `room:alpha`
        exit: 0
        ");
    });
}

#[test]
fn rooms_and_those_in_them_are_shown() {
    run(async {
        let stage = Stage::new().await;
        assert_snapshot!(stage.told(&["topics"]).await, @"
        nobody has entered a topic yet that the token opens
        exit: 0
        ");
        assert_snapshot!(stage.told(&["who", TOPIC]).await, @"
        there is no topic `room:alpha`
        exit: 0
        ");
        assert_snapshot!(stage.told(&["history", TOPIC]).await, @"
        there is no topic `room:alpha`
        exit: 0
        ");
        let (_robot, _) = stage.robot().await;
        let _carol = stage.enter("carol", ParticipantKind::Human, Toolbox::new("Carol")).await;
        assert_snapshot!(stage.told(&["topics"]).await, @"
        room:alpha
        exit: 0
        ");
        assert_snapshot!(stage.told(&["topics", "--json"]).await, @r#"
        {"topics":["room:alpha"]}
        exit: 0
        "#);
        assert_snapshot!(stage.told(&["who", TOPIC]).await, @"
        carol  human  MCP 2025-06-18
        robot  robot  MCP 2025-06-18
        exit: 0
        ");
        assert_snapshot!(stage.told(&["who", TOPIC, "--json"]).await, @r#"
        {"topic":"room:alpha","participants":[{"id":"carol","name":"carol","kind":"human","mcp":{"version":"2025-06-18","handshake_optional":true}},{"id":"robot","name":"robot","kind":"robot","mcp":{"version":"2025-06-18","handshake_optional":true}}]}
        exit: 0
        "#);
    });
}

#[test]
fn a_tail_survives_a_restart_and_misses_nothing() {
    run(async {
        let mut stage = Stage::new().await;
        stage.say("bob", "before").await;
        let mut tail = begun(stage.alice(&["tail", TOPIC, "--kind", "chat", "--json"]));
        tail.until("before").await;
        stage.say("bob", "while").await;
        tail.until("while").await;
        stage.gateway.restart().await.expect("it comes back");
        stage.say("bob", "after").await;
        let lines = tail.until("after").await;
        assert_eq!(lines.len(), 1, "nothing is printed twice: {lines:?}");
        let envelope: Value = serde_json::from_str(&lines[0]).expect("an envelope a line");
        assert_eq!(envelope["payload"]["params"]["text"], "after");
        tail.signal(Signal::TERM);
        tail.end().await;
    });
}

#[test]
fn a_tail_shows_what_was_asked_for() {
    run(async {
        let stage = Stage::new().await;
        for text in ["one", "two", "three"] {
            stage.say("bob", text).await;
        }
        stage.say("carol", "four").await;
        let mut tail = begun(stage.alice(&["tail", TOPIC, "--lines", "2", "--from", "bob", "--kind", "chat"]));
        assert!(tail.line().await.is_some_and(|line| line.ends_with("bob: two")));
        assert!(tail.line().await.is_some_and(|line| line.ends_with("bob: three")));
        let (robot, _) = stage.robot().await;
        stage.say("carol", "not this").await;
        robot.say("nor this").await.expect("said");
        stage.say("bob", "this").await;
        assert!(tail.line().await.is_some_and(|line| line.ends_with("bob: this")));
        tail.signal(Signal::INT);
        tail.end().await;

        let mut tail = begun(stage.alice(&["tail", TOPIC, "--kind", "presence", "--lines", "1"]));
        assert!(tail.line().await.is_some_and(|line| line.ends_with("+ robot joined, a robot")));
        robot.leave().await;
        assert!(tail.line().await.is_some_and(|line| line.ends_with("- robot left")));
        tail.signal(Signal::INT);
        tail.end().await;
        let other = stage.token("alice", "topics=room:other");
        assert_snapshot!(stage.told_to(&other, &["tail", TOPIC]).await, @"
        error: topic `room:alpha` is not open to this token

        hint: where the gateway runs, `salon token room:alpha --as ID` makes a token that opens it
        exit: 5
        ");
    });
}

#[test]
fn a_closed_stdout_is_no_error() {
    run(async {
        let stage = Stage::new().await;
        for n in 0..5 {
            stage.say("bob", &format!("line {n}")).await;
        }
        for what in ["history", "tail"] {
            let mut shell = stage.home.command("sh");
            let line = format!("{{ \"$0\" {what} {TOPIC}; echo \"exit: $?\" >&2; }} | head -n 1");
            shell.args(["-c", &line, BINARY]);
            shell.env("SALON_GATEWAY", stage.url()).env("SALON_TOKEN", stage.token("alice", ""));
            let shell = tokio::spawn(finish(shell));
            // A tail notices when it has something to tell.
            while !shell.is_finished() {
                stage.say("bob", "go on").await;
            }
            let ran = shell.await.expect("it ends");
            assert_eq!((ran.stdout.lines().count(), &*ran.stderr), (1, "exit: 0\n"), "{what}");
        }
    });
}
