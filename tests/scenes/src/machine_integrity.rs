//! Signed messages of the Machine Context Protocol over real connections. The canonical form is written by hand here: keys in order,
//! no blanks.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use data_encoding::BASE64URL_NOPAD;
use libtest_mimic::Trial;
use salon_testkit::http::HttpCall;
use salon_testkit::{Failure, TestEngine, TestGateway, TestOptions, TestSocket, TestSocketEvent, TestToken};
use serde_json::Value;

use crate::room::{join, next};
use crate::tables::{self, Logs};

const TOPIC: &str = "room:alpha";

pub(crate) fn trials(engine: TestEngine) -> Vec<Trial> {
    tables::trials(
        engine,
        "machine::integrity",
        &[
            ("by the token, over WebSocket", Logs::SqliteOnly, |engine| Box::pin(by_token(engine))),
            ("by a key of the token's, over HTTP", Logs::SqliteOnly, |engine| Box::pin(by_key(engine))),
            ("in the message that shows the token", Logs::SqliteOnly, |engine| Box::pin(in_first_message(engine))),
        ],
    )
}

/// A token that demands signatures.
fn token(claims: &[(&str, &str)]) -> Result<TestToken, Failure> {
    let mut token = TestToken::new("alice");
    for (claim, value) in [("integrity", "required"), ("jti", "t-1")].iter().chain(claims) {
        token.claim(claim, value)?;
    }
    Ok(token)
}

/// A message in its canonical form, with `metadata.integrity` where that is given.
fn message(id: &str, number: &str, security: &str, integrity: &str) -> String {
    format!(
        r#"{{"header":{{"destination":"*","messageId":"{id}","messageType":"notification","source":"alice","timestamp":"2025-03-21T10:00:00Z","version":"1.0"}},"metadata":{{{integrity}}},"payload":{{"context":{{"é":[1.5,{number}]}}{security}}}}}"#
    )
}

fn integrity(alg: &str, key: &str, value: &[u8]) -> String {
    format!(r#""integrity":{{"alg":"{alg}","keyId":"{key}","value":"{}"}}"#, BASE64URL_NOPAD.encode(value))
}

/// A message signed with the token itself.
fn signed(id: &str, number: &str, security: &str, token: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
    let tag = hmac::sign(&key, message(id, number, security, "").as_bytes());
    message(id, number, security, &integrity("HS256", "t-1", tag.as_ref()))
}

async fn connect(gateway: &TestGateway, token: Option<&str>) -> Result<TestSocket, Failure> {
    let call = HttpCall::new("GET", format!("/context/v1/ws?topic={TOPIC}"));
    let call = token.into_iter().fold(call, HttpCall::bearer);
    TestSocket::connect(gateway.address(), call).await?.map_err(|answer| format!("refused: {answer:?}"))
}

/// The error that comes next, as its code and what it is about.
async fn refusal(socket: &mut TestSocket) -> Result<String, Failure> {
    let TestSocketEvent::Text(text) = socket.next().await? else { return Err("expected an error".into()) };
    let message: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    Ok(format!("{} {}", word(&message["error"]["code"]), word(&message["header"]["requestId"])))
}

fn expect(came: &str, expected: &str) -> Result<(), Failure> {
    if came == expected { Ok(()) } else { Err(format!("expected {expected}, came {came}")) }
}

/// Bob hears exactly these messages of alice's, in this order, and no signature.
async fn heard(bob: &mut TestSocket, expected: &[&str]) -> Result<(), Failure> {
    let mut heard = Vec::new();
    while heard.len() < expected.len() {
        let text = next(bob).await?;
        let entry: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        if text.contains("integrity") {
            return Err(format!("a signature is in the room: {text}"));
        }
        if entry["from"] == "alice" {
            heard.push(entry["id"].as_str().unwrap_or_default().to_owned());
        }
    }
    if heard == expected { Ok(()) } else { Err(format!("expected {expected:?}, heard {heard:?}")) }
}

async fn by_token(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let mut bob = join(&gateway, "bob").await?;
    let token = gateway.token(&token(&[])?)?;
    let mut alice = connect(&gateway, Some(&token)).await?;
    let good = signed("m1", "2", "", &token);
    alice.text(message("m0", "2", "", "")).await?;
    expect(&refusal(&mut alice).await?, "forbidden m0")?;
    alice.text(good.replace("[1.5,2]", "[1.5,3]")).await?;
    expect(&refusal(&mut alice).await?, "forbidden m1")?;
    alice.text(good.replace(r#""destination":"*""#, r#""destination":"bob""#)).await?;
    expect(&refusal(&mut alice).await?, "forbidden m1")?;
    alice.text(good.replace(r#""keyId":"t-1""#, r#""keyId":"t-2""#)).await?;
    expect(&refusal(&mut alice).await?, "forbidden m1")?;
    alice.text(signed("m2", "9007199254740993", "", &token)).await?;
    expect(&refusal(&mut alice).await?, "invalid_parameters m2")?;
    // Another spelling of what was signed.
    let spelt = good.replace("é", r"\u00e9").replace("[1.5,2]", "[ 15e-1, 2.0 ]");
    alice.text(spelt).await?;
    alice.text(signed("m3", "3", "", "another token")).await?;
    expect(&refusal(&mut alice).await?, "forbidden m3")?;
    alice.text(signed("m4", "4", "", &token)).await?;
    heard(&mut bob, &["m1", "m4"]).await?;
    drop((alice, bob));
    gateway.stop().await
}

async fn by_key(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let mut bob = join(&gateway, "bob").await?;
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).map_err(|error| error.to_string())?;
    let token = gateway.token(&token(&[("key", &BASE64URL_NOPAD.encode(pair.public_key().as_ref()))])?)?;
    let sign = |id: &str, pair: &Ed25519KeyPair| {
        let value = pair.sign(message(id, "2", "", "").as_bytes());
        message(id, "2", "", &integrity("EdDSA", "t-1", value.as_ref()))
    };
    let other = Ed25519KeyPair::from_seed_unchecked(&[8; 32]).map_err(|error| error.to_string())?;
    for (body, status) in [
        (message("m0", "2", "", ""), 403),
        (sign("m1", &pair), 202),
        (sign("m1", &pair).replace("m1", "m2"), 403),
        (sign("m3", &other), 403),
        (sign("m4", &pair).replace(r#""value":""#, r#""value":"="#), 400),
        (sign("m5", &pair), 202),
    ] {
        let call =
            HttpCall::new("POST", format!("/context/v1/messages?topic={TOPIC}")).bearer(&token).body(body.clone());
        let answer = call.send(gateway.address()).await?;
        if answer.status != status {
            return Err(format!("expected {status}, came {answer:?} for {body}"));
        }
    }
    heard(&mut bob, &["m1", "m5"]).await?;
    drop(bob);
    gateway.stop().await
}

async fn in_first_message(engine: TestEngine) -> Result<(), Failure> {
    let gateway = TestGateway::start(TestOptions::new(engine)).await?;
    let mut bob = join(&gateway, "bob").await?;
    let token = gateway.token(&token(&[])?)?;
    let security = format!(r#","security":{{"token":"{token}"}}"#);
    let mut alice = connect(&gateway, None).await?;
    // Who shows the token has come in, and its message is held to what the token demands.
    alice.text(message("m0", "2", &security, "")).await?;
    expect(&refusal(&mut alice).await?, "forbidden m0")?;
    alice.text(signed("m1", "2", &security, &token)).await?;
    alice.text(message("m2", "2", "", "")).await?;
    expect(&refusal(&mut alice).await?, "forbidden m2")?;
    heard(&mut bob, &["m1"]).await?;
    drop((alice, bob));
    gateway.stop().await
}
