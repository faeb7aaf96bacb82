//! `salon backup` and `salon restore`: of a gateway that runs, into a directory that is new, and everything that is refused.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use insta::assert_snapshot;
use salon_testkit::http::HttpCall;
use salon_testkit::run;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::salon::{BINARY, Home, Ran, Running, Signal, finish};

pub(crate) const TOPIC: &str = "room:alpha";

pub(crate) fn data(home: &Home) -> PathBuf {
    home.path().join(".local/share/salon")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

fn names(directory: &Path) -> Vec<String> {
    let found = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = found.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Publishes a message and hands out the position it was given.
pub(crate) async fn say(address: SocketAddr, token: &str, id: &str) -> String {
    let envelope = json!({
        "protocol": "mcp-x/v0", "id": id, "ts": "2025-08-17T14:00:00Z", "from": "alice", "kind": "mcp",
        "payload": { "jsonrpc": "2.0", "method": "notifications/chat/message", "params": { "text": "x".repeat(500) } },
    });
    let call = HttpCall::new("POST", format!("/v0/topics/{TOPIC}/messages")).bearer(token).body(envelope.to_string());
    let answer = call.send(address).await.expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
    let answer: Value = serde_json::from_str(&answer.body).expect("JSON");
    answer["position"].as_str().expect("a position").to_owned()
}

/// The ids of a topic's envelopes, oldest first.
pub(crate) async fn history(address: SocketAddr, token: &str) -> Vec<String> {
    let (mut ids, mut before) = (Vec::new(), String::new());
    loop {
        let path = format!("/v0/topics/{TOPIC}/history?limit=1000{before}");
        let page = HttpCall::new("GET", path).bearer(token).send(address).await.expect("an answer");
        assert_eq!(page.status, 200, "{}", page.body);
        let page: Value = serde_json::from_str(&page.body).expect("JSON");
        let envelopes = page["history"].as_array().expect("a list");
        ids.extend(envelopes.iter().map(|envelope| envelope["id"].as_str().expect("an id").to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        before = format!("&before={next}");
    }
    ids.reverse();
    ids
}

pub(crate) async fn stop(running: Running) {
    running.signal(Signal::TERM);
    let ran = running.end().await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

/// A gateway that has stopped after some messages, its token, and a backup of it: `b.tar`.
async fn backed_up(home: &Home, messages: usize) -> String {
    let running = home.serve("").await;
    let token = home.token(TOPIC, "alice").await;
    for number in 0..messages {
        say(running.address, &token, &format!("e{number}")).await;
    }
    let ran = home.salon("backup b.tar").await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    stop(running).await;
    token
}

#[test]
fn a_backup_of_a_busy_gateway_has_everything_acknowledged_before_it() {
    let home = Home::new();
    run(async {
        let running = home.serve("--limits-rate 0").await;
        let token = home.token(TOPIC, "alice").await;
        let (acknowledge, mut acknowledged) = watch::channel(0);
        let done = Arc::new(AtomicBool::new(false));
        let talking = tokio::spawn({
            let (address, token, done) = (running.address, token.clone(), done.clone());
            async move {
                let mut number = 0;
                while !done.load(Ordering::Relaxed) {
                    say(address, &token, &format!("e{number}")).await;
                    number += 1;
                    acknowledge.send_replace(number);
                }
            }
        });
        acknowledged.wait_for(|count| *count >= 100).await.expect("it talks");
        let before = *acknowledged.borrow();
        let ran = home.salon("backup b.tar").await;
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{}", ran.stdout);
        done.store(true, Ordering::Relaxed);
        talking.await.expect("everything was acknowledged");
        let all = history(running.address, &token).await;

        let restored = home.salon("restore b.tar --data new").await;
        assert_eq!(restored.code, Some(0), "{}", restored.stderr);
        let second = home.serve("--data new").await;
        let found = history(second.address, &token).await;
        assert!(found.len() >= before, "{} of {before} acknowledged", found.len());
        assert_eq!(found, all[..found.len()], "it is the log as it was at one moment");
        say(second.address, &token, "new").await;
        assert_eq!(history(second.address, &token).await.last().map(String::as_str), Some("new"));
        stop(second).await;
        stop(running).await;
    });
}

#[test]
fn a_backup_holds_all_that_a_data_directory_has_and_is_private() {
    let home = Home::new();
    run(async {
        backed_up(&home, 3).await;
        assert_eq!(mode(&home.path().join("b.tar")), 0o600);
        assert_eq!(
            names(home.path()).iter().filter(|name| name.contains("b.tar")).count(),
            1,
            "nothing is left behind"
        );
        let told = home.told("backup --verify b.tar").await;
        let (first, rest) = told.split_once(", made ").expect("a time");
        assert_eq!(first, "The backup is complete: 1 topic, 3 entries, 0 context keys");
        assert!(
            rest.contains("It holds `log.db`, `auth.key`, `signed-out.jsonl`, `revoked.jsonl`, `audit.log`.\nexit: 0"),
            "{rest}"
        );

        let ran = home.salon("restore b.tar --data new").await;
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
        let new = home.path().join("new");
        assert_eq!(mode(&new), 0o700);
        assert_eq!(names(&new), ["audit.log", "auth.key", "log.db", "log.lock", "revoked.jsonl", "signed-out.jsonl"]);
        for name in names(&new) {
            assert_eq!(mode(&new.join(&name)), 0o600, "{name}");
        }
        assert_eq!(
            fs::read(new.join("auth.key")).expect("a key"),
            fs::read(data(&home).join("auth.key")).expect("one")
        );
    });
}

#[test]
fn a_backup_has_the_rotated_files_of_the_audit_trail() {
    let home = Home::new();
    run(async {
        let running = home.serve("--audit-max-size 1KiB").await;
        let token = home.token(TOPIC, "alice").await;
        for number in 0..10 {
            say(running.address, &token, &format!("e{number}")).await;
        }
        stop(running).await;
        let trail = |directory: &Path| -> Vec<_> {
            names(directory).into_iter().filter(|name| name.starts_with("audit.log")).collect()
        };
        let rotated = trail(&data(&home));
        assert!(rotated.len() > 2, "{rotated:?}");
        assert_eq!(home.salon("backup b.tar").await.code, Some(0));
        let ran = home.salon("restore b.tar --data new").await;
        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
        assert_eq!(trail(&home.path().join("new")), rotated);
        let told = home.told("audit verify --data new").await;
        assert!(told.contains("The audit trail is whole"), "{told}");

        // A trail that is there stays as it is, all of it.
        fs::create_dir(home.path().join("other")).expect("made");
        fs::write(home.path().join("other/audit.log"), "{}\n").expect("written");
        assert_eq!(home.salon("restore b.tar --data other").await.code, Some(0));
        assert_eq!(trail(&home.path().join("other")), ["audit.log"]);
    });
}

#[test]
fn a_killed_gateway_is_backed_up_with_what_is_in_its_write_ahead_log() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        let token = home.token(TOPIC, "alice").await;
        let before = say(running.address, &token, "e1").await;
        running.signal(Signal::KILL);
        running.end().await;
        assert!(data(&home).join("log.db-wal").exists());
        assert_eq!(home.salon("backup b.tar").await.code, Some(0));
        assert_eq!(home.salon("restore b.tar --data new").await.code, Some(0));
        let second = home.serve("--data new").await;
        assert_eq!(history(second.address, &token).await, ["e1"]);
        let after = say(second.address, &token, "e2").await;
        let epoch = |position: &str| position.split_once('-').map(|(epoch, _)| epoch.to_owned());
        assert_ne!(epoch(&before), epoch(&after), "the first gateway may give the same offset to another message");
        stop(second).await;
        // The backup has not been in the way of the next start.
        let first = home.serve("").await;
        assert_eq!(history(first.address, &token).await, ["e1"]);
        stop(first).await;
    });
}

#[test]
fn a_backup_goes_through_a_pipe() {
    let home = Home::new();
    run(async {
        backed_up(&home, 3).await;
        let mut command = home.command("sh");
        command.args(["-c", r#""$0" backup - | "$0" restore - --data new"#, BINARY]);
        let ran = finish(command).await;
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.starts_with("Restored 1 topic, 3 entries, 0 context keys into `new`"), "{}", ran.stdout);
        assert!(ran.stderr.starts_with("Backed up 1 topic, 3 entries"), "{}", ran.stderr);
        let left: Vec<_> = names(home.path()).into_iter().filter(|name| name.contains("salon-backup")).collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn a_backup_to_a_pipe_is_made_in_a_private_directory() {
    let home = Home::new();
    run(async {
        let running = home.serve("--limits-rate 0").await;
        let token = home.token(TOPIC, "alice").await;
        // More than a pipe holds, so that the backup waits until the directory was looked at.
        for number in 0..200 {
            say(running.address, &token, &format!("e{number}")).await;
        }
        let mut command = home.command("sh");
        let look = r#"head -c 1 >/dev/null; stat -c "%a %n" "$TMPDIR"/salon-backup-*; cat >/dev/null"#;
        command.args(["-c", &format!(r#""$0" backup - | {{ {look}; }}"#), BINARY]);
        let ran = finish(command).await;
        let (mode, path) = ran.stdout.trim().split_once(' ').unwrap_or_else(|| panic!("{}", ran.stderr));
        assert_eq!(mode, "700", "{path}");
        assert!(ran.stderr.starts_with("Backed up 1 topic, 200 entries"), "{}", ran.stderr);
        assert!(!Path::new(path).exists(), "it is removed");
        stop(running).await;
    });
}

#[test]
fn a_directory_that_cannot_be_written_to_is_named() {
    let home = Home::new();
    run(async {
        backed_up(&home, 1).await;
        let told = home.told("backup missing/b.tar").await;
        assert_eq!(told, "error: nothing can be written to `missing`: No such file or directory (os error 2)\nexit: 1");
    });
}

#[test]
fn a_file_that_is_there_is_replaced_only_when_told() {
    let home = Home::new();
    run(async {
        backed_up(&home, 1).await;
        let before = fs::read(home.path().join("b.tar")).expect("a backup");
        assert_snapshot!(home.told("backup b.tar").await, @"
        error: `b.tar` is there already

        hint: choose another name, or replace it with `--force`
        exit: 2
        ");
        assert_eq!(fs::read(home.path().join("b.tar")).expect("a backup"), before);
        assert_eq!(home.salon("backup b.tar --force").await.code, Some(0));
        assert_eq!(home.salon("backup --verify b.tar").await.code, Some(0));
    });
}

#[test]
fn what_cannot_be_backed_up_is_told() {
    let home = Home::new();
    run(async {
        assert_snapshot!(home.told("backup b.tar").await, @"
        error: there is no log in `HOME/.local/share/salon`

        hint: name the gateway's data directory with `--data`; a log on NATS is backed up with `nats account backup`
        exit: 1
        ");
        home.write("salon.toml", "store = \"nats://localhost:4222\"\n");
        let nats = home.told("backup b.tar").await;
        assert_snapshot!(nats, @r#"
        error: the store is on NATS, and `salon backup` and `salon restore` are for stores in a data directory

        hint: copy its streams with `nats account backup DIR` and `auth.key` from `HOME/.local/share/salon`: see "Back up a store on NATS" in docs/operations/nats.md
        exit: 2
        "#);
        home.write("b.tar", "");
        assert_eq!(home.told("restore b.tar").await, nats);
        assert!(!home.path().join("b.tar.partial").exists());
    });
}

#[test]
fn a_backup_that_is_damaged_or_cut_off_is_refused_and_nothing_is_touched() {
    let home = Home::new();
    run(async {
        backed_up(&home, 3).await;
        let whole = fs::read(home.path().join("b.tar")).expect("a backup");
        let middle = whole.len() / 2;
        let mut damaged = whole.clone();
        damaged[middle] ^= 1;
        let cases: [(&str, &[u8]); 5] = [
            ("it is damaged: `log.db` is not what was backed up", &damaged),
            ("it is incomplete: ", &whole[..middle]),
            ("it is incomplete: ", &whole[..whole.len() - 1]),
            ("it is not a file that `salon backup` made", b"hello"),
            ("it is not a file that `salon backup` made", b""),
        ];
        for (why, bytes) in cases {
            fs::write(home.path().join("bad.tar"), bytes).expect("written");
            for command in ["backup --verify bad.tar", "restore bad.tar --data new", "restore bad.tar --force"] {
                let told = home.told(command).await;
                assert!(told.starts_with(&format!("error: `bad.tar` cannot be restored: {why}")), "{told}");
                assert!(told.contains("\n\nhint: `salon backup --verify FILE` checks"), "{told}");
                assert!(told.ends_with("exit: 1"), "{told}");
            }
            assert_eq!(names(&home.path().join("new")), ["log.lock"]);
            assert!(!names(&data(&home)).iter().any(|name| name.contains("rest") || name.contains("replaced")));
        }
        let second = home.serve("").await;
        let token = home.token(TOPIC, "alice").await;
        assert_eq!(history(second.address, &token).await, ["e0", "e1", "e2"]);
        stop(second).await;
    });
}

/// The backup with a text in place of another of the same length.
fn altered(home: &Home, from: &str, to: &str) {
    let mut bytes = fs::read(home.path().join("b.tar")).expect("a backup");
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).expect("it is there");
    bytes.splice(at..at + from.len(), to.bytes());
    fs::write(home.path().join("newer.tar"), bytes).expect("written");
}

#[test]
fn a_backup_of_a_newer_version_is_refused() {
    let home = Home::new();
    run(async {
        backed_up(&home, 1).await;
        let newer = format!(
            "error: `newer.tar` cannot be restored: Salon {} made it, which is newer than this program\n\n\
             hint: use that version of Salon, or a newer one\nexit: 1",
            env!("CARGO_PKG_VERSION")
        );
        altered(&home, r#""format_version": 1"#, r#""format_version": 2"#);
        assert_eq!(home.told("restore newer.tar --data new").await, newer);
        altered(&home, r#""version": 6"#, r#""version": 9"#);
        assert_eq!(home.told("backup --verify newer.tar").await, newer);
    });
}

#[test]
fn a_running_gateway_is_not_restored_over() {
    let home = Home::new();
    run(async {
        let token = backed_up(&home, 2).await;
        let running = home.serve("").await;
        assert_snapshot!(home.told("restore b.tar --force").await, @"
        error: a gateway is running on `HOME/.local/share/salon`

        hint: stop it, or restore into another directory with `--data`
        exit: 1
        ");
        assert_eq!(history(running.address, &token).await, ["e0", "e1"]);
        stop(running).await;
    });
}

#[test]
fn data_that_is_there_is_replaced_only_when_told_and_kept_aside() {
    let home = Home::new();
    run(async {
        let token = backed_up(&home, 2).await;
        let running = home.serve("").await;
        say(running.address, &token, "later").await;
        stop(running).await;
        assert_snapshot!(home.told("restore b.tar").await, @"
        error: `HOME/.local/share/salon` holds data: `log.db`, `auth.key`, `signed-out.jsonl`, `revoked.jsonl`

        hint: choose another directory with `--data`, or replace what is there with `--force`
        exit: 1
        ");
        let told = home.told("restore b.tar --force").await;
        assert!(told.ends_with("remove it when it is not needed.\nexit: 0"), "{told}");
        let replaced = names(&data(&home)).into_iter().find(|name| name.starts_with("replaced-")).expect("kept");
        let running = home.serve("").await;
        assert_eq!(history(running.address, &token).await, ["e0", "e1"]);
        stop(running).await;
        let old = home.serve(&format!("--data .local/share/salon/{replaced}")).await;
        assert_eq!(history(old.address, &token).await, ["e0", "e1", "later"]);
        stop(old).await;
    });
}

#[test]
fn a_restore_that_was_interrupted_is_told_and_done_again() {
    let home = Home::new();
    run(async {
        let token = backed_up(&home, 1).await;
        fs::write(data(&home).join("restore-unfinished"), "").expect("written");
        let refused = "\
            error: a restore into `HOME/.local/share/salon` was interrupted, and what is there is incomplete\n\n\
            hint: run `salon restore FILE --force` again\nexit: 1";
        assert_eq!(home.told("serve --listen 127.0.0.1:0").await, refused);
        assert_eq!(home.told("serve --check").await, refused);
        assert_eq!(home.told("backup other.tar").await, refused);
        let Ran { code, stderr, .. } = home.salon("restore b.tar --force").await;
        assert_eq!(code, Some(0), "{stderr}");
        let running = home.serve("").await;
        assert_eq!(history(running.address, &token).await, ["e0"]);
        stop(running).await;
    });
}

/// What the gateway answers to the browser that has a cookie.
async fn session(address: SocketAddr, method: &str, cookie: &str) -> u16 {
    let call = HttpCall::new(method, "/v0/session").header("Origin", format!("http://{address}"));
    let call = call.header("Sec-Fetch-Site", "same-origin").header("Cookie", cookie);
    call.send(address).await.expect("an answer").status
}

/// Signs in, as a browser does, and hands out the cookie.
async fn sign_in(address: SocketAddr, token: &str) -> String {
    let call = HttpCall::new("POST", "/v0/session").header("Origin", format!("http://{address}"));
    let call = call.header("Sec-Fetch-Site", "same-origin").body(json!({ "token": token }).to_string());
    let answer = call.send(address).await.expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.body);
    let set = answer.header("set-cookie").expect("a cookie");
    set.split(';').next().expect("a value").to_owned()
}

#[test]
fn a_sign_out_after_the_backup_outlasts_the_restore() {
    let home = Home::new();
    run(async {
        let running = home.serve("").await;
        let token = home.token(TOPIC, "alice").await;
        let (first, second) = (sign_in(running.address, &token).await, sign_in(running.address, &token).await);
        let stays = sign_in(running.address, &token).await;
        assert_eq!(session(running.address, "DELETE", &first).await, 204);
        assert_eq!(home.salon("backup b.tar").await.code, Some(0));
        assert_eq!(session(running.address, "DELETE", &second).await, 204);
        stop(running).await;
        let kept = data(&home).join("signed-out.jsonl");
        let aside = home.path().join("aside");
        fs::rename(&kept, &aside).expect("moved");
        assert_eq!(home.salon("backup without.tar").await.code, Some(0));
        fs::rename(&aside, &kept).expect("moved back");

        for (backup, is_interrupted) in [("b.tar", false), ("without.tar", false), ("b.tar", true)] {
            if is_interrupted {
                let replaced = data(&home).join("replaced-interrupted");
                fs::create_dir(&replaced).expect("made");
                fs::rename(&kept, replaced.join("signed-out.jsonl")).expect("moved");
                fs::write(data(&home).join("restore-unfinished"), "").expect("written");
            }
            let Ran { code, stderr, .. } = home.salon(&format!("restore {backup} --force")).await;
            assert_eq!(code, Some(0), "{stderr}");
            assert_eq!(mode(&kept), 0o600);
            // Only what this restore replaced may give the next one its sign-outs.
            for name in names(&data(&home)).iter().filter(|name| name.starts_with("replaced-")) {
                fs::remove_dir_all(data(&home).join(name)).expect("removed");
            }
            let running = home.serve("").await;
            let found = [
                session(running.address, "GET", &first).await,
                session(running.address, "GET", &second).await,
                session(running.address, "GET", &stays).await,
            ];
            assert_eq!(found, [401, 401, 200], "{backup}, interrupted: {is_interrupted}");
            stop(running).await;
        }
    });
}

#[test]
fn a_rollback_journal_of_the_old_log_is_moved_away() {
    let home = Home::new();
    run(async {
        let token = backed_up(&home, 2).await;
        fs::write(data(&home).join("log.db-journal"), "of the old log").expect("written");
        let told = home.told("restore b.tar").await;
        assert!(told.contains("`log.db-journal`"), "{told}");
        let Ran { code, stderr, .. } = home.salon("restore b.tar --force").await;
        assert_eq!(code, Some(0), "{stderr}");
        let replaced = names(&data(&home)).into_iter().find(|name| name.starts_with("replaced-")).expect("kept");
        assert!(names(&data(&home).join(replaced)).contains(&"log.db-journal".to_owned()));
        assert!(!data(&home).join("log.db-journal").exists());
        let running = home.serve("").await;
        assert_eq!(history(running.address, &token).await, ["e0", "e1"]);
        stop(running).await;
    });
}
