use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use serde::de::value::Error;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use salon_protocol::TopicName;

use super::*;
use crate::auth::jwks::JwksSource;
use crate::scratch::Scratch;

fn document() -> String {
    std::fs::read_to_string(document::PATH).expect("a document")
}

/// What comes of a file and of overrides written like one: the settings, or the error with the scratch folder's name left out.
fn load(file: &str, overrides: &str) -> Result<Config, String> {
    let scratch = Scratch::new();
    let path = scratch.path().join("salon.toml");
    std::fs::write(&path, file).expect("written");
    Config::load(Some(&path), toml::from_str(overrides).expect("overrides"))
        .map_err(|error| error.to_string().replace(&format!("{}/", scratch.path().display()), ""))
}

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
    insta::assert_snapshot!(refusal("\nlisten = \"localhost\"\n"), @"salon.toml:2: `localhost` is not an IP address and port such as `127.0.0.1:8787` or `[::1]:8787`");
    insta::assert_snapshot!(refusal("listen = true\n"), @"salon.toml:1: invalid type: boolean `true`, expected an IP address and port such as `127.0.0.1:8787` or `[::1]:8787`");
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
fn a_missing_file_is_told() {
    let scratch = Scratch::new();
    let error = Config::from_file(&scratch.path().join("gone.toml")).expect_err("refused").to_string();
    let error = error.replace(&scratch.path().display().to_string(), "FOLDER");
    insta::assert_snapshot!(error, @"the configuration file `FOLDER/gone.toml` could not be read: No such file or directory (os error 2)");
}

#[test]
fn overrides_outweigh_the_file_and_leave_the_rest() {
    let config = load(
        "listen = \"127.0.0.1:1\"\ndev = true\n[limits]\nrate = 1\nburst = 2\n[http]\norigins = [\"https://a.example\"]\n[tls]\ncert = \"c.pem\"",
        "listen = \"127.0.0.1:2\"\n[limits]\nrate = 0\n[http]\norigins = [\"https://b.example\"]\n[tls]\nkey = \"k.pem\"",
    )
    .expect("a configuration");
    assert_eq!(config.listen.port(), 2);
    assert!(config.dev);
    assert_eq!((config.limits.rate, config.limits.burst), (0, 2));
    assert_eq!(config.http.origins, ["https://b.example"]);
    let (cert, key) = config.tls().expect("both");
    assert!(cert.is_absolute() && cert.ends_with("c.pem"), "taken from the file's folder");
    assert_eq!(key, Path::new("k.pem"), "taken from the working directory");
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

#[cfg(feature = "nats")]
#[test]
fn every_setting_arrives() {
    let file = r#"
        listen = "127.0.0.2:1"
        data = "/data"
        dev = true
        plaintext = true
        store = "nats://alice:secret@one.example,tls://two.example:4333"
        [framed]
        listen = "127.0.0.3:2"
        [tls]
        cert = "/cert"
        key = "/key"
        [nats]
        name = "other"
        credentials = "/creds"
        ca = "/ca"
        cert = "/log-cert"
        key = "/log-key"
        replicas = 5
        topics = 21
        [sqlite]
        durability = "os"
        [retention]
        age = "1d"
        count = 2
        [limits]
        message = 3
        answer = 18
        depth = 4
        recipients = 5
        rate = 6
        burst = 7
        participants = 8
        connections_per_participant = 9
        connections_per_address = 10
        read_rate = 25
        bodies = 26
        bodies_per_sender = 27
        body_bytes = 28
        body_bytes_per_sender = 29
        byte_rate = "11KiB"
        byte_burst = "12KiB"
        topic_byte_rate = "13KiB"
        gateway_byte_rate = "14KiB"
        topic_stored = "18KiB"
        participant_stored = "19KiB"
        context_stored = "20KiB"
        gateway_stored = "21KiB"
        disk_reserve = "17KiB"
        rooms = 15
        rooms_per_participant = 16
        [memory]
        per_room = 11
        total = 12
        [times]
        write_deadline = "13s"
        ping_interval = "14s"
        silence_limit = "15s"
        crash_grace = "16s"
        drain_deadline = "17s"
        heartbeat = "18s"
        [http]
        origins = ["https://nineteen.example"]
        hosts = ["twenty.example"]
        public_url = "https://public.example"
        [auth]
        jwks = "/keys"
        jwks_max_age = "31s"
        authorization_servers = ["https://id.example"]
        resource = "https://resource.example"
        topics_claim = "topics"
        permissions_claim = "/a/b"
        max_token_lifetime = "30s"
        integrity_keys = ["robots=11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"]
        [ui]
        enabled = false
        allow = ["rover/*"]
        [log]
        format = "json"
        filter = "debug"
        [audit]
        enabled = false
        file = "/audit"
        max_size = 22
        max_age = "23s"
        max_files = 24
    "#;
    for Setting { key, .. } in SETTINGS.iter() {
        let name = key.rsplit('.').next().expect("a name");
        assert!(file.contains(&format!(" {name} = ")), "`{key}` is not tried here");
    }
    let config = format!("{:#?}", load(file, "").expect("a configuration"));
    // The rest is no setting.
    let (settings, _) = config.split_once("    history_off: ").expect("the first of the others");
    insta::assert_snapshot!(settings, @r#"
    Config {
        listen: 127.0.0.2:1,
        data: "/data",
        dev: true,
        plaintext: true,
        store: Nats(
            [
                "one.example:4222",
                "two.example:4333",
            ],
        ),
        framed: FramedSettings {
            listen: Some(
                127.0.0.3:2,
            ),
        },
        tls: TlsSettings {
            cert: Some(
                "/cert",
            ),
            key: Some(
                "/key",
            ),
        },
        http: HttpSettings {
            origins: [
                "https://nineteen.example",
            ],
            hosts: [
                "twenty.example",
            ],
            public_url: Some(
                "https://public.example",
            ),
        },
        auth: AuthSettings {
            jwks: Some(
                JwksSource(/keys),
            ),
            jwks_max_age: 31s,
            authorization_servers: [
                "https://id.example",
            ],
            resource: Some(
                "https://resource.example",
            ),
            topics_claim: "topics",
            permissions_claim: "/a/b",
            max_token_lifetime: 30s,
            integrity_keys: [
                (
                    "robots",
                    Confirmation(11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo),
                ),
            ],
        },
        ui: UiSettings {
            enabled: false,
            allow: [
                "rover/*",
            ],
        },
        sqlite: SqliteSettings {
            durability: Os,
        },
        nats: NatsSettings {
            name: "other",
            credentials: Some(
                "/creds",
            ),
            ca: Some(
                "/ca",
            ),
            cert: Some(
                "/log-cert",
            ),
            key: Some(
                "/log-key",
            ),
            replicas: Some(
                5,
            ),
            topics: 21,
        },
        retention: RetentionSettings {
            age: Some(
                86400s,
            ),
            count: Some(
                2,
            ),
        },
        limits: LimitSettings {
            message: 3,
            answer: 18,
            depth: 4,
            recipients: 5,
            rate: 6,
            burst: 7,
            byte_rate: 11264,
            byte_burst: 12288,
            topic_byte_rate: 13312,
            gateway_byte_rate: 14336,
            topic_stored: 18432,
            participant_stored: 19456,
            context_stored: 20480,
            gateway_stored: 21504,
            disk_reserve: 17408,
            rooms: 15,
            rooms_per_participant: 16,
            participants: 8,
            connections_per_participant: 9,
            connections_per_address: 10,
            read_rate: 25,
            bodies: 26,
            bodies_per_sender: 27,
            body_bytes: 28,
            body_bytes_per_sender: 29,
        },
        memory: MemorySettings {
            per_room: 11,
            total: 12,
        },
        times: TimeSettings {
            write_deadline: 13s,
            ping_interval: 14s,
            silence_limit: 15s,
            crash_grace: 16s,
            drain_deadline: 17s,
            heartbeat: 18s,
        },
        log: LogSettings {
            format: Json,
            filter: "debug",
        },
        audit: AuditSettings {
            enabled: false,
            file: Some(
                "/audit",
            ),
            max_size: 22,
            max_age: 23s,
            max_files: 24,
        },
    "#);
}

#[test]
fn the_defaults_are_those_of_the_crates_that_use_them() {
    let config = Config::default();
    let envelope = config.limits.envelope();
    let usual = salon_protocol::Limits::default();
    assert_eq!((envelope.message, envelope.depth, envelope.recipients), (usual.message, usual.depth, usual.recipients));
    assert_eq!(config.nats.topics, salon_log::DEFAULT_MAX_TOPICS);
    assert_eq!(config.retention_rules().default, Retention::default());
}

#[test]
fn names_of_settings_are_unique() {
    for name in [|s: &Setting| s.key.clone(), |s: &Setting| s.flag.clone(), |s: &Setting| s.variable.clone()] {
        let names: BTreeSet<_> = SETTINGS.iter().map(name).collect();
        assert_eq!(names.len(), SETTINGS.len());
    }
}

#[test]
fn paths_of_a_file_are_relative_to_it() {
    let config = load("data = \"d\"\n[auth]\njwks = \"keys.json\"\n", "").expect("a configuration");
    assert!(config.data.is_absolute() && config.data.ends_with("d"));
    assert_eq!(config.auth.jwks, Some(JwksSource::File(config.data.with_file_name("keys.json"))));
    assert_eq!(config.audit_path(), Some(config.data.join("audit.log")));
    let elsewhere = load("[audit]\nfile = \"/a/b.log\"\n", "").expect("a configuration");
    assert_eq!(elsewhere.audit_path(), Some("/a/b.log".into()));
    assert_eq!(load("[audit]\nenabled = false\n", "").expect("a configuration").audit_path(), None);
}

#[test]
fn a_topic_keeps_what_it_says_and_inherits_the_rest() {
    let config = load(
        "[topics.\"room:a\"]\nhistory = false\nretention = { count = 5 }\n[topics.\"room:b\".retention]\nage = 0\n",
        "[retention]\nage = \"7d\"\ncount = 9",
    )
    .expect("a configuration");
    let topic = |name: &str| TopicName::new(name).expect("a name");
    let week = Some(Duration::from_secs(7 * 24 * 60 * 60));
    assert_eq!(config.retention_rules().of(&topic("room:a")), Retention { age: week, count: Some(5) });
    assert_eq!(config.retention_rules().of(&topic("room:b")), Retention { age: None, count: Some(9) });
    assert_eq!(config.retention_rules().of(&topic("room:c")), Retention { age: week, count: Some(9) });
    assert_eq!(config.history_off, HashSet::from([topic("room:a")]));
}

#[test]
fn guests_arrive_as_they_are_written_and_show_no_secret() {
    let file = r#"
        [topics."room:lab".guests.files]
        command = "npx"
        args = ["-y", "server", "${HOME}"]
        env = { TOKEN = "${TOKEN:-none}", A = "b" }
        cwd = "sub"
        env_file = ".env"
        user = "mcp"
        name = "Files"
        kind = "robot"
        isolated = true
        expose = ["tools", "prompts"]
        allow_tools = ["read_*"]
        deny_tools = ["read_secret"]
        timeout = "5m"
        disabled = true
        [topics."room:lab".guests.web]
        url = "https://mcp.example/?key=secret"
        headers = { Authorization = "Bearer ${KEY}" }
        transport = "sse"
    "#;
    let config = load(file, "").expect("a configuration");
    let [files, web] = &config.guests[..] else { panic!("two guests") };
    assert!(files.file.ends_with("salon.toml"));
    let GuestServer::Command { command, args, env, .. } = &files.terms.server else { panic!("a command") };
    assert_eq!((&*command.0, &args.0[2][..]), ("npx", "${HOME}"));
    assert_eq!(env.0.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(), ["A=b", "TOKEN=${TOKEN:-none}"]);
    let GuestServer::Url { url, headers, .. } = &web.terms.server else { panic!("a URL") };
    assert_eq!((&*url.0, &*headers.0["Authorization"]), ("https://mcp.example/?key=secret", "Bearer ${KEY}"));
    insta::assert_snapshot!(format!("{:?} {:?}", files.terms, web.terms), @r#"GuestOf { server: Command { command: …, args: …, env: …, cwd: Some("sub"), env_file: Some(".env"), user: Some("mcp") }, name: Some("Files"), kind: Some(Robot), isolated: true, expose: Some([Tools, Prompts]), allow_tools: Some(["read_*"]), deny_tools: ["read_secret"], timeout: Some(300s), disabled: true } GuestOf { server: Url { url: …, headers: …, transport: Some(Sse) }, name: None, kind: None, isolated: false, expose: None, allow_tools: None, deny_tools: [], timeout: None, disabled: false }"#);
}

#[test]
fn the_data_directory_is_where_such_things_go() {
    let directory =
        |xdg: Option<&str>, home: Option<&str>| data_directory_in(xdg.map(Into::into), home.map(Into::into));
    assert_eq!(directory(Some("/x"), Some("/h")), Path::new("/x/salon"));
    assert_eq!(directory(Some("relative"), Some("/h")), Path::new("/h/.local/share/salon"));
    assert_eq!(directory(None, Some("/h")), Path::new("/h/.local/share/salon"));
    assert_eq!(directory(None, None), Path::new("salon-data"));
}

#[test]
fn the_document_lists_every_setting() {
    let keys = keys();
    let described: BTreeSet<_> = SETTINGS.iter().map(|setting| setting.key.clone()).collect();
    let of_all: BTreeSet<_> = keys.iter().filter(|key| !key.starts_with("topics.")).cloned().collect();
    assert_eq!(of_all, described, "every key of the file has its variable and flag");
    assert!(keys.len() > described.len(), "the keys of single topics are among them");
    let document = document();
    for key in &keys {
        assert!(document.contains(&format!("| `{key}` |")), "docs/configuration.md does not describe `{key}`");
    }
    for Setting { key, variable, flag, .. } in SETTINGS.iter() {
        let row = format!("| `{key}` | `{variable}` | `{flag}` |");
        assert!(document.contains(&row), "docs/configuration.md has no row that begins {row}");
    }
}

#[test]
fn the_document_tells_the_defaults() {
    let document = document();
    let (_, example) = document.rsplit_once("```toml\n").expect("an example");
    let example = example.strip_suffix("```\n").expect("its end");
    let told = load(example, "").expect("an example that works");
    assert_eq!(format!("{told:?}"), format!("{:?}", Config::default()));
    // What is commented out has no default to tell, but is a key all the same; everything else is there.
    for Setting { key, .. } in SETTINGS.iter() {
        let name = key.rsplit('.').next().expect("a name");
        let told = example.lines().any(|line| line.trim_start_matches("# ").starts_with(&format!("{name} = ")));
        assert!(told, "the example has no `{key}`");
    }
}

/// The keys of the file's format, as its own deserialiser asks for them.
fn keys() -> BTreeSet<String> {
    let found = RefCell::default();
    Overrides::deserialize(Probe { path: "", found: &found }).expect("a probe gives every section what it asks for");
    found.into_inner()
}

/// Plays a document in which every section is there and every value is left out.
#[derive(Clone, Copy)]
struct Probe<'a> {
    path: &'a str,
    found: &'a RefCell<BTreeSet<String>>,
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.found.borrow_mut().insert(self.path.to_owned());
        // A guest is refused without it.
        if self.path.ends_with(".command") {
            return visitor.visit_some(serde::de::value::StrDeserializer::new("server"));
        }
        visitor.visit_none()
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(Fields { probe: self, keys: keys.to_vec(), shown: None })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Fields { probe: self, keys: vec!["any"], shown: Some("<name>") })
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        panic!("`{}` is neither a section nor optional", self.path)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq
        tuple tuple_struct enum identifier ignored_any
    }
}

struct Fields<'a> {
    probe: Probe<'a>,
    keys: Vec<&'static str>,
    shown: Option<&'static str>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.keys.last().map(|key| seed.deserialize(serde::de::value::StrDeserializer::new(key))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let key = self.keys.pop().expect("a key came first");
        let key = self.shown.unwrap_or(key);
        let path = if self.probe.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.probe.path) };
        seed.deserialize(Probe { path: &path, ..self.probe })
    }
}
