//! `salon mcp --print-config`: what to paste into an MCP client, so that it finds a room.
//!
//! What is to be pasted goes to standard output and nothing else; where it belongs goes to standard error. Invariant: no token is
//! printed. Where one is needed, it is named the way that client names a variable or asks for a secret.

use std::path::Path;

use anyhow::bail;
use clap::ValueEnum;
use salon_protocol::{ParticipantId, TopicName, percent_encoded};
use serde_json::Value;

use crate::access::claims::TokenClaims;
use crate::access::credentials::{StoredLogins, StoredToken};
use crate::access::{Access, TokenSource, USUAL_GATEWAY};
use crate::{json, safe};

/// A client that a configuration can be printed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Vscode,
    Windsurf,
    Gemini,
    Zed,
    Codex,
    Inspector,
    Typescript,
    Python,
}

#[derive(Debug)]
pub(super) struct PrintedConfig {
    /// To be pasted.
    pub(super) text: String,
    /// Where it belongs, and what else is needed.
    pub(super) notes: Vec<String>,
}

/// How a client reaches the room.
struct RoomAccess {
    topic: TopicName,
    url: String,
    command: String,
    args: Vec<String>,
    id: ParticipantId,
    /// Whether the command needs a token from its environment.
    needs_token: bool,
}

/// The configuration of a client, with a command or a URL.
pub(super) fn print(
    client: McpClient,
    by_url: bool,
    topic: TopicName,
    only: Option<&ParticipantId>,
    access: &Access,
) -> anyhow::Result<PrintedConfig> {
    if by_url && client == McpClient::ClaudeDesktop {
        bail!(
            "the file of Claude Desktop takes commands only\n\nhint: leave out `--http`; the command reaches gateways \
             elsewhere as well, with `--gateway URL`"
        );
    }
    if by_url && client == McpClient::Zed {
        bail!(
            "the settings of Zed take no token from a variable\n\nhint: leave out `--http`; the command finds its own"
        );
    }
    let (way, mut notes) = RoomAccess::find(client, topic, only, access)?;
    let text = if by_url { client.by_url(&way) } else { client.by_command(&way) };
    notes.splice(0..0, client.place(by_url, &way));
    if by_url {
        notes.push(format!(
            "the token is that of `{id}`: `salon token {topic} --as {id} --ttl 30d` makes one, where the gateway runs",
            id = safe::shell(way.id.as_str()),
            topic = safe::shell(way.topic.as_str())
        ));
    }
    Ok(PrintedConfig { text, notes })
}

impl RoomAccess {
    fn find(
        client: McpClient,
        topic: TopicName,
        only: Option<&ParticipantId>,
        access: &Access,
    ) -> anyhow::Result<(Self, Vec<String>)> {
        let stored = StoredLogins::read()?;
        let place = access.place_among(&stored)?;
        let given = access.given()?;
        let mut notes = Vec::new();
        // A token says whom it is for; where it is not at hand, the name of the client will do.
        let kept = || stored.of(&place).and_then(|login| login.token.as_ref());
        let of_token = match given.as_ref().map(|(_, token)| token).or_else(kept) {
            Some(StoredToken::Token(token)) => Some(TokenClaims::read(&token.0)?.participant),
            _ => None,
        };
        let id = access.identity.clone().or(of_token).unwrap_or_else(|| client.usual_id());
        let mut args = vec!["mcp".to_owned(), topic.to_string(), "--as".into(), id.to_string()];
        let mut flag = |name: &str, value: String| args.extend([name.to_owned(), value]);
        if let Some(only) = only {
            flag("--only", only.to_string());
        }
        if place.url() != USUAL_GATEWAY {
            flag("--gateway", place.url().to_owned());
        }
        if let Some(ca) = &access.ca {
            flag("--ca", absolute(ca));
        }
        let needs_token = matches!(given, Some((TokenSource::Flag | TokenSource::Variable, _)));
        match given {
            Some((_, StoredToken::File(path))) => flag("--token-file", absolute(&path)),
            Some((_, StoredToken::Command(command))) => flag("--token-command", command),
            Some((_, StoredToken::Token(_))) => {}
            None => match access.tokens_among(&place, &stored, &[]).map(|tokens| tokens.source) {
                Ok(TokenSource::LocalKey(data)) if absolute(&data) != usual_data() => flag("--data", absolute(&data)),
                Ok(TokenSource::Login) => notes.push(format!(
                    "the token for it is the one that `salon login` keeps; if that is not for `{id}`, give one with `--token-file`"
                )),
                _ => {}
            },
        }
        let url = match only {
            Some(only) => {
                format!("{place}/mcp/{}/{}", percent_encoded(topic.as_str()), percent_encoded(only.as_str()))
            }
            None => format!("{place}/mcp/{}", percent_encoded(topic.as_str())),
        };
        Ok((Self { topic, url, command: command()?, args, id, needs_token }, notes))
    }
}

/// This program, as others can start it: by its name where that is enough.
fn command() -> anyhow::Result<String> {
    let this = std::env::current_exe()?.canonicalize()?;
    let found = std::env::var_os("PATH").and_then(|path| {
        let places: Vec<_> = std::env::split_paths(&path).map(|place| place.join("salon")).collect();
        places.into_iter().find(|place| place.is_file())
    });
    let by_name = found.and_then(|found| found.canonicalize().ok()).is_some_and(|found| found == this);
    Ok(if by_name { "salon".into() } else { this.display().to_string() })
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn usual_data() -> String {
    absolute(&salon_gateway::config::Config::default().data)
}

/// A text as JSON, which is also how it is written in TypeScript and, but for what no argument has in it, in Python.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

/// What VS Code asks for once and keeps.
const VSCODE_INPUT: &str =
    r#""inputs":[{"type":"promptString","id":"salon-token","description":"Token for Salon","password":true}]"#;

impl McpClient {
    fn usual_id(self) -> ParticipantId {
        let name = match self {
            Self::ClaudeCode => "claude-code",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Windsurf => "windsurf",
            Self::Gemini => "gemini",
            Self::Zed => "zed",
            Self::Codex => "codex",
            Self::Inspector => "inspector",
            Self::Typescript | Self::Python => "my-agent",
        };
        ParticipantId::new(name).expect("these are ids")
    }

    /// How the client writes a secret that is not in the file.
    fn token_reference(self) -> &'static str {
        match self {
            Self::Cursor | Self::Windsurf => "${env:SALON_TOKEN}",
            Self::Vscode => "${input:salon-token}",
            _ => "${SALON_TOKEN}",
        }
    }

    fn by_command(self, way: &RoomAccess) -> String {
        let (command, args) = (quoted(&way.command), list(&way.args));
        let with_type = format!(r#"{{"type":"stdio","command":{command},"args":{args}"#);
        let without = format!(r#"{{"command":{command},"args":{args}"#);
        let env = if way.needs_token {
            format!(r#","env":{{"SALON_TOKEN":{}}}"#, quoted(self.token_reference()))
        } else {
            String::new()
        };
        match self {
            Self::ClaudeCode | Self::Cursor | Self::Windsurf | Self::Gemini => {
                laid_out(&format!(r#"{{"mcpServers":{{"salon":{without}{env}}}}}}}"#))
            }
            // Neither replaces variables in its file.
            Self::ClaudeDesktop => laid_out(&format!(r#"{{"mcpServers":{{"salon":{without}}}}}}}"#)),
            Self::Zed => laid_out(&format!(
                r#"{{"context_servers":{{"salon":{{"source":"custom","command":{command},"args":{args},"env":{{}}}}}}}}"#
            )),
            Self::Codex => {
                let env = if way.needs_token { "\nenv_vars = [\"SALON_TOKEN\"]" } else { "" };
                format!("[mcp_servers.salon]\ncommand = {command}\nargs = {args}{env}")
            }
            Self::Inspector => laid_out(&format!(r#"{{"mcpServers":{{"salon":{with_type}}}}}}}"#)),
            Self::Vscode if way.needs_token => {
                laid_out(&format!(r#"{{{VSCODE_INPUT},"servers":{{"salon":{with_type}{env}}}}}}}"#))
            }
            Self::Vscode => laid_out(&format!(r#"{{"servers":{{"salon":{with_type}}}}}}}"#)),
            Self::Typescript => {
                let env =
                    if way.needs_token { "\n  env: { SALON_TOKEN: process.env.SALON_TOKEN ?? \"\" }," } else { "" };
                format!(
                    "import {{ Client }} from \"@modelcontextprotocol/client\";\n\
                     import {{ StdioClientTransport }} from \"@modelcontextprotocol/client/stdio\";\n\n\
                     const client = new Client({{ name: \"My agent\", version: \"1.0.0\" }});\n\
                     await client.connect(new StdioClientTransport({{\n  command: {command},\n  args: {args},{env}\n}}));\n\
                     console.log((await client.listTools()).tools.map((tool) => tool.name));\n\
                     await client.close();"
                )
            }
            Self::Python => {
                let (import, env) = if way.needs_token {
                    ("import os\n", ",\n    env={\"SALON_TOKEN\": os.environ[\"SALON_TOKEN\"]}")
                } else {
                    ("", "")
                };
                format!(
                    "import asyncio\n{import}\n\
                     from mcp import Client, StdioServerParameters\n\n\
                     server = StdioServerParameters(\n    command={command},\n    args={args}{env},\n)\n\n\n\
                     async def main():\n    async with Client(server) as client:\n        \
                     print([tool.name for tool in (await client.list_tools()).tools])\n\n\n\
                     asyncio.run(main())"
                )
            }
        }
    }

    fn by_url(self, way: &RoomAccess) -> String {
        let url = quoted(&way.url);
        let headers =
            format!(r#""headers":{{"Authorization":{}}}"#, quoted(&format!("Bearer {}", self.token_reference())));
        match self {
            Self::ClaudeCode => {
                laid_out(&format!(r#"{{"mcpServers":{{"salon":{{"type":"http","url":{url},{headers}}}}}}}"#))
            }
            Self::Cursor => laid_out(&format!(r#"{{"mcpServers":{{"salon":{{"url":{url},{headers}}}}}}}"#)),
            Self::Vscode => laid_out(&format!(
                r#"{{{VSCODE_INPUT},"servers":{{"salon":{{"type":"http","url":{url},{headers}}}}}}}"#
            )),
            Self::Windsurf => laid_out(&format!(r#"{{"mcpServers":{{"salon":{{"serverUrl":{url},{headers}}}}}}}"#)),
            Self::Gemini => laid_out(&format!(r#"{{"mcpServers":{{"salon":{{"httpUrl":{url},{headers}}}}}}}"#)),
            Self::Codex => {
                format!("[mcp_servers.salon]\nurl = {url}\nbearer_token_env_var = \"SALON_TOKEN\"")
            }
            // Its shell is what puts the token in.
            Self::Inspector => format!(
                "npx @modelcontextprotocol/inspector --transport http --server-url {} --header \"Authorization: Bearer $SALON_TOKEN\"",
                safe::shell(&way.url)
            ),
            Self::Typescript => format!(
                "import {{ Client, StreamableHTTPClientTransport }} from \"@modelcontextprotocol/client\";\n\n\
                 const client = new Client({{ name: \"My agent\", version: \"1.0.0\" }});\n\
                 const transport = new StreamableHTTPClientTransport(new URL({url}), {{\n  \
                 requestInit: {{ headers: {{ Authorization: `Bearer ${{process.env.SALON_TOKEN}}` }} }},\n}});\n\
                 await client.connect(transport);\n\
                 console.log((await client.listTools()).tools.map((tool) => tool.name));\n\
                 await transport.terminateSession(); // leaves the room at once\n\
                 await client.close();"
            ),
            Self::Python => format!(
                "import asyncio\nimport os\n\nimport httpx2\nfrom mcp import Client\n\
                 from mcp.client.streamable_http import streamable_http_client\n\n\n\
                 async def main():\n    headers = {{\"Authorization\": f\"Bearer {{os.environ['SALON_TOKEN']}}\"}}\n    \
                 timeout = httpx2.Timeout(30, read=300)\n    \
                 async with httpx2.AsyncClient(headers=headers, timeout=timeout) as http:\n        \
                 async with Client(streamable_http_client({url}, http_client=http)) as client:\n            \
                 print([tool.name for tool in (await client.list_tools()).tools])\n\n\n\
                 asyncio.run(main())"
            ),
            Self::ClaudeDesktop | Self::Zed => unreachable!("it is refused before"),
        }
    }

    fn place(self, by_url: bool, way: &RoomAccess) -> Vec<String> {
        let words: Vec<_> = [&way.command].into_iter().chain(&way.args).map(|word| safe::shell(word)).collect();
        match (self, by_url) {
            (Self::ClaudeCode, false) => vec![
                "paste it into `.mcp.json` of a project; or, for yourself alone:".into(),
                format!("  claude mcp add salon -- {}", words.join(" ")),
            ],
            (Self::ClaudeCode, true) => vec![
                "paste it into `.mcp.json` of a project, which this does too:".into(),
                format!(
                    "  claude mcp add --transport http --scope project salon {} --header 'Authorization: Bearer ${{SALON_TOKEN}}'",
                    safe::shell(&way.url)
                ),
            ],
            (Self::ClaudeDesktop, _) => {
                let mut notes = vec![
                    "paste it into `claude_desktop_config.json` (Settings, Developer, Edit Config), and start Claude again".into(),
                ];
                if way.needs_token {
                    notes.push(
                        "it takes no token from a variable: keep one with `salon login`, or give `--token-file`".into(),
                    );
                }
                notes
            }
            (Self::Cursor, _) => vec!["paste it into `~/.cursor/mcp.json`, or `.cursor/mcp.json` of a project".into()],
            (Self::Vscode, _) => vec![
                "paste it into `.vscode/mcp.json` of a project, or what `MCP: Open User Configuration` opens".into(),
            ],
            (Self::Windsurf, _) => vec!["paste it into `~/.codeium/windsurf/mcp_config.json`".into()],
            (Self::Gemini, _) => {
                vec!["paste it into `~/.gemini/settings.json`, or `.gemini/settings.json` of a project".into()]
            }
            (Self::Zed, _) => {
                let mut notes =
                    vec!["paste it into `~/.config/zed/settings.json`, or `.zed/settings.json` of a project".into()];
                if way.needs_token {
                    notes.push(
                        "it takes no token from a variable: keep one with `salon login`, or give `--token-file`".into(),
                    );
                }
                notes
            }
            (Self::Codex, _) => vec!["add it to `~/.codex/config.toml`".into()],
            (Self::Inspector, false) => {
                let token = if way.needs_token { " -e SALON_TOKEN=\"$SALON_TOKEN\"" } else { "" };
                vec![
                    "save it as `salon.json`, then:".into(),
                    format!("  npx @modelcontextprotocol/inspector{token} --config salon.json"),
                ]
            }
            (Self::Inspector, true) => vec!["run it in a shell that has `SALON_TOKEN`".into()],
            (Self::Typescript, _) => vec!["npm install @modelcontextprotocol/client".into()],
            (Self::Python, _) => vec!["pip install 'mcp>=2'".into()],
        }
    }
}

/// JSON as people write it. The text must be JSON.
fn laid_out(text: &str) -> String {
    // Arguments read better on one line.
    let pretty = json::pretty(text);
    let mut lines = Vec::new();
    let mut args: Option<String> = None;
    for line in pretty.lines() {
        match &mut args {
            Some(all) if line.trim_start().starts_with(']') => {
                all.push_str(line.trim_start());
                lines.extend(args.take());
            }
            Some(all) => {
                let item = line.trim_start();
                all.push_str(item);
                if item.ends_with(',') {
                    all.push(' ');
                }
            }
            None if line.ends_with("\"args\": [") => args = Some(line.to_owned()),
            None => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}
