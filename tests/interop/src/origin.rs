//! Where the guests come from, how each is started, and what each is known to have.

use std::path::{Path, PathBuf};

use salon_client::mcp::Reference;
use salon_testkit::Failure;
use serde_json::{Value, json};

/// The programs of these tests, all found below the directory that Cargo builds into.
#[derive(Debug, Clone)]
pub(crate) struct Installed {
    pub(crate) salon: PathBuf,
    rmcp_server: PathBuf,
    everything: PathBuf,
    pub(crate) python: [PathBuf; 2],
    /// Where packages from npm are.
    pub(crate) npm: PathBuf,
    /// A Node that is new enough for the clients and for the conformance suite; the servers run on any.
    pub(crate) node: PathBuf,
}

impl Installed {
    /// Finds them, or says what is missing.
    pub(crate) fn find() -> Result<Self, Failure> {
        let exe = std::env::current_exe().map_err(|e| e.to_string())?;
        // <target>/<profile>/deps/<this test>
        let [profile, target] = [2, 3].map(|up| exe.ancestors().nth(up).map(Path::to_owned).unwrap_or_default());
        let servers = target.join("interop");
        let built = |name: &str| there(profile.join(name), "cargo build -p salon-cli -p test-servers");
        let python = |version: &str| there(servers.join(version).join("bin/python"), "scripts/test");
        let everything = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        Ok(Self {
            salon: built("salon")?,
            rmcp_server: built("rmcp-server")?,
            everything: there(servers.join(everything), "scripts/test")?,
            python: [python("mcp-1")?, python("mcp-2")?],
            node: there(servers.join("node_modules/.bin/node"), "scripts/test")?,
            npm: servers,
        })
    }
}

fn there(path: PathBuf, maker: &str) -> Result<PathBuf, Failure> {
    if path.exists() { Ok(path) } else { Err(format!("{} is not there; `{maker}` makes it", path.display())) }
}

/// Which server, and in which shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Ours, on the official Rust SDK. It speaks every revision.
    Rmcp,
    /// The same, when it speaks the oldest revision alone.
    RmcpOldest,
    /// The same, when it speaks the newest revision alone, which has no sessions.
    RmcpNewest,
    /// The same, when it speaks every revision with sessions and no other, and lists a few things at a time.
    RmcpLegacy,
    /// The same, when it speaks every revision, and lists a few things at a time.
    RmcpPaged,
    /// The same, when it does not end by itself.
    RmcpStubborn,
    /// `@modelcontextprotocol/server-everything`, on the official TypeScript SDK.
    Everything,
    /// Ours, on the first major version of the official Python SDK.
    Python1,
    /// The same on the second.
    Python2,
}

impl Origin {
    /// Those that are used for everything they have.
    pub(crate) const ALL: [Self; 6] =
        [Self::Rmcp, Self::RmcpOldest, Self::RmcpNewest, Self::Everything, Self::Python1, Self::Python2];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rmcp => "rmcp",
            Self::RmcpOldest => "rmcp_2024_11_05",
            Self::RmcpNewest => "rmcp_2026_07_28",
            Self::RmcpLegacy => "rmcp_legacy",
            Self::RmcpPaged => "rmcp_paged",
            Self::RmcpStubborn => "rmcp_stubborn",
            Self::Everything => "everything",
            Self::Python1 => "python_1",
            Self::Python2 => "python_2",
        }
    }

    /// Whether it is our server on the Rust SDK, which has tools that the others have not.
    pub(crate) fn is_rmcp(self) -> bool {
        self.mark() == "rmcp-server"
    }

    /// What the command line of its process contains, and no other's.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Self::Everything => "server-everything",
            Self::Python1 | Self::Python2 => "fastmcp_server.py",
            _ => "rmcp-server",
        }
    }

    /// The command that speaks MCP on its standard streams.
    pub(crate) fn command(self, installed: &Installed) -> Vec<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let rmcp = |options: &[&str]| {
            let options = options.iter().map(|&option| option.to_owned());
            std::iter::once(text(&installed.rmcp_server)).chain(options).collect()
        };
        match self {
            Self::Rmcp => rmcp(&[]),
            Self::RmcpOldest => rmcp(&["--revisions", "2024-11-05"]),
            Self::RmcpNewest => rmcp(&["--revisions", "2026-07-28"]),
            Self::RmcpLegacy => rmcp(&["--page", "5", "--revisions", "2024-11-05,2025-03-26,2025-06-18,2025-11-25"]),
            Self::RmcpPaged => rmcp(&["--page", "5"]),
            Self::RmcpStubborn => rmcp(&["--stubborn"]),
            Self::Everything => vec!["node".into(), text(&installed.everything), "stdio".into()],
            Self::Python1 => vec![text(&installed.python[0]), text(&ours("fastmcp_server.py"))],
            Self::Python2 => vec![text(&installed.python[1]), text(&ours("fastmcp_server.py"))],
        }
    }

    /// The command that serves MCP over HTTP, and the path to add to the address it prints.
    pub(crate) fn http_command(self, installed: &Installed) -> (Vec<String>, &'static str) {
        let mut command = self.command(installed);
        match self {
            Self::Everything => return (on_loopback(&command, "streamableHttp"), "/mcp"),
            Self::Python1 | Self::Python2 => command.push("--http".into()),
            _ => command.extend(["--http", "127.0.0.1:0"].map(str::to_owned)),
        }
        (command, "")
    }

    /// The command that serves the HTTP+SSE of the first revision.
    pub(crate) fn sse_command(self, installed: &Installed) -> (Vec<String>, &'static str) {
        (on_loopback(&self.command(installed), "sse"), "/sse")
    }
}

/// The Node server listens at a given port, on every interface; a script that is loaded first keeps it on loopback.
fn on_loopback(command: &[String], transport: &str) -> Vec<String> {
    let script = ours("loopback.cjs").to_string_lossy().into_owned();
    vec![command[0].clone(), "--require".into(), script, command[1].clone(), transport.into()]
}

fn ours(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("servers").join(name)
}

/// A tool, its arguments, and a part of the text that it answers with.
pub(crate) type Example = (&'static str, Value, &'static str);

/// What a server is known to have. `None` where it has nothing of the kind.
pub(crate) struct ServerFeatures {
    /// Says something back.
    pub(crate) echo: Example,
    /// Reports progress, and how often at least.
    pub(crate) progress: (Example, usize),
    /// Goes on for a minute, reporting progress soon after it began.
    pub(crate) long: (&'static str, Value),
    /// Fails, and says so.
    pub(crate) failure: Option<Example>,
    /// A resource and a part of its text.
    pub(crate) resource: (&'static str, &'static str),
    /// A template, an address made from it, and a part of the text there.
    pub(crate) template: (&'static str, &'static str, &'static str),
    /// A prompt, its arguments and a part of its text.
    pub(crate) prompt: (&'static str, Value, &'static str),
    /// What is completed: of what, which argument, what was typed, and one of the values.
    pub(crate) completion: (Reference, &'static str, &'static str, &'static str),
    /// Sends a log line when it is called.
    pub(crate) log: (&'static str, Value),
    /// A resource to subscribe to, and the tool that makes it change.
    pub(crate) update: Option<(&'static str, &'static str, Value)>,
    /// Asks the caller's model; the text contains what that said.
    pub(crate) sampling: (&'static str, Value),
    /// Asks the caller's user for a name; the text contains the name given.
    pub(crate) elicitation: (&'static str, Value),
    /// Asks for the caller's roots; the text contains the address of one.
    pub(crate) roots: (&'static str, Value),
}

impl Origin {
    pub(crate) fn known(self) -> ServerFeatures {
        let prompt = |name: &str| Reference::Prompt { name: name.into() };
        match self {
            // Without sessions a tool cannot ask while it runs; it answers that it needs input, and is called again with it.
            Self::RmcpNewest => ServerFeatures {
                sampling: ("test_input_required_result_sampling", json!({})),
                elicitation: ("test_input_required_result_elicitation", json!({})),
                roots: ("test_input_required_result_list_roots", json!({})),
                ..Self::Rmcp.known()
            },
            Self::Rmcp | Self::RmcpOldest | Self::RmcpLegacy | Self::RmcpPaged | Self::RmcpStubborn => ServerFeatures {
                echo: (
                    "echo",
                    json!({ "value": { "z": 9_007_199_254_740_993_u64, "a": [null, "ü"] } }),
                    "9007199254740993",
                ),
                progress: (("slow", json!({ "ms": 30, "steps": 3 }), "3 steps"), 4),
                long: ("slow", json!({ "ms": 60_000, "steps": 2 })),
                failure: Some(("test_error_handling", json!({}), "intentionally")),
                resource: ("test://static-text", "static text resource"),
                template: ("test://template/{id}/data", "test://template/7/data", "Data for ID: 7"),
                prompt: ("test_prompt_with_arguments", json!({ "arg1": "one", "arg2": "two" }), "arg2='two'"),
                completion: (prompt("test_prompt_with_arguments"), "arg1", "par", "paris"),
                log: ("test_tool_with_logging", json!({})),
                update: Some(("test://watched-resource", "touch", json!({ "uri": "test://watched-resource" }))),
                sampling: ("test_sampling", json!({ "prompt": "Who wrote this?" })),
                elicitation: ("test_elicitation", json!({ "message": "Who are you?" })),
                roots: ("test_roots", json!({})),
            },
            Self::Everything => ServerFeatures {
                echo: ("echo", json!({ "message": "hello" }), "Echo: hello"),
                progress: (("trigger-long-running-operation", json!({ "duration": 0.03, "steps": 3 }), "completed"), 3),
                long: ("trigger-long-running-operation", json!({ "duration": 60, "steps": 6000 })),
                failure: None,
                resource: ("demo://resource/static/document/features.md", "#"),
                template: ("demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/text/7", "Resource 7"),
                prompt: ("args-prompt", json!({ "city": "Bern" }), "Bern"),
                completion: (prompt("completable-prompt"), "department", "Eng", "Engineering"),
                log: ("toggle-simulated-logging", json!({})),
                update: Some(("demo://resource/dynamic/text/1", "toggle-subscriber-updates", json!({}))),
                sampling: ("trigger-sampling-request", json!({ "prompt": "Who wrote this?" })),
                elicitation: ("trigger-elicitation-request", json!({})),
                roots: ("get-roots-list", json!({})),
            },
            Self::Python1 | Self::Python2 => ServerFeatures {
                echo: ("echo", json!({ "text": "hello" }), "hello"),
                progress: (("slow", json!({ "seconds": 0.03, "steps": 3 }), "3 steps"), 4),
                long: ("slow", json!({ "seconds": 60, "steps": 2 })),
                failure: Some(("fail", json!({}), "always fails")),
                resource: ("memo://today", "buy bread"),
                template: ("memo://people/{name}", "memo://people/ada", "ada likes tea"),
                prompt: ("greet", json!({ "name": "ada" }), "Greet ada"),
                completion: (prompt("greet"), "name", "al", "alan"),
                log: ("log", json!({ "line": "a line" })),
                update: None,
                sampling: ("ask_model", json!({ "prompt": "Who wrote this?" })),
                elicitation: ("ask_user", json!({})),
                roots: ("ask_roots", json!({})),
            },
        }
    }
}
