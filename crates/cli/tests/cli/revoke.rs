//! `salon revoke`.

use insta::assert_snapshot;
use salon_testkit::{TestEngine, TestGateway, TestOptions, run};

use crate::salon::Home;
use crate::stage::{Stage, TOPIC};

#[test]
fn a_token_is_revoked_by_its_id_or_as_a_whole() {
    run(async {
        let stage = Stage::new().await;
        let admin = stage.token("admin", "permissions=revoke");
        let leaked = stage.token("mallory", "jti=leaked-1");
        let other = stage.token("mallory", "jti=leaked-2");
        assert_snapshot!(stage.told_to(&leaked, &["who", TOPIC]).await, @r#"
        there is no topic `room:alpha`
        exit: 0
        "#);
        assert_snapshot!(stage.told_to(&admin, &["revoke", "token", "leaked-1"]).await, @"
        revoked the token `leaked-1`
        exit: 0
        ");
        assert_snapshot!(stage.told_to(&leaked, &["who", TOPIC]).await, @r#"
        error: the token was revoked

        hint: `salon doctor` looks at the token; `salon login GATEWAY` stores another
        exit: 5
        "#);
        assert_snapshot!(stage.told_to(&admin, &["revoke", "token", &other]).await, @"
        revoked the token `leaked-2`
        exit: 0
        ");
        assert_eq!(stage.told_to(&other, &["who", TOPIC]).await, stage.told_to(&leaked, &["who", TOPIC]).await);
    });
}

#[test]
fn a_token_needs_the_permission() {
    run(async {
        let stage = Stage::new().await;
        assert_snapshot!(stage.told(&["revoke", "participant", "bob"]).await, @"
        error: this token lacks the permission `revoke`

        hint: on the machine of the gateway, its own key makes a token that may: leave out `--token` and `SALON_TOKEN`, and name its data with `--data`
        exit: 5
        ");
        let admin = stage.token("admin", "permissions=revoke");
        assert_snapshot!(stage.told_to(&admin, &["revoke", "all", "--before", "yesterday"]).await, @"
        error: `before` is a time such as STAMP
        exit: 5
        ");
        let early = ["revoke", "participant", "bob", "--before", "2026-01-31T12:00:00Z", "--json"];
        assert_snapshot!(stage.told_to(&admin, &early).await, @r#"
        {"before":"STAMP","participants":["bob"]}
        exit: 0
        "#);
    });
}

#[test]
fn a_participant_is_revoked_by_its_subject_too() {
    run(async {
        let options = TestOptions::new(TestEngine::Sqlite).set("auth.authorization_servers", "https://id.example");
        let gateway = TestGateway::start(options.expect("a setting")).await.expect("it starts");
        let stage = Stage { home: Home::new(), gateway };
        let admin = stage.token("admin", "permissions=revoke");
        let mapped = stage.token("auth0~7C1", "");
        assert!(stage.told_to(&mapped, &["who", TOPIC]).await.ends_with("exit: 0"));
        assert_snapshot!(stage.told_to(&admin, &["revoke", "participant", "auth0|1"]).await, @"
        revoked the tokens of `auth0|1` and `auth0~7C1` issued up to STAMP
        exit: 0
        ");
        assert!(stage.told_to(&mapped, &["who", TOPIC]).await.contains("the token was revoked"));
        // What cannot be an id is a subject.
        assert_snapshot!(stage.told_to(&admin, &["revoke", "participant", "a/b"]).await, @"
        revoked the tokens of `a~2Fb` issued up to STAMP
        exit: 0
        ");
        // Without an authorization server it is nothing.
        let stage = Stage::new().await;
        let admin = stage.token("admin", "permissions=revoke");
        assert_snapshot!(stage.told_to(&admin, &["revoke", "participant", "a/b"]).await, @"
        error: `participant` is not the id of a participant: '/' is not allowed: a name has letters and digits of ASCII, spaces between them, and ! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~
        exit: 5
        ");
    });
}
