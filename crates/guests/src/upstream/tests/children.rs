use std::io;

use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

use super::*;

#[tokio::test]
async fn messages_go_in_and_come_out_in_order() {
    let (connection, mut inbound) = start("cat").await;
    for id in 0..200 {
        send(&connection, &format!(r#"{{"jsonrpc":"2.0","id":{id},"big":12345678901234567890}}"#)).await;
        let text = message(&mut inbound).await;
        assert_eq!(text, format!(r#"{{"jsonrpc":"2.0","id":{id},"big":12345678901234567890}}"#));
    }
    within("the end", connection.close(LONG)).await.unwrap();
    assert_eq!(end(&mut inbound).await, "it ended (exit status: 0)");
    assert_eq!(next(&mut inbound).await, None);
}

#[tokio::test]
async fn a_message_of_several_lines_becomes_one() {
    let (connection, mut inbound) = start("cat").await;
    send(&connection, "{\"id\":1,\r\n\"text\":\"a\\nb\"\n}").await;
    assert_eq!(message(&mut inbound).await, r#"{"id":1,  "text":"a\nb" }"#);
}

#[tokio::test]
async fn what_is_no_message_is_skipped_and_a_batch_taken_apart() {
    let (_connection, mut inbound) =
        start(r#"echo Listening on stdio; echo; echo 17; echo '[{"id":1},{"id":2}]'; printf '{"id":3}'"#).await;
    for id in 1..=3 {
        assert_eq!(message(&mut inbound).await, format!(r#"{{"id":{id}}}"#));
    }
    assert_eq!(end(&mut inbound).await, "it ended (exit status: 0)");
}

#[tokio::test]
async fn everything_written_before_the_end_is_told_before_it() {
    let (_connection, mut inbound) =
        start(r#"i=0; while [ $i -lt 500 ]; do echo "{\"id\":$i}"; i=$((i+1)); done; exit 3"#).await;
    for id in 0..500 {
        assert_eq!(message(&mut inbound).await, format!(r#"{{"id":{id}}}"#));
    }
    assert_eq!(end(&mut inbound).await, "it ended (exit status: 3)");
}

#[tokio::test]
async fn a_line_without_end_ends_the_connection() {
    let held = LifePipe::new().await;
    let script = held.script("head -c 68000000 /dev/zero | tr '\\0' x; cat");
    let (_connection, mut inbound) = start(&script).await;
    assert_eq!(end(&mut inbound).await, "it wrote a line of more than 64 MiB");
    held.released().await;
}

#[tokio::test]
async fn a_child_that_closes_its_output_is_of_no_use() {
    let held = LifePipe::new().await;
    let (_connection, mut inbound) = start(&held.script("exec >&-; while :; do sleep 60; done")).await;
    assert_eq!(end(&mut inbound).await, "it closed its output without ending");
    held.released().await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let mut target = shell("");
    let GuestTarget::Command { program, .. } = &mut target else { unreachable!() };
    *program = "/no/such/program".into();
    let opened = UpstreamConnection::open(&target, &verdict(Era::Legacy, WireKind::Stdio), Era::Legacy, &setup()).await;
    let error = opened.err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("cannot start `/no/such/program`: No such file or directory (os error 2)"));
}

#[tokio::test]
async fn environment_and_directory_are_the_targets() {
    let scratch = Scratch::new().unwrap();
    let mut target = shell(r#"echo "{\"env\":\"$SALON_TEST\",\"cwd\":\"$(pwd -P)\"}""#);
    let GuestTarget::Command { env, cwd, .. } = &mut target else { unreachable!() };
    env.push(("SALON_TEST".into(), "yes".into()));
    *cwd = Some(scratch.path().to_owned());
    let opened = UpstreamConnection::open(&target, &verdict(Era::Legacy, WireKind::Stdio), Era::Legacy, &setup()).await;
    let (_connection, mut inbound) = opened.unwrap();
    let directory = scratch.path().canonicalize().unwrap();
    assert_eq!(message(&mut inbound).await, format!(r#"{{"env":"yes","cwd":"{}"}}"#, directory.display()));
}

#[tokio::test]
async fn a_child_may_run_as_somebody_else() {
    let user = GuestUser::lookup("65534:65533");
    if !rustix::process::geteuid().is_root() {
        assert_eq!(user, Err("a program runs as `65534:65533` only if Salon itself runs as root".into()));
        return;
    }
    let target =
        shell(r#"echo "{\"id\":\"$(id -u) $(id -g) $(id -G)\",\"home\":\"$HOME\",\"xdg\":\"$XDG_RUNTIME_DIR\"}""#);
    let setup = UpstreamSetup { user: user.ok(), ..setup() };
    let home = setup.user.as_ref().and_then(|user| user.env().find(|(name, _)| *name == "HOME")).unwrap().1.clone();
    let opened = UpstreamConnection::open(&target, &verdict(Era::Legacy, WireKind::Stdio), Era::Legacy, &setup).await;
    let (_connection, mut inbound) = opened.unwrap();
    let wanted = format!(r#"{{"id":"65534 65533 65533","home":"{}","xdg":""}}"#, home.display());
    assert_eq!(message(&mut inbound).await, wanted);
}

#[tokio::test]
async fn closing_gives_a_child_time_to_end_by_itself() {
    let mut held = LifePipe::new().await;
    let (connection, mut inbound) = start(&held.script(r#"echo '{"id":1}'; cat; echo saved >&9"#)).await;
    message(&mut inbound).await;
    within("the end", connection.close(LONG)).await.unwrap();
    assert_eq!(held.line().await, "saved");
    held.released().await;
}

#[tokio::test]
async fn closing_ends_a_child_that_ignores_everything_and_its_children() {
    let held = LifePipe::new().await;
    let stubborn = "trap '' TERM; (while :; do sleep 60; done) & echo '{\"id\":1}'; while :; do sleep 60; done";
    let (connection, mut inbound) = start(&held.script(stubborn)).await;
    message(&mut inbound).await;
    within("the end", connection.close(Duration::from_millis(50))).await.unwrap();
    held.released().await;
}

#[tokio::test]
async fn closing_asks_before_it_kills() {
    let mut held = LifePipe::new().await;
    let script = r#"trap 'echo asked >&9; exit 0' TERM; echo '{"id":1}'; while :; do sleep 0.05; done"#;
    let (connection, mut inbound) = start(&held.script(script)).await;
    message(&mut inbound).await;
    // The first wait is in vain by intent; in the second the child obeys.
    within("the end", connection.close(Duration::from_secs(2))).await.unwrap();
    assert_eq!(held.line().await, "asked");
    held.released().await;
}

#[tokio::test]
async fn dropping_kills_the_whole_group_even_if_nobody_reads() {
    let held = LifePipe::new().await;
    let script = r#"trap '' TERM; (while :; do sleep 60; done) & while :; do echo '{"id":1}'; done"#;
    let (connection, mut inbound) = start(&held.script(script)).await;
    message(&mut inbound).await;
    drop(connection);
    held.released().await;
}

#[tokio::test]
async fn children_of_a_child_that_ended_end_too() {
    let held = LifePipe::new().await;
    // The one in the background holds the output open as well: the end must be told nevertheless.
    let (_connection, mut inbound) = start(&held.script("(while :; do sleep 60; done) & exit 0")).await;
    assert_eq!(end(&mut inbound).await, "it ended (exit status: 0)");
    held.released().await;
}

#[tokio::test]
async fn a_child_killed_by_a_signal_is_told_as_that() {
    let (connection, mut inbound) = start("kill -9 $$").await;
    assert_eq!(end(&mut inbound).await, "it ended (signal: 9 (SIGKILL))");
    // Sending goes nowhere, but must say so sooner or later.
    let sending = async { while connection.send(Outbound::new("{}")).await.is_ok() {} };
    within("the refusal", sending).await.unwrap();
}

#[tokio::test]
async fn what_it_logs_is_shown_with_its_name() {
    let (log, mut lines) = mpsc::channel(100);
    let subscriber = tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(Lines(Mutex::new(log)));
    let _guard = tracing::subscriber::set_default(subscriber.finish());
    let (_connection, mut inbound) = start(r#"echo 'ready at last' >&2; echo not json; cat"#).await;
    let mut shown = [within("a line", lines.recv()).await.unwrap(), within("a line", lines.recv()).await.unwrap()];
    shown.sort();
    assert_eq!(shown[0].as_deref(), Some("INFO guest: ready at last guest=\"robot\""));
    let warning =
        "WARN guest: upstream: line of output is not a JSON-RPC message, skipped: \"not json\" guest=\"robot\"";
    assert_eq!(shown[1].as_deref(), Some(warning));
    assert!(inbound.receiver.as_mut().unwrap().try_recv().is_err());
}

/// Log lines into a channel.
struct Lines(Mutex<mpsc::Sender<String>>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

impl io::Write for &Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line).trim().to_owned();
        let _ = self.0.lock().try_send(text);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
