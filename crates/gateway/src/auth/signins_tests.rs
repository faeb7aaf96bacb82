use aws_lc_rs::signature::Ed25519KeyPair;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use salon_protocol::{ParticipantId, ParticipantKind};
use serde_json::json;

use super::*;
use crate::auth::{Confirmation, jwks};
use crate::scratch::Scratch;

const NOW: Timestamp = Timestamp(1_800_000_000_250);
const HOUR: u64 = 60 * 60 * 1000;

fn later(ms: u64) -> Timestamp {
    Timestamp(NOW.0 + ms)
}

fn grant(id: &str, expires: Timestamp) -> Grant {
    Grant::new(ParticipantId::new(id).expect("an id"), vec!["room:*".parse().expect("a pattern")], expires)
}

fn opened(scratch: &Scratch, key: &LocalKey, now: Timestamp) -> SignIns {
    let cluster = Arc::new(salon_log::cluster::SingleNode::default());
    SignIns::open(key, scratch.path(), cluster, now).expect("the directory can be used")
}

fn end(signs: &SignIns, value: &str, now: Timestamp) {
    signs.end(value, now).expect("signed in").written.expect("written down");
}

#[test]
fn a_sign_in_stands_for_its_token() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = opened(&scratch, &key, NOW);
    let whole = Grant {
        name: Some("Alice".into()),
        kind: Some(ParticipantKind::Human),
        permissions: vec!["drive".into()],
        signing_key: Some("salon-1".into()),
        require_integrity: true,
        confirmation: Confirmation::new("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"),
        ..grant("alice", later(HOUR))
    };
    assert!(whole.confirmation.is_some());
    let SignedIn { value, grant } = signs.begin(whole.clone(), NOW).expect("signed in");
    let found = signs.verify(&value, later(1)).expect("the grant");
    assert_eq!(found, grant);
    assert_ne!(found.token_id, whole.token_id, "a sign-in has an id of its own");
    assert!(found.by_sign_in && !whole.by_sign_in);
    let alike = Grant {
        token_id: whole.token_id.clone(),
        expires: whole.expires,
        issued: whole.issued,
        origin: None,
        by_sign_in: false,
        ..found
    };
    assert_eq!(alike, whole);
}

#[test]
fn a_sign_in_ends_with_its_token_and_within_a_day() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = opened(&scratch, &key, NOW);
    let short = signs.begin(grant("alice", later(HOUR)), NOW).expect("signed in");
    assert_eq!(short.grant.expires, Timestamp((NOW.0 + HOUR) / 1000 * 1000), "never later than the token");
    let end = short.grant.expires;
    signs.verify(&short.value, Timestamp(end.0 - 1)).expect("until then");
    assert_eq!(signs.verify(&short.value, end), Err(AuthError::NotSignedIn));
    let long = signs.begin(grant("alice", later(1000 * HOUR)), NOW).expect("signed in");
    assert_eq!(long.grant.expires, Timestamp((NOW.0 + 24 * HOUR) / 1000 * 1000));
    let over = signs.begin(grant("alice", NOW), NOW).err();
    assert_eq!(over, Some(AuthError::Expired));
}

#[test]
fn a_cookie_is_no_token_and_a_token_no_cookie() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = opened(&scratch, &key, NOW);
    let token = Signer::new(&key).sign(&grant("alice", later(HOUR)), NOW).expect("a token");
    let verifier = Verifier::new(&key);
    let value = signs.begin(verifier.verify(&token, NOW).expect("a good token"), NOW).expect("signed in").value;
    assert_eq!(verifier.verify(&value, NOW), Err(AuthError::BadSignature));
    assert_eq!(signs.verify(&token, NOW), Err(AuthError::NotSignedIn));
    let other = opened(&Scratch::new(), &LocalKey::generate(), NOW);
    assert_eq!(other.verify(&value, NOW), Err(AuthError::NotSignedIn), "nor is that of another gateway");
    let same = opened(&Scratch::new(), &key, NOW);
    same.verify(&value, NOW).expect("a gateway with the same key takes it");
}

#[test]
fn whatever_was_changed_is_refused() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = opened(&scratch, &key, NOW);
    let value = signs.begin(grant("alice", later(HOUR)), NOW).expect("signed in").value;
    for at in 0..value.len() {
        let mut wrong = value.clone().into_bytes();
        wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
        let wrong = String::from_utf8(wrong).expect("ASCII");
        // The last digit of base64 has bits that say nothing, and the decoder refuses those that are set.
        assert_eq!(signs.verify(&wrong, NOW), Err(AuthError::NotSignedIn), "at {at}");
    }
    for wrong in ["", ".", "..", "a.b.c", &"x".repeat(100_000)] {
        assert_eq!(signs.verify(wrong, NOW), Err(AuthError::NotSignedIn));
    }
}

#[test]
fn a_token_of_an_identity_provider_signs_in_as_well() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = opened(&scratch, &key, NOW);
    let theirs = Ed25519KeyPair::generate().expect("a key pair").to_pkcs8v1().expect("its bytes");
    let theirs = EncodingKey::from_ed_der(theirs.as_ref());
    let public = Jwk::from_encoding_key(&theirs, Algorithm::EdDSA).expect("a public key");
    let verifier = Verifier::new(&key);
    verifier.trust(jwks::parse(json!({ "keys": [public] }).to_string().as_bytes()).expect("a key set"));
    let claims = json!({ "sub": "alice", "aud": "room:a", "exp": NOW.0 / 1000 + 60, "more": "x".repeat(4000) });
    let token = encode(&Header::new(Algorithm::EdDSA), &claims, &theirs).expect("a token");
    let found = verifier.verify(&token, NOW).expect("a good token");
    let value = signs.begin(found, NOW).expect("what the gateway does not read is not carried along").value;
    assert_eq!(signs.verify(&value, NOW).expect("signed in").participant.as_str(), "alice");
    assert_eq!(signs.verify(&token, NOW), Err(AuthError::NotSignedIn), "a token of the provider is no cookie either");
}

#[test]
fn what_a_browser_would_not_keep_is_refused() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = opened(&scratch, &key, NOW);
    let with = |count: usize| Grant {
        permissions: (0..count).map(|number| format!("permission-{number:03}")).collect(),
        ..grant("alice", later(HOUR))
    };
    assert!(signs.begin(with(100), NOW).expect("it fits").value.len() < MAX_BYTES);
    assert_eq!(signs.begin(with(200), NOW).err(), Some(AuthError::SignInTooLong));
}

#[test]
fn a_sign_out_is_remembered_by_the_next_gateway_and_only_that() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = opened(&scratch, &key, NOW);
    let begin = |id: &str| signs.begin(grant(id, later(HOUR)), NOW).expect("signed in").value;
    let (first, second, bob) = (begin("alice"), begin("alice"), begin("bob"));
    end(&signs, &first, later(5));
    for signs in [&signs, &opened(&scratch, &key, later(10))] {
        assert_eq!(signs.verify(&first, later(10)), Err(AuthError::NotSignedIn));
        signs.verify(&second, later(10)).expect("her other browser stays");
        signs.verify(&bob, later(10)).expect("others stay");
        assert!(matches!(signs.end(&first, later(10)), Err(AuthError::NotSignedIn)), "once is enough");
    }
}

#[test]
fn what_would_have_ended_by_itself_is_forgotten() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = opened(&scratch, &key, NOW);
    end(&signs, &signs.begin(grant("alice", later(HOUR)), NOW).expect("signed in").value, NOW);
    end(&signs, &signs.begin(grant("bob", later(2 * HOUR)), NOW).expect("signed in").value, NOW);
    let kept = || std::fs::read_to_string(scratch.path().join("signed-out.jsonl")).expect("a file");
    assert_eq!(kept().lines().count(), 2);
    opened(&scratch, &key, later(HOUR));
    assert!(kept().lines().count() == 1 && kept().contains("bob"), "{}", kept());
    opened(&scratch, &key, later(2 * HOUR));
    assert_eq!(kept(), "");
}

#[test]
fn a_line_that_was_cut_off_does_not_keep_the_gateway_from_starting() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = opened(&scratch, &key, NOW);
    let value = signs.begin(grant("alice", later(HOUR)), NOW).expect("signed in").value;
    end(&signs, &value, NOW);
    let path = scratch.path().join("signed-out.jsonl");
    let whole = std::fs::read(&path).expect("a file");
    std::fs::write(&path, [&whole[..], b"\xff\xfe\n{}\n", &whole[..20]].concat()).expect("written");
    assert_eq!(opened(&scratch, &key, NOW).verify(&value, NOW), Err(AuthError::NotSignedIn));
    assert_eq!(std::fs::read(&path).expect("a file"), whole, "and is gone");
}

#[test]
fn a_sign_out_that_could_not_be_written_down_is_when_it_is_repeated() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = opened(&scratch, &key, NOW);
    let begin = |id: &str| signs.begin(grant(id, later(HOUR)), NOW).expect("signed in").value;
    let [alice, bob, carol, dave] = ["alice", "bob", "carol", "dave"].map(begin);
    let written = |value: &str| signs.end(value, NOW).expect("something to write").written.is_ok();
    let is_over = |value: &str| matches!(signs.end(value, NOW), Err(AuthError::NotSignedIn));
    let kept = || std::fs::read_to_string(scratch.path().join("signed-out.jsonl")).expect("a file");
    assert!(written(&bob));
    // Neither can a line be added nor a new file be made: there is something else in its place.
    signs.ended.break_file().expect("the file is there");
    let obstacle = scratch.path().join("signed-out.new");
    std::fs::create_dir(&obstacle).expect("a folder");
    assert!(!written(&alice) && !written(&alice), "told each time");
    assert_eq!(signs.verify(&alice, NOW), Err(AuthError::NotSignedIn), "it counts here all the same");
    assert!(!written(&carol) && !kept().contains("alice") && !kept().contains("carol"), "{}", kept());
    assert!(is_over(&bob), "his is written");
    std::fs::remove_dir(&obstacle).expect("removed");
    assert!(written(&alice));
    assert!(is_over(&alice) && is_over(&carol), "hers with it");
    // What comes after one that failed is written whole, and that with it.
    signs.ended.break_file().expect("the file is there");
    assert!(!written(&dave));
    let last = begin("bob");
    assert!(written(&last) && is_over(&dave));
    let next = opened(&scratch, &key, NOW);
    for value in [&alice, &bob, &carol, &dave, &last] {
        assert_eq!(next.verify(value, NOW), Err(AuthError::NotSignedIn), "{}", kept());
    }
}

#[test]
fn a_person_that_signs_out_all_day_is_signed_out_everywhere() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = opened(&scratch, &key, NOW);
    let begin = |id: &str, now| signs.begin(grant(id, later(30 * HOUR)), now).expect("signed in").value;
    let (other, bob) = (begin("alice", NOW), begin("bob", NOW));
    for _ in 0..32 {
        end(&signs, &begin("alice", NOW), NOW);
    }
    signs.verify(&other, NOW).expect("so many are told apart");
    end(&signs, &begin("alice", NOW), later(1000));
    let after = begin("alice", later(1001));
    for signs in [&signs, &opened(&scratch, &key, later(1001))] {
        assert_eq!(signs.verify(&other, later(1001)), Err(AuthError::NotSignedIn));
        signs.verify(&after, later(1001)).expect("who signs in again is in again");
        signs.verify(&bob, later(1001)).expect("nobody else is concerned");
    }
}

#[test]
fn the_file_does_not_grow_without_end() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = opened(&scratch, &key, NOW);
    let path = scratch.path().join("signed-out.jsonl");
    let mut most = 0;
    for number in 0..1200 {
        let value = signs.begin(grant("alice", later(30 * HOUR)), later(number)).expect("signed in").value;
        end(&signs, &value, later(number));
        most = most.max(std::fs::read_to_string(&path).expect("a file").lines().count());
    }
    assert!((1000..1100).contains(&most), "{most} lines");
    let last = signs.begin(grant("alice", later(30 * HOUR)), later(1200)).expect("signed in").value;
    end(&signs, &last, later(1200));
    assert_eq!(opened(&scratch, &key, later(1200)).verify(&last, later(1200)), Err(AuthError::NotSignedIn));
}

#[tokio::test]
async fn a_connection_ends_with_its_sign_in_and_with_no_other() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = opened(&scratch, &key, NOW);
    let sign_in = || signs.begin(grant("alice", later(HOUR)), NOW).expect("signed in");
    let (first, second) = (sign_in(), sign_in());
    let token = Grant { token_id: first.grant.token_id.clone(), ..grant("alice", later(HOUR)) };
    assert!(signs.visit(&token).is_none(), "a token is no sign-in, whatever its id");
    assert_eq!(signs.require(&token), Ok(()));

    let visits = [&first, &first, &second].map(|each| signs.visit(&each.grant).expect("a visit"));
    let ended = |visit: &SignedInVisit| futures_util::FutureExt::now_or_never(visit.ended()).is_some();
    assert_eq!(visits.each_ref().map(ended), [false, false, false]);
    end(&signs, &first.value, NOW);
    assert_eq!(visits.each_ref().map(ended), [true, true, false]);
    assert_eq!(signs.require(&first.grant), Err(AuthError::NotSignedIn));
    assert_eq!(signs.require(&second.grant), Ok(()));
    assert_eq!(signs.require(&token), Ok(()), "the token it was made with is worth what it was");
    assert!(ended(&signs.visit(&first.grant).expect("a visit")), "also one that begins only then");
    assert_eq!(signs.visits.count(), 2);
    drop(visits);
    assert_eq!(signs.visits.count(), 0, "nothing is kept of people that have gone");
}

/// A gateway beside others.
fn shared(scratch: &Scratch, key: &LocalKey, now: Timestamp) -> SignIns {
    SignIns {
        ended: Arc::new(SignOuts::open(scratch.path(), true, now).expect("the directory can be used")),
        ..opened(&Scratch::new(), key, now)
    }
}

/// What gateways tell one another, until neither has anything to say that the other does not know.
fn tell(from: &SignIns, to: &SignIns, who: &str, kept: &mut Option<Vec<u8>>, now: Timestamp) {
    let who = ParticipantId::new(who).expect("an id");
    if let Some(told) = from.ended.tell(&who, kept.as_deref(), now) {
        *kept = Some(told);
    }
    assert_eq!(from.ended.tell(&who, kept.as_deref(), now), None, "once it is told there is nothing to tell");
    for each in [from, to] {
        each.ended.hear(kept.as_deref().expect("something is kept"), now);
    }
}

#[test]
fn what_one_gateway_has_heard_counts_at_the_other() {
    let (here, there, key) = (Scratch::new(), Scratch::new(), LocalKey::generate());
    let shared = |scratch: &Scratch, now| shared(scratch, &key, now);
    let (one, two) = (shared(&here, NOW), shared(&there, NOW));
    let sign_in = |at| one.begin(grant("alice", later(48 * HOUR)), at).expect("signed in").value;
    let (first, second, third) = (sign_in(NOW), sign_in(NOW), sign_in(NOW));
    let mut kept = None;
    end(&one, &first, NOW);
    assert_eq!(one.ended.unshared().len(), 1);
    assert!(two.verify(&first, NOW).is_ok(), "nobody has told yet");
    tell(&one, &two, "alice", &mut kept, NOW);
    assert_eq!(one.ended.unshared().len(), 0);
    assert_eq!(two.verify(&first, NOW), Err(AuthError::NotSignedIn));
    // The other way, beside what was told.
    end(&two, &second, NOW);
    tell(&two, &one, "alice", &mut kept, NOW);
    for each in [&one, &two] {
        assert_eq!(each.verify(&second, NOW), Err(AuthError::NotSignedIn));
        assert_eq!(each.verify(&first, NOW), Err(AuthError::NotSignedIn), "told before");
        assert!(each.verify(&third, NOW).is_ok(), "nobody has ended it");
    }
    // One who could not tell tells after a restart; what the others know is not sent again.
    end(&one, &third, NOW);
    let again = shared(&here, later(1));
    assert_eq!(again.ended.unshared().len(), 1);
    again.ended.hear(kept.as_deref().expect("something is kept"), later(1));
    assert_eq!(again.ended.unshared().len(), 1, "they know less");
    tell(&again, &two, "alice", &mut kept, later(1));
    assert_eq!(two.verify(&third, later(1)), Err(AuthError::NotSignedIn));
    assert_eq!(again.ended.unshared().len(), 0);
    // What does not matter any more is told no more.
    let much_later = later(24 * HOUR + 2000);
    let fourth = one.begin(grant("alice", later(72 * HOUR)), much_later).expect("signed in").value;
    end(&one, &fourth, much_later);
    tell(&one, &two, "alice", &mut kept, much_later);
    let text = String::from_utf8(kept.expect("something is kept")).expect("JSON");
    assert_eq!(text.matches('-').count(), 4, "one id, and no older ones: {text}");
    for wrong in ["", "{}", r#"{"participant":"alice","until":"now"}"#, r#"{"participant":"","one_by_one":{"x":1}}"#] {
        two.ended.hear(wrong.as_bytes(), NOW);
    }
}

#[test]
fn many_sign_outs_at_several_gateways_are_all_remembered_as_one() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let open = |scratch: &Scratch| shared(scratch, &key, NOW);
    let (one, two) = (open(&scratch), open(&Scratch::new()));
    // The clock of the gateway that signed them in is ahead.
    let values: Vec<_> =
        (0..60).map(|_| one.begin(grant("alice", later(48 * HOUR)), later(900)).expect("signed in").value).collect();
    let mut kept = None;
    for (number, value) in values.iter().enumerate() {
        let (from, to) = if number % 2 == 0 { (&one, &two) } else { (&two, &one) };
        // From the thirty-third on it ends what began no later, too.
        if from.verify(value, NOW).is_ok() {
            end(from, value, NOW);
        }
        tell(from, to, "alice", &mut kept, NOW);
    }
    for value in &values {
        assert_eq!(one.verify(value, later(1000)), Err(AuthError::NotSignedIn));
        assert_eq!(two.verify(value, later(1000)), Err(AuthError::NotSignedIn));
    }
    assert!(kept.expect("something is kept").len() < 4096);
    let fresh = one.begin(grant("alice", later(48 * HOUR)), later(3000)).expect("signed in").value;
    assert!(two.verify(&fresh, later(3000)).is_ok(), "who signs in anew is signed in");
}

#[test]
fn a_sign_out_can_be_repeated_until_the_others_know_of_it() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = shared(&scratch, &key, NOW);
    let begin = |id: &str| signs.begin(grant(id, later(HOUR)), NOW).expect("signed in").value;
    let (value, bob) = (begin("alice"), begin("bob"));
    end(&signs, &value, NOW);
    let lines = || std::fs::read_to_string(scratch.path().join("signed-out.jsonl")).expect("a file").lines().count();
    for _ in 0..2 {
        assert_eq!(signs.end(&value, NOW).map(|out| out.who.as_str().to_owned()), Ok("alice".into()));
    }
    assert_eq!(lines(), 1, "it is written down once");
    assert_eq!(signs.verify(&value, NOW), Err(AuthError::NotSignedIn));
    assert!(matches!(signs.end("no cookie", NOW), Err(AuthError::NotSignedIn)));
    tell(&signs, &signs, "alice", &mut None, NOW);
    assert!(matches!(signs.end(&value, NOW), Err(AuthError::NotSignedIn)), "now they know");
    end(&signs, &bob, NOW);
    assert!(matches!(signs.end(&value, NOW), Err(AuthError::NotSignedIn)), "of another's they need not");
}

#[test]
fn a_sign_out_that_comes_while_another_is_told_is_told_as_well() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let signs = shared(&scratch, &key, NOW);
    let alice = ParticipantId::new("alice").expect("an id");
    let begin = || signs.begin(grant("alice", later(HOUR)), NOW).expect("signed in").value;
    let (first, second) = (begin(), begin());
    end(&signs, &first, NOW);
    let kept = signs.ended.tell(&alice, None, NOW).expect("something to tell");
    end(&signs, &second, NOW);
    assert!(!signs.ended.hear(&kept, NOW), "its own word is no news");
    assert!(signs.ended.is_unshared(&alice), "the others know of the first");
    let kept = signs.ended.tell(&alice, Some(&kept), NOW).expect("the second");
    assert!(signs.ended.is_unshared(&alice), "it is not stored yet");
    assert!(!signs.ended.hear(&kept, NOW));
    assert!(!signs.ended.is_unshared(&alice));
}

#[test]
fn what_is_heard_of_others_is_bounded_and_nobody_is_signed_in_again_by_it() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let here = SignIns {
        ended: Arc::new(SignOuts::with_room_for(3, scratch.path(), NOW).expect("the directory can be used")),
        ..opened(&Scratch::new(), &key, NOW)
    };
    let there = shared(&Scratch::new(), &key, NOW);
    let sign_in = |id: &str, at| here.begin(grant(id, later(9 * HOUR)), at).expect("signed in").value;
    let sign_out = |id: &str, value: &str, now| {
        end(&there, value, now);
        let kept = there.ended.tell(&ParticipantId::new(id).expect("an id"), None, now).expect("something to tell");
        (here.ended.hear(&kept, now), here.ended.hear(&kept, now))
    };
    let short = here.begin(grant("short", later(HOUR)), NOW).expect("signed in").value;
    let values = ["a", "b", "c", "d"].map(|id| (id, sign_in(id, NOW)));
    let staying = sign_in("staying", NOW);
    assert_eq!(sign_out("short", &short, NOW), (true, false), "news once");
    for (id, value) in &values[..2] {
        assert_eq!(sign_out(id, value, NOW), (true, false));
    }
    assert_eq!(here.ended.len(), 3);
    // What would have ended by itself makes room.
    assert_eq!(sign_out(values[2].0, &values[2].1, later(HOUR)), (true, false));
    assert_eq!(here.ended.len(), 3);
    assert!(here.verify(&staying, later(HOUR)).is_ok());
    // Beyond that nobody can be told apart, but for people who sign in later.
    let fresh = sign_in("staying", later(HOUR));
    assert_eq!(sign_out(values[3].0, &values[3].1, later(HOUR)), (true, false));
    assert_eq!(here.ended.len(), 3);
    for value in values.iter().map(|(_, value)| value).chain([&staying]) {
        assert_eq!(here.verify(value, later(HOUR)), Err(AuthError::NotSignedIn));
    }
    assert!(here.verify(&fresh, later(HOUR)).is_ok());
    assert!(matches!(here.end(&fresh, later(HOUR)), Err(AuthError::TooManySignOuts)));
}

#[test]
fn a_sign_in_of_development_mode_ends_with_it() {
    let (scratch, key) = (Scratch::new(), LocalKey::generate());
    let dev = opened(&scratch, &key.for_development(), NOW);
    let SignedIn { value, .. } = dev.begin(grant("alice", later(HOUR)), NOW).expect("signed in");
    assert!(dev.verify(&value, NOW).is_ok());
    assert_eq!(opened(&scratch, &key, NOW).verify(&value, NOW), Err(AuthError::NotSignedIn));
}
