mod arriving;
mod documents;
mod mistakes;

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use salon_protocol::TopicName;

use super::*;
use crate::auth::jwks::JwksSource;
use crate::scratch::Scratch;

/// What comes of a file and of overrides written like one: the settings, or the error with the scratch folder's name left out.
fn load(file: &str, overrides: &str) -> Result<Config, String> {
    let scratch = Scratch::new();
    let path = scratch.path().join("salon.toml");
    std::fs::write(&path, file).expect("written");
    Config::load(Some(&path), toml::from_str(overrides).expect("overrides"))
        .map_err(|error| error.to_string().replace(&format!("{}/", scratch.path().display()), ""))
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
