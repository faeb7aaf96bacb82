use std::sync::OnceLock;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use jsonwebtoken::jwk::Jwk;
use proptest::prelude::*;
use salon_control::{Namespace, Namespaces};
use salon_protocol::{ParticipantKind, TopicName};

use super::*;
use crate::auth::{FIRST_KEY, jwks};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn local() -> &'static LocalKey {
    static KEY: OnceLock<LocalKey> = OnceLock::new();
    KEY.get_or_init(LocalKey::generate)
}

/// Keys of an identity provider, made again for each run.
struct Foreign {
    rsa: EncodingKey,
    ed: EncodingKey,
    ec: EncodingKey,
}

fn foreign() -> &'static Foreign {
    static KEYS: OnceLock<Foreign> = OnceLock::new();
    KEYS.get_or_init(|| {
        let rsa = KeyPair::generate(KeySize::Rsa2048).expect("a key pair").as_der().expect("its bytes");
        let ed = Ed25519KeyPair::generate().expect("a key pair").to_pkcs8v1().expect("its bytes");
        let ec = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key pair");
        Foreign {
            // The wrapping of a 2048-bit key in PKCS #8 is 26 bytes; what is inside is what jsonwebtoken wants.
            rsa: EncodingKey::from_rsa_der(&rsa.as_ref()[26..]),
            ed: EncodingKey::from_ed_der(ed.as_ref()),
            ec: EncodingKey::from_ec_der(ec.to_pkcs8v1().expect("its bytes").as_ref()),
        }
    })
}

fn public(key: &EncodingKey, algorithm: Algorithm, id: Option<&str>) -> Jwk {
    let mut jwk = Jwk::from_encoding_key(key, algorithm).expect("a public key");
    jwk.common.key_id = id.map(str::to_owned);
    jwk
}

fn trusting(keys: &[Jwk]) -> Verifier {
    let verifier = Verifier::new(local());
    verifier.trust(jwks::parse(json!({ "keys": keys }).to_string().as_bytes()).expect("a key set"));
    verifier
}

fn good() -> Value {
    json!({"sub": "alice", "aud": "room:alpha", "exp": NOW.0 / 1000 + 60})
}

fn with(claim: &str, value: Value) -> Value {
    let mut claims = good();
    claims[claim] = value;
    claims
}

fn without(claim: &str) -> Value {
    let mut claims = good();
    claims.as_object_mut().expect("an object").remove(claim);
    claims
}

fn header(algorithm: Algorithm, id: Option<&str>) -> Header {
    Header { kid: id.map(str::to_owned), ..Header::new(algorithm) }
}

fn signed(claims: &Value) -> String {
    encode(&Header::new(Algorithm::HS256), claims, &local().encoding()).expect("a token")
}

fn verdict(verifier: &Verifier, token: &str) -> String {
    match verifier.verify(token, NOW) {
        Ok(grant) => format!("{} until {}", grant.participant, grant.expires),
        Err(error) => {
            let text = error.to_string();
            for part in token.split('.').filter(|part| part.len() > 8) {
                assert!(!text.contains(part), "a refusal repeats its token");
            }
            format!("{}: {text}", error.code())
        }
    }
}

#[test]
fn what_is_signed_verifies_to_the_same_grant() {
    let mut grant = Grant::new(
        ParticipantId::new("robot-7").expect("an id"),
        vec!["room:alpha".parse().expect("a topic"), "lab.*".parse().expect("a pattern")],
        Timestamp(NOW.0 + 60_000),
    );
    grant.issued = NOW;
    grant.signing_key = Some(FIRST_KEY.into());
    let signer = Signer::new(local());
    let verifier = Verifier::new(local());
    assert_eq!(verifier.verify(&signer.sign(&grant, NOW).expect("a token"), NOW).as_ref(), Ok(&grant));

    grant.name = Some("Robot “Seven” 🤖".into());
    grant.kind = Some(ParticipantKind::Robot);
    grant.permissions = vec!["move".into(), "lift".into()];
    grant.require_integrity = true;
    grant.confirmation = super::super::Confirmation::new("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
    assert!(grant.confirmation.is_some());
    assert_eq!(verifier.verify(&signer.sign(&grant, NOW).expect("a token"), NOW).as_ref(), Ok(&grant));
}

#[test]
fn what_would_be_refused_is_not_signed() {
    let sign = |change: &dyn Fn(&mut Grant)| {
        let id = ParticipantId::new("alice").expect("an id");
        let mut grant = Grant::new(id, vec!["*".parse().expect("a pattern")], Timestamp(NOW.0 + 1));
        change(&mut grant);
        Signer::new(local()).sign(&grant, NOW).map_err(|error| error.to_string()).expect_err("refused")
    };
    assert_eq!(sign(&|g| g.participant = ParticipantId::host()), "ids that begin with `system:` are the gateway's own");
    assert_eq!(sign(&|g| g.topics.clear()), "the token's `aud` is not usable: it names no topic");
    assert_eq!(sign(&|g| g.name = Some("a\nb".into())), "the token's `name` is not usable: it has a control character");
    assert_eq!(sign(&|g| g.permissions = vec!["p".repeat(8192)]), "the token is longer than 8192 bytes");
}

#[test]
fn bad_tokens_are_refused_each_for_its_reason() {
    let verifier = trusting(&[
        public(&foreign().rsa, Algorithm::RS256, Some("r")),
        public(&foreign().ed, Algorithm::EdDSA, Some("e")),
    ]);
    let fine = signed(&good());
    let parts: Vec<_> = fine.split('.').collect();
    // {"alg":"none","typ":"JWT"} and {"alg":"NONE"}
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";
    let shouted = "eyJhbGciOiJOT05FIn0";
    let public_secret = |algorithm, key| {
        let public = serde_json::to_vec(&public(key, algorithm, None)).expect("a key");
        encode(&header(Algorithm::HS256, Some("r")), &good(), &EncodingKey::from_secret(&public)).expect("a token")
    };
    let other = LocalKey::generate().encoding();
    let hs512 = encode(&Header::new(Algorithm::HS512), &good(), &local().encoding()).expect("a token");
    let critical = Header { crit: Some(vec!["exp".into()]), ..Header::new(Algorithm::HS256) };
    let crossed = encode(&header(Algorithm::EdDSA, Some("r")), &good(), &foreign().ed).expect("a token");
    let table = [
        ("fine", fine.clone()),
        ("empty", String::new()),
        ("garbage", "not a token".into()),
        ("dots", "..".into()),
        ("four parts", format!("{fine}.{}", parts[2])),
        ("no signature part", format!("{}.{}", parts[0], parts[1])),
        ("empty signature", format!("{}.{}.", parts[0], parts[1])),
        ("truncated", fine[..fine.len() - 3].into()),
        (
            "claims swapped",
            format!("{}.{}.{}", parts[0], signed(&with("sub", json!("bob"))).split('.').nth(1).unwrap(), parts[2]),
        ),
        ("not base64", format!("{}.{}.*", parts[0], parts[1])),
        ("huge", "a".repeat(MAX_TOKEN_BYTES + 1)),
        ("alg none", format!("{none}.{}.", parts[1])),
        ("alg none, signed", format!("{none}.{}.{}", parts[1], parts[2])),
        ("alg NONE", format!("{shouted}.{}.", parts[1])),
        ("alg HS512", hs512),
        ("crit", encode(&critical, &good(), &local().encoding()).expect("a token")),
        ("another key", encode(&Header::new(Algorithm::HS256), &good(), &other).expect("a token")),
        ("RSA key as secret", public_secret(Algorithm::RS256, &foreign().rsa)),
        ("EdDSA key as secret", public_secret(Algorithm::EdDSA, &foreign().ed)),
        ("EdDSA by an RSA key's id", crossed),
        ("claims no object", signed(&json!([1]))),
        ("no sub", signed(&without("sub"))),
        ("no aud", signed(&without("aud"))),
        ("no exp", signed(&without("exp"))),
        ("null sub", signed(&with("sub", Value::Null))),
        ("sub a number", signed(&with("sub", json!(1)))),
        ("sub empty", signed(&with("sub", json!("")))),
        ("sub with a homoglyph", signed(&with("sub", json!("\u{430}lice")))),
        ("sub reserved", signed(&with("sub", json!("system:gateway")))),
        ("sub reserved, other", signed(&with("sub", json!("system:")))),
        ("aud empty list", signed(&with("aud", json!([])))),
        ("aud not a topic", signed(&with("aud", json!("https://example.org/")))),
        ("aud partly wrong", signed(&with("aud", json!(["room:a", 5])))),
        ("aud star inside", signed(&with("aud", json!("ro*m")))),
        ("exp now", signed(&with("exp", json!(NOW.0 / 1000)))),
        ("exp long ago", signed(&with("exp", json!(-5)))),
        ("exp in part seconds", signed(&with("exp", json!(1_800_000_000.5)))),
        ("exp for ever", signed(&with("exp", json!(u64::MAX)))),
        ("exp beyond", signed(&with("exp", json!(1e300)))),
        ("exp text", signed(&with("exp", json!("1800000060")))),
        ("nbf in leeway", signed(&with("nbf", json!(NOW.0 / 1000 + 30)))),
        ("nbf later", signed(&with("nbf", json!(NOW.0 / 1000 + 31)))),
        ("iat later", signed(&with("iat", json!(NOW.0 / 1000 + 31)))),
        ("name long", signed(&with("name", json!("é".repeat(257))))),
        ("name control", signed(&with("name", json!("a\u{7}")))),
        ("kind unknown", signed(&with("kind", json!("ghost")))),
        ("permissions text", signed(&with("permissions", json!("all")))),
        ("permissions mixed", signed(&with("permissions", json!(["a", 1])))),
        ("jti empty", signed(&with("jti", json!("")))),
    ];
    let told: Vec<_> = table.iter().map(|(what, token)| format!("{what} → {}", verdict(&verifier, token))).collect();
    insta::assert_snapshot!(told.join("\n"), @"
    fine → alice until 2027-01-15T08:01:00.000Z
    empty → unauthorized: the token is not a signed JWT
    garbage → unauthorized: the token is not a signed JWT
    dots → unauthorized: the token is not a signed JWT
    four parts → unauthorized: the token is not a signed JWT
    no signature part → unauthorized: the token is not a signed JWT
    empty signature → unauthorized: the token's signature is wrong
    truncated → unauthorized: the token's signature is wrong
    claims swapped → unauthorized: the token's signature is wrong
    not base64 → unauthorized: the token is not a signed JWT
    huge → unauthorized: the token is longer than 8192 bytes
    alg none → unauthorized: the token is not a signed JWT
    alg none, signed → unauthorized: the token is not a signed JWT
    alg NONE → unauthorized: the token is not a signed JWT
    alg HS512 → unauthorized: the token's algorithm is not one of HS256, EdDSA, ES256, RS256
    crit → unauthorized: the token's header demands an extension (`crit`) that is not supported
    another key → unauthorized: the token's signature is wrong
    RSA key as secret → unauthorized: the token's signature is wrong
    EdDSA key as secret → unauthorized: the token's signature is wrong
    EdDSA by an RSA key's id → unauthorized: the token's algorithm is not that of its key
    claims no object → unauthorized: the token is not a signed JWT
    no sub → unauthorized: the token has no `sub`
    no aud → unauthorized: the token has no `aud`
    no exp → unauthorized: the token has no `exp`
    null sub → unauthorized: the token has no `sub`
    sub a number → unauthorized: the token's `sub` is not usable: it is not a string
    sub empty → unauthorized: the token's `sub` is not usable: it is empty
    sub with a homoglyph → unauthorized: the token's `sub` is not usable: 'а' is not allowed: a name has letters and digits of ASCII, spaces between them, and ! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~
    sub reserved → forbidden: ids that begin with `system:` are the gateway's own
    sub reserved, other → forbidden: ids that begin with `system:` are the gateway's own
    aud empty list → unauthorized: the token's `aud` is not usable: it names no topic
    aud not a topic → unauthorized: the token's `aud` is not usable: '/' is not allowed: a name has letters and digits of ASCII, spaces between them, and ! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~
    aud partly wrong → unauthorized: the token's `aud` is not usable: it is not a string
    aud star inside → unauthorized: the token's `aud` is not usable: '*' is not allowed: a name has letters and digits of ASCII, spaces between them, and ! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~
    exp now → unauthorized: the token has expired
    exp long ago → unauthorized: the token has expired
    exp in part seconds → alice until 2027-01-15T08:00:00.500Z
    exp for ever → alice until 9999-12-31T23:59:59.999Z
    exp beyond → alice until 9999-12-31T23:59:59.999Z
    exp text → unauthorized: the token's `exp` is not usable: it is not a number of seconds since 1970
    nbf in leeway → alice until 2027-01-15T08:01:00.000Z
    nbf later → unauthorized: the token is not valid yet; are the clocks right?
    iat later → unauthorized: the token is not valid yet; are the clocks right?
    name long → unauthorized: the token's `name` is not usable: it has more than 256 characters
    name control → unauthorized: the token's `name` is not usable: it has a control character
    kind unknown → unauthorized: the token's `kind` is not usable: it is not one of human, agent, robot
    permissions text → unauthorized: the token's `permissions` is not usable: it is not a list of strings
    permissions mixed → unauthorized: the token's `permissions` is not usable: it is not a string
    jti empty → unauthorized: the token's `jti` is not usable: it is not 1 to 256 characters without control characters
    ");
}

#[test]
fn a_confirmation_of_another_kind_is_no_key_to_sign_with() {
    let key =
        |cnf: Value| Verifier::new(local()).verify(&signed(&with("cnf", cnf)), NOW).expect("a grant").confirmation;
    let x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    assert!(key(json!({ "jwk": { "kty": "OKP", "crv": "Ed25519", "x": x } })).is_some());
    for other in [
        json!({ "jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" }),
        json!({ "x5t#S256": "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc05O89jdN-dg2" }),
        json!({ "jwk": { "kty": "EC", "crv": "P-256", "x": x, "y": x } }),
        json!({ "jwk": { "kty": "OKP", "crv": "X25519", "x": x } }),
        json!({ "jwk": "text" }),
        json!("text"),
        json!([]),
        json!(null),
    ] {
        assert_eq!(key(other.clone()), None, "{other}");
    }
}

#[test]
fn a_token_opens_the_topics_of_its_audience() {
    let opens = |aud: Value, topic: &str| {
        let grant = Verifier::new(local()).verify(&signed(&with("aud", aud)), NOW).expect("a grant");
        grant.require(&TopicName::new(topic).expect("a name")).map_err(|error| error.code())
    };
    use salon_protocol::Code::Forbidden;
    assert_eq!(opens(json!("room:alpha"), "room:alpha"), Ok(()));
    assert_eq!(opens(json!("room:alpha"), "room:alphabet"), Err(Forbidden));
    assert_eq!(opens(json!(["lobby", "room:*"]), "room:beta"), Ok(()));
    assert_eq!(opens(json!(["lobby", "room:*"]), "lobby2"), Err(Forbidden));
    assert_eq!(opens(json!("*"), "anything"), Ok(()));
}

#[test]
fn foreign_keys_are_chosen_by_id_and_algorithm() {
    let by =
        |key: &EncodingKey, algorithm, id: Option<&str>| encode(&header(algorithm, id), &good(), key).expect("a token");
    let Foreign { rsa, ed, ec } = foreign();
    let all = trusting(&[
        public(rsa, Algorithm::RS256, Some("r")),
        public(ed, Algorithm::EdDSA, Some("e")),
        public(ec, Algorithm::ES256, Some("c")),
    ]);
    let welcome = "alice until 2027-01-15T08:01:00.000Z";
    assert_eq!(verdict(&all, &by(rsa, Algorithm::RS256, Some("r"))), welcome);
    assert_eq!(verdict(&all, &by(ed, Algorithm::EdDSA, Some("e"))), welcome);
    assert_eq!(verdict(&all, &by(ec, Algorithm::ES256, Some("c"))), welcome);
    assert_eq!(verdict(&all, &by(ed, Algorithm::EdDSA, None)), welcome, "the only one of its algorithm");
    assert_eq!(verdict(&all, &signed(&good())), welcome, "the gateway's own key stays good");

    let refused = |verifier: &Verifier, token: &str| verifier.verify(token, NOW).expect_err("refused");
    assert_eq!(refused(&all, &by(ed, Algorithm::EdDSA, Some("gone"))), AuthError::UnknownKey);
    assert_eq!(refused(&all, &by(ed, Algorithm::EdDSA, Some("c"))), AuthError::AlgorithmMismatch);
    assert_eq!(refused(&Verifier::new(local()), &by(ed, Algorithm::EdDSA, None)), AuthError::UnknownKey);

    let other = EncodingKey::from_ed_der(Ed25519KeyPair::generate().unwrap().to_pkcs8v1().unwrap().as_ref());
    let two = trusting(&[public(ed, Algorithm::EdDSA, Some("e")), public(&other, Algorithm::EdDSA, None)]);
    assert_eq!(refused(&two, &by(ed, Algorithm::EdDSA, None)), AuthError::KeyNotNamed);
    assert_eq!(refused(&two, &by(&other, Algorithm::EdDSA, Some("e"))), AuthError::BadSignature);

    // Keys that are taken away are gone.
    two.trust(
        jwks::parse(json!({"keys": [public(&other, Algorithm::EdDSA, Some("o"))]}).to_string().as_bytes()).unwrap(),
    );
    assert_eq!(refused(&two, &by(ed, Algorithm::EdDSA, Some("e"))), AuthError::UnknownKey);
}

#[test]
fn nothing_prints_a_key() {
    assert_eq!(format!("{:?}", Signer::new(local())), "Signer(..)");
    assert_eq!(format!("{:?}", Verifier::new(local())), "Verifier(KeySet(0 keys))");
}

proptest! {
    #[test]
    fn verifying_never_panics(text in ".*", claims in ".*", flip in any::<prop::sample::Index>()) {
        let verifier = Verifier::new(local());
        prop_assert!(verifier.verify(&text, NOW).is_err());
        let _ = verifier.verify(&signed(&json!(claims)), NOW);
        // Any one character of a good token changed: never the grant of another, and mostly none at all.
        let token = signed(&good());
        let mut bytes = token.into_bytes();
        let at = flip.index(bytes.len());
        bytes[at] ^= 1;
        if let Ok(grant) = verifier.verify(&String::from_utf8_lossy(&bytes), NOW) {
            prop_assert_eq!(grant.participant.as_str(), "alice");
        }
    }

    #[test]
    fn claims_of_any_form_never_panic(sub in claim(), aud in claim(), exp in claim(), nbf in claim(), name in claim(), kind in claim(), permissions in claim(), jti in claim()) {
        let claims = json!({"sub": sub, "aud": aud, "exp": exp, "nbf": nbf, "name": name, "kind": kind, "permissions": permissions, "jti": jti});
        let _ = Verifier::new(local()).verify(&signed(&claims), NOW);
    }
}

fn claim() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!("room:a*")),
        prop::collection::vec(".{0,4}", 0..3).prop_map(Value::from),
        Just(json!({"a": [1]})),
    ]
}

#[test]
fn tokens_of_development_mode_are_void_outside_it() {
    let key = LocalKey::generate();
    let grant = Grant::new(
        ParticipantId::new("alice").expect("an id"),
        vec!["*".parse().expect("a pattern")],
        Timestamp(2_000_000),
    );
    let now = Timestamp(1_000_000);
    let (usual, dev) = (Signer::new(&key).sign(&grant, now), Signer::dev(&key).sign(&grant, now));
    let (usual, dev) = (usual.expect("a token"), dev.expect("a token"));
    let outside = Verifier::new(&key);
    assert!(outside.verify(&usual, now).is_ok());
    assert_eq!(outside.verify(&dev, now), Err(AuthError::BadSignature));
    let inside = Verifier::with_rules(&key, TokenRules { dev: true, ..TokenRules::default() });
    assert!(inside.verify(&usual, now).is_ok() && inside.verify(&dev, now).is_ok());
}

#[test]
fn a_token_lasts_no_longer_than_allowed() {
    let key = LocalKey::generate();
    let hour = Duration::from_secs(3600);
    let verifier = Verifier::with_rules(&key, TokenRules { max_lifetime: hour, ..TokenRules::default() });
    let (issued, later) = (Timestamp(1_000_000_000), Timestamp(1_000_000_000 + 3_000_000));
    let lasting = |seconds: u64| {
        let alice = ParticipantId::new("alice").expect("an id");
        let expires = Timestamp(issued.0 + seconds * 1000);
        let grant = Grant::new(alice, vec!["*".parse().expect("a pattern")], expires);
        Signer::new(&key).sign(&grant, issued).expect("a token")
    };
    assert!(verifier.verify(&lasting(3600), later).is_ok());
    // However little of it is left.
    assert_eq!(verifier.verify(&lasting(3700), later), Err(AuthError::TooLongLived(3600)));
    assert!(Verifier::new(&key).verify(&lasting(3700), later).is_ok(), "where nothing is said of it");
}

#[test]
fn a_bridge_acts_for_what_its_token_says() {
    let namespace = |text: &str| text.parse::<Namespace>().expect("a namespace");
    let bridge = ParticipantId::new("bridge:matrix").expect("an id");
    let ghosts = GhostGrant {
        namespaces: vec![namespace("matrix:*"), namespace("element:*")],
        max: Some(50),
        kinds: vec![ParticipantKind::Human, ParticipantKind::Agent],
        calls: true,
    };
    let grant = Grant {
        ghosts: Some(ghosts),
        issued: NOW,
        signing_key: Some(FIRST_KEY.into()),
        ..Grant::new(bridge.clone(), vec!["*".parse().expect("a pattern")], Timestamp(NOW.0 + 60_000))
    };
    let verifier = Verifier::new(local());
    let token = Signer::new(local()).sign(&grant, NOW).expect("a token");
    assert_eq!(verifier.verify(&token, NOW).as_ref(), Ok(&grant));
    let usual = verifier.verify(&signed(&with("acts_for", json!(["matrix:*"]))), NOW).expect("a grant");
    assert_eq!(usual.ghosts, Some(GhostGrant::new(vec![namespace("matrix:*")])), "people who chat");

    let mut told = String::new();
    for (claim, value) in [
        ("acts_for", json!([])),
        ("acts_for", json!("matrix:*")),
        ("acts_for", json!(["*"])),
        ("acts_for", json!(["matrix*"])),
        ("acts_for", json!(["matrix:ann"])),
        ("acts_for", json!(["system:*"])),
        ("acts_for", json!(vec!["m:*"; 17])),
        ("ghosts_max", json!(5)),
    ] {
        told += &format!("{}\n", verdict(&verifier, &signed(&with(claim, value))));
    }
    for (claim, value) in [
        ("ghosts_max", json!(0)),
        ("ghosts_max", json!("5")),
        ("ghost_kinds", json!([])),
        ("ghost_kinds", json!(["wizard"])),
        ("ghosts_call", json!("yes")),
    ] {
        let mut claims = with("acts_for", json!(["matrix:*"]));
        claims[claim] = value;
        told += &format!("{}\n", verdict(&verifier, &signed(&claims)));
    }
    insta::assert_snapshot!(told, @"
    unauthorized: the token's `acts_for` is not usable: it is not 1 to 16 namespaces
    unauthorized: the token's `acts_for` is not usable: it is not a list of strings
    unauthorized: the token's `acts_for` is not usable: a namespace has a name, a separator such as `:` and then `*`, such as `matrix:*`
    unauthorized: the token's `acts_for` is not usable: a namespace has a name, a separator such as `:` and then `*`, such as `matrix:*`
    unauthorized: the token's `acts_for` is not usable: a namespace ends with `*`, such as `matrix:*`
    unauthorized: the token's `acts_for` is not usable: ids that begin with `system:` are the gateway's own
    unauthorized: the token's `acts_for` is not usable: it is not 1 to 16 namespaces
    unauthorized: the token's `ghosts_max` is not usable: it needs `acts_for`
    unauthorized: the token's `ghosts_max` is not usable: it is not a whole number from 1
    unauthorized: the token's `ghosts_max` is not usable: it is not a whole number from 1
    unauthorized: the token's `ghost_kinds` is not usable: it does not name 1 to 3 kinds
    unauthorized: the token's `ghost_kinds` is not usable: it is not one of human, agent, robot
    unauthorized: the token's `ghosts_call` is not usable: it is not true or false
    ");
}

#[test]
fn a_namespace_is_for_the_bridge_it_was_declared_for() {
    let namespace = |text: &str| text.parse::<Namespace>().expect("a namespace");
    let id = |text: &str| ParticipantId::new(text).expect("an id");
    let declared = Namespaces::new(vec![(namespace("matrix:*"), id("bridge:matrix"))]).expect("it fits");
    let told = |who: &str, acts_for: &[&str]| {
        let namespaces: Vec<_> = acts_for.iter().map(|text| namespace(text)).collect();
        let ghosts = (!namespaces.is_empty()).then(|| GhostGrant::new(namespaces));
        let grant = Grant { ghosts, ..Grant::new(id(who), Vec::new(), NOW) };
        grant
            .require_namespaces(&declared)
            .map_or_else(|error| format!("{}: {error}", error.code()), |()| "fine".into())
    };
    assert_eq!(told("bridge:matrix", &["matrix:*"]), "fine");
    assert_eq!(told("alice", &[]), "fine");
    insta::assert_snapshot!(told("matrix:ann", &[]), @"forbidden: the ids `matrix:*` belong to the bridge `bridge:matrix`: nobody else may be `matrix:ann`");
    insta::assert_snapshot!(told("mallory", &["matrix:*"]), @r#"forbidden: the token acts for `matrix:*` (`acts_for`), which this gateway does not give to `mallory`: declare it with `auth.namespaces = ["matrix:*=mallory"]`"#);
    assert!(told("bridge:matrix", &["matrix:*", "irc:*"]).starts_with("forbidden"));
}
