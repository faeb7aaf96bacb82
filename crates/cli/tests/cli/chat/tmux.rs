//! A terminal of one's own: a tmux server in a directory that goes with the test, one pane, and what is written to it.
//!
//! Waiting is for events: tmux copies whatever the pane prints into a pipe, and the screen is looked at again when something came.

use std::path::PathBuf;

use salon_testkit::within;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{OpenOptions, Receiver};

use crate::salon::{BINARY, Home, Ran, finish};

/// How wide and high the screen is.
const SIZE: (u16, u16) = (80, 24);

pub(super) struct Pane<'a> {
    home: &'a Home,
    printed: Receiver,
}

impl<'a> Pane<'a> {
    /// Runs `salon` in a terminal. When it has ended, the exit code is printed, and whether the terminal is as it was.
    pub(super) async fn open(home: &'a Home, arguments: &str, variables: &str) -> Self {
        home.write(
            "run.sh",
            &format!(
                "before=$(stty -g)\nsh -c 'echo $$ >pid; exec env TZ=UTC {variables} {BINARY} {arguments}'\n\
                 echo \"exit: $?\"\n[ \"$before\" = \"$(stty -g)\" ] && echo restored\nexec cat\n"
            ),
        );
        let pipe = home.path().join("printed");
        let mut command = home.command("mkfifo");
        command.arg(&pipe);
        assert_eq!(finish(command).await.code, Some(0), "a pipe is made");
        // Opened for writing too, so that it neither waits for a writer nor ends with one.
        let printed = OpenOptions::new().read_write(true).open_receiver(&pipe).expect("a pipe is opened");
        let pane = Self { home, printed };
        let (columns, rows) = (SIZE.0.to_string(), SIZE.1.to_string());
        // The program starts only when what it prints is copied.
        let start = "tmux wait-for started; exec sh run.sh";
        pane.tmux(&["new-session", "-d", "-x", &columns, "-y", &rows, "sh", "-c", start]).await;
        pane.tmux(&["pipe-pane", "-O", &format!("exec cat >{}", pipe.display())]).await;
        pane.tmux(&["wait-for", "-S", "started"]).await;
        pane
    }

    /// Waits until a text is on the screen, and hands out the screen without what differs from run to run.
    pub(super) async fn until(&mut self, text: &str) -> String {
        self.until_that(text, |screen| screen.contains(text)).await
    }

    /// Waits until the screen is as it should be.
    pub(super) async fn until_that(&mut self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let mut screen = String::new();
        let waiting = async {
            loop {
                screen = normal(&self.tmux(&["capture-pane", "-p"]).await);
                if fits(&screen) {
                    return;
                }
                let mut printed = [0; 4096];
                assert_ne!(self.printed.read(&mut printed).await.expect("a pipe"), 0, "the terminal is gone");
            }
        };
        if let Err(failure) = within(&format!("{what:?} on the screen"), waiting).await {
            panic!("{failure}:\n{screen}");
        }
        screen
    }

    /// Types a text.
    pub(super) async fn types(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]).await;
    }

    /// Presses a key, by tmux's name for it.
    pub(super) async fn key(&self, key: &str) {
        self.tmux(&["send-keys", key]).await;
    }

    pub(super) async fn resize(&self, columns: u16, rows: u16) {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]).await;
    }

    /// The screen with its colours.
    pub(super) async fn escapes(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"]).await
    }

    /// Whether the other screen is on, the mouse is reported, and the cursor is hidden.
    pub(super) async fn modes(&self) -> String {
        let format = "#{alternate_on} #{mouse_any_flag} #{?cursor_flag,0,1}";
        self.tmux(&["display-message", "-p", format]).await.trim().to_owned()
    }

    /// Sends the program a signal.
    pub(super) async fn signal(&self, name: &str) {
        let mut command = self.home.command("sh");
        command.args(["-c", &format!("kill -{name} $(cat pid)")]);
        assert_eq!(finish(command).await.code, Some(0));
    }

    fn socket(&self) -> PathBuf {
        self.home.path().join("tmux")
    }

    async fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = self.home.command("tmux");
        command
            .env("LC_ALL", "C.UTF-8")
            .env("SHELL", "/bin/sh")
            .args(["-u", "-f", "/dev/null", "-S"])
            .arg(self.socket());
        let Ran { code, stdout, stderr } = finish({
            command.args(arguments);
            command
        })
        .await;
        assert_eq!(code, Some(0), "tmux {arguments:?}: {stderr}");
        stdout
    }
}

impl Drop for Pane<'_> {
    fn drop(&mut self) {
        // The server holds the terminal; without it the program gets SIGHUP.
        let ended = std::process::Command::new("tmux").arg("-S").arg(self.socket()).arg("kill-server").output();
        assert!(ended.is_ok(), "tmux is there");
    }
}

/// A screen without what differs from run to run: times, days, durations, and how far a spinner has turned.
fn normal(screen: &str) -> String {
    let line = |line: &str| {
        let (left, right) = line.rsplit_once('│').map_or((line, None), |(left, right)| (left, Some(right)));
        let mut left = left.trim_end().replace('\u{a0}', " ");
        let is_time = |text: &str| text.len() == 5 && text.bytes().enumerate().all(|(at, b)| (at == 2) == (b == b':'));
        if left.get(..5).is_some_and(is_time) {
            left.replace_range(..5, "HH:MM");
        }
        if left.starts_with('─') && left.contains("day, ") {
            left = "── DAY ──".into();
        }
        let is_duration = |took: &str| took.starts_with(|c: char| c.is_ascii_digit()) && took.ends_with('s');
        if let Some((told, _)) = left.rsplit_once(" · ").filter(|(_, took)| is_duration(took)) {
            left = format!("{told} · TIME");
        }
        let spins = |c: char| ('\u{2800}'..='\u{28ff}').contains(&c);
        if left.contains(spins) {
            let took =
                left.rsplit_once(' ').filter(|(_, unit)| *unit == "s").and_then(|(rest, _)| rest.rsplit_once(' '));
            left = took.map_or(&*left, |(rest, _)| rest).replace(spins, "⠿");
        }
        match right.map(str::trim_end) {
            // Names and what is typed may be wider than they are long, so a line that needs no change gets none.
            Some(_) if line.starts_with(&left) => line.to_owned(),
            Some(right) => format!("{left:<59} │{right}").trim_end().to_owned(),
            None => left,
        }
    };
    screen.lines().map(line).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}
