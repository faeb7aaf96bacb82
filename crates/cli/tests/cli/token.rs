use std::os::unix::fs::PermissionsExt;

use data_encoding::BASE64URL_NOPAD;
use salon_gateway::auth::{Confirmation, LocalKey, Verifier};
use salon_protocol::Timestamp;
use salon_testkit::run;

use crate::salon::{BINARY, Home, finish};

#[test]
fn the_token_alone_is_on_stdout_and_says_what_was_asked() {
    let home = Home::new();
    let first = run(home.salon("token --topic room:alpha --topic lab:* --id alice --name Alice --kind human --ttl 15m --permission a --permission b"));
    assert_eq!(first.code, Some(0));
    let told = first.stderr.replace(&home.path().display().to_string(), "HOME");
    insta::assert_snapshot!(told, @"made a new key in `HOME/.local/share/salon`; the token works for a gateway that has its data there");

    let token = first.stdout.strip_suffix('\n').expect("one line");
    let data = home.path().join(".local/share/salon");
    let mode = std::fs::metadata(&data).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "the log will be there too");
    let key = LocalKey::find(&data).expect("readable").expect("made");
    // The token's own times are the only clock here.
    let claims = token.split('.').nth(1).expect("three parts");
    let issued = issued(claims);
    let grant = Verifier::new(&key).verify(token, Timestamp(issued * 1000)).expect("good at once");
    // Its beginning is rounded down to whole seconds and its end up.
    let lifetime = grant.expires.0 / 1000 - issued;
    assert!([15 * 60, 15 * 60 + 1].contains(&lifetime), "{lifetime} s");
    insta::assert_debug_snapshot!((grant.participant, grant.topics, grant.name, grant.kind, grant.permissions), @r#"
    (
        "alice",
        [
            Exact(
                "room:alpha",
            ),
            Prefix(
                "lab:",
            ),
        ],
        Some(
            "Alice",
        ),
        Some(
            Human,
        ),
        [
            "a",
            "b",
        ],
    )
    "#);

    let second = run(home.salon("token room:alpha --as alice"));
    assert_eq!(second.stderr, "", "the key is there now");
    assert_ne!(second.stdout, first.stdout);
}

#[test]
fn a_token_can_demand_signatures_and_name_a_key() {
    let home = Home::new();
    let key = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    let ran = run(home.salon(&format!("token room:alpha --as alice --require-integrity --integrity-key {key}")));
    let token = ran.stdout.trim();
    let local = LocalKey::find(&home.path().join(".local/share/salon")).expect("readable").expect("made");
    let issued = issued(token.split('.').nth(1).expect("three parts"));
    let grant = Verifier::new(&local).verify(token, Timestamp(issued * 1000)).expect("good at once");
    assert!(grant.require_integrity);
    assert_eq!(grant.confirmation, Confirmation::new(key));
    insta::assert_snapshot!(run(home.told("token room:alpha --as alice --integrity-key nonsense")), @"
    error: invalid value 'nonsense' for '--integrity-key <KEY>': it is not 32 bytes in base64url without padding

    hint: `--help` lists what there is
    exit: 2
    ");
}

/// The `iat` of a token's claims, which are base64url, in whole seconds.
fn issued(claims: &str) -> u64 {
    let text = BASE64URL_NOPAD.decode(claims.as_bytes()).expect("base64url");
    let claims: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    claims["iat"].as_f64().expect("a time") as u64
}

#[test]
fn what_cannot_be_a_token_is_refused() {
    let home = Home::new();
    let told = |arguments: &str| run(home.told(&format!("token {arguments}")));
    insta::assert_snapshot!(told("--id alice"), @"
    error: the following required arguments were not provided:
      <TOPIC>...

    Usage: salon token --as <ID> <TOPIC>...

    hint: `--help` lists what there is
    exit: 2
    ");
    insta::assert_snapshot!(told("--topic room:a --id system:gateway"), @"
    error: invalid value 'system:gateway' for '--as <ID>': ids that begin with `system:` are the gateway's own

    hint: `--help` lists what there is
    exit: 2
    ");
    insta::assert_snapshot!(told("--topic room:a --id al/ice"), @"
    error: invalid value 'al/ice' for '--as <ID>': '/' is not allowed: a name has letters and digits of ASCII, spaces between them, and ! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~

    hint: `--help` lists what there is
    exit: 2
    ");
    insta::assert_snapshot!(told("--topic ro/om --id alice"), @"
    error: invalid value 'ro/om' for '--topic <TOPIC>': '/' is not allowed: a name has letters and digits of ASCII, spaces between them, and ! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~

    hint: `--help` lists what there is
    exit: 2
    ");
    insta::assert_snapshot!(told("--topic room:a --id alice --ttl 0"), @"
    error: invalid value '0' for '--ttl <TIME>': `0` is not a length of time more than 0 such as `30s` or `5m`

    hint: `--help` lists what there is
    exit: 2
    ");
    insta::assert_snapshot!(told("--topic room:a --id alice --ttl 366d"), @"
    error: invalid value '366d' for '--ttl <TIME>': a token is good for at most 365d

    hint: `--help` lists what there is
    exit: 2
    ");
    insta::assert_snapshot!(told("--topic room:a --id alice --ttl soon"), @"
    error: invalid value 'soon' for '--ttl <TIME>': `soon` is not a length of time more than 0 such as `30s` or `5m`

    hint: `--help` lists what there is
    exit: 2
    ");
    insta::assert_snapshot!(told("--topic room:a --id alice --kind cat"), @"
    error: invalid value 'cat' for '--kind <KIND>'
      [possible values: human, agent, robot]

    hint: `--help` lists what there is
    exit: 2
    ");
    let long = "n".repeat(300);
    insta::assert_snapshot!(told(&format!("--topic room:a --id alice --name {long}")), @"
    made a new key in `HOME/.local/share/salon`; the token works for a gateway that has its data there
    error: the token's `name` is not usable: it has more than 256 characters
    exit: 2
    ");
    assert_eq!(told("--topic room:a --id alice --ttl 365d").matches('.').count(), 2, "the longest time is good");
}

#[test]
fn the_data_directory_comes_from_flag_variable_or_file() {
    let home = Home::new();
    home.write("salon.toml", "listen = \"0.0.0.0:80\"\ndata = \"from-file\"\n");
    run(async {
        home.salon("token room:a --as alice").await;
        let mut command = home.command(BINARY);
        command.args(["token", "--topic", "room:a", "--id", "alice"]).env("SALON_DATA", "from-variable");
        finish(command).await;
        home.salon("token room:a --as alice --data from-flag").await;
    });
    for place in ["from-file", "from-variable", "from-flag"] {
        assert!(home.path().join(place).join("auth.key").exists(), "{place}");
    }
}

#[test]
fn a_token_that_could_not_be_written_is_a_failure() {
    let home = Home::new();
    let mut shell = home.command("sh");
    shell.args(["-c", "\"$0\" token room:a --as alice >/dev/full", BINARY]);
    let ran = run(finish(shell));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("error: stdout could not be written: "), "{}", ran.stderr);
}

#[test]
fn an_unusable_key_is_told() {
    let home = Home::new();
    home.write("auth.key", "too short");
    let told = run(home.told("token room:a --as alice --data ."));
    insta::assert_snapshot!(told, @"
    error: the key file `./auth.key` is open to other users (mode 644)

    hint: run `chmod 600` on it; if others could have read it, delete it and a new key is made, which makes the tokens signed with the old one worthless
    exit: 1
    ");
}

#[test]
fn a_token_on_its_way_in_the_clear_is_warned_of() {
    let home = Home::new();
    let warned = |gateway: &str| {
        let ran = run(home.salon(&format!("who room:alpha --token abc --gateway {gateway}")));
        assert_eq!(ran.code, Some(7), "nobody is there: {}", ran.stderr);
        ran.stderr.contains("without encryption")
    };
    assert!(warned("http://nobody.invalid"));
    assert!(!warned("https://nobody.invalid"));
    assert!(!warned("http://127.0.0.1:1"));
}
