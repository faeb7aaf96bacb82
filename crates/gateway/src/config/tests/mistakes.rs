//! Mistakes in a file or between settings, and how they are told.

use super::*;

fn refusal(file: &str) -> String {
    load(file, "").expect_err("refused")
}

#[test]
fn mistakes_are_told_by_file_and_line() {
    insta::assert_snapshot!(refusal("listen = \"127.0.0.1:1\"\n\nlistne = 5\n"), @"
    salon.toml:3: unknown key `listne`

    hint: did you mean `listen`?
    ");
    insta::assert_snapshot!(refusal("[limits]\nmessage = \"1MiB\"\nmesage = 1\n"), @"
    salon.toml:3: unknown key `mesage`

    hint: did you mean `message`?
    ");
    insta::assert_snapshot!(refusal("[tls]\npassword = \"x\"\n"), @"
    salon.toml:2: unknown key `password`

    hint: the keys here are cert, key
    ");
    insta::assert_snapshot!(refusal("[limit]\n"), @"
    salon.toml:1: unknown key `limit`

    hint: did you mean `limits`?
    ");
    insta::assert_snapshot!(refusal("\nlisten = \"localhost\"\n"), @"salon.toml:2: `localhost` is not an address and port such as `127.0.0.1:8787`, `[::1]:8787` or `localhost:8787`");
    insta::assert_snapshot!(refusal("listen = true\n"), @"salon.toml:1: invalid type: boolean `true`, expected an address and port such as `127.0.0.1:8787`, `[::1]:8787` or `localhost:8787`");
    insta::assert_snapshot!(refusal("dev = \"yes\"\n"), @r#"salon.toml:1: invalid type: string "yes", expected a boolean"#);
    insta::assert_snapshot!(refusal("[limits]\n\nmessage = \"1 megabyte\"\n"), @"salon.toml:3: `1 megabyte` is not a number of bytes such as `65536`, `64KiB` or `1MiB`");
    insta::assert_snapshot!(refusal("[limits]\nrate = -1\n"), @"salon.toml:2: `-1` is not a whole number (0: no limit)");
    insta::assert_snapshot!(refusal("[limits]\nrate = 1.5\n"), @"salon.toml:2: invalid type: floating point `1.5`, expected a whole number (0: no limit)");
    insta::assert_snapshot!(refusal("[limits]\ndepth = 0\n"), @"salon.toml:2: `0` is not a whole number from 1 to 1024");
    insta::assert_snapshot!(refusal("[times]\nwrite_deadline = 30\n"), @"salon.toml:2: `30` is not a length of time more than 0 such as `30s` or `5m`");
    insta::assert_snapshot!(refusal("\nstore = \"http://u:secret@one.example\"\n"), @"salon.toml:2: a store is `sqlite`, or NATS servers such as `nats://host:4222` or `tls://host:4222`, several with commas between");
    insta::assert_snapshot!(refusal("[nats]\nreplicas = 2\n"), @"salon.toml:2: `2` is not 1, 3 or 5, or 0 for as many as the store was made with");
    insta::assert_snapshot!(refusal("[sqlite]\ndurability = \"maybe\"\n"), @"salon.toml:2: `maybe` is not one of `full`, `os`");
    insta::assert_snapshot!(refusal("[http]\norigins = [\n  \"https://a.example\",\n  \"*\",\n]\n"), @"salon.toml:4: `*` is not an origin as browsers send it, such as `https://chat.example` or `http://localhost:5173`");
    insta::assert_snapshot!(refusal("[auth]\njwks = \"http://id.example/keys\"\n"), @"salon.toml:2: the key set's place is not usable: keys from another machine need `https://`");
    insta::assert_snapshot!(refusal("[topics.\"room/alpha\"]\nhistory = false\n"), @"salon.toml:1: `room/alpha` is not a topic's name: '/' is not allowed: a name has letters and digits of ASCII, spaces between them, and ! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~");
    insta::assert_snapshot!(refusal("[topics.\"room:a\"]\nhistry = false\n"), @"
    salon.toml:2: unknown key `histry`

    hint: did you mean `history`?
    ");
    insta::assert_snapshot!(refusal("[topics.\"room:a\".guests.\"a/b\"]\ncommand = \"x\"\n"), @"salon.toml:1: `a/b` is not a participant's id: '/' is not allowed: a name has letters and digits of ASCII, spaces between them, and ! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~");
    insta::assert_snapshot!(refusal("[topics.\"room:a\".guests.\"system:x\"]\ncommand = \"x\"\n"), @"salon.toml:1: ids that begin with `system:` are the gateway's own");
    insta::assert_snapshot!(refusal("dev = true\n[topics.\"room:a\".guests.files]\ndisabled = true\n"), @"salon.toml:2: a guest needs `command` or `url`");
    insta::assert_snapshot!(refusal("[topics.\"room:a\".guests.files]\ncommand = \"x\"\nurl = \"http://x\"\n"), @"salon.toml:1: a guest has either `command` or `url`, not both");
    insta::assert_snapshot!(refusal("[topics.\"room:a\".guests.files]\ncommand = \"x\"\nheaders = { a = \"b\" }\n"), @"salon.toml:1: `headers` goes with `url`, not with `command`");
    insta::assert_snapshot!(refusal("[topics.\"room:a\".guests]\nfiles = { url = \"http://x\", args = [] }\n"), @"salon.toml:2: `args` goes with `command`, not with `url`");
    insta::assert_snapshot!(refusal("[topics.\"room:a\".guests.files]\nurl = \"http://x\"\ntransport = \"smoke\"\n"), @"salon.toml:3: `smoke` is not one of `http`, `sse`");
    insta::assert_snapshot!(refusal("[topics.\"room:a\".guests.files]\ncommand = \"x\"\nexpose = [\"tools\", \"rooms\"]\n"), @"salon.toml:3: `rooms` is not one of `tools`, `resources`, `prompts`");
    insta::assert_snapshot!(refusal("[topics.\"room:a\".guests.files]\ncommand = \"x\"\nexpose = []\n"), @"salon.toml:1: `expose` must name at least one of `tools`, `resources`, `prompts`");
    insta::assert_snapshot!(refusal("[topics.\"room:a\".guests.files]\ncommand = \"x\"\nkind = \"alien\"\n"), @"salon.toml:3: `alien` is not one of `human`, `agent`, `robot`");
    insta::assert_snapshot!(refusal("[topics.\"room:a\".guests.files]\ncommand = \"x\"\ntimeout = 30\n"), @"salon.toml:3: `30` is not a length of time more than 0 such as `30s` or `5m`");
    insta::assert_snapshot!(refusal("[topics.\"room:a\".guests.files]\ncommand = \"x\"\nenvFile = \".env\"\n"), @"
    salon.toml:3: unknown key `envFile`

    hint: did you mean `env_file`?
    ");
    insta::assert_snapshot!(refusal("[topics.\"room:a\".guests.files]\ncommand = \"x\"\nenv = { PORT = 1 }\n"), @"salon.toml:3: invalid type: integer `1`, expected a string");
    insta::assert_snapshot!(refusal("listen = \"127.0.0.1:1\"\nlisten = \"127.0.0.1:2\"\n"), @"salon.toml:2: duplicate key");
    insta::assert_snapshot!(refusal("listen = \n"), @"salon.toml:1: string values must be quoted, expected literal string");
    insta::assert_snapshot!(refusal("\n\n[limits\n"), @"salon.toml:3: unclosed table, expected `]`");
}

#[test]
fn a_key_of_an_earlier_version_is_refused_with_its_new_name() {
    insta::assert_snapshot!(refusal("[log]\nfilter = \"info\"\nurl = \"nats://u:secret@one.example\"\n"), @"
    salon.toml:3: unknown key `url`

    hint: `log.url` is called `store` now
    ");
    insta::assert_snapshot!(refusal("dev = true\nlog.durability = \"os\"\n"), @"
    salon.toml:2: unknown key `durability`

    hint: `log.durability` is called `sqlite.durability` now
    ");
    insta::assert_snapshot!(refusal("dev = true\n[tracing]\nfilter = \"info\"\n"), @"
    salon.toml:2: unknown key `tracing`

    hint: `tracing.format` is called `log.format` now, `tracing.filter` is called `log.filter` now
    ");
}

#[test]
fn no_name_of_an_earlier_version_is_in_use() {
    for setting in SETTINGS.iter() {
        assert!(renamed::by_flag(&setting.flag).is_none(), "{}", setting.flag);
        assert!(renamed::by_variable(&setting.variable).is_none(), "{}", setting.variable);
        assert_eq!(renamed::by_key(&setting.key).len(), 0, "{}", setting.key);
    }
    let new = |flag: &str| renamed::by_flag(flag).map(|setting| &*setting.flag);
    assert_eq!(new("--rate-limit"), Some("--limits-rate"));
    assert_eq!(new("--log"), Some("--store"));
    assert_eq!(new("--host"), Some("--http-hosts"));
    assert_eq!(new("--log-filter"), None, "it is as it was");
    assert_eq!(
        renamed::by_variable("SALON_DURABILITY").map(|setting| &*setting.variable),
        Some("SALON_SQLITE_DURABILITY")
    );
    assert!(renamed::by_variable("SALON_HOST").is_none(), "the second names of flags were no variables");
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    insta::assert_snapshot!(refusal("listen = \"0.0.0.0:80\"\n"), @"
    salon.toml:1: `0.0.0.0:80` is open to other machines, and without TLS tokens travel in the clear

    hint: set `tls.cert` and `tls.key`, or `plaintext = true` (`--plaintext`) behind a proxy that has TLS
    ");
    insta::assert_snapshot!(refusal("listen = \"[::]:80\"\ndev = true\nplaintext = true\n"), @"
    salon.toml:2: `dev` hands a token to anyone who asks, and `[::]:80` is open to other machines

    hint: listen on `127.0.0.1`, or leave `dev` out and use `salon token`
    ");
    insta::assert_snapshot!(refusal("[framed]\nlisten = \"0.0.0.0:81\"\n"), @"
    salon.toml:2: `0.0.0.0:81` is open to other machines, and without TLS tokens travel in the clear

    hint: set `tls.cert` and `tls.key`, or `plaintext = true` (`--plaintext`) behind a proxy that has TLS
    ");
    insta::assert_snapshot!(refusal("[tls]\ncert = \"c.pem\"\n"), @"
    salon.toml:2: a TLS certificate without its key

    hint: set `tls.key` too
    ");
    insta::assert_snapshot!(refusal("[tls]\nkey = \"k.pem\"\n"), @"
    salon.toml:2: a TLS key without its certificate

    hint: set `tls.cert` too
    ");
    insta::assert_snapshot!(refusal("store = \"nats://one.example\"\n[nats]\ncert = \"c.pem\"\n"), @"
    salon.toml:3: a certificate for NATS without its key

    hint: set `nats.key` too
    ");
    insta::assert_snapshot!(refusal("[nats]\nca = \"ca.pem\"\n"), @"
    salon.toml:2: something to show to NATS servers, but the store is not on NATS

    hint: set `store` (`--store nats://host:4222`) too
    ");
    insta::assert_snapshot!(refusal("[times]\nping_interval = \"45s\"\n"), @"
    salon.toml:2: a peer would be gone after 45s of silence but is only asked every 45s

    hint: make `times.silence_limit` more than `times.ping_interval`; three times is usual
    ");
    insta::assert_snapshot!(refusal("[memory]\ntotal = \"1MiB\"\n"), @"
    salon.toml:2: one room may use 4194304 bytes of memory, all together 1048576

    hint: make `memory.total` at least `memory.per_room`
    ");
}

#[test]
fn a_conflict_has_the_line_of_what_the_file_has_in_it() {
    let line = |file: &str, overrides: &str| {
        let told = load(file, overrides).expect_err("refused");
        told.split_once(": ").filter(|(place, _)| place.starts_with("salon.toml")).map(|(place, _)| place.to_owned())
    };
    let at = |number: usize| Some(format!("salon.toml:{number}"));
    let both = "\n[times]\nping_interval = \"9s\"\nsilence_limit = \"8s\"\n";
    assert_eq!(line(both, ""), at(4));
    assert_eq!(line(both, "times.silence_limit = \"7s\""), at(3), "the flag's value is not the file's");
    assert_eq!(line(both, "times.silence_limit = \"7s\"\ntimes.ping_interval = \"7s\""), None);
    assert_eq!(line("listen = \"0.0.0.0:1\"\n", "dev = true"), at(1));
    assert_eq!(line("# dev\ndev = true\n", "listen = \"0.0.0.0:1\""), at(2));
    assert_eq!(line("dev = false\n", "listen = \"0.0.0.0:1\""), None);
    assert_eq!(line("tls.cert = \"c.pem\"\n", ""), at(1), "dotted");
    assert_eq!(line("\nmemory = { total = 1 }\n", ""), at(2), "inline");
    assert_eq!(line("[memory]\ntotal = 1\n", "memory.per_room = 5"), at(2));
    assert_eq!(line("[memory]\nper_room = \"1GiB\"\n", ""), at(2));
    assert_eq!(line("[memory]\nper_room = \"1GiB\"\ntotal = 3\n", "memory.per_room = 5"), at(3));
    assert_eq!(line("[memory]\nper_room = 7\n", "memory.total = 5"), at(2));
    assert_eq!(line("[tls]\ncert = \"c.pem\"\n", "tls.cert = \"d.pem\""), None);
    assert_eq!(line("[tls]\nkey = \"k.pem\"\n", "tls.key = \"l.pem\""), None);
    assert_eq!(line("[memory]\ntotal = 7\n", "memory.total = 5\nmemory.per_room = 6"), None);
    assert_eq!(line("listen = \"0.0.0.0:1\"\n", "listen = \"0.0.0.0:2\""), None);
    assert_eq!(line("dev = true\n", "listen = \"0.0.0.0:2\"\ndev = true"), None);
}

#[test]
fn what_goes_together_is_accepted() {
    for fine in [
        "listen = \"0.0.0.0:80\"\nplaintext = true\n",
        "listen = \"0.0.0.0:80\"\n[tls]\ncert = \"c.pem\"\nkey = \"k.pem\"\n",
        "listen = \"[::1]:80\"\ndev = true\n",
        "listen = \"127.0.0.5:0\"\n",
    ] {
        load(fine, "").expect(fine);
    }
}

#[test]
fn namespaces_that_do_not_fit_are_told() {
    let told = |list: &str| refusal(&format!("[auth]\nnamespaces = [{list}]\n"));
    insta::assert_snapshot!(told(r#""matrix:*""#), @"salon.toml:2: `matrix:*` is not a namespace and the participant that is its bridge, such as `matrix:*=bridge:matrix`");
    insta::assert_snapshot!(told(r#""matrix*=bridge""#), @"salon.toml:2: `matrix*=bridge` is not a namespace and the participant that is its bridge, such as `matrix:*=bridge:matrix`");
    insta::assert_snapshot!(told(r#""m:*=a", "m:x:*=b""#), @"
    salon.toml:2: the namespaces `m:*` and `m:x:*` have ids in common

    hint: give each bridge ids that begin with a name of its own, such as `matrix:*=bridge:matrix`
    ");
}

#[test]
fn a_missing_file_is_told() {
    let scratch = Scratch::new();
    let error = Config::from_file(&scratch.path().join("gone.toml")).expect_err("refused").to_string();
    let error = error.replace(&scratch.path().display().to_string(), "FOLDER");
    insta::assert_snapshot!(error, @"the configuration file `FOLDER/gone.toml` could not be read: No such file or directory (os error 2)");
}

#[cfg(not(feature = "nats"))]
#[test]
fn a_log_on_nats_is_refused_without_the_feature() {
    insta::assert_snapshot!(refusal("dev = true\nstore = \"nats://u:secret@one.example\"\n"), @r#"
    salon.toml:2: this `salon` was built without support for NATS

    hint: use `store = "sqlite"` (`--store sqlite`), or install a `salon` with the feature `nats`, which is on by default
    "#);
    load("[nats]\nname = \"other\"\ntopics = 7\n", "").expect("what only names the store is no reason to refuse");
}
