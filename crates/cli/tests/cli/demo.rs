use salon_testkit::run;

use crate::salon::{BINARY, Home, Running, Signal, finish};

/// A transcript without what differs from run to run: ports, times and durations.
fn normal(text: &str) -> String {
    let line = |line: &str| {
        let line = match line.split_once("127.0.0.1:") {
            Some((before, after)) => {
                format!("{before}ADDRESS{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
            }
            None => line.to_owned(),
        };
        let line = match line.split_once("  ").filter(|(time, _)| time.contains(':') && !time.contains(' ')) {
            Some((_, rest)) => format!("TIME  {rest}"),
            None => line,
        };
        match line.rsplit_once(" (").filter(|(_, took)| took.ends_with(" ms)")) {
            Some((told, _)) => format!("{told} (DURATION)"),
            None => line,
        }
    };
    text.lines().map(|l| line(l.trim_start())).collect::<Vec<_>>().join("\n")
}

fn left_behind(home: &Home) -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir(home.path()).expect("readable");
    entries.map(|entry| entry.expect("readable").file_name()).collect()
}

#[test]
fn one_round_of_the_room() {
    let home = Home::new();
    let ran = run(home.salon("demo --once"));
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    insta::assert_snapshot!(normal(&ran.stdout));
    assert!(left_behind(&home).is_empty(), "its data is removed");
}

#[test]
fn the_printed_lines_work_when_pasted() {
    let home = Home::new();
    run(async {
        let mut command = home.command(BINARY);
        command.arg("demo");
        let mut demo = Running::spawn(command);
        let lines = demo.until("calls a tool").await;
        assert!(
            lines.len() < 24 && lines.iter().all(|line| line.len() <= 80 + home.path().as_os_str().len()),
            "{lines:?}"
        );
        assert!(!lines.join("\n").contains("eyJ"), "a token is printed: {lines:?}");
        let line = |start: &str| lines.iter().find(|line| line.starts_with(start)).expect(start).clone();
        let chat = lines.iter().find(|line| line.ends_with(" chat room:demo")).expect("a line for the terminal");
        let program = chat.strip_suffix(" chat room:demo").expect("found by it");
        let paste = |pasted: &str| {
            let mut shell = home.command("sh");
            shell.args(["-c", &format!("{}\n{program} {pasted}", line("export SALON_GATEWAY="))]);
            shell
        };
        let position = finish(paste("call room:demo rover position")).await;
        assert!(position.code == Some(0) && position.stdout.contains("at ("), "{position:?}");

        for saying in ["coordinator, go to 2 3", "coordinator, what is 6 * 7?", "rover, where are you?"] {
            let said = finish(paste(&format!("say room:demo '{saying}'"))).await;
            assert_eq!((said.code, &*said.stderr), (Some(0), ""), "{saying}");
        }
        let answers = ["rover: I am at", "coordinator: Done: arrived at (2, 3).", "coordinator: Calc says 42."];
        let told = demo.until(answers[2]).await.join("\n");
        for answer in answers {
            assert!(told.contains(answer), "{answer} is missing:\n{told}");
        }

        demo.signal(Signal::INT);
        let ran = demo.end().await;
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
        assert!(
            normal(&ran.stdout).ends_with("- rover left\n\nThat was the room. Its data is gone."),
            "{}",
            ran.stdout
        );
    });
    assert!(left_behind(&home).is_empty(), "its data is removed");
}

#[test]
fn it_ends_when_nobody_reads_on() {
    let home = Home::new();
    let mut shell = home.command("sh");
    shell.args(["-c", "{ \"$0\" demo; echo \"exit: $?\" >&2; } | head -n 1", BINARY]);
    let ran = run(finish(shell));
    assert_eq!((ran.stdout.lines().count(), &*ran.stderr), (1, "exit: 0\n"));
    assert!(left_behind(&home).is_empty(), "its data is removed");
}

#[test]
fn a_port_in_use_is_told() {
    let home = Home::new();
    run(async {
        let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = taken.local_addr().expect("an address").port();
        let ran = home.salon(&format!("demo --port {port}")).await;
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.starts_with(&format!("error: `127.0.0.1:{port}` is in use\n\nhint: ")), "{}", ran.stderr);
    });
    assert!(left_behind(&home).is_empty(), "its data is removed");
}
