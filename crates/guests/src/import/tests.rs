use std::fmt::Write;
use std::path::Path;

use proptest::prelude::*;
use salon_control::NamePattern;

use super::*;

/// Everything a file has, with the secrets that only a test may show.
fn told(text: &str, product: Product) -> String {
    let import = match read(text, product, Some(Path::new("/srv/lab"))) {
        Ok(import) => import,
        Err(error) => return format!("error: {error}"),
    };
    let mut told = String::new();
    for Imported { name, position, launch, timeout, tools, disabled } in &import.servers {
        let _ = write!(told, "{position} {name}:");
        match launch {
            Launch::Command { command, args, env, cwd, env_file } => {
                let _ = write!(told, " {command} {args:?}");
                let _ = write!(told, " env={env:?} cwd={cwd:?} env_file={env_file:?}");
            }
            Launch::Url { url, headers, transport } => {
                let _ = write!(told, " {url} {transport:?} headers={headers:?}");
            }
        }
        let patterns =
            |patterns: &[NamePattern]| patterns.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        if let Some(allow) = &tools.allow {
            let _ = write!(told, " allow={}", patterns(allow));
        }
        if !tools.deny.is_empty() {
            let _ = write!(told, " deny={}", patterns(&tools.deny));
        }
        let _ = writeln!(told, " timeout={timeout:?} disabled={disabled}");
    }
    for input in &import.inputs {
        let _ = writeln!(told, "{input:?}");
    }
    for refused in &import.refused {
        let _ = writeln!(told, "refused {refused}");
    }
    for warning in &import.warnings {
        let _ = writeln!(told, "warning {warning}");
    }
    told
}

#[test]
fn claude_desktop() {
    insta::assert_snapshot!(told(include_str!("files/claude_desktop_config.json"), Product::ClaudeDesktop), @r#"
    4:19 filesystem: npx ["-y", "@modelcontextprotocol/server-filesystem", "/somewhere/Desktop", "/somewhere/Downloads"] env=[] cwd=None env_file=None timeout=None disabled=false
    8:15 github: docker ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"] env=[("GITHUB_PERSONAL_ACCESS_TOKEN", "ghp_examplesecret")] cwd=None env_file=None timeout=None disabled=false
    "#);
}

#[test]
fn claude_code_with_the_servers_of_a_project() {
    insta::assert_snapshot!(told(include_str!("files/claude.json"), Product::ClaudeCode), @r#"
    4:15 sentry: https://mcp.sentry.dev/mcp Streamable headers=[] timeout=None disabled=false
    17:15 db: /srv/lab/bin/db [] env=[] cwd=None env_file=None timeout=None disabled=false
    18:18 local: http://localhost:8080/sse Sse headers=[("X-API-Key", "${LAB_KEY}")] timeout=None disabled=false
    "#);
}

#[test]
fn cursor() {
    insta::assert_snapshot!(told(include_str!("files/cursor.json"), Product::Cursor), @r#"
    3:21 local-server: python ["${workspaceFolder}/tools/mcp_server.py"] env=[("API_KEY", "${env:API_KEY}")] cwd=None env_file=Some("${userHome}/.env") timeout=None disabled=false
    9:22 remote server: https://api.example.com/mcp Auto headers=[("Authorization", "Bearer ${env:MY_SERVICE_TOKEN}")] timeout=None disabled=false
    "#);
}

#[test]
fn windsurf() {
    insta::assert_snapshot!(told(include_str!("files/windsurf.json"), Product::Windsurf), @r#"
    3:14 figma: https://mcp.figma.example/mcp Auto headers=[("API_KEY", "Bearer ${env:FIGMA_TOKEN}")] timeout=None disabled=false
    4:13 time: uvx ["mcp-server-time"] env=[] cwd=None env_file=None deny=convert_time timeout=None disabled=true
    "#);
}

#[test]
fn gemini() {
    insta::assert_snapshot!(told(include_str!("files/gemini.json"), Product::Gemini), @r#"
    5:20 pythonTools: python ["-m", "my_mcp_server", "--port", "8080"] env=[("DATABASE_URL", "$DB_CONNECTION_STRING"), ("API_KEY", "${EXTERNAL_API_KEY}")] cwd=Some("./mcp-servers/python") env_file=None timeout=Some(15s) disabled=false
    13:27 httpServerWithAuth: http://localhost:3000/mcp Streamable headers=[("Authorization", "Bearer your-api-token")] timeout=Some(5s) disabled=false
    18:15 events: http://localhost:3001/sse Auto headers=[] timeout=None disabled=false
    warning 9:32: `env.DATABASE_URL` of the server `pythonTools` is taken as it stands; write `${DB_CONNECTION_STRING}` if the variable is meant
    warning 11:16: `trust` of the server `pythonTools` is not understood and left out
    "#);
}

#[test]
fn cline() {
    insta::assert_snapshot!(told(include_str!("files/cline_mcp_settings.json"), Product::Cline), @r#"
    3:15 linear: node ["/somewhere/linear/build/index.js"] env=[("LINEAR_KEY", "lin_example"), ("PORT", "8080")] cwd=None env_file=None timeout=Some(120s) disabled=false
    12:15 remote: https://mcp.example/mcp Streamable headers=[] timeout=Some(60s) disabled=false
    warning 7:22: `alwaysAllow` of the server `linear` is not understood and left out
    warning 9:22: `autoApprove` of the server `linear` is not understood and left out
    "#);
}

#[test]
fn vs_code() {
    insta::assert_snapshot!(told(include_str!("files/vscode.json"), Product::VsCode), @r#"
    9:19 perplexity: npx ["-y", "server-perplexity-ask", "--region=${input:region}"] env=[("PERPLEXITY_API_KEY", "${input:perplexity-key}")] cwd=None env_file=Some("${workspaceFolder}/.env") timeout=None disabled=false
    17:14 fetch: https://mcp.example/fetch Auto headers=[] timeout=None disabled=false
    ImportInput { id: "perplexity-key", description: Some("Perplexity API Key"), password: true, default: None, options: [] }
    ImportInput { id: "region", description: Some("Region"), password: false, default: Some("eu"), options: ["eu", "us"] }
    warning 15:14: `dev` of the server `perplexity` is not understood and left out
    "#);
    let within_settings =
        r#"{"editor.tabSize": 2, "mcp": {"inputs": [{"id": "k"}], "servers": {"a": {"command": "b"}}}}"#;
    insta::assert_snapshot!(told(within_settings, Product::VsCode), @r#"
    1:73 a: b [] env=[] cwd=None env_file=None timeout=None disabled=false
    ImportInput { id: "k", description: None, password: false, default: None, options: [] }
    "#);
}

#[test]
fn a_timeout_is_in_the_units_of_its_product() {
    let timeout = |product, number: &str| {
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "b", "timeout": {number}}}}}}}"#);
        let import = read(&text, product, None).expect("a file");
        import.servers.first().map_or_else(|| import.refused[0].to_string(), |server| format!("{:?}", server.timeout))
    };
    let of = |product| ["30", "1500", "0.5"].map(|number| timeout(product, number)).join(" ");
    assert_eq!(of(Product::Cline), "Some(30s) Some(1500s) Some(500ms)");
    assert_eq!(of(Product::Gemini), "Some(30ms) Some(1.5s) Some(500µs)");
    assert_eq!(of(Product::Unknown), "Some(30s) Some(1.5s) Some(500ms)");
    for wrong in ["0", "-1", "\"5s\"", "1e300"] {
        assert_eq!(
            timeout(Product::Cline, wrong),
            "1:50: the server `a`: `timeout` must be a number above 0",
            "{wrong}"
        );
    }
}

#[test]
fn a_bad_file_is_refused_by_line_and_column() {
    let files = [
        "",
        "[]",
        "{\n  \"mcpServers\": [],\n}",
        "{\"servers\": 1}",
        "{\"tools\": {}}",
        "{\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"x\" }\n\t\t\"b\": {}\n\t}\n}",
        "{\"servers\": {}, \"inputs\": {}}",
        "{\"servers\": {}, \"inputs\": [{}]}",
    ];
    let told = files.map(|text| format!("{text:?} → {}", told(text, Product::Unknown).trim_end()));
    insta::assert_snapshot!(told.join("\n"), @r#"
    "" → error: 1:1: the text ends where a value is expected
    "[]" → error: 1:1: an object with `mcpServers` or `servers` is expected, not a list
    "{\n  \"mcpServers\": [],\n}" → error: 2:17: `mcpServers` must be an object, not a list
    "{\"servers\": 1}" → error: 1:13: `servers` must be an object, not a number
    "{\"tools\": {}}" → error: 1:1: there is neither `mcpServers` nor `servers`
    "{\n\t\"mcpServers\": {\n\t\t\"a\": { \"command\": \"x\" }\n\t\t\"b\": {}\n\t}\n}" → error: 4:3: `,` or `}` is expected here
    "{\"servers\": {}, \"inputs\": {}}" → error: 1:27: `inputs` must be a list, not an object
    "{\"servers\": {}, \"inputs\": [{}]}" → error: 1:28: an input needs an `id`
    "#);
}

#[test]
fn a_bad_server_leaves_the_others_alone() {
    let text = r#"{
  "mcpServers": {
    "good": { "command": "x" },
    "neither": { "args": [] },
    "both": { "command": "x", "url": "http://x" },
    "no object": "npx x",
    "number": { "command": 1 },
    "args": { "command": "x", "args": "-y" },
    "arg": { "command": "x", "args": ["-p", 80] },
    "env": { "command": "x", "env": { "A": [] } },
    "header": { "url": "http://x", "headers": { "A": 1 } },
    "socket": { "type": "ws", "url": "ws://x" },
    "stdio url": { "type": "stdio", "url": "http://x" },
    "http command": { "type": "http", "command": "x" },
    "empty": { "command": "" },
    "flag": { "command": "x", "disabled": "no" },
    "two": { "url": "http://x", "serverUrl": "http://y" },
    "astray": { "url": "http://x", "args": ["a"], "env": {} }
  }
}"#;
    insta::assert_snapshot!(told(text, Product::Unknown), @"
    3:13 good: x [] env=[] cwd=None env_file=None timeout=None disabled=false
    18:15 astray: http://x Auto headers=[] timeout=None disabled=false
    refused 4:16: the server `neither`: it has neither a command nor a URL
    refused 5:38: the server `both`: it has both a command and a URL
    refused 6:18: the server `no object`: it must be an object, not a string
    refused 7:28: the server `number`: `command` must be a string, not a number
    refused 8:39: the server `args`: `args` must be a list, not a string
    refused 9:45: the server `arg`: `args[1]` must be a string, not a number
    refused 10:44: the server `env`: `env.A` must be a string, not a list
    refused 11:54: the server `header`: `headers.A` must be a string, not a number
    refused 12:25: the server `socket`: the transport `ws` is not supported; stdio, http and sse are
    refused 13:18: the server `stdio url`: a URL is not spoken to by stdio
    refused 14:31: the server `http command`: a command is spoken to by stdio, not by `http`
    refused 15:14: the server `empty`: `command` is empty
    refused 16:43: the server `flag`: `disabled` must be true or false, not a string
    refused 17:46: the server `two`: it has more than one URL
    warning 18:44: `args` of the server `astray` goes with a command and is left out
    warning 18:58: `env` of the server `astray` goes with a command and is left out
    ");
}

#[test]
fn the_product_is_known_by_where_the_file_is() {
    let of = |path: &str| {
        let path = Path::new(path);
        format!("{} {:?}", Product::of(path).name(), Product::workspace(path))
    };
    insta::assert_snapshot!([
        "/somewhere/.config/Claude/claude_desktop_config.json",
        "/somewhere/.claude.json",
        "/srv/lab/.mcp.json",
        "/srv/lab/.cursor/mcp.json",
        "/somewhere/.codeium/windsurf/mcp_config.json",
        "/somewhere/.gemini/settings.json",
        "/x/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        "/srv/lab/.vscode/mcp.json",
        "/somewhere/.config/Code/User/mcp.json",
        "servers.json",
    ].map(of).join("\n"), @r#"
    Claude Desktop None
    Claude Code None
    Claude Code Some("/srv/lab")
    Cursor Some("/srv/lab")
    Windsurf None
    Gemini CLI Some("/somewhere")
    Cline None
    VS Code Some("/srv/lab")
    VS Code None
    a file None
    "#);
}

#[test]
fn nothing_of_a_launch_is_printed() {
    let import = read(include_str!("files/claude_desktop_config.json"), Product::ClaudeDesktop, None).expect("a file");
    assert!(!format!("{import:?}").contains("secret"));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>(), near in r#"[{}\[\],:"/*\\a0\n é-]{0,40}"#) {
        for text in [text, near] {
            let _ = read(&text, Product::Unknown, None);
            let _ = env_file::parse(&text);
        }
    }

    #[test]
    fn what_is_json_elsewhere_is_json_here(text in r#"\{"a":(\[(-?[1-9][0-9]{0,3}(\.5|e2)?,?)?\]|"(\\\\|\\u00e9|[a-zé /*])*"|null|true)\}"#) {
        let elsewhere = serde_json::from_str::<serde_json::Value>(&text);
        if elsewhere.is_ok() {
            prop_assert!(jsonc::parse(&text).is_ok(), "{}", text);
        }
    }
}

#[test]
fn tools_are_allowed_and_denied_in_the_words_of_several_programs() {
    let file = |keys: &str| told(&format!(r#"{{"mcpServers":{{"a":{{"command":"b",{keys}}}}}}}"#), Product::Cursor);
    let line = |rest: &str| format!("1:20 a: b [] env=[] cwd=None env_file=None {rest} timeout=None disabled=false\n");
    assert_eq!(file(r#""includeTools":["x","y_*"],"excludeTools":["y_z"]"#), line("allow=x,y_* deny=y_z"));
    assert_eq!(file(r#""enabled_tools":["x"],"disabled_tools":["y"]"#), line("allow=x deny=y"));
    assert_eq!(file(r#""tools":["*"]"#), line("allow=*"));
    assert_eq!(file(r#""allowTools":[],"denyTools":["x"]"#), line("allow= deny=x"));
    assert_eq!(file(r#""denyTools":["*x"]"#), line("deny=*x"));
    assert_eq!(file(r#""denyTools":[""]"#), "refused 1:47: the server `a`: `denyTools`: a name is missing\n");
}

#[test]
fn codex_and_zed() {
    let codex = r#"
model = "o4"

[mcp_servers.docs]
command = "npx"
args = ["-y", "docs-server"]
env_vars = ["DOCS_KEY"]
tool_timeout_sec = 30
enabled_tools = ["search"]

[mcp_servers.issues]
url = "https://issues.example/mcp"
bearer_token_env_var = "ISSUES_TOKEN"
enabled = false
"#;
    insta::assert_snapshot!(told(codex, Product::Codex), @r#"
    4:1 docs: npx ["-y", "docs-server"] env=[("DOCS_KEY", "${DOCS_KEY}")] cwd=None env_file=None allow=search timeout=Some(30s) disabled=false
    11:1 issues: https://issues.example/mcp Auto headers=[("Authorization", "Bearer ${ISSUES_TOKEN}")] timeout=None disabled=true
    "#);
    let zed = r#"{ "theme": "dark", "context_servers": {
        "new": { "source": "custom", "command": "npx", "args": ["x"], "env": { "A": "b" } },
        "old": { "command": { "path": "/bin/x", "args": [], "env": null } },
        "extension": { "source": "extension", "settings": {} },
    } }"#;
    insta::assert_snapshot!(told(zed, Product::Zed), @r#"
    2:16 new: npx ["x"] env=[("A", "b")] cwd=None env_file=None timeout=None disabled=false
    3:16 old: /bin/x [] env=[] cwd=None env_file=None timeout=None disabled=false
    refused 4:22: the server `extension`: it has neither a command nor a URL
    warning 4:59: `settings` of the server `extension` is not understood and left out
    "#);
    let cline = r#"{ "mcpServers": { "web": { "url": "https://a.example/mcp", "transportType": "streamableHttp" } } }"#;
    insta::assert_snapshot!(told(cline, Product::Cline), @"1:26 web: https://a.example/mcp Streamable headers=[] timeout=None disabled=false");
}
