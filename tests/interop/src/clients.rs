//! Real clients: those of the official SDKs, in every era and over every transport that each has.
//!
//! A client is a script in `clients/`. It does everything a client does, is strict with what comes back, and tells of each part that
//! went well. Here is what must be told, and what the room must have seen of it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use salon_client::protocol::{ParticipantId, PresenceEvent};
use salon_client::{HistoryQuery, Peer, Room};
use salon_testkit::{Failure, within};
use serde_json::Value;

use crate::door::At;
use crate::features::told;
use crate::origin::{Installed, Origin};
use crate::pairs::GuestEra;
use crate::process;
use crate::stage::{GUEST, Stage, TOPIC};

/// How long a client may take for everything; one takes seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Everything a client tells of, in order.
const PARTS: [&str; 21] = [
    "tools",
    "prompts",
    "resources",
    "resourceTemplates",
    "echo",
    "failure",
    "capabilities",
    "read",
    "prompt",
    "completion",
    "progress",
    "cancel",
    "sampling",
    "elicitation",
    "roots",
    "together",
    "logging",
    "update",
    "changed",
    "unsubscribed",
    "end",
];

/// The participant that a client is.
const ME: &str = "ada";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sdk {
    TypeScript1,
    TypeScript2,
    Python1,
    Python2,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Streamable HTTP.
    Http,
    Sse,
    WebSocket,
    /// `salon mcp`.
    Stdio,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Client(pub(crate) Sdk, pub(crate) Era, pub(crate) Transport);

impl Client {
    pub(crate) const ALL: [Self; 14] = [
        Self(Sdk::TypeScript1, Era::Legacy, Transport::Http),
        Self(Sdk::TypeScript1, Era::Legacy, Transport::Sse),
        Self(Sdk::TypeScript1, Era::Legacy, Transport::WebSocket),
        Self(Sdk::TypeScript1, Era::Legacy, Transport::Stdio),
        Self(Sdk::TypeScript2, Era::Legacy, Transport::Http),
        Self(Sdk::TypeScript2, Era::Modern, Transport::Http),
        Self(Sdk::TypeScript2, Era::Modern, Transport::Stdio),
        Self(Sdk::Python1, Era::Legacy, Transport::Http),
        Self(Sdk::Python1, Era::Legacy, Transport::Sse),
        Self(Sdk::Python1, Era::Legacy, Transport::WebSocket),
        Self(Sdk::Python2, Era::Legacy, Transport::Http),
        Self(Sdk::Python2, Era::Legacy, Transport::Stdio),
        Self(Sdk::Python2, Era::Modern, Transport::Http),
        Self(Sdk::Python2, Era::Modern, Transport::Stdio),
    ];

    pub(crate) fn name(self) -> String {
        let sdk = match self.0 {
            Sdk::TypeScript1 => "typescript_1",
            Sdk::TypeScript2 => "typescript_2",
            Sdk::Python1 => "python_1",
            Sdk::Python2 => "python_2",
        };
        let era = match self.1 {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        };
        format!("{sdk}_{era}_{}", self.transport())
    }

    fn transport(self) -> &'static str {
        match self.2 {
            Transport::Http => "http",
            Transport::Sse => "sse",
            Transport::WebSocket => "websocket",
            Transport::Stdio => "stdio",
        }
    }

    /// What it calls itself.
    fn own_name(self) -> &'static str {
        match self.0 {
            Sdk::TypeScript1 => "interop-ts1",
            Sdk::TypeScript2 => "interop-ts2",
            Sdk::Python1 => "interop-py1",
            Sdk::Python2 => "interop-py2",
        }
    }

    /// The whole command, without what it connects to.
    fn command(self, installed: &Installed) -> Vec<String> {
        let (program, script) = match self.0 {
            Sdk::TypeScript1 => (&installed.node, "ts1.mjs"),
            Sdk::TypeScript2 => (&installed.node, "ts2.mjs"),
            Sdk::Python1 => (&installed.python[0], "py1.py"),
            Sdk::Python2 => (&installed.python[1], "py2.py"),
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(script);
        let mut command = vec![program.to_string_lossy().into_owned(), script.to_string_lossy().into_owned()];
        match (self.0, self.1) {
            (Sdk::TypeScript1 | Sdk::Python1, _) => {}
            (_, Era::Legacy) => command.push("legacy".into()),
            // It finds out by itself what the other side speaks.
            (_, Era::Modern) => command.push("auto".into()),
        }
        command.push(self.transport().into());
        command
    }

    async fn target(self, stage: &Stage, at: At, token: &str) -> Result<Vec<String>, Failure> {
        Ok(match self.2 {
            Transport::Http => vec![format!("{}{}", stage.address, at.path())],
            Transport::Sse => vec![format!("{}{}", stage.address, at.sse_path())],
            Transport::WebSocket => vec![stage.websocket_url(at, token).await?],
            Transport::Stdio => {
                let mut command = stage.salon(&["mcp", TOPIC, "--as", ME]);
                if at == At::Guest {
                    command.extend(["--only".into(), GUEST.into()]);
                }
                command
            }
        })
    }
}

/// How the guest's tools ask their caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// By requests while a call runs.
    Requests,
    /// By answering that they need input.
    Rounds,
}

/// A client does everything it can with a guest of its own era, or with one that knows only the other era, so that its tools ask in a way
/// that the client does not know.
pub(crate) async fn all(installed: Installed, client: Client, guest: GuestEra, at: At) -> Result<(), Failure> {
    let (origin, asks) = match (guest, client.1) {
        (GuestEra::Same, Era::Legacy) => (Origin::RmcpPaged, Asks::Requests),
        (GuestEra::Same, Era::Modern) => (Origin::RmcpPaged, Asks::Rounds),
        (GuestEra::Other, Era::Legacy) => (Origin::RmcpNewest, Asks::Rounds),
        (GuestEra::Other, Era::Modern) => (Origin::RmcpLegacy, Asks::Requests),
    };
    play(installed, client, at, origin, asks).await
}

async fn play(installed: Installed, client: Client, at: At, origin: Origin, asks: Asks) -> Result<(), Failure> {
    // The script checks what only a connection of one's own has: roots, and the client's name at the server.
    let stage = Stage::isolating(installed, origin).await?;
    let witness = stage.enter("witness").await?;
    let guest = stage.peer(&witness, GUEST).await?;
    let outcome = async {
        let token = stage.token(ME).await?;
        let mut command = client.command(&stage.installed);
        command.extend(client.target(&stage, at, &token).await?);
        let npm = stage.installed.npm.to_string_lossy().into_owned();
        let mut variables = vec![
            ("INTEROP_HOME", npm.as_str()),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("MCP_TOKEN", &token),
            ("SALON_GATEWAY", &stage.address),
            ("SALON_TOKEN", &token),
            ("MCP_SEEN_AS", client.own_name()),
        ];
        let prefix = at.prefix();
        variables.push(("MCP_PREFIX", &prefix));
        variables.push(("MCP_ASKS", if asks == Asks::Requests { "requests" } else { "rounds" }));
        if (origin, at) == (Origin::RmcpNewest, At::Guest) {
            // A resource that is not there has this code in the guest's revision, and it is passed on. The room says it itself.
            variables.push(("MCP_MISSING", "-32602"));
        }
        let ended = process::run_for(LIMIT, &command, stage.directory.path(), &variables).await?;
        if ended.status != Some(0) {
            return Err(format!("the client ended with {:?}\n{}{}", ended.status, ended.stdout, ended.stderr));
        }
        let parts: Vec<Value> = ended
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).map_err(|e| format!("{e}: {line}")))
            .collect::<Result<_, _>>()?;
        let names: Vec<&str> = parts.iter().filter_map(|part| part["finding"].as_str()).collect();
        if names != PARTS {
            return Err(format!("these parts were told of: {names:?}\n{}", ended.stderr));
        }
        lists(&parts, &guest, at).await?;
        seen(&witness, client).await
    };
    let outcome: Result<(), Failure> = outcome.await;
    outcome.map_err(|told| format!("{told}\n{}", stage.output()))?;
    witness.leave().await;
    stage.close().await
}

/// What the client listed is what the library lists of the same room.
async fn lists(parts: &[Value], guest: &Peer, at: At) -> Result<(), Failure> {
    let prefix = at.prefix();
    let host = guest.room().peer(&ParticipantId::host());
    let mut tools: Vec<String> =
        guest.tools().await.map_err(told)?.iter().map(|tool| format!("{prefix}{}", tool.name)).collect();
    // It came and went, or came and stayed, after the client had listed.
    tools.retain(|name| !name.ends_with("appeared"));
    let prompts: Vec<String> =
        guest.prompts().await.map_err(told)?.iter().map(|prompt| format!("{prefix}{}", prompt.name)).collect();
    let resources = guest.resources().await.map_err(told)?.iter().map(|resource| resource.uri.clone()).collect();
    let templates = guest.resource_templates().await.map_err(told)?;
    let mut templates: Vec<String> = templates.iter().map(|template| template.uri_template.clone()).collect();
    if at == At::Room {
        // The host is first, under names that every client accepts.
        let own = host.tools().await.map_err(told)?;
        tools.splice(0..0, own.iter().map(|tool| tool.name.replace('.', "_")));
        let own = host.resource_templates().await.map_err(told)?;
        templates.splice(0..0, own.iter().map(|template| template.uri_template.clone()));
    }
    for (part, expected) in parts.iter().zip([tools, prompts, resources, templates]) {
        let listed: Vec<&str> = part["names"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if listed != expected {
            let (came, wanted): (BTreeSet<_>, BTreeSet<_>) =
                (listed.iter().copied().collect(), expected.iter().map(String::as_str).collect());
            let (more, less): (Vec<_>, Vec<_>) =
                (came.difference(&wanted).collect(), wanted.difference(&came).collect());
            return Err(format!("{} were listed as {listed:?}: {more:?} too many, without {less:?}", part["finding"]));
        }
    }
    Ok(())
}

/// The client was a participant like any other: it was there under its own name, and its calls are in the log.
async fn seen(witness: &Room, client: Client) -> Result<(), Failure> {
    let query = HistoryQuery::new().limit(1000);
    let envelopes = witness.history(&query).await.map_err(|e| e.to_string())?.envelopes;
    let presences = envelopes.iter().filter_map(|envelope| envelope.presence());
    let mine: Vec<_> = presences.filter(|presence| presence.participant.id.as_str() == ME).collect();
    let joined = mine.iter().find(|presence| presence.event == PresenceEvent::Join);
    if joined.and_then(|presence| presence.participant.name.as_deref()) != Some(client.own_name()) {
        return Err(format!("the client did not come under its own name: {mine:?}"));
    }
    let echo = |text: &str| {
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        message["method"] == "tools/call" && message["params"]["name"] == "echo"
    };
    let guest = |id: &ParticipantId| id.as_str() == GUEST;
    let called =
        envelopes.iter().any(|one| one.from().as_str() == ME && one.to().iter().any(guest) && echo(one.payload()));
    if !called {
        return Err("the client's call is not in the log".into());
    }
    // Who comes by single requests is still there for a while; everybody else left with the connection.
    if (client.1, client.2) == (Era::Modern, Transport::Http) {
        return Ok(());
    }
    let me: ParticipantId = ME.parse().map_err(|e| format!("{ME}: {e}"))?;
    let mut events = witness.events();
    let gone = async {
        while witness.is_present(&me) {
            events.next().await?;
        }
        Some(())
    };
    within("the client to have left", gone).await?.ok_or_else(|| "the room ended".into())
}
