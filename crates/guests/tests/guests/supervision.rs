//! Servers that end, and servers that do not begin.

use salon_guests::GuestStatus;
use salon_guests::upstream::{GuestTarget, UrlTransport};
use salon_testkit::within;

use crate::cast::{LEGACY, Stage, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_fails_its_calls_at_once_and_comes_back() {
    let stage = Stage::new().await;
    let mut guest = stage.guest(LEGACY, |_| {});
    guest.here().await;
    let (mut alice, mut bob) = (stage.caller("alice").await, stage.caller("bob").await);
    let waiting = alice.call("hang", "{}").await;
    let crashing = bob.call("crash", "{}").await;
    for (caller, request) in [(&mut alice, &waiting), (&mut bob, &crashing)] {
        let answer = caller.result(request).await;
        let told = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(told.starts_with("the server of `guest` is gone"), "{answer}");
    }
    guest.until(|status| matches!(status, GuestStatus::Restarting { .. })).await;
    alice.guest_leaves().await;
    alice.guest_joins().await;
    let request = alice.call("echo", r#"{"text":"back"}"#).await;
    assert_eq!(text(&alice.result(&request).await), "back");
    guest.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_is_not_in_the_room_before_its_server_works() {
    let stage = Stage::new().await;
    std::fs::write(stage.obstacle(), "").unwrap();
    let mut alice = stage.caller("alice").await;
    let mut guest = stage.guest(LEGACY, |_| {});
    let restarting = |status: &GuestStatus| matches!(status, GuestStatus::Restarting { .. });
    guest.until(restarting).await;
    guest.until(restarting).await;
    assert!(alice.room.roster().iter().all(|participant| participant.id.as_str() != "guest"));
    std::fs::remove_file(stage.obstacle()).unwrap();
    alice.guest_joins().await;
    guest.stop().await;
    alice.guest_leaves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_is_asked_to_leave_answers_first() {
    let stage = Stage::new().await;
    let mut guest = stage.guest(LEGACY, |_| {});
    guest.here().await;
    let mut alice = stage.caller("alice").await;
    let request = alice.call("hang", "{}").await;
    // Its first sign of progress shows that the guest has taken it.
    assert_eq!(alice.heard().await.correlation(), Some(&request));
    guest.stop().await;
    assert_eq!(alice.result(&request).await["error"]["message"], "the server of `guest` is gone: the guest is leaving");
    alice.guest_leaves().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_behind_a_url_leaves_with_its_server_and_comes_back_with_it() {
    let stage = Stage::new().await;
    let web = stage.web(0).await;
    let port = web.port;
    let mut guest = stage.guest_at(web.target(), |_| {});
    guest.here().await;
    let mut alice = stage.caller("alice").await;
    let request = alice.call("echo", r#"{"text":"over HTTP"}"#).await;
    assert_eq!(text(&alice.result(&request).await), "over HTTP");
    web.kill().await;
    let request = alice.call("echo", r#"{"text":"lost"}"#).await;
    let answer = alice.result(&request).await;
    assert!(answer["error"]["message"].as_str().is_some_and(|told| told.contains("gave no answer")), "{answer}");
    alice.guest_leaves().await;
    let web = stage.web(port).await;
    alice.guest_joins().await;
    let request = alice.call("echo", r#"{"text":"again"}"#).await;
    assert_eq!(text(&alice.result(&request).await), "again");
    guest.stop().await;
    web.kill().await;
}

/// Not even a stream that could be resumed keeps a caller waiting for a server that is not there any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_behind_a_url_that_dies_fails_its_calls_at_once() {
    let stage = Stage::new().await;
    let web = stage.web(0).await;
    let mut guest = stage.guest_at(web.target(), |_| {});
    guest.here().await;
    let mut alice = stage.caller("alice").await;
    let request = alice.call("hang", "{}").await;
    assert!(alice.heard().await.payload().contains("notifications/progress"));
    web.kill().await;
    let answer = alice.result(&request).await;
    assert!(answer["error"]["message"].as_str().is_some_and(|told| told.contains("cannot reach")), "{answer}");
    alice.guest_leaves().await;
    guest.stop().await;
}

#[tokio::test]
async fn what_cannot_be_started_at_all_is_told_once() {
    let stage = Stage::new().await;
    let command = |program: &str, cwd: Option<&str>| GuestTarget::Command {
        program: program.into(),
        args: Vec::new(),
        env: Vec::new(),
        cwd: cwd.map(Into::into),
    };
    let url = |url: &str| GuestTarget::Url { url: url.into(), headers: Vec::new(), transport: UrlTransport::Auto };
    let targets = [
        (command("no-such-program", None), "there is no such program"),
        (command("./no/such/program", None), "there is no such program"),
        (command("cat", Some("no-such-folder")), "there is no folder `no-such-folder` to run it in"),
        (url("notaurl"), "not a usable URL"),
        (url("ftp://127.0.0.1"), "`ftp` is not http or https"),
    ];
    for (target, why) in targets {
        let guest = stage.guest_at(target, |_| {});
        let ended = within("the guest to end", guest.running).await.unwrap().unwrap();
        let told = ended.unwrap_err().to_string();
        assert!(told.contains(why), "{told}");
    }
}
