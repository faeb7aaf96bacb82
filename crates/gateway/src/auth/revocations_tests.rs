use futures_util::FutureExt;
use salon_log::cluster::SingleNode;

use super::*;
use crate::scratch::Scratch;

const ONE_SECOND_MS: u64 = 1000;

impl RevocationWatch {
    /// Of a gateway that revokes nothing.
    pub(crate) fn never(grant: &Grant) -> Self {
        open(&Scratch::new()).revoked_later(grant)
    }
}

fn grant(participant: &str, token: &str, issued: u64) -> Grant {
    let participant = ParticipantId::new(participant).expect("an id");
    let grant = Grant::new(participant, Vec::new(), Timestamp(u64::MAX));
    Grant { token_id: Some(token.into()), issued: Timestamp(issued), ..grant }
}

fn open(scratch: &Scratch) -> Arc<Revocations> {
    Arc::new(Revocations::open(scratch.path(), Arc::new(SingleNode::default())).expect("a file"))
}

fn revoke(revocations: &Revocations, tokens: RevokedTokens, before: u64) {
    revocations.add(&Revocation { tokens, before }).expect("revoked");
}

#[test]
fn one_token_one_participant_or_all() {
    let scratch = Scratch::new();
    let revocations = open(&scratch);
    let alice = |issued| grant("alice", "a", issued);
    assert!(revocations.require(&alice(5 * ONE_SECOND_MS)).is_ok());
    revoke(&revocations, RevokedTokens::Token("b".into()), 9 * ONE_SECOND_MS);
    assert!(revocations.require(&alice(5 * ONE_SECOND_MS)).is_ok());
    assert_eq!(
        revocations.require(&grant("alice", "b", 99 * ONE_SECOND_MS)),
        Err(AuthError::Revoked),
        "whenever it was issued"
    );

    let participant = RevokedTokens::Participant(ParticipantId::new("alice").expect("an id"));
    revoke(&revocations, participant.clone(), 10 * ONE_SECOND_MS);
    assert_eq!(revocations.require(&alice(10 * ONE_SECOND_MS)), Err(AuthError::Revoked));
    assert!(revocations.require(&alice(11 * ONE_SECOND_MS)).is_ok(), "a new token is good");
    assert!(revocations.require(&grant("bob", "c", 5 * ONE_SECOND_MS)).is_ok());
    revoke(&revocations, participant, 7 * ONE_SECOND_MS);
    assert_eq!(
        revocations.require(&alice(10 * ONE_SECOND_MS)),
        Err(AuthError::Revoked),
        "what is revoked stays revoked"
    );

    revoke(&revocations, RevokedTokens::All(true), 20 * ONE_SECOND_MS);
    assert_eq!(revocations.require(&grant("bob", "c", 20 * ONE_SECOND_MS)), Err(AuthError::Revoked));
    assert_eq!(revocations.require(&grant("bob", "c", 0)), Err(AuthError::Revoked), "one that does not say when");
    assert!(revocations.require(&grant("bob", "c", 21 * ONE_SECOND_MS)).is_ok());
}

#[test]
fn a_restart_forgets_none_and_a_line_that_was_cut_off_is_left_out() {
    let scratch = Scratch::new();
    let revocations = open(&scratch);
    revoke(&revocations, RevokedTokens::Token("a".into()), ONE_SECOND_MS);
    revoke(&revocations, RevokedTokens::All(true), 3 * ONE_SECOND_MS);
    drop(revocations);
    let path = scratch.path().join(REVOCATIONS_FILE);
    let mut text = fs::read_to_string(&path).expect("the file");
    assert_eq!(text, "{\"token\":\"a\",\"before\":1000}\n{\"all\":true,\"before\":3000}\n");
    text.push_str("{\"token\":\"b\",\"bef");
    fs::write(&path, &text).expect("written");
    let revocations = open(&scratch);
    assert_eq!(revocations.require(&grant("x", "a", 9 * ONE_SECOND_MS)), Err(AuthError::Revoked));
    assert_eq!(revocations.require(&grant("x", "y", 3 * ONE_SECOND_MS)), Err(AuthError::Revoked));
    assert!(revocations.require(&grant("x", "b", 9 * ONE_SECOND_MS)).is_ok());
    revoke(&revocations, RevokedTokens::Token("c".into()), ONE_SECOND_MS);
    drop(revocations);
    // Half a line ends in any byte, and a restore may have put others behind it.
    let mut bytes = fs::read(&path).expect("the file");
    bytes.extend_from_slice(b"{\"token\":\"\xc3\n{\"token\":\"d\",\"before\":1}\n");
    fs::write(&path, &bytes).expect("written");
    let revocations = open(&scratch);
    for token in ["a", "c", "d"] {
        assert_eq!(revocations.require(&grant("x", token, 9 * ONE_SECOND_MS)), Err(AuthError::Revoked), "{token}");
    }
}

#[test]
fn what_could_not_be_written_is_written_with_the_next() {
    let scratch = Scratch::new();
    let revocations = open(&scratch);
    revocations.revoked().is_incomplete = true;
    revoke(&revocations, RevokedTokens::Token("a".into()), ONE_SECOND_MS);
    let text = fs::read_to_string(scratch.path().join(REVOCATIONS_FILE)).expect("the file");
    assert_eq!(text, "{\"token\":\"a\",\"before\":1000}\n");
    assert!(!revocations.revoked().is_incomplete);
}

#[test]
fn a_sign_in_is_revoked_with_the_token_it_was_made_with() {
    let scratch = Scratch::new();
    let revocations = open(&scratch);
    let signed_in = Grant { origin: Some("a".into()), ..grant("alice", "cookie", ONE_SECOND_MS) };
    assert!(revocations.require(&signed_in).is_ok());
    revoke(&revocations, RevokedTokens::Token("a".into()), ONE_SECOND_MS);
    assert_eq!(revocations.require(&signed_in), Err(AuthError::Revoked));
}

#[test]
fn an_invitation_is_revoked_with_the_tokens_of_its_maker() {
    let scratch = Scratch::new();
    let revocations = open(&scratch);
    let inviter = Some(ParticipantId::new("alice").expect("an id"));
    let made = |at| Grant { inviter: inviter.clone(), ..grant("carol", "cookie", at) };
    revoke(&revocations, RevokedTokens::Participant(ParticipantId::new("alice").expect("an id")), ONE_SECOND_MS);
    assert_eq!(revocations.require(&made(ONE_SECOND_MS)), Err(AuthError::Revoked));
    assert!(revocations.require(&made(ONE_SECOND_MS + 1)).is_ok(), "it was made with a later token");
    assert!(revocations.require(&grant("carol", "own", ONE_SECOND_MS)).is_ok(), "another token of the invited");
}

#[tokio::test]
async fn a_session_ends_with_any_of_its_tokens() {
    let scratch = Scratch::new();
    let revocations = open(&scratch);
    let watch = revocations.revoked_later(&grant("alice", "a", ONE_SECOND_MS));
    let ended = watch.ended();
    watch.add(&grant("alice", "b", ONE_SECOND_MS));
    revoke(&revocations, RevokedTokens::Token("b".into()), ONE_SECOND_MS);
    ended.await;
}

#[tokio::test]
async fn open_connections_get_the_revocation() {
    let scratch = Scratch::new();
    let revocations = open(&scratch);
    let watch = revocations.revoked_later(&grant("alice", "a", ONE_SECOND_MS));
    let other = revocations.revoked_later(&grant("bob", "b", ONE_SECOND_MS));
    let mut ended = Box::pin(watch.ended());
    assert!(ended.as_mut().now_or_never().is_none());
    revoke(&revocations, RevokedTokens::Token("b".into()), ONE_SECOND_MS);
    assert!(ended.as_mut().now_or_never().is_none());
    other.ended().await;
    revoke(&revocations, RevokedTokens::Token("a".into()), ONE_SECOND_MS);
    ended.await;
}

#[tokio::test]
async fn a_key_that_is_removed_ends_what_its_tokens_opened() {
    let scratch = Scratch::new();
    let revocations = open(&scratch);
    let signed = |key: Option<&str>| {
        let issued = 9 * ONE_SECOND_MS;
        Grant { signing_key: key.map(str::to_owned), ..grant("alice", "a", issued) }
    };
    let watch = revocations.revoked_later(&signed(Some("salon-1")));
    let mut ended = Box::pin(watch.ended());
    assert!(ended.as_mut().now_or_never().is_none());
    let removed = |kids: &[&str]| {
        let kids = kids.iter().map(ToString::to_string).collect();
        revocations.add_removed_keys(kids, Timestamp(ONE_SECOND_MS)).expect("kept")
    };
    assert!(!removed(&[]));
    assert!(removed(&["salon-1"]));
    assert!(!removed(&["salon-1"]), "it is known");
    ended.await;
    let refused = Err(AuthError::Revoked);
    assert_eq!(revocations.require(&signed(Some("salon-1"))), refused, "whenever it was issued");
    assert!(revocations.require(&signed(Some("salon-2"))).is_ok());
    assert!(revocations.require(&signed(None)).is_ok());
    assert_eq!(open(&scratch).require(&signed(Some("salon-1"))), refused, "after a restart");
}
