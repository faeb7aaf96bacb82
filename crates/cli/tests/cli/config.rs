use salon_testkit::run;

use crate::salon::{BINARY, Home, finish};

fn check(file: &str, arguments: &str) -> String {
    let home = Home::new();
    if !file.is_empty() {
        home.write("salon.toml", file);
    }
    run(home.told(&format!("serve --check {arguments}")))
}

#[test]
fn a_good_configuration_is_told_and_nothing_is_made() {
    insta::assert_snapshot!(check("", ""), @"
    The configuration is good. This would be served:

      settings    defaults, variables and flags
      address     127.0.0.1:8787
      transport   plain, reachable from this machine alone
      data        HOME/.local/share/salon
      durability  full
      kept        for 30 days
      keys        the gateway's own, to be made at the first start
      limits      message 1048576 bytes, messages a second 100 (at once 1000), participants a topic 10000
      audit       HOME/.local/share/salon/audit.log
      log lines   info, human
    exit: 0
    ");
    let home = Home::new();
    run(home.salon("serve --check"));
    assert_eq!(std::fs::read_dir(home.path()).expect("readable").count(), 0);
}

#[test]
fn the_file_is_found_and_overridden() {
    let file = "data = \"d\"\n[retention]\nage = \"12h\"\ncount = 5\n[limits]\nmessage = 0\n[http]\norigins = [\"https://a.example\"]\n";
    insta::assert_snapshot!(check(file, "--limits-participants 7 --http-hosts b.example --sqlite-durability os --audit-enabled=false --dev"), @"
    The configuration is good. This would be served:

      settings    salon.toml
      address     127.0.0.1:8787
      transport   plain, reachable from this machine alone
      data        d
      durability  os
      kept        for 12 hours, the newest 5 a topic
      keys        the gateway's own, to be made at the first start
      limits      message unlimited, messages a second 100 (at once 1000), participants a topic 7
      audit       none
      log lines   info, human
      origins     https://a.example
      hosts       b.example
      dev         anyone on this machine gets a token for the asking
    exit: 0
    ");

    let home = Home::new();
    home.write("salon.toml", "listen = \"127.0.0.1:1\"\n");
    let mut command = home.command(BINARY);
    command.args(["serve", "--check"]).env("SALON_LISTEN", "127.0.0.1:2");
    assert!(run(finish(command)).stdout.contains("127.0.0.1:2"), "a variable overrides the file");
    let mut command = home.command(BINARY);
    command.args(["serve", "--check", "--listen", "127.0.0.1:3"]).env("SALON_LISTEN", "127.0.0.1:2");
    assert!(run(finish(command)).stdout.contains("127.0.0.1:3"), "a flag overrides a variable");
}

#[test]
fn mistakes_are_told_with_their_place() {
    insta::assert_snapshot!(check("listen = \"127.0.0.1:0\"\nlisten_on = 1\n", ""), @"
    error: salon.toml:2: unknown key `listen_on`

    hint: the keys here are listen, data, dev, plaintext, store, framed, tls, http, auth, ui, sqlite, nats, retention, limits, memory, times, log, audit, topics, bridges
    exit: 2
    ");
    insta::assert_snapshot!(check("\n[limits]\nmessage = \"big\"\n", ""), @"
    error: salon.toml:3: `big` is not a number of bytes such as `65536`, `64KiB` or `1MiB`
    exit: 2
    ");
    insta::assert_snapshot!(check("", "--config nowhere.toml"), @"
    error: the configuration file `nowhere.toml` could not be read: No such file or directory (os error 2)
    exit: 2
    ");
    insta::assert_snapshot!(check("", "--listen 0.0.0.0:8787"), @"
    error: `0.0.0.0:8787` is open to other machines, and without TLS tokens travel in the clear

    hint: set `tls.cert` and `tls.key`, or `plaintext = true` (`--plaintext`) behind a proxy that has TLS
    exit: 2
    ");
    insta::assert_snapshot!(check("", "--listen 0.0.0.0:8787 --plaintext --dev"), @"
    error: `dev` hands a token to anyone who asks, and `0.0.0.0:8787` is open to other machines

    hint: listen on `127.0.0.1`, or leave `dev` out and use `salon token`
    exit: 2
    ");
    insta::assert_snapshot!(check("", "--tls-cert cert.pem"), @"
    error: a TLS certificate without its key

    hint: set `tls.key` too
    exit: 2
    ");
    insta::assert_snapshot!(check("", "--tls-cert cert.pem --tls-key key.pem"), @"
    error: `cert.pem` could not be read as PEM: I/O error: No such file or directory (os error 2)
    exit: 2
    ");
    insta::assert_snapshot!(check("", "--auth-jwks keys.json"), @"
    error: `keys.json`: the key set could not be read: No such file or directory (os error 2)
    exit: 2
    ");
    insta::assert_snapshot!(check("", "--log-filter ,=,"), @"
    error: `,=,` does not say which log lines there are: invalid filter directive

    hint: use a level (error, warn, info, debug, trace), or directives such as `info,salon_gateway=debug`
    exit: 2
    ");
}

#[test]
fn a_name_of_an_earlier_version_is_refused_with_the_new_one() {
    insta::assert_snapshot!(check("", "--rate-limit 5"), @"
    error: unexpected argument '--rate-limit' found

    hint: it is called `--limits-rate` now
    exit: 2
    ");
    insta::assert_snapshot!(check("", "--log=nats://u:s3cret@127.0.0.1:4222"), @"
    error: unexpected argument '--log' found

    hint: it is called `--store` now
    exit: 2
    ");
    insta::assert_snapshot!(check("\n[log]\nurl = \"nats://u:s3cret@127.0.0.1:4222\"\n", ""), @"
    error: salon.toml:3: unknown key `url`

    hint: `log.url` is called `store` now
    exit: 2
    ");
    let home = Home::new();
    let old = [("SALON_LOG", "nats://u:s3cret@127.0.0.1:4222"), ("SALON_DURABILITY", "os")];
    insta::assert_snapshot!(check_with(&home, &old, ""), @"
    error: the variables `SALON_DURABILITY`, `SALON_LOG` have another name now

    hint: use `SALON_SQLITE_DURABILITY`, `SALON_STORE`
    exit: 2
    ");
}

#[test]
fn a_key_others_can_read_is_a_mistake_too() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    home.write("auth.key", "12345678901234567890123456789012");
    let key = home.path().join("auth.key");
    std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o644)).expect("set");
    insta::assert_snapshot!(run(home.told("serve --check --data .")), @"
    error: the key file `./auth.key` is open to other users (mode 644)

    hint: run `chmod 600` on it; if others could have read it, delete it and a new key is made, which makes the tokens signed with the old one worthless
    exit: 2
    ");
}

#[test]
fn a_conflict_is_told_with_its_line() {
    insta::assert_snapshot!(check("data = \"d\"\n[tls]\ncert = \"c.pem\"\n", ""), @"
    error: salon.toml:3: a TLS certificate without its key

    hint: set `tls.key` too
    exit: 2
    ");
}

/// What a person sees of a check with variables set.
fn check_with(home: &Home, variables: &[(&str, &str)], arguments: &str) -> String {
    let mut command = home.command(BINARY);
    command.args(["serve", "--check"]).args(arguments.split_whitespace()).envs(variables.iter().copied());
    home.normal(run(finish(command)))
}

#[test]
fn a_bad_variable_is_told_by_its_own_name() {
    let home = Home::new();
    insta::assert_snapshot!(check_with(&home, &[("SALON_LIMITS_MESSAGE", "big")], ""), @"
    error: invalid value 'big' for 'SALON_LIMITS_MESSAGE': `big` is not a number of bytes such as `65536`, `64KiB` or `1MiB`

    hint: `--help` lists what there is
    exit: 2
    ");
    let bad = |variable, arguments: &str| {
        let told = check_with(&home, &[variable], arguments);
        told.lines().next().and_then(|line| line.split("' for '").nth(1)?.split('\'').next().map(str::to_owned))
    };
    let secret = check_with(&home, &[("SALON_STORE", "natss://u:s3cret@h")], "");
    assert!(
        secret.starts_with("error: invalid value '(not shown)' for 'SALON_STORE': ") && !secret.contains("s3cret"),
        "{secret}"
    );
    assert_eq!(bad(("SALON_DEV", "perhaps"), "").as_deref(), Some("SALON_DEV"));
    assert_eq!(bad(("SALON_HTTP_HOSTS", "a b"), "").as_deref(), Some("SALON_HTTP_HOSTS"));
    // An error repeats the flag as typed, whatever the variable says.
    assert_eq!(bad(("SALON_LIMITS_MESSAGE", "1"), "--limits-message big").as_deref(), Some("--limits-message <SIZE>"));
    assert_eq!(bad(("SALON_LIMITS_MESSAGE", "1"), "--limits-message=big").as_deref(), Some("--limits-message <SIZE>"));
    assert_eq!(bad(("SALON_HTTP_HOSTS", "a"), "--http-hosts a:b").as_deref(), Some("--http-hosts <NAME>"));
}

#[cfg(not(feature = "nats"))]
#[test]
fn a_log_on_nats_is_refused_without_the_feature() {
    let home = Home::new();
    let told = check_with(&home, &[], "--store nats://u:s3cret@127.0.0.1:4222");
    insta::assert_snapshot!(told, @r#"
    error: this `salon` was built without support for NATS

    hint: use `store = "sqlite"` (`--store sqlite`), or install a `salon` with the feature `nats`, which is on by default
    exit: 2
    "#);
    assert_eq!(check_with(&home, &[("SALON_STORE", "tls://u:s3cret@127.0.0.1:4222")], ""), told);
    let started = run(home.salon("serve --listen 127.0.0.1:0 --store nats://127.0.0.1:4222"));
    assert_eq!(
        format!("{}{}exit: {:?}", started.stdout, started.stderr, started.code),
        told.replace("exit: 2", "exit: Some(2)")
    );
}

#[test]
fn what_a_start_would_need_is_tried() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    home.write("file", "");
    insta::assert_snapshot!(run(home.told("serve --check --data file")), @"
    error: the data directory `file` cannot be used: not a directory
    exit: 1
    ");
    insta::assert_snapshot!(run(home.told("serve --check --audit-file missing/audit.log")), @"
    error: the audit trail `missing/audit.log` cannot be used: No such file or directory (os error 2)
    exit: 1
    ");
    std::fs::create_dir(home.path().join("data")).expect("made");
    std::fs::set_permissions(home.path().join("data"), std::fs::Permissions::from_mode(0o750)).expect("set");
    home.write("data/log.db", "no database at all");
    insta::assert_snapshot!(run(home.told("serve --check --data data")), @"
    error: `data/log.db` is not a database
    exit: 1
    ");
    std::fs::remove_file(home.path().join("data/log.db")).expect("removed");
    let told = check_with(&home, &[("SALON_RETENTION_AEG", "1d"), ("SALON_TOKEN", "x")], "--data data");
    let notes: Vec<_> = told.lines().filter(|line| line.contains(" note ")).collect();
    insta::assert_snapshot!(notes.join("\n"), @"
      note        `data` is open to other users (mode 750); `chmod 700 data` closes it
      note        the variable `SALON_RETENTION_AEG` is set, but nothing reads it; did you mean `SALON_RETENTION_AGE`?
    ");
    let left = std::fs::read_dir(home.path().join("data")).expect("readable").count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[test]
fn a_file_that_others_can_write_is_refused_where_nobody_named_it() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    home.write("salon.toml", "data = \"elsewhere\"");
    let path = home.path().join("salon.toml");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("changed");
    insta::assert_snapshot!(run(home.told("token room:a --as alice")), @"
    error: others can write `salon.toml` in this directory

    hint: `chmod go-w` it if it is yours, or name it with `--config`
    exit: 2
    ");
    assert!(run(home.told("serve --check")).starts_with("error: others can write `salon.toml`"));
    assert_eq!(run(home.salon("token room:a --as alice --config salon.toml")).code, Some(0));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("changed");
    assert_eq!(run(home.salon("token room:a --as alice")).code, Some(0));
}
