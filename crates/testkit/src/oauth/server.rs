//! The answers of the server.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{IssuedCode, ServerState};

type Answer = Response<Full<Bytes>>;
type Fields = BTreeMap<String, String>;

const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A request as the answers need it.
struct ReceivedRequest {
    path: String,
    query: String,
    authorization: Option<String>,
    method: String,
    body: String,
}

pub(super) async fn serve(listener: TcpListener, state: Arc<Mutex<ServerState>>) {
    let mut connections = JoinSet::new();
    while let Ok((tcp, _)) = listener.accept().await {
        let state = state.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let state = state.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                let header = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
                let asked = ReceivedRequest {
                    path: head.uri.path().to_owned(),
                    query: head.uri.query().unwrap_or_default().to_owned(),
                    authorization: header.map(str::to_owned),
                    method: head.method.to_string(),
                    body: String::from_utf8_lossy(&body).into_owned(),
                };
                Ok::<_, Infallible>(state.lock().answer(&asked))
            }
        });
        connections.spawn(async move {
            // Clients may hang up at any time.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tcp), service).await;
        });
    }
}

fn json(status: u16, body: &Value) -> Answer {
    let answer = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    answer.body(Full::from(body.to_string())).expect("a status and a header")
}

fn failed(error: &str) -> Answer {
    json(400, &json!({ "error": error }))
}

fn empty(status: u16) -> Answer {
    Response::builder().status(status).body(Full::default()).expect("a status")
}

impl ServerState {
    fn next(&mut self, kind: &str) -> String {
        self.counter += 1;
        format!("{kind}-{}", self.counter)
    }

    fn answer(&mut self, asked: &ReceivedRequest) -> Answer {
        if asked.path == "/mcp" {
            return self.mcp(asked);
        }
        let fields = decoded(if asked.method == "GET" { &asked.query } else { &asked.body });
        let named = fields.get("grant_type").map(|grant| format!(" {grant}")).unwrap_or_default();
        self.log.push(format!("{} {}{named}", asked.method, asked.path));
        match (&*asked.method, &*asked.path) {
            ("GET", "/.well-known/oauth-protected-resource/mcp") => self.resource(),
            ("GET", "/.well-known/oauth-authorization-server") => self.metadata(),
            ("POST", "/register") if self.switches.registers => self.register(&asked.body),
            ("GET", "/authorize") => self.authorize(&fields),
            ("POST", "/device") => self.device(&fields),
            ("POST", "/token") => self.token(&fields, asked.authorization.as_deref()),
            _ => empty(404),
        }
    }

    fn resource(&self) -> Answer {
        let origin = &self.origin;
        json(
            200,
            &json!({ "resource": format!("{origin}/mcp"), "authorization_servers": [origin], "scopes_supported": ["read"] }),
        )
    }

    fn metadata(&self) -> Answer {
        let origin = &self.origin;
        let at = |path: &str| format!("{origin}{path}");
        let mut metadata = json!({
            "issuer": origin,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "device_authorization_endpoint": at("/device"),
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
        });
        if self.switches.registers {
            metadata["registration_endpoint"] = at("/register").into();
        }
        json(200, &metadata)
    }

    fn register(&mut self, body: &str) -> Answer {
        let Ok(wanted) = serde_json::from_str::<Value>(body) else { return failed("invalid_client_metadata") };
        let redirects: Vec<String> = serde_json::from_value(wanted["redirect_uris"].clone()).unwrap_or_default();
        if redirects.iter().any(|redirect| !redirect.starts_with("http://127.0.0.1:")) {
            return failed("invalid_redirect_uri");
        }
        let id = self.next("client");
        self.clients.insert(id.clone(), redirects);
        json(201, &json!({ "client_id": id, "token_endpoint_auth_method": wanted["token_endpoint_auth_method"] }))
    }

    fn authorize(&mut self, fields: &Fields) -> Answer {
        let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
        let (client, redirect) = (field("client_id"), field("redirect_uri"));
        // RFC 8252 §7.3: the port of a loopback address may be any.
        let port_of_any =
            |known: &String| known == "http://127.0.0.1/callback" && redirect.starts_with("http://127.0.0.1:");
        let known =
            self.clients.get(&client).is_some_and(|known| known.iter().any(|one| *one == redirect || port_of_any(one)));
        if !known || field("response_type") != "code" || field("resource") != format!("{}/mcp", self.origin) {
            return failed("invalid_request");
        }
        let code = self.next("code");
        let answer = match self.switches.consents {
            _ if field("code_challenge_method") != "S256" => "error=invalid_request".to_owned(),
            false => "error=access_denied".to_owned(),
            true => format!("code={code}"),
        };
        let issued = IssuedCode {
            client,
            redirect: redirect.clone(),
            challenge: field("code_challenge"),
            scope: field("scope"),
        };
        self.codes.insert(code, issued);
        let issuer = self.switches.response_issuer.as_ref().unwrap_or(&self.origin);
        let target = format!("{redirect}?{answer}&state={}&iss={issuer}", field("state"));
        Response::builder().status(302).header(LOCATION, target).body(Full::default()).expect("a redirect")
    }

    fn device(&mut self, fields: &Fields) -> Answer {
        let client = fields.get("client_id").cloned().unwrap_or_default();
        if !self.clients.contains_key(&client) {
            return failed("invalid_client");
        }
        let code = self.next("device");
        self.devices.insert(code.clone(), None);
        let page = format!("{}/go", self.origin);
        let answer = json!({ "device_code": code, "user_code": "WDJB-MJHT", "verification_uri": page, "expires_in": 600, "interval": 1 });
        json(200, &answer)
    }

    fn token(&mut self, fields: &Fields, authorization: Option<&str>) -> Answer {
        let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
        let by_secret = authorization.and_then(|value| BASE64.decode(value.strip_prefix("Basic ")?.as_bytes()).ok());
        let by_secret =
            by_secret.and_then(|pair| String::from_utf8(pair).ok()?.strip_suffix(":secret").map(str::to_owned));
        let client = by_secret.unwrap_or_else(|| field("client_id"));
        if !self.clients.contains_key(&client) {
            return failed("invalid_client");
        }
        if field("resource") != format!("{}/mcp", self.origin) {
            return failed("invalid_target");
        }
        let scope = match &*field("grant_type") {
            "authorization_code" => {
                let Some(code) = self.codes.remove(&field("code")) else { return failed("invalid_grant") };
                let challenge = BASE64URL_NOPAD.encode(digest(&SHA256, field("code_verifier").as_bytes()).as_ref());
                if code.client != client || code.redirect != field("redirect_uri") || code.challenge != challenge {
                    return failed("invalid_grant");
                }
                code.scope
            }
            "refresh_token" => match self.refresh.remove(&field("refresh_token")) {
                Some(scope) => {
                    self.spent.insert(field("refresh_token"));
                    scope
                }
                None => {
                    if self.spent.contains(&field("refresh_token")) {
                        // Used twice: somebody has stolen it.
                        self.log.push("a refresh token came twice".into());
                        self.refresh.clear();
                        self.access.clear();
                    }
                    return failed("invalid_grant");
                }
            },
            DEVICE_GRANT => match self.devices.get(&field("device_code")) {
                Some(Some(scope)) => scope.clone(),
                Some(None) => return failed("authorization_pending"),
                None => return failed("expired_token"),
            },
            _ => return failed("unsupported_grant_type"),
        };
        let (access, refresh) = (self.next("access"), self.next("refresh"));
        self.access.insert(access.clone(), scope.clone());
        let mut answer = json!({ "access_token": access, "token_type": "Bearer", "expires_in": self.switches.token_seconds, "scope": scope });
        if self.switches.refreshes {
            self.refresh.insert(refresh.clone(), scope);
            answer["refresh_token"] = refresh.into();
        }
        json(200, &answer)
    }

    fn mcp(&mut self, asked: &ReceivedRequest) -> Answer {
        self.mcp_requests += 1;
        let token = asked.authorization.as_deref().and_then(|value| value.strip_prefix("Bearer "));
        if let (Some(_), Some(target)) = (token, &self.switches.redirects_to) {
            return Response::builder().status(307).header(LOCATION, target).body(Full::default()).expect("a redirect");
        }
        let token = token.filter(|_| !self.switches.refuses_tokens);
        let Some(scope) = token.and_then(|token| self.access.get(token)).cloned() else {
            let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", self.origin);
            let named = if self.switches.names_metadata {
                format!(", resource_metadata=\"{metadata}\"")
            } else {
                String::new()
            };
            return self.challenge(401, &format!("Bearer error=\"invalid_token\"{named}"));
        };
        let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
        let result = match message["method"].as_str().unwrap_or_default() {
            _ if asked.method == "DELETE" => return empty(200),
            _ if asked.method == "GET" => return empty(405),
            _ if message["id"].is_null() => return empty(202),
            "initialize" => {
                json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": { "name": "vault", "version": "1" } })
            }
            "tools/list" => {
                json!({ "tools": [{ "name": "open", "inputSchema": { "type": "object" } }, { "name": "admin", "inputSchema": { "type": "object" } }] })
            }
            "tools/call" if message["params"]["name"] == "admin" && !scope.split(' ').any(|one| one == "admin") => {
                return self.challenge(403, "Bearer error=\"insufficient_scope\", scope=\"admin\"");
            }
            "tools/call" => json!({ "content": [{ "type": "text", "text": format!("with {scope}") }] }),
            _ => {
                return json(
                    200,
                    &json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": -32601, "message": "no" } }),
                );
            }
        };
        json(200, &json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
    }

    fn challenge(&self, status: u16, text: &str) -> Answer {
        Response::builder().status(status).header(WWW_AUTHENTICATE, text).body(Full::default()).expect("a challenge")
    }
}

/// The fields of a query or a form.
fn decoded(text: &str) -> Fields {
    let plain = |text: &str| {
        let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
        while let Some((&first, after)) = rest.split_first() {
            let code = after.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
            (bytes, rest) = match (first, code) {
                (b'%', Some(byte)) => ([bytes, vec![byte]].concat(), &after[2..]),
                (b'+', _) => ([bytes, vec![b' ']].concat(), after),
                _ => ([bytes, vec![first]].concat(), after),
            };
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (plain(name), plain(value))).collect()
}
