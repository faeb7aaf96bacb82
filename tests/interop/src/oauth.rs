//! Signing in by OAuth: a real authorization server, and clients of the official SDKs, which find it by the gateway's metadata.
//!
//! Nobody sits at a browser: the scripts in `clients/` follow the redirects themselves.

use std::path::Path;
use std::time::Duration;

use salon_client::HistoryQuery;
use salon_client::protocol::PresenceEvent;
use salon_testkit::http::HttpCall;
use salon_testkit::{Failure, Scratch};
use serde_json::Value;

use crate::origin::Installed;
use crate::process::{self, Process, ProcessEnd, Signal};
use crate::stage::{Stage, TOPIC};

/// How long signing in may take; it takes seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// The participant of the server's only subject, `auth0|ada`.
pub(crate) const PARTICIPANT: &str = "auth0~7Cada";

/// A client: the SDK, and how it connects.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OAuthClient {
    TypeScript1,
    TypeScript1Sse,
    TypeScript2,
    Python1,
    Python2,
}

impl OAuthClient {
    pub(crate) const ALL: [Self; 5] =
        [Self::TypeScript1, Self::TypeScript1Sse, Self::TypeScript2, Self::Python1, Self::Python2];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TypeScript1 => "typescript_1",
            Self::TypeScript1Sse => "typescript_1_sse",
            Self::TypeScript2 => "typescript_2",
            Self::Python1 => "python_1",
            Self::Python2 => "python_2",
        }
    }

    /// The path of the resource that it asks a token for.
    fn resource(self) -> String {
        if matches!(self, Self::TypeScript1Sse) { "/sse".into() } else { format!("/mcp/{TOPIC}") }
    }

    /// Runs it to its end.
    async fn run(self, stage: &Stage) -> Result<ProcessEnd, Failure> {
        let installed = &stage.installed;
        let (program, script) = match self {
            Self::TypeScript1 | Self::TypeScript1Sse => (&installed.node, "oauth_ts1.mjs"),
            Self::TypeScript2 => (&installed.node, "oauth_ts2.mjs"),
            Self::Python1 => (&installed.python[0], "oauth_py.py"),
            Self::Python2 => (&installed.python[1], "oauth_py.py"),
        };
        let (kind, path) = match self {
            Self::TypeScript1Sse => ("sse", format!("/sse?topic={TOPIC}")),
            _ => ("http", self.resource()),
        };
        let script = ours("clients", script);
        let command = vec![text(program), script, kind.into(), format!("{}{path}", stage.address)];
        let npm = text(&installed.npm);
        let variables = [("INTEROP_HOME", npm.as_str()), ("PYTHONDONTWRITEBYTECODE", "1")];
        process::run_for(LIMIT, &command, stage.directory.path(), &variables).await
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

pub(crate) fn ours(folder: &str, name: &str) -> String {
    text(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(name))
}

/// An authorization server that runs, and a gateway whose tokens come from there.
pub(crate) struct SignInStage {
    server: Process,
    issuer: String,
    pub(crate) stage: Stage,
    // Last, so that it is removed when nothing uses it any more.
    _directory: Scratch,
}

impl SignInStage {
    pub(crate) async fn open(installed: Installed) -> Result<Self, Failure> {
        let directory = Scratch::new().map_err(|e| format!("no temporary directory: {e}"))?;
        let npm = text(&installed.npm);
        let command = [text(&installed.node), ours("servers", "authorization_server.mjs")];
        let scope = format!("topic:{TOPIC}");
        let variables = [("INTEROP_HOME", npm.as_str()), ("SCOPES", scope.as_str())];
        let server = process::start("authorization server", &command, directory.path(), &variables)?;
        let issuer = server.says("its issuer", |line| line.starts_with("http://").then(|| line.to_owned())).await?;
        let config = format!("[auth]\njwks = \"{issuer}/jwks\"\nauthorization_servers = [\"{issuer}\"]\n");
        let stage = Stage::configured(installed, &config).await?;
        Ok(Self { server, issuer, stage, _directory: directory })
    }

    /// Ends everything, with what was said where something went wrong.
    pub(crate) async fn close(mut self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        outcome.map_err(|failure| format!("{failure}\n{}{}", self.stage.output(), self.server.output()))?;
        self.stage.close().await?;
        self.server.stop(Signal::INT).await.map(drop)
    }
}

/// A client without a token finds the authorization server, registers, signs in and takes part in the room.
pub(crate) async fn signs_in(installed: Installed, client: OAuthClient) -> Result<(), Failure> {
    let opened = SignInStage::open(installed).await?;
    let outcome = taken_part(&opened.stage, client).await;
    opened.close(outcome).await
}

/// An ID token of the same server opens nothing. This server writes it without a type or a claim that would tell, so the audience does.
pub(crate) async fn refuses_an_id_token(installed: Installed) -> Result<(), Failure> {
    let opened = SignInStage::open(installed).await?;
    let outcome = id_token_refused(&opened).await;
    opened.close(outcome).await
}

async fn id_token_refused(SignInStage { stage, issuer, .. }: &SignInStage) -> Result<(), Failure> {
    let command = [text(&stage.installed.node), ours("clients", "id_token.mjs"), issuer.clone()];
    let ended = process::run_for(LIMIT, &command, stage.directory.path(), &[]).await?;
    let token = ended.stdout.trim();
    if token.split('.').count() != 3 {
        return Err(format!("no ID token: {}{}", ended.stdout, ended.stderr));
    }
    let call = HttpCall::new("POST", format!("/mcp/{TOPIC}")).body("{}");
    let answer = call.header("Authorization", format!("Bearer {token}")).send(stage.socket()?).await?;
    let challenge = answer.header("www-authenticate").unwrap_or_default();
    if answer.status == 401 && challenge.contains("the token is for another audience") {
        Ok(())
    } else {
        Err(format!("{} {challenge} {}", answer.status, answer.body))
    }
}

async fn taken_part(stage: &Stage, client: OAuthClient) -> Result<(), Failure> {
    let ended = client.run(stage).await?;
    if ended.status != Some(0) {
        return Err(format!("the client ended with {:?}\n{}{}", ended.status, ended.stdout, ended.stderr));
    }
    let told: Vec<Value> = ended.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let [asked, kept] = &told[..] else { return Err(format!("the client told {}", ended.stdout)) };
    let resource = format!("{}{}", stage.address, client.resource());
    let scope = format!("topic:{TOPIC}");
    // Some ask for `offline_access` as well, where the server offers it.
    let is_asked = asked["scope"].as_str().is_some_and(|scopes| scopes.split(' ').any(|one| one == scope));
    if asked["resource"] != resource || !is_asked {
        return Err(format!("a token was asked for with {asked}"));
    }
    if asked["tools"].as_u64().unwrap_or(0) == 0 {
        return Err("the client was listed no tools".into());
    }
    // The token opens its own topic and no other, whatever it is used for.
    let token = kept["token"].as_str().unwrap_or_default();
    for (topic, status) in [(TOPIC, 200), ("room:other", 403)] {
        let call = HttpCall::new("GET", format!("/v0/topics/{topic}/participants"));
        let answer = call.header("Authorization", format!("Bearer {token}")).send(stage.socket()?).await?;
        if answer.status != status {
            return Err(format!("{topic}: {} {}", answer.status, answer.body));
        }
    }
    let witness = stage.enter("witness").await?;
    let history = witness.history(&HistoryQuery::new().limit(100)).await.map_err(|e| e.to_string())?;
    let mut presences = history.envelopes.iter().filter_map(|envelope| envelope.presence());
    let joined = presences.any(|one| one.event == PresenceEvent::Join && one.participant.id.as_str() == PARTICIPANT);
    witness.leave().await;
    if joined { Ok(()) } else { Err(format!("`{PARTICIPANT}` did not join")) }
}

/// A client that comes without a token to a gateway without an authorization server shows how to get one.
pub(crate) async fn shows_how_to_get_a_token(installed: Installed, client: OAuthClient) -> Result<(), Failure> {
    let stage = Stage::configured(installed, "").await?;
    let ended = client.run(&stage).await?;
    let shown = ended.stderr.contains("a token is required") && ended.stderr.contains("`salon token`");
    if ended.status == Some(0) || !shown {
        return Err(format!("the client ended with {:?} and showed: {}", ended.status, ended.stderr));
    }
    stage.close().await
}
