//! The token verifier, on any text, and on any claims under a good signature: those come from the holder of a key.

use std::sync::LazyLock;

use aws_lc_rs::hmac;
use data_encoding::BASE64URL_NOPAD;
use salon_gateway::auth::{Grant, LocalKey, Signer, Verifier};
use salon_protocol::Timestamp;

const SECRET: &[u8; 32] = b"a secret that everybody may read";
const NOW: Timestamp = Timestamp(1_755_000_000_000);

static KEYS: LazyLock<(Verifier, Signer, hmac::Key)> = LazyLock::new(|| {
    // The one way to a known key is the file it is read from.
    let folder = std::env::temp_dir().join(format!("salon-fuzz-token-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the key");
    let file = folder.join("auth.key");
    std::fs::write(&file, SECRET).expect("a key file");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&file, private).expect("a private key file");
    let key = LocalKey::load_or_create(&folder).expect("the key that was written");
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
    (Verifier::new(&key), Signer::new(&key), hmac::Key::new(hmac::HMAC_SHA256, SECRET))
});

pub(crate) fn run(bytes: &[u8]) -> bool {
    let (verifier, ..) = &*KEYS;
    match bytes.split_first() {
        Some((b'=', claims)) => {
            if let Ok(grant) = verifier.verify(&signed(br#"{"alg":"HS256"}"#, claims), NOW) {
                keeps_its_word(&grant);
            }
        }
        // A header and claims, parted by a line break.
        Some((b'+', rest)) => {
            let at = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            let claims = rest.get(at + 1..).unwrap_or_default();
            if let Ok(grant) = verifier.verify(&signed(&rest[..at], claims), NOW) {
                keeps_its_word(&grant);
            }
        }
        _ => {
            let Ok(text) = std::str::from_utf8(bytes) else { return false };
            assert!(verifier.verify(text, NOW).is_err(), "nobody guesses a signature");
        }
    }
    true
}

/// What must hold of everybody who is let in.
fn keeps_its_word(grant: &Grant) {
    let (verifier, signer, _) = &*KEYS;
    assert!(grant.expires > NOW);
    assert!(!grant.participant.is_reserved());
    assert!(!grant.topics.is_empty());
    if let Ok(token) = signer.sign(grant, NOW) {
        let again = verifier.verify(&token, NOW).expect("what is signed here is good here");
        assert_eq!(Grant { expires: grant.expires, ..again }, *grant, "a grant survives being signed again");
    }
}

fn signed(header: &[u8], claims: &[u8]) -> String {
    let text = format!("{}.{}", BASE64URL_NOPAD.encode(header), BASE64URL_NOPAD.encode(claims));
    let signature = hmac::sign(&KEYS.2, text.as_bytes());
    format!("{text}.{}", BASE64URL_NOPAD.encode(signature.as_ref()))
}
