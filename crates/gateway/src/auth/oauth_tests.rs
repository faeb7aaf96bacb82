use aws_lc_rs::signature::Ed25519KeyPair;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use salon_protocol::Timestamp;

use super::*;
use crate::auth::{Grant, LocalKey, TokenRules, Verifier, jwks};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn rules() -> OAuthRules {
    OAuthRules {
        issuers: vec!["https://id.example/".into()],
        urls: vec![Url::parse("https://chat.example/salon").expect("a URL")],
        resource: None,
        topics_claim: SCOPE.into(),
        permissions_claim: SCOPE.into(),
    }
}

/// An authorization server, and a gateway that trusts it.
struct IssuingServer {
    key: EncodingKey,
    verifier: Verifier,
}

impl IssuingServer {
    fn new(rules: Option<OAuthRules>) -> Self {
        let pair = Ed25519KeyPair::generate().expect("a key pair").to_pkcs8v1().expect("its bytes");
        let key = EncodingKey::from_ed_der(pair.as_ref());
        let mut public = Jwk::from_encoding_key(&key, Algorithm::EdDSA).expect("a public key");
        public.common.key_id = Some("k".into());
        let verifier =
            Verifier::with_rules(&LocalKey::generate(), TokenRules { oauth: rules, ..TokenRules::default() });
        verifier.trust(jwks::parse(json!({ "keys": [public] }).to_string().as_bytes()).expect("a key set"));
        Self { key, verifier }
    }

    fn verify(&self, typ: Option<&str>, claims: &Value) -> Result<Grant, AuthError> {
        let kid = Some("k".into());
        let header = Header { kid, typ: typ.map(str::to_owned), ..Header::new(Algorithm::EdDSA) };
        self.verifier.verify(&encode(&header, claims, &self.key).expect("a token"), NOW)
    }

    /// What comes of an access token: who, where, with which permissions; or the refusal.
    fn told(&self, typ: Option<&str>, claims: &Value) -> String {
        match self.verify(typ, claims) {
            Ok(grant) => {
                let topics: Vec<_> = grant.topics.iter().map(ToString::to_string).collect();
                format!("{} in {} may {}", grant.participant, topics.join(" "), grant.permissions.join(" "))
            }
            Err(error) => format!("{}: {error}", error.code()),
        }
    }
}

#[test]
fn capabilities_limit_access_tokens_too() {
    let server = IssuingServer::new(Some(rules()));
    let mut claims = good();
    claims["capabilities"] = json!(["read", "call:robot/look*"]);
    let grant = server.verify(None, &claims).expect("a grant");
    assert_eq!(grant.capabilities, Some(vec!["read".to_owned(), "call:robot/look*".to_owned()]));
    claims["capabilities"] = json!(["fly"]);
    assert!(server.verify(None, &claims).is_err(), "a limit that cannot be read is not left out");
}

/// Also one whose subject is a bridge's id: who is given that by its issuer is refused as everybody is.
#[test]
fn an_access_token_acts_for_nobody() {
    let server = IssuingServer::new(Some(rules()));
    let told = server.told(None, &with("acts_for", json!(["matrix:*"])));
    assert_eq!(
        told,
        "unauthorized: the token's `acts_for` is not usable: an access token of an authorization server acts for nobody; use one of `salon token --acts-for`"
    );
    let declared = vec![("matrix:*".parse().expect("a namespace"), "bridge:matrix".parse().expect("an id"))];
    let declared = salon_control::Namespaces::new(declared).expect("it fits");
    let grant = server.verify(None, &with("sub", json!("matrix:ann"))).expect("a grant");
    assert_eq!(grant.participant.as_str(), "matrix:ann");
    assert!(grant.require_namespaces(&declared).is_err());
}

fn good() -> Value {
    json!({
        "iss": "https://id.example/", "aud": "https://chat.example/salon", "sub": "auth0|1", "client_id": "c", "jti": "t",
        "iat": NOW.0 / 1000, "exp": NOW.0 / 1000 + 60, "scope": "openid topic:room:alpha topic:lab.* permission:metrics",
    })
}

fn with(claim: &str, value: Value) -> Value {
    let mut claims = good();
    claims[claim] = value;
    claims
}

#[test]
fn an_access_token_grants_what_its_scopes_say() {
    let server = IssuingServer::new(Some(rules()));
    let grant = server.verify(Some("at+jwt"), &with("name", json!("Ada"))).expect("a grant");
    assert_eq!(grant.participant.as_str(), "auth0~7C1");
    assert_eq!(grant.name.as_deref(), Some("Ada"));
    assert_eq!((grant.token_id.as_deref(), grant.issued), (Some("t"), NOW));
    let told = |claims: &Value| server.told(Some("at+jwt"), claims);
    let full = "auth0~7C1 in room:alpha lab.* may metrics";
    assert_eq!(told(&good()), full);
    assert_eq!(server.told(Some("application/at+jwt"), &good()), full);
    assert_eq!(server.told(Some("JWT"), &good()), full, "what many servers write");
    assert_eq!(server.told(None, &good()), full);
    // What means something else elsewhere is no reason to refuse.
    assert_eq!(told(&with("kind", json!(5))), full);
    assert_eq!(told(&with("name", json!("a\nb"))), full);
    assert_eq!(told(&with("permissions", json!("text"))), full);
    let mut entra = good();
    let scope = entra.as_object_mut().expect("an object").remove("scope").expect("a scope");
    entra["scp"] = scope;
    assert_eq!(told(&entra), full);
    assert_eq!(told(&with("scope", json!("topic:room%3Aalpha"))), "auth0~7C1 in room:alpha may ");
}

#[test]
fn what_is_not_for_this_gateway_is_refused() {
    let server = IssuingServer::new(Some(rules()));
    let told = |claims: &Value| server.told(Some("at+jwt"), claims);
    let issuer = "unauthorized: the token's issuer (`iss`) is not one of this gateway's authorization servers (`auth.authorization_servers`)";
    assert_eq!(told(&with("iss", json!("https://id.example"))), issuer, "compared exactly (RFC 9207 §2.4)");
    assert_eq!(told(&with("iss", json!("https://evil.example/"))), issuer);
    assert_eq!(told(&with("iss", Value::Null)), "unauthorized: the token's `iss` is not usable: it is not a string");
    let audience = "unauthorized: the token is for another audience (`aud`): ask for one with `resource=https://chat.example/salon`";
    for elsewhere in [
        json!("https://chat.example"),
        json!("https://chat.example/salon2"),
        json!("http://chat.example/salon"),
        json!("https://chat.example:444/salon"),
        json!("https://chat.example/salon/v0/topics"),
        json!("https://chat.example/salon/mcp/room:alpha/../../"),
        json!("https://chat.example/salon/mcp/a/b/c"),
        json!("https://chat.example/salon?a"),
        json!("https://u@chat.example/salon"),
        json!("room:alpha"),
        json!("client-of-an-id-token"),
        json!([]),
    ] {
        assert_eq!(told(&with("aud", elsewhere.clone())), audience, "{elsewhere}");
    }
    let none =
        "forbidden: the token opens no topic here: its claim `scope` names none, such as the scope `topic:room:alpha`";
    for scope in [json!("openid"), json!(""), json!(5), json!("room:alpha"), json!("topic:"), json!("topic:a%2Fb")] {
        assert_eq!(told(&with("scope", scope.clone())), none, "{scope}");
    }
    assert_eq!(
        told(&with("sub", json!("system:gateway"))),
        "forbidden: ids that begin with `system:` are the gateway's own"
    );
    assert_eq!(told(&with("exp", json!(NOW.0 / 1000))), "unauthorized: the token has expired");
}

#[test]
fn an_audience_is_the_gateway_or_one_of_its_rooms() {
    let server = IssuingServer::new(Some(rules()));
    let topics = |aud: Value| server.told(Some("at+jwt"), &with("aud", aud));
    let whole = "auth0~7C1 in room:alpha lab.* may metrics";
    assert_eq!(topics(json!(["api", "https://chat.example/salon/"])), whole);
    assert_eq!(topics(json!("https://CHAT.example:443/salon")), whole);
    assert_eq!(topics(json!("https://chat.example/salon/sse")), whole);
    let one = "auth0~7C1 in room:alpha may metrics";
    assert_eq!(topics(json!("https://chat.example/salon/mcp/room:alpha")), one);
    assert_eq!(topics(json!("https://chat.example/salon/mcp/room%3Aalpha/bob")), one);
    assert_eq!(topics(json!("https://chat.example/salon/mcp/lab.1")), "auth0~7C1 in lab.1 may metrics");
    assert!(
        topics(json!("https://chat.example/salon/mcp/room:beta")).starts_with("forbidden: the token opens no topic")
    );

    let fixed = OAuthRules { resource: Some("https://api.example".into()), ..rules() };
    let server = IssuingServer::new(Some(fixed));
    assert_eq!(server.told(Some("at+jwt"), &with("aud", json!("https://api.example"))), whole);
    assert!(
        server
            .told(Some("at+jwt"), &with("aud", json!("https://api.example/")))
            .contains("`resource=https://api.example`")
    );
}

#[test]
fn topics_and_permissions_come_from_the_claims_that_are_configured() {
    let claims = |topics: &str, permissions: &str| OAuthRules {
        topics_claim: topics.into(),
        permissions_claim: permissions.into(),
        ..rules()
    };
    let mut token = good();
    token["https://chat.example/rooms"] = json!(["room:beta", "topic:room:gamma", "not?a topic", 5]);
    token["realm_access"] = json!({ "roles": ["topic:room:delta", "permission:revoke", "offline_access"] });
    let told = |rules| IssuingServer::new(Some(rules)).told(Some("at+jwt"), &token);
    assert_eq!(told(claims("https://chat.example/rooms", "scope")), "auth0~7C1 in room:beta room:gamma may metrics");
    assert_eq!(told(claims("/realm_access/roles", "/realm_access/roles")), "auth0~7C1 in room:delta may revoke");
    assert_eq!(
        told(claims("/gone/roles", "scope")),
        "forbidden: the token opens no topic here: its claim `/gone/roles` names none, such as the scope `topic:room:alpha`"
    );
}

#[test]
fn a_token_of_another_kind_is_no_access_token() {
    let refused = "unauthorized: the token is not an access token: its type (`typ`) or its claims are those of an ID token or another kind of token";
    // With authorization servers, and where only keys are trusted.
    for rules in [Some(rules()), None] {
        let base =
            if rules.is_some() { good() } else { json!({"sub": "a", "aud": "room:a", "exp": NOW.0 / 1000 + 60}) };
        let server = IssuingServer::new(rules);
        let adding = |claim: &str, value: Value| {
            let mut claims = base.clone();
            claims[claim] = value;
            claims
        };
        for typ in ["logout+jwt", "id_token+jwt", "dpop+jwt", "secevent+jwt"] {
            assert_eq!(server.told(Some(typ), &base), refused, "{typ}");
        }
        for (claim, value) in [("nonce", "n"), ("at_hash", "h"), ("c_hash", "h"), ("typ", "ID"), ("typ", "Refresh")] {
            assert_eq!(server.told(Some("JWT"), &adding(claim, json!(value))), refused, "{claim} {value}");
        }
        // For the client itself, beside the gateway: an ID token with several audiences.
        for client in ["azp", "client_id"] {
            let mut claims = adding(client, json!("c1"));
            assert_ne!(server.told(Some("JWT"), &claims), refused, "{client}");
            claims["aud"] = json!([base["aud"], "c1"]);
            assert_eq!(server.told(Some("JWT"), &claims), refused, "{client}");
            assert_eq!(server.told(None, &claims), refused, "{client}");
            assert_ne!(server.told(Some("at+jwt"), &claims), refused, "{client}");
            claims["typ"] = json!("Bearer");
            assert_ne!(server.told(Some("JWT"), &claims), refused, "{client}");
        }
        assert_ne!(server.told(Some("at+jwt"), &adding("nonce", json!("n"))), refused);
        let mut keycloak = adding("nonce", json!("n"));
        keycloak["typ"] = json!("Bearer");
        assert_ne!(server.told(Some("JWT"), &keycloak), refused);
    }
}

#[test]
fn own_urls_follow_from_the_configuration() {
    let urls = |config: &Config| {
        let listening = "127.0.0.1:9000".parse().expect("an address");
        own_urls(config, listening).iter().map(Url::to_string).collect::<Vec<_>>().join(" ")
    };
    let mut config = Config::default();
    assert!(OAuthRules::of(&config, None).is_none());
    config.http.hosts = vec!["chat.example".into()];
    assert_eq!(
        urls(&config),
        "http://127.0.0.1:9000/ http://localhost:9000/ http://127.0.0.1:9000/ http://[::1]:9000/ http://chat.example/ http://chat.example:9000/"
    );
    config.http.public_url = Some("https://chat.example/salon".into());
    assert_eq!(urls(&config), "https://chat.example/salon");
}
