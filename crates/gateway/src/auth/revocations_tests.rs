use futures_util::FutureExt;
use salon_log::cluster::SingleNode;

use super::*;
use crate::scratch::Scratch;

const SECOND: u64 = 1000;

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
    assert!(revocations.require(&alice(5 * SECOND)).is_ok());
    revoke(&revocations, RevokedTokens::Token("b".into()), 9 * SECOND);
    assert!(revocations.require(&alice(5 * SECOND)).is_ok());
    assert_eq!(
        revocations.require(&grant("alice", "b", 99 * SECOND)),
        Err(AuthError::Revoked),
        "whenever it was issued"
    );

    let participant = RevokedTokens::Participant(ParticipantId::new("alice").expect("an id"));
    revoke(&revocations, participant.clone(), 10 * SECOND);
    assert_eq!(revocations.require(&alice(10 * SECOND)), Err(AuthError::Revoked));
    assert!(revocations.require(&alice(11 * SECOND)).is_ok(), "a new token is good");
    assert!(revocations.require(&grant("bob", "c", 5 * SECOND)).is_ok());
    revoke(&revocations, participant, 7 * SECOND);
    assert_eq!(revocations.require(&alice(10 * SECOND)), Err(AuthError::Revoked), "what is revoked stays revoked");

    revoke(&revocations, RevokedTokens::All(true), 20 * SECOND);
    assert_eq!(revocations.require(&grant("bob", "c", 20 * SECOND)), Err(AuthError::Revoked));
    assert_eq!(revocations.require(&grant("bob", "c", 0)), Err(AuthError::Revoked), "one that does not say when");
    assert!(revocations.require(&grant("bob", "c", 21 * SECOND)).is_ok());
}

#[test]
fn a_restart_forgets_none_and_a_line_that_was_cut_off_is_left_out() {
    let scratch = Scratch::new();
    let revocations = open(&scratch);
    revoke(&revocations, RevokedTokens::Token("a".into()), SECOND);
    revoke(&revocations, RevokedTokens::All(true), 3 * SECOND);
    drop(revocations);
    let path = scratch.path().join(REVOCATIONS_FILE);
    let mut text = fs::read_to_string(&path).expect("the file");
    assert_eq!(text, "{\"token\":\"a\",\"before\":1000}\n{\"all\":true,\"before\":3000}\n");
    text.push_str("{\"token\":\"b\",\"bef");
    fs::write(&path, &text).expect("written");
    let revocations = open(&scratch);
    assert_eq!(revocations.require(&grant("x", "a", 9 * SECOND)), Err(AuthError::Revoked));
    assert_eq!(revocations.require(&grant("x", "y", 3 * SECOND)), Err(AuthError::Revoked));
    assert!(revocations.require(&grant("x", "b", 9 * SECOND)).is_ok());
    drop(revocations);
    fs::write(&path, "{}\n{\"token\":\"b\",\"before\":1}\n").expect("written");
    let refused = Revocations::open(scratch.path(), Arc::new(SingleNode::default())).err().expect("a damaged file");
    assert!(refused.to_string().contains("not a revocation"), "{refused}");
}

#[tokio::test]
async fn whoever_is_connected_hears_of_it() {
    let scratch = Scratch::new();
    let revocations = open(&scratch);
    let watch = revocations.revoked_later(&grant("alice", "a", SECOND));
    let other = revocations.revoked_later(&grant("bob", "b", SECOND));
    let mut ended = Box::pin(watch.ended());
    assert!(ended.as_mut().now_or_never().is_none());
    revoke(&revocations, RevokedTokens::Token("b".into()), SECOND);
    assert!(ended.as_mut().now_or_never().is_none());
    other.ended().await;
    revoke(&revocations, RevokedTokens::Token("a".into()), SECOND);
    ended.await;
}
