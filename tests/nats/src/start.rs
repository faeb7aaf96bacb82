//! Starting on NATS: how a node shows who it is, and which servers, streams and keys it refuses, with what words.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use libtest_mimic::Trial;
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer};
use salon_log::cluster::{Cluster, Keyspace};
use salon_log::nats::{Nats, NatsOptions, Timings};
use salon_log::{Span, TopicLog};
use salon_testkit::http::HttpCall;
use salon_testkit::nats::{NatsServers, frame};
use salon_testkit::nats_trials;
use salon_testkit::{Scratch, TestGateway, TestSocket, TestToken, within};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::props::{at, ids, line, options, room};

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = nats_trials![
        a_server_is_known_by_its_certificate,
        a_certificate_is_shown_to_servers_that_ask,
        a_credentials_file_is_shown,
        a_user_and_password_of_the_url_are_shown,
        a_token_of_the_url_is_shown,
        a_server_that_is_not_as_it_must_be_is_refused,
        a_stream_that_was_changed_is_told_at_the_start,
        a_stream_of_an_earlier_layout_is_migrated,
        the_values_of_a_keyspace_are_kept_as_long_as_the_newest_gateway_says,
        one_topic_too_many_is_told_at_the_door,
    ];
    // These need no server.
    let always = nats_trials![a_server_that_is_too_old_is_refused, nobody_listens];
    trials.extend(always.into_iter().map(|trial| trial.with_ignored_flag(false)));
    trials
}

/// Opens a log, and sees that it takes and gives something.
async fn works(options: NatsOptions) {
    let log = within("a log", Nats::open(options)).await.expect("in time").expect("a log");
    log.append(&room(), line("e1")).await.expect("stored");
    let kept = log.read(&room(), Span::Newest, 10).await.expect("a read");
    assert_eq!(ids(&kept), ["e1"]);
    log.close().await;
}

async fn refusal(options: NatsOptions) -> String {
    match within("an answer", Nats::open(options)).await.expect("in time") {
        Ok(_) => "opened".into(),
        Err(error) => error.to_string(),
    }
}

/// Why a log could not be opened, without what is another in every run.
async fn told(options: NatsOptions, files: &Files) -> String {
    let ports: Vec<_> = options.servers.iter().filter_map(|url| url.rsplit(':').next()).map(str::to_owned).collect();
    let mut told = refusal(options).await.replace(&files.0.path().display().to_string(), "DIR");
    for port in ports {
        told = told.replace(&port, "PORT");
    }
    told
}

/// Files of one test.
struct Files(Scratch);

impl Files {
    fn new() -> Self {
        Self(Scratch::new().expect("a directory"))
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("written");
        path
    }

    /// The name of a certificate's file and that of its key.
    fn certificate(&self, name: &str, ca: &Authority) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &ca.issuer).expect("a certificate");
        (self.put(&format!("{name}.pem"), &signed.pem()), self.put(&format!("{name}.key"), &key.serialize_pem()))
    }
}

/// Somebody who signs certificates.
struct Authority {
    issuer: Issuer<'static, rcgen::KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(files: &Files, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("a key");
        let file = files.put(&format!("{name}.pem"), &params.self_signed(&key).expect("a certificate").pem());
        Self { issuer: Issuer::new(params, key), file }
    }
}

/// What a server has in its configuration in order to speak TLS.
fn tls((certificate, key): &(PathBuf, PathBuf), ca: Option<&Authority>) -> String {
    let verify = ca.map(|ca| format!(", ca_file: {:?}, verify: true", ca.file)).unwrap_or_default();
    format!("tls {{ cert_file: {certificate:?}, key_file: {key:?}{verify} }}")
}

async fn a_server_is_known_by_its_certificate() {
    let files = Files::new();
    let (ours, other) = (Authority::new(&files, "ours"), Authority::new(&files, "other"));
    let more = tls(&files.certificate("server", &ours), None);
    let servers = NatsServers::configured(&more).await.expect("a NATS server");
    let with = |scheme: &str, ca: Option<&Authority>| NatsOptions {
        servers: vec![servers.url().replace("nats://", scheme)],
        ca: ca.map(|ca| ca.file.clone()),
        ..NatsOptions::default()
    };
    works(with("tls://", Some(&ours))).await;
    works(with("nats://", Some(&ours))).await;
    for ca in [None, Some(&other)] {
        let why = told(with("tls://", ca), &files).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(why, @"NATS at `127.0.0.1:PORT` cannot be connected to: IO error: invalid peer certificate: UnknownIssuer; see that their certificates are for these names, and that what signed them is in `nats.ca`");
        }
    }
    // No word is said in the clear to one that has no TLS where it is demanded.
    let plain = NatsServers::one().await.expect("a NATS server");
    let url = plain.url().replace("nats://", "tls://alice:s3cret@");
    let demanding = at(&url);
    let why = told(demanding, &files).await;
    assert!(why.starts_with("NATS at `127.0.0.1:PORT` cannot be connected to: IO error: "), "{why}");
    assert!(!why.contains("s3cret"), "{why}");
    for text in ["", "not a certificate"] {
        let ca = Some(files.put("broken.pem", text));
        let why = told(NatsOptions { ca, ..with("tls://", None) }, &files).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(why, @"`DIR/broken.pem` cannot be used: nothing of its kind is in it, as PEM");
        }
    }
    let absent = NatsOptions { ca: Some(files.0.path().join("absent.pem")), ..with("tls://", None) };
    insta::assert_snapshot!(told(absent, &files).await, @"`DIR/absent.pem` cannot be used: No such file or directory (os error 2)");
}

async fn a_certificate_is_shown_to_servers_that_ask() {
    let files = Files::new();
    let (ours, other) = (Authority::new(&files, "ours"), Authority::new(&files, "other"));
    let more = tls(&files.certificate("server", &ours), Some(&ours));
    let servers = NatsServers::configured(&more).await.expect("a NATS server");
    let with = |certificate: Option<(PathBuf, PathBuf)>| NatsOptions {
        servers: vec![servers.url().replace("nats://", "tls://")],
        ca: Some(ours.file.clone()),
        certificate,
        ..NatsOptions::default()
    };
    let own = files.certificate("gateway", &ours);
    works(with(Some(own.clone()))).await;
    // Whether the server's word comes before its end is not sure.
    for wrong in [None, Some(files.certificate("stranger", &other))] {
        let why = told(with(wrong), &files).await;
        assert!(why.starts_with("NATS at `127.0.0.1:PORT` cannot be connected to: IO error: "), "{why}");
        assert!(why.ends_with("shown a certificate they trust: `nats.cert` and `nats.key`"), "{why}");
    }
    let mixed = (own.0.clone(), files.certificate("second", &ours).1);
    insta::assert_snapshot!(told(with(Some(mixed)), &files).await, @"NATS at `127.0.0.1:PORT` cannot be connected to: TLS error: could not add certificate or key; see that `nats.key` is the key of `nats.cert`");
    let garbage = (own.0.clone(), files.put("garbage.key", "nothing"));
    insta::assert_snapshot!(told(with(Some(garbage)), &files).await, @"`DIR/garbage.key` cannot be used: nothing of its kind is in it, as PEM");
    let absent = (own.0, files.0.path().join("absent.key"));
    insta::assert_snapshot!(told(with(Some(absent)), &files).await, @"`DIR/absent.key` cannot be used: No such file or directory (os error 2)");
}

/// What an operator, an account and a user know of each other.
fn signed(by: &KeyPair, subject: &str, name: &str, nats: Value) -> String {
    let mut claims = json!({ "jti": name, "iat": 1_700_000_000, "iss": by.public_key(), "sub": subject, "name": name });
    claims["nats"] = nats;
    let head = BASE64URL_NOPAD.encode(br#"{"typ":"JWT","alg":"ed25519-nkey"}"#);
    let text = format!("{head}.{}", BASE64URL_NOPAD.encode(claims.to_string().as_bytes()));
    let signature = BASE64URL_NOPAD.encode(&by.sign(text.as_bytes()).expect("a signature"));
    format!("{text}.{signature}")
}

fn credentials(token: &str, user: &KeyPair) -> String {
    let seed = user.seed().expect("a seed");
    format!(
        "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

async fn a_credentials_file_is_shown() {
    let (operator, account, user) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_user());
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
        "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
    });
    let system = KeyPair::new_account();
    let of_operator = json!({ "type": "operator", "version": 2, "system_account": system.public_key() });
    let of_system = json!({ "type": "account", "version": 2, "limits": { "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1 } });
    let of_account = json!({ "type": "account", "version": 2, "limits": limits });
    let of_user = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
    let more = format!(
        "operator: {:?}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {:?}, {}: {:?} }}",
        signed(&operator, &operator.public_key(), "operator", of_operator),
        system.public_key(),
        account.public_key(),
        signed(&operator, &account.public_key(), "salon", of_account),
        system.public_key(),
        signed(&operator, &system.public_key(), "system", of_system),
    );
    let servers = NatsServers::configured(&more).await.expect("a NATS server");
    let files = Files::new();
    let with = |text: &str| NatsOptions { credentials: Some(files.put("salon.creds", text)), ..options(&servers) };
    let token = signed(&account, &user.public_key(), "gateway", of_user.clone());
    let right = credentials(&token, &user);
    works(with(&right)).await;
    let (stranger, seed) = (KeyPair::new_account(), user.seed().expect("a seed"));
    let forged = signed(&stranger, &user.public_key(), "gateway", of_user);
    let mut all = String::new();
    for (what, text) in [
        ("nothing", String::new()),
        ("no seed", format!("-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n")),
        ("a broken seed", right.replace(&seed, &seed[..20])),
        ("another's seed", credentials(&token, &KeyPair::new_user())),
        ("a stranger's word", credentials(&forged, &user)),
    ] {
        let told = told(with(&text), &files).await;
        assert!(!told.contains(&token) && !told.contains(&seed[..20]), "{told}");
        all += &format!("{what}: {told}\n");
    }
    let absent = NatsOptions { credentials: Some(files.0.path().join("absent.creds")), ..options(&servers) };
    all += &format!("absent: {}\nnone: {}", told(absent, &files).await, told(options(&servers), &files).await);
    insta::assert_snapshot!(all, @"
    nothing: `DIR/salon.creds` cannot be used: cannot parse user JWT from the credentials file
    no seed: `DIR/salon.creds` cannot be used: cannot parse nkey from the credentials file
    a broken seed: `DIR/salon.creds` cannot be used: Invalid key length: Bad seed length: 20
    another's seed: NATS at `127.0.0.1:PORT` cannot be connected to: authorization violation: nats: authorization violation; see that the servers know what they are shown: the user and password or the token in `store`, or the file `nats.credentials`
    a stranger's word: NATS at `127.0.0.1:PORT` cannot be connected to: authorization violation: nats: authorization violation; see that the servers know what they are shown: the user and password or the token in `store`, or the file `nats.credentials`
    absent: `DIR/absent.creds` cannot be used: loading creds file 'DIR/absent.creds': No such file or directory (os error 2)
    none: NATS at `127.0.0.1:PORT` cannot be connected to: authorization violation: nats: authorization violation; see that the servers know what they are shown: the user and password or the token in `store`, or the file `nats.credentials`
    ");
}

async fn a_user_and_password_of_the_url_are_shown() {
    let more = r#"authorization { user: "al@ice", password: "s3cr:t" }"#;
    let servers = NatsServers::configured(more).await.expect("a NATS server");
    let files = Files::new();
    let with = |user: &str| {
        let url = servers.url().replace("nats://", &format!("nats://{user}"));
        at(&url)
    };
    works(with("al%40ice:s3cr%3At@")).await;
    for wrong in ["", "al%40ice:wr0ng@", "t0ken@"] {
        let why = told(with(wrong), &files).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(why, @"NATS at `127.0.0.1:PORT` cannot be connected to: authorization violation: nats: authorization violation; see that the servers know what they are shown: the user and password or the token in `store`, or the file `nats.credentials`");
        }
    }
    let two = NatsOptions {
        servers: ["u:p", "u:q"].map(|user| format!("nats://{user}@h:1")).into(),
        ..NatsOptions::default()
    };
    insta::assert_snapshot!(refusal(two).await, @"the URLs of the NATS servers name different users or passwords; all servers of a cluster are shown the same");
}

async fn a_token_of_the_url_is_shown() {
    let servers = NatsServers::configured(r#"authorization { token: "t0ken" }"#).await.expect("a NATS server");
    let url = servers.url().replace("nats://", "nats://t0ken@");
    works(at(&url)).await;
}

async fn a_server_that_is_not_as_it_must_be_is_refused() {
    let servers = NatsServers::configured("max_payload: 64KB").await.expect("a NATS server");
    insta::assert_snapshot!(refusal(options(&servers)).await, @"the NATS server takes messages of at most 65536 bytes, and at least 131072 are needed: raise its `max_payload`, to 2MB for the usual limits");
    let servers = NatsServers::configured("jetstream: disabled").await.expect("a NATS server");
    let timings = Timings { start_retry_delay: Duration::from_millis(10), ..Timings::FAST };
    let told = refusal(NatsOptions { timings, ..options(&servers) }).await;
    assert!(told.starts_with("the NATS server answers, but JetStream does not: start it with `--jetstream`"), "{told}");
}

async fn a_stream_that_was_changed_is_told_at_the_start() {
    let servers = NatsServers::one().await.expect("a NATS server");
    Nats::look(&options(&servers)).await.expect("nothing is there, and nothing wrong");
    let listed = servers.ask("STREAM.NAMES", &json!({})).await.expect("an answer");
    assert_eq!(listed["total"], 0, "looking made something: {listed}");
    let log = Nats::open(options(&servers)).await.expect("a log");
    log.append(&room(), line("e1")).await.expect("stored");
    log.close().await;
    Nats::look(&options(&servers)).await.expect("as it was made");
    let other_key = NatsOptions { fingerprint: "another".into(), ..options(&servers) };
    let told = Nats::look(&other_key).await.expect_err("another key").to_string();
    assert!(told.contains("have another key"), "{told}");

    let made = servers.first_shard().await.expect("a topic");
    servers.change(&made, "max_msgs", json!(5)).await.expect("changed");
    let told = refusal(options(&servers)).await;
    assert!(told.ends_with("was changed: `max_msgs` is 5 and must be 0"), "{told}");
    let looked = Nats::look(&options(&servers)).await.expect_err("it was changed").to_string();
    assert_eq!(looked, told, "a look says what a start would");
    servers.change(&made, "max_msgs", json!(-1)).await.expect("changed");
    let context = servers.ask("STREAM.INFO.salon-context", &json!({})).await.expect("an answer");
    servers.change(&context, "max_msg_size", json!(1000)).await.expect("changed");
    insta::assert_snapshot!(refusal(options(&servers)).await, @"the stream `salon-context` was changed: `max_msg_size` is 1000 and must be 0");
}

async fn a_stream_of_an_earlier_layout_is_migrated() {
    let servers = NatsServers::one().await.expect("a NATS server");
    works(options(&servers)).await;
    let described = async |stream: &str| servers.ask(&format!("STREAM.INFO.{stream}"), &json!({})).await.expect("told");
    let streams = ["salon-shard-0", "salon-context", "KV_salon-folds", "KV_salon-seats", "KV_salon-meta"];
    // As an earlier version would have left them, had its settings been others.
    for stream in streams {
        let mut made = described(stream).await;
        assert_eq!(made["config"]["metadata"]["salon-layout"], "2", "{made}");
        made["config"]["metadata"].as_object_mut().expect("metadata").remove("salon-layout");
        made["config"]["description"] = "ours".into();
        servers.change(&made, "max_msgs", json!(50_000)).await.expect("changed");
    }
    Nats::look(&options(&servers)).await.expect("it can be opened");
    assert_eq!(described(streams[0]).await["config"]["max_msgs"], 50_000, "looking changes nothing");
    let log = Nats::open(options(&servers)).await.expect("a log");
    assert_eq!(ids(&log.read(&room(), Span::Newest, 10).await.expect("a read")), ["e1"]);
    log.append(&room(), line("e2")).await.expect("stored");
    log.close().await;
    for stream in streams {
        let config = &described(stream).await["config"];
        assert_eq!((&config["metadata"]["salon-layout"], &config["max_msgs"]), (&json!("2"), &json!(-1)), "{config}");
        assert_eq!(config["description"], "ours", "what the layout says nothing of stays: {config}");
    }
    let mut made = described(streams[0]).await;
    made["config"]["metadata"]["salon-layout"] = "3".into();
    servers.change(&made, "max_msgs", json!(-1)).await.expect("changed");
    let told = refusal(options(&servers)).await;
    assert!(told.ends_with("has the layout 3, and this program knows layouts up to 2"), "{told}");
}

async fn the_values_of_a_keyspace_are_kept_as_long_as_the_newest_gateway_says() {
    let servers = NatsServers::one().await.expect("a NATS server");
    for seconds in [30, 3600, 20] {
        let space = Keyspace { name: "space", time_to_live: Duration::from_secs(seconds) };
        let with = NatsOptions { keyspaces: vec![space], ..options(&servers) };
        Nats::look(&with).await.expect("it can be opened");
        let log = Nats::open(with).await.expect("a log");
        log.keep(space, "a-key", b"value".to_vec()).await.expect("kept");
        log.close().await;
        let made = servers.ask("STREAM.INFO.KV_salon-space", &json!({})).await.expect("told");
        assert_eq!(made["config"]["max_age"], seconds * 1_000_000_000, "{made}");
    }
}

/// A server of another version, as far as it says hello.
async fn a_server_that_is_too_old_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let info = json!({
                    "server_id": "N", "server_name": "n", "version": "2.10.29", "proto": 1, "go": "go1", "host": "127.0.0.1",
                    "port": port, "headers": true, "max_payload": 2_097_152, "jetstream": true, "client_id": 1,
                });
                let _ = client.write_all(format!("INFO {info}\r\n").as_bytes()).await;
                let mut client = BufReader::new(client);
                while let Some((line, _)) = frame(&mut client).await {
                    if line.starts_with("PING") {
                        let _ = client.write_all(b"PONG\r\n").await;
                    }
                }
            });
        }
    });
    let options = at(&format!("nats://127.0.0.1:{port}"));
    let looked = Nats::look(&options).await.expect_err("it is too old").to_string();
    insta::assert_snapshot!(looked, @"the NATS server is version 2.10.29, and at least 2.11 is needed (expiring keys and reading in batches): install a newer nats-server, on every machine of the cluster");
    assert_eq!(refusal(options).await, looked, "a look says what a start would");
}

async fn nobody_listens() {
    // Somebody else may take the port, but hardly with a NATS server.
    let port = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address").port();
    let told = told(at(&format!("nats://alice:s3cret@127.0.0.1:{port}")), &Files::new()).await;
    insta::assert_snapshot!(told, @"NATS at `127.0.0.1:PORT` cannot be connected to: IO error: Connection refused (os error 111); see that they run, and that `store` names them");
}

/// What somebody hears at each door who comes with one topic too many.
async fn one_topic_too_many_is_told_at_the_door() {
    let servers = NatsServers::one().await.expect("a NATS server");
    let options = salon_testkit::TestOptions::on_nats(&servers.url(), "salon").expect("options");
    let gateway = TestGateway::start(options.set("nats.topics", "1").expect("a limit")).await.expect("a gateway");
    let token = gateway.token(&TestToken::new("alice")).expect("a token");
    let post = async |topic: &str| {
        let call = HttpCall::new("POST", format!("/v0/topics/{topic}/messages")).bearer(&token);
        let answer =
            call.header("content-type", "application/json").body(line("e1").text()).send(gateway.address()).await;
        answer.expect("an answer")
    };
    let first = post("room:a").await;
    assert!(first.status < 300, "{} {}", first.status, first.body);
    let refused = post("room:b").await;
    let told: Value = serde_json::from_str(&refused.body).expect("JSON");
    let why = "there are 1 topics, which is the limit of this gateway's log";
    assert_eq!((refused.status, told), (429, json!({ "code": "rate_limited", "error": why, "id": "e1" })));
    let call = HttpCall::new("GET", "/v0/ws?topic=room:b").bearer(&token);
    let refused = TestSocket::connect(gateway.address(), call).await.expect("an answer").expect_err("no socket");
    let told: Value = serde_json::from_str(&refused.body).expect("JSON");
    assert_eq!((refused.status, told), (429, json!({ "code": "rate_limited", "error": why })));
    let call = HttpCall::new("POST", "/mcp/room:b").bearer(&token).header("content-type", "application/json");
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    let call = call.header("accept", "application/json, text/event-stream").body(hello.to_string());
    let refused = call.send(gateway.address()).await.expect("an answer");
    let told: Value = serde_json::from_str(&refused.body).expect("JSON");
    assert_eq!(told["error"], json!({ "code": -32000, "message": why, "data": { "code": "rate_limited" } }));
    assert!(post("room:a").await.status < 300, "what exists goes on");
    gateway.stop().await.expect("stopped");
}
