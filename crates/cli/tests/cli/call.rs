//! `call` and `tools`: a tool of somebody's, and how it went as an exit status.

use insta::assert_snapshot;
use salon_testkit::{run, within};

use crate::salon::{BINARY, Signal, finish};
use crate::stage::{Stage, TOPIC, Working, begun, fed};

#[test]
fn a_tool_is_called_and_its_answer_printed() {
    run(async {
        let stage = Stage::new().await;
        let (_robot, _) = stage.robot().await;
        let call = async |arguments: &[&str]| stage.told(&[&["call", TOPIC, "robot"], arguments].concat()).await;
        assert_snapshot!(call(&["move", "x=1", "y=-2"]).await, @"
        moved to (1, -2)
        exit: 0
        ");
        assert_snapshot!(call(&["move", "--arguments", r#"{"x":1,"y":2}"#, "--json"]).await, @r#"
        {"content":[{"type":"text","text":"moved to (1, 2)"}]}
        exit: 0
        "#);
        assert_snapshot!(call(&["shout"]).await, @r"
        two
        lines \u{1b}[31mred\u{7}
        exit: 0
        ");
        assert_snapshot!(call(&["echo", "number=12345678901234567890123", "list=a", "list=b=c", "new:=[1e400]", "other=x y"]).await, @r#"
        {"number":12345678901234567890123,"list":["a","b=c"],"new":[1e400],"other":"x y"}
        exit: 0
        "#);
        assert_snapshot!(call(&["echo", "deep.flag=true"]).await, @r#"
        {"deep":{"flag":true}}
        exit: 0
        "#);
        stage.home.write("arguments.json", "{ \"number\": 1.10,\n \"z\": 0, \"a\": 9007199254740993 }");
        assert_snapshot!(call(&["echo", "-a", "@arguments.json"]).await, @r#"
        { "number": 1.10,
         "z": 0, "a": 9007199254740993 }
        exit: 0
        "#);
        let piped = fed(stage.alice(&["call", TOPIC, "robot", "echo", "--arguments", "-"]), r#"{"number":7}"#).await;
        assert_eq!((&*piped.stdout, piped.code), ("{\"number\":7}\n", Some(0)));
        let raw = finish(stage.alice(&["call", TOPIC, "robot", "shout", "--raw"])).await;
        assert_eq!(raw.stdout, "two\nlines \u{1b}[31mred\u{7}\n");
    });
}

#[test]
fn the_exit_status_says_how_it_went() {
    run(async {
        let stage = Stage::new().await;
        let (_robot, mut working) = stage.robot().await;
        let call = async |arguments: &[&str]| stage.told(&[&["call", TOPIC], arguments].concat()).await;
        assert_snapshot!(call(&["robot", "stuck"]).await, @"
        the wheel is stuck
        exit: 1
        ");
        assert_snapshot!(call(&["ghost", "move"]).await, @"
        error: `ghost` is not in this room

        hint: `salon who room:alpha` shows who is there
        exit: 3
        ");
        assert_snapshot!(call(&["robot", "hang", "--timeout", "3s"]).await, @"
        error: `robot` did not answer in time

        hint: wait longer with `--timeout`
        exit: 4
        ");
        assert_eq!(within("the call", working.recv()).await, Ok(Some(Working::Begun)));
        assert_eq!(within("the cancellation", working.recv()).await, Ok(Some(Working::Cancelled)));
        assert_snapshot!(call(&["robot", "fault"]).await, @r"
        error: `robot` answered with error -32050: no fuel\u{1b}[2J
        exit: 6
        ");
        assert_snapshot!(call(&["robot", "fault", "--json"]).await, @r#"
        {"error":{"code":-32050,"message":"no fuel\u001b[2J"}}
        exit: 6
        "#);
        assert_snapshot!(call(&["ghost", "move", "--json"]).await, @r#"
        {"error":{"message":"`ghost` is not in this room","hint":"`salon who room:alpha` shows who is there"}}
        exit: 3
        "#);
        assert_snapshot!(call(&["robot", "move", "=5", "--json"]).await, @r#"
        {"error":{"message":"an argument is `name=value`, and `=5` has no name","hint":"`salon tools room:alpha robot --long` shows the arguments"}}
        exit: 2
        "#);
        let other = stage.token("alice", "topics=room:other");
        assert_snapshot!(stage.told_to(&other, &["call", TOPIC, "robot", "move", "x=1", "y=1"]).await, @"
        error: topic `room:alpha` is not open to this token

        hint: where the gateway runs, `salon token room:alpha --as ID` makes a token that opens it
        exit: 5
        ");
        let expired = stage.token("alice", "expires=-60");
        assert_snapshot!(stage.told_to(&expired, &["call", TOPIC, "robot", "move", "x=1", "y=1"]).await, @"
        error: the token has expired

        hint: `salon doctor` looks at the token; `salon login GATEWAY` stores another
        exit: 5
        ");
        let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = nobody.local_addr().expect("an address").port();
        drop(nobody);
        let gateway = format!("http://127.0.0.1:{port}");
        let told = call(&["robot", "move", "x=1", "y=1", "--gateway", &gateway]).await;
        assert_snapshot!(told.replace(&gateway, "NOWHERE"), @"
        error: the gateway at `NOWHERE` cannot be reached: Connection refused (os error 111)

        hint: start one with `salon serve`, or name another with `--gateway` or `SALON_GATEWAY`
        exit: 7
        ");
    });
}

#[test]
fn what_does_not_fit_is_not_sent() {
    run(async {
        let stage = Stage::new().await;
        let (_robot, _) = stage.robot().await;
        let call = async |arguments: &[&str]| stage.told(&[&["call", TOPIC, "robot"], arguments].concat()).await;
        assert_snapshot!(call(&["move", "x=far", "y=1"]).await, @"
        error: `x` must be an integer, not `far`

        hint: `salon tools room:alpha robot --long` shows the arguments
        exit: 2
        ");
        assert_snapshot!(call(&["move", "x=1"]).await, @"
        error: `y` is missing (integer)

        hint: `salon tools room:alpha robot --long` shows the arguments
        exit: 2
        ");
        assert_snapshot!(call(&["move", "x=1", "y=99", "gear=up"]).await, @r#"
        error: `gear`: "up" is not one of "slow" or "fast"
        `y`: 99 is greater than the maximum of 9

        hint: `salon tools room:alpha robot --long` shows the arguments
        exit: 2
        "#);
        assert_snapshot!(call(&["mvoe", "x=1"]).await, @"
        error: `robot` has no tool `mvoe`

        hint: did you mean `move`? it has `ask`, `echo`, `fault`, `hang`, `move`, `shout`, `stuck`
        exit: 2
        ");
        assert_snapshot!(call(&["move", "--arguments", "[1]"]).await, @r#"
        error: the arguments must be a JSON object

        hint: it looks like `{"x": 1}`
        exit: 2
        "#);
        assert_snapshot!(call(&["move", "--arguments", "{"]).await, @r#"
        error: the arguments are not JSON: EOF while parsing an object at line 1 column 1

        hint: it looks like `{"x": 1}`
        exit: 2
        "#);
        assert_snapshot!(call(&["move", "--arguments", "@missing.json"]).await, @"
        error: `missing.json` cannot be read: No such file or directory (os error 2)
        exit: 2
        ");
        assert_snapshot!(call(&["move", "x=1", "--arguments", "{}"]).await, @"
        error: the argument '[KEY=VALUE]...' cannot be used with '--arguments <JSON|@FILE|->'

        Usage: salon call --gateway <URL> <TOPIC> <PARTICIPANT> <TOOL> <KEY=VALUE>...

        hint: `--help` lists what there is
        exit: 2
        ");
        // A caller that makes a mistake has not even entered the room.
        let history = finish(stage.alice(&["history", TOPIC, "--json"])).await.stdout;
        assert!(!history.contains("alice"), "{history}");
    });
}

/// How many envelopes the room has, and what they are about.
async fn stored(stage: &Stage) -> Vec<String> {
    let history = finish(stage.alice(&["history", TOPIC, "--json", "-n", "1000"])).await.stdout;
    history.lines().map(str::to_owned).collect()
}

#[test]
fn a_call_costs_a_join_a_request_an_answer_and_a_leave_and_a_list_nothing() {
    run(async {
        let stage = Stage::new().await;
        let (_robot, _) = stage.robot().await;
        // The gateway asks the robot for its tools once, for everybody.
        assert!(stage.told(&["tools", TOPIC]).await.contains("echo"));
        let before = stored(&stage).await;
        assert!(stage.told(&["tools", TOPIC, "robot"]).await.contains("echo"));
        assert_eq!(stored(&stage).await, before);
        // The same on a terminal, where the caller can be asked something.
        let echo = ["call", TOPIC, "robot", "echo", "number=1"];
        let mut on_a_terminal = stage.alice(&[]);
        on_a_terminal = {
            let mut command = stage.home.command("script");
            let line = format!("{BINARY} {}", echo.join(" "));
            command.args(["-qec", &line, "/dev/null"]);
            for (name, value) in on_a_terminal.as_std().get_envs() {
                command.env(name, value.unwrap_or_default());
            }
            command
        };
        for command in [stage.alice(&echo), on_a_terminal] {
            let before = stored(&stage).await.len();
            let ran = finish(command).await;
            assert!(ran.stdout.contains(r#"{"number":1}"#), "{ran:?}");
            let after = stored(&stage).await;
            let new: Vec<_> = after[before..].iter().map(|text| &text[..]).collect();
            assert_eq!(new.len(), 4, "{new:#?}");
            for (text, part) in new.iter().zip([r#""event":"join""#, "tools/call", "result", r#""event":"leave""#]) {
                assert!(text.contains(part), "{text}");
            }
        }
    });
}

#[test]
fn ctrl_c_cancels_the_call() {
    run(async {
        let stage = Stage::new().await;
        let (_robot, mut working) = stage.robot().await;
        let calling = begun(stage.alice(&["call", TOPIC, "robot", "hang"]));
        assert_eq!(within("the call", working.recv()).await, Ok(Some(Working::Begun)));
        calling.signal(Signal::INT);
        let ran = calling.end().await;
        assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(130), "", ""));
        assert_eq!(within("the cancellation", working.recv()).await, Ok(Some(Working::Cancelled)));
        let history = finish(stage.alice(&["history", TOPIC, "--json"])).await.stdout;
        assert!(history.contains(r#""reason":"cancelled at the terminal""#), "{history}");
        assert!(stage.told(&["who", TOPIC]).await.starts_with("robot"), "alice has left");
    });
}

#[test]
fn a_callee_that_leaves_is_told_at_once() {
    run(async {
        let stage = Stage::new().await;
        let (robot, mut working) = stage.robot().await;
        let calling = begun(stage.alice(&["call", TOPIC, "robot", "hang", "--timeout", "1h"]));
        assert_eq!(within("the call", working.recv()).await, Ok(Some(Working::Begun)));
        robot.leave().await;
        assert_snapshot!(stage.normal(calling.end().await), @"
        error: `robot` left before it answered

        hint: `salon who room:alpha` shows who is there
        exit: 3
        ");
    });
}

#[test]
fn the_same_person_stays_where_they_are() {
    run(async {
        let stage = Stage::new().await;
        let (_robot, _) = stage.robot().await;
        // As a chat would sit there.
        let client = salon_client::Client::new(
            salon_client::Gateway::new(&stage.url()).expect("an address"),
            salon_client::StaticToken::new(stage.token("alice", "")),
        );
        let topic = salon_protocol::TopicName::new(TOPIC).expect("a topic");
        let chat = client.room(topic).share().once().join().await.expect("let in");
        assert_snapshot!(stage.told(&["call", TOPIC, "robot", "move", "x=1", "y=1"]).await, @"
        moved to (1, 1)
        exit: 0
        ");
        chat.say("still here").await.expect("the seat is still mine");
    });
}

#[test]
fn a_question_without_a_terminal_is_not_asked() {
    run(async {
        let stage = Stage::new().await;
        let (_robot, _) = stage.robot().await;
        assert_snapshot!(stage.told(&["call", TOPIC, "robot", "ask"]).await, @"
        Decline: nothing
        exit: 0
        ");
    });
}

#[test]
fn a_question_is_asked_at_the_terminal() {
    run(async {
        let stage = Stage::new().await;
        let (_robot, _) = stage.robot().await;
        let call = format!("{} call {TOPIC} robot ask", crate::salon::BINARY);
        let mut terminal = stage.home.command("script");
        terminal.args(["-qec", &call, "/dev/null"]);
        terminal.env("SALON_GATEWAY", stage.url()).env("SALON_TOKEN", stage.token("alice", "")).env("TERM", "dumb");
        let ran = fed(terminal, "north\n").await;
        assert!(ran.stdout.contains("robot asks: Where to?"), "{}", ran.stdout);
        assert!(ran.stdout.contains(r#"Accept: {"where":"north"}"#), "{}", ran.stdout);
        assert_eq!(ran.code, Some(0));
    });
}

#[test]
fn tools_are_shown() {
    run(async {
        let stage = Stage::new().await;
        let (_robot, _) = stage.robot().await;
        let silent = stage.token("silent", "");
        let client = salon_client::Client::new(
            salon_client::Gateway::new(&stage.url()).expect("an address"),
            salon_client::StaticToken::new(silent),
        );
        let topic = salon_protocol::TopicName::new(TOPIC).expect("a topic");
        let _silent = client.room(topic).answer_by_hand().join().await.expect("let in");
        let all = stage.told(&["tools", TOPIC, "--timeout", "3s"]).await;
        let (before, host) = all.split_once("system:gateway\n").expect("the gateway has tools too");
        assert_snapshot!(before, @"
        robot
          ask    Asks the person who calls
          echo   Says what it was given
          fault  Answers with an error
          hang   Never ends
          move   Goes somewhere
          shout  Tries to command the terminal
          stuck  Fails

        silent
          does not answer
        ");
        assert!(host.contains("chat.say"), "{host}");
        assert_snapshot!(stage.told(&["tools", TOPIC, "robot", "--long"]).await, @"
        robot
          ask    Asks the person who calls
          echo   Says what it was given
              deep (object)
              list (array of string)
              number (number): Any number
          fault  Answers with an error
          hang   Never ends
          move   Goes somewhere
              x (integer, required)
              y (integer, required)
              gear (slow|fast)
          shout  Tries to command the terminal
          stuck  Fails
        exit: 0
        ");
        assert_snapshot!(stage.told(&["tools", TOPIC, "silent", "--timeout", "1s"]).await, @"
        error: `silent` did not answer in time

        hint: wait longer with `--timeout`
        exit: 4
        ");
        assert_snapshot!(stage.told(&["tools", TOPIC, "ghost"]).await, @"
        error: `ghost` is not in this room

        hint: `salon who room:alpha` shows who is there
        exit: 3
        ");
        let json = finish(stage.alice(&["tools", TOPIC, "--json", "--timeout", "3s"])).await.stdout;
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(json["participants"][0]["tools"][3]["name"], "hang");
        assert_eq!(json["participants"][0]["tools"][4]["inputSchema"]["required"], serde_json::json!(["x", "y"]));
        assert_eq!(json["participants"][1], serde_json::json!({ "id": "silent", "error": "no answer in time" }));
    });
}
