//! `salon revoke`.

use insta::assert_snapshot;
use salon_testkit::run;

use crate::stage::{Stage, TOPIC};

#[test]
fn a_token_is_revoked_by_its_id_or_as_a_whole() {
    run(async {
        let stage = Stage::new().await;
        let admin = stage.token("admin", "permissions=revoke");
        let leaked = stage.token("mallory", "jti=leaked-1");
        let other = stage.token("mallory", "jti=leaked-2");
        assert_snapshot!(stage.told_to(&leaked, &["who", TOPIC]).await, @r#"
        nobody is in `room:alpha`
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
        {"before":"STAMP"}
        exit: 0
        "#);
    });
}
