use std::os::unix::fs::PermissionsExt;

use salon_protocol::ParticipantId;

use super::*;
use crate::auth::{AuthError, Grant, TokenRules, Verifier};
use crate::scratch::Scratch;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const LATER: Timestamp = Timestamp(NOW.0 + 600_000);

fn load(scratch: &Scratch) -> SigningKeys {
    SigningKeys::load_or_create(scratch.path()).expect("keys")
}

fn token(keys: &SigningKeys, now: Timestamp) -> String {
    let alice = ParticipantId::new("alice").expect("an id");
    let grant = Grant::new(alice, vec!["*".parse().expect("a pattern")], Timestamp(now.0 + 3_600_000));
    keys.signer(now).sign(&grant, now).expect("a token")
}

fn kid(token: &str) -> Option<String> {
    jsonwebtoken::decode_header(token).expect("a header").kid
}

/// The keys of a directory, each with what it does.
fn listed(scratch: &Scratch, now: Timestamp) -> String {
    let uses: Vec<_> = load(scratch).list(now).iter().map(|info| format!("{:?}", info.key_use)).collect();
    uses.join(" ")
}

#[test]
fn a_new_key_signs_and_the_old_ones_verify() {
    let scratch = Scratch::new();
    let before = load(&scratch);
    let old = token(&before, NOW);
    assert_eq!(kid(&old), None, "tokens of `auth.key` are as they were");
    assert_eq!(listed(&scratch, NOW), "Signs");

    let verifier = Verifier::following(scratch.path(), &before, TokenRules::default());
    let one = SigningKeys::rotate(scratch.path(), NOW).expect("a key");
    assert!(one.starts_with("salon-20270115-"), "{one}");
    let two = SigningKeys::rotate(scratch.path(), LATER).expect("a key");
    assert_eq!(listed(&scratch, NOW), "Verifies Signs Waits");
    assert_eq!(listed(&scratch, LATER), "Verifies Verifies Signs");

    // The verifier was there before the keys: it reads them when a token names one.
    let keys = load(&scratch);
    for (now, signed_by) in [(NOW, &one), (LATER, &two)] {
        let token = token(&keys, now);
        assert_eq!(kid(&token).as_ref(), Some(signed_by));
        assert!(verifier.verify(&token, now).is_ok());
    }
    assert!(verifier.verify(&old, NOW).is_ok());

    let by_one = token(&keys, NOW);
    SigningKeys::remove(scratch.path(), &one, LATER).expect("removed");
    verifier.reload_local_keys();
    assert_eq!(verifier.verify(&by_one, NOW), Err(AuthError::UnknownKey));
    assert!(verifier.verify(&old, NOW).is_ok());
    SigningKeys::remove(scratch.path(), FIRST_KEY, LATER).expect("removed");
    verifier.reload_local_keys();
    assert_eq!(verifier.verify(&old, NOW), Err(AuthError::UnknownKey));
    assert_eq!(listed(&scratch, LATER), "Refused Signs");
    // Before its time it signs too, when there is no other.
    assert_eq!(kid(&token(&load(&scratch), NOW)), Some(two));
}

#[test]
fn tokens_of_a_key_are_good_for_no_other() {
    let scratch = Scratch::new();
    let [one, two] = [0, 1].map(|at| SigningKeys::rotate(scratch.path(), Timestamp(NOW.0 + at)).expect("a key"));
    let keys = load(&scratch);
    let verifier = Verifier::following(scratch.path(), &keys, TokenRules::default());
    let forged = |key: &LocalKey, kid: &str| {
        let alice = ParticipantId::new("alice").expect("an id");
        let grant = Grant::new(alice, vec!["*".parse().expect("a pattern")], LATER);
        let token = Signer::with_kid(key, kid.to_owned()).sign(&grant, NOW).expect("a token");
        verifier.verify(&token, NOW).map(drop)
    };
    assert_eq!(forged(&keys.added[0].key, &one), Ok(()));
    assert_eq!(forged(&keys.added[0].key, &two), Err(AuthError::BadSignature));
    assert_eq!(forged(keys.first(), &two), Err(AuthError::BadSignature));
    assert_eq!(forged(keys.first(), "salon-20270115-00000000"), Err(AuthError::UnknownKey));
    assert_eq!(forged(keys.first(), "of somebody's own program"), Ok(()), "as it was before there were several");
}

#[test]
fn the_key_that_signs_cannot_be_removed() {
    let scratch = Scratch::new();
    load(&scratch);
    let refused = |kid: &str| SigningKeys::remove(scratch.path(), kid, NOW).expect_err("refused").to_string();
    assert!(refused(FIRST_KEY).starts_with("the key `first` signs new tokens now"));
    assert!(refused("salon-x").starts_with("there is no key `salon-x`"));
    let kid = SigningKeys::rotate(scratch.path(), LATER).expect("a key");
    assert!(refused(FIRST_KEY).starts_with("the key `first` signs new tokens now"), "until the next one does");
    SigningKeys::remove(scratch.path(), &kid, NOW).expect("a key that waits");
    for _ in 0..MAX_KEYS {
        SigningKeys::rotate(scratch.path(), NOW).expect("a key");
    }
    assert!(matches!(SigningKeys::rotate(scratch.path(), NOW), Err(RotationError::TooMany)));
}

#[test]
fn a_file_that_others_can_read_or_that_is_none_is_refused() {
    let scratch = Scratch::new();
    SigningKeys::rotate(scratch.path(), NOW).expect("a key");
    let path = scratch.path().join(SIGNING_KEYS_FILE);
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    let names = fs::read_dir(scratch.path()).expect("readable").count();
    assert_eq!(names, 2, "nothing but the keys is left behind");
    let refused = || {
        let text = SigningKeys::find(scratch.path()).expect_err("refused").to_string();
        text.replace(&scratch.path().display().to_string(), "DATA")
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
    assert!(refused().starts_with("the key file `DATA/signing-keys.json` is open to other users (mode 640)"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
    let file = |text: &str| {
        fs::write(&path, text).expect("written");
        refused()
    };
    let wrong = "`DATA/signing-keys.json` is not a list of signing keys: ";
    assert_eq!(file("{}"), format!("{wrong}it is not the JSON that `salon key` writes"));
    let key = |kid: &str, key: &str| format!(r#"{{"kid":"{kid}","signs_from":1,"key":"{key}"}}"#);
    let ok = "ab".repeat(32);
    let with = |keys: &[String]| file(&format!(r#"{{"keys":[{}]}}"#, keys.join(",")));
    assert_eq!(with(&[key("salon-1", "abc")]), format!("{wrong}a key is not 64 hexadecimal digits"));
    let id = format!("{wrong}a key's id is taken, or does not begin with `salon-`");
    assert_eq!(with(&[key("salon-1", &ok), key("salon-1", &ok)]), id);
    assert_eq!(with(&[key("mine", &ok)]), id);
    assert_eq!(
        file(r#"{"first_refused":true,"keys":[]}"#),
        format!("{wrong}tokens of `auth.key` are refused and there is no other key")
    );
}

#[test]
fn a_verifier_keeps_its_keys_when_the_file_breaks() {
    let scratch = Scratch::new();
    SigningKeys::rotate(scratch.path(), NOW).expect("a key");
    let keys = load(&scratch);
    let verifier = Verifier::following(scratch.path(), &keys, TokenRules::default());
    fs::write(scratch.path().join(SIGNING_KEYS_FILE), "{").expect("written");
    verifier.reload_local_keys();
    assert!(verifier.verify(&token(&keys, NOW), NOW).is_ok());
}

#[test]
fn nothing_prints_a_signing_key() {
    let scratch = Scratch::new();
    SigningKeys::rotate(scratch.path(), NOW).expect("a key");
    assert_eq!(format!("{:?}", load(&scratch)), "SigningKeys(1 added)");
}

#[test]
fn what_was_removed_is_known_and_what_is_only_missing_is_not_removed() {
    let scratch = Scratch::new();
    let older = SigningKeys::rotate(scratch.path(), NOW).expect("a key");
    let path = scratch.path().join(SIGNING_KEYS_FILE);
    let copy = fs::read(&path).expect("the file");
    let newer = SigningKeys::rotate(scratch.path(), LATER).expect("a key");
    let verifier = Verifier::following(scratch.path(), &load(&scratch), TokenRules::default());
    let signed_by = |now| verifier.verify(&token(&load(&scratch), now), now).expect("good").signing_key;
    assert_eq!((signed_by(NOW), signed_by(LATER)), (Some(older.clone()), Some(newer.clone())));
    assert!(verifier.removed_local_keys().is_empty());

    SigningKeys::remove(scratch.path(), &older, LATER).expect("removed");
    SigningKeys::remove(scratch.path(), FIRST_KEY, LATER).expect("removed");
    verifier.reload_local_keys();
    assert_eq!(verifier.removed_local_keys(), [FIRST_KEY, older.as_str()]);
    // An older copy of the file lacks the newer key, and nobody has removed that.
    fs::write(&path, copy).expect("written");
    verifier.reload_local_keys();
    assert!(verifier.removed_local_keys().is_empty());
}

#[test]
fn a_token_cannot_say_which_key_has_signed_it() {
    let scratch = Scratch::new();
    let keys = load(&scratch);
    let verifier = Verifier::following(scratch.path(), &keys, TokenRules { dev: true, ..TokenRules::default() });
    let alice = ParticipantId::new("alice").expect("an id");
    let grant = Grant::new(alice, vec!["*".parse().expect("a pattern")], LATER);
    let grant = Grant { signing_key: Some("salon-other".into()), ..grant };
    let signing_key = |signer: Signer| {
        let token = signer.sign(&grant, NOW).expect("a token");
        verifier.verify(&token, NOW).expect("good").signing_key
    };
    assert_eq!(signing_key(keys.signer(NOW)).as_deref(), Some(FIRST_KEY));
    assert_eq!(signing_key(Signer::dev(keys.first())), None, "the key of development mode cannot be removed");
}
