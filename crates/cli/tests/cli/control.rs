//! `salon topic`, `approvals`, `approve` and `deny`.

use insta::assert_snapshot;
use salon_testkit::{eventually, run};
use serde_json::Value;

use crate::salon::finish;
use crate::stage::{Stage, TOPIC};

#[test]
fn a_held_call_is_approved_from_the_command_line() {
    run(async {
        let stage = Stage::new().await;
        let _robot = stage.robot().await;
        let admin = stage.token("admin", "permissions=operator");
        let rule = r#"{"rules": [{"hold": "call:robot/move", "approvers": ["admin"]}]}"#;
        assert_snapshot!(stage.told_to(&admin, &["topic", "set", TOPIC, rule, "--json"]).await);
        assert_snapshot!(stage.told_to(&admin, &["approvals", TOPIC]).await, @"
        no call waits for approval there
        exit: 0
        ");
        for (decision, outcome) in [("approve", "moved to (1, 2)"), ("deny", "was not approved")] {
            let calling = tokio::spawn(finish(stage.alice(&["call", TOPIC, "robot", "move", "x=1", "y=2"])));
            let held = eventually("the call to be held", || async {
                let listed = finish(stage.person(&admin, &["approvals", TOPIC, "--json"])).await;
                let listed: Value = serde_json::from_str(&listed.stdout).ok()?;
                Some(listed["approvals"].get(0)?.clone())
            })
            .await
            .expect("in time");
            let text = |name: &str| held[name].as_str().expect("a text").to_owned();
            assert_eq!((text("caller"), text("callee"), text("tool")), ("alice".into(), "robot".into(), "move".into()));
            let (id, digest) = (text("id"), text("digest"));
            let unread = stage.told_to(&admin, &[decision, TOPIC, &id]).await;
            assert!(unread.contains("there is no terminal to ask at"), "{unread}");
            let decided = stage.told_to(&admin, &[decision, TOPIC, &id, "--digest", &digest]).await;
            assert!(decided.ends_with("exit: 0"), "{decided}");
            let called = calling.await.expect("no panic");
            assert!(
                format!("{}{}", called.stdout, called.stderr).contains(outcome),
                "{} {}",
                called.stdout,
                called.stderr
            );
        }
    });
}

/// `salon call` waits for the approval, however long that takes, and ends with it.
#[test]
fn a_call_that_nobody_approves_ends_when_its_time_is_over() {
    run(async {
        let stage = Stage::new().await;
        let _robot = stage.robot().await;
        let admin = stage.token("admin", "permissions=operator");
        let rule = r#"{"rules": [{"hold": "call:robot/move", "approvers": ["admin"], "expires_ms": 1000}]}"#;
        stage.told_to(&admin, &["topic", "set", TOPIC, rule, "--json"]).await;
        let called = stage.told(&["call", TOPIC, "robot", "move", "x=1", "y=2"]).await;
        assert_snapshot!(called, @"
        error: approval_expired: nobody approved the call to `robot` in time
        exit: 5
        ");
        assert_snapshot!(stage.told_to(&admin, &["approvals", TOPIC]).await, @"
        no call waits for approval there
        exit: 0
        ");
    });
}

#[test]
fn a_topic_is_shown_changed_and_refused() {
    run(async {
        let stage = Stage::new().await;
        let admin = stage.token("admin", "permissions=operator");
        assert_snapshot!(stage.told(&["topic", "show", TOPIC]).await, @r#"
        {
          "access": "token",
          "version": 0
        }
        the topic has no settings: every token that names it may enter, speak and call
        exit: 0
        "#);
        assert_snapshot!(stage.told(&["topic", "set", TOPIC, r#"{"title": "Mine"}"#]).await, @"
        error: this topic has no settings, and to make or delete them your token needs the capability `manage` or the permission `operator`
        exit: 5
        ");
        assert_snapshot!(stage.told_to(&admin, &["topic", "set", TOPIC, r#"{"colour": "red"}"#]).await, @"
        error: there is no setting `colour`
        exit: 5
        ");
        assert_snapshot!(stage.told_to(&admin, &["topic", "invite", TOPIC, "bob", "--role", "observer"]).await, @r#"
        {
          "access": "token",
          "members": {
            "admin": "owner",
            "bob": "observer"
          },
          "version": 1
        }
        exit: 0
        "#);
        assert!(stage.told_to(&admin, &["topic", "pause", TOPIC, "alice"]).await.contains(r#""paused""#));
        assert_snapshot!(stage.told(&["say", TOPIC, "hello"]).await, @"
        error: you are paused in this room: you can read, and nothing else
        exit: 5
        ");
        assert!(!stage.told_to(&admin, &["topic", "resume", TOPIC, "alice"]).await.contains(r#""paused""#));
        assert!(stage.told(&["say", TOPIC, "hello"]).await.ends_with("exit: 0"));
        assert!(stage.told_to(&admin, &["topic", "archive", TOPIC]).await.contains(r#""archived": true"#));
        assert_snapshot!(stage.told(&["say", TOPIC, "hello"]).await, @"
        error: this topic is archived: it can be read, and nothing new is stored
        exit: 5
        ");
        assert!(!stage.told_to(&admin, &["topic", "unarchive", TOPIC]).await.contains("archived"));
        assert!(stage.told(&["say", TOPIC, "hello"]).await.ends_with("exit: 0"));
        assert_snapshot!(stage.told_to(&admin, &["topic", "create", TOPIC]).await, @"
        error: the settings have version 5, not 0: read them again
        exit: 5
        ");
    });
}

#[test]
fn a_misspelt_topic_is_not_made() {
    run(async {
        let stage = Stage::new().await;
        let _robot = stage.robot().await;
        for command in
            [&["say", "room:labb", "hello"][..], &["tools", "room:labb"], &["call", "room:labb", "robot", "move"]]
        {
            let told = stage.told(command).await;
            assert!(told.contains("there is no topic `room:labb`") && told.ends_with("exit: 3"), "{told}");
        }
        let near = format!("{TOPIC}x");
        let told = stage.told(&["say", &near, "hello"]).await;
        assert!(told.contains(&format!("did you mean `{TOPIC}`? `--create` makes a new topic")), "{told}");
        let listed = stage.told(&["topics"]).await;
        assert!(!listed.contains(&near) && !listed.contains("room:labb"), "{listed}");
        assert!(stage.told(&["say", "room:labb", "hello", "--create"]).await.ends_with("exit: 0"));
        assert!(stage.told(&["topics"]).await.contains("room:labb"));
    });
}

#[test]
fn a_topic_is_deleted_once_it_is_confirmed() {
    run(async {
        let stage = Stage::new().await;
        let admin = stage.token("admin", "permissions=operator");
        assert!(stage.told(&["say", TOPIC, "a secret", "--create"]).await.ends_with("exit: 0"));
        assert_snapshot!(stage.told_to(&admin, &["topic", "delete", TOPIC]).await, @"
        error: there is no terminal to ask at

        hint: `--yes` deletes it without a question
        exit: 2
        ");
        let refused = stage.told(&["topic", "delete", TOPIC, "--yes"]).await;
        assert!(refused.ends_with("exit: 5"), "{refused}");
        assert!(stage.told(&["history", TOPIC]).await.contains("a secret"));
        let deleted = stage.told_to(&admin, &["topic", "delete", TOPIC, "--yes", "--reason", "over"]).await;
        assert!(deleted.contains("is deleted") && deleted.ends_with("exit: 0"), "{deleted}");
        assert!(!stage.told(&["history", TOPIC]).await.contains("a secret"));
        assert!(stage.told(&["say", TOPIC, "hello"]).await.contains("there is no topic"));
    });
}

#[test]
fn commands_that_only_read_refuse_a_reason() {
    run(async {
        let stage = Stage::new().await;
        for command in [&["topic", "show", TOPIC][..], &["approvals", TOPIC], &["status", TOPIC, "e1"]] {
            let refused = stage.told(&[command, &["--reason", "none"]].concat()).await;
            assert!(refused.contains("unexpected argument '--reason'"), "{command:?}: {refused}");
            assert!(refused.ends_with("exit: 2"), "{command:?}: {refused}");
        }
    });
}
