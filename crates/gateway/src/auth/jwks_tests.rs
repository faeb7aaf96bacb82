use std::sync::Arc;

use aws_lc_rs::signature::Ed25519KeyPair;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use parking_lot::Mutex;
use salon_protocol::Timestamp;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use super::*;
use crate::auth::{AuthError, LocalKey};
use crate::scratch::Scratch;

const DAY: Duration = Duration::from_secs(24 * 3600);
const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// Somebody who signs tokens.
struct Provider(EncodingKey, &'static str);

impl Provider {
    fn new(id: &'static str) -> Self {
        let pair = Ed25519KeyPair::generate().expect("a key pair").to_pkcs8v1().expect("its bytes");
        Self(EncodingKey::from_ed_der(pair.as_ref()), id)
    }

    fn public(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.0, Algorithm::EdDSA).expect("a public key");
        jwk.common.key_id = Some(self.1.into());
        serde_json::to_value(jwk).expect("a value")
    }

    fn token(&self) -> String {
        let header = Header { kid: Some(self.1.into()), ..Header::new(Algorithm::EdDSA) };
        encode(&header, &json!({"sub": "alice", "aud": "*", "exp": 1_800_000_060}), &self.0).expect("a token")
    }
}

fn document(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// Answers every request on a loopback port with whatever `answer` holds at that time, and tells of each once it is answered.
struct Site {
    url: String,
    answer: Arc<Mutex<String>>,
    answered: mpsc::Receiver<()>,
    _task: tokio::task::JoinHandle<()>,
}

impl Site {
    async fn new(first: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/keys.json?secret=hush", listener.local_addr().expect("an address"));
        let answer = Arc::new(Mutex::new(first));
        let (tell, answered) = mpsc::channel(64);
        let current = answer.clone();
        let task = tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.expect("a connection");
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    if socket.read_buf(&mut request).await.expect("a request") == 0 {
                        break;
                    }
                }
                let text = current.lock().clone();
                // A client that has had enough hangs up; that is its business.
                let _ = socket.write_all(text.as_bytes()).await;
                let _ = tell.send(()).await;
            }
        });
        Self { url, answer, answered, _task: task }
    }

    fn says(&self, next: String) {
        *self.answer.lock() = next;
    }

    fn jwks(&self) -> Jwks {
        Jwks::new(self.url.parse().expect("a source"), DAY).expect("a client")
    }
}

#[test]
fn a_place_is_a_path_or_a_safe_url() {
    let place = |text: &str| match text.parse::<JwksSource>() {
        Ok(JwksSource::File(path)) => format!("file {}", path.display()),
        Ok(url) => format!("url {url}"),
        Err(error) => error.to_string(),
    };
    assert_eq!(place("keys.json"), "file keys.json");
    assert_eq!(place("https://id.example/keys?secret=hush"), "url https://id.example/keys");
    assert_eq!(place("http://localhost:1/k"), "url http://localhost:1/k");
    assert_eq!(place("http://127.9.9.9/k"), "url http://127.9.9.9/k");
    assert_eq!(place("http://[::1]:8/k"), "url http://[::1]:8/k");
    let needs_https = "the key set's place is not usable: keys from another machine need `https://`";
    assert_eq!(place("http://id.example/keys"), needs_https);
    assert_eq!(place("http://localhost.example/keys"), needs_https);
    assert_eq!(place("http://127.0.0.1.example/keys"), needs_https);
    assert_eq!(
        place("https://user:pass@id.example/"),
        "the key set's place is not usable: a URL with a user name or password in it is not used"
    );
    assert_eq!(
        place("ftp://id.example/"),
        "the key set's place is not usable: it is neither a path nor an `https://` URL"
    );
    assert_eq!(place("https://"), "the key set's place is not usable: it is not a URL");
    assert_eq!(place(""), "the key set's place is not usable: it is empty");
}

#[test]
fn a_set_keeps_only_keys_for_signatures() {
    let key = Provider::new("a").public();
    let changed = |field: &str, value: Value| {
        let mut key = key.clone();
        key[field] = value;
        key
    };
    let told = |keys: &[Value]| parse(document(keys).as_bytes()).map_or_else(|e| e.to_string(), |s| format!("{s:?}"));
    assert_eq!(told(&[key.clone(), Provider::new("b").public()]), "KeySet(2 keys)");
    let none = "the key set has no key for EdDSA, ES256 or RS256 signatures";
    assert_eq!(told(&[]), none);
    assert_eq!(told(&[changed("use", json!("enc"))]), none);
    assert_eq!(told(&[changed("alg", json!("RS256"))]), none, "an algorithm its kind of key does not have");
    assert_eq!(told(&[changed("x", json!("AAAA"))]), none, "too short");
    assert_eq!(told(&[changed("crv", json!("X25519"))]), none);
    assert_eq!(told(&[json!({"kty": "oct", "k": "A".repeat(87), "kid": "s"})]), none, "a shared secret");
    assert_eq!(told(&[json!({"kty": "RSA", "n": "sXchDaQebHnPiGvy", "e": "AQAB"})]), none, "a short modulus");
    assert_eq!(told(&[json!(5), json!({"kty": "AKP"}), key.clone(), key.clone()]), "KeySet(1 keys)");
    let malformed = |text: &str| parse(text.as_bytes()).expect_err("refused").to_string();
    assert!(malformed("[]").starts_with("the key set is not a JSON Web Key Set: "));
    assert!(malformed("<html>").starts_with("the key set is not a JSON Web Key Set: "));
}

#[tokio::test]
async fn keys_come_from_a_file() {
    let scratch = Scratch::new();
    let provider = Provider::new("a");
    std::fs::write(scratch.path().join("keys.json"), document(&[provider.public()])).expect("written");
    let source = "keys.json".parse::<JwksSource>().expect("a path").relative_to(scratch.path());
    let verifier = Verifier::new(&LocalKey::generate());
    verifier.trust(Jwks::new(source, DAY).expect("a client").fetch().await.expect("keys"));
    assert_eq!(verifier.verify(&provider.token(), NOW).expect("a grant").participant.as_str(), "alice");

    std::fs::write(scratch.path().join("large.json"), vec![b' '; MAX_BYTES + 1]).expect("written");
    let large = Jwks::new(JwksSource::File(scratch.path().join("large.json")), DAY).expect("a client");
    assert!(matches!(large.fetch().await, Err(JwksError::TooLarge)));
    let gone = Jwks::new(JwksSource::File(scratch.path().join("gone.json")), DAY).expect("a client");
    assert!(matches!(gone.fetch().await, Err(JwksError::Read(_))));
}

#[tokio::test]
async fn an_address_that_does_not_answer_well_is_an_error() {
    let site = Site::new(answer("500 Oh", "")).await;
    let jwks = site.jwks();
    assert!(matches!(jwks.fetch().await, Err(JwksError::Status(500))));
    site.says("HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".into());
    assert!(matches!(jwks.fetch().await, Err(JwksError::Status(302))));
    site.says(answer("200 OK", &" ".repeat(MAX_BYTES + 1)));
    assert!(matches!(jwks.fetch().await, Err(JwksError::TooLarge)));
    site.says(answer("200 OK", "{}"));
    assert!(matches!(jwks.fetch().await, Err(JwksError::Malformed(_))));
    site.says("nonsense\r\n\r\n".into());
    let error = jwks.fetch().await.expect_err("refused").to_string();
    assert!(error.starts_with("the key set could not be fetched: ") && !error.contains("hush"), "{error}");
}

#[tokio::test]
async fn an_unknown_key_is_looked_for_and_a_failure_keeps_the_old_ones() {
    let (old, new) = (Provider::new("old"), Provider::new("new"));
    let mut site = Site::new(answer("200 OK", &document(&[old.public()]))).await;
    let jwks = Jwks { at_most_every: Duration::ZERO, ..site.jwks() };
    let verifier = Verifier::new(&LocalKey::generate());
    verifier.trust(jwks.fetch().await.expect("keys"));
    site.answered.recv().await.expect("the first look");
    let mut changes = verifier.changes();

    let (stop, stopped) = oneshot::channel::<()>();
    let refreshing = tokio::spawn({
        let verifier = verifier.clone();
        async move { jwks.refresh(&verifier, async { stopped.await.expect("told to stop") }).await }
    });

    site.says(answer("503 Later", ""));
    assert_eq!(verifier.verify(&new.token(), NOW), Err(AuthError::UnknownKey));
    site.answered.recv().await.expect("a look that fails");
    assert!(verifier.verify(&old.token(), NOW).is_ok(), "the old key stays");

    site.says(answer("200 OK", &document(&[new.public()])));
    assert_eq!(verifier.verify(&new.token(), NOW), Err(AuthError::UnknownKey));
    changes.changed().await.expect("new keys");
    assert!(verifier.verify(&new.token(), NOW).is_ok());
    assert_eq!(verifier.verify(&old.token(), NOW), Err(AuthError::UnknownKey), "the old key was taken away");

    stop.send(()).expect("still running");
    refreshing.await.expect("it ends when told");
}

// The clock is the test's own here: nothing but a small file is read.
#[tokio::test(start_paused = true)]
async fn looks_are_regular_and_rate_limited() {
    let scratch = Scratch::new();
    let path = scratch.path().join("keys.json");
    std::fs::write(&path, document(&[Provider::new("a").public()])).expect("written");
    let jwks = Jwks::new(JwksSource::File(path), DAY).expect("a client");
    let verifier = Verifier::new(&LocalKey::generate());
    let mut changes = verifier.changes();
    let stranger = Provider::new("stranger").token();
    let start = Instant::now();
    let story = async {
        let mut looked_at = Vec::new();
        for unknown in [0, 100, 1, 0] {
            for _ in 0..unknown {
                assert_eq!(verifier.verify(&stranger, NOW), Err(AuthError::UnknownKey));
                tokio::task::yield_now().await;
            }
            changes.changed().await.expect("the verifier is there");
            looked_at.push(start.elapsed().as_secs());
        }
        looked_at
    };
    let (tell, told) = oneshot::channel();
    jwks.refresh(&verifier, async { tell.send(story.await).expect("still listening") }).await;
    assert_eq!(told.await.expect("told"), [300, 330, 360, 660]);
}

// The clock is the test's own here, too.
#[tokio::test(start_paused = true)]
async fn keys_that_cannot_be_refreshed_for_long_are_not_used() {
    let scratch = Scratch::new();
    let path = scratch.path().join("keys.json");
    let provider = Provider::new("a");
    let keys = document(&[provider.public()]);
    std::fs::write(&path, &keys).expect("written");
    let jwks = Jwks::new(JwksSource::File(path.clone()), Duration::from_secs(3600)).expect("a client");
    let verifier = Verifier::new(&LocalKey::generate());
    verifier.trust(jwks.fetch().await.expect("keys"));
    let mut changes = verifier.changes();
    let start = Instant::now();
    let story = async {
        std::fs::remove_file(&path).expect("removed");
        changes.changed().await.expect("the verifier is there");
        let refused_at = start.elapsed();
        let refused = verifier.verify(&provider.token(), NOW);
        std::fs::write(&path, &keys).expect("written");
        changes.changed().await.expect("the verifier is there");
        (refused_at.as_secs(), refused, start.elapsed().as_secs(), verifier.verify(&provider.token(), NOW).is_ok())
    };
    let (tell, told) = oneshot::channel();
    jwks.refresh(&verifier, async { tell.send(story.await).expect("still listening") }).await;
    // Looks come every 30 s after the first failure, at 300 s.
    assert_eq!(told.await.expect("told"), (3600, Err(AuthError::KeysUnavailable), 3630, true));
}
