//! Tokens, permissions and seals: what a message is held to.

use super::*;

/// Verifies by comparing: the value is the number of bytes, the key is named `k1`.
fn terms(sealed: bool) -> Terms {
    let verify = |seal: &Seal, signed: SignedForm<'_>| {
        let is_known = seal.algorithm == Algorithm::Hs256 && &*seal.key_id == "k1";
        let is_right = is_known && *seal.value == (signed()?.len() as u16).to_be_bytes()[..];
        if is_right { Ok(()) } else { Err(Refusal::new(Code::Forbidden, "the seal is not that of the message")) }
    };
    let vouch = |token: &str| {
        if token == "good" { Ok(()) } else { Err(Refusal::new(Code::Unauthorized, "the token is not yours")) }
    };
    let granted = ["read".to_owned(), "drive".to_owned()];
    Terms { granted: granted.into(), sealed, verify: std::sync::Arc::new(verify), vouch: std::sync::Arc::new(vouch) }
}

/// A message that ends with its metadata, with the seal that fits it.
fn sealed(text: &str) -> String {
    let length = signed_form(text).unwrap().len();
    let (value, open) = (encode((length as u16).to_be_bytes()), text.strip_suffix("}}").unwrap());
    format!(r#"{open},"integrity":{{"alg":"HS256","keyId":"k1","value":"{value}"}}}}}}"#)
}

fn encode([high, low]: [u8; 2]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = (u32::from(high) << 8 | u32::from(low)) << 2;
    [12, 6, 0].map(|shift| char::from(digits[(bits >> shift & 63) as usize])).iter().collect()
}

fn told(demanded: bool, text: &str) -> String {
    let mut play = Play::seated_with(|options| options.terms = Some(terms(demanded)));
    play.frame(None, text);
    play.told
}

#[test]
fn a_message_is_what_was_signed() {
    let plain = message("notification", r#"m1 bob {"context":{"n":1}} # {"a":1}"#);
    let good = sealed(&plain);
    let mut all = String::new();
    for text in [
        plain.clone(),
        good.clone(),
        // White space and the order of keys are no part of the form.
        good.replace(r#""n":1"#, r#""n" : 1.0"#),
        good.replace(r#""n":1"#, r#""n":12"#),
        good.replace(r#""a":1"#, r#""a":12"#),
        good.replace(r#""k1""#, r#""k2""#),
        good.replace("HS256", "EdDSA"),
        good.replace("HS256", "none"),
        good.replace(r#""keyId":"k1","#, ""),
        good.replace(r#""value":""#, r#""value":"=="#),
        good.replace(r#""n":1"#, r#""n":9007199254740993"#),
        good.replace(r#""n":1"#, r#""n":1e999"#),
        // Nobody looks at what was signed with a key that is not known.
        good.replace(r#""n":1"#, r#""n":1e999"#).replace(r#""k1""#, r#""k2""#),
        good.replace(r#""integrity":{"#, r#""integrity":[{"#).replace("}}}", "}]}}"),
    ] {
        all.push_str(&told(true, &text));
    }
    assert_snapshot!(all, @r#"
    ← [forbidden] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"forbidden","message":"the token demands that every message is signed: `metadata.integrity` is missing"}}
    ⇒ bob m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{"context":{"n":1}},"metadata":{"a":1}}}
    ⇒ bob m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{"context":{"n" : 1.0}},"metadata":{"a":1}}}
    ← [forbidden] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"forbidden","message":"the seal is not that of the message"}}
    ← [forbidden] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"forbidden","message":"the seal is not that of the message"}}
    ← [forbidden] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"forbidden","message":"the seal is not that of the message"}}
    ← [forbidden] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"forbidden","message":"the seal is not that of the message"}}
    ← [invalid_parameters] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"`metadata.integrity.alg` must be HS256 or EdDSA"}}
    ← [invalid_parameters] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"`metadata.integrity` must have the strings `alg`, `keyId` and `value`"}}
    ← [invalid_parameters] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"`metadata.integrity.value` must be base64url without padding"}}
    ← [invalid_parameters] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"the message cannot be verified: it has an integer beyond 2^53, which the canonical form cannot hold"}}
    ← [invalid_parameters] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"the message cannot be verified: it has a number beyond the range of doubles, which the canonical form cannot hold"}}
    ← [forbidden] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"forbidden","message":"the seal is not that of the message"}}
    ← [invalid_parameters] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"`metadata.integrity` must have the strings `alg`, `keyId` and `value`"}}
    "#);
    assert_snapshot!(told(false, &plain), @r#"⇒ bob m1 {"method":"notifications/context","params":{"messageType":"notification","payload":{"context":{"n":1}},"metadata":{"a":1}}}"#);
}

#[test]
fn a_token_in_a_message_is_checked_and_permissions_only_narrow() {
    let mut all = String::new();
    for security in [
        r#"{"token":"good"}"#,
        r#"{"token":"bad"}"#,
        r#"{"permissions":["read"]}"#,
        r#"{"permissions":[]}"#,
        r#"{"permissions":["read","fly"]}"#,
        r#"{"permissions":[1]}"#,
    ] {
        let text = message("request", &format!(r#"m1 bob {{"tool":{{"id":"t"}},"security":{security}}}"#));
        let mut play = Play::seated_with(|options| options.terms = Some(terms(false)));
        play.frame(None, &text);
        play.run("list bob {\"tools\":[{\"name\":\"t\"}]}");
        if !play.open.is_empty() {
            play.run("bob: initialize");
        }
        let told: Vec<_> = play.told.lines().filter(|line| line.contains("tools/call") || line.contains("←")).collect();
        all.push_str(&format!("{security}\n  {}\n", told.join("\n  ")));
    }
    assert_snapshot!(all, @r#"
    {"token":"good"}
      ⇒ bob m1 {"id":"m1","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m1"}}}
    {"token":"bad"}
      ← [unauthorized] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"unauthorized","message":"the token is not yours"}}
    {"permissions":["read"]}
      ⇒ bob m1 {"id":"m1","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m1","salon/permissions":["read"]}}}
    {"permissions":[]}
      ⇒ bob m1 {"id":"m1","method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":"m1","salon/permissions":[]}}}
    {"permissions":["read","fly"]}
      ← [forbidden] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"forbidden","message":"`payload.security.permissions` may only narrow what the token permits"}}
    {"permissions":[1]}
      ← [invalid_parameters] {"header":{"id":"s-2","type":"error","requestId":"m1","source":"system:gateway","destination":"alice"},"error":{"code":"invalid_parameters","message":"`payload.security.permissions` must be a list of strings"}}
    "#);
}

#[test]
fn terms_are_checked_without_a_session_too() {
    let check = |text: &str| {
        let message = UnverifiedMessage::parse(text, &Limits::default());
        message.verify(&id("alice"), Some(&terms(true))).map(drop)
    };
    let plain = message("notification", r#"m1 bob {"context":{}} # {"a":1}"#);
    assert_eq!(check(&sealed(&plain)), Ok(()));
    let refusal = check(&plain).unwrap_err();
    assert_eq!((refusal.code, refusal.regarding), (Code::Forbidden, EnvelopeId::new("m1").ok()));
    assert_eq!(check("nonsense").unwrap_err().code, Code::InvalidJson);
}
