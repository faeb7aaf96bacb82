//! The flow as scripts: what it asks, line by line, and what it makes of each answer.

mod flow;
mod loopback;
mod refusals;
mod stored;

use std::time::{Duration, Instant};

use reqwest::StatusCode;

use super::exchange::OAuthAnswer;
use super::sign_in::{GuestSignIn, RedirectOutcome, SignInOptions, SignInStep};
use super::*;

const RESOURCE: &str = r#"{"resource":"https://mcp.example/mcp","authorization_servers":["https://id.example"],"scopes_supported":["read","write"]}"#;
const SERVER: &str = r#"{"issuer":"https://id.example","authorization_endpoint":"https://id.example/authorize?tenant=1","token_endpoint":"https://id.example/token","registration_endpoint":"https://id.example/register","device_authorization_endpoint":"https://id.example/device","code_challenge_methods_supported":["plain","S256"],"authorization_response_iss_parameter_supported":true}"#;
const CLIENT: &str = r#"{"client_id":"c1","token_endpoint_auth_method":"none"}"#;
const TOKENS: &str = r#"{"access_token":"a1","token_type":"bearer","expires_in":3600,"refresh_token":"r1"}"#;
const DEVICE: &str = r#"{"device_code":"d1","user_code":"WDJB-MJHT","verification_uri":"https://id.example/go","expires_in":600,"interval":5}"#;

/// The clock of the tests, in seconds since 1970.
const NOW: u64 = 1_000_000;

/// A sign-in whose steps are written down.
struct Script {
    flow: Option<GuestSignIn>,
    lines: Vec<String>,
    now: Instant,
    tokens: Option<OAuthTokens>,
}

fn options(way: SignInWay) -> SignInOptions {
    SignInOptions {
        resource: ResourceUrl::parse("https://mcp.example/mcp").unwrap(),
        challenge: BearerChallenge {
            resource_metadata: Some("https://mcp.example/meta".into()),
            ..BearerChallenge::default()
        },
        scope: None,
        client: None,
        way,
        redirect: (way != SignInWay::Device).then(|| "http://127.0.0.1:9/callback".into()),
        secrets: ["state".into(), "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".into()],
    }
}

impl Script {
    fn begin(options: SignInOptions) -> Self {
        let mut script = Self { flow: None, lines: Vec::new(), now: Instant::now(), tokens: None };
        match GuestSignIn::begin(options) {
            Ok((flow, step)) => {
                script.flow = Some(flow);
                script.note(Ok(step));
            }
            Err(why) => script.note(Err(why)),
        }
        script
    }

    fn note(&mut self, step: Result<SignInStep, AuthorizationError>) {
        let line = match step {
            Ok(SignInStep::Ask(request)) => {
                let signed = request.authorization.map(|value| format!(" [{value}]")).unwrap_or_default();
                match request.body {
                    Some((_, body)) => format!("POST {}{signed} {body}", request.url),
                    None => format!("GET {}{signed}", request.url),
                }
            }
            Ok(SignInStep::Browse(url)) => format!("browse {url}"),
            Ok(SignInStep::Wait { prompt: Some(prompt), time }) => {
                format!("show {} at {}, wait {time:?}", prompt.code, prompt.url)
            }
            Ok(SignInStep::Wait { prompt: None, time }) => format!("wait {time:?}"),
            Ok(SignInStep::Done(tokens)) => {
                let line = format!("done {} until {:?}, scope {:?}", tokens.access_token, tokens.expires, tokens.scope);
                self.tokens = Some(*tokens);
                line
            }
            Err(why) => format!("refused: {why}"),
        };
        self.lines.push(line);
    }

    fn answer(self, status: u16, body: &str) -> Self {
        let answer = OAuthAnswer { status: StatusCode::from_u16(status).unwrap(), body: body.into() };
        self.outcome(Ok(answer))
    }

    fn outcome(mut self, answer: Result<OAuthAnswer, AuthorizationError>) -> Self {
        let step = self.flow.as_mut().unwrap().answered(answer, self.now, NOW);
        self.note(step);
        self
    }

    fn ok(self, body: &str) -> Self {
        self.answer(200, body)
    }

    fn redirect(mut self, query: &str) -> Self {
        match self.flow.as_mut().unwrap().redirected(query) {
            RedirectOutcome::Unrelated => self.lines.push("unrelated".into()),
            RedirectOutcome::Answered(step) => self.note(step),
        }
        self
    }

    fn wait(mut self, time: Duration) -> Self {
        self.now += time;
        let step = self.flow.as_mut().unwrap().waited(self.now);
        self.note(step);
        self
    }

    fn text(&self) -> String {
        self.lines.join("\n")
    }

    fn last(&self) -> &str {
        self.lines.last().map_or("", String::as_str)
    }
}

/// Tokens as a sign-in gives them out, with a name in place of their first number.
pub(super) fn tokens(name: &str) -> OAuthTokens {
    let answer = TOKENS.replace("a1", &format!("a-{name}")).replace("r1", &format!("r-{name}"));
    let signed_in = browsing().redirect("code=c1&state=state&iss=https%3A%2F%2Fid.example").ok(&answer);
    signed_in.tokens.expect("the sign-in ends with tokens")
}

/// A sign-in up to the moment at which the browser is away.
fn browsing() -> Script {
    Script::begin(options(SignInWay::Browser)).ok(RESOURCE).ok(SERVER).ok(CLIENT)
}

/// A sign-in up to the moment at which the code is shown.
fn showing() -> Script {
    Script::begin(options(SignInWay::Device)).ok(RESOURCE).ok(SERVER).ok(CLIENT).ok(DEVICE)
}
